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

/// Imports the files.
pub(super) fn run(args: &Args, global: &Global) -> Exit {
    output::finish(imported(args, global))
}

fn imported(args: &Args, global: &Global) -> Result<Exit, Trouble> {
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
    let answer = Answer { config: Some(&*config).filter(|_| is_shown), report: &report };
    if global.output == Format::Table && is_shown {
        // Data to stdout, and what is to be said about it beside it.
        let said = report.text(output::style_of_stderr(global));
        let _ = write!(std::io::stderr(), "{said}");
        output::print(&config)?;
    } else {
        output::show(global, &api::Document::new(answer), |style| report.text(style))?;
    }
    if is_refused {
        let values = if report.dropped == 1 { "value was" } else { "values were" };
        return Err(Trouble::new(Exit::Refused, format!("{} {values} dropped, and --strict is given", report.dropped)));
    }
    Ok(Exit::Done)
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

    fn exit(args: &[&str]) -> Exit {
        let line = Line::try_parse_from(["import"].iter().chain(args)).unwrap();
        imported(&line.args, &line.global).unwrap_or_else(|trouble| trouble.exit)
    }

    #[test]
    fn a_file_is_written_once_and_not_at_all_when_strict() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (input, output) = (path("canary.yaml"), path("serin.yaml"));
        let canary = "kind: Canary\nmetadata: { name: web }\nspec: { analysis: { stepWeight: 10, maxWeight: 50 } }\n";
        fs::write(&input, canary).unwrap();
        assert_eq!(exit(&["flagger", &input, "--write", &output, "--strict"]), Exit::Done);
        let written = fs::read_to_string(&output).unwrap();
        assert!(config::load(output.as_ref(), &|_| None).is_ok(), "{written}");
        assert_eq!(exit(&["flagger", &input, "--write", &output]), Exit::Refused, "it is there already");

        fs::write(&input, format!("{canary}status: {{ phase: Succeeded }}\n")).unwrap();
        let other = path("other.yaml");
        assert_eq!(exit(&["flagger", &input, "--write", &other, "--strict"]), Exit::Refused);
        assert!(!fs::exists(&other).unwrap());
        assert_eq!(exit(&["flagger", &input, "--write", &other]), Exit::Done);

        assert_eq!(exit(&["argo", &input, "--explain"]), Exit::ConfigInvalid, "no Rollout");
        fs::write(&input, "a: {\n").unwrap();
        assert_eq!(exit(&["argo", &input]), Exit::ConfigInvalid);
        assert_eq!(exit(&["argo", &path("none.yaml")]), Exit::ConfigInvalid);
    }
}
