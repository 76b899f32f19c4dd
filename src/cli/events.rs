//! `serin events`: decisions as they come into force.

use std::time::Duration;

use super::{
    Global,
    client::Client,
    exit::Exit,
    history,
    output::{self, Trouble},
};
use crate::api::{Document, Event, Lag};

/// How many of the latest events are shown first.
const TAIL: usize = 10;
/// Looks for the process again so often, a second apart, before giving up.
const PATIENCE: u32 = 30;

/// Shows the latest events, and with -f each further one as it comes into force
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin events                       the last ten
  serin events -f                    and all that follow, over restarts of the process too
  serin events -f web --output json  a JSON document per line")]
pub(super) struct Args {
    /// Which service; all without
    service: Option<String>,
    /// Goes on with what happens from now on
    #[arg(long, short)]
    follow: bool,
}

pub(super) fn run(args: &Args, global: &Global) -> Result<Exit, Trouble> {
    let client = Client::new(global)?;
    let service = args.service.as_deref();
    let mut last = 0;
    for event in history::fetch(&client, service, Some(TAIL))?.body.events {
        last = event.sequence;
        show(global, event)?;
    }
    if !args.follow {
        return Ok(Exit::Done);
    }
    let path = service.map_or_else(|| "/api/v1/events".to_owned(), |name| format!("/api/v1/events?service={name}"));
    let mut failures = 0;
    loop {
        let ended = client.follow(&path, last, |is_lag, data| {
            failures = 0;
            if is_lag {
                return missed(data);
            }
            let event: Document<Event> = serde_json::from_str(data)
                .map_err(|error| Trouble::new(Exit::Failed, format!("an event cannot be read: {error}")))?;
            last = event.body.sequence;
            show(global, event.body)
        });
        match ended {
            Ok(()) => {}
            Err(trouble) if trouble.exit == Exit::Unreachable && failures < PATIENCE => {}
            Err(trouble) => return Err(trouble),
        }
        failures += 1;
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn show(global: &Global, event: Event) -> Result<(), Trouble> {
    let document = Document::new(event);
    output::show(global, &document, |style| history::line(&document.body, style))
}

fn missed(data: &str) -> Result<(), Trouble> {
    let lag: Document<Lag> = serde_json::from_str(data)
        .map_err(|error| Trouble::new(Exit::Failed, format!("a note of lag cannot be read: {error}")))?;
    let missed = crate::words::counted(lag.body.missed, "event");
    output::note(&format!("too slow: {missed} missed; `serin history` has them"));
    Ok(())
}
