//! A picture that fills the terminal while a verb watches. The terminal is given back as it was, with the last picture on it,
//! however the verb ends.

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    interrupt,
    output::{self, Trouble},
};

/// How soon Ctrl-C is heard.
const LISTEN: Duration = Duration::from_millis(50);

/// The terminal's second screen, without a cursor.
const OPEN: &str = "\x1b[?1049h\x1b[?25l";
const CLOSE: &str = "\x1b[?25h\x1b[?1049l";

/// A terminal in use.
pub(super) struct Picture {
    interrupted: Arc<AtomicBool>,
    last: String,
}

impl Picture {
    /// Takes the terminal.
    pub(super) fn open() -> Result<Self, Trouble> {
        let interrupted = Arc::new(AtomicBool::new(false));
        interrupt::raise(Arc::clone(&interrupted));
        output::print(OPEN)?;
        Ok(Self { interrupted, last: String::new() })
    }

    /// Draws over what was drawn before, without flicker: each line is cut at the edge and cleared to its end, then all below.
    pub(super) fn draw(&mut self, text: &str) -> Result<(), Trouble> {
        text.clone_into(&mut self.last);
        output::print(&frame(text))
    }

    /// Waits; false when Ctrl-C ended the wait.
    pub(super) fn wait(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.interrupted.load(Relaxed) {
            thread::sleep(LISTEN);
        }
        !self.interrupted.load(Relaxed)
    }
}

impl Drop for Picture {
    fn drop(&mut self) {
        // Nowhere left to say that it cannot be said.
        let _gone = output::print(&format!("{CLOSE}{}", self.last));
    }
}

fn frame(text: &str) -> String {
    let mut frame = String::from("\x1b[?7l\x1b[H");
    for (at, line) in text.lines().enumerate() {
        // By row, not by newline: what is below the last row must not push the head out of a small terminal.
        let _endless = write!(frame, "\x1b[{};1H{line}\x1b[K", at + 1);
    }
    frame.push_str("\x1b[J\x1b[?7h");
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_picture_never_scrolls() {
        let frame = frame(&"line\n".repeat(100));
        assert!(!frame.contains('\n'), "{frame:?}");
        assert!(frame.contains("\x1b[1;1Hline\x1b[K") && frame.contains("\x1b[100;1Hline\x1b[K\x1b[J"), "{frame:?}");
    }
}
