//! Glyphs and colours. A glyph always stands beside a word, and colour never says anything alone.

use crate::engine::view::{PhaseView, Verdict};

/// How text may look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// Only ASCII glyphs, for terminals without more.
    pub ascii: bool,
    /// ANSI colours.
    pub color: bool,
}

/// A glyph by its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// In order, done, passed.
    Good,
    /// Going on.
    Busy,
    /// Waiting for a person.
    Held,
    /// Failed, aborted.
    Bad,
    /// Not enough data.
    Unknown,
    /// Awaited.
    Awaited,
    /// Still to come.
    Next,
}

/// A colour by its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// As the terminal has it.
    #[default]
    Plain,
    /// In order.
    Good,
    /// Going on.
    Busy,
    /// Waiting for a person.
    Held,
    /// Failed.
    Bad,
    /// Of little weight.
    Faint,
    /// Headings.
    Strong,
}

impl Style {
    /// Plain text without colours, with all glyphs.
    pub const PLAIN: Self = Self { ascii: false, color: false };

    /// The glyph.
    #[must_use]
    pub const fn mark(self, mark: Mark) -> &'static str {
        match (mark, self.ascii) {
            (Mark::Good, false) => "✔",
            (Mark::Good, true) => "+",
            (Mark::Busy, false) => "◌",
            (Mark::Busy, true) => "o",
            (Mark::Held, false) => "‖",
            (Mark::Held, true) => "=",
            (Mark::Bad, false) => "✖",
            (Mark::Bad, true) => "x",
            (Mark::Unknown | Mark::Awaited, false) => "◷",
            (Mark::Unknown, true) => "?",
            (Mark::Awaited, true) => "-",
            (Mark::Next, false) => "•",
            (Mark::Next, true) => ".",
        }
    }

    /// The text in the tone's colour, if there are colours.
    #[must_use]
    pub fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Good => "32",
            Tone::Busy => "36",
            Tone::Held => "33",
            Tone::Bad => "31",
            Tone::Faint => "2",
            Tone::Strong => "1",
            Tone::Plain => "",
        };
        if self.color && !code.is_empty() && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// Glyph and word in the mark's colour.
    #[must_use]
    pub fn marked(self, mark: Mark, text: &str) -> String {
        self.paint(mark.tone(), &format!("{} {text}", self.mark(mark)))
    }

    /// Branch, last branch, trunk, gap: the pieces of a tree.
    pub(super) const fn tree(self) -> [&'static str; 4] {
        if self.ascii { ["|-- ", "`-- ", "|   ", "    "] } else { ["├── ", "└── ", "│   ", "    "] }
    }

    /// From one version to another.
    pub(super) const fn arrow(self) -> &'static str {
        if self.ascii { "->" } else { "→" }
    }
}

impl Mark {
    /// Its colour.
    #[must_use]
    pub const fn tone(self) -> Tone {
        match self {
            Self::Good => Tone::Good,
            Self::Busy => Tone::Busy,
            Self::Held | Self::Unknown | Self::Awaited => Tone::Held,
            Self::Bad => Tone::Bad,
            Self::Next => Tone::Faint,
        }
    }
}

impl From<PhaseView> for Mark {
    fn from(phase: PhaseView) -> Self {
        match phase {
            PhaseView::Healthy => Self::Good,
            PhaseView::Progressing => Self::Busy,
            PhaseView::Paused => Self::Held,
            PhaseView::Degraded => Self::Bad,
        }
    }
}

impl From<Verdict> for Mark {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => Self::Good,
            Verdict::Fail => Self::Bad,
            Verdict::NoData => Self::Unknown,
        }
    }
}
