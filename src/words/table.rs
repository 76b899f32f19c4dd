//! Columns that line up. Knows nothing of what is in them.

use super::style::{Style, Tone};

/// One cell; every character is taken to be one column wide, as all our glyphs and names are.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// Plain text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }

    /// Text with a meaning.
    pub fn toned(tone: Tone, text: impl Into<String>) -> Self {
        Self { text: text.into(), tone }
    }
}

/// Lines up rows under a heading, two spaces between columns. A column that is empty in every row is left out.
/// `right` says which columns are numbers.
#[must_use]
pub fn render(heading: &[&str], right: &[usize], rows: &[Vec<Cell>], style: Style) -> String {
    let used: Vec<usize> = (0..heading.len())
        .filter(|column| rows.iter().any(|row| row.get(*column).is_some_and(|cell| !cell.text.is_empty())))
        .collect();
    let heading: Vec<Cell> = heading.iter().map(|text| Cell::toned(Tone::Faint, *text)).collect();
    let all = || std::iter::once(&heading).chain(rows);
    let width = |column: usize| {
        all().filter_map(|row| row.get(column)).map(|cell| cell.text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = used.iter().map(|column| width(*column)).collect();
    let mut text = String::new();
    for row in all() {
        let mut line = String::new();
        let mut owed = 0;
        for (column, width) in used.iter().zip(&widths) {
            let empty = Cell::default();
            let cell = row.get(*column).unwrap_or(&empty);
            let space = width - cell.text.chars().count();
            let before = if right.contains(column) { space } else { 0 };
            if cell.text.is_empty() {
                owed += width + 2;
            } else {
                line.extend(std::iter::repeat_n(' ', owed + before));
                line.push_str(&style.paint(cell.tone, &cell.text));
                owed = space - before + 2;
            }
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}
