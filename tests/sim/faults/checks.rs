//! What must hold whatever goes wrong, seen from outside: in the tables that requests are routed by, and in what is told.

use std::{collections::HashMap, sync::Arc};

use serin::engine::{
    analysis::{ask::RunKind, run::AnalysisPhase},
    effect::Effect,
    event::{Cause, Event, EventKind},
    memory::PhaseMemory,
    names::{ServiceName, VersionName},
    plan::Step,
    split::{BUCKETS, Bucket},
    table::{ServiceTable, Table},
    time::Timestamp,
    weight::Weight,
};

use super::machine::Machine;

/// What one life of a process was seen to do.
#[derive(Default)]
pub struct Watch {
    table: Option<Arc<Table>>,
    heard: u64,
    services: HashMap<ServiceName, Seen>,
}

/// What an input lets be checked.
#[derive(Debug, Clone, Copy)]
pub struct Looked {
    /// It was a measurement, which alone lets time pass.
    pub at_time: bool,
    /// The engine that decided is still there, with the runs it decided on; a disk that fails takes it back.
    pub at_runs: bool,
}

#[derive(Default)]
struct Seen {
    last: Option<Event>,
    withdrawn: Option<Withdrawn>,
}

struct Withdrawn {
    version: VersionName,
    at: Timestamp,
    weight: Weight,
}

pub fn canary_weight(service: &ServiceTable) -> Weight {
    service.canary.map_or(Weight::ZERO, |at| service.versions[at].weight)
}

impl Watch {
    /// A process begins to serve by this table and with this history, on a disk that held `before`.
    pub fn started(history: &[Event], before: &serin::store::Recovered, told: &[Event], first: &Table) -> Self {
        let known = before.history.first().map_or(u64::MAX, |event| event.sequence);
        let told: Vec<&Event> = told.iter().filter(|event| event.sequence >= known).collect();
        let remembered: Vec<&Event> = before.history.iter().take(told.len()).collect();
        assert_eq!(remembered, told, "what was told stays told");
        let decided: Vec<&Event> = history.iter().filter(|event| event.sequence > before.memory.sequence).collect();
        for memory in &before.memory.services {
            let Some(service) = first.services.iter().find(|of| of.name == memory.service) else { continue };
            let most = match &memory.phase {
                PhaseMemory::Healthy | PhaseMemory::Degraded { .. } => Weight::ZERO,
                PhaseMemory::Progressing(rollout) | PhaseMemory::Paused { rollout, .. } => rollout.weight,
            };
            if decided.iter().any(|event| event.service == memory.service) {
                continue;
            }
            assert_eq!(canary_weight(service), most, "the first table is that of the last decision on disk");
            assert_eq!(service.versions[service.stable].name, memory.stable.version);
        }
        let mut watch = Self::default();
        for event in history {
            watch.hear(event);
        }
        watch
    }

    /// What was last told of a service.
    pub fn last(&self, service: &ServiceName) -> Option<&Event> {
        self.services.get(service)?.last.as_ref()
    }

    fn hear(&mut self, event: &Event) {
        self.heard = event.sequence;
        let seen = self.services.entry(event.service.clone()).or_default();
        match event.kind {
            EventKind::Aborted => {
                let version = event.canary.clone().unwrap();
                seen.withdrawn = Some(Withdrawn { version, at: event.at, weight: event.weight });
            }
            EventKind::Started | EventKind::Promoted => seen.withdrawn = None,
            _ => {}
        }
        seen.last = Some(event.clone());
    }

    /// After each input, whatever came of it.
    pub fn check(&mut self, machine: &Machine, heard: &[Event], looked: Looked) {
        let Some(process) = machine.process.as_ref() else { return };
        for event in heard {
            assert_eq!(event.sequence, self.heard + 1, "events have no gap and no double");
            if looked.at_runs {
                self.passed_its_analysis(machine, event);
            }
            self.hear(event);
        }
        let table = machine.table().unwrap();
        for service in &table.services {
            let sum: u32 = service.versions.iter().map(|version| version.weight.ppm()).sum();
            assert_eq!(sum, BUCKETS, "weights sum to the whole");
            if let Some(seen) = self.services.get_mut(&service.name) {
                seen.check(machine, service, looked.at_time.then_some(process.now));
            }
        }
        if let Some(before) = self.table.replace(Arc::clone(&table)).filter(|before| !Arc::ptr_eq(before, &table)) {
            assert!(before.generation < table.generation, "generations only grow");
            for service in &table.services {
                let former = before.services.iter().find(|of| of.name == service.name);
                if let Some(former) = former {
                    nobody_moves_in_vain(former, service);
                }
            }
        }
    }

    /// A step that analyses is only passed on a Successful run of this attempt and step, or one that a person ended.
    fn passed_its_analysis(&self, machine: &Machine, event: &Event) {
        let Some(before) = self.services.get(&event.service).and_then(|seen| seen.last.as_ref()) else { return };
        let plan = machine.file.iter().find(|plan| plan.name == event.service).unwrap();
        let Some(step) = before.step.filter(|_| before.revision == event.revision) else { return };
        let analyses = matches!(plan.strategy.steps.get(step - 1), Some(Step::Analysis(_)));
        let moved = event.step != Some(step) && event.cause == Cause::Plan && event.kind != EventKind::ScaleDown;
        if !analyses || !moved {
            return;
        }
        let process = machine.process.as_ref().unwrap();
        let view = process.decider.engine().view(process.now);
        let service = view.services.iter().find(|service| service.name == event.service).unwrap();
        let good = service.analysis_runs.iter().any(|run| {
            let ended_well = matches!(run.phase, AnalysisPhase::Successful | AnalysisPhase::Terminated);
            run.revision == event.revision && run.step == step && run.kind == RunKind::Step && ended_well
        });
        assert!(good, "{event:?} passes step {step} without a good run: {:?}", service.analysis_runs);
    }
}

impl Seen {
    fn check(&mut self, machine: &Machine, service: &ServiceTable, now: Option<Timestamp>) {
        let weight = canary_weight(service);
        if let Some(last) = &self.last {
            assert!(weight <= last.weight || self.withdrawn.is_some(), "{weight} is more than was decided: {last:?}");
        }
        let Some(withdrawn) = &mut self.withdrawn else { return };
        let of = service.versions.iter().find(|version| version.name == withdrawn.version);
        let weight = of.map_or(Weight::ZERO, |version| version.weight);
        assert!(weight <= withdrawn.weight, "after an abort the weight only falls");
        withdrawn.weight = weight;
        let plan = machine.file.iter().find(|plan| plan.name == service.name).unwrap();
        let longest = plan.strategy.policy.abort_ramp.max(machine.longest_ramp);
        let over = now.is_some_and(|now| now.since(withdrawn.at) > longest);
        assert!(!over || weight == Weight::ZERO, "and is nothing after the ramp");
        assert_eq!(service.header_routes, [], "no route is left");
    }
}

/// While a version's weight does not fall, whoever is on it stays.
fn nobody_moves_in_vain(before: &ServiceTable, now: &ServiceTable) {
    let name = |of: &ServiceTable, at: usize| of.versions[at].name.clone();
    let (Some(former), Some(present)) = (before.canary, now.canary) else { return };
    let same = name(before, former) == name(now, present) && name(before, before.stable) == name(now, now.stable);
    if !same || canary_weight(now) < canary_weight(before) {
        return;
    }
    for client in (0..BUCKETS).step_by(49_999) {
        let client = Bucket::new(client).unwrap();
        let was = before.split.version_of(client) == former;
        assert!(!was || now.split.version_of(client) == present, "{client:?} was moved off the canary");
    }
}

/// What is published before the disk has it may only take from a canary: a crash must not undo what requests have met.
pub fn only_takes(before: &Table, effects: &[Effect]) {
    let early = effects.iter().filter_map(|effect| match effect {
        Effect::Publish { table, withdrawal: true } => Some(table),
        _ => None,
    });
    for table in early {
        for service in &table.services {
            let former = before.services.iter().find(|of| of.name == service.name);
            let had = |name: &VersionName| {
                let of = former.and_then(|former| former.versions.iter().find(|of| of.name == *name));
                of.map_or(Weight::ZERO, |version| version.weight)
            };
            for version in service.versions.iter().enumerate().filter(|(at, _)| *at != service.stable).map(|(_, of)| of)
            {
                assert!(version.weight <= had(&version.name), "{} rises before the disk has it", version.name);
            }
            if let Some(former) = former {
                assert_eq!(
                    former.versions[former.stable].name, service.versions[service.stable].name,
                    "another version is stable before the disk has it"
                );
            }
        }
    }
}
