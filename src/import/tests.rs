//! Golden inputs with what comes of them in `golden/KIND/NAME.yaml` and `.out`, and properties over damaged copies of them.
//! `UPDATE_IMPORTS=1 cargo test` writes the answers anew; read the difference before committing it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use proptest::prelude::*;

use super::{Fate, ImportError, Imported, Input, Kind, import};
use crate::{
    config::{self, yaml},
    words::Style,
};

/// Fewest samples of a kind.
const LEAST: usize = 10;

const KINDS: [(Kind, &str); 10] = [
    (Kind::Argo, "argo"),
    (Kind::Flagger, "flagger"),
    (Kind::Nginx, "nginx"),
    (Kind::GatewayApi, "gateway-api"),
    (Kind::Traefik, "traefik"),
    (Kind::Istio, "istio"),
    (Kind::Alb, "alb"),
    (Kind::Smi, "smi"),
    (Kind::Apisix, "apisix"),
    (Kind::Ambassador, "ambassador"),
];

fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/import/golden").join(kind)
}

/// Names and texts of the inputs of a kind, in order.
fn samples(kind: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = fs::read_dir(folder(kind))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap()))
        .collect();
    found.sort();
    found
}

static ALL: LazyLock<Vec<(Kind, String)>> = LazyLock::new(|| {
    let of = |(kind, word): &(Kind, &str)| {
        let kind = *kind;
        samples(word).into_iter().map(move |(_, text)| (kind, text)).collect::<Vec<_>>()
    };
    KINDS.iter().flat_map(of).collect()
});

fn input(name: &str, text: &str) -> Input {
    Input { path: name.into(), text: text.to_owned() }
}

/// Where the leaves of a text are, counted apart from the importer: line and column of each.
fn leaves(text: &str) -> Vec<(usize, usize)> {
    fn walk(node: &yaml::Node, found: &mut Vec<usize>) {
        match &node.value {
            yaml::Value::List(items) if !items.is_empty() => items.iter().for_each(|item| walk(item, found)),
            yaml::Value::Map(fields) if !fields.is_empty() => fields.iter().for_each(|field| walk(&field.node, found)),
            _ => found.push(node.span.start),
        }
    }
    let mut found = Vec::new();
    for root in &config::documents(text, Path::new("x")).unwrap() {
        walk(root, &mut found);
    }
    let position = |at: usize| {
        let before = &text[..at];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    };
    let mut positions: Vec<_> = found.into_iter().map(position).collect();
    positions.sort_unstable();
    positions
}

/// What holds for every input: the config passes `check`, and every leaf is in the report once, with a reason.
fn is_faithful(text: &str, imported: &Imported) {
    let checked = config::check(&imported.config, Path::new("serin.yaml"), &|_| None);
    assert!(checked.config.is_some(), "{}\n{}", checked.diagnostics, imported.config);
    let report = &imported.report;
    let mut places: Vec<_> = report.entries.iter().map(|entry| (entry.line, entry.column)).collect();
    places.sort_unstable();
    assert_eq!(places, leaves(text), "{text}");
    assert!(report.entries.iter().all(|entry| !entry.reason.is_empty()));
    assert_eq!(report.kept + report.approximated + report.dropped, report.entries.len());
    assert!(report.text(Style::PLAIN).lines().count() > report.remarks.len());
}

fn is_answered(kind: Kind, text: &str) {
    match import(kind, &[input("x.yaml", text)]) {
        Ok(imported) => is_faithful(text, &imported),
        Err(ImportError::Unfit(found)) => panic!("{found}\n{text}"),
        Err(ImportError::Unreadable(_) | ImportError::Nothing(_)) => {}
    }
}

#[test]
fn manifests_become_what_is_written_down() {
    let mut differing = Vec::new();
    for (kind, word) in KINDS {
        let samples = samples(word);
        assert!(samples.len() >= LEAST, "{word}");
        for (name, text) in samples {
            let imported =
                import(kind, &[input(&name, &text)]).unwrap_or_else(|error| panic!("{word}/{name}: {error}"));
            is_faithful(&text, &imported);
            let answer = format!("{}--------\n{}", imported.config, imported.report.text(Style::PLAIN));
            let path = folder(word).join(&name).with_extension("out");
            if env::var_os("UPDATE_IMPORTS").is_some() {
                fs::write(&path, &answer).unwrap();
            } else if fs::read_to_string(&path).unwrap_or_default() != answer {
                differing.push(format!("{word}/{name}\n{answer}"));
            }
        }
    }
    assert!(differing.is_empty(), "see the difference with UPDATE_IMPORTS=1:\n{}", differing.join("\n"));
}

#[test]
fn every_decided_kind_of_answer_is_among_the_samples() {
    for (kind, word) in KINDS {
        let mut seen = Vec::new();
        for (name, text) in samples(word) {
            let report = import(kind, &[input(&name, &text)]).unwrap().report;
            seen.extend(report.entries.into_iter().map(|entry| entry.fate));
        }
        assert!([Fate::Kept, Fate::Approximated, Fate::Dropped].iter().all(|fate| seen.contains(fate)), "{word}");
    }
}

#[test]
fn files_are_read_together_and_named_apart() {
    let rollout = "kind: Rollout\nmetadata: { name: web }\nspec:\n  strategy:\n    canary:\n      steps:\n        - setWeight: 20\n        - analysis: { templates: [{ templateName: own }] }\n";
    let template = "kind: AnalysisTemplate\nmetadata: { name: own }\nspec:\n  metrics:\n    - { name: p95, failureCondition: result.p95 > 500, provider: { serin: { window: 1m } } }\n";
    let alone = import(Kind::Argo, &[input("a.yaml", rollout)]).unwrap();
    assert!(alone.config.contains("- pause: {}    # a.yaml:8: stands for an analysis"), "{}", alone.config);
    let both = import(Kind::Argo, &[input("t.yaml", template), input("a.yaml", rollout)]).unwrap();
    assert!(!both.config.contains("pause"), "{}", both.config);
    assert!(
        both.config.contains("- analysis: { templates: [{ templateName: own }] }    # a.yaml:8\n"),
        "{}",
        both.config
    );
    let of = |path: &str| both.report.entries.iter().find(|entry| entry.path == path).unwrap();
    let entry = of("spec.metrics[1].failureCondition");
    assert_eq!((&*entry.file, entry.line, entry.column, entry.fate), ("t.yaml", 5, 38, Fate::Kept));
    assert_eq!(&*of("spec.strategy.canary.steps[1].setWeight").object, "Rollout/web");
}

#[test]
fn what_cannot_be_read_says_why() {
    let error = |text: &str| import(Kind::Argo, &[input("x.yaml", text)]).unwrap_err().to_string();
    assert_eq!(error("kind: Deployment\n"), "there is no Rollout in these files");
    assert!(error("kind: Rollout\nmetadata:\n  name: {{ .Values.name }}\n").contains("helm template"));
    assert!(error("kind: Rollout\n---\na: [\n").contains("x.yaml:"));
    assert_eq!(error(""), "there is no Rollout in these files");
}

#[test]
fn lists_and_repeated_keys_are_read() {
    let list = "apiVersion: v1\nkind: List\nmetadata: { resourceVersion: '' }\nitems:\n  - { kind: Rollout, metadata: { name: a, name: b } }\n  - {}\n";
    let imported = import(Kind::Argo, &[input("x.yaml", list)]).unwrap();
    is_faithful(list, &imported);
    assert!(imported.config.contains("services:\n  a:\n"), "{}", imported.config);
}

/// No query is turned into another question.
#[test]
fn a_query_is_taken_over_or_dropped_aloud() {
    let kinds = [(Kind::Argo, "argo"), (Kind::Flagger, "flagger")];
    let (mut kept, mut dropped) = (0, 0);
    for (kind, word) in kinds {
        for (name, text) in samples(word) {
            let imported = import(kind, &[input(&name, &text)]).unwrap();
            for entry in imported.report.entries.iter().filter(|entry| entry.path.rsplit('.').next() == Some("query")) {
                match entry.fate {
                    Fate::Dropped => dropped += 1,
                    _ => kept += 1,
                }
            }
        }
    }
    assert!(kept + dropped >= 4, "{kept} {dropped}");
}

/// Puts something strange in the place of some values: what is left is YAML more often than not.
fn with_strange_values() -> impl Strategy<Value = (Kind, String)> {
    let strange = prop_oneof![
        proptest::sample::select(vec![
            "null",
            "{}",
            "[]",
            "[1, {a: b}]",
            "{a: b}",
            "0",
            "1",
            "-1",
            "100",
            "101",
            "1000000",
            "99999999999",
            "18446744073709551615",
            "1e9",
            "0.5",
            ".nan",
            "true",
            "false",
            "always",
            "stable",
            "canary",
            "web",
            "''",
            "' '",
            "\"\\0\"",
            "\"a\\nb\"",
            "'${HOME}'",
            "'$x'",
            "'a.b..c'",
            "1h",
            "1.5h",
            "0s",
            "99999h",
            "1ms",
            "10",
            "'*'",
            "'result > 1'",
            "cookie",
        ])
        .prop_map(str::to_owned),
        "[a-z]{60,70}",
        "\\PC{0,8}".prop_map(|text| format!("{text:?}")),
    ];
    (any::<proptest::sample::Index>(), proptest::collection::vec((any::<proptest::sample::Index>(), strange), 1..6))
        .prop_map(|(which, edits)| {
            let (kind, source) = which.get(&ALL);
            let mut text = source.clone();
            for (place, strange) in edits {
                let Ok(roots) = config::documents(&text, Path::new("x")) else { break };
                let mut spans = Vec::new();
                for root in &roots {
                    scalars(root, &mut spans);
                }
                if !spans.is_empty() {
                    text.replace_range(place.get(&spans).clone(), &strange);
                }
            }
            (*kind, text)
        })
}

fn scalars(node: &yaml::Node, found: &mut Vec<std::ops::Range<usize>>) {
    match &node.value {
        yaml::Value::List(items) => items.iter().for_each(|item| scalars(item, found)),
        yaml::Value::Map(fields) => fields.iter().for_each(|field| scalars(&field.node, found)),
        _ => found.push(node.span.clone()),
    }
}

/// Cuts pieces out of a text and puts something strange there.
fn damaged() -> impl Strategy<Value = (Kind, String)> {
    let strange = prop_oneof![
        "\\PC{0,6}",
        "[-:{}\\[\\],&*!|>'\"%@`#?~$ \t\n0-9a-z]{0,8}",
        Just("\n---\n".to_owned()),
        Just("\u{feff}".to_owned()),
        Just("\r\n".to_owned()),
    ];
    let edit = (any::<proptest::sample::Index>(), 0_usize..20, strange);
    (any::<proptest::sample::Index>(), proptest::collection::vec(edit, 1..4)).prop_map(|(which, edits)| {
        let (kind, source) = which.get(&ALL);
        let mut text = source.clone();
        for (place, len, strange) in edits {
            let start = text.floor_char_boundary(place.index(text.len() + 1));
            let end = text.floor_char_boundary((start + len).min(text.len())).max(start);
            text.replace_range(start..end, &strange);
        }
        (*kind, text)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn strange_values_are_answered((kind, text) in with_strange_values()) {
        is_answered(kind, &text);
    }

    #[test]
    fn damaged_manifests_are_answered((kind, text) in damaged()) {
        is_answered(kind, &text);
    }

    #[test]
    fn any_text_is_answered(kind in proptest::sample::select(KINDS.to_vec()), text in "[\\PC\n\t]{0,120}") {
        is_answered(kind.0, &text);
    }
}
