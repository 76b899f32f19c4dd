//! A second process on the same state folder: it is refused, serves what the first one has decided and nothing else, and
//! decides when the first one has gone.

use serin::{
    control::standby::Shadow,
    engine::{
        memory::{Memory, PhaseMemory},
        plan::ServicePlan,
        table::Table,
        time::Timestamp,
        weight::Weight,
    },
    publish::Publication,
    store::OpenError,
};

use super::{checks::canary_weight, disk::Disk};

/// A process that waits.
pub struct Beside {
    shadow: Shadow,
    pub publication: Publication,
    /// The file as it was read at its start.
    pub file: Vec<ServicePlan>,
}

impl Beside {
    /// Starts it while another one decides.
    pub fn start(disk: &Disk, file: Vec<ServicePlan>, now: Timestamp) -> Option<Self> {
        let refused = disk.open().err();
        assert!(matches!(refused, Some(OpenError::InUse { .. })), "two decide on one folder: {refused:?}");
        let memory = disk.peek().memory;
        let (shadow, engine) = Shadow::of(memory.clone(), file.clone().into(), now).ok()?;
        let publication = Publication::new(engine.table());
        gives_what_is_on_disk(&publication.current(), &memory);
        Some(Self { shadow, publication, file })
    }

    /// Looks what the other one has decided.
    pub fn follow(&mut self, disk: &Disk, now: Timestamp) {
        let memory = disk.peek().memory;
        let before = self.publication.current();
        let followed = self.shadow.follow(memory.clone(), || self.file.clone().into(), &self.publication, now);
        if followed.is_err() {
            // Its file does not fit what was decided meanwhile, as is said; what it serves is of before.
            return;
        }
        let table = self.publication.current();
        assert!(before.generation <= table.generation, "generations only grow");
        gives_what_is_on_disk(&table, &memory);
    }
}

fn gives_what_is_on_disk(table: &Table, memory: &Memory) {
    for of in &memory.services {
        let Some(service) = table.services.iter().find(|service| service.name == of.service) else { continue };
        let most = match &of.phase {
            PhaseMemory::Healthy | PhaseMemory::Degraded { .. } => Weight::ZERO,
            PhaseMemory::Progressing(rollout) | PhaseMemory::Paused { rollout, .. } => rollout.weight,
        };
        assert!(canary_weight(service) <= most, "{} is given more than was decided", service.name);
        let is_there = service.versions.iter().any(|version| version.name == of.stable.version);
        let stable = &service.versions[service.stable].name;
        assert!(!is_there || *stable == of.stable.version, "another stable than was decided");
    }
}
