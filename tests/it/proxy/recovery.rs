//! What is done about a version's failure: stable answers in the canary's place, the same version is asked again, and in
//! every case the attempt is charged to the version that made it.

use http_body_util::BodyExt;
use serin::{
    engine::{
        assign::ForceRule,
        failure::{DeadCanary, Rescue, Retry, StatusSet},
        split::Reason,
        table::ServiceTable,
    },
    measure::slot::{Ending, code_cell},
};
use tokio::io::AsyncWriteExt;

use super::rig::{
    Named, Rig, answering, eventually, full, nobody, read_head, read_until, request, rest, scripted, service, serving,
    soon, status_of, text, values, weigh,
};

/// All requests to the canary, which is rescued.
fn rescued(stable: std::net::SocketAddr, canary: std::net::SocketAddr) -> ServiceTable {
    let mut service = service(stable, canary);
    weigh(&mut service, 1_000_000);
    service.failure.rescue = Some(Rescue::default());
    service
}

fn rescues(rig: &Rig) -> u64 {
    rig.hub.slots().iter().map(|slot| slot.rescued_total()).sum()
}

fn fallbacks(rig: &Rig) -> u64 {
    rig.hub.slots().iter().map(|slot| slot.fell_back_total()).sum()
}

/// Requests routed to a version whose clients saw this status.
fn seen(rig: &Rig, version: &str, status: u16) -> u64 {
    let slots = rig.hub.slots();
    let of = slots.iter().filter(|slot| slot.key().version.as_str() == version);
    of.map(|slot| (0..Reason::ALL.len()).map(|reason| slot.code_total(reason, code_cell(status))).sum::<u64>()).sum()
}

/// Evidence about a version: requests and errors.
fn evidence(rig: &Rig, version: &str) -> (u64, u64) {
    let slots = rig.hub.slots();
    let of = slots.iter().filter(|slot| slot.key().version.as_str() == version);
    let totals = of.flat_map(|slot| slot.evidence_totals());
    totals.fold((0, 0), |sum, (requests, errors)| (sum.0 + requests, sum.1 + errors))
}

#[tokio::test]
async fn what_the_canary_fails_stable_answers_and_the_canary_is_charged() {
    let stable = Named::start("stable").await;
    let silent = scripted(|_, mut stream| async move { drop(rest(&mut stream).await) }).await;
    let closing = scripted(|_, mut stream| async move { drop(read_head(&mut stream).await) }).await;
    for (canary, ending) in [
        (answering("HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy").await, Ending::ErrorStatus),
        (answering("HTTP/1.1 500 Oops\r\n\r\nendless until the connection ends").await, Ending::ErrorStatus),
        (answering("HTTP/1.1 200 OK\r\ncontent-").await, Ending::Reset),
        (answering("nonsense\r\n\r\n").await, Ending::Malformed),
        (closing, Ending::Reset),
        (silent, Ending::TimedOut),
    ] {
        let mut service = rescued(stable.address, canary);
        service.timeouts.attempt = std::time::Duration::from_millis(200);
        let rig = Rig::start(service);
        let answer = rig.get("").await;
        assert!(status_of(&answer) == 200 && answer.ends_with("stable"), "{ending:?}: {answer}");
        assert!(values(&answer, "serin-error").is_empty());
        rig.ended("v2", &[(ending, 1)]).await;
        rig.ended("v1", &[(Ending::Answered, 1)]).await;
        assert_eq!((evidence(&rig, "v2"), evidence(&rig, "v1")), ((1, 1), (0, 0)), "{ending:?}");
        assert_eq!((seen(&rig, "v2", 200), rescues(&rig), fallbacks(&rig)), (1, 1, 0), "{ending:?}");
    }
}

#[tokio::test]
async fn a_request_that_may_have_been_carried_out_is_not_rescued() {
    let stable = Named::start("stable").await;
    let canary = answering("HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy").await;
    let rig = Rig::start(rescued(stable.address, canary));
    for post in [
        "POST / HTTP/1.1\r\nhost: t.example\r\nconnection: close\r\ncontent-length: 4\r\n\r\nbody",
        "POST / HTTP/1.1\r\nhost: t.example\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
    ] {
        let answer = rig.exchange(post).await;
        assert!(status_of(&answer) == 503 && answer.ends_with("busy"), "{answer}");
    }
    rig.ended("v2", &[(Ending::ErrorStatus, 2)]).await;
    assert_eq!((stable.requests(), rescues(&rig)), (0, 0));
}

#[tokio::test]
async fn a_body_is_sent_again_if_it_is_small_and_the_failure_is_passed_on_if_it_is_not() {
    let stable = serving(|request| async move { http::Response::new(full(text_of(request).await)) }).await;
    let canary = serving(|request| async move {
        text_of(request).await;
        http::Response::builder().status(500).body(full("no")).unwrap()
    })
    .await;
    let mut service = rescued(stable, canary);
    let methods = serin::engine::failure::Methods::default().with(serin::engine::failure::IdempotentMethod::Put);
    service.failure.rescue = Some(Rescue { methods, ..Rescue::default() });
    let rig = Rig::start(service);
    for (bytes, status) in [(5, 200), (64 * 1024, 200), (64 * 1024 + 1, 500), (1 << 20, 500)] {
        let body = "x".repeat(bytes);
        for framing in [
            format!("content-length: {bytes}\r\n\r\n{body}"),
            format!("transfer-encoding: chunked\r\n\r\n{bytes:x}\r\n{body}\r\n0\r\n\r\n"),
        ] {
            let answer =
                rig.exchange(&format!("PUT / HTTP/1.1\r\nhost: t.example\r\nconnection: close\r\n{framing}")).await;
            assert_eq!(status_of(&answer), status, "{bytes}");
            assert!(status == 500 || answer.ends_with(&format!("\r\n\r\n{body}")), "{bytes} came through whole");
        }
    }
}

async fn text_of(request: http::Request<hyper::body::Incoming>) -> String {
    text(http::Response::new(request.into_body())).await
}

#[tokio::test]
async fn stable_answers_for_a_dead_canary_whatever_the_method_and_the_canary_is_charged() {
    let stable = serving(|request| async move { http::Response::new(full(text_of(request).await)) }).await;
    let mut table = service(stable, nobody());
    weigh(&mut table, 1_000_000);
    let mut rig = Rig::start(table);
    for method in ["GET", "POST"] {
        let request =
            format!("{method} / HTTP/1.1\r\nhost: t.example\r\nconnection: close\r\ncontent-length: 4\r\n\r\nbody");
        assert!(rig.exchange(&request).await.ends_with("\r\n\r\nbody"), "{method}");
    }
    rig.ended("v2", &[(Ending::ConnectFailed, 2)]).await;
    assert_eq!((evidence(&rig, "v2"), seen(&rig, "v2", 200)), ((2, 2), 2));
    assert_eq!((fallbacks(&rig), rescues(&rig)), (2, 0));

    rig.publish(|service| service.failure.dead_canary = DeadCanary::Fail);
    let answer = rig.get("").await;
    assert_eq!((status_of(&answer), values(&answer, "serin-error")), (502, vec!["connect_failed"]));
    assert_eq!(fallbacks(&rig), 2);
}

#[tokio::test]
async fn nobody_stands_in_for_stable() {
    let canary = Named::start("canary").await;
    let mut table = service(nobody(), canary.address);
    table.failure.rescue = Some(Rescue::default());
    let rig = Rig::start(table);
    assert_eq!(status_of(&rig.get("").await), 502);
    assert_eq!(canary.requests(), 0);
}

#[tokio::test]
async fn a_failed_rescue_is_the_clients_failure_and_counts_against_each_as_it_was() {
    let canary = answering("HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy").await;
    let rig = Rig::start(rescued(nobody(), canary));
    let answer = rig.get("").await;
    assert_eq!((status_of(&answer), values(&answer, "serin-error")), (502, vec!["connect_failed"]));
    rig.ended("v2", &[(Ending::ErrorStatus, 1)]).await;
    rig.ended("v1", &[(Ending::ConnectFailed, 1)]).await;
    assert_eq!((seen(&rig, "v2", 502), evidence(&rig, "v1")), (1, (0, 0)));
}

/// Fails so many requests with 503 before each answer.
async fn failing_first(failures: usize) -> std::net::SocketAddr {
    let seen = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    serving(move |_| {
        let nth = seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async move {
            let status = if nth % (failures + 1) < failures { 503 } else { 200 };
            http::Response::builder().status(status).body(full("answer")).unwrap()
        }
    })
    .await
}

#[tokio::test]
async fn a_status_is_tried_again_so_often_and_no_more() {
    for (failures, status) in [(2, 200), (3, 503)] {
        let upstream = failing_first(failures).await;
        let mut table = service(upstream, upstream);
        table.retry = Retry { retries: 2, statuses: StatusSet::EMPTY.with(503, 503), ..Retry::default() };
        let rig = Rig::start(table);
        assert_eq!(status_of(&rig.get("").await), status, "after {failures} failures");
        let answered = u64::from(status == 200);
        rig.ended("v1", &[(Ending::ErrorStatus, 3 - answered), (Ending::Answered, answered)]).await;
        assert_eq!(evidence(&rig, "v1"), (1, 1), "the first attempt is what the version is judged by");
        assert_eq!(seen(&rig, "v1", status), 1);
    }
}

#[tokio::test]
async fn retries_of_a_version_that_fails_everything_stay_within_their_budget() {
    let upstream = answering("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n").await;
    let mut table = service(upstream, upstream);
    table.retry = Retry { retries: 3, statuses: StatusSet::EMPTY.with(500, 599), ..Retry::default() };
    let rig = Rig::start(table);
    for _ in 0..200 {
        assert_eq!(status_of(&rig.get("").await), 503);
    }
    let attempts = rig.endings("v1", Ending::ErrorStatus);
    // A second on each of two workers always has ten; how many seconds this takes is the machine's affair.
    assert!(attempts < 200 * 3, "{attempts} attempts for 200 requests, of which each asked for 4");
}

#[tokio::test]
async fn an_attempt_that_takes_too_long_is_followed_by_another_if_that_is_wanted() {
    let upstream = scripted(|nth, mut stream| async move {
        read_head(&mut stream).await;
        if nth > 0 {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        }
        rest(&mut stream).await;
    })
    .await;
    let mut table = service(upstream, upstream);
    table.timeouts.attempt = std::time::Duration::from_millis(200);
    let conditions = serin::engine::failure::Conditions::default().with(serin::engine::failure::Condition::Timeout);
    table.retry = Retry { conditions, ..Retry::default() };
    let rig = Rig::start(table);
    assert!(rig.get("").await.ends_with("ok"));
    rig.ended("v1", &[(Ending::TimedOut, 1), (Ending::Answered, 1)]).await;
}

/// Answers once on each connection and closes it when the next request has come.
async fn closing_late() -> std::net::SocketAddr {
    scripted(|_, mut stream| async move {
        read_head(&mut stream).await;
        read_until(&mut stream, "body").await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        read_head(&mut stream).await;
    })
    .await
}

#[tokio::test]
async fn a_put_on_a_stale_connection_is_sent_again_with_its_body_and_nobody_notices() {
    let rig = Rig::to(closing_late().await);
    let put = b"PUT / HTTP/1.1\r\nhost: t.example\r\ncontent-length: 4\r\n\r\nbody";
    let mut client = rig.connect().await;
    for _ in 0..6 {
        client.write_all(put).await.unwrap();
        assert_eq!(status_of(&read_until(&mut client, "ok").await), 200);
    }
    rig.ended("v1", &[(Ending::Answered, 6)]).await;
}

#[tokio::test]
async fn a_client_that_leaves_during_a_rescue_is_no_further_evidence() {
    let stable = scripted(|_, mut stream| async move { drop(rest(&mut stream).await) }).await;
    let canary = answering("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n").await;
    let rig = Rig::start(rescued(stable, canary));
    let mut client = rig.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\nhost: t.example\r\n\r\n").await.unwrap();
    eventually("the rescue", || rescues(&rig) == 1).await;
    drop(client);
    rig.ended("v1", &[(Ending::ClientGone, 1)]).await;
    assert_eq!((evidence(&rig, "v2"), evidence(&rig, "v1")), ((1, 1), (0, 0)));
}

#[tokio::test]
async fn shares_and_charges_stay_right_while_everything_happens_at_once() {
    const REQUESTS: u32 = 2_000;
    let stable = Named::start("stable").await;
    let canary = failing_first(1).await;
    let mut table = rescued(stable.address, canary);
    weigh(&mut table, 300_000);
    table.force = Some(ForceRule::by_header(http::HeaderName::from_static("x-canary")));
    table.retry = Retry { statuses: StatusSet::EMPTY.with(503, 503), ..Retry::default() };
    let rig = Rig::start(table);
    let mut client = rig.h1().await;
    for nth in 0..REQUESTS {
        let mut asked = request("/");
        if nth % 10 == 0 {
            asked.headers_mut().insert("x-canary", "always".parse().unwrap());
        }
        let answer = soon(client.send_request(asked)).await.unwrap();
        assert_eq!(answer.status(), 200, "request {nth}");
        text(answer).await;
    }
    let sampled = f64::from(REQUESTS) * 0.9;
    let (requests, errors) = evidence(&rig, "v2");
    assert_eq!(
        requests + evidence(&rig, "v1").0,
        u64::from(REQUESTS) * 9 / 10,
        "each sampled request is evidence once"
    );
    assert_eq!(evidence(&rig, "v1").1, 0);
    // Five standard deviations: by chance once in two million runs.
    let (mean, deviation) = (sampled * 0.3, (sampled * 0.3 * 0.7).sqrt());
    assert!(
        (f64::from(u32::try_from(requests).unwrap()) - mean).abs() < 5.0 * deviation,
        "{requests} of {sampled} at 30 %"
    );
    let failed = rig.endings("v2", Ending::ErrorStatus);
    assert!(errors <= failed && errors > 0, "{errors} charged, {failed} failed");
    assert_eq!(seen(&rig, "v1", 200) + seen(&rig, "v2", 200), u64::from(REQUESTS), "each client saw one answer");
    assert_eq!(rig.endings("v1", Ending::Answered), seen(&rig, "v1", 200) + rescues(&rig), "and each attempt is there");
}

#[tokio::test]
async fn a_grpc_failure_is_charged_wherever_the_call_says_so() {
    let upstream = serving(|request| async move {
        let status = request.headers().get("x-status").unwrap().clone();
        let answer = http::Response::builder().header("content-type", "application/grpc");
        if request.headers().contains_key("x-at-once") {
            return answer.header("grpc-status", status).body(full("")).unwrap();
        }
        let trailers = http::HeaderMap::from_iter([(http::HeaderName::from_static("grpc-status"), status)]);
        answer.body(full("message").with_trailers(async move { Some(Ok(trailers)) }).boxed()).unwrap()
    })
    .await;
    let mut table = service(upstream, upstream);
    table.versions[0].http = serin::engine::endpoint::UpstreamHttp::H2;
    let rig = Rig::start(table);
    let mut client = rig.h2().await;
    for (status, at_once) in [("0", false), ("5", false), ("14", false), ("0", true), ("13", true), ("garbage", true)] {
        let mut call = request("http://t.example/");
        call.headers_mut().insert("x-status", status.parse().unwrap());
        if at_once {
            call.headers_mut().insert("x-at-once", "1".parse().unwrap());
        }
        let answer = soon(client.send_request(call)).await.unwrap();
        assert_eq!(answer.status(), 200);
        text(answer).await;
    }
    rig.ended("v1", &[(Ending::Answered, 3), (Ending::ErrorStatus, 3)]).await;
}
