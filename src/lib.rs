#![doc = "Serin, a mesh-free canary proxy."]

pub mod cli;
pub mod clock;
pub mod config;
pub mod control;
pub mod engine;
pub mod measure;
pub mod proxy;
pub mod publish;
