//! Real threads write while the reader reads.

use std::{thread, time::Duration};

use super::*;
use crate::{
    engine::{
        endpoint::{Endpoint, InUse, UpstreamHttp},
        failure::{FailurePlan, Retry},
        names::Role,
        split::{Reason, Split},
        table::{ServiceTable, Timeouts, VersionTable},
        weight::Weight,
    },
    measure::slot::{Ending, Finished},
};

fn key(version: &str, generation: u64) -> SlotKey {
    SlotKey {
        service: ServiceName::new("web").unwrap(),
        version: VersionName::new(version).unwrap(),
        role: Role::Canary,
        weight_generation: Generation(generation),
    }
}

fn done(ending: Ending, reason: Reason, us: u64) -> Finished {
    let status = if ending == Ending::Answered { 200 } else { 500 };
    Finished { reason, status, ending, latency: Duration::from_micros(us) }
}

const GOOD: Finished =
    Finished { reason: Reason::Sampled, status: 200, ending: Ending::Answered, latency: Duration::from_millis(3) };
const BAD: Finished =
    Finished { reason: Reason::Sampled, status: 500, ending: Ending::ErrorStatus, latency: Duration::from_millis(3) };

fn requests(samples: &Samples) -> u64 {
    samples.slots.iter().map(|slot| slot.sampled.requests + slot.sticky.requests).sum()
}

fn requests_in_totals(totals: &Totals) -> u64 {
    totals.series.values().flat_map(|series| series.codes.values()).sum()
}

#[test]
fn nothing_is_lost_and_nothing_comes_twice_while_workers_write() {
    const EACH: u64 = 40_000;
    let hub = Hub::new(2);
    let mut reader = hub.reader().unwrap();
    let writers: Vec<_> = (0..2)
        .map(|worker| {
            let mut recorder = hub.recorder(worker);
            thread::spawn(move || {
                for n in 0..EACH {
                    // Ten weight generations, found again for each request, so that slots also go and come.
                    let slot = recorder.slot(key("v2", n / (EACH / 10)));
                    let ending = if n % 3 == 0 { Ending::Reset } else { Ending::Answered };
                    let reason = if n % 2 == 0 { Reason::Sampled } else { Reason::Sticky };
                    slot.finished(done(ending, reason, n));
                }
            })
        })
        .collect();
    let (mut sampled, mut sticky, mut latencies) = (Counts::default(), Counts::default(), 0);
    let mut by_generation = BTreeMap::new();
    let mut last_total = 0;
    let mut take = |samples: Samples| {
        for slot in samples.slots {
            assert!(slot.sampled.errors <= slot.sampled.requests, "{slot:?}");
            assert!(slot.sticky.errors <= slot.sticky.requests, "{slot:?}");
            sampled += slot.sampled;
            sticky += slot.sticky;
            latencies += slot.latency.0.iter().map(|(_, count)| count).sum::<u64>();
            *by_generation.entry(slot.weight_generation).or_insert(0) += slot.sampled.requests + slot.sticky.requests;
        }
    };
    while !writers.iter().all(thread::JoinHandle::is_finished) {
        take(reader.drain());
        let total = requests_in_totals(&hub.totals());
        assert!(total >= last_total, "a scrape went back from {last_total} to {total}");
        last_total = total;
    }
    for writer in writers {
        writer.join().unwrap();
    }
    take(reader.drain());
    take(reader.drain());
    assert_eq!(sampled.requests + sticky.requests, 2 * EACH);
    assert_eq!(sampled.errors + sticky.errors, 2 * EACH.div_ceil(3));
    assert_eq!(sampled.requests, EACH);
    assert_eq!(latencies, 2 * EACH);
    assert!(by_generation.values().all(|count| *count == 2 * EACH / 10), "{by_generation:?}");
    assert_eq!(requests_in_totals(&hub.totals()), 2 * EACH);
}

#[test]
fn workers_are_merged_and_the_longest_run_is_the_longest_of_one_worker() {
    let hub = Hub::new(2);
    let mut reader = hub.reader().unwrap();
    let (mut first, mut second) = (hub.recorder(0), hub.recorder(1));
    let (first, second) = (first.slot(key("v2", 7)), second.slot(key("v2", 7)));
    for _ in 0..3 {
        first.finished(BAD);
    }
    for _ in 0..5 {
        second.finished(BAD);
    }
    second.finished(GOOD);
    let samples = reader.drain();
    assert_eq!(samples.slots.len(), 1);
    assert_eq!(samples.slots[0].sampled, Counts { requests: 9, errors: 8 });
    assert_eq!(samples.slots[0].latency.0.len(), 1);
    assert_eq!(samples.slots[0].latency.0[0].1, 9);
    assert_eq!(samples.slots[0].longest_error_run, 5);
    assert_eq!(reader.drain(), Samples::default(), "no news, no entry");
    first.finished(done(Ending::Answered, Reason::Forced, 5));
    assert_eq!(reader.drain(), Samples::default(), "a forced request is no evidence");
}

#[test]
fn a_late_finisher_arrives_under_the_generation_it_was_routed_in() {
    let hub = Hub::new(1);
    let mut reader = hub.reader().unwrap();
    let mut recorder = hub.recorder(0);
    let old = recorder.slot(key("v2", 1));
    reader.drain();
    let new = recorder.slot(key("v2", 2));
    new.finished(GOOD);
    reader.drain();
    old.finished(BAD);
    let late = reader.drain();
    assert_eq!(late.slots.len(), 1);
    assert_eq!(late.slots[0].weight_generation, Generation(1));
    assert_eq!(late.slots[0].sampled, Counts { requests: 1, errors: 1 });
    old.finished(GOOD);
    drop(old);
    assert_eq!(requests(&reader.drain()), 1, "the last read takes all");
}

#[test]
fn slots_that_nobody_writes_to_go_and_their_totals_stay() {
    let hub = Hub::new(1);
    let mut reader = hub.reader().unwrap();
    let mut recorder = hub.recorder(0);
    for generation in 0..1_000 {
        recorder.slot(key("v2", generation)).finished(GOOD);
        assert_eq!(requests(&reader.drain()), 1);
        let live = hub.lock_kept().live.len();
        assert!(live <= 2, "{live} slots are kept");
    }
    assert!(recorder.slots.len() <= 2, "the recorder remembers {}", recorder.slots.len());
    let totals = hub.totals();
    assert_eq!(totals.series.len(), 1);
    assert_eq!(requests_in_totals(&totals), 1_000);
    let series = totals.series.values().next().unwrap();
    assert_eq!(series.latency_us, 3_000_000);
    assert_eq!(series.endings[Ending::Answered as usize], 1_000);
}

#[test]
fn the_newest_generation_is_kept_and_found_again() {
    let hub = Hub::new(1);
    let mut reader = hub.reader().unwrap();
    let mut recorder = hub.recorder(0);
    recorder.slot(key("v2", 1)).finished(BAD);
    reader.drain();
    recorder.slot(key("v2", 1)).finished(BAD);
    assert_eq!(reader.drain().slots[0].longest_error_run, 2, "it is the same slot");
}

#[test]
fn a_version_that_is_no_longer_configured_is_forgotten_once_its_writers_are_done() {
    let hub = Hub::new(1);
    let mut reader = hub.reader().unwrap();
    let mut recorder = hub.recorder(0);
    for version in ["v1", "v2"] {
        recorder.slot(key(version, 1)).finished(GOOD);
        recorder.slot(key(version, 2)).finished(GOOD);
    }
    let busy = recorder.slot(key("v1", 2));
    reader.drain();
    reader.forget_unconfigured(&table_of("v2"));
    busy.finished(GOOD);
    assert_eq!(requests(&reader.drain()), 1, "a writer is heard to the end");
    assert!(hub.totals().series.keys().any(|series| series.version.as_str() == "v1"));
    drop(busy);
    reader.drain();
    let totals = hub.totals();
    assert!(totals.series.keys().all(|series| series.version.as_str() == "v2"), "{:?}", totals.series.keys());
    assert_eq!(requests_in_totals(&totals), 2);
}

#[test]
fn there_is_one_reader() {
    let hub = Hub::new(0);
    assert!(hub.reader().is_some());
    assert!(hub.reader().is_none());
}

fn table_of(version: &str) -> Table {
    let version = VersionTable {
        name: VersionName::new(version).unwrap(),
        role: Role::Stable,
        weight: Weight::FULL,
        endpoints: vec![Endpoint::tcp("127.0.0.1", 1)],
        http: UpstreamHttp::H1,
        upstream: Arc::default(),
        in_use: InUse::All,
        filters: Arc::default(),
    };
    let service = ServiceTable {
        name: ServiceName::new("web").unwrap(),
        weight_generation: Generation(2),
        versions: vec![version],
        stable: 0,
        canary: None,
        split: Split::new(&[(0, Weight::FULL)]).unwrap(),
        force: None,
        header_routes: Vec::new(),
        mirror_routes: Vec::new(),
        cohorts: Vec::new(),
        sticky: None,
        draining: false,
        drain_timeout: Duration::ZERO,
        timeouts: Timeouts::default(),
        retry: Retry::default(),
        failure: FailurePlan::default(),
    };
    Table::new(Generation(2), vec![service])
}

#[test]
fn slow_failures_are_told_once_and_prompt_ones_and_slow_answers_are_none() {
    let hub = Hub::new(1);
    let mut reader = hub.reader().unwrap();
    let mut recorder = hub.recorder(0);
    let slot = recorder.slot(key("v1", 7));
    let mut slowest = |done: &[(Finished, u64)]| {
        for &(one, ms) in done {
            slot.finished(Finished { latency: Duration::from_millis(ms), ..one });
        }
        reader.drain().slots[0].slowest_failure
    };
    assert_eq!(slowest(&[(BAD, 1_000), (GOOD, 30_000)]), Duration::ZERO);
    assert_eq!(slowest(&[(BAD, 10_020), (BAD, 1_001)]), Duration::from_millis(11_314));
    assert_eq!(slowest(&[(BAD, 1_001)]), Duration::from_millis(1_414), "since the last drain");
    assert_eq!(slowest(&[(BAD, 3_600_000)]), Duration::from_secs(128));
    assert_eq!(slowest(&[(GOOD, 5)]), Duration::ZERO);
}
