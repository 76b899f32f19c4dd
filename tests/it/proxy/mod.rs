//! The data plane alone, over real sockets: real clients, real upstreams, and the counters that it fills.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first surprise")]

mod bodies;
mod cases;
mod deadlines;
mod endpoints;
mod faults;
mod health;
mod http;
mod introduced;
mod kept;
mod lingering;
mod long;
mod mirror;
mod mixture;
mod paths;
mod recovery;
mod rig;
mod routing;
mod shutdown;
mod splitting;
mod tables;
mod tls;
mod upgrades;
