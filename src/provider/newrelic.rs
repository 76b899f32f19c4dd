//! New Relic: NRQL through its `NerdGraph`. One row is a mapping, several are a list of them.

use serde_json::{Value, json};

use super::{
    http::{Clients, Sent},
    json::{answer, parse},
    secret::Secrets,
};
use crate::engine::analysis::{
    answer::{Answer, Reply},
    ask::{Http, Text},
};

const QUERY: &str =
    "query($account: Int!, $nrql: Nrql!) { actor { account(id: $account) { nrql(query: $nrql) { results } } } }";

pub(super) async fn ask(asked: [&Text; 4], clients: &Clients, secrets: &mut Secrets) -> Result<Reply, String> {
    let [address, key, account, nrql] = asked.map(|text| secrets.text(text));
    let account: u64 = account?.trim().parse().map_err(|_| "`accountId` is not a number".to_owned())?;
    let body = json!({ "query": QUERY, "variables": { "account": account, "nrql": nrql? } });
    let headers = vec![("api-key", key?), ("content-type", "application/json".to_owned())];
    let sent = Sent { method: "POST", url: address?, headers, body: body.to_string() };
    let body = parse(&clients.ask(sent, &Http::default(), secrets).await?)?;
    if let Some(error) = body["errors"][0]["message"].as_str() {
        return Err(format!("the query is refused: {error}"));
    }
    let results = &body["data"]["actor"]["account"]["nrql"]["results"];
    let Value::Array(rows) = results else { return Err("its answer has no results".to_owned()) };
    Ok(Reply::Value(match rows.as_slice() {
        [] => Answer::List(Vec::new()),
        [row] => answer(row),
        _ => answer(results),
    }))
}
