//! Which service a request reaches, and what is changed on its way: files with routes, over real sockets.

use std::{fmt::Write as _, net::SocketAddr};

use hyper::{HeaderMap, Method, Request, Response, header::HeaderValue};
use serin::engine::{
    address::Address,
    explain::{Outcome, explain},
    filter::Scheme,
    request::RequestView,
};

use super::rig::{Named, Rig, full, request, serving, soon, status_of, table_of, text, values};

/// An upstream that answers with its name, and what it got: target, host and fields, each in a line.
async fn echo(name: &'static str) -> SocketAddr {
    serving(move |request| {
        let mut said = format!("{name} {} {}\n", request.method(), request.uri());
        for (field, value) in request.headers() {
            writeln!(said, "{field}: {}", value.to_str().unwrap()).unwrap();
        }
        async move {
            let mut answer = Response::new(full(said));
            for (field, value) in [("x-remove", "a"), ("x-set", "old"), ("access-control-allow-origin", "*")] {
                answer.headers_mut().insert(field, HeaderValue::from_static(value));
            }
            answer
        }
    })
    .await
}

/// One request over a new connection; the answer whole.
async fn ask(rig: &Rig, line: &str, fields: &str) -> String {
    rig.exchange(&format!("{line} HTTP/1.1\r\n{fields}connection: close\r\n\r\n")).await
}

/// What an echoing upstream said in its first line, or the status where none did.
fn reached(answer: &str) -> String {
    match status_of(answer) {
        200 => answer.split("\r\n\r\n").nth(1).unwrap_or_default().split_whitespace().next().unwrap().to_owned(),
        status => status.to_string(),
    }
}

/// The values that the upstream got.
fn got<'a>(answer: &'a str, field: &str) -> Vec<&'a str> {
    let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
    body.lines().filter_map(|line| line.split_once(": ")).filter(|(of, _)| *of == field).map(|(_, is)| is).collect()
}

fn services(all: &[(&str, SocketAddr)]) -> String {
    let one =
        |(name, at): &(&str, SocketAddr)| format!("  {name}:\n    versions: {{ v1: 'http://{at}' }}\n    stable: v1\n");
    format!("services:\n{}", all.iter().map(one).collect::<String>())
}

#[tokio::test]
async fn requests_reach_the_service_of_their_route_and_404_without_one() {
    let (shop, api) = (echo("shop").await, echo("api").await);
    let rig = Rig::of(&format!(
        "{}routes:
  - {{ name: api, match: [{{ host: api.example }}, {{ path: {{ prefix: /api }} }}], service: api }}
  - {{ name: shop, match: [{{ host: very.specific.com, path: {{ prefix: /shop }} }}, {{ host: '*.wild.example' }}], service: shop }}
  - {{ name: post, match: [{{ host: very.specific.com, method: POST, path: {{ exact: /one }} }}], service: shop }}
",
        services(&[("shop", shop), ("api", api)])
    ));
    for (line, host, expected) in [
        ("GET /shop/a", "very.specific.com", "shop"),
        ("GET /shop", "very.specific.com:1234", "shop"),
        ("GET /shop", "VERY.specific.com", "shop"),
        ("GET /shopper", "very.specific.com", "404"),
        ("GET /", "unknown.example", "404"),
        ("GET /api/x", "unknown.example", "api"),
        ("GET /anything", "api.example", "api"),
        ("GET /", "a.b.wild.example", "shop"),
        ("GET /", "wild.example", "404"),
        ("POST /one", "very.specific.com", "shop"),
        ("GET /one", "very.specific.com", "404"),
        ("HEAD /one", "very.specific.com", "404"),
        ("GET http://api.example/x", "very.specific.com", "api"),
    ] {
        let answer = ask(&rig, line, &format!("host: {host}\r\n")).await;
        assert_eq!(reached(&answer), expected, "{line} {host}: {answer}");
    }
    let nowhere = ask(&rig, "GET /", "host: unknown.example\r\n").await;
    assert_eq!(values(&nowhere, "serin-error"), ["no_route"]);
}

#[tokio::test]
async fn a_route_of_one_service_does_not_see_the_canary_of_another() {
    let (old, new, other) = (Named::start("old").await, Named::start("new").await, Named::start("other").await);
    let rig = Rig::of(&format!(
        "services:
  shop:
    versions: {{ v1: 'http://{}', v2: 'http://{}' }}
    stable: v1
    canary: v2
    assign: {{ force: {{ header: x-canary }} }}
    steps: [100%]
  api: {{ versions: {{ v1: 'http://{}' }}, stable: v1, assign: {{ force: {{ header: x-canary }} }} }}
routes:
  - {{ match: [{{ path: {{ prefix: /shop }} }}], service: shop }}
  - {{ match: [{{ path: {{ prefix: /api }} }}], service: api }}
",
        old.address, new.address, other.address
    ));
    for (path, fields, expected) in [
        ("/shop", "", "new"),
        ("/shop", "x-canary: never\r\n", "old"),
        ("/api", "", "other"),
        ("/api", "x-canary: always\r\n", "other"),
        ("/", "x-canary: always\r\n", "no route takes this request\n"),
    ] {
        let answer = ask(&rig, &format!("GET {path}"), &format!("host: a\r\n{fields}")).await;
        assert!(answer.ends_with(expected), "{path} {fields}: {answer}");
    }
}

#[tokio::test]
async fn fields_of_requests_and_answers_are_changed_by_route_and_by_version() {
    let upstream = echo("v1").await;
    let rig = Rig::of(&format!(
        "services:
  web:
    versions:
      v1:
        endpoints: ['http://{upstream}']
        filters: {{ requestHeaders: {{ set: {{ backend: v1 }}, remove: [x-late] }}, responseHeaders: {{ set: {{ x-version: v1 }} }} }}
    stable: v1
routes:
  - filters:
      requestHeaders: {{ set: {{ X-Header-Set: set-overwrites-values, x-late: y }}, add: {{ x-add: [b, c] }}, remove: [X-Header-Remove] }}
      responseHeaders: {{ set: {{ x-set: new }}, add: {{ x-add: a }}, remove: [x-remove] }}
    service: web
"
    ));
    let sent = "host: a\r\nx-header-set: 1\r\nx-header-set: 2\r\nx-add: a\r\nx-header-remove: 1\r\nbackend: evil\r\nx-keep: k\r\n";
    let answer = ask(&rig, "GET /", sent).await;
    assert_eq!(got(&answer, "x-header-set"), ["set-overwrites-values"]);
    assert_eq!(got(&answer, "x-add"), ["a", "b", "c"]);
    assert_eq!(got(&answer, "backend"), ["v1"]);
    assert_eq!(got(&answer, "x-keep"), ["k"]);
    for gone in ["x-header-remove", "x-late"] {
        assert_eq!(got(&answer, gone), [""; 0], "{gone}");
    }
    assert_eq!((values(&answer, "x-set"), values(&answer, "x-version")), (vec!["new"], vec!["v1"]));
    assert_eq!((values(&answer, "x-add"), values(&answer, "x-remove")), (vec!["a"], vec![]));
}

/// Each answer says by a field of its filter which version it is; the field must be that of the version that answered.
#[tokio::test]
async fn filters_of_a_version_go_with_that_version_alone() {
    let (old, new) = (echo("v1").await, echo("v2").await);
    let version = |name: &str, at: SocketAddr| {
        format!(
            "      {name}: {{ endpoints: ['http://{at}'], filters: {{ requestHeaders: {{ set: {{ backend: {name} }} }}, responseHeaders: {{ set: {{ x-from: {name} }} }} }} }}\n"
        )
    };
    let rig = Rig::of(&format!(
        "services:\n  web:\n    versions:\n{}{}    stable: v1\n    canary: v2\n    steps: [50%]\n",
        version("v1", old),
        version("v2", new)
    ));
    let mut client = rig.h1().await;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100 {
        client.ready().await.unwrap();
        let mut asked = request("/");
        asked.headers_mut().insert("backend", HeaderValue::from_static("none"));
        let response = soon(client.send_request(asked)).await.unwrap();
        let from = response.headers()["x-from"].to_str().unwrap().to_owned();
        let body = text(response).await;
        assert!(body.starts_with(&from), "{from}: {body}");
        assert_eq!(body.matches("backend: ").count(), 1);
        assert!(body.contains(&format!("backend: {from}\n")), "{from}: {body}");
        seen.insert(from);
    }
    assert_eq!(seen.len(), 2);
}

#[tokio::test]
async fn host_and_path_are_rewritten_and_the_clients_are_told() {
    let upstream = echo("web").await;
    let rig = Rig::of(&format!(
        "{}routes:
  - {{ match: [{{ path: {{ prefix: /a }} }}], filters: {{ rewrite: {{ host: inside.example, path: {{ prefix: /v1 }} }} }}, service: web }}
  - {{ match: [{{ path: {{ exact: /b }} }}], filters: {{ rewrite: {{ path: {{ full: /other }} }} }}, service: web }}
",
        services(&[("web", upstream)])
    ));
    let answer = ask(&rig, "GET /a/x%20y?q=/a", "host: shop.example\r\n").await;
    assert!(answer.contains("web GET /v1/x%20y?q=/a\n"), "{answer}");
    assert_eq!(got(&answer, "host"), ["inside.example"]);
    assert_eq!(got(&answer, "x-forwarded-host"), ["shop.example"]);
    assert!(ask(&rig, "GET /b?q=1", "host: a\r\n").await.contains("web GET /other?q=1\n"));
    let mut h2 = rig.h2().await;
    let over_h2 = text(soon(h2.send_request(request("http://t.example/a"))).await.unwrap()).await;
    assert!(over_h2.starts_with("web GET /v1\n") && over_h2.contains("host: inside.example\n"), "{over_h2}");
}

#[tokio::test]
async fn a_redirect_keeps_what_it_does_not_change() {
    let upstream = echo("web").await;
    let redirect = |path: &str, what: &str| {
        format!("  - {{ match: [{{ path: {{ prefix: {path} }} }}], filters: {{ redirect: {{ {what} }} }} }}\n")
    };
    let rig = Rig::of(&format!(
        "{}routes:\n{}{}{}{}{}  - {{ service: web }}\n",
        services(&[("web", upstream)]),
        redirect("/original-prefix", "path: { prefix: /replacement-prefix }"),
        redirect("/tls", "scheme: https, status: 301"),
        redirect("/tls/port", "scheme: https, port: 8443, status: 308"),
        redirect("/host", "host: example.org, status: 307"),
        redirect("/full", "path: { full: /gone }, status: 303"),
    ));
    for (line, host, status, location) in [
        ("GET /original-prefix/lemon", "a", 302, "http://a/replacement-prefix/lemon"),
        ("GET /original-prefix/lemon?x=1", "a:8080", 302, "http://a:8080/replacement-prefix/lemon?x=1"),
        ("GET /tls/a", "a:8080", 301, "https://a/tls/a"),
        ("GET /tls/port", "a", 308, "https://a:8443/tls/port"),
        ("GET /host", "a:8080", 307, "http://example.org:8080/host"),
        ("POST /full/x", "a", 303, "http://a/gone"),
    ] {
        let answer = ask(&rig, line, &format!("host: {host}\r\ncontent-length: 0\r\n")).await;
        assert_eq!((status_of(&answer), values(&answer, "location")), (status, vec![location]), "{line}: {answer}");
    }
    assert_eq!(reached(&ask(&rig, "GET /", "host: a\r\n").await), "web");
}

/// Routes knew nothing of how a client came in: a redirect to https took those who had come by it again.
#[tokio::test]
async fn a_redirect_to_https_led_those_who_had_followed_it_round() {
    let upstream = echo("web").await;
    let rig = Rig::of(&format!(
        "{}trust: {{ forwardedFrom: [127.0.0.0/8] }}
routes:
  - {{ match: [{{ scheme: http }}], filters: {{ redirect: {{ scheme: https, status: 301 }} }} }}
  - {{ match: [{{ path: {{ exact: /cart }}, scheme: https }}], service: web }}
  - {{ match: [{{ path: {{ exact: /cart }} }}, {{ path: {{ prefix: / }} }}], service: web }}
",
        services(&[("web", upstream)])
    ));
    for path in ["/", "/cart"] {
        let line = format!("GET {path}");
        let answer = ask(&rig, &line, "host: a\r\nx-forwarded-proto: http\r\n").await;
        assert_eq!((status_of(&answer), values(&answer, "location")), (301, vec![&*format!("https://a{path}")]));
        assert_eq!(status_of(&ask(&rig, &line, "host: a\r\n").await), 301);
        assert_eq!(reached(&ask(&rig, &line, "host: a\r\nx-forwarded-proto: https\r\n").await), "web");
    }
}

#[tokio::test]
async fn scripts_of_other_origins_are_answered_by_the_rule_and_not_by_the_upstream() {
    let upstream = echo("web").await;
    let rig = Rig::of(&format!(
        "{}routes:
  - filters:
      cors: {{ origins: ['https://www.foo.com', 'https://*.bar.com'], methods: [GET, OPTIONS], credentials: true, maxAge: 1h }}
    service: web
",
        services(&[("web", upstream)])
    ));
    let asked = "host: a\r\naccess-control-request-method: GET\r\norigin: ";
    for (origin, allowed) in [
        ("https://www.foo.com", true),
        ("https://xpto.www.bar.com", true),
        ("https://foobar.com", false),
        ("null", false),
    ] {
        let preflight = ask(&rig, "OPTIONS /", &format!("{asked}{origin}\r\n")).await;
        assert_eq!(status_of(&preflight), 204);
        let plain = ask(&rig, "GET /", &format!("host: a\r\norigin: {origin}\r\n")).await;
        assert_eq!(reached(&plain), "web");
        for answer in [preflight, plain] {
            let said = values(&answer, "access-control-allow-origin");
            assert_eq!(said, if allowed { vec![origin] } else { vec![] }, "{origin}: {answer}");
            assert_eq!(values(&answer, "vary"), ["origin"]);
        }
    }
    let plain = ask(&rig, "OPTIONS /", "host: a\r\norigin: https://www.foo.com\r\n").await;
    assert_eq!(reached(&plain), "web", "an OPTIONS that is no preflight goes its way");
}

#[tokio::test]
async fn only_trusted_peers_say_where_a_request_came_from() {
    let upstream = echo("web").await;
    let service = services(&[("web", upstream)]);
    let said =
        "host: a\r\nx-forwarded-for: 6.6.6.6, 203.0.113.7\r\nx-forwarded-proto: https\r\nx-forwarded-host: out\r\n";
    for (trust, chain, proto, host) in [
        ("", "127.0.0.1", "http", "a"),
        ("trust: { forwardedFrom: [10.0.0.0/8] }\n", "127.0.0.1", "http", "a"),
        ("trust: { forwardedFrom: [127.0.0.0/8] }\n", "203.0.113.7, 127.0.0.1", "https", "out"),
    ] {
        let rig = Rig::of(&format!("{trust}{service}"));
        let answer = ask(&rig, "GET /", said).await;
        assert_eq!(got(&answer, "x-forwarded-for"), [chain], "{trust}");
        assert_eq!(got(&answer, "x-forwarded-proto"), [proto]);
        assert_eq!(got(&answer, "x-forwarded-host"), [host]);
    }
}

#[tokio::test]
async fn a_changed_file_changes_the_routes_of_open_connections() {
    let (one, two) = (echo("one").await, echo("two").await);
    let file = |to: &str| format!("{}routes: [{{ service: {to} }}]\n", services(&[("one", one), ("two", two)]));
    let mut rig = Rig::of(&file("one"));
    let mut client = rig.h1().await;
    for to in ["one", "two", "one"] {
        rig.publish_file(&file(to));
        client.ready().await.unwrap();
        let answer = text(soon(client.send_request(request("/"))).await.unwrap()).await;
        assert!(answer.starts_with(to), "{answer}");
    }
    // A service may move to another place in the table; who waits on a connection is not mixed up.
    rig.publish_file(&format!("{}routes: [{{ service: one }}]\n", services(&[("two", two), ("one", one)])));
    client.ready().await.unwrap();
    let again = Request::get("/").header("host", "a").body(full("")).unwrap();
    assert!(text(soon(client.send_request(again)).await.unwrap()).await.starts_with("one"));
}

#[tokio::test]
async fn what_is_explained_is_what_happens() {
    let (old, new, api) = (Named::start("v1").await, Named::start("v2").await, Named::start("api").await);
    let file = format!(
        "services:
  shop:
    versions: {{ v1: 'http://{}', v2: 'http://{}' }}
    stable: v1
    canary: v2
    assign:
      force: {{ header: x-canary }}
      cohorts: [{{ header: x-group, values: [staff], to: canary }}]
      sticky: {{ by: cookie }}
    steps: [50%]
  api: {{ versions: {{ api: 'http://{}' }}, stable: api }}
routes:
  - {{ name: shop, match: [{{ path: {{ prefix: /shop }} }}], service: shop }}
  - {{ name: api, match: [{{ path: {{ prefix: /api }} }}], service: api }}
  - {{ name: old, match: [{{ path: {{ prefix: /old }} }}], filters: {{ redirect: {{ path: {{ full: /shop }} }} }} }}
",
        old.address, new.address, api.address
    );
    let (rig, table) = (Rig::of(&file), table_of(&file));
    for (path, field, value, reason) in [
        ("/shop", "x-canary", "always", "forced"),
        ("/shop", "x-canary", "never", "forced"),
        ("/shop", "x-group", "staff", "cohort"),
        ("/shop", "cookie", "serin=0123456789abcdef", "sticky"),
        ("/shop", "cookie", "serin=fedcba9876543210", "sticky"),
        ("/api/x", "x-canary", "always", "sampled"),
        ("/old", "x-canary", "always", ""),
        ("/none", "x-canary", "always", ""),
    ] {
        let answer = ask(&rig, &format!("GET {path}"), &format!("host: a\r\n{field}: {value}\r\n")).await;
        let mut headers = HeaderMap::new();
        headers.insert(field, HeaderValue::from_static(value));
        let request = RequestView {
            scheme: Scheme::Http,
            method: &Method::GET,
            host: "a",
            port: None,
            path,
            query: "",
            headers: &headers,
            client: Address::v4([127, 0, 0, 1]),
        };
        let told = explain(&table, &request).unwrap();
        match told.outcome {
            Outcome::NoRoute => assert_eq!(status_of(&answer), 404),
            Outcome::Redirect { status, location } => {
                assert_eq!((status_of(&answer), values(&answer, "location")), (status, vec![&*location]));
            }
            Outcome::Version(chosen) => {
                assert_eq!((chosen.reason.as_str(), chosen.versions.len()), (reason, 1), "{path} {field}: {value}");
                assert!(answer.ends_with(chosen.versions[0].0.as_str()), "{path} {field}: {value}: {answer}");
            }
        }
    }
}
