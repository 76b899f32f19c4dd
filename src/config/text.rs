//! Texts with places to be filled in: `{{args.name}}` and the built-in names. Refuses places that nothing fills.

use super::{
    diagnostic::Code,
    report::{At, Problem, Report},
    suggest,
    yaml::Value,
};
use crate::engine::analysis::ask::{BuiltIn, Part, Text};

/// Longest text, in bytes.
const TEXT_BYTES_MAX: usize = 16 * 1024;

impl Report {
    /// A text that is not empty; `declared` are the arguments that it may mention.
    pub fn text(&mut self, at: &At<'_>, noun: &str, declared: &[&str]) -> Option<Text> {
        let text = self.filled(at, noun)?;
        self.placed(at, &text, declared)
    }

    /// A text that may be empty.
    pub fn text_or_empty(&mut self, at: &At<'_>, declared: &[&str]) -> Option<Text> {
        let text = self.scalar(at, "a text", |text| Ok(text.to_owned()))?;
        self.placed(at, &text, declared)
    }

    /// A URL, or a text that begins with a place.
    pub fn url(&mut self, at: &At<'_>, declared: &[&str]) -> Option<Text> {
        let text = self.text(at, "a URL such as `http://host:9090`", declared)?;
        let starts = match text.0.first() {
            Some(Part::Plain(plain)) => plain.starts_with("http://") || plain.starts_with("https://"),
            _ => true,
        };
        if !starts {
            self.error(Code::BadValue, &at.span(), format!("`{}` is not a URL", at.name))
                .help("write it as `http://host:port` or `https://host`");
            return None;
        }
        Some(text)
    }

    /// A text as it is written, cut at its places.
    pub fn placed(&mut self, at: &At<'_>, text: &str, declared: &[&str]) -> Option<Text> {
        // What came from the environment is not shown.
        let is_shown = matches!(&at.node.value, Value::Scalar(scalar) if !scalar.substituted);
        match parse(text, declared) {
            Ok(text) => Some(text),
            Err(problem) => {
                let what = if is_shown { problem.message } else { "has a place that nothing fills".to_owned() };
                let help = problem.fix.filter(|_| is_shown).map_or(problem.help, |fix| format!("did you mean {fix}?"));
                self.error(problem.code, &at.span(), format!("`{}` {what}", at.name)).help(help);
                None
            }
        }
    }
}

/// Cuts a text at its places.
fn parse(text: &str, declared: &[&str]) -> Result<Text, Problem> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Problem::new("is longer than 16 KiB", "shorten it"));
    }
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, behind)) = after.split_once("}}") else {
            return Err(Problem::new("has a `{{` that is never closed by `}}`", "close it"));
        };
        if !before.is_empty() {
            parts.push(Part::Plain(before.to_owned()));
        }
        parts.push(place(name.trim(), declared)?);
        rest = behind;
    }
    if !rest.is_empty() || parts.is_empty() {
        parts.push(Part::Plain(rest.to_owned()));
    }
    Ok(Text(parts))
}

fn place(name: &str, declared: &[&str]) -> Result<Part, Problem> {
    if let Some(arg) = name.strip_prefix("args.").or_else(|| name.strip_prefix("inputs.parameters.")) {
        if declared.contains(&arg) {
            return Ok(Part::Arg(arg.to_owned()));
        }
        let near = suggest::closest(arg, declared.iter().copied()).map(|near| format!("`{{{{args.{near}}}}}`"));
        let help = "add it to the template: `args: [{ name: … }]`";
        let problem = Problem::new(format!("uses `{{{{{name}}}}}`, which the template does not declare"), help);
        return Err(Problem { code: Code::BadReference, ..problem.fix(near) });
    }
    if let Some(known) = BuiltIn::ALL.into_iter().find(|known| known.as_str() == name) {
        return Ok(Part::BuiltIn(known));
    }
    let names: Vec<String> = BuiltIn::ALL.iter().map(|known| format!("`{{{{{}}}}}`", known.as_str())).collect();
    let near = suggest::closest(name, BuiltIn::ALL.iter().map(|known| known.as_str()));
    let help = format!("there are `{{{{args.NAME}}}}`, {}", names.join(", "));
    let problem = Problem::new(format!("has a place `{{{{{name}}}}}` that nothing fills"), help);
    Err(Problem { code: Code::BadReference, ..problem.fix(near.map(|near| format!("`{{{{{near}}}}}`"))) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_their_places() {
        let plain = |text: &str| Part::Plain(text.to_owned());
        for (text, parts) in [
            ("up", vec![plain("up")]),
            ("", vec![plain("")]),
            ("a{{args.x}}b", vec![plain("a"), Part::Arg("x".to_owned()), plain("b")]),
            ("{{ canary.name }}", vec![Part::BuiltIn(BuiltIn::Canary)]),
            ("{a=\"{{stable.name}}\"}", vec![plain("{a=\""), Part::BuiltIn(BuiltIn::Stable), plain("\"}")]),
        ] {
            assert_eq!(parse(text, &["x"]), Ok(Text(parts)), "{text}");
        }
        for text in ["{{args.y}}", "{{nobody}}", "{{args.x"] {
            assert!(parse(text, &["x"]).is_err(), "{text}");
        }
    }
}
