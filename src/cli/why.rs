//! `serin why`: what a service waits for, or what brought it where it stands.

use super::{
    Global,
    client::Client,
    exit::Exit,
    output::{self, Trouble},
};
use crate::{
    api::{Document, Why},
    words,
};

/// Says what the rollout waits for and how long, what would stop it, or why it was aborted
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin why                    the only service
  serin why web --output json  the same with all numbers, for scripts")]
pub(super) struct Args {
    /// Which service; may be left out when there is only one
    service: Option<String>,
}

pub(super) fn run(args: &Args, global: &Global) -> Result<Exit, Trouble> {
    let client = Client::new(global)?;
    let name = client.service(args.service.as_deref())?;
    let document: Document<Why> = client.get(&format!("/api/v1/services/{name}/why"))?;
    output::show(global, &document, |style| {
        let Why { because, status, .. } = &document.body;
        let because = because.as_ref().map(|because| (because.clone().into(), because.weight_before_ppm));
        let because = because.as_ref().map(|(event, before)| (event, *before));
        words::why(status.at, &status.service.clone().into(), because, style).join("\n") + "\n"
    })?;
    Ok(Exit::Done)
}
