//! Takes the head of an HTTP/1 message apart where it lies, in one pass, and puts its names in lower case on the way.
//! Takes and refuses what httparse does, which the ordinary path reads heads with: the tests hold it against that.

use http::HeaderMap;
use wide::u8x16;

use super::super::edit;
use crate::engine::filter::HeaderEdits;

/// One field of a head: where its parts are among the head's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    start: usize,
    name_end: usize,
    value: Value,
    /// Behind its line end.
    end: usize,
    /// Its line is written as we write it: `name: value` and CRLF.
    is_usual: bool,
}

/// Where a value is among the head's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Value {
    from: usize,
    until: usize,
}

impl Value {
    pub(super) fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.from..self.until]
    }
}

/// What comes next in a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Field(Field),
    /// Its end; what follows begins here.
    End(usize),
    /// Not all of it is there.
    Partial,
    Malformed,
}

impl Field {
    /// In lower case.
    pub(super) fn name(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start..self.name_end]
    }

    /// Without blanks around it.
    pub(super) fn value(self) -> Value {
        self.value
    }

    /// Where the next one begins.
    pub(super) fn end(self) -> usize {
        self.end
    }
}

/// Reads the line at `start`.
#[inline]
pub(super) fn step(bytes: &mut [u8], start: usize) -> Step {
    let Some(name_end) = name_end(bytes, start) else { return Step::Partial };
    if name_end == start || bytes[name_end] != b':' {
        let is_end = name_end == start && matches!(bytes[start], b'\r' | b'\n');
        return if is_end { line_end(bytes, start).map_or_else(|step| step, Step::End) } else { Step::Malformed };
    }
    let from = name_end + 2;
    let Some(stop) = text_end(bytes, name_end + 1) else { return Step::Partial };
    // The blanks around the value are there as we write them, and none besides.
    if bytes[name_end + 1] == b' '
        && let Some([b'\r', b'\n']) = bytes[stop..].first_chunk()
        && (stop == from || !(is_blank(bytes[from]) || is_blank(bytes[stop - 1])))
    {
        return Step::Field(Field {
            start,
            name_end,
            value: Value { from, until: stop },
            end: stop + 2,
            is_usual: true,
        });
    }
    unusual(bytes, start, name_end, stop)
}

/// The same where the line may be written in another way.
#[cold]
fn unusual(bytes: &[u8], start: usize, name_end: usize, stop: usize) -> Step {
    let end = match line_end(bytes, stop) {
        Ok(end) => end,
        Err(unfinished) => return unfinished,
    };
    let blanks = |byte: &&u8| is_blank(**byte);
    let from = name_end + 1 + bytes[name_end + 1..stop].iter().take_while(blanks).count();
    let until = stop - bytes[from..stop].iter().rev().take_while(blanks).count();
    Step::Field(Field { start, name_end, value: Value { from, until }, end, is_usual: false })
}

/// The fields of a head that was read to its end, from behind its first line.
pub(super) fn fields(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
    head.split(|&b| b == b'\n').map_while(|line| {
        let (name, value) = line.split_at_checked(line.iter().position(|&b| b == b':')?)?;
        Some((name, value[1..].trim_ascii()))
    })
}

/// Behind the line end that begins here.
pub(super) fn line_end(bytes: &[u8], at: usize) -> Result<usize, Step> {
    match bytes[at..] {
        [b'\r', b'\n', ..] => Ok(at + 2),
        [b'\n', ..] => Ok(at + 1),
        [b'\r'] | [] => Err(Step::Partial),
        _ => Err(Step::Malformed),
    }
}

/// Bytes looked at together.
const LANES: usize = 16;

/// Sixteen bytes in which to look at those from `at` on, and how many there are before it; behind the last byte, zeros.
fn window(bytes: &[u8], at: usize) -> ([u8; LANES], usize) {
    if let Some(window) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        return (*window, 0);
    }
    if let Some(window) = bytes.last_chunk() {
        return (*window, at + LANES - bytes.len());
    }
    let mut window = [0; LANES];
    window[..bytes.len()].copy_from_slice(bytes);
    (window, at)
}

/// The first byte from `at` on that is no text, which ends at one that is not allowed or at a line end.
pub(super) fn text_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    while at < bytes.len() {
        let (window, skipped) = window(bytes, at);
        let window = u8x16::new(window);
        let is_control = window.min(u8x16::splat(b' ' - 1)).simd_eq(window);
        let odd = (is_control | window.simd_eq(u8x16::splat(0x7f))).to_bitmask() >> skipped;
        if odd == 0 {
            at += LANES - skipped;
            continue;
        }
        at += odd.trailing_zeros() as usize;
        if *bytes.get(at)? != b'\t' {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// Behind the name that begins at `start`, which is put in lower case: letters and hyphens together, other bytes one by one.
fn name_end(bytes: &mut [u8], start: usize) -> Option<usize> {
    let is_within = |byte: u8x16, first: u8| {
        let from_first = byte - u8x16::splat(first);
        from_first.min(u8x16::splat(25)).simd_eq(from_first)
    };
    let mut at = start;
    while at < bytes.len() {
        let (window, skipped) = window(bytes, at);
        let window = u8x16::new(window);
        let upper = is_within(window, b'A');
        let lower = window | (upper & u8x16::splat(b' '));
        let usual = is_within(lower, b'a') | window.simd_eq(u8x16::splat(b'-'));
        // The bits behind the lanes are set as well.
        let other = !usual.to_bitmask() >> skipped;
        let end = at + other.trailing_zeros() as usize;
        let before = other.wrapping_sub(1) & !other;
        if (upper.to_bitmask() >> skipped) & before != 0 {
            bytes[at..end].make_ascii_lowercase();
        }
        at = end;
        let Some(byte) = bytes.get_mut(at) else { break };
        if *byte == b':' {
            return Some(at);
        }
        let lower = NAME[usize::from(*byte)];
        if lower == 0 {
            return Some(at);
        }
        *byte = lower;
        at += 1;
    }
    None
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The bytes of tokens (RFC 9110 5.6.2) in lower case; 0 for others.
pub(super) const NAME: [u8; 256] = {
    let mut lower = [0; 256];
    let bytes = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~";
    let mut at = 0;
    while at < bytes.len() {
        lower[bytes[at] as usize] = bytes[at].to_ascii_lowercase();
        at += 1;
    }
    lower
};

/// Copies a head to where it goes, but for what stays behind: in as few pieces as there are.
#[derive(Debug)]
pub(super) struct Passage {
    /// What is copied next begins here.
    from: usize,
}

impl Passage {
    pub(super) fn new(from: usize) -> Self {
        Self { from }
    }

    /// The field goes along.
    pub(super) fn pass(&mut self, out: &mut Vec<u8>, bytes: &[u8], field: Field) {
        if !field.is_usual {
            self.leave(out, bytes, field);
            put(out, &[field.name(bytes), b": ", field.value().of(bytes), b"\r\n"]);
        }
    }

    /// The field does not.
    pub(super) fn leave(&mut self, out: &mut Vec<u8>, bytes: &[u8], field: Field) {
        out.extend_from_slice(&bytes[self.from..field.start]);
        self.from = field.end;
    }

    /// The rest up to `end`.
    pub(super) fn end(&self, out: &mut Vec<u8>, bytes: &[u8], end: usize) {
        out.extend_from_slice(&bytes[self.from..end]);
    }
}

pub(super) fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// The fields that these changes, one after the other, put into a head that has none of their names.
pub(super) fn write_own<'e>(edits: impl IntoIterator<Item = &'e HeaderEdits>, out: &mut Vec<u8>) {
    let mut own = HeaderMap::new();
    edits.into_iter().for_each(|edits| edit::headers(&mut own, edits));
    for (name, value) in &own {
        put(out, &[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a reader makes of fields: names in lower case and values, and how long they are.
    type Taken = Result<Option<(Vec<(String, Vec<u8>)>, usize)>, ()>;

    fn by_httparse(bytes: &[u8]) -> Taken {
        let mut fields = [httparse::EMPTY_HEADER; 64];
        match httparse::parse_headers(bytes, &mut fields) {
            Ok(httparse::Status::Complete((length, fields))) => {
                let fields = fields.iter().map(|field| (field.name.to_ascii_lowercase(), field.value.to_vec()));
                Ok(Some((fields.collect(), length)))
            }
            Ok(httparse::Status::Partial) => Ok(None),
            Err(_) => Err(()),
        }
    }

    fn by_step(bytes: &[u8]) -> Taken {
        let mut bytes = bytes.to_vec();
        let (mut fields, mut at) = (Vec::new(), 0);
        loop {
            match step(&mut bytes, at) {
                Step::Field(field) => {
                    let name = String::from_utf8(field.name(&bytes).to_vec()).unwrap();
                    fields.push((name, field.value().of(&bytes).to_vec()));
                    at = field.end;
                }
                Step::End(length) => {
                    let again = super::fields(&bytes[..length]);
                    let again = again.map(|(name, value)| (String::from_utf8(name.to_vec()).unwrap(), value.to_vec()));
                    assert_eq!(again.collect::<Vec<_>>(), fields);
                    return Ok(Some((fields, length)));
                }
                Step::Partial => return Ok(None),
                Step::Malformed => return Err(()),
            }
        }
    }

    /// The head as it is passed on, without the fields of this name.
    fn passed(head: &str, without: &str) -> String {
        let mut bytes = head.as_bytes().to_vec();
        let (mut out, mut passage, mut at) = (Vec::new(), Passage::new(0), 0);
        while let Step::Field(field) = step(&mut bytes, at) {
            at = field.end;
            if field.name(&bytes) == without.as_bytes() {
                passage.leave(&mut out, &bytes, field);
            } else {
                passage.pass(&mut out, &bytes, field);
            }
        }
        passage.end(&mut out, &bytes, at);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_is_passed_on_one_way_however_it_came() {
        for line in ["X-A: b\r\n", "X-A:b\r\n", "x-a:  b\r\n", "X-A: b \r\n", "X-a:\t b\t\r\n", "X-A: b\n", "X-A:b\n"] {
            assert_eq!(passed(&format!("{line}\r\n"), ""), "x-a: b\r\n", "{line:?}");
            assert_eq!(passed(&format!("Y: Z\r\n{line}Z: Y\r\n\r\n"), ""), "y: Z\r\nx-a: b\r\nz: Y\r\n", "{line:?}");
            assert_eq!(passed(&format!("Y: Z\r\n{line}Z: Y\r\n\r\n"), "x-a"), "y: Z\r\nz: Y\r\n", "{line:?}");
        }
        for line in ["X-A:\r\n", "X-A: \r\n", "X-A:  \r\n", "X-A:\n", "X-A: \n", "X-A:\t\r\n"] {
            assert_eq!(passed(&format!("{line}b: c\r\n\r\n"), ""), "x-a: \r\nb: c\r\n", "{line:?}");
        }
        assert_eq!(passed("A: 1\r\nB: 2\r\nA: 3\r\nA: 4\r\nC: 5\r\n\r\n", "a"), "b: 2\r\nc: 5\r\n");
    }

    #[test]
    fn every_byte_everywhere_is_taken_as_httparse_takes_it() {
        for head in ["Name: a value of some length\r\nb: c\r\n\r\nGET", "a:b\n\nx", "A:  \t x \t y \r\n\r\n"] {
            for at in 0..=head.len() {
                assert_eq!(by_step(&head.as_bytes()[..at]), by_httparse(&head.as_bytes()[..at]), "{head:?} to {at}");
                for byte in 0..=255 {
                    let mut bytes = head.as_bytes().to_vec();
                    bytes.insert(at, byte);
                    assert_eq!(by_step(&bytes), by_httparse(&bytes), "{:?}", bytes.escape_ascii().to_string());
                    if at < head.len() {
                        bytes.remove(at + 1);
                        assert_eq!(by_step(&bytes), by_httparse(&bytes), "{:?}", bytes.escape_ascii().to_string());
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn heads_of_any_kind_are_taken_as_httparse_takes_them(
            pieces in prop::collection::vec(
                prop_oneof![
                    prop::sample::select(vec!["\r\n", "\n", "\r", ":", ": ", " ", "\t", "name", "X-Y", "value", "\u{e9}", "\0", "\x7f"])
                        .prop_map(|text| text.as_bytes().to_vec()),
                    prop::collection::vec(any::<u8>(), 0..12),
                ],
                0..24,
            ),
        ) {
            let bytes = pieces.concat();
            prop_assert_eq!(by_step(&bytes), by_httparse(&bytes));
        }
    }
}
