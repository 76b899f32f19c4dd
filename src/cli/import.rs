//! `serin import`: makes a config of other tools' manifests, and says what became of every value in them.
//! Refuses to overwrite a file, and with `--strict` to leave anything out.

use std::{fs::OpenOptions, io::Write as _, path::PathBuf};

use serde::Serialize;

use super::{
    Global,
    exit::Exit,
    output::{self, Format, Trouble},
};
use crate::{
    api, config,
    import::{self, Imported, Input, Kind, Report},
};

/// Make a config of other tools' manifests, with a report of what was kept
///
/// The config goes to stdout or into a new file, and always passes `serin check`. The report names every value of the
/// input as kept, approximated or dropped, with its line and the reason. Exits 3 when the input is no YAML or has nothing
/// to import, 6 when --strict refuses it or the file to write exists.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin import argo rollout.yaml templates.yaml --write serin.yaml
  serin import flagger canary.yaml --explain --output json
  kubectl get ingress -o yaml | serin import nginx /dev/stdin --strict")]
pub struct Args {
    /// Whose manifests they are
    #[arg(value_enum)]
    kind: Kind,
    /// The manifests: YAML, one or more documents a file
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Writes the config to a new file; the report then goes to stdout
    #[arg(long, short, value_name = "FILE", conflicts_with = "explain")]
    write: Option<PathBuf>,
    /// Writes no config, and exits 6, when any value was dropped
    #[arg(long)]
    strict: bool,
    /// Only the report
    #[arg(long)]
    explain: bool,
}

/// The answer for machines.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    /// The text of the config; absent with `--explain` and when `--strict` refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<&'a str>,
    report: &'a Report,
}

/// What is said, and how it ends.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    stdout: String,
    stderr: String,
    exit: Exit,
}

/// Imports the files.
pub(super) fn run(args: &Args, global: &Global) -> Exit {
    output::finish(imported(args, global).and_then(|said| {
        // Nowhere left to say that it cannot be said.
        let _ = std::io::stderr().write_all(said.stderr.as_bytes());
        output::print(&said.stdout).map(|()| said.exit)
    }))
}

fn imported(args: &Args, global: &Global) -> Result<Said, Trouble> {
    let invalid = |message: String| Trouble::new(Exit::ConfigInvalid, message);
    let mut inputs = Vec::new();
    for path in &args.files {
        let text = config::read(path).map_err(|found| invalid(found.to_string()))?;
        inputs.push(Input { path: path.clone(), text });
    }
    let Imported { config, report } = import::import(args.kind, &inputs).map_err(|error| invalid(error.to_string()))?;
    let is_refused = args.strict && report.dropped > 0;
    if let Some(path) = args.write.as_ref().filter(|_| !is_refused) {
        write(path, &config)?;
    }
    let is_shown = !args.explain && args.write.is_none() && !is_refused;
    let (stdout, mut stderr) = if global.output == Format::Table && is_shown {
        // Data to stdout, and what is to be said about it beside it.
        (config, report.text(output::style_of_stderr(global)))
    } else {
        let answer = Answer { config: Some(&*config).filter(|_| is_shown), report: &report };
        (output::rendered(global, &api::Document::new(answer), |style| report.text(style))?, String::new())
    };
    if is_refused {
        let values = if report.dropped == 1 { "value was" } else { "values were" };
        let why = format!("error: {} {values} dropped, and --strict is given: no config was made\n", report.dropped);
        stderr.push_str(&why);
    }
    Ok(Said { stdout, stderr, exit: if is_refused { Exit::Refused } else { Exit::Done } })
}

/// Writes a file that was not there.
fn write(path: &PathBuf, text: &str) -> Result<(), Trouble> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
        let (exit, why) = match error.kind() {
            std::io::ErrorKind::AlreadyExists => (Exit::Refused, "it is there already; name another file".to_owned()),
            _ => (Exit::Failed, error.to_string()),
        };
        Trouble::new(exit, format!("{} cannot be written: {why}", path.display()))
    })
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

    fn said(args: &[&str]) -> Said {
        let line = Line::try_parse_from(["import", "--color", "never"].iter().chain(args)).unwrap();
        imported(&line.args, &line.global).unwrap_or_else(|trouble| Said {
            stdout: String::new(),
            stderr: trouble.message().to_owned(),
            exit: trouble.exit,
        })
    }

    const CANARY: &str =
        "kind: Canary\nmetadata: { name: web }\nspec: { analysis: { stepWeight: 10, maxWeight: 50 } }\n";

    #[test]
    fn a_file_is_written_once_and_not_at_all_when_strict() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let exit = |args: &[&str]| said(args).exit;
        let (input, output) = (path("canary.yaml"), path("serin.yaml"));
        fs::write(&input, CANARY).unwrap();
        assert_eq!(exit(&["flagger", &input, "--write", &output, "--strict"]), Exit::Done);
        let written = fs::read_to_string(&output).unwrap();
        assert!(config::load(output.as_ref(), &|_| None).is_ok(), "{written}");
        assert_eq!(exit(&["flagger", &input, "--write", &output]), Exit::Refused, "it is there already");

        fs::write(&input, format!("{CANARY}status: {{ phase: Succeeded }}\n")).unwrap();
        let other = path("other.yaml");
        let refused = said(&["flagger", &input, "--write", &other, "--strict"]);
        assert_eq!(refused.exit, Exit::Refused);
        assert!(refused.stderr.starts_with("error: 1 value was dropped") && refused.stdout.contains("status.phase"));
        assert!(!fs::exists(&other).unwrap());
        assert_eq!(exit(&["flagger", &input, "--write", &other]), Exit::Done);

        assert_eq!(exit(&["argo", &input, "--explain"]), Exit::ConfigInvalid, "no Rollout");
        fs::write(&input, "a: {\n").unwrap();
        assert_eq!(exit(&["argo", &input]), Exit::ConfigInvalid);
        assert_eq!(exit(&["argo", &path("none.yaml")]), Exit::ConfigInvalid);
    }

    #[test]
    fn the_config_is_data_and_the_report_stands_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("canary.yaml");
        fs::write(&input, CANARY).unwrap();
        let input = input.to_str().unwrap();
        let both = said(&["flagger", input]);
        assert!(both.stdout.contains("\nlisten: 0.0.0.0:8080\n") && both.stderr.starts_with("kept 4, "), "{both:?}");
        let explained = said(&["flagger", input, "--explain"]);
        assert_eq!((explained.stdout, explained.stderr), (both.stderr, String::new()));
        let document = |args: &[&str]| serde_json::from_str::<serde_json::Value>(&said(args).stdout).unwrap();
        let json = document(&["flagger", input, "--output", "json"]);
        assert_eq!(json["config"].as_str(), Some(&*both.stdout));
        assert_eq!((&json["apiVersion"], &json["report"]["kept"]), (&"serin/v1".into(), &4.into()));
        let entry = &json["report"]["entries"][0];
        assert_eq!((&entry["path"], &entry["fate"], &entry["line"]), (&"kind".into(), &"kept".into(), &1.into()));
        assert!(document(&["flagger", input, "--explain", "--output", "json"]).get("config").is_none());
        let yaml = said(&["flagger", input, "--explain", "--output", "yaml"]);
        assert!(yaml.stdout.starts_with("---\n") && yaml.stdout.contains("dropped: 0"), "{yaml:?}");
    }
}
