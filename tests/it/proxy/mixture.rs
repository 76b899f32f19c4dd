//! All ways to a version at once, since that is where one of them spoils another: requests that are drawn, sticky, forced,
//! mirrored and rescued, over both versions of HTTP. Each answer is that of its own request, and each count is right.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use hyper::{Request, Response, header::HeaderName};
use serin::{
    engine::{
        assign::ForceRule,
        failure::Rescue,
        mirror::MirrorRoute,
        names::{ServiceName, VersionName},
        request::RequestMatch,
        split::Reason,
        sticky::{BucketKey, StickyBy, StickyRule},
        weight::Weight,
    },
    measure::{copies::CopyTotals, slot::code_cell},
};

use super::rig::{Rig, eventually, full, service, serving, soon, text, weigh};

const REQUESTS: u64 = 2_400;
const CLIENTS: u64 = 8;
/// Parts per million of the canary, and of the copies.
const CANARY: u32 = 300_000;
const COPIED: u32 = 500_000;

/// The tokens that a version got, of requests and of copies, and those that it failed.
#[derive(Default)]
struct Seen {
    requests: BTreeSet<u64>,
    copies: BTreeSet<u64>,
    failed: BTreeSet<u64>,
}

/// An upstream that answers with its name and the request's token. A canary fails each seventh token, copy or not.
async fn version(name: &'static str) -> (SocketAddr, Arc<Mutex<Seen>>) {
    let seen = Arc::<Mutex<Seen>>::default();
    let keeps = Arc::clone(&seen);
    let address = serving(move |request| {
        let token: u64 = request.headers()["x-token"].to_str().unwrap().parse().unwrap();
        let is_copy = request.headers().contains_key("serin-mirror");
        let fails = name == "v2" && token.is_multiple_of(7);
        let mut seen = keeps.lock().unwrap();
        let is_new = if is_copy { seen.copies.insert(token) } else { seen.requests.insert(token) };
        assert!(is_new, "{name} got {token} twice");
        if fails && !is_copy {
            seen.failed.insert(token);
        }
        async move {
            let status = if fails { 503 } else { 200 };
            Response::builder().status(status).body(full(format!("{name} {token}"))).unwrap()
        }
    })
    .await;
    (address, seen)
}

/// How a request of this number is to be assigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Sampled,
    Sticky(u64),
    Forced,
}

fn kind(token: u64) -> Kind {
    match token % 10 {
        0..6 => Kind::Sampled,
        6..9 => Kind::Sticky(token % 101),
        _ => Kind::Forced,
    }
}

fn asks(token: u64) -> Request<super::rig::Body> {
    let request = Request::get("http://t.example/").header("host", "t.example").header("x-token", token);
    let request = match kind(token) {
        Kind::Sampled => request,
        Kind::Sticky(user) => request.header("x-user", format!("user-{user}")),
        Kind::Forced => request.header("x-canary", if token.is_multiple_of(4) { "always" } else { "never" }),
    };
    request.body(full("")).unwrap()
}

/// Sends every so many-th request, each once the one before is answered; the versions that answered, by token.
async fn client(rig: &Rig, number: u64) -> BTreeMap<u64, String> {
    let (mut h1, mut h2) = (rig.h1().await, rig.h2().await);
    let mut answers = BTreeMap::new();
    for token in (number..REQUESTS).step_by(usize::try_from(CLIENTS).unwrap()) {
        let answer = if number.is_multiple_of(2) {
            h1.ready().await.unwrap();
            soon(h1.send_request(asks(token))).await.unwrap()
        } else {
            soon(h2.send_request(asks(token))).await.unwrap()
        };
        assert_eq!(answer.status(), 200, "{token}: whoever failed, the client has an answer");
        let said = text(answer).await;
        let (version, of) = said.split_once(' ').unwrap();
        assert_eq!(of, token.to_string(), "the answer to another request");
        answers.insert(token, version.to_owned());
    }
    answers
}

#[tokio::test]
async fn shares_answers_and_charges_stay_right_with_copies_rescues_cookies_and_force_at_once() {
    let ((stable, by_stable), (canary, by_canary)) = (version("v1").await, version("v2").await);
    let mut table = service(stable, canary);
    weigh(&mut table, CANARY);
    table.force = Some(ForceRule::by_header(HeaderName::from_static("x-canary")));
    let key = BucketKey::of(&ServiceName::new("web").unwrap(), &VersionName::new("v2").unwrap(), "r1");
    table.sticky = Some(StickyRule { by: StickyBy::Header(HeaderName::from_static("x-user")), ttl: None, key });
    table.failure.rescue = Some(Rescue::default());
    let share = Weight::from_ppm(COPIED).unwrap();
    table.mirror_routes = vec![MirrorRoute { name: "shadow".into(), share, matches: vec![RequestMatch::default()] }];
    let rig = Rig::start(table);
    let clients = (0..CLIENTS).map(|number| client(&rig, number));
    let answers: BTreeMap<u64, String> = futures_util::future::join_all(clients).await.into_iter().flatten().collect();
    assert_eq!(answers.len() as u64, REQUESTS);
    let all = || by_canary.lock().unwrap().copies.len() as u64;
    eventually("all copies have ended", || copies(&rig).ends[0] == all()).await;

    let (by_stable, by_canary) = (by_stable.lock().unwrap(), by_canary.lock().unwrap());
    let routed = |token: u64| if by_canary.requests.contains(&token) { "v2" } else { "v1" };
    // Each went where it was told to go, and who is sticky always to the same version.
    let mut users = BTreeMap::new();
    for token in 0..REQUESTS {
        match kind(token) {
            Kind::Forced => assert_eq!(routed(token), if token.is_multiple_of(4) { "v2" } else { "v1" }, "{token}"),
            Kind::Sticky(user) => assert_eq!(*users.entry(user).or_insert(routed(token)), routed(token), "user {user}"),
            Kind::Sampled => {}
        }
        let is_rescued = by_canary.failed.contains(&token);
        assert_eq!(answers[&token], if is_rescued { "v1" } else { routed(token) }, "{token}");
        assert_eq!(by_stable.requests.contains(&token), is_rescued || routed(token) == "v1", "{token}");
    }
    // Copies are of what was routed to stable, and stable got none.
    assert!(by_canary.copies.iter().all(|token| routed(*token) == "v1") && by_stable.copies.is_empty());
    let to_stable = (0..REQUESTS).filter(|token| routed(*token) == "v1").count();
    within_four_deviations(by_canary.copies.len(), to_stable, COPIED, "copies of what stable serves");
    evidence_is_right(&rig, &by_canary);
    let sampled = || (0..REQUESTS).filter(|token| kind(*token) == Kind::Sampled);
    let on_canary = sampled().filter(|token| routed(*token) == "v2").count();
    within_four_deviations(on_canary, sampled().count(), CANARY, "sampled requests on the canary");
    metrics_are_right(&rig, &by_canary);
}

fn copies(rig: &Rig) -> CopyTotals {
    let mut all = CopyTotals::default();
    rig.hub.slots().iter().for_each(|slot| all += slot.copy_totals());
    all
}

/// Each request that was drawn or sticky once, under the version that it was routed to, and nothing else.
fn evidence_is_right(rig: &Rig, by_canary: &Seen) {
    let slots = rig.hub.slots();
    let is_sampled: fn(Kind) -> bool = |kind| kind == Kind::Sampled;
    let is_sticky: fn(Kind) -> bool = |kind| matches!(kind, Kind::Sticky(_));
    for (at, is_kind) in [is_sampled, is_sticky].into_iter().enumerate() {
        for version in ["v1", "v2"] {
            let of_version = slots.iter().filter(|slot| slot.key().version.as_str() == version);
            let totals = of_version.map(|slot| slot.evidence_totals()[at]);
            let counted = totals.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            let is_here = |token: &u64| by_canary.requests.contains(token) == (version == "v2");
            let tokens = || (0..REQUESTS).filter(|token| is_kind(kind(*token)) && is_here(token));
            let failed = tokens().filter(|token| by_canary.failed.contains(token)).count();
            assert_eq!(counted, (tokens().count() as u64, failed as u64), "{version}, {at}");
        }
    }
}

/// By reason and status.
fn metrics_are_right(rig: &Rig, by_canary: &Seen) {
    let slots = rig.hub.slots();
    let seen = |reason: Reason, status| {
        slots.iter().map(|slot| slot.code_total(reason as usize, code_cell(status))).sum::<u64>()
    };
    let failing = by_canary.copies.iter().filter(|token| token.is_multiple_of(7)).count() as u64;
    let good = by_canary.copies.len() as u64 - failing;
    assert_eq!((seen(Reason::Mirror, 503), seen(Reason::Mirror, 200)), (failing, good));
    assert_eq!((copies(rig).same, copies(rig).other), (good, failing));
    let by_client: u64 = [Reason::Sampled, Reason::Sticky, Reason::Forced].map(|reason| seen(reason, 200)).iter().sum();
    assert_eq!(by_client, REQUESTS, "each client saw one answer, and a good one");
    let rescued: u64 = slots.iter().map(|slot| slot.rescued_total()).sum();
    assert_eq!(rescued, by_canary.failed.len() as u64);
}

/// Chance alone misses it once in sixteen thousand runs.
fn within_four_deviations(hits: usize, of: usize, ppm: u32, what: &str) {
    let share = f64::from(ppm) / 1e6;
    let number = |count: usize| f64::from(u32::try_from(count).unwrap());
    let (mean, deviation) = (number(of) * share, (number(of) * share * (1.0 - share)).sqrt());
    assert!((number(hits) - mean).abs() <= 4.0 * deviation, "{hits} of {of} {what}: {mean} +- {deviation}");
}
