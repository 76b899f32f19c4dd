//! Events as they come into force, as server-sent events. A listener that is too slow is told how much it missed.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::{Query, State, rejection::QueryRejection},
    http::{HeaderMap, StatusCode},
    response::{
        IntoResponse, Response,
        sse::{self, KeepAlive, Sse},
    },
};
use futures_util::stream;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, broadcast, watch};

use super::{Inside, STREAMS_MAX, answer::Problem, read, server};
use crate::{
    api::{Document, Lag},
    engine::{event::Event, names::ServiceName},
};

/// A comment this often keeps quiet connections open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Which events are wanted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    service: Option<String>,
}

/// `GET events?service=`; with `Last-Event-ID`, remembered events after that one come first.
pub(super) async fn events(
    State(inside): State<Arc<Inside>>,
    headers: HeaderMap,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|rejection| {
        Problem::new(StatusCode::BAD_REQUEST, "badQuery", rejection.body_text())
            .with_help("`?service=NAME` chooses one service")
    })?;
    let service = query.service.map(|name| read::find(&inside, &name)).transpose()?.map(|service| service.name);
    let place = place(&inside)?;
    let after = headers.get("last-event-id").and_then(|id| id.to_str().ok()).and_then(|id| id.parse().ok());
    let feed = Feed::new(inside, service, after, place);
    let stream = stream::unfold(feed, |mut feed| async move {
        let event = feed.next().await?;
        Some((Ok::<_, Infallible>(event), feed))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

/// A place for one more stream.
///
/// # Errors
/// When all are taken.
pub(super) fn place(inside: &Inside) -> Result<OwnedSemaphorePermit, Problem> {
    Arc::clone(&inside.streams).try_acquire_owned().map_err(|_| {
        let message = format!("{STREAMS_MAX} event streams are open already");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "tooManyStreams", message)
    })
}

/// One listener's feed.
struct Feed {
    inside: Arc<Inside>,
    service: Option<ServiceName>,
    missed_before: VecDeque<Event>,
    sent: u64,
    events: broadcast::Receiver<Event>,
    closing: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
}

impl Feed {
    fn new(inside: Arc<Inside>, service: Option<ServiceName>, after: Option<u64>, place: OwnedSemaphorePermit) -> Self {
        // Subscribed before the history is read: what falls between is in both, and `sent` drops the double.
        let events = inside.outside.handle.subscribe();
        let missed_before = match after {
            Some(after) => inside.outside.handle.history().into_iter().filter(|event| event.sequence > after).collect(),
            None => VecDeque::new(),
        };
        let closing = inside.closing.clone();
        Self { inside, service, missed_before, sent: after.unwrap_or(0), events, closing, _place: place }
    }

    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            let event = match self.missed_before.pop_front() {
                Some(event) => event,
                None => match self.receive().await? {
                    Ok(event) => event,
                    Err(missed) => return lag(missed),
                },
            };
            if event.sequence > self.sent && self.service.as_ref().is_none_or(|service| event.service == *service) {
                self.sent = event.sequence;
                return self.wire(&event);
            }
        }
    }

    /// The next event, or how many were missed; none when the process goes down.
    async fn receive(&mut self) -> Option<Result<Event, u64>> {
        tokio::select! {
            event = self.events.recv() => match event {
                Ok(event) => Some(Ok(event)),
                Err(broadcast::error::RecvError::Lagged(missed)) => Some(Err(missed)),
                Err(broadcast::error::RecvError::Closed) => None,
            },
            () = server::closed(&mut self.closing) => None,
        }
    }

    fn wire(&self, event: &Event) -> Option<sse::Event> {
        let wire = read::wire_event(event, &self.inside.outside.handle.history());
        let data = serde_json::to_string(&Document::new(wire)).ok()?;
        Some(sse::Event::default().id(event.sequence.to_string()).data(data))
    }
}

fn lag(missed: u64) -> Option<sse::Event> {
    let data = serde_json::to_string(&Document::new(Lag { missed })).ok()?;
    Some(sse::Event::default().event("lag").data(data))
}
