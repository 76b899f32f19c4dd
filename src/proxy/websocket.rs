//! WebSockets over HTTP/2 (RFC 8441): what the client asks for by an extended CONNECT is asked of the upstream by an upgrade
//! of HTTP/1.1, for which this is the client: it makes the key and checks what is made of it (RFC 6455 4.1).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, request::Parts};
use hyper::ext::Protocol;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::error::Refusal;
use crate::measure::RefusedReason;

const KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
pub(super) const ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");
/// What every server puts behind the key (RFC 6455 1.3).
const BEHIND_THE_KEY: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The protocol that is asked for.
pub(super) const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");
/// To a client whose upstream answered as if nothing but a GET had come: 200 would open the stream.
pub(super) const NOT_OPENED: Refusal = Refusal::new(
    StatusCode::NOT_IMPLEMENTED,
    RefusedReason::UnsupportedMethod,
    "there is no WebSocket at this path of the service",
);
const UNKNOWN: Refusal =
    Refusal::new(StatusCode::NOT_IMPLEMENTED, RefusedReason::UnsupportedMethod, "protocol not supported");

/// What the upstream has to answer.
#[derive(Debug)]
pub(super) struct Expected(String);

/// Whether it is a CONNECT that names a protocol.
pub(super) fn is_extended_connect(head: &Parts) -> bool {
    head.method == Method::CONNECT && head.extensions.get::<Protocol>().is_some()
}

/// Makes an extended CONNECT the GET that asks an HTTP/1.1 server for the same; none for any other request.
///
/// # Errors
/// When it names another protocol.
pub(super) fn as_upgrade(head: &mut Parts, mut draw: impl FnMut() -> u64) -> Result<Option<Expected>, Refusal> {
    if head.method != Method::CONNECT {
        return Ok(None);
    }
    let protocol = head.extensions.remove::<Protocol>();
    if !protocol.is_some_and(|protocol| protocol.as_str().eq_ignore_ascii_case("websocket")) {
        return Err(UNKNOWN);
    }
    let key = STANDARD.encode([draw(), draw()].map(u64::to_be_bytes).concat());
    let expected = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{BEHIND_THE_KEY}").as_bytes());
    head.method = Method::GET;
    if let Ok(key) = HeaderValue::try_from(key) {
        head.headers.insert(KEY, key);
    }
    Ok(Some(Expected(STANDARD.encode(expected))))
}

impl Expected {
    /// Whether the upstream answered that.
    pub(super) fn is_met(&self, answer: &HeaderMap) -> bool {
        answer.get(ACCEPT).is_some_and(|accept| accept.as_bytes() == self.0.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn a_connect_becomes_an_upgrade_whose_answer_is_known() {
        let connect = || Request::builder().method("CONNECT").uri("https://a.example/chat");
        let (mut head, ()) = connect().extension(Protocol::from_static("websocket")).body(()).unwrap().into_parts();
        assert!(is_extended_connect(&head));
        // The key of RFC 6455 1.3, `the sample nonce`.
        let mut random = [*b"the samp", *b"le nonce"].map(u64::from_be_bytes).into_iter();
        let expected = as_upgrade(&mut head, || random.next().unwrap()).unwrap().unwrap();
        assert_eq!(head.method, Method::GET);
        assert_eq!(head.headers[KEY], "dGhlIHNhbXBsZSBub25jZQ==");
        let mut answer = HeaderMap::new();
        assert!(!expected.is_met(&answer));
        answer.insert(ACCEPT, HeaderValue::from_static("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert!(expected.is_met(&answer));
        let (mut head, ()) = connect().extension(Protocol::from_static("other")).body(()).unwrap().into_parts();
        assert_eq!(as_upgrade(&mut head, || 0).unwrap_err(), UNKNOWN);
    }
}
