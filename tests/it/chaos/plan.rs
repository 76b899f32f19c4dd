//! What one request is to meet on its way, drawn from the seed and its number: the upstream reads its part off the head.

use std::time::Duration;

/// How the upstream deals with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Whole,
    /// In pieces, with pauses between them.
    Slow,
    /// Informational answers first.
    Informed,
    /// A 500, with a body of its own.
    Failed,
    /// The connection is reset without an answer.
    Reset,
    /// Bytes that are no HTTP.
    Garbage,
    /// Half of the body, then the end.
    Truncated,
    /// Never anything.
    Stalled,
}

/// How the upstream delimits its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    Length,
    Chunked,
    UntilClose,
}

/// What the upstream does with its connection after a whole answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    Keep,
    /// Says that it closes, and does.
    Close,
    /// Closes without a word, so many milliseconds later.
    Vanish(u64),
    /// Sends a second answer that nobody asked for, together with the first.
    Poison,
}

/// How the client behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Plain,
    /// Sends its request a few bytes at a time.
    Trickles,
    /// Reads the answer a few bytes at a time.
    ReadsSlowly,
    /// Goes away within its request.
    LeavesEarly,
    /// Goes away while it waits, or within the answer.
    LeavesLate,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Plan {
    pub token: String,
    pub method: &'static str,
    pub upload: usize,
    /// The upload is sent in chunks.
    pub chunked: bool,
    /// Bytes of the answer's body.
    pub size: usize,
    pub fate: Fate,
    pub frame: Frame,
    pub after: After,
    pub manner: Manner,
    /// Has a field that the fast path leaves to the ordinary one.
    pub odd: bool,
}

impl Plan {
    pub fn new(seed: u64, number: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number);
        let method = match random.u8(..20) {
            0..12 => "GET",
            12..14 => "HEAD",
            14..18 => "POST",
            _ => "PUT",
        };
        let has_body = matches!(method, "POST" | "PUT");
        let fate = match random.u16(..1000) {
            0..700 => Fate::Whole,
            700..780 => Fate::Slow,
            780..830 => Fate::Informed,
            830..880 => Fate::Failed,
            880..920 => Fate::Reset,
            920..955 => Fate::Garbage,
            955..995 => Fate::Truncated,
            _ => Fate::Stalled,
        };
        let frame = match random.u8(..10) {
            0..5 => Frame::Length,
            5..9 => Frame::Chunked,
            _ if fate == Fate::Truncated => Frame::Length, // Without a length nobody can tell.
            _ => Frame::UntilClose,
        };
        let after = match random.u8(..20) {
            0..15 => After::Keep,
            15..17 => After::Close,
            17..19 => After::Vanish(random.u64(..8)),
            _ => After::Poison,
        };
        let manner = match random.u8(..100) {
            _ if fate == Fate::Stalled => Manner::LeavesLate,
            0..80 => Manner::Plain,
            80..86 => Manner::Trickles,
            86..92 => Manner::ReadsSlowly,
            92..95 => Manner::LeavesEarly,
            _ => Manner::LeavesLate,
        };
        Self {
            token: format!("{seed:x}.{number:x}"),
            method,
            upload: if has_body { size(&mut random) } else { 0 },
            chunked: random.u8(..3) == 0,
            size: size(&mut random).max(2),
            fate,
            frame,
            after,
            manner,
            odd: random.u8(..4) == 0,
        }
    }

    /// What the proxy may send again by itself: bodies of up to 64 KiB are kept for that.
    pub fn may_be_repeated(&self) -> bool {
        self.method != "POST" && self.upload <= 64 * 1024
    }

    pub fn leaves(&self) -> bool {
        matches!(self.manner, Manner::LeavesEarly | Manner::LeavesLate)
    }

    /// The upstream's part, as the value of a field.
    pub fn told(&self) -> String {
        let after = match self.after {
            After::Keep => "keep".to_owned(),
            After::Close => "close".to_owned(),
            After::Vanish(millis) => format!("vanish{millis}"),
            After::Poison => "poison".to_owned(),
        };
        format!("{:?} {:?} {after} {}", self.fate, self.frame, self.size)
    }
}

/// What an upstream was told.
#[derive(Debug, Clone, Copy)]
pub struct Told {
    pub fate: Fate,
    pub frame: Frame,
    pub after: After,
    pub size: usize,
}

impl Told {
    pub fn parse(value: &str) -> Option<Self> {
        let mut words = value.split(' ');
        let fate = match words.next()? {
            "Whole" => Fate::Whole,
            "Slow" => Fate::Slow,
            "Informed" => Fate::Informed,
            "Failed" => Fate::Failed,
            "Reset" => Fate::Reset,
            "Garbage" => Fate::Garbage,
            "Truncated" => Fate::Truncated,
            "Stalled" => Fate::Stalled,
            _ => return None,
        };
        let frame = match words.next()? {
            "Length" => Frame::Length,
            "Chunked" => Frame::Chunked,
            "UntilClose" => Frame::UntilClose,
            _ => return None,
        };
        let after = match words.next()? {
            "keep" => After::Keep,
            "close" => After::Close,
            "poison" => After::Poison,
            vanish => After::Vanish(vanish.strip_prefix("vanish")?.parse().ok()?),
        };
        Some(Self { fate, frame, after, size: words.next()?.parse().ok()? })
    }
}

fn size(random: &mut fastrand::Rng) -> usize {
    match random.u8(..40) {
        0..24 => random.usize(..200),
        24..36 => random.usize(..20_000),
        36..39 => random.usize(..100_000),
        _ => random.usize(..400_000),
    }
}

/// The one body of that length that belongs to a token.
pub fn body(token: &str, length: usize) -> Vec<u8> {
    let unit = format!("{token}|").into_bytes();
    let mut all = unit.repeat(length / unit.len() + 1);
    all.truncate(length);
    all
}

/// A pause within a slow or trickling side.
pub async fn breathe(random: &mut fastrand::Rng) {
    // why: the slowness is what is tried, nothing is waited for.
    tokio::time::sleep(Duration::from_millis(random.u64(..4))).await;
}
