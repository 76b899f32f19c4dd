//! The side that faces clients, by the real binary and real clients: TLS from files.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use crate::{
    certificates::{Issued, Issuer},
    harness::{Serin, eventually},
    upstreams::Plain,
};

/// What curl says to an address of the listener; `fails` unless it was answered.
fn curl(port: u16, ca: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "30", "--cacert"]).arg(ca).args(args);
    command.args(["--resolve", &format!("a.example:{port}:127.0.0.1"), &format!("https://a.example:{port}/")]);
    command.output().expect("curl is absent: run .ci/run, which installs it")
}

fn https(port: u16, issued: &Issued) -> String {
    let (cert, key) = (issued.cert.display(), issued.key.display());
    format!(
        "listeners:\n  - name: https\n    listen: 127.0.0.1:{port}\n    tls: {{ certificates: [{{ cert: {cert}, key: {key} }}] }}"
    )
}

fn replace(file: &Path, by: &Path) {
    let new = file.with_extension("new");
    fs::copy(by, &new).unwrap();
    fs::rename(new, file).unwrap();
}

#[test]
fn certificates_are_taken_up_when_both_files_fit_and_not_before() {
    let upstream = Plain::start("v1");
    let (first, second) = (Issuer::new("first"), Issuer::new("second"));
    let in_use = first.issue("in-use", &["a.example"]);
    let next = second.issue("next", &["a.example"]);
    let mut serin = Serin::prepare("");
    serin.write_with(&https(serin.port, &in_use), &upstream.services());
    serin.spawn();
    serin.ready();
    let answers = |ca: &Issuer| curl(serin.port, &ca.cert, &["--http2"]).stdout == b"v1";
    assert!(answers(&first));
    assert!(!answers(&second));

    replace(&in_use.cert, &next.cert);
    eventually("a complaint about the key", || serin.log().contains("the former ones stay in force").then_some(()));
    assert!(answers(&first), "a certificate without its key is not taken up");
    replace(&in_use.key, &next.key);
    eventually("the new certificate", || answers(&second).then_some(()));
    assert!(!answers(&first));
}

#[test]
fn curl_speaks_every_version_over_tls() {
    let upstream = Plain::start("v1");
    let issuer = Issuer::new("ca");
    let mut serin = Serin::prepare("");
    serin.write_with(&https(serin.port, &issuer.issue("a", &["a.example"])), &upstream.services());
    serin.spawn();
    serin.ready();
    for (args, version) in [
        ("--http1.0 --tls-max 1.2", "1"),
        ("--http1.1 --tls-max 1.2", "1.1"),
        ("--http1.1 --tlsv1.3", "1.1"),
        ("--http2 --tlsv1.3", "2"),
        ("--http2 --tls-max 1.2", "2"),
    ] {
        let args: Vec<_> = args.split(' ').chain(["--write-out", " %{http_version}"]).collect();
        let output = curl(serin.port, &issuer.cert, &args);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(out, format!("v1 {version}"), "{args:?}: {err}");
    }
}

#[test]
fn a_limit_and_a_certificate_of_a_saved_file_need_no_restart() {
    let upstream = Plain::start("v1");
    let issuer = Issuer::new("ca");
    let (first, second) = (issuer.issue("first", &["b.example"]), issuer.issue("second", &["a.example"]));
    let mut serin = Serin::prepare("");
    serin.write_with(&https(serin.port, &first), &upstream.services());
    serin.spawn();
    serin.ready();
    assert!(!curl(serin.port, &issuer.cert, &[]).status.success());
    serin.write_with(&https(serin.port, &second), &upstream.services());
    eventually("the other certificate", || curl(serin.port, &issuer.cert, &[]).status.success().then_some(()));
}

#[test]
fn check_says_what_is_wrong_with_a_certificate() {
    let issuer = Issuer::new("ca");
    let (a, b) = (issuer.issue("a", &["a.example"]), issuer.issue("b", &["b.example"]));
    let serin = Serin::prepare("");
    let upstream = "services: { web: { versions: { v1: http://127.0.0.1:1 }, stable: v1 } }\n";
    let said = |issued: &Issued| {
        serin.write_with(&https(serin.port, issued), upstream);
        let output = serin.cli(&["check"]);
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout),
        )
    };
    assert!(said(&a).0);
    let (fine, text) = said(&Issued { cert: a.cert.clone(), key: b.key });
    assert!(!fine && text.contains("`key` is not the key of this certificate"), "{text}");
    let (fine, text) = said(&Issued { cert: "absent.crt".into(), key: a.key });
    assert!(!fine && text.contains("`cert` cannot be read: No such file"), "{text}");
}
