//! SPEAK. One file per verb: `Args` for clap and `run(&Args) -> Exit`. Data goes to stdout, everything else to stderr.
//! Reaches a running engine by HTTP alone.

pub mod check;
pub mod exit;
