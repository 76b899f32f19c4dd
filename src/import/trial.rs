//! Whether a piece of a config is right, asked of `config::check` itself: what it refuses is dropped with its own words.
//! Knows no rule of the file, so that there is none to fall behind.

use std::path::Path;

use crate::config::{self, Code, Severity};

const TWO_VERSIONS: &str = "    versions: { a: \"http://a\", b: \"http://b\" }\n    stable: a\n";

/// Whether a file is right; else what is wrong with it first.
pub(super) fn file(text: &str) -> Result<(), String> {
    let checked = config::check(text, Path::new("serin.yaml"), &|_| None);
    let errors = || checked.diagnostics.items().iter().filter(|item| item.severity == Severity::Error);
    // What is not there at all says more than what does not fit what is.
    let later = errors().find(|error| error.code == Code::NotSupportedYet);
    later.or_else(|| errors().next()).map_or(Ok(()), |error| Err(error.message.clone()))
}

/// Whether a service may say this; `fields` are lines of it, four spaces deep.
pub(super) fn service(fields: &str) -> Result<(), String> {
    file(&format!("listen: 127.0.0.1:1\nservices:\n  a:\n{TWO_VERSIONS}{fields}"))
}

/// Whether a canary strategy may say this beside a step; `field` is one line.
pub(super) fn strategy(field: &str) -> Result<(), String> {
    service(&format!("    strategy:\n      canary:\n        steps: [{{ setWeight: 1 }}]\n        {field}\n"))
}

/// Whether there may be such a route; `fields` is what stands between its braces.
pub(super) fn route(fields: &str) -> Result<(), String> {
    file(&format!("listen: 127.0.0.1:1\nroutes:\n  - {{ {fields} }}\nservices:\n  a:\n{TWO_VERSIONS}"))
}

/// Whether a version may say this; `fields` is what stands between its braces beside the endpoints.
pub(super) fn version(fields: &str) -> Result<(), String> {
    let versions =
        format!("    versions: {{ a: \"http://a\", b: {{ endpoints: [\"http://b\"], {fields} }} }}\n    stable: a\n");
    file(&format!("listen: 127.0.0.1:1\nservices:\n  a:\n{versions}"))
}
