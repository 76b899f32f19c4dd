//! UP. Facts about traffic: per-worker recorders, drained into Samples; export for Prometheus. Decides nothing.

pub mod hub;
pub mod refused;
pub mod slot;

pub use hub::{Hub, Recorder};
pub use refused::RefusedReason;
