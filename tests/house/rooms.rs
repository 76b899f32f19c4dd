//! Which room may import which: the table of the architecture, as data.

use super::{
    assert_kept,
    source::{Source, sources},
};

/// A room, and what it may import beside itself. A path admits what is under it, and no more of that room.
const ROOMS: &[(&str, &[&str])] = &[
    ("engine", &[]),
    ("tls", &[]),
    ("config", &["engine", "tls"]),
    ("publish", &["engine", "tls"]),
    ("measure", &["engine"]),
    ("store", &["engine"]),
    ("fleet", &["engine"]),
    ("api", &["engine"]),
    ("words", &["engine"]),
    ("outbound", &[]),
    ("provider", &["engine", "outbound"]),
    ("trace", &["measure", "outbound", "publish"]),
    ("proxy", &["engine", "publish", "measure", "tls"]),
    ("control", &["engine", "config", "publish", "measure", "provider", "store", "fleet", "outbound", "words", "tls"]),
    ("import", &["config", "engine", "words"]),
    ("rehearse", &["config", "engine", "words"]),
    ("admin", &["engine", "api", "config", "measure", "publish", "words", "control::handle"]),
    (
        "server",
        &[
            "engine", "config", "publish", "measure", "store", "fleet", "api", "words", "outbound", "provider",
            "proxy", "control", "import", "rehearse", "admin", "tls", "trace",
        ],
    ),
    // Of the engine, only the read model that `words` takes: what is shown, never what decides.
    ("demo", &["server", "config", "api", "words", "outbound", "engine::event", "engine::names", "engine::view"]),
    (
        "cli",
        &[
            "server",
            "demo",
            "guide",
            "import",
            "rehearse",
            "api",
            "config",
            "words",
            "outbound",
            "engine::event",
            "engine::names",
            "engine::time",
            "engine::view",
            "engine::weight",
        ],
    ),
    ("guide", &[]),
    ("clock", &["engine"]),
    ("shutdown", &[]),
    ("telemetry", &[]),
];

/// May be imported by every room but the engine.
const SERVANTS: [&str; 3] = ["clock", "shutdown", "telemetry"];

/// Words that have no place in the engine, and why.
const NOT_IN_ENGINE: &[(&str, &str)] = &[
    ("tokio", "it runs nothing"),
    ("async", "it awaits nothing"),
    ("await", "it awaits nothing"),
    ("Instant", "it is told the time"),
    ("SystemTime", "it is told the time"),
    ("fastrand", "draws are arguments"),
    ("rand", "draws are arguments"),
    ("tracing", "it does not log"),
    ("println", "it does not log"),
    ("eprintln", "it does not log"),
    ("serde", "it is never serialised"),
    ("serde_json", "it is never serialised"),
    ("serde_yaml", "it is never serialised"),
];

/// Modules of std that have no place in the engine; its tests may try it on a thread with a small stack, say.
const STD_NOT_IN_ENGINE: &[&str] = &["fs", "net", "thread", "process", "env", "os"];

/// The room of a file; none for the crate's own files, which may use anything.
fn room(path: &str) -> Option<&str> {
    let first = path.strip_prefix("src/")?.split('/').next()?;
    Some(first.strip_suffix(".rs").unwrap_or(first)).filter(|room| !["lib", "main"].contains(room))
}

fn breaches(source: &Source) -> Vec<String> {
    let Some(room) = room(&source.path) else { return Vec::new() };
    let Some((_, may)) = ROOMS.iter().find(|(name, _)| *name == room) else {
        return vec![source.breach(0, &format!("`{room}` is no room of the table in tests/house/rooms.rs"))];
    };
    let mut found = climbs(source);
    for (at, path) in source.paths("crate") {
        if !admitted(room, may, &path) {
            let list = if may.is_empty() { "no other room".to_owned() } else { may.join(", ") };
            found.push(source.breach(at, &format!("`{room}` may not import `{path}`: it may import {list}")));
        }
    }
    if room == "engine" {
        found.extend(impurities(source));
    }
    found
}

fn admitted(room: &str, may: &[&str], path: &str) -> bool {
    let servants = SERVANTS.iter().filter(|_| room != "engine");
    let under = |root: &&str| path.strip_prefix(*root).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    may.iter().chain(servants).chain([&room]).any(under)
}

/// `super::super` can leave a room unseen; whoever leaves must say `crate`.
fn climbs(source: &Source) -> Vec<String> {
    let parts = source.path.trim_start_matches("src/").trim_end_matches(".rs").split('/');
    let depth = parts.filter(|part| *part != "mod").count();
    let mut found = Vec::new();
    let modules = source.modules();
    for (at, path) in source.paths("super") {
        let ups = 1 + path.split("::").take_while(|part| *part == "super").count();
        let within = modules.iter().filter(|(_, body)| body.contains(&at)).count();
        if ups >= depth + within && !source.code[..at].ends_with("super::") {
            found.push(source.breach(at, "`super` leaves the room: write `crate::…`"));
        }
    }
    found
}

fn impurities(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (word, why) in NOT_IN_ENGINE {
        found.extend(source.words(word).map(|at| source.breach(at, &format!("no `{word}` in the engine: {why}"))));
    }
    for (at, path) in source.paths("std") {
        let module = path.split("::").next().unwrap_or_default();
        if STD_NOT_IN_ENGINE.contains(&module) && !source.is_test(at) {
            found.push(source.breach(at, &format!("no `std::{module}` in the engine: it touches nothing")));
        }
    }
    found
}

#[test]
fn rooms_import_only_what_the_table_admits() {
    let sources = sources("src");
    assert!(sources.iter().any(|source| room(&source.path) == Some("engine")));
    assert_kept(&sources.iter().flat_map(breaches).collect::<Vec<_>>());
}

#[test]
fn every_room_of_the_table_may_import_only_rooms_of_the_table() {
    for (room, may) in ROOMS {
        for path in *may {
            let first = path.split("::").next().unwrap();
            assert!(ROOMS.iter().any(|(name, _)| *name == first), "{room} may import {path}, which is no room");
        }
    }
}

#[test]
fn the_import_rule_sees_what_it_forbids() {
    for (path, text, seen) in [
        (
            "src/proxy/x.rs",
            "\nuse crate::control::Handle;",
            "src/proxy/x.rs:2: `proxy` may not import `control::Handle`",
        ),
        ("src/proxy/x.rs", "use crate::{engine::X, store::{A, B}};", "`proxy` may not import `store::A`"),
        (
            "src/store.rs",
            "fn f() { crate::config::load() }",
            "`store` may not import `config::load`: it may import engine",
        ),
        (
            "src/engine/x.rs",
            "use crate::clock::Clock;",
            "`engine` may not import `clock::Clock`: it may import no other",
        ),
        ("src/admin/x.rs", "use crate::control::driver::D;", "`admin` may not import `control::driver::D`"),
        ("src/admin/x.rs", "use crate::control::handles::D;", "`admin` may not import `control::handles::D`"),
        ("src/cli/x.rs", "use crate::engine::X;", "`cli` may not import `engine::X`"),
        ("src/server.rs", "use crate::cli::X;", "`server` may not import `cli::X`"),
        ("src/attic/x.rs", "", "`attic` is no room"),
        ("src/store/mod.rs", "use super::config::X;", "`super` leaves the room"),
        ("src/store/a/b.rs", "mod m { use super::super::super::super::config::X; }", "`super` leaves the room"),
        ("src/engine/x.rs", "use std::{fmt, thread::sleep};", "no `std::thread` in the engine"),
        ("src/engine/x.rs", "let t = std::time::Instant::now();", "no `Instant` in the engine: it is told the time"),
        ("src/engine/x.rs", "#[derive(serde::Serialize)]", "no `serde` in the engine"),
        ("src/engine/x.rs", "tracing::info!(1)", "no `tracing` in the engine"),
    ] {
        let found = breaches(&Source::new(path, text)).join("\n");
        assert!(found.contains(seen), "{path}: {text}: {found}");
    }
}

#[test]
fn the_import_rule_admits_what_is_right() {
    for (path, text) in [
        ("src/proxy/x.rs", "use crate::{engine::{a, b}, proxy::c, publish::D, clock::E};"),
        ("src/admin/x.rs", "use crate::control::handle::Handle;"),
        ("src/store/mod.rs", "/// See [`crate::control`].\nmod m { use super::folder; }\nlet s = \"crate::control\";"),
        ("src/engine/a/b.rs", "use super::super::names; mod tests { use super::super::super::names; }"),
        ("src/engine/x.rs", "// serde\nlet operand = 1; use std::{fmt, time::Duration};"),
        ("src/engine/x.rs", "#[cfg(test)]\nmod tests { use std::thread; }"),
        ("src/main.rs", "use serin::cli; crate::anything();"),
    ] {
        assert_kept(&breaches(&Source::new(path, text)));
    }
}
