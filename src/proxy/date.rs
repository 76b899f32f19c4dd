//! The time of day as answers tell it (RFC 9110 5.6.7), renewed by the worker's tick.

use std::cell::Cell;

/// Its length never changes.
pub(super) type Text = [u8; 29];

/// The clock of one worker.
#[derive(Debug)]
pub(super) struct DateClock {
    second: Cell<i64>,
    text: Cell<Text>,
}

impl DateClock {
    pub(super) fn new() -> Self {
        let clock = Self { second: Cell::new(i64::MIN), text: Cell::new(*b"Thu, 01 Jan 1970 00:00:00 GMT") };
        clock.tick();
        clock
    }

    /// The second of the last tick.
    pub(super) fn text(&self) -> Text {
        self.text.get()
    }

    /// Looks at the time.
    pub(super) fn tick(&self) {
        let now = jiff::Timestamp::now();
        if self.second.replace(now.as_second()) == now.as_second() {
            return;
        }
        let text = now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        // The years of four digits have this length.
        if let Ok(text) = Text::try_from(text.as_bytes()) {
            self.text.set(text);
        }
    }
}
