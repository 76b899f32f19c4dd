//! Endpoints that go bad and come back, on the real binary: who is asked, who is left out, and what it does to a canary.

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use serde_json::Value;

use crate::harness::{Client, Serin, eventually, pace};

/// An upstream whose health check and whose answers can be made to fail.
#[derive(Default)]
struct Fickle {
    is_sick: AtomicBool,
    fails: AtomicBool,
    requests: AtomicUsize,
}

impl Fickle {
    fn start() -> (Arc<Self>, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let fickle = Arc::<Self>::default();
        let served = Arc::clone(&fickle);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, served) = (stream.unwrap(), Arc::clone(&served));
                thread::spawn(move || served.serve(stream));
            }
        });
        (fickle, address)
    }

    fn serve(&self, stream: TcpStream) {
        let Ok(mut writer) = stream.try_clone() else { return };
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        loop {
            let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
            let Some(first) = head.first() else { return };
            let is_check = first.contains("/healthz");
            if !is_check {
                self.requests.fetch_add(1, SeqCst);
            }
            let bad = if is_check { &self.is_sick } else { &self.fails };
            let status = if bad.load(SeqCst) { "500 Internal Server Error" } else { "200 OK" };
            if write!(writer, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").is_err() {
                return;
            }
        }
    }

    fn requests(&self) -> usize {
        self.requests.load(SeqCst)
    }
}

const CHECK: &str = "health: { path: /healthz, interval: 100ms, timeout: 100ms, healthy: 2, unhealthy: 2 }";

/// The states of a version's endpoints, as the API has them.
fn states(serin: &Serin, version: &str) -> Vec<String> {
    let status = serin.status();
    let versions = status["versions"].as_array().unwrap();
    let of = versions.iter().find(|of| of["name"] == version).unwrap();
    let word = |endpoint: &Value| endpoint["state"].as_str().unwrap().to_owned();
    of["endpoints"].as_array().map(|all| all.iter().map(word).collect()).unwrap_or_default()
}

fn until(serin: &Serin, version: &str, wanted: &[&str]) {
    eventually(&format!("{version} to be {wanted:?}"), || (states(serin, version) == wanted).then_some(()));
}

/// So many requests, none of which fails.
fn all_answered(serin: &Serin, many: usize) {
    for _ in 0..many {
        assert_eq!(Client::get(serin.port, "/").unwrap().status, 200);
    }
}

fn said(serin: &Serin, args: &[&str]) -> String {
    String::from_utf8(serin.cli(args).stdout).unwrap()
}

#[test]
fn an_endpoint_that_goes_bad_is_avoided_until_it_is_well_again_and_is_found_bad_again_after_a_restart() {
    let ((one, first), (_, second)) = (Fickle::start(), Fickle::start());
    let mut serin = Serin::start(&format!(
        "services:\n  web:\n    versions:\n      v1: {{ endpoints: ['http://{first}', 'http://{second}'], {CHECK} }}\n\
         \x20   stable: v1\n"
    ));
    until(&serin, "v1", &["healthy", "healthy"]);
    one.is_sick.store(true, SeqCst);
    until(&serin, "v1", &["unhealthy", "healthy"]);
    let out = serin.event("endpointOut");
    assert_eq!((&out["cause"]["endpoint"], &out["canary"]), (&first.to_string().into(), &"v1".into()));
    let before = one.requests();
    all_answered(&serin, 50);
    assert_eq!(one.requests(), before, "it is left out");
    let metrics = String::from_utf8(Client::get(serin.admin, "/metrics").unwrap().body).unwrap();
    for line in ["unhealthy\"} 1", "healthy\"} 1", "ejected\"} 0"] {
        let line = format!("serin_endpoints{{service=\"web\",version=\"v1\",state=\"{line}");
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
    let told = format!("1 of 2 endpoints of v1: {first} fails its health check (answered 500 Internal Server Error)");
    for verb in ["why", "status"] {
        let said = said(&serin, &[verb, "web"]);
        assert!(said.contains(&told), "{verb}: {said}");
    }
    let page = String::from_utf8(Client::get(serin.admin, "/services/web").unwrap().body).unwrap();
    assert!(page.contains(&told), "{page}");

    serin.kill9();
    serin.spawn();
    serin.ready();
    until(&serin, "v1", &["unhealthy", "healthy"]);
    let before = one.requests();
    all_answered(&serin, 20);
    assert_eq!(one.requests(), before);
    one.is_sick.store(false, SeqCst);
    until(&serin, "v1", &["healthy", "healthy"]);
    serin.event("endpointBack");
    eventually("it to be used again", || {
        all_answered(&serin, 1);
        (one.requests() > before).then_some(())
    });
}

#[test]
fn stable_is_used_as_it_is_when_none_of_its_endpoints_is_well() {
    // yoanbernabeu/frankendeploy#94: a slow check on an only upstream was an outage for all.
    let (only, address) = Fickle::start();
    let serin = Serin::start(&format!(
        "services:\n  web:\n    versions:\n      v1: {{ endpoints: ['http://{address}'], {CHECK}, ejection: {{ consecutiveErrors: 3 }} }}\n\
         \x20   stable: v1\n"
    ));
    only.is_sick.store(true, SeqCst);
    until(&serin, "v1", &["unhealthy"]);
    all_answered(&serin, 20);
    only.fails.store(true, SeqCst);
    eventually("an ejection", || {
        assert_eq!(Client::get(serin.port, "/").unwrap().status, 500, "it is asked all the same");
        (states(&serin, "v1") == ["ejected"]).then_some(())
    });
    only.fails.store(false, SeqCst);
    all_answered(&serin, 20);
    assert_eq!(Client::get(serin.admin, "/readyz").unwrap().status, 200, "the proxy is ready, whatever is behind it");
}

#[test]
fn a_canary_of_one_endpoint_that_is_ejected_is_reverted_for_what_it_should_have_served() {
    let ((_, v1), (canary, v2)) = (Fickle::start(), Fickle::start());
    let serin = Serin::start(&format!(
        "services:\n  web:\n    versions:\n      v1: 'http://{v1}'\n\
         \x20     v2: {{ endpoints: ['http://{v2}'], ejection: {{ consecutiveErrors: 5, base: 1m }} }}\n\
         \x20   stable: v1\n    canary: v2\n    strategy:\n      canary:\n\
         \x20       steps: [{{ setWeight: 50 }}, {{ pause: {{ duration: 1h }} }}]\n\
         \x20       guard: {{ versusStable: off, consecutiveErrors: 200 }}\n"
    ));
    canary.fails.store(true, SeqCst);
    let mut failed = 0;
    eventually("the ejection", || {
        failed += usize::from(Client::get(serin.port, "/").unwrap().status == 500);
        (states(&serin, "v2") == ["ejected"]).then_some(())
    });
    let reached = canary.requests();
    assert_eq!(failed, reached, "who met it saw it fail");
    let aborted = eventually("the abort", || {
        assert_eq!(Client::get(serin.port, "/").unwrap().status, 200, "stable answers for it");
        serin.history().into_iter().find(|event| event["kind"] == "aborted")
    });
    assert_eq!(aborted["cause"]["type"], "consecutiveErrors", "{aborted}");
    assert!(aborted["cause"]["errors"].as_u64().unwrap() >= 200, "{aborted}");
    assert_eq!(canary.requests(), reached, "nothing was sent to it since");
    assert!(reached < 200, "{reached} users met it");
    assert_eq!(serin.event("endpointOut")["canary"], "v2");
}

#[test]
fn a_canary_gets_weight_once_it_is_well_and_counts_as_failed_when_it_is_not() {
    let ((_, v1), (canary, v2)) = (Fickle::start(), Fickle::start());
    canary.is_sick.store(true, SeqCst);
    let serin = Serin::start(&format!(
        "services:\n  web:\n    versions:\n      v1: 'http://{v1}'\n      v2: {{ endpoints: ['http://{v2}'], {CHECK} }}\n\
         \x20   stable: v1\n    canary: v2\n    deadCanary: fail\n    strategy:\n      canary:\n\
         \x20       steps: [{{ setWeight: 50 }}, {{ pause: {{ duration: 1h }} }}]\n"
    ));
    until(&serin, "v2", &["unhealthy"]);
    all_answered(&serin, 50);
    assert_eq!(canary.requests(), 0);
    let why = said(&serin, &["why"]);
    assert!(why.contains("an endpoint of v2 to pass its health check"), "{why}");
    assert!(why.contains("what it should get counts as failed"), "{why}");
    canary.is_sick.store(false, SeqCst);
    eventually("the first step", || {
        all_answered(&serin, 1);
        (canary.requests() > 0).then_some(())
    });
    canary.is_sick.store(true, SeqCst);
    until(&serin, "v2", &["unhealthy"]);
    let reached = canary.requests();
    let mut failed = 0;
    eventually("the abort", || {
        failed += usize::from(Client::get(serin.port, "/").unwrap().status == 502);
        pace();
        (serin.status()["phase"] == "Degraded").then_some(())
    });
    assert!(failed > 0, "`deadCanary: fail` shows it to clients");
    assert_eq!(canary.requests(), reached, "nothing is sent to it");
    all_answered(&serin, 20);
}
