//! One field line, written with its name in lower case; and which names mean something to the proxy.

/// Writes a field of the head in `bytes`: in one copy where its line is written as we write it, which is the rule. Returns
/// what its name, now in lower case, is to the proxy.
pub(super) fn write(out: &mut Vec<u8>, bytes: &[u8], field: &httparse::Header<'_>) -> Part {
    let start = out.len();
    let name = field.name.len();
    let at = field.name.as_ptr().addr().wrapping_sub(bytes.as_ptr().addr());
    // A value holds no line end, so a line of this length that ends here holds nothing but the value.
    match bytes.get(at..).and_then(|rest| rest.get(..name + field.value.len() + 4)) {
        Some(line) if line.ends_with(b"\r\n") && line[name..].starts_with(b": ") => out.extend_from_slice(line),
        _ => put(out, &[field.name.as_bytes(), b": ", field.value, b"\r\n"]),
    }
    let name = &mut out[start..start + name];
    lower(name);
    part_of(name)
}

/// Puts a field's name, which is ASCII, in lower case: eight bytes at once, the last ones perhaps twice.
fn lower(name: &mut [u8]) {
    for eight in name.chunks_exact_mut(8) {
        if let Ok(eight) = eight.try_into() {
            lower_eight(eight);
        }
    }
    match name.last_chunk_mut::<8>() {
        Some(eight) => lower_eight(eight),
        None => name.make_ascii_lowercase(),
    }
}

fn lower_eight(eight: &mut [u8; 8]) {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let bytes = u64::from_le_bytes(*eight);
    // The upper bit of each byte: from `A` on, and beyond `Z`. ASCII leaves room for both sums.
    let from_a = bytes + EACH * u64::from(0x80 - b'A');
    let beyond_z = bytes + EACH * u64::from(0x7f - b'Z');
    let is_upper = from_a & !beyond_z & (EACH * 0x80);
    *eight = (bytes | (is_upper >> 2)).to_le_bytes();
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
    Date,
}

/// The part of a name in lower case.
pub(super) fn part_of(name: &[u8]) -> Part {
    match name {
        [b'c', ..] => match name {
            b"cookie" => Part::Cookie,
            b"connection" => Part::Connection,
            b"content-type" => Part::Kind,
            b"cache-control" => Part::Caching,
            b"content-length" => Part::Length,
            _ => Part::Field,
        },
        [b't', ..] => match name {
            b"te" => Part::Settle,
            b"trailer" => Part::Trailer,
            b"transfer-encoding" => Part::Coding,
            _ => Part::Field,
        },
        b"host" => Part::Host,
        b"date" => Part::Date,
        b"http2-settings" | b"upgrade" | b"expect" => Part::Settle,
        b"keep-alive" | b"proxy-connection" => Part::Hop,
        [b'x', ..] | b"forwarded" => Part::Claim,
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
            let _part = write(&mut out, head.as_bytes(), field);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn names_of_any_length_come_in_lower_case() {
        let letters: Vec<u8> = (0..0x80).cycle().skip(0x20).take(200).collect();
        for start in 0..100 {
            for length in 0..40 {
                let mut name = letters[start..start + length].to_vec();
                let expected = name.to_ascii_lowercase();
                lower(&mut name);
                assert_eq!(name, expected);
            }
        }
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
