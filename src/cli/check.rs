//! `serin check`: says whether a config file is right, and everything that is wrong with it.
//! Refuses to touch anything: it reads one file and the environment.

use std::path::{Path, PathBuf};

use super::{
    Global,
    exit::Exit,
    output::{self, Format, Trouble},
};
use crate::{
    config::{self, Checked, Config, Diagnostics},
    words,
};

/// Requests a second of a quiet service, by which it is said how long its steps would take.
const QUIET: f64 = 10.0;

/// Check a config file without starting anything
///
/// All errors at once, each with file, line, column and advice. Exits 0 when the file is right, 3 when not.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin check
  serin check config/serin.yaml --output json
  serin check --output sarif > serin.sarif     for the annotations of a pull request")]
pub struct Args {
    /// The file [default: $SERIN_CONFIG, then ./serin.yaml, then config/serin.yaml]
    file: Option<PathBuf>,
}

/// Checks the file. The verdict goes to stdout, as it is what was asked for.
pub(super) fn run(args: &Args, global: &Global) -> Exit {
    output::finish(verdict(args, global).and_then(|(text, exit)| output::print(&text).map(|()| exit)))
}

fn verdict(args: &Args, global: &Global) -> Result<(String, Exit), Trouble> {
    let named = args.file.as_deref().or(global.config.as_deref());
    let path = config::locate(named, Path::new(""), &config::process_environment)
        .map_err(|error| Trouble::new(Exit::Usage, error.to_string()))?;
    let Checked { config, diagnostics } = match config::read(&path) {
        Ok(text) => config::check(&text, &path, &config::process_environment),
        Err(diagnostics) => Checked { config: None, diagnostics },
    };
    let text = match (global.output, &config) {
        (Format::Sarif, _) => format!("{:#}\n", diagnostics.to_sarif()),
        (Format::Json, _) => format!("{:#}\n", diagnostics.to_json()),
        (Format::Yaml, _) => serde_yaml::to_string(&diagnostics.to_json()).unwrap_or_default(),
        (Format::Table, Some(config)) => {
            let (found, summary) = (rendered(&diagnostics, global), config.summary());
            format!("{found}{}: ok · {summary}\n{}", path.display(), quiet(config))
        }
        (Format::Table, None) => rendered(&diagnostics, global),
    };
    Ok((text, if config.is_some() { Exit::Done } else { Exit::ConfigInvalid }))
}

/// What a service with little traffic has to expect.
fn quiet(config: &Config) -> String {
    let slow = config.services.iter().filter(|service| service.versions.len() > 1);
    let slow = slow.filter_map(|service| Some((&service.name, service.strategy.slow_hold()?)));
    let slow = slow.filter(|(_, slow)| slow.rate() > QUIET);
    let told = slow.map(|(name, slow)| {
        let (said, help) = (words::slow_hold(&slow, QUIET), words::shorter(&slow.check));
        format!("note: {name}: {said}.\n      {help}\n")
    });
    told.collect::<Vec<_>>().concat()
}

/// The findings for people; nothing when there are none.
fn rendered(diagnostics: &Diagnostics, global: &Global) -> String {
    match (diagnostics.items().is_empty(), output::style(global).color) {
        (true, _) => String::new(),
        (false, true) => diagnostics.styled() + "\n",
        (false, false) => format!("{diagnostics}\n"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        global: Global,
        #[command(flatten)]
        args: Args,
    }

    fn said(args: &[&str]) -> (String, Exit) {
        let line = Line::try_parse_from(["check"].iter().chain(args)).unwrap();
        verdict(&line.args, &line.global).unwrap()
    }

    #[test]
    fn the_verdict_is_said_and_is_the_exit_code() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serin.yaml");
        let name = path.to_str().unwrap();
        let json = |args: &[&str]| {
            let (text, exit) = said(args);
            (serde_json::from_str::<serde_json::Value>(&text).unwrap(), exit)
        };
        assert_eq!(said(&[name]).1, Exit::ConfigInvalid, "no such file");

        fs::write(&path, "listen: 127.0.0.1:1\nservices: { web: { versions: { v1: \"http://a\" }, stable: v1 } }\n")
            .unwrap();
        assert_eq!(said(&[name]), (format!("{name}: ok · 1 service, 1 version, 4 steps\n"), Exit::Done));
        fs::write(
            &path,
            "listen: 127.0.0.1:1\nservices: { web: { versions: { v1: \"http://a\", v2: \"http://b\" }, stable: v1, abortWhen: { p99: 1s } } }\n",
        )
        .unwrap();
        let (text, exit) = said(&[name]);
        assert_eq!(exit, Exit::Done);
        let note = "note: web: Below 167 requests a second step 1 (1%) takes longer than its 2m, since p99 needs 200 canary requests";
        assert!(text.lines().nth(1).is_some_and(|line| line.starts_with(note)), "{text}");
        let (document, exit) = json(&["--config", name, "--output", "json"]);
        assert_eq!((document["ok"].as_bool(), exit), (Some(true), Exit::Done));

        fs::write(&path, "listen: 1\n").unwrap();
        let (text, exit) = said(&["--config", name, "--color", "never"]);
        assert!(text.ends_with("\n2 errors · the file was not applied\n"), "{text}");
        assert_eq!(exit, Exit::ConfigInvalid);
        let (document, exit) = json(&[name, "-o", "json"]);
        assert_eq!((document["ok"].as_bool(), exit), (Some(false), Exit::ConfigInvalid));
        assert_eq!(document["diagnostics"].as_array().map(Vec::len), Some(2));
    }
}
