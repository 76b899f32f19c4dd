//! The fields of routes: what they match, change, copy and wait for.

use super::{
    CONDITION, Field,
    Kind::{Duration, Flag, List, Map, Name, Named, Number, Share, Text, Whole, Word},
    REQUIRED,
};

fields! {
    "routes[]" {
        name [Name] = "route-1, route-2 and so on", eg "everything":
            "Its name in logs and explanations";
        match [List(&[Map("routes[].match[]")])] = "every request", eg "[{ path: { prefix: / } }]":
            "It takes requests that meet one of these. Of several routes one of a `scheme` wins, then the nearest host, the "
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
        scheme [Word(&["http", "https"])] = "both", eg "http":
            "How the client came in: with TLS or without, as far as `trust.forwardedFrom` believes what a proxy in front "
            "says of it. A route of one scheme comes before those of both: "
            "`match: [{ scheme: http }], filters: { redirect: { scheme: https } }`";
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
}
