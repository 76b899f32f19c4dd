//! One life story of a machine, from a seed: what is done to it, then peace, in which everything must come to an end.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use serin::engine::{
    analysis::answer::{Answer, Reply},
    event::{Event, EventKind},
    input::{Input, Verb},
    memory::{PauseKind, PhaseMemory},
    names::ServiceName,
    plan::{ServicePlan, Wish},
    samples::Samples,
    split::BUCKETS,
    time::Timestamp,
    weight::Weight,
};

use super::{
    clients::{cohorts, sticky},
    disk::{Death, Illness},
    machine::{Kill, Machine},
    messages::Receiver,
};
use crate::{
    analyses::{judge, outside, times},
    rollouts::{any_version, random_plan, random_traffic},
    world::{Dice, Traffic, traffic_of},
};

/// Virtual time after the last fault within which every rollout must have ended.
const LIVENESS: Duration = Duration::from_mins(10);

/// How a story ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Told {
    digest: u64,
    promoted: usize,
    aborted: usize,
    crashes: usize,
    alarms: usize,
    analysed: usize,
}

/// Over many stories.
#[derive(Debug, Default)]
pub struct Ended {
    stories: usize,
    sum: Told,
}

impl Ended {
    pub fn add(&mut self, told: &Told) {
        self.stories += 1;
        self.sum.promoted += told.promoted;
        self.sum.aborted += told.aborted;
        self.sum.crashes += told.crashes;
        self.sum.alarms += told.alarms;
        self.sum.analysed += told.analysed;
    }

    /// Whether enough happened for the promises to be tried.
    pub fn judge(&self) {
        println!("{self:?}");
        let Told { promoted, aborted, crashes, alarms, analysed, .. } = self.sum;
        let least = [promoted, aborted, crashes, alarms, analysed].into_iter().min().unwrap_or(0);
        assert!(least * 10 > self.stories, "a dull world: {self:?}");
    }
}

struct Story {
    machine: Machine,
    traffic: Vec<Traffic>,
    /// Steps until the disk works again.
    sick: u64,
    crashes: usize,
    alarms: usize,
    analysed: usize,
}

pub fn play(seed: u64) -> Told {
    let mut dice = Dice::new(seed);
    let count = 1 + usize::try_from(dice.below(3)).unwrap();
    let file: Vec<ServicePlan> = (0..count).map(|at| random_service(at, &mut dice)).collect();
    let traffic = (0..count).map(|_| random_traffic(&mut dice)).collect();
    let mut story =
        Story { machine: Machine::new(file, &mut dice), traffic, sick: 0, crashes: 0, alarms: 0, analysed: 0 };
    for _ in 0..20 + dice.below(80) {
        story.step(&mut dice);
    }
    story.peace(&mut dice);
    story.told()
}

/// As other simulations have it, with analyses in between.
fn random_service(at: usize, dice: &mut Dice) -> ServicePlan {
    let mut plan = random_plan(dice);
    plan.name = ServiceName::new(&format!("s{at}")).unwrap();
    // Nobody waits for tomorrow here.
    plan.strategy.policy.windows.clear();
    (plan.sticky, plan.cohorts) = (sticky(dice), cohorts(dice));
    plan.strategy.policy.concurrent = usize::from(dice.chance(20));
    if dice.chance(50) {
        let place = usize::try_from(dice.below(plan.strategy.steps.len() as u64 + 1)).unwrap();
        let metric = if dice.chance(60) { outside() } else { judge() };
        plan.strategy.steps.insert(place, times(1 + u32::try_from(dice.below(2)).unwrap(), metric));
    }
    plan
}

fn any_death(dice: &mut Dice) -> Death {
    if dice.chance(50) { Death::Machine } else { Death::Process }
}

fn maybe(percent: u64, dice: &mut Dice) -> Kill {
    if dice.chance(percent) { Kill::Amidst(any_death(dice)) } else { Kill::Never }
}

fn any_illness(dice: &mut Dice) -> Illness {
    let percent = 20 + dice.below(81);
    match dice.below(10) {
        0 | 1 => Illness::Full(dice.below(2_500)),
        2 | 3 => Illness::Syncs(percent),
        4 => Illness::Folder(percent),
        5 => Illness::Names(percent),
        6 => Illness::Calls(percent),
        7 | 8 => Illness::Collapsing,
        _ => Illness::ReadOnly,
    }
}

impl Story {
    fn step(&mut self, dice: &mut Dice) {
        self.weather(dice);
        if self.machine.process.is_none() {
            self.machine.wait(Duration::from_millis(dice.below(5_000)));
            self.set_clock(dice);
            let kill = maybe(10, dice);
            let _may_fail_while_the_disk_is_sick = self.machine.start(kill, dice);
            self.count();
            return;
        }
        if dice.chance(3) {
            let death = any_death(dice);
            self.machine.kill(death, dice);
        }
        if dice.chance(15) {
            self.disturb(dice);
        }
        self.answers(dice);
        self.machine.wait(Duration::from_millis(if dice.chance(5) {
            dice.below(20_000)
        } else {
            100 + dice.below(900)
        }));
        let kill = maybe(10, dice);
        let traffic = self.traffic.clone();
        self.look(&traffic, kill, dice);
        self.machine.serve(dice);
        self.others(dice);
    }

    /// The disk falls ill and gets well again.
    fn weather(&mut self, dice: &mut Dice) {
        self.sick = self.sick.saturating_sub(1);
        if self.sick > 0 {
            return;
        }
        self.machine.disk.fall_ill(None);
        if dice.chance(20) {
            self.machine.disk.settle();
        }
        if dice.chance(4) {
            self.sick = 1 + dice.below(15);
            self.machine.disk.fall_ill(Some(any_illness(dice)));
        }
    }

    /// Messages, what is saved each second, and a process that waits for its turn.
    fn others(&mut self, dice: &mut Dice) {
        let kill = maybe(5, dice);
        self.machine.deliver(kill, dice);
        let kill = maybe(3, dice);
        self.machine.save(kill, dice);
        self.count();
        self.machine.look_beside();
        if dice.chance(3) {
            let mut file = self.machine.file.clone();
            if dice.chance(30) {
                change(&mut file, dice);
            }
            self.machine.start_beside(file);
        }
    }

    /// What was done since the last look.
    fn look(&mut self, traffic: &[Traffic], kill: Kill, dice: &mut Dice) {
        let Some(table) = self.machine.table() else { return };
        let slots =
            table.services.iter().zip(traffic).flat_map(|(service, traffic)| traffic_of(service, *traffic, dice));
        let samples = Samples { slots: slots.collect(), ..Samples::default() };
        self.machine.apply(Input::Measured(samples), kill, dice);
    }

    fn count(&mut self) {
        if self.machine.process.is_none() {
            self.crashes += 1;
        }
        self.alarms += usize::from(self.machine.process.as_ref().is_some_and(|process| process.disk_failed));
    }

    /// Somebody sets the clock while nobody lives, up to an hour back or forth.
    fn set_clock(&mut self, dice: &mut Dice) {
        let hour = Duration::from_millis(dice.below(3_600_000));
        match dice.below(6) {
            0 => self.machine.wall = self.machine.wall - hour,
            1 => self.machine.wall = self.machine.wall + hour,
            _ => {}
        }
    }

    /// Answers come late, twice, wrongly, or never.
    fn answers(&mut self, dice: &mut Dice) {
        for question in std::mem::take(&mut self.machine.questions) {
            let number = |value| Ok(Reply::Value(Answer::List(vec![Answer::Number(value)])));
            let reply = match dice.below(12) {
                0 => continue,
                1..=5 => {
                    self.machine.questions.push(question);
                    continue;
                }
                6 => number(0.0),
                7 => Err("no route to host".to_owned()),
                8 => Ok(Reply::Value(Answer::Nil)),
                _ => number(1.0),
            };
            let mut ticket = question.ticket.clone();
            if dice.chance(5) {
                ticket.revision.0 += 1;
            }
            if dice.chance(10) {
                self.machine.questions.push(question);
            }
            let kill = maybe(5, dice);
            self.machine.apply(Input::Answered(ticket, reply), kill, dice);
            if self.machine.process.is_none() {
                return;
            }
        }
    }

    fn disturb(&mut self, dice: &mut Dice) {
        let kill = maybe(20, dice);
        let at = usize::try_from(dice.below(self.machine.file.len() as u64)).unwrap();
        let service = self.machine.file[at].name.clone();
        let ppm = u32::try_from(dice.below(u64::from(BUCKETS) + 1)).unwrap();
        let verb = match dice.below(16) {
            0 => Verb::Pause,
            1 | 2 => Verb::Resume,
            3 => Verb::Abort,
            4 => Verb::Retry,
            5 => Verb::Promote { full: dice.chance(20), force: dice.chance(20) },
            6 => Verb::Undo { to: None },
            7 => Verb::SetWeight(Weight::from_ppm(ppm).unwrap()),
            8 | 9 => Verb::Start { to: any_version(dice), revision: String::new(), site: None },
            10 => Verb::Drain,
            11 => Verb::Terminate,
            _ => return self.edit(kill, dice),
        };
        // A refusal is an answer too.
        let _refused = self.machine.order(&service, verb, kill, dice);
    }

    fn edit(&mut self, kill: Kill, dice: &mut Dice) {
        let mut file = self.machine.file.clone();
        change(&mut file, dice);
        self.machine.edit(file, kill, dice);
    }

    /// No more faults, enough traffic, everybody answers, and a person who says "go on": every rollout ends.
    fn peace(&mut self, dice: &mut Dice) {
        self.machine.disk.fall_ill(None);
        self.machine.receivers.iter_mut().for_each(Receiver::come_back);
        if self.machine.process.is_none() {
            self.machine.start(Kill::Never, dice).expect("a sound disk can be opened");
        }
        let good = vec![Traffic { requests: 40, stable_errors: 0, canary_errors: 0 }; self.machine.file.len()];
        // What waited for the disk is written within a second.
        self.machine.wait(Duration::from_secs(1));
        self.machine.save(Kill::Never, dice);
        let begin = self.machine.wall;
        while !self.nudge(dice) {
            assert!(self.machine.wall.since(begin) < LIVENESS, "no end: {:?}", self.machine.disk.peek().memory);
            for question in std::mem::take(&mut self.machine.questions) {
                let reply = Ok(Reply::Value(Answer::List(vec![Answer::Number(1.0)])));
                self.machine.apply(Input::Answered(question.ticket, reply), Kill::Never, dice);
            }
            for _ in 0..10 {
                self.machine.wait(Duration::from_millis(100));
                self.look(&good, Kill::Never, dice);
            }
            self.machine.save(Kill::Never, dice);
        }
        self.all_is_told(dice);
    }

    /// Every message arrives, and what was told is there after one more loss of power.
    fn all_is_told(&mut self, dice: &mut Dice) {
        let begin = self.machine.wall;
        self.machine.wait(Duration::from_secs(1));
        self.machine.save(Kill::Never, dice);
        while !self.machine.has_told_all() {
            assert!(self.machine.wall.since(begin) < Duration::from_hours(3), "messages wait for ever");
            self.machine.wait(Duration::from_secs(1));
            self.machine.deliver(Kill::Never, dice);
        }
        self.analysed = self.analysed();
        let told = self.machine.told.clone();
        self.machine.kill(Death::Machine, dice);
        self.machine.start(Kill::Never, dice).expect("a sound disk can be opened");
        assert!(self.machine.told.starts_with(&told), "and stays told");
    }

    fn analysed(&self) -> usize {
        let process = self.machine.process.as_ref().unwrap();
        let view = process.decider.engine().view(process.now);
        view.services.iter().filter(|service| !service.analysis_runs.is_empty()).count()
    }

    /// A person looks each second and says what goes on; whether all has ended.
    fn nudge(&mut self, dice: &mut Dice) -> bool {
        let now = self.machine.process.as_ref().map_or(Timestamp::default(), |process| process.now);
        let mut ended = true;
        for memory in self.machine.disk.peek().memory.services {
            let verb = match &memory.phase {
                PhaseMemory::Healthy | PhaseMemory::Degraded { .. } => continue,
                PhaseMemory::Paused { kind: PauseKind::Untrusted, .. } => Some(Verb::Abort),
                PhaseMemory::Paused { .. } => Some(Verb::Resume),
                // A tiny share meets too few requests to wait for.
                PhaseMemory::Progressing(rollout) => (now.since(rollout.since) > Duration::from_secs(30))
                    .then_some(Verb::Promote { full: false, force: false }),
            };
            ended = false;
            if let Some(verb) = verb {
                let outcome = self.machine.order(&memory.service, verb, Kill::Never, dice).unwrap();
                assert!(outcome.is_ok(), "{outcome:?}, but the disk has {memory:?}");
            }
        }
        ended
    }

    fn told(&self) -> Told {
        let history = self.machine.process.as_ref().unwrap().history();
        let of = |kind| history.iter().filter(|event| event.kind == kind).count();
        Told {
            digest: digest(&history),
            promoted: of(EventKind::Promoted),
            aborted: of(EventKind::Aborted),
            crashes: self.crashes,
            alarms: self.alarms,
            analysed: self.analysed,
        }
    }
}

/// Somebody edits one service of it.
fn change(file: &mut [ServicePlan], dice: &mut Dice) {
    let at = usize::try_from(dice.below(file.len() as u64)).unwrap();
    match dice.below(5) {
        0 | 1 => {
            let revision = if dice.chance(30) { format!("b{}", dice.below(3)) } else { String::new() };
            // A file that wishes what it does not have is refused when it is read.
            let known = usize::try_from(dice.below(file[at].versions.len() as u64)).unwrap();
            let version = file[at].versions[known].name.clone();
            file[at].wish = dice.chance(80).then_some(Wish { version, revision });
        }
        2 => file[at].strategy = random_service(at, dice).strategy,
        3 => (file[at].sticky, file[at].cohorts) = (sticky(dice), cohorts(dice)),
        _ => {
            let gone = any_version(dice);
            let plan = &mut file[at];
            let named = plan.stable == gone || plan.wish.as_ref().is_some_and(|wish| wish.version == gone);
            if !named && plan.versions.len() > 2 {
                plan.versions.retain(|version| version.name != gone);
            }
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
