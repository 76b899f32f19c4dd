//! A request head as the rules of the table look at it.

use std::net::IpAddr;

use http::{header, request::Parts};

use crate::engine::{address::Address, request::RequestView};

/// The head as the client sent it, from this address.
pub(super) fn of(head: &Parts, client: Address) -> RequestView<'_> {
    let authority = match head.uri.authority() {
        Some(authority) => authority.as_str(),
        None => head.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default(),
    };
    RequestView {
        method: &head.method,
        host: without_port(authority),
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

/// The host of a checked authority.
fn without_port(authority: &str) -> &str {
    match authority.rfind([':', ']']) {
        Some(at) if authority.as_bytes()[at] == b':' => &authority[..at],
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_no_part_of_a_host() {
        for (authority, host) in [
            ("a.example:1234", "a.example"),
            ("a", "a"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("a:", "a"),
            ("", ""),
        ] {
            assert_eq!(without_port(authority), host);
        }
    }
}
