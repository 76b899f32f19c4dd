//! Conditions on requests, from other tools to a route's `match`. Where the source takes the first rule in its list and
//! Serin the nearest, what both would take is said once more at the earlier rule.
//! Refuses to widen: a match of which one condition cannot be said is left out as a whole by its importer.

use super::{trial, value::scalar};

/// Most entries of a route's `match`, as in the file.
pub(super) const MATCHES_MAX: usize = 64;

/// How a text is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Exact,
    Prefix,
    Regex,
}

/// A condition on a header field or a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) name: String,
    pub(super) how: How,
    pub(super) value: String,
}

/// What a request must be; all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) host: Option<String>,
    pub(super) path: Option<(How, String)>,
    pub(super) method: Option<String>,
    pub(super) headers: Vec<Condition>,
    pub(super) query: Vec<Condition>,
}

impl How {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Prefix => "prefix",
            Self::Regex => "regex",
        }
    }
}

impl Condition {
    pub(super) fn new(name: &str, how: How, value: &str) -> Self {
        Self { name: name.to_owned(), how, value: value.to_owned() }
    }

    /// As in `match[].headers` and `match[].query`.
    fn text(&self) -> String {
        format!("{{ name: {}, {}: {} }}", scalar(&self.name), self.how.word(), scalar(&self.value))
    }

    /// As in `setHeaderRoute`.
    pub(super) fn as_header_route(&self) -> String {
        let (name, how) = (scalar(&self.name), self.how.word());
        format!("{{ headerName: {name}, headerValue: {{ {how}: {} }} }}", scalar(&self.value))
    }
}

impl Match {
    /// Whether everything meets it.
    pub(super) fn is_everything(&self) -> bool {
        let is_root = self.path.as_ref().is_none_or(|(how, path)| *how == How::Prefix && path == "/");
        self.host.is_none() && is_root && self.method.is_none() && self.headers.is_empty() && self.query.is_empty()
    }

    /// On one line.
    pub(super) fn text(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.host.as_ref().map(|host| format!("host: {}", scalar(host))));
        let path = self.path.as_ref();
        parts.extend(path.map(|(how, path)| format!("path: {{ {}: {} }}", how.word(), scalar(path))));
        parts.extend(self.method.as_ref().map(|method| format!("method: {}", scalar(method))));
        for (field, conditions) in [("headers", &self.headers), ("query", &self.query)] {
            if !conditions.is_empty() {
                let all: Vec<String> = conditions.iter().map(Condition::text).collect();
                parts.push(format!("{field}: [{}]", all.join(", ")));
            }
        }
        if parts.is_empty() { "{ path: { prefix: / } }".to_owned() } else { format!("{{ {} }}", parts.join(", ")) }
    }

    /// Whether a file may say so; else why not.
    pub(super) fn try_out(&self) -> Result<(), String> {
        trial::route(&format!("match: [{}], service: a", self.text()))
    }

    /// What goes before what: the greater one, as the manual of `routes` has it.
    fn rank(&self) -> impl Ord {
        let host = match self.host.as_deref() {
            None => (0, 0),
            Some(host) if host.starts_with("*.") => (1, host.len()),
            Some(_) => (2, 0),
        };
        let path = match &self.path {
            None => (0, 1),
            Some((How::Prefix, path)) => (0, path.trim_end_matches('/').len().max(1)),
            Some((How::Regex, pattern)) => (1, pattern.len()),
            Some((How::Exact, _)) => (2, 0),
        };
        (host, path, self.method.is_some(), self.headers.len(), self.query.len())
    }

    /// What meets both; `Err` when that cannot be said, `Ok(None)` when nothing does.
    fn both(&self, other: &Self) -> Result<Option<Self>, ()> {
        let mut both = self.clone();
        both.host = match (&self.host, &other.host) {
            (None, host) | (host, None) => host.clone(),
            (Some(a), Some(b)) if is_within(a, b) => Some(a.clone()),
            (Some(a), Some(b)) if is_within(b, a) => Some(b.clone()),
            _ => return Ok(None),
        };
        both.path = match (&self.path, &other.path) {
            (None, path) | (path, None) => path.clone(),
            (Some(a), Some(b)) if a == b => Some(a.clone()),
            (Some((How::Exact, a)), Some((How::Exact, b))) if a != b => return Ok(None),
            (Some((How::Prefix, a)), Some((how @ (How::Prefix | How::Exact), b))) if is_below(b, a) => {
                Some((*how, b.clone()))
            }
            (Some((how @ (How::Prefix | How::Exact), a)), Some((How::Prefix, b))) if is_below(a, b) => {
                Some((*how, a.clone()))
            }
            (Some((How::Regex, _)), Some(_)) | (Some(_), Some((How::Regex, _))) => return Err(()),
            _ => return Ok(None),
        };
        both.method = match (&self.method, &other.method) {
            (None, method) | (method, None) => method.clone(),
            (Some(a), Some(b)) if a == b => Some(a.clone()),
            _ => return Ok(None),
        };
        for (mine, theirs) in [(&mut both.headers, &other.headers), (&mut both.query, &other.query)] {
            for condition in theirs {
                if !mine.contains(condition) {
                    mine.push(condition.clone());
                }
            }
        }
        Ok(Some(both))
    }
}

/// Whether every request of the one host is one of the other.
fn is_within(host: &str, other: &str) -> bool {
    let under =
        |pattern: &str| other_suffix(pattern).is_some_and(|suffix| host.trim_start_matches('*').ends_with(suffix));
    host.eq_ignore_ascii_case(other) || under(other)
}

fn other_suffix(pattern: &str) -> Option<&str> {
    pattern.strip_prefix('*').filter(|suffix| suffix.starts_with('.'))
}

/// Whether a path is at or below another, in whole segments.
fn is_below(path: &str, prefix: &str) -> bool {
    let prefix = prefix.trim_end_matches('/');
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A rule of a list of which the first is taken.
#[derive(Debug, Clone)]
pub(super) struct Ordered {
    pub(super) matches: Vec<Match>,
    /// It replaces the prefix that it was matched by, so that it cannot have others.
    pub(super) is_bound: bool,
}

/// The matches of such rules, so that the nearest is the first. With it, whether there was an order that cannot be said.
pub(super) fn first_wins(rules: &[Ordered]) -> (Vec<Vec<Match>>, bool) {
    let mut said: Vec<Vec<Match>> = rules.iter().map(|rule| rule.matches.clone()).collect();
    let mut is_exact = true;
    for (at, rule) in rules.iter().enumerate() {
        for one in &rule.matches {
            let later = rules.iter().skip(at + 1).flat_map(|rule| &rule.matches);
            for later in later.filter(|later| later.rank() > one.rank()) {
                match one.both(later) {
                    Ok(None) => {}
                    Ok(Some(both)) if said[at].contains(&both) => {}
                    Ok(Some(both))
                        if said[at].len() < MATCHES_MAX
                            && !(rule.is_bound && both.path != one.path)
                            && both.try_out().is_ok() =>
                    {
                        said[at].push(both);
                    }
                    Ok(Some(_)) | Err(()) => is_exact = false,
                }
            }
        }
    }
    (said, is_exact)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(path: &str) -> Match {
        Match { path: Some((How::Prefix, path.to_owned())), ..Match::default() }
    }

    #[test]
    fn an_earlier_rule_is_not_overtaken_by_a_nearer_one() {
        let of = |matches: Vec<Match>| Ordered { matches, is_bound: false };
        let staff = Match { headers: vec![Condition::new("x-group", How::Exact, "staff")], ..Match::default() };
        let both = Match { headers: staff.headers.clone(), ..prefix("/api") };
        let (said, is_exact) =
            first_wins(&[of(vec![staff.clone()]), of(vec![prefix("/api")]), of(vec![Match::default()])]);
        assert_eq!(said, [vec![staff, both], vec![prefix("/api")], vec![Match::default()]]);
        assert!(is_exact);

        // All that the second would take, the first takes.
        let (said, is_exact) = first_wins(&[of(vec![prefix("/")]), of(vec![prefix("/api")])]);
        assert_eq!((said[0].clone(), is_exact), (vec![prefix("/"), prefix("/api")], true));

        let pattern = Match { path: Some((How::Regex, "/a.*".to_owned())), ..Match::default() };
        assert!(!first_wins(&[of(vec![prefix("/a/b")]), of(vec![pattern])]).1, "what both take cannot be said");

        let bound = Ordered { matches: vec![prefix("/api")], is_bound: true };
        let (said, is_exact) = first_wins(&[bound, of(vec![prefix("/api/v2")])]);
        assert_eq!((said[0].clone(), is_exact), (vec![prefix("/api")], false), "`/v2` would be replaced with it");
    }

    #[test]
    fn what_excludes_each_other_has_nothing_in_common() {
        let at = |host: &str| Match { host: Some(host.to_owned()), ..Match::default() };
        assert_eq!(at("a.example").both(&at("b.example")), Ok(None));
        assert_eq!(at("*.example").both(&at("b.example")), Ok(Some(at("b.example"))));
        assert_eq!(prefix("/a").both(&prefix("/ab")), Ok(None));
        assert_eq!(prefix("/a").both(&prefix("/a/b")), Ok(Some(prefix("/a/b"))));
    }
}
