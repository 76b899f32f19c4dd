//! SPEAK. One file per verb: `Args` for clap and `run(&Args) -> Exit`. Data goes to stdout, everything else to stderr.
//! Reaches a running engine by HTTP alone.

pub mod demo;
pub mod exit;
mod interrupt;
pub mod load;
pub mod run;
pub mod toy;
pub mod try_;
pub mod value;
