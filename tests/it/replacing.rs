//! Replacing a running process under load: no request fails, and two never decide at once.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
};

use crate::{
    harness::{Client, Serin, binary, eventually},
    upstreams::Plain,
};

/// Clients that ask without a pause until they are stopped, some over kept connections and some over a new one each time.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    fn start(port: u16) -> Self {
        let (stop, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let client = |keeps: bool| {
            let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
            thread::spawn(move || {
                let mut failures = Vec::new();
                let mut kept: Option<Client> = None;
                while !stop.load(SeqCst) {
                    let client = kept.take().map_or_else(|| Client::connect(port), Ok);
                    let answer = client.and_then(|mut client| client.send("/", &[]).map(|answer| (client, answer)));
                    match answer {
                        Ok((client, answer)) if answer.status == 200 => {
                            answered.fetch_add(1, SeqCst);
                            let may_keep = keeps && answer.header("connection") != Some("close");
                            kept = Some(client).filter(|_| may_keep);
                        }
                        Ok((_, answer)) => failures.push(format!("status {}", answer.status)),
                        Err(error) => failures.push(error.to_string()),
                    }
                }
                failures
            })
        };
        let clients = [true, true, false].map(client).into();
        Self { stop, answered, clients }
    }

    /// Waits until so many more have been answered.
    fn answers(&self, more: u64) {
        let wanted = self.answered.load(SeqCst) + more;
        eventually("answers", || (self.answered.load(SeqCst) >= wanted).then_some(()));
    }

    fn failures(self) -> Vec<String> {
        self.stop.store(true, SeqCst);
        self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    }
}

#[test]
fn a_process_that_inherits_the_socket_replaces_another_without_a_failed_request() {
    let upstream = Plain::start("v1");
    let serin = Serin::prepare(&upstream.services());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients/hand_over.py");
    let log = std::fs::File::create(serin.dir.path().join("log")).unwrap();
    let mut holder = Command::new("python3")
        .arg(script)
        .args([&serin.port.to_string(), &binary(), "run", "--config"])
        .arg(serin.file())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let mut said = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "started");
    let ready = || {
        eventually("serin to be ready", || {
            Client::get(serin.admin, "/readyz").ok().filter(|answer| answer.status == 200).map(drop)
        });
    };
    ready();
    let load = Load::start(serin.port);
    load.answers(100);
    for _ in 0..2 {
        writeln!(holder.stdin.as_mut().unwrap()).unwrap();
        assert_eq!(said.next().unwrap().unwrap(), "replaced 0", "{}", serin.log());
        ready();
        load.answers(100);
    }
    let failures = load.failures();
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    assert_eq!(failures, [""; 0], "{}", serin.log());
}

#[test]
fn a_second_process_serves_beside_the_first_and_decides_once_that_has_ended() {
    let (v1, v2) = (Plain::start("v1"), Plain::start("v2"));
    let services = format!(
        "services:\n  web:\n    versions: {{ v1: \"http://{}\", v2: \"http://{}\" }}\n    stable: v1\n    canary: v2\n    \
         steps: [50%]\n    hold: 1h\n",
        v1.address, v2.address
    );
    let mut first = Serin::start(&services);
    first.event("weightChanged");
    let load = Load::start(first.port);
    let mut second = first.successor();
    eventually("the second to serve", || second.log().contains("serving beside process").then_some(()));
    load.answers(200);
    assert!(first.cli(&["abort", "web", "--reason", "both must obey"]).status.success());
    // Over new connections, of which each process gets some: none reaches the canary.
    eventually("the second to follow", || {
        (0..40).all(|_| Client::get(first.port, "/").unwrap().body == b"v1").then_some(())
    });
    first.terminate();
    second.ready();
    load.answers(200);
    let failures = load.failures();
    assert_eq!(failures, [""; 0], "{}", second.log());
    assert_eq!(second.status()["phase"], "Degraded", "{}", second.status());
    assert!(second.log().contains("from now on this process decides"));
}
