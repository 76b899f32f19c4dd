//! What is changed of a request and its answer on their way, as rules; the data plane carries them out.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};

use super::{mirror::MirrorFilter, request::RequestView};

/// Changes of header fields: set first, then added, then removed, as HTTPRoute has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderEdits {
    /// The field has this one value afterwards.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// The field has this value besides those it had.
    pub add: Vec<(HeaderName, HeaderValue)>,
    /// The field is gone.
    pub remove: Vec<HeaderName>,
}

impl HeaderEdits {
    /// Whether nothing is changed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.set.is_empty() && self.add.is_empty() && self.remove.is_empty()
    }
}

/// Changes of header fields in both directions. Those of the route come before those of the version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BothWays {
    /// On the way to the version.
    pub request: HeaderEdits,
    /// On the way to the client.
    pub response: HeaderEdits,
}

/// All filters of a route.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RouteFilters {
    /// Header fields.
    pub headers: BothWays,
    /// Host and path that the version sees.
    pub rewrite: Rewrite,
    /// Scripts of other origins.
    pub cors: Option<Cors>,
    /// Copies to another service.
    pub mirror: Option<MirrorFilter>,
}

/// What the version sees in place of what the client sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rewrite {
    /// In place of the host (and its port).
    pub host: Option<HeaderValue>,
    /// In place of the path, or of its beginning.
    pub path: Option<PathChange>,
}

/// A change of a path. The query stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathChange {
    /// The whole path; begins with `/`.
    Full(String),
    /// What the route's prefix match covered; begins with `/`.
    Prefix(String),
}

impl PathChange {
    /// The path in place of this one, of which a prefix match covered so many bytes.
    #[must_use]
    pub fn applied_to(&self, path: &str, covered: Option<usize>) -> String {
        match self {
            Self::Full(full) => full.clone(),
            Self::Prefix(prefix) => {
                let rest = path.get(covered.unwrap_or(0)..).unwrap_or_default();
                let path = format!("{}{rest}", prefix.trim_end_matches('/'));
                if path.starts_with('/') { path } else { format!("/{path}") }
            }
        }
    }
}

/// An answer that sends the client elsewhere. What is not said stays as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// `http` or `https`.
    pub scheme: Option<Scheme>,
    /// The host.
    pub host: Option<String>,
    /// The port.
    pub port: Option<u16>,
    /// The path.
    pub path: Option<PathChange>,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

impl Redirect {
    /// Where to. A port that goes without saying is not said; the port that the
    /// client used stays where neither scheme nor port are told.
    #[must_use]
    pub fn location(&self, request: &RequestView<'_>, covered: Option<usize>) -> String {
        let to = self.scheme.unwrap_or(request.scheme);
        let port = self.port.or(request.port.filter(|_| self.scheme.is_none()));
        let host = self.host.as_deref().unwrap_or(request.host);
        let path = match &self.path {
            Some(change) => change.applied_to(request.path, covered),
            None => request.path.to_owned(),
        };
        let port = port.filter(|port| *port != to.port()).map_or_else(String::new, |port| format!(":{port}"));
        let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
        format!("{}://{host}{port}{path}{query}", to.as_str())
    }
}

/// How a client comes in, or is told to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

impl Scheme {
    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port that goes without saying.
    #[must_use]
    pub const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// Which scripts of other origins may read answers (the Fetch standard, CORS protocol).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// Whose.
    pub origins: Vec<OriginMatch>,
    /// Methods of a preflight's answer.
    pub methods: Vec<Method>,
    /// Fields that such a request may have; none with `any_header`.
    pub headers: Vec<HeaderName>,
    /// All fields that the preflight asks for.
    pub any_header: bool,
    /// Fields that the script may read.
    pub expose: Vec<HeaderName>,
    /// Cookies go along.
    pub credentials: bool,
    /// How long the browser keeps a preflight's answer.
    pub max_age: Option<Duration>,
}

/// An origin, or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OriginMatch {
    /// Everybody's.
    Any,
    /// `scheme://host[:port]`, in lower case.
    Exact(String),
    /// `scheme://*.host[:port]`: what stands before and behind the `*`, which is one label or more.
    Wildcard(String, String),
}

impl OriginMatch {
    /// Whether the origin, in lower case, is one of these.
    #[must_use]
    pub fn is_met_by(&self, origin: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(exact) => exact == origin,
            Self::Wildcard(before, behind) => origin
                .strip_prefix(&**before)
                .and_then(|rest| rest.strip_suffix(&**behind))
                .is_some_and(|labels| !labels.is_empty() && !labels.contains(['/', ':'])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_replaced_by_whole_segments() {
        for (prefix, to, path, expected) in [
            ("/foo", "/xyz", "/foo/bar", "/xyz/bar"),
            ("/foo", "/xyz/", "/foo/bar", "/xyz/bar"),
            ("/foo", "/xyz", "/foo", "/xyz"),
            ("/foo", "/xyz", "/foo/", "/xyz/"),
            ("/foo", "/", "/foo/bar", "/bar"),
            ("/foo", "/", "/foo", "/"),
            ("", "/v1", "/", "/v1/"),
        ] {
            let change = PathChange::Prefix(to.to_owned());
            assert_eq!(change.applied_to(path, Some(prefix.len())), expected, "{prefix} {to} {path}");
        }
        assert_eq!(PathChange::Full("/x".to_owned()).applied_to("/a/b", None), "/x");
    }

    #[test]
    fn a_redirect_changes_what_it_says_and_keeps_the_rest() {
        let none = Redirect { scheme: None, host: None, port: None, path: None, status: 302 };
        let https = Redirect { scheme: Some(Scheme::Https), ..none.clone() };
        let lemon = Redirect { path: Some(PathChange::Prefix("/replacement-prefix".to_owned())), ..none.clone() };
        for (redirect, authority, scheme, expected) in [
            (https.clone(), "a.example", Scheme::Http, "https://a.example/original-prefix/lemon?q=1"),
            (https.clone(), "a.example:80", Scheme::Http, "https://a.example/original-prefix/lemon?q=1"),
            (
                Redirect { port: Some(8443), ..https },
                "a.example",
                Scheme::Http,
                "https://a.example:8443/original-prefix/lemon?q=1",
            ),
            (
                Redirect { host: Some("b".to_owned()), ..none.clone() },
                "a.example:8080",
                Scheme::Http,
                "http://b:8080/original-prefix/lemon?q=1",
            ),
            (
                Redirect { port: Some(443), ..none.clone() },
                "a.example",
                Scheme::Https,
                "https://a.example/original-prefix/lemon?q=1",
            ),
            (lemon, "a.example:8080", Scheme::Http, "http://a.example:8080/replacement-prefix/lemon?q=1"),
        ] {
            let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
            let headers = http::HeaderMap::new();
            let request = RequestView {
                scheme,
                method: &Method::GET,
                host,
                port: port.parse().ok(),
                path: "/original-prefix/lemon",
                query: "q=1",
                headers: &headers,
                client: crate::engine::address::Address::default(),
            };
            assert_eq!(redirect.location(&request, Some("/original-prefix".len())), expected);
        }
    }

    #[test]
    fn an_origin_is_met_by_whole_labels() {
        let wildcard = OriginMatch::Wildcard("https://".to_owned(), ".bar.com".to_owned());
        for (origin, met) in [
            ("https://www.bar.com", true),
            ("https://xpto.www.bar.com", true),
            ("https://bar.com", false),
            ("https://.bar.com", false),
            ("https://foobar.com", false),
            ("http://www.bar.com", false),
            ("https://evil.com/.bar.com", false),
            ("https://www.bar.com:8443", false),
        ] {
            assert_eq!(wildcard.is_met_by(origin), met, "{origin}");
        }
    }
}
