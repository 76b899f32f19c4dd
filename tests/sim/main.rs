//! The engine on virtual time: decision tables, and seeded simulation of thousands of rollouts.

mod decisions;
mod rollouts;
mod world;
