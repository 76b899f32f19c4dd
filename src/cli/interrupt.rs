//! Ctrl-C and SIGTERM as a flag, for verbs that play something and must put it away.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use super::exit::Exit;
use crate::shutdown::{Signal, Signals};

/// Raises the flag on the first signal; the second ends the process.
pub fn raise(flag: Arc<AtomicBool>) {
    thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let Ok(mut signals) = Signals::listen() else { return };
            loop {
                match signals.next().await {
                    Signal::Drain | Signal::Quit if flag.swap(true, Relaxed) => {
                        std::process::exit(i32::from(Exit::Interrupted as u8))
                    }
                    _ => {}
                }
            }
        });
    });
}
