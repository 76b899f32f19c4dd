//! The sticky cookie, written for those who have none; and cookies of HTTP/2, put together for HTTP/1.

use http::{HeaderMap, HeaderValue, header};

use crate::engine::{
    filter::Scheme,
    sticky::{StickyBy, StickyId, StickyRule},
};

/// Gives a new client its id with the answer, unless the answer is marked as one that shared caches may keep:
/// they would hand one client's id to all others.
pub(super) fn hand_out(rule: &StickyRule, id: StickyId, scheme: Scheme, answer: &mut HeaderMap) {
    let is_shared = answer.get_all(header::CACHE_CONTROL).iter().any(|field| is_for_shared_caches(field.as_bytes()));
    if let Some(value) = to_hand_out(rule, id, scheme).filter(|_| !is_shared) {
        answer.append(header::SET_COOKIE, value);
    }
}

/// The cookie for a new client. A cookie's name is checked with the config; one that is no header text hands out nothing.
pub(super) fn to_hand_out(rule: &StickyRule, id: StickyId, scheme: Scheme) -> Option<HeaderValue> {
    let StickyBy::Cookie(name) = &rule.by else { return None };
    let mut text = format!("{name}={id}; Path=/; HttpOnly; SameSite=Lax");
    if scheme == Scheme::Https {
        text += "; Secure";
    }
    if let Some(ttl) = rule.ttl {
        text = format!("{text}; Max-Age={}", ttl.as_secs());
    }
    HeaderValue::from_str(&text).ok()
}

/// Joins HTTP/2's separate cookie fields, as HTTP/1 wants one (RFC 9113 8.2.3).
pub(super) fn join_crumbs(headers: &mut HeaderMap) {
    let mut fields = headers.get_all(header::COOKIE).iter();
    let (Some(_), Some(_)) = (fields.next(), fields.next()) else { return };
    let joined = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect::<Vec<_>>().join(&b"; "[..]);
    if let Ok(value) = HeaderValue::from_bytes(&joined) {
        headers.insert(header::COOKIE, value);
    }
}

/// Whether a value of `Cache-Control` lets shared caches keep the answer.
pub(super) fn is_for_shared_caches(cache_control: &[u8]) -> bool {
    cache_control.split(|&b| b == b',').any(|directive| {
        let name = directive.split(|&b| b == b'=').next().unwrap_or_default().trim_ascii();
        name.eq_ignore_ascii_case(b"public") || name.eq_ignore_ascii_case(b"s-maxage")
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::{
        names::{ServiceName, VersionName},
        sticky::BucketKey,
    };

    fn with(name: &'static str, values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_new_client_gets_its_id_unless_caches_share_the_answer() {
        let key = BucketKey::of(&ServiceName::new("web").unwrap(), &VersionName::new("v2").unwrap(), "");
        let rule = |ttl| StickyRule { by: StickyBy::Cookie("serin".to_owned()), ttl, key };
        let over = |scheme, ttl, cache: &[&'static str]| {
            let mut answer = with("cache-control", cache);
            hand_out(&rule(ttl), StickyId(1), scheme, &mut answer);
            answer.get(header::SET_COOKIE).map(|value| value.to_str().unwrap().to_owned())
        };
        let given = |ttl, cache: &[&'static str]| over(Scheme::Http, ttl, cache);
        let session = "serin=0000000000000001; Path=/; HttpOnly; SameSite=Lax";
        assert_eq!(given(None, &[]).as_deref(), Some(session));
        assert_eq!(given(Some(Duration::from_mins(5)), &[]), Some(format!("{session}; Max-Age=300")));
        assert_eq!(over(Scheme::Https, None, &[]), Some(format!("{session}; Secure")));
        assert_eq!(given(None, &["private, max-age=60"]).as_deref(), Some(session));
        for shared in ["public", "max-age=60, Public", "s-maxage=60", "no-transform,s-maxage = 5"] {
            assert_eq!(given(None, &[shared]), None, "{shared}");
        }
    }

    #[test]
    fn crumbs_become_one_field() {
        let mut headers = with("cookie", &["a=b", "c=d; e=f"]);
        join_crumbs(&mut headers);
        assert_eq!(headers.get_all("cookie").iter().collect::<Vec<_>>(), ["a=b; c=d; e=f"]);
    }
}
