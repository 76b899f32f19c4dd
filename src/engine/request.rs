//! What is looked at of a request where something depends on it, and the conditions on it. Pure: no request is changed
//! or remembered here.

use std::{
    borrow::Cow,
    fmt,
    hash::{Hash, Hasher},
};

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use regex::bytes::{Regex, RegexBuilder};

use super::{address::Address, filter::Scheme};

/// Most memory that one compiled pattern may take, in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 18;

/// A request as the client sent it, before anything of it is changed.
#[derive(Debug, Clone, Copy)]
pub struct RequestView<'r> {
    /// How the client came in, as far as the forwarding fields are believed.
    pub scheme: Scheme,
    /// Its method.
    pub method: &'r Method,
    /// Host of the target or the `Host` field, without port, in any case; empty when there is none.
    pub host: &'r str,
    /// The port beside it.
    pub port: Option<u16>,
    /// The path as sent: nothing is decoded, nothing put in order.
    pub path: &'r str,
    /// What is behind the `?`; empty without one.
    pub query: &'r str,
    /// The fields.
    pub headers: &'r HeaderMap,
    /// The client's address, as far as the forwarding fields are believed.
    pub client: Address,
}

impl<'r> RequestView<'r> {
    /// The first value of a query parameter of that name, with `%` and `+` decoded.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<Cow<'r, [u8]>> {
        if self.query.is_empty() {
            return None;
        }
        let pairs = self.query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.filter(|(key, _)| decoded(key) == name.as_bytes()).map(|(_, value)| decoded(value)).next()
    }

    /// The first value of a cookie of that name. HTTP/2 may spread cookies over several fields (RFC 9113 8.2.3).
    #[must_use]
    pub fn cookie(&self, name: &str) -> Option<&'r [u8]> {
        self.cookies(name).next()
    }

    /// All values of cookies of that name, in their order.
    pub fn cookies(&self, name: &str) -> impl Iterator<Item = &'r [u8]> {
        self.headers.get_all(header::COOKIE).iter().flat_map(move |field| cookies_in(field.as_bytes(), name))
    }
}

/// The values of the cookies of that name in one field.
pub fn cookies_in<'f>(field: &'f [u8], name: &str) -> impl Iterator<Item = &'f [u8]> {
    field
        .split(|&b| b == b';')
        .filter_map(move |pair| pair.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// A condition on a text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StringMatch {
    /// The same, byte by byte.
    Exact(String),
    /// It begins so.
    Prefix(String),
    /// The pattern covers it from its first byte to its last.
    Regex(Pattern),
}

impl StringMatch {
    /// Whether the text meets it.
    #[must_use]
    pub fn is_met_by(&self, text: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => exact.as_bytes() == text,
            Self::Prefix(prefix) => text.starts_with(prefix.as_bytes()),
            Self::Regex(pattern) => pattern.covers(text),
        }
    }
}

/// A regular expression that must cover the whole text. Linear in time, whatever the text.
#[derive(Clone)]
pub struct Pattern {
    text: String,
    compiled: Regex,
}

/// Why a text is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(String);

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// When it is not a regular expression, or too large a one.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        let compile = |text: &str| RegexBuilder::new(text).size_limit(PATTERN_BYTES_MAX).build();
        // The pattern alone first: its error must not speak of what is put around it, nor may it close a bracket of ours.
        let compiled = compile(text).and_then(|_| compile(&format!("^(?:{text})$")));
        let compiled = compiled.map_err(|error| {
            let told = error.to_string();
            PatternError(told.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned())
        })?;
        Ok(Self { text: text.to_owned(), compiled })
    }

    /// As written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it covers the whole text.
    #[must_use]
    pub fn covers(&self, text: &[u8]) -> bool {
        self.compiled.is_match(text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.text)
    }
}

/// A condition on a header field. Of several fields of that name one is enough.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HeaderMatch {
    /// The field.
    pub name: HeaderName,
    /// What one of its values must be.
    pub value: StringMatch,
}

impl HeaderMatch {
    /// Whether the fields meet it.
    #[must_use]
    pub fn is_met_by(&self, headers: &HeaderMap) -> bool {
        headers.get_all(&self.name).iter().map(HeaderValue::as_bytes).any(|value| self.value.is_met_by(value))
    }
}

/// A condition on a query parameter. Of several parameters of that name the first one counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QueryMatch {
    /// The parameter.
    pub name: String,
    /// What its decoded value must be.
    pub value: StringMatch,
}

impl QueryMatch {
    /// Whether the request meets it.
    #[must_use]
    pub fn is_met_by(&self, request: &RequestView<'_>) -> bool {
        request.parameter(&self.name).is_some_and(|value| self.value.is_met_by(&value))
    }
}

/// Conditions on method, path and fields, all of which must be met; none at all is met by every request.
/// A `match` entry of a rollout's mirror route.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestMatch {
    /// On the method.
    pub method: Option<StringMatch>,
    /// On the path as sent, without the query.
    pub path: Option<StringMatch>,
    /// On header fields.
    pub headers: Vec<HeaderMatch>,
}

impl RequestMatch {
    /// Whether the request meets all of it.
    #[must_use]
    pub fn is_met_by(&self, request: &RequestView<'_>) -> bool {
        let met = |wanted: &Option<StringMatch>, text: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted.is_met_by(text.as_bytes()))
        };
        met(&self.method, request.method.as_str())
            && met(&self.path, request.path)
            && self.headers.iter().all(|header| header.is_met_by(request.headers))
    }
}

/// Form decoding (`+` is a space, `%41` is `A`); a `%` that begins no such pair stands for itself.
fn decoded(text: &str) -> Cow<'_, [u8]> {
    if !text.bytes().any(|b| matches!(b, b'%' | b'+')) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digit =
            |at: usize| tail.get(at).and_then(|&b| char::from(b).to_digit(16)).and_then(|d| u8::try_from(d).ok());
        match (first, digit(0).zip(digit(1))) {
            (b'%', Some((high, low))) => {
                bytes.push(high << 4 | low);
                rest = &tail[2..];
                continue;
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(first),
        }
        rest = tail;
    }
    Cow::Owned(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_covers_the_whole_text() {
        let covers = |pattern: &str, text: &str| Pattern::new(pattern).unwrap().covers(text.as_bytes());
        assert!(covers("^Do[A-Z][a-z]+y$", "DoCanary"));
        assert!(!covers("^Do[A-Z][a-z]+y$", "Docanary"));
        assert!(covers("a|ab", "ab"));
        assert!(!covers("a|b", "ab"));
        assert!(!covers("a", "a\n"));
        for bad in ["[][**da?$&*", "a)(b", "(", "\\1", "(?x)a # and so on", "((a{1000}){1000}){1000}"] {
            let error = Pattern::new(bad).unwrap_err().to_string();
            assert!(!error.is_empty() && !error.contains('\n'), "{bad}: {error}");
        }
    }

    #[test]
    fn parameters_are_decoded_and_the_first_counts() {
        let (headers, method) = (HeaderMap::new(), Method::GET);
        let parameter = |query: &str, name: &str| {
            let request = RequestView {
                scheme: Scheme::Http,
                method: &method,
                host: "",
                port: None,
                path: "/",
                query,
                headers: &headers,
                client: Address::default(),
            };
            request.parameter(name).map(|value| String::from_utf8_lossy(&value).into_owned())
        };
        for (query, name, value) in [
            ("a=1&b=2&a=3", "a", Some("1")),
            ("a=1&b=2", "b", Some("2")),
            ("A=1", "a", None),
            ("a", "a", Some("")),
            ("a=b%20c+d%zz%4", "a", Some("b c d%zz%4")),
            ("%61=x", "a", Some("x")),
            ("", "", None),
        ] {
            assert_eq!(parameter(query, name).as_deref(), value, "{query} {name}");
        }
    }
}
