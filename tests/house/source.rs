//! Just enough of Rust's grammar: what is code and what is comment or text, paths, functions, modules.

use std::{fs, ops::Range, path::Path};

/// A source file.
pub struct Source {
    /// Its path from the package's root, with `/`.
    pub path: String,
    /// As written.
    pub text: String,
    /// The same with comments and literals blanked out; every byte stays in its place.
    pub code: String,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), code: code_of(text) }
    }

    /// The line of a byte, from 1.
    pub fn line(&self, at: usize) -> usize {
        self.code[..at].matches('\n').count() + 1
    }

    /// `path:line: what`.
    pub fn breach(&self, at: usize, what: &str) -> String {
        format!("{}:{}: {what}", self.path, self.line(at))
    }

    /// Where this identifier stands alone.
    pub fn words<'s>(&'s self, word: &'s str) -> impl Iterator<Item = usize> + 's {
        let alone = move |&(at, _): &(usize, &str)| {
            let before = self.code[..at].chars().next_back();
            let after = self.code[at + word.len()..].chars().next();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        };
        self.code.match_indices(word).filter(alone).map(|(at, _)| at)
    }

    /// Every path that begins with this word and `::`, without the beginning, groups taken apart:
    /// `crate::a::{b, c::{self, D}}` gives `a::b`, `a::c::self` and `a::c::D`.
    pub fn paths(&self, first: &str) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for at in self.words(first) {
            if let Some(rest) = self.code[at + first.len()..].strip_prefix("::") {
                let mut paths = Vec::new();
                expand(rest, "", &mut paths);
                found.extend(paths.into_iter().map(|path| (at, path)));
            }
        }
        found
    }

    /// Names, first bytes and lengths in lines of all functions with a body.
    pub fn functions(&self) -> Vec<(String, usize, usize)> {
        let mut found = Vec::new();
        for at in self.words("fn") {
            let name: String = self.code[at + 2..].trim_start().chars().take_while(|&c| is_word(c)).collect();
            if let (false, Some(body)) = (name.is_empty(), self.body(at)) {
                found.push((name, at, self.line(body.end) - self.line(at) + 1));
            }
        }
        found
    }

    /// Names and bodies of all modules written in the file.
    pub fn modules(&self) -> Vec<(String, Range<usize>)> {
        let mut found = Vec::new();
        for at in self.words("mod") {
            let name: String = self.code[at + 3..].trim_start().chars().take_while(|&c| is_word(c)).collect();
            if let Some(body) = self.body(at) {
                found.push((name, body));
            }
        }
        found
    }

    /// The parts that are tests: modules under `#[cfg(test)]`, or the whole file in `tests`.
    pub fn test_code(&self) -> Vec<Range<usize>> {
        let of_tests = |part: &str| part == "tests" || part == "tests.rs";
        if self.path.split('/').any(of_tests) {
            return vec![0..self.code.len()];
        }
        let modules = self.modules().into_iter().map(|(_, body)| body);
        modules.filter(|body| self.opens_under_cfg_test(body.start)).collect()
    }

    fn opens_under_cfg_test(&self, body: usize) -> bool {
        let head = self.code[..body].rfind("mod ").map_or("", |at| &self.code[..at]);
        head.trim_end().ends_with("#[cfg(test)]")
    }

    /// What is between the braces that follow; none when a semicolon comes first.
    fn body(&self, from: usize) -> Option<Range<usize>> {
        let mut nesting = 0;
        for (at, byte) in self.code.bytes().enumerate().skip(from) {
            match byte {
                b'(' | b'[' => nesting += 1,
                b')' | b']' => nesting -= 1,
                b';' if nesting == 0 => return None,
                b'{' if nesting == 0 => return Some(at + 1..closing(&self.code, at)),
                _ => {}
            }
        }
        None
    }
}

/// All sources under a folder of the package, in order.
pub fn sources(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    collect(Path::new(env!("CARGO_MANIFEST_DIR")), folder, &mut found);
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

/// A file of the package.
pub fn file(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn collect(root: &Path, folder: &str, found: &mut Vec<Source>) {
    let Ok(entries) = fs::read_dir(root.join(folder)) else { return };
    for entry in entries {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            collect(root, &path, found);
        } else if path.ends_with(".rs") {
            found.push(Source::new(&path, &fs::read_to_string(entry.path()).unwrap()));
        }
    }
}

fn expand(rest: &str, before: &str, paths: &mut Vec<String>) {
    let rest = rest.trim_start();
    if rest.starts_with('{') {
        let mut from = 1;
        let end = closing(rest, 0);
        while from < end {
            let part = &rest[from..end];
            let length = top_level_comma(part);
            if !part[..length].trim().is_empty() {
                expand(&part[..length], before, paths);
            }
            from += length + 1;
        }
        return;
    }
    let word = rest.chars().take_while(|&c| is_word(c) || c == '*').map(char::len_utf8).sum::<usize>();
    let path = format!("{before}{}", &rest[..word]);
    match rest[word..].strip_prefix("::") {
        Some(more) if !more.trim_start().starts_with('<') => expand(more, &format!("{path}::"), paths),
        _ => paths.push(path),
    }
}

fn top_level_comma(part: &str) -> usize {
    let mut depth = 0;
    for (at, byte) in part.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => return at,
            _ => {}
        }
    }
    part.len()
}

/// Where the brace that opens at `open` closes.
fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    code.len()
}

/// Blanks out comments and literals.
fn code_of(text: &str) -> String {
    let mut code = text.as_bytes().to_vec();
    let mut at = 0;
    while at < code.len() {
        let Some(length) = opaque(&text.as_bytes()[at..], at.checked_sub(1).map(|before| code[before])) else {
            at += 1;
            continue;
        };
        let end = (at + length).min(code.len());
        code[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        at = end;
    }
    String::from_utf8(code).expect("whole literals and comments were blanked")
}

/// The length of the comment or literal that begins here, if one does.
fn opaque(rest: &[u8], before: Option<u8>) -> Option<usize> {
    let find = |needle: &[u8], from: usize| {
        let windows = rest.get(from..)?.windows(needle.len());
        windows.enumerate().find(|(_, window)| *window == needle).map(|(at, _)| from + at)
    };
    match rest {
        [b'/', b'/', ..] => Some(find(b"\n", 0).unwrap_or(rest.len())),
        [b'/', b'*', ..] => Some(block_comment(rest)),
        [b'"', ..] => Some(quoted(rest, b'"')),
        [b'r', b'"' | b'#', ..] if !before.is_some_and(|byte| byte != b'b' && is_word(byte.into())) => {
            let hashes = rest[1..].iter().take_while(|&&byte| byte == b'#').count();
            let opened = rest.get(hashes + 1) == Some(&b'"');
            let end = [&b"\""[..], &b"#".repeat(hashes)].concat();
            opened.then(|| find(&end, hashes + 2).map_or(rest.len(), |at| at + end.len()))
        }
        [b'\'', b'\\', ..] => Some(quoted(rest, b'\'')),
        [b'\'', first, ..] => {
            let width = match first {
                0..=0x7f => 1,
                0x80..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0.. => 4,
            };
            (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
        }
        _ => None,
    }
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

#[test]
fn comments_and_literals_are_not_code() {
    for (text, code) in [
        ("a // b\nc", "a     \nc"),
        ("a /* b /* c */ d */ e", "a                   e"),
        (r#"a("b\"c", d)"#, "a(      , d)"),
        (r##"a(r#"b"c"#, br"d\", e)"##, "a(        , b     , e)"),
        (r"a('b', '\'', '\u{7f}', 'ä')", "a(   ,     ,         ,     )"),
        ("fn a<'b>(c: &'b str) {}", "fn a<'b>(c: &'b str) {}"),
        ("r#type + her\"b\"", "r#type + her   "),
        ("a \"open", "a      "),
    ] {
        assert_eq!(code_of(text), code, "{text}");
    }
}

#[test]
fn paths_are_found_with_their_groups() {
    let source = Source::new("x.rs", "use crate::{a, b::{self, c::D as E}, f::*};\nlet x = crate::g::h::<T>(1);");
    let paths: Vec<String> = source.paths("crate").into_iter().map(|(_, path)| path).collect();
    assert_eq!(paths, ["a", "b::self", "b::c::D", "f::*", "g::h"]);
    assert_eq!(source.line(source.paths("crate")[4].0), 2);
}

#[test]
fn functions_are_measured_from_their_first_to_their_last_line() {
    let source = Source::new(
        "x.rs",
        "fn one() {}\n\nfn two(f: fn(u8) -> [u8; 2])\nwhere\n    T: X,\n{\n    \"}\";\n}\ntrait T { fn none(&self); }",
    );
    let lengths: Vec<(String, usize)> = source.functions().into_iter().map(|(name, _, lines)| (name, lines)).collect();
    assert_eq!(lengths, [("one".to_owned(), 1), ("two".to_owned(), 6)]);
}

#[test]
fn test_code_is_known_from_other_code() {
    let source = Source::new("src/x.rs", "mod a { A }\n#[cfg(test)]\nmod tests { B }\n#[cfg(unix)]\nmod c { C }");
    let parts: Vec<&str> = source.test_code().into_iter().map(|part| &source.code[part]).collect();
    assert_eq!(parts, [" B "]);
    assert_eq!(Source::new("src/x/tests/y.rs", "B").test_code(), [0..1]);
}
