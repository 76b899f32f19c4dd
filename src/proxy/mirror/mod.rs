//! Copies of requests: which a request has, what of it is kept for them, and how much there may be of both. A copy goes
//! its own way beside the request; the request waits for nothing here, and fails by nothing.
//!
//! A copy is the request as its version gets it, after the route's changes: the same host, path and fields, without
//! `Expect`, and with `serin-mirror`, which names the route that made it. A request that has that field is no longer
//! copied, so that two proxies cannot copy each other's copies; neither is what asks for another protocol.

mod copy;
mod room;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use http::{HeaderMap, HeaderValue, header, request::Parts};

pub(super) use self::room::Mirrors;
use self::room::{Admitted, BODY_MAX, Kept};
use super::{
    headers::Hop,
    routing::{Choice, Routing},
    way::Way,
    worker::Worker,
};
use crate::{
    engine::{request::RequestView, split::Reason},
    measure::copies::CopyEnd,
};

/// Copies that a request is to have.
#[derive(Debug)]
pub(super) struct Wanted(Vec<Target>);

/// Where one copy goes.
#[derive(Debug)]
struct Target {
    choice: Choice,
    cause: Cause,
}

/// What asks for it.
#[derive(Debug, Clone)]
enum Cause {
    /// The filter of the route of this name.
    Route(HeaderValue),
    /// The rollout's mirror route of this name.
    Rollout(Arc<str>),
}

/// Copies of a request that is under way. Dropped before its body is whole, there are none.
#[derive(Debug)]
pub(super) struct Copies {
    worker: Rc<Worker>,
    head: Rc<Parts>,
    takes_trailers: bool,
    targets: Vec<(Target, Admitted)>,
    /// Of its body; none once the copies are given up.
    kept: Option<Kept>,
    original: Rc<Original>,
}

/// The request's own answer, once it is there, and those of copies that were quicker.
#[derive(Debug, Default)]
pub(super) struct Original {
    answer: Cell<Option<Answer>>,
    quicker: RefCell<Vec<(Choice, Answer)>>,
}

/// What is compared of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// From the request written to the response head; none where there was no head.
    pub(super) latency: Option<Duration>,
}

/// Decides which copies the request has that `choice` was made for. None in nearly all cases.
pub(super) fn wanted(
    worker: &Worker,
    routing: &Rc<Routing>,
    way: &Way,
    choice: &Choice,
    request: &RequestView<'_>,
) -> Option<Box<Wanted>> {
    if !routing.has_mirrors {
        return None;
    }
    let by_route = way.mirror().and_then(|(filter, route, name)| {
        let service = routing.mirror_of(route)?;
        let choice = Choice::for_copy(routing, service, routing.service(service)?.stable)?;
        let cause = Cause::Route(HeaderValue::from_str(name).ok()?);
        filter.takes(request, || worker.draw()).then_some(Target { choice, cause })
    });
    let (service, version) = choice.place();
    let by_rollout = routing.service(service).and_then(|table| {
        let route = table.mirrored(version, request, || worker.draw())?;
        let choice = Choice::for_copy(routing, service, table.canary?)?;
        Some(Target { choice, cause: Cause::Rollout(Arc::clone(&route.name)) })
    });
    let targets: Vec<Target> = by_route.into_iter().chain(by_rollout).collect();
    (!targets.is_empty()).then(|| Box::new(Wanted(targets)))
}

impl Wanted {
    /// Begins the copies of a request whose head is ready for upstreams and whose body has at least so many bytes. What
    /// there is no room for is counted and let go.
    pub(super) fn begin(self, worker: &Rc<Worker>, head: &Parts, hop: &Hop, body: u64) -> Option<Box<Copies>> {
        if hop.upgrade.is_some() {
            return None;
        }
        let is_too_large = body > BODY_MAX as u64;
        let admit = |target: Target| {
            let admitted = if is_too_large { Err(CopyEnd::TooLarge) } else { Admitted::new(worker) };
            match admitted {
                Ok(admitted) => Some((target, admitted)),
                Err(why) => {
                    target.choice.slot().copied(why);
                    None
                }
            }
        };
        let targets: Vec<_> = self.0.into_iter().filter_map(admit).collect();
        let mut head = (!targets.is_empty()).then(|| head.clone())?;
        head.headers.remove(header::EXPECT);
        Some(Box::new(Copies {
            worker: Rc::clone(worker),
            head: Rc::new(head),
            takes_trailers: hop.takes_trailers,
            targets,
            kept: Some(Kept::new(worker)),
            original: Rc::default(),
        }))
    }
}

impl Copies {
    /// Where the request's own answer is to be told.
    pub(super) fn original(&self) -> &Rc<Original> {
        &self.original
    }

    /// Keeps a piece of the body.
    pub(super) fn keep(&mut self, piece: &[u8]) {
        if let Some(Err(why)) = self.kept.as_mut().map(|kept| kept.add(piece)) {
            self.give_up(why);
        }
    }

    /// Keeps what comes behind the body.
    pub(super) fn keep_trailers(&mut self, trailers: &HeaderMap) {
        if let Some(Err(why)) = self.kept.as_mut().map(|kept| kept.add_trailers(trailers)) {
            self.give_up(why);
        }
    }

    /// The body, if there is one, has come to its end: the copies leave.
    pub(super) fn send(mut self, has_body: bool) {
        let body = self.kept.take().filter(|_| has_body).map(|kept| Rc::new(kept.whole()));
        for (target, admitted) in self.targets.drain(..) {
            let sending = copy::Sending {
                worker: Rc::clone(&self.worker),
                target,
                head: Rc::clone(&self.head),
                takes_trailers: self.takes_trailers,
                body: body.clone(),
                original: Rc::clone(&self.original),
                _admitted: admitted,
            };
            self.worker.spawn_beside("the copy of a request", sending.run());
        }
    }

    fn give_up(&mut self, why: CopyEnd) {
        for (target, _) in self.targets.drain(..) {
            target.choice.slot().copied(why);
        }
        self.kept = None;
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        self.give_up(CopyEnd::CutShort);
    }
}

impl Target {
    /// Whether the copy may still be sent under the table that is now in force.
    fn stands_under(&self, now: &Rc<Routing>) -> bool {
        let by_rollout = |name: &Arc<str>| {
            let service = self.choice.service_under(now).and_then(|at| now.service(at));
            service.is_some_and(|of| !of.draining && of.mirror_routes.iter().any(|route| route.name == *name))
        };
        debug_assert!(self.choice.reason == Reason::Mirror, "made by `Choice::for_copy`");
        self.choice.holds_under(now)
            && match &self.cause {
                Cause::Route(_) => true,
                Cause::Rollout(name) => by_rollout(name),
            }
    }
}

impl Cause {
    fn mark(&self) -> Option<HeaderValue> {
        match self {
            Self::Route(name) => Some(name.clone()),
            Self::Rollout(name) => HeaderValue::from_str(name).ok(),
        }
    }
}

impl Original {
    /// The request has its answer, or what the client was told in place of one.
    pub(super) fn answered(&self, answer: Answer) {
        self.answer.set(Some(answer));
        for (choice, of_copy) in self.quicker.take() {
            compare(&choice, answer, of_copy);
        }
    }

    /// A copy has its answer.
    fn copy_answered(&self, choice: &Choice, of_copy: Answer) {
        match self.answer.get() {
            Some(answer) => compare(choice, answer, of_copy),
            None => self.quicker.borrow_mut().push((choice.clone(), of_copy)),
        }
    }
}

fn compare(choice: &Choice, original: Answer, copy: Answer) {
    let is_same_class = original.status / 100 == copy.status / 100;
    choice.slot().compared(is_same_class, original.latency.zip(copy.latency));
}
