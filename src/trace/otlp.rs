//! Traces as OTLP has them in JSON (opentelemetry-proto 1.x, OTLP/HTTP): ids in hexadecimal, large numbers as text, names of
//! attributes as the semantic conventions of HTTP have them, and `serin.…` for what only a canary proxy knows.

use std::time::Duration;

use serde_json::{Value, json};

use crate::measure::traces::{Attempt, Routed, Trace};

const SERVER: u8 = 2;
const CLIENT: u8 = 3;
const STATUS_ERROR: u8 = 2;
/// Methods that are told by name (RFC 9110 9.1, RFC 5789); others could be as many as clients like.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// The body of a request to a collector.
pub(super) fn encode(batch: &[Trace]) -> Vec<u8> {
    let spans: Vec<Value> = batch.iter().flat_map(spans).collect();
    let version = env!("CARGO_PKG_VERSION");
    let resource = [text("service.name", "serin"), text("service.version", version)];
    let request = json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{ "scope": { "name": "serin", "version": version }, "spans": spans }],
    }] });
    request.to_string().into_bytes()
}

/// The request's own span, then one for each attempt.
fn spans(trace: &Trace) -> Vec<Value> {
    let mut all = vec![server(trace)];
    all.extend((0..).zip(&trace.attempts).map(|(nth, attempt)| client(trace, attempt, nth)));
    all
}

fn server(trace: &Trace) -> Value {
    let mut attributes = method(&trace.method);
    attributes.extend([
        text("url.scheme", trace.scheme),
        text("url.path", &trace.path),
        text("server.address", &trace.host),
        text("network.protocol.name", "http"),
        text("network.protocol.version", trace.protocol),
        text("client.address", &trace.client.0.to_string()),
        number("client.port", trace.client.1.into()),
        number("http.response.body.size", trace.bytes_out),
        json!({ "key": "serin.complete", "value": { "boolValue": trace.complete } }),
    ]);
    attributes.extend(trace.user_agent.as_deref().map(|name| text("user_agent.original", name)));
    attributes.extend(Some(trace.status).filter(|status| *status > 0).map(status_code));
    let error = trace.error.map(str::to_owned).or_else(|| (trace.status >= 500).then(|| trace.status.to_string()));
    attributes.extend(error.as_deref().map(|error| text("error.type", error)));
    if let Some(Routed { service, version, role, reason, outcome, attempts }) = &trace.routed {
        attributes.extend([
            text("serin.service", service),
            text("serin.version", version),
            text("serin.role", role),
            text("serin.reason", reason),
            number("serin.attempts", (*attempts).into()),
        ]);
        attributes.extend(outcome.map(|outcome| text("serin.outcome", outcome)));
    }
    let mut span = span(trace, (SERVER, trace.span), (trace.started, trace.took), &attributes);
    if let Some(parent) = trace.parent {
        span["parentSpanId"] = hex(&parent).into();
    }
    // A client's own fault is no error of a server's span.
    if trace.status >= 500 {
        span["status"] = json!({ "code": STATUS_ERROR });
    }
    span
}

fn client(trace: &Trace, attempt: &Attempt, nth: u64) -> Value {
    let mut attributes = method(&trace.method);
    let service = trace.routed.as_ref().map(|routed| text("serin.service", &routed.service));
    attributes.extend(service);
    attributes.extend([text("serin.version", &attempt.version), text("serin.role", attempt.role)]);
    match attempt.endpoint.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?))) {
        Some((host, port)) => attributes.extend([text("server.address", host), number("server.port", port)]),
        None => attributes.push(text("server.address", &attempt.endpoint)),
    }
    attributes.extend((nth > 0).then(|| number("http.request.resend_count", nth)));
    attributes.extend(attempt.status.map(status_code));
    let bad_status = attempt.status.filter(|status| *status >= 400).map(|status| status.to_string());
    let error = attempt.error.map(str::to_owned).or(bad_status);
    attributes.extend(error.as_deref().map(|error| text("error.type", error)));
    let mut span = span(trace, (CLIENT, attempt.span), (attempt.started, attempt.took), &attributes);
    span["parentSpanId"] = hex(&trace.span).into();
    if error.is_some() {
        span["status"] = json!({ "code": STATUS_ERROR });
    }
    span
}

fn span(
    trace: &Trace,
    (kind, id): (u8, [u8; 8]),
    (started, took): (Duration, Duration),
    attributes: &[Value],
) -> Value {
    let mut span = json!({
        "traceId": hex(&trace.id),
        "spanId": hex(&id),
        "flags": 1,
        "name": known(&trace.method).unwrap_or("HTTP"),
        "kind": kind,
        "startTimeUnixNano": started.as_nanos().to_string(),
        "endTimeUnixNano": (started + took).as_nanos().to_string(),
        "attributes": attributes,
    });
    if let Some(state) = &trace.state {
        span["traceState"] = state.as_str().into();
    }
    span
}

fn known(method: &str) -> Option<&'static str> {
    METHODS.into_iter().find(|known| *known == method)
}

fn method(method: &str) -> Vec<Value> {
    match known(method) {
        Some(known) => vec![text("http.request.method", known)],
        None => vec![text("http.request.method", "_OTHER"), text("http.request.method_original", method)],
    }
}

fn status_code(status: u16) -> Value {
    number("http.response.status_code", status.into())
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn number(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
