//! The admin listener over real sockets.
#![expect(clippy::unwrap_used, reason = "a scenario that cannot go on fails")]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    sync::atomic::Ordering::SeqCst,
};

use serin::engine::{input::Verb, names::Revision};

use crate::stage::{self, Setting, Stage, WRITE};

#[test]
fn reads_answer_with_everything_of_the_view() {
    let stage = Stage::progressing();
    let list = stage.get("/api/v1/services");
    assert_eq!(list.status, 200);
    for field in [
        "content-type: application/json",
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        "content-security-policy: default-src 'none'",
    ] {
        assert!(list.head.contains(field), "{field} in {}", list.head);
    }
    let list = list.json();
    assert_eq!(list["apiVersion"], "serin/v1");
    assert_eq!(list["at"], "2026-09-21T14:13:20.000Z");
    assert_eq!(list["services"][0]["name"], "web");

    let service = stage.get("/api/v1/services/web").json();
    assert_eq!(service["phase"], "Progressing");
    assert_eq!(service["config"]["loads"], 3);
    assert_eq!(service["rollout"]["waiting"][1]["aboutMs"], 17_000);
    assert_eq!(service["versions"][1]["weightPpm"], 50_000);
    assert_eq!(service["versions"][1]["p99Ms"], 184);
    assert_eq!(service["lastEvent"]["message"], "v2 goes from 1% to 5%, step 3");

    let why = stage.get("/api/v1/services/web/why").json();
    assert_eq!(why["text"][0], "web stays at 5%, step 4 of 6 (pause 2m), because it waits for:");
    assert_eq!(why["because"]["sequence"], 3);
    assert_eq!(why["revision"], 7);

    let history = stage.get("/api/v1/services/web/history?limit=2").json();
    let sequences: Vec<_> = history["events"].as_array().unwrap().iter().map(|event| &event["sequence"]).collect();
    assert_eq!(sequences, [2, 3]);
    assert_eq!(stage.get("/api/v1/history").json()["events"].as_array().unwrap().len(), 3);
    assert_eq!(stage.get("/api/v1/config").json()["path"], "config/serin.yaml");
    assert!(stage.get("/").body.contains("web: Progressing, stable v1, canary v2"), "text for those who ask for none");
    assert_eq!(stage.ask("HEAD", "/api/v1/services", &[], "").status, 200);
}

#[test]
fn machines_get_their_pages() {
    let stage = Stage::progressing();
    let metrics = stage.get("/metrics");
    assert_eq!((metrics.status, metrics.body.as_str()), (200, "# EOF\n"));
    assert!(metrics.head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{}", metrics.head);
    assert_eq!(stage.get("/healthz").body, "ok\n");
    assert_eq!(stage.get("/readyz").body, "ready\n");

    let refused = Setting { config_error: Some("line 3: no"), ..Setting::default() };
    let ready = Stage::new(vec![], vec![], refused).get("/readyz");
    assert_eq!(ready.status, 200);
    assert!(ready.body.contains("the last good one stays in force"), "{}", ready.body);
}

#[test]
fn the_metrics_listener_has_nothing_else_and_takes_any_host() {
    let setting = Setting { metrics_only: true, read_token: Some("r"), ..Setting::default() };
    let stage = Stage::new(vec![stage::progressing()], vec![], setting);
    assert_eq!(stage.ask("GET", "/metrics", &[("host", "serin.example")], "").status, 200);
    assert_eq!(stage.get("/healthz").status, 200);
    let nothing = stage.get("/api/v1/services");
    assert_eq!((nothing.status, nothing.code().as_str()), (404, "notFound"));
    assert_eq!(stage.post("/api/v1/reload", "{}").status, 404);
    assert_eq!(stage.reloads.load(SeqCst), 0);
}

/// Method, path, fields, body; status and code.
type Row<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str, u16, &'a str);

#[test]
fn every_error_is_json_with_a_word_and_says_what_to_do() {
    let stage = Stage::progressing();
    let token = format!("Bearer {WRITE}");
    let auth = ("authorization", token.as_str());
    let json = ("content-type", "application/json");
    let (abort, large) = ("/api/v1/services/web/abort", "x".repeat(64 * 1024 + 1));
    let rows: &[Row<'_>] = &[
        ("GET", "/nothing", &[], "", 404, "notFound"),
        ("GET", "/api/v1/services/nope", &[], "", 404, "unknownService"),
        ("GET", "/api/v1/services/nope/why", &[], "", 404, "unknownService"),
        ("GET", "/api/v1/services/%0a%1b/history", &[], "", 404, "unknownService"),
        ("GET", "/api/v1/services/web/history?limit=x", &[], "", 400, "badQuery"),
        ("GET", "/api/v1/events?servise=web", &[], "", 400, "badQuery"),
        ("GET", "/api/v1/events?service=nope", &[], "", 404, "unknownService"),
        ("GET", abort, &[], "", 405, "methodNotAllowed"),
        ("GET", "/api/v1/reload", &[], "", 405, "methodNotAllowed"),
        ("PUT", "/api/v1/config", &[auth], "", 405, "methodNotAllowed"),
        ("POST", "/api/v1/services/web/why", &[auth], "", 405, "methodNotAllowed"),
        ("POST", abort, &[], "", 401, "badToken"),
        ("POST", abort, &[("authorization", "Bearer wrong")], "", 401, "badToken"),
        ("POST", "/nothing", &[], "", 401, "badToken"),
        ("POST", abort, &[auth, json], "{", 400, "badJson"),
        ("POST", abort, &[auth, json], "{\"expectRevison\":7}", 400, "badJson"),
        ("POST", abort, &[auth, json], "[]", 400, "badJson"),
        ("POST", abort, &[auth, json], "{\"weight\":\"5%\"}", 422, "badRequest"),
        ("POST", abort, &[auth, ("content-type", "text/plain")], "{}", 415, "notJson"),
        ("POST", abort, &[auth], "{}", 415, "notJson"),
        ("POST", abort, &[auth, json], &large, 413, "tooLarge"),
        ("POST", abort, &[auth, json, ("idempotency-key", "")], "{}", 400, "badKey"),
        ("POST", abort, &[auth, json], "{\"expectRevision\":6}", 409, "otherRevision"),
        ("POST", "/api/v1/services/web/explode", &[auth], "", 404, "unknownVerb"),
        ("POST", "/api/v1/services/nope/abort", &[auth], "", 404, "unknownService"),
        ("POST", "/api/v1/services/n%20pe/abort", &[auth], "", 404, "unknownService"),
        ("POST", "/api/v1/services/web/start", &[auth, json], "{\"to\":\"v9\"}", 422, "unknownVersion"),
        ("POST", "/api/v1/services/web/resume", &[auth], "", 409, "notNow"),
        ("POST", "/api/v1/services/web/set-weight", &[auth, json], "{\"weight\":\"5%\"}", 500, "storage"),
        ("POST", "/api/v1/services/web/retry", &[auth], "", 503, "busy"),
        ("POST", "/api/v1/reload", &[auth, json], "{\"force\":true}", 422, "badRequest"),
        ("GET", "/metrics", &[("host", "evil.example")], "", 421, "foreignHost"),
        ("GET", "/metrics", &[("origin", "http://evil.example")], "", 403, "foreignOrigin"),
    ];
    for (method, path, fields, body, status, code) in rows {
        let answer = stage.ask(method, path, fields, body);
        assert_eq!((answer.status, answer.code().as_str()), (*status, *code), "{method} {path}: {}", answer.body);
        assert_eq!(answer.json()["apiVersion"], "serin/v1");
        assert!(!answer.json()["error"]["message"].as_str().unwrap().is_empty(), "{method} {path}");
        assert!(answer.head.contains("x-content-type-options: nosniff"), "{method} {path}");
        assert!(!answer.body.contains("\\n") && !answer.body.contains("\\u001b"), "{}", answer.body);
    }
    assert!(stage.ask("POST", abort, &[], "").head.contains("www-authenticate: bearer"));
    assert!(stage.get(abort).head.contains("allow: post"));
    let verbs: Vec<_> = stage.commands.lock().unwrap().iter().map(|command| command.verb.as_str()).collect();
    assert_eq!(verbs, ["abort", "start", "resume", "set-weight", "retry"], "only what was well-formed got through");
}

#[test]
fn a_body_without_length_is_bounded_too() {
    let stage = Stage::progressing();
    let head = format!(
        "POST /api/v1/services/web/abort HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {WRITE}\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
        stage.address
    );
    let mut stream = stage.send(&head);
    let chunk = format!("1000\r\n{}\r\n", " ".repeat(0x1000));
    // The server may hang up before it has everything.
    for _ in 0..20 {
        if stream.write_all(chunk.as_bytes()).is_err() {
            break;
        }
    }
    let mut first = String::new();
    BufReader::new(stream).read_line(&mut first).unwrap();
    assert!(first.starts_with("HTTP/1.1 413"), "{first}");
    assert!(stage.commands.lock().unwrap().is_empty());
}

/// Each of them would hold a place of the listener for ever.
#[test]
fn clients_that_dawdle_are_let_go_and_hold_nobody_up() {
    let stage = Stage::progressing();
    let dawdlers = [
        "",
        "GET /api/v1/services HTTP/1.1\r\nhost: localhost\r\n",
        "GET / HTTP/1.1\r\nhost: localhost\r\n\r\nGET / HT",
        "POST /api/v1/services/web/abort HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer WRITE\r\ncontent-type: application/json\r\ncontent-length: 20\r\n\r\n{",
        "POST /login HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: 20\r\n\r\ntoken",
    ];
    let open: Vec<_> = dawdlers.iter().map(|sent| stage.send(&sent.replace("WRITE", WRITE))).collect();
    assert_eq!(stage.get("/api/v1/services").status, 200, "others are answered meanwhile");
    for (stream, sent) in open.into_iter().zip(dawdlers) {
        stream.set_read_timeout(Some(crate::harness::PATIENCE)).unwrap();
        let mut answer = Vec::new();
        let end = std::io::Read::read_to_end(&mut &stream, &mut answer);
        assert!(end.is_ok() || end.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset), "{sent:?}");
    }
    assert!(stage.commands.lock().unwrap().is_empty());
}

#[test]
fn a_read_token_closes_reads_but_not_health() {
    let setting = Setting { read_token: Some("r-1"), ..Setting::default() };
    let stage = Stage::new(vec![stage::progressing()], stage::history(), setting);
    assert_eq!(stage.get("/api/v1/services").status, 401);
    assert_eq!(stage.get("/metrics").status, 401);
    assert_eq!(stage.get("/nothing").status, 401);
    assert_eq!(stage.get("/healthz").status, 200);
    let with =
        |token: &str, method, path| stage.ask(method, path, &[("authorization", &format!("Bearer {token}"))], "");
    assert_eq!(with("r-1", "GET", "/api/v1/services").status, 200);
    assert_eq!(with(WRITE, "GET", "/api/v1/services").status, 200);
    assert_eq!(with("r-1", "POST", "/api/v1/services/web/abort").status, 401);
    assert!(stage.commands.lock().unwrap().is_empty());
}

#[test]
fn a_verb_reaches_the_control_plane_with_actor_and_reason_and_answers_with_its_event() {
    let stage = Stage::progressing();
    let token = format!("Bearer {WRITE}");
    let fields = [
        ("authorization", token.as_str()),
        ("content-type", "application/json; charset=utf-8"),
        ("x-serin-actor", "ann@ci"),
    ];
    let body = r#"{"reason":"too slow","expectRevision":7}"#;
    let reply = stage.ask("POST", "/api/v1/services/web/abort", &fields, body);
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(reply.json()["message"], "v2 aborted at 5%: abort by ann@ci, \"too slow\"");
    assert_eq!(reply.json()["event"]["cause"]["verb"], "abort");
    assert_eq!(reply.json()["event"]["sequence"], 4);
    let command = stage.commands.lock().unwrap()[0].clone();
    assert_eq!((command.verb, command.expect_revision), (Verb::Abort, Some(Revision(7))));
    assert_eq!((command.actor.as_str(), command.reason.as_str()), ("ann@ci", "too slow"));

    let nothing = stage.post("/api/v1/services/web/undo", "");
    assert_eq!((nothing.status, nothing.json()["message"].as_str()), (200, Some("nothing to do")));
    assert_eq!(stage.post("/api/v1/reload", "").json()["config"]["loads"], 3);
    assert_eq!(stage.reloads.load(SeqCst), 1);
}

#[test]
fn the_same_key_does_it_once() {
    let stage = Stage::progressing();
    let token = format!("Bearer {WRITE}");
    let keyed = |key, path, body| {
        let fields =
            [("authorization", token.as_str()), ("content-type", "application/json"), ("idempotency-key", key)];
        stage.ask("POST", path, &fields, body)
    };
    let abort = "/api/v1/services/web/abort";
    let first = keyed("k1", abort, "{}");
    let again = keyed("k1", abort, "{}");
    assert_eq!((first.status, &first.body), (again.status, &again.body));
    assert_eq!(stage.commands.lock().unwrap().len(), 1);
    assert_eq!(keyed("k1", "/api/v1/services/web/promote", "{}").code(), "keyReused");
    assert_eq!(keyed("k2", abort, "{}").status, 200);
    assert_eq!(stage.commands.lock().unwrap().len(), 2);

    let resume = "/api/v1/services/web/resume";
    assert_eq!((keyed("k3", resume, "").status, keyed("k3", resume, "").status), (409, 409));
    assert_eq!(stage.commands.lock().unwrap().len(), 3, "a refusal is an answer as well");
    let retry = "/api/v1/services/web/retry";
    assert_eq!((keyed("k4", retry, "").status, keyed("k4", retry, "").status), (503, 503));
    assert_eq!(stage.commands.lock().unwrap().len(), 5, "what asks to try again is tried again");
}

/// The lines of an event stream that say something, from the first on.
fn events(stage: &Stage, query: &str, fields: &str) -> impl Iterator<Item = String> + use<> {
    let request = format!("GET /api/v1/events{query} HTTP/1.1\r\nhost: {}\r\n{fields}\r\n", stage.address);
    let mut reader = BufReader::new(stage.send(&request));
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.to_ascii_lowercase().contains("content-type: text/event-stream"), "{head}");
    reader
        .lines()
        .map(Result::unwrap)
        .filter(|line| ["data:", "id:", "event:"].iter().any(|field| line.starts_with(field)))
}

#[test]
fn events_come_as_they_are_in_force_and_from_where_the_listener_left_off() {
    let stage = Stage::progressing();
    let mut live = events(&stage, "?service=web", "");
    assert_eq!(stage.post("/api/v1/services/web/abort", "{\"reason\":\"a\"}").status, 200);
    assert_eq!(live.next().unwrap(), "id: 4");
    let data = live.next().unwrap();
    let event: serde_json::Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!((event["kind"].as_str(), event["apiVersion"].as_str()), (Some("aborted"), Some("serin/v1")));
    assert_eq!(event["message"], "v2 aborted at 5%: abort by api, \"a\"");

    let ids = events(&stage, "", "last-event-id: 2\r\n").filter(|line| line.starts_with("id:"));
    assert_eq!(ids.take(2).collect::<Vec<_>>(), ["id: 3", "id: 4"]);
}

#[test]
fn a_listener_that_lags_is_told_how_much_it_missed() {
    let stage = Stage::progressing();
    let mut live = events(&stage, "", "");
    // One pause tells more events than may wait, in one go.
    assert_eq!(stage.post("/api/v1/services/web/pause", "").status, 200);
    assert_eq!(live.next().unwrap(), "event: lag");
    let data = live.next().unwrap();
    let lag: serde_json::Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(lag["missed"], 11);
    assert_eq!(live.next().unwrap(), "id: 15", "the rest follows");
}

#[test]
fn streams_are_bounded() {
    let stage = Stage::progressing();
    let streams: Vec<_> = (0..serin::admin::STREAMS_MAX).map(|_| events(&stage, "", "")).collect();
    let answer = stage.get("/api/v1/events");
    assert_eq!((answer.status, answer.code().as_str()), (503, "tooManyStreams"));
    assert!(answer.head.contains("retry-after: 1"));
    drop(streams);
}

#[test]
fn going_down_ends_streams_and_idle_connections() {
    let mut stage = Stage::progressing();
    let mut live = events(&stage, "", "");
    let mut idle = BufReader::new(stage.send(&format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", stage.address)));
    let mut answer = String::new();
    while !answer.ends_with("ok\n") {
        assert!(idle.read_line(&mut answer).unwrap() > 0, "{answer}");
    }
    stage.shut_down();
    assert_eq!(live.next(), None);
    assert_eq!(idle.read_line(&mut String::new()).unwrap(), 0);
}

/// The routes under `/api/v1`, as the router's source has them.
fn routes() -> Vec<(String, String)> {
    let source = include_str!("../../src/admin/mod.rs");
    let api = source.split_once("let api = Router::new()").unwrap().1.split(';').next().unwrap();
    let routes = api.split(".route(\"").skip(1).map(|route| {
        let (path, handler) = route.split_once("\", ").unwrap();
        (path.to_owned(), handler.split('(').next().unwrap().to_owned())
    });
    routes.collect()
}

/// Fields of an answer that its schema does not know, or that it must have and has not.
fn misfits(at: &str, value: &serde_json::Value, schema: &serde_json::Value, all: &serde_json::Value) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        return misfits(at, value, &all[name.rsplit('/').next().unwrap()], all);
    }
    if let Some(items) = value.as_array() {
        return items.iter().flat_map(|item| misfits(&format!("{at}[]"), item, &schema["items"], all)).collect();
    }
    let (Some(fields), Some(known)) = (value.as_object(), schema["properties"].as_object()) else { return Vec::new() };
    let mut found: Vec<String> = Vec::new();
    for required in schema["required"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str) {
        if !fields.contains_key(required) {
            found.push(format!("{at}.{required} is absent"));
        }
    }
    for (name, field) in fields {
        match known.get(name) {
            Some(schema) => found.extend(misfits(&format!("{at}.{name}"), field, schema, all)),
            None if schema["additionalProperties"] == true => {}
            None => found.push(format!("{at}.{name} is not described")),
        }
    }
    found
}

#[test]
fn the_description_has_every_route_and_every_field() {
    let stage = Stage::new(vec![stage::progressing()], stage::aborted_history(), Setting::default());
    let description = stage.get("/api/v1/openapi.json").json();
    let described: Vec<(String, String)> = description["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys().filter(|key| *key != "parameters");
            methods.map(move |method| (path.clone(), method.clone()))
        })
        .collect();
    let mut routes = routes();
    routes.sort();
    assert_eq!(described, routes);
    let schemas = &description["components"]["schemas"];
    for (path, schema) in [
        ("/services", "ServiceList"),
        ("/services/web", "ServiceStatus"),
        ("/services/web/why", "Why"),
        ("/services/web/history", "History"),
        ("/history", "History"),
        ("/config", "Config"),
        ("/nothing", "Error"),
    ] {
        let answer = stage.get(&format!("/api/v1{path}")).json();
        assert_eq!(misfits(path, &answer, &schemas[schema], schemas), [""; 0]);
    }
    let reply = stage.post("/api/v1/services/web/abort", "{\"reason\":\"a\"}").json();
    assert_eq!(misfits("abort", &reply, &schemas["CommandReply"], schemas), [""; 0]);
    let unknown = stage.post("/api/v1/services/web/explode", "").json();
    let said = unknown["error"]["message"].as_str().unwrap().rsplit_once("there are ").unwrap().1.to_owned();
    let verbs = &description["paths"]["/services/{service}/{verb}"]["parameters"][1]["schema"]["enum"];
    let verbs: Vec<_> = verbs.as_array().unwrap().iter().filter_map(serde_json::Value::as_str).collect();
    assert_eq!(said.replace(" and ", ", ").split(", ").collect::<Vec<_>>(), verbs);
}
