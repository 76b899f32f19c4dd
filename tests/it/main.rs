//! The product as its users meet it: the real binary, real sockets, real upstreams.

mod admin;
mod cli;
mod harness;
mod promises;
mod proxy;
mod stage;
