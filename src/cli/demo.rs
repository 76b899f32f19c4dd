//! `serin demo`: see it once before reading about it.

use std::sync::{Arc, atomic::AtomicBool};

use super::{exit::Exit, interrupt, output};
use crate::demo::{
    screen::Screen,
    show::{self, Ending, Pace},
};

/// See a bad release reverted and its fix promoted, in about a minute.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Everything runs in this one process on free loopback ports: three toy versions, the proxy and a bounded load.
Nothing is left behind. Exits 0 only if the bad release was reverted and the good one was promoted.

Examples:
  serin demo
  serin demo --fast --plain")]
pub struct Args {
    /// About 15 seconds instead of a minute.
    #[arg(long)]
    pub fast: bool,
    /// A line for each event instead of a live picture.
    #[arg(long)]
    pub plain: bool,
}

/// Plays the show.
pub fn run(args: &Args) -> Exit {
    let interrupted = Arc::new(AtomicBool::new(false));
    interrupt::raise(Arc::clone(&interrupted));
    let pace = if args.fast { Pace::FAST } else { Pace::NORMAL };
    match show::play(pace, &mut Screen::new(args.plain), &interrupted) {
        Ok(Ending::AsTold) => Exit::Done,
        Ok(Ending::Otherwise) => {
            output::note("the show did not end as told");
            Exit::Failed
        }
        Ok(Ending::Interrupted) => Exit::Interrupted,
        Err(error) => {
            output::note(&error.to_string());
            Exit::Failed
        }
    }
}
