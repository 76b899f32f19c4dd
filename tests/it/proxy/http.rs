//! HTTP as it passes through: connections kept, fields taken off and put on, trailers, expectations, both protocols.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use http_body_util::BodyExt;
use hyper::{HeaderMap, Request, Response, Version, body::Frame};
use serin::{engine::endpoint::UpstreamHttp, measure::slot::Ending};
use tokio::io::AsyncWriteExt;

use super::rig::{
    Body, Rig, full, read_head, read_until, request, rest, scripted, service, serving, soon, status_of, text, values,
};

/// Echoes each request's head as the body, over kept connections; counts the connections.
async fn echo() -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    let connections = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&connections);
    let address = scripted(move |_, mut stream| {
        counted.fetch_add(1, SeqCst);
        async move {
            loop {
                let head = read_head(&mut stream).await;
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{head}", head.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    (address, connections)
}

#[tokio::test]
async fn connections_are_kept_on_both_sides() {
    let (upstream, connections) = echo().await;
    let rig = Rig::to(upstream);
    let mut client = rig.connect().await;
    for _ in 0..10 {
        client.write_all(b"GET /p HTTP/1.1\r\nhost: t.example\r\n\r\n").await.unwrap();
        let head = read_head(&mut client).await;
        assert_eq!(status_of(&head), 200);
        assert!(read_head(&mut client).await.starts_with("GET /p HTTP/1.1\r\n"));
    }
    assert_eq!(connections.load(SeqCst), 1);
    rig.ended("v1", &[(Ending::Answered, 10)]).await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let (upstream, _) = echo().await;
    let rig = Rig::to(upstream);
    let one = |path| format!("GET {path} HTTP/1.1\r\nhost: t.example\r\n\r\n");
    let last = "GET /3 HTTP/1.1\r\nhost: t.example\r\nconnection: close\r\n\r\n";
    let answers = rig.exchange(&format!("{}{}{last}", one("/1"), one("/2"))).await;
    let at = |path: &str| answers.find(&format!("GET {path} ")).unwrap();
    assert!(at("/1") < at("/2") && at("/2") < at("/3"), "{answers}");
}

#[tokio::test]
async fn the_hop_ends_here_and_the_next_one_says_where_it_came_from() {
    let (upstream, _) = echo().await;
    let rig = Rig::to(upstream);
    let answer = rig
        .exchange(
            "GET /a/../b?c#d HTTP/1.1\r\nHost: T.Example:81\r\nConnection: close, X-Secret\r\nX-Secret: 1\r\n\
             Keep-Alive: timeout=5\r\nTE: gzip\r\nX-Forwarded-For: 6.6.6.6\r\nX_Forwarded_For: 6.6.6.6\r\n\
             Forwarded: for=6.6.6.6\r\nX-Keep: 2\r\n\r\n",
        )
        .await;
    let seen = answer.split_once("\r\n\r\n").unwrap().1;
    assert!(seen.starts_with("GET /a/../b?c HTTP/1.1\r\n"), "{seen}");
    for (name, expected) in [
        ("host", &["T.Example:81"][..]),
        ("x-forwarded-for", &["127.0.0.1"]),
        ("x-forwarded-proto", &["http"]),
        ("x-forwarded-host", &["T.Example:81"]),
        ("via", &["1.1 serin"]),
        ("x-keep", &["2"]),
        ("x-secret", &[]),
        ("keep-alive", &[]),
        ("te", &[]),
        ("x_forwarded_for", &[]),
        ("forwarded", &[]),
        ("connection", &[]),
    ] {
        assert_eq!(values(seen, name), expected, "{name}");
    }
}

#[tokio::test]
async fn an_answers_hop_ends_here_too() {
    let upstream = super::rig::answering(
        "HTTP/1.1 200 OK\r\nconnection: close, x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=9\r\nx-end: 2\r\n\
         transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    )
    .await;
    let rig = Rig::to(upstream);
    let mut client = rig.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\nhost: t.example\r\n\r\n").await.unwrap();
    let head = read_head(&mut client).await;
    assert_eq!(
        (values(&head, "x-end"), values(&head, "x-hop"), values(&head, "keep-alive")),
        (vec!["2"], vec![], vec![])
    );
    assert_eq!(values(&head, "connection"), [""; 0], "the client's connection stays");
    read_until(&mut client, "2\r\nok\r\n0\r\n\r\n").await;
}

#[tokio::test]
async fn http_1_0_clients_are_served_without_what_they_do_not_know() {
    let (upstream, _) = echo().await;
    let rig = Rig::to(upstream);
    let answer = rig.exchange("GET / HTTP/1.0\r\nupgrade: foo\r\nconnection: upgrade\r\n\r\n").await;
    let (head, seen) = answer.split_once("\r\n\r\n").unwrap();
    assert!(!head.contains("chunked"), "{head}");
    assert!(seen.starts_with("GET / HTTP/1.1\r\n"), "{seen}");
    assert_eq!(values(seen, "host"), [upstream.to_string()]);
    assert_eq!(values(seen, "upgrade"), [""; 0]);
}

#[tokio::test]
async fn http2_clients_reach_http1_upstreams() {
    let (upstream, _) = echo().await;
    let rig = Rig::to(upstream);
    let mut client = rig.h2().await;
    let crumbs = Request::builder()
        .uri("http://t.example/p?q")
        .header("cookie", "a=b")
        .header("cookie", "c=d")
        .body(full(""))
        .unwrap();
    let response = soon(client.send_request(crumbs)).await.unwrap();
    assert_eq!(response.version(), Version::HTTP_2);
    let seen = text(response).await;
    assert!(seen.starts_with("GET /p?q HTTP/1.1\r\n"), "{seen}");
    assert_eq!(values(&seen, "host"), ["t.example"]);
    assert_eq!(values(&seen, "cookie"), ["a=b; c=d"]);
    assert_eq!(values(&seen, "via"), ["2 serin"]);
}

#[tokio::test]
async fn http2_upstreams_get_many_requests_over_one_connection() {
    let connections = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&connections);
    let upstream = scripted(move |_, stream| {
        counted.fetch_add(1, SeqCst);
        async move {
            let service = hyper::service::service_fn(|request: Request<hyper::body::Incoming>| async move {
                let told = format!("{:?} {} {:?}", request.version(), request.uri(), request.headers().get("host"));
                let sent = request.into_body().collect().await?.to_bytes();
                Ok::<_, hyper::Error>(Response::new(full(format!("{told} {}", String::from_utf8_lossy(&sent)))))
            });
            let exec = hyper_util::rt::TokioExecutor::new();
            let io = hyper_util::rt::TokioIo::new(stream);
            drop(hyper::server::conn::http2::Builder::new(exec).serve_connection(io, service).await);
        }
    })
    .await;
    let mut service = service(upstream, upstream);
    service.versions[0].http = UpstreamHttp::H2;
    let rig = Rig::start(service);
    let mut client = rig.h1().await;
    for _ in 0..5 {
        client.ready().await.unwrap();
        let answer = text(soon(client.send_request(request("/p?q"))).await.unwrap()).await;
        assert_eq!(answer, "HTTP/2.0 http://t.example/p?q None ");
    }
    let post = Request::post("/").header("host", "t.example").body(full("body")).unwrap();
    client.ready().await.unwrap();
    let answer = text(soon(client.send_request(post)).await.unwrap()).await;
    assert_eq!(answer, "HTTP/2.0 http://t.example/ None body");
    assert_eq!(connections.load(SeqCst), 1);
    rig.ended("v1", &[(Ending::Answered, 6)]).await;
}

/// A body of one piece and trailers.
fn with_trailers(name: &'static str) -> Body {
    let mut trailers = HeaderMap::new();
    trailers.insert(name, "1".parse().unwrap());
    trailers.insert("x-forwarded-for", "6.6.6.6".parse().unwrap());
    let frames = [Ok(Frame::data("data".into())), Ok(Frame::trailers(trailers))];
    http_body_util::StreamBody::new(futures_util::stream::iter(frames)).boxed()
}

#[tokio::test]
async fn trailers_pass_both_ways_over_both_protocols() {
    let upstream = serving(|request| async move {
        let whole = request.into_body().collect().await.unwrap();
        let trailers = whole.trailers().cloned().unwrap_or_default();
        let mut response = Response::new(with_trailers("x-sum"));
        response.headers_mut().insert("trailer", "x-sum".parse().unwrap());
        response.headers_mut().insert("x-got", format!("{trailers:?}").parse().unwrap());
        response
    })
    .await;
    let mut service = service(upstream, upstream);
    for (upstream_http, over_h2) in
        [(UpstreamHttp::H1, false), (UpstreamHttp::H1, true), (UpstreamHttp::H2, false), (UpstreamHttp::H2, true)]
    {
        service.versions[0].http = upstream_http;
        let rig = Rig::start(service.clone());
        let request = Request::post("http://t.example/")
            .header("host", "t.example")
            .header("te", "trailers")
            .header("trailer", "x-up")
            .body(with_trailers("x-up"))
            .unwrap();
        let answered = if over_h2 {
            rig.h2().await.send_request(request).await
        } else {
            rig.h1().await.send_request(request).await
        };
        let response = answered.unwrap();
        let got = response.headers()["x-got"].to_str().unwrap().to_owned();
        assert_eq!(got, r#"{"x-up": "1"}"#, "{upstream_http:?} {over_h2}");
        let whole = soon(response.into_body().collect()).await.unwrap();
        let trailers = whole.trailers().cloned().unwrap_or_default();
        assert_eq!((trailers.get("x-sum").is_some(), trailers.len()), (true, 1), "{upstream_http:?} {over_h2}");
        assert_eq!(whole.to_bytes(), "data");
    }
}

#[tokio::test]
async fn a_body_without_length_over_http2_reaches_http1_whatever_the_method() {
    let upstream = serving(|request| async move {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        Response::new(full(body))
    })
    .await;
    let rig = Rig::to(upstream);
    for method in ["GET", "POST", "DELETE"] {
        let request = Request::builder().method(method).uri("http://t.example/").body(with_trailers("x-up")).unwrap();
        let response = soon(rig.h2().await.send_request(request)).await.unwrap();
        assert_eq!(text(response).await, "data", "{method}");
    }
}

const EXPECTING: &[u8] = b"POST / HTTP/1.1\r\nhost: t.example\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n";

#[tokio::test]
async fn the_client_is_told_to_continue_when_the_upstream_says_so() {
    let upstream = scripted(|_, mut stream| async move {
        let head = read_head(&mut stream).await;
        assert_eq!(values(&head, "expect"), ["100-continue"]);
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
        read_until(&mut stream, "body").await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
    })
    .await;
    let rig = Rig::to(upstream);
    let mut client = rig.connect().await;
    client.write_all(EXPECTING).await.unwrap();
    assert_eq!(read_head(&mut client).await, "HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"body").await.unwrap();
    assert_eq!(status_of(&read_until(&mut client, "\r\n\r\nok").await), 200);
    rig.ended("v1", &[(Ending::Answered, 1)]).await;
}

#[tokio::test]
async fn an_upstream_that_does_not_know_the_expectation_gets_the_body_all_the_same() {
    let upstream = scripted(|_, mut stream| async move {
        read_until(&mut stream, "\r\n\r\nbody").await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
    })
    .await;
    let rig = Rig::to(upstream);
    let mut client = rig.connect().await;
    client.write_all(EXPECTING).await.unwrap();
    assert_eq!(read_head(&mut client).await, "HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"body").await.unwrap();
    assert_eq!(status_of(&read_until(&mut client, "\r\n\r\nok").await), 200);
}

#[tokio::test]
async fn a_refusal_instead_of_100_comes_through_without_it() {
    let rig = Rig::to(super::rig::answering("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno").await);
    let mut client = rig.connect().await;
    client.write_all(EXPECTING).await.unwrap();
    let answer = rest(&mut client).await;
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.ends_with("\r\n\r\nno"), "{answer}");
    rig.ended("v1", &[(Ending::Answered, 1)]).await;
}

#[tokio::test]
async fn what_may_not_be_passed_on_never_reaches_an_upstream() {
    let (upstream, connections) = echo().await;
    let rig = Rig::to(upstream);
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nhost: a/b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nhost: a\r\nx : y\r\n\r\n", 400),
        ("GET * HTTP/1.1\r\nhost: a\r\n\r\n", 400),
        ("CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n", 501),
        ("TRACE / HTTP/1.1\r\nhost: a\r\n\r\n", 501),
        ("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: +5\r\n\r\nhello", 400),
        ("POST / HTTP/1.1\r\nhost: a\r\nexpect: tea\r\n\r\n", 417),
    ] {
        let mut client = rig.connect().await;
        client.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(status_of(&read_head(&mut client).await), status, "{request}");
    }
    let large = format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "y".repeat(70_000));
    assert_eq!(status_of(&rig.exchange(&large).await), 431);
    assert_eq!(connections.load(SeqCst), 0);
}

/// Whether a value is a time of day, and a recent one.
fn is_now(value: &str) -> bool {
    let parsed = jiff::fmt::rfc2822::parse(value).unwrap().timestamp().as_second();
    value.len() == 29 && value.ends_with(" GMT") && (jiff::Timestamp::now().as_second() - parsed).abs() < 60
}

#[tokio::test]
async fn every_answer_tells_its_date_and_an_upstreams_own_is_kept() {
    const OLD: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    let upstream = scripted(|_, mut stream| async move {
        let head = read_head(&mut stream).await;
        let date = if head.contains("GET /old") { format!("date: {OLD}\r\n") } else { String::new() };
        let answer = format!("HTTP/1.1 200 OK\r\n{date}content-length: 0\r\nconnection: close\r\n\r\n");
        stream.write_all(answer.as_bytes()).await.unwrap();
    })
    .await;
    for (rig, status) in [(Rig::to(upstream), 200), (Rig::to(super::rig::nobody()), 502)] {
        // Over the fast path, then over the ordinary one, then what hyper refuses by itself.
        for (asked, expected) in [
            ("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", status),
            ("GET / HTTP/1.1\r\nhost: a\r\nconnection: close, te\r\nte: trailers\r\n\r\n", status),
            ("GET / HTTP/1.1\r\nconnection: close\r\n\r\n", 400),
            ("NO HTTP\r\n\r\n", 400),
        ] {
            let answer = rig.exchange(asked).await;
            assert_eq!(status_of(&answer), expected, "{asked:?}");
            assert!(matches!(&values(&answer, "date")[..], [date] if is_now(date)), "{asked:?} {answer}");
        }
        let answer = soon(rig.h2().await.send_request(request("http://a/"))).await.unwrap();
        assert!(is_now(answer.headers()["date"].to_str().unwrap()));
    }
    let rig = Rig::to(upstream);
    for te in ["", "te: trailers\r\n"] {
        let answer = rig.exchange(&format!("GET /old HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{te}\r\n")).await;
        assert_eq!(values(&answer, "date"), [OLD]);
    }
}

#[tokio::test]
async fn a_client_that_has_ended_its_side_still_gets_its_answer() {
    let upstream = scripted(|_, mut stream| async move {
        read_head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        rest(&mut stream).await;
    })
    .await;
    for asked in [
        "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nte: trailers\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ] {
        let rig = Rig::to(upstream);
        let mut client = rig.connect().await;
        client.write_all(asked.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let answer = rest(&mut client).await;
        assert!(answer.ends_with("\r\n\r\nok"), "{asked:?} {answer:?}");
        rig.ended("v1", &[(Ending::Answered, 1)]).await;
    }
}

#[tokio::test]
async fn an_answer_before_the_body_was_here_says_that_the_connection_ends() {
    let upstream = scripted(|_, mut stream| async move {
        read_head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        rest(&mut stream).await;
    })
    .await;
    for (rig, status) in [(Rig::to(upstream), 413), (Rig::to(super::rig::nobody()), 502)] {
        let mut client = rig.connect().await;
        client.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\nabc").await.unwrap();
        let head = read_head(&mut client).await;
        assert_eq!((status_of(&head), values(&head, "connection")), (status, vec!["close"]), "{head}");
    }
}

/// hyper made one up: `<none>`.
#[tokio::test]
async fn a_status_without_a_reason_got_a_made_up_one() {
    for (told, got) in [("299 Fine", "HTTP/1.1 299 \r\n"), ("404 Gone fishing", "HTTP/1.1 404 Not Found\r\n")] {
        let answer = format!("HTTP/1.1 {told}\r\ncontent-length: 0\r\n\r\n").leak();
        let rig = Rig::to(super::rig::answering(answer).await);
        assert!(rig.get("").await.starts_with(got), "{told}");
        assert!(rig.get("expect: 100-continue\r\n").await.contains(got), "{told}");
    }
}
