//! The meaning of every field, by the path of its mapping as in `shape.rs`. Whoever reads a new field adds it here:
//!
//! ```text
//! name [what may be written] = what holds without it (or REQUIRED), eg an example on one line:
//!     what it does, in a sentence or two without the closing full stop;
//! ```

use super::{
    Field,
    Kind::{
        Address, Condition, Duration, Flag, List, Map, Name, Named, Number, Path, Points, Secret, Share, Size, Text,
        Url, Weight, Whole, Word,
    },
    REQUIRED,
};
use crate::engine::failure::GRPC_CODES;

macro_rules! fields {
    ($($path:literal { $($name:ident [$($kind:expr),+] = $default:expr, eg $example:literal: $($says:literal)+;)* })*) => {
        /// Every field by the path of its mapping.
        pub(super) const ALL: &[(&str, &[Field])] = &[$(
            ($path, &[$(Field {
                name: stringify!($name),
                kinds: &[$($kind),+],
                default: $default,
                example: $example,
                says: concat!($($says),+),
            }),*]),
        )*];
    };
}

/// Requests of a window and the like: as many as one likes.
const MANY: super::Kind = Whole(1, 1_000_000_000);

/// How an attempt fails.
const CONDITION: super::Kind = Word(&["connect-failure", "refused-stream", "reset", "timeout", "5xx"]);

/// Mappings in which exactly one field is written.
pub(super) const ONE_OF: &[&str] = &[
    "routes[].match[].path",
    "routes[].filters.rewrite.path",
    "services.<name>.strategy.canary.steps[]",
    "services.<name>.strategy.canary.steps[].analysis.args[].valueFrom",
    "analysisTemplates.<name>.metrics[].provider",
];

fields! {
    "" {
        listen [Address] = "none; this or `listeners`", eg "0.0.0.0:8080":
            "Where clients come in; short for one entry of `listeners`";
        listeners [List(&[Map("listeners[]")])] = "none; this or `listen`",
            eg "[{ name: http, listen: \"127.0.0.1:8080\" }]":
            "Where clients come in, each with its own limits";
        workers [Word(&["auto"]), Whole(1, 1024)] = "auto", eg "4":
            "Threads that carry traffic; `auto` is one for each CPU that the process may use";
        metrics [Map("metrics")] = "on the admin listener only", eg "{ listen: \"127.0.0.1:9100\" }":
            "A listener of its own for /metrics, /healthz and /readyz, which everybody may read";
        admin [Map("admin")] = "127.0.0.1:9900 without tokens", eg "{ listen: \"127.0.0.1:9900\" }":
            "Where the command line and scripts ask and act";
        state [Map("state")] = "./serin-state", eg "{ dir: ./serin-state }":
            "Where decisions are remembered, so that a restart goes on where it stood";
        accessLog [Map("accessLog")] = "off", eg "{ format: json }":
            "A line for each request on standard output; requests get an `x-request-id`, which upstream and client see";
        fastPath [Word(&["on", "off"])] = "on", eg "off":
            "Whether HTTP/1.1 requests are passed on without a map of their fields, which costs less; what needs more "
            "takes the ordinary path all the same";
        outbound [Map("outbound")] = "no link-local and no metadata address", eg "{ allow: [169.254.0.0/16] }":
            "Whom the questions of Serin itself may reach: analyses over HTTP and `notify`";
        trust [Map("trust")] = "nobody is believed", eg "{ forwardedFrom: [10.0.0.0/8] }":
            "Whose word about earlier hops is believed";
        routes [List(&[Map("routes[]")])] = "all requests go to the only service", eg "[{ service: shop }]":
            "Which requests go to which service, how they are changed on the way, and how long they may take; needed "
            "for several services";
        notify [List(&[Map("notify[]")])] = "nobody", eg "[{ webhook: \"https://hooks.example/serin\" }]":
            "Who is told about rollouts. Each event is told once it is in force, in order, and tried until it is taken";
        concurrentRollouts [Whole(0, 1_000)] = "0, no limit", eg "1":
            "Most rollouts that go on at once; others wait for their turn before their first step";
        services [Named(&[Map("services.<name>")])] = REQUIRED,
            eg "{ shop: { versions: { v41: \"http://a:80\", v42: \"http://b:80\", baseline: \"http://c:80\" }, stable: v41 } }":
            "Each service with its versions, who is stable and who is wanted";
        analysisTemplates [Named(&[Map("analysisTemplates.<name>")])] = "none",
            eg "{ latency: { metrics: [{ name: p95, successCondition: result.p95 < 500, provider: { serin: {} } }], args: [{ name: limit }, { name: version }, { name: token }, { name: password }] }, \
                outside: { metrics: [{ name: checkout, interval: 1m, successCondition: result.p95 < 500, provider: { serin: {} } }, { name: errors-web, interval: 1m, provider: { exec: { command: [./test.sh] } } }], \
                args: [{ name: token }, { name: password }, { name: version }] } }":
            "Questions that analysis steps ask, by name; as Argo Rollouts' AnalysisTemplate";
    }
    "listeners[]" {
        name [Name] = REQUIRED, eg "http":
            "Its label in logs and metrics";
        listen [Address] = REQUIRED, eg "127.0.0.1:8080":
            "The IP address and port; port 0 takes any free one";
        http [List(&[Word(&["h1", "h2"])])] = "[h1, h2]", eg "[h1, h2]":
            "Which versions of HTTP are spoken; agreed on by TLS, and without it told apart by the first bytes";
        proxyProtocol [Word(&["true", "false"])] = "false", eg "false":
            "Whether each connection must begin with a PROXY header, version 1 or 2, of the balancer in front; the address "
            "in it is the client's";
        tls [Map("listeners[].tls")] = "plain HTTP", eg "{ certificates: [{ cert: tls.crt, key: tls.key }] }":
            "TLS 1.2 and 1.3, with resumption";
        limits [Map("listeners[].limits")] = "as given for each", eg "{ connections: 1000 }":
            "What one client may take";
    }
    "listeners[].tls" {
        certificates [List(&[Map("listeners[].tls.certificates[]")])] = REQUIRED,
            eg "[{ cert: tls.crt, key: tls.key }]":
            "Chosen by the host that the client names, by exact name before a wildcard; the first is for all else. Read "
            "again when a file changes";
        clientCa [Path] = "nobody is asked", eg "ca.crt":
            "A PEM file of authorities: clients must show a certificate of one of them";
    }
    "listeners[].tls.certificates[]" {
        cert [Path] = REQUIRED, eg "tls.crt":
            "A PEM file with the certificate, and its chain behind it; relative to the config file";
        key [Path] = REQUIRED, eg "tls.key":
            "A PEM file with its private key, without a passphrase";
    }
    "listeners[].limits" {
        headerBytes [Size] = "64KiB", eg "64KiB":
            "Largest request head, from 8KiB to 1MiB; a larger one is answered with 431";
        headers [Whole(1, 1_000)] = "100", eg "100":
            "Most fields of a request head";
        headerTimeout [Duration] = "10s", eg "10s":
            "From the first byte awaited to a whole request head";
        bodyTimeout [Duration] = "30s", eg "30s":
            "Longest silence within a request body";
        idleTimeout [Duration] = "1m", eg "60s":
            "How long a kept-alive connection may be idle";
        connections [Whole(1, 1_000_000)] = "10000", eg "10000":
            "Open connections at once; more wait to be accepted";
        h2Streams [Whole(1, 10_000)] = "128", eg "128":
            "Requests at once on one HTTP/2 connection";
    }
    "metrics" {
        listen [Address] = REQUIRED, eg "127.0.0.1:9100":
            "The address of the page; anybody who reaches it may read";
        compat [List(&[Word(&["istio", "linkerd", "nginx", "traefik", "envoy"])])] = "[]", eg "[istio, nginx]":
            "Serves the same counters under the names and labels of these proxies too, at /metrics/compat, so that queries "
            "written for them answer; the namespace is `default`, the canary's workload has the service's name, and stable's "
            "has `-primary` after it";
    }
    "admin" {
        listen [Address, Url] = "127.0.0.1:9900", eg "127.0.0.1:9900":
            "The address; off loopback both tokens are needed. Or `unix:/run/serin.sock`: a socket that only the user who "
            "runs Serin may open";
        readToken [Secret] = "none: reads are open on loopback", eg "${SERIN_READ_TOKEN:-}":
            "The token that reads need; empty is unset";
        writeToken [Secret] = "one is made in the state folder", eg "${SERIN_WRITE_TOKEN:-}":
            "The token that changes need; empty is unset, and the command line finds the one in the state folder";
    }
    "state" {
        dir [Path] = "./serin-state", eg "./serin-state":
            "The folder; relative to the config file";
        maxAge [Duration] = "1d", eg "24h":
            "An unfinished rollout older than this is not gone on with; who is stable and what was aborted never "
            "expires";
    }
    "accessLog" {
        format [Word(&["off", "json", "combined"])] = REQUIRED, eg "json":
            "How a line is written: `json`, or `combined` as web servers do, with version and role behind it. Queries and "
            "bodies are never written";
        sampleSuccess [Share] = "100%", eg "1%":
            "The share of successes that is written; failures all are";
    }
    "trust" {
        forwardedFrom [List(&[Text])] = REQUIRED, eg "[10.0.0.0/8, \"fd00::/8\"]":
            "Networks of peers whose X-Forwarded-* and Forwarded are believed: of the addresses that they name the "
            "rightmost one outside of these networks is the client's. What others say is overwritten";
    }
    "outbound" {
        allow [List(&[Text])] = REQUIRED, eg "[169.254.0.0/16, \"fe80::/10\"]":
            "Networks that may be asked though they are link-local, or where a cloud keeps credentials: those are refused "
            "else, whether the URL says so, a name resolves to it, or a redirect leads there. Loopback needs no word";
    }
    "routes[]" {
        name [Name] = "route-1, route-2 and so on", eg "everything":
            "Its name in logs and explanations";
        match [List(&[Map("routes[].match[]")])] = "every request", eg "[{ path: { prefix: / } }]":
            "It takes requests that meet one of these. Of several routes the one with the nearest host wins, then the "
            "exact path, a pattern, the longest prefix, a method, most headers, most parameters, then the order of the file";
        filters [Map("routes[].filters")] = "none", eg "{ requestHeaders: { set: { x-edge: serin } } }":
            "What is changed of requests and answers on the way";
        timeouts [Map("routes[].timeouts")] = "as given for each", eg "{ request: 30s }":
            "How long a request may take";
        service [Name] = "needed without a redirect", eg "shop":
            "The service that answers";
        retry [Map("routes[].retry")] = "one more attempt where nothing can be done twice", eg "{ retries: 1 }":
            "Further attempts at the same version after one that failed. The first attempt alone is evidence about the "
            "version; each counts in `serin_attempts_total`";
    }
    "routes[].retry" {
        retries [Whole(0, 10)] = "1", eg "2":
            "Attempts after the first one";
        conditions [List(&[CONDITION])] = "[connect-failure, refused-stream]", eg "[connect-failure, reset]":
            "After which failures. With `reset`, `timeout` and `5xx` the request may have been carried out, so they "
            "hold for GET, HEAD, OPTIONS, PUT and DELETE only. After a `connect-failure` another endpoint is asked, if "
            "there is one";
        statuses [List(&[Whole(200, 599), Text])] = "none", eg "[503, 520-529]":
            "After which answers to such requests";
        budget [Share] = "20%", eg "20%":
            "Retries at most, of a version's requests within a second; ten on each worker are always allowed";
    }
    "routes[].match[]" {
        host [Text] = "any", eg "shop.example":
            "The host without port, in any case; `*.shop.example` is every host below shop.example, not itself";
        path [Map("routes[].match[].path")] = "{ prefix: / }", eg "{ prefix: / }":
            "The path as sent, in its case; nothing is decoded";
        method [Text] = "any", eg "GET":
            "The method in its case; GET is not HEAD";
        headers [List(&[Map("routes[].match[].headers[]")])] = "none", eg "[{ name: x-lang, exact: de }]":
            "Header fields that must all be there";
        query [List(&[Map("routes[].match[].query[]")])] = "none", eg "[{ name: beta, exact: \"1\" }]":
            "Query parameters that must all be there, decoded and in their case";
    }
    "routes[].match[].path" {
        exact [Text] = "one of the three", eg "/cart":
            "The whole path";
        prefix [Text] = "one of the three", eg "/":
            "Whole segments at its beginning: /a is met by /a and /a/b, not by /ab";
        regex [Text] = "one of the three", eg "\"/items/[0-9]+\"":
            "A regular expression that covers the whole path; of several the longer one is tried first";
    }
    "routes[].match[].headers[]" {
        name [Text] = REQUIRED, eg "x-lang":
            "The field, in any case; of several fields of that name one is enough";
        exact [Text] = "one of the three", eg "de":
            "Its whole value";
        prefix [Text] = "one of the three", eg "de":
            "The beginning of its value";
        regex [Text] = "one of the three", eg "de|at":
            "A regular expression that covers its whole value";
    }
    "routes[].match[].query[]" {
        name [Text] = REQUIRED, eg "beta":
            "The parameter; of several of that name the first counts";
        exact [Text] = "one of the three", eg "\"1\"":
            "Its whole value";
        prefix [Text] = "one of the three", eg "a":
            "The beginning of its value";
        regex [Text] = "one of the three", eg "\"[0-9]+\"":
            "A regular expression that covers its whole value";
    }
    "routes[].filters" {
        requestHeaders [Map("routes[].filters.requestHeaders")] = "none", eg "{ set: { x-edge: serin } }":
            "Changes of the request's fields; set first, then added, then removed. Those of the version come after";
        responseHeaders [Map("routes[].filters.requestHeaders")] = "none", eg "{ set: { x-frame-options: DENY } }":
            "The same for the answer";
        rewrite [Map("routes[].filters.rewrite")] = "none", eg "{ path: { prefix: /v1 } }":
            "The host and path that the version sees";
        redirect [Map("routes[].filters.redirect")] = "none", eg "{ scheme: https, status: 301 }":
            "Answers by sending the client elsewhere, in place of a service";
        cors [Map("routes[].filters.cors")] = "none", eg "{ origins: [\"https://www.shop.example\"] }":
            "Which scripts of other origins may read answers; preflights are answered here, and what an upstream says "
            "about it is replaced";
        mirror [Map("routes[].filters.mirror")] = "none", eg "{ service: audit, percentage: 10, methods: [GET] }":
            "Copies of requests to another service, beside the requests themselves, which never wait or fail for it";
    }
    "routes[].filters.requestHeaders" {
        set [Named(&[Text])] = "none", eg "{ x-edge: serin }":
            "Fields that have this one value afterwards";
        add [Named(&[Text, List(&[Text])])] = "none", eg "{ x-seen: [one, two] }":
            "Values besides those that are there";
        remove [List(&[Text])] = "none", eg "[x-debug]":
            "Fields that are gone afterwards";
    }
    "routes[].filters.rewrite" {
        host [Text] = "as the client sent it", eg "shop.internal":
            "In place of the host; the client's is passed on in X-Forwarded-Host";
        path [Map("routes[].filters.rewrite.path")] = "as the client sent it", eg "{ prefix: /v1 }":
            "In place of the path or its beginning; the query stays";
    }
    "routes[].filters.rewrite.path" {
        full [Text] = "one of the two", eg "/index.html":
            "In place of the whole path";
        prefix [Text] = "one of the two", eg "/v1":
            "In place of what the route's prefix covered";
    }
    "routes[].filters.redirect" {
        scheme [Word(&["http", "https"])] = "as the client came", eg "https":
            "How the client is to come";
        host [Text] = "as the client sent it", eg "shop.example":
            "Which host it is to ask";
        port [Whole(1, 65_535)] = "that of `scheme`, or as the client sent it", eg "8443":
            "Which port";
        path [Map("routes[].filters.rewrite.path")] = "as the client sent it", eg "{ prefix: /new }":
            "Which path; the query stays";
        status [Whole(301, 308)] = "302", eg "301":
            "The status of the answer: 301, 302, 303, 307 or 308";
    }
    "routes[].filters.cors" {
        origins [List(&[Text])] = REQUIRED, eg "[\"https://www.shop.example\", \"https://*.partner.example\"]":
            "Whose scripts; `*` is everybody's";
        methods [List(&[Text])] = "[GET, HEAD, POST]", eg "[GET, POST]":
            "The methods of a preflight's answer";
        headers [List(&[Text])] = "none", eg "[x-lang]":
            "Fields that scripts may send; `*` is all that they ask for";
        exposeHeaders [List(&[Text])] = "none", eg "[x-edge]":
            "Fields that scripts may read";
        credentials [Flag] = "false", eg "true":
            "Whether cookies go along; never for origin `*`";
        maxAge [Duration] = "the browser's own few seconds", eg "1h":
            "How long a browser keeps a preflight's answer";
    }
    "routes[].filters.mirror" {
        service [Name] = REQUIRED, eg "audit":
            "Whose stable version gets the copies; its answers are thrown away";
        percentage [Number(0.0), Share] = "100", eg "10":
            "Of so many percent of the requests, by a draw of their own for each";
        methods [List(&[Text])] = "[GET, HEAD, OPTIONS]", eg "[GET, HEAD, POST]":
            "Of requests with these methods only. A copy of any other method does something twice";
    }
    "routes[].timeouts" {
        request [Duration] = "30s", eg "30s":
            "From the request's head to the response's head, all attempts together";
        attempt [Duration] = "10s, or `request` if that is shorter", eg "10s":
            "One attempt, to the response's head";
        idle [Duration] = "1m", eg "60s":
            "Between two pieces of a body, in either direction";
        upgraded [Duration] = "1h", eg "1h":
            "Silence, in both directions, of a WebSocket or another upgraded connection";
    }
    "services.<name>" {
        versions [Named(&[Url, Map("services.<name>.versions.<name>")])] = REQUIRED,
            eg "{ v41: \"http://a:80\", v42: \"http://b:80\", baseline: \"http://c:80\" }":
            "Each version and where it answers; a URL alone is short for `endpoints` with one entry";
        stable [Name] = REQUIRED, eg "v41":
            "The version that serves at the very first start; later the state knows, and `serin drift` says where "
            "the file disagrees";
        canary [Name] = "none: nothing is rolled out", eg "v42":
            "The wanted version; naming another one here, and saving, starts a rollout. Empty, or the stable "
            "version, wishes nothing";
        revision [Text] = "empty", eg "${GIT_SHA:-}":
            "Another build under the canary's name; a new text starts a rollout as a new name does";
        assign [Map("services.<name>.assign")] = "a fresh draw for each request", eg "{ sticky: { by: cookie } }":
            "Which client gets which version";
        rescue [Map("services.<name>.rescue"), Word(&["off", "on"])] = "off", eg "{ methods: [GET, HEAD] }":
            "Stable answers a request that the canary failed, if it may be sent twice; the canary is charged with it. "
            "Bodies are kept for that up to 64 KiB; counted in `serin_rescue_total`";
        deadCanary [Word(&["stable", "fail"])] = "stable", eg "stable":
            "Who answers requests for a canary that cannot be connected to; the canary is charged with them. Counted in "
            "`serin_fallback_total`";
        countAsError [Map("services.<name>.countAsError")] = "as given for each", eg "{ statuses: [500-599] }":
            "Which answers are charged to a version as its errors";
        steps [List(&[Share])] = "[1%, 5%, 25%, 50%]", eg "[1%, 5%, 25%, 50%]":
            "The canary's shares, rising; each is held for `hold`. Short form, excludes `strategy`";
        hold [Duration] = "2m", eg "2m":
            "How long each of `steps` is held. Short form, excludes `strategy`";
        abortWhen [Map("services.<name>.abortWhen")] = "none", eg "{ errorRate: 2%, p99: 800ms }":
            "Limits that revert the canary. Short form of `strategy.canary.guard`";
        gates [List(&[Map("services.<name>.gates[]")])] = "none",
            eg "[{ name: approve, type: confirm-promotion, url: https://hooks.example/approve, timeout: 10s }]":
            "Who outside is asked whether a rollout may go on; each once a step, unless it says wait";
        strategy [Map("services.<name>.strategy")] = "the short form's defaults",
            eg "{ canary: { steps: [{ setWeight: 5 }, { pause: { duration: 5m } }] } }":
            "How a canary is tried, in full";
    }
    "services.<name>.rescue" {
        methods [List(&[Word(&["GET", "HEAD", "OPTIONS", "PUT", "DELETE"])])] = "[GET, HEAD, OPTIONS]", eg "[GET, HEAD]":
            "Of which methods";
        conditions [List(&[CONDITION])] = "[connect-failure, reset, timeout, 5xx]", eg "[reset, timeout]":
            "After which failures";
    }
    "services.<name>.countAsError" {
        statuses [List(&[Whole(200, 599), Text])] = "[500-599]", eg "[500-599, 429]":
            "By status";
        grpc [List(&[Word(&GRPC_CODES)])] =
            "[UNKNOWN, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, INTERNAL, UNAVAILABLE, DATA_LOSS]", eg "[UNAVAILABLE]":
            "By the status of a gRPC call, in headers or trailers";
    }
    "services.<name>.versions.<name>" {
        endpoints [List(&[Url])] = REQUIRED, eg "[\"http://127.0.0.1:8042\"]":
            "Where it answers: one or several of `http://host:port`, `https://host:port` and `unix:/path`. A name stands "
            "for all its addresses; it is asked for again every 5s, as the system does not say for how long an answer "
            "holds, and at once when a connection fails";
        http [Word(&["auto", "h1", "h2"])] = "auto", eg "auto":
            "Which version of HTTP it is asked in; `auto` is h1 for http://, and for https:// what TLS agrees on";
        tls [Map("services.<name>.versions.<name>.tls")] = "the system's authorities, the endpoint's name",
            eg "{ sni: app.example }":
            "TLS to the endpoints, which begin with `https://` then";
        loadBalancing [Word(&["leastRequest", "roundRobin", "random", "ringHash"])] = "leastRequest", eg "roundRobin":
            "Whose turn it is: the less busy one of two that chance names, one after the other, by chance, or the same "
            "for all requests of a client of `assign.sticky`";
        slowStart [Duration] = "0s", eg "30s":
            "How long a new address takes until it has its full part";
        limits [Map("services.<name>.versions.<name>.limits")] = "as given for each", eg "{ connections: 100 }":
            "What each address may be asked at once; over it requests are answered with 503 at once";
        filters [Map("services.<name>.versions.<name>.filters")] = "none",
            eg "{ requestHeaders: { set: { x-version: v42 } } }":
            "What is changed of requests to it and of its answers";
        health [Map("services.<name>.versions.<name>.health")] = "nobody is asked", eg "{ path: /healthz }":
            "Asks each address, beside the requests, whether it is well. One that is not gets no requests, unless none "
            "is: then all are used, but for a canary, whose requests `deadCanary` decides on. A canary's weight rises "
            "only once one of its addresses is well. A new address waits for its first good answer while another one "
            "has had one. Nothing is remembered over a restart. Checks are no evidence";
        ejection [Map("services.<name>.versions.<name>.ejection")] = "none", eg "{ consecutiveErrors: 5 }":
            "Leaves an address out for a while that fails requests in a row, also the only one of a canary. Its errors "
            "before, and a canary's requests meanwhile, count against the version";
    }
    "services.<name>.versions.<name>.health" {
        path [Path] = "none: a connection, with its TLS, is enough", eg "/healthz":
            "Asked for by GET; an answer from 200 to 399 is good";
        interval [Duration] = "2s", eg "2s":
            "From one answer to the next question, a tenth more or less";
        timeout [Duration] = "1s, or `interval` if that is shorter", eg "1s":
            "How long an answer may take; at most `interval`";
        healthy [Whole(1, 1000)] = "2", eg "2":
            "Good answers in a row that bring an address back. The first answer of a new one decides alone";
        unhealthy [Whole(1, 1000)] = "3", eg "3":
            "Bad answers in a row that take an address out";
    }
    "services.<name>.versions.<name>.ejection" {
        consecutiveErrors [Whole(1, 1000)] = "5", eg "5":
            "So many errors in a row of one address, over all workers: failed connections, no or no whole answer, and "
            "what `countAsError` names";
        base [Duration] = "10s", eg "10s":
            "How long it is left out the first time; so much longer each further time, up to 5m. What it has served in "
            "between is taken off";
        maxShare [Share] = "50%", eg "50%":
            "Most addresses of the version that are left out at once; one always may be";
    }
    "services.<name>.versions.<name>.tls" {
        ca [Path] = "the system's authorities, or Mozilla's where it has none", eg "ca.crt":
            "A PEM file of authorities that are believed in their place";
        sni [Text] = "the endpoint's host", eg "app.example":
            "The name that is asked for, and that the certificate must have";
        cert [Path] = "none", eg "client.crt":
            "A certificate in PEM that is shown to the endpoints; needs `key`";
        key [Path] = "none", eg "client.key":
            "The key of `cert`";
    }
    "services.<name>.versions.<name>.limits" {
        connections [Whole(1, 1_000_000)] = "1024", eg "100":
            "Open connections to an address, shared out among the workers";
        pending [Whole(0, 1_000_000)] = "1024", eg "100":
            "Requests that may wait for one";
    }
    "services.<name>.versions.<name>.filters" {
        requestHeaders [Map("routes[].filters.requestHeaders")] = "none", eg "{ set: { x-version: v42 } }":
            "Changes of the request's fields for this version alone, after those of the route";
        responseHeaders [Map("routes[].filters.requestHeaders")] = "none", eg "{ set: { x-version: v42 } }":
            "The same for its answers";
    }
    "services.<name>.assign" {
        force [Map("services.<name>.assign.force")] = "none", eg "{ header: x-canary }":
            "Lets a request choose its version; forced requests are no evidence";
        cohorts [List(&[Map("services.<name>.assign.cohorts[]")])] = "none",
            eg "[{ header: x-group, values: [staff], to: canary }]":
            "Groups of clients that have a version of their own; the first that a request is in counts, and they are no evidence";
        sticky [Map("services.<name>.assign.sticky")] = "a fresh draw for each request", eg "{ by: cookie }":
            "Keeps a client on its version; raising the weight moves clients only forward, an abort frees all at "
            "once";
    }
    "services.<name>.assign.force" {
        header [Text] = "this or `cookie`", eg "x-canary":
            "The header whose value chooses: `always`, `never`, or a version's name. Only stable and canary serve: "
            "another version's name, and every word while there is no canary, mean stable";
        cookie [Text] = "this or `header`", eg "canary":
            "The cookie whose value chooses, where the header says nothing";
        from [List(&[Text])] = "everybody, unless there is a secret", eg "[10.0.0.0/8]":
            "Networks of clients who may choose";
        secret [Secret] = "none", eg "${FORCE_SECRET:-}":
            "What others write behind the word, as in `always:SECRET`; versions do not see the header then";
    }
    "services.<name>.assign.cohorts[]" {
        header [Text] = REQUIRED, eg "x-group":
            "The field that tells";
        values [List(&[Text])] = REQUIRED, eg "[staff, beta]":
            "Who has one of these is in the group";
        to [Word(&["canary", "stable"]), Name] = REQUIRED, eg "canary":
            "Where the group goes; to stable while there is no canary";
    }
    "services.<name>.assign.sticky" {
        by [Word(&["cookie", "header", "query", "clientIp"])] = REQUIRED, eg "cookie":
            "By what a client is known. The cookie holds a random id, never a version; a request without the header or "
            "parameter is a fresh draw";
        name [Text] = "serin for a cookie", eg "serin":
            "The name of the cookie, header or parameter";
        ttl [Duration] = "until the browser is closed", eg "1h":
            "How long the client keeps the cookie";
    }
    "services.<name>.abortWhen" {
        errorRate [Share, Map("services.<name>.strategy.canary.guard.errorRate")] = "none", eg "2%":
            "Reverts when more than this share of the canary's requests fails, over 10s and at least 50 requests "
            "unless written otherwise";
        p50 [Duration] = "none", eg "100ms":
            "Reverts when the median latency is above this, over 30s and at least 200 requests";
        p75 [Duration] = "none", eg "150ms":
            "The same for the 75th percentile";
        p90 [Duration] = "none", eg "200ms":
            "The same for the 90th percentile";
        p95 [Duration] = "none", eg "400ms":
            "The same for the 95th percentile";
        p99 [Duration] = "none", eg "800ms":
            "The same for the 99th percentile";
        p999 [Duration] = "none", eg "2s":
            "The same for the 99.9th percentile";
    }
    "services.<name>.gates[]" {
        name [Name] = REQUIRED, eg "approve":
            "By which `why`, the history and the gate itself call it";
        type [Word(&[
            "confirm-rollout", "pre-rollout", "rollout", "confirm-traffic-increase", "confirm-promotion", "post-rollout",
            "rollback",
        ])] = REQUIRED, eg "confirm-promotion":
            "When it is asked. `confirm-rollout`, then `pre-rollout`: before the first step. `rollout`: in each step that "
            "takes time, which does not end before its go. `confirm-traffic-increase`: before each step that gives the "
            "canary more. `confirm-promotion`: before the canary becomes stable. `rollback`: all along, and its go means: "
            "give the canary up. `post-rollout`: told the end, whatever it answers";
        url [Secret] = REQUIRED, eg "https://hooks.example/approve":
            "Gets a POST with JSON. 200, 201 and 204 are go; 202 and 503 are wait: it is asked again after `Retry-After` or "
            "10s; 409 is stop: the rollout is aborted. After five other answers or none in a row the rollout is paused";
        timeout [Duration] = "10s", eg "10s":
            "How long an answer is waited for";
        headers [Named(&[Secret])] = "none", eg "{ authorization: \"Bearer ${GATE_TOKEN:-}\" }":
            "Header fields";
        metadata [Named(&[Text])] = "none", eg "{ team: shop }":
            "Told to it in the JSON, as it stands";
    }
    "services.<name>.strategy" {
        canary [Map("services.<name>.strategy.canary")] = "none; this or `blueGreen`", eg "{ steps: [{ setWeight: 5 }] }":
            "Step by step, on evidence";
        blueGreen [Map("services.<name>.strategy.blueGreen")] = "none; this or `canary`", eg "{ autoPromotionEnabled: false }":
            "Everything at once, after a look without traffic; an abort before or after the switch leaves the old version "
            "in charge of everything";
    }
    "services.<name>.strategy.blueGreen" {
        preview [Map("services.<name>.strategy.blueGreen.preview")] = "nobody, but for force headers",
            eg "{ header: { name: x-preview, exact: \"1\" } }":
            "Who sees the new version before the switch";
        prePromotionAnalysis [Map("services.<name>.strategy.canary.steps[].analysis")] = "none",
            eg "{ templates: [{ templateName: latency }], args: [{ name: limit, value: 500 }] }":
            "Runs before the switch and must be successful";
        autoPromotionEnabled [Flag] = "true", eg "false":
            "With `false` the switch waits for `serin promote`, unless `autoPromotionSeconds` is given";
        autoPromotionSeconds [Whole(0, 2_592_000)] = "0", eg "30":
            "The switch waits so many seconds, and not for a person";
        postPromotionAnalysis [Map("services.<name>.strategy.canary.steps[].analysis")] = "none",
            eg "{ templates: [{ templateName: latency }], args: [{ name: limit, value: 500 }] }":
            "Runs after the switch; if it fails, everything goes back to the old version";
        scaleDownDelaySeconds [Whole(0, 604_800)] = "30", eg "30":
            "After the promotion or an abort: when the version that serves no longer may be stopped";
    }
    "notify[]" {
        slack [Secret] = "none; this or `webhook`", eg "\"${SLACK_URL:-}\"":
            "A webhook of Slack, Mattermost or the like; empty is off";
        webhook [Secret] = "none; this or `slack`", eg "https://hooks.example/serin":
            "Any URL that takes a POST with JSON; empty is off";
        format [Word(&["json", "cloudevents", "slack"])] = "json", eg "cloudevents":
            "The form of a `webhook`'s messages";
        secret [Secret] = "none", eg "\"${HOOK_SECRET:-}\"":
            "Signs each message: `x-serin-signature-256: sha256=` and the HMAC-SHA-256 of the body in hexadecimal";
        events [List(&[Word(&[
            "initialized", "started", "weightChanged", "stepChanged", "paused", "resumed", "promoted", "aborted",
            "superseded", "reconfigured", "scaleDown", "terminated", "gatePassed", "endpointOut",
            "endpointBack",
        ])])] = "started, paused, promoted, aborted, superseded, scaleDown", eg "[paused, aborted]":
            "What is told";
    }
    "services.<name>.strategy.canary.bake" {
        duration [Duration] = REQUIRED, eg "10m":
            "How long";
        weight [Share] = "99%", eg "99%":
            "The canary's share meanwhile; what is left stays on stable, to compare with";
    }
    "services.<name>.strategy.canary.abort" {
        ramp [Duration] = "0s, at once", eg "20s":
            "An abort takes the canary's weight down over so long, for a stable version that could not take everything at "
            "once. Asked for again, an abort is at once";
        capacityGuard [Map("services.<name>.strategy.canary.abort.capacityGuard")] = "none",
            eg "{ minHealthy: 50%, deadline: 10s }":
            "An abort waits, but not for long, until enough of stable's addresses are well to take the traffic: they may "
            "have been scaled down. Asked for again, an abort is at once";
    }
    "services.<name>.strategy.canary.abort.capacityGuard" {
        minHealthy [Share] = "50%", eg "50%":
            "So many of stable's addresses must be well, as far as its `health` and `ejection` know them";
        deadline [Duration] = "10s", eg "10s":
            "After so long the weight goes back in any case, from 1s to 10m";
    }
    "services.<name>.strategy.canary.windows[]" {
        days [List(&[Word(&["mon", "tue", "wed", "thu", "fri", "sat", "sun"])])] = "every day", eg "[mon, tue]":
            "On which days it opens";
        from [Text] = REQUIRED, eg "\"09:00\"":
            "When it opens, in quotes";
        to [Text] = REQUIRED, eg "\"16:00\"":
            "When it closes; on the next day if that is not after `from`";
        zone [Text] = "UTC", eg "Europe/Berlin":
            "Whose hours these are, by its name in the tz database";
    }
    "services.<name>.strategy.canary.guard.warmup" {
        errors [Duration] = "0s", eg "0s":
            "For so long after its first weight the canary's errors are not counted";
        latency [Duration] = "10s", eg "10s":
            "The same for its latencies: a cold process is truly slower";
    }
    "services.<name>.strategy.canary" {
        maxTrafficWeight [Whole(1, 1_000_000)] = "100", eg "100":
            "What a bare `setWeight` is a part of, as in Argo Rollouts";
        steps [List(&[Map("services.<name>.strategy.canary.steps[]")])] = "1%, 5%, 25%, 50%, each held 2m",
            eg "[{ setWeight: 5 }, { pause: { duration: 5m } }]":
            "What is done in order; shown and addressed from 1. After the last one the canary becomes stable";
        guard [Map("services.<name>.strategy.canary.guard")] = "the share test, and 20 errors in a row",
            eg "{ errorRate: 2% }":
            "What is watched from the first canary request to the promotion";
        promoteEarly [Word(&["on", "off", "true", "false"]), Map("services.<name>.strategy.canary.promoteEarly")] = "off",
            eg "{ alpha: 5%, blastRadius: 0.1% }":
            "A hold ends sooner once errors and latency are proven good enough for the next weight; needs the share test";
        onNoTraffic [Word(&["wait", "pause", "abort"])] = "wait", eg "wait":
            "What happens when a step does not get its minimum of requests";
        noTrafficFor [Duration] = "10m", eg "10m":
            "For how long a step may lack its requests before `onNoTraffic`";
        deadline [Duration] = "none", eg "12h":
            "After so much unpaused time the rollout is aborted. Waiting for a window or a turn is not counted, waiting for a canary to be well is";
        analysis [Map("services.<name>.strategy.canary.analysis")] = "none", eg "{ templates: [{ templateName: more }], args: [{ name: token, value: x }] }":
            "Runs analysis templates beside the steps, again and again, to the end of the rollout";
        bake [Map("services.<name>.strategy.canary.bake")] = "none", eg "{ duration: 10m }":
            "The last step: nearly everything goes to the canary and is watched before it becomes stable";
        abort [Map("services.<name>.strategy.canary.abort")] = "at once", eg "{ ramp: 20s }":
            "How the canary leaves";
        drainTimeout [Duration] = "30s", eg "30s":
            "How long WebSockets, other upgraded connections, event streams and gRPC calls of a version go on after an abort or a promotion took its part away";
        scaleDownDelay [Duration] = "30s", eg "30s":
            "After a promotion or an abort: when `scaleDown` is told, and the version that serves no longer may be stopped";
        rollbackWindow [Whole(0, 16)] = "3", eg "3":
            "To how many earlier stable versions `serin undo` goes back at once; to older ones it is an ordinary rollout";
        windows [List(&[Map("services.<name>.strategy.canary.windows[]")])] = "always",
            eg "[{ days: [mon, tue, wed, thu], from: \"09:00\", to: \"16:00\", zone: Europe/Berlin }]":
            "When weight may rise. It may fall at any time, and `serin promote` is not held";
    }
    "services.<name>.strategy.canary.steps[]" {
        setWeight [Weight] = "none", eg "5":
            "The canary's share from here on";
        setHeaderRoute [Map("services.<name>.strategy.canary.steps[].setHeaderRoute")] = "none",
            eg "{ name: staff, match: [{ headerName: x-group, headerValue: { exact: staff } }] }":
            "From here on, requests with such a header go to the canary, whatever its weight; gone with the rollout";
        setMirrorRoute [Map("services.<name>.strategy.canary.steps[].setMirrorRoute")] = "none",
            eg "{ name: shadow, percentage: 10, match: [{ method: { exact: GET } }] }":
            "From here on, the canary gets copies of such requests as stable serves; gone with the rollout. What it answers "
            "is thrown away, and counts for nothing";
        pause [Map("services.<name>.strategy.canary.steps[].pause")] = "none", eg "{ duration: 5m }":
            "Waits: for a duration, for requests, or with `{}` until somebody says `serin promote`";
        analysis [Map("services.<name>.strategy.canary.steps[].analysis")] = "none",
            eg "{ templates: [{ templateName: latency }], args: [{ name: limit, value: 500 }] }":
            "Runs analysis templates to their end; the step passes or fails with them";
        experiment [Map("services.<name>.strategy.canary.steps[].experiment")] = "none",
            eg "{ duration: 10m, templates: [{ name: baseline, version: baseline }] }":
            "Gives other versions a part of stable's share for as long as the step takes, and judges them";
    }
    "services.<name>.strategy.canary.steps[].experiment" {
        duration [Duration] = "none; until the analyses are successful", eg "10m":
            "How long it goes on";
        templates [List(&[Map("services.<name>.strategy.canary.steps[].experiment.templates[]")])] = REQUIRED,
            eg "[{ name: baseline, version: baseline, weight: 5 }]":
            "Who takes part; they have the highest buckets, so that no client of the canary moves";
        analyses [List(&[Map("services.<name>.strategy.canary.steps[].experiment.analyses[]")])] = "none",
            eg "[{ name: compare, templateName: latency, args: [{ name: limit, value: 500 }] }]":
            "What is judged meanwhile; Failed and Error abort the rollout, Inconclusive pauses it";
    }
    "services.<name>.strategy.canary.steps[].experiment.templates[]" {
        name [Name] = REQUIRED, eg "baseline":
            "What it is called in `status`";
        version [Name] = REQUIRED, eg "baseline":
            "Which version; one that is stable or the canary by then gets nothing by it";
        weight [Weight] = "the canary's weight at this step", eg "5":
            "Its share, taken out of stable's";
    }
    "services.<name>.strategy.canary.steps[].experiment.analyses[]" {
        name [Name] = "none", eg "compare":
            "For people";
        templateName [Name] = REQUIRED, eg "latency":
            "The template";
        args [List(&[Map("services.<name>.strategy.canary.steps[].analysis.args[]")])] = "the template's defaults",
            eg "[{ name: limit, value: 500 }]":
            "Values for its arguments";
        requiredForCompletion [Flag] = "false", eg "true":
            "The experiment ends as soon as they are successful; for all of them or for none";
    }
    "services.<name>.strategy.canary.steps[].setHeaderRoute" {
        name [Name] = REQUIRED, eg "staff":
            "By which a later step replaces it, or removes it by having no condition";
        match [List(&[Map("services.<name>.strategy.canary.steps[].setHeaderRoute.match[]")])] = "none",
            eg "[{ headerName: x-group, headerValue: { exact: staff } }]":
            "Conditions of which any one is enough";
        all [List(&[Map("services.<name>.strategy.canary.steps[].setHeaderRoute.match[]")])] = "none; in place of `match`",
            eg "[{ headerName: x-group, headerValue: { exact: staff } }]":
            "Conditions that must all be met";
    }
    "services.<name>.strategy.canary.steps[].setHeaderRoute.match[]" {
        headerName [Text] = REQUIRED, eg "x-group":
            "The header";
        headerValue [Map("services.<name>.strategy.canary.steps[].setHeaderRoute.match[].headerValue")] = REQUIRED,
            eg "{ exact: staff }":
            "What one of its values must be";
    }
    "services.<name>.strategy.canary.steps[].setHeaderRoute.match[].headerValue" {
        exact [Text] = "none; this, `prefix` or `regex`", eg "staff":
            "The same";
        prefix [Text] = "none; this, `exact` or `regex`", eg "st":
            "It begins so";
        regex [Text] = "none; this, `exact` or `prefix`", eg "\"st.*\"":
            "The pattern covers the whole value";
    }
    "services.<name>.strategy.canary.steps[].setMirrorRoute" {
        name [Name] = REQUIRED, eg "shadow":
            "By which a later step replaces it, or removes it by having no `match`";
        percentage [Number(0.0), Share] = "100", eg "10":
            "Of so many percent of them, by a draw of their own for each";
        match [List(&[Map("services.<name>.strategy.canary.steps[].setMirrorRoute.match[]")])] = "none: it is removed",
            eg "[{ method: { exact: GET } }]":
            "Conditions of which any one is enough";
    }
    "services.<name>.strategy.canary.steps[].setMirrorRoute.match[]" {
        method [Map("services.<name>.strategy.canary.steps[].setMirrorRoute.match[].path")] = "GET, HEAD and OPTIONS",
            eg "{ exact: GET }":
            "The method; others than these three are copied only where it says so";
        path [Map("services.<name>.strategy.canary.steps[].setMirrorRoute.match[].path")] = "any", eg "{ prefix: / }":
            "The path as the client sent it, without the query; a prefix is compared by the character";
        headers [Named(&[Map("services.<name>.strategy.canary.steps[].setMirrorRoute.match[].path")])] = "any",
            eg "{ x-group: { exact: staff } }":
            "Headers, all of which must have such a value";
    }
    "services.<name>.strategy.canary.steps[].setMirrorRoute.match[].path" {
        exact [Text] = "none; this, `prefix` or `regex`", eg "/shop":
            "The same";
        prefix [Text] = "none; this, `exact` or `regex`", eg "/":
            "It begins so";
        regex [Text] = "none; this, `exact` or `prefix`", eg "\"/shop/[0-9]+\"":
            "The pattern covers all of it";
    }
    "services.<name>.strategy.blueGreen.preview" {
        header [Map("services.<name>.strategy.blueGreen.preview.header")] = REQUIRED, eg "{ name: x-preview, exact: \"1\" }":
            "Requests with this header";
    }
    "services.<name>.strategy.blueGreen.preview.header" {
        name [Text] = REQUIRED, eg "x-preview":
            "The header";
        exact [Text] = "none; this, `prefix` or `regex`", eg "\"1\"":
            "Its value is the same";
        prefix [Text] = "none; this, `exact` or `regex`", eg "st":
            "It begins so";
        regex [Text] = "none; this, `exact` or `prefix`", eg "\"st.*\"":
            "The pattern covers the whole value";
    }
    "services.<name>.strategy.canary.steps[].pause" {
        duration [Duration] = "none; this, `requests` or neither", eg "5m":
            "For so long, and until each guard limit has had its minimum of requests";
        requests [Whole(1, 1_000_000_000_000)] = "none; this, `duration` or neither", eg "2000":
            "Until the canary has answered so many requests at this weight";
    }
    "services.<name>.strategy.canary.steps[].analysis" {
        templates [List(&[Map("services.<name>.strategy.canary.steps[].analysis.templates[]")])] = REQUIRED,
            eg "[{ templateName: latency }]":
            "Which templates run, at once";
        args [List(&[Map("services.<name>.strategy.canary.steps[].analysis.args[]")])] = "the templates' own values",
            eg "[{ name: limit, value: 500 }]":
            "Values for the templates' arguments";
        dryRun [List(&[Map("analysisTemplates.<name>.dryRun[]")])] = "none", eg "[{ metricName: \"*\" }]":
            "Metrics that are measured and shown, but decide nothing";
        measurementRetention [List(&[Map("analysisTemplates.<name>.measurementRetention[]")])] = "none",
            eg "[{ metricName: \"*\", limit: 50 }]":
            "How many measurements of which metrics are kept";
    }
    "services.<name>.strategy.canary.analysis" {
        templates [List(&[Map("services.<name>.strategy.canary.steps[].analysis.templates[]")])] = REQUIRED,
            eg "[{ templateName: outside }]":
            "Which templates run, at once";
        args [List(&[Map("services.<name>.strategy.canary.steps[].analysis.args[]")])] = "the templates' own values",
            eg "[{ name: token, value: x }, { name: password, value: x }, { name: version, value: x }]":
            "Values for the templates' arguments";
        dryRun [List(&[Map("analysisTemplates.<name>.dryRun[]")])] = "none", eg "[{ metricName: \"*\" }]":
            "Metrics that are measured and shown, but decide nothing";
        measurementRetention [List(&[Map("analysisTemplates.<name>.measurementRetention[]")])] = "none",
            eg "[{ metricName: \"*\", limit: 50 }]":
            "How many measurements of which metrics are kept";
        startingStep [Whole(0, 99)] = "0", eg "1":
            "After so many steps it begins, as in Argo Rollouts";
    }
    "services.<name>.strategy.canary.steps[].analysis.templates[]" {
        templateName [Name] = REQUIRED, eg "latency":
            "A name from `analysisTemplates`";
    }
    "services.<name>.strategy.canary.steps[].analysis.args[]" {
        name [Name] = REQUIRED, eg "limit":
            "The argument's name; conditions see it as `args.limit`";
        value [Text] = "must be given where the template is used", eg "\"500\"":
            "Its value, a text: `asFloat(args.limit)` makes a number of it";
        valueFrom [Map("services.<name>.strategy.canary.steps[].analysis.args[].valueFrom")] = "none; this or `value`",
            eg "{ podTemplateHashValue: Latest }":
            "Where its value is found";
    }
    "services.<name>.strategy.canary.steps[].analysis.args[].valueFrom" {
        env [Text] = "none", eg "PROMETHEUS_TOKEN":
            "A secret in the environment of the process, looked up when it is needed, never printed and never stored";
        file [Path] = "none", eg "/run/secrets/password":
            "A secret in a file, read when it is needed, never printed and never stored";
        podTemplateHashValue [Word(&["Latest", "Stable"])] = "none", eg "Latest":
            "As Argo Rollouts writes it: the name of the canary, or that of the stable version";
    }
    "services.<name>.strategy.canary.promoteEarly" {
        alpha [Share] = "5%", eg "5%":
            "How likely a canary beyond the margin may end a hold early, for each step";
        blastRadius [Share] = "0.1%", eg "0.1%":
            "Failed requests more than stable's that are tolerated, as a share of all traffic at the next weight; at 5% this "
            "is a margin of 2 points for the canary, at 50% of 0.2";
    }
    "services.<name>.strategy.canary.guard" {
        errorRate [Share, Map("services.<name>.strategy.canary.guard.errorRate")] = "none", eg "2%":
            "Fails when more than this share of the canary's requests fails";
        latency [List(&[Map("services.<name>.strategy.canary.guard.latency[]")])] = "none",
            eg "[{ quantile: 0.99, max: 800ms }]":
            "Fails when a quantile of the canary's latency is above its limit";
        versusStable [Word(&["on", "off", "true", "false"]), Map("services.<name>.strategy.canary.guard.versusStable")] = "on",
            eg "{ alpha: 1% }":
            "The share test: does the canary get more than its fair share of the errors? It may be looked at all "
            "the time, and an incident that hits both versions is no evidence";
        warmup [Map("services.<name>.strategy.canary.guard.warmup")] = "errors 0s, latency 10s", eg "{ latency: 30s }":
            "What is not counted at the canary's start";
        consecutiveErrors [Whole(0, 1_000_000)] = "20", eg "20":
            "Fails at so many canary errors in a row; 0 switches it off";
        onFailure [Word(&["abort", "pause"])] = "abort", eg "abort":
            "What a failed guard does";
    }
    "services.<name>.strategy.canary.guard.errorRate" {
        max [Share] = REQUIRED, eg "2%":
            "The largest share of failed requests that is no failure";
        window [Duration] = "10s", eg "10s":
            "How far back is looked, and further until `minRequests` are seen; never past the last change of "
            "weight";
        minRequests [MANY] = "50", eg "50":
            "Fewer canary requests than this say nothing, and the step waits for them";
    }
    "services.<name>.strategy.canary.guard.latency[]" {
        quantile [Number(0.0)] = REQUIRED, eg "0.99":
            "Between 0 and 1; 0.99 is the time that 99 of 100 requests do not pass";
        max [Duration] = REQUIRED, eg "800ms":
            "The largest value that is no failure, from the request sent to the response's head";
        window [Duration] = "30s", eg "30s":
            "How far back is looked, and further until `minRequests` are seen; never past the last change of "
            "weight";
        minRequests [MANY] = "200", eg "200":
            "Fewer canary requests than this say nothing, and the step waits for them";
    }
    "services.<name>.strategy.canary.guard.versusStable" {
        alpha [Share] = "1%", eg "1%":
            "How often a canary within tolerance may ever be reverted";
        errors [Map("services.<name>.strategy.canary.guard.versusStable.errors")] = "as given for each",
            eg "{ relative: 1.25, absolute: 0.1pp }":
            "How much worse than stable the canary may be";
        latency [Word(&["on", "off", "true", "false"]), Map("services.<name>.strategy.canary.guard.versusStable.latency")] =
            "on, as given for each", eg "{ relative: 20%, absolute: 10ms }":
            "How much slower than stable the canary may be: it is judged by its share of the requests slower than stable's p50, "
            "p90, p95, p99 and twice its p99; `off` compares errors only";
        minBadSeconds [Whole(1, 3_600)] = "3", eg "3":
            "What is bad must have come in more than so many different seconds";
    }
    "services.<name>.strategy.canary.guard.versusStable.latency" {
        relative [Share] = "20%", eg "20%":
            "So much slower than stable is still fine, as a share of stable's latency";
        absolute [Duration] = "10ms", eg "10ms":
            "And so much more: where everything is fast, small differences hurt nobody";
    }
    "services.<name>.strategy.canary.guard.versusStable.errors" {
        relative [Number(1.0)] = "1.25", eg "1.25":
            "So many times stable's error rate is still fine";
        absolute [Points] = "0.1pp", eg "0.1pp":
            "So many percentage points more than that are still fine";
    }
    "analysisTemplates.<name>" {
        args [List(&[Map("services.<name>.strategy.canary.steps[].analysis.args[]")])] = "none",
            eg "[{ name: limit, value: 500 }, { name: share, value: 1 }, { name: version }, { name: token }, { name: password }]":
            "What the template needs to be told; `value` is the default";
        metrics [List(&[Map("analysisTemplates.<name>.metrics[]")])] = "none; this or `templates`",
            eg "[{ name: p95, interval: 10s, count: 3, successCondition: result.p95 < 500, provider: { serin: {} } }]":
            "What is measured; the run fails when one of them fails";
        templates [List(&[Map("services.<name>.strategy.canary.steps[].analysis.templates[]")])] = "none",
            eg "[{ templateName: more }]":
            "Templates that are run together with this one";
        dryRun [List(&[Map("analysisTemplates.<name>.dryRun[]")])] = "none", eg "[{ metricName: \"*\" }]":
            "Metrics that are measured and shown, but decide nothing";
        measurementRetention [List(&[Map("analysisTemplates.<name>.measurementRetention[]")])] = "none",
            eg "[{ metricName: \"*\", limit: 50 }]":
            "How many measurements of which metrics are kept";
    }
    "analysisTemplates.<name>.dryRun[]" {
        metricName [Text] = REQUIRED, eg "\"*\"":
            "A metric's name, or a pattern in which `*` is any part of one";
    }
    "analysisTemplates.<name>.measurementRetention[]" {
        metricName [Text] = REQUIRED, eg "\"*\"":
            "A metric's name, or a pattern in which `*` is any part of one";
        limit [Whole(1, 1_000)] = REQUIRED, eg "50":
            "So many measurements are kept; without a rule 10";
    }
    "analysisTemplates.<name>.metrics[]" {
        name [Name] = REQUIRED, eg "p95":
            "Its name in status, events and metrics";
        interval [Duration] = "none: one measurement", eg "10s":
            "The time between two measurements; needed for more than one";
        initialDelay [Duration] = "0s", eg "5s":
            "How long to wait before the first measurement";
        count [Whole(1, 1_000_000)] = "1; endless with an interval", eg "3":
            "How many measurements are taken";
        failureLimit [Word(&["-1"]), Whole(0, 1_000_000)] = "0", eg "2":
            "So many failed measurements are still fine; one more fails the metric. With -1 failures alone never decide";
        inconclusiveLimit [Whole(0, 1_000_000)] = "0", eg "0":
            "So many inconclusive measurements are still fine";
        consecutiveErrorLimit [Whole(0, 1_000_000)] = "4", eg "4":
            "So many measurements in a row that cannot be taken are still fine";
        consecutiveSuccessLimit [Whole(0, 1_000_000)] = "0", eg "0":
            "Successful at so many successes in a row; 0 is off";
        successCondition [Condition] = "none; this or `failureCondition`", eg "result.p95 < 500":
            "A measurement for which this holds is a success";
        failureCondition [Condition] = "none; this or `successCondition`", eg "result.p95 >= 500":
            "A measurement for which this holds is a failure";
        provider [Map("analysisTemplates.<name>.metrics[].provider")] = REQUIRED,
            eg "{ serin: { version: canary, window: 1m } }":
            "Whom to ask";
    }
    "analysisTemplates.<name>.metrics[].provider" {
        prometheus [Map("analysisTemplates.<name>.metrics[].provider.prometheus")] = "none",
            eg "{ address: \"http://prometheus:9090\", query: up }":
            "Prometheus and whatever speaks its API; `result` is a list of numbers, of a scalar a number";
        web [Map("analysisTemplates.<name>.metrics[].provider.web")] = "none", eg "{ url: \"http://host/errors\" }":
            "Any web server; `result` is what its JSON says, or its text";
        exec [Map("analysisTemplates.<name>.metrics[].provider.exec")] = "none", eg "{ command: [./smoke-test.sh] }":
            "A command on this machine: exit code 0 is good, and `result` is what it prints";
        datadog [Map("analysisTemplates.<name>.metrics[].provider.datadog")] = "none",
            eg "{ apiKey: x, appKey: x, query: \"avg:errors{*}\" }":
            "Datadog; `result` is a number, or nil without one";
        newRelic [Map("analysisTemplates.<name>.metrics[].provider.newRelic")] = "none",
            eg "{ apiKey: x, accountId: 1, query: FROM Transaction SELECT count(*) }":
            "New Relic; `result` is the row of the answer, or a list of rows";
        graphite [Map("analysisTemplates.<name>.metrics[].provider.graphite")] = "none",
            eg "{ address: \"http://graphite:8080\", query: target=shop.errors }":
            "Graphite; `result` is the list of the points that have a value";
        influxdb [Map("analysisTemplates.<name>.metrics[].provider.influxdb")] = "none",
            eg "{ address: \"http://influxdb:8086\", org: shop, authToken: x, query: 'from(bucket: \"shop\")' }":
            "InfluxDB 2; `result` is the list of the values of all rows";
        cloudWatch [Map("analysisTemplates.<name>.metrics[].provider.cloudWatch")] = "none",
            eg "{ region: eu-central-1, accessKeyId: x, secretAccessKey: x, metricDataQueries: [{ id: a, expression: b }] }":
            "Amazon CloudWatch; `result` is its list of results, as in `result[0].Values`";
        serin [Map("analysisTemplates.<name>.metrics[].provider.serin")] = "none", eg "{ version: canary, window: 1m }":
            "What Serin measured itself; `result` has requests, errors, errorRate, successRate, rps, p50, p75, "
            "p90, p95, p99, p999, max and mean in milliseconds, and `stable` and `canary` are in scope as well";
    }
    "analysisTemplates.<name>.metrics[].provider.serin" {
        version [Name] = "canary", eg "canary":
            "Whose numbers: `canary`, `stable` or a version's name";
        window [Duration] = "1m", eg "1m":
            "How far back is looked";
    }
    "analysisTemplates.<name>.metrics[].provider.prometheus" {
        address [Url] = REQUIRED, eg "http://prometheus:9090":
            "Where it is, with the path before `/api/v1` if there is one";
        query [Text] = REQUIRED, eg "up":
            "In PromQL, evaluated at the server's now";
        rangeQuery [Map("analysisTemplates.<name>.metrics[].provider.prometheus.rangeQuery")] = "an instant query",
            eg "{ start: now() - duration(\"1h\"), step: 1m }":
            "Makes it a range query; the points of all series become one list";
        timeout [Duration] = "30s", eg "30s":
            "How long an answer is waited for";
        headers [List(&[Map("analysisTemplates.<name>.metrics[].provider.web.headers[]")])] = "none",
            eg "[{ key: X-Scope-OrgID, value: shop }]":
            "Header fields of the request";
        bearerToken [Secret] = "none; this or `basicAuth`", eg "x":
            "Who we say we are: `Authorization: Bearer …`";
        basicAuth [Map("analysisTemplates.<name>.metrics[].provider.web.basicAuth")] = "none; this or `bearerToken`",
            eg "{ username: serin, password: x }":
            "Who we say we are: a name and a password";
        ca [Path] = "the system's", eg "ca.crt":
            "A PEM file of authorities that are believed in place of the system's";
        insecure [Flag] = "false", eg "false":
            "Takes any certificate: the connection is encrypted, but nobody knows with whom";
    }
    "analysisTemplates.<name>.metrics[].provider.prometheus.rangeQuery" {
        start [Text] = REQUIRED, eg "now() - duration(\"1h\")":
            "From when";
        end [Text] = "now()", eg "now()":
            "To when";
        step [Duration] = REQUIRED, eg "1m":
            "Between two points";
    }
    "analysisTemplates.<name>.metrics[].provider.web" {
        url [Url] = REQUIRED, eg "https://host/errors":
            "What is asked";
        method [Word(&["GET", "POST", "PUT"])] = "GET", eg "POST":
            "How";
        body [Text] = "none; this or `jsonBody`", eg "text":
            "What is sent";
        jsonBody [Named(&[Text, Number(0.0), Flag, Named(&[Text]), List(&[Text])])] = "none; this or `body`",
            eg "{ service: shop }":
            "What is sent as JSON; what looks like a number, `true`, `false` or `null` is one";
        jsonPath [Text] = "the whole body", eg "\"{$.data}\"":
            "The part of a JSON answer that is the result";
        timeoutSeconds [Whole(1, 600)] = "10", eg "10":
            "How long an answer is waited for";
        headers [List(&[Map("analysisTemplates.<name>.metrics[].provider.web.headers[]")])] = "none",
            eg "[{ key: X-Scope-OrgID, value: shop }]":
            "Header fields of the request";
        bearerToken [Secret] = "none; this or `basicAuth`", eg "x":
            "Who we say we are: `Authorization: Bearer …`";
        basicAuth [Map("analysisTemplates.<name>.metrics[].provider.web.basicAuth")] = "none; this or `bearerToken`",
            eg "{ username: serin, password: x }":
            "Who we say we are: a name and a password";
        ca [Path] = "the system's", eg "ca.crt":
            "A PEM file of authorities that are believed in place of the system's";
        insecure [Flag] = "false", eg "false":
            "Takes any certificate: the connection is encrypted, but nobody knows with whom";
    }
    "analysisTemplates.<name>.metrics[].provider.web.headers[]" {
        key [Text] = REQUIRED, eg "X-Scope-OrgID":
            "The field's name";
        value [Secret] = REQUIRED, eg "shop":
            "Its value";
    }
    "analysisTemplates.<name>.metrics[].provider.web.basicAuth" {
        username [Text] = REQUIRED, eg "serin":
            "The name";
        password [Secret] = REQUIRED, eg "x":
            "The password";
    }
    "analysisTemplates.<name>.metrics[].provider.exec" {
        command [List(&[Text])] = REQUIRED, eg "[./smoke-test.sh]":
            "The program and its arguments; no shell reads them";
        env [Named(&[Text])] = "none", eg "{ LIMIT: \"7\" }":
            "Its environment; beside it there is `PATH` and nothing else";
        timeout [Duration] = "1m", eg "1m":
            "After so long it is killed with all that it started, which is an Error";
    }
    "analysisTemplates.<name>.metrics[].provider.datadog" {
        address [Url] = "https://api.datadoghq.com", eg "https://api.datadoghq.eu":
            "The API of the site";
        apiKey [Secret] = REQUIRED, eg "x":
            "The API key";
        appKey [Secret] = REQUIRED, eg "x":
            "The application key";
        apiVersion [Word(&["v1", "v2"])] = "v1", eg "v2":
            "v1 gives the last point of a series, v2 one number of a formula";
        interval [Duration] = "5m", eg "5m":
            "How far back is asked";
        query [Text] = "none; this or `queries`", eg "avg:errors{*}":
            "The query";
        queries [Named(&[Text])] = "none; this or `query`", eg "{ errors: \"sum:errors{*}\", all: \"sum:requests{*}\" }":
            "Queries by name, for a formula; v2 only";
        formula [Text] = "the only query", eg "errors / all":
            "What is made of the queries; v2 only";
        aggregator [Word(&["last", "avg", "min", "max", "sum", "mean", "percentile", "l2norm", "area"])] = "last", eg "avg":
            "How v2 makes one number of a query's points";
        timeout [Duration] = "30s", eg "30s":
            "How long an answer is waited for";
    }
    "analysisTemplates.<name>.metrics[].provider.newRelic" {
        address [Url] = "that of the region", eg "https://api.newrelic.com/graphql":
            "The GraphQL API";
        apiKey [Secret] = REQUIRED, eg "x":
            "The user key";
        accountId [Text] = REQUIRED, eg "\"1234567\"":
            "The account's number";
        region [Word(&["us", "eu"])] = "us", eg "eu":
            "Where the account is";
        query [Text] = REQUIRED, eg "FROM Transaction SELECT count(*)":
            "In NRQL";
        timeout [Duration] = "30s", eg "30s":
            "How long an answer is waited for";
    }
    "analysisTemplates.<name>.metrics[].provider.graphite" {
        address [Url] = REQUIRED, eg "http://graphite:8080":
            "Where it is";
        query [Text] = REQUIRED, eg "target=shop.errors&from=-5min":
            "The parameters of `/render`, or a target alone";
        timeout [Duration] = "30s", eg "30s":
            "How long an answer is waited for";
        headers [List(&[Map("analysisTemplates.<name>.metrics[].provider.web.headers[]")])] = "none",
            eg "[{ key: X-Scope-OrgID, value: shop }]":
            "Header fields of the request";
        bearerToken [Secret] = "none; this or `basicAuth`", eg "x":
            "Who we say we are: `Authorization: Bearer …`";
        basicAuth [Map("analysisTemplates.<name>.metrics[].provider.web.basicAuth")] = "none; this or `bearerToken`",
            eg "{ username: serin, password: x }":
            "Who we say we are: a name and a password";
        ca [Path] = "the system's", eg "ca.crt":
            "A PEM file of authorities that are believed in place of the system's";
        insecure [Flag] = "false", eg "false":
            "Takes any certificate: the connection is encrypted, but nobody knows with whom";
    }
    "analysisTemplates.<name>.metrics[].provider.influxdb" {
        address [Url] = REQUIRED, eg "http://influxdb:8086":
            "Where it is";
        org [Text] = REQUIRED, eg "shop":
            "The organisation";
        authToken [Secret] = REQUIRED, eg "x":
            "The API token";
        query [Text] = REQUIRED, eg "'from(bucket: \"shop\")'":
            "In Flux";
        timeout [Duration] = "30s", eg "30s":
            "How long an answer is waited for";
        headers [List(&[Map("analysisTemplates.<name>.metrics[].provider.web.headers[]")])] = "none",
            eg "[{ key: X-Scope-OrgID, value: shop }]":
            "Header fields of the request";
        ca [Path] = "the system's", eg "ca.crt":
            "A PEM file of authorities that are believed in place of the system's";
        insecure [Flag] = "false", eg "false":
            "Takes any certificate: the connection is encrypted, but nobody knows with whom";
    }
    "analysisTemplates.<name>.metrics[].provider.cloudWatch" {
        address [Url] = "Amazon's own of the region", eg "https://monitoring.eu-central-1.amazonaws.com":
            "Where it is asked";
        region [Text] = REQUIRED, eg "eu-central-1":
            "The region";
        accessKeyId [Text] = REQUIRED, eg "AKIDEXAMPLE":
            "The access key's id";
        secretAccessKey [Secret] = REQUIRED, eg "x":
            "The access key's secret";
        sessionToken [Secret] = "none", eg "x":
            "That of temporary credentials";
        interval [Duration] = "5m", eg "30m":
            "How far back is asked";
        metricDataQueries [List(&[Map("analysisTemplates.<name>.metrics[].provider.cloudWatch.metricDataQueries[]")])] = REQUIRED,
            eg "[{ id: a, expression: b }]":
            "What is asked, as in the API of CloudWatch";
        timeout [Duration] = "30s", eg "30s":
            "How long an answer is waited for";
    }
    "analysisTemplates.<name>.metrics[].provider.cloudWatch.metricDataQueries[]" {
        id [Text] = REQUIRED, eg "rate":
            "The query's name in expressions";
        expression [Text] = "none; this or `metricStat`", eg "errors / requests":
            "What is made of other queries";
        label [Text] = "none", eg "error rate":
            "Its name in the answer";
        metricStat [Map("analysisTemplates.<name>.metrics[].provider.cloudWatch.metricDataQueries[].metricStat")] = "none; this or `expression`",
            eg "{ metric: { metricName: errors }, period: 300, stat: Sum }":
            "A metric";
        period [Whole(1, 86_400)] = "none", eg "300":
            "Of an expression, in seconds";
        returnData [Flag] = "true", eg "false":
            "Whether it is a part of the answer";
    }
    "analysisTemplates.<name>.metrics[].provider.cloudWatch.metricDataQueries[].metricStat" {
        metric [Map("analysisTemplates.<name>.metrics[].provider.cloudWatch.metricDataQueries[].metricStat.metric")] = REQUIRED,
            eg "{ metricName: errors }":
            "Which metric";
        period [Whole(1, 86_400)] = REQUIRED, eg "300":
            "In seconds";
        stat [Text] = REQUIRED, eg "Sum":
            "What is made of its values: `Sum`, `Average`, `p99` and the like";
        unit [Text] = "none", eg "Count":
            "Only values of this unit";
    }
    "analysisTemplates.<name>.metrics[].provider.cloudWatch.metricDataQueries[].metricStat.metric" {
        namespace [Text] = "none", eg "shop":
            "The metric's namespace";
        metricName [Text] = REQUIRED, eg "errors":
            "Its name";
        dimensions [List(&[Map("analysisTemplates.<name>.metrics[].provider.cloudWatch.metricDataQueries[].metricStat.metric.dimensions[]")])] = "none",
            eg "[{ name: service, value: web }]":
            "Which of those of that name";
    }
    "analysisTemplates.<name>.metrics[].provider.cloudWatch.metricDataQueries[].metricStat.metric.dimensions[]" {
        name [Text] = REQUIRED, eg "service":
            "The dimension's name";
        value [Text] = REQUIRED, eg "web":
            "Its value";
    }
}
