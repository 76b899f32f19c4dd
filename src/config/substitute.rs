//! `${NAME}`, `${NAME:-default}` and `${NAME:?message}` in values, from an environment that is handed in; `$$` is a dollar.
//! Refuses unset names without a default. Keys are never replaced, and what was replaced is marked so that it is never shown.

use super::{
    diagnostic::Code,
    report::Report,
    yaml::{Node, Scalar, Value},
};

/// Looks up a name; none when it is not set.
pub type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Longest value after replacement, in bytes.
const VALUE_BYTES_MAX: usize = 64 * 1024;

/// Replaces in the whole tree; reports each reference without a value where it is written.
pub fn substitute(node: &mut Node, environment: &Environment<'_>, report: &mut Report) {
    match &mut node.value {
        Value::Null | Value::Unresolved => {}
        Value::Scalar(scalar) => {
            if !scalar.text.contains('$') {
                return;
            }
            match replaced(&scalar.text, environment) {
                Ok((text, _)) if text.len() > VALUE_BYTES_MAX => {
                    report.error(Code::TooLarge, &node.span, "this value is longer than 64 KiB");
                    node.value = Value::Unresolved;
                }
                Ok((text, substituted)) => *scalar = Scalar { text, substituted },
                Err(Refusal { message, help }) => {
                    report.error(Code::Environment, &node.span, message).help(help);
                    node.value = Value::Unresolved;
                }
            }
        }
        Value::List(items) => items.iter_mut().for_each(|item| substitute(item, environment, report)),
        Value::Map(fields) => fields.iter_mut().for_each(|field| substitute(&mut field.node, environment, report)),
    }
}

struct Refusal {
    message: String,
    help: String,
}

/// The text with every reference replaced, and whether there was one.
fn replaced(text: &str, environment: &Environment<'_>) -> Result<(String, bool), Refusal> {
    let mut out = String::with_capacity(text.len());
    let mut substituted = false;
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(tail) = after.strip_prefix('$') {
            out.push('$');
            rest = tail;
        } else if let Some(reference) = after.strip_prefix('{') {
            let (body, tail) = reference.split_once('}').ok_or_else(|| malformed("`${` is never closed by `}`"))?;
            out.push_str(&value(body, environment)?);
            substituted = true;
            rest = tail;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    Ok((out, substituted))
}

fn value(body: &str, environment: &Environment<'_>) -> Result<String, Refusal> {
    let (name, operator) = match body.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
        Some(at) => body.split_at(at),
        None => (body, ""),
    };
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(malformed("`${…}` must begin with a name of letters, digits and `_`"));
    }
    let set = environment(name);
    let filled = set.clone().filter(|value| !value.is_empty());
    if operator.contains("${") {
        return Err(malformed("`${…}` inside `${…}` is not supported"));
    }
    if let Some(default) = operator.strip_prefix(":-") {
        return Ok(filled.unwrap_or_else(|| default.to_owned()));
    }
    if let Some(message) = operator.strip_prefix(":?") {
        return filled.ok_or_else(|| Refusal {
            message: if message.is_empty() {
                format!("the environment variable `{name}` must be set")
            } else {
                format!("the environment variable `{name}` must be set: {message}")
            },
            help: format!("set `{name}` before starting"),
        });
    }
    if !operator.is_empty() {
        return Err(malformed("only `${NAME}`, `${NAME:-default}` and `${NAME:?message}` are understood"));
    }
    set.ok_or_else(|| Refusal {
        message: format!("the environment variable `{name}` is not set"),
        help: format!("set it, or give a default: `${{{name}:-default}}`"),
    })
}

fn malformed(message: &str) -> Refusal {
    Refusal { message: message.to_owned(), help: "write `$$` for a dollar that is meant as such".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Result<String, String> {
        let environment = |name: &str| match name {
            "A" => Some("one".to_owned()),
            "EMPTY" => Some(String::new()),
            "DOLLAR" => Some("${A}$$".to_owned()),
            _ => None,
        };
        replaced(text, &environment).map(|(text, _)| text).map_err(|refusal| refusal.message)
    }

    #[test]
    fn references_are_replaced() {
        for (text, expected) in [
            ("${A}", "one"),
            ("x-${A}-${A}", "x-one-one"),
            ("${NONE:-two}", "two"),
            ("${NONE:-}", ""),
            ("${EMPTY}", ""),
            ("${EMPTY:-two}", "two"),
            ("${A:-two}", "one"),
            ("${A:?must}", "one"),
            ("$$", "$"),
            ("$${A}", "${A}"),
            ("$A $ $", "$A $ $"),
            // What comes from outside is text, not a program.
            ("${DOLLAR}", "${A}$$"),
        ] {
            assert_eq!(with(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn unset_and_malformed_references_are_refused() {
        for (text, expected) in [
            ("${NONE}", "the environment variable `NONE` is not set"),
            ("${NONE:?give me one}", "the environment variable `NONE` must be set: give me one"),
            ("${EMPTY:?}", "the environment variable `EMPTY` must be set"),
            ("${A", "`${` is never closed by `}`"),
            ("${}", "`${…}` must begin with a name of letters, digits and `_`"),
            ("${1A}", "`${…}` must begin with a name of letters, digits and `_`"),
            ("${A+x}", "only `${NAME}`, `${NAME:-default}` and `${NAME:?message}` are understood"),
            ("${NONE:-${A}}", "`${…}` inside `${…}` is not supported"),
        ] {
            assert_eq!(with(text), Err(expected.to_owned()), "{text}");
        }
    }
}
