//! Requests that are traced, on their way from the workers to whoever exports them: facts of a request that has ended, and
//! a bounded queue. Who has one never waits: without room for it it is dropped and counted.

use std::{
    net::IpAddr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Traces that may wait.
pub const WAITING_MAX: usize = 2 * 1024;

/// A request with its attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Of the whole trace.
    pub id: [u8; 16],
    /// Of the request's own span.
    pub span: [u8; 8],
    /// The span of whoever sent it, if that was said.
    pub parent: Option<[u8; 8]>,
    /// What other tracing systems said in `tracestate`.
    pub state: Option<String>,
    /// When its head was here, since 1970.
    pub started: Duration,
    /// Until its answer had gone out, or its client had.
    pub took: Duration,
    /// Its client.
    pub client: (IpAddr, u16),
    /// `http` or `https`.
    pub scheme: &'static str,
    /// `1.0`, `1.1` or `2`.
    pub protocol: &'static str,
    /// Its method.
    pub method: String,
    /// The host that was asked for.
    pub host: String,
    /// The path, without the query.
    pub path: String,
    /// As the client calls itself.
    pub user_agent: Option<String>,
    /// What the client was answered; 0 when it was gone before.
    pub status: u16,
    /// Why the proxy answered itself, if it did: a word of the access log.
    pub error: Option<&'static str>,
    /// Whether the client got the whole answer.
    pub complete: bool,
    /// Bytes of the answer's body.
    pub bytes_out: u64,
    /// Where it went, if anywhere.
    pub routed: Option<Routed>,
    /// In their order.
    pub attempts: Vec<Attempt>,
}

/// Where a request went in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    /// Which service.
    pub service: String,
    /// The version that answered.
    pub version: String,
    /// That version's role.
    pub role: &'static str,
    /// How a version was chosen.
    pub reason: &'static str,
    /// `rescue` or `fallback` where stable stood in.
    pub outcome: Option<&'static str>,
    /// How many there were.
    pub attempts: u32,
}

/// One attempt at one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Of its span.
    pub span: [u8; 8],
    /// When it began, since 1970.
    pub started: Duration,
    /// Until the head of the answer, or until it had failed.
    pub took: Duration,
    /// The version that was asked.
    pub version: String,
    /// Its role.
    pub role: &'static str,
    /// Which of its endpoints.
    pub endpoint: String,
    /// What it answered, if it did.
    pub status: Option<u16>,
    /// How it failed, if it did.
    pub error: Option<&'static str>,
}

/// The way to the exporter, and what became of traces so far.
#[derive(Debug)]
pub struct Traces {
    queue: Sender<Box<Trace>>,
    inbox: Mutex<Option<Inbox>>,
    exported: AtomicU64,
    dropped: AtomicU64,
}

/// The exporter's end.
pub type Inbox = Receiver<Box<Trace>>;

impl Default for Traces {
    fn default() -> Self {
        let (queue, inbox) = channel(WAITING_MAX);
        Self { queue, inbox: Mutex::new(Some(inbox)), exported: AtomicU64::new(0), dropped: AtomicU64::new(0) }
    }
}

impl Traces {
    /// Hands a trace over; without room for it, or anybody to take it, it is dropped and counted.
    pub fn push(&self, trace: Box<Trace>) {
        if self.queue.try_send(trace).is_err() {
            self.dropped(1);
        }
    }

    /// The exporter's end; none when it was taken before.
    #[must_use]
    pub fn inbox(&self) -> Option<Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// So many were taken by the collector.
    pub fn exported(&self, traces: usize) {
        self.exported.fetch_add(traces as u64, Relaxed);
    }

    /// So many were given up.
    pub fn dropped(&self, traces: usize) {
        self.dropped.fetch_add(traces as u64, Relaxed);
    }

    /// Exported and dropped since the process started.
    #[must_use]
    pub fn totals(&self) -> [u64; 2] {
        [self.exported.load(Relaxed), self.dropped.load(Relaxed)]
    }
}
