//! All that the control plane asks of the world, on one screen. Carried out in this order: persist, publish, tell.

use std::sync::Arc;

use super::{analysis::ask::Question, event::Event, gate::GateQuestion, memory::ServiceMemory, table::Table};

/// Something to be done. `apply` appends these in the order in which they must happen.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Remember this durably before any later effect is carried out.
    Persist(Box<Decision>),
    /// Let the data plane obey this table.
    Publish {
        /// The whole table.
        table: Arc<Table>,
        /// It takes traffic from a canary: publish without waiting for the disk.
        withdrawal: bool,
    },
    /// Ask somebody else, and tell the answer by `Input::Answered`. Nothing waits for it.
    Measure(Box<Question>),
    /// Ask a gate, and tell the answer by `Input::GateAnswered`. Nothing waits for it.
    Consult(Box<GateQuestion>),
}

/// A decision as it is remembered: what was decided, and what must survive of the service after it.
/// Once persisted and published, its event is told to log, history and listeners.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// What was decided.
    pub event: Event,
    /// The service after it.
    pub memory: ServiceMemory,
}
