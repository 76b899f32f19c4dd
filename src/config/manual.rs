//! What each field of the file means, in one place: `serin explain`, the schema for editors and the reference are made of it.
//! Refuses to drift: tests compare it with the shapes that the readers use.

mod codes;
mod fields;
mod reference;
mod schema;
#[cfg(test)]
mod tests;

pub use codes::{code_in_a_line, codes, explain_code};
pub use reference::reference;
pub use schema::schema;

use super::{
    foreign,
    shape::{self, Shape},
    suggest,
};

/// What may be written for a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Any text.
    Text,
    /// A name: letters, digits, `-`, `_` and `.`.
    Name,
    /// A text that is never shown.
    Secret,
    /// A condition as Argo Rollouts writes it.
    Condition,
    /// A file or folder, relative to the config file.
    Path,
    /// Where something answers.
    Url,
    /// An IP address and a port.
    Address,
    /// `true` or `false`.
    Flag,
    /// `800ms`, `30s`, `1h30m`.
    Duration,
    /// `64KiB`.
    Size,
    /// `5%`, `0.25%`, `2500ppm`.
    Share,
    /// A share, or a whole number that is a part of `maxTrafficWeight`.
    Weight,
    /// Percentage points: `0.1pp`.
    Points,
    /// A number of at least so much.
    Number(f64),
    /// A whole number from, to.
    Whole(u64, u64),
    /// One of some words.
    Word(&'static [&'static str]),
    /// A mapping with the fields of the shape of this path.
    Map(&'static str),
    /// A list of any of these.
    List(&'static [Kind]),
    /// A mapping whose keys are names that the user chooses, to any of these.
    Named(&'static [Kind]),
}

/// A field that must be there.
pub const REQUIRED: &str = "required";

/// What one field means.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What may be written: any of these.
    pub kinds: &'static [Kind],
    /// What holds without it: a value, a short remark, or [`REQUIRED`].
    pub default: &'static str,
    /// A value, as it is written on one line.
    pub example: &'static str,
    /// What it does, in a sentence or two without the closing full stop.
    pub says: &'static str,
}

impl Field {
    /// Whether the file is refused without it.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.default == REQUIRED
    }
}

/// A field and where it is.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The path of its mapping, as `services.<name>`; empty at the top.
    pub at: &'static str,
    /// The field.
    pub field: &'static Field,
}

impl Entry {
    /// The whole path, as `services.<name>.stable`.
    #[must_use]
    pub fn path(&self) -> String {
        if self.at.is_empty() { self.field.name.to_owned() } else { format!("{}.{}", self.at, self.field.name) }
    }
}

/// Every field that is read, in the order of the shapes.
pub fn entries() -> impl Iterator<Item = Entry> {
    shape::ALL.iter().flat_map(|shape| of(shape))
}

/// The fields of one shape.
fn of(shape: &'static Shape) -> impl Iterator<Item = Entry> {
    let find = |name: &&str| {
        let (_, fields) = fields::all().find(|(path, _)| *path == shape.path)?;
        fields.iter().find(|field| field.name == *name)
    };
    shape.fields.iter().filter_map(find).map(|field| Entry { at: shape.path, field })
}

/// What a question about fields finds.
#[derive(Debug)]
pub enum Found {
    /// These fields; one or several.
    Fields(Vec<Entry>),
    /// A field that this release does not read, with the path of its mapping.
    Later(&'static str),
    /// A field of another tool, with what to do instead.
    Foreign(&'static str),
    /// Nothing, but a field of this name is near.
    Near(&'static str),
    /// Nothing.
    Nothing,
}

/// Finds fields by name, by the end of a path, or by a whole path, with or without names and indexes in it:
/// `setWeight`, `steps[].setWeight`, `services.web.stable`.
#[must_use]
pub fn find(question: &str) -> Found {
    let wanted = segments(question);
    // A user's name for a version may be a word of ours, so that is the second guess.
    for named in [false, true] {
        let found: Vec<Entry> = entries().filter(|entry| ends_with(&segments(&entry.path()), &wanted, named)).collect();
        if !found.is_empty() {
            return Found::Fields(found);
        }
    }
    let last = wanted.last().copied().unwrap_or_default();
    if let Some(shape) = shape::ALL.iter().find(|shape| shape.later.contains(&last)) {
        return Found::Later(shape.path);
    }
    let near = suggest::closest(last, shape::ALL.iter().flat_map(|shape| shape.fields.iter().copied()));
    match (near, foreign::advice(if wanted.len() == 1 { "" } else { question }, last)) {
        (Some(near), Some(_)) if suggest::is_slip(last, near) => Found::Near(near),
        (_, Some(advice)) => Found::Foreign(advice),
        (Some(near), None) => Found::Near(near),
        (None, None) => Found::Nothing,
    }
}

/// The fields inside of a field, if it holds a mapping.
#[must_use]
pub fn inside(entry: &Entry) -> Vec<Entry> {
    let paths = maps(entry.field.kinds);
    shape::ALL.iter().filter(|shape| paths.contains(&shape.path)).flat_map(|shape| of(shape)).collect()
}

/// The paths of all mappings that a value of these kinds may hold.
fn maps(kinds: &[Kind]) -> Vec<&'static str> {
    let of = |kind: &Kind| match *kind {
        Kind::Map(path) => vec![path],
        Kind::List(kinds) | Kind::Named(kinds) => maps(kinds),
        _ => Vec::new(),
    };
    kinds.iter().flat_map(of).collect()
}

/// `steps[].x` and `steps[3].x` are `steps`, `x`.
fn segments(path: &str) -> Vec<&str> {
    let bare = |segment| -> &str { str::split(segment, '[').next().unwrap_or_default() };
    path.split('.').map(bare).filter(|segment| !segment.is_empty()).collect()
}

/// Whether a path ends in the wanted words. `<name>` may be left out, or, if `named`, be any word.
fn ends_with(path: &[&str], wanted: &[&str], named: bool) -> bool {
    let Some((last, before)) = wanted.split_last() else { return true };
    match path.split_last() {
        Some((segment, rest)) if segment == last => ends_with(rest, before, named),
        Some((&"<name>", rest)) => (named && ends_with(rest, before, named)) || ends_with(rest, wanted, named),
        _ => false,
    }
}

impl Kind {
    /// The kind in words, as in `a duration such as …`.
    #[must_use]
    pub fn words(&self) -> String {
        match *self {
            Self::Text => "text".to_owned(),
            Self::Name => "name".to_owned(),
            Self::Secret => "secret text".to_owned(),
            Self::Condition => "condition".to_owned(),
            Self::Path => "path, relative to the config file".to_owned(),
            Self::Url => "URL".to_owned(),
            Self::Address => "IP address and port".to_owned(),
            Self::Flag => "`true` or `false`".to_owned(),
            Self::Duration => "duration (`800ms`, `30s`, `1h30m`)".to_owned(),
            Self::Size => "size (`8192`, `64KiB`, `1MiB`)".to_owned(),
            Self::Share => "share (`5%`, `0.25%`, `2500ppm`)".to_owned(),
            Self::Weight => "weight (`5` of `maxTrafficWeight`, `0.1%`, `1000ppm`)".to_owned(),
            Self::Points => "percentage points (`0.1pp`)".to_owned(),
            Self::Number(min) => format!("number from {min}"),
            Self::Whole(min, max) if max >= 1_000_000_000 => format!("whole number from {min}"),
            Self::Whole(min, max) => format!("whole number from {min} to {max}"),
            Self::Word(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
            Self::Map(_) => "mapping".to_owned(),
            Self::List(kinds) => format!("list of {}", any(kinds)),
            Self::Named(kinds) => format!("mapping of names to {}", any(kinds)),
        }
    }
}

/// Any of these kinds, in words.
#[must_use]
pub fn any(kinds: &[Kind]) -> String {
    kinds.iter().map(Kind::words).collect::<Vec<_>>().join(" or ")
}
