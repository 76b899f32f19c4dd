//! What is tried against the admin listener by other sites' pages and by clients that mean ill, each over a real socket. Which row
//! of the study is held by which test is in `house::rows`.
#![expect(clippy::unwrap_used, reason = "a scenario that cannot go on fails")]

use std::{io::Read as _, sync::atomic::Ordering::SeqCst};

use crate::stage::{Stage, WRITE};

const ABORT: &str = "/api/v1/services/web/abort";

fn was_untouched(stage: &Stage) {
    assert!(stage.commands.lock().unwrap().is_empty());
    assert_eq!(stage.reloads.load(SeqCst), 0);
}

/// Sends a whole request as it stands, and gives what comes.
fn raw(stage: &Stage, request: &str) -> String {
    let mut answer = String::new();
    // A server that answers before it has read everything may reset the connection after its answer.
    let _ = stage.send(request).read_to_string(&mut answer);
    answer
}

/// The page's name leads to loopback: the browser takes it for its own site, so the name is all that tells.
#[test]
fn a_name_that_was_bound_to_loopback_gets_nothing_even_with_the_token() {
    let stage = Stage::progressing();
    let token = format!("Bearer {WRITE}");
    for name in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "0x7f.1.evil.example", "10.0.0.1"]
    {
        let host = format!("{name}:{}", stage.address.port());
        let origin = format!("http://{host}");
        let fields = [("host", host.as_str()), ("origin", origin.as_str()), ("authorization", token.as_str())];
        for (method, path) in [("GET", "/"), ("GET", "/api/v1/config"), ("GET", "/api/v1/events"), ("POST", ABORT)] {
            let answer = stage.ask(method, path, &fields, "");
            assert_eq!((answer.status, answer.code().as_str()), (421, "foreignHost"), "{method} {path} as {name}");
        }
    }
    let own = stage.address;
    for head in [
        "GET / HTTP/1.1\r\n".to_owned(),
        "GET / HTTP/1.0\r\n".to_owned(),
        format!("GET / HTTP/1.1\r\nhost: {own}\r\nhost: evil.example\r\n"),
        format!("GET http://evil.example/ HTTP/1.1\r\nhost: {own}\r\n"),
        format!("GET / HTTP/1.1\r\nhost: evil.example@{own}\r\n"),
    ] {
        let answer = raw(&stage, &format!("{head}connection: close\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 400") || answer.starts_with("HTTP/1.0 400"), "{head}: {answer}");
    }
    was_untouched(&stage);
}

#[test]
fn another_sites_page_may_neither_ask_nor_look_at_answers() {
    let stage = Stage::progressing();
    let token = format!("Bearer {WRITE}");
    for origin in ["http://evil.example", "null", "https://localhost", "file://", "x"] {
        for (method, path) in [("OPTIONS", ABORT), ("POST", ABORT), ("GET", "/api/v1/events"), ("POST", "/login")] {
            let fields = [
                ("origin", origin),
                ("authorization", token.as_str()),
                ("access-control-request-method", "POST"),
                ("access-control-request-headers", "authorization"),
            ];
            let answer = stage.ask(method, path, &fields, "");
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (403, "foreignOrigin"),
                "{method} {path} from {origin}"
            );
            assert!(!answer.head.contains("access-control-"), "{}", answer.head);
        }
    }
    was_untouched(&stage);
}

#[test]
fn nothing_changes_by_a_method_that_only_looks_whatever_it_says_it_is() {
    let stage = Stage::progressing();
    let token = format!("Bearer {WRITE}");
    for method in ["GET", "HEAD"] {
        for path in [ABORT, "/api/v1/reload", "/api/v1/services/web/promote", "/logout"] {
            for path in [path.to_owned(), format!("{path}?_method=POST&reason=x")] {
                let fields = [
                    ("authorization", token.as_str()),
                    ("x-http-method-override", "POST"),
                    ("x-http-method", "POST"),
                    ("x-method-override", "POST"),
                ];
                let answer = stage.ask(method, &path, &fields, "");
                assert_eq!(answer.status, 405, "{method} {path}");
            }
        }
    }
    was_untouched(&stage);
}

#[test]
fn a_head_without_measure_is_refused_and_not_kept() {
    let stage = Stage::progressing();
    let own = stage.address;
    let large = "x".repeat(200 * 1024);
    let many = "a: b\r\n".repeat(2_000);
    for request in [
        format!("GET /{large} HTTP/1.1\r\nhost: {own}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nhost: {own}\r\nx-large: {large}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nhost: {own}\r\n{many}\r\n"),
    ] {
        let mut stream = std::net::TcpStream::connect(own).unwrap();
        stream.set_read_timeout(Some(crate::harness::PATIENCE)).unwrap();
        // The server may hang up before it has everything, and a reset may overtake its answer.
        let _ = std::io::Write::write_all(&mut stream, request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer:.200}");
    }
    assert_eq!(stage.get("/healthz").status, 200);
}

#[test]
fn connections_that_say_nothing_take_the_places_there_are_and_no_more() {
    let stage = Stage::progressing();
    let silent: Vec<_> = (0..serin::admin::CONNECTIONS_MAX + 40).map(|_| stage.send("")).collect();
    drop(silent);
    assert_eq!(stage.get("/healthz").status, 200);
}

#[test]
fn whoever_does_not_read_its_events_holds_up_nobody() {
    let stage = Stage::progressing();
    let request = format!("GET /api/v1/events HTTP/1.1\r\nhost: {}\r\n\r\n", stage.address);
    let deaf: Vec<_> = (0..8).map(|_| stage.send(&request)).collect();
    // Each pause tells more events than may wait for a listener.
    for _ in 0..20 {
        assert_eq!(stage.post("/api/v1/services/web/pause", "").status, 200);
    }
    assert_eq!(stage.get("/api/v1/services/web").status, 200);
    drop(deaf);
}

#[test]
fn markup_in_what_clients_send_is_text_wherever_it_is_shown() {
    let stage = Stage::progressing();
    let evil = "<object/data=x onerror=alert(1)>\"'";
    let token = format!("Bearer {WRITE}");
    let fields = [
        ("authorization", token.as_str()),
        ("content-type", "application/json"),
        ("x-serin-actor", evil),
        ("user-agent", evil),
        ("referer", evil),
        ("x-forwarded-for", evil),
    ];
    let body = serde_json::json!({ "reason": evil }).to_string();
    assert_eq!(stage.ask("POST", ABORT, &fields, &body).status, 200);
    for path in ["/", "/services/web", "/services/%3Cobject%20data=x%3E", "/%3Cobject%20data=x%3E"] {
        let page = stage.ask("GET", path, &[("accept", "text/html"), ("user-agent", evil)], "");
        assert!(!page.body.contains("<object"), "{path}: {}", page.body);
        assert!(page.head.contains("content-security-policy: default-src 'none'"), "{path}");
        assert!(page.head.contains("x-content-type-options: nosniff"), "{path}");
    }
    for path in ["/api/v1/history", "/api/v1/services/web/why", "/api/v1/services/%3Cobject%20data=x%3E"] {
        let answer = stage.ask("GET", path, &[("accept", "text/html")], "");
        assert!(answer.head.contains("content-type: application/json"), "{path}: no browser shows it as a page");
    }
    assert!(stage.ask("GET", "/services/web", &[("accept", "text/html")], "").body.contains("&lt;object"));
}
