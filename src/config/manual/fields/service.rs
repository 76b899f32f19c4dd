//! The fields of a service and its versions, health and gates.

use super::{
    CONDITION, Field,
    Kind::{Duration, List, Map, Name, Named, Path, Secret, Share, Text, Url, Whole, Word},
    REQUIRED,
};
use crate::engine::failure::GRPC_CODES;

fields! {
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
            "Which version of HTTP it is asked in; `auto` is h1 for http://, and for https:// what TLS agrees on. WebSockets need h1";
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
}
