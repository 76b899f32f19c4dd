//! The engine on virtual time: decision tables, and seeded simulation of thousands of rollouts.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod analyses;
mod by_hand;
mod decisions;
mod endpoints;
mod experiments;
mod faults;
mod gates;
mod pains;
mod polling;
mod rollouts;
mod statistics;
mod strategies;
mod world;
