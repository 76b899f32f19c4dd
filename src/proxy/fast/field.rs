//! One field line, written with its name in lower case; and which names mean something to the proxy.

/// Writes a field of the head in `bytes`: in one copy where its line is written as we write it, which is the rule.
pub(super) fn write(out: &mut Vec<u8>, bytes: &[u8], field: &httparse::Header<'_>) {
    let start = out.len();
    let name = field.name.len();
    let at = field.name.as_ptr().addr().wrapping_sub(bytes.as_ptr().addr());
    // A value holds no line end, so a line of this length that ends here holds nothing but the value.
    match bytes.get(at..).and_then(|rest| rest.get(..name + field.value.len() + 4)) {
        Some(line) if line.ends_with(b"\r\n") && line[name..].starts_with(b": ") => out.extend_from_slice(line),
        _ => put(out, &[field.name.as_bytes(), b": ", field.value, b"\r\n"]),
    }
    out[start..start + name].make_ascii_lowercase();
}

pub(super) fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// What a field is to the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Passed on.
    Field,
    /// About this hop alone, and nothing comes of it.
    Hop,
    /// About this hop, in a request that the proxy has to settle.
    Settle,
    Connection,
    Coding,
    Length,
    Host,
    Cookie,
    /// Perhaps about where a request came from.
    Claim,
    Trailer,
    Kind,
    Caching,
}

/// The part of a name in any case. A look at its length and first letter spares most names a comparison.
pub(super) fn part_of(name: &str) -> Part {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    let first = name.as_bytes().first().map_or(0, u8::to_ascii_lowercase);
    match (name.len(), first) {
        (2, b't') if is("te") => Part::Settle,
        (4, b'h') if is("host") => Part::Host,
        (6, b'c') if is("cookie") => Part::Cookie,
        (6, b'e') if is("expect") => Part::Settle,
        (7, b't') if is("trailer") => Part::Trailer,
        (7, b'u') if is("upgrade") => Part::Settle,
        (10, b'c') if is("connection") => Part::Connection,
        (10, b'k') if is("keep-alive") => Part::Hop,
        (12, b'c') if is("content-type") => Part::Kind,
        (13, b'c') if is("cache-control") => Part::Caching,
        (14, b'c') if is("content-length") => Part::Length,
        (14, b'h') if is("http2-settings") => Part::Settle,
        (16, b'p') if is("proxy-connection") => Part::Hop,
        (17, b't') if is("transfer-encoding") => Part::Coding,
        (9.., b'x') | (9, b'f') => Part::Claim,
        _ => Part::Field,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(head: &str) -> String {
        let mut fields = [httparse::EMPTY_HEADER; 8];
        let mut out = Vec::new();
        let (_, fields) = httparse::parse_headers(head.as_bytes(), &mut fields).unwrap().unwrap();
        for field in fields {
            write(&mut out, head.as_bytes(), field);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_is_written_one_way_however_it_came() {
        for line in ["X-A: b\r\n", "X-A:b\r\n", "x-a:  b\r\n", "X-A: b \r\n", "X-a:\t b\t\r\n", "X-A: b\n", "X-A:b\n"] {
            assert_eq!(written(&format!("{line}\r\n")), "x-a: b\r\n", "{line:?}");
            assert_eq!(written(&format!("Y: Z\r\n{line}Z: Y\r\n\r\n")), "y: Z\r\nx-a: b\r\nz: Y\r\n", "{line:?}");
        }
        for line in ["X-A:\r\n", "X-A: \r\n", "X-A:  \r\n", "X-A:\n"] {
            assert_eq!(written(&format!("{line}b: c\r\n\r\n")), "x-a: \r\nb: c\r\n", "{line:?}");
        }
    }
}
