//! The whole control plane: what happened goes in with the time, what is to be done comes out in order.

use std::{collections::HashMap, sync::Arc};

use super::{
    address::Network,
    effect::Effect,
    input::{Command, Input, Refusal},
    memory::{EvidenceMemory, Memory, ServiceMemory},
    names::{Generation, ServiceName},
    plan::{Plan, ServicePlan},
    rollout::{Log, Recollection, Service},
    route::Routes,
    samples::{EndpointSamples, Samples, SlotSamples},
    table::{ServiceTable, Table},
    time::Timestamp,
    view::View,
    withdrawal::{taken, takes_from_canary},
};

/// What is known at the start of the process, besides the file.
#[derive(Debug, Clone, Default)]
pub struct Recovered {
    /// What was remembered.
    pub memory: Memory,
    /// The share tests' state.
    pub evidence: Vec<EvidenceMemory>,
    /// Why no rollout may go on or start by itself: the state was damaged, is stale or cannot be written. In words.
    pub distrust: Option<String>,
    /// The table that is in force already; tables published from now on are newer.
    pub generation: Generation,
}

/// The control plane. Deterministic: the same inputs at the same times give the same effects.
#[derive(Debug, Clone)]
pub struct Engine {
    services: Vec<Service>,
    /// Remembered, but not in the file now.
    absent: Vec<ServiceMemory>,
    recovered: Option<Recovered>,
    sequence: u64,
    routes: Arc<Routes>,
    trusted: Arc<[Network]>,
    published: Arc<Table>,
}

impl Engine {
    /// A control plane that knows what was remembered and waits for the file: the first input must be `Configure`.
    #[must_use]
    pub fn new(recovered: Recovered) -> Self {
        Self {
            services: Vec::new(),
            absent: Vec::new(),
            sequence: recovered.memory.sequence,
            routes: Arc::default(),
            trusted: Arc::default(),
            published: Arc::new(Table::new(recovered.generation, Vec::new())),
            recovered: Some(recovered),
        }
    }

    /// Takes an input in and appends what is to be done to `effects`, in the order in which it must be done.
    ///
    /// # Errors
    /// When a command or a plan is refused; nothing has changed then. Measurements and answers are never refused.
    pub fn apply(&mut self, input: Input, now: Timestamp, effects: &mut Vec<Effect>) -> Result<(), Refusal> {
        // One is left for a table that comes before it.
        let generation = Generation(self.published.generation.0 + 2);
        let mut sequence = self.sequence;
        let mut log = Log { now, generation, sequence: &mut sequence, effects };
        self.take_turns();
        let outcome = match input {
            Input::Configure(plans) => self.configure(plans, &mut log),
            Input::Measured(samples) => {
                self.measured(&samples, &mut log);
                Ok(())
            }
            Input::Answered(ticket, reply) => {
                if let Some(service) = self.services.iter_mut().find(|of| *of.name() == ticket.service) {
                    service.answered(&ticket, &reply, &mut log);
                }
                Ok(())
            }
            Input::GateAnswered(ticket, answer) => {
                if let Some(service) = self.services.iter_mut().find(|of| *of.name() == ticket.service) {
                    service.gate_answered(&ticket, answer, &mut log);
                }
                Ok(())
            }
            Input::Command(command) => self.command(&command, &mut log),
        };
        self.sequence = sequence;
        if outcome.is_ok() {
            self.publish(generation, effects);
        }
        outcome
    }

    /// The earliest time at which something may happen by itself; none when everything waits for traffic or people.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        self.services.iter().filter_map(Service::deadline).min()
    }

    /// How everything stands.
    #[must_use]
    pub fn view(&self, now: Timestamp) -> View {
        let services = self.services.iter().map(|service| service.view(now)).collect();
        View { at: now, generation: self.published.generation, services }
    }

    /// The table in force.
    #[must_use]
    pub fn table(&self) -> Arc<Table> {
        Arc::clone(&self.published)
    }

    /// The share tests' state, to be saved each second.
    #[must_use]
    pub fn evidence(&self) -> Vec<EvidenceMemory> {
        self.services.iter().filter_map(Service::evidence).collect()
    }

    fn configure(&mut self, plan: Plan, log: &mut Log<'_>) -> Result<(), Refusal> {
        let Plan { services: plans, routes, trusted } = plan;
        let of =
            |services: &[Service], plan: &ServicePlan| services.iter().position(|known| *known.name() == plan.name);
        for plan in &plans {
            if let Some(at) = of(&self.services, plan) {
                self.services[at].accepts(plan)?;
            }
        }
        let gone = self.services.iter().find(|known| plans.iter().all(|plan| plan.name != *known.name()));
        if let Some(gone) = gone {
            return Err(Refusal::NotNow(format!(
                "service `{}` is being served and cannot be removed or renamed by a reload; stop, change the file, and start again",
                gone.name()
            )));
        }
        // What is the same stays the same object, so that each tick compares pointers.
        if *routes != *self.routes {
            self.routes = routes;
        }
        if trusted != self.trusted {
            self.trusted = trusted;
        }
        let recovered = self.recovered.take();
        let (distrust, evidence) = match recovered {
            Some(recovered) => {
                self.absent = recovered.memory.services;
                (recovered.distrust, recovered.evidence)
            }
            None => (None, Vec::new()),
        };
        let mut former = std::mem::take(&mut self.services);
        for plan in plans {
            if let Some(at) = of(&former, &plan) {
                let mut service = former.remove(at);
                service.reconfigure(plan, log);
                self.services.push(service);
                continue;
            }
            let remembered = self.absent.iter().position(|memory| memory.service == plan.name);
            let known = Recollection {
                memory: remembered.map(|at| self.absent.swap_remove(at)),
                evidence: evidence.iter().find(|saved| saved.service == plan.name).cloned(),
                distrust: distrust.clone(),
            };
            self.services.push(Service::take_up(plan, known, log));
        }
        Ok(())
    }

    /// Rollouts whose turn has come: the one that waits longest first.
    fn take_turns(&mut self) {
        loop {
            let running = self.services.iter().filter(|service| service.takes_turn()).count();
            let next = self.services.iter_mut().filter(|service| service.turns() == 0 || running < service.turns());
            let next = next.filter_map(|service| service.waits_for_turn().map(|since| (since, service)));
            match next.min_by(|(a, first), (b, second)| a.cmp(b).then_with(|| first.name().cmp(second.name()))) {
                Some((_, service)) => service.admit(),
                None => return,
            }
        }
    }

    fn measured(&mut self, samples: &Samples, log: &mut Log<'_>) {
        let mut by_service: HashMap<&ServiceName, Vec<&SlotSamples>> = HashMap::new();
        for slot in &samples.slots {
            by_service.entry(&slot.service).or_default().push(slot);
        }
        let mut endpoints: HashMap<&ServiceName, Vec<&EndpointSamples>> = HashMap::new();
        for seen in &samples.endpoints {
            endpoints.entry(&seen.service).or_default().push(seen);
        }
        for service in &mut self.services {
            let slots = by_service.remove(service.name()).unwrap_or_default();
            service.look_at_endpoints(&endpoints.remove(service.name()).unwrap_or_default(), log);
            service.measured(&slots, log);
        }
    }

    fn command(&mut self, command: &Command, log: &mut Log<'_>) -> Result<(), Refusal> {
        let service = self.services.iter_mut().find(|service| *service.name() == command.service);
        service.ok_or_else(|| Refusal::UnknownService(command.service.clone()))?.command(command, log)
    }

    /// Publishes a new table if anything in it is different. What takes from a canary does not wait for the disk, so it
    /// comes in a table of its own where the new one gives something to others as well.
    fn publish(&mut self, generation: Generation, effects: &mut Vec<Effect>) {
        let services: Vec<ServiceTable> = self.services.iter().map(Service::table).collect();
        let before = &self.published;
        let same_way = Arc::ptr_eq(&self.routes, &before.routes) && Arc::ptr_eq(&self.trusted, &before.trusted);
        if same_way && services == before.services {
            return;
        }
        let mut former = before.services.iter().enumerate();
        let mut withdrawal = former.any(|(at, before)| takes_from_canary(before, at, &services));
        let between = Generation(generation.0 - 1);
        if let Some(services) =
            Some(before).filter(|_| withdrawal).and_then(|of| taken(&of.services, &services, between))
        {
            let (routes, trusted) = (Arc::clone(&before.routes), Arc::clone(&before.trusted));
            let table = Arc::new(Table { generation: between, services, routes, trusted });
            effects.push(Effect::Publish { table, withdrawal });
            withdrawal = false;
        }
        let (routes, trusted) = (Arc::clone(&self.routes), Arc::clone(&self.trusted));
        self.published = Arc::new(Table { generation, services, routes, trusted });
        effects.push(Effect::Publish { table: Arc::clone(&self.published), withdrawal });
    }
}
