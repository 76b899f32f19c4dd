//! What a person needs to try the proxy: toy upstreams and a bounded load. Imported by the command line alone.

pub mod load;
pub mod screen;
pub mod show;
pub mod stage;
pub mod toy;
pub mod trial;
