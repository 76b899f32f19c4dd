//! The fields of analysis templates, and the providers that anybody can run.

use super::{
    Field,
    Kind::{Condition, Duration, Flag, List, Map, Name, Named, Number, Path, Secret, Text, Url, Whole, Word},
    REQUIRED,
};

fields! {
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
        ttlStrategy [Map("analysisTemplates.<name>.ttlStrategy")] = "until newer runs take its place",
            eg "{ secondsAfterCompletion: 86400 }":
            "How long the record of a run stays in status and API after its end; that of several templates the longest time. Of each \
             service the latest five good runs and five others are kept at most, and none over a restart; the history keeps each \
             decision whatever this says";
    }
    "analysisTemplates.<name>.ttlStrategy" {
        secondsAfterCompletion [Whole(0, 31_536_000)] = "none", eg "86400":
            "So many seconds, however the run ended, unless one of the others says it";
        secondsAfterSuccess [Whole(0, 31_536_000)] = "none", eg "3600":
            "So many seconds, when it was Successful";
        secondsAfterFailure [Whole(0, 31_536_000)] = "none", eg "604800":
            "So many seconds, when it Failed";
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
        consecutiveFailureLimit [Whole(0, 1_000_000)] = "none", eg "0":
            "So many failed measurements in a row are still fine; one more fails the metric. With it `failureLimit` counts only where it is "
            "written";
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
}
