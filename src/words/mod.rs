//! SAY. Sentences from engine views and events: status, why, history and single events as text.
//! Never decides, never reads anything but the engine's types; the same words serve CLI, API, log and demo.

mod endpoints;
mod event;
mod night;
mod quantity;
mod quiet;
mod status;
mod style;
mod table;
mod why;

pub use endpoints::endpoints;
pub use event::{cause, history_line, sentence, weight_before};
pub use night::{Answer, CheckWords, Night, check, night};
pub use quantity::{counted, duration, latency, limit, number, quantile, rate, share};
pub use quiet::{shorter, slow_hold};
pub use status::{ConfigNote, config_note, overview, routes, status, waiting};
pub use style::{Mark, Style, Tone};
pub use table::{Cell, render as columns};
pub use why::{deciding_event, why};
