//! UP. Facts about traffic: per-worker recorders, drained into Samples; export for Prometheus. Decides nothing.

pub mod slot;
