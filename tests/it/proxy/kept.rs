//! Clients who ask for a version, and clients who are kept on one, by cookie and over real sockets: rows T25,
//! T26, T34, T41, I-02, I-15, P11 and P32.

use std::net::SocketAddr;

use hyper::{Request, header::HeaderName};
use serin::engine::assign::ForceRule;

use super::rig::{Named, Rig, full, soon, status_of, text, values, weigh};

/// Once over the fast path, once over the ordinary one.
const PATHS: [&str; 2] = ["", "te: trailers\r\nconnection: te\r\n"];

async fn versions() -> (Named, Named) {
    (Named::start("v1").await, Named::start("v2").await)
}

/// A service with both versions under these rules of assignment.
fn file(stable: SocketAddr, canary: SocketAddr, assign: &str) -> String {
    format!(
        "services:\n  web:\n    versions: {{ v1: \"http://{stable}\", v2: \"http://{canary}\" }}\n\
         \x20   stable: v1\n    canary: v2\n    assign: {assign}\n"
    )
}

async fn rig(assign: &str, ppm: u32) -> (Rig, Named, Named) {
    let (stable, canary) = versions().await;
    let mut rig = Rig::of(&file(stable.address, canary.address, assign));
    rig.publish(|service| weigh(service, ppm));
    (rig, stable, canary)
}

#[tokio::test]
async fn a_cookie_forces_a_version_and_a_wrong_word_forces_none() {
    let (rig, _stable, _canary) = rig("{ force: { cookie: canary-by-cookie } }", 0).await;
    for path in PATHS {
        for (value, expected) in [("always", "v2"), ("never", "v1"), ("badcookievalue", "v1")] {
            for _ in 0..50 {
                let answer = rig.get(&format!("cookie: a=b; canary-by-cookie={value}; c=d\r\n{path}")).await;
                assert!(answer.ends_with(expected), "{value}: {answer}");
            }
        }
    }
}

#[tokio::test]
async fn another_header_forces_from_the_next_request_on() {
    let (mut rig, _stable, _canary) = rig("{ force: { header: canary-by-header } }", 0).await;
    let mut client = rig.h1().await;
    for (header, other) in [("canary-by-header", "canary-by-header2"), ("canary-by-header2", "canary-by-header")] {
        rig.publish(|service| {
            service.force = Some(ForceRule::by_header(HeaderName::from_static(header)));
            weigh(service, 0);
        });
        for (name, expected) in [(header, "v2"), (other, "v1")] {
            let asks = Request::get("/").header("host", "a").header(name, "always").body(full("")).unwrap();
            client.ready().await.unwrap();
            assert_eq!(text(soon(client.send_request(asks)).await.unwrap()).await, expected, "{name} while {header}");
        }
    }
}

#[tokio::test]
async fn who_is_kept_on_a_version_may_still_force_the_other() {
    let assign = "{ force: { header: x-canary, cookie: canary }, sticky: { by: cookie } }";
    let (rig, _stable, _canary) = rig(assign, 500_000).await;
    for path in PATHS {
        for (wanted, kept_on) in [("always", "v1"), ("never", "v2")] {
            let id = loop {
                let first = rig.get("").await;
                if first.ends_with(kept_on) {
                    break values(&first, "set-cookie")[0].split(';').next().unwrap().to_owned();
                }
            };
            for fields in [
                format!("cookie: {id}\r\nx-canary: {wanted}\r\n{path}"),
                format!("cookie: {id}; canary={wanted}\r\n{path}"),
            ] {
                let forced = rig.get(&fields).await;
                assert!(!forced.ends_with(kept_on) && status_of(&forced) == 200, "{forced}");
            }
            let kept = rig.get(&format!("cookie: {id}\r\n{path}")).await;
            assert!(kept.ends_with(kept_on), "it is where it was: {kept}");
        }
    }
}

#[tokio::test]
async fn a_forced_answer_hands_out_no_id_and_the_next_request_is_drawn() {
    let assign = "{ force: { header: x-canary }, sticky: { by: cookie } }";
    let (rig, _stable, canary) = rig(assign, 500_000).await;
    for path in PATHS {
        let forced = rig.get(&format!("x-canary: always\r\n{path}")).await;
        assert!(forced.ends_with("v2") && values(&forced, "set-cookie").is_empty(), "{forced}");
        let before = canary.requests();
        for _ in 0..200 {
            let answer = rig.get(path).await;
            assert_eq!((status_of(&answer), values(&answer, "set-cookie").len()), (200, 1), "{answer}");
        }
        // Six standard deviations of 200 draws at a half are 42.
        assert!((canary.requests() - before).abs_diff(100) <= 42, "{} of 200", canary.requests() - before);
    }
}

#[tokio::test]
async fn a_cookie_with_a_life_says_how_long_in_seconds() {
    let (rig, _stable, _canary) = rig("{ sticky: { by: cookie, ttl: 72h } }", 500_000).await;
    for path in PATHS {
        let answer = rig.get(path).await;
        let cookie = values(&answer, "set-cookie")[0];
        let (_, attributes) = cookie.split_once("; ").unwrap();
        // `Max-Age` alone: where both are there it is what counts (RFC 6265 5.3), and it needs no clock that is right.
        assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Lax; Max-Age=259200");
    }
}

#[tokio::test]
async fn who_is_known_on_one_path_is_known_on_the_next_and_an_abort_frees_everybody() {
    let (mut rig, _stable, _canary) = rig("{ sticky: { by: cookie } }", 500_000).await;
    let head = |path: &str, fields: &str| {
        format!("GET {path} HTTP/1.1\r\nhost: t.example\r\n{fields}connection: close\r\n\r\n")
    };
    let mut clients = Vec::new();
    for path in PATHS.repeat(20) {
        let first = rig.exchange(&head("/a/login", path)).await;
        let cookie = values(&first, "set-cookie")[0];
        assert!(cookie.contains("; Path=/;"), "{cookie}");
        let known = format!("cookie: {}\r\n{path}", cookie.split(';').next().unwrap());
        let next = rig.exchange(&head("/b/next", &known)).await;
        assert!(next.ends_with(&first[first.len() - 2..]), "{first}\n{next}");
        assert!(values(&next, "set-cookie").is_empty(), "it is known: {next}");
        clients.push((known, first[first.len() - 2..].to_owned()));
    }
    assert!(["v1", "v2"].iter().all(|version| clients.iter().any(|(_, on)| on == version)), "{clients:?}");
    rig.publish(|service| weigh(service, 0));
    for (known, _) in &clients {
        let after = rig.exchange(&head("/a/login", known)).await;
        assert!(after.ends_with("v1"), "{after}");
    }
}

#[tokio::test]
async fn a_page_and_its_parts_come_from_one_version() {
    let (rig, _stable, _canary) = rig("{ sticky: { by: cookie } }", 500_000).await;
    let mut pages = Vec::new();
    for _ in 0..40 {
        let page = rig.get("").await;
        let id = values(&page, "set-cookie")[0].split(';').next().unwrap().to_owned();
        let version = page[page.len() - 2..].to_owned();
        // As a browser asks for them: over several connections and either version of HTTP.
        let (mut h1, mut h2) = (rig.h1().await, rig.h2().await);
        for part in 0..10 {
            let asks = Request::get(format!("http://t.example/part-{part}.js")).header("host", "t.example");
            let asks = asks.header("cookie", &id).body(full("")).unwrap();
            h1.ready().await.unwrap();
            let got = if part % 2 == 0 { soon(h1.send_request(asks)).await } else { soon(h2.send_request(asks)).await };
            assert_eq!(text(got.unwrap()).await, version, "part {part} of a page of {version}");
        }
        pages.push(version);
    }
    assert!(["v1", "v2"].iter().all(|version| pages.iter().any(|page| page == version)), "{pages:?}");
}
