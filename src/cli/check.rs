//! `serin check`: says whether a config file is right, and everything that is wrong with it.
//! Refuses to touch anything: it reads one file and the environment.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::exit::Exit;
use crate::{
    config::{self, Checked, Config},
    engine::plan::{Pause, Step},
};

/// Check a config file without starting anything.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file [default: $SERIN_CONFIG, then ./serin.yaml, then config/serin.yaml].
    file: Option<PathBuf>,
    /// The file, as for the other verbs.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// How to say it.
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Output {
    /// For people.
    #[default]
    Table,
    /// For machines.
    Json,
}

/// Checks the file. The verdict goes to stdout, as it is what was asked for.
pub fn run(args: &Args) -> Exit {
    let named = args.file.as_deref().or(args.config.as_deref());
    let path = match config::locate(named, Path::new(""), &config::process_environment) {
        Ok(path) => path,
        Err(error) => {
            anstream::eprintln!("error: {error}");
            return Exit::Usage;
        }
    };
    let Checked { config, diagnostics } = match config::read(&path) {
        Ok(text) => config::check(&text, &path, &config::process_environment),
        Err(diagnostics) => Checked { config: None, diagnostics },
    };
    match (args.output, &config) {
        (Output::Json, _) => anstream::println!("{:#}", diagnostics.to_json()),
        (Output::Table, Some(config)) if diagnostics.items().is_empty() => {
            anstream::println!("{}: ok · {}", path.display(), summary(config));
        }
        (Output::Table, Some(config)) => {
            anstream::println!("{}\n{}: ok · {}", diagnostics.styled(), path.display(), summary(config));
        }
        (Output::Table, None) => anstream::println!("{}", diagnostics.styled()),
    }
    if config.is_some() { Exit::Done } else { Exit::ConfigInvalid }
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
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn exit(args: &[&str]) -> Exit {
        run(&Cli::try_parse_from(["check"].iter().chain(args)).unwrap().args)
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
