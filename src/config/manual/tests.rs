//! The manual against the shapes, the readers, the schema and the files that are made of it.

use std::{
    collections::HashMap,
    env, fs,
    path::Path,
    sync::{LazyLock, Mutex},
};

use regex::Regex;
use serde_json::{Value as Json, json};

use super::{Found, Kind, entries, fields, find, inside, reference, schema};
use crate::config::{
    Code, check, shape, whole,
    yaml::{self, Node, Value},
};

#[test]
fn every_field_that_is_read_is_explained() {
    let mut missing = Vec::new();
    for shape in shape::ALL {
        let described = fields::all().find(|(path, _)| *path == shape.path).map_or(&[][..], |(_, fields)| *fields);
        let absent = shape.fields.iter().filter(|name| !described.iter().any(|field| field.name == **name));
        missing.extend(absent.map(|name| format!("`{name}` of \"{}\"", shape.path)));
    }
    assert!(
        missing.is_empty(),
        "src/config/shape.rs reads fields that nobody explains. Add each to src/config/manual/fields/ (the head of fields.rs says how), \
         then run `UPDATE_CORPUS=1 cargo test --lib config::` to renew config/reference.md and config/serin.schema.json: {}",
        missing.join(", ")
    );
    for (path, described) in fields::all() {
        let shape = shape::ALL.iter().find(|shape| shape.path == *path);
        for field in *described {
            let is_read = shape.is_some_and(|shape| shape.fields.contains(&field.name));
            assert!(
                is_read,
                "src/config/manual/fields explains `{}` of \"{path}\", which shape.rs does not read",
                field.name
            );
            let flaw =
                ["", "."].iter().any(|end| field.says.is_empty() || (!end.is_empty() && field.says.ends_with(end)));
            assert!(
                !flaw && !field.default.is_empty(),
                "{path} {}: say what it does, without the full stop",
                field.name
            );
        }
    }
}

#[test]
fn mappings_lead_to_shapes_and_every_shape_is_reached() {
    let mut reached = vec![""];
    let mut at = 0;
    while let Some(path) = reached.get(at).copied() {
        at += 1;
        let shape = shape::ALL.iter().find(|shape| shape.path == path);
        let shape =
            shape.unwrap_or_else(|| panic!("fields.rs names the mapping \"{path}\", which shape.rs does not have"));
        for inner in super::of(shape).flat_map(|entry| super::maps(entry.field.kinds)) {
            if !reached.contains(&inner) {
                reached.push(inner);
            }
        }
    }
    // A shape of which nothing is read yet needs no way to it.
    for shape in shape::ALL.iter().filter(|shape| !shape.fields.is_empty()) {
        assert!(
            reached.contains(&shape.path),
            "no field in fields.rs leads to the mapping \"{}\" of shape.rs",
            shape.path
        );
    }
}

#[test]
fn fields_are_found_by_name_and_by_path() {
    let paths = |question: &str| match find(question) {
        Found::Fields(found) => found.iter().map(super::Entry::path).collect(),
        Found::Later(path) => vec![format!("later in {path}")],
        Found::Foreign(advice) => vec![advice.to_owned()],
        Found::Near(name) => vec![format!("near {name}")],
        Found::Nothing => Vec::new(),
    };
    let weight = "services.<name>.strategy.canary.steps[].setWeight";
    for question in ["setWeight", "steps.setWeight", "steps[].setWeight", "steps[3].setWeight", weight] {
        assert_eq!(paths(question), [weight], "{question}");
    }
    for question in ["stable", "services.web.stable", "services.<name>.stable", "services.stable"] {
        assert_eq!(paths(question), ["services.<name>.stable"], "{question}");
    }
    assert_eq!(paths("services.web.versions.v1.http"), ["services.<name>.versions.<name>.http"]);
    assert!(paths("window").len() > 2);
    assert_eq!(paths("fleet"), ["later in "]);
    assert!(paths("trafficRouting")[0].contains("router itself") && paths("spec")[0].contains("serin import"));
    assert_eq!(paths("template"), ["near templates"]);
    assert_eq!(paths("setWieght"), ["near setWeight"]);
    assert_eq!(paths("qqqqqqqqq"), [""; 0]);
    let Found::Fields(found) = find("strategy.canary") else { panic!("the field") };
    assert!(inside(&found[0]).iter().any(|entry| entry.field.name == "steps"));
}

#[test]
fn what_is_made_of_the_manual_is_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    for (name, text) in [("reference.md", reference()), ("serin.schema.json", format!("{:#}\n", schema()))] {
        let path = folder.join(name);
        if env::var_os("UPDATE_CORPUS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let is_same = fs::read_to_string(&path).is_ok_and(|stored| stored == text);
        assert!(is_same, "config/{name} is out of date: run `UPDATE_CORPUS=1 cargo test --lib config::`");
    }
}

#[test]
fn the_samples_name_the_schema_and_fit_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    for name in ["serin.yaml", "full.yaml"] {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        assert!(text.starts_with("# yaml-language-server: $schema=./serin.schema.json\n"), "{name} helps no editor");
        let found = misfits(&json_of(&yaml::read(&text).unwrap()));
        assert!(found.is_empty(), "{name}: {found:?}");
    }
}

/// Each example is put where it belongs, in a whole file: the readers take it, and so does the schema. A list of lists, which
/// fits nowhere, is refused by both.
#[test]
fn the_readers_and_the_schema_agree_on_every_field() {
    let samples = whole_files().map(|sample| yaml::read(&sample).unwrap());
    for entry in entries() {
        let path = entry.path();
        // One file that has the mapping is enough, rather one that has the field: another field may exclude it.
        let places =
            samples.iter().rev().filter_map(|sample| Some((sample, place(sample, entry.at, entry.field.name)?)));
        let best = places.max_by_key(|(_, place)| place.has_field);
        let Some((sample, _)) = best else { panic!("config/full.yaml has no mapping to put `{path}` into") };
        let mut root = sample.clone();
        leave_only(&mut root, entry.at, entry.field.name);
        let place = place(&root, entry.at, entry.field.name).unwrap();
        let example = yaml::read(&format!("x: {}", entry.field.example));
        let example = example.unwrap_or_else(|error| panic!("the example of {path} is no YAML: {error:?}"));
        let Value::Map(mut fields) = example.value else { panic!("a mapping") };
        let right = flow_with(&root, place, &flow(&fields.remove(0).node));
        let found = errors(&right);
        assert!(found.is_empty(), "the readers refuse the example of {path}: {found:?}\n{right}");
        let found = misfits(&json_of(&yaml::read(&right).unwrap()));
        assert!(found.is_empty(), "the schema refuses the example of {path}: {found:?}");
        let wrong = flow_with(&root, place, "[[]]");
        assert!(is_refused(&wrong), "the readers take a list of lists for {path}");
        let found = misfits(&json_of(&yaml::read(&wrong).unwrap()));
        assert!(!found.is_empty(), "the schema takes a list of lists for {path}");
    }
}

/// What the corpus of broken files says of unknown fields and wrong types, an editor says as well.
#[test]
fn the_schema_refuses_unknown_fields_and_wrong_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/corpus");
    let mut seen = 0;
    for name in ["fields.txt", "steps.txt", "service.txt", "guard.txt", "listeners.txt"] {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        for case in text.split("======== ").skip(1) {
            let Some((title, file)) = case.split_once("\n--------").and_then(|(case, _)| case.split_once('\n')) else {
                continue;
            };
            let Ok(root) = yaml::read(file) else { continue };
            let diagnostics = check(file, Path::new("serin.yaml"), &|_| Some("x".to_owned())).diagnostics;
            if diagnostics.items().iter().any(|item| item.code == Code::UnknownField || item.code == Code::WrongType) {
                seen += 1;
                assert!(!misfits(&json_of(&root)).is_empty(), "{name}: {title}");
            }
        }
    }
    assert!(seen >= 15, "{seen}");
}

/// The full sample, the same in the short forms, with the other strategy, and what names files that no sample can have.
fn whole_files() -> [String; 4] {
    let full = fs::read_to_string(whole::sample("full.yaml")).unwrap();
    let short = "listen: 127.0.0.1:8080\nservices:\n  shop:\n    versions: { v41: 'http://a:80', v42: 'http://b:80' }\n    \
                 stable: v41\n    canary: v42\n    steps: [5%]\n    hold: 1m\n    abortWhen: { errorRate: 2% }\n";
    let blue_green = short.replace(
        "    steps: [5%]\n    hold: 1m\n    abortWhen: { errorRate: 2% }\n",
        "    strategy: { blueGreen: { autoPromotionEnabled: false, preview: { header: { name: x-a, exact: b } } } }\n",
    );
    let tls = "listeners: [{ name: https, listen: 127.0.0.1:8443, tls: { certificates: [{ cert: a, key: b }] } }]\n\
               services: { shop: { versions: { v41: { endpoints: ['https://a:80'], tls: { sni: a } } }, stable: v41 } }\n";
    [full, short.to_owned(), blue_green, tls.to_owned()]
}

/// The errors of a file that are not about what excludes what, or about other parts that lack what was replaced.
fn errors(text: &str) -> Vec<String> {
    let checked = check(text, Path::new("serin.yaml"), &|_| None);
    let is_own =
        |code: Code| !matches!(code, Code::Conflict | Code::BadReference | Code::Suspicious | Code::NotSupportedYet);
    let own = checked.diagnostics.items().iter().filter(|item| is_own(item.code));
    own.map(|item| item.message.clone()).collect()
}

/// Whether a file is refused for what stands in it, and not for what was cut away.
fn is_refused(text: &str) -> bool {
    let checked = check(text, Path::new("serin.yaml"), &|_| None);
    let is_own = |code: Code| !matches!(code, Code::BadReference | Code::Suspicious);
    checked.config.is_none() && checked.diagnostics.items().iter().any(|item| is_own(item.code))
}

/// The first mapping of this path, and the name of its field.
#[derive(Clone, Copy)]
struct Place {
    /// The address of the mapping's node.
    node: *const Node,
    field: &'static str,
    has_field: bool,
}

fn place(root: &Node, at: &str, field: &'static str) -> Option<Place> {
    let mut nodes: Vec<&Node> = vec![root];
    for segment in at.split('.').filter(|segment| !segment.is_empty()) {
        let (name, is_list) = segment.strip_suffix("[]").map_or((segment, false), |name| (name, true));
        let mut next = Vec::new();
        for node in nodes {
            let Value::Map(fields) = &node.value else { continue };
            next.extend(fields.iter().filter(|field| name == "<name>" || field.key == name).map(|field| &field.node));
        }
        if is_list {
            let items = |node: &&Node| matches!(node.value, Value::List(_));
            next = next
                .into_iter()
                .filter(items)
                .flat_map(|node| match &node.value {
                    Value::List(items) => items.iter().collect::<Vec<_>>(),
                    _ => Vec::new(),
                })
                .collect();
        }
        nodes = next;
    }
    // Where exactly one field is written, it must be this one.
    let single = fields::ONE_OF.contains(&at);
    let fits = |node: &&&Node| match &node.value {
        Value::Map(fields) => !single || fields.iter().any(|own| own.key == field),
        _ => false,
    };
    // Of several mappings the one that has it already: it may exclude what stands in another.
    let has = |node: &&&Node| matches!(&node.value, Value::Map(fields) if fields.iter().any(|own| own.key == field));
    let found = nodes.iter().find(has).or_else(|| nodes.iter().find(fits))?;
    Some(Place { node: std::ptr::from_ref(*found), field, has_field: has(&found) })
}

/// Cuts a whole file down to a small one with the same place: what stands beside the way to it goes, but for what each file and
/// each service needs. A check of the whole sample costs ten times as much.
fn leave_only(root: &mut Node, at: &str, field: &'static str) {
    // The top holds everything.
    if at.is_empty() {
        return;
    }
    let target = place(root, at, field).unwrap().node;
    let Value::Map(fields) = &mut root.value else { panic!("a mapping") };
    // Whoever names a template that is not there is read no further.
    let asks = ["analys", "experiment"].iter().any(|word| at.starts_with("services") && at.contains(word));
    let is_needed = |key: &str| match key {
        "listen" | "listeners" | "services" => true,
        "analysisTemplates" => asks,
        _ => false,
    };
    fields.retain(|field| is_needed(&field.key) || holds(&field.node, target));
    // What is kept has moved.
    let target = place(root, at, field).unwrap().node;
    let Value::Map(fields) = &mut root.value else { panic!("a mapping") };
    for field in fields {
        let Value::Map(named) = &mut field.node.value else { continue };
        if field.key == "services" || (field.key == "analysisTemplates" && !asks) {
            keep_one(named, |own| holds(&own.node, target));
        }
    }
    let target = place(root, at, field).unwrap().node;
    let Value::Map(fields) = &mut root.value else { panic!("a mapping") };
    // Conditions are what a check spends most of its time on.
    for templates in fields.iter_mut().filter(|field| field.key == "analysisTemplates") {
        let Value::Map(templates) = &mut templates.node.value else { continue };
        for template in templates {
            let Value::Map(parts) = &mut template.node.value else { continue };
            for part in parts.iter_mut().filter(|part| part.key == "metrics") {
                let Value::List(metrics) = &mut part.node.value else { continue };
                keep_one(metrics, |metric| holds(metric, target));
            }
        }
    }
}

/// Keeps the wanted one, else the last.
fn keep_one<T>(all: &mut Vec<T>, is_wanted: impl Fn(&T) -> bool) {
    let kept = all.iter().position(is_wanted).unwrap_or(all.len() - 1);
    *all = vec![all.swap_remove(kept)];
}

fn holds(node: &Node, target: *const Node) -> bool {
    std::ptr::eq(node, target)
        || match &node.value {
            Value::List(items) => items.iter().any(|item| holds(item, target)),
            Value::Map(fields) => fields.iter().any(|field| holds(&field.node, target)),
            _ => false,
        }
}

/// The tree in flow style with another value at a place.
fn flow_with(root: &Node, place: Place, value: &str) -> String {
    write_flow(root, Some((place, value)))
}

fn flow(node: &Node) -> String {
    write_flow(node, None)
}

fn write_flow(node: &Node, replaced: Option<(Place, &str)>) -> String {
    match &node.value {
        Value::Null | Value::Unresolved => "~".to_owned(),
        Value::Scalar(scalar) => json!(scalar.text).to_string(),
        Value::List(items) => {
            format!("[{}]", items.iter().map(|item| write_flow(item, replaced)).collect::<Vec<_>>().join(", "))
        }
        Value::Map(fields) => {
            let here = replaced.filter(|(place, _)| std::ptr::eq(place.node, node));
            let kept = fields.iter().filter(|field| here.is_none_or(|(place, _)| field.key != place.field));
            let mut written: Vec<String> =
                kept.map(|field| format!("{}: {}", json!(field.key), write_flow(&field.node, replaced))).collect();
            written.extend(here.map(|(place, value)| format!("{}: {value}", json!(place.field))));
            format!("{{{}}}", written.join(", "))
        }
    }
}

/// The tree as an editor sees it: what looks like a number is one.
fn json_of(node: &Node) -> Json {
    match &node.value {
        Value::Null | Value::Unresolved => Json::Null,
        Value::Scalar(scalar) => match serde_json::from_str(&scalar.text) {
            Ok(number @ (Json::Number(_) | Json::Bool(_))) => number,
            _ => json!(scalar.text),
        },
        Value::List(items) => items.iter().map(json_of).collect(),
        Value::Map(fields) => {
            let of =
                |fields: &[yaml::Field]| fields.iter().map(|field| (field.key.clone(), json_of(&field.node))).collect();
            Json::Object(of(fields))
        }
    }
}

/// Where a document does not fit the schema.
fn misfits(document: &Json) -> Vec<String> {
    // Made once: regular expressions are dear where nothing is optimised.
    static SCHEMA: LazyLock<Json> = LazyLock::new(schema);
    static PATTERNS: LazyLock<Mutex<HashMap<String, Regex>>> = LazyLock::new(Mutex::default);
    let mut found = Vec::new();
    fit(&SCHEMA, &SCHEMA, document, "", &mut PATTERNS.lock().unwrap(), &mut found);
    found
}

/// As much of draft 7 as the schema uses.
fn fit(
    root: &Json,
    schema: &Json,
    value: &Json,
    at: &str,
    patterns: &mut HashMap<String, Regex>,
    found: &mut Vec<String>,
) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.strip_prefix("#/definitions/").unwrap();
        return fit(root, &root["definitions"][name], value, at, patterns, found);
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        fit(root, part, value, at, patterns, found);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let fits = any.iter().any(|part| {
            let mut inner = Vec::new();
            fit(root, part, value, at, patterns, &mut inner);
            inner.is_empty()
        });
        if !fits {
            found.push(format!("{at}: {value} is none of {}", any.len()));
        }
    }
    let is = |name: &Json| match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        other => panic!("{other}"),
    };
    let fits_type = match &schema["type"] {
        Json::Null => true,
        Json::Array(names) => names.iter().any(is),
        name => is(name),
    };
    if !fits_type {
        found.push(format!("{at}: {value} is no {}", schema["type"]));
        return;
    }
    scalar_fits(schema, value, at, patterns, found);
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        fit(root, &schema["items"], item, &format!("{at}[{index}]"), patterns, found);
    }
    let Some(fields) = value.as_object() else { return };
    let bounds = (schema["minProperties"].as_u64().unwrap_or(0), schema["maxProperties"].as_u64().unwrap_or(u64::MAX));
    if !(bounds.0..=bounds.1).contains(&(fields.len() as u64)) {
        found.push(format!("{at}: {} fields", fields.len()));
    }
    for needed in schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str) {
        if !fields.contains_key(needed) {
            found.push(format!("{at}: needs {needed}"));
        }
    }
    for (name, value) in fields {
        let at = format!("{at}.{name}");
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Json::Null, Json::Bool(false)) => found.push(format!("{at}: unknown")),
            (Json::Null, other) => fit(root, other, value, &at, patterns, found),
            (property, _) => fit(root, property, value, &at, patterns, found),
        }
    }
}

fn scalar_fits(schema: &Json, value: &Json, at: &str, patterns: &mut HashMap<String, Regex>, found: &mut Vec<String>) {
    if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str()) {
        let regex = patterns.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).unwrap());
        if !regex.is_match(text) {
            found.push(format!("{at}: {text} is not {pattern}"));
        }
    }
    let words = schema["enum"].as_array();
    if words.is_some_and(|words| !words.contains(value)) {
        found.push(format!("{at}: {value} is not one of {words:?}"));
    }
    let number = value.as_f64();
    let below = number.zip(schema["minimum"].as_f64()).is_some_and(|(number, min)| number < min);
    let above = number.zip(schema["maximum"].as_f64()).is_some_and(|(number, max)| number > max);
    let short =
        value.as_array().zip(schema["minItems"].as_u64()).is_some_and(|(items, min)| (items.len() as u64) < min);
    if below || above || short {
        found.push(format!("{at}: {value} is out of bounds"));
    }
}

#[test]
fn kinds_have_words() {
    assert_eq!(super::any(&[Kind::Word(&["auto"]), Kind::Whole(1, 9)]), "`auto` or whole number from 1 to 9");
    assert_eq!(Kind::List(&[Kind::Share]).words(), "list of share (`5%`, `0.25%`, `2500ppm`)");
}
