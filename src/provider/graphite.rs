//! Graphite: the points of the first series that `/render` gives, without those that have no value.

use super::{
    http::{Clients, Sent, below, form},
    json::{number, parse},
    secret::Secrets,
};
use crate::engine::analysis::{
    answer::{Answer, Reply},
    ask::{Http, Text},
};

pub(super) async fn ask(
    address: &Text,
    query: &Text,
    http: &Http,
    clients: &Clients,
    secrets: &mut Secrets,
) -> Result<Reply, String> {
    let (address, query) = (secrets.text(address)?, secrets.text(query)?);
    let url = below(&address, &format!("/render?{}", parameters(&query)));
    let sent = Sent { method: "GET", url, headers: Vec::new(), body: String::new() };
    let body = parse(&clients.ask(sent, http, secrets).await?)?;
    let points = body[0]["datapoints"].as_array().into_iter().flatten();
    Ok(Reply::Value(Answer::numbers(points.filter_map(|point| number(&point[0])))))
}

/// The query as people write it, over several lines and with bare signs: `target=…&from=-5min`, or a target alone.
fn parameters(query: &str) -> String {
    let line = query.split_whitespace().collect::<Vec<_>>().join(" ");
    let pairs: Vec<(&str, &str)> = if line.split('&').all(|pair| pair.contains('=')) && line.contains("target=") {
        let pairs = line.split('&').filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, value)| (name.trim(), value.trim())).filter(|(name, _)| *name != "format").collect()
    } else {
        vec![("target", &line)]
    };
    form(pairs.into_iter().chain([("format", "json")]))
}

#[cfg(test)]
mod tests {
    use super::parameters;

    #[test]
    fn a_query_is_written_as_people_write_it() {
        for (query, written) in [
            ("target=a.b&from=-5min", "target=a.b&from=-5min&format=json"),
            ("target=f(a.*,\n   'x y')&format=png", "target=f%28a.%2A%2C%20%27x%20y%27%29&format=json"),
            ("sumSeries(a.b)", "target=sumSeries%28a.b%29&format=json"),
        ] {
            assert_eq!(parameters(query), written);
        }
    }
}
