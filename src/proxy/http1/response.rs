//! A response head out of bytes (RFC 9112 4, 5, 6.3), without I/O: the fields, how its body is delimited, and whether
//! the connection goes on. Refuses what two readers could frame in two ways; repairs only equal lengths said twice.

use std::mem::MaybeUninit;

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Version, header};

use super::{super::headers, Malformed, decode::Decoder};

/// Most fields of a response head, all on the stack while it is parsed.
const FIELDS_MAX: usize = 100;

/// A response head.
#[derive(Debug)]
pub(super) struct Head {
    /// Without the reason phrase, which says nothing (RFC 9112 4).
    pub(super) response: Response<()>,
    pub(super) body: Decoder,
    /// The connection may serve another request once the body has been read.
    pub(super) keeps_alive: bool,
}

/// Where a field is in its head.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    name: (usize, usize),
    value: (usize, usize),
}

/// Takes a whole head off the front of `bytes`; none when it is not whole yet. `places` is room to be used again.
pub(super) fn parse(bytes: &mut BytesMut, to_head: bool, places: &mut Vec<Place>) -> Result<Option<Head>, Malformed> {
    let Some(line) = locate(bytes, places)? else { return Ok(None) };
    let status = StatusCode::from_u16(line.status).map_err(|_| Malformed("the status is out of range"))?;
    let head = bytes.split_to(line.length).freeze();
    let mut fields = HeaderMap::with_capacity(places.len());
    let mut says = Says::default();
    for place in &*places {
        let name = HeaderName::from_bytes(&head[place.name.0..place.name.1]);
        let value = HeaderValue::from_maybe_shared(head.slice(place.value.0..place.value.1));
        let (Ok(name), Ok(value)) = (name, value) else { return Err(Malformed("malformed header fields")) };
        match name {
            header::CONTENT_LENGTH => says.length = true,
            header::TRANSFER_ENCODING => says.coding = true,
            header::CONNECTION => says.connection = true,
            _ => {}
        }
        fields.append(name, value);
    }
    let (body, keeps_alive) = frame(&mut fields, says, status, line.version, to_head)?;
    let mut response = Response::new(());
    *response.status_mut() = status;
    *response.version_mut() = line.version;
    *response.headers_mut() = fields;
    Ok(Some(Head { response, body, keeps_alive }))
}

/// Which fields about framing a head has: to search it for those that it has not costs more than to note them.
#[derive(Debug, Default, Clone, Copy)]
struct Says {
    length: bool,
    coding: bool,
    connection: bool,
}

/// The status line, and how long the head is.
struct StatusLine {
    status: u16,
    version: Version,
    length: usize,
}

/// Splits a head into its fields; none when it is not whole yet, else how long it is.
fn split_head<'h, 'b>(
    bytes: &'b [u8],
    head: &mut httparse::Response<'h, 'b>,
    fields: &'h mut [MaybeUninit<httparse::Header<'b>>],
) -> Result<Option<usize>, Malformed> {
    // httparse skips empty lines before a head; here they are bytes that nobody asked for.
    if bytes.first().is_some_and(|&first| first != b'H') {
        return Err(Malformed("no HTTP/1 status line"));
    }
    match httparse::ParserConfig::default().parse_response_with_uninit_headers(head, bytes, fields) {
        Ok(httparse::Status::Complete(length)) => Ok(Some(length)),
        Ok(httparse::Status::Partial) => Ok(None),
        Err(httparse::Error::TooManyHeaders) => Err(Malformed("too many header fields")),
        Err(httparse::Error::Version | httparse::Error::Status) => Err(Malformed("no HTTP/1 status line")),
        Err(_) => Err(Malformed("malformed header fields")),
    }
}

/// Finds the fields of a head.
fn locate(bytes: &[u8], places: &mut Vec<Place>) -> Result<Option<StatusLine>, Malformed> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut []);
    let Some(length) = split_head(bytes, &mut head, &mut fields)? else { return Ok(None) };
    let start = bytes.as_ptr().addr();
    let range = |part: &[u8]| (part.as_ptr().addr() - start, part.as_ptr().addr() - start + part.len());
    places.clear();
    places.extend(head.headers.iter().map(|field| Place {
        name: range(field.name.as_bytes()),
        // An empty value is no part of the head to httparse.
        value: if field.value.is_empty() { (0, 0) } else { range(field.value) },
    }));
    let version = if head.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    Ok(Some(StatusLine { status: head.code.unwrap_or_default(), version, length }))
}

/// How the body is delimited (RFC 9112 6.3), and whether the connection goes on after it (9.3).
fn frame(
    fields: &mut HeaderMap,
    says: Says,
    status: StatusCode,
    version: Version,
    to_head: bool,
) -> Result<(Decoder, bool), Malformed> {
    let length = if says.length { content_length(fields)? } else { None };
    let has_option = |option| says.connection && headers::has_token(fields, &header::CONNECTION, option);
    let keeps_alive = !has_option("close") && (version == Version::HTTP_11 || has_option("keep-alive"));
    if status.is_informational() || status == StatusCode::NO_CONTENT {
        fields.remove(header::CONTENT_LENGTH); // RFC 9110 8.6: it must not be there.
        return Ok((Decoder::Length(0), keeps_alive && status != StatusCode::SWITCHING_PROTOCOLS));
    }
    if to_head || status == StatusCode::NOT_MODIFIED {
        return Ok((Decoder::Length(0), keeps_alive));
    }
    if says.coding {
        if version == Version::HTTP_10 {
            return Err(Malformed("HTTP/1.0 with Transfer-Encoding"));
        }
        let mut codings = fields.get_all(header::TRANSFER_ENCODING).iter();
        let is_chunked = codings.next().is_some_and(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
        if !is_chunked || codings.next().is_some() {
            return Err(Malformed("a transfer coding other than chunked"));
        }
        // Both: chunked decides, and whoever wrote that is not to be trusted with another request (6.1).
        return Ok((Decoder::chunked(), keeps_alive && length.is_none()));
    }
    Ok(length.map_or((Decoder::UntilClose, false), |length| (Decoder::Length(length), keeps_alive)))
}

/// The length, if there is one: digits, and the same wherever it is repeated (RFC 9110 8.6). Leaves it once.
fn content_length(fields: &mut HeaderMap) -> Result<Option<u64>, Malformed> {
    let mut values = fields.get_all(header::CONTENT_LENGTH).iter();
    let Some(first) = values.next() else { return Ok(None) };
    if values.next().is_none()
        && let Some(length) = digits(first.as_bytes())
    {
        return Ok(Some(length));
    }
    let length = {
        let mut all = headers::tokens(fields, &header::CONTENT_LENGTH).map(digits);
        all.next().flatten().filter(|length| all.all(|other| other == Some(*length)))
    };
    let length = length.ok_or(Malformed("malformed Content-Length"))?;
    fields.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    Ok(Some(length))
}

/// A number in digits alone.
pub(in crate::proxy) fn digits(value: &[u8]) -> Option<u64> {
    let digit = |b: u8| b.checked_sub(b'0').filter(|digit| *digit <= 9).map(u64::from);
    let number = value.iter().try_fold(0_u64, |number, &b| number.checked_mul(10)?.checked_add(digit(b)?));
    number.filter(|_| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(head: &str, to_head: bool) -> Result<Option<Head>, Malformed> {
        parse(&mut BytesMut::from(head), to_head, &mut Vec::new())
    }

    /// What a head says: status, how its body is delimited, and whether the connection goes on.
    fn framing(head: &str, to_head: bool) -> Option<(u16, String, bool)> {
        let head = parsed(head, to_head).ok()??;
        let body = match head.body {
            Decoder::Length(length) => length.to_string(),
            Decoder::Chunked(_) => "chunked".to_owned(),
            Decoder::UntilClose => "until close".to_owned(),
        };
        Some((head.response.status().as_u16(), body, head.keeps_alive))
    }

    #[test]
    fn the_end_of_a_body_is_where_rfc_9112_says() {
        const TE: &str = "Transfer-Encoding: chunked\r\n";
        for (line, fields, to_head, body, keeps_alive) in [
            ("1.1 200", "Content-Length: 5\r\n", false, "5", true),
            ("1.1 200", "Content-Length: 5\r\nContent-Length:5\r\n", false, "5", true),
            ("1.1 200", "Content-Length: 5, 5\r\n", false, "5", true),
            ("1.1 200", "Content-Length: 5\r\nConnection: x, Close\r\n", false, "5", false),
            ("1.1 200", TE, false, "chunked", true),
            ("1.1 200", "Transfer-Encoding: Chunked\r\n", false, "chunked", true),
            ("1.1 200", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", false, "chunked", false),
            ("1.1 200", "", false, "until close", false),
            ("1.0 200", "Content-Length: 5\r\n", false, "5", false),
            ("1.0 200", "Content-Length: 5\r\nConnection: Keep-Alive\r\n", false, "5", true),
            ("1.0 200", "Connection: keep-alive\r\n", false, "until close", false),
            ("1.1 200", "Content-Length: 5\r\n", true, "0", true),
            ("1.1 200", TE, true, "0", true),
            ("1.1 304", "Content-Length: 5\r\n", false, "0", true),
            ("1.1 204", "Content-Length: 5\r\n", false, "0", true),
            ("1.1 204", TE, false, "0", true),
            ("1.1 100", "", false, "0", true),
            ("1.1 101", "Upgrade: x\r\n", false, "0", false),
            ("1.1 999", "Content-Length: 5\r\n", false, "5", true),
        ] {
            let head = format!("HTTP/{line} Reason\r\n{fields}\r\n");
            let status = line[4..].parse().unwrap();
            assert_eq!(framing(&head, to_head), Some((status, body.to_owned(), keeps_alive)), "{head:?}");
        }
    }

    #[test]
    fn a_head_that_can_be_read_in_two_ways_is_refused() {
        let too_many = "a: b\r\n".repeat(FIELDS_MAX + 1);
        for fields in [
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: 5, 6\r\n",
            "Content-Length: 5x\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: -5\r\n",
            "Content-Length: 0x5\r\n",
            "Content-Length: 5 5\r\n",
            "Content-Length:\r\n",
            "Content-Length: 18446744073709551616\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked, chunked\r\n",
            "Transfer-Encoding: identity\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Transfer-Encoding:\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
            "X: 1\r\n folded\r\n",
            "X: 1\r\n\tfolded\r\n",
            "X : 1\r\n",
            " X: 1\r\n",
            "X: a\rSet-Cookie: b\r\n",
            "X: a\0b\r\n",
            "X\r\n",
            ": 1\r\n",
            "X(: 1\r\n",
            &too_many,
        ] {
            for to_head in [false, true] {
                let framed = framing(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"), to_head);
                let no_body = to_head && fields.starts_with("Transfer-Encoding");
                assert_eq!(framed.is_some(), no_body, "{fields:?} {framed:?}");
            }
        }
        for start in [
            "HTTX/1.1 200 OK",
            "HTTP/2 200",
            "HTTP/1.2 200 OK",
            "HTTP/1.1 099 X",
            "HTTP/1.1 20 OK",
            "HTTP/1.1 2000 OK",
            "HTTP/1.1 200 O\rK",
            "HTTP/1.1  200 OK",
            "\r\nHTTP/1.1 200 OK",
            "\nHTTP/1.1 200 OK",
            "http/1.1 200 OK",
            "junk",
        ] {
            assert!(parsed(&format!("{start}\r\n\r\n"), false).is_err(), "{start:?}");
        }
        assert_eq!(framing("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false), None);
    }

    #[test]
    fn fields_are_kept_as_they_came_and_bytes_behind_the_head_stay() {
        let mut bytes = BytesMut::from(
            "HTTP/1.1 404\r\nX-B: 1\r\nx-a:\t \r\nSet-Cookie: a=1 \r\nSet-Cookie: \u{e9}\r\nContent-Length: 05, 5\r\n\r\nhello",
        );
        let head = parse(&mut bytes, false, &mut Vec::new()).unwrap().unwrap();
        let fields = head.response.headers();
        let cookies: Vec<_> = fields.get_all("set-cookie").iter().map(HeaderValue::as_bytes).collect();
        assert_eq!(cookies, [&b"a=1"[..], "\u{e9}".as_bytes()]);
        assert!(fields["x-b"] == "1" && fields["x-a"].is_empty() && fields["content-length"] == "5", "{fields:?}");
        assert_eq!((head.response.status().as_u16(), &bytes[..]), (404, &b"hello"[..]));
        let no_content = parsed("HTTP/1.1 204 X\r\nContent-Length: 5\r\n\r\n", false).unwrap().unwrap();
        assert!(no_content.response.headers().is_empty());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            start in prop::sample::select(vec!["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: "]),
            bytes in prop::collection::vec(any::<u8>(), 0..80),
            end in prop::sample::select(vec!["", "\r\n\r\n", "\n\n"]),
        ) {
            let mut head = BytesMut::from(start);
            head.extend_from_slice(&bytes);
            head.extend_from_slice(end.as_bytes());
            let length = head.len();
            if let Ok(None) = parse(&mut head, false, &mut Vec::new()) {
                prop_assert_eq!(head.len(), length, "a part of a head is left alone");
            }
        }
    }
}
