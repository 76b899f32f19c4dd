//! What is wrong with a file, where, and what to do about it; rendered for people and as JSON for machines.
//! Refuses to show the value of a secret: excerpts are taken from a masked copy of the file.

use std::{fmt, ops::Range};

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde_json::{Value, json};

/// Most diagnostics that are rendered; the rest are counted.
pub const SHOWN_MAX: usize = 50;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The file is refused.
    Error,
    /// The file is accepted, but probably does not do what was meant.
    Warning,
}

/// What kind of thing is wrong. The words are an interface for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The file cannot be read.
    Unreadable,
    /// A limit on sizes or numbers is passed.
    TooLarge,
    /// Not YAML.
    Syntax,
    /// `${…}` has no value or is malformed.
    Environment,
    /// Not a field here.
    UnknownField,
    /// The same field twice.
    DuplicateField,
    /// A field or value of the design that this release does not have.
    NotSupportedYet,
    /// A list where a mapping belongs, and the like.
    WrongType,
    /// A needed field is not there.
    MissingField,
    /// The right type, but no possible value.
    BadValue,
    /// Two values that exclude each other.
    Conflict,
    /// A name that nothing has.
    BadReference,
    /// A value that a person would hardly want.
    Suspicious,
}

impl Code {
    /// The word for scripts.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::TooLarge => "too-large",
            Self::Syntax => "syntax",
            Self::Environment => "environment",
            Self::UnknownField => "unknown-field",
            Self::DuplicateField => "duplicate-field",
            Self::NotSupportedYet => "not-supported-yet",
            Self::WrongType => "wrong-type",
            Self::MissingField => "missing-field",
            Self::BadValue => "bad-value",
            Self::Conflict => "conflict",
            Self::BadReference => "bad-reference",
            Self::Suspicious => "suspicious",
        }
    }
}

/// Byte range in the file.
pub type Span = Range<usize>;

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// What kind.
    pub code: Code,
    /// One sentence without a full stop.
    pub message: String,
    /// Where; none when the file could not be read.
    pub span: Option<Span>,
    /// What to do.
    pub help: Option<String>,
    /// Another place that matters, and why.
    pub related: Option<(Span, String)>,
}

impl Diagnostic {
    /// A finding without help.
    #[must_use]
    pub const fn new(severity: Severity, code: Code, span: Option<Span>, message: String) -> Self {
        Self { severity, code, message, span, help: None, related: None }
    }

    /// The same further on in a text.
    #[must_use]
    pub fn shifted(mut self, by: usize) -> Self {
        let moved = |span: &mut Span| *span = span.start + by..span.end + by;
        self.span.iter_mut().for_each(moved);
        self.related.iter_mut().for_each(|(span, _)| moved(span));
        self
    }

    /// Says what to do.
    pub fn help(&mut self, help: impl Into<String>) -> &mut Self {
        self.help = Some(help.into());
        self
    }

    /// Points at another place that matters.
    pub fn related(&mut self, span: &Span, why: impl Into<String>) -> &mut Self {
        self.related = Some((span.clone(), why.into()));
        self
    }
}

/// All findings of one file, in file order. Its `Display` is plain text with excerpts and a closing line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics {
    file: String,
    /// The file with secrets masked; same length and lines as the file.
    masked: String,
    items: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Takes findings over, in file order and without repetitions. `masked` must be as long as the file was.
    #[must_use]
    pub fn new(file: String, masked: String, mut items: Vec<Diagnostic>) -> Self {
        items.sort_by_key(|item| item.span.as_ref().map_or((0, 0), |span| (span.start, span.end)));
        let mut kept: Vec<Diagnostic> = Vec::with_capacity(items.len());
        for item in items {
            // What an alias brings in twice is wrong once.
            if !kept.iter().rev().take_while(|k| k.span == item.span).any(|k| k.message == item.message) {
                kept.push(item);
            }
        }
        Self { file, masked, items: kept }
    }

    /// The same with other advice to the first finding.
    #[must_use]
    pub fn with_help(mut self, help: &str) -> Self {
        if let Some(first) = self.items.first_mut() {
            first.help(help);
        }
        self
    }

    /// The findings.
    #[must_use]
    pub fn items(&self) -> &[Diagnostic] {
        &self.items
    }

    /// How many errors.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.items.iter().filter(|item| item.severity == Severity::Error).count()
    }

    /// How many warnings.
    #[must_use]
    pub fn warnings(&self) -> usize {
        self.items.len() - self.errors()
    }

    /// Line and column of a finding, both from 1, in characters; none when the file could not be read.
    #[must_use]
    pub fn position(&self, item: &Diagnostic) -> Option<(usize, usize)> {
        item.span.as_ref().map(|span| position(&self.masked, span.start))
    }

    /// As text with terminal colours.
    #[must_use]
    pub fn styled(&self) -> String {
        self.render(&Renderer::styled())
    }

    /// As JSON: `{"apiVersion":"serin/v1","file":…,"ok":…,"diagnostics":[{severity,code,message,line,column,help}]}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let diagnostic = |item: &Diagnostic| {
            let (line, column) = self.position(item).unzip();
            json!({
                "severity": match item.severity { Severity::Error => "error", Severity::Warning => "warning" },
                "code": item.code.as_str(),
                "message": item.message,
                "line": line,
                "column": column,
                "help": item.help,
            })
        };
        json!({
            "apiVersion": "serin/v1",
            "file": self.file,
            "ok": self.errors() == 0,
            "diagnostics": self.items.iter().map(diagnostic).collect::<Vec<_>>(),
        })
    }

    /// As SARIF 2.1.0, for code hosts.
    #[must_use]
    pub fn to_sarif(&self) -> Value {
        super::sarif::sarif(self, &self.file)
    }

    fn render(&self, renderer: &Renderer) -> String {
        let shown = self.items.iter().take(SHOWN_MAX);
        let mut text: String =
            shown.map(|item| renderer.render(&self.report(item)) + "\n\n").collect::<Vec<_>>().concat();
        if self.items.len() > SHOWN_MAX {
            text += "… and ";
            text += &(self.items.len() - SHOWN_MAX).to_string();
            text += " more\n\n";
        }
        text + &self.closing()
    }

    fn report<'a>(&'a self, item: &'a Diagnostic) -> [Group<'a>; 1] {
        let level = match item.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let title = level.primary_title(&item.message).id(item.code.as_str());
        let mut group = match &item.span {
            None => Group::with_title(title).element(annotate_snippets::Origin::path(&self.file)),
            Some(span) => {
                let mut snippet = Snippet::source(&self.masked).path(&self.file);
                snippet = snippet.annotation(AnnotationKind::Primary.span(span.clone()));
                if let Some((span, why)) = &item.related {
                    snippet = snippet.annotation(AnnotationKind::Context.span(span.clone()).label(why));
                }
                title.element(snippet)
            }
        };
        if let Some(help) = &item.help {
            group = group.element(Level::HELP.message(help));
        }
        [group]
    }

    fn closing(&self) -> String {
        let count = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        match (self.errors(), self.warnings()) {
            (0, warnings) => count(warnings, "warning"),
            (errors, 0) => format!("{} · the file was not applied", count(errors, "error")),
            (errors, warnings) => {
                format!("{}, {} · the file was not applied", count(errors, "error"), count(warnings, "warning"))
            }
        }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(&Renderer::plain()))
    }
}

impl std::error::Error for Diagnostics {}

/// Line and column of a byte offset, both from 1; columns are characters.
fn position(source: &str, offset: usize) -> (usize, usize) {
    let before = &source[..source.floor_char_boundary(offset)];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(span: Span, message: &str) -> Diagnostic {
        Diagnostic::new(Severity::Error, Code::BadValue, Some(span), message.to_owned())
    }

    #[test]
    fn findings_come_in_file_order_and_once() {
        let found = vec![finding(10..11, "late"), finding(2..3, "early"), finding(10..11, "late")];
        let all = Diagnostics::new("f.yaml".into(), "äb: 1\nc: 2\n".into(), found);
        assert_eq!(all.items().iter().map(|item| &*item.message).collect::<Vec<_>>(), ["early", "late"]);
        assert_eq!(all.position(&all.items()[0]), Some((1, 2)));
        assert_eq!(all.position(&all.items()[1]), Some((2, 4)));
    }

    #[test]
    fn json_has_its_documented_shape() {
        let mut found = finding(4..5, "wrong");
        found.help("right");
        let all = Diagnostics::new("f.yaml".into(), "a:\n b\n".into(), vec![found]);
        let expected = json!({
            "apiVersion": "serin/v1", "file": "f.yaml", "ok": false,
            "diagnostics": [
                { "severity": "error", "code": "bad-value", "message": "wrong", "line": 2, "column": 2, "help": "right" }
            ],
        });
        assert_eq!(all.to_json(), expected);
    }

    #[test]
    fn what_is_too_much_is_counted() {
        let found = (0..SHOWN_MAX + 7).map(|n| finding(n..n + 1, "x")).collect();
        let text = Diagnostics::new("f.yaml".into(), "x".repeat(100), found).to_string();
        assert!(text.ends_with("… and 7 more\n\n57 errors · the file was not applied"), "{text}");
    }
}
