//! Numbers: latency buckets, windows over samples, and the share test.

pub mod latency;
pub mod share_test;
pub mod window;
