//! Which version a request reaches: by draw, by cookie, by header; and that a withdrawal holds from the next request on.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use hyper::{Request, header::HeaderName};
use serin::{
    engine::{
        assign::ForceRule,
        endpoint::Endpoint,
        names::{ServiceName, VersionName},
        split::Reason,
        sticky::{BucketKey, StickyBy, StickyRule},
        upstream::{Balancing, UpstreamPlan},
    },
    measure::slot::{Ending, code_cell},
};
use tokio::io::AsyncWriteExt;

use super::rig::{
    Named, Rig, abort, eventually, full, nobody, read_until, request, scripted, service, soon, status_of, text, values,
    weigh,
};

async fn versions() -> (Named, Named) {
    (Named::start("v1").await, Named::start("v2").await)
}

#[tokio::test]
async fn a_changed_weight_holds_for_the_next_request_on_open_connections() {
    let (stable, canary) = versions().await;
    let mut rig = Rig::start(service(stable.address, canary.address));
    let (mut h1, mut h2) = (rig.h1().await, rig.h2().await);
    for (ppm, expected) in [(0, "v1"), (1_000_000, "v2"), (0, "v1"), (1_000_000, "v2")] {
        rig.publish(|service| weigh(service, ppm));
        for _ in 0..20 {
            h1.ready().await.unwrap();
            assert_eq!(text(soon(h1.send_request(request("/"))).await.unwrap()).await, expected);
            let over_h2 = soon(h2.send_request(request("http://t.example/"))).await.unwrap();
            assert_eq!(text(over_h2).await, expected);
        }
    }
}

#[tokio::test]
async fn each_weight_generation_has_its_own_counters() {
    let (stable, canary) = versions().await;
    let mut rig = Rig::start(service(stable.address, canary.address));
    rig.get("").await;
    rig.publish(|service| weigh(service, 1_000_000));
    rig.get("").await;
    rig.get("").await;
    let counted = |version: &str, generation: u64| {
        let of = rig.hub.slots().into_iter();
        let of =
            of.filter(|slot| slot.key().version.as_str() == version && slot.key().weight_generation.0 == generation);
        of.map(|slot| slot.code_total(0, code_cell(200))).sum::<u64>()
    };
    eventually("recorded", || counted("v2", 2) == 2).await;
    assert_eq!((counted("v1", 0), counted("v1", 2), counted("v2", 0)), (1, 0, 0));
}

#[tokio::test]
async fn endpoints_take_turns() {
    let (one, two) = versions().await;
    let mut both = service(one.address, one.address);
    let second = Endpoint::tcp(two.address.ip().to_string(), two.address.port());
    both.versions[0].endpoints.push(second);
    both.versions[0].upstream = Arc::new(UpstreamPlan { balancing: Balancing::RoundRobin, ..UpstreamPlan::default() });
    let rig = Rig::start(both);
    let mut client = rig.h1().await;
    for nth in 0..10 {
        client.ready().await.unwrap();
        let answer = text(soon(client.send_request(request("/"))).await.unwrap()).await;
        assert_eq!(answer, if nth % 2 == 0 { "v1" } else { "v2" });
    }
}

#[tokio::test]
async fn the_force_header_decides_and_is_no_evidence() {
    let (stable, canary) = versions().await;
    let mut forced = service(stable.address, canary.address);
    forced.force = Some(ForceRule::by_header(HeaderName::from_static("x-canary")));
    let mut rig = Rig::start(forced);
    for (value, expected) in [("always", "v2"), ("never", "v1"), ("v2", "v2"), ("v1", "v1"), ("maybe", "v1")] {
        let answer = rig.get(&format!("X-Canary: {value}\r\n")).await;
        assert!(answer.ends_with(expected), "{value}: {answer}");
    }
    rig.ended("v2", &[(Ending::Answered, 2)]).await;
    let forced = Reason::ALL.iter().position(|&reason| reason == Reason::Forced).unwrap();
    let by_reason = |reason| rig.hub.slots().iter().map(|slot| slot.code_total(reason, code_cell(200))).sum::<u64>();
    assert_eq!((by_reason(forced), by_reason(0)), (4, 1));
    rig.publish(abort);
    for value in ["always", "never", "v2", "v1"] {
        assert!(rig.get(&format!("x-canary: {value}\r\n")).await.ends_with("v1"), "{value} after the abort");
    }
}

#[tokio::test]
async fn a_cookie_keeps_clients_where_they_are_and_moves_only_those_who_must() {
    let (stable, canary) = versions().await;
    let mut sticky = service(stable.address, canary.address);
    let key = BucketKey::of(&ServiceName::new("web").unwrap(), &VersionName::new("v2").unwrap(), "r1");
    sticky.sticky = Some(StickyRule { by: StickyBy::Cookie("serin".to_owned()), ttl: None, key });
    weigh(&mut sticky, 100_000);
    let mut rig = Rig::start(sticky);
    let mut client = rig.h1().await;

    let mut clients = BTreeMap::new();
    for _ in 0..300 {
        client.ready().await.unwrap();
        let response = soon(client.send_request(request("/"))).await.unwrap();
        let cookie = response.headers()["set-cookie"].to_str().unwrap().to_owned();
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Lax");
        assert_eq!(pair.len(), "serin=".len() + 16);
        clients.insert(pair.to_owned(), text(response).await);
    }
    assert_eq!(clients.len(), 300, "everyone has an id of their own");

    let mut before = clients;
    for (ppm, may_move_to) in [(100_000, None), (200_000, Some("v2")), (50_000, Some("v1")), (0, Some("v1"))] {
        rig.publish(|service| if ppm == 0 { abort(service) } else { weigh(service, ppm) });
        let mut now = BTreeMap::new();
        for (pair, version_before) in &before {
            let again = Request::get("/").header("host", "a").header("cookie", format!("x=y; {pair}"));
            client.ready().await.unwrap();
            let response = soon(client.send_request(again.body(full("")).unwrap())).await.unwrap();
            assert!(!response.headers().contains_key("set-cookie"), "known clients get no new id");
            let version = text(response).await;
            assert!(
                version == *version_before || may_move_to == Some(&version),
                "{ppm}: {version_before} to {version}"
            );
            now.insert(pair.clone(), version);
        }
        let on_canary = now.values().filter(|version| *version == "v2").count();
        // Six standard deviations of 300 independent clients at 20 % are 42.
        let expected = 300 * usize::try_from(ppm).unwrap() / 1_000_000;
        assert!(on_canary.abs_diff(expected) <= 42 && (ppm > 0 || on_canary == 0), "{ppm}: {on_canary}");
        before = now;
    }
}

#[tokio::test]
async fn a_withdrawal_under_load_holds_from_the_next_request_on() {
    let (stable, canary) = versions().await;
    let mut half = service(stable.address, canary.address);
    weigh(&mut half, 500_000);
    let mut rig = Rig::start(half);
    let published = Arc::new(AtomicBool::new(false));
    let mut clients = Vec::new();
    for number in 0..8 {
        let published = Arc::clone(&published);
        let (mut h1, mut h2) = (rig.h1().await, rig.h2().await);
        clients.push(tokio::spawn(async move {
            let mut after = Vec::new();
            for nth in 0.. {
                let id = format!("{number}-{nth}");
                // Read before the request is sent: what is sent after the publication must not reach the canary.
                if published.load(SeqCst) {
                    after.push(id.clone());
                }
                let request = Request::get("http://t.example/").header("host", "t.example").header("x-id", &id);
                let request = request.body(full("")).unwrap();
                let answered = if nth % 2 == 0 {
                    h1.ready().await.unwrap();
                    h1.send_request(request).await
                } else {
                    h2.send_request(request).await
                };
                assert_eq!(answered.unwrap().status(), 200);
                if after.len() == 50 {
                    break;
                }
            }
            after
        }));
    }
    eventually("the canary is in use", || canary.requests() > 100).await;
    rig.publish(abort);
    published.store(true, SeqCst);
    for client in clients {
        for id in soon(client).await.unwrap() {
            assert!(!canary.has_seen(&id), "{id} reached the canary after the abort was published");
            assert!(stable.has_seen(&id));
        }
    }
}

/// Whether this process waits for a handshake with that port (Linux: state 02 in `/proc/net/tcp` is SYN_SENT).
#[cfg(target_os = "linux")]
fn is_connecting_to(port: u16) -> bool {
    let sockets = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let remote = format!("0100007F:{port:04X} 02");
    sockets.lines().any(|line| line.contains(&remote))
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_request_that_waited_for_a_connection_looks_again_before_it_is_sent() {
    use socket2::{Domain, Socket, Type};
    use tokio::io::AsyncReadExt;

    // A canary whose queue of connections is full, so that the next one waits.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(0).unwrap();
    socket.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(socket.into()).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(Ok(stream)) =
        tokio::time::timeout(std::time::Duration::from_millis(100), tokio::net::TcpStream::connect(address)).await
    {
        queued.push(stream);
    }

    let stable = Named::start("v1").await;
    // One client gives up while it waits, and is seen to have waited.
    let mut all = service(stable.address, address);
    weigh(&mut all, 1_000_000);
    let mut rig = Rig::start(all);
    let mut client = rig.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\nhost: t.example\r\n\r\n").await.unwrap();
    eventually("the proxy waits for the canary's handshake", || is_connecting_to(address.port())).await;
    drop(client);
    rig.ended("v2", &[(Ending::ClientGone, 1)]).await;
    eventually("that handshake is given up", || !is_connecting_to(address.port())).await;

    let mut client = rig.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\nhost: t.example\r\n\r\n").await.unwrap();
    eventually("the proxy waits again", || is_connecting_to(address.port())).await;
    rig.publish(abort);
    // Now the canary takes what waits. The proxy's own connection is the one after those of the queue.
    let mut after_queue = None;
    let local: Vec<_> = queued.iter().map(|stream| stream.local_addr().unwrap()).collect();
    while after_queue.is_none() {
        let (stream, peer) = soon(listener.accept()).await.unwrap();
        after_queue = Some(stream).filter(|_| !local.contains(&peer));
    }
    assert_eq!(status_of(&read_until(&mut client, "v1").await), 200, "stable answered");
    let mut bytes = Vec::new();
    soon(after_queue.unwrap().read_to_end(&mut bytes)).await.unwrap();
    assert!(bytes.is_empty(), "the canary got {:?}", String::from_utf8_lossy(&bytes));
    rig.ended("v2", &[(Ending::ClientGone, 1)]).await;
}

#[tokio::test]
async fn a_dead_canary_that_may_fail_costs_only_its_own_share() {
    let stable = Named::start("v1").await;
    let mut half = service(stable.address, nobody());
    weigh(&mut half, 500_000);
    half.failure.dead_canary = serin::engine::failure::DeadCanary::Fail;
    let rig = Rig::start(half);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..100 {
        match status_of(&rig.get("").await) {
            200 => good += 1,
            502 => bad += 1,
            other => panic!("{other}"),
        }
    }
    assert!(good > 0 && bad > 0);
    rig.ended("v1", &[(Ending::Answered, good)]).await;
    rig.ended("v2", &[(Ending::ConnectFailed, bad)]).await;
}

#[tokio::test]
async fn latency_runs_from_the_request_written_to_the_response_head() {
    // An answer whose body takes long after a quick head, and a request body that takes long before it.
    const SLOW: std::time::Duration = std::time::Duration::from_millis(400);
    let upstream = scripted(|_, mut stream| async move {
        read_until(&mut stream, "\r\n\r\nbody").await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").await.unwrap();
        // why: the slowness that must not be counted.
        tokio::time::sleep(SLOW).await;
        stream.write_all(b"ok").await.unwrap();
    })
    .await;
    let rig = Rig::to(upstream);
    let mut client = rig.connect().await;
    client.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nbo").await.unwrap();
    // why: the slowness that must not be counted.
    tokio::time::sleep(SLOW).await;
    client.write_all(b"dy").await.unwrap();
    let answer = read_until(&mut client, "\r\n\r\nok").await;
    assert_eq!(values(&answer, "content-length"), ["2"]);
    rig.ended("v1", &[(Ending::Answered, 1)]).await;
    let slow_bucket = serin::engine::stats::latency::bucket_of(SLOW);
    let slots = rig.hub.slots();
    let within = |buckets: std::ops::Range<usize>| {
        buckets.map(|bucket| slots.iter().map(|slot| slot.latency_total(bucket)).sum::<u64>()).sum::<u64>()
    };
    assert_eq!((within(0..slow_bucket), within(slow_bucket..serin::engine::stats::latency::BUCKETS)), (1, 0));
}
