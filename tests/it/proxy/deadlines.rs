//! Deadlines: each wait has one, whoever is waited for, and who was waited for is to blame.

use std::time::Duration;

use serin::{
    engine::table::ServiceTable,
    measure::{RefusedReason, slot::Ending},
    proxy::Limits,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::rig::{Rig, limits, nobody, read_head, read_until, rest, scripted, service, soon, status_of, values};

const SHORT: Duration = Duration::from_millis(300);

async fn silent() -> std::net::SocketAddr {
    scripted(|_, mut stream| async move {
        rest(&mut stream).await;
    })
    .await
}

fn impatient(upstream: std::net::SocketAddr) -> ServiceTable {
    let mut service = service(upstream, upstream);
    service.timeouts.attempt = SHORT;
    service
}

#[tokio::test]
async fn no_head_in_time_is_a_504() {
    let upstream = silent().await;
    let mut by_request = service(upstream, upstream);
    by_request.timeouts.request = SHORT;
    for service in [impatient(upstream), by_request] {
        let rig = Rig::start(service);
        let answer = rig.get("").await;
        assert_eq!((status_of(&answer), values(&answer, "serin-error")), (504, vec!["timed_out"]));
        rig.ended("v1", &[(Ending::TimedOut, 1)]).await;
    }
}

#[tokio::test]
async fn a_body_that_stands_still_is_cut_and_charged() {
    let upstream = scripted(|_, mut stream| async move {
        read_head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello").await.unwrap();
        rest(&mut stream).await;
    })
    .await;
    let mut service = service(upstream, upstream);
    service.timeouts.idle = SHORT;
    let rig = Rig::start(service);
    assert!(rig.get("").await.ends_with("\r\n\r\nhello"));
    rig.ended("v1", &[(Ending::Truncated, 1)]).await;
}

#[tokio::test]
async fn an_event_stream_that_stands_still_is_cut_and_not_charged() {
    let upstream = scripted(|_, mut stream| async move {
        read_head(&mut stream).await;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        rest(&mut stream).await;
    })
    .await;
    let mut service = service(upstream, upstream);
    service.timeouts.idle = SHORT;
    let rig = Rig::start(service);
    assert!(rig.get("").await.contains("data: 1"));
    rig.ended("v1", &[(Ending::Answered, 1)]).await;
}

#[tokio::test]
async fn an_upload_that_goes_on_is_not_cut_by_the_attempts_deadline() {
    let upstream = scripted(|_, mut stream| async move {
        read_until(&mut stream, "0\r\n\r\n").await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
    })
    .await;
    let rig = Rig::start(impatient(upstream));
    let mut client = rig.connect().await;
    client.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
    for _ in 0..10 {
        // why: the upload takes three times the deadline; that is what is tested.
        tokio::time::sleep(SHORT / 3).await;
        client.write_all(b"1\r\nx\r\n").await.unwrap();
    }
    client.write_all(b"0\r\n\r\n").await.unwrap();
    read_until(&mut client, "\r\n\r\nok").await;
    rig.ended("v1", &[(Ending::Answered, 1)]).await;
}

#[tokio::test]
async fn a_request_body_that_stands_still_is_a_408_and_the_clients_fault() {
    let rig = Rig::with_limits(impatient(silent().await), Limits { body_timeout: SHORT * 2, ..limits() });
    let mut client = rig.connect().await;
    client.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhello").await.unwrap();
    let answer = rest(&mut client).await;
    assert_eq!((status_of(&answer), values(&answer, "serin-error")), (408, vec!["body_timeout"]));
    rig.ended("v1", &[(Ending::ClientGone, 1)]).await;
    rig.refused(RefusedReason::BodyTimeout, 1).await;
}

#[tokio::test]
async fn clients_that_never_finish_a_head_are_let_go() {
    let nowhere = nobody();
    let rig = Rig::with_limits(service(nowhere, nowhere), Limits { header_timeout: SHORT, ..limits() });
    let starts: [&[u8]; 4] = [b"", b"GET / HT", b"GET / HTTP/1.1\r\nhost: a\r\n", b"PRI * HTTP/2.0\r\n"];
    for start in starts {
        let mut client = rig.connect().await;
        client.write_all(start).await.unwrap();
        assert_eq!(rest(&mut client).await, "", "{start:?}");
    }
    rig.refused(RefusedReason::HeaderTimeout, 4).await;
}

#[tokio::test]
async fn idle_connections_are_let_go_and_it_is_nobodys_fault() {
    let nowhere = nobody();
    let rig = Rig::with_limits(service(nowhere, nowhere), Limits { idle_timeout: SHORT, ..limits() });
    let mut client = rig.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    assert_eq!(status_of(&rest(&mut client).await), 502);

    let mut preface = rig.connect().await;
    preface.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    rest(&mut preface).await;
    rig.refused(RefusedReason::HeaderTimeout, 0).await;
}

#[tokio::test]
async fn the_second_head_on_a_connection_has_the_heads_deadline() {
    let nowhere = nobody();
    let rig = Rig::with_limits(service(nowhere, nowhere), Limits { header_timeout: SHORT, ..limits() });
    let mut client = rig.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    read_until(&mut client, "reached\n").await;
    client.write_all(b"GET / HT").await.unwrap();
    rest(&mut client).await;
    rig.refused(RefusedReason::HeaderTimeout, 1).await;
}

#[tokio::test]
async fn a_client_that_leaves_its_answer_lying_is_let_go_and_no_version_is_charged() {
    let upstream = scripted(|_, mut stream| async move {
        read_head(&mut stream).await;
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        while stream.write_all(&[b'x'; 16_384]).await.is_ok() {}
    })
    .await;
    let rig = Rig::with_limits(service(upstream, upstream), Limits { idle_timeout: SHORT, ..limits() });
    let mut client = rig.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    rig.ended("v1", &[(Ending::Answered, 1)]).await;
    let mut taken = Vec::new();
    drop(soon(client.read_to_end(&mut taken)).await);
    assert!(taken.len() < 1_000_000_000);
}
