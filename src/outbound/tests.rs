//! Against real sockets that say exactly what each test wants.

use http::StatusCode;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::*;

/// Never reached unless something is broken.
const PATIENT: Limits = Limits { connect: Duration::from_secs(20), total: Duration::from_secs(20), body_bytes: 1_000 };

/// Answers each connection's first request with the pieces, then closes; hands back what it was asked.
async fn answering(pieces: &[&[u8]]) -> (Uri, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/path?q=1", listener.local_addr().unwrap()).parse().unwrap();
    let pieces: Vec<_> = pieces.iter().map(|piece| piece.to_vec()).collect();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let head = read_head(&mut stream).await;
        for piece in pieces {
            // The client may have hung up over an answer that is too large.
            let _ = stream.write_all(&piece).await;
            tokio::task::yield_now().await;
        }
        head
    });
    (uri, served)
}

async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

fn get(uri: &Uri) -> Request<Bytes> {
    Request::get(uri).header("x-a", "b").body(Bytes::new()).unwrap()
}

#[tokio::test]
async fn an_answer_comes_whole_with_any_status() {
    let (uri, served) = answering(&[b"HTTP/1.1 409 Conflict\r\nx-y: z\r\ncontent-length: 5\r\n\r\nno", b"pe!"]).await;
    let answer = Client::new(PATIENT, Reach::anywhere()).request(get(&uri)).await.unwrap();
    assert_eq!(answer.status(), StatusCode::CONFLICT);
    assert_eq!(answer.headers()["x-y"], "z");
    assert_eq!(answer.body().as_ref(), b"nope!");
    let head = served.await.unwrap();
    assert!(head.starts_with("GET /path?q=1 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("x-a: b\r\n"), "{head}");
}

#[tokio::test]
async fn nobody_there_is_said_with_address_and_cause() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let error = Client::new(PATIENT, Reach::anywhere())
        .request(get(&format!("http://{address}/").parse().unwrap()))
        .await
        .unwrap_err();
    assert_eq!(error, Error::Unreachable { address: address.clone(), cause: "connection refused".to_owned() });
    assert_eq!(error.to_string(), format!("cannot reach {address}: connection refused"));
}

#[tokio::test]
async fn silence_ends_at_the_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri: Uri = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let limits = Limits { total: Duration::from_millis(30), ..PATIENT };
    let client = Client::new(limits, Reach::anywhere());
    for error in [client.request(get(&uri)).await.unwrap_err(), client.stream(get(&uri)).await.map(drop).unwrap_err()] {
        assert!(matches!(error, Error::TimedOut { limit, .. } if limit == limits.total), "{error:?}");
        assert!(error.to_string().ends_with("within 30ms"), "{error}");
    }
}

/// Linux answers no further connection attempt while a listener's backlog is full.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connection_that_never_stands_ends_at_its_own_limit() {
    let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    listener.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let fill = || std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100));
    let _waiting: Vec<_> = (0..16).map_while(|_| fill().ok()).collect();
    let limits = Limits { connect: Duration::from_millis(60), ..PATIENT };
    let error = Client::new(limits, Reach::anywhere())
        .request(get(&format!("http://{address}/").parse().unwrap()))
        .await
        .unwrap_err();
    assert_eq!(error, Error::TimedOut { address: address.to_string(), limit: limits.connect });
}

#[tokio::test]
async fn a_body_that_stops_coming_ends_at_the_limit_too() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri: Uri = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nno").await.unwrap();
        stream
    });
    let limits = Limits { total: Duration::from_millis(100), ..PATIENT };
    let error = Client::new(limits, Reach::anywhere()).request(get(&uri)).await.unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error:?}");
    drop(served);
}

#[tokio::test]
async fn a_large_answer_is_not_taken() {
    for pieces in [
        &[&b"HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n"[..], &[b'x'; 1_001]],
        &[&b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"[..], &[b'x'; 1_001]],
    ] {
        let (uri, _served) = answering(pieces).await;
        let error = Client::new(PATIENT, Reach::anywhere()).request(get(&uri)).await.unwrap_err();
        assert!(matches!(error, Error::TooLarge { limit: 1_000, .. }), "{error:?}");
    }
}

#[tokio::test]
async fn what_is_not_http_or_breaks_off_is_named_so() {
    for pieces in [
        &[&b"SSH-2.0-OpenSSH_9.2\r\n"[..]][..],
        &[&b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nfirst half"[..]],
        &[],
    ] {
        let (uri, _served) = answering(pieces).await;
        let error = Client::new(PATIENT, Reach::anywhere()).request(get(&uri)).await.unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn lines_come_one_by_one_however_they_are_cut() {
    let (uri, _served) = answering(&[
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        b"3\r\none\r\n",
        b"a\r\n\ntwo\r\n\nthr\r\n",
        b"4\r\nee\xc3\xa4\r\n",
        b"0\r\n\r\n",
    ])
    .await;
    let answer = Client::new(PATIENT, Reach::anywhere()).stream(get(&uri)).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let mut lines = answer.into_body();
    for line in ["one", "two", "", "threeä"] {
        assert_eq!(lines.next().await.unwrap().as_deref(), Some(line));
    }
    assert_eq!(lines.next().await.unwrap(), None);
    assert_eq!(lines.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_line_without_end_is_not_collected_for_ever() {
    let (uri, _served) =
        answering(&[b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nshort\n", &[b'x'; 600], &[b'x'; 600]]).await;
    let mut lines = Client::new(PATIENT, Reach::anywhere()).stream(get(&uri)).await.unwrap().into_body();
    assert_eq!(lines.next().await.unwrap().as_deref(), Some("short"));
    assert!(matches!(lines.next().await, Err(Error::TooLarge { .. })));
}

#[tokio::test]
async fn a_url_that_cannot_be_asked_is_refused_without_showing_a_password() {
    for (url, shown) in [
        ("/only/path", "/only/path"),
        ("ftp://me:secret@host/", "ftp://…@host/"),
        ("ftp://host/a?key=secret", "ftp://host/a?…"),
    ] {
        let error = Client::new(PATIENT, Reach::anywhere()).request(get(&url.parse().unwrap())).await.unwrap_err();
        assert!(matches!(&error, Error::Url { url, .. } if url == shown), "{error:?}");
    }
}

/// A server with a certificate for `127.0.0.1`, signed by an authority of its own; and that authority, as PEM.
async fn answering_with_tls() -> (Uri, String) {
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = rcgen::CertifiedIssuer::self_signed(authority, rcgen::KeyPair::generate().unwrap()).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let leaf =
        rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![leaf.der().clone()], key).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("https://{}/", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\nsafe").await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    (uri, authority.pem())
}

#[tokio::test]
async fn tls_is_spoken_with_those_who_are_believed_and_with_nobody_else() {
    let (uri, authority) = answering_with_tls().await;
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.crt");
    std::fs::write(&ca, authority).unwrap();
    for trust in [Trust { ca: Some(ca), insecure: false }, Trust { ca: None, insecure: true }] {
        let client = Client::trusting(PATIENT, Reach::anywhere(), &trust).unwrap();
        let answer = client.request(get(&uri)).await.unwrap_or_else(|error| panic!("{trust:?}: {error}"));
        assert_eq!(answer.body().as_ref(), b"safe");
    }
    let error = Client::new(PATIENT, Reach::anywhere()).request(get(&uri)).await.unwrap_err();
    assert!(matches!(error, Error::Tls { .. }), "{error:?}");
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_is_named_so() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tls: Uri = format!("https://{}/", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // The client hangs up as soon as it sees what this is.
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    });
    let error = Client::new(PATIENT, Reach::anywhere()).request(get(&tls)).await.unwrap_err();
    assert!(matches!(error, Error::Tls { .. }), "{error:?}");
}

#[test]
fn authorities_that_cannot_be_read_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.crt");
    std::fs::write(&path, "no certificate").unwrap();
    for (ca, words) in [(path, "holds no certificate"), (folder.path().join("absent.crt"), "cannot be read")] {
        let error = Client::trusting(PATIENT, Reach::anywhere(), &Trust { ca: Some(ca.clone()), insecure: false })
            .unwrap_err()
            .to_string();
        assert!(error.contains(words) && error.contains(&*ca.to_string_lossy()), "{error}");
    }
}

/// The last two are no addresses to us, but the system resolves them to 169.254.169.254.
#[tokio::test]
async fn an_address_that_is_refused_is_never_connected_to() {
    let client = Client::new(PATIENT, Reach::guarded(|_| false));
    for host in ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "2852039166", "0xa9fea9fe"] {
        let error = client.request(get(&format!("http://{host}/latest").parse().unwrap())).await.unwrap_err();
        let Error::Unreachable { cause, .. } = &error else { panic!("{host}: {error:?}") };
        assert!(cause.contains("outbound.allow"), "{host}: {cause}");
    }
}

#[tokio::test]
async fn a_redirect_to_metadata_is_an_answer_and_not_followed() {
    let (uri, served) =
        answering(&[b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/latest\r\ncontent-length: 0\r\n\r\n"])
            .await;
    let answer = Client::new(PATIENT, Reach::guarded(|_| false)).request(get(&uri)).await.unwrap();
    assert_eq!(answer.status(), StatusCode::FOUND, "and loopback is asked");
    served.await.unwrap();
}
