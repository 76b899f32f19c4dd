//! JSON as answers, and the parts of it that count.

use serde_json::Value;
use serde_json_path::JsonPath;

use crate::engine::analysis::answer::Answer;

/// A body that must be JSON.
pub(super) fn parse(body: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(body).map_err(|error| format!("its answer is not JSON: {error}"))
}

/// The first value that a path selects, as in Argo Rollouts, whose way to write one is taken as well: `{$.data.ok}`.
pub(super) fn select<'v>(value: &'v Value, path: &str) -> Result<&'v Value, String> {
    let parsed = JsonPath::parse(&plain_path(path)).map_err(|error| format!("`jsonPath` is not a path: {error}"))?;
    let first = parsed.query(value).first();
    first.ok_or_else(|| format!("the answer has nothing at `{path}`"))
}

/// Without the braces of Kubernetes, and from the top.
fn plain_path(path: &str) -> String {
    let path = path.trim();
    let path = path.strip_prefix('{').and_then(|path| path.strip_suffix('}')).unwrap_or(path).trim();
    if path.starts_with('$') { path.to_owned() } else { format!("${path}") }
}

/// As conditions see it.
pub(super) fn answer(value: &Value) -> Answer {
    match value {
        Value::Null => Answer::Nil,
        Value::Bool(value) => Answer::Bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Answer::Integer(whole),
            (None, Some(number)) => Answer::Number(number),
            (None, None) => Answer::Nil,
        },
        Value::String(text) => Answer::Text(text.clone()),
        Value::Array(items) => Answer::List(items.iter().map(answer).collect()),
        Value::Object(fields) => {
            Answer::Map(fields.iter().map(|(name, value)| (name.clone(), answer(value))).collect())
        }
    }
}

/// A number, or a text that says one.
pub(super) fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}
