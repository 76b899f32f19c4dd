//! The rules by which a service's requests are assigned to its versions before any draw: force, header routes, cohorts,
//! and what keeps a client on its version. [`split`](super::split) puts them in order.

use std::{fmt, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{
    address::{Address, Network},
    names::VersionName,
    request::{HeaderMatch, RequestView},
};

/// Who may say by himself which version he wants, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForceRule {
    /// In this field.
    pub header: Option<HeaderName>,
    /// In this cookie; the field comes first.
    pub cookie: Option<String>,
    /// Clients that need no secret. Everybody may when this is empty and there is no secret.
    pub from: Vec<Network>,
    /// What others write behind the word, as in `always:SECRET`.
    pub secret: Option<ForceSecret>,
}

impl ForceRule {
    /// Everybody, by a header field.
    #[must_use]
    pub fn by_header(name: HeaderName) -> Self {
        Self { header: Some(name), ..Self::default() }
    }

    /// The word that the request forces with, if it may. Whether it means anything is for the service to say.
    #[must_use]
    pub fn word<'r>(&self, request: &RequestView<'r>) -> Option<&'r str> {
        let in_header = self.header.as_ref().and_then(|name| request.headers.get(name)).map(HeaderValue::as_bytes);
        let in_cookie = || self.cookie.as_ref().and_then(|name| request.cookie(name));
        self.admitted(in_header, request.client).or_else(|| self.admitted(in_cookie(), request.client))
    }

    /// The word in a value of the header field or cookie, if this client may force.
    fn admitted<'r>(&self, value: Option<&'r [u8]>, client: Address) -> Option<&'r str> {
        let value = std::str::from_utf8(value?).ok()?;
        let (word, said) = value.split_once(':').map_or((value, None), |(word, said)| (word, Some(said)));
        let is_open = self.from.is_empty() && self.secret.is_none();
        let knows = self.secret.as_ref().zip(said).is_some_and(|(secret, said)| secret.is(said));
        let is_near = self.from.iter().any(|network| network.contains(client));
        (knows || (said.is_none() && (is_open || is_near))).then_some(word)
    }
}

/// A secret that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ForceSecret(Arc<str>);

impl ForceSecret {
    /// Takes it over.
    #[must_use]
    pub fn new(secret: &str) -> Self {
        Self(Arc::from(secret))
    }

    /// Compared in a time that tells nothing but the length.
    #[must_use]
    pub fn is(&self, said: &str) -> bool {
        let differing = self.0.bytes().zip(said.bytes()).fold(0, |differing, (a, b)| differing | (a ^ b));
        self.0.len() == said.len() && differing == 0
    }
}

impl fmt::Debug for ForceSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ForceSecret(…)")
    }
}

/// A step's `setHeaderRoute`: requests that meet it go to the canary, whatever its weight. Gone with the rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderRoute {
    /// By which a later step replaces or removes it.
    pub name: Arc<str>,
    /// The conditions; never empty.
    pub matches: Vec<HeaderMatch>,
    /// All of them must be met, not just any one.
    pub all: bool,
}

impl HeaderRoute {
    /// Whether the fields meet it.
    #[must_use]
    pub fn is_met_by(&self, headers: &HeaderMap) -> bool {
        let mut met = self.matches.iter().map(|one| one.is_met_by(headers));
        if self.all { met.all(|met| met) } else { met.any(|met| met) }
    }
}

/// Clients who are in a group by what they send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cohort {
    /// In this field.
    pub header: HeaderName,
    /// One of these values, in full.
    pub values: Vec<String>,
    /// Where they go.
    pub to: CohortTarget,
}

impl Cohort {
    /// Whether the fields put the client into it.
    #[must_use]
    pub fn is_met_by(&self, headers: &HeaderMap) -> bool {
        let values = headers.get_all(&self.header).iter().map(HeaderValue::as_bytes);
        values.into_iter().any(|said| self.values.iter().any(|value| value.as_bytes() == said))
    }
}

/// Where a cohort goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CohortTarget {
    /// To the canary while there is one.
    Canary,
    /// To stable.
    Stable,
    /// To this version while it is stable or canary; to stable otherwise.
    Version(VersionName),
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::engine::{filter::Scheme, request::StringMatch};

    fn word(rule: &ForceRule, fields: &[(&'static str, &'static str)], client: Address) -> Option<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let request = RequestView {
            scheme: Scheme::Http,
            method: &Method::GET,
            host: "",
            port: None,
            path: "/",
            query: "",
            headers: &headers,
            client,
        };
        rule.word(&request).map(str::to_owned)
    }

    #[test]
    fn a_header_route_is_met_by_any_of_its_conditions_or_by_all_of_them() {
        let condition = |name, value: &str| HeaderMatch {
            name: HeaderName::from_static(name),
            value: StringMatch::Prefix(value.to_owned()),
        };
        let route = |all| HeaderRoute {
            name: "staff".into(),
            matches: vec![condition("x-group", "st.ff"), condition("x-ring", "1")],
            all,
        };
        for (fields, any, all) in [
            (&[("x-group", "st.ff-a")][..], true, false),
            (&[("x-group", "st.ff-a"), ("x-ring", "12")], true, true),
            (&[("x-group", "staff"), ("x-ring", "2")], false, false),
            (&[], false, false),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.append(*name, HeaderValue::from_static(value));
            }
            let met = [false, true].map(|all| route(all).is_met_by(&headers));
            assert_eq!(met, [any, all], "{fields:?}");
        }
    }

    #[test]
    fn who_forces_must_be_near_or_know_the_secret() {
        let near = Network::new(Address::v4([10, 0, 0, 0]), 104);
        let (inside, outside) = (Address::v4([10, 1, 2, 3]), Address::v4([192, 0, 2, 1]));
        let open = ForceRule {
            cookie: Some("canary".to_owned()),
            ..ForceRule::by_header(HeaderName::from_static("x-canary"))
        };
        let limited = ForceRule { from: vec![near], ..open.clone() };
        let secret = ForceRule { secret: Some(ForceSecret::new("s3cret")), ..open.clone() };
        let both = ForceRule { from: vec![near], ..secret.clone() };
        for (rule, field, value, client, expected) in [
            (&open, "x-canary", "always", outside, Some("always")),
            (&open, "cookie", "a=b; canary=never", outside, Some("never")),
            (&open, "x-canary", "always:s3cret", outside, None),
            (&limited, "x-canary", "always", inside, Some("always")),
            (&limited, "x-canary", "always", outside, None),
            (&limited, "cookie", "canary=always", outside, None),
            (&secret, "x-canary", "always", inside, None),
            (&secret, "x-canary", "always:s3cret", outside, Some("always")),
            (&secret, "cookie", "canary=v2:s3cret", outside, Some("v2")),
            (&secret, "x-canary", "always:s3cre", outside, None),
            (&secret, "x-canary", "always:s3cret ", outside, None),
            (&both, "x-canary", "always", inside, Some("always")),
            (&both, "x-canary", "always:s3cret", outside, Some("always")),
            (&both, "x-canary", "always", outside, None),
        ] {
            assert_eq!(word(rule, &[(field, value)], client).as_deref(), expected, "{rule:?} {field}: {value}");
        }
        let cookie_after_header = [("x-canary", "never"), ("cookie", "canary=always")];
        assert_eq!(word(&open, &cookie_after_header, outside).as_deref(), Some("never"));
        assert_eq!(format!("{:?}", secret.secret), "Some(ForceSecret(…))");
    }
}
