//! Sticky clients: the cookie carries an opaque id, never a version; the bucket follows from it.
//! So shares stay exact, raising the weight moves clients only forward, and an abort frees all at once.

use std::{fmt, hash::Hasher, time::Duration};

use siphasher::sip::SipHasher13;

use super::{
    names::{ServiceName, VersionName},
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

/// How clients of a service are kept on their version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StickyRule {
    /// The cookie's name.
    pub cookie: String,
    /// How long the client keeps it; a session cookie without.
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
