//! `serin rehearse`: tries a service's plan on made-up traffic before it meets real one. Reads one file, asks nobody.

use std::{
    fs,
    io::{BufRead as _, BufReader, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    sync::Mutex,
    time::{Duration, Instant},
};

use clap::builder::PossibleValuesParser;

use super::{
    Global,
    exit::Exit,
    output::{self, Trouble},
};
use crate::{
    api::Document,
    config,
    rehearse::{self, MODELS, RATE_MAX, RUNS_MAX, Recorder, Recording, Rehearsal, Report},
};

/// Requests a second where nothing else is said.
const RATE: f64 = 100.0;

/// Runs a service's plan against made-up releases and traffic, on virtual time
///
/// The plan goes through the engine that decides in production, thousands of times in seconds: which bad releases it
/// would revert, when, on which evidence and at how many failed requests, how often it would revert a sound one, and
/// which of its gates never fire. Nothing is sent anywhere. The same seed gives the same report.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin rehearse
  serin rehearse config/serin.yaml --rate 20 --runs 1000
  serin rehearse --model healthy,fails-5 --svg rehearsal.svg
  serin rehearse --log access.jsonl")]
pub struct Args {
    /// The file [default: $SERIN_CONFIG, then ./serin.yaml, then config/serin.yaml]
    file: Option<PathBuf>,
    /// Which service; may be left out when there is only one
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// What the chances follow from: the same seed gives the same report
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Requests a second, both versions together [default: 100, or that of the log]
    #[arg(long, value_name = "RPS", value_parser = rate)]
    rate: Option<f64>,
    /// Takes traffic, errors and latencies of a sound version from an access log in JSON, as Serin writes it
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Rollouts of each model
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=RUNS_MAX as i64))]
    runs: u32,
    /// Only these models [default: all]
    #[arg(
        long = "model",
        value_name = "NAME",
        num_args = 1..,
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(MODELS.map(|model| model.name))
    )]
    models: Vec<String>,
    /// Also draws weights and failed requests over time into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Rehearses and prints the report. Exit code 0 says that it was rehearsed, not that the plan is good.
pub(super) fn run(args: &Args, global: &Global) -> Result<Exit, Trouble> {
    let report = rehearsed(args, global)?;
    if let Some(path) = &args.svg {
        fs::write(path, rehearse::picture(&report))
            .map_err(|error| Trouble::new(Exit::Failed, format!("{} cannot be written: {error}", path.display())))?;
    }
    let document = Document::new(report);
    output::show(global, &document, |style| rehearse::text(&document.body, style))?;
    Ok(Exit::Done)
}

fn rehearsed(args: &Args, global: &Global) -> Result<Report, Trouble> {
    let named = args.file.as_deref().or(global.config.as_deref());
    let path = config::locate(named, Path::new(""), &config::process_environment)
        .map_err(|error| Trouble::new(Exit::Usage, error.to_string()))?;
    let config = config::load(&path, &config::process_environment)
        .map_err(|found| Trouble::new(Exit::ConfigInvalid, found.to_string()))?;
    let known: Vec<String> = config.services.iter().map(|service| format!("`{}`", service.name)).collect();
    let plan = match &args.service {
        Some(name) => config.services.iter().find(|service| service.name.as_str() == name),
        None => config.services.first().filter(|_| config.services.len() == 1),
    };
    let plan = plan.ok_or_else(|| {
        let message = match &args.service {
            Some(name) => format!("there is no service `{name}` in {}; it has {}", path.display(), known.join(", ")),
            None => format!("say which service with --service: {} has {}", path.display(), known.join(", ")),
        };
        Trouble::new(Exit::Usage, message)
    })?;
    let recording = args.log.as_deref().map(recorded).transpose()?;
    let recording = recording.as_ref();
    let rate = args.rate.or_else(|| recording.map(Recording::rate)).unwrap_or(RATE);
    let (runs, seed) = (args.runs as usize, args.seed);
    let wanted = Rehearsal { plan, rate, runs, seed, models: &args.models, recording };
    let progress = Progress::new();
    let report = rehearse::rehearse(&wanted, &|done, all| progress.tell(done, all));
    progress.end();
    report.map_err(|error| Trouble::new(Exit::Refused, error.to_string()))
}

/// Reads a log, line by line.
fn recorded(path: &Path) -> Result<Recording, Trouble> {
    let cannot =
        |error: std::io::Error| Trouble::new(Exit::Failed, format!("{} cannot be read: {error}", path.display()));
    let mut recorder = Recorder::default();
    for line in BufReader::new(fs::File::open(path).map_err(cannot)?).split(b'\n') {
        recorder.line(&String::from_utf8_lossy(&line.map_err(cannot)?));
    }
    recorder.finish().map_err(|error| Trouble::new(Exit::Refused, format!("{}: {error}", path.display())))
}

/// A line on stderr once it takes over a second; only when a person looks.
struct Progress {
    began: Instant,
    /// When it was last told; none before the first time.
    told: Mutex<Option<Instant>>,
    is_seen: bool,
}

impl Progress {
    const AFTER: Duration = Duration::from_secs(1);
    const EVERY: Duration = Duration::from_millis(200);

    fn new() -> Self {
        Self { began: Instant::now(), told: Mutex::new(None), is_seen: std::io::stderr().is_terminal() }
    }

    fn tell(&self, done: usize, all: usize) {
        if !self.is_seen || self.began.elapsed() < Self::AFTER {
            return;
        }
        // Who finds it taken has nothing newer to say.
        let Ok(mut told) = self.told.try_lock() else { return };
        if told.is_none_or(|told| told.elapsed() >= Self::EVERY) {
            // Nowhere left to say that it cannot be said.
            let _ = write!(std::io::stderr(), "\r{done} of {all} rollouts rehearsed\x1b[K");
            *told = Some(Instant::now());
        }
    }

    /// Takes the line away.
    fn end(&self) {
        if self.told.lock().is_ok_and(|told| told.is_some()) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| (1.0 / RATE_MAX..=RATE_MAX).contains(rate));
    rate.ok_or_else(|| format!("write requests a second, up to {RATE_MAX}, as `100` or `0.5`"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        global: Global,
        #[command(flatten)]
        args: Args,
    }

    fn said(args: &[&str]) -> Result<Report, String> {
        let line = Line::try_parse_from(["rehearse"].iter().chain(args)).map_err(|error| error.to_string())?;
        rehearsed(&line.args, &line.global).map_err(|trouble| trouble.message().to_owned())
    }

    #[test]
    fn the_words_are_read_and_wrong_ones_are_refused_with_advice() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, versions: &str| {
            let path = folder.path().join(name);
            let text = format!(
                "listen: 127.0.0.1:1\nservices:\n  web:\n    versions: {{ {versions} }}\n    stable: v1\n    steps: [50%]\n    hold: 1s\n"
            );
            fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let two = write("two.yaml", "v1: 'http://a', v2: 'http://b'");
        let one = write("one.yaml", "v1: 'http://a'");
        let report =
            said(&[&two, "--runs", "2", "--model", "healthy,fails-50", "--seed", "7", "--rate", "20"]).unwrap();
        assert_eq!((report.runs, report.seed, report.models.len()), (2, 7, 2));
        for (args, part) in [
            (&[one.as_str(), "--model", "healthy"][..], "help: add the version that is to be tried"),
            (&[&two, "--service", "shop"], "there is no service `shop`"),
            (&[&two, "--model", "healthie"], "healthy"),
            (&[&two, "--runs", "0"], "1..=100000"),
            (&[&two, "--rate", "NaN"], "write requests a second"),
            (&["/nowhere/serin.yaml"], "cannot be read"),
        ] {
            let refused = said(args).unwrap_err();
            assert!(refused.contains(part), "{args:?}: {refused}");
        }
    }
}
