//! Copies of requests: which requests have one, what is in it, and that nobody who waits for an answer ever notices.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use http_body_util::BodyExt;
use hyper::{Method, Request, Response, header::HeaderValue};
use serin::{
    engine::{
        address::Address,
        assign::ForceRule,
        endpoint::UpstreamHttp,
        explain::{Outcome, explain},
        filter::Scheme,
        mirror::MirrorRoute,
        request::{RequestMatch, RequestView, StringMatch},
        split::Reason,
        table::ServiceTable,
        weight::Weight,
    },
    measure::{
        FastPathOutcome,
        copies::{CopyEnd, CopyTotals},
        slot::Ending,
    },
};
use tokio::io::AsyncWriteExt;

use super::rig::{
    Named, Rig, abort, answering, eventually, full, nobody, read_head, read_until, request, rest, scripted, service,
    serving, soon, status_of, text, weigh,
};

/// What a copy was, as its target got it.
#[derive(Debug, Clone)]
struct Got {
    method: Method,
    target: String,
    headers: hyper::HeaderMap,
    body: usize,
    trailers: Option<hyper::HeaderMap>,
}

/// An upstream that answers with a status and keeps what it got.
struct Keeper {
    address: SocketAddr,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Keeper {
    async fn start(status: u16) -> Self {
        let got = Arc::<Mutex<Vec<Got>>>::default();
        let kept = Arc::clone(&got);
        let address = serving(move |request| {
            let kept = Arc::clone(&kept);
            async move {
                let (head, body) = request.into_parts();
                let Ok(body) = body.collect().await else { return Response::new(full("broken")) };
                let one = Got {
                    method: head.method,
                    target: head.uri.path_and_query().unwrap().to_string(),
                    headers: head.headers,
                    trailers: body.trailers().cloned(),
                    body: body.to_bytes().len(),
                };
                kept.lock().unwrap().push(one);
                let mut answer = Response::new(full("kept"));
                *answer.status_mut() = status.try_into().unwrap();
                answer
            }
        })
        .await;
        Self { address, got }
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }
}

/// A file whose only route leads to `web`, with copies as `mirror` says to `audit`.
fn file(web: SocketAddr, audit: SocketAddr, filters: &str) -> String {
    format!(
        "services:
  web: {{ versions: {{ v1: 'http://{web}' }}, stable: v1 }}
  audit: {{ versions: {{ a1: 'http://{audit}' }}, stable: a1 }}
routes:
  - {{ name: shop, filters: {{ {filters} }}, service: web }}
"
    )
}

/// A service with a canary that gets copies of whatever is safe and goes to stable.
fn mirrored(stable: SocketAddr, canary: SocketAddr) -> ServiceTable {
    let mut service = service(stable, canary);
    service.mirror_routes = vec![route("shadow", Weight::FULL, RequestMatch::default())];
    service
}

fn route(name: &str, share: Weight, matches: RequestMatch) -> MirrorRoute {
    MirrorRoute { name: name.into(), share, matches: vec![matches] }
}

/// Conditions on the method alone.
fn method(name: &str) -> RequestMatch {
    RequestMatch { method: Some(StringMatch::Exact(name.to_owned())), ..RequestMatch::default() }
}

/// What became of the copies for a version.
fn copies(rig: &Rig, version: &str) -> CopyTotals {
    let mut all = CopyTotals::default();
    for slot in rig.hub.slots().iter().filter(|slot| slot.key().version.as_str() == version) {
        all += slot.copy_totals();
    }
    all
}

async fn copied(rig: &Rig, version: &str, end: CopyEnd, times: u64) {
    let now = || copies(rig, version).ends[end as usize];
    eventually(end.as_str(), || now() >= times).await;
    assert_eq!(now(), times, "{}: {:?}", end.as_str(), copies(rig, version));
}

/// Evidence about a version: requests and errors.
fn evidence(rig: &Rig, version: &str) -> (u64, u64) {
    let slots = rig.hub.slots();
    let totals =
        slots.iter().filter(|slot| slot.key().version.as_str() == version).flat_map(|slot| slot.evidence_totals());
    totals.fold((0, 0), |sum, (requests, errors)| (sum.0 + requests, sum.1 + errors))
}

/// Requests over one connection, each answered before the next one is sent.
async fn ask(rig: &Rig, times: usize) {
    let mut client = rig.h1().await;
    for _ in 0..times {
        client.ready().await.unwrap();
        let answer = soon(client.send_request(request("/"))).await.unwrap();
        assert_eq!(answer.status(), 200);
        text(answer).await;
    }
}

#[tokio::test]
async fn a_copy_has_the_same_path_the_changed_fields_and_a_mark() {
    let (web, audit) = (Keeper::start(200).await, Keeper::start(200).await);
    let filters = "requestHeaders: { set: { x-edge: serin }, remove: [x-debug] }, rewrite: { host: in.example, path: \
                   { full: /inside } }, mirror: { service: audit }";
    let rig = Rig::of(&file(web.address, audit.address, filters));
    let fields = "x-debug: 1\r\nx-id: 7\r\nconnection: close, x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=5\r\n\
                  x-forwarded-for: 6.6.6.6\r\ncookie: a=b\r\nauthorization: Basic x\r\nexpect: 100-continue\r\n";
    let answer = rig.exchange(&format!("GET /mirror?q=1 HTTP/1.1\r\nhost: t.example\r\n{fields}\r\n")).await;
    assert_eq!(status_of(&answer), 200);
    eventually("the copy came", || !audit.got().is_empty()).await;
    let (original, copy) = (web.got().remove(0), audit.got().remove(0));
    assert_eq!((copy.method, &*copy.target), (Method::GET, "/inside?q=1"));
    assert_eq!(copy.headers.get("serin-mirror"), Some(&HeaderValue::from_static("shop")));
    for (field, value) in
        [("host", "in.example"), ("x-edge", "serin"), ("x-forwarded-for", "127.0.0.1"), ("via", "1.1 serin")]
    {
        assert_eq!(copy.headers[field], value);
    }
    let mut as_the_original = copy.headers.clone();
    as_the_original.remove("serin-mirror");
    assert_eq!(as_the_original, original.headers, "the original is as ever, and so is the copy but for its mark");
    copied(&rig, "a1", CopyEnd::Answered, 1).await;
}

#[tokio::test]
async fn of_so_many_percent_there_is_a_copy_and_each_has_its_own_draw() {
    let (web, audit) = (Named::start("web").await, Named::start("audit").await);
    for (percent, share, times) in
        [("20", 0.2, 500_u32), ("50", 0.5, 500), ("35", 0.35, 500), ("0", 0.0, 20), ("100", 1.0, 20)]
    {
        let rig =
            Rig::of(&file(web.address, audit.address, &format!("mirror: {{ service: audit, percentage: {percent} }}")));
        let before = audit.requests();
        ask(&rig, usize::try_from(times).unwrap()).await;
        let sent = || copies(&rig, "a1").ends.iter().sum::<u64>();
        eventually("copies have ended", || sent() == u64::try_from(audit.requests() - before).unwrap()).await;
        let (mean, deviation) = (f64::from(times) * share, (f64::from(times) * share * (1.0 - share)).sqrt());
        let sent = f64::from(u32::try_from(sent()).unwrap());
        // Five standard deviations: all three miss by chance less than once in 500,000 runs.
        assert!((sent - mean).abs() <= 5.0 * deviation, "{sent} copies of {times} at {percent} %");
        assert_eq!(rig.hub.fast_path_total(FastPathOutcome::Served), 0, "which knows nothing of copies");
    }
}

#[tokio::test]
async fn a_target_that_fails_in_any_way_changes_no_answer_and_is_no_evidence() {
    let huge = scripted(|_, mut stream| async move {
        read_head(&mut stream).await;
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await);
        let piece = vec![b'x'; 64 * 1024];
        while stream.write_all(&piece).await.is_ok() {}
    })
    .await;
    let upgrading = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
    for (what, target, end, status) in [
        ("down", nobody(), CopyEnd::ConnectFailed, 0),
        (
            "closing",
            scripted(|_, mut stream| async move { drop(read_head(&mut stream).await) }).await,
            CopyEnd::Reset,
            0,
        ),
        ("cut short", answering("HTTP/1.1 200 OK\r\ncontent-").await, CopyEnd::Reset, 0),
        ("not HTTP", answering("SSH-2.0-OpenSSH_9.6\r\n\r\n").await, CopyEnd::Malformed, 0),
        ("switching", answering(upgrading).await, CopyEnd::Malformed, 0),
        ("failing", answering("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n").await, CopyEnd::Answered, 503),
        ("a lying body", answering("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nx").await, CopyEnd::Answered, 200),
        ("huge", huge, CopyEnd::Answered, 200),
    ] {
        let stable = Named::start("stable").await;
        let mut table = mirrored(stable.address, target);
        table.retry.retries = 3;
        let rig = Rig::start(table);
        ask(&rig, 5).await;
        let ended = || copies(&rig, "v2").ends.iter().sum::<u64>();
        eventually(what, || ended() == 5).await;
        assert_eq!(copies(&rig, "v2").ends[end as usize], 5, "{what}: {:?}", copies(&rig, "v2"));
        assert_eq!((evidence(&rig, "v1"), evidence(&rig, "v2")), ((5, 0), (0, 0)), "{what}");
        rig.ended("v1", &[(Ending::Answered, 5)]).await;
        rig.ended("v2", &[]).await;
        let seen = serin::measure::slot::code_cell(status);
        let by_mirror = rig.hub.slots().iter().map(|slot| slot.code_total(Reason::Mirror as usize, seen)).sum::<u64>();
        assert_eq!(by_mirror, 5, "{what}: by status, with a reason of their own");
    }
}

/// Nothing of a copy ends here, and each request is answered all the same, one after the other over one connection.
#[tokio::test]
async fn a_target_that_never_answers_holds_up_nobody_and_is_soon_sent_no_more() {
    let silent = scripted(|_, mut stream| async move { drop(rest(&mut stream).await) }).await;
    let stable = Named::start("stable").await;
    let rig = Rig::start(mirrored(stable.address, silent));
    ask(&rig, 600).await;
    copied(&rig, "v2", CopyEnd::Busy, 600 - 256).await;
    assert_eq!(copies(&rig, "v2").ends.iter().sum::<u64>(), 600 - 256, "the others are under way");
    assert_eq!(evidence(&rig, "v1"), (600, 0));
}

#[tokio::test]
async fn of_large_bodies_no_more_is_kept_than_there_is_room_for() {
    let silent = scripted(|_, mut stream| async move { drop(rest(&mut stream).await) }).await;
    let web = Keeper::start(200).await;
    let rig = Rig::of(&file(web.address, silent, "mirror: { service: audit, methods: [POST] }"));
    let mut client = rig.h1().await;
    let post = |bytes: usize| Request::post("/").header("host", "a").body(full(vec![b'x'; bytes])).unwrap();
    for _ in 0..40 {
        client.ready().await.unwrap();
        text(soon(client.send_request(post(1024 * 1024))).await.unwrap()).await;
    }
    copied(&rig, "a1", CopyEnd::Busy, 40 - 16).await;
    for bytes in [1024 * 1024 + 1, 5_000_000] {
        client.ready().await.unwrap();
        text(soon(client.send_request(post(bytes))).await.unwrap()).await;
    }
    copied(&rig, "a1", CopyEnd::TooLarge, 2).await;
    let sizes: Vec<usize> = web.got().iter().map(|got| got.body).collect();
    assert_eq!((sizes.len(), sizes.iter().sum::<usize>()), (42, 40 * 1024 * 1024 + 1024 * 1024 + 1 + 5_000_000));
}

#[tokio::test]
async fn a_body_is_copied_whole_or_not_at_all_and_an_empty_one_breaks_nothing() {
    let (web, audit) = (Keeper::start(200).await, Keeper::start(200).await);
    let rig = Rig::of(&file(web.address, audit.address, "mirror: { service: audit, methods: [GET, POST, PUT] }"));
    let chunked = "transfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    for (request, bytes) in [
        (format!("POST / HTTP/1.1\r\nhost: a\r\n{chunked}5\r\nhello\r\n6\r\n world\r\n0\r\nx-trailer: 1\r\n\r\n"), 11),
        (format!("POST / HTTP/1.1\r\nhost: a\r\n{chunked}0\r\n\r\n"), 0),
        (format!("GET / HTTP/1.1\r\nhost: a\r\n{chunked}0\r\n\r\n"), 0),
        ("PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbody".to_owned(), 4),
        ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned(), 0),
        ("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".to_owned(), 0),
    ] {
        let before = audit.got().len();
        assert_eq!(status_of(&rig.exchange(&request).await), 200, "{request:?}");
        eventually("the copy came", || audit.got().len() == before + 1).await;
        let copy = audit.got().remove(before);
        assert_eq!(copy.body, bytes, "{request:?}");
        let trailer = copy.trailers.and_then(|trailers| trailers.get("x-trailer").cloned());
        assert_eq!(trailer.is_some(), request.contains("x-trailer"), "{request:?}");
    }
    // A client that breaks off: its request fails, and of half a body there is no copy.
    let mut client = rig.connect().await;
    client.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 99\r\n\r\nhalf").await.unwrap();
    drop(client);
    copied(&rig, "a1", CopyEnd::CutShort, 1).await;
    assert_eq!(audit.got().len(), 6);
}

#[tokio::test]
async fn what_would_do_something_twice_is_not_copied_unless_it_is_asked_for() {
    let (stable, canary) = (Keeper::start(200).await, Keeper::start(200).await);
    let mut rig = Rig::start(mirrored(stable.address, canary.address));
    let mut client = rig.h1().await;
    let mut send = async |method: Method| {
        client.ready().await.unwrap();
        let request = Request::builder().method(method).uri("/").header("host", "a").body(full("body")).unwrap();
        drop(soon(client.send_request(request)).await.unwrap().into_body().collect().await);
    };
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::GET] {
        send(method).await;
    }
    copied(&rig, "v2", CopyEnd::Answered, 1).await;
    assert_eq!(canary.got()[0].method, Method::GET);
    rig.publish(|service| service.mirror_routes = vec![route("writes", Weight::FULL, method("POST"))]);
    for method in [Method::POST, Method::PUT, Method::GET] {
        send(method).await;
    }
    eventually("the copy came", || canary.got().len() == 2).await;
    assert_eq!((&canary.got()[1].method, canary.got()[1].body), (&Method::POST, 4));
    assert_eq!(canary.got()[1].headers["serin-mirror"], "writes");
}

#[tokio::test]
async fn only_what_stable_serves_is_copied_to_the_canary_and_no_copy_is_copied() {
    let (stable, canary) = (Named::start("v1").await, Keeper::start(200).await);
    let mut table = mirrored(stable.address, canary.address);
    table.force = Some(ForceRule::by_header("x-canary".parse().unwrap()));
    let rig = Rig::start(table);
    let websocket = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\n";
    for (fields, is_copied) in [
        ("x-id: plain\r\n", true),
        ("x-id: never\r\nx-canary: never\r\n", true),
        ("x-id: always\r\nx-canary: always\r\n", false),
        ("x-id: copy\r\nserin-mirror: elsewhere\r\n", false),
        (&*format!("x-id: websocket\r\n{websocket}"), false),
    ] {
        rig.exchange(&format!("GET / HTTP/1.1\r\nhost: a\r\n{fields}connection: close\r\n\r\n")).await;
        let id = fields.split("\r\n").next().unwrap().strip_prefix("x-id: ").unwrap();
        let marked =
            |got: &Got| got.headers.get("x-id").is_some_and(|is| is == id) && got.headers.contains_key("serin-mirror");
        if is_copied {
            eventually(id, || canary.got().iter().any(marked)).await;
        }
    }
    // A copy is counted when it begins to be one, at the latest with its request's end: nothing is on its way any more.
    copied(&rig, "v2", CopyEnd::Answered, 2).await;
    assert_eq!(copies(&rig, "v2").ends.iter().sum::<u64>(), 2);
    assert_eq!(canary.got().len(), 3, "and the one that was forced there");
}

#[tokio::test]
async fn a_copy_whose_turn_comes_after_the_abort_is_not_sent() {
    let (stable, canary) = (Keeper::start(200).await, Keeper::start(200).await);
    let mut table = mirrored(stable.address, canary.address);
    table.mirror_routes = vec![route("writes", Weight::FULL, method("POST"))];
    for withdraw in
        [abort as fn(&mut ServiceTable), |service| service.mirror_routes.clear(), |service| service.draining = true]
    {
        let mut rig = Rig::start(table.clone());
        let mut client = rig.connect().await;
        client.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 8\r\n\r\nhalf").await.unwrap();
        eventually("it is under way", || rig.hub.slots().iter().any(|slot| slot.started_total() > 0)).await;
        rig.publish(withdraw);
        client.write_all(b"half").await.unwrap();
        assert_eq!(status_of(&read_until(&mut client, "kept").await), 200);
        copied(&rig, "v2", CopyEnd::Withdrawn, 1).await;
        assert_eq!(canary.got().len(), 0);
    }
}

#[tokio::test]
async fn answers_are_compared_by_status_and_latency_whichever_comes_first() {
    let (fast, failing) = (Keeper::start(200).await, Keeper::start(500).await);
    let (ask_for, mut asked) = tokio::sync::mpsc::unbounded_channel::<tokio::sync::oneshot::Sender<()>>();
    // An upstream that answers once it is let.
    let waiting = serving(move |_| {
        let ask_for = ask_for.clone();
        async move {
            let (go, may_go) = tokio::sync::oneshot::channel();
            ask_for.send(go).unwrap();
            drop(may_go.await);
            Response::new(full("late"))
        }
    })
    .await;
    let compared = |rig: &Rig| (copies(rig, "v2").same, copies(rig, "v2").other);
    // The copy first.
    let rig = Rig::start(mirrored(waiting, failing.address));
    let answer = rig.get("");
    let go_on = async {
        let go = soon(asked.recv()).await.unwrap();
        copied(&rig, "v2", CopyEnd::Answered, 1).await;
        assert_eq!(compared(&rig), (0, 0), "there is nothing to compare it with yet");
        go.send(()).unwrap();
    };
    let (answer, ()) = tokio::join!(answer, go_on);
    assert_eq!(status_of(&answer), 200);
    eventually("compared", || compared(&rig) == (0, 1)).await;
    let of_both = copies(&rig, "v2");
    assert!(of_both.original_us > 0 && of_both.copy_us > 0, "{of_both:?}");
    // The request first.
    let rig = Rig::start(mirrored(fast.address, waiting));
    assert_eq!(status_of(&rig.get("").await), 200);
    soon(asked.recv()).await.unwrap().send(()).unwrap();
    eventually("compared", || compared(&rig) == (1, 0)).await;
    // An answer in place of one that never came has no latency.
    let rig = Rig::start(mirrored(nobody(), failing.address));
    assert_eq!(status_of(&rig.get("").await), 502);
    eventually("compared", || compared(&rig) == (1, 0)).await;
    assert_eq!((copies(&rig, "v2").original_us, copies(&rig, "v2").copy_us), (0, 0));
}

#[tokio::test]
async fn copies_go_over_http2_and_the_targets_version_has_its_own_changes() {
    let (web, audit) = (Keeper::start(200).await, Keeper::start(200).await);
    let target = format!(
        "{{ endpoints: ['http://{}'], http: h2, filters: {{ requestHeaders: {{ remove: [cookie], set: {{ x-copy: yes }} }} }} }}",
        audit.address
    );
    let text = file(web.address, audit.address, "mirror: { service: audit, methods: [POST] }");
    let rig = Rig::of(&text.replace(&format!("'http://{}'", audit.address), &target));
    let body =
        "POST /x HTTP/1.1\r\nhost: t.example\r\ncookie: a=b\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbody";
    assert_eq!(status_of(&rig.exchange(body).await), 200);
    copied(&rig, "a1", CopyEnd::Answered, 1).await;
    let copy = audit.got().remove(0);
    assert_eq!((&*copy.target, copy.body), ("/x", 4));
    let chunked = "POST /t HTTP/1.1\r\nhost: t.example\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n\
                   4\r\nbody\r\n0\r\nx-trailer: 1\r\ncookie: a=b\r\n\r\n";
    assert_eq!(status_of(&rig.exchange(chunked).await), 200);
    copied(&rig, "a1", CopyEnd::Answered, 2).await;
    let behind = audit.got().remove(1).trailers.unwrap();
    assert_eq!((behind.len(), &behind["x-trailer"]), (1, &"1".parse().unwrap()), "and no field that may not be there");
    assert!(!copy.headers.contains_key("cookie") && copy.headers["x-copy"] == "yes", "{copy:?}");
    assert!(web.got()[0].headers.contains_key("cookie"));
    let mut over_h2 = mirrored(web.address, audit.address);
    over_h2.versions[1].http = UpstreamHttp::H2;
    let rig = Rig::start(over_h2);
    let answer = soon(rig.h2().await.send_request(request("http://t.example/h2"))).await.unwrap();
    assert_eq!(answer.status(), 200);
    copied(&rig, "v2", CopyEnd::Answered, 1).await;
}

/// Copies hold as many connections as they like; the canary's own requests never wait for one of theirs.
#[tokio::test]
async fn copies_take_no_connection_from_the_canarys_own_requests() {
    let stable = Named::start("v1").await;
    let canary = scripted(|_, mut stream| async move {
        loop {
            let head = read_head(&mut stream).await;
            if head.contains("serin-mirror") {
                return drop(rest(&mut stream).await);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nv2").await.unwrap();
        }
    })
    .await;
    let mut table = mirrored(stable.address, canary);
    let limits = serin::engine::upstream::UpstreamLimits { connections: 2, pending: 1 };
    table.versions[1].upstream =
        Arc::new(serin::engine::upstream::UpstreamPlan { limits, ..serin::engine::upstream::UpstreamPlan::default() });
    let mut rig = Rig::start(table);
    ask(&rig, 20).await;
    rig.publish(|service| weigh(service, 1_000_000));
    let mut client = rig.h1().await;
    for _ in 0..5 {
        client.ready().await.unwrap();
        assert_eq!(text(soon(client.send_request(request("/"))).await.unwrap()).await, "v2");
    }
    assert_eq!(evidence(&rig, "v2"), (5, 0));
}

/// What `explain-request` says, which sends nothing.
#[test]
fn an_explanation_names_the_copies_that_a_request_may_have() {
    let at = SocketAddr::from(([127, 0, 0, 1], 1));
    let steps = "canary: v2, strategy: { canary: { steps: [{ setMirrorRoute: { name: shadow, percentage: 10, match: [{ path: \
                 { prefix: /a } }] } }, { pause: {} }] } }";
    let versions = format!("{{ v1: 'http://{at}', v2: 'http://{at}' }}");
    let text = file(at, at, "mirror: { service: audit, percentage: 0.5, methods: [GET, POST] }")
        .replace(&format!("{{ v1: 'http://{at}' }}, stable: v1"), &format!("{versions}, stable: v1, {steps}"));
    let table = super::rig::table_of(&text);
    for (method, expected) in
        [(Method::GET, &[("a1", "0.5%"), ("v2", "10%")][..]), (Method::POST, &[("a1", "0.5%")]), (Method::DELETE, &[])]
    {
        let headers = hyper::HeaderMap::new();
        let request = RequestView {
            scheme: Scheme::Http,
            method: &method,
            host: "a",
            port: None,
            path: "/a",
            query: "",
            headers: &headers,
            client: Address::default(),
        };
        let Some(Outcome::Version(chosen)) = explain(&table, &request).map(|told| told.outcome) else {
            panic!("a version answers")
        };
        let copies: Vec<(String, String)> =
            chosen.copies.iter().map(|copy| (copy.version.to_string(), copy.share.to_string())).collect();
        let copies: Vec<(&str, &str)> = copies.iter().map(|(version, share)| (&**version, &**share)).collect();
        assert_eq!(copies, expected, "{method}");
    }
}
