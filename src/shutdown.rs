//! Signals as words: what the process is asked to do, and nothing of how it is done.

use std::io;

use tokio::signal::unix::{self, SignalKind};

/// What the process is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// SIGTERM, or the first SIGINT: take no more, finish what runs, end.
    Drain,
    /// A further SIGINT: end now.
    Quit,
    /// SIGHUP: read the config again.
    Reload,
}

/// The signals of this process, one after the other.
#[derive(Debug)]
pub struct Signals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    hangup: unix::Signal,
    interrupted: bool,
}

impl Signals {
    /// Listens from now on; until then the system's own answer to a signal, which is to end, holds.
    /// Must be called within a runtime that has I/O.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: unix::signal(SignalKind::terminate())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
            hangup: unix::signal(SignalKind::hangup())?,
            interrupted: false,
        })
    }

    /// The next signal. Signals of one kind that arrive together may be seen as one. Cancel safe.
    pub async fn next(&mut self) -> Signal {
        // A stream of signals ends with its runtime only, so `None` is not waited for again.
        tokio::select! {
            _ = self.terminate.recv() => Signal::Drain,
            _ = self.interrupt.recv() => {
                if std::mem::replace(&mut self.interrupted, true) { Signal::Quit } else { Signal::Drain }
            }
            _ = self.hangup.recv() => Signal::Reload,
        }
    }
}
