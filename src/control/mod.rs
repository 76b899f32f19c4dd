//! DRIVE. Feeds the engine with inputs and time, carries out its effects in order. Holds no rule about rollouts.

pub mod decider;
pub mod driver;
mod edge;
pub mod effects;
pub mod handle;
pub mod notify;
pub mod source;
pub mod standby;
