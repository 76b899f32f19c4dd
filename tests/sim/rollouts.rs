//! Thousands of random rollouts with random traffic, commands, edits of the file and crashes; checkers stand outside the engine.
//! `SIM_SEED=… cargo test --test sim` replays one seed.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use http::HeaderName;
use jiff::tz::TimeZone;

use serin::engine::{
    assign::HeaderRoute,
    event::{Cause, Event, EventKind},
    input::Verb,
    memory::{PauseKind, PhaseMemory},
    mirror::MirrorRoute,
    plan::{ErrorRateLimit, OnFailure, Pause, ServicePlan, Step, Wish},
    policy::RiseWindow,
    request::{HeaderMatch, RequestMatch, StringMatch},
    split::BUCKETS,
    time::Timestamp,
    weight::Weight,
};

use crate::world::{Dice, Traffic, World, hold, plan, version};

/// As many as the promise says.
const ROLLOUTS: u64 = 10_000;
/// Virtual time after the last disturbance within which a rollout must have ended.
const LIVENESS: Duration = Duration::from_mins(5);

#[test]
fn ten_thousand_random_rollouts_keep_every_promise() {
    let only: Option<u64> = std::env::var("SIM_SEED").ok().map(|seed| seed.parse().expect("SIM_SEED is a number"));
    let (mut promoted, mut aborted) = (0, 0);
    for seed in only.map_or(1..ROLLOUTS + 1, |seed| seed..seed + 1) {
        let told = std::panic::catch_unwind(|| play(seed));
        let history = told.unwrap_or_else(|_| panic!("seed {seed} broke a promise; replay it with SIM_SEED={seed}"));
        promoted += u64::from(history.iter().any(|event| event.kind == EventKind::Promoted));
        aborted += u64::from(history.iter().any(|event| event.kind == EventKind::Aborted));
        if seed % 50 == 0 {
            assert_eq!(digest(&play(seed)), digest(&history), "the same seed gives the same history (seed {seed})");
        }
    }
    if only.is_none() {
        assert!(
            promoted > ROLLOUTS / 10 && aborted > ROLLOUTS / 10,
            "{promoted} promoted, {aborted} aborted: a dull world"
        );
    }
}

/// One rollout from start to end; gives its history.
fn play(seed: u64) -> Vec<Event> {
    let mut dice = Dice::new(seed);
    let mut world = World::new(random_plan(&mut dice));
    let mut watch = Watch::new(&world);
    let traffic = random_traffic(&mut dice);
    for _ in 0..20 + dice.below(100) {
        if dice.chance(6) {
            disturb(&mut world, &mut dice);
            watch.check(&world);
        }
        world.tick(traffic, &mut dice);
        watch.check(&world);
    }
    settle(&mut world, &mut watch, &mut dice);
    world.events
}

/// No more disturbances, enough traffic, and a person who says "go on": every rollout ends.
fn settle(world: &mut World, watch: &mut Watch, dice: &mut Dice) {
    let traffic = Traffic { requests: 40, stable_errors: 0, canary_errors: 0 };
    // Nobody waits for tomorrow's window here.
    let patience = if world.plan.strategy.policy.windows.is_empty() { 300 } else { 50 };
    for tick in 0..LIVENESS.as_millis() / 100 {
        match world.phase() {
            // A tiny share meets too few requests to wait for.
            PhaseMemory::Progressing(_) if tick % patience == patience - 1 => {
                world.order(Verb::Promote { full: false, force: false }).unwrap();
            }
            PhaseMemory::Healthy | PhaseMemory::Degraded { .. } => return,
            PhaseMemory::Paused { kind: PauseKind::Untrusted, .. } => world.order(Verb::Abort).unwrap(),
            PhaseMemory::Paused { .. } => world.order(Verb::Resume).unwrap(),
            PhaseMemory::Progressing(_) => {}
        }
        watch.check(world);
        world.tick(traffic, dice);
        watch.check(world);
    }
    panic!("the rollout does not end: {:?}", world.phase());
}

pub fn random_plan(dice: &mut Dice) -> ServicePlan {
    let mut steps = Vec::new();
    for _ in 0..=dice.below(5) {
        let ppm = if dice.chance(20) { dice.below(2_000) } else { dice.below(u64::from(BUCKETS) + 1) };
        steps.push(Step::SetWeight(Weight::from_ppm(u32::try_from(ppm).unwrap()).unwrap()));
        if dice.chance(15) {
            let name: Arc<str> = ["a", "b"][usize::try_from(dice.below(2)).unwrap()].into();
            let field = HeaderMatch { name: HeaderName::from_static("x"), value: StringMatch::Exact("1".into()) };
            let route = HeaderRoute { name: Arc::clone(&name), matches: vec![field], all: false };
            steps.push(Step::SetHeaderRoute { route: dice.chance(70).then_some(route), name });
        }
        if dice.chance(15) {
            let name: Arc<str> = ["a", "b"][usize::try_from(dice.below(2)).unwrap()].into();
            let matches = vec![RequestMatch::default()];
            let route = MirrorRoute { name: Arc::clone(&name), share: Weight::FULL, matches };
            steps.push(Step::SetMirrorRoute { route: dice.chance(70).then_some(route), name });
        }
        match dice.below(9) {
            0 => steps.push(Step::Pause(Pause::Person)),
            1 => steps.push(Step::Pause(Pause::Requests(dice.below(30)))),
            2 => {}
            3 => steps.push(Step::Pause(Pause::Bake(Duration::from_secs(dice.below(3))))),
            _ => steps.push(hold(dice.below(4))),
        }
    }
    let mut wanted = plan(steps);
    let guard = &mut wanted.strategy.guard;
    if dice.chance(50) {
        let window = Duration::from_secs(1 + dice.below(10));
        guard.error_rate = Some(ErrorRateLimit { max: 0.05, window, min_requests: dice.below(3) });
    }
    if dice.chance(20) {
        guard.share_test = None;
    }
    if dice.chance(20) {
        guard.on_failure = OnFailure::Pause;
    }
    if dice.chance(20) {
        guard.warmup.errors = Duration::from_millis(dice.below(3_000));
    }
    let policy = &mut wanted.strategy.policy;
    policy.scale_down_delay = Duration::from_millis(dice.below(5_000));
    policy.rollback_window = usize::try_from(dice.below(3)).unwrap();
    if dice.chance(30) {
        policy.abort_ramp = Duration::from_millis(dice.below(4_000));
    }
    if dice.chance(15) {
        // The clock starts at 22:13:20: a window that closes, or opens, in the midst of it.
        let (from, to) = if dice.chance(50) { (0, 22 * 60 + 14) } else { (22 * 60 + 14, 1440) };
        policy.windows = vec![RiseWindow { days: [true; 7], from, to, zone: TimeZone::UTC }];
    }
    policy.abort_scale_down_delay = dice.chance(80).then(|| Duration::from_millis(dice.below(5_000)));
    if dice.chance(10) {
        let guard = &mut wanted.strategy.guard;
        (guard.error_rate, guard.share_test, guard.consecutive_errors) = (None, None, 0);
    }
    wanted
}

pub fn random_traffic(dice: &mut Dice) -> Traffic {
    let errors = |dice: &mut Dice| [0, 0, 1_000, 50_000, 500_000, 1_000_000][usize::try_from(dice.below(6)).unwrap()];
    Traffic { requests: dice.below(20), stable_errors: errors(dice) / 10, canary_errors: errors(dice) }
}

fn disturb(world: &mut World, dice: &mut Dice) {
    // A refusal is an answer too; what must hold is checked from outside.
    let _refused = match dice.below(14) {
        0 => world.order(Verb::Pause),
        1 | 2 => world.order(Verb::Resume),
        3 => world.order(Verb::Abort),
        4 => world.order(Verb::Retry),
        5 => world.order(Verb::Promote { full: dice.chance(20), force: dice.chance(20) }),
        6 => world.order(Verb::Undo { to: None }),
        7 => {
            let ppm = u32::try_from(dice.below(u64::from(BUCKETS) + 1)).unwrap();
            world.order(Verb::SetWeight(Weight::from_ppm(ppm).unwrap()))
        }
        8 => world.order(Verb::Start { to: any_version(dice), revision: String::new(), site: None }),
        9 | 10 => {
            let mut edited = world.plan.clone();
            let revision = if dice.chance(30) { format!("b{}", dice.below(3)) } else { String::new() };
            edited.wish = dice.chance(80).then(|| Wish { version: any_version(dice), revision });
            world.configure(edited)
        }
        11 => {
            let mut edited = world.plan.clone();
            edited.strategy.steps = random_plan(dice).strategy.steps;
            world.configure(edited)
        }
        _ => {
            let down = Duration::from_millis(dice.below(5_000));
            world.crash(down);
            Ok(())
        }
    };
}

pub fn any_version(dice: &mut Dice) -> serin::engine::names::VersionName {
    version(["v1", "v2", "v3"][usize::try_from(dice.below(3)).unwrap()])
}

/// What must hold after every input, seen from outside.
struct Watch {
    seen: usize,
    withdrawn: Option<String>,
    steps: Vec<Step>,
    other_weights: bool,
    withdrawn_at: Timestamp,
    highest: Weight,
}

impl Watch {
    fn new(world: &World) -> Self {
        Self {
            seen: 0,
            withdrawn: None,
            steps: world.plan.strategy.steps.clone(),
            other_weights: false,
            withdrawn_at: Timestamp::default(),
            highest: Weight::ZERO,
        }
    }

    fn check(&mut self, world: &World) {
        let service = world.service();
        let sum: u32 = service.versions.iter().map(|version| version.weight.ppm()).sum();
        assert_eq!(sum, BUCKETS, "weights sum to the whole");
        for event in &world.events[self.seen..] {
            // A weight set by hand may be held in the last step; edited steps may leave one that they do not name.
            self.other_weights |= matches!(event.cause, Cause::Person { verb: "set-weight", .. });
            match event.kind {
                EventKind::Aborted => {
                    self.withdrawn = event.canary.as_ref().map(ToString::to_string);
                    (self.withdrawn_at, self.highest) = (event.at, event.weight);
                }
                EventKind::Started | EventKind::Promoted => self.withdrawn = None,
                _ => {}
            }
        }
        self.seen = world.events.len();
        if let Some(withdrawn) = &self.withdrawn {
            let of = service.versions.iter().find(|version| version.name.as_str() == withdrawn);
            let weight = of.map_or(Weight::ZERO, |version| version.weight);
            assert!(weight <= self.highest, "after an abort the weight only falls until retry or a new revision");
            self.highest = weight;
            let over = world.now.since(self.withdrawn_at) > world.plan.strategy.policy.abort_ramp;
            assert!(!over || weight == Weight::ZERO, "and is nothing after the ramp");
            assert!(service.header_routes.is_empty() && service.mirror_routes.is_empty(), "no route is left");
        }
        self.other_weights |= world.plan.strategy.steps != self.steps;
        if let PhaseMemory::Progressing(rollout) = world.phase() {
            let planned = self.steps.contains(&Step::SetWeight(rollout.weight));
            assert!(planned || rollout.weight == Weight::ZERO || self.other_weights, "{} is no step's", rollout.weight);
        }
    }
}

fn digest(history: &[Event]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for event in history {
        format!("{event:?}").hash(&mut hasher);
    }
    hasher.finish()
}
