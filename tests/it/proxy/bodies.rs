//! Bodies stream: pieces pass as they come, and whoever is slow slows the other side instead of filling memory.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use serin::measure::slot::Ending;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::rig::{Rig, read_head, read_until, scripted, soon};

const PIECE: usize = 16 * 1024;
const SIZE: usize = 128 * 1024 * 1024;
/// What the kernel may hold of it in the proxy's two sockets (Linux lets a receiving one grow to 32 MiB).
const UNDERWAY_MAX: usize = 48 * 1024 * 1024;

#[tokio::test]
async fn each_piece_passes_as_it_comes() {
    let upstream = scripted(|_, mut stream| async move {
        read_head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
        for nth in 0..3 {
            read_until(&mut stream, &format!("1\r\n{nth}\r\n")).await;
            stream.write_all(format!("1\r\n{nth}\r\n").as_bytes()).await.unwrap();
        }
        read_until(&mut stream, "0\r\n\r\n").await;
        stream.write_all(b"0\r\n\r\n").await.unwrap();
    })
    .await;
    let rig = Rig::to(upstream);
    let mut client = rig.connect().await;
    client.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
    read_head(&mut client).await;
    for nth in 0..3 {
        let piece = format!("1\r\n{nth}\r\n");
        client.write_all(piece.as_bytes()).await.unwrap();
        assert_eq!(read_until(&mut client, &piece).await, piece, "the answer is there before the request has ended");
    }
    client.write_all(b"0\r\n\r\n").await.unwrap();
    read_until(&mut client, "0\r\n\r\n").await;
    rig.ended("v1", &[(Ending::Answered, 1)]).await;
}

#[tokio::test]
async fn a_slow_reader_slows_the_upstream() {
    let written = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&written);
    let upstream = scripted(move |_, mut stream| {
        let counted = Arc::clone(&counted);
        async move {
            narrow(&stream);
            read_head(&mut stream).await;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            for _ in 0..SIZE / PIECE {
                stream.write_all(&[b'x'; PIECE]).await.unwrap();
                counted.fetch_add(PIECE, SeqCst);
            }
        }
    })
    .await;
    let rig = Rig::to(upstream);
    let mut client = rig.connect().await;
    narrow(&client);
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    read_head(&mut client).await;
    take_slowly(&mut client, &written).await;
    rig.ended("v1", &[(Ending::Answered, 1)]).await;
}

#[tokio::test]
async fn a_slow_upstream_slows_the_client() {
    let written = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&written);
    let upstream = scripted(move |_, mut stream| {
        let counted = Arc::clone(&counted);
        async move {
            narrow(&stream);
            read_head(&mut stream).await;
            take_slowly(&mut stream, &counted).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        }
    })
    .await;
    let rig = Rig::to(upstream);
    let mut client = rig.connect().await;
    narrow(&client);
    client.write_all(format!("PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: {SIZE}\r\n\r\n").as_bytes()).await.unwrap();
    for _ in 0..SIZE / PIECE {
        client.write_all(&[b'x'; PIECE]).await.unwrap();
        written.fetch_add(PIECE, SeqCst);
    }
    read_until(&mut client, "\r\n\r\nok").await;
    rig.ended("v1", &[(Ending::Answered, 1)]).await;
}

/// Keeps the kernel from holding much on the test's own side.
fn narrow(stream: &TcpStream) {
    let socket = socket2::SockRef::from(stream);
    socket.set_recv_buffer_size(256 * 1024).unwrap();
    socket.set_send_buffer_size(256 * 1024).unwrap();
}

/// Reads the whole body, and lets the other end run ahead as far as it can before each part.
async fn take_slowly(from: &mut TcpStream, written: &AtomicUsize) {
    let mut piece = vec![0; 8 * 1024 * 1024];
    for nth in 0..SIZE / piece.len() {
        let taken = nth * piece.len();
        let mut before = usize::MAX;
        while written.load(SeqCst) != before {
            before = written.load(SeqCst);
            // why: standing still is no event; a look that is too early only makes the test easier to pass.
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let underway = written.load(SeqCst).saturating_sub(taken);
        assert!(underway < UNDERWAY_MAX, "{underway} bytes are held between the two ends");
        soon(from.read_exact(&mut piece)).await.unwrap();
    }
}
