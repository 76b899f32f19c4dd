//! UP. Facts about traffic: per-worker recorders, drained into Samples; export for Prometheus. Decides nothing.

pub mod compat;
pub mod copies;
pub mod endpoints;
pub mod export;
mod failed_buckets;
pub mod fast_path;
pub mod hub;
pub mod process;
pub mod refused;
pub mod slot;
pub mod totals;
pub mod traces;
pub mod trail;

pub use fast_path::FastPathOutcome;
pub use hub::{Hub, Reader, Recorder};
pub use refused::RefusedReason;
