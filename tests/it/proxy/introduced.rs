//! The PROXY protocol: who the client is comes first, and strictly.

use std::time::Duration;

use serin::{measure::RefusedReason, proxy::Limits, publish::ListenerSettings};
use tokio::io::AsyncWriteExt;

use super::rig::{Rig, full, limits, listener, rest, service, serving};

/// A proxy whose upstream answers with the client's address as it was told.
async fn rig(settings: ListenerSettings) -> Rig {
    let upstream = serving(|request| {
        let told = request.headers()["x-forwarded-for"].to_str().unwrap().to_owned();
        async move { hyper::Response::new(full(told)) }
    })
    .await;
    Rig::with_settings(service(upstream, upstream), ListenerSettings { proxy_protocol: true, ..settings })
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

async fn told(rig: &Rig, header: &[u8]) -> String {
    let mut stream = rig.connect().await;
    stream.write_all(&[header, GET].concat()).await.unwrap();
    let answer = rest(&mut stream).await;
    answer.rsplit("\r\n\r\n").next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn the_client_is_who_the_header_says() {
    let rig = rig(listener()).await;
    assert_eq!(told(&rig, b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n").await, "192.0.2.1");
    assert_eq!(told(&rig, b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n").await, "2001:db8::1");
    assert_eq!(told(&rig, b"PROXY UNKNOWN\r\n").await, "127.0.0.1");
    let v4 = [SIGNATURE, &[0x21, 0x11, 0, 12, 192, 0, 2, 7, 198, 51, 100, 1, 0, 1, 0, 2]].concat();
    assert_eq!(told(&rig, &v4).await, "192.0.2.7");
    // With an extension behind the addresses.
    let more = [SIGNATURE, &[0x21, 0x11, 0, 15, 192, 0, 2, 8, 198, 51, 100, 1, 0, 1, 0, 2, 4, 0, 0]].concat();
    assert_eq!(told(&rig, &more).await, "192.0.2.8");
    let local = [SIGNATURE, &[0x20, 0x00, 0, 0]].concat();
    assert_eq!(told(&rig, &local).await, "127.0.0.1");
}

#[tokio::test]
async fn a_header_that_comes_in_pieces_is_one() {
    let rig = rig(listener()).await;
    let mut stream = rig.connect().await;
    stream.set_nodelay(true).unwrap();
    for byte in b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n" {
        stream.write_all(&[*byte]).await.unwrap();
    }
    stream.write_all(GET).await.unwrap();
    assert!(rest(&mut stream).await.ends_with("192.0.2.1"));
}

#[tokio::test]
async fn without_a_right_header_nothing_is_served() {
    let rig = rig(listener()).await;
    let wrong: [&[u8]; 6] = [
        b"",
        b"PROXY TCP4 192.0.2.1 198.51.100.1 56324\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\n",
        &[b"PROXY TCP4 ", &b"1".repeat(200)[..]].concat(),
        &[SIGNATURE, &[0x11, 0x11, 0, 0]].concat(),
        &[SIGNATURE, &[0x21, 0x11, 0xff, 0xff]].concat(),
    ];
    for header in wrong {
        assert_eq!(told(&rig, header).await, "", "{header:?}");
    }
    rig.refused(RefusedReason::ProxyHeader, 6).await;
}

#[tokio::test]
async fn a_header_that_does_not_come_is_not_waited_for() {
    let rig = rig(ListenerSettings {
        limits: Limits { header_timeout: Duration::from_millis(100), ..limits() },
        ..listener()
    })
    .await;
    let mut stream = rig.connect().await;
    stream.write_all(b"PROXY TCP4 192.0.2.1").await.unwrap();
    assert_eq!(rest(&mut stream).await, "");
}
