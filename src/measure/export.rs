//! The Prometheus page, in the OpenMetrics text format: encoded at scrape time from the same cells that decide.
//! Every label value comes from the config or from a fixed list, none from a client.

mod analyses;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
    sync::Arc,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet, text},
    metrics::{MetricType, exemplar::Exemplar},
    registry::{Registry, Unit as MetricUnit},
};

use super::{
    copies::CopyEnd,
    fast_path::FastPathOutcome,
    process::ProcessFacts,
    refused::RefusedReason,
    slot::Ending,
    totals::{Series, SeriesTotals, Totals},
};
use crate::engine::{
    health::EndpointState,
    split::Reason,
    stats::latency::upper_edge,
    table::Table,
    time::Timestamp,
    view::{CheckView, PhaseView, ServiceView, Unit, View},
};

/// The content type of the page.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds of the duration histogram in microseconds: the OpenTelemetry advice for HTTP (semantic conventions,
/// HTTP metrics), below it 1 ms and 2.5 ms, because a proxy's neighbours answer faster than that.
pub(super) const BOUNDS_US: [u64; 16] = [
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 75_000, 100_000, 250_000, 500_000, 750_000, 1_000_000, 2_500_000,
    5_000_000, 7_500_000, 10_000_000,
];

/// Statuses whose series exist before the first such request: an answer, and what the proxy itself says for an
/// upstream that gave none. `increase()` misses the first request of a series that was not there.
const CODES_FROM_THE_START: [usize; 5] = [200, 500, 502, 503, 504];

/// All that the page shows.
#[derive(Debug, Clone)]
pub struct ExportInput {
    /// From [`super::Hub::totals`].
    pub totals: Totals,
    /// The table in force: who is configured, in which role, with which weight. Its versions have series from the start.
    pub table: Arc<Table>,
    /// The engine's view.
    pub view: Arc<View>,
    /// What became of the config file.
    pub reloads: Reloads,
    /// How each receiver of messages stands.
    pub notify: Vec<ReceiverTotals>,
    /// When the process started.
    pub started: Timestamp,
    /// What the operating system says.
    pub process: ProcessFacts,
}

/// How one receiver of messages stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiverTotals {
    /// Its label.
    pub receiver: String,
    /// Events that it has still to be told.
    pub pending: u64,
    /// Messages that it took.
    pub delivered: u64,
    /// Tries that failed.
    pub failures: u64,
}

/// What became of the config file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reloads {
    /// Whether the file as it is now is in force.
    pub in_force: bool,
    /// When the settings in force were loaded.
    pub loaded: Timestamp,
    /// Successful loads, the first included.
    pub loads: u64,
    /// Refused loads.
    pub failures: u64,
    /// Whether the state folder could be written at the last try.
    pub state_writable: bool,
}

/// The page, with its end marker.
#[must_use]
pub fn encode(input: ExportInput) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Page::new(input)));
    let mut page = String::new();
    // The collector writes to a string alone, which cannot fail; a page without end marker is refused by scrapers.
    let _ = text::encode(&mut page, &registry);
    page
}

#[derive(Debug)]
struct Page {
    input: ExportInput,
    series: BTreeMap<Series, SeriesTotals>,
    /// Those that had copies of requests, or may have them.
    copied: BTreeSet<Series>,
}

impl Page {
    fn new(mut input: ExportInput) -> Self {
        let mut series = std::mem::take(&mut input.totals.series);
        let mut copied: BTreeSet<Series> =
            series.iter().filter(|(_, totals)| !totals.copies.is_empty()).map(|(series, _)| series.clone()).collect();
        for service in &input.table.services {
            for version in &service.versions {
                let key = Series { service: service.name.clone(), version: version.name.clone(), role: version.role };
                if input.table.copies_go_to(service, version) {
                    copied.insert(key.clone());
                }
                let totals = series.entry(key).or_default();
                for code in CODES_FROM_THE_START {
                    totals.codes.entry((0, code)).or_default();
                }
            }
        }
        Self { input, series, copied }
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let to = &mut encoder;
        self.traffic(to)?;
        self.weights(to)?;
        rollouts(to, &self.input.view.services)?;
        checks(to, &self.input.view.services)?;
        analyses::analyses(to, &self.input.view.services)?;
        receivers(to, &self.input.notify)?;
        self.config(to)?;
        self.process(to)
    }
}

impl Page {
    fn traffic(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let help = "Requests by the version they were routed to, by status sent to the client (0: none), and by what routed them.";
        let mut requests = to.encode_descriptor("serin_requests", help, None, MetricType::Counter)?;
        for (series, totals) in &self.series {
            for ((reason, code), count) in &totals.codes {
                let reason = Reason::ALL.get(*reason).map_or("", |reason| reason.as_str());
                let code = code.to_string();
                let [service, version, role] = labels_of(series);
                counter(&mut requests, [service, version, role, ("code", &code), ("reason", reason)], count)?;
            }
        }
        let help = "Attempts by the version that made them and by how they ended.";
        let mut attempts = to.encode_descriptor("serin_attempts", help, None, MetricType::Counter)?;
        for (series, totals) in &self.series {
            for (ending, count) in Ending::ALL.iter().zip(totals.endings) {
                let [service, version, role] = labels_of(series);
                counter(&mut attempts, [service, version, role, ("outcome", ending.as_str())], &count)?;
            }
        }
        let families: [(&str, &str, ReadTotal); 2] = [
            ("serin_rescue", "Requests that stable answered since this version failed them.", |of| of.rescued),
            ("serin_fallback", "Requests that stable answered since this version cannot be connected to.", |of| {
                of.fell_back
            }),
        ];
        for (name, help, read) in families {
            let mut family = to.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (series, totals) in &self.series {
                counter(&mut family, labels_of(series), &read(totals))?;
            }
        }
        self.copies(to)?;
        let help = "From the request written to the response head or the giving up; requests that are evidence.";
        let unit = Some(&MetricUnit::Seconds);
        let mut durations = to.encode_descriptor("serin_request_duration", help, unit, MetricType::Histogram)?;
        for (series, totals) in &self.series {
            let (buckets, count) = classic_buckets(totals);
            let sum = micros(totals.latency_us);
            durations.encode_family(&labels_of(series))?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        let help = "Requests that the proxy refused itself.";
        let mut refused = to.encode_descriptor("serin_refused", help, None, MetricType::Counter)?;
        for (reason, count) in RefusedReason::ALL.iter().zip(&self.input.totals.refused) {
            counter(&mut refused, [("reason", reason.as_str())], count)?;
        }
        let help = "Requests that the fast path served, and connections that it left to the ordinary path, by why.";
        let mut fast_path = to.encode_descriptor("serin_fast_path", help, None, MetricType::Counter)?;
        for (outcome, count) in FastPathOutcome::ALL.iter().zip(&self.input.totals.fast_path) {
            counter(&mut fast_path, [("outcome", outcome.as_str())], count)?;
        }
        let help = "Lines of the access log that there was no room for.";
        let mut dropped = to.encode_descriptor("serin_access_log_dropped", help, None, MetricType::Counter)?;
        counter(&mut dropped, [], &self.input.totals.access_log_dropped)?;
        self.traces(to)?;
        let help = "Times that a waiting connection could not be accepted, as for lack of file descriptors.";
        let mut failures = to.encode_descriptor("serin_accept_failures", help, None, MetricType::Counter)?;
        counter(&mut failures, [], &self.input.totals.accept_failures)?;
        Ok(())
    }

    fn traces(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let help = "Traces of requests that the collector took.";
        let mut exported = to.encode_descriptor("serin_traces_exported", help, None, MetricType::Counter)?;
        counter(&mut exported, [], &self.input.totals.traces_exported)?;
        let help = "Traces of requests that there was no room for, or that the collector did not take.";
        let mut dropped = to.encode_descriptor("serin_traces_dropped", help, None, MetricType::Counter)?;
        counter(&mut dropped, [], &self.input.totals.traces_dropped)
    }

    /// Only of versions that have copies: few ever do.
    fn copies(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let copied = || self.series.iter().filter(|(series, _)| self.copied.contains(series));
        let help = "Copies of requests (mirroring) by the version that they were for, and by how they ended.";
        let mut ends = to.encode_descriptor("serin_mirror", help, None, MetricType::Counter)?;
        for (series, totals) in copied() {
            for (end, count) in CopyEnd::ALL.iter().zip(totals.copies.ends) {
                let [service, version, role] = labels_of(series);
                counter(&mut ends, [service, version, role, ("outcome", end.as_str())], &count)?;
            }
        }
        let help =
            "Copies by whether the status of the answer is of the same class as that of the request's own answer.";
        let mut compared = to.encode_descriptor("serin_mirror_compared", help, None, MetricType::Counter)?;
        for (series, totals) in copied() {
            for (status, count) in [("same", totals.copies.same), ("other", totals.copies.other)] {
                let [service, version, role] = labels_of(series);
                counter(&mut compared, [service, version, role, ("status", status)], &count)?;
            }
        }
        let help = "Latencies of copies that were compared, and of the requests that they are copies of, summed up.";
        let unit = Some(&MetricUnit::Seconds);
        let mut latencies = to.encode_descriptor("serin_mirror_latency", help, unit, MetricType::Counter)?;
        for (series, totals) in copied() {
            for (of, us) in [("original", totals.copies.original_us), ("copy", totals.copies.copy_us)] {
                let [service, version, role] = labels_of(series);
                counter(&mut latencies, [service, version, role, ("of", of)], &micros(us))?;
            }
        }
        Ok(())
    }

    fn weights(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let services = &self.input.table.services;
        let mut asked = gauges(to, "serin_weight_ratio", "Share of requests asked for.")?;
        for service in services {
            for version in &service.versions {
                let labels = [
                    ("service", service.name.as_str()),
                    ("version", version.name.as_str()),
                    ("role", version.role.as_str()),
                ];
                gauge(&mut asked, labels, &version.weight.ratio())?;
            }
        }
        let help = "Share of requests measured over the last minute; absent without traffic.";
        let mut measured = gauges(to, "serin_share_ratio", help)?;
        for service in &self.input.view.services {
            for version in &service.versions {
                let labels = [
                    ("service", service.name.as_str()),
                    ("version", version.name.as_str()),
                    ("role", version.role.as_str()),
                ];
                if let Some(share) = version.measured {
                    gauge(&mut measured, labels, &share)?;
                }
            }
        }
        self.endpoints(to)
    }

    /// Where nobody is watched, all that are configured are held to be well.
    fn endpoints(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let mut endpoints = gauges(to, "serin_endpoints", "Endpoints of a version, each address of a name, by state.")?;
        for service in &self.input.table.services {
            let view = self.input.view.services.iter().find(|view| view.name == service.name);
            for version in &service.versions {
                let seen = view.and_then(|view| view.versions.iter().find(|view| view.name == version.name));
                let watched = seen.map_or(&[][..], |seen| &seen.endpoints);
                for state in EndpointState::ALL {
                    let many = match (watched, state) {
                        ([], EndpointState::Healthy) => version.endpoints.len(),
                        _ => watched.iter().filter(|endpoint| endpoint.state == state).count(),
                    };
                    let (service, version) = (service.name.as_str(), version.name.as_str());
                    let labels = [("service", service), ("version", version), ("state", state.as_str())];
                    gauge(&mut endpoints, labels, &many)?;
                }
            }
        }
        Ok(())
    }

    fn config(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let reloads = self.input.reloads;
        let help = "1 when the config file as it is now is in force.";
        let mut in_force = gauges(to, "serin_config_last_reload_successful", help)?;
        in_force.encode_gauge(&u64::from(reloads.in_force))?;
        let help = "When the settings in force were loaded.";
        let name = "serin_config_last_reload_success_timestamp";
        let mut loaded = to.encode_descriptor(name, help, Some(&MetricUnit::Seconds), MetricType::Gauge)?;
        loaded.encode_gauge(&seconds(reloads.loaded))?;
        let help = "Loads of the config file, the first included.";
        let mut total = to.encode_descriptor("serin_config_reloads", help, None, MetricType::Counter)?;
        counter(&mut total, [("result", "success")], &reloads.loads)?;
        counter(&mut total, [("result", "failure")], &reloads.failures)?;
        let help = "1 when the state folder could be written at the last try, which is made each second.";
        let mut writable = gauges(to, "serin_state_writable", help)?;
        writable.encode_gauge(&u64::from(reloads.state_writable))
    }

    fn process(&self, to: &mut DescriptorEncoder) -> fmt::Result {
        let mut build = to.encode_descriptor("serin_build", "The program.", None, MetricType::Info)?;
        build.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])?;
        let facts = self.input.process;
        if let Some(bytes) = facts.resident_bytes {
            let (name, unit) = ("process_resident_memory", Some(&MetricUnit::Bytes));
            to.encode_descriptor(name, "Resident memory.", unit, MetricType::Gauge)?.encode_gauge(&bytes)?;
        }
        if let Some(fds) = facts.open_fds {
            gauges(to, "process_open_fds", "Open file descriptors.")?.encode_gauge(&fds)?;
        }
        let (name, unit) = ("process_start_time", Some(&MetricUnit::Seconds));
        let mut started = to.encode_descriptor(name, "When the process started.", unit, MetricType::Gauge)?;
        started.encode_gauge(&seconds(self.input.started))
    }
}

fn rollouts(to: &mut DescriptorEncoder, services: &[ServiceView]) -> fmt::Result {
    let mut phases = gauges(to, "serin_rollout_phase", "1 for the phase a service is in.")?;
    for service in services {
        for phase in PhaseView::ALL {
            let labels = [("service", service.name.as_str()), ("phase", phase.as_str())];
            gauge(&mut phases, labels, &u64::from(service.phase == phase))?;
        }
    }
    let mut step = gauges(to, "serin_rollout_step", "The present step, from 1; 0 without a rollout.")?;
    for service in services {
        let at = service.rollout.as_ref().map_or(0, |rollout| rollout.step);
        gauge(&mut step, [("service", service.name.as_str())], &at)?;
    }
    let mut steps = gauges(to, "serin_rollout_steps", "Steps of the running rollout; 0 without one.")?;
    for service in services {
        let all = service.rollout.as_ref().map_or(0, |rollout| rollout.steps.len());
        gauge(&mut steps, [("service", service.name.as_str())], &all)?;
    }
    let mut revision = gauges(to, "serin_rollout_revision", "Number of the present or last rollout.")?;
    for service in services {
        gauge(&mut revision, [("service", service.name.as_str())], &service.revision.0)?;
    }
    Ok(())
}

fn receivers(to: &mut DescriptorEncoder, all: &[ReceiverTotals]) -> fmt::Result {
    let mut pending = gauges(to, "serin_notify_pending", "Events that a receiver has still to be told.")?;
    for one in all {
        gauge(&mut pending, [("receiver", one.receiver.as_str())], &one.pending)?;
    }
    let help = "Tries to tell a receiver, by how they ended.";
    let mut tries = to.encode_descriptor("serin_notify_tries", help, None, MetricType::Counter)?;
    for one in all {
        let receiver = ("receiver", one.receiver.as_str());
        counter(&mut tries, [receiver, ("result", "success")], &one.delivered)?;
        counter(&mut tries, [receiver, ("result", "failure")], &one.failures)?;
    }
    Ok(())
}

type ReadTotal = fn(&SeriesTotals) -> u64;
type ReadCheck = fn(&CheckView) -> Option<f64>;

fn checks(to: &mut DescriptorEncoder, services: &[ServiceView]) -> fmt::Result {
    let help = "Natural logarithm of the evidence that the canary has more than its share of the errors.";
    let mut log_e = gauges(to, "serin_share_test_log_e", help)?;
    for service in services {
        let test = named_checks(service).find(|(_, check)| check.unit == Unit::LogEvidence);
        if let Some(value) = test.and_then(|(_, check)| check.value) {
            gauge(&mut log_e, [("service", service.name.as_str())], &value)?;
        }
    }
    let families: [(&str, &str, ReadCheck); 3] = [
        ("serin_check_value", "What a check sees; absent without data.", |check| check.value),
        ("serin_check_limit", "What a check compares with.", |check| Some(check.limit)),
        ("serin_check_requests", "Canary requests behind a check.", |check| Some(count_as_f64(check.requests))),
    ];
    for (name, help, read) in families {
        let mut family = gauges(to, name, help)?;
        for service in services {
            for (check_name, check) in named_checks(service) {
                let labels = [("service", service.name.as_str()), ("check", check_name.as_str())];
                if let Some(value) = read(check) {
                    gauge(&mut family, labels, &value)?;
                }
            }
        }
    }
    Ok(())
}

/// Checks with their names, made unique: two latency limits may share one, two series may not.
fn named_checks(service: &ServiceView) -> impl Iterator<Item = (String, &CheckView)> {
    let checks = service.rollout.iter().flat_map(|rollout| &rollout.checks);
    let mut taken = BTreeSet::new();
    checks.map(move |check| {
        let mut name = check.name.clone();
        let mut nth = 1;
        while !taken.insert(name.clone()) {
            nth += 1;
            name.clone_from(&check.name);
            let _ = write!(name, "#{nth}");
        }
        (name, check)
    })
}

/// Counts by bound as OpenMetrics' encoder wants them: not yet summed up.
fn classic_buckets(totals: &SeriesTotals) -> (Vec<(f64, u64)>, u64) {
    let (cumulative, all) = classic_counts(totals);
    let bounds = BOUNDS_US.iter().map(|us| micros(*us)).chain([f64::INFINITY]);
    let mut before = 0;
    let buckets = bounds.zip(cumulative.into_iter().chain([all])).map(|(bound, count)| {
        let own = count - before;
        before = count;
        (bound, own)
    });
    (buckets.collect(), all)
}

/// How many requests took at most each bound, and how many there are. A request is counted under a bound when its
/// latency cell ends at or below it, so a bucket never holds a slower request than it says; those less than one cell
/// (3.2 %) under a bound may be in the next.
pub(super) fn classic_counts(totals: &SeriesTotals) -> ([u64; BOUNDS_US.len()], u64) {
    let mut counts = [0; BOUNDS_US.len()];
    let (mut at, mut sum) = (0, 0);
    for (cell, count) in totals.latency.iter().enumerate() {
        let edge = upper_edge(cell).as_micros();
        while BOUNDS_US.get(at).is_some_and(|bound| edge > u128::from(*bound)) {
            counts[at] = sum;
            at += 1;
        }
        sum += count;
    }
    counts[at..].fill(sum);
    (counts, sum)
}

fn labels_of(series: &Series) -> [(&'static str, &str); 3] {
    [("service", series.service.as_str()), ("version", series.version.as_str()), ("role", series.role.as_str())]
}

fn gauges<'e>(to: &'e mut DescriptorEncoder, name: &'e str, help: &str) -> Result<MetricEncoder<'e>, fmt::Error> {
    to.encode_descriptor(name, help, None, MetricType::Gauge)
}

fn gauge<const N: usize>(
    family: &mut MetricEncoder,
    labels: [(&str, &str); N],
    value: &impl EncodeGaugeValue,
) -> fmt::Result {
    family.encode_family(&labels)?.encode_gauge(value)
}

fn counter<const N: usize>(
    family: &mut MetricEncoder,
    labels: [(&str, &str); N],
    value: &impl EncodeCounterValue,
) -> fmt::Result {
    let no_exemplar: Option<&Exemplar<NoLabelSet, f64>> = None;
    family.encode_family(&labels)?.encode_counter(value, no_exemplar)
}

fn micros(us: u64) -> f64 {
    count_as_f64(us) / 1e6
}

fn seconds(at: Timestamp) -> f64 {
    count_as_f64(at.as_millis()) / 1e3
}

#[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
fn count_as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
