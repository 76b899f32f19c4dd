//! One copy on its way: sent over connections of its own, its answer read as it comes, counted and thrown away.

use std::{
    future::poll_fn,
    io,
    pin::pin,
    rc::Rc,
    time::{Duration, Instant},
};

use http::{Response, StatusCode, request::Parts};

use super::{
    Answer, Original, Target,
    room::{Admitted, Body},
};
use crate::{
    engine::{
        mirror::{MARK, SAFE},
        split::Reason,
    },
    measure::{copies::CopyEnd, slot::Ending},
    proxy::{
        body::{Copied, RequestBody},
        deadline::{Deadline, Ticks},
        edit,
        error::{self, Failure},
        headers::Hop,
        http1::RequestHead,
        pool::Lease,
        upstream::{Unanswered, UpstreamBody},
        worker::Worker,
    },
};

/// How long a copy may take, from its beginning to the end of its answer.
const COPY_MAX: Duration = Duration::from_secs(10);
/// How much of an answer is read before its connection is closed.
const ANSWER_MAX: usize = 1024 * 1024;

/// A copy with all that it needs.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) worker: Rc<Worker>,
    pub(super) target: Target,
    pub(super) head: Rc<Parts>,
    pub(super) takes_trailers: bool,
    pub(super) body: Option<Rc<Body>>,
    pub(super) original: Rc<Original>,
    pub(super) _admitted: Admitted,
}

impl Sending {
    /// Sends it and reads the answer, within bounds of time and size.
    pub(super) async fn run(mut self) {
        let deadline = Deadline::new(&self.worker.ticks);
        deadline.arm(COPY_MAX);
        let answered = Ticks::until(&deadline, pin!(self.exchange())).await.unwrap_or(Err(CopyEnd::TimedOut));
        let slot = self.target.choice.slot();
        let (end, status) = match &answered {
            Ok((response, _)) => (CopyEnd::Answered, response.status().as_u16()),
            Err(end) => (*end, 0),
        };
        slot.copied(end);
        if end.is_sent() {
            slot.served(Reason::Mirror, status);
        }
        let Ok((response, latency)) = answered else { return };
        self.original.copy_answered(&self.target.choice, Answer { status, latency: Some(latency) });
        // The answer may be longer, or never end: what was wanted of it is known.
        Ticks::until(&deadline, pin!(throw_away(response.into_body()))).await;
    }

    /// The response head, and how long it took. A connection that the upstream was just closing is nobody's failure, and
    /// there is one more try.
    async fn exchange(&mut self) -> Result<(Response<UpstreamBody>, Duration), CopyEnd> {
        let head = self.head();
        let hop = Hop { upgrade: None, takes_trailers: self.takes_trailers };
        let mut pooled = self.target.choice.pool().checkout();
        loop {
            let lease = match pooled.take() {
                Some(lease) => lease,
                None => self.connect().await?,
            };
            if !self.target.stands_under(&self.worker.routing()) {
                lease.give_back();
                return Err(CopyEnd::Withdrawn);
            }
            let (may_be_stale, since) = (lease.is_reused(), Instant::now());
            let request = RequestHead { head: &head, hop: &hop, endpoint: self.target.choice.endpoint() };
            match lease.send(request, self.body()).await {
                Ok(response) if response.status() == StatusCode::SWITCHING_PROTOCOLS => return Err(CopyEnd::Malformed),
                Ok(response) => return Ok((response, since.elapsed())),
                Err(Unanswered { error, unsent }) => {
                    let can_repeat = unsent.is_some() || SAFE.contains(&head.method);
                    if !(may_be_stale && can_repeat && error::is_stale_connection(&error)) {
                        return Err(end_of(&Failure::of_attempt(&error)));
                    }
                }
            }
        }
    }

    async fn connect(&mut self) -> Result<Lease, CopyEnd> {
        self.target.choice.connect().await.map_err(|error| match error.kind() {
            io::ErrorKind::QuotaExceeded => CopyEnd::Busy,
            _ => CopyEnd::ConnectFailed,
        })
    }

    /// The head with its mark and what is changed for that version alone.
    fn head(&self) -> Parts {
        let mut head = Parts::clone(&self.head);
        if let Some(mark) = self.target.cause.mark() {
            head.headers.insert(MARK, mark);
        }
        edit::headers(&mut head.headers, &self.target.choice.version().filters.request);
        head
    }

    fn body(&self) -> RequestBody {
        let Some(body) = &self.body else { return RequestBody::None };
        RequestBody::Copied(Box::new(Copied { bytes: body.bytes.clone(), trailers: body.trailers.clone() }))
    }
}

fn end_of(failure: &Failure) -> CopyEnd {
    match failure.ending {
        Ending::Malformed => CopyEnd::Malformed,
        _ => CopyEnd::Reset,
    }
}

async fn throw_away(mut body: UpstreamBody) {
    let mut read = 0;
    while !body.is_end_stream() {
        let Some(Ok(frame)) = poll_fn(|cx| body.poll_frame(cx)).await else { break };
        read += frame.data_ref().map_or(0, bytes::Bytes::len);
        if read > ANSWER_MAX {
            return body.abandon();
        }
    }
    if body.is_end_stream() {
        body.give_back();
    }
}
