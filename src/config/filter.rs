//! `filters` of routes and versions: what is changed of requests and answers on their way.
//! Refuses filters that exclude each other, and credentials for every origin.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};

use super::{
    diagnostic::Code,
    message, mirror,
    report::{At, Fields, Problem, Report},
    shape,
};
use crate::engine::filter::{
    BothWays, Cors, HeaderEdits, OriginMatch, PathChange, Redirect, Rewrite, RouteFilters, Scheme,
};

/// Most entries of one list or mapping of a filter.
const ENTRIES_MAX: usize = 100;

/// The filters of a route to the service `own`, and its redirect if it has one; `services` are the names there are.
pub fn of_route(
    at: &At<'_>,
    own: Option<&str>,
    services: &[&str],
    report: &mut Report,
) -> (RouteFilters, Option<Redirect>) {
    let Some(fields) = report.fields(at, &shape::FILTERS) else { return Default::default() };
    let filters = RouteFilters {
        headers: both_ways(&fields, report),
        rewrite: fields.get("rewrite").map(|at| rewrite(&at, report)).unwrap_or_default(),
        cors: fields.get("cors").and_then(|at| cors(&at, report)),
        mirror: fields.get("mirror").and_then(|at| mirror::filter(&at, own, services, report)),
    };
    let Some(redirect_at) = fields.get("redirect") else { return (filters, None) };
    if let Some(other) = ["rewrite", "mirror"].iter().find_map(|name| fields.get(name)) {
        report
            .error(Code::Conflict, &other.key_span, format!("`redirect` and `{}` exclude each other", other.name))
            .related(&redirect_at.key_span, "a redirected request reaches no version")
            .help("keep one of them");
    }
    let redirect = redirect(&redirect_at, report);
    (filters, redirect)
}

/// The filters of a version.
pub fn of_version(at: &At<'_>, report: &mut Report) -> BothWays {
    report.fields(at, &shape::VERSION_FILTERS).map(|fields| both_ways(&fields, report)).unwrap_or_default()
}

fn both_ways(fields: &Fields<'_>, report: &mut Report) -> BothWays {
    BothWays {
        request: fields.get("requestHeaders").map(|at| edits(&at, report)).unwrap_or_default(),
        response: fields.get("responseHeaders").map(|at| edits(&at, report)).unwrap_or_default(),
    }
}

fn edits(at: &At<'_>, report: &mut Report) -> HeaderEdits {
    let Some(fields) = report.fields(at, &shape::HEADER_EDITS) else { return HeaderEdits::default() };
    let set = fields.get("set").map(|at| message::by_header(&at, report, message::header_value)).unwrap_or_default();
    let add = fields.get("add").map(|at| message::by_header(&at, report, values)).unwrap_or_default();
    let remove = fields.get("remove").and_then(|at| report.items(&at, ENTRIES_MAX)).unwrap_or_default();
    let remove = remove.iter().filter_map(|item| {
        let name = message::token(item, "a header's name", report)?;
        message::changeable(&name, item, report)
    });
    let remove: Vec<HeaderName> = remove.collect();
    for name in &remove {
        if set.iter().any(|(of, _)| of == name) || add.iter().any(|(of, _)| of == name) {
            report
                .error(Code::Conflict, &at.key_span, format!("`{name}` is removed and given a value at once"))
                .help("keep one of them; `set` replaces every value that is there");
        }
    }
    let add = add.into_iter().flat_map(|(name, values)| values.into_iter().map(move |value| (name.clone(), value)));
    HeaderEdits { set, add: add.collect(), remove }
}

/// One value, or a list of them.
fn values(at: &At<'_>, report: &mut Report) -> Option<Vec<HeaderValue>> {
    if !at.is_list() {
        return message::header_value(at, report).map(|value| vec![value]);
    }
    let items = report.items(at, ENTRIES_MAX)?;
    items.iter().map(|item| message::header_value(item, report)).collect()
}

fn rewrite(at: &At<'_>, report: &mut Report) -> Rewrite {
    let Some(fields) = report.fields(at, &shape::REWRITE) else { return Rewrite::default() };
    let host = fields.get("host").and_then(|at| authority(&at, report));
    let path = fields.get("path").and_then(|at| path_change(&at, report));
    if fields.get("host").is_none() && fields.get("path").is_none() {
        report.missing(at, "path", "say what the version sees: `rewrite: { path: { prefix: /v1 } }`");
    }
    Rewrite { host, path }
}

/// A host for the `Host` field, with or without a port.
fn authority(at: &At<'_>, report: &mut Report) -> Option<HeaderValue> {
    report.scalar(at, "a host such as `shop.internal`", |text| {
        let parsed: Option<http::uri::Authority> = text.parse().ok();
        match parsed.filter(|authority| !authority.as_str().contains('@')) {
            Some(authority) => HeaderValue::from_str(authority.as_str()).map_err(|_| not_a_host()),
            None => Err(not_a_host()),
        }
    })
}

fn not_a_host() -> Problem {
    Problem::new("is not a host", "write it as `shop.internal` or `shop.internal:8080`")
}

fn path_change(at: &At<'_>, report: &mut Report) -> Option<PathChange> {
    let fields = report.fields(at, &shape::PATH_CHANGE)?;
    let kind = message::one_of(&fields, &["full", "prefix"], report)?;
    let path = message::path(&kind, report)?;
    Some(if kind.name == "full" { PathChange::Full(path) } else { PathChange::Prefix(path) })
}

fn redirect(at: &At<'_>, report: &mut Report) -> Option<Redirect> {
    let fields = report.fields(at, &shape::REDIRECT)?;
    let schemes = [("http", Scheme::Http), ("https", Scheme::Https)];
    let statuses = [("301", 301), ("302", 302), ("303", 303), ("307", 307), ("308", 308)];
    let redirect = Redirect {
        scheme: fields.get("scheme").and_then(|at| report.word(&at, &schemes)),
        host: fields.get("host").and_then(|at| message::host(&at, false, report)),
        port: fields.get("port").and_then(|at| report.whole(&at, 1..=65_535)).and_then(|port| u16::try_from(port).ok()),
        path: fields.get("path").and_then(|at| path_change(&at, report)),
        status: fields.get("status").and_then(|at| report.word(&at, &statuses)).unwrap_or(302),
    };
    if ["scheme", "host", "port", "path"].iter().all(|name| fields.get(name).is_none()) {
        report.missing(at, "scheme", "say where to: `redirect: { scheme: https }`; else it would lead to itself");
    }
    Some(redirect)
}

fn cors(at: &At<'_>, report: &mut Report) -> Option<Cors> {
    let fields = report.fields(at, &shape::CORS)?;
    let origins = fields.need(report, "origins", "say whose scripts: `origins: [https://shop.example]`")?;
    let credentials = fields.get("credentials").and_then(|at| report.word(&at, &[("true", true), ("false", false)]));
    let read = report.items(&origins, ENTRIES_MAX)?.iter().map(|item| origin(item, report)).collect::<Vec<_>>();
    let list = |name: &str, report: &mut Report| {
        fields.get(name).and_then(|at| report.items(&at, ENTRIES_MAX)).unwrap_or_default()
    };
    let methods: Vec<Method> =
        list("methods", report).iter().filter_map(|item| message::method(item, report)).collect();
    let asked = list("headers", report);
    let any_header = asked.iter().any(|item| item.is_text("*"));
    let headers = asked.iter().filter(|item| !item.is_text("*")).filter_map(|item| message::header_name(item, report));
    let headers = headers.collect();
    let expose = list("exposeHeaders", report).iter().filter_map(|item| message::header_name(item, report)).collect();
    let credentials = credentials.unwrap_or(false);
    if credentials && read.contains(&Some(OriginMatch::Any)) {
        report
            .error(Code::Conflict, &origins.span(), "`credentials` for every origin lets any page act as its visitor")
            .help("name the origins, or remove `credentials`");
    }
    Some(Cors {
        origins: read.into_iter().collect::<Option<_>>()?,
        methods: if methods.is_empty() { vec![Method::GET, Method::HEAD, Method::POST] } else { methods },
        headers,
        any_header,
        expose,
        credentials,
        max_age: fields.get("maxAge").and_then(|at| report.duration(&at, Duration::ZERO..=Duration::from_hours(24))),
    })
}

fn origin(at: &At<'_>, report: &mut Report) -> Option<OriginMatch> {
    let help = "write it as `https://shop.example`, `https://*.shop.example` or `*`";
    report.scalar(at, "an origin", |text| {
        let lower = text.to_ascii_lowercase();
        let bad = || Problem::new("is not an origin", help);
        if lower == "*" {
            return Ok(OriginMatch::Any);
        }
        let (scheme, host) = lower.split_once("://").ok_or_else(bad)?;
        let name = host.strip_prefix("*.").unwrap_or(host);
        let is_authority = name.parse::<http::uri::Authority>().is_ok() && !name.contains(['@', '*']);
        let is_scheme = !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
        if !is_authority || !is_scheme {
            return Err(bad());
        }
        Ok(match host.strip_prefix('*') {
            Some(behind) => OriginMatch::Wildcard(format!("{scheme}://"), behind.to_owned()),
            None => OriginMatch::Exact(lower),
        })
    })
}
