//! Scenarios over real sockets and with the real binary, in one test program.

mod admin;
mod cli;
mod stage;
