//! `serin explain`: what a field of the config file or a code of `serin check` means, and the manual. Touches nothing.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{
    Global,
    exit::Exit,
    output::{self, Format, Trouble},
};
use crate::{
    config::manual::{self, Entry, Found},
    guide::PAGES,
};

/// Explain a field of the config file, a code of `serin check`, or a topic of the manual
///
/// A field is named by itself, by the end of its path, or by its whole path as it stands in a file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin explain                          what there is
  serin explain setWeight
  serin explain services.web.strategy.canary.guard
  serin explain unknown-field
  serin explain concepts | less")]
pub(super) struct Args {
    /// A field, a code, or a topic
    what: Option<String>,
}

pub(super) fn run(args: &Args, global: &Global) -> Result<Exit, Trouble> {
    let Some(what) = &args.what else {
        let topics: Vec<&str> = PAGES.iter().map(|page| page.topic).collect();
        return print(global, &overview(), &json!({ "codes": manual::codes().collect::<Vec<_>>(), "topics": topics }));
    };
    if let Some(page) = manual::explain_code(what) {
        return print(global, &page, &json!({ "code": what, "says": manual::code_in_a_line(what) }));
    }
    if let Some(page) = PAGES.iter().find(|page| page.topic == what) {
        return print(global, page.text, &json!({ "topic": page.topic, "text": page.text }));
    }
    let unknown = |help: String| Trouble::new(Exit::Usage, format!("there is no field, code or topic `{what}`{help}"));
    match manual::find(what) {
        Found::Fields(found) => {
            let text: Vec<String> = found.iter().map(|entry| page(entry, found.len() == 1)).collect();
            let fields: Vec<Value> = found.iter().map(document).collect();
            print(global, &text.join("\n"), &json!({ "fields": fields }))
        }
        Found::Later(path) => {
            let place = if path.is_empty() { "at the top of the file".to_owned() } else { format!("in `{path}`") };
            Err(unknown(format!(" yet: it will be {place}, and `serin check` refuses it until then")))
        }
        Found::Foreign(advice) => Err(unknown(format!(": {advice}"))),
        Found::Near(name) => Err(unknown(format!(": did you mean `{name}`?"))),
        Found::Nothing => Err(unknown("; `serin explain` lists what there is".to_owned())),
    }
}

fn print(global: &Global, text: &str, body: &Value) -> Result<Exit, Trouble> {
    let mut document = json!({ "apiVersion": "serin/v1" });
    if let (Some(document), Some(body)) = (document.as_object_mut(), body.as_object()) {
        document.extend(body.clone());
    }
    let text = match global.output {
        Format::Table => text.to_owned(),
        Format::Json | Format::Sarif => format!("{document}\n"),
        Format::Yaml => serde_yaml::to_string(&document).unwrap_or_default(),
    };
    output::print(&text)?;
    Ok(Exit::Done)
}

/// A field as a person reads it; alone, with the fields inside it.
fn page(entry: &Entry, is_alone: bool) -> String {
    let field = entry.field;
    let without = if field.is_required() { "the file is refused" } else { field.default };
    let mut text = format!("{}\n  {}.\n", entry.path(), field.says);
    let _ = write!(text, "  write      {}\n  without    {without}\n", manual::any(field.kinds));
    let _ = writeln!(text, "  example    {}: {}", field.name, field.example);
    let inside = manual::inside(entry);
    if !inside.is_empty() && is_alone {
        text += "\n  inside\n";
        let width = inside.iter().map(|entry| entry.field.name.len()).max().unwrap_or(0);
        for inner in inside {
            let _ = writeln!(text, "    {:<width$}  {}", inner.field.name, inner.field.says);
        }
    }
    text
}

fn document(entry: &Entry) -> Value {
    let field = entry.field;
    json!({
        "path": entry.path(),
        "says": field.says,
        "write": manual::any(field.kinds),
        "required": field.is_required(),
        "without": field.default,
        "example": field.example,
        "inside": manual::inside(entry).iter().map(|inner| inner.field.name).collect::<Vec<_>>(),
    })
}

fn overview() -> String {
    let top = manual::entries().filter(|entry| entry.at.is_empty());
    let mut text = "serin explain FIELD, by name or by path. The top of the file has\n".to_owned();
    for entry in top {
        let _ = writeln!(text, "  {:<18} {}", entry.field.name, entry.field.says);
    }
    text += "\nserin explain TOPIC, of the manual:\n";
    for page in PAGES {
        let _ = writeln!(text, "  {:<18} {}", page.topic, page.about);
    }
    text += "\nserin explain CODE, of a diagnostic:\n";
    for code in manual::codes() {
        let _ = writeln!(text, "  {code:<18} {}", manual::code_in_a_line(code));
    }
    text
}
