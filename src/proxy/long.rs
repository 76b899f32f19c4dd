//! What lives for as long as both sides like: tunnels and streams. When their version loses its part, by an abort, a
//! promotion or another wish, they may go on for the service's drain timeout and are ended then.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    rc::{Rc, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::{
    deadline::{Coarse, Ticks},
    routing::Choice,
};
use crate::engine::{
    names::{Generation, Role, ServiceName, VersionName},
    table::Table,
};

/// All of a worker.
#[derive(Debug, Default)]
pub(super) struct LongLived(RefCell<Vec<Weak<State>>>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(super) struct Long(Rc<State>);

#[derive(Debug)]
struct State {
    service: ServiceName,
    version: VersionName,
    /// It had one when this began; others are none to lose it.
    has_part: bool,
    drain_timeout: Cell<Duration>,
    /// The table under which it was looked at last.
    seen: Cell<Option<Generation>>,
    /// When it is ended, once its version has lost its part.
    until: Cell<Option<Coarse>>,
    is_over: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl LongLived {
    /// Takes one in that was routed so.
    pub(super) fn enter(&self, choice: &Choice) -> Long {
        let version = choice.version();
        let state = Rc::new(State {
            service: choice.service().name.clone(),
            version: version.name.clone(),
            has_part: version.role != Role::Other,
            drain_timeout: Cell::new(choice.service().drain_timeout),
            seen: Cell::default(),
            until: Cell::default(),
            is_over: Cell::default(),
            waker: RefCell::default(),
        });
        self.0.borrow_mut().push(Rc::downgrade(&state));
        Long(state)
    }

    /// Looks at each under the table in force.
    pub(super) fn sweep(&self, table: &Table, ticks: &Ticks) {
        let mut over = Vec::new();
        self.0.borrow_mut().retain(|one| {
            let Some(one) = one.upgrade() else { return false };
            if one.look(table, ticks) {
                over.extend(one.waker.take());
            }
            true
        });
        // With the borrow over: whoever is woken may drop others.
        over.into_iter().for_each(Waker::wake);
    }
}

impl State {
    /// Whether its time has just come.
    fn look(&self, table: &Table, ticks: &Ticks) -> bool {
        // Tables may be large, and change seldom.
        if self.seen.replace(Some(table.generation)) != Some(table.generation) {
            self.look_at(table, ticks);
        }
        self.until.get().is_some_and(|until| ticks.now() >= until) && !self.is_over.replace(true)
    }

    fn look_at(&self, table: &Table, ticks: &Ticks) {
        let service = table.services.iter().find(|service| service.name == self.service);
        if let Some(service) = service {
            self.drain_timeout.set(service.drain_timeout);
        }
        let version = service.and_then(|service| service.versions.iter().find(|one| one.name == self.version));
        if !self.has_part || version.is_some_and(|version| version.role != Role::Other) {
            return self.until.set(None);
        }
        let until = self.until.get().unwrap_or_else(|| ticks.in_future(self.drain_timeout.get()));
        self.until.set(Some(until));
    }
}

impl Long {
    /// Ready once it has to end.
    pub(super) fn poll_over(&self, cx: &Context<'_>) -> Poll<()> {
        if self.0.is_over.get() {
            return Poll::Ready(());
        }
        let waker = &mut *self.0.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Waits until it has to end.
    pub(super) async fn over(&self) {
        poll_fn(|cx| self.poll_over(cx)).await;
    }
}
