//! Tells receivers what was decided: each event that a receiver wants, in order, once it is persisted and in force, tried
//! until it is taken. What is not taken is pending, and shown. Decides nothing, and never holds up the driver.

pub mod message;
pub mod place;

use std::{
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::{Response, header};
use ring::digest;
use tokio::sync::broadcast::error::RecvError;
use tracing::{debug, warn};

use self::place::{Pending, Place};
use super::handle::Shared;
use crate::{
    config::notify::Receiver,
    engine::{event::Event, weight::Weight},
    outbound::{Client, Limits, Reach},
    store::Outbox,
    words,
};

/// A receiver that takes longer than this has not taken the message.
const PATIENCE: Duration = Duration::from_secs(10);
/// What is read of a receiver's answer.
const ANSWER_BYTES: usize = 64 << 10;

/// How one receiver stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its number in the file from 1, and its form, e.g. `1-slack`.
    pub receiver: String,
    /// Events that it has still to be told.
    pub pending: u64,
    /// Messages that it took, since the start of the process.
    pub delivered: u64,
    /// Tries that failed, since the start of the process.
    pub failures: u64,
}

/// The same while it changes.
#[derive(Debug)]
pub struct Counters {
    receiver: String,
    pending: AtomicU64,
    delivered: AtomicU64,
    failures: AtomicU64,
}

impl Counters {
    /// As they are now.
    #[must_use]
    pub fn read(&self) -> Delivery {
        Delivery {
            receiver: self.receiver.clone(),
            pending: self.pending.load(Ordering::Relaxed),
            delivered: self.delivered.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }
}

/// What names a receiver in the state folder: it says nothing of the URL, which is a secret, and outlives a new order.
#[must_use]
pub fn key(receiver: &Receiver) -> String {
    let text = format!("{}\n{}", receiver.format.as_str(), receiver.url.reveal());
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    hash.as_ref().iter().take(8).fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// One receiver's courier.
struct Courier {
    receiver: Receiver,
    key: String,
    counters: Arc<Counters>,
    shared: Arc<Shared>,
    outbox: Outbox,
    client: Client,
}

/// Begins to tell every receiver; ends with the runtime. What is pending then is told after the next start.
pub fn start(receivers: &[Receiver], reach: Reach, outbox: &Outbox, shared: &Arc<Shared>) {
    let limits = Limits { total: PATIENCE, body_bytes: ANSWER_BYTES, ..Limits::default() };
    let client = Client::new(limits, reach);
    let mut all = Vec::new();
    for (index, receiver) in receivers.iter().enumerate() {
        let counters = Arc::new(Counters {
            receiver: format!("{}-{}", index + 1, receiver.format.as_str()),
            pending: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        });
        all.push(Arc::clone(&counters));
        let courier = Courier {
            key: key(receiver),
            receiver: receiver.clone(),
            counters,
            shared: Arc::clone(shared),
            outbox: outbox.clone(),
            client: client.clone(),
        };
        tokio::spawn(courier.run());
    }
    shared.deliveries.store(Arc::new(all));
}

impl Courier {
    async fn run(self) {
        // Before the first look, so that nothing comes unseen between a look and a wait.
        let mut news = self.shared.events.subscribe();
        let mut place = Place::after(self.outbox.told(&self.key));
        loop {
            let Some((event, before)) = self.next(&place) else {
                match news.recv().await {
                    // Those that were missed are in the history.
                    Ok(_) | Err(RecvError::Lagged(_)) => continue,
                    Err(RecvError::Closed) => return,
                }
            };
            match self.deliver(&event, before).await {
                Ok(()) => {
                    place.taken(&event);
                    self.counters.delivered.fetch_add(1, Ordering::Relaxed);
                    if let Err(error) = self.outbox.tell(&self.key, event.sequence) {
                        warn!(%error, "that a message was taken cannot be remembered; it may come twice after a restart");
                    }
                }
                Err(Failure { why, retry_after }) => {
                    self.counters.failures.fetch_add(1, Ordering::Relaxed);
                    let pause = place.refused(retry_after);
                    let (receiver, event) = (&self.counters.receiver, event.sequence);
                    warn!(receiver, event, "a message was not taken: {why}; tried again in {}", words::duration(pause));
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// The oldest event that the receiver wants and was not told, with the weight before it.
    fn next(&self, place: &Place) -> Option<(Event, Option<Weight>)> {
        let history = self.shared.history.lock().unwrap_or_else(PoisonError::into_inner);
        let Pending { next, count } = place.pending(history.iter(), &self.receiver.events);
        self.counters.pending.store(count, Ordering::Relaxed);
        next
    }

    async fn deliver(&self, event: &Event, before: Option<Weight>) -> Result<(), Failure> {
        let request = message::request(&self.receiver, event, before);
        let request = request.ok_or_else(|| Failure::because("it cannot be written as a request".to_owned()))?;
        let answer = self.client.request(request).await.map_err(|error| Failure::because(error.to_string()))?;
        if answer.status().is_success() {
            debug!(receiver = self.counters.receiver, event = event.sequence, "told");
            return Ok(());
        }
        Err(Failure { why: format!("the answer was {}", answer.status()), retry_after: retry_after(&answer) })
    }
}

/// Why a message was not taken.
struct Failure {
    why: String,
    retry_after: Option<Duration>,
}

impl Failure {
    const fn because(why: String) -> Self {
        Self { why, retry_after: None }
    }
}

/// `Retry-After` in seconds; a date is not obeyed.
fn retry_after<T>(answer: &Response<T>) -> Option<Duration> {
    let text = answer.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}
