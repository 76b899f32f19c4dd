//! Text becomes a tree of nodes with byte spans. The only file that knows the YAML library.
//! Refuses what is not YAML, and what would cost too much: depth, aliases, number of nodes.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_yaml::{DuplicateKeyPolicy, Location, NonFiniteFloatPolicy, Options, Spanned, budget::BudgetBreach};

use super::diagnostic::{Code, Diagnostic, Severity, Span};

/// Deepest nesting of lists and mappings.
pub const DEPTH_MAX: usize = 32;
/// Most scalars, lists and mappings in a file, aliases expanded.
pub const NODES_MAX: usize = 250_000;
/// Most of them that aliases bring again.
const REPEATED_MAX: usize = 50_000;

/// A place in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Where it is written; of a list or mapping only where it begins. Of an alias: where its anchor is.
    pub span: Span,
    /// What is there.
    pub value: Value,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// Text, number or boolean: always as text, exactly as written between quotes if any.
    Scalar(Scalar),
    /// A list.
    List(Vec<Node>),
    /// A mapping in file order, with repeated keys as often as they occur.
    Map(Vec<Field>),
    /// A scalar whose reference to the environment is reported already; nothing more is said about it.
    Unresolved,
}

/// A scalar's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar {
    /// Unquoted and unescaped.
    pub text: String,
    /// Part of the text comes from the environment, so it must not be shown.
    pub substituted: bool,
}

/// An entry of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The key's text.
    pub key: String,
    /// Where the key is written.
    pub key_span: Span,
    /// The value.
    pub node: Node,
}

impl Value {
    /// The word for messages.
    #[must_use]
    pub const fn noun(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Scalar(_) | Self::Unresolved => "a single value",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

/// Reads the one document of `source`. An empty file is [`Value::Null`].
///
/// # Errors
/// The first thing that is not YAML; reading cannot go on after it.
pub fn read(source: &str) -> Result<Node, Diagnostic> {
    let raw: Spanned<Raw> =
        serde_yaml::from_str_with_options(source, options()).map_err(|error| refusal(source, &error))?;
    Ok(node(source, raw))
}

/// Reads every document of `source`, with spans of the whole text. What holds only comments or directives is none.
///
/// # Errors
/// The first thing that is not YAML; reading cannot go on after it.
pub fn documents(source: &str) -> Result<Vec<Node>, Diagnostic> {
    let mut read = Vec::new();
    let mut nodes = 0;
    for part in parts(source) {
        let text = &source[part.clone()];
        let is_content = |line: &str| !matches!(line.trim_start().chars().next(), None | Some('#' | '%'));
        let body = text.strip_prefix('\u{feff}').unwrap_or(text);
        if !body.lines().map(|line| line.strip_prefix("---").unwrap_or(line)).any(is_content) {
            continue;
        }
        let mut root = self::read(text).map_err(|found| found.shifted(part.start))?;
        nodes += shift(&mut root, part.start);
        if nodes > NODES_MAX {
            let message = format!("the file has more than {NODES_MAX} values");
            return Err(Diagnostic::new(Severity::Error, Code::TooLarge, Some(part), message));
        }
        read.push(root);
    }
    Ok(read)
}

/// Where documents begin and end: `---` and `...` at the start of a line are never anything else (YAML 1.2, 9.1.2).
fn parts(source: &str) -> Vec<Span> {
    let is_marker = |line: &str, marker: &str| {
        line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
    };
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    for line in source.split_inclusive('\n') {
        let end = at + line.len();
        if is_marker(line, "---") {
            parts.push(start..at);
            start = at;
        } else if is_marker(line, "...") {
            parts.push(start..at);
            start = end;
        }
        at = end;
    }
    parts.push(start..source.len());
    parts
}

/// Moves a tree to where its document begins; how many nodes it has.
fn shift(node: &mut Node, by: usize) -> usize {
    node.span = node.span.start + by..node.span.end + by;
    match &mut node.value {
        Value::Null | Value::Scalar(_) | Value::Unresolved => 1,
        Value::List(items) => 1 + items.iter_mut().map(|item| shift(item, by)).sum::<usize>(),
        Value::Map(fields) => {
            let mut nodes = 1;
            for field in fields {
                field.key_span = field.key_span.start + by..field.key_span.end + by;
                nodes += shift(&mut field.node, by);
            }
            nodes
        }
    }
}

fn options() -> Options {
    serde_yaml::options! {
        budget: serde_yaml::budget! {
            max_depth: DEPTH_MAX,
            max_nodes: NODES_MAX,
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_merge_keys: 1_000,
        },
        alias_limits: serde_yaml::alias_limits! {
            max_total_replayed_events: REPEATED_MAX,
            max_replay_stack_depth: 16,
        },
        // Both are passed on, so that a repeated field is reported beside everything else.
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        strict_booleans: true,
        null_as_string: true,
        reject_unsupported_tags: true,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    }
}

/// What the library hands over before spans are turned into text.
enum Raw {
    Null,
    /// A string, without quotes.
    Text(String),
    /// A number or boolean, of which only the place is kept: `1.10` is a version's name as often as a number.
    Typed,
    List(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Raw, E> {
        Ok(Raw::Text(text))
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Raw::Map(fields))
    }
}

fn node(source: &str, raw: Spanned<Raw>) -> Node {
    let span = span(source, &raw.defined);
    let scalar = |text: String| Value::Scalar(Scalar { text, substituted: false });
    let value = match raw.value {
        Raw::Null => Value::Null,
        Raw::Text(text) => scalar(text),
        Raw::Typed => scalar(source[span.clone()].trim_matches(['"', '\'']).to_owned()),
        Raw::List(items) => Value::List(items.into_iter().map(|item| node(source, item)).collect()),
        Raw::Map(fields) => Value::Map(
            fields
                .into_iter()
                .map(|(key, value)| Field {
                    key_span: self::span(source, &key.defined),
                    key: key.value,
                    node: node(source, value),
                })
                .collect(),
        ),
    };
    Node { span, value }
}

/// The byte range of a location, always on character boundaries within the source.
fn span(source: &str, location: &Location) -> Span {
    let span = location.span();
    let at = |offset: u64| source.floor_char_boundary(usize::try_from(offset).unwrap_or(usize::MAX));
    if let (Some(start), Some(len)) = (span.byte_offset(), span.byte_len()) {
        return at(start)..at(start.saturating_add(len));
    }
    // Errors of the scanner know characters only.
    let nth = |n: u64| {
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        source.char_indices().nth(n).map_or(source.len(), |(at, _)| at)
    };
    nth(span.offset())..nth(span.offset().saturating_add(span.len()))
}

fn refusal(source: &str, error: &serde_yaml::Error) -> Diagnostic {
    let mut error = error;
    let span = error.location().map_or(0..0, |location| span(source, &location));
    while let serde_yaml::Error::AliasError { error: inner, .. } | serde_yaml::Error::WithSnippet { error: inner, .. } =
        error
    {
        error = inner;
    }
    let code = match error {
        serde_yaml::Error::Budget { .. }
        | serde_yaml::Error::AliasReplayLimitExceeded { .. }
        | serde_yaml::Error::AliasExpansionLimitExceeded { .. }
        | serde_yaml::Error::AliasReplayStackDepthExceeded { .. } => Code::TooLarge,
        _ => Code::Syntax,
    };
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(&*text, |(message, _)| message);
    let message = match error {
        serde_yaml::Error::MultipleDocuments { .. } => "the file holds more than one YAML document".to_owned(),
        serde_yaml::Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => {
            format!("lists and mappings are nested more than {DEPTH_MAX} deep")
        }
        serde_yaml::Error::Budget { breach: BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. }, .. } => {
            format!("the file has more than {NODES_MAX} values")
        }
        _ if code == Code::TooLarge => "aliases and merges blow the file up too far".to_owned(),
        _ => format!("this is not YAML: {text}"),
    };
    let mut found = Diagnostic::new(Severity::Error, code, Some(span.clone()), message);
    if let Some(help) = advice(source, &span, error, text) {
        found.help(help);
    }
    found
}

/// What usually causes a message, in the order of how sure it is.
fn advice(source: &str, span: &Span, error: &serde_yaml::Error, text: &str) -> Option<&'static str> {
    let line_start = source[..span.start].rfind('\n').map_or(0, |at| at + 1);
    let line = source[line_start..].lines().next().unwrap_or_default();
    if matches!(error, serde_yaml::Error::MultipleDocuments { .. }) {
        return Some("keep one document: remove everything from the second `---` on");
    }
    if text.contains("unsupported tag") {
        return Some("remove the tag; values come from the environment by `${NAME}`");
    }
    if text.contains("tabs disallowed") {
        return Some("indent with spaces; YAML does not allow tabs");
    }
    if text.contains("flow mapping") && line.contains("${") {
        return Some("between `{` and `}` put quotes around it: `\"${NAME}\"`");
    }
    if text.contains("unclosed quote") {
        return Some("the quote that begins here is never closed");
    }
    if text.contains("unknown anchor") {
        return Some("`*name` repeats what `&name` marked earlier in the file; quote the value if it is meant as text");
    }
    if text.contains("unexpected character") {
        return Some("put quotes around values that begin with a special character");
    }
    if text.contains("expected string scalar") {
        return Some("a key is a single word; lists and mappings cannot be keys");
    }
    (text.contains("mapping values are not allowed") || text.contains("':' indicator"))
        .then_some("check the indentation and the brackets above, or put quotes around a value that contains `: `")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree as one line, to compare with.
    fn shown(node: &Node) -> String {
        match &node.value {
            Value::Null | Value::Unresolved => "null".to_owned(),
            Value::Scalar(scalar) => format!("<{}>", scalar.text),
            Value::List(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(" ")),
            Value::Map(fields) => {
                let field = |field: &Field| format!("{}={}", field.key, shown(&field.node));
                format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(" "))
            }
        }
    }

    #[test]
    fn the_library_behaves_as_relied_upon() {
        for (source, tree) in [
            ("", "null"),
            ("# only a comment\n", "null"),
            ("a: 1.10\nb: 0x1F\nc: yes\nd: true\ne: ~\nf:\n", "{a=<1.10> b=<0x1F> c=<yes> d=<true> e=null f=null}"),
            ("a: \"5\"\nb: '5 %'\nc: !!str 5\nd: !!int \"6\"\n", "{a=<5> b=<5 %> c=<5> d=<6>}"),
            (
                "a: .nan\nb: 1e999\nc: 99999999999999999999\nd: -1\n",
                "{a=<.nan> b=<1e999> c=<99999999999999999999> d=<-1>}",
            ),
            (
                "- setWeight: 5\n- pause: {}\n- pause: {duration: 1m}\n",
                "[{setWeight=<5>} {pause={}} {pause={duration=<1m>}}]",
            ),
            ("a: 1\na: 2\n", "{a=<1> a=<2>}"),
            ("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: *a\n", "{a={x=<1> y=<2>} b={y=<3> x=<1>} c={x=<1> y=<2>}}"),
            ("1.10: x\nnull: y\n'z z': z\n", "{1.10=<x> null=<y> z z=<z>}"),
            ("a: |\n  one\n  two\nb: >-\n  one\n  two\nc: one\n  two\n", "{a=<one\ntwo\n> b=<one two> c=<one two>}"),
            ("\u{feff}a: ${B:-c d}\n", "{a=<${B:-c d}>}"),
        ] {
            assert_eq!(shown(&read(source).unwrap()), tree, "{source:?}");
        }
    }

    #[test]
    fn spans_are_exact() {
        let source = "ä: 'ö'\nb: &x  1.5 # c\nc: *x\n";
        let Value::Map(fields) = read(source).unwrap().value else { panic!("a mapping") };
        let written = fields.iter().map(|f| (&source[f.key_span.clone()], &source[f.node.span.clone()]));
        assert_eq!(written.collect::<Vec<_>>(), [("ä", "'ö'"), ("b", "1.5"), ("c", "1.5")]);
    }

    #[test]
    fn documents_are_read_apart_and_point_into_the_whole() {
        let source = "%YAML 1.2\n---\na: x\n---\n# nothing\n--- \nb: |\n  ---\n  y\n...\n\n---\n- ö\n--- [c]\n";
        let read = documents(source).unwrap();
        let trees: Vec<String> = read.iter().map(shown).collect();
        assert_eq!(trees, ["{a=<x>}", "{b=<---\ny\n>}", "[<ö>]", "[<c>]"]);
        let Value::List(items) = &read[2].value else { panic!("a list") };
        assert_eq!(&source[items[0].span.clone()], "ö");
        assert!(documents("").unwrap().is_empty() && documents("---\n---\n").unwrap().is_empty());
        let error = documents("a: 1\n---\nb: {\n").unwrap_err();
        assert!(error.span.unwrap().start >= 9);
    }

    #[test]
    fn hostile_files_are_refused_early() {
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
                    d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n";
        let deep = format!("a: {}{}", "[".repeat(60), "]".repeat(60));
        let wide = format!("a: [{}]", "1,".repeat(NODES_MAX));
        let endless = "a: &a [*a]\n";
        for source in [bomb, &*deep, &*wide] {
            let error = read(source).unwrap_err();
            assert_eq!(error.code, Code::TooLarge, "{error:?}");
        }
        assert!(read(endless).is_err());
    }
}
