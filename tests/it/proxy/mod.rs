//! The data plane alone, over real sockets: real clients, real upstreams, and the counters that it fills.

mod bodies;
mod deadlines;
mod faults;
mod http;
mod rig;
mod shutdown;
mod splitting;
mod upgrades;
