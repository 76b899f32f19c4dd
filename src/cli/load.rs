//! `serin load`: a bounded load, and what came of it.

use std::{
    error::Error,
    io::{self, Write},
    time::Duration,
};

use http::Uri;
use tokio::signal::unix::{SignalKind, signal};

use super::{
    Global,
    exit::Exit,
    output::{self, Format},
    value,
};
use crate::demo::load::{Arrivals, Load, LoadSpec, Summary};

/// Sends requests at a steady rate, whatever the answers do, and sums up what came of them
///
/// Requests are due at times fixed beforehand, and latency counts from then: a target that stalls cannot hide it.
/// Not more than `--connections` requests are under way, as many more may wait; those that find no place are counted
/// as missed and never sent. SIGINT ends a load early, with its summary. Exit code 0 says that the load ran, not
/// that the answers were good.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  serin load --rate 200 --for 30s http://127.0.0.1:8080
  serin load --rate 50 --connections 100 --cookie-per-client --output json http://127.0.0.1:8080/shop")]
pub struct Args {
    /// What is asked for, with GET
    pub url: Uri,
    /// Requests a second
    #[arg(long, default_value_t = 100.0)]
    pub rate: f64,
    /// For how long
    #[arg(long = "for", value_name = "DURATION", value_parser = value::duration, default_value = "30s")]
    pub duration: Duration,
    /// Connections, kept alive
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub connections: usize,
    /// How the times at which requests are due are spread
    #[arg(long, value_enum, default_value_t = Spread::Even)]
    pub arrivals: Spread,
    /// Each connection is a client of its own that sends back the cookies it got
    #[arg(long)]
    pub cookie_per_client: bool,
    /// A request without whole answer after this is given up
    #[arg(long, value_name = "DURATION", value_parser = value::duration, default_value = "10s")]
    pub timeout: Duration,
    /// Sends a request again, until its timeout, that found no connection or lost it before the answer began
    #[arg(long)]
    pub reconnect: bool,
}

/// How the times at which requests are due are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Spread {
    /// At equal distances
    Even,
    /// At random, as if many clients did not know of each other
    Poisson,
}

/// Runs the load to its end.
pub(super) fn run(args: &Args, global: &Global) -> Exit {
    match send(args).and_then(|summary| Ok(print(args, global.output, &summary, &mut io::stdout().lock())?)) {
        Ok(()) => Exit::Done,
        Err(error) => {
            output::note(&error.to_string());
            Exit::Failed
        }
    }
}

fn send(args: &Args) -> Result<Summary, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let mut load = Load::start(spec_of(args))?;
        tokio::select! {
            () = load.finished() => {}
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Ok(load.stop())
    })
}

fn spec_of(args: &Args) -> LoadSpec {
    LoadSpec {
        url: args.url.clone(),
        rate: args.rate,
        arrivals: match args.arrivals {
            Spread::Even => Arrivals::Even,
            Spread::Poisson => Arrivals::Poisson,
        },
        duration: Some(args.duration),
        connections: args.connections,
        cookies: args.cookie_per_client,
        timeout: args.timeout,
        reconnect: args.reconnect,
    }
}

fn print(args: &Args, format: Format, summary: &Summary, to: &mut impl Write) -> io::Result<()> {
    match format {
        Format::Json | Format::Sarif => {
            serde_json::to_writer_pretty(&mut *to, summary)?;
            writeln!(to)
        }
        Format::Yaml => to.write_all(serde_yaml::to_string(summary).map_err(io::Error::other)?.as_bytes()),
        Format::Table => table(args, summary, to),
    }
}

fn table(args: &Args, summary: &Summary, to: &mut impl Write) -> io::Result<()> {
    let Summary { due, missed, answered, broken, timed_out, .. } = summary;
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    let rate = if summary.seconds > 0.0 { *answered as f64 / summary.seconds } else { 0.0 };
    writeln!(to, "requests   {due} due, {answered} answered, {broken} broken, {timed_out} timed out, {missed} missed")?;
    writeln!(to, "rate       {rate:.1}/s answered, {}/s asked, over {:.1} s", args.rate, summary.seconds)?;
    if *missed > 0 {
        writeln!(to, "           missed: no free connection; try more --connections or a lower --rate")?;
    }
    if let Some(at) = summary.latency {
        let (mean, p50, p90, p99, p999, max) = (at.mean, at.p50, at.p90, at.p99, at.p999, at.max);
        writeln!(
            to,
            "latency    mean {mean:.2} ms, p50 {p50:.2}, p90 {p90:.2}, p99 {p99:.2}, p99.9 {p999:.2}, max {max:.2}"
        )?;
    }
    if !summary.statuses.is_empty() {
        let statuses: Vec<_> = summary.statuses.iter().map(|(status, count)| format!("{status}: {count}")).collect();
        writeln!(to, "status     {}", statuses.join(", "))?;
        let width = summary.versions.keys().map(String::len).max().unwrap_or(0).max("version".len());
        writeln!(to, "\n{:<width$}  {:>9}  {:>9}", "version", "answered", "failed")?;
        for (version, counts) in &summary.versions {
            writeln!(to, "{version:<width$}  {:>9}  {:>9}", counts.answered, counts.failed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use clap::Parser;

    use super::*;
    use crate::demo::toy::{Toy, ToySpec};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        global: Global,
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Line::try_parse_from(line.split(' ')).map(|line| line.args)
    }

    fn printed(args: &Args, format: Format, summary: &Summary) -> String {
        let mut text = Vec::new();
        print(args, format, summary, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn its_arguments_say_what_is_sent() {
        let args = parse("load --rate 200 --for 1m --connections 8 --cookie-per-client http://127.0.0.1:1/x").unwrap();
        let expected = LoadSpec {
            duration: Some(Duration::from_mins(1)),
            connections: 8,
            cookies: true,
            ..LoadSpec::new("http://127.0.0.1:1/x".parse().unwrap(), 200.0)
        };
        assert_eq!(spec_of(&args), expected);
        assert!(parse("load --for 30 http://127.0.0.1:1").is_err());
        assert!(parse("load").is_err());
    }

    #[test]
    fn a_run_ends_with_a_summary_for_people_and_programs() {
        let toy = Toy::start(ToySpec::new("v1", SocketAddr::from(([127, 0, 0, 1], 0)))).unwrap();
        let args = parse(&format!("load --rate 100 --for 100ms http://{}", toy.address())).unwrap();
        let summary = send(&args).unwrap();
        assert_eq!(summary.answered, 10);
        let table = printed(&args, Format::Table, &summary);
        assert!(table.starts_with("requests   10 due, 10 answered, 0 broken, 0 timed out, 0 missed\n"), "{table}");
        assert!(table.contains("status     200: 10\n"), "{table}");
        assert!(table.ends_with("\nversion   answered     failed\nv1              10          0\n"), "{table}");
        let json: serde_json::Value = serde_json::from_str(&printed(&args, Format::Json, &summary)).unwrap();
        assert_eq!(json["versions"]["v1"]["answered"], 10);
        assert_eq!(json["statuses"]["200"], 10);
        assert_eq!(json["timedOut"], 0);
    }

    #[test]
    fn a_load_that_cannot_start_fails_with_words() {
        let line = Line::try_parse_from(["load", "--rate", "0", "http://127.0.0.1:1"]).unwrap();
        assert!(send(&line.args).unwrap_err().to_string().starts_with("a load has a rate above 0"));
        assert_eq!(run(&line.args, &line.global), Exit::Failed);
    }
}
