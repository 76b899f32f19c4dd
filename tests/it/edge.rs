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

/// The lines of an access log, each a JSON object.
fn lines(file: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Starts with standard output in a file, which is named.
fn start_logged(serin: &mut Serin) -> std::path::PathBuf {
    let out = serin.dir.path().join("out");
    serin.spawn_into(fs::File::create(&out).unwrap().into());
    serin.ready();
    out
}

#[test]
fn each_request_has_a_line_that_says_who_served_it_and_why() {
    let upstream = Plain::start("v1");
    let mut serin = Serin::prepare(&format!("accessLog: {{ format: json }}\n{}", upstream.services()));
    let out = start_logged(&mut serin);
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers = [("x-request-id", "mine-1"), ("traceparent", trace), ("user-agent", "a\"b")];
    let answer = serin.client().send("/shop?token=secret", &headers).unwrap();
    assert_eq!(answer.header("x-request-id"), Some("mine-1"));
    let told = answer.header("x-head").unwrap().to_ascii_lowercase();
    assert!(told.contains("x-request-id: mine-1") && told.contains(&format!("traceparent: {trace}")), "{told}");
    let other = serin.client().send("/", &[("x-request-id", "not an id")]).unwrap();
    let made = other.header("x-request-id").unwrap().to_owned();
    assert_eq!(made.len(), 32);

    let log = eventually("two lines", || Some(lines(&out)).filter(|lines| lines.len() == 2));
    let first = log.iter().find(|line| line["path"] == "/shop").unwrap();
    for (key, value) in [
        ("method", "GET"),
        ("client", "127.0.0.1"),
        ("scheme", "http"),
        ("protocol", "HTTP/1.1"),
        ("service", "web"),
        ("version", "v1"),
        ("role", "stable"),
        ("reason", "sampled"),
        ("request_id", "mine-1"),
        ("traceparent", trace),
        ("user_agent", "a\"b"),
    ] {
        assert_eq!(first[key], value, "{key} of {first}");
    }
    assert_eq!(first["upstream"], upstream.address.to_string());
    assert_eq!((first["status"].as_u64(), first["bytes_out"].as_u64()), (Some(200), Some(2)));
    assert_eq!(first["complete"], true);
    assert!(first["duration"].as_f64() >= first["time_to_head"].as_f64());
    assert!(log.iter().any(|line| line["request_id"] == made.as_str()));
    assert!(!fs::read_to_string(&out).unwrap().contains("secret"), "a query was written");
}

#[test]
fn successes_are_sampled_and_failures_are_all_there() {
    let dead = crate::harness::free_port();
    let services = format!("services: {{ web: {{ versions: {{ v1: \"http://127.0.0.1:{dead}\" }}, stable: v1 }} }}\n");
    let mut serin = Serin::prepare(&format!("accessLog: {{ format: json, sampleSuccess: 0% }}\n{services}"));
    let out = start_logged(&mut serin);
    let mut client = serin.client();
    for _ in 0..20 {
        assert_eq!(client.send("/", &[]).unwrap().status, 502);
    }
    let log = eventually("all failures", || Some(lines(&out)).filter(|lines| lines.len() == 20));
    assert!(log.iter().all(|line| line["error"] == "connect_failed" && line["version"] == "v1"), "{:?}", log[0]);

    let upstream = Plain::start("v1");
    serin.write(&format!("accessLog: {{ format: combined, sampleSuccess: 0% }}\n{}", upstream.services()));
    eventually("the live upstream", || (serin.client().send("/", &[]).ok()?.status == 200).then_some(()));
    let mut silent = serin.client();
    for _ in 0..20 {
        assert_eq!(silent.send("/", &[]).unwrap().status, 200);
    }
    let text = fs::read_to_string(&out).unwrap();
    assert!(!text.contains("\"status\":200") && !text.contains(" 200 "), "a success was written: {text}");

    serin.write(&format!("accessLog: {{ format: combined }}\n{}", upstream.services()));
    let wanted = "\"GET /x HTTP/1.1\" 200 2 \"-\" \"-\" version=v1 role=stable\n";
    eventually("a line in the combined format", || {
        serin.client().send("/x", &[]).ok()?;
        fs::read_to_string(&out).unwrap().contains(wanted).then_some(())
    });
}

#[test]
fn nobody_reading_the_access_log_holds_up_no_request() {
    let upstream = Plain::start("v1");
    let mut serin = Serin::prepare(&format!("accessLog: {{ format: json }}\n{}", upstream.services()));
    // A pipe that is never read holds 64 KiB; the rest waits in the queue, and then is dropped.
    let (reader, writer) = std::io::pipe().unwrap();
    serin.spawn_into(writer.into());
    serin.ready();
    let mut client = serin.client();
    let path = format!("/{}", "x".repeat(1_000));
    let dropped = || {
        let page = crate::harness::Client::get(serin.admin, "/metrics").unwrap().body;
        let page = String::from_utf8(page).unwrap();
        let line = page.lines().find(|line| line.starts_with("serin_access_log_dropped_total")).unwrap().to_owned();
        !line.ends_with(" 0")
    };
    eventually("dropped lines", || {
        for _ in 0..500 {
            assert_eq!(client.send(&path, &[]).unwrap().status, 200);
        }
        dropped().then_some(())
    });
    drop(reader);
}

#[test]
fn a_line_tells_who_answered_in_whose_place_and_what_it_took() {
    let stable = Plain::start("v1");
    let dead = crate::harness::free_port();
    let mut serin = Serin::prepare(&format!(
        "accessLog: {{ format: json }}\nservices:\n  web:\n    versions: {{ v1: \"http://{}\", v2: \"http://127.0.0.1:{dead}\" }}\n\
         \x20   stable: v1\n    canary: v2\n    assign: {{ force: {{ header: x-canary }} }}\n",
        stable.address
    ));
    let out = start_logged(&mut serin);
    let mut client = serin.client();
    assert_eq!(client.send("/canary", &[("x-canary", "always")]).unwrap().status, 200);
    assert_eq!(client.send("/stable", &[("x-canary", "never")]).unwrap().status, 200);
    let log = eventually("two lines", || Some(lines(&out)).filter(|lines| lines.len() == 2));
    let (canary, stable) = (&log[0], &log[1]);
    assert_eq!((&canary["outcome"], &canary["attempts"]), (&"fallback".into(), &2.into()), "{canary}");
    assert_eq!(
        (&canary["version"], &canary["reason"]),
        (&"v1".into(), &"forced".into()),
        "who answered, and why who was asked"
    );
    assert_eq!((&stable["outcome"], &stable["attempts"]), (&serde_json::Value::Null, &1.into()), "{stable}");
    let opened = [canary, stable].into_iter().any(|line| line["upstream_connect"].is_f64());
    assert!(opened, "{log:?}");
    assert!(stable["time_to_first_byte"].as_f64() >= stable["time_to_head"].as_f64(), "{stable}");
}

#[test]
fn a_state_folder_that_cannot_be_written_is_told_until_it_can() {
    let upstream = Plain::start("v1");
    let serin = Serin::start(&upstream.services());
    let is = |expected: &str| {
        let page = crate::harness::Client::get(serin.admin, "/metrics").unwrap().body;
        String::from_utf8(page)
            .unwrap()
            .lines()
            .any(|line| line == format!("serin_state_writable {expected}"))
            .then_some(())
    };
    eventually("a writable folder", || is("1"));
    let (folder, away) = (serin.dir.path().join("serin-state"), serin.dir.path().join("away"));
    fs::rename(&folder, &away).unwrap();
    // Root may write wherever there is a folder, so there is none.
    fs::write(&folder, "").unwrap();
    eventually("a folder that is not", || is("0"));
    assert_eq!(serin.client().send("/", &[]).unwrap().status, 200, "requests do not mind");
    fs::remove_file(&folder).unwrap();
    fs::rename(&away, &folder).unwrap();
    eventually("a writable folder again", || is("1"));
}
