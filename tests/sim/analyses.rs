//! From run to rollout: what an analysis of a step, or beside the steps, does to a rollout. Rows C of the decision table,
//! and what goes beyond it.

use std::time::Duration;

use serin::engine::{
    analysis::{
        Template,
        answer::{Answer, Reply},
        ask::{Ask, Http, RunKind, Text},
        condition::{Condition, Shape},
        record::RunRecord,
        run::AnalysisPhase,
        template::{Arm, MetricPlan, Provider, TimeToLive},
    },
    event::{Cause, EventKind},
    input::{Input, Verb},
    memory::{PauseKind, PhaseMemory},
    names::Role,
    plan::{BackgroundAnalysis, Guard, OnFailure, ServicePlan, Step},
    weight::Weight,
};
use serin::words::{self, ConfigNote, Style};

use crate::world::{Dice, Traffic, World, hold, plan, version, weight, wish};

const GOOD: Traffic = Traffic { requests: 20, stable_errors: 0, canary_errors: 0 };
const NOBODY: Traffic = Traffic { requests: 0, stable_errors: 0, canary_errors: 0 };
const BAD: Traffic = Traffic { requests: 20, stable_errors: 0, canary_errors: 400_000 };

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn metric(name: &str, success: &str, failure: &str) -> MetricPlan {
    let condition = |text: &str| (!text.is_empty()).then(|| Condition::parse(text, Shape::Own).unwrap());
    MetricPlan {
        name: name.to_owned(),
        interval: Some(secs(2)),
        initial_delay: Duration::ZERO,
        count: None,
        success: condition(success),
        failure: condition(failure),
        failure_limit: Some(0),
        inconclusive_limit: 0,
        consecutive_error_limit: 4,
        consecutive_success_limit: 0,
        consecutive_failure_limit: None,
        dry_run: false,
        retention: 10,
        provider: Provider::Serin { version: Arm::Canary, window: secs(2) },
    }
}

/// Good below 1 % errors.
pub fn judge() -> MetricPlan {
    metric("rate", "result.errorRate < 0.01", "")
}

/// Neither good nor bad at 40 % errors.
pub fn undecided() -> MetricPlan {
    metric("rate", "result.errorRate < 0.01", "result.errorRate > 0.9")
}

pub fn outside() -> MetricPlan {
    let (address, query) = (Text::plain("http://p"), Text::plain("up"));
    let ask = Ask::Prometheus { address, query, range: None, http: Http::default() };
    MetricPlan {
        provider: Provider::Outside { ask: Box::new(ask), timeout: secs(5) },
        success: Some(Condition::parse("result[0] > 0", Shape::Numbers).unwrap()),
        ..metric("up", "", "")
    }
}

pub fn template(metric: MetricPlan) -> Vec<Template> {
    vec![Template { name: "t".to_owned(), args: Vec::new(), metrics: vec![metric], ttl: TimeToLive::default() }]
}

pub fn times(count: u32, metric: MetricPlan) -> Step {
    Step::Analysis(template(MetricPlan { count: Some(count), ..metric }))
}

/// Without any guard, so that only analyses decide.
pub fn unguarded(steps: Vec<Step>) -> ServicePlan {
    let mut plan = plan(steps);
    plan.strategy.guard = Guard { share_test: None, consecutive_errors: 0, ..Guard::default() };
    plan
}

fn beside(steps: Vec<Step>, metric: MetricPlan, starting_step: usize) -> ServicePlan {
    let mut plan = unguarded(steps);
    plan.strategy.analysis = Some(BackgroundAnalysis { templates: template(metric), starting_step });
    plan
}

pub fn runs(world: &World) -> Vec<RunRecord> {
    let view = world.engine.view(world.now);
    view.services[0].analysis_runs.iter().map(|run| RunRecord::clone(run)).collect()
}

fn step(world: &World) -> usize {
    world.engine.view(world.now).services[0].rollout.as_ref().unwrap().step
}

/// Answers all questions that wait.
pub fn answer(world: &mut World, reply: &Result<Reply, String>) -> usize {
    let questions = std::mem::take(&mut world.questions);
    for question in &questions {
        world.apply(Input::Answered(question.ticket.clone(), reply.clone())).unwrap();
    }
    questions.len()
}

fn is_withdrawn(world: &World, phase: &str) -> bool {
    let cause = world.last(EventKind::Aborted).map(|event| &event.cause);
    let by_analysis = matches!(cause, Some(Cause::Analysis { phase: of, .. }) if *of == phase);
    by_analysis && world.canary_weight() == Weight::ZERO && matches!(world.phase(), PhaseMemory::Degraded { .. })
}

#[test]
fn c1_a_successful_step_goes_on() {
    let mut world = World::new(unguarded(vec![weight("20%"), times(3, judge()), weight("50%"), hold(60)]));
    world.run(secs(3), GOOD, &mut Dice::new(1));
    assert_eq!(step(&world), 2);
    world.run(secs(3), GOOD, &mut Dice::new(1));
    assert_eq!((step(&world), world.canary_weight()), (4, "50%".parse().unwrap()));
    let [run] = &runs(&world)[..] else { panic!("one run") };
    assert_eq!((run.phase, run.kind, run.metrics[0].tally.successful), (AnalysisPhase::Successful, RunKind::Step, 3));
    assert!(run.metrics[0].measurements.iter().all(|of| of.samples.contains("canary") && !of.value.is_empty()));
}

#[test]
fn c2_a_failed_or_erroneous_run_aborts_wherever_it_runs() {
    for in_step in [true, false] {
        let steps = |judge: MetricPlan| {
            let mut steps = vec![weight("20%"), hold(600)];
            if in_step {
                steps.insert(1, times(5, judge));
                return unguarded(steps);
            }
            beside(steps, judge, 0)
        };
        let mut world = World::new(steps(judge()));
        world.run(secs(5), BAD, &mut Dice::new(2));
        assert!(is_withdrawn(&world, "Failed"), "{in_step}");
        let mut world = World::new(steps(MetricPlan { consecutive_error_limit: 0, ..outside() }));
        world.run(secs(1), GOOD, &mut Dice::new(2));
        assert_eq!(answer(&mut world, &Err("down".to_owned())), 1);
        assert!(is_withdrawn(&world, "Error"), "{in_step}");
        let mut world = World::new(steps(outside()));
        world.run(secs(30), GOOD, &mut Dice::new(2));
        assert_eq!(world.last(EventKind::Aborted), None, "an outage has its patience: {in_step}");
    }
}

#[test]
fn c3_an_inconclusive_step_waits_and_promote_does_not_repeat_it() {
    let steps = vec![weight("20%"), times(3, undecided()), weight("50%"), hold(60)];
    let mut world = World::new(unguarded(steps));
    world.run(secs(3), BAD, &mut Dice::new(3));
    assert!(matches!(world.phase(), PhaseMemory::Paused { kind: PauseKind::Inconclusive, .. }));
    assert_eq!(world.canary_weight(), "20%".parse().unwrap());
    world.order(Verb::Promote { full: false, force: false }).unwrap();
    assert_eq!((step(&world), world.canary_weight()), (4, "50%".parse().unwrap()));
}

#[test]
fn c4_an_inconclusive_run_beside_the_steps_waits_and_begins_anew_on_resume() {
    let mut world = World::new(beside(vec![weight("20%"), hold(600)], undecided(), 0));
    world.run(secs(3), BAD, &mut Dice::new(4));
    assert!(matches!(world.phase(), PhaseMemory::Paused { kind: PauseKind::Inconclusive, .. }));
    world.order(Verb::Resume).unwrap();
    world.run(Duration::from_millis(100), BAD, &mut Dice::new(4));
    // The window still holds what the first run looked at, so the second may come to the same.
    let phases: Vec<_> = runs(&world).iter().map(|run| run.phase).collect();
    assert_eq!((phases.len(), phases[0]), (2, AnalysisPhase::Inconclusive), "a run of its own: {phases:?}");
}

#[test]
fn c6_a_run_beside_the_steps_that_ends_well_leaves_no_later_step_unwatched() {
    let metric = MetricPlan { count: Some(2), ..judge() };
    let mut world = World::new(beside(vec![weight("20%"), hold(20), weight("50%"), hold(600)], metric, 0));
    world.run(secs(30), GOOD, &mut Dice::new(5));
    assert!(runs(&world).len() > 2 && world.last(EventKind::Aborted).is_none());
    world.run(secs(10), BAD, &mut Dice::new(5));
    assert!(is_withdrawn(&world, "Failed"));
    assert!(runs(&world).len() <= 10, "what ended is kept within bounds");
}

#[test]
fn c7_a_pause_by_hand_stops_no_judge() {
    let mut world = World::new(beside(vec![weight("20%"), hold(600)], judge(), 0));
    world.run(secs(5), GOOD, &mut Dice::new(6));
    world.order(Verb::Pause).unwrap();
    world.run(secs(5), BAD, &mut Dice::new(6));
    assert!(is_withdrawn(&world, "Failed"));
    let mut world = World::new(unguarded(vec![weight("20%"), times(100, judge()), hold(600)]));
    world.run(secs(5), GOOD, &mut Dice::new(6));
    world.order(Verb::Pause).unwrap();
    world.run(secs(5), BAD, &mut Dice::new(6));
    assert!(is_withdrawn(&world, "Failed"), "nor that of a step");
}

#[test]
fn c10_a_newer_version_is_not_judged_by_what_the_former_did() {
    let mut world = World::new(beside(vec![weight("20%"), hold(600)], judge(), 0));
    world.run(secs(5), GOOD, &mut Dice::new(7));
    let mut newer = world.plan.clone();
    newer.wish = Some(wish("v3"));
    world.configure(newer).unwrap();
    world.run(secs(5), GOOD, &mut Dice::new(7));
    let phases: Vec<_> = runs(&world).iter().map(|run| (run.revision.0, run.phase)).collect();
    assert_eq!(phases, [(1, AnalysisPhase::Terminated), (2, AnalysisPhase::Running)]);
    let canary = world.service().versions.iter().find(|of| of.role == Role::Canary).unwrap();
    assert_eq!(canary.name, version("v3"));
}

#[test]
fn c15_promote_full_asks_no_judge_and_leaves_the_run_terminated() {
    let mut world =
        World::new(beside(vec![weight("20%"), hold(600)], MetricPlan { failure_limit: Some(99), ..judge() }, 0));
    world.run(secs(5), BAD, &mut Dice::new(8));
    world.order(Verb::Promote { full: true, force: false }).unwrap();
    assert!(world.last(EventKind::Promoted).is_some());
    let run = runs(&world).pop().unwrap();
    assert_eq!((run.phase, run.metrics[0].tally.failed > 0), (AnalysisPhase::Terminated, true));
}

#[test]
fn c17_nothing_is_judged_beside_the_steps_before_the_starting_step() {
    let steps = vec![weight("20%"), hold(5), weight("50%"), hold(600)];
    let mut world = World::new(beside(steps, judge(), 3));
    world.run(secs(4), BAD, &mut Dice::new(9));
    assert_eq!(runs(&world), []);
    world.run(secs(8), BAD, &mut Dice::new(9));
    assert!(is_withdrawn(&world, "Failed"));
    assert_eq!(runs(&world)[0].step, 4);
}

#[test]
fn an_abort_in_mid_run_is_on_record_as_terminated_with_its_counts() {
    let mut world = World::new(unguarded(vec![weight("20%"), times(100, judge()), hold(600)]));
    world.run(secs(5), GOOD, &mut Dice::new(10));
    world.order(Verb::Abort).unwrap();
    let run = runs(&world).pop().unwrap();
    assert_eq!((run.phase, run.metrics[0].tally.successful), (AnalysisPhase::Terminated, 3));
    assert!(run.completed.is_some());
}

/// A rollout with a run beside the steps that ends well every few seconds, after one of a step that was not waited for.
#[test]
fn good_runs_do_not_push_bad_ones_out_of_the_record() {
    let short = MetricPlan { count: Some(1), interval: Some(secs(1)), ..judge() };
    let mut world = World::new(beside(vec![weight("5%"), times(90, judge()), hold(600)], short, 0));
    let mut dice = Dice::new(40);
    world.run(secs(5), GOOD, &mut dice);
    world.order(Verb::Promote { full: false, force: false }).unwrap();
    world.run(secs(60), GOOD, &mut dice);
    let ended: Vec<AnalysisPhase> =
        runs(&world).iter().filter(|run| run.completed.is_some()).map(|run| run.phase).collect();
    let good = ended.iter().filter(|phase| **phase == AnalysisPhase::Successful).count();
    assert_eq!((good, ended.contains(&AnalysisPhase::Terminated)), (5, true), "{ended:?}");
}

/// `ttlStrategy`, row by row: how the run ends, what the templates say, and after how many seconds its record is gone.
#[test]
fn the_record_of_a_run_is_forgotten_after_its_time_without_traffic_too() {
    let ttl = |completion: Option<u64>, success: Option<u64>, failure: Option<u64>| TimeToLive {
        after_completion: completion.map(secs),
        after_success: success.map(secs),
        after_failure: failure.map(secs),
    };
    let (none, all) = (TimeToLive::default(), ttl(Some(100), Some(50), Some(20)));
    for (traffic, terminated, times, kept) in [
        (GOOD, false, [none, none], None),
        (GOOD, false, [ttl(Some(100), None, None), none], Some(100)),
        (GOOD, false, [all, none], Some(50)),
        (GOOD, false, [ttl(None, None, Some(20)), none], None),
        (GOOD, false, [ttl(Some(0), None, None), none], Some(0)),
        (GOOD, false, [ttl(Some(30), None, None), ttl(None, Some(70), None)], Some(70)),
        (BAD, false, [all, none], Some(20)),
        (BAD, false, [ttl(Some(100), Some(50), None), none], Some(100)),
        (BAD, false, [ttl(None, Some(50), None), none], None),
        (GOOD, true, [all, none], Some(100)),
        (GOOD, true, [ttl(None, Some(50), Some(20)), none], None),
    ] {
        let mut templates = template(MetricPlan { count: Some(2), interval: Some(secs(2)), ..judge() });
        templates.push(Template {
            name: "u".to_owned(),
            metrics: vec![MetricPlan { name: "u".to_owned(), ..templates[0].metrics[0].clone() }],
            ..templates[0].clone()
        });
        templates.iter_mut().zip(times).for_each(|(template, ttl)| template.ttl = ttl);
        let row = format!("{terminated} {times:?}");
        let mut world = World::new(unguarded(vec![weight("20%"), Step::Analysis(templates), hold(3_600)]));
        let mut dice = Dice::new(44);
        world.run(secs(1), traffic, &mut dice);
        if terminated {
            world.order(Verb::Terminate).unwrap();
        }
        let mut ended = runs(&world).pop();
        while ended.as_ref().is_some_and(|run| run.completed.is_none()) {
            world.run(Duration::from_millis(100), traffic, &mut dice);
            ended = runs(&world).pop();
        }
        let Some(kept) = kept else {
            let ended = ended.unwrap();
            world.run(secs(200), NOBODY, &mut dice);
            assert_eq!((runs(&world), ended.expires), (vec![ended.clone()], None), "{row}");
            continue;
        };
        // What is kept no time at all is gone with the tick in which it ended.
        let Some(ended) = ended else {
            assert_eq!(kept, 0, "{row}");
            continue;
        };
        let gone = ended.completed.unwrap() + secs(kept);
        assert_eq!(ended.expires, Some(gone), "{row}");
        assert!(world.engine.deadline().is_some_and(|at| at <= gone), "{row}: it happens by itself");
        world.run(gone.since(world.now).saturating_sub(Duration::from_millis(100)), NOBODY, &mut dice);
        assert_eq!(runs(&world).len(), 1, "{row}: not before its time");
        world.run(Duration::from_millis(200), NOBODY, &mut dice);
        assert_eq!(runs(&world), [], "{row}");
        assert_eq!(world.engine.deadline().filter(|at| *at <= world.now), None, "{row}: once");
    }
}

/// Who asks why a rollout stands where it stands is told what is measured, and against which limit, in a step and beside it.
#[test]
fn status_and_why_tell_the_values_and_limits_of_analyses() {
    let quiet = |name: &str| MetricPlan { failure_limit: Some(3), ..metric(name, "result.errorRate < 0.01", "") };
    let mut world = World::new(beside(vec![weight("5%"), times(90, quiet("in-step")), hold(600)], quiet("beside"), 0));
    world.run(secs(5), BAD, &mut Dice::new(41));
    let service = world.engine.view(world.now).services.remove(0);
    let config = ConfigNote { path: "serin.yaml", loaded: world.now, error: None, needs_restart: &[] };
    let texts = [
        words::why(world.now, &service, None, Style::PLAIN).join("\n"),
        words::status(world.now, &service, None, config, Style::PLAIN),
    ];
    for text in texts {
        for name in ["in-step", "beside"] {
            let line = text
                .lines()
                .find(|line| line.contains(&format!("{name}: ")))
                .unwrap_or_else(|| panic!("{name} in {text}"));
            for part in ["result.errorRate = ", "Failed, successCondition `result.errorRate < 0.01` is false"] {
                assert!(line.contains(part), "{part} in {line}");
            }
        }
        assert!(text.contains("failed (allowed 3)"), "{text}");
    }
}

#[test]
fn terminate_lets_the_step_go_on_and_the_background_rest() {
    let plan = beside(vec![weight("20%"), times(100, judge()), weight("50%"), hold(600)], outside(), 0);
    let mut world = World::new(plan);
    world.run(secs(3), GOOD, &mut Dice::new(13));
    world.order(Verb::Terminate).unwrap();
    world.run(secs(5), GOOD, &mut Dice::new(13));
    assert_eq!(step(&world), 4);
    assert!(runs(&world).iter().all(|run| run.phase == AnalysisPhase::Terminated), "{:?}", runs(&world));
    assert_eq!(runs(&world).len(), 2);
    assert!(world.order(Verb::Terminate).is_err(), "nothing is running any more");
}

#[test]
fn on_failure_pause_holds_for_analyses_as_well() {
    let mut plan = beside(vec![weight("20%"), hold(600)], judge(), 0);
    plan.strategy.guard.on_failure = OnFailure::Pause;
    let mut world = World::new(plan);
    world.run(secs(5), BAD, &mut Dice::new(11));
    assert!(matches!(world.phase(), PhaseMemory::Paused { kind: PauseKind::Inconclusive, .. }));
    assert_eq!(world.canary_weight(), "20%".parse().unwrap());
}

#[test]
fn an_answer_to_another_attempt_is_dropped_and_a_crash_begins_the_run_anew() {
    let steps = vec![weight("20%"), times(1, outside()), weight("50%"), hold(600)];
    let mut world = World::new(unguarded(steps));
    world.run(secs(1), GOOD, &mut Dice::new(12));
    let old = std::mem::take(&mut world.questions);
    world.crash(secs(1));
    world.run(secs(1), GOOD, &mut Dice::new(12));
    let up = Ok(Reply::Value(Answer::numbers([1.0])));
    world.apply(Input::Answered(old[0].ticket.clone(), up.clone())).unwrap();
    assert_eq!(step(&world), 2, "an answer from before the crash is none");
    assert_eq!(answer(&mut world, &up), 1);
    assert_eq!(step(&world), 4);
}
