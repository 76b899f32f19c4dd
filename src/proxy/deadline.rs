//! Time on a worker: one coarse clock that one periodic tick moves, and the deadlines that it expires.
//! There is no timer per request: to arm a deadline is one store into a dense array, which the tick scans.

use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

/// How often the clock moves. A deadline fires up to this much late, and never early.
pub(super) const TICK: Duration = Duration::from_millis(25);

/// Milliseconds on the worker's coarse clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Coarse(u64);

impl Coarse {
    pub(super) const ZERO: Self = Self(0);
    pub(super) const NEVER: Self = Self(u64::MAX);

    /// So much later; an endless wait is the end of time.
    pub(super) fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(millis(by)))
    }
}

/// A worker's clock and deadlines.
#[derive(Debug)]
pub(super) struct Ticks {
    started: Instant,
    now: Cell<Coarse>,
    slots: RefCell<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    at: Vec<Coarse>,
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl Ticks {
    pub(super) fn new() -> Rc<Self> {
        Rc::new(Self { started: Instant::now(), now: Cell::new(Coarse::ZERO), slots: RefCell::default() })
    }

    /// The time at the last tick.
    pub(super) fn now(&self) -> Coarse {
        self.now.get()
    }

    /// The moment after which a wait that begins now has lasted `wait`: one tick more than the coarse clock says.
    pub(super) fn in_future(&self, wait: Duration) -> Coarse {
        self.now().after(wait).after(TICK)
    }

    /// Moves the clock and wakes whoever waits for a deadline that has come.
    pub(super) fn tick(&self) {
        self.advance_to(Coarse(millis(self.started.elapsed())));
    }

    fn advance_to(&self, now: Coarse) {
        self.now.set(now);
        let mut due = Vec::new();
        {
            let slots = &mut *self.slots.borrow_mut();
            for (at, waker) in slots.at.iter().zip(&mut slots.wakers) {
                if *at <= now {
                    due.extend(waker.take());
                }
            }
        }
        // With the borrow over: a waker that was the last of its task drops the task, and its deadlines with it.
        due.into_iter().for_each(Waker::wake);
    }

    /// Waits for the deadline or for the future, whichever comes first; the future when both have come.
    pub(super) fn until<F: Future>(
        deadline: &Deadline,
        mut future: Pin<&mut F>,
    ) -> impl Future<Output = Option<F::Output>> {
        poll_fn(move |cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => deadline.poll_passed(cx).map(|()| None),
        })
    }
}

/// A deadline that can be armed again and again. Not armed at first.
#[derive(Debug)]
pub(super) struct Deadline {
    ticks: Rc<Ticks>,
    index: usize,
}

impl Deadline {
    pub(super) fn new(ticks: &Rc<Ticks>) -> Self {
        let slots = &mut *ticks.slots.borrow_mut();
        let index = slots.free.pop().unwrap_or_else(|| {
            slots.at.push(Coarse::NEVER);
            slots.wakers.push(None);
            slots.at.len() - 1
        });
        Self { ticks: Rc::clone(ticks), index }
    }

    pub(super) fn ticks(&self) -> &Rc<Ticks> {
        &self.ticks
    }

    /// Lets it pass after `wait` from now.
    pub(super) fn arm(&self, wait: Duration) {
        self.arm_at(self.ticks.in_future(wait));
    }

    /// Lets it pass at that time.
    pub(super) fn arm_at(&self, at: Coarse) {
        self.ticks.slots.borrow_mut().at[self.index] = at;
    }

    /// Lets it never pass.
    pub(super) fn disarm(&self) {
        self.arm_at(Coarse::NEVER);
    }

    pub(super) fn is_armed(&self) -> bool {
        self.ticks.slots.borrow().at[self.index] != Coarse::NEVER
    }

    /// Ready once it has passed, until it is armed anew.
    pub(super) fn poll_passed(&self, cx: &Context<'_>) -> Poll<()> {
        let slots = &mut *self.ticks.slots.borrow_mut();
        if slots.at[self.index] <= self.ticks.now() {
            return Poll::Ready(());
        }
        match &mut slots.wakers[self.index] {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            waker => *waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        let waker = {
            let slots = &mut *self.ticks.slots.borrow_mut();
            slots.at[self.index] = Coarse::NEVER;
            slots.free.push(self.index);
            slots.wakers[self.index].take()
        };
        drop(waker);
    }
}

fn millis(of: Duration) -> u64 {
    u64::try_from(of.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(deadline: &Deadline) -> bool {
        deadline.poll_passed(&Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_deadline_passes_once_its_time_has_come_and_never_early() {
        let ticks = Ticks::new();
        let deadline = Deadline::new(&ticks);
        assert!(!passed(&deadline), "not armed");
        deadline.arm(Duration::from_millis(100));
        ticks.advance_to(Coarse(100));
        assert!(!passed(&deadline), "the clock may have been a tick behind when it was armed");
        ticks.advance_to(Coarse(125));
        assert!(passed(&deadline));
        deadline.disarm();
        assert!(!passed(&deadline));
        deadline.arm(Duration::MAX);
        ticks.advance_to(Coarse(u64::MAX - 1));
        assert!(!passed(&deadline), "an endless wait does not wrap");
    }

    #[test]
    fn places_are_used_again_and_start_unarmed() {
        let ticks = Ticks::new();
        let first = Deadline::new(&ticks);
        first.arm(Duration::ZERO);
        drop(first);
        ticks.advance_to(Coarse(1_000));
        let second = Deadline::new(&ticks);
        assert!(!passed(&second));
        assert_eq!(ticks.slots.borrow().at.len(), 1);
    }
}
