//! Analyses end to end: the classic trial judged by Serin's own measurements and by PromQL of a real Prometheus that scrapes
//! Serin, and a provider that is down.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use serin::demo::{
    load::{Load, LoadSpec},
    toy::{Failing, Toy, ToySpec},
};

use crate::{
    harness::{Serin, eventually, free_port},
    prometheus::Prometheus,
};

const SERIN: &str = "serin: { version: canary, window: 5s }";

fn toy(name: &str, failing: Failing) -> Toy {
    Toy::start(ToySpec { failing, ..ToySpec::new(name, "127.0.0.1:0".parse().unwrap()) }).unwrap()
}

/// Weights 20, 40, 60 and 80, a success rate of at least 0.95 measured beside them, two failures allowed, nothing else
/// that could end it.
fn trial(metrics: u16, toys: &[Toy; 2], condition: &str, provider: &str) -> String {
    format!(
        "metrics: {{ listen: 127.0.0.1:{metrics} }}\nservices:\n  web:\n    versions: {{ v1: \"http://{}\", v2: \"http://{}\" }}\n\
         \x20   stable: v1\n    canary: v2\n    strategy:\n      canary:\n        steps:\n\
         \x20         - setWeight: 20\n          - pause: {{ duration: 5s }}\n          - setWeight: 40\n          - pause: {{ duration: 5s }}\n\
         \x20         - setWeight: 60\n          - pause: {{ duration: 5s }}\n          - setWeight: 80\n          - pause: {{ duration: 5s }}\n\
         \x20       guard: {{ versusStable: off, consecutiveErrors: 0 }}\n\
         \x20       analysis: {{ templates: [{{ templateName: success-rate }}] }}\n\
         analysisTemplates:\n  success-rate:\n    metrics:\n      - name: success-rate\n        interval: 1s\n        failureLimit: 2\n\
         \x20       successCondition: {condition}\n        provider: {{ {provider} }}\n",
        toys[0].address(),
        toys[1].address()
    )
}

/// Version 2 fails every second request; how long it takes from its first request to its withdrawal.
fn reverted_after(condition: &str, provider: &str, metrics: u16) -> Duration {
    let toys = [toy("v1", Failing::Never), toy("v2", Failing::Every(NonZeroU32::new(2).unwrap()))];
    let serin = Serin::start(&trial(metrics, &toys, condition, provider));
    let _load =
        Load::start(LoadSpec::new(format!("http://127.0.0.1:{}/", serin.port).parse().unwrap(), 100.0)).unwrap();
    let began = eventually("a first request", || (toys[1].requests() > 0).then(Instant::now));
    let event = eventually("the end", || {
        serin.history().into_iter().find(|event| ["aborted", "promoted"].contains(&event["kind"].as_str().unwrap()))
    });
    let took = began.elapsed();
    assert_eq!(event["kind"], "aborted", "{event}");
    let cause = &event["cause"];
    assert_eq!(
        (&cause["type"], &cause["metric"], &cause["phase"]),
        (&"analysis".into(), &"success-rate".into(), &"Failed".into()),
        "{event}"
    );
    let message = cause["message"].as_str().unwrap();
    assert!(message.starts_with("failed measurements: 3, allowed 2; result"), "{message}");
    let status = serin.status();
    let run = status["analysisRuns"].as_array().unwrap().last().unwrap();
    let metric = &run["metricResults"][0];
    assert_eq!(
        (&run["phase"], &run["kind"], &metric["failed"]),
        (&"Failed".into(), &"background".into(), &3.into()),
        "{run}"
    );
    let last = metric["measurements"].as_array().unwrap().last().unwrap();
    assert!(last["samples"].as_str().unwrap().contains("canary") && last["value"] != "", "{last}");
    took
}

#[test]
fn the_classic_trial_reverts_on_own_measurements() {
    let took = reverted_after("result.successRate >= 0.95", SERIN, free_port());
    eprintln!("the classic trial without Prometheus: reverted after {:.1} s", took.as_secs_f64());
}

#[test]
fn the_classic_trial_reverts_on_promql_of_a_prometheus_that_scrapes_serin() {
    let metrics = free_port();
    let Some(prometheus) = Prometheus::start(metrics) else { return };
    let query = "sum(rate(serin_requests_total{version='{{canary.name}}',code!~'5..'}[5s])) \
                 / sum(rate(serin_requests_total{version='{{canary.name}}'}[5s]))";
    let address = format!("http://127.0.0.1:{}", prometheus.port);
    let provider = format!("prometheus: {{ address: \"{address}\", query: \"{query}\" }}");
    let took = reverted_after("\"result[0] >= 0.95\"", &provider, metrics);
    eprintln!("the classic trial with Prometheus: reverted after {:.1} s", took.as_secs_f64());
}

/// A sound canary whose judge cannot be reached is neither promoted nor aborted while patience lasts; a person can end
/// the analysis.
#[test]
fn a_provider_that_is_down_is_an_error_and_a_person_can_end_the_analysis() {
    let toys = [toy("v1", Failing::Never), toy("v2", Failing::Never)];
    let nobody = free_port();
    let provider = format!("prometheus: {{ address: \"http://127.0.0.1:{nobody}\", query: up }}");
    let serin = Serin::start(&trial(free_port(), &toys, "result[0] >= 0.95", &provider));
    let metric = eventually("a measurement", || {
        let metric = serin.status()["analysisRuns"][0]["metricResults"][0].clone();
        (metric["error"].as_u64()? > 0).then_some(metric)
    });
    assert_eq!((&metric["phase"], &metric["failed"]), (&"Running".into(), &0.into()), "{metric}");
    let why = metric["measurements"][0]["message"].as_str().unwrap();
    assert!(why.starts_with("prometheus: cannot reach 127.0.0.1:") && why.contains("refused"), "{why}");
    let ended = serin.cli(&["terminate", "web", "--reason", "it is down"]);
    assert!(ended.status.success(), "{ended:?}");
    let run = serin.status()["analysisRuns"][0].clone();
    assert_eq!(run["phase"], "Terminated", "{run}");
    assert_eq!(serin.event("terminated")["cause"]["reason"], "it is down");
    let again = serin.cli(&["terminate", "web"]);
    assert!(!again.status.success(), "nothing is running: {again:?}");
}

/// A pipeline asks, outside a rollout and without a word in its plan: the verdict is the exit code, and who asked is kept.
#[test]
fn a_person_runs_a_template_by_hand_and_its_verdict_is_the_exit_code() {
    let toys = [toy("v1", Failing::Every(NonZeroU32::new(2).unwrap())), toy("v2", Failing::Never)];
    let text = trial(free_port(), &toys, "result.successRate >= 0.95", SERIN).replace("    canary: v2\n", "")
        + "  passes:\n    metrics: [{ name: any, successCondition: result.requests > 0, provider: { serin: {} } }]\n\
           \x20 asks:\n    args: [{ name: limit }]\n    metrics: [{ name: any, failureCondition: result.p95 > asFloat(args.limit), provider: { serin: {} } }]\n";
    let serin = Serin::start(&text);
    let _load =
        Load::start(LoadSpec::new(format!("http://127.0.0.1:{}/", serin.port).parse().unwrap(), 100.0)).unwrap();
    let said = |args: &[&str]| {
        let output = serin.cli(args);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    eventually("requests that were measured", || {
        let requests = serin.status()["versions"][0]["requests"].as_u64();
        requests.filter(|requests| *requests > 100)
    });
    assert_eq!(said(&["analyze", "web", "passes", "--wait"]), (Some(0), "web: passes Successful\n".to_owned()));
    let (code, text) = said(&["analyze", "success-rate", "--wait", "--reason", "after the move"]);
    assert_eq!(code, Some(10), "{text}");
    assert!(text.starts_with("web: success-rate Failed: success-rate: failed measurements: 3, allowed 2"), "{text}");
    let event = serin.event("analysisStarted");
    assert_eq!((&event["cause"]["verb"], &event["canary"]), (&"analyze".into(), &"v1".into()), "{event}");
    let last = serin.history().pop().unwrap();
    assert_eq!((&last["kind"], &last["cause"]["reason"]), (&"analysisStarted".into(), &"after the move".into()));
    for (template, word) in [("asks", "has no value"), ("nothing", "it has `success-rate`, `passes`, `asks`")] {
        let (code, text) = said(&["analyze", "web", template]);
        assert!(code == Some(6) && text.contains(word), "{code:?} {text}");
    }
    let runs = serin.status()["analysisRuns"].clone();
    let told: Vec<_> = runs.as_array().unwrap().iter().map(|run| (&run["kind"], &run["phase"])).collect();
    let manual = &"manual".into();
    assert_eq!(told, [(manual, &"Successful".into()), (manual, &"Failed".into())], "{runs}");
    assert_eq!(serin.status()["phase"], "Healthy");
}
