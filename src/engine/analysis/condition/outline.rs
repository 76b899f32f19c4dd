//! What a condition mentions, read from its text before anything is parsed or evaluated. Refuses unknown names, and
//! whatever could exhaust stack, memory or time: expr-lang itself has no limits.

use super::{
    ConditionError, FIELDS, Shape, Subject,
    functions::{FOR_EACH, NAMES},
};

/// Longest text, in bytes.
const BYTES_MAX: usize = 4096;
/// Most words, numbers, texts and signs. Each may be one level of recursion.
const TOKENS_MAX: usize = 128;
/// Deepest nesting of brackets of all kinds.
const DEPTH_MAX: usize = 16;
/// Deepest nesting of square brackets: the parser reads their content twice at each level.
const SQUARE_DEPTH_MAX: usize = 4;
/// Most functions that evaluate something for each element of a list: each can multiply time and memory by its length.
const FOR_EACH_MAX: usize = 2;
/// Most variables of its own.
const LETS_MAX: usize = 4;
/// Largest range, in elements.
const RANGE_MAX: u64 = 32;

/// Words of the language that name nothing.
const KEYWORDS: [&str; 14] = [
    "true",
    "false",
    "nil",
    "and",
    "or",
    "not",
    "in",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "let",
    "if",
    "else",
];

/// What a condition mentions; each thing once, in order of appearance.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Outline {
    /// Versions.
    pub(super) subjects: Vec<Subject>,
    /// Their measured values.
    pub(super) readings: Vec<(Subject, &'static str)>,
    /// Names of arguments.
    pub(super) args: Vec<String>,
    /// It looks for NaN.
    pub(super) expects_nan: bool,
}

/// Reads a text.
///
/// # Errors
/// When it is beyond a limit or mentions something unknown. A text that is no condition at all may pass; the parser finds it.
pub(super) fn read(source: &str, shape: Shape) -> Result<Outline, ConditionError> {
    if source.len() > BYTES_MAX {
        return refuse(format!("it has {} bytes; at most {BYTES_MAX} are allowed", source.len()));
    }
    let tokens = tokens(source);
    if tokens.len() > TOKENS_MAX {
        return refuse(format!("it has {} words and signs; at most {TOKENS_MAX} are allowed", tokens.len()));
    }
    check_nesting(&tokens)?;
    check_ranges(&tokens)?;
    let own = own_variables(&tokens)?;
    let mut outline = Outline::default();
    for at in 0..tokens.len() {
        if let Token::Word(word) = tokens[at] {
            read_word(&tokens, at, word, shape, &own, &mut outline)?;
        }
    }
    outline.expects_nan = tokens.contains(&Token::Word("isNaN"));
    Ok(outline)
}

fn read_word(
    tokens: &[Token<'_>],
    at: usize,
    word: &str,
    shape: Shape,
    own: &[&str],
    outline: &mut Outline,
) -> Result<(), ConditionError> {
    let after_dot = matches!(before(tokens, at), Some(Token::Sign("." | "?.")));
    let called = tokens.get(at + 1) == Some(&Token::Sign("("));
    if after_dot && called {
        return refuse(format!("`.{word}()` is not a function here: write `{word}(…)` if that is one"));
    }
    if called && !KEYWORDS.contains(&word) {
        return if NAMES.contains(&word) {
            Ok(())
        } else {
            refuse(format!("unknown function `{word}`; there are {}", NAMES.join(", ")))
        };
    }
    if after_dot || KEYWORDS.contains(&word) || word.starts_with('#') || own.contains(&word) {
        return Ok(());
    }
    let member = member(tokens, at + 1);
    if word == "args" {
        match member {
            Some(name) => push(&mut outline.args, name.to_owned()),
            None => return refuse("`args` needs a name: `args.limit` or `args[\"service-name\"]`".to_owned()),
        }
        return Ok(());
    }
    let Some(subject) = Subject::ALL.into_iter().find(|subject| subject.as_str() == word) else {
        return refuse(format!("unknown variable `{word}`; there are result, stable, canary and args"));
    };
    push(&mut outline.subjects, subject);
    if shape != Shape::Own && subject == Subject::Result {
        return Ok(());
    }
    if let Some(name) = member {
        let Some(field) = FIELDS.into_iter().find(|field| *field == name) else {
            return refuse(format!("`{word}` has no `{name}`; it has {}", FIELDS.join(", ")));
        };
        push(&mut outline.readings, (subject, field));
    }
    Ok(())
}

/// The name behind a variable: `.name`, `?.name` or `["name"]`.
fn member<'s>(tokens: &[Token<'s>], at: usize) -> Option<&'s str> {
    match tokens.get(at..)? {
        [Token::Sign("." | "?."), Token::Word(name), ..]
        | [Token::Sign("["), Token::Text(name), Token::Sign("]"), ..]
        | [Token::Sign("?."), Token::Sign("["), Token::Text(name), Token::Sign("]"), ..] => Some(name),
        _ => None,
    }
}

fn own_variables<'s>(tokens: &[Token<'s>]) -> Result<Vec<&'s str>, ConditionError> {
    let mut own = Vec::new();
    for pair in tokens.windows(2) {
        if let [Token::Word("let"), Token::Word(name)] = pair {
            own.push(*name);
        }
    }
    if own.len() > LETS_MAX {
        return refuse(format!("it has {} variables of its own; at most {LETS_MAX} are allowed", own.len()));
    }
    Ok(own)
}

fn check_nesting(tokens: &[Token<'_>]) -> Result<(), ConditionError> {
    let (mut open, mut square): (Vec<&str>, usize) = (Vec::new(), 0);
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Sign("{") if is_map(tokens, at) => {
                return refuse("a map cannot be written in a condition".to_owned());
            }
            Token::Sign(sign @ ("(" | "[" | "{")) => {
                open.push(sign);
                square += usize::from(*sign == "[");
            }
            Token::Sign(")" | "]" | "}") => square -= usize::from(open.pop() == Some("[")),
            _ => {}
        }
        if open.len() > DEPTH_MAX || square > SQUARE_DEPTH_MAX {
            return refuse(format!(
                "it is nested too deeply: at most {DEPTH_MAX} brackets, {SQUARE_DEPTH_MAX} of them square, are allowed"
            ));
        }
    }
    let loops = tokens.windows(2).filter(|pair| match pair {
        [Token::Word(word), Token::Sign("(")] => FOR_EACH.contains(word),
        _ => false,
    });
    if loops.count() > FOR_EACH_MAX {
        return refuse(format!("at most {FOR_EACH_MAX} of these are allowed: {}", FOR_EACH.join(", ")));
    }
    Ok(())
}

/// `{}`, `{name: …}` or `{"name": …}`, rather than the body of a function over a list or of an `if`.
fn is_map(tokens: &[Token<'_>], at: usize) -> bool {
    matches!(
        tokens.get(at + 1..),
        Some([Token::Sign("}"), ..] | [Token::Word(_) | Token::Text(_), Token::Sign(":"), ..])
    )
}

/// Ranges are made in memory, so they must be small, and that must be plain to see: two numbers and nothing that
/// binds more tightly beside them.
fn check_ranges(tokens: &[Token<'_>]) -> Result<(), ConditionError> {
    for at in (0..tokens.len()).filter(|at| tokens[*at] == Token::Sign("..")) {
        let size = match (before(tokens, at), tokens.get(at + 1)) {
            (Some(Token::Number(from)), Some(Token::Number(to))) => elements(from, to),
            _ => None,
        };
        let alone_before = match at.checked_sub(2).map(|at| &tokens[at]) {
            None | Some(Token::Sign("(" | "[" | "," | "{" | "=" | "?" | ":")) => true,
            Some(Token::Word(word)) => *word == "in",
            _ => false,
        };
        let alone_after = match tokens.get(at + 2) {
            None | Some(Token::Sign(")" | "]" | "," | "{" | "}" | ";" | "|" | ":" | "&&" | "||")) => true,
            Some(Token::Word(word)) => ["and", "or"].contains(word),
            _ => false,
        };
        if !(alone_before && alone_after && size.is_some_and(|size| size <= RANGE_MAX)) {
            return refuse(format!("a range needs two plain numbers, as in 0..9, and at most {RANGE_MAX} elements"));
        }
    }
    Ok(())
}

fn elements(from: &str, to: &str) -> Option<u64> {
    let (from, to): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
    Some(to.saturating_sub(from).saturating_add(1))
}

fn before<'t, 's>(tokens: &'t [Token<'s>], at: usize) -> Option<&'t Token<'s>> {
    at.checked_sub(1).and_then(|at| tokens.get(at))
}

fn push<T: PartialEq>(into: &mut Vec<T>, item: T) {
    if !into.contains(&item) {
        into.push(item);
    }
}

fn refuse<T>(text: String) -> Result<T, ConditionError> {
    Err(ConditionError(text))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'s> {
    /// A name or keyword.
    Word(&'s str),
    /// A literal text, without its quotes and with its escapes.
    Text(&'s str),
    /// A literal number.
    Number(&'s str),
    /// Everything else.
    Sign(&'s str),
}

/// Cuts a text into tokens as expr-lang's grammar does, without judging their order.
fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = source;
    loop {
        rest = skip_blank(rest);
        let Some(first) = rest.chars().next() else { return tokens };
        let (token, length) = match first {
            '"' | '\'' | '`' => {
                let inner = text_length(&rest[1..], first);
                let whole = (inner + 2).min(rest.len());
                (Token::Text(&rest[1..=inner]), whole)
            }
            '0'..='9' => {
                let length = number_length(rest);
                (Token::Number(&rest[..length]), length)
            }
            '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                let length = number_length(rest);
                (Token::Number(&rest[..length]), length)
            }
            '#' | '$' | '_' | 'a'..='z' | 'A'..='Z' => {
                let length = 1 + run(&rest[1..], |c| c.is_ascii_alphanumeric() || c == '_');
                (Token::Word(&rest[..length]), length)
            }
            _ => {
                let two = ["?.", "??", "..", "**", "==", "!=", "<=", ">=", "&&", "||"];
                let length = if two.iter().any(|sign| rest.starts_with(sign)) { 2 } else { first.len_utf8() };
                (Token::Sign(&rest[..length]), length)
            }
        };
        tokens.push(token);
        rest = &rest[length..];
    }
}

fn skip_blank(mut rest: &str) -> &str {
    loop {
        let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        rest = if let Some(comment) = trimmed.strip_prefix("//") {
            comment.find('\n').map_or("", |end| &comment[end..])
        } else if let Some(comment) = trimmed.strip_prefix("/*") {
            comment.find("*/").map_or("", |end| &comment[end + 2..])
        } else {
            return trimmed;
        };
    }
}

/// Bytes up to the closing quote, or to the end when there is none.
fn text_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote != '`' => escaped = true,
            _ if c == quote => return at,
            _ => {}
        }
    }
    rest.len()
}

fn number_length(rest: &str) -> usize {
    let alphanumeric = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut length = run(rest, alphanumeric);
    if rest[length..].starts_with('.') && !rest[length..].starts_with("..") {
        length += 1 + run(&rest[length + 1..], alphanumeric);
    }
    if rest[..length].ends_with(['e', 'E']) && rest[length..].starts_with(['+', '-']) {
        length += 1 + run(&rest[length + 1..], alphanumeric);
    }
    length
}

fn run(rest: &str, belongs: impl Fn(char) -> bool) -> usize {
    rest.find(|c| !belongs(c)).unwrap_or(rest.len())
}
