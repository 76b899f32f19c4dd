//! Starting and stopping: clear errors, a limit on connections, and an end that cuts nobody short.

use std::time::Duration;

use serin::{
    measure::{RefusedReason, slot::Ending},
    proxy::{Limits, ListenerSpec, Listening},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
};

use super::rig::{
    Named, PATIENCE, Rig, eventually, limits, nobody, read_head, read_until, request, rest, scripted, service, soon,
    status_of, text, values,
};

#[tokio::test]
async fn a_taken_port_is_an_error_that_names_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap();
    let error = Listening::bind(ListenerSpec { name: "web".to_owned(), addr }).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}

#[tokio::test]
async fn over_the_limit_connections_are_refused_and_room_is_given_back() {
    let named = Named::start("v1").await;
    let rig = Rig::with_limits(service(named.address, named.address), Limits { connections: 2, ..limits() });
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut client = rig.connect().await;
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        read_until(&mut client, "v1").await;
        open.push(client);
    }
    let mut third = rig.connect().await;
    let answer = rest(&mut third).await;
    assert_eq!((status_of(&answer), values(&answer, "serin-error")), (503, vec!["connection_limit"]));
    rig.refused(RefusedReason::ConnectionLimit, 1).await;
    drop(open);
    let mut answered = false;
    while !answered {
        // Refused until the proxy has seen the others go.
        let mut next = rig.connect().await;
        drop(next.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await);
        answered = rest(&mut next).await.ends_with("v1");
    }
}

#[tokio::test]
async fn shutdown_lets_what_is_under_way_finish_and_ends_the_rest() {
    let (go, may_answer) = oneshot::channel::<()>();
    let may_answer = std::sync::Mutex::new(Some(may_answer));
    let upstream = scripted(move |_, mut stream| {
        let may_answer = may_answer.lock().unwrap().take();
        async move {
            read_head(&mut stream).await;
            drop(may_answer.unwrap().await);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        }
    })
    .await;
    let rig = Rig::to(upstream);
    let (address, hub) = (rig.address(), std::sync::Arc::clone(&rig.hub));
    let mut silent = rig.connect().await;
    let mut busy = rig.connect().await;
    busy.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    eventually("routed", || hub.slots().iter().any(|slot| slot.started_total() == 1)).await;

    let stopping = tokio::spawn(rig.proxy.shutdown(PATIENCE));
    assert_eq!(rest(&mut silent).await, "", "whoever has sent nothing is let go at once");
    assert!(TcpStream::connect(address).await.is_err(), "nobody new comes in");
    go.send(()).unwrap();
    let answer = rest(&mut busy).await;
    assert!(answer.ends_with("ok"), "{answer}");
    assert_eq!(values(&answer, "connection"), ["close"]);
    assert!(soon(stopping).await.unwrap(), "none was cut");
    let answered = |slot: &std::sync::Arc<serin::measure::slot::Slot>| slot.ending_total(Ending::Answered as usize);
    assert_eq!(hub.slots().iter().map(answered).sum::<u64>(), 1);
}

#[tokio::test]
async fn http2_clients_are_told_to_go() {
    let named = Named::start("v1").await;
    let rig = Rig::to(named.address);
    let mut client = rig.h2().await;
    assert_eq!(text(soon(client.send_request(request("http://t.example/"))).await.unwrap()).await, "v1");
    assert!(soon(rig.proxy.shutdown(PATIENCE)).await);
    eventually("GOAWAY", || client.is_closed()).await;
}

#[tokio::test]
async fn when_the_grace_is_over_the_rest_is_cut() {
    let upstream = scripted(|_, mut stream| async move {
        rest(&mut stream).await;
    })
    .await;
    let rig = Rig::to(upstream);
    let mut busy = rig.connect().await;
    busy.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    eventually("routed", || rig.hub.slots().iter().any(|slot| slot.started_total() == 1)).await;
    assert!(!soon(rig.proxy.shutdown(Duration::from_millis(50))).await);
    assert_eq!(busy.read(&mut [0; 16]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn a_proxy_that_is_dropped_is_gone() {
    let nowhere = nobody();
    let rig = Rig::to(nowhere);
    let address = rig.address();
    drop(rig);
    let mut gone = false;
    while !gone {
        gone = TcpStream::connect(address).await.is_err();
    }
}
