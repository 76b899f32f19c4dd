//! What can never match, leads round, or means nothing, of what is said about single requests: routes, redirects, and
//! who gets which version.

use http::{HeaderMap, Method, Uri};

use super::{Place, Report, Span};
use crate::engine::{
    address::{Address, Network},
    assign::Cohort,
    filter::Scheme,
    plan::ServicePlan,
    request::RequestView,
    route::{Action, HostMatch, PathMatch, Route, RouteMatch, Routes},
    sticky::StickyBy,
    upstream::Balancing,
};

/// So many redirects in a row by one route are a circle.
const HOPS: usize = 3;

pub(super) fn service(plan: &ServicePlan, place: &Place<'_>, report: &mut Report) {
    unhashed(plan, place, report);
    ambiguous(plan, place, report);
    shadowed(&plan.cohorts, place, report);
}

/// A pattern for paths each match of which begins with another byte than a path does.
pub fn path_pattern(pattern: &str, span: &Span, report: &mut Report) {
    let text = pattern.strip_prefix('^').unwrap_or(pattern);
    let mut rest = text.chars();
    let is_literal = rest.next().is_some_and(|first| first.is_ascii_alphanumeric() || matches!(first, '-' | '_' | '~'));
    let may_be_absent = matches!(rest.next(), Some('?' | '*' | '{'));
    if is_literal && !may_be_absent && !text.contains('|') {
        report
            .warning(
                span,
                format!("`{pattern}` matches no path: a pattern covers the whole path, which begins with `/`"),
            )
            .help(format!("write `/{text}`, or `.*{text}` for paths that end like this"));
    }
}

/// Redirects to requests that their routes take again. `schemes` are those by which clients may come in.
pub fn redirects(routes: &[Route], places: &[(usize, Span)], schemes: &[Scheme], report: &mut Report) {
    if places.is_empty() {
        return;
    }
    let all = Routes::new(routes.to_vec());
    for (at, span) in places {
        let everything = [RouteMatch::default()];
        let matches = &routes[*at].matches;
        let mut matches = if matches.is_empty() { &everything[..] } else { matches }.iter();
        if matches.any(|one| schemes.iter().any(|scheme| goes_round(&all, *at, one, *scheme, schemes))) {
            report
                .warning(span, "clients would go round: this redirect leads to requests that its own route takes")
                .help("lead to a host or a path that the route does not match; from http to https: `match: [{ scheme: http }]`");
        }
    }
}

/// Whether a request that meets the match is led back to the route again and again. One that cannot be made up is not tried.
fn goes_round(routes: &Routes, at: usize, wanted: &RouteMatch, scheme: Scheme, schemes: &[Scheme]) -> bool {
    let Action::Redirect(redirect) = &routes.all()[at].action else { return false };
    let host = match &wanted.host {
        HostMatch::Any => redirect.host.clone().unwrap_or_else(|| "host.example".to_owned()),
        HostMatch::Exact(host) => host.clone(),
        HostMatch::Wildcard(under) => format!("host.{under}"),
    };
    let path = match &wanted.path {
        PathMatch::Exact(path) | PathMatch::Prefix(path) => path,
        PathMatch::Regex(_) => return false,
    };
    let mut url = format!("{}://{host}{path}", wanted.scheme.unwrap_or(scheme).as_str());
    let headers = HeaderMap::new();
    for _ in 0..HOPS {
        let Ok(uri) = url.parse::<Uri>() else { return false };
        let scheme = if uri.scheme_str() == Some("https") { Scheme::Https } else { Scheme::Http };
        if !schemes.contains(&scheme) || uri.port().is_some() {
            return false;
        }
        let request = RequestView {
            scheme,
            method: &Method::GET,
            host: uri.host().unwrap_or_default(),
            port: None,
            path: uri.path(),
            query: "",
            headers: &headers,
            client: Address::default(),
        };
        match routes.find(&request) {
            Some(found) if found.route == at => url = redirect.location(&request, found.prefix),
            _ => return false,
        }
    }
    true
}

/// Everybody's word about who a client is.
pub fn trusted(networks: &[Network], span: &Span, report: &mut Report) {
    // Addresses of documentation, which are nobody's.
    let somewhere =
        [Address::v4([203, 0, 113, 1]), Address::v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])];
    if somewhere.iter().any(|address| networks.iter().any(|of| of.contains(*address))) {
        report
            .warning(span, "everybody is believed: any client can say that it is another, and so be let in by address")
            .help("name the networks of the proxies in front, such as `10.0.0.0/8`");
    }
}

/// Clients to be kept on an endpoint, and nothing to know them by.
fn unhashed(plan: &ServicePlan, place: &Place<'_>, report: &mut Report) {
    if plan.sticky.is_some() {
        return;
    }
    for version in plan.versions.iter().filter(|of| of.upstream.balancing == Balancing::RingHash) {
        report
            .warning(
                &place.of(&["versions", version.name.as_str(), "loadBalancing"]),
                "`ringHash` knows no client without `assign.sticky`: endpoints are chosen by chance",
            )
            .help("add `assign: { sticky: { by: cookie } }`, or say `loadBalancing: random`");
    }
}

/// One cookie or header for two things.
fn ambiguous(plan: &ServicePlan, place: &Place<'_>, report: &mut Report) {
    let (Some(force), Some(sticky)) = (&plan.force, &plan.sticky) else { return };
    let (name, kind) = match &sticky.by {
        StickyBy::Cookie(name) if force.cookie.as_ref() == Some(name) => (name.as_str(), "cookie"),
        StickyBy::Header(name) if force.header.as_ref() == Some(name) => (name.as_str(), "header"),
        _ => return,
    };
    report
        .warning(
            &place.of(&["assign", "force", kind]),
            format!("the {kind} `{name}` forces a version and says who a client is: it can only be one of them"),
        )
        .help(format!("give `force` a {kind} of its own, such as `x-canary`"));
}

/// A cohort of values that an earlier one has taken.
fn shadowed(cohorts: &[Cohort], place: &Place<'_>, report: &mut Report) {
    for (at, cohort) in cohorts.iter().enumerate() {
        let before = cohorts.iter().take(at).filter(|other| other.header == cohort.header && other.to != cohort.to);
        let is_taken = |value: &&String| before.clone().any(|other| other.values.contains(value));
        if let Some(value) = cohort.values.iter().find(is_taken) {
            report
                .warning(
                    &place.of(&["assign", "cohorts"]),
                    format!("`{value}` in `{}` is of two cohorts: the first one decides where it goes", cohort.header),
                )
                .help("leave it in one of them");
        }
    }
}
