//! The top of the file: who may ask, where to remember, and which parts hold the services.
//! Refuses addresses that clash and an admin listener that strangers could reach without a token.

use std::{
    net::{Ipv4Addr, SocketAddr},
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{
    diagnostic::{Code, Span},
    lint, listener, message, notify,
    report::{At, Problem, Report},
    route, service,
    settings::{AccessLog, Admin, AdminAddress, Compat, Config, Listener, Secret, State},
    shape, template, tracing,
    yaml::{Node, Value},
};
use crate::engine::{address::Network, filter::Scheme, route::Routes};

const ADMIN_DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9900);
/// It says what the ordinary path says, at less cost.
const FAST_PATH_DEFAULT: bool = true;
/// Longest path of a Unix socket: what the system takes, without the few characters of the name it is made under.
const SOCKET_PATH_BYTES_MAX: usize = 100;
const SECOND: Duration = Duration::from_secs(1);
/// What any wait of a client or upstream may be.
pub(super) const WAIT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_hours(24);

/// Where a running process answers and keeps its state, as far as the file says so: also from a file that is refused for
/// other reasons, since a person who asks for the status has not always mended the file first.
pub fn reach(root: &Node, folder: &Path) -> Option<(Admin, State)> {
    let mut report = Report::default();
    let at = At::root(root);
    let part = |name: &str| match &root.value {
        Value::Map(fields) => fields.iter().find(|field| field.key == name).map(|field| at.entry(field)),
        _ => None,
    };
    let (admin, _) = admin(part("admin").as_ref(), &mut report);
    Some((admin?, state(part("state").as_ref(), folder, &mut report)?))
}

/// Reads the whole file; none when anything is wrong. Relative folders are relative to `folder`.
pub fn file(root: &Node, folder: &Path, report: &mut Report) -> Option<Config> {
    let at = At::root(root);
    let fields = report.fields(&at, &shape::FILE)?;
    let listeners = listener::listeners(&fields, folder, report);
    let workers = fields.get("workers").map(|at| workers(&at, report));
    let metrics = fields.get("metrics").and_then(|at| metrics(&at, report));
    let admin = admin(fields.get("admin").as_ref(), report);
    let (metrics, compat) = metrics.unzip();
    distinct(&listeners, metrics.as_ref(), &admin, report);
    let state = state(fields.get("state").as_ref(), folder, report);
    let access_log = fields.get("accessLog").and_then(|at| access_log(&at, report));
    let tracing = fields.get("tracing").and_then(|at| tracing::tracing(&at, report));
    let fast_path = fields.get("fastPath").map(|at| report.word(&at, &[("on", true), ("off", false)]));
    let templates =
        fields.get("analysisTemplates").map(|at| template::templates(&at, folder, report)).unwrap_or_default();
    let (services, gates): (Vec<_>, Vec<_>) =
        service::services(&fields, &templates, folder, report).into_iter().unzip();
    lint::circular(&listeners, &services, report);
    let notify = fields.get("notify").map(|at| notify::receivers(&at, report)).unwrap_or_default();
    let concurrent = fields.get("concurrentRollouts").map_or(Some(0), |at| report.whole(&at, 0..=1_000));
    let concurrent = concurrent.and_then(|limit| usize::try_from(limit).ok()).unwrap_or_default();
    let trusted = route::trusted(&fields, report);
    let routes = route::of_file(&fields, &schemes(&listeners, !trusted.is_empty()), report);
    let outbound = fields.get("outbound").map(|at| outbound(&at, report)).unwrap_or_default();
    if report.refused() {
        return None;
    }
    Some(Config {
        notify,
        listeners: listeners.into_iter().map(|(listener, _)| listener).collect(),
        access_log,
        tracing,
        workers: workers.flatten(),
        fast_path: fast_path.unwrap_or(Some(FAST_PATH_DEFAULT))?,
        metrics: metrics.map(|(address, _)| address),
        compat: compat.unwrap_or_default(),
        admin: admin.0?,
        state: state?,
        services: services
            .into_iter()
            .map(|mut service| {
                service.strategy.policy.concurrent = concurrent;
                service
            })
            .collect(),
        gates: gates.into_iter().flatten().collect(),
        routes: Arc::new(Routes::new(routes)),
        trusted: trusted.into(),
        outbound: outbound.into(),
    })
}

/// By which clients may come in; by both, where a proxy in front is believed.
fn schemes(listeners: &[(Listener, Span)], is_behind: bool) -> Vec<Scheme> {
    let is_spoken = |scheme: &Scheme| {
        is_behind || listeners.iter().any(|(listener, _)| listener.tls.is_some() == (*scheme == Scheme::Https))
    };
    [Scheme::Http, Scheme::Https].into_iter().filter(is_spoken).collect()
}

/// `outbound`: which addresses may be asked though they would be refused.
fn outbound(at: &At<'_>, report: &mut Report) -> Vec<Network> {
    let Some(fields) = report.fields(at, &shape::OUTBOUND) else { return Vec::new() };
    let allow = fields.need(report, "allow", "say which: `outbound: { allow: [169.254.0.0/16] }`");
    allow.map(|at| message::networks(&at, report)).unwrap_or_default()
}

/// None when it is off, or wrong.
fn access_log(at: &At<'_>, report: &mut Report) -> Option<AccessLog> {
    let fields = report.fields(at, &shape::ACCESS_LOG)?;
    let format = fields.need(report, "format", "say which: `format: json`");
    let words = [("json", Some(true)), ("combined", Some(false)), ("off", None)];
    let is_json = format.and_then(|format| report.word(&format, &words)).flatten();
    let sample_success =
        fields.get("sampleSuccess").map_or(Some(crate::engine::weight::Weight::FULL), |at| report.share(&at))?;
    Some(AccessLog { is_json: is_json?, sample_success })
}

fn workers(at: &At<'_>, report: &mut Report) -> Option<usize> {
    let help = "write `auto` (one for each CPU) or a number from 1 to 1024";
    let bad = || Problem::new("is not a number of workers", help);
    report
        .scalar(at, "`auto` or a number", |text| match (text, text.parse()) {
            ("auto", _) => Ok(None),
            (_, Ok(workers @ 1..=1024)) => Ok(Some(workers)),
            _ => Err(bad()),
        })
        .flatten()
}

/// Where the page has a listener of its own, and under whose names it is served as well.
fn metrics(at: &At<'_>, report: &mut Report) -> Option<((SocketAddr, Span), Vec<Compat>)> {
    let fields = report.fields(at, &shape::METRICS)?;
    let compat = fields.get("compat").map(|at| compat(&at, report)).unwrap_or_default();
    let listen = fields.need(report, "listen", "say where: `metrics: { listen: 0.0.0.0:9100 }`")?;
    Some(((report.address(&listen)?, listen.span()), compat))
}

fn compat(at: &At<'_>, report: &mut Report) -> Vec<Compat> {
    let words = [
        ("istio", Compat::Istio),
        ("linkerd", Compat::Linkerd),
        ("nginx", Compat::Nginx),
        ("traefik", Compat::Traefik),
        ("envoy", Compat::Envoy),
    ];
    let mut all = Vec::new();
    for item in report.items(at, words.len()).unwrap_or_default() {
        match report.word(&item, &words) {
            Some(word) if all.contains(&word) => {
                report.error(Code::Conflict, &item.span(), "this is named twice").help("name each once");
            }
            word => all.extend(word),
        }
    }
    all
}

/// The admin listener, and where its address is written.
fn admin(at: Option<&At<'_>>, report: &mut Report) -> (Option<Admin>, Option<Span>) {
    let none = Admin { listen: AdminAddress::Tcp(ADMIN_DEFAULT), read_token: None, write_token: None };
    let Some(at) = at else { return (Some(none), None) };
    let Some(fields) = report.fields(at, &shape::ADMIN) else { return (None, None) };
    let written = fields.get("listen");
    let span = written.as_ref().map(At::span);
    let listen = written.map_or(Some(AdminAddress::Tcp(ADMIN_DEFAULT)), |at| admin_address(&at, report));
    let read_token = fields.get("readToken").map(|at| token(&at, report));
    let write_token = fields.get("writeToken").map(|at| token(&at, report));
    if let (Some(AdminAddress::Tcp(listen)), Some(span)) = (&listen, &span)
        && !listen.ip().is_loopback()
    {
        let is_unset = |token: &Option<Option<Secret>>| matches!(token, None | Some(None));
        let missing = match (is_unset(&read_token), is_unset(&write_token)) {
            (true, true) => Some("`readToken` and `writeToken`"),
            (true, false) => Some("`readToken`"),
            (false, true) => Some("`writeToken`"),
            (false, false) => None,
        };
        if let Some(missing) = missing {
            report
                .error(Code::MissingField, span, format!("an admin listener off loopback needs {missing}"))
                .help("set both tokens, or listen on 127.0.0.1");
        }
    }
    let admin =
        listen.map(|listen| Admin { listen, read_token: read_token.flatten(), write_token: write_token.flatten() });
    (admin, span)
}

/// `unix:/run/serin.sock`, or an address and a port.
fn admin_address(at: &At<'_>, report: &mut Report) -> Option<AdminAddress> {
    let Value::Scalar(scalar) = &at.node.value else { return report.address(at).map(AdminAddress::Tcp) };
    if !scalar.text.starts_with("unix:") {
        return report.address(at).map(AdminAddress::Tcp);
    }
    report.scalar(at, "an address, or `unix:` and a path", |text| {
        let path = text.strip_prefix("unix:").unwrap_or_default();
        if path.starts_with('/') && !path.ends_with('/') && path.len() <= SOCKET_PATH_BYTES_MAX && !path.contains('\0')
        {
            return Ok(AdminAddress::Unix(PathBuf::from(path)));
        }
        let help = format!("write the absolute path, at most {SOCKET_PATH_BYTES_MAX} bytes, as `unix:/run/serin.sock`");
        Err(Problem::new("is not the path of a socket", help))
    })
}

/// A token that fits into a header; empty is unset.
fn token(at: &At<'_>, report: &mut Report) -> Option<Secret> {
    report
        .scalar(at, "a token", |text| {
            if text.len() <= 1024 && text.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Ok(text.to_owned());
            }
            let help = "a token has at most 1024 printable ASCII characters without spaces";
            Err(Problem::new("is not a possible token", help))
        })
        .filter(|text| !text.is_empty())
        .map(Secret::new)
}

/// Reports listening addresses of which the second could not be bound.
fn distinct(
    listeners: &[(Listener, Span)],
    metrics: Option<&(SocketAddr, Span)>,
    admin: &(Option<Admin>, Option<Span>),
    report: &mut Report,
) {
    let mut all: Vec<(&str, SocketAddr, Option<&Span>)> = Vec::new();
    if let (Some(admin), span) = admin {
        all.extend(admin.listen.tcp().map(|address| ("`admin.listen`", address, span.as_ref())));
    }
    all.extend(metrics.map(|(address, span)| ("`metrics.listen`", *address, Some(span))));
    all.extend(listeners.iter().map(|(listener, span)| ("a listener", listener.listen, Some(span))));
    for (index, (_, address, span)) in all.iter().enumerate() {
        let taken = all[..index].iter().find(|(_, other, _)| clash(*address, *other));
        let (Some((what, other, first)), Some(span)) = (taken, span) else { continue };
        let found = report.error(Code::Conflict, span, format!("{address} is already taken by {what} ({other})"));
        found.help("give each its own address and port");
        if let Some(first) = first {
            found.related(first, "taken here");
        }
    }
}

/// Whether both cannot be bound at once. Port 0 asks for any free port.
fn clash(a: SocketAddr, b: SocketAddr) -> bool {
    let covers =
        a.ip() == b.ip() || (a.is_ipv4() == b.is_ipv4() && (a.ip().is_unspecified() || b.ip().is_unspecified()));
    a.port() != 0 && a.port() == b.port() && covers
}

fn state(at: Option<&At<'_>>, folder: &Path, report: &mut Report) -> Option<State> {
    let base = State { dir: folder.join("serin-state"), max_age: Duration::from_hours(24) };
    let Some(at) = at else { return Some(base) };
    let fields = report.fields(at, &shape::STATE)?;
    let dir = fields.get("dir").map(|at| report.filled(&at, "a folder such as `./serin-state`"));
    let max_age = fields.get("maxAge").map(|at| report.duration(&at, SECOND..=Duration::from_hours(366 * 24)));
    Some(State {
        dir: dir.map_or(Some(base.dir), |dir| dir.map(|dir| below(folder, &dir)))?,
        max_age: max_age.unwrap_or(Some(base.max_age))?,
    })
}

/// A path relative to the folder; `./x` is `x`, since it is shown to people.
pub(super) fn below(folder: &Path, path: &str) -> PathBuf {
    folder.join(Path::new(path).strip_prefix(".").unwrap_or(Path::new(path)))
}
