//! Prometheus, and whatever speaks its API: instant and range queries. A vector or matrix is a list of numbers, a scalar
//! is a number.

use std::time::Duration;

use serde_json::Value;

use super::{
    http::{Clients, Sent, below, excerpt, form},
    json::{number, parse},
    secret::Secrets,
};
use crate::engine::analysis::{
    answer::{Answer, Reply},
    ask::{Http, Range, Text},
};

pub(super) struct Asked<'a> {
    pub(super) address: &'a Text,
    pub(super) query: &'a Text,
    pub(super) range: Option<Range>,
    /// Since 1970.
    pub(super) now: Duration,
    pub(super) http: &'a Http,
}

pub(super) async fn ask(asked: &Asked<'_>, clients: &Clients, secrets: &mut Secrets) -> Result<Reply, String> {
    let (address, query) = (secrets.text(asked.address)?, secrets.text(asked.query)?);
    let (path, body) = match asked.range {
        // At the server's own now, so that no two clocks must agree.
        None => ("/api/v1/query", form([("query", &*query)])),
        Some(Range { start, end, step }) => {
            let ago = |ago| format!("{:.3}", asked.now.saturating_sub(ago).as_secs_f64());
            let (start, end, step) = (ago(start), ago(end), format!("{}", step.as_secs_f64()));
            let pairs = [("query", &*query), ("start", &*start), ("end", &*end), ("step", &*step)];
            ("/api/v1/query_range", form(pairs))
        }
    };
    let headers = vec![("content-type", "application/x-www-form-urlencoded".to_owned())];
    let sent = Sent { method: "POST", url: below(&address, path), headers, body };
    let answer = clients.send(sent, asked.http, secrets).await?;
    let refused = || format!("it answered {}{}", answer.status(), excerpt(answer.body()));
    let Ok(body) = parse(answer.body()) else {
        return Err(if answer.status().is_success() {
            format!("its answer is not JSON{}", excerpt(answer.body()))
        } else {
            refused()
        });
    };
    match body["status"].as_str() {
        Some("success") if answer.status().is_success() => values(&body["data"]).map(Reply::Value),
        Some("error") => {
            let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
            Err(format!("the query is refused ({}): {}", text("errorType"), text("error")))
        }
        _ => Err(refused()),
    }
}

fn values(data: &Value) -> Result<Answer, String> {
    let result = &data["result"];
    let items = || result.as_array().into_iter().flatten();
    let of = |point: &Value| number(&point[1]);
    let odd = "a sample in its answer is no number; native histograms need a function such as histogram_quantile()";
    let all = |numbers: Option<Vec<f64>>| numbers.map(Answer::numbers).ok_or_else(|| odd.to_owned());
    match data["resultType"].as_str() {
        Some("vector") => all(items().map(|series| of(&series["value"])).collect()),
        Some("matrix") => {
            all(items().flat_map(|series| series["values"].as_array().into_iter().flatten()).map(of).collect())
        }
        Some("scalar") => of(result).map(Answer::Number).ok_or_else(|| odd.to_owned()),
        Some("string") => Ok(Answer::Text(result[1].as_str().unwrap_or_default().to_owned())),
        other => Err(format!("its answer has a result of the type `{}`", other.unwrap_or("none"))),
    }
}
