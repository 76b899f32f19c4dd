//! `serin history`: every decision, oldest first.

use super::{
    Global,
    client::Client,
    exit::Exit,
    output::{self, Trouble},
};
use crate::{
    api::{self, Document},
    words::{self, Style},
};

/// Lists what was decided, when and on which numbers, oldest first
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin history                     all that is remembered, of all services
  serin history web --limit 5       the last five
  serin history --output json       with every number")]
pub(super) struct Args {
    /// Which service; all without
    service: Option<String>,
    /// Only the newest so many
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,
}

pub(super) fn run(args: &Args, global: &Global) -> Result<Exit, Trouble> {
    let history = fetch(&Client::new(global)?, args.service.as_deref(), args.limit)?;
    output::show(global, &history, |style| history.body.events.iter().map(|event| line(event, style)).collect())?;
    Ok(Exit::Done)
}

/// The newest events, oldest first.
pub(super) fn fetch(
    client: &Client,
    service: Option<&str>,
    limit: Option<usize>,
) -> Result<Document<api::History>, Trouble> {
    let of = service.map_or_else(String::new, |service| format!("services/{service}/"));
    let limit = limit.map_or_else(String::new, |limit| format!("?limit={limit}"));
    client.get(&format!("/api/v1/{of}history{limit}"))
}

/// An event as one line.
pub(super) fn line(event: &api::Event, style: Style) -> String {
    words::history_line(&event.clone().into(), &event.message, style) + "\n"
}
