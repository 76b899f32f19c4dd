//! Which endpoint of a version: several of them, names with several addresses, Unix sockets, TLS, and limits.

use std::{net::SocketAddr, sync::Arc};

use serin::{
    engine::{
        endpoint::{Endpoint, UpstreamHttp},
        failure::Retry,
        table::ServiceTable,
        upstream::{Balancing, UpstreamLimits, UpstreamPlan, UpstreamTls},
    },
    measure::slot::Ending,
    tls::{Authorities, Pair, Protocols, ServerTls},
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream, UnixListener},
};

use super::rig::{
    Named, Rig, eventually, full, nobody, read_head, request, rest, scripted, service, soon, status_of, text, values,
    weigh,
};
use crate::certificates::{Issued, Issuer};

fn at(address: SocketAddr) -> Endpoint {
    Endpoint::tcp(address.ip().to_string(), address.port())
}

/// Stable with these endpoints.
fn several(endpoints: &[SocketAddr], plan: UpstreamPlan) -> ServiceTable {
    let mut service = service(endpoints[0], endpoints[0]);
    service.versions[0].endpoints = endpoints.iter().map(|address| at(*address)).collect();
    service.versions[0].upstream = Arc::new(plan);
    service
}

#[tokio::test]
async fn each_way_to_balance_reaches_every_endpoint() {
    for balancing in [Balancing::LeastRequest, Balancing::RoundRobin, Balancing::Random, Balancing::RingHash] {
        let (one, two, three) = (Named::start("1").await, Named::start("2").await, Named::start("3").await);
        let all = [one.address, two.address, three.address];
        let rig = Rig::start(several(&all, UpstreamPlan { balancing, ..UpstreamPlan::default() }));
        for _ in 0..90 {
            assert_eq!(status_of(&rig.get("").await), 200);
        }
        for named in [&one, &two, &three] {
            // Each has 30 on average; by chance 5 or fewer once in ten million runs.
            assert!(named.requests() > 5, "{balancing:?}: {}", named.requests());
        }
    }
}

#[tokio::test]
async fn a_busy_endpoint_gets_less() {
    let hanging = scripted(|_, mut stream| async move { drop(rest(&mut stream).await) }).await;
    let free = Named::start("free").await;
    let mut table = several(&[hanging, free.address], UpstreamPlan::default());
    table.retry = Retry { retries: 0, ..Retry::default() };
    let rig = Rig::start(table);
    let mut waiting = Vec::new();
    // Enough for each worker to have one that hangs; from then on the other one is less busy.
    while waiting.len() < 20 {
        let mut client = rig.connect().await;
        client.write_all(b"GET / HTTP/1.1\r\nhost: t.example\r\nconnection: close\r\n\r\n").await.unwrap();
        waiting.push(client);
    }
    eventually("the free one to have most", || free.requests() >= 10).await;
    drop(waiting);
}

#[tokio::test]
async fn an_endpoint_that_is_down_costs_nobody_an_answer() {
    let up = Named::start("up").await;
    let rig = Rig::start(several(&[nobody(), up.address], UpstreamPlan::default()));
    for method in ["GET", "POST"] {
        for _ in 0..20 {
            let head =
                format!("{method} / HTTP/1.1\r\nhost: t.example\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            assert_eq!(status_of(&rig.exchange(&head).await), 200);
        }
    }
    // It is left out for a second after each failure, on each of two workers.
    assert!(rig.endings("v1", Ending::ConnectFailed) < 20, "{}", rig.endings("v1", Ending::ConnectFailed));
}

#[tokio::test]
async fn a_name_with_an_address_where_nobody_listens_is_no_failure() {
    // localhost has ::1 as well on many machines.
    let upstream = Named::start("v1").await;
    let mut table = service(upstream.address, upstream.address);
    table.versions[0].endpoints = vec![Endpoint::tcp("localhost", upstream.address.port())];
    let rig = Rig::start(table);
    for _ in 0..4 {
        assert!(rig.get("").await.ends_with("v1"));
    }
    rig.ended("v1", &[(Ending::Answered, 4)]).await;
}

#[tokio::test]
async fn an_upstream_that_is_back_is_used_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let stable = Named::start("stable").await;
    let mut table = service(stable.address, address);
    weigh(&mut table, 1_000_000);
    let rig = Rig::start(table);
    assert!(rig.get("").await.ends_with("stable"), "the canary is dead");
    let listener = TcpListener::bind(address).await.unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_head(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nback").await.unwrap();
        }
    });
    let end = std::time::Instant::now() + super::rig::PATIENCE;
    while !rig.get("").await.ends_with("back") {
        assert!(std::time::Instant::now() < end, "it is not tried again");
    }
}

#[tokio::test]
async fn a_unix_socket_is_an_endpoint() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.sock");
    let listener = UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let io = hyper_util::rt::TokioIo::new(stream);
            let answer = hyper::service::service_fn(|request: http::Request<hyper::body::Incoming>| async move {
                let host = request.headers()["host"].to_str().unwrap().to_owned();
                Ok::<_, hyper::Error>(http::Response::new(full(host)))
            });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(io, answer));
        }
    });
    let nowhere = nobody();
    let mut table = service(nowhere, nowhere);
    table.versions[0].endpoints = vec![Endpoint::Unix { path: path.to_str().unwrap().into() }];
    let rig = Rig::start(table);
    for _ in 0..3 {
        assert!(rig.get("").await.ends_with("t.example"));
    }
    assert!(rig.exchange("GET / HTTP/1.0\r\n\r\n").await.ends_with("localhost"));
}

#[tokio::test]
async fn over_its_limits_a_version_answers_503_at_once() {
    let hanging = scripted(|_, mut stream| async move { drop(rest(&mut stream).await) }).await;
    // Two workers share two connections and no place to wait.
    let limits = UpstreamLimits { connections: 2, pending: 0 };
    let rig = Rig::start(several(&[hanging], UpstreamPlan { limits, ..UpstreamPlan::default() }));
    let mut held: Vec<TcpStream> = Vec::new();
    while rig.endings("v1", Ending::Overloaded) == 0 {
        let before = rig.hub.slots().iter().map(|slot| slot.started_total()).sum::<u64>();
        let mut client = rig.connect().await;
        client.write_all(b"GET / HTTP/1.1\r\nhost: t.example\r\nconnection: close\r\n\r\n").await.unwrap();
        eventually("routed", || rig.hub.slots().iter().map(|slot| slot.started_total()).sum::<u64>() > before).await;
        held.push(client);
    }
    assert!(held.len() <= 5, "{} were let in", held.len() - 1);
    let refused = rest(held.last_mut().unwrap()).await;
    assert_eq!((status_of(&refused), values(&refused, "serin-error")), (503, vec!["overloaded"]));
}

#[tokio::test]
async fn a_request_that_waits_for_a_connection_gets_the_one_that_becomes_free() {
    let upstream = Named::start("v1").await;
    let limits = UpstreamLimits { connections: 2, pending: 100 };
    let rig = Rig::start(several(&[upstream.address], UpstreamPlan { limits, ..UpstreamPlan::default() }));
    let mut client = rig.h2().await;
    let mut all = Vec::new();
    for _ in 0..40 {
        all.push(tokio::spawn(client.send_request(request("http://t.example/"))));
    }
    for one in all {
        let answer = soon(one).await.unwrap().unwrap();
        assert_eq!(answer.status(), 200);
        text(answer).await;
    }
}

/// An upstream that speaks TLS and says which HTTP it was asked in.
pub async fn secure(issued: &Issued, protocols: Protocols, clients: Option<&Issuer>) -> SocketAddr {
    let pair = Pair::read(&issued.cert, &issued.key).unwrap();
    let authorities = clients.map(|issuer| Authorities::read(&issuer.cert).unwrap());
    let tls = ServerTls::new(&[pair], authorities.as_ref(), protocols, None).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::clone(tls.config()));
    scripted(move |_, stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let answer = hyper::service::service_fn(|request: http::Request<hyper::body::Incoming>| async move {
                let told = format!("{:?} {}", request.version(), request.uri().scheme_str().unwrap_or("none"));
                Ok::<_, hyper::Error>(http::Response::new(full(told)))
            });
            let server = hyper_util::server::conn::auto::Builder::new(hyper_util::rt::TokioExecutor::new());
            drop(server.serve_connection(hyper_util::rt::TokioIo::new(stream), answer).await);
        }
    })
    .await
}

fn by_tls(address: SocketAddr, http: UpstreamHttp, tls: UpstreamTls) -> ServiceTable {
    let mut service = several(&[address], UpstreamPlan { tls: Some(Arc::new(tls)), ..UpstreamPlan::default() });
    service.versions[0].http = http;
    service
}

#[tokio::test]
async fn tls_agrees_on_the_best_http_that_both_speak() {
    let authority = Issuer::new("ours");
    let issued = authority.issue("app", &["app.example"]);
    let trusting = UpstreamTls { ca: Some(authority.cert.clone()), sni: Some("app.example".into()), identity: None };
    let h1_only = Protocols { h1: true, h2: false };
    for (protocols, http, told) in [
        (Protocols::BOTH, UpstreamHttp::Auto, "HTTP/2.0 https"),
        (h1_only, UpstreamHttp::Auto, "HTTP/1.1 none"),
        (Protocols::BOTH, UpstreamHttp::H1, "HTTP/1.1 none"),
        (Protocols::BOTH, UpstreamHttp::H2, "HTTP/2.0 https"),
    ] {
        let rig = Rig::start(by_tls(secure(&issued, protocols, None).await, http, trusting.clone()));
        for _ in 0..3 {
            let answer = rig.get("").await;
            assert!(answer.ends_with(told), "{http:?}: {answer}");
        }
        rig.ended("v1", &[(Ending::Answered, 3)]).await;
    }
}

#[tokio::test]
async fn an_upstream_that_cannot_prove_its_name_is_not_sent_anything() {
    let (ours, others) = (Issuer::new("ours"), Issuer::new("others"));
    let issued = ours.issue("app", &["app.example"]);
    let upstream = secure(&issued, Protocols::BOTH, None).await;
    let tls = |issuer: &Issuer, sni: &str| UpstreamTls {
        ca: Some(issuer.cert.clone()),
        sni: Some(sni.into()),
        identity: None,
    };
    for tls in [tls(&others, "app.example"), tls(&ours, "other.example")] {
        let rig = Rig::start(by_tls(upstream, UpstreamHttp::Auto, tls));
        let answer = rig.get("").await;
        assert_eq!((status_of(&answer), values(&answer, "serin-error")), (502, vec!["connect_failed"]));
        rig.ended("v1", &[(Ending::ConnectFailed, 1)]).await;
    }
}

#[tokio::test]
async fn an_upstream_that_wants_a_certificate_is_shown_one() {
    let (servers, clients) = (Issuer::new("servers"), Issuer::new("clients"));
    let upstream =
        secure(&servers.issue("app", &["app.example"]), Protocols { h1: true, h2: false }, Some(&clients)).await;
    let proxy = clients.issue("proxy", &["proxy.example"]);
    let identity = Some((proxy.cert.clone(), proxy.key.clone()));
    for (identity, status) in [(identity, 200), (None, 502)] {
        let tls = UpstreamTls { ca: Some(servers.cert.clone()), sni: Some("app.example".into()), identity };
        let rig = Rig::start(by_tls(upstream, UpstreamHttp::H1, tls));
        assert_eq!(status_of(&rig.get("").await), status);
    }
}

/// An upstream that answers together with the last of its handshake, and says how many requests it has seen then.
fn speaking_first(issued: &Issued) -> (SocketAddr, std::sync::mpsc::Receiver<usize>) {
    let pair = Pair::read(&issued.cert, &issued.key).unwrap();
    let tls = ServerTls::new(&[pair], None, Protocols { h1: true, h2: false }, None).unwrap();
    let mut config = rustls::ServerConfig::clone(tls.config());
    config.send_half_rtt_data = true;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, requests) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut tls = rustls::ServerConnection::new(Arc::new(config)).unwrap();
        while !tls.wants_write() {
            tls.read_tls(&mut socket).unwrap();
            tls.process_new_packets().unwrap();
        }
        std::io::Write::write_all(&mut tls.writer(), b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil").unwrap();
        let mut flight = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut flight).unwrap();
        }
        std::io::Write::write_all(&mut socket, &flight).unwrap();
        let mut bytes = 0;
        while let Ok(1..) = tls.read_tls(&mut socket) {
            let Ok(state) = tls.process_new_packets() else { break };
            bytes += state.plaintext_bytes_to_read();
        }
        seen.send(bytes).unwrap();
    });
    (address, requests)
}

#[tokio::test]
async fn what_an_upstream_sends_before_it_was_asked_is_nobodys_answer() {
    let authority = Issuer::new("ours");
    let (upstream, asked) = speaking_first(&authority.issue("app", &["app.example"]));
    let tls = UpstreamTls { ca: Some(authority.cert.clone()), sni: Some("app.example".into()), identity: None };
    let rig = Rig::start(by_tls(upstream, UpstreamHttp::H1, tls));
    let answer = rig.get("").await;
    assert_eq!((status_of(&answer), values(&answer, "serin-error")), (502, vec!["connect_failed"]), "{answer}");
    let bytes = tokio::task::spawn_blocking(move || asked.recv().unwrap()).await.unwrap();
    assert_eq!(bytes, 0, "the connection was used all the same");
}
