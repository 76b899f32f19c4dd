//! What was counted since the process started, by version and role: what a scrape shows. Never goes back while a
//! version is configured, and knows no weight generation.

use std::collections::BTreeMap;

use super::{
    copies::CopyTotals,
    fast_path::FastPathOutcome,
    refused::RefusedReason,
    slot::{CODES, Ending, Slot, cell_code},
};
use crate::engine::{
    names::{Role, ServiceName, VersionName},
    split::Reason,
    stats::latency::BUCKETS,
};

/// One version in one role.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Series {
    /// Which service.
    pub service: ServiceName,
    /// Which version.
    pub version: VersionName,
    /// Its role at routing.
    pub role: Role,
}

/// The totals of all versions, and what belongs to none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Totals {
    /// By version and role.
    pub series: BTreeMap<Series, SeriesTotals>,
    /// What the proxy itself refused, in the order of [`RefusedReason::ALL`].
    pub refused: [u64; RefusedReason::ALL.len()],
    /// Lines of the access log that there was no room for.
    pub access_log_dropped: u64,
    /// Traces that a collector took.
    pub traces_exported: u64,
    /// Traces that there was no room for, or that no collector took.
    pub traces_dropped: u64,
    /// Times that a waiting connection could not be accepted.
    pub accept_failures: u64,
    /// What the fast path did, in the order of [`FastPathOutcome::ALL`].
    pub fast_path: [u64; FastPathOutcome::ALL.len()],
}

/// The totals of one version in one role, over all workers and weight generations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesTotals {
    /// Requests by reason (index into [`Reason::ALL`]) and status; only those that occurred. Status 0: no answer.
    pub codes: BTreeMap<(usize, usize), u64>,
    /// Attempts, in the order of [`Ending::ALL`].
    pub endings: [u64; Ending::ALL.len()],
    /// Requests that stable answered since this version failed them.
    pub rescued: u64,
    /// Requests that stable answered since this version could not be connected to.
    pub fell_back: u64,
    /// Evidence by latency bucket.
    pub latency: Box<[u64; BUCKETS]>,
    /// The sum of those latencies, in microseconds.
    pub latency_us: u64,
    /// Copies that were to go to this version.
    pub copies: CopyTotals,
}

impl Default for SeriesTotals {
    fn default() -> Self {
        Self {
            codes: BTreeMap::new(),
            endings: [0; Ending::ALL.len()],
            rescued: 0,
            fell_back: 0,
            latency: Box::new([0; BUCKETS]),
            latency_us: 0,
            copies: CopyTotals::default(),
        }
    }
}

impl Totals {
    /// Adds what a slot has counted.
    pub fn add(&mut self, slot: &Slot) {
        let key = slot.key();
        let series = Series { service: key.service.clone(), version: key.version.clone(), role: key.role };
        self.series.entry(series).or_default().add(slot);
    }
}

impl SeriesTotals {
    fn add(&mut self, slot: &Slot) {
        for reason in 0..Reason::ALL.len() {
            for cell in 0..CODES {
                let count = slot.code_total(reason, cell);
                if count > 0 {
                    *self.codes.entry((reason, cell_code(cell))).or_default() += count;
                }
            }
        }
        for (ending, total) in self.endings.iter_mut().enumerate() {
            *total += slot.ending_total(ending);
        }
        self.rescued += slot.rescued_total();
        self.fell_back += slot.fell_back_total();
        for (bucket, total) in self.latency.iter_mut().enumerate() {
            *total += slot.latency_total(bucket);
        }
        self.latency_us = self.latency_us.saturating_add(slot.latency_us_total());
        self.copies += slot.copy_totals();
    }
}
