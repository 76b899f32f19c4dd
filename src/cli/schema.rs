//! `serin schema`: the config file's JSON Schema, for editors.

use super::{
    exit::Exit,
    output::{self, Trouble},
};
use crate::config::manual;

/// Print the JSON Schema of the config file, with which editors complete and check it
///
/// The first line of a config file tells an editor with a YAML language server where the schema is:
/// `# yaml-language-server: $schema=./serin.schema.json`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin schema > config/serin.schema.json
  serin schema | jq '.properties | keys'")]
pub(super) struct Args {}

pub(super) fn run() -> Result<Exit, Trouble> {
    output::print(&format!("{:#}\n", manual::schema()))?;
    Ok(Exit::Done)
}
