//! Amazon CloudWatch: `GetMetricData`, whose results are seen as they are: `result[0].Values`. Without any value there is
//! no result.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    http::{Clients, Sent, below},
    json::{answer, parse},
    secret::Secrets,
    sigv4::{Credentials, Signed, amz_date, authorization},
};
use crate::engine::analysis::{
    answer::{Answer, Reply},
    ask::{Ask, CloudWatchQuery, CloudWatchStat, Http},
};

const SERVICE: &str = "monitoring";
const CONTENT_TYPE: &str = "application/x-amz-json-1.0";
const TARGET: &str = "GraniteServiceVersion20100801.GetMetricData";

pub(super) async fn ask(ask: &Ask, now: Duration, clients: &Clients, secrets: &mut Secrets) -> Result<Reply, String> {
    let Ask::CloudWatch { address, region, access_key, secret_key, session_token, interval, queries } = ask else {
        return Err("not a question for it".to_owned());
    };
    let region = secrets.text(region)?;
    let address = secrets.optional(address.as_ref())?;
    let address = address.unwrap_or_else(|| format!("https://{SERVICE}.{region}.amazonaws.com"));
    let (access_key, secret_key) = (secrets.text(access_key)?, secrets.text(secret_key)?);
    let token = secrets.optional(session_token.as_ref())?;
    let mut asked = Vec::new();
    for query in queries {
        asked.push(written(query, secrets)?);
    }
    let from = now.saturating_sub(*interval).as_secs();
    let body = json!({ "StartTime": from, "EndTime": now.as_secs(), "MetricDataQueries": asked }).to_string();
    let second = i64::try_from(now.as_secs()).unwrap_or_default();
    let date = amz_date(Timestamp::from_second(second).map_err(|error| error.to_string())?);
    let (_, host) = address.split_once("://").ok_or("`address` is not a URL")?;
    let host = host.trim_end_matches('/').to_owned();
    let mut headers = vec![
        ("content-type", CONTENT_TYPE.to_owned()),
        ("host", host),
        ("x-amz-date", date.clone()),
        ("x-amz-target", TARGET.to_owned()),
    ];
    if let Some(token) = token {
        headers.insert(3, ("x-amz-security-token", token));
    }
    let pairs: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
    let signed = Signed { region: &region, service: SERVICE, path: "/", headers: &pairs, body: &body };
    let credentials = Credentials { access_key: &access_key, secret_key: &secret_key };
    headers.push(("authorization", authorization(&signed, &credentials, &date)));
    let sent = Sent { method: "POST", url: below(&address, "/"), headers, body };
    let body = parse(&clients.ask(sent, &Http::default(), secrets).await?)?;
    let Value::Array(results) = &body["MetricDataResults"] else {
        return Err("its answer has no MetricDataResults".to_owned());
    };
    let has_values = |result: &Value| result["Values"].as_array().is_some_and(|values| !values.is_empty());
    let any = results.iter().any(has_values);
    Ok(Reply::Value(if any { Answer::List(results.iter().map(answer).collect()) } else { Answer::List(Vec::new()) }))
}

fn written(query: &CloudWatchQuery, secrets: &mut Secrets) -> Result<Value, String> {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Option<Value>| value.map(|value| fields.insert(name.to_owned(), value));
    put("Id", Some(json!(query.id)));
    put("Expression", secrets.optional(query.expression.as_ref())?.map(Value::from));
    put("Label", secrets.optional(query.label.as_ref())?.map(Value::from));
    put("Period", query.period.map(Value::from));
    put("ReturnData", query.return_data.map(Value::from));
    put("MetricStat", query.stat.as_ref().map(|stat| metric_stat(stat, secrets)).transpose()?);
    Ok(Value::Object(fields))
}

fn metric_stat(stat: &CloudWatchStat, secrets: &mut Secrets) -> Result<Value, String> {
    let mut dimensions = Vec::new();
    for (name, value) in &stat.dimensions {
        dimensions.push(json!({ "Name": name, "Value": secrets.text(value)? }));
    }
    let mut metric = json!({ "MetricName": secrets.text(&stat.metric)?, "Dimensions": dimensions });
    if let Some(namespace) = secrets.optional(stat.namespace.as_ref())? {
        metric["Namespace"] = namespace.into();
    }
    let mut written = json!({ "Metric": metric, "Period": stat.period, "Stat": secrets.text(&stat.stat)? });
    if let Some(unit) = &stat.unit {
        written["Unit"] = unit.as_str().into();
    }
    Ok(written)
}
