//! Broken files with what is said about them, in `corpus/*.txt`: a title, the file, the answer.
//! `UPDATE_CORPUS=1 cargo test` writes the answers anew; read the difference before committing it.

use std::{env, fmt::Write as _, fs, path::Path};

use super::{Checked, check};

const TITLE: &str = "======== ";
const ANSWER: &str = "--------\n";

/// Set to what must never be seen in an answer.
const NEVER_SHOWN: &str = "value-of-the-environment";

fn environment(name: &str) -> Option<String> {
    matches!(name, "NAME" | "TOKEN").then(|| NEVER_SHOWN.to_owned())
}

/// What is said about a text, with what always holds.
fn answer(title: &str, text: &str) -> String {
    let Checked { config, diagnostics } = check(text, Path::new("serin.yaml"), &environment);
    assert_eq!(config.is_none(), diagnostics.errors() > 0, "{title}");
    assert!(!diagnostics.items().is_empty(), "{title}: nothing is said");
    for item in diagnostics.items() {
        let (line, column) = diagnostics.position(item).expect("a position");
        assert!(line >= 1 && column >= 1 && line <= text.lines().count().max(1) + 1, "{title}: {line}:{column}");
    }
    let rendered = diagnostics.to_string();
    let json = diagnostics.to_json().to_string();
    for secret in [NEVER_SHOWN, "hunter"] {
        assert!(!rendered.contains(secret) && !json.contains(secret), "{title}: {rendered}");
    }
    rendered
}

/// Compares every case of a file; returns how many there are.
pub(super) fn compare(name: &str) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/corpus").join(name).with_extension("txt");
    let stored = fs::read_to_string(&path).unwrap();
    let mut cases = stored.split(TITLE);
    let mut written = cases.next().unwrap_or_default().to_owned();
    let mut count = 0;
    for case in cases {
        let (title, rest) = case.split_once('\n').unwrap();
        let text = rest.strip_prefix(ANSWER).map_or_else(
            || rest.split_once(&format!("\n{ANSWER}")).map(|(text, _)| format!("{text}\n")).unwrap(),
            |_| String::new(),
        );
        let _ = write!(written, "{TITLE}{title}\n{text}{ANSWER}{}\n", answer(title, &text));
        count += 1;
    }
    if env::var_os("UPDATE_CORPUS").is_some() {
        fs::write(&path, &written).unwrap();
    } else if written != stored {
        let differs = written.lines().zip(stored.lines()).find(|(now, then)| now != then);
        panic!("{name}.txt: {differs:#?}\nsee the difference with UPDATE_CORPUS=1");
    }
    count
}

#[test]
fn broken_files_are_answered_as_written_down() {
    let names = [
        "yaml",
        "fields",
        "listeners",
        "service",
        "steps",
        "guard",
        "environment",
        "warnings",
        "templates",
        "policy",
        "failure",
        "routes",
        "upstream",
        "gates",
        "foreign",
    ];
    assert!(names.iter().map(|name| compare(name)).sum::<usize>() >= 60);
}
