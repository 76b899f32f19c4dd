//! What hyper leaves to a proxy: the checks of RFC 9110, 9112 and 9113 on a request head before it is routed.
//! Refuses; never repairs.

use http::{HeaderValue, Method, StatusCode, Uri, Version, header, request::Parts};

use super::{error::Refusal, websocket};
use crate::measure::RefusedReason;

/// Longest method that is passed on; registered ones have at most 17 letters.
const METHOD_BYTES_MAX: usize = 64;

/// Checks a request head. `headers_max` is the listener's limit of header fields, cookie crumbs included.
pub(super) fn request(head: &Parts, headers_max: usize) -> Result<(), Refusal> {
    let unknown = head.method.as_str().len() > METHOD_BYTES_MAX;
    let is_known = !matches!(head.method, Method::CONNECT | Method::TRACE) || websocket::is_extended_connect(head);
    if unknown || !is_known {
        return Err(Refusal::new(
            StatusCode::NOT_IMPLEMENTED,
            RefusedReason::UnsupportedMethod,
            "method not supported",
        ));
    }
    if head.headers.len() > headers_max {
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        return Err(Refusal::new(status, RefusedReason::HeaderTooLarge, "too many header fields"));
    }
    target(head)?;
    host(head)?;
    transfer_encoding(head)?;
    expectation(head)
}

/// Origin-form, absolute-form, or `*` with OPTIONS (RFC 9112 3.2).
fn target(head: &Parts) -> Result<(), Refusal> {
    let known_scheme = head.uri.scheme().is_none_or(|scheme| matches!(scheme.as_str(), "http" | "https"));
    let path = head.uri.path();
    let asterisk = path == "*" && head.method == Method::OPTIONS;
    if known_scheme && (path.starts_with('/') || asterisk) { Ok(()) } else { Err(bad("malformed request target")) }
}

/// One host, and a valid one (RFC 9112 3.2, RFC 9113 8.3.1). HTTP/1.0 may come without.
fn host(head: &Parts) -> Result<(), Refusal> {
    let mut fields = head.headers.get_all(header::HOST).iter();
    let (field, another) = (fields.next(), fields.next());
    if another.is_some() {
        return Err(bad("more than one Host"));
    }
    if field.is_some_and(|value| !is_host(value.as_bytes())) {
        return Err(bad("malformed Host"));
    }
    match (head.uri.authority(), field) {
        (Some(authority), _) if !is_host(authority.as_str().as_bytes()) => Err(bad("malformed authority")),
        (Some(authority), Some(field)) if head.version == Version::HTTP_2 && !same_host(authority.as_str(), field) => {
            Err(bad("Host differs from :authority"))
        }
        (None, None) if head.version != Version::HTTP_10 => Err(bad("no Host")),
        // In HTTP/1.1 the authority of the target replaces Host, which must still be there.
        (Some(_), None) if head.version == Version::HTTP_11 => Err(bad("no Host")),
        _ => Ok(()),
    }
}

/// A single `chunked` (RFC 9112 6.1): hyper takes any list that ends in it.
fn transfer_encoding(head: &Parts) -> Result<(), Refusal> {
    let mut fields = head.headers.get_all(header::TRANSFER_ENCODING).iter();
    let Some(coding) = fields.next() else { return Ok(()) };
    if fields.next().is_some() || !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
        let status = StatusCode::NOT_IMPLEMENTED;
        return Err(Refusal::new(status, RefusedReason::BadRequest, "transfer coding not supported"));
    }
    Ok(())
}

/// `100-continue` is all there is (RFC 9110 10.1.1); HTTP/1.0 expects nothing.
fn expectation(head: &Parts) -> Result<(), Refusal> {
    let known = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    if head.version == Version::HTTP_10 || head.headers.get_all(header::EXPECT).iter().all(known) {
        return Ok(());
    }
    Err(Refusal::new(StatusCode::EXPECTATION_FAILED, RefusedReason::BadRequest, "expectation not supported"))
}

fn same_host(authority: &str, field: &HeaderValue) -> bool {
    authority.as_bytes().eq_ignore_ascii_case(field.as_bytes())
}

/// `host[:port]` without userinfo (RFC 9110 7.2, RFC 3986 3.2).
pub(super) fn is_host(value: &[u8]) -> bool {
    let (host, port) = if value.first() == Some(&b'[') {
        let Some(end) = value.iter().position(|&b| b == b']') else { return false };
        let address = std::str::from_utf8(&value[1..end]).ok().and_then(|text| text.parse().ok());
        let Some(std::net::Ipv6Addr { .. }) = address else { return false };
        (&value[..=end], &value[end + 1..])
    } else {
        // Whatever else it is that ends the name, it does not begin a port.
        value.split_at(value.iter().position(|&b| !IN_HOST[usize::from(b)]).unwrap_or(value.len()))
    };
    let port_is_valid = match port {
        [] => true,
        [b':', digits @ ..] => is_port(digits),
        _ => false,
    };
    !host.is_empty() && port_is_valid
}

/// Bytes of a host's name.
const IN_HOST: [bool; 256] = {
    let mut table = [false; 256];
    let bytes = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=%";
    let mut at = 0;
    while at < bytes.len() {
        table[bytes[at] as usize] = true;
        at += 1;
    }
    table
};

/// Nothing, or a number of at most 16 bits.
fn is_port(digits: &[u8]) -> bool {
    let digit = |b: u8| b.checked_sub(b'0').filter(|digit| *digit <= 9).map(u16::from);
    let number = digits.iter().try_fold(0_u16, |number, &b| number.checked_mul(10)?.checked_add(digit(b)?));
    number.is_some()
}

fn bad(what: &'static str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, RefusedReason::BadRequest, what)
}

/// The target as an upstream gets it: origin-form, or `*`.
pub(super) fn origin_form(uri: &Uri) -> Uri {
    match uri.path_and_query() {
        Some(target) => Uri::from(target.clone()),
        None => Uri::from_static("/"),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn hosts_are_told_from_what_is_none() {
        for good in ["a", "T.Example:8080", "a_b.example", "127.0.0.1:1", "[::1]", "[2001:db8::1]:443", "a:", "%41"] {
            assert!(is_host(good.as_bytes()), "{good}");
        }
        for bad in
            ["", ":80", "a b", "a/b", "a:80x", "a:65536", "a:-1", "u@a", "[::1", "[x]", "[::1]x", "a:1:2", "ä", "a#"]
        {
            assert!(!is_host(bad.as_bytes()), "{bad}");
        }
    }

    fn status(version: Version, method: &str, uri: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().version(version).method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        super::request(&request.body(()).unwrap().into_parts().0, 4)
            .map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
    }

    #[test]
    fn heads_that_may_not_be_passed_on_are_refused() {
        let (one, two) = (Version::HTTP_11, Version::HTTP_2);
        let host = ("host", "a.example");
        for (version, method, uri, headers, expected) in [
            (one, "GET", "/", &[host][..], 200),
            (one, "GET", "/", &[], 400),
            (Version::HTTP_10, "GET", "/", &[], 200),
            (one, "GET", "/", &[host, host], 400),
            (one, "GET", "/", &[("host", "a/b")], 400),
            (one, "GET", "http://b.example/", &[host], 200),
            (one, "GET", "http://u@b.example/", &[host], 400),
            (one, "GET", "ftp://b.example/", &[host], 400),
            (one, "GET", "*", &[host], 400),
            (one, "OPTIONS", "*", &[host], 200),
            (one, "CONNECT", "a.example:443", &[host], 501),
            (one, "TRACE", "/", &[host], 501),
            (one, "FOOBAR", "/", &[host], 200),
            (one, &"M".repeat(65), "/", &[host], 501),
            (one, "POST", "/", &[host, ("transfer-encoding", "Chunked")], 200),
            (one, "POST", "/", &[host, ("transfer-encoding", "gzip, chunked")], 501),
            (one, "POST", "/", &[host, ("transfer-encoding", "chunked"), ("transfer-encoding", "x")], 501),
            (one, "POST", "/", &[host, ("expect", "100-Continue")], 200),
            (one, "POST", "/", &[host, ("expect", "teapot")], 417),
            (one, "GET", "/", &[host, ("a", ""), ("b", ""), ("c", ""), ("d", "")], 431),
            (two, "GET", "http://a.example/", &[], 200),
            (two, "GET", "http://a.example/", &[("host", "A.example")], 200),
            (two, "GET", "http://a.example/", &[("host", "b.example")], 400),
            (two, "GET", "/", &[], 400),
        ] {
            assert_eq!(status(version, method, uri, headers), expected, "{version:?} {method} {uri} {headers:?}");
        }
    }
}
