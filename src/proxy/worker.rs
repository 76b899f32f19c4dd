//! One worker: a thread with its own runtime, pools, slots, random numbers and view of the published table.
//! All that it shares with the others on the request path is that table.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    io,
    pin::pin,
    rc::{Rc, Weak},
    sync::{Arc, atomic::AtomicUsize, mpsc as std_mpsc},
    thread,
};

use tokio::{
    runtime::{Builder, LocalOptions},
    sync::{mpsc, oneshot},
    task::spawn_local,
    time::{MissedTickBehavior, interval},
};

use super::{
    connection::{self, Conn},
    date::DateClock,
    deadline::{TICK, Ticks},
    error::FaultLog,
    fast::Spare,
    listener::Accepted,
    long::LongLived,
    mirror::Mirrors,
    pool::Pools,
    replay::Room,
    resolver::Resolver,
    routing::Routing,
};
use crate::{
    measure::{FastPathOutcome, Hub, Recorder, RefusedReason, traces::Trace},
    publish::{Publication, TableReader},
};

/// Ticks between two looks at the clients' connections: 250 ms.
const CONNECTIONS_EVERY: u64 = 10;
/// Ticks between two looks at the idle connections to upstreams: 1 s.
const POOLS_EVERY: u64 = 40;
/// Requests under way on one worker.
const REQUESTS_MAX: usize = 20_000;

/// Which worker of how many.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) index: usize,
    pub(super) count: usize,
}

/// What a worker is told.
#[derive(Debug)]
pub(super) enum Order {
    Serve(Box<Accepted>),
    /// Take no new requests, and say when the last one has ended.
    Drain(oneshot::Sender<()>),
}

/// The outside of a worker.
#[derive(Debug)]
pub(super) struct WorkerHandle {
    pub(super) orders: mpsc::UnboundedSender<Order>,
    /// Open connections, for the choice of the least loaded.
    pub(super) load: Arc<AtomicUsize>,
    pub(super) thread: thread::JoinHandle<()>,
}

/// The inside, shared by all tasks of its thread.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) ticks: Rc<Ticks>,
    pub(super) date: DateClock,
    pub(super) log: Rc<FaultLog>,
    pub(super) spare: Spare,
    pub(super) long_lived: LongLived,
    /// For bodies that may be sent again.
    pub(super) room: Rc<Room>,
    pub(super) mirrors: Mirrors,
    index: usize,
    hub: Arc<Hub>,
    reader: RefCell<TableReader>,
    recorder: RefCell<Recorder>,
    routing: RefCell<Rc<Routing>>,
    pools: Rc<Pools>,
    random: RefCell<fastrand::Rng>,
    requests: Cell<usize>,
    /// Handed over, and not begun yet.
    arriving: Cell<usize>,
    connections: RefCell<HashMap<u64, Weak<Conn>>>,
    next_connection: Cell<u64>,
    draining: RefCell<Option<oneshot::Sender<()>>>,
    is_draining: Cell<bool>,
}

/// Starts a worker and waits until it runs.
pub(super) fn start(
    place: Place,
    publication: &Publication,
    hub: &Arc<Hub>,
    resolver: &Arc<Resolver>,
) -> io::Result<WorkerHandle> {
    let (orders, inbox) = mpsc::unbounded_channel();
    let (ready, is_ready) = std_mpsc::channel();
    let (publication, hub, resolver) = (publication.clone(), Arc::clone(hub), Arc::clone(resolver));
    let thread = thread::Builder::new().name(format!("worker-{}", place.index)).spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        match runtime {
            Ok(runtime) => {
                // Nobody waits for the answer only if starting was given up.
                drop(ready.send(Ok(())));
                runtime.block_on(run(Worker::new(place, &publication, hub, &resolver), inbox));
            }
            Err(error) => drop(ready.send(Err(error))),
        }
    })?;
    is_ready.recv().map_err(|_| io::Error::other("a worker died at its start"))??;
    Ok(WorkerHandle { orders, load: Arc::default(), thread })
}

async fn run(worker: Worker, mut inbox: mpsc::UnboundedReceiver<Order>) {
    let worker = Rc::new(worker);
    spawn_local(keep_time(Rc::clone(&worker)));
    while let Some(order) = inbox.recv().await {
        match order {
            Order::Serve(accepted) => {
                worker.connection_arrives();
                spawn_local(connection::serve(Rc::clone(&worker), *accepted));
            }
            Order::Drain(done) => worker.drain(done),
        }
    }
}

/// The one timer of the worker.
async fn keep_time(worker: Rc<Worker>) {
    let mut beat = interval(TICK);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for tick in 1_u64.. {
        beat.tick().await;
        worker.ticks.tick();
        worker.date.tick();
        if tick.is_multiple_of(CONNECTIONS_EVERY) {
            worker.connections().iter().for_each(|connection| connection.end_if_overdue());
            worker.long_lived.sweep(&worker.routing().table, &worker.ticks);
        }
        if tick.is_multiple_of(POOLS_EVERY) {
            worker.pools.sweep();
        }
        worker.tell_if_drained();
    }
}

impl Worker {
    fn new(place: Place, publication: &Publication, hub: Arc<Hub>, resolver: &Arc<Resolver>) -> Self {
        let Place { index, .. } = place;
        let ticks = Ticks::new();
        let pools = Rc::new(Pools::new(&ticks, resolver, &hub, place.count));
        let log = Rc::new(FaultLog::new(&ticks));
        let mut recorder = hub.recorder(index);
        let routing = Rc::new(Routing::new(publication.current(), &mut recorder, &pools, &log));
        // The keys of a RandomState come from the operating system.
        let seed = RandomState::new().hash_one(index);
        Self {
            ticks,
            date: DateClock::new(),
            log,
            spare: Spare::default(),
            long_lived: LongLived::default(),
            room: Rc::default(),
            mirrors: Mirrors::default(),
            index,
            hub,
            reader: RefCell::new(publication.reader()),
            recorder: RefCell::new(recorder),
            routing: RefCell::new(routing),
            pools,
            random: RefCell::new(fastrand::Rng::with_seed(seed)),
            requests: Cell::new(0),
            arriving: Cell::new(0),
            connections: RefCell::default(),
            next_connection: Cell::new(0),
            draining: RefCell::default(),
            is_draining: Cell::new(false),
        }
    }

    /// The table in force at this moment, with what this worker keeps for it.
    pub(super) fn routing(&self) -> Rc<Routing> {
        let mut reader = self.reader.borrow_mut();
        let table = reader.read();
        let mut routing = self.routing.borrow_mut();
        if !Arc::ptr_eq(table, &routing.table) {
            let recorder = &mut *self.recorder.borrow_mut();
            *routing = Rc::new(Routing::new(Arc::clone(table), recorder, &self.pools, &self.log));
        }
        Rc::clone(&routing)
    }

    /// 64 random bits.
    pub(super) fn draw(&self) -> u64 {
        self.random.borrow_mut().u64(..)
    }

    pub(super) fn count_refused(&self, reason: RefusedReason) {
        self.hub.refused(self.index, reason);
    }

    pub(super) fn count_fast_path(&self, outcome: FastPathOutcome) {
        self.hub.fast_path(self.index, outcome);
    }

    /// Hands a trace to the exporter.
    pub(super) fn traced(&self, trace: Box<Trace>) {
        self.hub.traces().push(trace);
    }

    /// Runs a task beside the requests. A panic in it is counted and logged as that of a request is, and ends nothing else.
    pub(super) fn spawn_beside(self: &Rc<Self>, what: &'static str, task: impl Future<Output = ()> + 'static) {
        let worker = Rc::clone(self);
        spawn_local(async move {
            if connection::unless_it_panics(pin!(task)).await.is_none() {
                tracing::error!(fault = "proxy", "{what} made the proxy panic");
                worker.count_refused(RefusedReason::Panic);
            }
        });
    }

    /// Counts a request as under way; false when there are too many, but counted all the same.
    pub(super) fn request_begins(&self) -> bool {
        self.requests.set(self.requests.get() + 1);
        self.requests.get() <= REQUESTS_MAX
    }

    pub(super) fn request_ends(&self) {
        self.requests.set(self.requests.get().saturating_sub(1));
    }

    pub(super) fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    fn connection_arrives(&self) {
        self.arriving.set(self.arriving.get() + 1);
    }

    /// A connection that was handed over is looked after now.
    pub(super) fn connection_begins(&self) {
        self.arriving.set(self.arriving.get().saturating_sub(1));
    }

    /// Takes a connection into the sweep; the number is for [`Worker::unregister`].
    pub(super) fn next_connection(&self) -> u64 {
        self.next_connection.replace(self.next_connection.get() + 1)
    }

    pub(super) fn register(&self, number: u64, connection: Weak<Conn>) {
        self.connections.borrow_mut().insert(number, connection);
    }

    pub(super) fn unregister(&self, number: u64) {
        self.connections.borrow_mut().remove(&number);
    }

    fn connections(&self) -> Vec<Rc<Conn>> {
        self.connections.borrow().values().filter_map(Weak::upgrade).collect()
    }

    fn drain(&self, done: oneshot::Sender<()>) {
        self.is_draining.set(true);
        *self.draining.borrow_mut() = Some(done);
        self.connections().iter().for_each(|connection| connection.drain());
        self.tell_if_drained();
    }

    fn tell_if_drained(&self) {
        if self.is_draining() && self.arriving.get() == 0 && self.connections.borrow().is_empty() {
            // Nobody waits any more when the grace is over.
            self.draining.borrow_mut().take().map(|done| done.send(()));
        }
    }
}

/// Runs hyper's tasks on the worker's own thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct LocalExec;

impl<F: Future<Output: 'static> + 'static> hyper::rt::Executor<F> for LocalExec {
    fn execute(&self, future: F) {
        spawn_local(future);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{
        split::{BUCKETS, Bucket, Split},
        weight::Weight,
    };

    fn worker(hub: &Arc<Hub>) -> Worker {
        let table = crate::engine::table::Table::new(crate::engine::names::Generation(1), Vec::new());
        let publication = Publication::new(Arc::new(table));
        Worker::new(Place { index: 0, count: 1 }, &publication, Arc::clone(hub), &Resolver::start().unwrap())
    }

    #[tokio::test]
    async fn a_panic_beside_the_requests_is_counted_and_ends_nothing_else() {
        let hub = Hub::new(1);
        let worker = Rc::new(worker(&hub));
        let (done, is_done) = oneshot::channel();
        let tasks = tokio::task::LocalSet::new();
        tasks
            .run_until(async {
                worker.spawn_beside("a test", async {
                    tokio::task::yield_now().await;
                    assert!(std::hint::black_box(false), "a panic on purpose, within a test");
                });
                worker.spawn_beside("a test", async { done.send(()).unwrap() });
                is_done.await.unwrap();
            })
            .await;
        tasks.await;
        assert_eq!(hub.refused_total(RefusedReason::Panic), 1);
    }

    #[test]
    fn a_workers_draws_give_the_share_that_was_asked_for() {
        const DRAWS: u32 = 100_000;
        let worker = worker(&Hub::new(1));
        for ppm in [100, 10_000, 50_000, 500_000] {
            let canary = Weight::from_ppm(ppm).unwrap();
            let split = Split::new(&[(1, canary), (0, canary.rest())]).unwrap();
            let hits = (0..DRAWS).filter(|_| split.version_of(Bucket::from_bits(worker.draw())) == 1).count();
            let share = f64::from(ppm) / f64::from(BUCKETS);
            let (mean, deviation) = (f64::from(DRAWS) * share, (f64::from(DRAWS) * share * (1.0 - share)).sqrt());
            let hits = f64::from(u32::try_from(hits).unwrap());
            // Five standard deviations: all four miss by chance less than once in 400,000 runs.
            assert!((hits - mean).abs() <= 5.0 * deviation, "{hits} of {DRAWS} at {ppm} ppm");
        }
    }
}
