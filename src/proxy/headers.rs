//! What is taken off and put on heads as they pass: hop-by-hop fields (RFC 9110 7.6.1), framing, forwarding fields.
//! Nominated fields go first and our own come last, so that no client can take ours away.

use http::{HeaderMap, HeaderName, HeaderValue, Uri, Version, header, request::Parts, uri};

use super::{believe::Whence, check, cookie, origin::Origin};
use crate::engine::endpoint::Endpoint;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// What a request head said about its hop, once that is taken off.
#[derive(Debug, Default)]
pub(super) struct Hop {
    /// The protocol that the client asks to switch to; never h2c.
    pub(super) upgrade: Option<HeaderValue>,
    /// The client takes trailers.
    pub(super) takes_trailers: bool,
}

impl Hop {
    /// Whether a WebSocket is asked for, and nothing else.
    pub(super) fn asks_for_websocket(&self) -> bool {
        self.upgrade.as_ref().is_some_and(|protocol| protocol.as_bytes().eq_ignore_ascii_case(b"websocket"))
    }
}

/// Makes a checked request head ready for any upstream: without the client's hop, and with where it came from. Of what is
/// said about earlier hops nothing is left but what is believed.
pub(super) fn for_upstreams(head: &mut Parts, origin: &Origin, believed: Option<&Whence>) -> Hop {
    let hop = take_hop(head);
    strip_claims(&mut head.headers);
    if head.version == Version::HTTP_10 {
        head.headers.remove(header::EXPECT);
    }
    if let Some(authority) = head.uri.authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        head.headers.insert(header::HOST, host);
    }
    if head.uri.authority().is_some() {
        head.uri = check::origin_form(&head.uri);
    }
    let scheme = believed.map_or(origin.scheme(), |whence| whence.scheme);
    head.headers.insert(FORWARDED_FOR, believed.map_or(origin.client(), |whence| &whence.chain).clone());
    head.headers.insert(FORWARDED_PROTO, HeaderValue::from_static(scheme.as_str()));
    if let Some(host) = believed.and_then(|whence| whence.host.as_ref()).or(head.headers.get(header::HOST)).cloned() {
        head.headers.insert(FORWARDED_HOST, host);
    }
    head.headers.append(header::VIA, HeaderValue::from_static(via(head.version)));
    cookie::join_crumbs(&mut head.headers);
    hop
}

/// A head in the form of HTTP/2. The connection makes that of HTTP/1 as it writes.
pub(super) fn for_http2(head: &Parts, hop: &Hop, endpoint: &Endpoint, is_tls: bool) -> Parts {
    let mut head = head.clone();
    head.version = Version::HTTP_2;
    if hop.takes_trailers {
        head.headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    // hyper does not tell of a 100 over HTTP/2: the body is sent at once.
    head.headers.remove(header::EXPECT);
    let host = head.headers.remove(header::HOST);
    let authority = host
        .and_then(|host| uri::Authority::try_from(host.as_bytes()).ok())
        .or_else(|| uri::Authority::try_from(endpoint.authority()).ok());
    let mut parts = uri::Parts::default();
    parts.scheme = Some(if is_tls { uri::Scheme::HTTPS } else { uri::Scheme::HTTP });
    parts.authority = authority;
    parts.path_and_query = head.uri.path_and_query().cloned();
    if let Ok(uri) = Uri::from_parts(parts) {
        head.uri = uri;
    }
    head
}

/// Takes the upstream's hop off an answer. Framing is made anew for the client's hop: where an upstream sent both
/// a length and a coding, the coding had decided, so the length is a lie.
pub(super) fn for_client(answer: &mut HeaderMap) {
    if answer.contains_key(header::TRANSFER_ENCODING) {
        answer.remove(header::CONTENT_LENGTH);
    }
    strip_hop(answer);
}

/// What an answer is, as far as the proxy treats it in a way of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerKind {
    Plain,
    /// May say nothing for as long as nothing happens.
    EventStream,
    /// Likewise, and says in a field of its own how the call ended.
    Grpc,
}

impl AnswerKind {
    pub(super) fn of(answer: &HeaderMap) -> Self {
        Self::of_type(answer.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default())
    }

    /// By a value of `Content-Type`.
    pub(super) fn of_type(kind: &[u8]) -> Self {
        let is = |stream: &[u8]| kind.get(..stream.len()).is_some_and(|start| start.eq_ignore_ascii_case(stream));
        if is(b"text/event-stream") {
            Self::EventStream
        } else if is(b"application/grpc") {
            Self::Grpc
        } else {
            Self::Plain
        }
    }
}

/// Takes fields off trailers that may not be there.
pub(super) fn for_trailers(trailers: &mut HeaderMap) {
    strip_hop(trailers);
    strip_claims(trailers);
    for name in [header::HOST, header::CONTENT_LENGTH, header::SET_COOKIE, header::COOKIE, header::AUTHORIZATION] {
        trailers.remove(name);
    }
}

/// The protocol asked for, if this is an upgrade at all: HTTP/1.1 with the connection option. h2c would open
/// a tunnel past every rule, and is obsolete (RFC 9113 3.1).
fn upgrade_of(head: &Parts) -> Option<HeaderValue> {
    let asked = head.headers.get(header::UPGRADE)?;
    let nominated = has_token(&head.headers, &header::CONNECTION, "upgrade");
    let single = head.headers.get_all(header::UPGRADE).iter().count() == 1;
    let h2c = has_token(&head.headers, &header::UPGRADE, "h2c");
    (head.version == Version::HTTP_11 && nominated && single && !h2c).then(|| asked.clone())
}

/// Takes the client's hop off a request head.
fn take_hop(head: &mut Parts) -> Hop {
    if !has_hop(&head.headers) {
        return Hop::default();
    }
    let hop = Hop { upgrade: upgrade_of(head), takes_trailers: has_token(&head.headers, &header::TE, "trailers") };
    strip_hop(&mut head.headers);
    hop
}

/// Whether any field is about one hop. One look at each name costs less than a search for each of those.
fn has_hop(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| {
        matches!(
            name.as_str(),
            "connection"
                | "te"
                | "transfer-encoding"
                | "upgrade"
                | "keep-alive"
                | "proxy-connection"
                | "http2-settings"
        )
    })
}

fn strip_hop(headers: &mut HeaderMap) {
    if !has_hop(headers) {
        return;
    }
    let nominated: Vec<HeaderName> = tokens(headers, &header::CONNECTION)
        .filter_map(|token| HeaderName::from_bytes(token).ok())
        .filter(|name| !matches!(*name, header::HOST | header::CONTENT_LENGTH))
        .collect();
    for name in nominated {
        headers.remove(name);
    }
    for name in [
        header::CONNECTION,
        header::TE,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        KEEP_ALIVE,
        PROXY_CONNECTION,
        HTTP2_SETTINGS,
    ] {
        headers.remove(name);
    }
}

/// Takes off what a client says about where it came from, under names with `_` too: CGI-like servers
/// read those as the same names.
fn strip_claims(headers: &mut HeaderMap) {
    let claims: Vec<HeaderName> = headers.keys().filter(|name| is_claim(name.as_str().as_bytes())).cloned().collect();
    for name in claims {
        headers.remove(name);
    }
}

/// Whether a field of this name, in any case, is about where a request came from.
pub(super) fn is_claim(name: &[u8]) -> bool {
    let is_same = |a: &u8, b: &u8| a.eq_ignore_ascii_case(b) || (*a == b'_' && *b == b'-');
    let starts = |prefix: &[u8]| name.len() >= prefix.len() && name.iter().zip(prefix).all(|(a, b)| is_same(a, b));
    starts(b"x-forwarded-") || (starts(b"x-real-ip") && name.len() == 9) || name.eq_ignore_ascii_case(b"forwarded")
}

fn via(received: Version) -> &'static str {
    match received {
        Version::HTTP_10 => "1.0 serin",
        Version::HTTP_2 => "2 serin",
        _ => "1.1 serin",
    }
}

pub(super) fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    tokens(headers, name).any(|one| one.eq_ignore_ascii_case(token.as_bytes()))
}

pub(super) fn tokens<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h [u8]> {
    headers
        .get_all(name)
        .iter()
        .flat_map(|field| field.as_bytes().split(|&b| b == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn forwarded(version: Version, headers: &[(&str, &str)]) -> (Parts, Hop) {
        let mut request = Request::builder().version(version).uri("/p?q");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (mut head, ()) = request.body(()).unwrap().into_parts();
        let hop = for_upstreams(&mut head, &Origin::plain(([192, 0, 2, 7], 1).into()), None);
        (head, hop)
    }

    fn values<'h>(head: &'h Parts, name: &str) -> Vec<&'h str> {
        head.headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
    }

    #[test]
    fn hop_by_hop_and_nominated_fields_go_and_ours_cannot_be_taken_away() {
        let (head, hop) = forwarded(
            Version::HTTP_11,
            &[
                ("host", "a.example"),
                ("connection", "X-Secret, X-Forwarded-For, Host, Content-Length"),
                ("connection", "keep-alive"),
                ("content-length", "5"),
                ("x-secret", "1"),
                ("x-keep", "2"),
                ("keep-alive", "timeout=5"),
                ("proxy-connection", "close"),
                ("te", "gzip"),
                ("upgrade", "websocket"),
                ("transfer-encoding", "chunked"),
                ("http2-settings", "AAMAAABkAARAAAAAAAIAAAAA"),
            ],
        );
        for gone in ["connection", "x-secret", "keep-alive", "proxy-connection", "te", "upgrade", "http2-settings"] {
            assert_eq!(values(&head, gone), [""; 0], "{gone}");
        }
        assert_eq!(values(&head, "host"), ["a.example"]);
        assert_eq!(values(&head, "content-length"), ["5"]);
        assert_eq!(values(&head, "x-keep"), ["2"]);
        assert_eq!(values(&head, "x-forwarded-for"), ["192.0.2.7"]);
        assert!(hop.upgrade.is_none(), "not nominated by Connection");
    }

    #[test]
    fn each_field_of_the_hop_goes_even_if_it_is_the_only_one() {
        for name in
            ["connection", "te", "transfer-encoding", "upgrade", "keep-alive", "proxy-connection", "http2-settings"]
        {
            let (head, _) = forwarded(Version::HTTP_11, &[("host", "a.example"), (name, "x")]);
            assert!(!head.headers.contains_key(name), "{name}");
        }
    }

    #[test]
    fn what_clients_say_about_earlier_hops_is_replaced() {
        let (head, _) = forwarded(
            Version::HTTP_11,
            &[
                ("host", "a.example:81"),
                ("x-forwarded-for", "6.6.6.6"),
                ("x-forwarded-for", "7.7.7.7"),
                ("x_forwarded_for", "6.6.6.6"),
                ("x-forwarded_proto", "https"),
                ("x-forwarded-prefix", "/evil"),
                ("x-real-ip", "6.6.6.6"),
                ("forwarded", "for=6.6.6.6"),
                ("via", "1.0 fred"),
            ],
        );
        assert_eq!(values(&head, "x-forwarded-for"), ["192.0.2.7"]);
        assert_eq!(values(&head, "x-forwarded-proto"), ["http"]);
        assert_eq!(values(&head, "x-forwarded-host"), ["a.example:81"]);
        assert_eq!(values(&head, "via"), ["1.0 fred", "1.1 serin"]);
        for gone in ["x_forwarded_for", "x-forwarded_proto", "x-forwarded-prefix", "x-real-ip", "forwarded"] {
            assert_eq!(values(&head, gone), [""; 0], "{gone}");
        }
    }

    #[test]
    fn only_a_real_upgrade_is_one() {
        let upgrade = |version, connection, protocol| {
            forwarded(version, &[("host", "a"), ("connection", connection), ("upgrade", protocol)]).1.upgrade
        };
        assert_eq!(upgrade(Version::HTTP_11, "keep-alive, Upgrade", "websocket").unwrap(), "websocket");
        assert!(upgrade(Version::HTTP_10, "upgrade", "websocket").is_none());
        assert!(upgrade(Version::HTTP_11, "keep-alive", "websocket").is_none());
        assert!(upgrade(Version::HTTP_11, "upgrade, http2-settings", "h2c").is_none());
        assert!(upgrade(Version::HTTP_11, "upgrade", "websocket, H2C").is_none());
    }

    #[test]
    fn the_head_takes_the_form_of_http2() {
        let endpoint = Endpoint::tcp("::1", 80);
        let sent = [("host", "a.example"), ("te", "trailers, deflate"), ("expect", "100-continue")];
        let (head, hop) = forwarded(Version::HTTP_11, &sent);
        let head = for_http2(&head, &hop, &endpoint, false);
        assert_eq!(head.uri, "http://a.example/p?q");
        assert_eq!((values(&head, "host").len(), values(&head, "te")), (0, vec!["trailers"]));
        assert!(!head.headers.contains_key("expect"));
        let (head, hop) = forwarded(Version::HTTP_10, &[]);
        assert_eq!(for_http2(&head, &hop, &endpoint, false).uri, "http://[::1]:80/p?q");
    }

    #[test]
    fn an_answer_with_two_lengths_keeps_the_one_that_counts() {
        let mut answer = HeaderMap::new();
        answer.insert(header::CONTENT_LENGTH, HeaderValue::from_static("4"));
        answer.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        answer.insert(header::CONNECTION, HeaderValue::from_static("x-hop"));
        answer.insert("x-hop", HeaderValue::from_static("1"));
        for_client(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
    }
}
