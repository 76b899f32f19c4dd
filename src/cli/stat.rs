//! `serin stat`: each version's numbers, a row each.

use super::{
    Global,
    client::Client,
    exit::Exit,
    output::{self, Trouble},
    picture::Picture,
    status::INTERVAL,
};
use crate::{
    api::{Document, ServiceList, Version},
    words::{self, Cell, Style, Tone},
};

/// Shows the numbers of each version: share, rate, success, latency, over the last minute at most
///
/// The window never reaches past the last change of weight; WINDOW says how long it is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin stat                 every service and version
  serin stat web -w          live, until Ctrl-C
  serin stat --output json   the same document as `serin status`")]
pub(super) struct Args {
    /// Which service; all without
    service: Option<String>,
    /// Goes on: redraws on a terminal, else prints again every second
    #[arg(long, short)]
    watch: bool,
}

pub(super) fn run(args: &Args, global: &Global) -> Result<Exit, Trouble> {
    let client = Client::new(global)?;
    let mut picture = if args.watch && output::is_live(global) { Some(Picture::open()?) } else { None };
    loop {
        let mut list: Document<ServiceList> = client.get("/api/v1/services")?;
        if let Some(wanted) = &args.service {
            list.body.services.retain(|service| service.name.as_str() == wanted);
            if list.body.services.is_empty() {
                return Err(Trouble::new(Exit::Usage, format!("there is no service `{wanted}`")));
            }
        }
        if let Some(picture) = &mut picture {
            picture.draw(&table(&list.body, output::style(global)))?;
        } else {
            output::show(global, &list, |style| table(&list.body, style))?;
        }
        if !args.watch {
            return Ok(Exit::Done);
        }
        match &picture {
            Some(picture) if !picture.wait(INTERVAL) => return Ok(Exit::Interrupted),
            Some(_) => {}
            None => std::thread::sleep(INTERVAL),
        }
    }
}

const COLUMNS: [&str; 12] =
    ["SERVICE", "VERSION", "ROLE", "ASKED", "MEASURED", "RPS", "SUCCESS", "P50", "P95", "P99", "REQUESTS", "WINDOW"];

fn table(list: &ServiceList, style: Style) -> String {
    let rows: Vec<Vec<Cell>> = list
        .services
        .iter()
        .flat_map(|service| service.versions.iter().map(|version| row(service.name.as_str(), version)))
        .collect();
    words::columns(&COLUMNS, &[3, 4, 5, 6, 7, 8, 9, 10, 11], &rows, style)
}

fn row(service: &str, version: &Version) -> Vec<Cell> {
    let or_dash = |text: Option<String>| Cell::new(text.unwrap_or_else(|| "-".to_owned()));
    let latency = |of| or_dash(Option::map(of, words::latency));
    vec![
        Cell::toned(Tone::Strong, service),
        Cell::new(version.name.as_str()),
        Cell::new(version.role.as_str()),
        Cell::new(version.weight.clone()),
        or_dash(version.measured_share.map(words::share)),
        Cell::new(words::rate(version.rps)),
        or_dash(version.error_rate.map(|errors| words::share(1.0 - errors))),
        latency(version.p50_ms),
        latency(version.p95_ms),
        latency(version.p99_ms),
        Cell::new(words::number(version.requests)),
        Cell::new(words::duration(version.window_ms)),
    ]
}
