//! `serin check`: says whether a config file is right, and everything that is wrong with it.
//! Refuses to touch anything: it reads one file and the environment.

use std::path::{Path, PathBuf};

use super::{
    Global,
    exit::Exit,
    output::{self, Format},
};
use crate::{
    config::{self, Checked, Config, Diagnostics},
    engine::plan::{Pause, Step},
};

/// Check a config file without starting anything
///
/// All errors at once, each with file, line, column and advice. Exits 0 when the file is right, 3 when not.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin check
  serin check config/serin.yaml --output json")]
pub struct Args {
    /// The file [default: $SERIN_CONFIG, then ./serin.yaml, then config/serin.yaml]
    file: Option<PathBuf>,
}

/// Checks the file. The verdict goes to stdout, as it is what was asked for.
pub(super) fn run(args: &Args, global: &Global) -> Exit {
    let named = args.file.as_deref().or(global.config.as_deref());
    let path = match config::locate(named, Path::new(""), &config::process_environment) {
        Ok(path) => path,
        Err(error) => {
            output::note(&error.to_string());
            return Exit::Usage;
        }
    };
    let Checked { config, diagnostics } = match config::read(&path) {
        Ok(text) => config::check(&text, &path, &config::process_environment),
        Err(diagnostics) => Checked { config: None, diagnostics },
    };
    let text = match (global.output, &config) {
        (Format::Json, _) => format!("{:#}\n", diagnostics.to_json()),
        (Format::Yaml, _) => serde_yaml::to_string(&diagnostics.to_json()).unwrap_or_default(),
        (Format::Table, Some(config)) => {
            format!("{}{}: ok · {}\n", rendered(&diagnostics, global), path.display(), summary(config))
        }
        (Format::Table, None) => rendered(&diagnostics, global),
    };
    let verdict = if config.is_some() { Exit::Done } else { Exit::ConfigInvalid };
    output::finish(output::print(&text).map(|()| verdict))
}

/// The findings for people; nothing when there are none.
fn rendered(diagnostics: &Diagnostics, global: &Global) -> String {
    match (diagnostics.items().is_empty(), output::style(global).color) {
        (true, _) => String::new(),
        (false, true) => diagnostics.styled() + "\n",
        (false, false) => format!("{diagnostics}\n"),
    }
}

/// `1 service, 2 versions, 4 steps`.
fn summary(config: &Config) -> String {
    let count = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    let versions = config.services.iter().map(|service| service.versions.len()).sum();
    let steps = config.services.iter().map(|service| written(&service.strategy.steps)).sum();
    [count(config.services.len(), "service"), count(versions, "version"), count(steps, "step")].join(", ")
}

/// The steps as people wrote them: in the short form a weight and its hold are one.
fn written(steps: &[Step]) -> usize {
    let is_short = steps.chunks(2).all(|pair| matches!(pair, [Step::SetWeight(_), Step::Pause(Pause::For(_))]));
    if is_short { steps.len() / 2 } else { steps.len() }
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

    fn exit(args: &[&str]) -> Exit {
        let line = Line::try_parse_from(["check"].iter().chain(args)).unwrap();
        run(&line.args, &line.global)
    }

    #[test]
    fn the_exit_code_is_the_verdict() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serin.yaml");
        let name = path.to_str().unwrap();
        assert_eq!(exit(&[name]), Exit::ConfigInvalid, "no such file");
        fs::write(&path, "listen: 127.0.0.1:1\nservices: { web: { versions: { v1: \"http://a\" }, stable: v1 } }\n")
            .unwrap();
        assert_eq!(exit(&[name]), Exit::Done);
        assert_eq!(exit(&["--config", name, "--output", "json"]), Exit::Done);
        fs::write(&path, "listen: 1\n").unwrap();
        assert_eq!(exit(&["--config", name]), Exit::ConfigInvalid);
        assert_eq!(exit(&[name, "-o", "json"]), Exit::ConfigInvalid);
    }

    #[test]
    fn the_summary_counts_what_was_written() {
        let of = |strategy: &str| {
            let text = format!(
                "listen: 127.0.0.1:1\nservices:\n  web:\n    versions: {{ v1: 'http://a', v2: 'http://b' }}\n    stable: v1\n    {strategy}\n"
            );
            summary(&config::parse(&text, Path::new("serin.yaml"), &|_| None).unwrap())
        };
        assert_eq!(of("steps: [1%, 5%, 25%, 50%]"), "1 service, 2 versions, 4 steps");
        let long = "strategy: { canary: { steps: [{ setWeight: 5 }, { pause: {} }, { setWeight: 50 }] } }";
        assert_eq!(of(long), "1 service, 2 versions, 3 steps");
    }
}
