//! Whose fault it was: what the client is told, and who is charged.

use serin::{
    engine::endpoint::Endpoint,
    measure::{RefusedReason, slot::Ending},
};
use tokio::io::AsyncWriteExt;

use super::rig::{
    Rig, answering, eventually, nobody, read_head, read_until, request, rest, scripted, service, soon, status_of, text,
    values,
};

#[tokio::test]
async fn nobody_listening_is_a_502_charged_to_the_version() {
    let rig = Rig::to(nobody());
    let answer = rig.get("").await;
    assert_eq!(status_of(&answer), 502);
    assert_eq!(values(&answer, "serin-error"), ["connect_failed"]);
    rig.ended("v1", &[(Ending::ConnectFailed, 1)]).await;
}

#[tokio::test]
async fn names_are_resolved_and_all_their_addresses_tried() {
    // localhost has ::1 as well on many machines, where this upstream does not listen.
    let upstream = answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let mut by_name = service(upstream, upstream);
    by_name.versions[0].endpoints[0] = Endpoint::tcp("localhost", upstream.port());
    assert!(Rig::start(by_name.clone()).get("").await.ends_with("ok"));
    by_name.versions[0].endpoints[0] = Endpoint::tcp("no-such-name.invalid", 80);
    let rig = Rig::start(by_name);
    assert_eq!(status_of(&rig.get("").await), 502);
    rig.ended("v1", &[(Ending::ConnectFailed, 1)]).await;
}

#[tokio::test]
async fn a_connection_without_an_answer_is_a_502() {
    let upstream = scripted(|_, mut stream| async move {
        read_head(&mut stream).await;
    })
    .await;
    let rig = Rig::to(upstream);
    let answer = rig.get("").await;
    assert_eq!((status_of(&answer), values(&answer, "serin-error")), (502, vec!["reset"]));
    rig.ended("v1", &[(Ending::Reset, 1)]).await;
}

#[tokio::test]
async fn what_is_not_http_is_a_502() {
    for nonsense in [
        "HTTX/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5x\r\n\r\nhello",
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: foo\r\n\r\n",
    ] {
        let rig = Rig::to(answering(nonsense).await);
        let answer = rig.get("").await;
        assert_eq!((status_of(&answer), values(&answer, "serin-error")), (502, vec!["malformed"]), "{nonsense}");
        rig.ended("v1", &[(Ending::Malformed, 1)]).await;
    }
}

#[tokio::test]
async fn a_5xx_is_passed_on_and_charged() {
    let rig = Rig::to(answering("HTTP/1.1 500 Oops\r\ncontent-length: 2\r\n\r\nno").await);
    let answer = rig.get("").await;
    assert!(status_of(&answer) == 500 && answer.ends_with("\r\n\r\nno"), "{answer}");
    assert!(values(&answer, "serin-error").is_empty(), "the version said so, not the proxy");
    rig.ended("v1", &[(Ending::ErrorStatus, 1)]).await;
}

#[tokio::test]
async fn a_cut_body_is_not_passed_on_as_whole() {
    for cut in [
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n",
    ] {
        let rig = Rig::to(answering(cut).await);
        let answer = rig.get("").await;
        assert_eq!(status_of(&answer), 200);
        assert!(!answer.ends_with("0\r\n\r\n"), "{answer}");
        rig.ended("v1", &[(Ending::Truncated, 1)]).await;

        let response = soon(rig.h2().await.send_request(request("http://t.example/"))).await.unwrap();
        let collected = soon(http_body_util::BodyExt::collect(response.into_body())).await;
        assert!(collected.is_err(), "over HTTP/2 the stream is reset");
    }
}

/// A body that the client breaks, in one way or another, after a head that is fine.
const BROKEN: [&str; 3] = ["5\r\nhello\r\nzz\r\n", "5\r\nhelloXX", "-1\r\n"];

#[tokio::test]
async fn a_body_that_the_client_broke_is_never_charged_to_the_version() {
    let upstream = scripted(|_, mut stream| async move {
        read_head(&mut stream).await;
        rest(&mut stream).await;
    })
    .await;
    let rig = Rig::to(upstream);
    for body in BROKEN {
        let head = "POST / HTTP/1.1\r\nhost: t.example\r\ntransfer-encoding: chunked\r\n\r\n";
        let answer = rig.exchange(&format!("{head}{body}")).await;
        assert_eq!((status_of(&answer), values(&answer, "serin-error")), (400, vec!["broken_body"]), "{body:?}");
    }
    rig.ended("v1", &[(Ending::ClientGone, 3)]).await;
    rig.refused(RefusedReason::BrokenBody, 3).await;
}

#[tokio::test]
async fn a_body_that_the_client_cut_short_is_never_charged_to_the_version() {
    let upstream = scripted(|_, mut stream| async move {
        read_head(&mut stream).await;
        rest(&mut stream).await;
    })
    .await;
    let rig = Rig::to(upstream);
    let mut client = rig.connect().await;
    client.write_all(b"POST / HTTP/1.1\r\nhost: t.example\r\ncontent-length: 10\r\n\r\nhello").await.unwrap();
    client.shutdown().await.unwrap();
    rest(&mut client).await;
    rig.ended("v1", &[(Ending::ClientGone, 1)]).await;
}

#[tokio::test]
async fn a_client_that_leaves_is_no_evidence_before_the_head_and_an_answer_after_it() {
    let upstream = scripted(|nth, mut stream| async move {
        read_head(&mut stream).await;
        if nth == 1 {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello").await.unwrap();
        }
        assert_eq!(rest(&mut stream).await, "", "the upstream's connection ends with the client's");
    })
    .await;
    let rig = Rig::to(upstream);
    let mut client = rig.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\nhost: t.example\r\n\r\n").await.unwrap();
    eventually("routed", || rig.hub.slots().iter().any(|slot| slot.started_total() == 1)).await;
    drop(client);
    rig.ended("v1", &[(Ending::ClientGone, 1)]).await;

    let mut client = rig.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\nhost: t.example\r\n\r\n").await.unwrap();
    read_until(&mut client, "hello").await;
    drop(client);
    rig.ended("v1", &[(Ending::ClientGone, 1), (Ending::Answered, 1)]).await;
}

/// Answers once on each connection and closes it when the next request has come.
async fn closing_late() -> std::net::SocketAddr {
    scripted(|_, mut stream| async move {
        let head = read_head(&mut stream).await;
        if !values(&head, "content-length").is_empty() {
            read_until(&mut stream, "body").await;
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        read_head(&mut stream).await;
    })
    .await
}

#[tokio::test]
async fn a_get_on_a_stale_connection_is_sent_again_and_nobody_notices() {
    let rig = Rig::to(closing_late().await);
    for _ in 0..6 {
        let answer = rig.get("").await;
        assert!(answer.ends_with("ok"), "{answer}");
    }
    rig.ended("v1", &[(Ending::Answered, 6)]).await;
}

#[tokio::test]
async fn a_post_whose_body_was_sent_is_never_repeated() {
    let rig = Rig::to(closing_late().await);
    let mut client = rig.connect().await;
    let post = b"POST / HTTP/1.1\r\nhost: t.example\r\ncontent-length: 4\r\n\r\nbody";
    client.write_all(post).await.unwrap();
    read_until(&mut client, "ok").await;
    client.write_all(post).await.unwrap();
    let head = read_head(&mut client).await;
    assert_eq!((status_of(&head), values(&head, "serin-error")), (502, vec!["reset"]));
    rig.ended("v1", &[(Ending::Answered, 1), (Ending::Reset, 1)]).await;
}

#[tokio::test]
async fn without_a_service_it_is_the_proxys_own_503() {
    let nowhere = nobody();
    let mut rig = Rig::start(service(nowhere, nowhere));
    rig.publish_nothing();
    let answer = rig.get("").await;
    assert_eq!((status_of(&answer), values(&answer, "serin-error")), (503, vec!["no_service"]));
    rig.refused(RefusedReason::NoService, 1).await;
}

#[tokio::test]
async fn what_the_proxy_says_itself_is_left_out_of_an_answer_to_head() {
    let rig = Rig::to(nobody());
    let mut head = request("http://t.example/");
    *head.method_mut() = http::Method::HEAD;
    let response = soon(rig.h2().await.send_request(head)).await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-length"]),
        (502, &http::HeaderValue::from_static("33"))
    );
    assert_eq!(text(response).await, "", "hyper's client takes content for a fault");
    let answer = rig.exchange("HEAD / HTTP/1.1\r\nhost: t.example\r\nconnection: close\r\n\r\n").await;
    assert_eq!((status_of(&answer), values(&answer, "content-length")), (502, vec!["33"]));
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
}
