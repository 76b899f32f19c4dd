//! Replies by idempotency key: the same request again gets the same reply and does nothing twice. Bounded.

use std::{
    collections::VecDeque,
    future::Future,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, Mutex, PoisonError},
};

use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use tokio::sync::OnceCell;

use super::answer::Problem;

/// Replies that are remembered; the oldest goes first.
const REMEMBERED: usize = 256;
/// Longest key.
const KEY_BYTES_MAX: usize = 128;

/// A finished reply.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

#[derive(Debug, Clone)]
struct Entry {
    key: String,
    request: u64,
    reply: Arc<OnceCell<Reply>>,
}

/// The remembered replies.
#[derive(Debug, Default)]
pub(super) struct Replies(Mutex<VecDeque<Entry>>);

impl Replies {
    /// The place of this request's reply, filled or still to be filled; none without a key.
    ///
    /// # Errors
    /// When the key is malformed, or was used for another request.
    pub(super) fn place(
        &self,
        headers: &HeaderMap,
        path: &str,
        body: &[u8],
    ) -> Result<Option<Arc<OnceCell<Reply>>>, Problem> {
        let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
        let key = key.to_str().ok().filter(|key| !key.is_empty() && key.len() <= KEY_BYTES_MAX).ok_or_else(|| {
            let message = format!("an Idempotency-Key has 1 to {KEY_BYTES_MAX} visible ASCII characters");
            Problem::new(StatusCode::BAD_REQUEST, "badKey", message)
        })?;
        let request = fingerprint(path, body);
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.iter().find(|entry| entry.key == key) {
            if entry.request != request {
                let message = "this Idempotency-Key was used for another request";
                return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "keyReused", message)
                    .with_help("make a new key for each thing you want done"));
            }
            return Ok(Some(Arc::clone(&entry.reply)));
        }
        if entries.len() >= REMEMBERED {
            entries.pop_front();
        }
        let reply = Arc::new(OnceCell::new());
        entries.push_back(Entry { key: key.to_owned(), request, reply: Arc::clone(&reply) });
        Ok(Some(reply))
    }
}

/// Runs `work` unless its reply is there already; of several at once one runs, the others wait for its reply.
/// A reply that asks to try again (5xx) is not kept.
pub(super) async fn once<F: Future<Output = Reply>>(place: &OnceCell<Reply>, work: impl FnOnce() -> F) -> Reply {
    let filled = place
        .get_or_try_init(|| async {
            let reply = work().await;
            if reply.status.is_server_error() { Err(reply) } else { Ok(reply) }
        })
        .await;
    match filled {
        Ok(reply) => reply.clone(),
        Err(reply) => reply,
    }
}

fn fingerprint(path: &str, body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (path, body).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(key: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("idempotency-key", key.parse().unwrap());
        headers
    }

    #[test]
    fn a_key_belongs_to_one_request() {
        let replies = Replies::default();
        let first = replies.place(&headers("a"), "/abort", b"{}").unwrap().unwrap();
        let again = replies.place(&headers("a"), "/abort", b"{}").unwrap().unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        assert!(replies.place(&headers("a"), "/promote", b"{}").is_err());
        assert!(replies.place(&headers(&"x".repeat(129)), "/abort", b"").is_err());
        assert!(replies.place(&HeaderMap::new(), "/abort", b"").unwrap().is_none());
    }

    #[test]
    fn only_so_many_are_remembered() {
        let replies = Replies::default();
        let first = replies.place(&headers("0"), "/", b"").unwrap().unwrap();
        for number in 1..=REMEMBERED {
            replies.place(&headers(&number.to_string()), "/", b"").unwrap();
        }
        assert_eq!(replies.0.lock().unwrap().len(), REMEMBERED);
        assert!(!Arc::ptr_eq(&first, &replies.place(&headers("0"), "/", b"").unwrap().unwrap()));
    }
}
