//! The page is read back by a strict reader of the OpenMetrics text format: what it accepts, Prometheus accepts.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use super::*;
use crate::{
    engine::{
        analysis::{
            ask::RunKind,
            record::{MetricRecord, RunRecord, Tally},
            run::AnalysisPhase,
        },
        endpoint::{Endpoint, InUse, UpstreamHttp},
        failure::{FailurePlan, Retry},
        mirror::MirrorRoute,
        names::{Generation, Revision, Role, ServiceName, VersionName},
        samples::Counts,
        split::Split,
        table::{ServiceTable, Timeouts, VersionTable},
        view::{RolloutView, Verdict, VersionView},
        weight::Weight,
    },
    measure::{
        Hub, compat,
        copies::CopyEnd,
        slot::{Finished, SlotKey},
    },
};

fn service() -> ServiceName {
    ServiceName::new("web").unwrap()
}

fn version(name: &str) -> VersionName {
    VersionName::new(name).unwrap()
}

fn table() -> Table {
    let five = Weight::from_ppm(50_000).unwrap();
    let of = |name: &str, role, weight| VersionTable {
        name: version(name),
        role,
        weight,
        endpoints: vec![Endpoint::tcp("app", 80); 2],
        http: UpstreamHttp::H1,
        upstream: Arc::default(),
        in_use: InUse::All,
        filters: Arc::default(),
    };
    let service = ServiceTable {
        name: service(),
        weight_generation: Generation(3),
        versions: vec![of("v1", Role::Stable, five.rest()), of("v2", Role::Canary, five)],
        stable: 0,
        canary: Some(1),
        split: Split::new(&[(1, five), (0, five.rest())]).unwrap(),
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
    Table::new(Generation(3), vec![service])
}

fn check(name: &str, unit: Unit, value: Option<f64>) -> CheckView {
    CheckView {
        name: name.to_owned(),
        verdict: Verdict::Pass,
        value,
        limit: 0.5,
        unit,
        requests: 12,
        min_requests: 10,
        stable: None,
    }
}

fn run(phase: AnalysisPhase) -> Arc<RunRecord> {
    let tally = Tally { count: 3, successful: 2, failed: 1, ..Tally::default() };
    let metric = MetricRecord {
        name: "p95".to_owned(),
        phase,
        message: String::new(),
        dry_run: false,
        tally,
        measurements: Vec::new(),
    };
    Arc::new(RunRecord {
        revision: Revision(7),
        kind: RunKind::Background,
        step: 1,
        templates: Vec::new(),
        phase,
        message: String::new(),
        started: Timestamp::default(),
        completed: None,
        expires: None,
        metrics: vec![metric],
    })
}

fn view() -> View {
    let rollout = RolloutView {
        started: Timestamp::default(),
        step: 2,
        steps: vec!["setWeight 5%".to_owned(), "pause 1m".to_owned(), "setWeight 50%".to_owned()],
        header_routes: Vec::new(),
        mirror_routes: Vec::new(),
        in_step: Duration::ZERO,
        waiting: Vec::new(),
        checks: vec![
            check("p99", Unit::Seconds, Some(0.25)),
            check("p99", Unit::Seconds, None),
            check("odd \"name\"\nwith\\all", Unit::Count, Some(f64::INFINITY)),
            check("versusStable", Unit::LogEvidence, Some(-1.5)),
        ],
        forecast: None,
    };
    let measured = VersionView {
        added_at: None,
        name: version("v2"),
        role: Role::Canary,
        weight: Weight::from_ppm(50_000).unwrap(),
        measured: Some(0.0625),
        window: Duration::from_secs(10),
        counts: Counts::default(),
        rps: 1.0,
        p50: None,
        p95: None,
        p99: None,
        endpoints: Vec::new(),
    };
    let service = ServiceView {
        name: service(),
        phase: PhaseView::Progressing,
        phase_reason: None,
        revision: Revision(7),
        stable: version("v1"),
        canary: Some(version("v2")),
        rollout: Some(rollout),
        undo_to: None,
        versions: vec![measured],
        last_event: None,
        analysis_runs: vec![run(AnalysisPhase::Failed), run(AnalysisPhase::Running)],
    };
    View { at: Timestamp::default(), generation: Generation(3), services: vec![service] }
}

fn input(totals: Totals) -> ExportInput {
    ExportInput {
        totals,
        table: Arc::new(table()),
        view: Arc::new(view()),
        reloads: Reloads {
            in_force: false,
            loaded: Timestamp::from_millis(1_700_000_000_500),
            loads: 3,
            failures: 1,
            state_writable: true,
        },
        notify: vec![ReceiverTotals { receiver: "1-slack".to_owned(), pending: 2, delivered: 5, failures: 1 }],
        started: Timestamp::from_millis(1_700_000_000_000),
        process: ProcessFacts { resident_bytes: Some(8_000_000), open_fds: Some(12) },
    }
}

#[test]
fn the_latest_run_of_each_kind_is_told_by_metric() {
    let page = encode(input(Totals::default()));
    for (series, value) in [
        (r#"serin_analysis_runs{service="web",phase="Failed"}"#, 1),
        (r#"serin_analysis_runs{service="web",phase="Error"}"#, 0),
        (r#"serin_analysis_measurements{service="web",kind="background",metric="p95",verdict="Successful"}"#, 2),
        (r#"serin_analysis_metric_phase{service="web",kind="background",metric="p95",phase="Running"}"#, 1),
        (r#"serin_analysis_metric_phase{service="web",kind="background",metric="p95",phase="Failed"}"#, 0),
    ] {
        assert!(page.contains(&format!("{series} {value}\n")), "{series} {value}\n{page}");
    }
}

#[test]
fn every_number_of_the_input_is_on_the_page() {
    let hub = Hub::new(2);
    for worker in 0..2 {
        let key = SlotKey {
            service: service(),
            version: version("v2"),
            role: Role::Canary,
            weight_generation: Generation(3),
        };
        let slot = hub.recorder(worker).slot(key);
        let finished = |status, ending, ms| {
            slot.finished(Finished { reason: Reason::Sampled, status, ending, latency: Duration::from_millis(ms) });
        };
        finished(200, Ending::Answered, 4);
        finished(418, Ending::Answered, 60);
        finished(502, Ending::ConnectFailed, 20_000);
    }
    hub.refused(0, RefusedReason::BadRequest);
    hub.refused(1, RefusedReason::BadRequest);
    let page = Samples::read(&encode(input(hub.totals())));
    let v2 = r#"service="web",version="v2",role="canary""#;
    for (series, value) in [
        (format!(r#"serin_requests_total{{{v2},code="200",reason="sampled"}}"#), 2.0),
        (format!(r#"serin_requests_total{{{v2},code="418",reason="sampled"}}"#), 2.0),
        (format!(r#"serin_requests_total{{{v2},code="503",reason="sampled"}}"#), 0.0),
        (format!(r#"serin_attempts_total{{{v2},outcome="connect_failed"}}"#), 2.0),
        (format!(r#"serin_attempts_total{{{v2},outcome="reset"}}"#), 0.0),
        (format!("serin_request_duration_seconds_count{{{v2}}}"), 6.0),
        (format!("serin_request_duration_seconds_sum{{{v2}}}"), 40.128),
        (format!(r#"serin_request_duration_seconds_bucket{{le="0.0025",{v2}}}"#), 0.0),
        (format!(r#"serin_request_duration_seconds_bucket{{le="0.005",{v2}}}"#), 2.0),
        (format!(r#"serin_request_duration_seconds_bucket{{le="0.075",{v2}}}"#), 4.0),
        (format!(r#"serin_request_duration_seconds_bucket{{le="10.0",{v2}}}"#), 4.0),
        (format!(r#"serin_request_duration_seconds_bucket{{le="+Inf",{v2}}}"#), 6.0),
        (r#"serin_refused_total{reason="bad_request"}"#.to_owned(), 2.0),
        (r#"serin_refused_total{reason="connection_limit"}"#.to_owned(), 0.0),
        (format!("serin_weight_ratio{{{v2}}}"), 0.05),
        (r#"serin_weight_ratio{service="web",version="v1",role="stable"}"#.to_owned(), 0.95),
        (format!("serin_share_ratio{{{v2}}}"), 0.0625),
        (r#"serin_endpoints{service="web",version="v1",state="healthy"}"#.to_owned(), 2.0),
        (r#"serin_rollout_phase{service="web",phase="Progressing"}"#.to_owned(), 1.0),
        (r#"serin_rollout_phase{service="web",phase="Healthy"}"#.to_owned(), 0.0),
        (r#"serin_rollout_step{service="web"}"#.to_owned(), 2.0),
        (r#"serin_rollout_steps{service="web"}"#.to_owned(), 3.0),
        (r#"serin_rollout_revision{service="web"}"#.to_owned(), 7.0),
        (r#"serin_share_test_log_e{service="web"}"#.to_owned(), -1.5),
        (r#"serin_check_value{service="web",check="p99"}"#.to_owned(), 0.25),
        (r#"serin_check_limit{service="web",check="p99#2"}"#.to_owned(), 0.5),
        (r#"serin_check_requests{service="web",check="p99#2"}"#.to_owned(), 12.0),
        ("serin_config_last_reload_successful".to_owned(), 0.0),
        ("serin_config_last_reload_success_timestamp_seconds".to_owned(), 1_700_000_000.5),
        (r#"serin_config_reloads_total{result="success"}"#.to_owned(), 3.0),
        (r#"serin_config_reloads_total{result="failure"}"#.to_owned(), 1.0),
        (format!(r#"serin_build_info{{version="{}"}}"#, env!("CARGO_PKG_VERSION")), 1.0),
        ("process_resident_memory_bytes".to_owned(), 8_000_000.0),
        ("process_open_fds".to_owned(), 12.0),
        ("process_start_time_seconds".to_owned(), 1_700_000_000.0),
    ] {
        assert_eq!(page.value(&series), Some(value), "{series}");
    }
    assert_eq!(page.value(r#"serin_check_value{service="web",check="p99#2"}"#), None, "no data, no value");
}

/// Beside their reason among the requests, copies have names of their own, and none of the numbers that judge.
#[test]
fn copies_are_told_apart_and_count_for_nothing_else() {
    let mut mirrored = input(Totals::default());
    assert!(!encode(mirrored.clone()).contains("serin_mirror_total{"), "few ever have copies");
    let mut table = table();
    table.services[0].mirror_routes =
        vec![MirrorRoute { name: "shadow".into(), share: Weight::FULL, matches: Vec::new() }];
    mirrored.table = Arc::new(table);
    let v2 = r#"service="web",version="v2",role="canary""#;
    let page = Samples::read(&encode(mirrored.clone()));
    assert_eq!(page.value(&format!(r#"serin_mirror_total{{{v2},outcome="dropped_busy"}}"#)), Some(0.0));
    let hub = Hub::new(1);
    let key =
        SlotKey { service: service(), version: version("v2"), role: Role::Canary, weight_generation: Generation(3) };
    let slot = hub.recorder(0).slot(key);
    for end in [CopyEnd::Answered, CopyEnd::Answered, CopyEnd::TimedOut, CopyEnd::TooLarge] {
        slot.copied(end);
    }
    slot.served(Reason::Mirror, 500);
    slot.compared(true, None);
    slot.compared(false, Some((Duration::from_millis(20), Duration::from_millis(500))));
    mirrored.totals = hub.totals();
    let page = Samples::read(&encode(mirrored));
    for (series, value) in [
        (format!(r#"serin_mirror_total{{{v2},outcome="answered"}}"#), 2.0),
        (format!(r#"serin_mirror_total{{{v2},outcome="timed_out"}}"#), 1.0),
        (format!(r#"serin_mirror_total{{{v2},outcome="dropped_too_large"}}"#), 1.0),
        (format!(r#"serin_mirror_compared_total{{{v2},status="same"}}"#), 1.0),
        (format!(r#"serin_mirror_compared_total{{{v2},status="other"}}"#), 1.0),
        (format!(r#"serin_mirror_latency_seconds_total{{{v2},of="original"}}"#), 0.02),
        (format!(r#"serin_mirror_latency_seconds_total{{{v2},of="copy"}}"#), 0.5),
        (format!(r#"serin_requests_total{{{v2},code="500",reason="mirror"}}"#), 1.0),
        (format!(r#"serin_attempts_total{{{v2},outcome="timed_out"}}"#), 0.0),
        (format!("serin_request_duration_seconds_count{{{v2}}}"), 0.0),
    ] {
        assert_eq!(page.value(&series), Some(value), "{series}");
    }
    // What other tools see of the version is what its clients see.
    let compat = compat::encode(&[compat::Dialect::Istio], hub.totals(), &self::table());
    let failed: Vec<&str> = compat.lines().filter(|line| line.contains("response_code=\"500\"")).collect();
    assert!(!failed.is_empty() && failed.iter().all(|line| line.ends_with(" 0")), "{failed:#?}");
}

#[test]
fn both_versions_have_series_before_the_first_request() {
    let page = Samples::read(&encode(input(Totals::default())));
    for (version, role) in [("v1", "stable"), ("v2", "canary")] {
        let labels = format!(r#"service="web",version="{version}",role="{role}""#);
        for code in CODES_FROM_THE_START {
            let series = format!(r#"serin_requests_total{{{labels},code="{code}",reason="sampled"}}"#);
            assert_eq!(page.value(&series), Some(0.0), "{series}");
        }
        for ending in Ending::ALL {
            let series = format!(r#"serin_attempts_total{{{labels},outcome="{}"}}"#, ending.as_str());
            assert_eq!(page.value(&series), Some(0.0), "{series}");
        }
        assert_eq!(page.value(&format!("serin_request_duration_seconds_count{{{labels}}}")), Some(0.0));
    }
}

#[test]
fn each_latency_is_under_its_bound_and_at_most_one_bound_late() {
    for us in [0, 1, 999, 1_000, 1_001, 2_400, 2_500, 99_000, 1_000_000, 9_990_000, 10_000_000, 500_000_000] {
        let mut totals = SeriesTotals::default();
        totals.latency[crate::engine::stats::latency::bucket_of(Duration::from_micros(us))] = 1;
        let (buckets, count) = classic_buckets(&totals);
        assert_eq!(count, 1);
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), 1);
        let bound = buckets.iter().find(|(_, count)| *count == 1).unwrap().0;
        assert!(micros(us) <= bound, "{us} under {bound}");
        let slack = buckets.iter().find(|(bound, _)| micros(us) * 1.032 <= *bound).unwrap().0;
        assert!(bound <= slack, "{us} under {bound}, expected {slack} at most");
    }
}

/// A page as a strict reader sees it.
struct Samples(HashMap<String, f64>);

impl Samples {
    /// Panics at what the OpenMetrics 1.0 text format does not allow: a sample outside its family, a wrong suffix
    /// for the type, a repeated family or series, a falling histogram, a bad escape, a missing end marker.
    fn read(page: &str) -> Self {
        let body = page.strip_suffix("# EOF\n").expect("ends with the end marker");
        let mut families = HashSet::new();
        let (mut family, mut kind) = (String::new(), String::new());
        let mut samples = HashMap::new();
        let mut bucket: Option<(String, f64, f64)> = None;
        for line in body.lines() {
            if let Some(descriptor) = line.strip_prefix("# ") {
                let mut words = descriptor.splitn(3, ' ');
                let (what, name, rest) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
                match what {
                    "HELP" => assert!(families.insert(name.to_owned()), "{name} comes twice"),
                    "TYPE" => (family, kind) = (name.to_owned(), rest.to_owned()),
                    "UNIT" => assert!(name == family && name.ends_with(&format!("_{rest}")), "{line}"),
                    _ => panic!("{line}"),
                }
                continue;
            }
            let (series, value) = line.rsplit_once(' ').expect(line);
            let value: f64 = value.parse().expect(line);
            let (name, labels) = series.split_once('{').map_or((series, Vec::new()), |(name, labels)| {
                (name, read_labels(labels.strip_suffix('}').expect(line)))
            });
            let suffix = name.strip_prefix(family.as_str()).expect(line);
            match (kind.as_str(), suffix) {
                ("counter", "_total") | ("histogram", "_count" | "_sum") => assert!(value >= 0.0, "{line}"),
                ("gauge", "") | ("info", "_info") => {}
                ("histogram", "_bucket") => {
                    let (le, others): (Vec<_>, Vec<_>) = labels.iter().partition(|(name, _)| name == "le");
                    let bound = le[0].1.replace("+Inf", "inf").parse().expect(line);
                    let of = format!("{name}{others:?}");
                    if let Some((_, last_bound, count)) = bucket.filter(|(last, ..)| *last == of) {
                        assert!(last_bound < bound && count <= value, "{line}");
                    }
                    bucket = Some((of, bound, value));
                }
                _ => panic!("{line} in a {kind}"),
            }
            assert!(samples.insert(series.to_owned(), value).is_none(), "{series} comes twice");
        }
        Self(samples)
    }

    fn value(&self, series: &str) -> Option<f64> {
        self.0.get(series).copied()
    }
}

fn read_labels(mut text: &str) -> Vec<(String, String)> {
    let mut labels = Vec::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").expect(text);
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{name}");
        let mut value = String::new();
        let mut chars = rest.char_indices();
        let end = loop {
            match chars.next().expect("a label value ends") {
                (at, '"') => break at,
                (_, '\\') => match chars.next() {
                    Some((_, c @ ('\\' | '"'))) => value.push(c),
                    Some((_, 'n')) => value.push('\n'),
                    other => panic!("bad escape {other:?} in {text}"),
                },
                (_, c) => value.push(c),
            }
        };
        assert!(labels.iter().all(|(other, _)| other != name), "{name} comes twice");
        labels.push((name.to_owned(), value));
        text = &rest[end + 1..];
        text = text.strip_prefix(',').unwrap_or(text);
    }
    labels
}
