//! Any HTTP server: a status of 2xx, and what of the body counts.

use super::{
    http::{Clients, Sent},
    json::{self, parse},
    secret::Secrets,
};
use crate::engine::analysis::{
    answer::{Answer, Reply},
    ask::{Http, Text},
};

pub(super) struct Asked<'a> {
    pub(super) method: &'static str,
    pub(super) url: &'a Text,
    pub(super) body: Option<&'a Text>,
    pub(super) json_path: Option<&'a Text>,
    pub(super) http: &'a Http,
}

pub(super) async fn ask(asked: &Asked<'_>, clients: &Clients, secrets: &mut Secrets) -> Result<Reply, String> {
    let url = secrets.text(asked.url)?;
    let body = secrets.optional(asked.body)?.unwrap_or_default();
    let path = secrets.optional(asked.json_path)?;
    let sent = Sent { method: asked.method, url, headers: Vec::new(), body };
    let body = clients.ask(sent, asked.http, secrets).await?;
    let answer = match path {
        Some(path) => json::answer(json::select(&parse(&body)?, &path)?),
        // As in Argo Rollouts: what is no JSON is a text.
        None => match parse(&body) {
            Ok(value) => json::answer(&value),
            Err(_) => Answer::Text(String::from_utf8_lossy(&body).into_owned()),
        },
    };
    Ok(Reply::Value(answer))
}
