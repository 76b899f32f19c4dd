//! Gates: a POST that says where the rollout stands, and an answer by its status alone.
//! Lets neither the URL nor a header field out in a message.

use std::{fmt, time::Duration};

use http::{StatusCode, header};
use serde_json::json;

use super::{
    http::{Clients, Sent, excerpt},
    secret::Secrets,
};
use crate::engine::{
    analysis::ask::{Http, Part, Text},
    gate::{GateAnswer, GateQuestion},
};

/// A question with its address.
pub struct Call {
    /// What is asked.
    pub question: GateQuestion,
    /// Where.
    pub url: String,
    /// Header fields.
    pub headers: Vec<(String, String)>,
    /// What is told besides.
    pub metadata: Vec<(String, String)>,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("question", &self.question).finish_non_exhaustive()
    }
}

/// Asks once, and waits no longer than the gate's timeout.
pub(super) async fn ask(call: &Call, clients: &Clients) -> Result<GateAnswer, String> {
    let mut secrets = Secrets::default();
    secrets.keep(call.url.clone());
    call.headers.iter().for_each(|(_, value)| secrets.keep(value.clone()));
    let timeout = call.question.timeout;
    let outcome = tokio::time::timeout(timeout, put(call, clients, &mut secrets)).await;
    outcome.unwrap_or_else(|_| Err(format!("no answer within {timeout:?}"))).map_err(|why| secrets.hide(&why))
}

async fn put(call: &Call, clients: &Clients, secrets: &mut Secrets) -> Result<GateAnswer, String> {
    let plain = |text: &str| Text(vec![Part::Plain(text.to_owned())]);
    let headers = call.headers.iter().map(|(name, value)| (name.clone(), plain(value))).collect();
    let http = Http { headers, ..Http::default() };
    let sent = Sent {
        method: "POST",
        url: call.url.clone(),
        headers: vec![("content-type", "application/json".to_owned())],
        body: body(call),
    };
    let answer = clients.send(sent, &http, secrets).await?;
    match answer.status() {
        StatusCode::OK | StatusCode::CREATED | StatusCode::NO_CONTENT => Ok(GateAnswer::Go),
        StatusCode::ACCEPTED | StatusCode::SERVICE_UNAVAILABLE => {
            // A date is not obeyed.
            let after = answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
            Ok(GateAnswer::Wait(after.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs)))
        }
        StatusCode::CONFLICT => Ok(GateAnswer::Stop),
        status => Err(format!("it answered {status}{}", excerpt(answer.body()))),
    }
}

/// `name`, `phase` and `metadata` as Flagger has them, and what it has not.
fn body(call: &Call) -> String {
    let GateQuestion { ticket, step, kind, phase, stable, canary, weight, .. } = &call.question;
    let metadata: serde_json::Map<_, _> =
        call.metadata.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
    json!({
        "name": ticket.service.as_str(),
        "phase": phase.as_str(),
        "metadata": metadata,
        "gate": &*ticket.gate,
        "type": kind.as_str(),
        "revision": ticket.revision.0,
        "step": step,
        "weightPpm": weight.ppm(),
        "stable": stable.as_str(),
        "canary": canary.as_str(),
    })
    .to_string()
}
