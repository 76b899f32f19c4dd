//! Walks the tree and collects what is wrong, so that one run tells everything.
//! Refuses unknown, repeated, later and empty fields, and never puts a value from the environment into a message.

use std::{collections::HashMap, fmt::Display};

use super::{
    diagnostic::{Code, Diagnostic, Severity, Span},
    foreign,
    shape::{self, Shape},
    suggest,
    yaml::{Field, Node, Scalar, Value},
};

/// The findings so far.
#[derive(Debug, Default)]
pub struct Report {
    found: Vec<Diagnostic>,
}

/// A node and what to call it.
#[derive(Debug, Clone)]
pub struct At<'a> {
    /// The last part of the path.
    pub name: String,
    /// From the top of the file; empty for the file itself.
    pub path: String,
    /// Where to point when the node itself has nothing to point at: its key.
    pub key_span: Span,
    /// The node.
    pub node: &'a Node,
}

/// Why a scalar is not what it should be. Neither part repeats the text: it may be from the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Goes on after the field's name: `is not …`.
    pub message: String,
    /// What to write.
    pub help: String,
    /// The text put right; shown only when the text is from the file itself.
    pub fix: Option<String>,
    /// What kind.
    pub code: Code,
}

impl Problem {
    /// A bad value.
    pub fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into(), fix: None, code: Code::BadValue }
    }

    /// With the text put right, if that can be guessed.
    #[must_use]
    pub fn fix(self, fix: Option<String>) -> Self {
        Self { fix, ..self }
    }
}

/// The fields of a mapping.
#[derive(Debug)]
pub struct Fields<'a> {
    at: At<'a>,
    fields: HashMap<&'a str, &'a Field>,
}

impl Report {
    /// Adds an error.
    pub fn error(&mut self, code: Code, span: &Span, message: impl Into<String>) -> &mut Diagnostic {
        self.add(Severity::Error, code, span, message.into())
    }

    /// Adds a warning.
    pub fn warning(&mut self, span: &Span, message: impl Into<String>) -> &mut Diagnostic {
        self.add(Severity::Warning, Code::Suspicious, span, message.into())
    }

    /// Whether there is an error so far.
    #[must_use]
    pub fn refused(&self) -> bool {
        self.found.iter().any(|found| found.severity == Severity::Error)
    }

    /// All findings.
    #[must_use]
    pub fn into_found(self) -> Vec<Diagnostic> {
        self.found
    }

    /// The fields of a mapping; reports fields that are unknown, repeated or come later, and anything but a mapping.
    pub fn fields<'a>(&mut self, at: &At<'a>, shape: &Shape) -> Option<Fields<'a>> {
        let mut fields = HashMap::new();
        let mut misspelt = Vec::new();
        for field in self.entries(at)? {
            if shape.fields.contains(&&*field.key) {
                fields.insert(&*field.key, field);
            } else if shape.later.contains(&&*field.key) {
                self.error(Code::NotSupportedYet, &field.key_span, format!("`{}` is not supported yet", field.key))
                    .help("remove it: this release of Serin would not obey it");
            } else {
                misspelt.extend(self.unknown(at, field, shape).map(|meant| (meant, field)));
            }
        }
        // Read as what was probably meant: one mistake is told once, and what is wrong inside is told as well.
        for (meant, field) in misspelt {
            fields.entry(meant).or_insert(field);
        }
        Some(Fields { at: at.clone(), fields })
    }

    /// The entries of a mapping whose keys the user chose; reports repeated keys and anything but a mapping.
    pub fn entries<'a>(&mut self, at: &At<'a>) -> Option<Vec<&'a Field>> {
        let Value::Map(fields) = &at.node.value else {
            self.wrong_type(at, "a mapping");
            return None;
        };
        let mut seen: HashMap<&str, &Field> = HashMap::new();
        let mut kept = Vec::new();
        for field in fields {
            if let Some(first) = seen.get(&*field.key) {
                self.error(Code::DuplicateField, &field.key_span, format!("`{}` is here twice", field.key))
                    .related(&first.key_span, "first here")
                    .help("keep one of them");
            } else {
                seen.insert(&field.key, field);
                kept.push(field);
            }
        }
        Some(kept)
    }

    /// The items of a list with at least one and at most `max` items.
    pub fn items<'a>(&mut self, at: &At<'a>, max: usize) -> Option<Vec<At<'a>>> {
        let Value::List(items) = &at.node.value else {
            self.wrong_type(at, "a list");
            return None;
        };
        if items.is_empty() {
            self.error(Code::BadValue, &at.span(), format!("`{}` is an empty list", at.name))
                .help("give it at least one item, or remove it");
            return None;
        }
        if items.len() > max {
            self.error(Code::TooLarge, &at.span(), format!("`{}` has {} items; at most {max}", at.name, items.len()));
            return None;
        }
        Some(items.iter().enumerate().map(|(index, node)| at.item(index, node)).collect())
    }

    /// A scalar, read by `parse`; reports anything but a scalar as not being `noun`.
    pub fn scalar<T>(&mut self, at: &At<'_>, noun: &str, parse: impl FnOnce(&str) -> Result<T, Problem>) -> Option<T> {
        let Value::Scalar(Scalar { text, substituted }) = &at.node.value else {
            self.wrong_type(at, noun);
            return None;
        };
        match parse(text) {
            Ok(value) => Some(value),
            Err(problem) => {
                let help = match problem.fix {
                    Some(fix) if !substituted => format!("did you mean {fix}?"),
                    _ => problem.help,
                };
                self.error(problem.code, &at.node.span, format!("`{}` {}", at.name, problem.message)).help(help);
                None
            }
        }
    }

    /// A scalar's text, which must not be empty.
    pub fn filled(&mut self, at: &At<'_>, noun: &str) -> Option<String> {
        self.scalar(at, noun, |text| {
            if text.trim().is_empty() {
                return Err(Problem::new("is empty", format!("give it {noun}")));
            }
            Ok(text.to_owned())
        })
    }

    /// One of some words.
    pub fn word<T: Copy>(&mut self, at: &At<'_>, words: &[(&str, T)]) -> Option<T> {
        let mut all = words.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(", ");
        if words.len() > 1 {
            all.insert_str(0, "one of ");
        }
        self.scalar(at, &all, |text| {
            words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
                let near = suggest::closest(text, words.iter().map(|(word, _)| *word));
                Problem::new(format!("must be {all}"), format!("write {all}")).fix(near.map(|word| format!("`{word}`")))
            })
        })
    }

    /// Reports a field that another needs.
    pub fn missing(&mut self, at: &At<'_>, field: &str, help: impl Display) {
        let place = if at.path.is_empty() { "the file".to_owned() } else { format!("`{}`", at.path) };
        self.error(Code::MissingField, &at.key_span, format!("{place} needs `{field}`")).help(help.to_string());
    }

    /// Reports a node of the wrong type.
    pub fn wrong_type(&mut self, at: &At<'_>, noun: &str) {
        if at.node.value == Value::Unresolved {
            return;
        }
        if at.path.is_empty() && at.node.value == Value::Null {
            self.error(Code::MissingField, &at.key_span, "the file is empty")
                .help("the smallest useful file has `listen` and `services`");
        } else if at.node.value == Value::Null {
            self.error(Code::MissingField, &at.span(), format!("`{}` has no value", at.name))
                .help(format!("give it {noun}, or remove it"));
        } else {
            let name = if at.path.is_empty() { "the file" } else { &format!("`{}`", at.name) };
            let message = format!("{name} must be {noun}, not {}", at.node.value.noun());
            self.error(Code::WrongType, &at.span(), message);
        }
    }

    fn add(&mut self, severity: Severity, code: Code, span: &Span, message: String) -> &mut Diagnostic {
        self.found.push(Diagnostic::new(severity, code, Some(span.clone()), message));
        let last = self.found.len() - 1;
        &mut self.found[last]
    }

    /// Reports a field that is not one of the shape; the field it is read as, if one is near.
    fn unknown(&mut self, at: &At<'_>, field: &Field, shape: &Shape) -> Option<&'static str> {
        let place = if at.path.is_empty() { "the file" } else { &format!("`{}`", at.path) };
        let all = || shape.fields.iter().chain(shape.later).copied();
        let near = suggest::closest(&field.key, all());
        let advice = foreign::advice(shape.path, &field.key);
        // A word of another tool is meant as such, unless it is one of ours but for a slip.
        let near = near.filter(|near| advice.is_none() || suggest::is_slip(&field.key, near));
        let help = if let Some(near) = near {
            format!("did you mean `{near}`?")
        } else if let Some(advice) = advice {
            advice.to_owned()
        } else if let Some(home) = shape::home(&field.key) {
            let home = if home.is_empty() { "at the top of the file" } else { &format!("in `{home}`") };
            format!("`{}` belongs {home}", field.key)
        } else {
            let names = shape.fields.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
            format!("the fields here are {}", names.join(", "))
        };
        let message = format!("unknown field `{}` in {place}", field.key);
        self.error(Code::UnknownField, &field.key_span, message).help(help);
        near.filter(|near| shape.fields.contains(near))
    }
}

impl<'a> At<'a> {
    /// The whole file.
    #[must_use]
    pub const fn root(node: &'a Node) -> Self {
        Self { name: String::new(), path: String::new(), key_span: 0..0, node }
    }

    /// An entry of this mapping.
    #[must_use]
    pub fn entry(&self, field: &'a Field) -> Self {
        let path = if self.path.is_empty() { field.key.clone() } else { format!("{}.{}", self.path, field.key) };
        Self { name: field.key.clone(), path, key_span: field.key_span.clone(), node: &field.node }
    }

    /// An item of this list. People count from 1.
    fn item(&self, index: usize, node: &'a Node) -> Self {
        let key_span = match &node.value {
            Value::Map(fields) => fields.first().map_or(&node.span, |first| &first.key_span),
            _ => &node.span,
        };
        Self {
            name: format!("{}[{}]", self.name, index + 1),
            path: format!("{}[{}]", self.path, index + 1),
            key_span: if key_span.is_empty() { self.key_span.clone() } else { key_span.clone() },
            node,
        }
    }

    /// Whether this is a mapping with such a key, known or not.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        matches!(&self.node.value, Value::Map(fields) if fields.iter().any(|field| field.key == key))
    }

    /// Whether this is a list.
    #[must_use]
    pub const fn is_list(&self) -> bool {
        matches!(&self.node.value, Value::List(_))
    }

    /// What is written, where it is a single value.
    #[must_use]
    pub fn text(&self) -> Option<&'a str> {
        match &self.node.value {
            Value::Scalar(scalar) => Some(&scalar.text),
            _ => None,
        }
    }

    /// Whether this is just that text.
    #[must_use]
    pub fn is_text(&self, text: &str) -> bool {
        self.text() == Some(text)
    }

    /// Whether this is a mapping with any key.
    #[must_use]
    pub const fn has_any(&self) -> bool {
        matches!(&self.node.value, Value::Map(fields) if !fields.is_empty())
    }

    /// Where to point: the value if something is written there, else the key.
    #[must_use]
    pub fn span(&self) -> Span {
        match &self.node.value {
            Value::Null => self.key_span.clone(),
            // Lists and mappings know only where they begin, which in block style is their first item.
            Value::List(_) | Value::Map(_) if self.node.span.is_empty() => self.key_span.clone(),
            _ => self.node.span.clone(),
        }
    }
}

impl<'a> Fields<'a> {
    /// A field, if it is there.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<At<'a>> {
        self.fields.get(name).map(|field| At { name: name.to_owned(), ..self.at.entry(field) })
    }

    /// A field that must be there; reports it if not.
    pub fn need(&self, report: &mut Report, name: &str, help: &str) -> Option<At<'a>> {
        let found = self.get(name);
        if found.is_none() {
            report.missing(&self.at, name, help);
        }
        found
    }

    /// The mapping itself.
    #[must_use]
    pub const fn at(&self) -> &At<'a> {
        &self.at
    }
}
