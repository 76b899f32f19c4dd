//! TELL OF REQUESTS. Takes traces from their queue and sends them in batches to the collector of the settings in force, by
//! OTLP over HTTP with JSON, from a thread of its own. Refuses to keep more than the queue and one batch: what the
//! collector does not take within a few tries is dropped and counted, and no request ever waits for it.

mod otlp;

use std::{
    future::Future,
    io,
    pin::pin,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use serde::Deserialize;
use serde_json::Value;
use tokio::{
    runtime::Builder,
    time::{Instant, sleep, timeout, timeout_at},
};
use tracing::{info, warn};

use crate::{
    measure::{
        Hub,
        traces::{Inbox, Trace},
    },
    outbound::{Client, Limits, Reach},
    publish::{Collector, Publication},
};

/// Most traces in one batch.
const BATCH_MAX: usize = 256;
/// How long a batch is waited for once it has begun.
const BATCH_WAIT: Duration = Duration::from_secs(1);
/// A collector that takes longer than this has not taken the batch.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a batch is sent at most.
const TRIES_MAX: u32 = 4;
/// After a first failure; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Longest pause, also where the collector asks for more.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// What is read of a collector's answer.
const ANSWER_BYTES: usize = 64 << 10;
/// How long the end of the process waits for the last batches.
const FINISH_MAX: Duration = Duration::from_secs(2);

/// What an exporter works with.
#[derive(Debug)]
pub struct Exporter {
    /// Where traces come from.
    pub inbox: Inbox,
    /// Where it is counted what became of them.
    pub hub: Arc<Hub>,
    /// Which collector there is.
    pub publication: Publication,
    /// Whom it may be.
    pub reach: Reach,
}

/// Starts the thread; it ends soon after `stopped` does, with the last batches sent if they can be.
///
/// # Errors
/// When the system has no thread for it.
pub fn start(exporter: Exporter, stopped: impl Future<Output = ()> + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("traces".to_owned()).spawn(move || {
        match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(run(exporter, stopped)),
            Err(error) => tracing::error!("traces are not exported: {error}"),
        }
    })
}

async fn run(exporter: Exporter, stopped: impl Future<Output = ()>) {
    let Exporter { mut inbox, hub, publication, reach } = exporter;
    let mut stopped = pin!(stopped);
    let mut batch = Vec::new();
    // The client costs files and memory that a process without traces need not have.
    tokio::select! {
        first = inbox.recv() => batch.extend(first.map(|trace| *trace)),
        () = stopped.as_mut() => return,
    }
    let limits = Limits { total: PATIENCE, body_bytes: ANSWER_BYTES, ..Limits::default() };
    let mut courier = Courier { client: Client::new(limits, reach), hub, publication, fails: false };
    tokio::select! {
        () = work(&mut inbox, &mut batch, &mut courier) => {}
        () = stopped => {}
    }
    inbox.close();
    // What was under way may come twice then, and what is left behind cannot be sent.
    let _late = timeout(FINISH_MAX, work(&mut inbox, &mut batch, &mut courier)).await;
}

/// Sends batches until no more traces can come. What is in `batch` when it is dropped has not been dealt with.
async fn work(inbox: &mut Inbox, batch: &mut Vec<Trace>, courier: &mut Courier) {
    loop {
        fill(inbox, batch).await;
        if batch.is_empty() {
            return;
        }
        courier.deliver(batch).await;
        batch.clear();
    }
}

/// Fills a batch up, and waits a little while for more once it has begun.
async fn fill(inbox: &mut Inbox, batch: &mut Vec<Trace>) {
    if batch.is_empty() {
        batch.extend(inbox.recv().await.map(|trace| *trace));
    }
    let end = Instant::now() + BATCH_WAIT;
    while batch.len() < BATCH_MAX {
        match timeout_at(end, inbox.recv()).await {
            Ok(Some(trace)) => batch.push(*trace),
            Ok(None) | Err(_) => return,
        }
    }
}

/// The way to the collector.
struct Courier {
    client: Client,
    hub: Arc<Hub>,
    publication: Publication,
    /// Whether the last batch was not taken.
    fails: bool,
}

impl Courier {
    /// Sends a batch, a few times if need be, and counts what became of it.
    async fn deliver(&mut self, batch: &[Trace]) {
        // Tracing was switched off since they were made.
        let Some(collector) = self.publication.settings().collector.clone() else {
            return self.hub.traces().dropped(batch.len());
        };
        let body = Bytes::from(otlp::encode(batch));
        let mut pause = FIRST_PAUSE;
        for tries in 1.. {
            let failure = match self.send(&collector, body.clone()).await {
                Ok(partial) => return self.took(batch.len(), &partial),
                Err(failure) => failure,
            };
            if !failure.may_pass || tries == TRIES_MAX {
                return self.gave_up(batch.len(), &failure.why);
            }
            sleep(pause.max(failure.retry_after).min(PAUSE_MAX)).await;
            pause *= 2;
        }
    }

    /// Taken, but for what the collector says of single spans. It does not say of which: each counts as one of another trace.
    fn took(&mut self, traces: usize, partial: &PartialSuccess) {
        let rejected = usize::try_from(partial.rejected_spans()).unwrap_or(usize::MAX).min(traces);
        self.hub.traces().exported(traces - rejected);
        if rejected > 0 {
            let (spans, why) = (partial.rejected_spans(), partial.error_message.escape_debug());
            return self.gave_up(rejected, &format!("it rejected {spans} spans: {why:.300}"));
        }
        if std::mem::take(&mut self.fails) {
            info!("the collector takes traces again");
        }
    }

    /// Said once until it works again: the metric tells the rest.
    fn gave_up(&mut self, traces: usize, why: &str) {
        self.hub.traces().dropped(traces);
        if !std::mem::replace(&mut self.fails, true) {
            warn!(traces, "the collector does not take traces, they are dropped: {why}");
        }
    }

    async fn send(&self, collector: &Collector, body: Bytes) -> Result<PartialSuccess, Failure> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = collector.url.clone();
        let fields = request.headers_mut();
        fields.extend(collector.headers.iter().cloned());
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        fields.insert(header::USER_AGENT, HeaderValue::from_static(concat!("serin/", env!("CARGO_PKG_VERSION"))));
        match self.client.request(request).await {
            Ok(answer) if answer.status().is_success() => Ok(PartialSuccess::of(answer.body())),
            Ok(answer) => Err(Failure::answered(&answer)),
            Err(error) => Err(Failure { why: error.to_string(), may_pass: true, retry_after: Duration::ZERO }),
        }
    }
}

/// What a collector that took a batch says of parts of it (OTLP, "Partial Success").
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PartialSuccess {
    /// A number, which JSON of OTLP writes as a text.
    rejected_spans: Value,
    error_message: String,
}

impl PartialSuccess {
    /// An answer that says nothing of it, or nothing that can be read, took all.
    fn of(body: &[u8]) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Answer {
            partial_success: PartialSuccess,
        }
        serde_json::from_slice::<Answer>(body).unwrap_or_default().partial_success
    }

    fn rejected_spans(&self) -> u64 {
        let of_text = || self.rejected_spans.as_str().and_then(|text| text.parse().ok());
        self.rejected_spans.as_u64().or_else(of_text).unwrap_or_default()
    }
}

/// Why a batch was not taken.
#[derive(Debug)]
struct Failure {
    why: String,
    /// Whether the same batch may be taken later.
    may_pass: bool,
    retry_after: Duration,
}

impl Failure {
    fn answered(answer: &Response<Bytes>) -> Self {
        let status = answer.status();
        // As OTLP says; a redirect is not followed.
        let may_pass = [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::BAD_GATEWAY,
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::GATEWAY_TIMEOUT,
        ]
        .contains(&status);
        let asked = answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let retry_after = asked.map(Duration::from_secs).unwrap_or_default();
        Self { why: format!("the answer was {status}"), may_pass, retry_after }
    }
}
