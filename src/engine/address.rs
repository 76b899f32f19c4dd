//! Addresses and networks as numbers, so that a rule can say whom it means. Touches no socket; parses the usual texts.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::{fmt, str::FromStr};

/// An IPv6 address as a number; IPv4 is mapped (`::ffff:a.b.c.d`), so that both are compared alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Address(pub u128);

/// The prefix of mapped IPv4 addresses.
const MAPPED: u128 = 0xffff_0000_0000;

impl Address {
    /// From the four bytes of an IPv4 address.
    #[must_use]
    pub const fn v4(octets: [u8; 4]) -> Self {
        Self(MAPPED | u32::from_be_bytes(octets) as u128)
    }

    /// From the sixteen bytes of an IPv6 address.
    #[must_use]
    pub const fn v6(octets: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(octets))
    }
}

impl fmt::Display for Address {
    /// As it is written: `10.0.0.1`, or `fd00::1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u32::try_from(self.0 ^ MAPPED) {
            Ok(v4) => Ipv4Addr::from_bits(v4).fmt(f),
            Err(_) => Ipv6Addr::from_bits(self.0).fmt(f),
        }
    }
}

/// All addresses that share so many leading bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    base: u128,
    bits: u32,
}

/// Why a text is not a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a network is an address with a length, such as `10.0.0.0/8` or `fd00::/8`, or a single address")]
pub struct NetworkError;

impl Network {
    /// The network of the first `bits` of an address (0 to 128); what is behind them is ignored.
    #[must_use]
    pub const fn new(address: Address, bits: u32) -> Self {
        let bits = if bits > 128 { 128 } else { bits };
        Self { base: address.0 & mask(bits), bits }
    }

    /// Whether the address is one of these.
    #[must_use]
    pub const fn contains(&self, address: Address) -> bool {
        address.0 & mask(self.bits) == self.base
    }

    /// Reads an address by `parse`, and the length behind the `/`; without one it is the address alone.
    ///
    /// # Errors
    /// When it is no address, or the length is none of its kind.
    pub fn read(text: &str, parse: impl FnOnce(&str) -> Option<Address>) -> Result<Self, NetworkError> {
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let widest = if address.contains(':') { 128 } else { 32 };
        let address = parse(address).ok_or(NetworkError)?;
        let Some(length) = length else { return Ok(Self::new(address, 128)) };
        let plain = !length.is_empty() && length.len() <= 3 && length.bytes().all(|b| b.is_ascii_digit());
        let length = u32::from_str(length).ok().filter(|length| plain && *length <= widest).ok_or(NetworkError)?;
        Ok(Self::new(address, 128 - widest + length))
    }
}

impl fmt::Display for Network {
    /// The base as hexadecimal digits and the length, as in `0xffff0a000000/104`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}/{}", self.base, self.bits)
    }
}

const fn mask(bits: u32) -> u128 {
    if bits == 0 { 0 } else { u128::MAX << (128 - bits) }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn address(text: &str) -> Option<Address> {
        Some(match text.parse().ok()? {
            IpAddr::V4(address) => Address::v4(address.octets()),
            IpAddr::V6(address) => Address::v6(address.octets()),
        })
    }

    #[test]
    fn a_network_holds_its_addresses_and_no_others() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("10.1.2.3/8", "10.9.9.9", "9.255.255.255"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("192.0.2.7/32", "192.0.2.7", "192.0.2.6"),
            ("0.0.0.0/0", "255.1.2.3", "2001:db8::1"),
            ("fd00::/8", "fdff::1", "fe00::"),
            ("::1", "::1", "::2"),
            ("10.0.0.0/8", "::ffff:10.0.0.1", "::ffff:11.0.0.1"),
        ] {
            let read = Network::read(network, address).unwrap();
            assert!(read.contains(address(inside).unwrap()), "{network} {inside}");
            assert!(!read.contains(address(outside).unwrap()), "{network} {outside}");
        }
        for bad in ["", "10.0.0.0/33", "10.0.0.0/", "10.0.0/8", "fd00::/129", "x/8", "10.0.0.0/+8", "10.0.0.0/8/8"] {
            assert!(Network::read(bad, address).is_err(), "{bad}");
        }
    }
}
