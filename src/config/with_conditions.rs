//! Tests in which conditions are parsed: the full sample, damaged copies of it, and broken metrics.

use std::{fs, time::Duration};

use proptest::prelude::*;

use super::{
    Code,
    corpus::compare,
    load,
    settings::{Limits, State},
    shape,
    whole::{is_answered, mutated, percent, sample},
};
use crate::engine::{
    analysis::{
        ask::{BuiltIn, Part, SecretSource, Text},
        condition::Condition,
        template::{Arm, Provider},
    },
    plan::{ErrorRateLimit, Guard, LatencyLimit, Pause, Step},
    table::Timeouts,
    weight::Weight,
};

#[test]
fn broken_metrics_are_answered_as_written_down() {
    assert!(compare("conditions") >= 10);
}

#[test]
fn the_full_sample_has_every_field() {
    let text = fs::read_to_string(sample("full.yaml")).unwrap();
    for shape in shape::ALL {
        for field in shape.fields {
            let written = text.match_indices(field).any(|(at, _)| text[at + field.len()..].starts_with(':'));
            assert!(written, "{} has no {field}", shape.path);
        }
    }
}

/// What the sample says in brackets is what holds without it.
#[test]
fn the_full_sample_shows_the_defaults() {
    let config = load(&sample("full.yaml"), &|_| None).unwrap_or_else(|found| panic!("{found}"));
    assert!(config.listeners.iter().all(|listener| listener.limits == Limits::default()));
    assert_eq!(config.state, State { dir: sample("serin-state"), max_age: Duration::from_hours(24) });
    let service = &config.services[0];
    assert_eq!(service.timeouts, Timeouts::default());
    assert_eq!(service.wish.as_ref().map(|wish| &*wish.revision), Some(""));
    let strategy = &service.strategy;
    let error_rate = ErrorRateLimit { max: 0.02, window: Duration::from_secs(10), min_requests: 50 };
    let latency = LatencyLimit {
        quantile: 0.99,
        max: Duration::from_millis(800),
        window: Duration::from_secs(30),
        min_requests: 200,
    };
    let guard = Guard { error_rate: Some(error_rate), latency: vec![latency], ..Guard::default() };
    assert_eq!(strategy.guard, guard);
    assert_eq!(strategy.deadline, Some(Duration::from_hours(12)));
}

#[test]
fn the_full_sample_means_what_it_says() {
    let config = load(&sample("full.yaml"), &|_| None).unwrap_or_else(|found| panic!("{found}"));
    let steps = &config.services[0].strategy.steps;
    assert_eq!(steps.len(), 16, "the bake is two");
    assert_eq!(steps[15], Step::Pause(Pause::Bake(Duration::from_mins(10))));
    assert_eq!(steps[0], Step::SetWeight(Weight::from_ppm(1_000).unwrap()));
    assert_eq!(steps[2], Step::SetWeight(percent(5)));
    assert_eq!(steps[3], Step::Pause(Pause::Requests(2_000)));
    assert_eq!(steps[6], Step::Pause(Pause::Person));
    let Step::SetMirrorRoute { route: Some(shadow), .. } = &steps[9] else { panic!("a mirror route") };
    assert_eq!((shadow.share, shadow.matches.len(), shadow.matches[0].headers.len()), (percent(10), 2, 1));
    let Step::Analysis(templates) = &steps[4] else { panic!("an analysis") };
    let [template] = &templates[..] else { panic!("one template") };
    assert_eq!(template.name, "latency");
    // The given value goes before the default, and defaults stay where nothing is given.
    let args = [("limit", "500"), ("share", "0.99")].map(|(name, value)| (name.to_owned(), Text::plain(value)));
    assert_eq!(template.args[..2], args);
    let from = [
        Part::BuiltIn(BuiltIn::Canary),
        Part::Secret(SecretSource::Env("PROMETHEUS_TOKEN".to_owned())),
        Part::Secret(SecretSource::File("/run/secrets/password".to_owned())),
    ];
    assert_eq!(
        template.args[2..].iter().map(|(_, text)| text.0.clone()).collect::<Vec<_>>(),
        from.map(|part| vec![part])
    );
    let kept = [86_400, 3_600, 604_800].map(|seconds| Some(Duration::from_secs(seconds)));
    let ttl = template.ttl;
    assert_eq!([ttl.after_completion, ttl.after_success, ttl.after_failure], kept);
    let [p95, success] = &template.metrics[..] else { panic!("two metrics") };
    assert_eq!((p95.interval, p95.count), (Some(Duration::from_secs(10)), Some(3)));
    assert_eq!(
        (p95.failure_limit, p95.consecutive_error_limit, p95.initial_delay),
        (Some(2), 4, Duration::from_secs(5))
    );
    assert_eq!(p95.failure.as_ref().map(Condition::source), Some("result.p95 >= asFloat(args.limit)"));
    assert_eq!(p95.success, None);
    assert_eq!((success.interval, success.count, success.consecutive_error_limit), (None, None, 4));
    assert_eq!(success.provider, Provider::Serin { version: Arm::Canary, window: Duration::from_mins(1) });
}

/// A condition from the environment may be wrong, but not be shown.
#[test]
fn a_condition_from_the_environment_is_not_shown() {
    let text = fs::read_to_string(sample("full.yaml")).unwrap();
    let text = text.replace("failureCondition: result.p95 >= asFloat(args.limit)", "failureCondition: ${CONDITION}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("serin.yaml");
    fs::write(&path, text).unwrap();
    let found = load(&path, &|name| (name == "CONDITION").then(|| "hunter2 >".to_owned())).unwrap_err();
    assert_eq!(found.items()[0].code, Code::BadValue);
    assert!(!found.to_string().contains("hunter"), "{found}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_full_file_is_answered(text in mutated(include_str!("../../config/full.yaml"))) {
        is_answered(&text);
    }
}
