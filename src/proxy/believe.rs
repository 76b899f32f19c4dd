//! What earlier hops say about where a request came from, as far as it is believed: only peers that the table trusts are
//! heard, and of the addresses that they name the rightmost one that is not trusted itself is the client's.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderValue, header};

use super::view;
use crate::engine::{
    address::{Address, Network},
    filter::Scheme,
};

/// Addresses that are looked at; the rest is further away than any real chain of proxies.
const HOPS_MAX: usize = 32;

/// Where a request came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Whence {
    /// The client's address.
    pub(super) client: Address,
    /// The same and the hops from it to us, for `X-Forwarded-For`.
    pub(super) chain: HeaderValue,
    /// How the client came in.
    pub(super) scheme: Scheme,
    /// The host that the client asked for, if an earlier hop said so.
    pub(super) host: Option<HeaderValue>,
}

/// What the peer says, if it is trusted; none when it is not, or nobody is.
pub(super) fn whence(headers: &HeaderMap, trusted: &[Network], peer: IpAddr, scheme: Scheme) -> Option<Whence> {
    let is_trusted = |address: Address| trusted.iter().any(|network| network.contains(address));
    if trusted.is_empty() || !is_trusted(view::address(peer)) {
        return None;
    }
    let mut chain = vec![peer];
    for said in named(headers).into_iter().rev().take(HOPS_MAX) {
        let last = chain.last().copied().unwrap_or(peer);
        let Some(ip) = said.filter(|_| is_trusted(view::address(last))) else { break };
        chain.push(ip);
    }
    let client = chain.last().copied().unwrap_or(peer);
    let text = chain.iter().rev().map(|ip| ip.to_canonical().to_string()).collect::<Vec<_>>().join(", ");
    Some(Whence {
        client: view::address(client),
        chain: HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("unknown")),
        scheme: scheme_of(headers).unwrap_or(scheme),
        host: last_of(headers, "x-forwarded-host").and_then(|host| HeaderValue::from_str(host).ok()),
    })
}

/// The addresses that are named, the nearest last; none in the place of what is no address. `Forwarded` (RFC 7239) is
/// read where there is no `X-Forwarded-For`.
fn named(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let plain: Vec<_> = parts(headers, "x-forwarded-for").map(address).collect();
    if !plain.is_empty() {
        return plain;
    }
    parts(headers, header::FORWARDED.as_str()).map(|element| parameter(element, "for").and_then(address)).collect()
}

fn scheme_of(headers: &HeaderMap) -> Option<Scheme> {
    let said = last_of(headers, "x-forwarded-proto").or_else(|| {
        let last = parts(headers, header::FORWARDED.as_str()).last()?;
        parameter(last, "proto")
    })?;
    match () {
        () if said.eq_ignore_ascii_case("https") => Some(Scheme::Https),
        () if said.eq_ignore_ascii_case("http") => Some(Scheme::Http),
        () => None,
    }
}

/// The last one was said by the nearest hop.
fn last_of<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    parts(headers, name).last().filter(|part| !part.is_empty())
}

fn parts<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h str> + use<'h> {
    let fields = headers.get_all(name).iter();
    fields.flat_map(|field| field.to_str().unwrap_or_default().split(',')).map(str::trim)
}

/// A parameter of an element of `Forwarded`.
fn parameter<'e>(element: &'e str, name: &str) -> Option<&'e str> {
    let pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.into_iter().find(|(key, _)| key.trim().eq_ignore_ascii_case(name))?;
    Some(value.trim().trim_matches('"'))
}

/// An address, with or without port and brackets.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn believed(peer: &str, fields: &[(&'static str, &'static str)]) -> Option<(String, Scheme)> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let near = Network::new(Address::v4([10, 0, 0, 0]), 104);
        let whence = whence(&headers, &[near], peer.parse().unwrap(), Scheme::Http)?;
        Some((whence.chain.to_str().unwrap().to_owned(), whence.scheme))
    }

    #[test]
    fn the_rightmost_address_that_is_not_trusted_is_the_clients() {
        let xff = "x-forwarded-for";
        for (peer, fields, chain) in [
            ("10.0.0.1", &[(xff, "203.0.113.7")][..], "203.0.113.7, 10.0.0.1"),
            ("10.0.0.1", &[(xff, "6.6.6.6, 203.0.113.7")], "203.0.113.7, 10.0.0.1"),
            ("10.0.0.1", &[(xff, "6.6.6.6"), (xff, "203.0.113.7, 10.0.0.2")], "203.0.113.7, 10.0.0.2, 10.0.0.1"),
            ("10.0.0.1", &[(xff, "10.0.0.3")], "10.0.0.3, 10.0.0.1"),
            ("10.0.0.1", &[(xff, "203.0.113.7, unknown")], "10.0.0.1"),
            ("10.0.0.1", &[(xff, "203.0.113.7, , 10.0.0.2")], "10.0.0.2, 10.0.0.1"),
            ("10.0.0.1", &[(xff, "[2001:db8::1]:4711")], "2001:db8::1, 10.0.0.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &[("forwarded", "for=6.6.6.6, for=\"[2001:db8::7]:1\";proto=https")], "2001:db8::7, 10.0.0.1"),
            ("10.0.0.1", &[("forwarded", "for=6.6.6.6"), (xff, "203.0.113.7")], "203.0.113.7, 10.0.0.1"),
        ] {
            assert_eq!(believed(peer, fields).unwrap().0, chain, "{fields:?}");
        }
        assert_eq!(believed("192.0.2.1", &[(xff, "203.0.113.7")]), None, "who is not trusted is not heard");
    }

    #[test]
    fn the_nearest_hop_says_how_the_client_came_in() {
        let scheme = |fields: &[_]| believed("10.0.0.1", fields).unwrap().1;
        assert_eq!(scheme(&[("x-forwarded-proto", "https")]), Scheme::Https);
        assert_eq!(scheme(&[("x-forwarded-proto", "https, HTTP")]), Scheme::Http);
        assert_eq!(scheme(&[("x-forwarded-proto", "gopher")]), Scheme::Http);
        assert_eq!(scheme(&[("forwarded", "for=1.2.3.4;proto=HTTPS")]), Scheme::Https);
        assert_eq!(scheme(&[]), Scheme::Http);
    }
}
