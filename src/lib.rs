#![doc = "Serin, a mesh-free canary proxy."]

pub mod admin;
pub mod api;
pub mod cli;
pub mod clock;
pub mod config;
pub mod control;
pub mod engine;
pub mod measure;
pub mod publish;
pub mod words;
