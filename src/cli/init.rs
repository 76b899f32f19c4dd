//! `serin init`: writes a first config file, from answers, flags or a compose file.
//! Refuses to write over a file, and to write one that `serin check` would not take.

use std::{
    fs,
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
};

use super::{
    exit::Exit,
    output::{self, Trouble},
};
use crate::config::{self, yaml};

/// Write a first config file: asks, or takes flags, or reads a compose file
///
/// Asks for what no flag says, if a person is there to answer. With --from-compose the versions are services of that file: those
/// that --stable and --canary name, else the first two whose names differ only in what follows a last `-` or `_`, as app-v1 and app-v2.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin init
  serin init --stable http://localhost:3000 --canary http://localhost:3001
  serin init --from-compose compose.yaml --write config/serin.yaml
  serin init --stable http://app:8000 --write -       prints it")]
pub(super) struct Args {
    /// Where the version answers that serves now; with --from-compose the name of a service
    #[arg(long, value_name = "URL")]
    stable: Option<String>,
    /// Where the version answers that is to be tried; may be named later
    #[arg(long, value_name = "URL")]
    canary: Option<String>,
    /// What the service is called
    #[arg(long, value_name = "NAME", default_value = "web")]
    service: String,
    /// Where clients come in
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
    /// Takes the versions from a compose file
    #[arg(long, value_name = "FILE")]
    from_compose: Option<PathBuf>,
    /// The file to write; `-` prints it
    #[arg(long, short, value_name = "FILE", default_value = "serin.yaml")]
    write: PathBuf,
}

/// A version's name and where it answers.
type Version = (String, String);

pub(super) fn run(args: &Args) -> Result<Exit, Trouble> {
    let prints = args.write == Path::new("-");
    if !prints && args.write.exists() {
        let message = format!("{} exists: name another file with --write, or remove it", args.write.display());
        return Err(Trouble::new(Exit::Refused, message));
    }
    let (stable, canary) = match &args.from_compose {
        Some(file) => from_compose(file, args)?,
        None => from_flags(args)?,
    };
    let text = written(args, &stable, canary.as_ref());
    let checked = config::check(&text, &args.write, &config::process_environment);
    if checked.config.is_none() {
        return Err(Trouble::new(Exit::Usage, format!("that makes no config:\n{}", checked.diagnostics)));
    }
    if prints {
        output::print(&text)?;
        return Ok(Exit::Done);
    }
    save(&args.write, &text)?;
    let file = args.write.display();
    output::print(&format!(
        "{file} is written. Next:\n  serin check {file}\n  serin rehearse {file}\n  serin run --config {file}\n"
    ))?;
    Ok(Exit::Done)
}

fn save(file: &Path, text: &str) -> Result<(), Trouble> {
    let written = fs::OpenOptions::new().write(true).create_new(true).open(file);
    written
        .and_then(|mut to| to.write_all(text.as_bytes()))
        .map_err(|error| Trouble::new(Exit::Failed, format!("cannot write {}: {error}", file.display())))
}

fn written(args: &Args, stable: &Version, canary: Option<&Version>) -> String {
    let mut versions = format!("      {}: {}\n", stable.0, stable.1);
    let wish = match canary {
        Some((name, url)) => {
            versions.extend(["      ", name.as_str(), ": ", url, "\n"]);
            format!(
                "    canary: {name}                     # naming another version here, and saving, starts a rollout\n"
            )
        }
        None => format!(
            "    canary: {}                     # add a version above and name it here to start a rollout\n",
            stable.0
        ),
    };
    format!(
        "listen: {listen}\nservices:\n  {service}:\n    versions:\n{versions}    stable: {0}\n{wish}    steps: [1%, 5%, 25%, 50%]      # each held for `hold`\n    \
         hold: 2m\n    # The new version is compared with {0} all the time, errors and latency. A limit of its own on top of that, which\n    \
         # an incident that hits both versions trips as well:  abortWhen: {{ errorRate: 5%, p99: 800ms }}\n",
        stable.0,
        listen = args.listen,
        service = args.service,
    )
}

fn from_flags(args: &Args) -> Result<(Version, Option<Version>), Trouble> {
    let asks = args.stable.is_none() && io::stdin().is_terminal();
    let stable = match &args.stable {
        Some(url) => url.clone(),
        None if asks => ask("Where does the version answer that serves now? (http://HOST:PORT)")?,
        None => return Err(Trouble::new(Exit::Usage, "say where the version answers that serves now: --stable URL")),
    };
    let canary = match &args.canary {
        None if asks => ask("And the one to be tried? (http://HOST:PORT, or nothing)")?,
        given => given.clone().unwrap_or_default(),
    };
    let canary = Some(canary).filter(|url| !url.is_empty()).map(|url| ("v2".to_owned(), url));
    Ok((("v1".to_owned(), stable), canary))
}

fn ask(question: &str) -> Result<String, Trouble> {
    output::remark(question);
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Trouble::new(Exit::Failed, format!("the answer cannot be read: {error}")))?;
    Ok(line.trim().to_owned())
}

/// The versions that a compose file has.
fn from_compose(file: &Path, args: &Args) -> Result<(Version, Option<Version>), Trouble> {
    let text = config::read(file).map_err(|found| Trouble::new(Exit::ConfigInvalid, found.to_string()))?;
    let documents = config::documents(&text, file);
    let documents = documents.map_err(|found| Trouble::new(Exit::ConfigInvalid, found.to_string()))?;
    let all = documents.first().map(answering).unwrap_or_default();
    let known = || all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    let find = |name: &String| {
        let found = all.iter().find(|(other, _)| other == name).cloned();
        let help = format!("no service `{name}` with a port is in {}; there is {}", file.display(), known());
        found.ok_or_else(|| Trouble::new(Exit::Usage, help))
    };
    if let Some(stable) = &args.stable {
        return Ok((find(stable)?, args.canary.as_ref().map(find).transpose()?));
    }
    if let Some((stable, canary)) = twins(&all) {
        return Ok((stable.clone(), Some(canary.clone())));
    }
    match &all[..] {
        [only] => Ok((only.clone(), None)),
        [] => Err(Trouble::new(Exit::Usage, format!("no service of {} has `ports` or `expose`", file.display()))),
        _ => {
            let message = format!("which are the versions? There is {}: --stable NAME --canary NAME", known());
            Err(Trouble::new(Exit::Usage, message))
        }
    }
}

/// The first two services that are versions of one.
fn twins(all: &[Version]) -> Option<(&Version, &Version)> {
    let base = |name: &str| name.rfind(['-', '_']).map(|at| name[..at].to_owned());
    all.iter().enumerate().find_map(|(at, first)| {
        let own = base(&first.0)?;
        all[at + 1..].iter().find(|(name, _)| base(name).as_ref() == Some(&own)).map(|second| (first, second))
    })
}

/// Each service of a compose file that has a port, with its address inside the network.
fn answering(root: &yaml::Node) -> Vec<Version> {
    let yaml::Value::Map(services) = field(root, "services").map_or(&yaml::Value::Null, |node| &node.value) else {
        return Vec::new();
    };
    let with_port = |service: &yaml::Field| {
        let port = ["ports", "expose"].iter().find_map(|name| port(field(&service.node, name)?))?;
        Some((service.key.clone(), format!("http://{}:{port}", service.key)))
    };
    services.iter().filter_map(with_port).collect()
}

/// The port inside of the container: the last part of `[IP:][HOST:]CONTAINER[/tcp]`, or `target`.
fn port(list: &yaml::Node) -> Option<u16> {
    let yaml::Value::List(items) = &list.value else { return None };
    items.iter().find_map(|item| {
        let scalar = match &item.value {
            yaml::Value::Scalar(scalar) => scalar,
            _ => match &field(item, "target")?.value {
                yaml::Value::Scalar(scalar) => scalar,
                _ => return None,
            },
        };
        let bare = scalar.text.strip_suffix("/tcp").unwrap_or(&scalar.text);
        bare.rsplit(':').next()?.parse().ok()
    })
}

fn field<'a>(node: &'a yaml::Node, name: &str) -> Option<&'a yaml::Node> {
    let yaml::Value::Map(fields) = &node.value else { return None };
    fields.iter().find(|field| field.key == name).map(|field| &field.node)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::rehearse::{Rehearsal, rehearse};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn args(line: &[&str]) -> Args {
        Line::try_parse_from(["init"].iter().chain(line)).unwrap().args
    }

    #[test]
    fn flags_make_a_file_that_is_sound() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("serin.yaml");
        let to = ["--write", file.to_str().unwrap()];
        let urls = ["--stable", "http://localhost:3000", "--canary", "http://localhost:3001"];
        assert_eq!(run(&args(&[&to[..], &urls].concat())), Ok(Exit::Done));
        let read = config::load(&file, &|_| None).unwrap();
        // What hits both versions is no reason to revert one of them.
        let models = ["healthy", "incident", "bursts"].map(str::to_owned);
        let plan = &read.services[0];
        let wanted = Rehearsal { plan, rate: 100.0, runs: 2, seed: 1, models: &models, recording: None };
        assert_eq!(rehearse(&wanted, &|_, _| {}).unwrap().sound_stopped, 0);
        assert_eq!(read.services[0].wish.as_ref().map(|wish| wish.version.as_str()), Some("v2"));
        assert_eq!(run(&args(&[&to[..], &urls].concat())).unwrap_err().exit, Exit::Refused, "it is there already");
        fs::remove_file(&file).unwrap();
        assert_eq!(run(&args(&[&to[..], &["--stable", "localhost"]].concat())).unwrap_err().exit, Exit::Usage);
        assert!(!file.exists());
        assert_eq!(run(&args(&[&to[..], &["--stable", "http://a:80"]].concat())), Ok(Exit::Done));
        assert_eq!(config::load(&file, &|_| None).unwrap().services[0].wish, None);
    }

    #[test]
    fn a_compose_file_has_its_versions_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("compose.yaml");
        let of = |compose: &str, line: &[&str]| {
            fs::write(&file, compose).unwrap();
            let found = from_compose(&file, &args(line)).map_err(|trouble| trouble.message().to_owned())?;
            Ok::<_, String>((found.0.1, found.1.map(|(_, url)| url)))
        };
        let two = "services:\n  db: { image: x, expose: [5432] }\n  app-v1: { ports: [\"127.0.0.1:1:8000/tcp\"] }\n  \
                   app-v2: { ports: [{ target: 8001, published: 2 }] }\n";
        assert_eq!(of(two, &[]), Ok(("http://app-v1:8000".into(), Some("http://app-v2:8001".into()))));
        let named = ["--stable", "app-v2", "--canary", "db"];
        assert_eq!(of(two, &named), Ok(("http://app-v2:8001".into(), Some("http://db:5432".into()))));
        assert!(of(two, &["--stable", "nope"]).unwrap_err().ends_with("there is db, app-v1, app-v2"));
        assert_eq!(of("services: { a: { ports: [80] }, b: {} }", &[]), Ok(("http://a:80".into(), None)));
        assert!(of("services: { a: { ports: [80] }, b: { ports: [81] } }", &[]).unwrap_err().starts_with("which"));
        assert!(of("services: {}", &[]).unwrap_err().contains("no service"));
        assert!(of("services: [", &[]).unwrap_err().contains("not YAML"));
    }
}
