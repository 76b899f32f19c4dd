//! One record as it lies in a file: `crc length json` and a newline, so that `cat` shows it and a checksum guards it.
//! Knows nothing of what a record means.

/// Longest record, in bytes of JSON.
pub const RECORD_BYTES_MAX: usize = 64 * 1024;
/// `crc` is eight digits, `length` at most ten, and each is followed by a space.
const HEADER_BYTES_MAX: usize = 8 + 1 + 10 + 1;

/// What comes next in a file of frames.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<'f> {
    /// A sound record, and what follows it.
    Record {
        /// Its JSON.
        json: &'f [u8],
        /// The bytes after it.
        rest: &'f [u8],
    },
    /// Nothing.
    End,
    /// The beginning of a record whose writing was cut short. It was never acknowledged.
    Torn,
    /// Something that no cut-short writing explains.
    Bad(&'static str),
}

/// The frame of a record. The checksum (CRC-32 as in zlib) covers the length and the JSON, as lower-case hexadecimal.
/// JSON as `serde_json` writes it has no raw newline, so a frame has exactly one, at its end.
#[must_use]
pub fn encode(json: &[u8]) -> Vec<u8> {
    let mut body = format!("{} ", json.len()).into_bytes();
    body.extend_from_slice(json);
    let mut frame = format!("{:08x} ", crc32fast::hash(&body)).into_bytes();
    frame.append(&mut body);
    frame.push(b'\n');
    frame
}

/// Reads the first frame of `bytes`; a record of more than `max` bytes is bad.
///
/// A whole frame ends with its only newline, and a torn one is a true beginning of a whole one. So what is torn holds
/// no newline, and a damaged frame, however its length was damaged, is not taken for a torn one and dropped in silence.
/// Zeros up to the end, which no frame has, are torn as well, and so is such a beginning before them: some file systems
/// lengthen a file before its data arrive, and those may arrive in part.
#[must_use]
pub fn next(bytes: &[u8], max: usize) -> Next<'_> {
    let next = first(bytes, max);
    if !matches!(next, Next::Bad(_)) {
        return next;
    }
    let written = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let is_torn = written < bytes.len() && matches!(first(&bytes[..written], max), Next::Torn | Next::End);
    if is_torn { Next::Torn } else { next }
}

fn first(bytes: &[u8], max: usize) -> Next<'_> {
    if bytes.is_empty() {
        return Next::End;
    }
    let cut_short = !bytes.contains(&b'\n');
    let Some((crc, body, length)) = header(bytes) else {
        let plausible = cut_short && bytes.len() < HEADER_BYTES_MAX && header_could_follow(bytes);
        return if plausible { Next::Torn } else { Next::Bad("a record does not begin as one") };
    };
    if length > max {
        return Next::Bad("a record is longer than any that is written");
    }
    let digits = body.iter().position(|&byte| byte == b' ').unwrap_or(0);
    let end = digits + 1 + length;
    let (Some(covered), Some(terminator)) = (body.get(..end), body.get(end)) else {
        return if cut_short { Next::Torn } else { Next::Bad("a record is shorter than it says") };
    };
    if *terminator != b'\n' {
        return Next::Bad("a record does not end where it says");
    }
    if format!("{:08x}", crc32fast::hash(covered)).as_bytes() != crc {
        return Next::Bad("the checksum of a record is wrong");
    }
    Next::Record { json: &covered[digits + 1..], rest: &body[end + 1..] }
}

/// The checksum's digits, what it covers and all that follows, and the length.
fn header(bytes: &[u8]) -> Option<(&[u8], &[u8], usize)> {
    let (crc, after) = bytes.split_at_checked(8)?;
    let body = after.strip_prefix(b" ")?;
    let digits = body.iter().position(|&byte| byte == b' ').filter(|at| (1..=10).contains(at))?;
    let text = std::str::from_utf8(&body[..digits]).ok()?;
    let length = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())??;
    Some((crc, body, length))
}

/// Whether these few bytes can be the beginning of a header.
fn header_could_follow(bytes: &[u8]) -> bool {
    bytes.iter().enumerate().all(|(at, byte)| match at {
        0..8 => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        8 => *byte == b' ',
        _ => byte.is_ascii_digit(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_can_be_read_by_eye_and_by_program() {
        let frame = encode(br#"{"a":1}"#);
        assert_eq!(String::from_utf8_lossy(&frame), "9e58a832 7 {\"a\":1}\n");
        assert_eq!(next(&frame, 7), Next::Record { json: br#"{"a":1}"#, rest: b"" });
        assert!(matches!(next(&frame, 6), Next::Bad(_)));
    }

    /// It was called damage, and rollouts did not go on by themselves after the power had gone.
    #[test]
    fn a_beginning_whose_length_came_before_the_rest_of_its_bytes_is_torn() {
        let frame = encode(br#"{"text":"some text"}"#);
        for cut in 0..frame.len() {
            for zeros in [1, frame.len() - cut, 600] {
                let mut torn = frame[..cut].to_vec();
                torn.resize(cut + zeros, 0);
                assert_eq!(next(&torn, 100), Next::Torn, "cut at {cut}, and {zeros} zeros");
                torn.extend_from_slice(&frame);
                assert!(matches!(next(&torn, 100), Next::Bad(_)), "cut at {cut}, {zeros} zeros, and more follows");
            }
        }
    }

    #[test]
    fn every_cut_is_torn_and_every_flipped_bit_is_bad() {
        let frame = encode(br#"{"text":"some text"}"#);
        assert_eq!(next(&[], 100), Next::End);
        for cut in 1..frame.len() {
            assert_eq!(next(&frame[..cut], 100), Next::Torn, "cut at {cut}");
        }
        for at in 0..frame.len() {
            for bit in 0..8 {
                let mut flipped = frame.clone();
                flipped[at] ^= 1 << bit;
                assert!(matches!(next(&flipped, 100), Next::Bad(_)), "bit {bit} of byte {at}");
                flipped.extend_from_slice(&frame);
                assert!(matches!(next(&flipped, 100), Next::Bad(_)), "bit {bit} of byte {at}, more follows");
            }
        }
    }

    #[test]
    fn a_tail_of_zeros_is_torn_and_zeros_before_a_record_are_bad() {
        assert_eq!(next(&[0; 64], 100), Next::Torn);
        let mut bytes = vec![0; 64];
        bytes.extend_from_slice(&encode(b"{}"));
        assert!(matches!(next(&bytes, 100), Next::Bad(_)));
    }
}
