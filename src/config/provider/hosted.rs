//! Metric stores that others run: Datadog, New Relic, Graphite, InfluxDB, CloudWatch. Keys are texts, so that they come
//! from arguments whose values are secrets.

use std::{ops::RangeInclusive, time::Duration};

use super::{LIST_MAX, Place, http, named_texts, timeout};
use crate::{
    config::{
        diagnostic::Code,
        report::{At, Fields, Report},
        shape,
    },
    engine::analysis::ask::{Ask, CloudWatchQuery, CloudWatchStat, Text},
};

const TIMEOUT: Duration = Duration::from_secs(30);
const INTERVAL: Duration = Duration::from_mins(5);
const INTERVALS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(24);

pub(super) fn hosted(at: &At<'_>, place: Place<'_>, report: &mut Report) -> Option<(Ask, Duration)> {
    match &*at.name {
        "datadog" => datadog(at, place, report),
        "newRelic" => new_relic(at, place, report),
        "graphite" => graphite(at, place, report),
        "influxdb" => influxdb(at, place, report),
        _ => cloud_watch(at, place, report),
    }
}

fn datadog(at: &At<'_>, place: Place<'_>, report: &mut Report) -> Option<(Ask, Duration)> {
    let fields = report.fields(at, &shape::DATADOG)?;
    let address = address(&fields, "https://api.datadoghq.com", place, report);
    let api_key = key(&fields, "apiKey", "{{args.dd-api-key}}", place, report);
    let application_key = key(&fields, "appKey", "{{args.dd-app-key}}", place, report);
    let v2 = fields.get("apiVersion").map_or(Some(false), |at| report.word(&at, &[("v1", false), ("v2", true)]));
    let interval = fields.get("interval").map_or(Some(INTERVAL), |at| report.duration(&at, INTERVALS));
    let words = ["last", "avg", "min", "max", "sum", "mean", "percentile", "l2norm", "area"].map(|word| (word, word));
    let aggregator = fields.get("aggregator").map_or(Some("last"), |at| report.word(&at, &words));
    let (query_at, queries_at, formula_at) = (fields.get("query"), fields.get("queries"), fields.get("formula"));
    if let (Some(query), Some(queries)) = (&query_at, &queries_at) {
        report
            .error(Code::Conflict, &queries.key_span, "a metric has either `query` or `queries`")
            .related(&query.key_span, "the other is here")
            .help("keep one of them");
    }
    let only_v2 = [&queries_at, &formula_at].into_iter().flatten().next();
    if let (Some(false), Some(at)) = (v2, only_v2) {
        report
            .error(Code::Conflict, &at.key_span, format!("`{}` needs version 2 of the API", at.name))
            .help("add `apiVersion: v2`");
    }
    let queries = match (&query_at, &queries_at) {
        (Some(at), _) => report.text(at, "a query", place.declared).map(|query| vec![("query".to_owned(), query)]),
        (None, Some(at)) => named_texts(at, place, report),
        (None, None) => {
            report.missing(at, "query", "give it a query: `query: avg:requests.errors{service:web}`");
            None
        }
    };
    if let (Some(queries), None, Some(at)) = (&queries, &formula_at, &queries_at)
        && queries.len() > 1
    {
        report
            .error(Code::MissingField, &at.key_span, "several queries need a `formula`")
            .help("say what is made of them: `formula: errors / requests`");
    }
    let formula = formula_at.map_or(Some(None), |at| report.text(&at, "a formula", place.declared).map(Some));
    let ask = Ask::Datadog {
        address: address?,
        api_key: api_key?,
        app_key: application_key?,
        v2: v2?,
        interval: interval?,
        queries: queries?,
        formula: formula?,
        aggregator: aggregator?,
    };
    Some((ask, timeout(&fields, TIMEOUT, report)?))
}

fn new_relic(at: &At<'_>, place: Place<'_>, report: &mut Report) -> Option<(Ask, Duration)> {
    let fields = report.fields(at, &shape::NEW_RELIC)?;
    let words = [("us", "https://api.newrelic.com/graphql"), ("eu", "https://api.eu.newrelic.com/graphql")];
    let region = fields.get("region").map_or(Some(words[0].1), |at| report.word(&at, &words));
    let address = address(&fields, region.unwrap_or(words[0].1), place, report);
    let api_key = key(&fields, "apiKey", "{{args.newrelic-key}}", place, report);
    let account = key(&fields, "accountId", "1234567", place, report);
    let query = key(
        &fields,
        "query",
        "FROM Transaction SELECT percentage(count(*), WHERE httpResponseCode < 500)",
        place,
        report,
    );
    region?;
    let ask = Ask::NewRelic { address: address?, api_key: api_key?, account: account?, query: query? };
    Some((ask, timeout(&fields, TIMEOUT, report)?))
}

fn graphite(at: &At<'_>, place: Place<'_>, report: &mut Report) -> Option<(Ask, Duration)> {
    let fields = report.fields(at, &shape::GRAPHITE)?;
    let address = fields.need(report, "address", "say where it is: `address: http://graphite:8080`");
    let address = address.and_then(|at| report.url(&at, place.declared));
    let query = key(&fields, "query", "target=stats.web.errors&from=-5min", place, report);
    let http = http(&fields, place, report);
    Some((Ask::Graphite { address: address?, query: query?, http: http? }, timeout(&fields, TIMEOUT, report)?))
}

fn influxdb(at: &At<'_>, place: Place<'_>, report: &mut Report) -> Option<(Ask, Duration)> {
    let fields = report.fields(at, &shape::INFLUXDB)?;
    let address = fields.need(report, "address", "say where it is: `address: http://influxdb:8086`");
    let address = address.and_then(|at| report.url(&at, place.declared));
    let org = key(&fields, "org", "my-org", place, report);
    let token = key(&fields, "authToken", "{{args.influx-token}}", place, report);
    let query = key(&fields, "query", "from(bucket: …) |> range(start: -5m)", place, report);
    let http = http(&fields, place, report);
    let ask = Ask::Influx { address: address?, org: org?, token: token?, query: query?, http: http? };
    Some((ask, timeout(&fields, TIMEOUT, report)?))
}

fn cloud_watch(at: &At<'_>, place: Place<'_>, report: &mut Report) -> Option<(Ask, Duration)> {
    let fields = report.fields(at, &shape::CLOUD_WATCH)?;
    let address = fields.get("address").map_or(Some(None), |at| report.url(&at, place.declared).map(Some));
    let region = key(&fields, "region", "eu-central-1", place, report);
    let access_key = key(&fields, "accessKeyId", "{{args.aws-key-id}}", place, report);
    let secret_key = key(&fields, "secretAccessKey", "{{args.aws-key}}", place, report);
    let token = fields
        .get("sessionToken")
        .map_or(Some(None), |at| report.text(&at, "a session token", place.declared).map(Some));
    let interval = fields.get("interval").map_or(Some(INTERVAL), |at| report.duration(&at, INTERVALS));
    let help = "say what to ask: `metricDataQueries: [{ id: rate, metricStat: … }]`";
    let queries = fields.need(report, "metricDataQueries", help).and_then(|at| {
        let items = report.items(&at, LIST_MAX)?;
        let read: Vec<_> = items.iter().filter_map(|item| data_query(item, place, report)).collect();
        (read.len() == items.len()).then_some(read)
    });
    let ask = Ask::CloudWatch {
        address: address?,
        region: region?,
        access_key: access_key?,
        secret_key: secret_key?,
        session_token: token?,
        interval: interval?,
        queries: queries?,
    };
    Some((ask, timeout(&fields, TIMEOUT, report)?))
}

fn data_query(at: &At<'_>, place: Place<'_>, report: &mut Report) -> Option<CloudWatchQuery> {
    let fields = report.fields(at, &shape::DATA_QUERY)?;
    let id = fields.need(report, "id", "name the query: `id: rate`").and_then(|at| report.filled(&at, "a name"));
    let text = |name: &str, report: &mut Report| {
        fields.get(name).map_or(Some(None), |at| report.text(&at, "a text", place.declared).map(Some))
    };
    let (expression, label) = (text("expression", report), text("label", report));
    let stat = fields.get("metricStat").map_or(Some(None), |at| metric_stat(&at, place, report).map(Some));
    let period = fields.get("period").map_or(Some(None), |at| report.whole(&at, 1..=86_400).map(Some));
    let words = [("true", true), ("false", false)];
    let return_data = fields.get("returnData").map_or(Some(None), |at| report.word(&at, &words).map(Some));
    if fields.get("expression").is_some() == fields.get("metricStat").is_some() {
        report
            .error(Code::Conflict, &at.key_span, "a query is either an `expression` or a `metricStat`")
            .help("write one of them");
        return None;
    }
    Some(CloudWatchQuery {
        id: id?,
        expression: expression?,
        label: label?,
        stat: stat?,
        period: period?,
        return_data: return_data?,
    })
}

fn metric_stat(at: &At<'_>, place: Place<'_>, report: &mut Report) -> Option<CloudWatchStat> {
    let fields = report.fields(at, &shape::METRIC_STAT)?;
    let metric_at = fields.need(report, "metric", "name the metric: `metric: { namespace: …, metricName: … }`")?;
    let metric = report.fields(&metric_at, &shape::CLOUD_METRIC)?;
    let name = key(&metric, "metricName", "RequestCount", place, report);
    let namespace =
        metric.get("namespace").map_or(Some(None), |at| report.text(&at, "a namespace", place.declared).map(Some));
    let dimensions = metric.get("dimensions").map_or(Some(Vec::new()), |at| {
        let items = report.items(&at, LIST_MAX)?;
        let read: Vec<_> = items
            .iter()
            .filter_map(|item| {
                let fields = report.fields(item, &shape::DIMENSION)?;
                let name =
                    fields.need(report, "name", "name the dimension").and_then(|at| report.filled(&at, "a name"));
                Some((name?, key(&fields, "value", "web", place, report)?))
            })
            .collect();
        (read.len() == items.len()).then_some(read)
    });
    let period = fields.need(report, "period", "say over how many seconds: `period: 60`");
    let period = period.and_then(|at| report.whole(&at, 1..=86_400));
    let stat = key(&fields, "stat", "Sum", place, report);
    let unit = fields.get("unit").map_or(Some(None), |at| report.filled(&at, "a unit such as `Count`").map(Some));
    Some(CloudWatchStat {
        namespace: namespace?,
        metric: name?,
        dimensions: dimensions?,
        period: period?,
        stat: stat?,
        unit: unit?,
    })
}

fn address(fields: &Fields<'_>, default: &str, place: Place<'_>, report: &mut Report) -> Option<Text> {
    fields.get("address").map_or_else(|| Some(Text::plain(default)), |at| report.url(&at, place.declared))
}

/// A text that must be there.
fn key(fields: &Fields<'_>, name: &str, sample: &str, place: Place<'_>, report: &mut Report) -> Option<Text> {
    let at = fields.need(report, name, &format!("write, say, `{name}: \"{sample}\"`"))?;
    report.text(&at, "a text", place.declared)
}
