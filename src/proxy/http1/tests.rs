//! The client over real sockets: whatever pieces a response comes in, it says the same.

use http::{HeaderMap, Request};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    task::yield_now,
};

use super::*;

/// What came of a request: status, body and trailers, and whether the connection may serve another one.
#[derive(Debug, PartialEq, Eq)]
struct Whole {
    status: u16,
    body: String,
    trailers: Option<HeaderMap>,
    is_reusable: bool,
}

/// A connection, and its upstream's end.
async fn connected() -> (Connection, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    server.set_nodelay(true).unwrap();
    (Connection::new(Socket::Tcp(client), None), server)
}

fn head(method: &str) -> Parts {
    Request::builder().method(method).uri("/p?q").header("host", "t.example").body(()).unwrap().into_parts().0
}

async fn exchange(connection: Connection, method: &str) -> Result<Response<Incoming>, Unanswered> {
    let (head, hop, endpoint) = (head(method), Hop::default(), Endpoint::tcp("a", 1));
    connection.exchange(RequestHead { head: &head, hop: &hop, endpoint: &endpoint }, RequestBody::None).await
}

/// The whole of a response, or in a word why there is none.
async fn read(connection: Connection, method: &str) -> Result<Whole, &'static str> {
    let word = |error: &Error| match error {
        Error::Malformed(_) => "malformed",
        Error::Io(_) | Error::Closed => "closed",
        Error::RequestBody => "request body",
    };
    let (head, mut incoming) = exchange(connection, method).await.map_err(|failed| word(&failed.error))?.into_parts();
    let (mut body, mut trailers) = (Vec::new(), None);
    while let Some(frame) = poll_fn(|cx| incoming.poll_frame(cx)).await {
        match frame.map_err(|error| word(&error))?.into_data() {
            Ok(data) => body.extend_from_slice(&data),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    assert!(incoming.is_end_stream());
    let is_reusable = incoming.take_connection().is_some();
    Ok(Whole { status: head.status.as_u16(), body: String::from_utf8(body).unwrap(), trailers, is_reusable })
}

/// Has an upstream send these parts, each once the one before has had time to arrive, and then close or stay.
async fn served(parts: &[&[u8]], then_closes: bool, method: &str) -> Result<Whole, &'static str> {
    let (connection, mut server) = connected().await;
    let send = async {
        for part in parts {
            // Whoever has seen enough does not read the rest.
            drop(server.write_all(part).await);
            for _ in 0..3 {
                yield_now().await;
            }
        }
        if then_closes {
            drop(server.shutdown().await);
        }
        server
    };
    let (read, _server) = tokio::join!(read(connection, method), send);
    read
}

/// Responses, and how they end; with the upstream closing the connection behind them.
const CLOSING: [&str; 9] = [
    "HTTP/1.1 200 OK\r\nX: 1\r\n\r\nuntil the end",
    "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nxx",
    "HTTP/1.1 200 OK\r\nX: 1\r\n folded\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX",
    "HTTP/1.1 200 OK\r\nX: \x01",
];

/// The same, with the upstream keeping the connection open.
const STAYING: [&str; 6] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n1\r\n!\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\nX-Sum: 2\r\n\r\n",
    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
];

#[tokio::test]
async fn wherever_a_response_is_split_it_says_the_same() {
    let local = tokio::task::LocalSet::new();
    let all = async {
        for (responses, then_closes) in [(&CLOSING[..], true), (&STAYING, false)] {
            for response in responses.iter().map(|response| response.as_bytes()) {
                let whole = served(&[response], then_closes, "GET").await;
                for cut in 1..response.len() {
                    let (first, second) = response.split_at(cut);
                    let split = served(&[first, second], then_closes, "GET").await;
                    assert_eq!(split, whole, "{:?} {:?}", first.escape_ascii(), second.escape_ascii());
                }
                let bytes: Vec<_> = response.chunks(1).collect();
                assert_eq!(served(&bytes, then_closes, "GET").await, whole, "{}", response.escape_ascii());
            }
        }
    };
    local.run_until(all).await;
}

#[tokio::test]
async fn a_message_ends_where_it_says_and_the_connection_goes_on_only_if_both_sides_agree() {
    let whole =
        |status, body: &str, is_reusable| Ok(Whole { status, body: body.to_owned(), trailers: None, is_reusable });
    let expected = [
        (CLOSING[0], true, "GET", whole(200, "until the end", false)),
        (CLOSING[1], true, "GET", whole(200, "hello", false)),
        (CLOSING[2], true, "GET", Err("closed")),
        (CLOSING[3], true, "GET", Err("closed")),
        (CLOSING[4], true, "GET", Err("malformed")),
        (CLOSING[5], true, "GET", Err("malformed")),
        (CLOSING[7], true, "GET", Err("closed")),
        (CLOSING[8], true, "GET", Err("malformed")),
        (STAYING[0], false, "GET", whole(200, "hello", true)),
        (STAYING[1], false, "GET", whole(204, "", true)),
        (STAYING[2], false, "GET", whole(200, "ok", true)),
        (STAYING[3], false, "GET", whole(200, "hello!", true)),
        (STAYING[5], false, "GET", whole(200, "ok", false)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, "HEAD", whole(200, "", true)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, "HEAD", whole(200, "", false)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n", false, "GET", whole(200, "ok", false)),
    ];
    for (response, then_closes, method, expected) in expected {
        assert_eq!(served(&[response.as_bytes()], then_closes, method).await, expected, "{response:?}");
    }
}

#[tokio::test]
async fn heads_and_informational_answers_have_limits() {
    let large = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(HEAD_MAX));
    assert_eq!(served(&[large.as_bytes()], false, "GET").await, Err("malformed"));
    let endless = "HTTP/1.1 102 Processing\r\n\r\n".repeat(INFORMATIONAL_MAX + 1);
    assert_eq!(served(&[endless.as_bytes()], false, "GET").await, Err("malformed"));
}

#[tokio::test]
async fn a_connection_that_was_closed_or_spoke_unasked_is_not_quiet() {
    for unasked in ["", "HTTP/1.1 408 Request Timeout\r\n\r\n"] {
        let (mut connection, mut server) = connected().await;
        assert!(connection.is_quiet());
        server.write_all(unasked.as_bytes()).await.unwrap();
        server.shutdown().await.unwrap();
        let told = async {
            while connection.is_quiet() {
                yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), told).await.expect("the end is seen");
    }
}

#[tokio::test]
async fn what_was_not_sent_comes_back() {
    let (mut connection, server) = connected().await;
    drop(server);
    connection.writer.socket.shutdown().await.unwrap();
    let failed = exchange(connection, "GET").await.unwrap_err();
    assert!(failed.unsent.is_some_and(|body| body.is_none()), "a socket that takes nothing has sent nothing");
    let (connection, server) = connected().await;
    let mut exchange = pin!(exchange(connection, "GET"));
    assert!(poll_fn(|cx| Poll::Ready(exchange.as_mut().poll(cx).is_pending())).await);
    drop(server);
    assert!(exchange.await.unwrap_err().unsent.is_none());
}

#[tokio::test]
async fn reads_grow_with_the_body_and_shrink_after_it() {
    const SIZE: usize = 4 * 1024 * 1024;
    let (connection, mut server) = connected().await;
    let send = tokio::spawn(async move {
        server.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").as_bytes()).await.unwrap();
        server.write_all(&vec![b'x'; SIZE]).await.unwrap();
        server
    });
    let mut incoming = exchange(connection, "GET").await.unwrap().into_body();
    let mut sizes = Vec::new();
    while let Some(frame) = poll_fn(|cx| incoming.poll_frame(cx)).await {
        sizes.push(frame.unwrap().into_data().unwrap().len());
    }
    assert_eq!(sizes.iter().sum::<usize>(), SIZE);
    assert!(sizes.iter().all(|&size| size <= 2 * READ_MAX), "{sizes:?}");
    let connection = incoming.take_connection().expect("it ended where it said");
    assert!(connection.reader.bytes.capacity() <= 2 * READ_MIN);
    drop(send.await.unwrap());
}
