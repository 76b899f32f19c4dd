//! `conditions.NAME` of the AWS Load Balancer Controller: all of the list, and of each entry any value.
//! Refuses what a route cannot say, such as addresses.

use serde::Deserialize;

use super::matching::{Condition, How, MATCHES_MAX, Match};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    field: String,
    host_header_config: Option<Values>,
    path_pattern_config: Option<Values>,
    http_header_config: Option<Header>,
    http_request_method_config: Option<Values>,
    query_string_config: Option<Query>,
}

#[derive(Debug, Deserialize)]
struct Values {
    values: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    http_header_name: String,
    values: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Query {
    values: Vec<Pair>,
}

#[derive(Debug, Deserialize)]
struct Pair {
    key: Option<String>,
    value: String,
}

/// The alternatives of a match with these conditions beside it.
pub(super) fn with(base: &Match, conditions: &str) -> Result<Vec<Match>, String> {
    let entries: Vec<Entry> = serde_json::from_str(conditions).map_err(|_| "its conditions are not understood")?;
    let mut all = vec![base.clone()];
    for entry in entries {
        let mut more = Vec::new();
        for one in &all {
            for change in changes(&entry)? {
                let mut with = one.clone();
                change(&mut with)?;
                more.push(with);
            }
        }
        all = more;
        if all.len() > MATCHES_MAX {
            return Err("it has too many alternatives".to_owned());
        }
    }
    Ok(all)
}

type Change = Box<dyn Fn(&mut Match) -> Result<(), String>>;

/// Each value of an entry as what it adds to a match.
fn changes(entry: &Entry) -> Result<Vec<Change>, String> {
    let missing = || format!("`{}` has no values", entry.field);
    let twice = |what: &str| Err(format!("two conditions on the {what} at once"));
    let all: Vec<Change> = match &*entry.field {
        "host-header" => each(entry.host_header_config.as_ref().map(|of| &of.values), move |one, host| {
            if one.host.replace(host).is_some() { twice("host") } else { Ok(()) }
        }),
        "path-pattern" => each(entry.path_pattern_config.as_ref().map(|of| &of.values), move |one, path| {
            if one.path.replace(pattern(&path)).is_some() { twice("path") } else { Ok(()) }
        }),
        "http-request-method" => each(entry.http_request_method_config.as_ref().map(|of| &of.values), |one, method| {
            one.method = Some(method);
            Ok(())
        }),
        "http-header" => {
            let of = entry.http_header_config.as_ref().ok_or_else(missing)?;
            let name = of.http_header_name.clone();
            each(Some(&of.values), move |one, value| {
                one.headers.push(condition(&name, &value));
                Ok(())
            })
        }
        "query-string" => {
            let of = entry.query_string_config.as_ref().ok_or_else(missing)?;
            let mut all: Vec<Change> = Vec::new();
            for pair in &of.values {
                let key = pair.key.clone().ok_or("a value of the query without a name")?;
                let condition = condition(&key, &pair.value);
                all.push(Box::new(move |one| {
                    one.query.push(condition.clone());
                    Ok(())
                }));
            }
            all
        }
        other => return Err(format!("`{other}` is no condition of a route")),
    };
    if all.is_empty() { Err(missing()) } else { Ok(all) }
}

fn each(
    values: Option<&Vec<String>>,
    change: impl Fn(&mut Match, String) -> Result<(), String> + Clone + 'static,
) -> Vec<Change> {
    let of = |value: &String| -> Change {
        let (value, change) = (value.clone(), change.clone());
        Box::new(move |one| change(one, value.clone()))
    };
    values.into_iter().flatten().map(of).collect()
}

fn condition(name: &str, value: &str) -> Condition {
    if value.contains(['*', '?']) {
        Condition::new(name, How::Regex, &wild(value))
    } else {
        Condition::new(name, How::Exact, value)
    }
}

/// A path of the load balancer, in which `*` is anything and `?` one character.
pub(super) fn pattern(path: &str) -> (How, String) {
    match path.strip_suffix("/*") {
        Some(prefix) if !prefix.is_empty() && !prefix.contains(['*', '?']) => (How::Prefix, prefix.to_owned()),
        _ if path.contains(['*', '?']) => (How::Regex, wild(path)),
        _ => (How::Exact, path.to_owned()),
    }
}

fn wild(text: &str) -> String {
    regex::escape(text).replace(r"\*", ".*").replace(r"\?", ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_entries_and_any_of_their_values_are_needed() {
        let json = r#"[{"field":"http-header","httpHeaderConfig":{"httpHeaderName":"x-a","values":["1","b*"]}},
            {"field":"query-string","queryStringConfig":{"values":[{"key":"beta","value":"1"}]}}]"#;
        let texts: Vec<String> = with(&Match::default(), json).unwrap().iter().map(Match::text).collect();
        assert_eq!(
            texts,
            [
                "{ headers: [{ name: x-a, exact: 1 }], query: [{ name: beta, exact: 1 }] }",
                "{ headers: [{ name: x-a, regex: \"b.*\" }], query: [{ name: beta, exact: 1 }] }",
            ]
        );
        assert!(
            with(&Match::default(), r#"[{"field":"source-ip","sourceIpConfig":{"values":["10.0.0.0/8"]}}]"#).is_err()
        );
        assert_eq!(pattern("/a/*"), (How::Prefix, "/a".to_owned()));
        assert_eq!(pattern("/a*.x"), (How::Regex, r"/a.*\.x".to_owned()));
    }
}
