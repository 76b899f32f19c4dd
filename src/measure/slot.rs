//! One version's counters on one worker in one weight generation: written by one thread, read by another,
//! cumulative and never reset. No lock, no shared cache line, no read-modify-write.

use std::{
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
    time::Duration,
};

use super::{
    copies::{CopyEnd, CopyTotals, micros},
    failed_buckets::FailedRing,
};
use crate::engine::{
    names::{Generation, Role, ServiceName, VersionName},
    samples::FailedBuckets,
    split::{Bucket, Reason},
    stats::latency::{BUCKETS, bucket_of},
};

/// Status codes 100 to 599 have a cell each; everything else, and no answer, share cell 0.
pub const CODES: usize = 501;

/// How long failures may take that are counted together, in milliseconds, each half as long again as the one before or
/// less; what takes longer than the last is counted there.
const SLOW: [u64; 14] =
    [1_414, 2_000, 2_828, 4_000, 5_657, 8_000, 11_314, 16_000, 22_627, 32_000, 45_255, 64_000, 90_510, 128_000];
/// Failures that took no longer are not told apart.
const PROMPT: Duration = Duration::from_secs(1);

/// Slow failures by how long they took.
pub type SlowFailures = [u64; SLOW.len()];

/// How long the slowest of those that came since may have taken; zero where none came.
#[must_use]
pub fn slowest(since: &SlowFailures, now: &SlowFailures) -> Duration {
    let news = (0..SLOW.len()).rev().find(|&class| now[class] > since[class]);
    news.map_or(Duration::ZERO, |class| Duration::from_millis(SLOW[class]))
}

/// Whose counters these are. All labels come from the config, none from a client.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotKey {
    /// Which service.
    pub service: ServiceName,
    /// Which version.
    pub version: VersionName,
    /// Its role at routing.
    pub role: Role,
    /// The weight generation at routing.
    pub weight_generation: Generation,
}

/// How an attempt at a version ended, and so whose fault it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// An answer that does not count as an error, passed on whole (or as far as the client wanted it).
    Answered,
    /// An answer that counts as an error (`countAsError`; 5xx). The version's fault.
    ErrorStatus,
    /// No connection, or name not found. The version's fault.
    ConnectFailed,
    /// As many connections and waiting requests as its limits allow: the version is too slow for its traffic.
    Overloaded,
    /// No response head in time. The version's fault.
    TimedOut,
    /// The connection ended before a whole response head. The version's fault.
    Reset,
    /// Something that is not HTTP, or not allowed. The version's fault.
    Malformed,
    /// The response body ended early or broke its framing. The version's fault.
    Truncated,
    /// The client broke its own request, or went away. Nobody's error; no evidence.
    ClientGone,
}

impl Ending {
    /// All endings, in the order of their cells.
    pub const ALL: [Self; 9] = [
        Self::Answered,
        Self::ErrorStatus,
        Self::ConnectFailed,
        Self::Overloaded,
        Self::TimedOut,
        Self::Reset,
        Self::Malformed,
        Self::Truncated,
        Self::ClientGone,
    ];

    /// The word for labels and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::ErrorStatus => "error_status",
            Self::ConnectFailed => "connect_failed",
            Self::Overloaded => "overloaded",
            Self::TimedOut => "timed_out",
            Self::Reset => "reset",
            Self::Malformed => "malformed",
            Self::Truncated => "truncated",
            Self::ClientGone => "client_gone",
        }
    }

    /// Whether it is charged to the version as an error.
    #[must_use]
    pub const fn is_error(self) -> bool {
        !matches!(self, Self::Answered | Self::ClientGone)
    }
}

/// One finished request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished {
    /// Why it was routed here.
    pub reason: Reason,
    /// The status sent to the client; 0 when none was.
    pub status: u16,
    /// How the attempt ended.
    pub ending: Ending,
    /// From the request written to the response head, or to the giving up.
    pub latency: Duration,
}

/// The counters. See the module for who may write.
#[repr(align(128))]
#[derive(Debug)]
pub struct Slot {
    key: SlotKey,
    started: Cell,
    evidence: [Outcomes; 2],
    codes: [[Cell; CODES]; Reason::ALL.len()],
    rescued: Cell,
    fell_back: Cell,
    endings: [Cell; Ending::ALL.len()],
    latency: Box<[Cell; BUCKETS]>,
    latency_us: Cell,
    error_run: Cell,
    longest_error_run: Cell,
    slow_failures: [Cell; SLOW.len()],
    failed: FailedRing,
    copies: Copies,
}

/// What became of copies that were sent here.
#[derive(Debug, Default)]
struct Copies {
    ends: [Cell; CopyEnd::ALL.len()],
    same: Cell,
    other: Cell,
    original_us: Cell,
    copy_us: Cell,
}

/// A request is one or the other, in one store: a reader can never see more errors than requests, between
/// two reads neither.
#[derive(Debug, Default)]
struct Outcomes {
    good: Cell,
    bad: Cell,
}

impl Slot {
    /// All zero.
    #[must_use]
    pub fn new(key: SlotKey) -> Self {
        Self {
            key,
            started: Cell::default(),
            evidence: Default::default(),
            codes: std::array::from_fn(|_| std::array::from_fn(|_| Cell::default())),
            rescued: Cell::default(),
            fell_back: Cell::default(),
            endings: Default::default(),
            latency: Box::new(std::array::from_fn(|_| Cell::default())),
            latency_us: Cell::default(),
            error_run: Cell::default(),
            longest_error_run: Cell::default(),
            slow_failures: Default::default(),
            failed: FailedRing::default(),
            copies: Copies::default(),
        }
    }

    /// Whose counters these are.
    #[must_use]
    pub const fn key(&self) -> &SlotKey {
        &self.key
    }

    /// Counts a request as routed here. Only the owning worker may call this.
    pub fn started(&self) {
        self.started.add(1);
    }

    /// Counts a request with one attempt as done. Only the owning worker may call this.
    ///
    /// What the client broke counts by code only; a forced request counts by code and ending, but is no evidence.
    pub fn finished(&self, done: Finished) {
        self.served(done.reason, done.status);
        self.charged(done.reason, done.ending, done.latency);
    }

    /// Counts what the client of a request that was routed here got to see, whoever answered. Only the owning worker
    /// may call this.
    pub fn served(&self, reason: Reason, status: u16) {
        self.codes[reason as usize][code_cell(status)].add(1);
    }

    /// Counts a further attempt for a request whose first one has been charged: it is no evidence. Only the owning
    /// worker may call this.
    pub fn attempted(&self, ending: Ending) {
        self.endings[ending as usize].add(1);
    }

    /// Counts a request routed here that stable answers, since this version failed it. Only the owning worker may call
    /// this.
    pub fn rescued(&self) {
        self.rescued.add(1);
    }

    /// Counts a request routed here that stable answers, since this version cannot be connected to. Only the owning
    /// worker may call this.
    pub fn fell_back(&self) {
        self.fell_back.add(1);
    }

    /// Counts the first attempt of a request routed here, which says how the version did. Only the owning worker may
    /// call this.
    pub fn charged(&self, reason: Reason, ending: Ending, latency: Duration) {
        self.endings[ending as usize].add(1);
        // Sampled and sticky are the first two.
        let evidence = self.evidence.get(reason as usize).filter(|_| ending != Ending::ClientGone);
        let Some(evidence) = evidence else { return };
        self.latency[bucket_of(latency)].add(1);
        self.latency_us.add(micros(latency));
        if ending.is_error() {
            self.error_run.add(1);
            self.longest_error_run.set(self.longest_error_run.get().max(self.error_run.get()));
            if latency > PROMPT {
                self.slow_failures[slow_class(latency)].add(1);
            }
            evidence.bad.add_after_all(1);
        } else {
            self.error_run.set(0);
            evidence.good.add_after_all(1);
        }
    }

    /// Failures that took longer than a second.
    #[must_use]
    pub fn slow_failures(&self) -> SlowFailures {
        std::array::from_fn(|class| self.slow_failures[class].get())
    }

    /// Keeps whose sticky request failed. Only the owning worker may call this.
    pub fn sticky_failed(&self, bucket: Bucket) {
        self.failed.add(bucket);
    }

    /// Sticky requests that failed.
    #[must_use]
    pub fn failed_total(&self) -> u64 {
        self.failed.total()
    }

    /// Counts a copy of a request that was to go here. Only the owning worker may call this.
    pub fn copied(&self, end: CopyEnd) {
        self.copies.ends[end as usize].add(1);
    }

    /// Counts how the answer to a copy differs from that to its request: whether the statuses are of one class, and both
    /// latencies, the request's first. Only the owning worker may call this.
    pub fn compared(&self, is_same_class: bool, latencies: Option<(Duration, Duration)>) {
        if is_same_class { &self.copies.same } else { &self.copies.other }.add(1);
        if let Some((original, copy)) = latencies {
            self.copies.original_us.add(micros(original));
            self.copies.copy_us.add(micros(copy));
        }
    }

    /// Whose sticky requests failed since `seen` of them, which is brought up to date.
    pub fn failed_since(&self, seen: &mut u64) -> FailedBuckets {
        self.failed.since(seen)
    }

    /// Requests routed here.
    #[must_use]
    pub fn started_total(&self) -> u64 {
        self.started.get()
    }

    /// Evidence: requests and errors, by draw (0) and by sticky bucket (1). Never more errors than requests, neither
    /// in one read nor in the difference of two.
    #[must_use]
    pub fn evidence_totals(&self) -> [(u64, u64); 2] {
        [&self.evidence[0], &self.evidence[1]].map(|of| {
            let errors = of.bad.get_before_all();
            (of.good.get_before_all() + errors, errors)
        })
    }

    /// Requests by reason (in the order of [`Reason::ALL`]) and status; status 0 is cell 0.
    #[must_use]
    pub fn code_total(&self, reason: usize, cell: usize) -> u64 {
        self.codes[reason][cell].get()
    }

    /// Attempts by ending, in the order of [`Ending::ALL`].
    #[must_use]
    pub fn ending_total(&self, ending: usize) -> u64 {
        self.endings[ending].get()
    }

    /// Requests that stable answered since this version failed them.
    #[must_use]
    pub fn rescued_total(&self) -> u64 {
        self.rescued.get()
    }

    /// Requests that stable answered since this version could not be connected to.
    #[must_use]
    pub fn fell_back_total(&self) -> u64 {
        self.fell_back.get()
    }

    /// Copies that were to go here.
    #[must_use]
    pub fn copy_totals(&self) -> CopyTotals {
        let Copies { ends, same, other, original_us, copy_us } = &self.copies;
        CopyTotals {
            ends: std::array::from_fn(|end| ends[end].get()),
            same: same.get(),
            other: other.get(),
            original_us: original_us.get(),
            copy_us: copy_us.get(),
        }
    }

    /// Evidence by latency bucket.
    #[must_use]
    pub fn latency_total(&self, bucket: usize) -> u64 {
        self.latency[bucket].get()
    }

    /// The sum of all latencies of evidence, in microseconds.
    #[must_use]
    pub fn latency_us_total(&self) -> u64 {
        self.latency_us.get()
    }

    /// The longest run of errors so far.
    #[must_use]
    pub fn longest_error_run(&self) -> u64 {
        self.longest_error_run.get()
    }
}

fn slow_class(latency: Duration) -> usize {
    let class = SLOW.iter().position(|&at_most| latency <= Duration::from_millis(at_most));
    class.unwrap_or(SLOW.len() - 1)
}

/// The cell of a status code.
#[must_use]
pub const fn code_cell(status: u16) -> usize {
    if status >= 100 && status <= 599 { status as usize - 99 } else { 0 }
}

/// The status code of a cell.
#[must_use]
pub const fn cell_code(cell: usize) -> usize {
    if cell == 0 { 0 } else { cell + 99 }
}

/// A counter with one writer: a plain load and store on its side, no lost update on the reader's.
#[derive(Debug, Default)]
struct Cell(AtomicU64);

impl Cell {
    fn add(&self, by: u64) {
        self.set(self.get().saturating_add(by));
    }

    fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Who sees this with [`Cell::get_before_all`] sees what the writer wrote before it, too.
    fn add_after_all(&self, by: u64) {
        self.0.store(self.get().saturating_add(by), Release);
    }

    fn get_before_all(&self) -> u64 {
        self.0.load(Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot() -> Slot {
        Slot::new(SlotKey {
            service: ServiceName::new("web").unwrap(),
            version: VersionName::new("v2").unwrap(),
            role: Role::Canary,
            weight_generation: Generation(1),
        })
    }

    fn done(reason: Reason, status: u16, ending: Ending) -> Finished {
        Finished { reason, status, ending, latency: Duration::from_micros(1_500) }
    }

    #[test]
    fn only_what_the_split_routed_and_the_client_let_finish_is_evidence() {
        let slot = slot();
        slot.finished(done(Reason::Sampled, 200, Ending::Answered));
        slot.finished(done(Reason::Sampled, 503, Ending::ErrorStatus));
        slot.finished(done(Reason::Sticky, 504, Ending::TimedOut));
        slot.finished(done(Reason::Forced, 500, Ending::ErrorStatus));
        slot.finished(done(Reason::Sampled, 0, Ending::ClientGone));
        assert_eq!(slot.evidence_totals(), [(2, 1), (1, 1)]);
        assert_eq!(slot.latency_total(bucket_of(Duration::from_micros(1_500))), 3);
        assert_eq!(slot.latency_us_total(), 4_500);
        assert_eq!(slot.code_total(2, code_cell(500)), 1, "a forced request counts by code");
        assert_eq!(slot.code_total(0, 0), 1, "no answer is code 0");
        assert_eq!(slot.ending_total(Ending::ErrorStatus as usize), 2);
    }

    #[test]
    fn a_run_of_errors_is_ended_by_an_answer_and_not_by_a_client_that_left() {
        let slot = slot();
        let error = done(Reason::Sampled, 500, Ending::ErrorStatus);
        slot.finished(error);
        slot.finished(done(Reason::Sampled, 0, Ending::ClientGone));
        slot.finished(done(Reason::Forced, 200, Ending::Answered));
        slot.finished(error);
        slot.finished(done(Reason::Sampled, 200, Ending::Answered));
        slot.finished(error);
        assert_eq!(slot.longest_error_run(), 2);
    }

    #[test]
    fn each_status_has_its_cell_and_back() {
        for status in 100..=599 {
            assert_eq!(cell_code(code_cell(status)), usize::from(status));
        }
        for odd in [0, 99, 600, u16::MAX] {
            assert_eq!(code_cell(odd), 0);
        }
        assert_eq!(code_cell(599), CODES - 1);
    }
}
