//! Where a message body ends (RFC 9112 6.3, 7.1): takes the bytes that have come and gives pieces, without I/O.
//! Strict about chunk lines: what could be read in two ways is an error.

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::Malformed;

/// Longest chunk-size line, its extensions included.
const CHUNK_LINE_MAX: usize = 4 * 1024;
/// Most bytes of chunk extensions in one body: they carry nothing that is passed on.
const EXTENSIONS_MAX: usize = 16 * 1024;
/// Largest trailer section.
const TRAILERS_MAX: usize = 16 * 1024;
/// Most trailer fields.
const TRAILER_FIELDS_MAX: usize = 64;
/// Digits of the largest chunk size that fits.
const SIZE_DIGITS_MAX: usize = 16;

/// How a body is delimited, and how far it has been read.
#[derive(Debug)]
pub(in crate::proxy) enum Decoder {
    /// So many bytes are still to come; none when it has ended.
    Length(u64),
    Chunked(Chunked),
    /// The end of the connection is the end of the body.
    UntilClose,
}

/// A chunked body.
#[derive(Debug)]
pub(in crate::proxy) struct Chunked {
    at: At,
    extensions: usize,
}

/// What comes next in a chunked body.
#[derive(Debug)]
enum At {
    SizeLine,
    Data(u64),
    DataEnd,
    Trailers,
}

/// What the bytes at hand were good for.
#[derive(Debug)]
pub(super) enum Step {
    /// A piece of the body, never empty.
    Piece(Bytes),
    /// The trailers, which are the end.
    Trailers(HeaderMap),
    End,
    /// More bytes are needed.
    More,
}

/// The same by its place in the bytes at hand: behind so many of framing, which are done with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::proxy) enum Chunk {
    /// A piece of so many bytes, at least one.
    Piece {
        skip: usize,
        length: usize,
    },
    /// Trailers of so many bytes, which are the end.
    Trailers {
        skip: usize,
        length: usize,
    },
    End {
        skip: usize,
    },
    /// More bytes are needed.
    More {
        skip: usize,
    },
}

impl Decoder {
    pub(in crate::proxy) fn chunked() -> Self {
        Self::Chunked(Chunked { at: At::SizeLine, extensions: 0 })
    }

    pub(in crate::proxy) fn has_ended(&self) -> bool {
        matches!(self, Self::Length(0))
    }

    /// Takes the next step off the front of `bytes`.
    pub(super) fn step(&mut self, bytes: &mut BytesMut) -> Result<Step, Malformed> {
        match self.next(bytes)? {
            Chunk::Piece { skip, length } => {
                bytes.advance(skip);
                Ok(Step::Piece(bytes.split_to(length).freeze()))
            }
            Chunk::Trailers { skip, length } => {
                bytes.advance(skip);
                let trailers = trailers(&bytes.split_to(length))?;
                Ok(Step::Trailers(trailers))
            }
            Chunk::End { skip } => {
                bytes.advance(skip);
                Ok(Step::End)
            }
            Chunk::More { skip } => {
                bytes.advance(skip);
                Ok(Step::More)
            }
        }
    }

    /// What comes next in `bytes`, which have not been looked at before.
    pub(in crate::proxy) fn next(&mut self, bytes: &[u8]) -> Result<Chunk, Malformed> {
        let next = match self {
            Self::Length(0) => return Ok(Chunk::End { skip: 0 }),
            Self::Length(left) => return Ok(take(left, bytes, 0)),
            Self::UntilClose if bytes.is_empty() => return Ok(Chunk::More { skip: 0 }),
            Self::UntilClose => return Ok(Chunk::Piece { skip: 0, length: bytes.len() }),
            Self::Chunked(chunked) => chunked.next(bytes)?,
        };
        if matches!(next, Chunk::End { .. } | Chunk::Trailers { .. }) {
            *self = Self::Length(0);
        }
        Ok(next)
    }
}

/// The next of the `left` bytes, as many as there are behind `skip`.
fn take(left: &mut u64, bytes: &[u8], skip: usize) -> Chunk {
    let there = bytes.len() - skip;
    if there == 0 {
        return Chunk::More { skip };
    }
    let length = usize::try_from(*left).unwrap_or(usize::MAX).min(there);
    *left = left.saturating_sub(length as u64);
    Chunk::Piece { skip, length }
}

impl Chunked {
    fn next(&mut self, bytes: &[u8]) -> Result<Chunk, Malformed> {
        let mut skip = 0;
        loop {
            let rest = &bytes[skip..];
            match &mut self.at {
                At::SizeLine => {
                    let Some((size, length)) = self.size_line(rest)? else { return Ok(Chunk::More { skip }) };
                    skip += length;
                    self.at = if size == 0 { At::Trailers } else { At::Data(size) };
                }
                At::Data(left) => {
                    let piece = take(left, bytes, skip);
                    if *left == 0 {
                        self.at = At::DataEnd;
                    }
                    return Ok(piece);
                }
                At::DataEnd => match rest {
                    [b'\r', b'\n', ..] => {
                        skip += 2;
                        self.at = At::SizeLine;
                    }
                    [] | [b'\r'] => return Ok(Chunk::More { skip }),
                    _ => return Err(Malformed("a chunk is longer than its size")),
                },
                At::Trailers => return find_trailers(rest, skip),
            }
        }
    }

    /// The size of the next chunk and the length of its line, once that is whole.
    fn size_line(&mut self, bytes: &[u8]) -> Result<Option<(u64, usize)>, Malformed> {
        let Some(end) = bytes.iter().take(CHUNK_LINE_MAX).position(|&b| b == b'\n') else {
            return if bytes.len() < CHUNK_LINE_MAX {
                Ok(None)
            } else {
                Err(Malformed("a chunk-size line is too long"))
            };
        };
        let line = bytes[..end].strip_suffix(b"\r").ok_or(Malformed("a chunk-size line ends without CR"))?;
        let (size, rest) = chunk_size(line).ok_or(Malformed("a chunk size is no number"))?;
        // Blanks after the size are written by some servers that pad it.
        let blanks = rest.iter().take_while(|b| matches!(b, b'\t' | b' ')).count();
        let rest = &rest[blanks..];
        let is_extension = |b: &u8| matches!(b, b'\t' | b' '..=b'~' | 0x80..);
        if !rest.is_empty() && (rest[0] != b';' || !rest.iter().all(is_extension)) {
            return Err(Malformed("a chunk size is followed by something else"));
        }
        self.extensions += rest.len();
        if self.extensions > EXTENSIONS_MAX {
            return Err(Malformed("too many chunk extensions"));
        }
        Ok(Some((size, end + 1)))
    }
}

/// The hexadecimal number at the start, and what follows it.
fn chunk_size(line: &[u8]) -> Option<(u64, &[u8])> {
    let digits = line.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let (digits, rest) = line.split_at(digits);
    if digits.len() > SIZE_DIGITS_MAX {
        return None;
    }
    let size = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    Some((size, rest))
}

/// The end of a chunked body, once it is whole: checked, not taken apart.
fn find_trailers(bytes: &[u8], skip: usize) -> Result<Chunk, Malformed> {
    if bytes.starts_with(b"\r\n") {
        return Ok(Chunk::End { skip: skip + 2 });
    }
    let mut fields = [httparse::EMPTY_HEADER; TRAILER_FIELDS_MAX];
    let parsed = httparse::parse_headers(bytes, &mut fields).map_err(|_| Malformed("malformed trailers"))?;
    let httparse::Status::Complete((length, _)) = parsed else {
        let has_room = bytes.len() < TRAILERS_MAX;
        return if has_room { Ok(Chunk::More { skip }) } else { Err(Malformed("the trailers are too large")) };
    };
    if has_bare_lf(&bytes[..length]) {
        return Err(Malformed("a trailer line ends without CR"));
    }
    Ok(Chunk::Trailers { skip, length })
}

fn trailers(bytes: &[u8]) -> Result<HeaderMap, Malformed> {
    let malformed = Malformed("malformed trailers");
    let mut fields = [httparse::EMPTY_HEADER; TRAILER_FIELDS_MAX];
    let Ok(httparse::Status::Complete((_, fields))) = httparse::parse_headers(bytes, &mut fields) else {
        return Err(malformed);
    };
    let mut trailers = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| malformed)?;
        let value = HeaderValue::from_bytes(field.value).map_err(|_| malformed)?;
        trailers.append(name, value);
    }
    Ok(trailers)
}

fn has_bare_lf(bytes: &[u8]) -> bool {
    let mut before = 0;
    bytes.iter().any(|&b| std::mem::replace(&mut before, b) != b'\r' && b == b'\n')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What came out of a body: its data, its trailers, and what was left behind it; or what was wrong.
    type Decoded = Result<(Vec<u8>, Option<HeaderMap>, Vec<u8>), Malformed>;

    /// Decodes pieces as they come; none when they did not reach to the end.
    fn decode(mut decoder: Decoder, pieces: &[&[u8]]) -> Option<Decoded> {
        let (mut bytes, mut data, mut ended) = (BytesMut::new(), Vec::new(), None);
        for piece in pieces {
            bytes.extend_from_slice(piece);
            while ended.is_none() {
                match decoder.step(&mut bytes) {
                    Ok(Step::Piece(piece)) => {
                        assert!(!piece.is_empty());
                        data.extend_from_slice(&piece);
                    }
                    Ok(Step::Trailers(trailers)) => ended = Some(Some(trailers)),
                    Ok(Step::End) => ended = Some(None),
                    Ok(Step::More) => break,
                    Err(malformed) => return Some(Err(malformed)),
                }
            }
        }
        ended.map(|trailers| Ok((data, trailers, bytes.to_vec())))
    }

    fn chunked(body: &str) -> Option<Decoded> {
        decode(Decoder::chunked(), &[body.as_bytes()])
    }

    #[test]
    fn whole_bodies_are_read_to_their_end_and_not_beyond() {
        for (body, data, rest) in [
            ("0\r\n\r\n", "", ""),
            ("5\r\nhello\r\n0\r\n\r\nHTTP/1.1", "hello", "HTTP/1.1"),
            ("A\r\n0123456789\r\n00\r\n\r\n", "0123456789", ""),
            ("a;x=1;y=\"2\"\r\n0123456789\r\n0;z\r\n\r\n", "0123456789", ""),
            ("5  \r\nhello\r\n0\r\n\r\n", "hello", ""),
            ("0000000000000001\r\nx\r\n1\r\ny\r\n0\r\n\r\n", "xy", ""),
        ] {
            let (got, trailers, left) = chunked(body).unwrap().unwrap();
            assert_eq!((got, trailers, left), (data.into(), None, rest.into()), "{body:?}");
        }
        let (_, trailers, left) = chunked("0\r\nX-Sum: 1\r\nx-sum:  2 \r\n\r\nx").unwrap().unwrap();
        let trailers = trailers.unwrap();
        let sums: Vec<_> = trailers.get_all("x-sum").iter().collect();
        assert!(sums == ["1", "2"] && left == b"x", "{sums:?} {left:?}");
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_an_error() {
        let long_line = format!("1;{}\r\nx\r\n", "e".repeat(CHUNK_LINE_MAX));
        let many_extensions = format!("1;{}\r\nx\r\n", "e".repeat(4_000)).repeat(5);
        let large_trailers = format!("0\r\nx: {}\r\n", "t".repeat(TRAILERS_MAX));
        let many_trailers = format!("0\r\n{}\r\n", "x: 1\r\n".repeat(TRAILER_FIELDS_MAX + 1));
        for body in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x1\r\nx",
            " 1\r\nx",
            "1\nx\r\n",
            "1\r\nx\n",
            "1\r\nxy\r\n",
            "1\r\r\nx",
            "1 1\r\nx",
            "1;\x00\r\nx",
            "1;a\rb\r\nx",
            "1;\x7f\r\nx",
            "1,2\r\n",
            "g\r\n",
            "10000000000000000\r\n",
            "00000000000000001\r\nx\r\n",
            "0\r\n x: folded\r\n\r\n",
            "0\r\nx : 1\r\n\r\n",
            "0\r\nx: 1\n\r\n",
            "0\r\nx: a\rb\r\n\r\n",
            "0\r\nno colon\r\n\r\n",
            "0\r\n\n",
            "0\r\nx: 1\r\n\n",
            &long_line,
            &many_extensions,
            &large_trailers,
            &many_trailers,
        ] {
            assert!(matches!(chunked(body), Some(Err(_))), "{body:?} {:?}", chunked(body));
        }
    }

    #[test]
    fn a_part_is_not_the_whole() {
        let body = b"5;x\r\nhello\r\n1\r\n!\r\n0\r\na: b\r\n\r\n";
        for cut in 0..body.len() {
            assert_eq!(decode(Decoder::chunked(), &[&body[..cut]]), None, "{cut}");
        }
        assert_eq!(decode(Decoder::Length(3), &[b"ab"]), None);
        assert_eq!(decode(Decoder::UntilClose, &[b"ab"]), None);
        assert_eq!(decode(Decoder::Length(3), &[b"ab", b"cd"]).unwrap(), Ok((b"abc".into(), None, b"d".into())));
    }

    /// Bodies, whole and broken, and their parts.
    fn bodies() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..20).prop_map(|data| {
                let mut chunk = format!("{:x}\r\n", data.len()).into_bytes();
                chunk.extend(data);
                chunk.extend(b"\r\n");
                chunk
            }),
            prop::sample::select(vec![
                "0\r\n\r\n",
                "0\r\n",
                "a: b\r\n",
                "\r\n",
                "\n",
                "\r",
                "1",
                ";x",
                "ffffffffffffffff"
            ])
            .prop_map(|part| part.as_bytes().to_vec()),
            prop::collection::vec(any::<u8>(), 0..6),
        ];
        prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn how_the_bytes_come_changes_nothing(body in bodies(), cut in any::<prop::sample::Index>()) {
            let whole = decode(Decoder::chunked(), &[&body]);
            let (first, second) = body.split_at(cut.index(body.len() + 1));
            let mut bytes: Vec<&[u8]> = body.chunks(1).collect();
            bytes.push(&[]);
            for pieces in [&[first, second][..], &bytes] {
                match (&whole, decode(Decoder::chunked(), pieces)) {
                    (Some(Ok((data, trailers, rest))), Some(Ok((same, as_well, _)))) => {
                        prop_assert_eq!((data, trailers), (&same, &as_well));
                        prop_assert!(body.ends_with(rest));
                    }
                    (whole, split) => prop_assert_eq!(whole, &split),
                }
            }
        }
    }
}
