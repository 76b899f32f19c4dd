//! The rows of Gateway API's conformance for matching, and the index against a reference that looks at every match.

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;
use crate::engine::{address::Address, request::StringMatch};

fn exact(path: &str) -> RouteMatch {
    RouteMatch { path: PathMatch::Exact(path.to_owned()), ..RouteMatch::default() }
}

fn prefix(path: &str) -> RouteMatch {
    RouteMatch { path: PathMatch::Prefix(path.to_owned()), ..RouteMatch::default() }
}

fn any() -> RouteMatch {
    RouteMatch::default()
}

impl RouteMatch {
    fn at(mut self, host: &str) -> Self {
        self.host = match host.strip_prefix("*.") {
            Some(under) => HostMatch::Wildcard(under.to_owned()),
            None => HostMatch::Exact(host.to_owned()),
        };
        self
    }

    fn by(mut self, method: &str) -> Self {
        self.method = Some(method.parse().unwrap());
        self
    }

    fn field(mut self, name: &'static str, value: &str) -> Self {
        let value = StringMatch::Exact(value.to_owned());
        self.headers.push(HeaderMatch { name: HeaderName::from_static(name), value });
        self
    }

    fn parameter(mut self, name: &str, value: &str) -> Self {
        self.query.push(QueryMatch { name: name.to_owned(), value: StringMatch::Exact(value.to_owned()) });
        self
    }
}

fn routes(all: Vec<(&str, Vec<RouteMatch>)>) -> Routes {
    let route = |(name, matches): (&str, _)| Route {
        name: name.to_owned(),
        matches,
        filters: RouteFilters::default(),
        timeouts: None,
        retry: None,
        action: Action::Forward(ServiceName::new(name).unwrap()),
    };
    Routes::new(all.into_iter().map(route).collect())
}

/// `METHOD https://host/path?query` with fields; without a scheme it is http.
#[derive(Debug, Clone)]
struct Asked {
    scheme: Scheme,
    method: Method,
    host: String,
    path: String,
    query: String,
    headers: HeaderMap,
}

impl Asked {
    fn new(line: &str, fields: &[(&'static str, &str)]) -> Self {
        let (method, target) = line.split_once(' ').unwrap_or(("GET", line));
        let (scheme, target) = match target.strip_prefix("https://") {
            Some(rest) => (Scheme::Https, rest),
            None => (Scheme::Http, target),
        };
        let (host, target) = match target.find('/') {
            Some(at) => (&target[..at], &target[at..]),
            None => (target, "/"),
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let (host, path, query) = (host.to_owned(), path.to_owned(), query.to_owned());
        Self { scheme, method: method.parse().unwrap(), host, path, query, headers }
    }

    fn view(&self) -> RequestView<'_> {
        let Self { scheme, method, host, path, query, headers } = self;
        RequestView { scheme: *scheme, method, host, port: None, path, query, headers, client: Address::default() }
    }
}

fn taken<'r>(routes: &'r Routes, line: &str, fields: &[(&'static str, &str)]) -> &'r str {
    let asked = Asked::new(line, fields);
    routes.find(&asked.view()).map_or("404", |found| &*routes.all()[found.route].name)
}

/// A request line, its fields, and the route that it takes.
type Row<'a> = (&'a str, &'a [(&'static str, &'a str)], &'a str);

fn check(routes: &Routes, rows: &[Row<'_>]) {
    for (line, fields, expected) in rows {
        assert_eq!(taken(routes, line, fields), *expected, "{line} {fields:?}");
    }
}

#[test]
fn prefixes_and_headers_are_told_apart() {
    let routes = routes(vec![
        ("v1", vec![prefix("/"), any().field("version", "one")]),
        ("v2", vec![prefix("/v2"), any().field("version", "two")]),
    ]);
    for line in ["/", "/example", "/v2example", "/foo/v2/example"] {
        check(&routes, &[(line, &[], "v1"), (line, &[("version", "one")], "v1")]);
    }
    check(&routes, &[("/v2", &[], "v2"), ("/v2/", &[], "v2"), ("/v2/example", &[], "v2")]);
    check(&routes, &[("/", &[("version", "two")], "v2"), ("/", &[("Version", "two")], "v2")]);
}

#[test]
fn an_exact_path_comes_before_the_longest_prefix() {
    let routes = routes(vec![
        ("v1", vec![exact("/match"), prefix("/match/prefix/")]),
        ("v2", vec![exact("/match/exact"), prefix("/match/prefix/one")]),
        ("v3", vec![exact("/match/exact/one"), prefix("/match/")]),
    ]);
    check(
        &routes,
        &[
            ("/match/exact/one", &[], "v3"),
            ("/match/exact", &[], "v2"),
            ("/match", &[], "v1"),
            ("/match/prefix/one/any", &[], "v2"),
            ("/match/prefix/any", &[], "v1"),
            ("/match/any", &[], "v3"),
            ("/matchless", &[], "404"),
        ],
    );
}

#[test]
fn an_exact_path_is_the_whole_path_in_its_case() {
    let routes = routes(vec![("v1", vec![exact("/one")]), ("v2", vec![exact("/two")])]);
    check(&routes, &[("/one", &[], "v1"), ("/two?x=/one", &[], "v2")]);
    for line in ["/", "/one/example", "/two/", "/Two"] {
        check(&routes, &[(line, &[], "404")]);
    }
}

#[test]
fn head_is_not_get() {
    let routes = routes(vec![("v1", vec![any().by("POST")]), ("v2", vec![any().by("GET")])]);
    check(&routes, &[("POST /", &[], "v1"), ("GET /", &[], "v2"), ("HEAD /", &[], "404"), ("get /", &[], "404")]);
}

#[test]
fn a_path_beats_a_method_and_a_method_beats_headers() {
    let routes = routes(vec![
        ("v1", vec![prefix("/path5")]),
        ("v2", vec![any().by("PATCH")]),
        ("v3", vec![any().field("version", "four")]),
    ]);
    let four = [("version", "four")];
    check(&routes, &[("PATCH /path5", &four, "v1"), ("PATCH /", &four, "v2"), ("GET /", &four, "v3")]);
}

#[test]
fn query_parameters_are_whole_and_more_of_them_win() {
    let animal = |value: &str| any().parameter("animal", value);
    let routes = routes(vec![
        ("v1", vec![animal("whale")]),
        ("v2", vec![animal("dolphin")]),
        ("v3", vec![animal("dolphin").parameter("color", "blue"), any().parameter("ANIMAL", "Whale")]),
    ]);
    check(
        &routes,
        &[
            ("/?animal=dolphin", &[], "v2"),
            ("/?animal=dolphin&color=blue", &[], "v3"),
            ("/?ANIMAL=Whale", &[], "v3"),
            ("/?animal=whale&otherparam=x", &[], "v1"),
            ("/?animal=whaledolphin", &[], "404"),
            ("/", &[], "404"),
        ],
    );
}

#[test]
fn two_header_conditions_are_both_needed() {
    let routes = routes(vec![("v1", vec![any().field("a", "1").field("b", "2")])]);
    check(&routes, &[("/", &[("a", "1")], "404"), ("/", &[("a", "1"), ("b", "2")], "v1")]);
    check(&routes, &[("/", &[("a", "0"), ("a", "1"), ("b", "2")], "v1")]);
}

#[test]
fn the_nearest_host_wins_and_others_take_what_it_leaves() {
    let routes = routes(vec![
        ("any", vec![prefix("/")]),
        ("wide", vec![prefix("/").at("*.example.com"), exact("/only").at("*.b.example.com")]),
        ("deep", vec![prefix("/deep").at("*.a.example.com")]),
        ("exact", vec![prefix("/x").at("a.example.com")]),
    ]);
    check(
        &routes,
        &[
            ("a.example.com/x", &[], "exact"),
            ("A.Example.COM/x", &[], "exact"),
            ("a.example.com/y", &[], "wide"),
            ("c.a.example.com/deep", &[], "deep"),
            ("c.a.example.com/", &[], "wide"),
            ("d.c.a.example.com/deep/er", &[], "deep"),
            ("example.com/", &[], "any"),
            ("xexample.com/", &[], "any"),
            ("z.b.example.com/only", &[], "wide"),
            ("other/", &[], "any"),
            ("/", &[], "any"),
        ],
    );
}

#[test]
fn patterns_come_between_exact_paths_and_prefixes() {
    let pattern = |text: &str| RouteMatch { path: PathMatch::Regex(Pattern::new(text).unwrap()), ..any() };
    let routes = routes(vec![
        ("all", vec![prefix("/")]),
        ("short", vec![pattern("/i.*")]),
        ("long", vec![pattern("/items/[0-9]+")]),
        ("exact", vec![exact("/items/7")]),
    ]);
    check(
        &routes,
        &[
            ("/items/7", &[], "exact"),
            ("/items/8", &[], "long"),
            ("/items/8/x", &[], "short"),
            ("/x/items/8", &[], "all"),
        ],
    );
}

#[test]
fn a_route_of_one_scheme_comes_before_those_of_both() {
    let plain = RouteMatch { scheme: Some(Scheme::Http), ..any() };
    let routes = routes(vec![("secure", vec![plain]), ("shop", vec![exact("/cart").at("a.x")]), ("all", vec![any()])]);
    check(
        &routes,
        &[
            ("a.x/cart", &[], "secure"),
            ("https://a.x/cart", &[], "shop"),
            ("b.x/", &[], "secure"),
            ("https://b.x/", &[], "all"),
        ],
    );
}

#[test]
fn what_a_prefix_covered_is_told() {
    let routes = routes(vec![("v1", vec![prefix("/a/")]), ("v2", vec![exact("/b")]), ("v3", vec![any()])]);
    let covered = |line: &str| routes.find(&Asked::new(line, &[]).view()).unwrap().prefix;
    assert_eq!((covered("/a"), covered("/a/b"), covered("/b"), covered("/c")), (Some(2), Some(2), None, Some(0)));
}

#[test]
fn a_path_that_ends_within_a_letter_of_a_prefix_is_no_panic() {
    let routes = routes(vec![("v1", vec![prefix("/ab/")])]);
    check(&routes, &[("/äb", &[], "404"), ("/ab/ä", &[], "v1")]);
}

/// Every match of every route, each compared as the contract says, without any index.
fn reference(routes: &[Route], request: &RequestView<'_>) -> Option<usize> {
    let mut best: Option<(Vec<usize>, usize)> = None;
    for (at, route) in routes.iter().enumerate() {
        for one in &route.matches {
            let host = request.host.to_ascii_lowercase();
            let by_host = match &one.host {
                HostMatch::Any => 0,
                HostMatch::Wildcard(under) if host.ends_with(&format!(".{under}")) => under.len(),
                HostMatch::Exact(exact) if *exact == host => 1_000,
                _ => continue,
            };
            let by_scheme = match one.scheme {
                Some(scheme) if scheme == request.scheme => 1,
                Some(_) => continue,
                None => 0,
            };
            let by_path = match &one.path {
                PathMatch::Exact(path) if path == request.path => 100_000,
                PathMatch::Regex(pattern) if pattern.covers(request.path.as_bytes()) => 10_000 + pattern.as_str().len(),
                PathMatch::Prefix(prefix) => {
                    let prefix = prefix.trim_end_matches('/');
                    if request.path != prefix && !format!("{}/", request.path).starts_with(&format!("{prefix}/")) {
                        continue;
                    }
                    prefix.len()
                }
                _ => continue,
            };
            let method = one.method.as_ref().is_none_or(|method| method == request.method);
            let headers = one.headers.iter().all(|header| header.is_met_by(request.headers));
            let query = one.query.iter().all(|parameter| parameter.is_met_by(request));
            if method && headers && query {
                let rank = vec![
                    by_scheme,
                    by_host,
                    by_path,
                    usize::from(one.method.is_some()),
                    one.headers.len(),
                    one.query.len(),
                ];
                if best.as_ref().is_none_or(|(other, _)| rank > *other) {
                    best = Some((rank, at));
                }
            }
        }
    }
    best.map(|(_, at)| at)
}

fn some_path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop_oneof!["a", "b", "ab", ""], 0..4).prop_map(|parts| format!("/{}", parts.join("/")))
}

fn some_match() -> impl Strategy<Value = RouteMatch> {
    let host = prop_oneof![Just(""), Just("a.x"), Just("b.a.x"), Just("*.x"), Just("*.a.x")];
    let path = (0..4, some_path());
    let scheme = prop_oneof![3 => Just(None), 1 => Just(Some(Scheme::Http)), 1 => Just(Some(Scheme::Https))];
    let method = prop_oneof![Just(None), Just(Some("GET")), Just(Some("POST"))];
    (scheme, host, path, method, 0..3_usize, 0..3_usize).prop_map(
        |(scheme, host, (kind, path), method, headers, query)| {
            let mut wanted = match kind {
                0 => exact(&path),
                1 => RouteMatch { path: PathMatch::Regex(Pattern::new(&format!("{path}.*")).unwrap()), ..any() },
                _ => prefix(&path),
            };
            wanted.scheme = scheme;
            if !host.is_empty() {
                wanted = wanted.at(host);
            }
            if let Some(method) = method {
                wanted = wanted.by(method);
            }
            for name in ["h1", "h2"].into_iter().take(headers) {
                wanted = wanted.field(name, "1");
            }
            for name in ["q1", "q2"].into_iter().take(query) {
                wanted = wanted.parameter(name, "1");
            }
            wanted
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_index_finds_what_looking_at_every_match_finds(
        all in prop::collection::vec(prop::collection::vec(some_match(), 1..4), 1..12),
        path in some_path(),
        host in prop_oneof!["a.x", "b.a.x", "c.b.a.x", "x", "y", ""],
        method in prop_oneof!["GET", "POST", "PUT"],
        fields in prop::collection::vec(prop_oneof!["h1", "h2"], 0..3),
        query in prop_oneof!["", "q1=1", "q1=1&q2=1", "q2=1&q1=0"],
        scheme in prop_oneof!["", "https://"],
    ) {
        let all = all.into_iter().map(|matches| ("r", matches)).collect();
        let routes = routes(all);
        let mut asked = Asked::new(&format!("{method} {scheme}{host}{path}?{query}"), &[]);
        for name in fields {
            asked.headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_static("1"));
        }
        let found = routes.find(&asked.view()).map(|found| found.route);
        prop_assert_eq!(found, reference(routes.all(), &asked.view()));
    }
}
