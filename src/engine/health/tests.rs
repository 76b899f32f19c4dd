//! Who is out after what was seen, on virtual time, and what holds whatever is seen.

use super::*;
use crate::engine::{
    endpoint::Endpoint,
    names::{ServiceName, VersionName},
    weight::Weight,
};

const GOOD: Result<(), &str> = Ok(());
const BAD: Result<(), &str> = Err("answered 503");

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(1_000_000 + ms)
}

fn instance(number: usize) -> Instance {
    Instance { endpoint: Endpoint::tcp(format!("10.0.0.{number}"), 80), address: None }
}

fn checks() -> UpstreamPlan {
    UpstreamPlan { health: Some(HealthPlan::default()), ..UpstreamPlan::default() }
}

fn ejects(max_share: &str) -> UpstreamPlan {
    let ejection = EjectionPlan { max_share: max_share.parse().unwrap(), ..EjectionPlan::default() };
    UpstreamPlan { ejection: Some(ejection), ..UpstreamPlan::default() }
}

fn seen(known: usize, news: Vec<InstanceSamples>) -> EndpointSamples {
    EndpointSamples {
        service: ServiceName::new("web").unwrap(),
        version: VersionName::new("v1").unwrap(),
        known: (0..known).map(instance).collect(),
        news,
    }
}

fn checked(number: usize, outcomes: &[Result<(), &str>]) -> InstanceSamples {
    let checks = outcomes.iter().map(|outcome| outcome.map_err(Arc::from)).collect();
    InstanceSamples { instance: instance(number), checks, error_runs: 0, last_error: "" }
}

fn failed(number: usize) -> InstanceSamples {
    InstanceSamples { instance: instance(number), checks: Vec::new(), error_runs: 1, last_error: "timed_out" }
}

fn all_but(numbers: &[usize]) -> InUse {
    InUse::AllBut(numbers.iter().map(|number| instance(*number)).collect())
}

/// What each endpoint answered, and whom stable and a canary are left with.
type Row<'a> = (&'a str, &'a [&'a [Result<(), &'a str>]], InUse, InUse);

#[test]
fn who_is_out_after_which_answers() {
    let (stable, canary) = (Role::Stable, Role::Canary);
    let rows: &[Row<'_>] = &[
        ("nobody was asked yet: all are used", &[&[], &[]], InUse::All, InUse::All),
        ("the first answer of each decides alone", &[&[GOOD], &[BAD]], all_but(&[1]), all_but(&[1])),
        ("a new one waits while another is known to be well", &[&[GOOD], &[]], all_but(&[1]), all_but(&[1])),
        ("and does not wait for one that is not", &[&[BAD], &[]], all_but(&[0]), all_but(&[0])),
        ("two bad answers are not three", &[&[GOOD, BAD, BAD], &[GOOD]], InUse::All, InUse::All),
        ("nor are three with a good one between", &[&[GOOD, BAD, BAD, GOOD, BAD], &[GOOD]], InUse::All, InUse::All),
        ("three are", &[&[GOOD, BAD, BAD, BAD], &[GOOD]], all_but(&[0]), all_but(&[0])),
        ("one good answer is not two", &[&[BAD, GOOD], &[GOOD]], all_but(&[0]), all_but(&[0])),
        ("a bad one between begins anew", &[&[BAD, GOOD, BAD, GOOD], &[GOOD]], all_but(&[0]), all_but(&[0])),
        ("two in a row are", &[&[BAD, GOOD, GOOD], &[GOOD]], InUse::All, InUse::All),
        ("all bad: stable is used as it is, the canary is dead", &[&[BAD], &[BAD]], InUse::All, InUse::Nobody),
        ("the only one bad: the same", &[&[BAD]], InUse::All, InUse::Nobody),
    ];
    for (what, outcomes, of_stable, of_canary) in rows {
        let (plan, mut health) = (checks(), Health::default());
        let news = outcomes.iter().enumerate().map(|(number, outcomes)| checked(number, outcomes)).collect();
        health.measured(&plan, Some(&seen(outcomes.len(), news)), at(0));
        assert_eq!(health.in_use(&plan, stable), *of_stable, "{what}");
        assert_eq!(health.in_use(&plan, canary), *of_canary, "{what}");
        assert_eq!(health.in_use(&UpstreamPlan::default(), canary), InUse::All, "{what}: unless nobody wants to know");
    }
}

#[test]
fn an_ejection_ends_by_time_and_each_further_one_lasts_longer_until_it_is_made_up_for() {
    let (plan, mut health) = (ejects("50%"), Health::default());
    let fails = |ms, health: &mut Health| {
        health.measured(&plan, Some(&seen(2, vec![failed(0)])), at(ms));
        health.deadline().map(|until| until.since(at(ms)).as_secs())
    };
    assert_eq!(fails(0, &mut health), Some(10));
    assert_eq!(fails(5_000, &mut health), Some(5), "late failures of requests sent before change nothing");
    assert_eq!(health.in_use(&ejects("50%"), Role::Stable), all_but(&[0]));
    health.measured(&ejects("50%"), None, at(9_999));
    assert!(health.deadline().is_some());
    health.measured(&ejects("50%"), None, at(10_000));
    assert_eq!(health.in_use(&ejects("50%"), Role::Stable), InUse::All);
    assert_eq!(fails(10_100, &mut health), Some(20));
    health.measured(&ejects("50%"), None, at(30_100));
    assert_eq!(fails(30_200, &mut health), Some(30));
    health.measured(&ejects("50%"), None, at(60_200));
    // Served for 25 s: two ejections are made up for, and this is the next.
    assert_eq!(fails(85_200, &mut health), Some(20));
    health.measured(&ejects("50%"), None, at(105_200));
    let mut now = 105_200;
    for _ in 0..60 {
        let secs = fails(now, &mut health).unwrap();
        assert!(secs <= 300, "{secs}");
        now += secs * 1_000;
        health.measured(&ejects("50%"), None, at(now));
    }
}

#[test]
fn no_more_than_max_share_are_ejected_and_one_always_may_be() {
    for (known, share, most) in
        [(1, "50%", 1), (1, "1%", 1), (2, "50%", 1), (3, "50%", 1), (4, "50%", 2), (4, "100%", 4), (10, "25%", 2)]
    {
        let (plan, mut health) = (ejects(share), Health::default());
        health.measured(&plan, Some(&seen(known, (0..known).map(failed).collect())), at(0));
        let views = health.views(&plan, at(0));
        let ejected = views.iter().filter(|view| view.state == EndpointState::Ejected).count();
        assert_eq!(ejected, most, "{known} at {share}");
    }
    // The name has fewer addresses now: who would come back first does at once.
    let (plan, mut health) = (ejects("50%"), Health::default());
    health.measured(&plan, Some(&seen(4, vec![failed(0)])), at(0));
    health.measured(&plan, Some(&seen(4, vec![failed(1)])), at(100));
    health.measured(&plan, Some(&seen(2, Vec::new())), at(200));
    assert_eq!(health.in_use(&plan, Role::Stable), all_but(&[1]));
}

#[test]
fn an_only_endpoint_that_fails_its_requests_leaves_a_canary_dead_and_stable_as_it_is() {
    let (plan, mut health) = (ejects("50%"), Health::default());
    health.measured(&plan, Some(&seen(1, vec![failed(0)])), at(0));
    assert_eq!(health.in_use(&plan, Role::Canary), InUse::Nobody);
    assert_eq!(health.in_use(&plan, Role::Stable), InUse::All);
    assert_eq!(health.in_use(&plan, Role::Other), InUse::All);
    assert_eq!(health.fit(&plan), (0, 1));
    let view = &health.views(&plan, at(1_000))[0];
    assert_eq!(view.why.as_deref(), Some("5 errors in a row, the last one timed_out"));
    assert_eq!(view.back_in, Some(Duration::from_secs(9)));
}

#[test]
fn an_address_that_is_gone_and_comes_back_is_the_one_it_was_but_not_for_ever() {
    let (plan, mut health) = (checks(), Health::default());
    health.measured(&plan, Some(&seen(2, vec![checked(0, &[GOOD]), checked(1, &[BAD])])), at(0));
    health.measured(&plan, Some(&seen(1, Vec::new())), at(100));
    assert_eq!(health.views(&plan, at(100)).len(), 1, "gone");
    health.measured(&plan, Some(&seen(2, Vec::new())), at(10_000));
    assert_eq!(health.views(&plan, at(10_000))[1].state, EndpointState::Unhealthy, "back as it was");
    health.measured(&plan, Some(&seen(1, Vec::new())), at(20_000));
    health.measured(&plan, Some(&seen(1, Vec::new())), at(320_000));
    health.measured(&plan, Some(&seen(2, Vec::new())), at(330_000));
    assert_eq!(health.views(&plan, at(330_000))[1].state, EndpointState::Unknown, "long forgotten");
    // A name whose addresses change for ever is not remembered for ever.
    for round in 0..1_000 {
        let mut seen = seen(0, Vec::new());
        seen.known = (0..10).map(|number| instance(1_000 + round * 10 + number)).collect::<Arc<[_]>>();
        health.measured(&plan, Some(&seen), at(340_000 + round as u64));
    }
    assert!(health.members.len() <= KEPT_MAX, "{}", health.members.len());
}

#[test]
fn one_that_comes_and_goes_is_told_of_once_in_a_while_and_always_told_back() {
    let plan =
        UpstreamPlan { health: Some(HealthPlan { healthy: 1, unhealthy: 1, ..HealthPlan::default() }), ..checks() };
    let mut health = Health::default();
    health.measured(&plan, Some(&seen(20, Vec::new())), at(0));
    let mut told = Vec::new();
    for round in 0..599_u64 {
        let outcome = if round % 2 == 0 { BAD } else { GOOD };
        let news = (0..20).map(|number| checked(number, &[outcome])).collect();
        health.measured(&plan, Some(&seen(20, news)), at(round * 1_000));
        told.extend(health.turns(&plan, at(round * 1_000)));
    }
    let out = told.iter().filter(|turn| turn.out.is_some()).count();
    assert_eq!((out, told.len()), (TOLD_MAX, 2 * TOLD_MAX));
    assert_eq!(told[0].out.as_deref(), Some("answered 503"));
}

/// xorshift64*: a seed is a history.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) % end
    }
}

#[test]
fn whatever_is_seen_stable_keeps_an_endpoint_and_max_share_is_kept() {
    for seed in 1..300 {
        let mut dice = Dice(seed);
        let shares = ["1%", "30%", "50%", "99%", "100%"];
        let share: Weight = shares[usize::try_from(dice.below(5)).unwrap()].parse().unwrap();
        let both = UpstreamPlan { health: checks().health, ..ejects(&share.to_string()) };
        let (mut health, mut now) = (Health::default(), 0);
        for _ in 0..100 {
            now += dice.below(20_000);
            let known = usize::try_from(1 + dice.below(6)).unwrap();
            let news = (0..known).filter_map(|number| match dice.below(5) {
                0 => Some(failed(number)),
                1 => Some(checked(number, &[BAD, BAD, BAD])),
                2 => Some(checked(number, &[GOOD, GOOD])),
                _ => None,
            });
            let news = seen(known, news.collect());
            health.measured(&both, Some(&news), at(now));
            for role in [Role::Stable, Role::Other] {
                match health.in_use(&both, role) {
                    InUse::All => {}
                    InUse::AllBut(out) => {
                        assert!(news.known.iter().any(|known| !out.contains(known)), "seed {seed}: emptied");
                    }
                    InUse::Nobody => panic!("seed {seed}: emptied"),
                }
            }
            let views = health.views(&both, at(now));
            let ejected = views.iter().filter(|view| view.state == EndpointState::Ejected).count();
            let most = (known as u64 * u64::from(share.ppm()) / 1_000_000).max(1);
            assert!(ejected as u64 <= most, "seed {seed}: {ejected} of {known} at {share}");
            let all_out = views.iter().all(|view| view.state.is_out());
            assert_eq!(health.in_use(&both, Role::Canary) == InUse::Nobody, all_out, "seed {seed}");
        }
    }
}
