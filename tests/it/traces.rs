//! Traces of requests, by the real binary, as a real receiver of OTLP over HTTP gets them.

use std::{
    net::TcpListener,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    asked::{answer, anywhere, serve},
    harness::{Client, Serin, eventually, free_port},
    upstreams::Plain,
};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// What a collector was sent: heads and bodies.
type Sent = Vec<(Vec<String>, Value)>;

/// A collector that keeps the heads and bodies it was sent, and answers with the given statuses in turn, then with 200.
struct Collector {
    port: u16,
    got: Arc<Mutex<Sent>>,
}

impl Collector {
    fn start(statuses: &'static [&'static str]) -> Self {
        let got: Arc<Mutex<Sent>> = Arc::default();
        let kept = Arc::clone(&got);
        let mut statuses = statuses.iter().copied();
        let port = serve(anywhere(), move |request| {
            if request.body.is_empty() {
                return None;
            }
            let body = request.json();
            kept.lock().unwrap().push((request.head, body));
            // Behind a bar comes the body.
            let (status, body) =
                statuses.next().map_or(("200 OK", "{}"), |told| told.split_once('|').unwrap_or((told, "{}")));
            Some(answer(status, "", body))
        });
        Self { port, got }
    }

    fn tracing(&self, sample: &str) -> String {
        let url = format!("http://127.0.0.1:{}", self.port);
        format!("tracing: {{ otlp: \"{url}\", sample: {sample}, headers: {{ x-token: hunter2 }} }}\n")
    }

    fn requests(&self) -> Sent {
        self.got.lock().unwrap().clone()
    }

    fn spans(&self) -> Vec<Value> {
        let spans = |body: &Value| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
        self.requests().iter().flat_map(|(_, body)| spans(body)).collect()
    }
}

/// The value of an attribute, as text.
fn attribute(span: &Value, key: &str) -> Option<String> {
    let found = span["attributes"].as_array().unwrap().iter().find(|attribute| attribute["key"] == key)?;
    let value = found["value"].as_object().unwrap().values().next().unwrap();
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// What the upstream was told in `traceparent`.
fn told(answer: &crate::harness::Answer) -> Option<String> {
    let head = answer.header("x-head").unwrap().to_ascii_lowercase();
    head.split('|').find_map(|line| line.strip_prefix("traceparent: ").map(str::to_owned))
}

fn metric(serin: &Serin, name: &str) -> u64 {
    let page = String::from_utf8(Client::get(serin.admin, "/metrics").unwrap().body).unwrap();
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap().parse().unwrap()
}

fn in_nanoseconds(span: &Value, key: &str) -> u128 {
    span[key].as_str().unwrap().parse().unwrap()
}

#[test]
fn a_sampled_request_leaves_its_span_and_one_for_each_attempt() {
    let (collector, stable, dead) = (Collector::start(&[]), Plain::start("v1"), free_port());
    let services = format!(
        "services:\n  web:\n    versions: {{ v1: \"http://{}\", v2: \"http://127.0.0.1:{dead}\" }}\n    stable: v1\n\
         \x20   canary: v2\n    assign: {{ force: {{ header: x-canary }} }}\n",
        stable.address
    );
    let serin = Serin::start(&format!("{}{services}", collector.tracing("0%")));
    let headers = [("traceparent", PARENT), ("tracestate", "a=1"), ("x-canary", "always"), ("user-agent", "probe")];
    let answer = serin.client().send("/shop?token=secret", &headers).unwrap();
    assert_eq!((answer.status, answer.header("x-request-id")), (200, None), "ids are the access log's");
    let spans = eventually("three spans", || Some(collector.spans()).filter(|spans| spans.len() == 3));
    let [server, failed, answered] = &spans[..] else { panic!("{spans:?}") };

    for span in &spans {
        assert_eq!((&span["traceId"], &span["traceState"]), (&PARENT[3..35].into(), &"a=1".into()), "{span}");
        assert_eq!(span["name"], "GET");
        assert!(in_nanoseconds(span, "endTimeUnixNano") >= in_nanoseconds(span, "startTimeUnixNano"), "{span}");
        assert!(in_nanoseconds(span, "startTimeUnixNano") >= in_nanoseconds(server, "startTimeUnixNano"), "{span}");
    }
    assert_eq!((&server["kind"], &server["parentSpanId"]), (&2.into(), &PARENT[36..52].into()));
    for (key, value) in [
        ("http.request.method", "GET"),
        ("http.response.status_code", "200"),
        ("url.path", "/shop"),
        ("url.scheme", "http"),
        ("client.address", "127.0.0.1"),
        ("user_agent.original", "probe"),
        ("network.protocol.version", "1.1"),
        ("serin.service", "web"),
        ("serin.version", "v1"),
        ("serin.role", "stable"),
        ("serin.reason", "forced"),
        ("serin.outcome", "fallback"),
        ("serin.attempts", "2"),
        ("serin.complete", "true"),
    ] {
        assert_eq!(attribute(server, key).as_deref(), Some(value), "{key} of {server}");
    }
    for attempt in [failed, answered] {
        assert_eq!((&attempt["kind"], &attempt["parentSpanId"]), (&3.into(), &server["spanId"]));
    }
    assert_eq!(attribute(failed, "error.type").as_deref(), Some("connect_failed"));
    assert_eq!((attribute(failed, "serin.version").as_deref(), &failed["status"]["code"]), (Some("v2"), &2.into()));
    assert_eq!(attribute(answered, "http.response.status_code").as_deref(), Some("200"));
    assert_eq!(attribute(answered, "server.port"), Some(stable.address.port().to_string()));
    let context = format!("00-{}-{}-01", &PARENT[3..35], answered["spanId"].as_str().unwrap());
    assert_eq!(told(&answer), Some(context), "the upstream's parent is the attempt that reached it");

    let (head, body) = collector.requests().remove(0);
    assert!(head[0].starts_with("POST /v1/traces "), "{head:?}");
    assert!(
        head.contains(&"x-token: hunter2".to_owned()) && head.contains(&"content-type: application/json".to_owned())
    );
    assert!(!body.to_string().contains("secret"), "a query was told");
    eventually("the count", || (metric(&serin, "serin_traces_exported_total") == 1).then_some(()));
    assert!(!serin.log().contains("hunter2"));
}

#[test]
fn who_came_with_a_context_decides_and_else_the_share_does() {
    let (collector, upstream) = (Collector::start(&[]), Plain::start("v1"));
    let mut serin = Serin::start(&format!("{}{}", collector.tracing("0%"), upstream.services()));
    let mut client = serin.client();
    let unsampled = client.send("/", &[("traceparent", UNSAMPLED), ("tracestate", "a=1")]).unwrap();
    assert_eq!(told(&unsampled).as_deref(), Some(UNSAMPLED), "passed as it came");
    for wrong in [None, Some("nonsense"), Some(&PARENT[..54])] {
        let fields: Vec<_> =
            wrong.map(|wrong| [("traceparent", wrong), ("tracestate", "a=1")]).into_iter().flatten().collect();
        let answer = client.send("/", &fields).unwrap();
        let made = told(&answer).unwrap();
        assert!(made.len() == 55 && made.ends_with("-00"), "{made}");
        assert!(!answer.header("x-head").unwrap().contains("tracestate"), "of a context that is none");
    }
    assert_eq!(client.send("/", &[("traceparent", PARENT)]).unwrap().status, 200);
    let spans = eventually("the one sampled", || Some(collector.spans()).filter(|spans| !spans.is_empty()));
    assert!(spans.iter().all(|span| span["traceId"] == PARENT[3..35]), "{spans:?}");

    // A saved file needs no restart: new connections are traced by the new share.
    serin.write(&format!("{}{}", collector.tracing("100%"), upstream.services()));
    eventually("a made context that is sampled", || {
        told(&serin.client().send("/all", &[]).ok()?)?.ends_with("-01").then_some(())
    });
    let is_root = |span: &Value| attribute(span, "url.path").as_deref() == Some("/all") && span["kind"] == 2;
    let root = eventually("its span", || collector.spans().into_iter().find(is_root));
    assert!(root["parentSpanId"].is_null(), "{root}");

    serin.write(&upstream.services());
    eventually("no more contexts", || told(&serin.client().send("/", &[]).ok()?).is_none().then_some(()));
    serin.terminate();
}

/// Strangers could have every request of theirs traced.
#[test]
fn a_stranger_decided_that_he_was_traced() {
    let (collector, upstream) = (Collector::start(&[]), Plain::start("v1"));
    let services = upstream.services();
    let serin =
        Serin::start(&format!("{}trust: {{ forwardedFrom: [192.0.2.0/24] }}\n{services}", collector.tracing("0%")));
    let answer = serin.client().send("/", &[("traceparent", PARENT), ("tracestate", "a=1")]).unwrap();
    assert_eq!(told(&answer), Some(PARENT.replace("-01", "-00")), "the trace stays his, and is not sampled");
    serin.write(&format!("{}trust: {{ forwardedFrom: [127.0.0.0/8] }}\n{services}", collector.tracing("0%")));
    eventually("the sampled flag to be believed", || {
        told(&serin.client().send("/", &[("traceparent", PARENT)]).ok()?)?.ends_with("-01").then_some(())
    });
}

#[test]
fn spans_that_a_collector_rejects_counted_as_taken() {
    const ANSWERS: &[&str] = &[
        r#"200 OK|{"partialSuccess":{"rejectedSpans":"7","errorMessage":"too\u001bold"}}"#,
        r#"200 OK|{"partialSuccess":{"rejectedSpans":"0","errorMessage":"fine"}}"#,
        r#"200 OK|{"partialSuccess":{"rejectedSpans":1}}"#,
        "200 OK|nothing that can be read",
    ];
    let (collector, upstream) = (Collector::start(ANSWERS), Plain::start("v1"));
    let serin = Serin::start(&format!("{}{}", collector.tracing("100%"), upstream.services()));
    for (dropped, exported) in [(1, 0), (1, 1), (2, 1), (2, 2)] {
        assert_eq!(serin.client().send("/", &[]).unwrap().status, 200);
        let counted = || (metric(&serin, "serin_traces_dropped_total"), metric(&serin, "serin_traces_exported_total"));
        eventually("the count", || (counted() == (dropped, exported)).then_some(()));
    }
    eventually("a word about it", || serin.log().contains("rejected 7 spans: too\\u{1b}old").then_some(()));
}

#[test]
fn a_collector_that_is_down_costs_no_request_anything_and_the_queue_is_bounded() {
    let (dead, upstream) = (free_port(), Plain::start("v1"));
    // One that accepts and never answers, so that each try takes as long as it may.
    let silent = TcpListener::bind(("127.0.0.1", dead)).unwrap();
    let tracing = format!("tracing: {{ otlp: \"http://127.0.0.1:{dead}\", sample: 100% }}\n");
    let serin = Serin::start(&format!("{tracing}{}", upstream.services()));
    let mut client = serin.client();
    let (mut slowest, mut sent) = (Duration::ZERO, 0);
    // The queue has room for 2,048, and the exporter holds one batch.
    eventually("dropped traces", || {
        for _ in 0..500 {
            let began = Instant::now();
            assert_eq!(client.send("/", &[]).unwrap().status, 200);
            slowest = slowest.max(began.elapsed());
            sent += 1;
        }
        (metric(&serin, "serin_traces_dropped_total") > 0).then_some(())
    });
    assert!(sent >= 2_048, "dropped after {sent}");
    // A try takes ten seconds: who waited for one would be seen.
    assert!(slowest < Duration::from_secs(5), "a request took {slowest:?}");
    assert_eq!(metric(&serin, "serin_traces_exported_total"), 0);
    drop(silent);
}

#[test]
fn a_batch_that_is_not_taken_is_sent_again_unless_it_never_will_be() {
    const ANSWERS: &[&str] = &["503 Service Unavailable", "503 Service Unavailable", "200 OK", "307 Elsewhere"];
    let (collector, upstream) = (Collector::start(ANSWERS), Plain::start("v1"));
    let mut serin = Serin::start(&format!("{}{}", collector.tracing("100%"), upstream.services()));
    assert_eq!(serin.client().send("/first", &[]).unwrap().status, 200);
    eventually("the third try", || (metric(&serin, "serin_traces_exported_total") == 1).then_some(()));
    let bodies: Vec<Value> = collector.requests().into_iter().map(|(_, body)| body).collect();
    assert_eq!(bodies.len(), 3);
    assert!(bodies.iter().all(|body| *body == bodies[0]), "the same batch each time");
    assert_eq!(serin.client().send("/second", &[]).unwrap().status, 200);
    eventually("a drop", || (metric(&serin, "serin_traces_dropped_total") == 1).then_some(()));
    assert_eq!(collector.requests().len(), 4, "neither sent again nor led elsewhere");
    eventually("a word about it", || serin.log().contains("does not take traces").then_some(()));

    // What has not gone out yet does so when the process ends.
    assert_eq!(serin.client().send("/last", &[]).unwrap().status, 200);
    serin.terminate();
    let has_last = |span: &Value| attribute(span, "url.path").as_deref() == Some("/last");
    eventually("the last trace", || collector.spans().iter().any(has_last).then_some(()));
}
