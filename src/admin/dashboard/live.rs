//! The pieces of a page as they change, as server-sent events: once a second, and at once when something is decided.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::{
        IntoResponse as _, Response,
        sse::{Event, Sse},
    },
};
use futures_util::stream;
use serde_json::{Map, Value};
use tokio::{
    sync::{OwnedSemaphorePermit, broadcast, watch},
    time::{Interval, MissedTickBehavior},
};

use super::{
    Inside,
    look::{self, Moment},
    page,
};
use crate::{
    admin::{answer::Problem, read, server, stream::place},
    engine::{event, names::ServiceName},
};

/// How often.
const TICK: Duration = Duration::from_secs(1);

/// `GET /live`
pub(super) async fn overview(State(inside): State<Arc<Inside>>) -> Result<Response, Problem> {
    answer(inside, None)
}

/// `GET /services/{service}/live`
pub(super) async fn service(State(inside): State<Arc<Inside>>, Path(name): Path<String>) -> Result<Response, Problem> {
    let service = read::find(&inside, &name)?.name;
    answer(inside, Some(service))
}

fn answer(inside: Arc<Inside>, service: Option<ServiceName>) -> Result<Response, Problem> {
    let place = place(&inside)?;
    let feed = Feed::new(inside, service, place);
    let stream = stream::unfold(feed, |mut feed| async move {
        let event = feed.next().await?;
        Some((Ok::<_, Infallible>(event), feed))
    });
    let mut response = Sse::new(stream).into_response();
    *response.status_mut() = StatusCode::OK;
    Ok(response)
}

struct Feed {
    inside: Arc<Inside>,
    service: Option<ServiceName>,
    sent: Map<String, Value>,
    ticks: Interval,
    events: broadcast::Receiver<event::Event>,
    closing: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
}

impl Feed {
    fn new(inside: Arc<Inside>, service: Option<ServiceName>, place: OwnedSemaphorePermit) -> Self {
        let (events, closing) = (inside.outside.handle.subscribe(), inside.closing.clone());
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { inside, service, sent: Map::new(), ticks, events, closing, _place: place }
    }

    /// What has changed, as JSON: the HTML by the name of its piece. Never empty, since the clock has gone on.
    async fn next(&mut self) -> Option<Event> {
        tokio::select! {
            _ = self.ticks.tick() => {}
            event = self.events.recv() => match event {
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            },
            () = server::closed(&mut self.closing) => return None,
        }
        let moment = Moment::now(&self.inside.outside.handle);
        let pieces = match &self.service {
            None => look::overview(&moment),
            Some(name) => {
                let service = moment.view.services.iter().find(|service| service.name == *name)?;
                look::pieces(&moment, service, &self.inside.outside.handle)
            }
        };
        let mut news = Map::new();
        news.insert("clock".to_owned(), page::time(moment.view.at).into());
        for (name, markup) in pieces {
            let html = Value::from(markup.into_string());
            if self.sent.get(name) != Some(&html) {
                self.sent.insert(name.to_owned(), html.clone());
                news.insert(name.to_owned(), html);
            }
        }
        Some(Event::default().data(Value::Object(news).to_string()))
    }
}
