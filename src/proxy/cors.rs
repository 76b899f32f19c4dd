//! The CORS protocol of the Fetch standard: preflights are answered here, and answers say which scripts may read them.
//! What an upstream says about it is replaced.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts};

use super::edit;
use crate::engine::filter::{Cors, OriginMatch};

/// Every field that says what scripts may do.
const SAYINGS: [HeaderName; 6] = [
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_EXPOSE_HEADERS,
    header::ACCESS_CONTROL_MAX_AGE,
];

/// The answer to a preflight; none when the request is something else.
pub(super) fn preflight(cors: &Cors, head: &Parts) -> Option<(StatusCode, HeaderMap)> {
    let origin = head.headers.get(header::ORIGIN)?;
    if head.method != Method::OPTIONS || !head.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let mut answer = HeaderMap::new();
    if allow(cors, origin, &mut answer) {
        let asked = head.headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
        let named = || list(cors.headers.iter().map(HeaderName::as_str));
        say(&mut answer, header::ACCESS_CONTROL_ALLOW_METHODS, list(cors.methods.iter().map(Method::as_str)));
        say(&mut answer, header::ACCESS_CONTROL_ALLOW_HEADERS, if cors.any_header { asked } else { named() });
        say(&mut answer, header::ACCESS_CONTROL_MAX_AGE, cors.max_age.map(|age| HeaderValue::from(age.as_secs())));
    }
    Some((StatusCode::NO_CONTENT, answer))
}

/// Says on an answer to a request of that origin whether its scripts may read it.
pub(super) fn answer(cors: &Cors, origin: Option<&HeaderValue>, answer: &mut HeaderMap) {
    for name in SAYINGS {
        answer.remove(name);
    }
    match origin {
        Some(origin) if allow(cors, origin, answer) => {
            say(answer, header::ACCESS_CONTROL_EXPOSE_HEADERS, list(cors.expose.iter().map(HeaderName::as_str)));
        }
        // Whoever asks next may be of an origin that is allowed.
        _ => edit::vary(answer, "origin"),
    }
}

/// Whether scripts of this origin are allowed; if so, it is said.
fn allow(cors: &Cors, origin: &HeaderValue, answer: &mut HeaderMap) -> bool {
    let everybody = cors.origins.contains(&OriginMatch::Any) && !cors.credentials;
    if !everybody {
        edit::vary(answer, "origin");
    }
    let lower = origin.to_str().map(str::to_ascii_lowercase).unwrap_or_default();
    if !cors.origins.iter().any(|one| one.is_met_by(&lower)) {
        return false;
    }
    let said = if everybody { HeaderValue::from_static("*") } else { origin.clone() };
    answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, said);
    if cors.credentials {
        answer.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
    true
}

fn say(answer: &mut HeaderMap, name: HeaderName, value: Option<HeaderValue>) {
    if let Some(value) = value {
        answer.insert(name, value);
    }
}

/// With commas between; none when there is nothing.
fn list<'a>(words: impl Iterator<Item = &'a str>) -> Option<HeaderValue> {
    let text = words.collect::<Vec<_>>().join(", ");
    HeaderValue::from_str(&text).ok().filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Request;

    use super::*;

    fn rule(credentials: bool) -> Cors {
        Cors {
            origins: vec![
                OriginMatch::Exact("https://www.foo.com".to_owned()),
                OriginMatch::Wildcard("https://".to_owned(), ".bar.com".to_owned()),
            ],
            methods: vec![Method::GET, Method::OPTIONS],
            headers: vec![HeaderName::from_static("x-header-1")],
            any_header: false,
            expose: vec![HeaderName::from_static("x-read")],
            credentials,
            max_age: Some(Duration::from_hours(1)),
        }
    }

    fn asked(cors: &Cors, method: &str, origin: &str) -> Option<(u16, Vec<String>)> {
        let request = Request::builder().method(method).uri("/").header("origin", origin);
        let request =
            request.header("access-control-request-method", "GET").header("access-control-request-headers", "x-z");
        let (status, fields) = preflight(cors, &request.body(()).unwrap().into_parts().0)?;
        let mut fields: Vec<_> =
            fields.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        fields.sort();
        Some((status.as_u16(), fields))
    }

    #[test]
    fn a_preflight_is_answered_for_origins_that_are_allowed() {
        for origin in ["https://www.foo.com", "https://www.bar.com", "https://xpto.www.bar.com", "HTTPS://WWW.FOO.COM"]
        {
            let (status, fields) = asked(&rule(true), "OPTIONS", origin).unwrap();
            assert_eq!(status, 204);
            assert_eq!(
                fields,
                [
                    "access-control-allow-credentials: true".to_owned(),
                    "access-control-allow-headers: x-header-1".to_owned(),
                    "access-control-allow-methods: GET, OPTIONS".to_owned(),
                    format!("access-control-allow-origin: {origin}"),
                    "access-control-max-age: 3600".to_owned(),
                    "vary: origin".to_owned(),
                ]
            );
        }
        for origin in ["https://foobar.com", "http://www.foo.com", "null", "https://bar.com"] {
            assert_eq!(asked(&rule(true), "OPTIONS", origin), Some((204, vec!["vary: origin".to_owned()])), "{origin}");
        }
        assert_eq!(asked(&rule(true), "GET", "https://www.foo.com"), None);
    }

    #[test]
    fn all_fields_may_be_allowed_and_every_origin_without_credentials() {
        let any = Cors { origins: vec![OriginMatch::Any], any_header: true, ..rule(false) };
        let (_, fields) = asked(&any, "OPTIONS", "https://a").unwrap();
        assert!(fields.contains(&"access-control-allow-origin: *".to_owned()), "{fields:?}");
        assert!(fields.contains(&"access-control-allow-headers: x-z".to_owned()), "{fields:?}");
        let (_, fields) = asked(&Cors { credentials: true, ..any }, "OPTIONS", "https://a").unwrap();
        assert!(fields.contains(&"access-control-allow-origin: https://a".to_owned()), "never * with credentials");
    }

    #[test]
    fn what_the_upstream_says_is_replaced() {
        let mut fields = HeaderMap::new();
        fields.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        fields.insert(header::VARY, HeaderValue::from_static("accept"));
        let mut other = fields.clone();
        answer(&rule(true), Some(&HeaderValue::from_static("https://www.foo.com")), &mut fields);
        assert_eq!(fields[header::ACCESS_CONTROL_ALLOW_ORIGIN], "https://www.foo.com");
        assert_eq!(fields[header::ACCESS_CONTROL_EXPOSE_HEADERS], "x-read");
        assert_eq!(fields.get_all(header::VARY).iter().collect::<Vec<_>>(), ["accept", "origin"]);
        answer(&rule(true), Some(&HeaderValue::from_static("https://foobar.com")), &mut other);
        assert!(!other.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
    }
}
