//! `serin healthcheck`: for containers without a shell or curl. Exit code 0 or 1, as Docker wants it.

use super::{
    Global,
    client::Client,
    exit::Exit,
    output::{self, Trouble},
};

/// Asks whether Serin is alive; exit code 0 or 1
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin healthcheck
  serin healthcheck --url http://127.0.0.1:9100/readyz

In a Dockerfile:
  HEALTHCHECK CMD [\"/serin\", \"healthcheck\"]")]
pub(super) struct Args {
    /// What to ask instead of the admin listener's /healthz
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

pub(super) fn run(args: &Args, global: &Global) -> Result<Exit, Trouble> {
    let page = Client::new(global).and_then(|client| client.page(args.url.as_deref(), "/healthz"));
    match page {
        Ok((status, text)) if status.is_success() => {
            output::print(&format!("{}\n", text.trim_end()))?;
            Ok(Exit::Done)
        }
        Ok((status, text)) => Err(Trouble::new(Exit::Failed, format!("{status}: {}", text.trim_end()))),
        Err(trouble) => Err(Trouble::new(Exit::Failed, trouble.message())),
    }
}
