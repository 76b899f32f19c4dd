//! DECIDE. The control plane as a value: told what happened and what time it is, it answers with what should be done.
//! Pure and deterministic: no await, file, socket, clock, thread, random number or log, and it is never serialised.

pub mod address;
pub mod analysis;
pub mod apply;
pub mod assign;
pub mod effect;
pub mod endpoint;
pub mod event;
pub mod explain;
pub mod failure;
pub mod filter;
pub mod gate;
pub mod health;
pub mod input;
pub mod memory;
pub mod minimum;
pub mod mirror;
pub mod names;
pub mod numbering;
pub mod plan;
pub mod policy;
pub mod request;
mod rollout;
pub mod route;
pub mod samples;
pub mod split;
pub mod stats;
pub mod sticky;
pub mod table;
pub mod time;
pub mod upstream;
pub mod view;
pub mod weight;
mod withdrawal;

pub use apply::{Engine, Recovered};
