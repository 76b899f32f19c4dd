//! A request head as the rules of the table look at it.

use std::net::IpAddr;

use http::{header, request::Parts};

use crate::engine::{address::Address, filter::Scheme, request::RequestView};

/// The head as the client sent it, by this scheme and from this address.
pub(super) fn of(head: &Parts, scheme: Scheme, client: Address) -> RequestView<'_> {
    let authority = match head.uri.authority() {
        Some(authority) => authority.as_str(),
        None => head.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default(),
    };
    let (host, port) = host_and_port(authority);
    RequestView {
        scheme,
        method: &head.method,
        host,
        port,
        path: head.uri.path(),
        query: head.uri.query().unwrap_or_default(),
        headers: &head.headers,
        client,
    }
}

/// As a number; IPv4 is mapped.
pub(super) fn address(ip: IpAddr) -> Address {
    match ip {
        IpAddr::V4(ip) => Address::v4(ip.octets()),
        IpAddr::V6(ip) => Address::v6(ip.octets()),
    }
}

/// The parts of a checked authority.
pub(super) fn host_and_port(authority: &str) -> (&str, Option<u16>) {
    match authority.rfind([':', ']']) {
        Some(at) if authority.as_bytes()[at] == b':' => (&authority[..at], authority[at + 1..].parse().ok()),
        _ => (authority, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_no_part_of_a_host() {
        for (authority, host, port) in [
            ("a.example:1234", "a.example", Some(1234)),
            ("a", "a", None),
            ("[::1]:80", "[::1]", Some(80)),
            ("[::1]", "[::1]", None),
            ("a:", "a", None),
            ("", "", None),
        ] {
            assert_eq!(host_and_port(authority), (host, port));
        }
    }
}
