//! The fast path against the ordinary one under tables that tell requests apart, and make further attempts.

use super::{
    cases::TOLD,
    paths::{Case, compare, expand},
};

/// What rules look at, in one place or another.
const ASKED: &[&str] = &[
    "GET /f HTTP/1.1\r\nHost: t\r\n\r\n",
    "GET /api HTTP/1.1\r\nHost: t\r\n\r\n",
    "GET /api/x?beta=1&beta=2 HTTP/1.1\r\nHost: t\r\n\r\n",
    "GET /apix?beta=%31 HTTP/1.1\r\nHost: t\r\n\r\n",
    "HEAD /api/ HTTP/1.1\r\nHost: t\r\n\r\n",
    "POST /api/one HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nhello",
    "PUT /items/17 HTTP/1.1\r\nHost: Shop.Example:8080\r\nContent-Length: 5\r\n\r\nhello",
    "DELETE //items/17 HTTP/1.1\r\nHost: a.b.shop.example\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: [::1]:80\r\nX-Lang: fr\r\nX-Lang:de\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: t\r\nX-LANG: de\r\n\r\n",
    "GET /old HTTP/1.1\r\nHost: t\r\n\r\n",
    "GET /nowhere HTTP/1.1\r\nHost: nowhere.example\r\n\r\n",
    "GET /f HTTP/1.1\r\nHost: t\r\n\r\nGET /api HTTP/1.1\r\nHost: t\r\n\r\nGET /old HTTP/1.1\r\nHost: t\r\n\r\n",
    "GET /f HTTP/1.1\r\nHost: t\r\nX-Canary: always\r\n\r\n",
    "GET /f HTTP/1.1\r\nHost: t\r\nX-Canary: never\r\nX-Canary: always\r\n\r\n",
    "GET /f HTTP/1.1\r\nHost: t\r\nX-Canary: always:open-sesame-open\r\nCookie: canary=always\r\n\r\n",
    "GET /f HTTP/1.1\r\nHost: t\r\nX-Canary: v9\r\nCookie: a=b; canary=v2\r\n\r\n",
    "GET /f HTTP/1.1\r\nHost: t\r\nX-Group: other\r\nX-Group: staff\r\n\r\n",
    "GET /f?user=42 HTTP/1.1\r\nHost: t\r\nX-User: 42\r\nCookie: serin=00000000000000ff\r\n\r\n",
    "GET /f?user=43 HTTP/1.1\r\nHost: t\r\nX-User: 43\r\nCookie: serin=fedcba9876543210; theme=dark\r\n\r\n",
    "GET /f?user= HTTP/1.1\r\nHost: t\r\nX-User:\r\nCookie: serin=x; serin=0123456789abcdef\r\n\r\n",
    "GET /f HTTP/1.1\r\nHost: t\r\nX-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: h\r\n\r\n",
    "GET /f HTTP/1.1\r\nHost: t\r\nX-Forwarded-For: 6.6.6.6, 203.0.113.8\r\nx-forwarded-for:127.0.0.2\r\n\r\n",
    "GET /f HTTP/1.1\r\nHost: t\r\nForwarded: for=\"[2001:db8::7]:1\";proto=https\r\nX-Real-IP: 6.6.6.6\r\n\r\n",
    "GET /f HTTP/1.1\r\nHost: t\r\nX-Forwarded-For: unknown\r\nX-Forwarded-Host: \r\nX-Forwarded-Prefix: /evil\r\n\r\n",
];

fn cases(table: &str, file: &str) -> Vec<Case> {
    let case = |(nth, asked): (usize, &&str)| Case {
        name: format!("{table}, request {nth}"),
        asked: asked.as_bytes().to_vec(),
        told: None,
        file: Some(file.to_owned()),
    };
    ASKED.iter().enumerate().map(case).collect()
}

/// Two versions, and what the service says beside them.
fn service(more: &str) -> String {
    format!("services:\n  web:\n    versions: {{ v1: 'http://V1', v2: 'http://V2' }}\n    stable: v1\n{more}")
}

#[tokio::test]
async fn a_route_is_taken_over_both_paths_by_the_same_requests() {
    let file = "services:
  web: { versions: { v1: 'http://V1' }, stable: v1 }
  api: { versions: { v2: 'http://V2' }, stable: v2, assign: { force: { header: x-canary } } }
routes:
  - { match: [{ path: { prefix: /api }, query: [{ name: beta, exact: '1' }] }, { path: { exact: /api } }], service: api, timeouts: { request: 5s } }
  - { match: [{ path: { prefix: /api }, method: POST }, { host: '*.shop.example' }], service: api, retry: { retries: 0 } }
  - { match: [{ host: shop.example, path: { regex: '/items/[0-9]+' } }], service: api }
  - { match: [{ headers: [{ name: x-lang, exact: de }] }], service: api }
  - { match: [{ path: { prefix: /old } }], filters: { redirect: { path: { full: /new } } } }
  - { match: [{ path: { prefix: /f } }, { path: { prefix: /last } }], service: web }
";
    let served = compare(cases("routes", file), |_, _| {}).await;
    assert!(served >= 30, "the fast path served {served}");
}

#[tokio::test]
async fn fields_are_changed_over_both_paths_in_the_same_way() {
    let file = "services:
  web:
    versions:
      v1: { endpoints: ['http://V1'], filters: { responseHeaders: { set: { x-version: v1, x-b: gone }, remove: [x-frame-options, x-c] } } }
      v2: { endpoints: ['http://V2'], filters: { responseHeaders: { add: { x-version: [v2, canary], x-seen: three }, remove: [etag] } } }
    stable: v1
    canary: v2
    assign: { force: { header: x-canary } }
    steps: [100%]
routes:
  - match: [{ path: { prefix: /f } }, { path: { prefix: /last } }]
    filters:
      requestHeaders: { set: { x-edge: serin, x-lang: none }, add: { x-seen: [one, two], x-a: more }, remove: [x-group, user-agent, x-user] }
      responseHeaders: { set: { x-frame-options: DENY, x-up: '2' }, add: { set-cookie: a=b, x-seen: [one, two] }, remove: [server, x-a] }
    service: web
  - { match: [{ path: { prefix: /api } }], filters: { requestHeaders: { remove: [via] }, responseHeaders: { set: { cache-control: no-store } } }, service: web }
  - { service: web, filters: { requestHeaders: { remove: [x-lang] } } }
";
    let mut all = cases("filters", file);
    for told in TOLD.iter().filter(|told| told.bytes.len() < 400) {
        all.push(Case {
            name: format!("filters: {}", told.name),
            asked: b"GET /f HTTP/1.1\r\nHost: t\r\nX-A: 1\r\nX-Lang: de\r\nUser-Agent: x\r\nX-Seen:zero\r\n\r\n"
                .to_vec(),
            told: Some((expand(told.bytes), told.then)),
            file: Some(file.to_owned()),
        });
    }
    let count = all.len() as u64;
    let served = compare(all, |_, _| {}).await;
    assert!(served >= count, "the fast path served {served} requests of {count} cases");
}

#[tokio::test]
async fn who_is_told_apart_goes_to_one_version_over_both_paths() {
    let by = |sticky: &str| service(&format!("    canary: v2\n    assign: {{ {sticky} }}\n    steps: [50%]\n"));
    let rules =
        "force: { header: x-canary, cookie: canary }, cohorts: [{ header: x-group, values: [staff], to: canary }]";
    let near = "trust: { forwardedFrom: [127.0.0.0/8] }\n";
    let mut all = Vec::new();
    // A draw would differ: where the rule does not tell a client, all are sent to one version by a cohort.
    for (name, file) in [
        ("by address", by(&format!("{rules}, sticky: {{ by: clientIp }}"))),
        ("by address of a proxy's client", format!("{near}{}", by("sticky: { by: clientIp }"))),
        ("rules alone", service(&format!("    assign: {{ {rules} }}\n"))),
        ("cookies", format!("{near}{}", service("    assign: { sticky: { by: cookie, ttl: 1h } }\n"))),
        ("near clients", by("force: { header: x-canary, from: [127.0.0.0/8] }, sticky: { by: clientIp }")),
        (
            "far clients",
            by("force: { cookie: canary, from: [10.0.0.0/8], secret: open-sesame-open }, sticky: { by: clientIp }"),
        ),
        ("a secret to hide", by("force: { header: x-canary, secret: open-sesame-open }, sticky: { by: clientIp }")),
    ] {
        all.extend(cases(name, &file));
    }
    for by in ["by: header, name: x-user", "by: query, name: user", "by: cookie"] {
        let file = service(&format!("    canary: v2\n    assign: {{ sticky: {{ {by} }} }}\n    steps: [50%]\n"));
        // The last request, which brings nothing, is told apart from those by a draw.
        let of = cases(by, &file).into_iter().filter(|case| case.asked.windows(5).any(|five| five == b"user="));
        all.extend(of.map(|case| Case {
            asked: [&case.asked[..case.asked.len() - 2], b"Connection: close\r\n\r\n"].concat(),
            ..case
        }));
    }
    let count = all.len() as u64;
    let served = compare(all, |_, _| {}).await;
    assert!(served >= count, "the fast path served {served} requests of {count} cases");
}

#[tokio::test]
async fn a_canary_that_fails_is_followed_by_the_same_attempts_over_both_paths() {
    let mut all = Vec::new();
    for (name, service) in [
        ("rescued", "    rescue: {}\n"),
        ("rescued also when posting", "    rescue: { methods: [GET, PUT], conditions: [reset, 5xx] }\n"),
        ("left alone", "    countAsError: { statuses: [400-599] }\n"),
    ] {
        let file = self::service(&format!("    canary: v2\n    steps: [100%]\n{service}"));
        for told in TOLD.iter().filter(|told| told.bytes.len() < 200) {
            for method in ["GET", "POST"] {
                all.push(Case {
                    name: format!("{name}: {method} {}", told.name),
                    asked: format!("{method} /f HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\nhi").into_bytes(),
                    told: Some((expand(told.bytes), told.then)),
                    file: Some(file.clone()),
                });
            }
        }
    }
    let count = all.len() as u64;
    let served = compare(all, |_, _| {}).await;
    assert!(served >= count, "the fast path served {served} requests of {count} cases");
}

#[tokio::test]
async fn endpoints_that_are_not_there_are_passed_over_alike() {
    let endpoints = |of: &str, more: &str| {
        let of = format!("{{ endpoints: [{of}], loadBalancing: roundRobin }}");
        format!("services:\n  web:\n    versions: {{ v1: {of}, v2: 'http://NOBODY' }}\n    stable: v1\n{more}")
    };
    let mut all = Vec::new();
    for (name, file) in [
        ("one of two", endpoints("'http://NOBODY', 'http://V1'", "")),
        ("none of one", endpoints("'http://NOBODY'", "")),
        ("a dead canary", endpoints("'http://V1'", "    canary: v2\n    steps: [100%]\n")),
        (
            "a dead canary that may fail",
            endpoints("'http://V1'", "    canary: v2\n    steps: [100%]\n    deadCanary: fail\n"),
        ),
        (
            "a dead canary before two",
            endpoints("'http://NOBODY', 'http://V1'", "    canary: v2\n    steps: [100%]\n    rescue: {}\n"),
        ),
    ] {
        // Without a body, which the ordinary path has not read when nobody answers: it closes then, and need not here.
        let has_none = |case: &Case| !case.asked.ends_with(b"hello");
        all.extend(cases(name, &file).into_iter().filter(has_none).take(7));
    }
    let count = all.len() as u64;
    let served = compare(all, |_, _| {}).await;
    assert!(served >= count, "the fast path served {served} requests of {count} cases");
}
