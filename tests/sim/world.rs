//! A world on virtual time: one engine, a disk that remembers its decisions, and traffic that follows the published table.

use std::{sync::Arc, time::Duration};

use serin::engine::{
    Engine, Recovered,
    analysis::ask::Question,
    effect::{Decision, Effect},
    endpoint::{Endpoint, UpstreamHttp},
    event::{Event, EventKind},
    failure::{FailurePlan, Retry},
    gate::GateQuestion,
    input::{Command, Input, Refusal, Verb},
    memory::{EvidenceMemory, Memory, PhaseMemory},
    names::{Generation, Role, ServiceName, VersionName},
    numbering::Numbering,
    plan::{Guard, OnNoTraffic, Pause, ServicePlan, Step, Strategy, VersionPlan, Wish},
    policy::Policy,
    samples::{Counts, EndpointSamples, FailedBuckets, Samples, SlotSamples},
    stats::latency::{LatencyCounts, bucket_of},
    table::{ServiceTable, Table, Timeouts},
    time::Timestamp,
    weight::Weight,
};

/// A small deterministic generator (xorshift64*), so that a seed is a history.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        u64::try_from((u128::from(self.bits()) * u128::from(end)) >> 64).unwrap()
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Successes of `trials` at `ppm`: exact for few trials, a normal-like sum for many.
    pub fn successes(&mut self, trials: u64, ppm: u64) -> u64 {
        (0..trials).filter(|_| self.below(1_000_000) < ppm).count() as u64
    }
}

/// How the versions behave.
#[derive(Debug, Clone, Copy)]
pub struct Traffic {
    /// Requests in a tick of 100 ms.
    pub requests: u64,
    /// Failing requests per million, stable.
    pub stable_errors: u64,
    /// Failing requests per million, canary.
    pub canary_errors: u64,
}

/// The world.
pub struct World {
    pub engine: Engine,
    pub now: Timestamp,
    pub table: Arc<Table>,
    pub plan: ServicePlan,
    pub disk: Memory,
    pub evidence: Vec<EvidenceMemory>,
    pub events: Vec<Event>,
    /// Whether a table of the last input did not wait for the disk.
    pub withdrew: bool,
    /// Tables of the last input.
    pub published: usize,
    /// Questions to others that wait for an answer.
    pub questions: Vec<Question>,
    /// What is seen of endpoints in each tick.
    pub endpoints: Vec<EndpointSamples>,
    /// And those to gates.
    pub gates: Vec<GateQuestion>,
}

impl World {
    pub fn new(plan: ServicePlan) -> Self {
        Self::of(vec![plan])
    }

    /// Several services; `plan` is that of the first, with which most methods deal.
    pub fn of(plans: Vec<ServicePlan>) -> Self {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let engine = Engine::new(Recovered::default());
        let table = engine.table();
        let mut world = Self {
            engine,
            now,
            table,
            plan: plans[0].clone(),
            disk: Memory::default(),
            evidence: Vec::new(),
            events: Vec::new(),
            withdrew: false,
            published: 0,
            questions: Vec::new(),
            endpoints: Vec::new(),
            gates: Vec::new(),
        };
        world.apply(Input::Configure(plans.into())).unwrap();
        world
    }

    pub fn configure(&mut self, plan: ServicePlan) -> Result<(), Refusal> {
        let outcome = self.apply(Input::Configure(vec![plan.clone()].into()));
        if outcome.is_ok() {
            self.plan = plan;
        }
        outcome
    }

    pub fn order(&mut self, verb: Verb) -> Result<(), Refusal> {
        let name = self.plan.name.to_string();
        self.order_of(&name, verb)
    }

    pub fn order_of(&mut self, service: &str, verb: Verb) -> Result<(), Refusal> {
        let service = ServiceName::new(service).unwrap();
        let command = Command { service, verb, actor: "test".into(), reason: String::new(), expect_revision: None };
        self.apply(Input::Command(command))
    }

    /// Persists, then publishes, checking on the way that nothing is lost, doubled or torn.
    pub fn apply(&mut self, input: Input) -> Result<(), Refusal> {
        let mut effects = Vec::new();
        (self.withdrew, self.published) = (false, 0);
        let outcome = self.engine.apply(input, self.now, &mut effects);
        if outcome.is_err() {
            assert_eq!(effects, [], "a refused input has no effects");
        }
        for effect in effects {
            match effect {
                Effect::Persist(decision) => self.persist(*decision),
                Effect::Publish { table, withdrawal } => {
                    self.withdrew |= withdrawal;
                    self.published += 1;
                    assert!(table.generation > self.table.generation, "generations only grow");
                    self.table = table;
                }
                Effect::Measure(question) => self.questions.push(*question),
                Effect::Consult(question) => self.gates.push(*question),
            }
        }
        outcome
    }

    fn persist(&mut self, decision: Decision) {
        let Decision { event, memory } = decision;
        assert_eq!(event.sequence, self.disk.sequence + 1, "events have no gap and no double");
        self.disk.sequence = event.sequence;
        self.disk.services.retain(|of| of.service != memory.service);
        self.disk.services.push(memory);
        self.events.push(event);
    }

    /// The process dies and starts again, with the file as it is.
    pub fn crash(&mut self, down: Duration) {
        let before = self.service().clone();
        self.now = self.now + down;
        self.engine = Engine::new(Recovered {
            memory: self.disk.clone(),
            evidence: self.evidence.clone(),
            distrust: None,
            generation: Generation(0),
        });
        self.table = self.engine.table();
        let events = self.events.len();
        self.configure(self.plan.clone()).unwrap();
        if self.events.len() == events {
            let after = self.service();
            if matches!(self.phase(), PhaseMemory::Degraded { .. }) {
                assert_eq!((after.stable, self.canary_weight()), (before.stable, Weight::ZERO), "a ramp ends");
                return;
            }
            assert_eq!((after.stable, after.canary), (before.stable, before.canary), "a restart changes no role");
            let weights = |of: &ServiceTable| of.versions.iter().map(|version| version.weight).collect::<Vec<_>>();
            assert_eq!(weights(after), weights(&before), "a restart changes no weight");
        }
    }

    pub fn service(&self) -> &ServiceTable {
        &self.table.services[0]
    }

    pub fn canary_weight(&self) -> Weight {
        let service = self.service();
        service.canary.map_or(Weight::ZERO, |at| service.versions[at].weight)
    }

    pub fn phase(&self) -> &PhaseMemory {
        &self.disk.services[0].phase
    }

    pub fn last(&self, kind: EventKind) -> Option<&Event> {
        self.events.iter().rev().find(|event| event.kind == kind)
    }

    /// 100 ms of traffic, split as the published table says, then measured.
    pub fn tick(&mut self, traffic: Traffic, dice: &mut Dice) {
        self.now = self.now + Duration::from_millis(100);
        let samples = self.traffic(traffic, dice);
        self.apply(Input::Measured(samples)).unwrap();
        self.evidence = self.engine.evidence();
    }

    /// Time passes without a look.
    pub fn skip(&mut self, duration: Duration) {
        self.now = self.now + duration;
    }

    pub fn run(&mut self, duration: Duration, traffic: Traffic, dice: &mut Dice) {
        for _ in 0..duration.as_millis() / 100 {
            self.tick(traffic, dice);
        }
    }

    fn traffic(&self, traffic: Traffic, dice: &mut Dice) -> Samples {
        let slots = traffic_of(self.service(), traffic, dice);
        Samples { slots, endpoints: self.endpoints.clone() }
    }
}

/// What the versions of a service did since the last look, split as its table says.
pub fn traffic_of(service: &ServiceTable, traffic: Traffic, dice: &mut Dice) -> Vec<SlotSamples> {
    let weight = service.canary.map_or(Weight::ZERO, |at| service.versions[at].weight);
    let canary = dice.successes(traffic.requests, u64::from(weight.ppm()));
    let mut slots = Vec::new();
    for version in &service.versions {
        let (requests, ppm) = match version.role {
            Role::Stable => (traffic.requests - canary, traffic.stable_errors),
            Role::Canary => (canary, traffic.canary_errors),
            Role::Other => (0, 0),
        };
        if requests == 0 {
            continue;
        }
        let errors = dice.successes(requests, ppm);
        slots.push(SlotSamples {
            service: service.name.clone(),
            version: version.name.clone(),
            weight_generation: service.weight_generation,
            sampled: Counts { requests, errors },
            sticky: Counts::default(),
            sticky_failed: FailedBuckets::default(),
            latency: latency(requests),
            longest_error_run: if errors == requests { errors } else { 0 },
            slowest_failure: Duration::ZERO,
        });
    }
    slots
}

fn latency(requests: u64) -> LatencyCounts {
    let bucket = u16::try_from(bucket_of(Duration::from_millis(5))).unwrap();
    LatencyCounts(vec![(bucket, requests)])
}

pub fn version(name: &str) -> VersionName {
    VersionName::new(name).unwrap()
}

pub fn wish(name: &str) -> Wish {
    Wish { version: version(name), revision: String::new() }
}

pub fn weight(text: &str) -> Step {
    Step::SetWeight(text.parse().unwrap())
}

pub fn hold(seconds: u64) -> Step {
    Step::Pause(Pause::For(Duration::from_secs(seconds)))
}

/// v1 stable, v2 wished, v3 there; the guard's defaults.
pub fn plan(steps: Vec<Step>) -> ServicePlan {
    let versions = ["v1", "v2", "v3"].map(|name| VersionPlan {
        name: version(name),
        endpoints: vec![Endpoint::tcp(name, 80)],
        http: UpstreamHttp::H1,
        upstream: Arc::default(),
        filters: Arc::default(),
    });
    ServicePlan {
        name: ServiceName::new("web").unwrap(),
        versions: versions.into(),
        stable: version("v1"),
        wish: Some(wish("v2")),
        force: None,
        cohorts: Vec::new(),
        sticky: None,
        timeouts: Timeouts::default(),
        retry: Retry::default(),
        failure: FailurePlan::default(),
        strategy: Strategy {
            steps,
            numbering: Numbering::Each,
            guard: Guard::default(),
            on_no_traffic: OnNoTraffic::Wait,
            no_traffic_for: Duration::from_mins(10),
            deadline: None,
            policy: Policy::default(),
            analysis: None,
        },
        by_hand: Vec::new(),
        gates: Vec::new(),
    }
}
