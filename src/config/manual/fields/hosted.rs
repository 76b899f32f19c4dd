//! The fields of the hosted stores that a metric may be asked of.

use super::{
    Field,
    Kind::{Duration, Flag, List, Map, Named, Path, Secret, Text, Url, Whole, Word},
    REQUIRED,
};

fields! {
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
