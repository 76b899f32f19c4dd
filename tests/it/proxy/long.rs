//! What lives long: event streams pass as they happen, WebSockets over HTTP/2, and the end of both at a version that has
//! lost its part.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use bytes::Bytes;
use h2::{client::SendRequest, ext::Protocol};
use http::{Method, Request, StatusCode};
use serin::{
    engine::{endpoint::UpstreamHttp, names::Role, table::ServiceTable},
    measure::{RefusedReason, slot::Ending},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::broadcast,
};

use super::rig::{
    Rig, abort, eventually, read_head, read_until, request, scripted, service, soon, status_of, values, weigh,
};

const SOON: Duration = Duration::from_millis(300);

/// An upstream of events: each of `happens` becomes one on every stream.
async fn events() -> (SocketAddr, broadcast::Sender<u32>) {
    let (happens, _) = broadcast::channel(64);
    let told = happens.clone();
    let address = scripted(move |_, mut stream| {
        let mut happens = told.subscribe();
        async move {
            read_head(&mut stream).await;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
            while let Ok(nth) = happens.recv().await {
                let event = format!("id: {nth}\ndata: happened\n\n");
                let chunk = format!("{:x}\r\n{event}\r\n", event.len());
                if stream.write_all(chunk.as_bytes()).await.is_err() {
                    return;
                }
            }
        }
    })
    .await;
    (address, happens)
}

/// A client that asks again where a stream ends, with the last event's id, as browsers do.
struct EventSource {
    stream: TcpStream,
    last: Option<u32>,
}

impl EventSource {
    async fn open(rig: &Rig, fields: &str) -> Self {
        let mut stream = rig.connect().await;
        let asked = format!("GET /events HTTP/1.1\r\nhost: a\r\naccept: text/event-stream\r\n{fields}\r\n");
        stream.write_all(asked.as_bytes()).await.unwrap();
        let head = read_head(&mut stream).await;
        assert_eq!((status_of(&head), values(&head, "content-type")), (200, vec!["text/event-stream"]));
        assert_eq!(values(&head, "transfer-encoding"), ["chunked"]);
        Self { stream, last: None }
    }

    /// The next event's id; none at the stream's orderly end.
    async fn next(&mut self) -> Option<u32> {
        let size = read_until(&mut self.stream, "\r\n").await;
        let chunk = read_until(&mut self.stream, "\r\n").await;
        if size == "0\r\n" {
            assert_eq!(chunk, "\r\n");
            return None;
        }
        let id = chunk.split('\n').find_map(|line| line.strip_prefix("id: ")).unwrap().parse().unwrap();
        self.last = Some(id);
        Some(id)
    }
}

/// Once over the fast path, once over the ordinary one.
const PATHS: [&str; 2] = ["", "te: trailers\r\nconnection: te\r\n"];

#[tokio::test]
async fn each_event_is_there_before_the_next_one_happens_and_the_stream_is_no_slow_request() {
    let (upstream, happens) = events().await;
    for fields in PATHS {
        let rig = Rig::to(upstream);
        let start = Instant::now();
        let mut source = EventSource::open(&rig, fields).await;
        for nth in 0..20 {
            happens.send(nth).unwrap();
            assert_eq!(soon(source.next()).await, Some(nth));
        }
        eventually("a stream that has lived for a while", || start.elapsed() > SOON).await;
        drop(source);
        rig.ended("v1", &[(Ending::Answered, 1)]).await;
        let slow = Duration::from_micros(rig.hub.slots().iter().map(|slot| slot.latency_us_total()).sum());
        assert!(slow + SOON / 2 < start.elapsed(), "a life of {:?} was measured as {slow:?}", start.elapsed());
    }
}

fn to_canary(stable: SocketAddr, canary: SocketAddr) -> ServiceTable {
    let mut service = service(stable, canary);
    weigh(&mut service, 1_000_000);
    service.drain_timeout = SOON;
    service
}

#[tokio::test]
async fn an_event_stream_of_an_aborted_canary_goes_on_for_the_drain_timeout_and_ends_in_order() {
    for fields in PATHS {
        let ((stable, _), (canary, happens)) = (events().await, events().await);
        let mut rig = Rig::start(to_canary(stable, canary));
        let mut source = EventSource::open(&rig, fields).await;
        happens.send(1).unwrap();
        assert_eq!(soon(source.next()).await, Some(1));
        rig.publish(abort);
        let start = Instant::now();
        happens.send(2).unwrap();
        assert_eq!(soon(source.next()).await, Some(2), "it goes on at first");
        assert_eq!(soon(source.next()).await, None);
        assert!(start.elapsed() >= SOON, "after {:?}", start.elapsed());
        rig.ended("v2", &[(Ending::Answered, 1)]).await;
        // It asks again over the same connection, and gets stable.
        source.stream.write_all(b"GET /events HTTP/1.1\r\nhost: a\r\nlast-event-id: 2\r\n\r\n").await.unwrap();
        assert_eq!(status_of(&read_head(&mut source.stream).await), 200);
        drop(source);
        rig.ended("v1", &[(Ending::Answered, 1)]).await;
    }
}

#[tokio::test]
async fn a_promoted_versions_streams_go_on_and_those_of_the_former_stable_end() {
    let ((stable, of_stable), (canary, of_canary)) = (events().await, events().await);
    let mut service = to_canary(stable, canary);
    weigh(&mut service, 0);
    let mut rig = Rig::start(service);
    let mut old = EventSource::open(&rig, "").await;
    rig.publish(|service| weigh(service, 1_000_000));
    let mut new = EventSource::open(&rig, "").await;
    rig.publish(|service| {
        service.versions[0].role = Role::Other;
        service.versions[1].role = Role::Stable;
        (service.stable, service.canary) = (1, None);
    });
    of_stable.send(1).unwrap();
    assert_eq!(soon(old.next()).await, Some(1));
    assert_eq!(soon(old.next()).await, None, "the former stable may be stopped");
    of_canary.send(1).unwrap();
    assert_eq!(soon(new.next()).await, Some(1));
}

/// An upstream of WebSockets that says `hello` and then echoes.
async fn sockets() -> SocketAddr {
    scripted(|_, mut stream| async move {
        let head = read_head(&mut stream).await;
        if values(&head, "upgrade") != ["websocket"] {
            let page = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\npage";
            return stream.write_all(page).await.unwrap();
        }
        assert!(head.starts_with("GET /chat?x=1 HTTP/1.1\r\n"), "{head}");
        assert_eq!(
            (values(&head, "connection"), values(&head, "sec-websocket-version")),
            (vec!["upgrade"], vec!["13"])
        );
        let key = values(&head, "sec-websocket-key")[0];
        let accept = if values(&head, "x-wrong").is_empty() { accept(key) } else { "wrong".to_owned() };
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-accept: {accept}\r\nsec-websocket-protocol: chat\r\n\r\nhello"
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
        let (mut read, mut write) = stream.split();
        drop(tokio::io::copy(&mut read, &mut write).await);
    })
    .await
}

fn accept(key: &str) -> String {
    use base64::Engine as _;
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(digest)
}

/// A connection of HTTP/2 on which the proxy has said that it knows extended CONNECT.
async fn extended(rig: &Rig) -> SendRequest<Bytes> {
    let (client, connection) = h2::client::handshake(rig.connect().await).await.unwrap();
    tokio::spawn(connection);
    let mut client = soon(client.ready()).await.unwrap();
    while !client.is_extended_connect_protocol_enabled() {
        // The settings come with the first answer at the latest.
        let (answer, _) = client.send_request(request("http://t.example/page").map(drop), true).unwrap();
        soon(answer).await.unwrap();
        client = soon(client.ready()).await.unwrap();
    }
    client
}

fn connect(protocol: &'static str, fields: &[(&str, &str)]) -> Request<()> {
    let mut connect = Request::builder().method(Method::CONNECT).uri("http://t.example/chat?x=1");
    for (name, value) in fields {
        connect = connect.header(*name, *value);
    }
    connect.header("sec-websocket-version", "13").extension(Protocol::from_static(protocol)).body(()).unwrap()
}

/// Reads so many bytes of a stream.
async fn take(body: &mut h2::RecvStream, length: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < length {
        let data = soon(body.data()).await.unwrap().unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        all.extend_from_slice(&data);
    }
    all
}

#[tokio::test]
async fn a_websocket_over_http2_reaches_an_http1_upstream_beside_ordinary_requests() {
    let rig = Rig::to(sockets().await);
    let mut client = extended(&rig).await;
    let (answer, mut sending) = client.send_request(connect("websocket", &[]), false).unwrap();
    let answer = soon(answer).await.unwrap();
    assert_eq!(
        (answer.status(), &answer.headers()["sec-websocket-protocol"]),
        (StatusCode::OK, &"chat".parse().unwrap())
    );
    for name in ["connection", "upgrade", "sec-websocket-accept"] {
        assert!(!answer.headers().contains_key(name), "{name}");
    }
    let mut body = answer.into_body();
    assert_eq!(take(&mut body, 5).await, b"hello");
    for _ in 0..3 {
        sending.send_data(Bytes::from_static(b"\x81\x05bytes"), false).unwrap();
        assert_eq!(take(&mut body, 7).await, b"\x81\x05bytes");
        let (page, _) = client.send_request(request("http://t.example/page").map(drop), true).unwrap();
        assert_eq!(take(soon(page).await.unwrap().body_mut(), 4).await, b"page");
    }
    sending.send_data(Bytes::new(), true).unwrap();
    assert!(
        soon(body.data()).await.is_none_or(|last| last.is_ok_and(|last| last.is_empty())),
        "the end of one side is the end of the other"
    );
    eventually("both recorded", || rig.endings("v1", Ending::Answered) >= 4).await;
}

#[tokio::test]
async fn what_opens_no_websocket_is_never_told_as_success() {
    let rig = Rig::to(sockets().await);
    let mut client = extended(&rig).await;
    for (asked, status) in [(connect("websocket", &[("x-wrong", "1")]), 502), (connect("unheard-of", &[]), 501)] {
        let (answer, _sending) = client.send_request(asked, false).unwrap();
        assert_eq!(soon(answer).await.unwrap().status(), status);
    }
    let page = super::rig::answering("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\npage").await;
    let no = super::rig::answering("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno").await;
    for (upstream, status) in [(page, 501), (no, 403)] {
        let rig = Rig::to(upstream);
        let (client, connection) = h2::client::handshake(rig.connect().await).await.unwrap();
        tokio::spawn(connection);
        let mut client = soon(client.ready()).await.unwrap();
        eventually("settings", || client.is_extended_connect_protocol_enabled()).await;
        let (answer, _sending) = client.send_request(connect("websocket", &[]), false).unwrap();
        assert_eq!(soon(answer).await.unwrap().status(), status);
        // Whatever a client asks for, an answer is no failure of the version.
        rig.ended("v1", &[(Ending::Answered, 1)]).await;
    }
}

#[tokio::test]
async fn websockets_of_an_aborted_canary_end_after_the_drain_timeout() {
    let (stable, canary) = (sockets().await, sockets().await);
    let mut rig = Rig::start(to_canary(stable, canary));
    let mut h1 = rig.connect().await;
    let upgrade = "GET /chat?x=1 HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                   sec-websocket-version: 13\r\nsec-websocket-key: x\r\n\r\n";
    h1.write_all(upgrade.as_bytes()).await.unwrap();
    read_until(&mut h1, "hello").await;
    let mut h2 = extended(&rig).await;
    let (answer, mut sending) = h2.send_request(connect("websocket", &[]), false).unwrap();
    let mut body = soon(answer).await.unwrap().into_body();
    assert_eq!(take(&mut body, 5).await, b"hello");
    rig.publish(abort);
    let start = Instant::now();
    sending.send_data(Bytes::from_static(b"still"), false).unwrap();
    assert_eq!(take(&mut body, 5).await, b"still");
    h1.write_all(b"still").await.unwrap();
    read_until(&mut h1, "still").await;
    assert_eq!(soon(h1.read(&mut [0])).await.unwrap_or(0), 0);
    assert!(start.elapsed() >= SOON, "after {:?}", start.elapsed());
    while let Some(Ok(data)) = soon(body.data()).await {
        assert!(data.is_empty());
    }
    // The connection goes on, with stable.
    let (page, _) =
        soon(h2.ready()).await.unwrap().send_request(request("http://t.example/page").map(drop), true).unwrap();
    assert_eq!(soon(page).await.unwrap().status(), StatusCode::OK);
    assert!(rig.endings("v2", Ending::Answered) >= 2);
}

#[tokio::test]
async fn a_steps_change_of_weight_leaves_sockets_alone() {
    let upstream = sockets().await;
    let mut rig = Rig::start(to_canary(upstream, upstream));
    let mut h1 = rig.connect().await;
    let upgrade = "GET /chat?x=1 HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                   sec-websocket-version: 13\r\nsec-websocket-key: x\r\n\r\n";
    h1.write_all(upgrade.as_bytes()).await.unwrap();
    read_until(&mut h1, "hello").await;
    for step in 0..10 {
        rig.publish(|service| weigh(service, step * 10_000));
        let answer = rig.get("").await;
        assert!(answer.ends_with("page"), "{answer}");
        h1.write_all(b"still").await.unwrap();
        read_until(&mut h1, "still").await;
    }
}

#[tokio::test]
async fn a_websocket_that_lives_makes_no_request_slow() {
    const HOLD: Duration = Duration::from_secs(1);
    let rig = Rig::to(sockets().await);
    let start = Instant::now();
    let mut held = rig.connect().await;
    let upgrade = "GET /chat?x=1 HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                   sec-websocket-version: 13\r\nsec-websocket-key: x\r\n\r\n";
    held.write_all(upgrade.as_bytes()).await.unwrap();
    read_until(&mut held, "hello").await;
    for _ in 0..100 {
        assert!(rig.get("").await.ends_with("page"));
    }
    eventually("a socket that has lived for a while", || start.elapsed() > HOLD).await;
    drop(held);
    rig.ended("v1", &[(Ending::Answered, 101)]).await;
    let slow = serin::engine::stats::latency::bucket_of(HOLD)..serin::engine::stats::latency::BUCKETS;
    let slots = rig.hub.slots();
    let slow: u64 = slow.map(|bucket| slots.iter().map(|slot| slot.latency_total(bucket)).sum::<u64>()).sum();
    assert_eq!(slow, 0, "the socket's life was taken for a latency");
}

#[tokio::test]
async fn a_websocket_that_a_version_cannot_have_over_http2_is_refused_and_is_no_evidence() {
    let named = super::rig::Named::start("v1").await;
    let mut over_http2 = service(named.address, named.address);
    over_http2.versions[0].http = UpstreamHttp::H2;
    let rig = Rig::start(over_http2);
    let upgrade = "GET /chat HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: WebSocket\r\n\
                   sec-websocket-version: 13\r\nsec-websocket-key: x\r\n\r\n";
    let mut h1 = rig.connect().await;
    h1.write_all(upgrade.as_bytes()).await.unwrap();
    let answer = read_until(&mut h1, "passes\n").await;
    assert_eq!((status_of(&answer), values(&answer, "serin-error")), (501, vec!["unsupported_method"]));
    h1.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    assert_eq!(status_of(&read_until(&mut h1, "v1").await), 200, "the connection goes on");
    let (client, connection) = h2::client::handshake(rig.connect().await).await.unwrap();
    tokio::spawn(connection);
    let mut client = soon(client.ready()).await.unwrap();
    eventually("settings", || client.is_extended_connect_protocol_enabled()).await;
    let (answer, _sending) = client.send_request(connect("websocket", &[]), false).unwrap();
    assert_eq!(soon(answer).await.unwrap().status(), 501);
    assert_eq!(named.requests(), 1, "neither was sent as something else");
    // Another protocol may be left out: what is asked for stays an ordinary request.
    let other = rig.get("connection: upgrade\r\nupgrade: other/1\r\n").await;
    assert!(status_of(&other) == 200 && other.ends_with("v1"), "{other}");
    rig.ended("v1", &[(Ending::Answered, 2), (Ending::ClientGone, 2)]).await;
    rig.refused(RefusedReason::UnsupportedMethod, 2).await;
}
