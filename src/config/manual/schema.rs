//! The JSON Schema of the file (draft 7, which editors read), made from the shapes and the manual.
//! Refuses to know limits that only the readers can judge, such as references and what excludes what.

use serde_json::{Map, Value, json};

use super::{Field, Kind, any, fields, of};
use crate::config::shape::{self, Shape};

/// A value from the environment stands for any other.
const VARIABLE: &str = r"\$\{";

/// The schema of the whole file.
#[must_use]
pub fn schema() -> Value {
    let mut root = mapping(&shape::FILE);
    let others = shape::ALL.iter().filter(|shape| !shape.path.is_empty());
    let definitions: Map<String, Value> = others.map(|shape| (name(shape.path), mapping(shape))).collect();
    if let Some(root) = root.as_object_mut() {
        root.insert("$schema".to_owned(), json!("http://json-schema.org/draft-07/schema#"));
        root.insert("title".to_owned(), json!("Serin's config file"));
        root.insert("definitions".to_owned(), Value::Object(definitions));
    }
    root
}

/// `listeners[].limits` is `listeners.limits`.
fn name(path: &str) -> String {
    path.replace("[]", "").replace(".<name>", "")
}

fn mapping(shape: &'static Shape) -> Value {
    let properties: Map<String, Value> =
        of(shape).map(|entry| (entry.field.name.to_owned(), property(entry.field))).collect();
    let required: Vec<&str> =
        of(shape).filter(|entry| entry.field.is_required()).map(|entry| entry.field.name).collect();
    let mut mapping = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if let Some(mapping) = mapping.as_object_mut() {
        if !required.is_empty() {
            mapping.insert("required".to_owned(), json!(required));
        }
        if fields::ONE_OF.contains(&shape.path) {
            mapping.insert("minProperties".to_owned(), json!(1));
            mapping.insert("maxProperties".to_owned(), json!(1));
        }
    }
    mapping
}

fn property(field: &Field) -> Value {
    let without = if field.is_required() { "Required".to_owned() } else { format!("Without it: {}", field.default) };
    let description = format!("{}. {without}. Write: {}. Example: {}", field.says, any(field.kinds), field.example);
    let mut property = value(field.kinds);
    if let Some(property) = property.as_object_mut() {
        // Beside `$ref` draft 7 ignores everything.
        if let Some(reference) = property.remove("$ref") {
            property.insert("allOf".to_owned(), json!([{ "$ref": reference }]));
        }
        property.insert("description".to_owned(), json!(description));
    }
    property
}

fn value(kinds: &[Kind]) -> Value {
    match kinds {
        [one] => single(one),
        several => json!({ "anyOf": several.iter().map(single).collect::<Vec<_>>() }),
    }
}

fn single(kind: &Kind) -> Value {
    let text = |pattern: &str| json!({ "type": "string", "pattern": format!("{pattern}|{VARIABLE}") });
    match *kind {
        Kind::Text => json!({ "type": ["string", "number", "boolean"] }),
        // `1.10` is a version's name as often as a number.
        Kind::Name => json!({ "type": ["string", "number"] }),
        Kind::Secret | Kind::Path => json!({ "type": "string" }),
        Kind::Condition => json!({ "type": ["string", "boolean"] }),
        Kind::Url => text("^[a-z]+:"),
        Kind::Address => text("^.+:[0-9]+$"),
        Kind::Flag => json!({ "anyOf": [{ "type": "boolean" }, text("^(true|false)$")] }),
        Kind::Duration => text(r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"),
        Kind::Size => json!({ "anyOf": [{ "type": "integer", "minimum": 0 }, text("^[0-9]+ ?(B|KiB|MiB)?$")] }),
        Kind::Share => text(r"^[0-9]+(\.[0-9]+)? ?(%|ppm)$"),
        Kind::Weight => json!({ "anyOf": [{ "type": "integer", "minimum": 0 }, single(&Kind::Share)] }),
        Kind::Points => text(r"^[0-9]+(\.[0-9]+)? ?pp$"),
        Kind::Number(min) => json!({ "anyOf": [{ "type": "number", "minimum": min }, text("^[0-9.]+$")] }),
        Kind::Whole(min, max) => {
            json!({ "anyOf": [{ "type": "integer", "minimum": min, "maximum": max }, text("^[0-9]+$")] })
        }
        Kind::Word(words) => word(words),
        Kind::Map(path) => json!({ "$ref": format!("#/definitions/{}", name(path)) }),
        Kind::List(kinds) => json!({ "type": "array", "items": value(kinds), "minItems": 1 }),
        Kind::Named(kinds) => json!({ "type": "object", "additionalProperties": value(kinds), "minProperties": 1 }),
    }
}

/// `true` and `false` are words that YAML reads as something else.
fn word(words: &[&str]) -> Value {
    let truths = words.iter().filter_map(|word| word.parse::<bool>().ok()).map(Value::Bool);
    let all: Vec<Value> = words.iter().map(|word| json!(word)).chain(truths).collect();
    json!({ "anyOf": [{ "enum": all }, { "type": "string", "pattern": VARIABLE }] })
}
