//! What each code of a diagnostic means, with a file that gets it and what to do.

use std::fmt::Write as _;

use crate::config::Code;

macro_rules! pages {
    ($($code:ident: $says:literal, eg $example:literal, do $remedy:literal;)*) => {
        const ALL: &[Code] = &[$(Code::$code),*];

        /// What it means, what gets it, what to do.
        const fn page(code: Code) -> (&'static str, &'static str, &'static str) {
            match code {
                $(Code::$code => ($says, $example, $remedy)),*
            }
        }
    };
}

pages! {
    Unreadable: "The file is not there, or may not be read", eg "serin check nowhere.yaml",
        do "Check the path, and the rights of the user that runs Serin";
    TooLarge: "A limit on sizes or numbers is passed: 8 MiB a file, 100 steps, 100 versions, 1,000 endpoints",
        eg "a list of 101 steps", do "Split it, or remove what is not needed";
    Syntax: "The text is not YAML; reading cannot go on behind it, so further errors may follow once it is mended",
        eg "services: {", do "Look at the indentation, brackets and quotes at the place that is shown and above it";
    Environment: "`${NAME}` has no value, or is malformed", eg "listen: ${ADDRESS}",
        do "Set the variable, or give a default: `${ADDRESS:-0.0.0.0:8080}`; a dollar alone is written `$$`";
    UnknownField: "No field of this name is read here", eg "stabel: v1",
        do "Take the suggestion, or see `serin explain FIELD` for the fields of this place";
    DuplicateField: "The same field is here twice; which one is meant cannot be known", eg "hold: 1m … hold: 2m",
        do "Keep one of them";
    NotSupportedYet: "A field or value of the design that this release would not obey", eg "fleet: {}",
        do "Remove it; the changelog says when it comes";
    WrongType: "A list where a mapping belongs, and the like", eg "steps: 5%", do "Write it as shown: `steps: [5%]`";
    MissingField: "A field that is needed is not there, or has no value", eg "services: { web: {} }",
        do "Add the field; the message says which, with an example";
    BadValue: "The right type, but no possible value: a bare number where a unit is meant, or out of range",
        eg "hold: 30", do "Take the suggestion: `30s` or `30m`";
    Conflict: "Two values exclude each other, or one is there twice", eg "listen: … and listeners: …",
        do "Keep one of them";
    BadReference: "A name that nothing has", eg "stable: v9", do "Name one of those that the message lists";
    Suspicious: "A warning: the file is accepted, but probably does not do what was meant",
        eg "minRequests: 100000 in a step of 10s", do "Change it, or leave it if it is meant";
}

/// Every code, as scripts see it.
pub fn codes() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|code| code.as_str())
}

/// What a code means, in one line; empty when there is no such code.
#[must_use]
pub fn code_in_a_line(word: &str) -> &'static str {
    ALL.iter().find(|code| code.as_str() == word).map_or("", |code| page(*code).0)
}

/// The page of a code, as text; none when there is no such code.
#[must_use]
pub fn explain_code(word: &str) -> Option<String> {
    let code = ALL.iter().find(|code| code.as_str() == word)?;
    let (says, example, remedy) = page(*code);
    let mut text = format!("{word}\n  {says}.\n");
    let _ = write!(text, "  example    {example}\n  remedy     {remedy}.\n");
    Some(text)
}

/// The same as rows of a Markdown table: code, meaning, remedy.
pub(super) fn rows() -> impl Iterator<Item = [&'static str; 3]> {
    ALL.iter().map(|code| {
        let (says, _, remedy) = page(*code);
        [code.as_str(), says, remedy]
    })
}
