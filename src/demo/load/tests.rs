//! Against real sockets: toys, and servers that say exactly what a test wants.

use std::{net::SocketAddr, num::NonZeroU32};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;
use crate::demo::toy::{Failing, Toy, ToySpec};

fn toy(name: &str, failing: Failing) -> Toy {
    Toy::start(ToySpec { failing, ..ToySpec::new(name, SocketAddr::from(([127, 0, 0, 1], 0))) }).unwrap()
}

fn url(address: SocketAddr) -> Uri {
    format!("http://{address}/shop?item=1").parse().unwrap()
}

#[tokio::test]
async fn each_request_that_is_due_is_sent_once_and_counted_by_status_and_version() {
    let toy = toy("v2", Failing::Every(NonZeroU32::new(2).unwrap()));
    let duration = Some(Duration::from_millis(500));
    let spec = LoadSpec { duration, connections: 4, ..LoadSpec::new(url(toy.address()), 400.0) };
    let mut load = Load::start(spec).unwrap();
    load.finished().await;
    let summary = load.stop();
    assert_eq!(summary.due, 200, "{summary:?}");
    // A stalled machine may cost some, but each is accounted for.
    assert_eq!(summary.answered + summary.missed, 200, "{summary:?}");
    assert_eq!(summary.answered, toy.requests());
    let counts = summary.versions["v2"];
    assert_eq!(counts, VersionCounts { answered: toy.requests(), failed: toy.failures() });
    assert_eq!(summary.statuses.get(&500), Some(&toy.failures()));
    assert!(summary.seconds >= 0.49, "the last one is due after 497.5 ms");
    let latency = summary.latency.unwrap();
    assert!(latency.p50 <= latency.p99 && latency.p99 <= latency.max);
}

#[tokio::test]
async fn what_finds_no_place_is_missed_and_waiting_counts_as_latency() {
    // Takes connections and never answers: one is under way, one waits, all others are missed.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let timeout = Duration::from_millis(300);
    let duration = Some(Duration::from_millis(100));
    let spec =
        LoadSpec { duration, connections: 1, timeout, ..LoadSpec::new(url(listener.local_addr().unwrap()), 200.0) };
    let mut load = Load::start(spec).unwrap();
    load.finished().await;
    let summary = load.stop();
    assert_eq!(summary.due, 20);
    assert_eq!(summary.timed_out + summary.missed, 20, "{summary:?}");
    assert!(summary.timed_out >= 1 && summary.missed >= 10, "{summary:?}");
    assert!(summary.latency.unwrap().max >= 299.0, "{summary:?}");
}

#[tokio::test]
async fn a_target_that_is_not_there_is_counted_and_no_error() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let duration = Some(Duration::from_millis(50));
    let mut load = Load::start(LoadSpec { duration, ..LoadSpec::new(url(gone), 100.0) }).unwrap();
    load.finished().await;
    let summary = load.stop();
    assert_eq!((summary.due, summary.broken, summary.latency), (5, 5, None));
}

#[tokio::test]
async fn each_connection_keeps_its_own_cookies_and_a_closed_one_is_replaced() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let spec = LoadSpec { connections: 2, cookies: true, ..LoadSpec::new(url(listener.local_addr().unwrap()), 200.0) };
    let load = Load::start(spec).unwrap();
    let mut heads = Vec::new();
    for nth in 0..8 {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let cookies = format!("set-cookie: id={nth}; Path=/\r\nset-cookie: gone=1; Max-Age=0");
        let answer = format!("HTTP/1.1 200 OK\r\n{cookies}\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
        stream.write_all(answer.as_bytes()).await.unwrap();
        heads.push(String::from_utf8(head).unwrap());
    }
    drop(listener);
    let _ = load.stop();
    let fresh = heads.iter().filter(|head| !head.contains("cookie: ")).count();
    assert_eq!(fresh, 2, "{heads:?}");
    let with_one =
        heads.iter().filter(|head| head.matches("cookie: id=").count() == 1 && !head.contains("gone")).count();
    assert_eq!(with_one, 6, "{heads:?}");
    assert!(heads[0].starts_with("GET /shop?item=1 HTTP/1.1\r\n"), "{heads:?}");
}

#[test]
fn poisson_arrivals_keep_the_rate() {
    let toy = toy("v1", Failing::Never);
    let duration = Some(Duration::from_millis(400));
    let spec = LoadSpec { arrivals: Arrivals::Poisson, duration, ..LoadSpec::new(url(toy.address()), 1_000.0) };
    let mut load = Load::start(spec).unwrap();
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(load.finished());
    let due = load.stop().due;
    // Six standard deviations of a Poisson count of 400.
    assert!((280..=520).contains(&due), "{due}");
}

#[test]
fn a_load_that_makes_no_sense_is_refused() {
    let url: Uri = "http://127.0.0.1:1/".parse().unwrap();
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
        assert!(matches!(Load::start(LoadSpec::new(url.clone(), rate)), Err(LoadError::Rate(_))), "{rate}");
    }
    for connections in [0, CONNECTIONS_MAX + 1] {
        let spec = LoadSpec { connections, ..LoadSpec::new(url.clone(), 1.0) };
        assert!(matches!(Load::start(spec), Err(LoadError::Connections(_))));
    }
    for bad in ["/path", "https://127.0.0.1/"] {
        assert!(matches!(Load::start(LoadSpec::new(bad.parse().unwrap(), 1.0)), Err(LoadError::Url(_))));
    }
}

#[test]
fn stopping_ends_a_load_that_would_go_on_for_ever() {
    let toy = toy("v1", Failing::Never);
    let load = Load::start(LoadSpec::new(url(toy.address()), 0.001)).unwrap();
    while load.stats().summary().answered == 0 {
        thread::yield_now();
    }
    assert_eq!(load.stop().answered, 1);
}
