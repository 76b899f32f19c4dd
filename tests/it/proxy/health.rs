//! Endpoints that are asked whether they are well, and what the table says about those that are not.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use http::StatusCode;
use serin::{
    engine::{
        endpoint::{Endpoint, InUse, Instance, UpstreamHttp},
        failure::DeadCanary,
        samples::{EndpointSamples, InstanceSamples},
        table::ServiceTable,
        upstream::{EjectionPlan, HealthPlan, UpstreamPlan, UpstreamTls},
    },
    measure::{Reader, slot::Ending},
    publish::ListenerSettings,
    tls::Protocols,
};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, UnixListener},
};

use super::{
    endpoints::secure,
    rig::{
        Named, PATIENCE, Rig, eventually, full, listener, nobody, rest, scripted, service, serving, soon, status_of,
        weigh,
    },
};
use crate::certificates::Issuer;

/// Asks often.
fn often(path: Option<&str>) -> HealthPlan {
    let interval = Duration::from_millis(100);
    HealthPlan { path: path.map(Into::into), interval, timeout: interval, ..HealthPlan::default() }
}

fn at(address: SocketAddr) -> Endpoint {
    Endpoint::tcp(address.ip().to_string(), address.port())
}

fn instance(address: SocketAddr) -> Instance {
    Instance { endpoint: at(address), address: None }
}

/// Stable with these endpoints.
fn stable(endpoints: Vec<Endpoint>, http: UpstreamHttp, plan: UpstreamPlan) -> ServiceTable {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    let mut service = service(nowhere, nowhere);
    service.versions[0].endpoints = endpoints;
    service.versions[0].http = http;
    service.versions[0].upstream = Arc::new(plan);
    service
}

/// What is seen of endpoints until there is something of each.
async fn seen(reader: &mut Reader, what: &str, endpoints: usize) -> Vec<InstanceSamples> {
    let mut all: Vec<InstanceSamples> = Vec::new();
    eventually(what, || {
        for EndpointSamples { news, .. } in reader.drain().endpoints {
            for news in news {
                match all.iter_mut().find(|of| of.instance == news.instance) {
                    Some(known) => {
                        known.checks.extend(news.checks);
                        known.error_runs += news.error_runs;
                    }
                    None => all.push(news),
                }
            }
        }
        all.len() >= endpoints
    })
    .await;
    all
}

/// What the first check of the only endpoint said.
async fn verdict(what: &str, endpoint: Endpoint, http: UpstreamHttp, plan: UpstreamPlan) -> Result<(), Arc<str>> {
    let rig = Rig::start(stable(vec![endpoint], http, plan));
    let mut reader = rig.hub.reader().unwrap();
    seen(&mut reader, what, 1).await.remove(0).checks.remove(0)
}

fn by(path: Option<&str>) -> UpstreamPlan {
    UpstreamPlan { health: Some(HealthPlan { timeout: PATIENCE, ..often(path) }), ..UpstreamPlan::default() }
}

#[tokio::test]
async fn endpoints_are_asked_by_their_own_protocol_socket_and_tls() {
    let asked = serving(|request| async move {
        let known = request.headers()["user-agent"] == "serin-health" && request.method() == "GET";
        let mut answer = http::Response::new(full(""));
        *answer.status_mut() = match request.uri().path() {
            "/moved" => StatusCode::PERMANENT_REDIRECT,
            "/healthz" if known => StatusCode::NO_CONTENT,
            _ => StatusCode::NOT_FOUND,
        };
        answer
    })
    .await;
    for http in [UpstreamHttp::H1, UpstreamHttp::H2] {
        assert_eq!(verdict("by path", at(asked), http, by(Some("/healthz"))).await, Ok(()), "{http:?}");
    }
    assert_eq!(verdict("a redirect", at(asked), UpstreamHttp::H1, by(Some("/moved"))).await, Ok(()));
    assert_eq!(verdict("by connection", at(asked), UpstreamHttp::H1, by(None)).await, Ok(()));
    let bad = verdict("another path", at(asked), UpstreamHttp::H1, by(Some("/"))).await;
    assert_eq!(bad, Err("answered 404 Not Found".into()));

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    let socket = Endpoint::Unix { path: path.to_str().unwrap().into() };
    assert_eq!(verdict("a socket", socket, UpstreamHttp::H1, by(None)).await, Ok(()));
    let socket = Endpoint::Unix { path: dir.path().join("none").to_str().unwrap().into() };
    assert!(verdict("no socket", socket, UpstreamHttp::H1, by(None)).await.is_err());
    assert!(verdict("nobody", at(nobody()), UpstreamHttp::H1, by(None)).await.is_err());
    let unknown = Endpoint::tcp("no-such-host.invalid", 80);
    assert!(verdict("no name", unknown, UpstreamHttp::H1, by(Some("/"))).await.is_err());
    let hanging = scripted(|_, mut stream| async move { drop(rest(&mut stream).await) }).await;
    let plan = UpstreamPlan { health: Some(often(Some("/"))), ..UpstreamPlan::default() };
    let late = verdict("no answer", at(hanging), UpstreamHttp::H1, plan).await;
    assert_eq!(late, Err("no answer within 100 ms".into()));
}

#[tokio::test]
async fn a_check_over_tls_believes_whom_the_version_believes() {
    let issuer = Issuer::new("ours");
    let address = secure(&issuer.issue("app", &["app.example"]), Protocols::BOTH, None).await;
    let known = UpstreamTls { ca: Some(issuer.cert.clone()), sni: Some("app.example".into()), identity: None };
    for (tls, path, is_well) in
        [(known.clone(), Some("/"), true), (known, None, true), (UpstreamTls::default(), None, false)]
    {
        let plan = UpstreamPlan { tls: Some(Arc::new(tls)), ..by(path) };
        let verdict = verdict("TLS", at(address), UpstreamHttp::Auto, plan).await;
        assert_eq!(verdict.is_ok(), is_well, "{verdict:?}");
    }
}

#[tokio::test]
async fn many_endpoints_that_hang_are_not_all_asked_at_once() {
    let socket = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = socket.local_addr().unwrap().port();
    let (open, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let (counted, highest) = (Arc::clone(&open), Arc::clone(&most));
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = socket.accept().await.unwrap();
            highest.fetch_max(counted.fetch_add(1, SeqCst) + 1, SeqCst);
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                drop(stream.read_to_end(&mut bytes).await);
                counted.fetch_sub(1, SeqCst);
            });
        }
    });
    let everywhere = |net: u8| (0..=255).map(|last| Endpoint::tcp(format!("127.0.{net}.{last}"), port)).collect();
    let plan = UpstreamPlan { health: Some(often(Some("/"))), ..UpstreamPlan::default() };
    let mut table = stable(everywhere(1), UpstreamHttp::H1, plan.clone());
    table.versions[1].endpoints = everywhere(2);
    table.versions[1].upstream = Arc::new(plan);
    let rig = Rig::start(table);
    let mut reader = rig.hub.reader().unwrap();
    let all = seen(&mut reader, "each endpoint to be asked", 512).await;
    assert!(all.iter().all(|of| of.checks[0].is_err()));
    // 128 are asked at once; those that were given up are seen to be closed a little later.
    let most = most.load(SeqCst);
    assert!(most <= 256, "{most} at once");
}

#[tokio::test]
async fn who_is_no_longer_in_the_table_is_no_longer_asked() {
    let asked = Named::start("v1").await;
    let plan = UpstreamPlan { health: Some(often(Some("/"))), ..UpstreamPlan::default() };
    let mut rig = Rig::start(stable(vec![at(asked.address)], UpstreamHttp::H1, plan));
    eventually("some checks", || asked.requests() > 2).await;
    rig.publish(|service| service.versions[0].upstream = Arc::default());
    let mut reader = rig.hub.reader().unwrap();
    eventually("nobody to be watched", || reader.drain().endpoints.is_empty()).await;
    let before = asked.requests();
    for _ in 0..20 {
        rig.get("").await;
    }
    assert!(asked.requests() <= before + 21, "one check may have been under way");
    rig.ended("v1", &[(Ending::Answered, 20)]).await;
}

fn paths() -> [ListenerSettings; 2] {
    [true, false].map(|fast_path| ListenerSettings { fast_path, ..listener() })
}

#[tokio::test]
async fn errors_in_a_row_are_counted_on_both_paths_over_all_workers() {
    for settings in paths() {
        let failing = serving(|_| async {
            let mut answer = http::Response::new(full(""));
            *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            answer
        })
        .await;
        let down = nobody();
        let plan = UpstreamPlan { ejection: Some(EjectionPlan::default()), ..UpstreamPlan::default() };
        for (endpoint, last) in [(failing, "error_status"), (down, "connect_failed")] {
            let rig = Rig::with_settings(stable(vec![at(endpoint)], UpstreamHttp::H1, plan.clone()), settings.clone());
            let mut reader = rig.hub.reader().unwrap();
            for _ in 0..5 {
                assert!(status_of(&rig.get("").await) >= 500);
            }
            let news = seen(&mut reader, "a run of errors", 1).await;
            assert_eq!(news[0].instance, instance(endpoint));
            assert_eq!((news[0].error_runs, news[0].last_error), (1, last));
        }
    }
}

#[tokio::test]
async fn who_is_left_out_gets_nothing_unless_there_is_nobody_else() {
    for settings in paths() {
        let (one, other) = (Named::start("one").await, Named::start("other").await);
        let endpoints = vec![at(one.address), at(other.address)];
        let mut table = stable(endpoints, UpstreamHttp::H1, UpstreamPlan::default());
        table.versions[0].in_use = InUse::AllBut([instance(one.address)].into());
        let mut rig = Rig::with_settings(table, settings);
        for _ in 0..20 {
            assert!(rig.get("").await.ends_with("other"));
        }
        assert_eq!(one.requests(), 0);
        let both = [instance(one.address), instance(other.address)];
        rig.publish(|service| service.versions[0].in_use = InUse::AllBut(both.into()));
        for _ in 0..20 {
            assert_eq!(status_of(&rig.get("").await), 200);
        }
        rig.publish(|service| service.versions[0].in_use = InUse::All);
        for _ in 0..60 {
            assert_eq!(status_of(&rig.get("").await), 200);
        }
        assert!(one.requests() > 0, "it is back");
    }
}

#[tokio::test]
async fn a_dead_canary_is_sent_nothing_and_charged_with_what_it_should_have_had() {
    for settings in paths() {
        for dead_canary in [DeadCanary::Stable, DeadCanary::Fail] {
            let (v1, v2) = (Named::start("v1").await, Named::start("v2").await);
            let mut table = service(v1.address, v2.address);
            table.failure.dead_canary = dead_canary;
            weigh(&mut table, 1_000_000);
            let mut rig = Rig::with_settings(table, settings.clone());
            // Connections that are there are not used either.
            for _ in 0..4 {
                assert!(rig.get("").await.ends_with("v2"));
            }
            rig.publish(|service| service.versions[1].in_use = InUse::Nobody);
            for _ in 0..10 {
                let answer = rig.get("").await;
                match dead_canary {
                    DeadCanary::Stable => assert!(answer.ends_with("v1"), "{answer}"),
                    DeadCanary::Fail => assert_eq!(status_of(&answer), 502, "{answer}"),
                }
            }
            assert_eq!(v2.requests(), 4);
            assert_eq!(v1.requests(), if dead_canary == DeadCanary::Stable { 10 } else { 0 });
            assert_eq!(rig.endings("v2", Ending::ConnectFailed), 10);
            rig.publish(|service| service.versions[1].in_use = InUse::All);
            assert!(soon(rig.get("")).await.ends_with("v2"));
        }
    }
}
