//! A bounded open-loop load: requests are due at times fixed beforehand, whatever the answers do, and latency counts
//! from when a request was due. Nothing queues without bound: what finds no place is counted as missed.

mod client;
mod tally;

use std::{
    convert::Infallible,
    io,
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self as std_mpsc, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use http::Uri;
use tokio::{
    sync::{mpsc, oneshot},
    task::LocalSet,
};

pub use tally::{Latencies, Summary, VersionCounts};

use client::Client;
use tally::Tally;

/// Most requests a second.
pub const RATE_MAX: f64 = 100_000.0;
/// Most connections.
pub const CONNECTIONS_MAX: usize = 10_000;

/// A request due later than this is due then: within the range of every clock.
const OFFSET_MAX: Duration = Duration::from_hours(24 * 365);

/// What is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSpec {
    /// What is asked for, with GET: `http://host:port/path`.
    pub url: Uri,
    /// Requests a second; above 0 and at most [`RATE_MAX`].
    pub rate: f64,
    /// How the times are spread.
    pub arrivals: Arrivals,
    /// For how long; without it until stopped.
    pub duration: Option<Duration>,
    /// Connections, kept alive, which is also how many requests are under way at most; as many may wait for one.
    pub connections: usize,
    /// Each connection is a client of its own that sends back the cookies it got.
    pub cookies: bool,
    /// A request without whole answer after this is given up.
    pub timeout: Duration,
    /// A request that found no connection, or whose connection closed before the answer began, is sent again until its
    /// timeout, as a patient client does while a server is restarted.
    pub reconnect: bool,
}

/// How the times at which requests are due are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Arrivals {
    /// At equal distances.
    #[default]
    Even,
    /// As if many clients did not know of each other: exponential distances.
    Poisson,
}

/// Why a load does not start.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Not a URL that can be asked.
    #[error("`{0}` cannot be asked: write it as http://host:port/path")]
    Url(Uri),
    /// Too much or nothing.
    #[error("a load has a rate above 0 and at most {RATE_MAX} requests a second; not {0}")]
    Rate(f64),
    /// Too many or none.
    #[error("a load has 1 to {CONNECTIONS_MAX} connections, not {0}")]
    Connections(usize),
    /// No thread or runtime.
    #[error("cannot start a thread: {0}")]
    Start(io::Error),
}

/// A running load. Dropping it stops it; requests under way are awaited, up to their timeout.
#[derive(Debug)]
pub struct Load {
    stats: Arc<LoadStats>,
    stop: Option<std_mpsc::Sender<Infallible>>,
    done: oneshot::Receiver<()>,
    threads: Vec<thread::JoinHandle<()>>,
}

/// What came of it so far, to be read at any time by anybody.
#[derive(Debug)]
pub struct LoadStats(Mutex<Tally>);

impl LoadSpec {
    /// Even arrivals over 32 connections until stopped, without cookies, a timeout of 10 s.
    #[must_use]
    pub fn new(url: Uri, rate: f64) -> Self {
        Self {
            url,
            rate,
            arrivals: Arrivals::Even,
            duration: None,
            connections: 32,
            cookies: false,
            timeout: Duration::from_secs(10),
            reconnect: false,
        }
    }

    fn check(&self) -> Result<(), LoadError> {
        if self.url.scheme_str() != Some("http") || self.url.authority().is_none() {
            return Err(LoadError::Url(self.url.clone()));
        }
        if !(self.rate > 0.0 && self.rate <= RATE_MAX) {
            return Err(LoadError::Rate(self.rate));
        }
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return Err(LoadError::Connections(self.connections));
        }
        Ok(())
    }
}

impl Load {
    /// Starts a load on two threads of its own: one is the clock, one sends.
    pub fn start(spec: LoadSpec) -> Result<Self, LoadError> {
        spec.check()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(LoadError::Start)?;
        let stats = Arc::new(LoadStats(Mutex::new(Tally::new(Instant::now()))));
        let (due, dues) = mpsc::channel(spec.connections);
        let (stop, stopped) = std_mpsc::channel();
        let (finished, done) = oneshot::channel();
        let clock = Clock { rate: spec.rate, arrivals: spec.arrivals, duration: spec.duration };
        let (clock_stats, send_stats) = (Arc::clone(&stats), Arc::clone(&stats));
        let tick = move || clock.run(&due, &stopped, &clock_stats);
        let send = move || {
            LocalSet::new().block_on(&runtime, send_all(spec, dues, &send_stats));
            send_stats.with(|tally| tally.end(Instant::now()));
            // Nobody may be waiting.
            let _ = finished.send(());
        };
        let mut load = Self { stats, stop: Some(stop), done, threads: Vec::with_capacity(2) };
        for (name, run) in [("load", Box::new(send) as Box<dyn FnOnce() + Send>), ("load clock", Box::new(tick))] {
            let thread = thread::Builder::new().name(name.to_owned()).spawn(run).map_err(LoadError::Start)?;
            load.threads.push(thread);
        }
        Ok(load)
    }

    /// What came of it so far; stays readable after the end.
    #[must_use]
    pub const fn stats(&self) -> &Arc<LoadStats> {
        &self.stats
    }

    /// Ends when the load's duration is over and all answers are there.
    pub async fn finished(&mut self) {
        // An error says that the sending thread is gone, which is an end too.
        let _ = (&mut self.done).await;
    }

    /// Sends nothing more, waits for what is under way, and sums up.
    #[must_use]
    pub fn stop(mut self) -> Summary {
        self.end();
        self.stats.summary()
    }

    fn end(&mut self) {
        drop(self.stop.take());
        for thread in self.threads.drain(..) {
            // It has nothing to say; a panic of it was printed.
            let _ = thread.join();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}

impl LoadStats {
    /// All that is known now.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.with(|tally| tally.summary(Instant::now()))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Tally) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Says when requests are due.
struct Clock {
    rate: f64,
    arrivals: Arrivals,
    duration: Option<Duration>,
}

impl Clock {
    fn run(&self, due: &mpsc::Sender<Instant>, stopped: &std_mpsc::Receiver<Infallible>, stats: &LoadStats) {
        let start = Instant::now();
        let mut at = 0.0;
        loop {
            let offset = Duration::try_from_secs_f64(at).unwrap_or(Duration::MAX).min(OFFSET_MAX);
            if self.duration.is_some_and(|duration| offset >= duration) {
                return;
            }
            let next = start + offset;
            // A thread's sleep is good to some 0.1 ms, the runtime's timer to 1 ms.
            match stopped.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
                Ok(never) => match never {},
            }
            match due.try_send(next) {
                Ok(()) => stats.with(|tally| tally.due(false)),
                Err(mpsc::error::TrySendError::Full(_)) => stats.with(|tally| tally.due(true)),
                Err(mpsc::error::TrySendError::Closed(_)) => return,
            }
            at += match self.arrivals {
                Arrivals::Even => 1.0 / self.rate,
                Arrivals::Poisson => -(1.0 - fastrand::f64()).ln() / self.rate,
            };
        }
    }
}

/// Each connection takes the next request that is due as soon as it is free, longest idle first.
async fn send_all(spec: LoadSpec, dues: mpsc::Receiver<Instant>, stats: &Arc<LoadStats>) {
    let (spec, dues) = (Rc::new(spec), Rc::new(tokio::sync::Mutex::new(dues)));
    let clients: Vec<_> = (0..spec.connections)
        .map(|_| {
            let (mut client, dues, stats) = (Client::new(Rc::clone(&spec)), Rc::clone(&dues), Arc::clone(stats));
            tokio::task::spawn_local(async move {
                while let Some(due) = { dues.lock().await.recv().await } {
                    let outcome = client.get().await;
                    stats.with(|tally| tally.done(&outcome, due.elapsed()));
                }
            })
        })
        .collect();
    for client in clients {
        // A panic of one was printed; the others go on.
        let _ = client.await;
    }
}

#[cfg(test)]
mod tests;
