//! `serin reload`: reads the config file again, now.

use super::{
    Global,
    client::Client,
    exit::Exit,
    output::{self, Trouble},
};
use crate::api::{Document, ReloadReply};

/// Reads the config file again now; exit code 3, and nothing changes, when it is refused
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin reload && echo in force
  serin reload --config config/serin.yaml

A running Serin sees a saved file by itself within a second; this says what came of it.")]
pub(super) struct Args {}

pub(super) fn run(_args: &Args, global: &Global) -> Result<Exit, Trouble> {
    let empty = serde_json::Map::new();
    let reply: Document<ReloadReply> = Client::new(global)?.post("/api/v1/reload", &empty)?;
    output::show(global, &reply, |_| format!("{}\n", reply.body.message))?;
    Ok(Exit::Done)
}
