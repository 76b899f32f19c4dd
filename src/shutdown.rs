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

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{BufRead, BufReader},
        process::{Child, Command, Stdio},
    };

    const CHILD: &str = "SERIN_TEST_SIGNALS";

    /// In a process of its own: handlers stay installed, and Ctrl-C must still end the other tests.
    fn child() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let mut signals = Signals::listen().unwrap();
            println!("\nlistening");
            loop {
                let signal = signals.next().await;
                println!("{signal:?}");
                if signal == Signal::Quit {
                    return;
                }
            }
        });
    }

    fn send(signal: &str, to: &Child) {
        let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {}", to.id())]).status().unwrap();
        assert!(sent.success());
    }

    #[test]
    fn signals_become_drain_reload_and_quit() {
        if std::env::var_os(CHILD).is_some() {
            return child();
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "shutdown::tests::signals_become_drain_reload_and_quit", "--nocapture"])
            .env(CHILD, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line == "listening"), "the child ended early");
        for (signal, meaning) in [
            ("HUP", "Reload"),
            ("TERM", "Drain"),
            ("HUP", "Reload"),
            ("TERM", "Drain"),
            ("INT", "Drain"),
            ("HUP", "Reload"),
            ("INT", "Quit"),
        ] {
            send(signal, &child);
            assert_eq!(lines.next().as_deref(), Some(meaning), "after SIG{signal}");
        }
        assert!(child.wait().unwrap().success());
    }
}
