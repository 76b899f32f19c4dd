//! Rules of Traefik's routers, such as ``Host(`a`) && PathPrefix(`/b`)``, as alternatives of conditions.
//! Refuses what a route cannot say: negations, addresses, patterns of hosts.

use super::matching::{Condition, How, Match};

/// Most alternatives that a rule may come to.
const ALTERNATIVES_MAX: usize = 64;
/// Deepest brackets.
const DEPTH_MAX: usize = 16;

/// Reads a rule.
pub(super) fn parse(rule: &str) -> Result<Vec<Match>, String> {
    let mut reader = Reader { rest: rule.trim(), depth: 0 };
    let all = reader.either()?;
    if reader.rest.is_empty() { Ok(all) } else { Err(format!("`{}` is not understood", short(reader.rest))) }
}

struct Reader<'r> {
    rest: &'r str,
    depth: usize,
}

impl<'r> Reader<'r> {
    fn takes(&mut self, sign: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(sign) else { return false };
        self.rest = rest.trim_start();
        true
    }

    fn either(&mut self) -> Result<Vec<Match>, String> {
        let mut all = self.every()?;
        while self.takes("||") {
            all.extend(self.every()?);
        }
        bounded(all)
    }

    fn every(&mut self) -> Result<Vec<Match>, String> {
        let mut all = self.one()?;
        while self.takes("&&") {
            let more = self.one()?;
            let mut both = Vec::new();
            for a in &all {
                for b in &more {
                    both.push(joined(a, b)?);
                }
            }
            all = bounded(both)?;
        }
        Ok(all)
    }

    fn one(&mut self) -> Result<Vec<Match>, String> {
        if self.takes("!") {
            return Err("a route has no negation".to_owned());
        }
        if self.takes("(") {
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return Err("the brackets are too deep".to_owned());
            }
            let all = self.either()?;
            return if self.takes(")") { Ok(all) } else { Err("a bracket is never closed".to_owned()) };
        }
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        if !self.takes("(") {
            return Err(format!("`{}` is not understood", short(name)));
        }
        let mut arguments = Vec::new();
        while !self.takes(")") {
            arguments.push(self.text()?);
            self.takes(",");
        }
        matcher(name, &arguments)
    }

    /// A text in backticks or double quotes.
    fn text(&mut self) -> Result<&'r str, String> {
        let quote = self.rest.chars().next().filter(|c| matches!(c, '`' | '"')).ok_or("an argument has no quotes")?;
        let (text, rest) = self.rest[1..].split_once(quote).ok_or("a quote is never closed")?;
        self.rest = rest.trim_start();
        Ok(text)
    }
}

fn bounded(all: Vec<Match>) -> Result<Vec<Match>, String> {
    if all.len() > ALTERNATIVES_MAX { Err("it has too many alternatives".to_owned()) } else { Ok(all) }
}

fn matcher(name: &str, arguments: &[&str]) -> Result<Vec<Match>, String> {
    let each = |of: &dyn Fn(&str) -> Match| Ok(arguments.iter().map(|text| of(text)).collect());
    let path = |how, text: String| Match { path: Some((how, text)), ..Match::default() };
    let pair = || match arguments {
        [name, value] => Ok((*name, *value)),
        [both] => both.split_once('=').ok_or("an argument is missing"),
        _ => Err("an argument is missing"),
    };
    // A pattern of Traefik's may stand anywhere in the text.
    let anywhere = |pattern: &str| format!(".*(?:{pattern}).*");
    match name {
        "Host" => each(&|host| Match { host: Some(host.to_owned()), ..Match::default() }),
        "Path" => each(&|text| path(How::Exact, text.to_owned())),
        "PathPrefix" => each(&|text| path(How::Prefix, text.to_owned())),
        "PathRegexp" => each(&|text| path(How::Regex, anywhere(text))),
        "Method" => each(&|method| Match { method: Some(method.to_owned()), ..Match::default() }),
        "Header" | "Headers" | "HeaderRegexp" | "HeadersRegexp" => {
            let (name_of, value) = pair()?;
            let is_pattern = name.ends_with("Regexp");
            let value = if is_pattern { anywhere(value) } else { value.to_owned() };
            let how = if is_pattern { How::Regex } else { How::Exact };
            Ok(vec![Match { headers: vec![Condition::new(name_of, how, &value)], ..Match::default() }])
        }
        "Query" => {
            let (name_of, value) = pair()?;
            Ok(vec![Match { query: vec![Condition::new(name_of, How::Exact, value)], ..Match::default() }])
        }
        _ => Err(format!("`{}` is no condition of a route", short(name))),
    }
}

/// What must meet both.
fn joined(a: &Match, b: &Match) -> Result<Match, String> {
    let twice = |what: &str| format!("two conditions on the {what} at once");
    if a.host.is_some() && b.host.is_some() {
        return Err(twice("host"));
    }
    if a.path.is_some() && b.path.is_some() {
        return Err(twice("path"));
    }
    if a.method.is_some() && b.method.is_some() {
        return Err(twice("method"));
    }
    Ok(Match {
        host: a.host.clone().or_else(|| b.host.clone()),
        path: a.path.clone().or_else(|| b.path.clone()),
        method: a.method.clone().or_else(|| b.method.clone()),
        headers: a.headers.iter().chain(&b.headers).cloned().collect(),
        query: a.query.iter().chain(&b.query).cloned().collect(),
    })
}

fn short(text: &str) -> &str {
    text.char_indices().nth(24).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_become_alternatives() {
        let texts = |rule: &str| -> Vec<String> { parse(rule).unwrap().iter().map(Match::text).collect() };
        assert_eq!(
            texts("Host(`a.example`) && (PathPrefix(`/x`) || Path(\"/y\")) && Header(`x-a`, `b`)"),
            [
                "{ host: a.example, path: { prefix: /x }, headers: [{ name: x-a, exact: b }] }",
                "{ host: a.example, path: { exact: /y }, headers: [{ name: x-a, exact: b }] }",
            ]
        );
        assert_eq!(texts("Host(`a`, `b`)").len(), 2);
        assert_eq!(texts("Query(`beta=1`)"), ["{ query: [{ name: beta, exact: 1 }] }"]);
        for rule in [
            "!Host(`a`)",
            "ClientIP(`10.0.0.0/8`)",
            "Host(`a`",
            "Host(a)",
            "",
            "Host(`a`) &&",
            "Host(`a`) x",
            "(((((((((((((((((Host(`a`)",
        ] {
            assert!(parse(rule).is_err(), "{rule}");
        }
    }
}
