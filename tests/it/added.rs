//! Versions that a command names and the file does not, and versions of an experiment, in front of real upstreams.

use std::collections::BTreeSet;

use crate::{
    harness::{Client, Serin, eventually},
    upstreams::Plain,
};

fn body(serin: &Serin) -> String {
    String::from_utf8(Client::get(serin.port, "/").unwrap().body).unwrap()
}

#[test]
fn a_version_is_tried_by_its_address_alone_and_outlives_a_crash_and_drift_says_what_to_write() {
    let (old, new) = (Plain::start("old"), Plain::start("new"));
    let mut serin = Serin::start(&old.services());
    let url = format!("http://{}", new.address);
    let bad = serin.cli(&["start", "web", "--to", "v2", "--endpoint", "ftp://somewhere"]);
    let said = String::from_utf8(bad.stderr).unwrap();
    assert!(said.contains("`endpoint`: has a scheme that Serin cannot speak"), "{said}");
    assert!(serin.cli(&["start", "web", "--to", "v2", "--endpoint", &url]).status.success());
    assert!(serin.cli(&["set-weight", "web", "100%"]).status.success());
    eventually("the new version to answer", || body(&serin).contains("new").then_some(()));
    serin.kill9();
    serin.spawn();
    serin.ready();
    assert!(body(&serin).contains("new"), "the state knows where it is");
    let version = serin.status()["versions"].as_array().unwrap().iter().find(|of| of["name"] == "v2").cloned().unwrap();
    assert_eq!(version["addedAt"], url, "{version}");
    let drift = serin.cli(&["drift"]);
    let said = String::from_utf8(drift.stdout).unwrap();
    assert!(said.contains("services.web.versions") && said.contains(&format!("write `v2: {url}` there")), "{said}");
    assert!(serin.cli(&["promote", "web", "--full"]).status.success());
    eventually("the promoted version to answer", || body(&serin).contains("new").then_some(()));
}

#[test]
fn a_baseline_beside_the_canary_gets_requests_for_as_long_as_the_experiment_takes() {
    let (stable, canary, baseline) = (Plain::start("stable"), Plain::start("canary"), Plain::start("baseline"));
    let serin = Serin::start(&format!(
        "services:\n  web:\n    versions: {{ v1: \"http://{}\", v2: \"http://{}\", base: \"http://{}\" }}\n    stable: v1\n    \
         canary: v2\n    strategy:\n      canary:\n        steps:\n          - setWeight: 30\n          \
         - experiment: {{ duration: 1h, templates: [{{ name: baseline, version: base }}] }}\n          - pause: {{}}\n",
        stable.address, canary.address, baseline.address
    ));
    let status = serin.status();
    let weight = |name: &str| {
        let versions = status["versions"].as_array().unwrap();
        versions.iter().find(|of| of["name"] == name).unwrap()["weightPpm"].as_u64().unwrap()
    };
    assert_eq!([weight("v1"), weight("v2"), weight("base")], [400_000, 300_000, 300_000], "{status}");
    let mut seen = BTreeSet::new();
    eventually("all three", || {
        let body = body(&serin);
        seen.extend(["stable", "canary", "baseline"].into_iter().filter(|name| body.contains(name)));
        (seen.len() == 3).then_some(())
    });
    let why = String::from_utf8(serin.cli(&["why", "web"]).stdout).unwrap();
    assert!(why.contains("experiment baseline 30%, 1h") && why.contains("left in this step"), "{why}");
    assert!(serin.cli(&["promote", "web"]).status.success(), "a person ends it");
    let status = serin.status();
    let base = status["versions"].as_array().unwrap().iter().find(|of| of["name"] == "base").cloned().unwrap();
    assert_eq!(base["weightPpm"], 0, "{base}");
}
