//! Webhooks of Flagger that ask: they become `gates`, whose words are the same. What a config refuses of one is said aloud, and
//! a wait for a person stands where it would have held the rollout.

use std::collections::HashSet;

use super::{
    draft::Service,
    ledger::Ledger,
    manifest::Item,
    trial,
    value::{key_of, scalar},
};
use crate::engine::gate::{GATES_MAX, GateKind};

/// Which gates could not be taken over, by where they would hold the rollout.
#[derive(Default)]
pub(super) struct Missing {
    pub(super) start: bool,
    pub(super) increase: bool,
    pub(super) end: bool,
}

/// Reads the webhooks of an analysis; those of events are told, not asked.
pub(super) fn read(analysis: &Item, service: &mut Service, ledger: &mut Ledger) -> Missing {
    let (mut taken, mut missing) = (HashSet::new(), Missing::default());
    for hook in analysis.list(&["webhooks"]) {
        let word = hook.get("type").and_then(Item::text);
        if word == Some("event") {
            continue;
        }
        let Some(kind) = GateKind::ALL.into_iter().find(|kind| Some(kind.as_str()) == word) else {
            ledger.dropped(hook, "no type of webhook that Flagger asks");
            continue;
        };
        if let Err(why) = one(hook, kind, service, &mut taken, ledger) {
            ledger.retracted(hook, &why);
            match kind {
                GateKind::ConfirmRollout | GateKind::PreRollout => missing.start = true,
                GateKind::ConfirmTrafficIncrease => missing.increase = true,
                GateKind::ConfirmPromotion => missing.end = true,
                GateKind::Rollout | GateKind::PostRollout | GateKind::Rollback => {}
            }
        }
    }
    missing
}

fn one(
    hook: &Item,
    kind: GateKind,
    service: &mut Service,
    taken: &mut HashSet<String>,
    ledger: &mut Ledger,
) -> Result<(), String> {
    if service.gates.len() >= GATES_MAX {
        return Err("more gates than a config may have".to_owned());
    }
    let url = hook.get("url").ok_or("without a URL it cannot be asked")?;
    let name = name_of(hook.get("name").and_then(Item::text).unwrap_or(kind.as_str()), taken);
    let (kind_word, url_text) = (kind.as_str(), scalar(url.text().unwrap_or_default()));
    let plain = format!("{{ name: {}, type: {kind_word}, url: {url_text}", scalar(&name));
    trial(&format!("{plain} }}"))?;
    let mut text = plain;
    if let Some(item) = hook.get("timeout") {
        let part = format!(", timeout: {}", scalar(item.text().unwrap_or_default()));
        match trial(&format!("{text}{part} }}")) {
            Ok(()) => {
                text += &part;
                ledger.kept(item, "`timeout` of the gate");
            }
            Err(why) => ledger.dropped(item, format!("{why}; 10s is taken")),
        }
    }
    let metadata = hook.get("metadata").map(Item::fields).unwrap_or_default();
    let pairs: Vec<String> = metadata
        .iter()
        .map(|(key, value)| format!("{}: {}", key_of(key), scalar(value.text().unwrap_or_default())))
        .collect();
    let part = format!(", metadata: {{ {} }}", pairs.join(", "));
    if !pairs.is_empty() && trial(&format!("{text}{part} }}")).is_ok() {
        text += &part;
        for (_, value) in metadata {
            ledger.kept(value, "`metadata` of the gate");
        }
    }
    ledger.kept(url, "`url` of the gate; 204 is go, 202 and 503 are wait, 409 is stop");
    for (field, how) in [("type", words(kind)), ("name", "the gate's name, made unique and without blanks")] {
        if let Some(item) = hook.get(field) {
            ledger.approximated(item, how);
        }
    }
    ledger.dropped(hook, "a gate is asked again by itself; after five faults in a row a person is waited for");
    service.gates.push(format!("{text} }}"));
    Ok(())
}

fn trial(gate: &str) -> Result<(), String> {
    trial::service(&format!("    gates: [{gate}]\n"))
}

const fn words(kind: GateKind) -> &'static str {
    match kind {
        GateKind::Rollout => "asked once in each step, where Flagger asks at each interval; stop aborts at once",
        GateKind::PreRollout => "asked before the first step; wait asks again, stop aborts, and no check is counted",
        GateKind::Rollback => "asked all along; go gives the canary up, as a good answer does in Flagger",
        GateKind::PostRollout => "told when the rollout ends",
        GateKind::ConfirmRollout | GateKind::ConfirmTrafficIncrease | GateKind::ConfirmPromotion => {
            "holds until it says go; an answer that is neither go, wait nor stop counts as a fault"
        }
    }
}

/// A name that a gate may have, and that no other has.
fn name_of(written: &str, taken: &mut HashSet<String>) -> String {
    let fine = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let base: String = written.chars().map(fine).take(40).collect();
    let base = Some(base.trim_matches('-')).filter(|base| !base.is_empty()).unwrap_or("gate").to_owned();
    let numbered = (2..).map(|number| format!("{base}-{number}"));
    let name = std::iter::once(base.clone()).chain(numbered).find(|name| !taken.contains(name)).unwrap_or(base);
    taken.insert(name.clone());
    name
}
