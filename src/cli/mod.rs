//! SPEAK. One file per verb: `Args` for clap and `run(&Args) -> Exit`. Data goes to stdout, everything else to stderr.
//! Reaches a running engine by HTTP alone.

pub mod exit;
pub mod load;
pub mod toy;
pub mod value;
