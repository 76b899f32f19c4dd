//! Names of endpoints to addresses, on a thread of its own: requests use the last good answer and do not wait for one,
//! but for the first. Each name is asked for again every few seconds, since the system does not say for how long an
//! answer holds, and at once when a connection to one of its addresses failed.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::{
    net::lookup_host,
    runtime::Builder,
    sync::{Notify, mpsc, watch},
    time::{sleep, timeout},
};

/// How often a name is asked for.
const REFRESH: Duration = Duration::from_secs(5);
/// Between two lookups of one name at least, however many connections fail.
const PAUSE: Duration = Duration::from_millis(200);
/// How long a good answer is used while there is no other one.
const KEPT_MAX: Duration = Duration::from_hours(1);
/// Addresses taken from one answer.
const ADDRESSES_MAX: usize = 64;
/// Threads that wait for the system's resolver.
const LOOKUP_THREADS: usize = 16;

pub(super) type Looked = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Asks for the addresses of a host, with the port put to each.
pub(super) type Lookup = Box<dyn Fn(Arc<str>, u16) -> Looked + Send + Sync>;

/// All names that are in use.
pub(super) struct Resolver {
    names: Mutex<Names>,
    fresh: mpsc::UnboundedSender<Weak<Name>>,
    changes: Arc<AtomicU64>,
}

type Names = HashMap<(Arc<str>, u16), Weak<Name>>;

/// One name, for as long as somebody has it.
#[derive(Debug)]
pub(super) struct Name {
    host: Arc<str>,
    port: u16,
    answer: watch::Sender<Answer>,
    wanted: Arc<Notify>,
}

/// What is known of a name.
#[derive(Debug, Clone, Default)]
struct Answer {
    /// Lookups that have ended so far.
    lookups: u64,
    addresses: Arc<[SocketAddr]>,
    /// Why the last lookup brought none.
    error: Option<Arc<str>>,
    good_at: Option<Instant>,
}

impl Resolver {
    /// One that asks the system.
    pub(super) fn start() -> io::Result<Arc<Self>> {
        Self::with(Box::new(|host, port| {
            Box::pin(async move { Ok(lookup_host((&*host, port)).await?.take(ADDRESSES_MAX).collect()) })
        }))
    }

    /// One that asks as it is told. Its thread ends once nobody has it any more.
    pub(super) fn with(lookup: Lookup) -> io::Result<Arc<Self>> {
        let (fresh, mut asked) = mpsc::unbounded_channel::<Weak<Name>>();
        let changes = Arc::<AtomicU64>::default();
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(LOOKUP_THREADS).build()?;
        let (lookup, told): (Arc<Lookup>, _) = (Arc::new(lookup), Arc::clone(&changes));
        thread::Builder::new().name("resolver".to_owned()).spawn(move || {
            runtime.block_on(async {
                while let Some(name) = asked.recv().await {
                    tokio::spawn(keep(name, Arc::clone(&lookup), Arc::clone(&told)));
                }
            });
            // A hanging lookup must not hold up the end.
            runtime.shutdown_background();
        })?;
        Ok(Arc::new(Self { names: Mutex::default(), fresh, changes }))
    }

    /// A name, which is asked for from now on.
    pub(super) fn name(&self, host: &Arc<str>, port: u16) -> Arc<Name> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.retain(|_, name| name.strong_count() > 0);
        let key = (Arc::clone(host), port);
        if let Some(known) = names.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        let (answer, wanted) = (watch::Sender::default(), Arc::default());
        let name = Arc::new(Name { host: Arc::clone(host), port, answer, wanted });
        names.insert(key, Arc::downgrade(&name));
        // The thread is there for as long as this is.
        drop(self.fresh.send(Arc::downgrade(&name)));
        name
    }

    /// Changes whenever the addresses of any name do.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }
}

impl Name {
    /// The addresses as far as they are known.
    pub(super) fn addresses(&self) -> Arc<[SocketAddr]> {
        Arc::clone(&self.answer.borrow().addresses)
    }

    /// The addresses, once there has been an answer.
    ///
    /// # Errors
    /// When the lookup failed and none are known.
    pub(super) async fn first(&self) -> io::Result<Arc<[SocketAddr]>> {
        let mut answer = self.answer.subscribe();
        let answered = answer.wait_for(|answer| answer.lookups > 0).await.map_err(io::Error::other)?;
        if answered.addresses.is_empty() {
            let why = answered.error.as_deref().unwrap_or("the name has no address");
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        Ok(Arc::clone(&answered.addresses))
    }

    /// Asks again now, and waits for the answer, but not for long.
    pub(super) async fn again(&self) {
        let mut answer = self.answer.subscribe();
        let before = answer.borrow_and_update().lookups;
        self.wanted.notify_one();
        // Without an answer the addresses stay as they are.
        let _in_time = timeout(Duration::from_secs(1), answer.wait_for(|answer| answer.lookups > before)).await;
    }

    /// Takes an answer in; true when the addresses are others now.
    fn take(&self, looked: io::Result<Vec<SocketAddr>>, now: Instant) -> bool {
        let mut is_other = false;
        self.answer.send_modify(|answer| {
            answer.lookups += 1;
            let looked = looked.and_then(|addresses| {
                if addresses.is_empty() { Err(io::Error::other("the name has no address")) } else { Ok(addresses) }
            });
            match looked {
                Ok(mut addresses) => {
                    // The system may give them in turns, which is no news.
                    addresses.sort_unstable();
                    addresses.dedup();
                    addresses.truncate(ADDRESSES_MAX);
                    is_other = *answer.addresses != *addresses;
                    answer.addresses = addresses.into();
                    answer.error = None;
                    answer.good_at = Some(now);
                }
                Err(error) => {
                    answer.error = Some(error.to_string().into());
                    let is_old = answer.good_at.is_some_and(|at| now.duration_since(at) > KEPT_MAX);
                    if is_old && !answer.addresses.is_empty() {
                        answer.addresses = Arc::default();
                        is_other = true;
                    }
                }
            }
        });
        is_other
    }
}

/// Asks for a name for as long as somebody has it.
async fn keep(name: Weak<Name>, lookup: Arc<Lookup>, changes: Arc<AtomicU64>) {
    loop {
        let Some(asked) = name.upgrade() else { return };
        // One lookup at a time: with a resolver that hangs they do not pile up.
        let looked = lookup(Arc::clone(&asked.host), asked.port).await;
        if let Err(error) = &looked {
            tracing::debug!(host = %asked.host, %error, "a name could not be resolved");
        }
        if asked.take(looked, Instant::now()) {
            changes.fetch_add(1, Relaxed);
        }
        let wanted = Arc::clone(&asked.wanted);
        drop(asked);
        sleep(PAUSE).await;
        drop(timeout(REFRESH.saturating_sub(PAUSE), wanted.notified()).await);
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 80))
    }

    fn name() -> Name {
        Name { host: "app".into(), port: 80, answer: watch::Sender::default(), wanted: Arc::default() }
    }

    #[test]
    fn the_last_good_answer_stays_while_the_resolver_fails_but_not_for_ever() {
        let (name, start) = (name(), Instant::now());
        assert!(name.take(Ok(vec![address(2), address(1)]), start));
        assert!(!name.take(Ok(vec![address(1), address(2)]), start), "another order is no change");
        for failed in [Err(io::Error::other("SERVFAIL")), Ok(Vec::new())] {
            assert!(!name.take(failed, start + KEPT_MAX));
            assert_eq!(*name.addresses(), [address(1), address(2)]);
        }
        assert!(name.take(Err(io::Error::other("SERVFAIL")), start + KEPT_MAX + Duration::from_secs(1)));
        assert!(name.addresses().is_empty());
    }

    #[tokio::test]
    async fn a_name_that_was_never_found_says_why() {
        let name = name();
        name.take(Err(io::Error::other("no such host")), Instant::now());
        assert_eq!(name.first().await.unwrap_err().to_string(), "no such host");
    }

    #[tokio::test]
    async fn a_failed_connection_asks_at_once_and_does_not_wait_for_the_next_turn() {
        let last = Arc::new(std::sync::atomic::AtomicU8::new(1));
        let told = Arc::clone(&last);
        let resolver = Resolver::with(Box::new(move |_, _| {
            let now = address(told.load(Relaxed));
            Box::pin(async move { Ok(vec![now]) })
        }))
        .unwrap();
        let name = resolver.name(&"app".into(), 80);
        assert_eq!(*name.first().await.unwrap(), [address(1)]);
        let before = resolver.changes();
        last.store(2, Relaxed);
        // The first may have been under way already.
        name.again().await;
        name.again().await;
        assert_eq!(*name.addresses(), [address(2)]);
        assert!(resolver.changes() > before);
    }
}
