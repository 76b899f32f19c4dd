//! How a version's endpoints are used: their addresses, whose turn it is, limits, and TLS.
//! Refuses what cannot hold for all endpoints of a version, and files that a handshake would fail on.

use std::{ops::RangeInclusive, path::Path, sync::Arc, time::Duration};

use super::{
    diagnostic::Code,
    file::below,
    health,
    listener::file_fault,
    report::{At, Fields, Problem, Report},
    shape,
};
use crate::{
    engine::{
        endpoint::{Endpoint, Site, UpstreamHttp},
        filter::BothWays,
        upstream::{Balancing, UpstreamLimits, UpstreamPlan, UpstreamTls},
    },
    tls::{Authorities, Pair, Part},
};

/// Most endpoints of a version.
pub const ENDPOINTS_MAX: usize = 1_000;
const SLOW_START: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_hours(1);

/// Where a version answers, and how it is asked.
#[derive(Debug)]
pub struct Upstream {
    pub endpoints: Vec<Endpoint>,
    pub http: UpstreamHttp,
    pub plan: UpstreamPlan,
    pub filters: Arc<BothWays>,
}

/// A version that is a URL alone.
pub fn short(at: &At<'_>, report: &mut Report) -> Option<Upstream> {
    let Site { endpoint, is_tls } = report.endpoint(at)?;
    let plan = UpstreamPlan { tls: is_tls.then(Arc::default), ..UpstreamPlan::default() };
    Some(Upstream { endpoints: vec![endpoint], http: meant(UpstreamHttp::Auto, is_tls), plan, filters: Arc::default() })
}

/// A version in full; files are relative to `folder`.
pub fn full(fields: &Fields<'_>, folder: &Path, report: &mut Report) -> Option<Upstream> {
    let endpoints = fields
        .need(report, "endpoints", "say where it answers: `endpoints: [http://host:port]`")
        .and_then(|at| endpoints(&at, report));
    let words = [("auto", UpstreamHttp::Auto), ("h1", UpstreamHttp::H1), ("h2", UpstreamHttp::H2)];
    let http = fields.get("http").map_or(Some(UpstreamHttp::Auto), |at| report.word(&at, &words));
    let words = [
        ("leastRequest", Balancing::LeastRequest),
        ("roundRobin", Balancing::RoundRobin),
        ("random", Balancing::Random),
        ("ringHash", Balancing::RingHash),
    ];
    let balancing = fields.get("loadBalancing").map_or(Some(Balancing::default()), |at| report.word(&at, &words));
    let limits = fields.get("limits").map_or(Some(UpstreamLimits::default()), |at| limits(&at, report));
    let slow_start = fields.get("slowStart").map_or(Some(Duration::ZERO), |at| report.duration(&at, SLOW_START));
    let health = fields.get("health").map(|at| health::health(&at, report));
    let ejection = fields.get("ejection").map(|at| health::ejection(&at, report));
    let tls_at = fields.get("tls");
    let tls = tls_at.as_ref().map(|at| tls(at, folder, report));
    let (endpoints, is_tls) = endpoints?;
    if let Some(at) = tls_at.filter(|_| !is_tls) {
        report
            .error(Code::Conflict, &at.key_span, "`tls` is for endpoints that begin with `https://`")
            .help("write the endpoints as `https://host:port`, or remove `tls`");
    }
    let tls = match tls {
        Some(tls) => Some(Arc::new(tls?)),
        None => is_tls.then(Arc::default),
    };
    let health = if let Some(health) = health { Some(health?) } else { None };
    let ejection = if let Some(ejection) = ejection { Some(ejection?) } else { None };
    let plan = UpstreamPlan { balancing: balancing?, limits: limits?, slow_start: slow_start?, tls, health, ejection };
    Some(Upstream { endpoints, http: meant(http?, is_tls), plan, filters: Arc::default() })
}

/// Without TLS nothing is agreed on: that is HTTP/1.1 then.
const fn meant(written: UpstreamHttp, is_tls: bool) -> UpstreamHttp {
    match written {
        UpstreamHttp::Auto if !is_tls => UpstreamHttp::H1,
        written => written,
    }
}

/// All of them, and whether they are asked by TLS.
fn endpoints(at: &At<'_>, report: &mut Report) -> Option<(Vec<Endpoint>, bool)> {
    let items = report.items(at, ENDPOINTS_MAX)?;
    let mut read: Vec<Endpoint> = Vec::new();
    let mut first_scheme = None;
    for item in &items {
        let Some(Site { endpoint, is_tls }) = report.endpoint(item) else { continue };
        if read.contains(&endpoint) {
            report.error(Code::Conflict, &item.span(), "this endpoint is in the list twice").help("keep one of them");
        }
        if *first_scheme.get_or_insert(is_tls) != is_tls {
            report
                .error(Code::Conflict, &item.span(), "the endpoints of a version are either all `https://` or none")
                .help("write them alike, or make two versions of it");
        }
        read.push(endpoint);
    }
    (read.len() == items.len()).then_some((read, first_scheme?))
}

fn limits(at: &At<'_>, report: &mut Report) -> Option<UpstreamLimits> {
    let fields = report.fields(at, &shape::UPSTREAM_LIMITS)?;
    let base = UpstreamLimits::default();
    let connections = fields.get("connections").map_or(Some(base.connections), |at| count(&at, 1, report));
    let pending = fields.get("pending").map_or(Some(base.pending), |at| count(&at, 0, report));
    Some(UpstreamLimits { connections: connections?, pending: pending? })
}

fn count(at: &At<'_>, min: u64, report: &mut Report) -> Option<u32> {
    report.whole(at, min..=1_000_000).and_then(|count| u32::try_from(count).ok())
}

fn tls(at: &At<'_>, folder: &Path, report: &mut Report) -> Option<UpstreamTls> {
    let fields = report.fields(at, &shape::UPSTREAM_TLS)?;
    let mut is_right = true;
    let ca = fields.get("ca").and_then(|at| {
        let path = report.filled(&at, "a file such as `ca.crt`").map(|text| below(folder, &text));
        let fault = path.as_ref().and_then(|path| Authorities::read(path).err());
        if let Some(fault) = &fault {
            file_fault(&at, fault, report);
        }
        is_right &= path.is_some() && fault.is_none();
        path
    });
    let sni = fields.get("sni").and_then(|at| {
        let name = report.scalar(&at, "a host's name", server_name);
        is_right &= name.is_some();
        name
    });
    let identity = match (fields.get("cert"), fields.get("key")) {
        (None, None) => None,
        (Some(cert), Some(key)) => Some(identity(&cert, &key, folder, report)?),
        (Some(alone), None) | (None, Some(alone)) => {
            let other = if alone.name == "cert" { "key" } else { "cert" };
            report
                .error(Code::Conflict, &alone.key_span, format!("`{}` needs `{other}` beside it", alone.name))
                .help("name both: `cert: client.crt, key: client.key`");
            return None;
        }
    };
    is_right.then_some(UpstreamTls { ca, sni, identity })
}

fn identity(
    cert_at: &At<'_>,
    key_at: &At<'_>,
    folder: &Path,
    report: &mut Report,
) -> Option<(std::path::PathBuf, std::path::PathBuf)> {
    let cert = report.filled(cert_at, "a file such as `client.crt`").map(|text| below(folder, &text));
    let key = report.filled(key_at, "a file such as `client.key`").map(|text| below(folder, &text));
    let (cert, key) = (cert?, key?);
    if let Err(fault) = Pair::read(&cert, &key) {
        file_fault(if fault.part == Part::Key { key_at } else { cert_at }, &fault, report);
        return None;
    }
    Some((cert, key))
}

fn server_name(text: &str) -> Result<Arc<str>, Problem> {
    rustls::pki_types::ServerName::try_from(text)
        .map(|_| text.into())
        .map_err(|_| Problem::new("is not a host's name", "write the name that the certificate has, as `app.example`"))
}
