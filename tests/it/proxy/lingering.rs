//! The end of a connection that the proxy ends: what it had sent arrives, whatever the client sends meanwhile.

use std::time::Duration;

use serin::{measure::slot::Ending, publish::ListenerSettings};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
};

use super::rig::{Rig, answering, listener, read_head, scripted, service, soon};

/// Of the answer's body: more than the client's socket holds.
const SIZE: usize = 96 * 1024;
/// What the client sends behind its last request: more than the proxy takes in at once.
const MORE: usize = 100 * 1024;

async fn arrives_whole(fast_path: bool) {
    let upstream = scripted(|_, mut stream| async move {
        read_head(&mut stream).await;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n");
        stream.write_all(&[head.into_bytes(), vec![b'x'; SIZE]].concat()).await.unwrap();
    })
    .await;
    let rig = Rig::with_settings(service(upstream, upstream), ListenerSettings { fast_path, ..listener() });
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 * 1024).unwrap();
    let mut client = socket.connect(rig.address()).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nhost: t.example\r\nconnection: close\r\n\r\n";
    client.write_all(&[request.as_slice(), &vec![b'G'; MORE]].concat()).await.unwrap();
    rig.ended("v1", &[(Ending::Answered, 1)]).await;
    // One more, whose answer shows that the connection's worker, whichever it is, has had its turn.
    for _ in 0..4 {
        rig.get("").await;
    }
    let mut got = Vec::new();
    soon(client.read_to_end(&mut got)).await.expect("the end, and no reset");
    assert!(got.ends_with(&vec![b'x'; SIZE]), "only {} bytes of the answer", got.len());
}

#[tokio::test]
async fn an_answer_arrives_whole_though_the_client_goes_on_sending() {
    for fast_path in [true, false] {
        arrives_whole(fast_path).await;
    }
}

async fn is_let_go(fast_path: bool) {
    let upstream = answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let rig = Rig::with_settings(service(upstream, upstream), ListenerSettings { fast_path, ..listener() });
    let mut client = rig.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\nhost: t.example\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut got = Vec::new();
    soon(client.read_to_end(&mut got)).await.unwrap();
    // It keeps its side open, and sends now and then.
    let mut turns = tokio::time::interval(Duration::from_millis(200));
    while client.write_all(b"x").await.is_ok() {
        turns.tick().await;
    }
}

#[tokio::test]
async fn a_client_that_never_ends_is_not_waited_for_for_long() {
    soon(async { tokio::join!(is_let_go(true), is_let_go(false)) }).await;
}
