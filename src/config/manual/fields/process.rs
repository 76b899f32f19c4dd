//! The fields of the process as a whole: where it listens, who may ask it, what it keeps and whom it tells.

use super::{
    Field,
    Kind::{Address, Duration, List, Map, Name, Named, Path, Secret, Share, Size, Text, Url, Whole, Word},
    REQUIRED,
};

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
        tracing [Map("tracing")] = "off", eg "{ otlp: \"http://collector:4318\", sample: 1% }":
            "Spans of sampled requests for a collector of OpenTelemetry. Requests get a `traceparent` where they have none, and "
            "HTTP/1.1 takes the ordinary path instead of the fast one";
        outbound [Map("outbound")] = "no link-local and no metadata address", eg "{ allow: [169.254.0.0/16] }":
            "Whom the questions of Serin itself may reach: analyses over HTTP, `notify` and `tracing`";
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
    "tracing" {
        otlp [Url] = REQUIRED, eg "http://collector:4318":
            "The collector, by OTLP over HTTP with JSON; `/v1/traces` is added unless it ends so. Empty is off. What it does "
            "not take in time is dropped and counted, and no request waits for it";
        sample [Share] = "1%", eg "10%":
            "The share of requests without a `traceparent` that are traced; of those with one, those whose sampled flag is set, "
            "and where `trust` says who is believed, of those of others this share";
        headers [Named(&[Secret])] = "none", eg "{ authorization: \"Bearer ${OTLP_TOKEN:-}\" }":
            "Header fields for the collector";
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
            "superseded", "reconfigured", "scaleDown", "terminated", "analysisStarted", "gatePassed", "endpointOut",
            "endpointBack",
        ])])] = "started, paused, promoted, aborted, superseded, scaleDown", eg "[paused, aborted]":
            "What is told";
    }
}
