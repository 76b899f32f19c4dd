//! Chaos: upstreams that reset, stall, send nonsense, cut short, close under a request and move; clients that leave, trickle and
//! pipeline, over both versions of HTTP and both paths. Each answer carries its request's token in its head and all
//! through its body, so that one that is lost, doubled or somebody else's is seen; open files and memory must stay flat.
//!
//! A few seconds of it are a part of the suite. For the full length:
//!
//! ```text
//! SERIN_CHAOS_SECONDS=600 SERIN_CHAOS_RATE=1000 SERIN_CHAOS_SEED=7 SERIN_BINARY=target/release/serin \
//!     cargo test --test it chaos:: -- --nocapture --test-threads 1
//! ```
//!
//! The seed fixes what is asked for and by whom; the order in which the machine does it is its own.

mod client;
mod plan;
mod upstream;

use std::{
    env, fs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use self::{
    client::Run,
    upstream::{Seen, Upstream},
};
use crate::harness::{Client, PATIENCE, Serin};

const HTTP1_CLIENTS: u64 = 80;
const HTTP2_CLIENTS: u64 = 16;

/// How long, how fast, and which.
#[derive(Debug, Clone, Copy)]
struct Scale {
    seconds: u64,
    rate: u64,
    seed: u64,
}

impl Scale {
    fn of_environment() -> Self {
        let number = |name: &str, usual: u64| {
            env::var(name)
                .map_or(usual, |value| value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
        };
        Self {
            seconds: number("SERIN_CHAOS_SECONDS", 4),
            rate: number("SERIN_CHAOS_RATE", 250),
            seed: number("SERIN_CHAOS_SEED", 7),
        }
    }
}

/// What the proxy is run with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setup {
    /// One endpoint a version: the fast path takes what it can.
    Fast,
    /// Two endpoints a version: the ordinary path has it all.
    Ordinary,
}

/// The upstreams of both versions.
struct World {
    setup: Setup,
    seen: Arc<Seen>,
    versions: [Vec<Upstream>; 2],
}

const NAMES: [&str; 2] = ["v1", "v2"];

impl World {
    async fn new(setup: Setup, seen: &Arc<Seen>) -> Self {
        let mut versions = [Vec::new(), Vec::new()];
        for (name, of) in NAMES.into_iter().zip(&mut versions) {
            for _ in 0..if setup == Setup::Fast { 1 } else { 2 } {
                of.push(Upstream::start(name, seen).await);
            }
        }
        Self { setup, seen: Arc::clone(seen), versions }
    }

    fn services(&self) -> String {
        let endpoints = |of: &[Upstream]| {
            let all: Vec<_> = of.iter().map(|upstream| format!("\"http://{}\"", upstream.address)).collect();
            all.join(", ")
        };
        let [v1, v2] = &self.versions;
        format!(
            "fastPath: {}\nservices:\n  web:\n    versions:\n      v1: {{ endpoints: [{}] }}\n      v2: {{ endpoints: [{}] }}\n    \
             stable: v1\n    canary: v2\n    assign: {{ sticky: {{ by: cookie }} }}\n    \
             strategy: {{ canary: {{ steps: [{{ setWeight: 30 }}, {{ pause: {{}} }}], guard: {{ versusStable: off, \
             consecutiveErrors: 0 }} }} }}\n",
            if self.setup == Setup::Fast { "on" } else { "off" },
            endpoints(v1),
            endpoints(v2),
        )
    }

    /// Has one upstream be somewhere else from now on: in order, or, where somebody else answers meanwhile, by a crash.
    async fn move_one(&mut self, serin: &Serin, run: &Run, random: &mut fastrand::Rng) {
        let version = random.usize(..2);
        let which = random.usize(..self.versions[version].len());
        let has_stand_in = self.setup == Setup::Ordinary || version == 1;
        let crashes = has_stand_in && random.bool();
        let new = Upstream::start(NAMES[version], &self.seen).await;
        let old = std::mem::replace(&mut self.versions[version][which], new);
        if crashes {
            old.stop();
        }
        serin.write(&self.services());
        while !self.versions[version][which].has_been_used() && !run.is_over() {
            // why: the pause between two looks.
            sleep(Duration::from_millis(5)).await;
        }
        old.stop();
    }
}

/// What the process holds.
#[derive(Debug, Clone, Copy)]
struct Holding {
    files: u64,
    kib: u64,
}

fn holding(pid: u32) -> Holding {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    Holding { files, kib: resident.trim().trim_end_matches(" kB").parse().unwrap() }
}

async fn chaos(setup: Setup) {
    let scale = Scale::of_environment();
    let seen = Arc::<Seen>::default();
    let mut world = World::new(setup, &seen).await;
    let mut serin = Serin::prepare(&world.services());
    serin.spawn();
    serin.ready();
    let before = holding(serin.pid());
    let run = Arc::new(Run {
        seed: scale.seed,
        target: ([127, 0, 0, 1], serin.port).into(),
        start: Instant::now(),
        length: Duration::from_secs(scale.seconds),
        rate: scale.rate,
        next: AtomicU64::new(0),
        seen: Arc::clone(&seen),
        ends: std::sync::Mutex::default(),
    });
    let mut clients = JoinSet::new();
    for which in 0..HTTP1_CLIENTS {
        clients.spawn(client::http1(Arc::clone(&run), which));
    }
    for which in 0..HTTP2_CLIENTS {
        clients.spawn(client::http2(Arc::clone(&run), HTTP1_CLIENTS + which));
    }
    let mut held = Vec::new();
    let mut random = fastrand::Rng::with_seed(scale.seed);
    while !run.is_over() {
        // why: the pace of the moves, a few in a short run and one each few seconds in a long one.
        sleep(run.length.div_f32(6.0).min(Duration::from_secs(5))).await;
        world.move_one(&serin, &run, &mut random).await;
        held.push(holding(serin.pid()));
    }
    clients.join_all().await;
    report(&scale, setup, &run, &held);
    let faults = std::mem::take(&mut *seen.faults.lock().unwrap());
    let some = &faults[..faults.len().min(20)];
    assert!(faults.is_empty(), "{} faults with {scale:?}, {setup:?}: {some:#?}", faults.len());
    let shut_out = run.ends.lock().unwrap().get(client::SHUT_OUT).copied().unwrap_or(0);
    let closings = seen.closings.load(SeqCst) / 2;
    assert!(shut_out <= closings, "{shut_out} requests were shut out by {closings} upstreams that closed");
    is_let_go(&serin, before).await;
    is_flat(&held);
    let metrics = String::from_utf8(Client::get(serin.admin, "/metrics").unwrap().body).unwrap();
    let served = metrics.lines().find(|line| line.starts_with("serin_fast_path_total{outcome=\"served\"}")).unwrap();
    assert_eq!(!served.ends_with(" 0"), setup == Setup::Fast, "{served}");
}

fn report(scale: &Scale, setup: Setup, run: &Run, held: &[Holding]) {
    let ends = run.ends.lock().unwrap();
    let all: u64 = ends.values().sum();
    let seconds = run.start.elapsed().as_secs_f64();
    let reached = run.seen.requests.load(SeqCst);
    eprintln!("{scale:?} {setup:?}: {all} requests in {seconds:.1} s, {reached} reached an upstream whole: {ends:?}");
    let each = (held.len() / 12).max(1);
    let some: Vec<_> = held.iter().step_by(each).map(|one| format!("{} files {} KiB", one.files, one.kib)).collect();
    eprintln!("held meanwhile: {}", some.join(", "));
}

/// Once nobody asks any more, nothing is kept open for them.
async fn is_let_go(serin: &Serin, before: Holding) {
    let end = Instant::now() + PATIENCE;
    loop {
        let now = holding(serin.pid());
        if now.files <= before.files + 3 {
            return;
        }
        assert!(Instant::now() < end, "{} files are open, {} were at the start", now.files, before.files);
        // why: the pause between two looks.
        sleep(Duration::from_millis(50)).await;
    }
}

/// Whether a long run held no more in its second half than in its first. By medians: a moment in which the machine stood still
/// is a peak of both.
fn is_flat(held: &[Holding]) {
    const ENOUGH: usize = 40;
    if held.len() < ENOUGH {
        return;
    }
    let usual = |part: &[Holding], of: fn(&Holding) -> u64| {
        let mut all: Vec<_> = part.iter().map(of).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    let (first, second) = held.split_at(held.len() / 2);
    for (what, of) in [("open files", (|one| one.files) as fn(&Holding) -> u64), ("memory in KiB", |one| one.kib)] {
        let (early, late) = (usual(first, of), usual(second, of));
        assert!(late <= early + early / 4, "{what} grew from {early} to {late}");
    }
}

#[tokio::test]
async fn whatever_upstreams_and_clients_do_nobody_gets_anothers_answer_over_the_fast_path() {
    chaos(Setup::Fast).await;
}

#[tokio::test]
async fn whatever_upstreams_and_clients_do_nobody_gets_anothers_answer_over_the_ordinary_path() {
    chaos(Setup::Ordinary).await;
}
