//! How a file looks: it opens with its purpose, stays short, and holds nothing unfinished.

use super::{
    assert_kept,
    ratchet::{LONG_FILES, LONG_FUNCTIONS},
    source::{Source, sources},
};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
/// Names that say nothing of what is inside.
const EMPTY_NAMES: [&str; 8] = ["utils", "util", "common", "helpers", "helper", "manager", "managers", "misc"];
/// Macros that mark something unfinished.
const UNFINISHED: [&str; 3] = ["todo", "unimplemented", "dbg"];

fn opening(source: &Source) -> Vec<String> {
    let opens = source.text.starts_with("//!") || source.text.starts_with("#![doc");
    let what = "a file opens with `//!`: what it owns, and what it refuses";
    if opens { Vec::new() } else { vec![source.breach(0, what)] }
}

fn names(source: &Source) -> Vec<String> {
    let file = source.path.split('/').map(|part| (0, part.trim_end_matches(".rs").to_owned()));
    let inline = source.modules().into_iter().map(|(name, body)| (body.start, name));
    let empty = file.chain(inline).filter(|(_, name)| EMPTY_NAMES.contains(&name.as_str()));
    empty.map(|(at, name)| source.breach(at, &format!("`{name}` says nothing of what is inside"))).collect()
}

fn unfinished(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for name in UNFINISHED {
        let called = source.words(name).filter(|at| source.code[at + name.len()..].starts_with('!'));
        found.extend(called.map(|at| source.breach(at, &format!("`{name}!` has no place in what is committed"))));
    }
    for at in source.words("ignore") {
        if source.code[..at].trim_end().ends_with("#[") {
            found.push(source.breach(at, "an ignored test tests nothing: repair it or remove it"));
        }
    }
    found
}

/// In tests only: a test waits for an event, with a deadline.
fn sleeps(source: &Source) -> Vec<String> {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut found = Vec::new();
    for at in source.words("sleep").filter(|at| source.is_test(*at)) {
        let called = source.code[at + "sleep".len()..].starts_with('(');
        let above = source.line(at).checked_sub(2).map_or("", |line| lines[line].trim());
        if called && !above.starts_with("// why:") {
            found.push(source.breach(at, "a test waits for events; where it must sleep, `// why: …` stands above"));
        }
    }
    found
}

fn long_files(sources: &[Source], admitted: &[(&str, &str)]) -> Vec<String> {
    let long = sources.iter().filter(|source| source.text.lines().count() > FILE_LINES_MAX);
    let found = long.map(|source| (source.path.clone(), source.text.lines().count())).collect();
    ratchet(found, admitted, FILE_LINES_MAX)
}

fn long_functions(sources: &[Source], admitted: &[(&str, &str)]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        let long = source.functions().into_iter().filter(|(_, _, lines)| *lines > FUNCTION_LINES_MAX);
        found.extend(long.map(|(name, _, lines)| (format!("{}::{name}", source.path), lines)));
    }
    ratchet(found, admitted, FUNCTION_LINES_MAX)
}

/// What is too long must be in the list, and what is in the list must be too long: the list only gets shorter by itself.
fn ratchet(found: Vec<(String, usize)>, admitted: &[(&str, &str)], max: usize) -> Vec<String> {
    let surplus = admitted.iter().filter(|(name, _)| !found.iter().any(|(long, _)| long == name));
    let mut breaches: Vec<String> = surplus
        .map(|(name, _)| {
            format!("{name}: is gone or no longer over {max} lines: remove it from tests/house/ratchet.rs")
        })
        .collect();
    for (name, lines) in found {
        match admitted.iter().find(|(known, _)| *known == name) {
            Some((_, reason)) if !reason.is_empty() => {}
            Some(_) => breaches.push(format!("{name}: tests/house/ratchet.rs gives no reason")),
            None => breaches.push(format!(
                "{name}: {lines} lines, the alarm is at {max}: take it apart, or give a reason in tests/house/ratchet.rs"
            )),
        }
    }
    breaches
}

fn everything() -> Vec<Source> {
    ["src", "tests", "benches"].into_iter().flat_map(sources).collect()
}

#[test]
fn each_file_says_what_it_is_and_holds_nothing_unfinished() {
    let sources = everything();
    assert!(sources.iter().any(|source| source.path == "tests/house/style.rs"));
    let rules = [opening, names, unfinished, sleeps];
    assert_kept(&rules.iter().flat_map(|rule| sources.iter().flat_map(rule)).collect::<Vec<_>>());
}

#[test]
fn files_and_functions_can_be_seen_at_once() {
    assert_kept(&long_files(&everything(), LONG_FILES));
    assert_kept(&long_functions(&everything(), LONG_FUNCTIONS));
}

#[test]
fn the_rules_of_style_see_what_they_forbid() {
    let seen = |rule: fn(&Source) -> Vec<String>, path: &str, text: &str| rule(&Source::new(path, text));
    assert_eq!(seen(opening, "src/x.rs", "// no\nfn a() {}").len(), 1);
    assert_eq!(seen(opening, "src/x.rs", "//! Yes."), [""; 0]);
    assert_eq!(seen(names, "src/utils/x.rs", ""), ["src/utils/x.rs:1: `utils` says nothing of what is inside"]);
    assert_eq!(seen(names, "src/x.rs", "\nmod helpers {}"), ["src/x.rs:2: `helpers` says nothing of what is inside"]);
    assert_eq!(seen(names, "src/commonplace.rs", "mod utilities {}"), [""; 0]);
    assert_eq!(seen(unfinished, "src/x.rs", "fn a() { todo!() }\nfn b() { dbg!(1); unimplemented!() }").len(), 3);
    assert_eq!(seen(unfinished, "src/x.rs", "#[test]\n#[ignore]\nfn a() {}").len(), 1);
    assert_eq!(seen(unfinished, "src/x.rs", "#[ignore = \"slow\"]\nfn a() {}").len(), 1);
    assert_eq!(seen(unfinished, "src/x.rs", "// todo!\nlet todo = \"dbg!\"; ignore();"), [""; 0]);
    for text in ["thread::sleep(x)", "std::thread::sleep(x)", "tokio::time::sleep(x).await", "sleep(x)"] {
        assert_eq!(seen(sleeps, "tests/it/x.rs", text).len(), 1, "{text}");
        assert_eq!(seen(sleeps, "src/x.rs", text), [""; 0], "{text}");
        assert_eq!(seen(sleeps, "src/x.rs", &format!("#[cfg(test)]\nmod tests {{\n{text}\n}}")).len(), 1, "{text}");
        assert_eq!(seen(sleeps, "tests/it/x.rs", &format!("// why: the clock has to move\n{text}")), [""; 0], "{text}");
    }
}

#[test]
fn the_ratchet_admits_what_is_listed_and_nothing_else() {
    let long = Source::new("src/long.rs", &format!("//! Long.\nfn f() {{\n{}}}\n", "x;\n".repeat(600)));
    let short = Source::new("src/short.rs", "//! Short.\nfn f() {}\n");
    let files = [long, short];
    let listed = [("src/long.rs", "one table")];
    assert_eq!(long_files(&files, &listed), [""; 0]);
    assert_eq!(
        long_files(&files, &[]),
        ["src/long.rs: 603 lines, the alarm is at 600: take it apart, or give a reason in tests/house/ratchet.rs"]
    );
    assert_eq!(long_files(&files, &[("src/long.rs", "")]), ["src/long.rs: tests/house/ratchet.rs gives no reason"]);
    assert_eq!(
        long_files(&files[1..], &listed),
        ["src/long.rs: is gone or no longer over 600 lines: remove it from tests/house/ratchet.rs"]
    );
    assert_eq!(long_functions(&files, &[]).len(), 1);
    assert_eq!(long_functions(&files, &[("src/long.rs::f", "one match")]), [""; 0]);
}
