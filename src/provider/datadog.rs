//! Datadog: a time series of version 1 of its API, whose last point counts, or a scalar of version 2.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    http::{Clients, Sent, below, form},
    json::{number, parse},
    secret::Secrets,
};
use crate::engine::analysis::{
    answer::{Answer, Reply},
    ask::{Ask, Http},
};

pub(super) async fn ask(ask: &Ask, now: Duration, clients: &Clients, secrets: &mut Secrets) -> Result<Reply, String> {
    let Ask::Datadog { address, api_key, app_key, v2, interval, queries, formula, aggregator } = ask else {
        return Err("not a question for it".to_owned());
    };
    let address = secrets.text(address)?;
    let keys = [("dd-api-key", secrets.text(api_key)?), ("dd-application-key", secrets.text(app_key)?)];
    let mut asked = Vec::new();
    for (name, query) in queries {
        asked.push((name.as_str(), secrets.text(query)?));
    }
    let formula = secrets.optional(formula.as_ref())?;
    let sent = if *v2 {
        let formula = formula.unwrap_or_else(|| asked.first().map_or("", |(name, _)| *name).to_owned());
        let queries = asked.iter().map(
            |(name, query)| json!({ "data_source": "metrics", "name": name, "query": query, "aggregator": aggregator }),
        );
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let body = json!({ "data": { "type": "scalar_request", "attributes": {
            "from": millis(now.saturating_sub(*interval)), "to": millis(now),
            "queries": queries.collect::<Value>(), "formulas": [{ "formula": formula }],
        } } });
        let headers = keys.into_iter().chain([("content-type", "application/json".to_owned())]).collect();
        Sent { method: "POST", url: below(&address, "/api/v2/query/scalar"), headers, body: body.to_string() }
    } else {
        let (from, to) = (now.saturating_sub(*interval).as_secs().to_string(), now.as_secs().to_string());
        let query = asked.first().map_or("", |(_, query)| query);
        let query = form([("from", &*from), ("to", &*to), ("query", query)]);
        let url = below(&address, &format!("/api/v1/query?{query}"));
        Sent { method: "GET", url, headers: keys.into(), body: String::new() }
    };
    let body = parse(&clients.ask(sent, &Http::default(), secrets).await?)?;
    if *v2 { scalar(&body) } else { last_point(&body) }
}

/// `series[0].pointlist[-1][1]`, or nothing when there is no series.
fn last_point(body: &Value) -> Result<Reply, String> {
    if let Some(error) = body["error"].as_str().filter(|error| !error.is_empty()) {
        return Err(format!("the query is refused: {error}"));
    }
    let points = body["series"][0]["pointlist"].as_array();
    let last = points.and_then(|points| points.iter().rev().find_map(|point| number(&point[1])));
    Ok(Reply::Value(last.map_or(Answer::Nil, Answer::Number)))
}

/// `data.attributes.columns[0].values[0]`, or nothing when there is none.
fn scalar(body: &Value) -> Result<Reply, String> {
    if let Some(errors) = body.get("errors").filter(|errors| !errors.is_null()) {
        return Err(format!("the query is refused: {errors}"));
    }
    let value = number(&body["data"]["attributes"]["columns"][0]["values"][0]);
    Ok(Reply::Value(value.map_or(Answer::Nil, Answer::Number)))
}
