//! The PROXY protocol's header, versions 1 and 2: where a balancer in front says the client comes from. Strict: what is not
//! exactly such a header ends the connection. Reads no byte behind it.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use tokio::{io::AsyncReadExt, net::TcpStream};

/// How version 2 begins.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// A line of version 1 that says nothing.
const UNKNOWN: &str = "PROXY UNKNOWN";
/// Longest header of version 1, with its line end.
const LINE_MAX: usize = 107;
/// Most bytes of addresses and extensions of version 2 that are taken.
const PAYLOAD_MAX: usize = 4096;

/// Reads the header. The client's address; none when the balancer speaks for itself, as its health checks do.
///
/// # Errors
/// `InvalidData` for what is no such header; otherwise what the socket says.
pub(super) async fn read(stream: &mut TcpStream) -> io::Result<Option<SocketAddr>> {
    let mut start = [0; SIGNATURE.len()];
    stream.read_exact(&mut start).await?;
    if &start == SIGNATURE { version_2(stream).await } else { version_1(stream, &start).await }
}

async fn version_1(stream: &mut TcpStream, start: &[u8]) -> io::Result<Option<SocketAddr>> {
    if !start.starts_with(b"PROXY ") {
        return Err(malformed("no PROXY header came first"));
    }
    let mut line = start.to_vec();
    while !line.ends_with(b"\n") {
        // Only what is certain to be of the line is taken: what follows belongs to TLS or HTTP.
        let mut ahead = [0; LINE_MAX];
        let room = LINE_MAX - line.len();
        let seen = stream.peek(&mut ahead[..room]).await?;
        if seen == 0 {
            return Err(malformed("the PROXY line has no end"));
        }
        let take = ahead[..seen].iter().position(|&byte| byte == b'\n').map_or(seen, |end| end + 1);
        stream.read_exact(&mut ahead[..take]).await?;
        line.extend_from_slice(&ahead[..take]);
    }
    match std::str::from_utf8(&line).ok().and_then(|text| text.strip_suffix("\r\n")) {
        // What stands behind it says nothing.
        Some(text) if text == UNKNOWN || text.strip_prefix(UNKNOWN).is_some_and(|rest| rest.starts_with(' ')) => {
            Ok(None)
        }
        text => text.and_then(line_1).map(Some).ok_or_else(|| malformed("the PROXY line is not as it should be")),
    }
}

/// `PROXY TCP4 192.0.2.1 198.51.100.1 56324 443`.
fn line_1(line: &str) -> Option<SocketAddr> {
    let parts: Vec<&str> = line.split(' ').collect();
    let ["PROXY", family, source, target, from, to] = parts[..] else { return None };
    let [source, target]: [IpAddr; 2] = [source.parse().ok()?, target.parse().ok()?];
    let fits = match family {
        "TCP4" => source.is_ipv4() && target.is_ipv4(),
        "TCP6" => source.is_ipv6() && target.is_ipv6(),
        _ => false,
    };
    let port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u16>().ok()).flatten();
    let [from, _to] = [port(from)?, port(to)?];
    fits.then(|| SocketAddr::new(source, from))
}

async fn version_2(stream: &mut TcpStream) -> io::Result<Option<SocketAddr>> {
    let mut fixed = [0; 4];
    stream.read_exact(&mut fixed).await?;
    let [version_and_command, family, high, low] = fixed;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > PAYLOAD_MAX {
        return Err(malformed("the PROXY header is too long"));
    }
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await?;
    match version_and_command {
        // LOCAL: the balancer speaks for itself.
        0x20 => Ok(None),
        // Neither IPv4 nor IPv6: nothing is said.
        0x21 if family == 0x00 => Ok(None),
        0x21 => {
            address_2(family, &payload).map(Some).ok_or_else(|| malformed("the PROXY header is not as it should be"))
        }
        _ => Err(malformed("a version or command of PROXY that is not known")),
    }
}

/// The source of TCP over IPv4 or IPv6.
fn address_2(family: u8, payload: &[u8]) -> Option<SocketAddr> {
    match family {
        0x11 => {
            let (source, ports) = (payload.first_chunk::<4>()?, payload.get(8..12)?);
            Some((Ipv4Addr::from(*source), u16::from_be_bytes([ports[0], ports[1]])).into())
        }
        0x21 => {
            let (source, ports) = (payload.first_chunk::<16>()?, payload.get(32..36)?);
            Some((Ipv6Addr::from(*source), u16::from_be_bytes([ports[0], ports[1]])).into())
        }
        _ => None,
    }
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_version_1_are_taken_strictly() {
        let source = |line: &str| line_1(line).map(|source| source.to_string());
        assert_eq!(source("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443"), Some("192.0.2.1:56324".to_owned()));
        assert_eq!(source("PROXY TCP6 2001:db8::1 ::1 1 2"), Some("[2001:db8::1]:1".to_owned()));
        for wrong in [
            "PROXY TCP4 192.0.2.1 198.51.100.1 56324",
            "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443 ",
            "PROXY TCP4  192.0.2.1 198.51.100.1 56324 443",
            "PROXY TCP4 ::1 ::1 1 2",
            "PROXY TCP6 192.0.2.1 198.51.100.1 1 2",
            "PROXY TCP4 192.0.2.1 198.51.100.1 65536 443",
            "PROXY TCP4 192.0.2.1 198.51.100.1 +1 443",
            "PROXY UDP4 192.0.2.1 198.51.100.1 1 2",
            "proxy TCP4 192.0.2.1 198.51.100.1 1 2",
            "PROXY",
        ] {
            assert_eq!(source(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn short_addresses_of_version_2_are_refused() {
        assert_eq!(address_2(0x11, &[192, 0, 2, 1, 0, 0, 0, 0, 1, 0]), None);
        let v4 = [192, 0, 2, 1, 0, 0, 0, 0, 1, 0, 0, 80];
        assert_eq!(address_2(0x11, &v4), Some(([192, 0, 2, 1], 256).into()));
        assert_eq!(address_2(0x21, &[0; 20]), None);
        assert_eq!(address_2(0x21, &[0; 36]), Some((Ipv6Addr::UNSPECIFIED, 0).into()));
        assert_eq!(address_2(0x12, &v4), None);
    }
}
