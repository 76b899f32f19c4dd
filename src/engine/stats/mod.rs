//! Numbers: latency buckets, windows over samples, the share test, the proof that a canary is safe, and forecasts.

pub mod forecast;
pub mod latency;
pub mod safe_test;
pub mod share_test;
pub mod window;
