//! One event as a message: Slack's form, flat JSON, CloudEvents; signed where there is a secret. Sends nothing.

use bytes::Bytes;
use http::{HeaderValue, Request, header};
use ring::hmac;
use serde_json::{Value, json};

use crate::{
    config::notify::{Format, Receiver},
    engine::{event::Event, names::VersionName, weight::Weight},
    words,
};

/// Carries `sha256=` and the HMAC of the body in hexadecimal.
pub const SIGNATURE: &str = "x-serin-signature-256";
/// The same for every try of one message, so that a receiver can tell a repetition.
pub const ID: &str = "x-serin-event-id";

/// The request that tells an event; none when its URL is none, which the config has seen to.
pub fn request(receiver: &Receiver, event: &Event, before: Option<Weight>) -> Option<Request<Bytes>> {
    let body = serde_json::to_vec(&body(receiver.format, event, before)).ok()?;
    let content = match receiver.format {
        Format::Slack | Format::Json => "application/json",
        Format::CloudEvents => "application/cloudevents+json; charset=utf-8",
    };
    let mut request = Request::post(receiver.url.reveal())
        .header(header::CONTENT_TYPE, content)
        .header(header::USER_AGENT, concat!("serin/", env!("CARGO_PKG_VERSION")))
        .header(ID, id(event));
    if let Some(secret) = &receiver.secret {
        request = request.header(SIGNATURE, HeaderValue::from_str(&signature(secret.reveal(), &body)).ok()?);
    }
    request.body(Bytes::from(body)).ok()
}

/// `sha256=…` over a body.
#[must_use]
pub fn signature(secret: &str, body: &[u8]) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), body);
    tag.as_ref().iter().fold("sha256=".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

/// Unique within a state folder, and over folders that were begun anew as far as their clocks differ.
fn id(event: &Event) -> String {
    format!("{}-{}-{}", event.service, event.sequence, event.at.as_millis())
}

fn body(format: Format, event: &Event, before: Option<Weight>) -> Value {
    let sentence = words::sentence(event, before);
    match format {
        Format::Slack => json!({ "text": format!("*{}* {}", event.service, escaped(&sentence)) }),
        Format::Json => facts(event, &sentence),
        Format::CloudEvents => json!({
            "specversion": "1.0",
            "id": id(event),
            "source": format!("/serin/services/{}", event.service),
            "type": format!("io.serin.rollout.{}", event.kind.as_str()),
            "subject": event.canary.as_ref().unwrap_or(&event.stable).as_str(),
            "time": event.at.to_string(),
            "datacontenttype": "application/json",
            "data": facts(event, &sentence),
        }),
    }
}

fn facts(event: &Event, sentence: &str) -> Value {
    json!({
        "id": id(event),
        "sequence": event.sequence,
        "at": event.at.to_string(),
        "service": event.service.as_str(),
        "revision": event.revision.0,
        "event": event.kind.as_str(),
        "message": sentence,
        "cause": words::cause(&event.cause),
        "stable": event.stable.as_str(),
        "canary": event.canary.as_ref().map(VersionName::as_str),
        "weightPpm": event.weight.ppm(),
        "step": event.step,
    })
}

/// The three characters that mean something to Slack.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::settings::Secret,
        engine::{
            event::{Cause, EventKind},
            names::{Revision, ServiceName},
            time::Timestamp,
        },
    };

    fn event() -> Event {
        Event {
            sequence: 7,
            at: Timestamp::from_millis(1_790_000_000_123),
            service: ServiceName::new("web").unwrap(),
            revision: Revision(2),
            kind: EventKind::Aborted,
            cause: Cause::Person { verb: "abort", actor: "ann".to_owned(), reason: "<b> & co".to_owned() },
            stable: VersionName::new("v1").unwrap(),
            canary: Some(VersionName::new("v2").unwrap()),
            weight: Weight::ZERO,
            step: None,
        }
    }

    fn told(format: Format) -> (Request<Bytes>, Value) {
        let receiver = Receiver {
            url: Secret::new("http://hooks.example/T0/hunter2".to_owned()),
            format,
            secret: Some(Secret::new("It's a Secret to Everybody".to_owned())),
            events: Vec::new(),
        };
        let request = request(&receiver, &event(), "5%".parse().ok()).unwrap();
        let body = serde_json::from_slice(request.body()).unwrap();
        (request, body)
    }

    #[test]
    fn each_form_says_who_what_and_why() {
        let (_, slack) = told(Format::Slack);
        assert_eq!(slack["text"], "*web* v2 aborted at 5%: abort by ann, \"&lt;b&gt; &amp; co\"");
        let (_, plain) = told(Format::Json);
        assert_eq!(
            (&plain["event"], &plain["sequence"], &plain["revision"]),
            (&json!("aborted"), &json!(7), &json!(2))
        );
        let (request, cloud) = told(Format::CloudEvents);
        assert_eq!(request.headers()["content-type"], "application/cloudevents+json; charset=utf-8");
        assert_eq!(
            (&cloud["specversion"], &cloud["type"], &cloud["source"], &cloud["time"]),
            (
                &json!("1.0"),
                &json!("io.serin.rollout.aborted"),
                &json!("/serin/services/web"),
                &json!("2026-09-21T14:13:20.123Z")
            )
        );
        assert_eq!(cloud["id"], request.headers()[ID].to_str().unwrap());
        assert_eq!(cloud["data"], plain);
    }

    #[test]
    fn a_signature_is_the_known_one_of_the_body() {
        let known = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert_eq!(signature("It's a Secret to Everybody", b"Hello, World!"), known);
        let (request, _) = told(Format::Json);
        assert_eq!(request.headers()[SIGNATURE], signature("It's a Secret to Everybody", request.body()));
    }
}
