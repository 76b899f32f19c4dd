//! The product as its users meet it: the real binary, real sockets, real upstreams.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod added;
mod admin;
mod admin_socket;
mod analysis;
mod asked;
mod attacks;
mod browser;
mod certificates;
mod chaos;
mod cli;
mod clients;
mod dashboard;
mod edge;
mod floods;
mod gates;
mod guide;
mod harness;
mod health;
mod importing;
mod messages;
mod prometheus;
mod promises;
mod proxy;
mod replacing;
mod secrets;
mod stage;
mod times;
mod traces;
mod upstreams;
