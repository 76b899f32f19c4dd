//! What became of every value of the input. A value is decided once: the first word about it stands.
//! Refuses to forget: what nobody decided is dropped, with the best reason there is.

use super::{
    Importer, Input,
    manifest::{Item, Object},
    report::{Entry, Fate, Report},
};

/// What every object of Kubernetes has.
const USUAL: [(&str, Fate, &str); 4] = [
    ("apiVersion", Fate::Kept, "says what the object is"),
    ("kind", Fate::Kept, "says what the object is"),
    ("metadata", Fate::Dropped, "labels, annotations and other metadata are for Kubernetes; Serin has none"),
    ("status", Fate::Dropped, "what the cluster saw; Serin keeps a state of its own"),
];

#[derive(Debug)]
pub(super) struct Ledger {
    files: Vec<File>,
    leaves: Vec<Leaf>,
    /// Names of the environment and the passwords that they stand for.
    secrets: Vec<(String, String)>,
}

#[derive(Debug)]
struct File {
    name: String,
    text: String,
    /// First bytes of lines.
    lines: Vec<usize>,
}

#[derive(Debug)]
struct Leaf {
    file: usize,
    offset: usize,
    object: String,
    path: String,
    fate: Option<(Fate, String)>,
}

impl Ledger {
    pub(super) fn new(inputs: &[Input]) -> Self {
        let file = |input: &Input| File {
            name: input.path.display().to_string().replace(char::is_control, "?"),
            lines: std::iter::once(0).chain(input.text.match_indices('\n').map(|(at, _)| at + 1)).collect(),
            text: input.text.clone(),
        };
        Self { files: inputs.iter().map(file).collect(), leaves: Vec::new(), secrets: Vec::new() }
    }

    pub(super) const fn len(&self) -> usize {
        self.leaves.len()
    }

    pub(super) fn enter(&mut self, file: usize, offset: usize, object: &str, path: &str) {
        let (object, path) = (object.to_owned(), path.to_owned());
        self.leaves.push(Leaf { file, offset, object, path, fate: None });
    }

    /// Means the same in the config.
    pub(super) fn kept(&mut self, item: &Item, how: impl Into<String>) {
        self.decide(item, Fate::Kept, &how.into());
    }

    /// Means nearly the same in the config.
    pub(super) fn approximated(&mut self, item: &Item, how: impl Into<String>) {
        self.decide(item, Fate::Approximated, &how.into());
    }

    /// Means nothing in the config.
    pub(super) fn dropped(&mut self, item: &Item, why: impl Into<String>) {
        self.decide(item, Fate::Dropped, &why.into());
    }

    /// Means nothing in the config after all, whatever was said; reasons for what was dropped already stand.
    pub(super) fn retracted(&mut self, item: &Item, why: &str) {
        for leaf in self.leaves.get_mut(item.leaves.clone()).into_iter().flatten() {
            if !matches!(leaf.fate, Some((Fate::Dropped, _))) {
                leaf.fate = Some((Fate::Dropped, why.to_owned()));
            }
        }
    }

    /// As [`Self::kept`] of a field that may be absent.
    pub(super) fn kept_field(&mut self, object: &Object, path: &[&str], how: &str) {
        if let Some(item) = object.item.at(path) {
            self.kept(item, how);
        }
    }

    /// A name of the environment that stands for this password alone, the same one each time.
    pub(super) fn secret(&mut self, name: &str, password: &str) -> String {
        let of = |name: &str| self.secrets.iter().find(|(other, _)| other == name);
        let numbered = (2_u64..).map(|n| format!("{name}_{n}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        let name = names.find(|name| of(name).is_none_or(|(_, known)| known == password)).unwrap_or_default();
        if of(&name).is_none() {
            self.secrets.push((name.clone(), password.to_owned()));
        }
        name
    }

    /// `file:line` of an item, for comments.
    pub(super) fn place(&self, item: &Item) -> String {
        let leaf = self.leaves.get(item.leaves.start);
        leaf.map(|leaf| format!("{}:{}", self.name(leaf), self.position(leaf).0)).unwrap_or_default()
    }

    /// The report, with what nobody decided.
    pub(super) fn report(self, importer: &Importer, remarks: Vec<String>) -> Report {
        let entries = self.leaves.iter().map(|leaf| {
            let (fate, reason) = leaf.fate.clone().unwrap_or_else(|| undecided(leaf, importer));
            let (line, column) = self.position(leaf);
            let (object, path) = (leaf.object.clone(), leaf.path.clone());
            Entry { file: self.name(leaf).to_owned(), line, column, object, path, fate, reason }
        });
        Report::new(entries.collect(), remarks)
    }

    fn decide(&mut self, item: &Item, fate: Fate, reason: &str) {
        for leaf in self.leaves.get_mut(item.leaves.clone()).into_iter().flatten() {
            leaf.fate.get_or_insert_with(|| (fate, reason.to_owned()));
        }
    }

    fn name(&self, leaf: &Leaf) -> &str {
        self.files.get(leaf.file).map_or("", |file| &file.name)
    }

    /// Line and column, both from 1, in characters.
    fn position(&self, leaf: &Leaf) -> (usize, usize) {
        let Some(file) = self.files.get(leaf.file) else { return (1, 1) };
        let line = file.lines.partition_point(|start| *start <= leaf.offset).max(1);
        let start = file.lines.get(line - 1).copied().unwrap_or(0);
        let before = file.text.get(start..leaf.offset).unwrap_or_default();
        (line, before.chars().count() + 1)
    }
}

fn undecided(leaf: &Leaf, importer: &Importer) -> (Fate, String) {
    let kind = leaf.object.split('/').next().unwrap_or_default();
    let path = without_indices(&leaf.path);
    let is_under =
        |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
    let own = importer.reasons.iter().filter(|(of, root, _)| (of.is_empty() || *of == kind) && is_under(root));
    if let Some((_, _, reason)) = own.max_by_key(|(_, root, _)| root.len()) {
        return (Fate::Dropped, (*reason).to_owned());
    }
    if !kind.is_empty() && !importer.reads.contains(&kind) && kind != "Service" {
        return (Fate::Dropped, format!("`serin import {}` reads no {kind}", importer.word));
    }
    if kind == "Service" && is_under("spec") {
        return (Fate::Dropped, "of a Service only its first port is read".to_owned());
    }
    let usual = USUAL.iter().find(|(root, _, _)| is_under(root) && !kind.is_empty());
    usual.map_or_else(
        || (Fate::Dropped, "Serin has nothing that corresponds to it".to_owned()),
        |(_, fate, reason)| (*fate, (*reason).to_owned()),
    )
}

/// `a[3].b` as `a[].b`.
fn without_indices(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for c in path.chars() {
        if !(c.is_ascii_digit() && text.ends_with('[')) {
            text.push(c);
        }
    }
    text
}
