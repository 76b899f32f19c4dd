//! The same counters under the names and labels of other proxies, so that queries that people already have answer from here.
//! An encoder of its own, for the text format 0.0.4: two of the names are counters without `_total`, which OpenMetrics
//! does not allow. Every label comes from the config.
//!
//! Who is who: the canary's workload has the service's name, stable's has `-primary` after it, as Flagger names them;
//! the namespace is `default`.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{
    export::{BOUNDS_US, classic_counts},
    totals::{Series, SeriesTotals, Totals},
};
use crate::engine::{
    names::{Role, ServiceName},
    split::Reason,
    table::Table,
};

/// The content type of the page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Statuses whose series are there from the start, so that a first failure is an increase.
const CODES_FROM_THE_START: [usize; 3] = [200, 500, 503];

/// Whose names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Istio's sidecars.
    Istio,
    /// Linkerd's proxy.
    Linkerd,
    /// ingress-nginx.
    Nginx,
    /// Traefik.
    Traefik,
    /// Envoy, as Contour, Gloo, Kuma and App Mesh label it.
    Envoy,
}

/// The page.
#[must_use]
pub fn encode(dialects: &[Dialect], totals: Totals, table: &Table) -> String {
    let parts = parts(totals, table);
    let mut page = String::new();
    for dialect in dialects {
        match dialect {
            Dialect::Istio => istio(&mut page, &parts),
            Dialect::Linkerd => linkerd(&mut page, &parts),
            Dialect::Nginx => nginx(&mut page, &parts),
            Dialect::Traefik => traefik(&mut page, &parts),
            Dialect::Envoy => envoy(&mut page, &parts),
        }
    }
    page
}

/// One role of one service.
struct Part {
    service: ServiceName,
    is_canary: bool,
    /// The version that has the role now; empty when none has.
    version: String,
    codes: BTreeMap<usize, u64>,
    /// Counts up to each bound, and of all.
    latency: ([u64; BOUNDS_US.len()], u64),
    latency_us: u64,
}

/// Both roles of every service, with zeros where nothing was.
fn parts(totals: Totals, table: &Table) -> Vec<Part> {
    let mut parts = Vec::new();
    for service in &table.services {
        for role in [Role::Stable, Role::Canary] {
            let version = service.versions.iter().find(|version| version.role == role);
            parts.push(Part {
                service: service.name.clone(),
                is_canary: role == Role::Canary,
                version: version.map_or_else(String::new, |version| version.name.to_string()),
                codes: CODES_FROM_THE_START.map(|code| (code, 0)).into(),
                latency: ([0; BOUNDS_US.len()], 0),
                latency_us: 0,
            });
        }
    }
    for (Series { service, role, .. }, of) in totals.series {
        if let Some(part) = parts
            .iter_mut()
            .find(|part| part.service == service && role == if part.is_canary { Role::Canary } else { Role::Stable })
        {
            part.add(&of);
        }
    }
    parts
}

impl Part {
    fn add(&mut self, of: &SeriesTotals) {
        // Of a copy the client knows nothing.
        let seen = of.codes.iter().filter(|((reason, _), _)| Reason::ALL.get(*reason) != Some(&Reason::Mirror));
        for ((_, code), count) in seen {
            *self.codes.entry(*code).or_default() += count;
        }
        let (bounds, all) = classic_counts(of);
        for (sum, count) in self.latency.0.iter_mut().zip(bounds) {
            *sum += count;
        }
        self.latency.1 += all;
        self.latency_us = self.latency_us.saturating_add(of.latency_us);
    }

    /// As Flagger names the workload.
    fn workload(&self) -> String {
        if self.is_canary { self.service.to_string() } else { format!("{}-primary", self.service) }
    }

    /// As Flagger names the Kubernetes service in front of it.
    fn backend(&self) -> String {
        format!("{}-{}", self.service, if self.is_canary { "canary" } else { "primary" })
    }

    fn failures(&self) -> u64 {
        self.codes.iter().filter(|(code, _)| is_failure(**code)).map(|(_, count)| count).sum()
    }

    fn others(&self) -> u64 {
        self.codes.iter().filter(|(code, _)| !is_failure(**code)).map(|(_, count)| count).sum()
    }
}

const fn is_failure(code: usize) -> bool {
    code >= 500 && code <= 599
}

fn istio(page: &mut String, parts: &[Part]) {
    let labels = |part: &Part| {
        format!(
            "reporter=\"destination\",destination_workload=\"{}\",destination_workload_namespace=\"default\",\
             destination_service_name=\"{}\",destination_service_namespace=\"default\",destination_version=\"{}\"",
            part.workload(),
            part.service,
            part.version
        )
    };
    head(page, "istio_requests_total", "counter");
    for part in parts {
        for (code, count) in &part.codes {
            line(page, "istio_requests_total", &format!("{},response_code=\"{code}\"", labels(part)), count);
        }
    }
    head(page, "istio_request_duration_milliseconds", "histogram");
    for part in parts {
        histogram(page, "istio_request_duration_milliseconds", &labels(part), part, 1e3);
    }
}

fn linkerd(page: &mut String, parts: &[Part]) {
    let labels =
        |part: &Part| format!("direction=\"inbound\",namespace=\"default\",deployment=\"{}\"", part.workload());
    head(page, "response_total", "counter");
    for part in parts {
        for (class, count) in [("success", part.others()), ("failure", part.failures())] {
            line(page, "response_total", &format!("{},classification=\"{class}\"", labels(part)), &count);
        }
    }
    head(page, "response_latency_ms", "histogram");
    for part in parts {
        histogram(page, "response_latency_ms", &labels(part), part, 1e3);
    }
}

fn nginx(page: &mut String, parts: &[Part]) {
    let labels = |part: &Part| {
        let (ingress, canary) = if part.is_canary {
            (part.backend(), format!("default-{}-80", part.backend()))
        } else {
            (part.service.to_string(), String::new())
        };
        format!("namespace=\"default\",ingress=\"{ingress}\",service=\"{}\",canary=\"{canary}\"", part.backend())
    };
    head(page, "nginx_ingress_controller_requests", "counter");
    for part in parts {
        for (code, count) in &part.codes {
            line(page, "nginx_ingress_controller_requests", &format!("{},status=\"{code}\"", labels(part)), count);
        }
    }
    let name = "nginx_ingress_controller_ingress_upstream_latency_seconds";
    head(page, name, "summary");
    for part in parts {
        line(page, &format!("{name}_sum"), &labels(part), &seconds(part.latency_us));
        line(page, &format!("{name}_count"), &labels(part), &part.latency.1);
    }
    head(page, "nginx_ingress_controller_response_duration_seconds", "histogram");
    for part in parts {
        histogram(page, "nginx_ingress_controller_response_duration_seconds", &labels(part), part, 1.0);
    }
}

fn traefik(page: &mut String, parts: &[Part]) {
    let labels = |part: &Part, code: usize| {
        let service = format!("default-{}-80@kubernetescrd", part.backend());
        format!("service=\"{service}\",code=\"{code}\",method=\"GET\",protocol=\"http\"")
    };
    head(page, "traefik_service_requests_total", "counter");
    for part in parts {
        for (code, count) in &part.codes {
            line(page, "traefik_service_requests_total", &labels(part, *code), count);
        }
    }
    // Its histogram is by code, ours is not. All answers but failures share one series with all latencies, and failures
    // are slower than every bound: the sums are right, and latency is never made to look better than it is.
    let name = "traefik_service_request_duration_seconds";
    head(page, name, "histogram");
    for part in parts {
        let (good, bad) = (part.others(), part.failures());
        let bucket = format!("{name}_bucket");
        for (code, all, fast) in [(200, good, true), (500, bad, false)] {
            for (bound, count) in BOUNDS_US.iter().zip(part.latency.0) {
                let count = if fast { count.min(all) } else { 0 };
                line(page, &bucket, &format!("{},le=\"{}\"", labels(part, code), seconds(*bound)), &count);
            }
            line(page, &bucket, &format!("{},le=\"+Inf\"", labels(part, code)), &all);
            let sum = if fast { part.latency_us } else { 0 };
            line(page, &format!("{name}_sum"), &labels(part, code), &seconds(sum));
            line(page, &format!("{name}_count"), &labels(part, code), &all);
        }
    }
}

fn envoy(page: &mut String, parts: &[Part]) {
    // Contour, Kuma and App Mesh find one series by different labels; Gloo names the cluster otherwise.
    let labels = |part: &Part| {
        let (backend, workload) = (part.backend(), part.workload());
        [
            format!(
                "envoy_cluster_name=\"default_{backend}_80\",service=\"{backend}_default_svc_80\",\
                 kubernetes_namespace=\"default\",kubernetes_pod_name=\"{workload}-0-0\""
            ),
            format!("envoy_cluster_name=\"default-{backend}-80_gloo-system\""),
        ]
    };
    head(page, "envoy_cluster_upstream_rq", "counter");
    for part in parts {
        for labels in labels(part) {
            for (code, count) in &part.codes {
                line(page, "envoy_cluster_upstream_rq", &format!("{labels},envoy_response_code=\"{code}\""), count);
            }
        }
    }
    head(page, "envoy_cluster_upstream_rq_time", "histogram");
    for part in parts {
        for labels in labels(part) {
            histogram(page, "envoy_cluster_upstream_rq_time", &labels, part, 1e3);
        }
    }
}

/// All latencies of a part, in units of which a second has `per_second`.
fn histogram(page: &mut String, name: &str, labels: &str, part: &Part, per_second: f64) {
    let bucket = format!("{name}_bucket");
    for (bound, count) in BOUNDS_US.iter().zip(part.latency.0) {
        line(page, &bucket, &format!("{labels},le=\"{}\"", seconds(*bound) * per_second), &count);
    }
    line(page, &bucket, &format!("{labels},le=\"+Inf\""), &part.latency.1);
    line(page, &format!("{name}_sum"), labels, &(seconds(part.latency_us) * per_second));
    line(page, &format!("{name}_count"), labels, &part.latency.1);
}

fn head(page: &mut String, name: &str, kind: &str) {
    let _ = writeln!(page, "# TYPE {name} {kind}");
}

fn line(page: &mut String, name: &str, labels: &str, value: &dyn std::fmt::Display) {
    let _ = writeln!(page, "{name}{{{labels}}} {value}");
}

#[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
