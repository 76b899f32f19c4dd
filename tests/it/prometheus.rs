//! A real Prometheus scrapes a scripted rollout: every query of the dashboard and the rules has an answer, and the queries
//! that people bring from elsewhere say what ours say.
#![expect(clippy::unwrap_used, reason = "a scenario that cannot go on fails")]

use std::{
    fs,
    num::NonZeroU32,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::Value;
use serin::demo::{
    load::{Load, LoadSpec},
    toy::{Failing, Toy, ToySpec},
};

use crate::harness::{Client, Serin, eventually, free_port};

pub struct Prometheus {
    pub port: u16,
    child: Child,
    _dir: tempfile::TempDir,
}

fn in_project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

impl Prometheus {
    /// Scrapes both pages every second; none, and said loudly, where the machine has none.
    pub fn start(metrics: u16) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let rules = in_project("config/prometheus-rules.yaml");
        let config = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}\nrule_files: [{}]\nscrape_configs:\n\
             \x20 - {{ job_name: serin, static_configs: [{{ targets: ['127.0.0.1:{metrics}'] }}] }}\n\
             \x20 - {{ job_name: compat, metrics_path: /metrics/compat, static_configs: [{{ targets: ['127.0.0.1:{metrics}'] }}] }}\n",
            rules.display()
        );
        fs::write(dir.path().join("prometheus.yml"), config).unwrap();
        let port = free_port();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", dir.path().join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            eprintln!("PROMETHEUS IS ABSENT: no query is tried; `.ci/run` installs prometheus");
            return None;
        };
        let prometheus = Self { port, child, _dir: dir };
        eventually("prometheus", || Client::get(port, "/-/ready").ok().filter(|answer| answer.status == 200));
        Some(prometheus)
    }

    /// The values that a query has now.
    fn values(&self, query: &str) -> Vec<f64> {
        let answer = self.api(&format!("/api/v1/query?query={}", encoded(query)));
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        let results = answer["data"]["result"].as_array().unwrap();
        results.iter().filter_map(|result| result["value"][1].as_str()?.parse().ok()).collect()
    }

    /// The one number that a query has, once it has one.
    fn number(&self, query: &str) -> f64 {
        eventually(query, || self.values(query).first().copied().filter(|value| value.is_finite()))
    }

    fn api(&self, path: &str) -> Value {
        serde_json::from_slice(&Client::get(self.port, path).unwrap().body).unwrap()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Half of the traffic to a canary that fails each fourth request, with no limit that would take it back.
fn scene() -> (Serin, u16, [Toy; 2], Load) {
    let toy = |name: &str, failing| {
        let spec = ToySpec { failing, ..ToySpec::new(name, "127.0.0.1:0".parse().unwrap()) };
        Toy::start(spec).unwrap()
    };
    let toys = [toy("v1", Failing::Never), toy("v2", Failing::Every(NonZeroU32::new(4).unwrap()))];
    let metrics = free_port();
    let serin = Serin::start(&format!(
        "metrics: {{ listen: 127.0.0.1:{metrics}, compat: [istio, linkerd, nginx, traefik, envoy] }}\nservices:\n  web:\n\
         \x20   versions: {{ v1: \"http://{}\", v2: \"http://{}\" }}\n    stable: v1\n    canary: v2\n    strategy:\n      canary:\n\
         \x20       steps: [{{ setWeight: 50% }}, {{ pause: {{}} }}]\n        guard:\n          errorRate: {{ max: 90%, window: 10s, minRequests: 50 }}\n\
         \x20         versusStable: {{ errors: {{ relative: 1000000, absolute: 90pp }} }}\n",
        toys[0].address(),
        toys[1].address()
    ));
    let load = Load::start(LoadSpec::new(format!("http://127.0.0.1:{}/", serin.port).parse().unwrap(), 100.0)).unwrap();
    (serin, metrics, toys, load)
}

/// What Flagger asks of each kind of proxy for a canary `web` in the namespace `default`: selector, failures excluded by.
const SUCCESS_RATES: [(&str, &str, &str, &str); 8] = [
    (
        "istio",
        "istio_requests_total",
        r#"reporter="destination",destination_workload_namespace="default",destination_workload=~"web""#,
        r#"response_code!~"5.*""#,
    ),
    (
        "linkerd",
        "response_total",
        r#"namespace="default",deployment=~"web",direction="inbound""#,
        r#"classification!="failure""#,
    ),
    ("nginx", "nginx_ingress_controller_requests", r#"namespace="default",ingress="web-canary""#, r#"status!~"5.*""#),
    (
        "traefik",
        "traefik_service_request_duration_seconds_bucket",
        r#"service=~"default-web-canary-[0-9a-zA-Z-]+@kubernetescrd",le="+Inf""#,
        r#"code!~"5..""#,
    ),
    (
        "contour",
        "envoy_cluster_upstream_rq",
        r#"envoy_cluster_name=~"default_web-canary_[0-9a-zA-Z-]+""#,
        r#"envoy_response_code!~"5.*""#,
    ),
    (
        "gloo",
        "envoy_cluster_upstream_rq",
        r#"envoy_cluster_name=~"default-web-canary-[0-9a-zA-Z-]+_[0-9a-zA-Z-]+""#,
        r#"envoy_response_code!~"5.*""#,
    ),
    (
        "kuma",
        "envoy_cluster_upstream_rq",
        r#"service=~"web-canary_default_svc_[0-9a-zA-Z-]+""#,
        r#"envoy_response_code!~"5.*""#,
    ),
    (
        "app mesh",
        "envoy_cluster_upstream_rq",
        r#"kubernetes_namespace="default",kubernetes_pod_name=~"web-[0-9a-zA-Z]+(-[0-9a-zA-Z]+)""#,
        r#"envoy_response_code!~"5.*""#,
    ),
];

/// The same for the 99th percentile: histogram, selector, how many of its units are a second.
const DURATIONS: [(&str, &str, &str, f64); 6] = [
    (
        "istio",
        "istio_request_duration_milliseconds",
        r#"reporter="destination",destination_workload_namespace="default",destination_workload=~"web""#,
        1e3,
    ),
    ("linkerd", "response_latency_ms", r#"namespace="default",deployment=~"web",direction="inbound""#, 1e3),
    ("nginx", "nginx_ingress_controller_response_duration_seconds", r#"namespace="default",ingress="web-canary""#, 1.0),
    ("contour", "envoy_cluster_upstream_rq_time", r#"envoy_cluster_name=~"default_web-canary_[0-9a-zA-Z-]+""#, 1e3),
    (
        "gloo",
        "envoy_cluster_upstream_rq_time",
        r#"envoy_cluster_name=~"default-web-canary-[0-9a-zA-Z-]+_[0-9a-zA-Z-]+""#,
        1e3,
    ),
    (
        "app mesh",
        "envoy_cluster_upstream_rq_time",
        r#"kubernetes_namespace="default",kubernetes_pod_name=~"web-[0-9a-zA-Z]+(-[0-9a-zA-Z]+)""#,
        1e3,
    ),
];

fn flaggers_queries_answer(prometheus: &Prometheus) {
    for (whose, name, of, good) in SUCCESS_RATES {
        let query = format!("sum(rate({name}{{{of},{good}}}[1m])) / sum(rate({name}{{{of}}}[1m])) * 100");
        let rate = prometheus.number(&query);
        assert!((70.0..=80.0).contains(&rate), "{whose}: {rate}, and three of four succeed");
    }
    let own = prometheus.number(
        r#"histogram_quantile(0.99, sum(rate(serin_request_duration_seconds_bucket{role="canary"}[1m])) by (le))"#,
    );
    for (whose, name, of, per_second) in DURATIONS {
        let p99 = prometheus.number(&format!("histogram_quantile(0.99, sum(rate({name}_bucket{{{of}}}[1m])) by (le))"));
        assert!((p99 / per_second - own).abs() <= own.max(0.005), "{whose}: {p99} and ours is {own}");
    }
    let mean = "nginx_ingress_controller_ingress_upstream_latency_seconds";
    let of = r#"{namespace="default",ingress="web-canary"}"#;
    assert!(
        prometheus.number(&format!("sum(rate({mean}_sum{of}[1m])) / sum(rate({mean}_count{of}[1m])) * 1000")) > 0.0
    );
    let traefik =
        r#"traefik_service_request_duration_seconds_bucket{service=~"default-web-canary-[0-9a-zA-Z-]+@kubernetescrd"}"#;
    let p99 = prometheus.number(&format!("histogram_quantile(0.99, sum(rate({traefik}[1m])) by (le))"));
    assert!(p99 >= own, "traefik: {p99}: failures count as slow");
}

/// Everything that the dashboard asks.
fn dashboards_queries() -> Vec<String> {
    let text = fs::read_to_string(in_project("config/grafana-dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries: Vec<_> = targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect();
    assert!(queries.len() >= 15);
    let filled =
        |query: String| query.replace("$service", ".*").replace("$job", ".*").replace("$__rate_interval", "1m");
    queries.into_iter().map(filled).collect()
}

#[test]
fn every_query_of_dashboard_rules_and_others_answers_from_a_rollout() {
    let (serin, metrics, _toys, _load) = scene();
    let Some(prometheus) = Prometheus::start(metrics) else { return };
    for query in dashboards_queries() {
        eventually(&query, || prometheus.values(&query).iter().any(|value| value.is_finite()).then_some(()));
    }
    for variable in ["serin_rollout_phase", "serin_build_info"] {
        assert!(!prometheus.values(variable).is_empty());
    }
    flaggers_queries_answer(&prometheus);

    let rules = prometheus.api("/api/v1/rules");
    let rules = rules["data"]["groups"][0]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), 7);
    for rule in rules {
        let query = rule["query"].as_str().unwrap();
        // What an alert compares has values; whether it fires is another matter.
        let compared = if rule["type"] == "alerting" {
            query.rsplit_once([' ']).unwrap().0.trim_end_matches(['=', '>', ' '])
        } else {
            query
        };
        eventually(compared, || (!prometheus.values(compared).is_empty()).then_some(()));
    }
    assert!(serin.cli(&["abort", "web"]).status.success());
    serin.write("services: 1\n");
    eventually("the alerts", || {
        let alerts = prometheus.api("/api/v1/alerts");
        let names: Vec<_> =
            alerts["data"]["alerts"].as_array()?.iter().map(|alert| alert["labels"]["alertname"].clone()).collect();
        (names.contains(&"SerinRolloutAborted".into()) && names.contains(&"SerinConfigRefused".into())).then_some(())
    });
    let rules = prometheus.api("/api/v1/rules");
    for rule in rules["data"]["groups"][0]["rules"].as_array().unwrap() {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
}
