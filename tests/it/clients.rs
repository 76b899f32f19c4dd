//! Clients and servers that others wrote, through the real binary: gRPC, WebSocket, curl, openssl.

use std::{
    fs,
    io::{BufRead, BufReader, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::{
    certificates::Issuer,
    harness::{Serin, eventually},
    upstreams::Plain,
};

const GRPC: &str = "tests/it/clients/grpc_kinds.py";
const WEBSOCKET: &str = "tests/it/clients/websocket_echo.py";

/// Debian's Python, for which Debian has the packages.
fn python(script: &str, args: &[&str]) -> Command {
    let mut command = Command::new("/usr/bin/python3");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(script)).args(args);
    command
}

/// Whether a package is there; said loudly if not.
fn has(package: &str) -> bool {
    let probe =
        Command::new("/usr/bin/python3").args(["-c", &format!("import {package}")]).stderr(Stdio::null()).status();
    let there = probe.is_ok_and(|status| status.success());
    if !there {
        eprintln!("PYTHON'S `{package}` IS ABSENT: its clients are not tried; `.ci/run` installs it");
    }
    there
}

/// A server in Python, which prints its port first.
struct Server {
    port: u16,
    child: Child,
}

impl Server {
    fn start(script: &str) -> Self {
        let mut child = python(script, &["serve"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { port: line.trim().parse().unwrap_or_else(|_| panic!("{script} says {line:?}")), child }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// A plain listener and one with TLS beside it; gives the port of the latter.
fn serve_both(serin: &mut Serin, issuer: &Issuer, services: &str) -> u16 {
    let pair = issuer.issue("a", &["a.example"]);
    let port = crate::harness::free_port();
    let (cert, key) = (pair.cert.display(), pair.key.display());
    let listeners = format!(
        "listeners:\n  - {{ name: plain, listen: \"127.0.0.1:{}\" }}\n  - name: https\n    listen: 127.0.0.1:{port}\n    \
         tls: {{ certificates: [{{ cert: {cert}, key: {key} }}] }}",
        serin.port
    );
    serin.write_with(&listeners, services);
    serin.spawn();
    serin.ready();
    port
}

fn says_ok(command: &mut Command) {
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(out, "ok\n", "{err}");
}

#[test]
fn grpc_calls_of_all_kinds_pass_with_and_without_tls() {
    if !has("grpc") {
        return;
    }
    let server = Server::start(GRPC);
    let issuer = Issuer::new("ca");
    let mut serin = Serin::prepare("");
    let services = format!(
        "services: {{ web: {{ versions: {{ v1: {{ endpoints: [\"http://127.0.0.1:{}\"], http: h2 }} }}, stable: v1 }} }}\n",
        server.port
    );
    let https = serve_both(&mut serin, &issuer, &services);
    says_ok(&mut python(GRPC, &["call", &format!("127.0.0.1:{}", serin.port)]));
    let ca = issuer.cert.display().to_string();
    says_ok(&mut python(GRPC, &["call", &format!("127.0.0.1:{https}"), &ca, "a.example"]));
}

#[test]
fn a_grpc_call_under_way_outlives_the_order_to_stop_and_no_new_one_is_taken() {
    if !has("grpc") {
        return;
    }
    let server = Server::start(GRPC);
    let mut serin = Serin::start(&format!(
        "services: {{ web: {{ versions: {{ v1: {{ endpoints: [\"http://127.0.0.1:{}\"], http: h2 }} }}, stable: v1 }} }}\n",
        server.port
    ));
    let mut client = python(GRPC, &["drain", &format!("127.0.0.1:{}", serin.port)]);
    let mut client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(client.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert_eq!(said.next().as_deref(), Some("open"));
    serin.ask_to_end();
    eventually("nobody new comes in", || TcpStream::connect(("127.0.0.1", serin.port)).is_err().then_some(()));
    client.stdin.take().unwrap().write_all(b"it stops\n").unwrap();
    let done = said.next();
    let output = client.wait_with_output().unwrap();
    assert_eq!(done.as_deref(), Some("ok"), "{}", String::from_utf8_lossy(&output.stderr));
    serin.ended();
    assert!(!serin.log().contains("were cut"), "{}", serin.log());
}

#[test]
fn websockets_pass_with_and_without_tls() {
    if !has("websockets") {
        return;
    }
    let server = Server::start(WEBSOCKET);
    let issuer = Issuer::new("ca");
    let mut serin = Serin::prepare("");
    let services =
        format!("services: {{ web: {{ versions: {{ v1: \"http://127.0.0.1:{}\" }}, stable: v1 }} }}\n", server.port);
    let https = serve_both(&mut serin, &issuer, &services);
    says_ok(&mut python(WEBSOCKET, &["talk", &format!("ws://127.0.0.1:{}/", serin.port)]));
    let ca = issuer.cert.display().to_string();
    says_ok(&mut python(WEBSOCKET, &["talk", &format!("wss://127.0.0.1:{https}/"), &ca]));
}

#[test]
fn openssl_resumes_its_sessions() {
    let upstream = Plain::start("v1");
    let issuer = Issuer::new("ca");
    let mut serin = Serin::prepare("");
    let https = serve_both(&mut serin, &issuer, &upstream.services());
    let session = issuer.dir.path().join("session");
    let connect = |args: &[&str]| {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-connect", &format!("127.0.0.1:{https}"), "-servername", "a.example", "-tls1_2"]);
        command.arg("-CAfile").arg(&issuer.cert).args(args).stdin(Stdio::null());
        let output = command.output().expect("openssl is absent: run .ci/run, which installs it");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let path = session.display().to_string();
    let first = connect(&["-sess_out", &path]);
    assert!(first.contains("New, TLSv1.2") && first.contains("Verify return code: 0 (ok)"), "{first}");
    assert!(fs::metadata(&session).is_ok_and(|file| file.len() > 0), "openssl was given no session");
    let second = connect(&["-sess_in", &path]);
    assert!(second.contains("Reused, TLSv1.2"), "{second}");
}
