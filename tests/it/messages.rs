//! Messages about rollouts reach a real receiver over real sockets: once, in order, over outages and crashes.

use std::{
    collections::VecDeque,
    net::TcpListener,
    sync::{Arc, Mutex},
};

use crate::{
    asked::{Request, answer, serve},
    harness::{Client, Serin, eventually, free_port},
};

/// A receiver that keeps what it was told and answers with the given statuses in turn, then with 204.
struct Receiver {
    told: Arc<Mutex<Vec<Request>>>,
}

impl Receiver {
    fn listen(port: u16, answers: &[&'static str]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let told: Arc<Mutex<Vec<Request>>> = Arc::default();
        let mut answers: VecDeque<&'static str> = answers.iter().copied().collect();
        let kept = Arc::clone(&told);
        serve(listener, move |request| {
            kept.lock().unwrap().push(request);
            Some(answer(answers.pop_front().unwrap_or("204 No Content"), "", ""))
        });
        Self { told }
    }

    fn told(&self) -> Vec<Request> {
        self.told.lock().unwrap().clone()
    }

    fn events(&self) -> Vec<String> {
        self.told().iter().map(|told| told.json()["event"].as_str().unwrap().to_owned()).collect()
    }
}

fn file(receivers: &str) -> String {
    format!(
        "notify: {receivers}\nservices:\n  web:\n    versions: {{ v1: \"http://127.0.0.1:9\", v2: \"http://127.0.0.1:10\" }}\n    \
         stable: v1\n    canary: v2\n    steps: [5%]\n    hold: 1h\n"
    )
}

fn pending(serin: &Serin) -> String {
    let page = Client::get(serin.admin, "/metrics").unwrap();
    let page = String::from_utf8(page.body).unwrap();
    let line = page.lines().find(|line| line.starts_with("serin_notify_pending")).unwrap_or_default();
    line.rsplit(' ').next().unwrap_or_default().to_owned()
}

/// A receiver that is down for a while is told everything once it is back, in order, signed, each once.
#[test]
fn a_receiver_that_was_down_is_told_once_and_in_order() {
    let port = free_port();
    let serin = Serin::start(&file(&format!(
        "[{{ webhook: \"http://127.0.0.1:{port}/hunter2\", secret: hunter3, events: [started, aborted, paused] }}]"
    )));
    assert!(serin.cli(&["pause", "--reason", "look"]).status.success());
    assert!(serin.cli(&["abort", "--reason", "too slow"]).status.success());
    eventually("three to be pending", || (pending(&serin) == "3").then_some(()));
    let receiver = Receiver::listen(port, &["503 Service Unavailable", "200 OK"]);
    eventually("all to be told", || (receiver.told().len() >= 4).then_some(()));
    eventually("nothing to be pending", || (pending(&serin) == "0").then_some(()));
    assert_eq!(receiver.events(), ["started", "started", "paused", "aborted"], "the first try was refused");
    let told = receiver.told();
    assert_eq!(told[0].field("x-serin-event-id"), told[1].field("x-serin-event-id"), "a second try is no second event");
    for told in &told {
        let signed = serin::control::notify::message::signature("hunter3", told.body.as_bytes());
        assert_eq!(told.field("x-serin-signature-256"), Some(signed));
    }
    let last = told.last().unwrap().json();
    assert!(last["message"].as_str().unwrap().contains("too slow"), "{last}");
    let log = serin.log();
    assert!(log.contains("was not taken") && !log.contains("hunter"), "URLs and secrets are not logged: {log}");
}

/// What was decided just before the process died is told by the next one; what was told is not told again.
#[test]
fn a_crash_between_deciding_and_telling_loses_no_message() {
    let port = free_port();
    let receivers = format!("[{{ webhook: \"http://127.0.0.1:{port}/\", events: [started, aborted] }}]");
    let mut serin = Serin::start(&file(&receivers));
    assert!(serin.cli(&["abort"]).status.success());
    serin.kill9();
    let receiver = Receiver::listen(port, &[]);
    serin.spawn();
    serin.ready();
    eventually("both to be told", || (receiver.told().len() >= 2).then_some(()));
    eventually("nothing to be pending", || (pending(&serin) == "0").then_some(()));
    serin.kill9();
    serin.spawn();
    serin.ready();
    assert!(serin.cli(&["retry"]).status.success());
    eventually("the retry to be told", || (receiver.told().len() >= 3).then_some(()));
    assert_eq!(receiver.events(), ["started", "aborted", "started"]);
}

/// Chat rooms and event buses get their own forms; a receiver without a URL is off.
#[test]
fn slack_and_cloudevents_get_their_own_forms() {
    let (slack, cloud) = (free_port(), free_port());
    let (chat, bus) = (Receiver::listen(slack, &[]), Receiver::listen(cloud, &[]));
    let _serin = Serin::start(&file(&format!(
        "[{{ slack: \"http://127.0.0.1:{slack}/\" }}, {{ slack: \"\" }}, {{ webhook: \"http://127.0.0.1:{cloud}/\", format: cloudevents }}]"
    )));
    let said = eventually("the chat", || chat.told().first().cloned()).json();
    assert!(said["text"].as_str().unwrap().starts_with("*web* v2 started"), "{said}");
    let told = eventually("the bus", || bus.told().first().cloned());
    assert_eq!(told.field("content-type").as_deref(), Some("application/cloudevents+json; charset=utf-8"));
    assert_eq!(told.json()["type"], "io.serin.rollout.started");
}
