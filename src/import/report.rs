//! The fidelity report: one entry for every value of the input, as data and as text.
//! Shows no value of the input: manifests hold secrets.

use std::fmt::Write as _;

use serde::Serialize;

use crate::words::{Style, Tone};

/// What became of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Fate {
    /// It means the same in the config.
    Kept,
    /// It means nearly the same; the reason says how.
    Approximated,
    /// It means nothing in the config; the reason says why, and which part of Serin will take it if one will.
    Dropped,
}

/// What became of one value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The file, as it was named.
    pub file: String,
    /// Line of the value, from 1; of a YAML alias that of its anchor.
    pub line: usize,
    /// Column of the value, from 1, in characters.
    pub column: usize,
    /// `Kind/name`.
    pub object: String,
    /// From the top of the object; list items are counted from 1.
    pub path: String,
    /// What became of it.
    pub fate: Fate,
    /// How, or why not.
    pub reason: String,
}

/// What became of everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// How many values were kept.
    pub kept: usize,
    /// How many were approximated.
    pub approximated: usize,
    /// How many were dropped.
    pub dropped: usize,
    /// What is true of the config as a whole.
    pub remarks: Vec<String>,
    /// Every scalar, empty list and empty mapping of the input, in its order.
    pub entries: Vec<Entry>,
}

impl Report {
    pub(super) fn new(entries: Vec<Entry>, remarks: Vec<String>) -> Self {
        let count = |fate: Fate| entries.iter().filter(|entry| entry.fate == fate).count();
        let (kept, approximated, dropped) = (count(Fate::Kept), count(Fate::Approximated), count(Fate::Dropped));
        Self { kept, approximated, dropped, remarks, entries }
    }

    /// For people: neighbours with one fate and one reason are one line, with how many they are.
    #[must_use]
    pub fn text(&self, style: Style) -> String {
        let mut text = format!("kept {}, approximated {}, dropped {}\n", self.kept, self.approximated, self.dropped);
        for remark in &self.remarks {
            let _ = writeln!(text, "note: {remark}");
        }
        let fates = [
            (Fate::Dropped, "Dropped", Tone::Bad),
            (Fate::Approximated, "Approximated", Tone::Held),
            (Fate::Kept, "Kept", Tone::Good),
        ];
        for (fate, title, tone) in fates {
            let groups = self.groups(fate);
            if !groups.is_empty() {
                let _ = writeln!(text, "\n{}", style.paint(tone, title));
            }
            for group in groups {
                let Some(first) = group.first() else { continue };
                let many = if group.len() > 1 { format!(" ({} values)", group.len()) } else { String::new() };
                let place = format!("{}:{}:{}", first.file, first.line, first.column);
                let what = format!("{} {}", first.object, shared(group));
                let _ = writeln!(text, "  {place}  {}{many}", what.trim());
                let _ = writeln!(text, "      {}", style.paint(Tone::Faint, &first.reason));
            }
        }
        text
    }

    fn groups(&self, fate: Fate) -> Vec<&[Entry]> {
        let alike = |a: &Entry, b: &Entry| {
            let is_same = (a.fate, &a.file, &a.object, &a.reason) == (b.fate, &b.file, &b.object, &b.reason);
            is_same && top(a) == top(b)
        };
        self.entries.chunk_by(alike).filter(|group| group[0].fate == fate).collect()
    }
}

/// What the paths of a group have in front, in whole parts.
fn shared(group: &[Entry]) -> &str {
    let Some(first) = group.first().map(|entry| &*entry.path) else { return "" };
    let mut end = first.len();
    for entry in group {
        let same = first.bytes().zip(entry.path.bytes()).take_while(|(a, b)| a == b).count();
        end = end.min(same);
        while end > 0 && !(is_whole(first, end) && is_whole(&entry.path, end)) {
            end -= 1;
        }
    }
    &first[..end]
}

/// Whether a part of the path ends there, and not in a quoted key.
fn is_whole(path: &str, end: usize) -> bool {
    let Some((before, rest)) = path.split_at_checked(end) else { return false };
    (rest.is_empty() || rest.starts_with(['.', '['])) && before.matches('"').count().is_multiple_of(2)
}

/// The first two parts of a path that has two: what is said together is about one field.
fn top(entry: &Entry) -> Option<(&str, &str)> {
    let (first, rest) = entry.path.split_once('.')?;
    Some((first, rest.split(['.', '[']).next().unwrap_or_default()))
}
