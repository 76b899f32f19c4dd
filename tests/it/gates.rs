//! Gates end to end: a real server that is asked by a real `serin run`, what `why` and the history say of it, and that no
//! secret of it is shown anywhere.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use serde_json::Value;

use crate::{
    asked::{answer, anywhere, serve},
    harness::{Client, Serin, eventually, free_port},
};

/// Path, head and body of a question.
type Asked = (String, Vec<String>, Value);

/// A server that answers each path with the status last set for it, and keeps what it was asked.
struct Server {
    port: u16,
    answers: Arc<Mutex<HashMap<String, String>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    fn start(answers: &[(&str, &str)]) -> Self {
        let answers: HashMap<String, String> =
            answers.iter().map(|(path, status)| ((*path).to_owned(), (*status).to_owned())).collect();
        let (answers, asked) = (Arc::new(Mutex::new(answers)), Arc::<Mutex<Vec<Asked>>>::default());
        let (known, kept) = (Arc::clone(&answers), Arc::clone(&asked));
        let port = serve(anywhere(), move |request| {
            let path = request.path().to_owned();
            let status = known.lock().unwrap().get(&path).cloned().unwrap_or_else(|| "404 Not Found".to_owned());
            kept.lock().unwrap().push((path, request.head, serde_json::from_str(&request.body).unwrap_or_default()));
            Some(answer(&status, "retry-after: 1\r\n", ""))
        });
        Self { port, answers, asked }
    }

    fn answer(&self, path: &str, status: &str) {
        self.answers.lock().unwrap().insert(path.to_owned(), status.to_owned());
    }

    fn asked(&self, path: &str) -> Vec<(Vec<String>, Value)> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|(of, ..)| of == path).map(|(_, head, body)| (head.clone(), body.clone())).collect()
    }
}

fn file(gates: &[String]) -> String {
    format!(
        "services:\n  web:\n    versions: {{ v1: \"http://127.0.0.1:9\", v2: \"http://127.0.0.1:10\" }}\n    stable: v1\n    \
         canary: v2\n    gates: [{}]\n    strategy: {{ canary: {{ steps: [{{ setWeight: 5 }}, {{ pause: {{}} }}] }} }}\n",
        gates.join(", ")
    )
}

fn gate(port: u16, kind: &str, path: &str) -> String {
    format!("{{ name: {}, type: {kind}, url: \"http://127.0.0.1:{port}{path}\" }}", &path[1..2].replace('/', "g"))
}

fn why(serin: &Serin) -> String {
    String::from_utf8(serin.cli(&["why", "web"]).stdout).unwrap()
}

#[test]
fn a_rollout_waits_for_its_gates_and_says_so_and_goes_on_when_they_do() {
    let server = Server::start(&[("/a", "202 Accepted"), ("/c", "503 Service Unavailable"), ("/p", "204 No Content")]);
    let gates = [
        gate(server.port, "confirm-rollout", "/a"),
        gate(server.port, "confirm-promotion", "/c"),
        gate(server.port, "post-rollout", "/p"),
    ];
    let serin = Serin::start(&file(&gates));
    eventually("being asked again", || (server.asked("/a").len() > 1).then_some(()));
    let said = why(&serin);
    assert!(said.contains("web stays at 0%") && said.contains("the gate `a` (confirm-rollout): "), "{said}");
    server.answer("/a", "201 Created");
    let passed = serin.event("gatePassed");
    assert_eq!((&passed["cause"]["gate"], &passed["cause"]["said"]), (&"a".into(), &"go".into()), "{passed}");
    assert!(passed["message"].as_str().unwrap().ends_with("the gate a (confirm-rollout) says go"), "{passed}");
    serin.event("paused");
    assert!(serin.cli(&["resume", "web"]).status.success());
    eventually("the next gate", || (!server.asked("/c").is_empty()).then_some(()));
    let (_, body) = server.asked("/c").remove(0);
    assert_eq!(
        (&body["name"], &body["gate"], &body["type"], &body["phase"], &body["canary"], &body["weightPpm"]),
        (&"web".into(), &"c".into(), &"confirm-promotion".into(), &"Progressing".into(), &"v2".into(), &50_000.into()),
        "{body}"
    );
    server.answer("/c", "200 OK");
    serin.event("promoted");
    let (_, body) = eventually("the end being told", || server.asked("/p").pop());
    assert_eq!((&body["phase"], &body["stable"]), (&"Healthy".into(), &"v2".into()), "{body}");
}

#[test]
fn a_gate_that_says_stop_aborts_and_one_nobody_reaches_is_told_in_why_and_lets_promote_through() {
    let server = Server::start(&[("/stop", "409 Conflict")]);
    let nobody = free_port();
    let serin = Serin::start(&file(&[
        gate(nobody, "pre-rollout", "/nobody"),
        gate(server.port, "confirm-traffic-increase", "/stop"),
    ]));
    let said = eventually("a fault", || Some(why(&serin)).filter(|said| said.contains("(1 in a row)")));
    assert!(said.contains(&format!("the gate `n` (pre-rollout): cannot reach 127.0.0.1:{nobody}")), "{said}");
    assert_eq!(server.asked("/stop"), [], "one after the other");
    assert!(serin.cli(&["promote", "web"]).status.success(), "a person goes past it");
    serin.event("paused");
    serin.write(&file(&[gate(server.port, "pre-rollout", "/stop")]));
    assert!(serin.cli(&["reload"]).status.success());
    assert!(serin.cli(&["abort", "web"]).status.success());
    assert!(serin.cli(&["retry", "web"]).status.success());
    let aborted = eventually("the abort by the gate", || {
        serin.history().into_iter().find(|event| event["kind"] == "aborted" && event["cause"]["type"] == "gate")
    });
    assert_eq!(
        (&aborted["cause"]["said"], &aborted["cause"]["kind"]),
        (&"stop".into(), &"pre-rollout".into()),
        "{aborted}"
    );
}

#[test]
fn a_gates_token_and_its_url_are_shown_nowhere() {
    let server = Server::start(&[("/hook/hush-hush", "500 hush-hush")]);
    let gate = format!(
        "{{ name: approve, type: confirm-rollout, url: \"http://127.0.0.1:{}/hook/hush-hush\", \
         headers: {{ authorization: \"Bearer s3cr3t-token\" }}, metadata: {{ team: shop }} }}",
        server.port
    );
    let serin = Serin::start(&file(&[gate]));
    let (head, body) = eventually("the question", || server.asked("/hook/hush-hush").pop());
    assert!(head.iter().any(|line| line.eq_ignore_ascii_case("authorization: Bearer s3cr3t-token")), "{head:?}");
    assert_eq!(body["metadata"]["team"], "shop");
    let said = eventually("a fault", || Some(why(&serin)).filter(|said| said.contains("it answered 500")));
    let status = String::from_utf8(serin.cli(&["status", "web", "--output", "json"]).stdout).unwrap();
    let page = String::from_utf8(Client::get(serin.admin, "/").unwrap().body).unwrap();
    for shown in [said, status, page, serin.log()] {
        assert!(!shown.contains("s3cr3t") && !shown.contains("hush-hush"), "{shown}");
    }
}
