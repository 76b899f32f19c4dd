//! Sticky clients: the cookie carries an opaque id, never a version; the bucket follows from it.
//! So shares stay exact, raising the weight moves clients only forward, and an abort frees all at once.

use std::{fmt, hash::Hasher, time::Duration};

use http::HeaderName;
use siphasher::sip::SipHasher13;

use super::{
    names::{ServiceName, VersionName},
    request::RequestView,
    split::Bucket,
};

/// What a client's cookie holds: 64 random bits, written as 16 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StickyId(pub u64);

impl StickyId {
    /// Reads a cookie's value; anything but 16 lower-case hexadecimal digits is no id.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let well_formed = value.len() == 16 && value.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let text = std::str::from_utf8(value).ok().filter(|_| well_formed)?;
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}

impl fmt::Display for StickyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What a client is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StickyBy {
    /// An id of ours in a cookie of this name.
    Cookie(String),
    /// The value of a header field.
    Header(HeaderName),
    /// The decoded value of a query parameter.
    Query(String),
    /// Its address, as far as the forwarding fields are believed.
    ClientIp,
}

impl StickyBy {
    /// The id that the request brings. A cookie's is what was handed out; of several cookies of that name the first that
    /// holds an id counts. Anything else becomes an id by SipHash-1-3 under a zero key, of the value's bytes or the 16
    /// bytes of the (mapped) address: an interface like that of [`BucketKey::bucket`].
    #[must_use]
    pub fn id(&self, request: &RequestView<'_>) -> Option<StickyId> {
        match self {
            Self::Cookie(name) => request.cookies(name).find_map(StickyId::parse),
            Self::Header(name) => request.headers.get(name).map(|value| hashed(value.as_bytes())),
            Self::Query(name) => request.parameter(name).map(|value| hashed(&value)),
            Self::ClientIp => Some(hashed(&request.client.0.to_be_bytes())),
        }
    }
}

fn hashed(bytes: &[u8]) -> StickyId {
    let mut hasher = SipHasher13::new_with_keys(0, 0);
    hasher.write(bytes);
    StickyId(hasher.finish())
}

/// How clients of a service are kept on their version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StickyRule {
    /// What they are known by.
    pub by: StickyBy,
    /// How long the client keeps a cookie; a session cookie without.
    pub ttl: Option<Duration>,
    /// Turns ids into buckets in this rollout.
    pub key: BucketKey,
}

/// The key under which ids become buckets: another service, target version or revision gives other first users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketKey(u64, u64);

impl BucketKey {
    /// The key of a rollout. SipHash-1-3 under a fixed key, over the parts with their lengths, gives both halves;
    /// every replica computes the same one.
    #[must_use]
    pub fn of(service: &ServiceName, target: &VersionName, revision: &str) -> Self {
        let half = |which: u64| {
            let mut hasher = SipHasher13::new_with_keys(which, 0x7365_7269_6e31);
            for part in [service.as_str(), target.as_str(), revision] {
                hasher.write(&(part.len() as u64).to_le_bytes());
                hasher.write(part.as_bytes());
            }
            hasher.finish()
        };
        Self(half(0), half(1))
    }

    /// The bucket of a client: SipHash-1-3 of the id's eight bytes, little endian. A documented interface:
    /// the known answers below must never change.
    #[must_use]
    pub fn bucket(self, id: StickyId) -> Bucket {
        let mut hasher = SipHasher13::new_with_keys(self.0, self.1);
        hasher.write(&id.0.to_le_bytes());
        Bucket::from_bits(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, Method};

    use super::*;
    use crate::engine::{address::Address, filter::Scheme};

    fn id(by: &StickyBy, fields: &[(&'static str, &'static str)], query: &str) -> Option<StickyId> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let client = Address::v4([192, 0, 2, 1]);
        by.id(&RequestView {
            scheme: Scheme::Http,
            method: &Method::GET,
            host: "",
            port: None,
            path: "/",
            query,
            headers: &headers,
            client,
        })
    }

    #[test]
    fn the_id_is_found_in_any_cookie_field_and_garbage_is_absent() {
        let found = Some(StickyId(0x0123_4567_89ab_cdef));
        let by = StickyBy::Cookie("serin".to_owned());
        for (fields, found) in [
            (&["serin=0123456789abcdef"][..], found),
            (&["a=b; serin=0123456789abcdef; c=d"], found),
            (&["a=b", "serin=0123456789abcdef"], found),
            (&["serin=garbage; serin=0123456789abcdef"], found),
            (&["serin=0123456789abcdef; serin=0000000000000001"], found),
            (&["serin=0123456789ABCDEF"], None),
            (&["serin=0123456789abcdef0"], None),
            (&["xserin=0123456789abcdef"], None),
            (&["serin"], None),
            (&["serin=\"0123456789abcdef\""], None),
            (&[], None),
        ] {
            let fields: Vec<_> = fields.iter().map(|field| ("cookie", *field)).collect();
            assert_eq!(id(&by, &fields, ""), found, "{fields:?}");
        }
    }

    #[test]
    fn a_header_a_parameter_and_an_address_become_ids() {
        let header = StickyBy::Header(HeaderName::from_static("x-user"));
        let query = StickyBy::Query("user".to_owned());
        let ann = id(&header, &[("x-user", "ann")], "");
        assert!(ann.is_some());
        assert_eq!(ann, id(&query, &[], "user=ann"), "the same value is the same client");
        assert_ne!(ann, id(&header, &[("x-user", "bob")], ""));
        assert_eq!(id(&header, &[], "user=ann"), None);
        assert!(id(&StickyBy::ClientIp, &[], "").is_some());
    }

    #[test]
    fn buckets_are_the_same_for_all_time() {
        let key = |target: &str, revision: &str| {
            BucketKey::of(&ServiceName::new("web").unwrap(), &VersionName::new(target).unwrap(), revision)
        };
        let answers = [("v2", "", 0), ("v2", "", 0x0123_4567_89ab_cdef), ("v2", "r1", 0), ("v3", "", u64::MAX)]
            .map(|(target, revision, id)| key(target, revision).bucket(StickyId(id)).number());
        // Computed by another implementation of SipHash-1-3.
        assert_eq!(answers, [766_730, 514_321, 71_597, 619_102]);
        assert_eq!(hashed(b"ann"), StickyId(0x5dc5_2f7e_daa4_54b8));
    }
}
