//! TLS towards clients: certificates by name, versions, resumption, client certificates, and what fails.

use std::{sync::Arc, time::Duration};

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, HandshakeKind, ProtocolVersion, RootCertStore, SupportedProtocolVersion, pki_types::ServerName,
};
use serin::{
    measure::RefusedReason,
    proxy::Limits,
    publish::ListenerSettings,
    tls::{Authorities, Pair, Protocols, ServerTls, provider},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::rig::{Body, Rig, full, limits, listener, request, rest, service, serving, soon, status_of, text, values};
use crate::certificates::{Issued, Issuer};

/// A proxy whose upstream answers with what it was told about the client.
async fn rig(settings: ListenerSettings) -> Rig {
    let upstream = serving(|request| {
        let field =
            |name: &str| request.headers().get(name).map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default();
        let told = format!("{} {}", field("x-forwarded-proto"), field("x-forwarded-host"));
        async move { hyper::Response::new(full(told)) }
    })
    .await;
    Rig::with_settings(service(upstream, upstream), settings)
}

fn pair(issued: &Issued) -> Pair {
    Pair::read(&issued.cert, &issued.key).unwrap()
}

fn secured(issued: &[&Issued], ca: Option<&Issuer>, protocols: Protocols) -> ListenerSettings {
    let pairs: Vec<_> = issued.iter().map(|issued| pair(issued)).collect();
    let ca = ca.map(|ca| Authorities::read(&ca.cert).unwrap());
    let tls = ServerTls::new(&pairs, ca.as_ref(), protocols, None).unwrap();
    ListenerSettings { tls: Some(tls), protocols, ..listener() }
}

fn roots(issuer: &Issuer) -> Arc<RootCertStore> {
    Arc::clone(Authorities::read(&issuer.cert).unwrap().roots())
}

fn client(issuer: &Issuer, versions: &[&'static SupportedProtocolVersion], alpn: &[&str]) -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(versions).unwrap();
    let mut config = builder.with_root_certificates(roots(issuer)).with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}

async fn connect(rig: &Rig, config: &Arc<ClientConfig>, host: &str) -> std::io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned()).unwrap();
    soon(TlsConnector::from(Arc::clone(config)).connect(name, rig.connect().await)).await
}

async fn get(stream: &mut TlsStream<TcpStream>, host: &str) -> String {
    let head = format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon(stream.read_to_string(&mut answer)).await.unwrap();
    answer
}

#[tokio::test]
async fn both_versions_of_http_are_agreed_on_and_the_upstream_is_told_of_tls() {
    let issuer = Issuer::new("ca");
    let rig = rig(secured(&[&issuer.issue("a", &["a.example"])], None, Protocols::BOTH)).await;
    let http2_client = Arc::new(client(&issuer, rustls::ALL_VERSIONS, &["h2", "http/1.1"]));
    let stream = connect(&rig, &http2_client, "a.example").await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) =
        http2::handshake::<_, _, Body>(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let answer = soon(sender.send_request(request("https://t.example/"))).await.unwrap();
    assert_eq!(text(answer).await, "https t.example");

    let http1_client = Arc::new(client(&issuer, rustls::ALL_VERSIONS, &["http/1.1"]));
    let stream = connect(&rig, &http1_client, "a.example").await.unwrap();
    let (mut sender, connection) = http1::handshake::<_, Body>(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let answer = soon(sender.send_request(request("/"))).await.unwrap();
    assert_eq!(text(answer).await, "https t.example");

    // Without ALPN the first bytes decide.
    let plain_client = Arc::new(client(&issuer, rustls::ALL_VERSIONS, &[]));
    let mut stream = connect(&rig, &plain_client, "a.example").await.unwrap();
    assert!(get(&mut stream, "a.example").await.ends_with("https a.example"));
}

#[tokio::test]
async fn a_listener_for_one_version_agrees_on_no_other() {
    let issuer = Issuer::new("ca");
    let only_h1 = Protocols { h1: true, h2: false };
    let rig_h1 = rig(secured(&[&issuer.issue("a", &["a.example"])], None, only_h1)).await;
    let both = Arc::new(client(&issuer, rustls::ALL_VERSIONS, &["h2", "http/1.1"]));
    let stream = connect(&rig_h1, &both, "a.example").await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let h2_alone = Arc::new(client(&issuer, rustls::ALL_VERSIONS, &["h2"]));
    assert!(connect(&rig_h1, &h2_alone, "a.example").await.is_err());

    let plain = rig(ListenerSettings { protocols: Protocols { h1: false, h2: true }, ..listener() }).await;
    let mut stream = plain.connect().await;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    assert_eq!(rest(&mut stream).await, "");
    plain.refused(RefusedReason::BadRequest, 1).await;
    let answer = soon(plain.h2().await.send_request(request("http://t.example/"))).await.unwrap();
    assert_eq!(text(answer).await, "http t.example");
}

#[tokio::test]
async fn the_certificate_follows_the_name_and_a_host_of_another_one_is_misdirected() {
    let issuer = Issuer::new("ca");
    let first = issuer.issue("first", &["first.example"]);
    let wild = issuer.issue("wild", &["*.shop.example"]);
    let rig = rig(secured(&[&first, &wild], None, Protocols::BOTH)).await;
    let config = Arc::new(client(&issuer, rustls::ALL_VERSIONS, &["http/1.1"]));
    for host in ["first.example", "a.shop.example", "b.shop.example"] {
        let mut stream = connect(&rig, &config, host).await.unwrap_or_else(|error| panic!("{host}: {error}"));
        assert_eq!(status_of(&get(&mut stream, host).await), 200, "{host}");
    }
    // Neither certificate is for it: the client refuses the first.
    assert!(connect(&rig, &config, "other.example").await.is_err());
    let mut stream = connect(&rig, &config, "a.shop.example").await.unwrap();
    let answer = get(&mut stream, "first.example:443").await;
    assert_eq!((status_of(&answer), values(&answer, "serin-error")), (421, vec!["misdirected"]));
    let mut stream = connect(&rig, &config, "a.shop.example").await.unwrap();
    assert_eq!(status_of(&get(&mut stream, "b.shop.example").await), 200);
    rig.refused(RefusedReason::Misdirected, 1).await;
}

#[tokio::test]
async fn sessions_are_resumed_in_both_versions_of_tls() {
    let issuer = Issuer::new("ca");
    let rig = rig(secured(&[&issuer.issue("a", &["a.example"])], None, Protocols::BOTH)).await;
    for (version, number) in
        [(&rustls::version::TLS12, ProtocolVersion::TLSv1_2), (&rustls::version::TLS13, ProtocolVersion::TLSv1_3)]
    {
        let config = Arc::new(client(&issuer, &[version], &["http/1.1"]));
        let mut kinds = Vec::new();
        for _ in 0..2 {
            let mut stream = connect(&rig, &config, "a.example").await.unwrap();
            assert_eq!(status_of(&get(&mut stream, "a.example").await), 200);
            assert_eq!(stream.get_ref().1.protocol_version(), Some(number));
            kinds.push(stream.get_ref().1.handshake_kind());
        }
        assert_eq!(kinds, [Some(HandshakeKind::Full), Some(HandshakeKind::Resumed)], "{number:?}");
    }
}

#[tokio::test]
async fn whoever_shows_no_certificate_of_the_authority_is_refused() {
    let (issuer, stranger) = (Issuer::new("ca"), Issuer::new("stranger"));
    let rig = rig(secured(&[&issuer.issue("a", &["a.example"])], Some(&issuer), Protocols::BOTH)).await;
    let answered = async |shown: Option<&Issued>| {
        let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots(&issuer));
        let config = match shown {
            None => builder.with_no_client_auth(),
            Some(shown) => builder.with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(
                pair(shown).certified().as_ref().clone(),
            ))),
        };
        // In TLS 1.3 the client learns of the refusal with its first read.
        let mut stream = connect(&rig, &Arc::new(config), "a.example").await.unwrap();
        drop(stream.write_all(b"GET / HTTP/1.1\r\nhost: a.example\r\nconnection: close\r\n\r\n").await);
        let mut answer = Vec::new();
        soon(stream.read_to_end(&mut answer)).await.is_ok()
    };
    assert!(answered(Some(&issuer.issue("client", &["somebody"]))).await);
    assert!(!answered(None).await);
    assert!(!answered(Some(&stranger.issue("client", &["somebody"]))).await);
    rig.refused(RefusedReason::TlsHandshake, 2).await;
}

#[tokio::test]
async fn what_is_no_handshake_is_counted_and_a_probe_of_the_port_is_not() {
    let issuer = Issuer::new("ca");
    let rig = rig(secured(&[&issuer.issue("a", &["a.example"])], None, Protocols::BOTH)).await;
    drop(rig.connect().await);
    let answer = rig.exchange("GET / HTTP/1.1\r\nhost: a.example\r\n\r\n").await;
    assert!(!answer.contains("HTTP"), "an alert at most: {answer:?}");
    rig.refused(RefusedReason::TlsHandshake, 1).await;
}

#[tokio::test]
async fn a_handshake_that_stands_still_is_ended() {
    let issuer = Issuer::new("ca");
    let mut settings = secured(&[&issuer.issue("a", &["a.example"])], None, Protocols::BOTH);
    settings.limits = Limits { header_timeout: Duration::from_millis(100), ..limits() };
    let rig = rig(settings).await;
    let mut client = rig.connect().await;
    client.write_all(&[22, 3, 1]).await.unwrap();
    assert_eq!(rest(&mut client).await, "");
    rig.refused(RefusedReason::TlsHandshake, 1).await;
}

#[tokio::test]
async fn an_idle_connection_is_ended_with_a_word() {
    let issuer = Issuer::new("ca");
    let mut settings = secured(&[&issuer.issue("a", &["a.example"])], None, Protocols::BOTH);
    settings.limits = Limits { idle_timeout: Duration::from_millis(100), ..limits() };
    let rig = rig(settings).await;
    let config = Arc::new(client(&issuer, rustls::ALL_VERSIONS, &["http/1.1"]));
    let mut stream = connect(&rig, &config, "a.example").await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a.example\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // An end without close_notify would be an error here.
    soon(stream.read_to_end(&mut answer)).await.unwrap();
    assert!(answer.ends_with(b"https a.example"));
}

#[tokio::test]
async fn new_certificates_are_for_new_connections_and_old_connections_go_on() {
    let issuer = Issuer::new("ca");
    let old = secured(&[&issuer.issue("old", &["a.example"])], None, Protocols::BOTH);
    let mut rig = rig(old).await;
    let config = Arc::new(client(&issuer, rustls::ALL_VERSIONS, &["http/1.1"]));
    let mut kept = connect(&rig, &config, "a.example").await.unwrap();
    let certificate = |stream: &TlsStream<TcpStream>| stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
    rig.set(secured(&[&issuer.issue("new", &["a.example"])], None, Protocols::BOTH));
    let new = connect(&rig, &config, "a.example").await.unwrap();
    assert_ne!(certificate(&kept), certificate(&new));
    assert_eq!(status_of(&get(&mut kept, "a.example").await), 200);
}
