//! Lines on their way to standard output: a bounded queue, and one thread that writes. Who has a line never waits.

use std::{
    io::{self, Write},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        mpsc::{Receiver, SyncSender, channel, sync_channel},
    },
    thread,
    time::Duration,
};

use crate::measure::Hub;

/// Lines that may wait.
const LINES_MAX: usize = 8 * 1024;
/// How long the end of the process waits for the last lines.
const FINISH_MAX: Duration = Duration::from_secs(1);

/// The way to the writer. Cloning shares it.
#[derive(Debug, Clone)]
pub(in crate::proxy) struct Queue {
    hub: Arc<Hub>,
    /// The thread is started with the first line: most proxies have no access log.
    writer: Arc<OnceLock<Option<Writer>>>,
}

#[derive(Debug)]
struct Writer {
    lines: SyncSender<String>,
    /// Says that the last line is written.
    done: Mutex<Receiver<()>>,
}

impl Queue {
    pub(in crate::proxy) fn new(hub: Arc<Hub>) -> Self {
        Self { hub, writer: Arc::default() }
    }

    /// Hands a line over; without room for it it is dropped and counted.
    pub(super) fn write(&self, line: String) {
        let writer = self.writer.get_or_init(start);
        if writer.as_ref().is_none_or(|writer| writer.lines.try_send(line).is_err()) {
            self.hub.access_log_dropped();
        }
    }

    /// Once all others are gone: lets what waits be written, for as long as standard output takes it.
    pub(in crate::proxy) fn finish(self) {
        let Some(Some(writer)) = Arc::into_inner(self.writer).and_then(OnceLock::into_inner) else { return };
        drop(writer.lines);
        let done = writer.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Whether in time or not: what is left then cannot be written.
        let _either = done.recv_timeout(FINISH_MAX);
    }
}

fn start() -> Option<Writer> {
    let (lines, inbox) = sync_channel(LINES_MAX);
    let (tell, done) = channel();
    let started = thread::Builder::new().name("access-log".to_owned()).spawn(move || {
        write_all(&inbox);
        // Nobody waits when the process was not shut down in order.
        let _gone = tell.send(());
    });
    match started {
        Ok(_) => Some(Writer { lines, done: Mutex::new(done) }),
        Err(error) => {
            tracing::error!("there is no access log, since its thread does not start: {error}");
            None
        }
    }
}

/// Writes until the last sender is gone. What is there is written at once.
fn write_all(inbox: &Receiver<String>) {
    let mut broken = false;
    while let Ok(first) = inbox.recv() {
        let mut lines = first;
        for line in inbox.try_iter().take(LINES_MAX) {
            lines.push_str(&line);
        }
        let mut out = io::stdout().lock();
        let written = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
        match written {
            Ok(()) => broken = false,
            Err(error) if !broken => {
                broken = true;
                tracing::error!("the access log cannot be written: {error}");
            }
            Err(_) => {}
        }
    }
}
