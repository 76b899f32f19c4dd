//! A connection to the version of a request: a pooled one at once, or a new one while deadline and client are watched.

use std::{future::poll_fn, rc::Rc, task::Poll, time::Instant};

use super::{
    super::{
        error::Failure,
        pool::Lease,
        routing::{Choice, Routing},
    },
    client::Client,
    exchange::Exchange,
    link::Link,
};
use crate::engine::split::{self, Reason};

/// Which connections will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connections {
    Any,
    New,
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum NoLink {
    Failed(Failure),
    /// The client has gone.
    Gone,
    /// The ordinary path has to serve it.
    Leave,
}

impl Exchange<'_> {
    /// A connection to the chosen version. The table may change while one is waited for: the choice is looked at again
    /// at the last moment, so that nothing reaches a version after its weight was taken away. A request that was charged
    /// to a version already goes to stable then.
    pub(super) async fn reach(
        &mut self,
        client: &mut Client<'_>,
        choice: &mut Choice,
        connections: Connections,
        is_further: bool,
    ) -> Result<(), NoLink> {
        self.begin_attempt();
        // The table that chose has been looked at just now.
        if connections == Connections::Any
            && !is_further
            && let Some(lease) = choice.pool().checkout()
        {
            return self.go_over(lease);
        }
        // In a box: connections are opened rarely, and every waiting task would have room for it.
        Box::pin(self.connect(client, choice, connections, is_further)).await
    }

    async fn connect(
        &mut self,
        client: &mut Client<'_>,
        choice: &mut Choice,
        connections: Connections,
        is_further: bool,
    ) -> Result<(), NoLink> {
        loop {
            let pooled = if connections == Connections::Any { choice.pool().checkout() } else { None };
            let lease = match pooled {
                Some(lease) => Ok(lease),
                None => self.open(client, choice).await,
            };
            let routing = self.worker.routing();
            if choice.holds_under(&routing) || matches!(lease, Err(NoLink::Gone)) {
                return lease.and_then(|lease| self.go_over(lease));
            }
            lease.map(Lease::give_back).unwrap_or_default();
            let again = if is_further { choice.of_stable(&routing) } else { self.choose_again(choice, &routing)? };
            let gone = || NoLink::Failed(Failure::malformed("the service is no longer configured"));
            *choice = again.ok_or_else(gone)?;
            self.begin_attempt();
        }
    }

    fn go_over(&mut self, lease: Lease) -> Result<(), NoLink> {
        self.link = Link::new(lease, &mut self.response);
        if self.link.is_some() { Ok(()) } else { Err(NoLink::Leave) }
    }

    async fn open(&mut self, client: &mut Client<'_>, choice: &mut Choice) -> Result<Lease, NoLink> {
        let started = Instant::now();
        let mut opening = Box::pin(choice.connect());
        let opened = poll_fn(|cx| {
            if let Poll::Ready(opened) = opening.as_mut().poll(cx) {
                return Poll::Ready(Some(opened.map_err(|error| NoLink::Failed(Failure::not_connected(&error)))));
            }
            if self.deadline.poll_passed(cx).is_ready() {
                return Poll::Ready(None);
            }
            client.poll_gone(cx).map(|()| Some(Err(NoLink::Gone)))
        })
        .await;
        drop(opening);
        let Some(opened) = opened else {
            choice.gave_up_connecting();
            return Err(NoLink::Failed(Failure::no_connection_in_time()));
        };
        self.trip.connect = Some(started.elapsed());
        opened
    }

    /// Another choice under the table now in force. A client that was promised an id keeps it.
    fn choose_again(&mut self, before: &Choice, routing: &Rc<Routing>) -> Result<Option<Choice>, NoLink> {
        let Some(at) = before.service_under(routing) else { return Ok(None) };
        let service = routing.service(at).filter(|_| routing.fast.has_service(at)).ok_or(NoLink::Leave)?;
        self.claims.sticky = self.claims.sticky.or(before.hand_out);
        let assignment = split::assign(service, &self.claims, || self.worker.draw());
        let mut again = Choice::new(routing, at, assignment).ok_or(NoLink::Leave)?;
        again.hand_out = before.hand_out.filter(|_| again.reason == Reason::Sticky);
        Ok(Some(again))
    }

    fn begin_attempt(&self) {
        let attempt = self.worker.ticks.in_future(self.timeouts.attempt);
        self.deadline.arm_at(attempt.min(self.end));
    }
}
