//! The engine on virtual time: decision tables, and seeded simulation of thousands of rollouts.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod analyses;
mod decisions;
mod endpoints;
mod experiments;
mod gates;
mod rollouts;
mod strategies;
mod world;
