//! Upgrades: a tunnel after the upstream's 101, and only then.

use serin::measure::slot::Ending;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::rig::{Rig, read_head, read_until, scripted, status_of, values};

const UPGRADE: &[u8] = b"GET /chat HTTP/1.1\r\nhost: t.example\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
sec-websocket-key: x\r\n\r\n";

#[tokio::test]
async fn after_a_101_bytes_pass_both_ways_and_the_head_was_the_answer() {
    let upstream = scripted(|_, mut stream| async move {
        let head = read_head(&mut stream).await;
        assert_eq!((values(&head, "upgrade"), values(&head, "connection")), (vec!["websocket"], vec!["upgrade"]));
        let accepted = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                        sec-websocket-accept: y\r\n\r\nhello";
        stream.write_all(accepted.as_bytes()).await.unwrap();
        let (mut read, mut write) = stream.split();
        drop(tokio::io::copy(&mut read, &mut write).await);
    })
    .await;
    let rig = Rig::to(upstream);
    let mut client = rig.connect().await;
    client.write_all(UPGRADE).await.unwrap();
    let head = read_head(&mut client).await;
    assert_eq!(status_of(&head), 101);
    assert_eq!((values(&head, "upgrade"), values(&head, "sec-websocket-accept")), (vec!["websocket"], vec!["y"]));
    read_until(&mut client, "hello").await;
    rig.ended("v1", &[(Ending::Answered, 1)]).await;
    for _ in 0..3 {
        client.write_all(b"\x81\x05bytes").await.unwrap();
        let mut echoed = [0; 7];
        client.read_exact(&mut echoed).await.unwrap();
        assert_eq!(&echoed, b"\x81\x05bytes");
    }
    client.shutdown().await.unwrap();
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "the end of one side is the end of the other");
    rig.ended("v1", &[(Ending::Answered, 1)]).await;
}

#[tokio::test]
async fn a_refused_upgrade_is_an_ordinary_answer_and_the_connection_goes_on() {
    let upstream = scripted(|_, mut stream| async move {
        loop {
            let head = read_head(&mut stream).await;
            assert!(!head.contains("GET /next") || values(&head, "via").len() == 1, "never as raw bytes");
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        }
    })
    .await;
    let rig = Rig::to(upstream);
    let mut client = rig.connect().await;
    client.write_all(UPGRADE).await.unwrap();
    client.write_all(b"GET /next HTTP/1.1\r\nhost: t.example\r\n\r\n").await.unwrap();
    for _ in 0..2 {
        assert_eq!(status_of(&read_until(&mut client, "\r\n\r\nok").await), 200);
    }
    rig.ended("v1", &[(Ending::Answered, 2)]).await;
}
