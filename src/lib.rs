#![doc = "Serin, a mesh-free canary proxy."]

pub mod admin;
pub mod api;
pub mod cli;
pub mod clock;
pub mod config;
pub mod control;
pub mod demo;
pub mod engine;
pub mod measure;
pub mod outbound;
pub mod publish;
pub mod shutdown;
pub mod store;
pub mod telemetry;
pub mod words;
