//! `serin status`: where services stand, once or live.

use std::time::Duration;

use super::{
    Global,
    client::Client,
    exit::Exit,
    output::{self, Trouble},
    picture::Picture,
};
use crate::{
    api::{ConfigStatus, Document, Phase, Service, ServiceList, ServiceStatus},
    words::{self, ConfigNote, Style},
};

/// Between two looks while watching.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// Shows where the rollout stands: phase, step, weights asked and measured, numbers of both versions
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin status                     one service in full, several in a row each
  serin status web -w              live, until Ctrl-C
  serin status -w --exit           live, until the rollout has ended; exit code 4 when it was aborted
  serin status -w --output json    a document per line, on each change, until the rollout has ended")]
pub(super) struct Args {
    /// Which service; may be left out
    service: Option<String>,
    /// Goes on: redraws on a terminal, else prints on each change and ends with the rollout
    #[arg(long, short)]
    watch: bool,
    /// With --watch: ends with the rollout on a terminal too
    #[arg(long, requires = "watch")]
    exit: bool,
}

pub(super) fn run(args: &Args, global: &Global) -> Result<Exit, Trouble> {
    let client = Client::new(global)?;
    if args.watch {
        return watch(args, global, &client);
    }
    match Answer::ask(args, &client)? {
        Answer::One(document) => output::show(global, &*document, |style| one(&document.body, style))?,
        Answer::All(document) => output::show(global, &document, |style| all(&document.body, style))?,
    }
    Ok(Exit::Done)
}

/// One service when it is named or the only one, else all.
enum Answer {
    One(Box<Document<ServiceStatus>>),
    All(Document<ServiceList>),
}

impl Answer {
    fn ask(args: &Args, client: &Client) -> Result<Self, Trouble> {
        if let Some(name) = &args.service {
            return Ok(Self::One(Box::new(client.get(&format!("/api/v1/services/{name}"))?)));
        }
        let list: Document<ServiceList> = client.get("/api/v1/services")?;
        match &list.body.services[..] {
            [only] => {
                let (at, config, service) = (list.body.at, list.body.config.clone(), only.clone());
                Ok(Self::One(Box::new(Document::new(ServiceStatus { at, config, service }))))
            }
            _ => Ok(Self::All(list)),
        }
    }

    fn services(&self) -> &[Service] {
        match self {
            Self::One(document) => std::slice::from_ref(&document.body.service),
            Self::All(document) => &document.body.services,
        }
    }

    fn config(&self) -> &ConfigStatus {
        match self {
            Self::One(document) => &document.body.config,
            Self::All(document) => &document.body.config,
        }
    }

    /// What makes a new line of output while watching into a pipe.
    fn key(&self) -> String {
        let services = self.services().iter().map(|service| {
            let weights: Vec<_> = service.versions.iter().map(|version| version.weight_ppm).collect();
            let step = service.rollout.as_ref().map(|rollout| rollout.step);
            format!("{:?}", (&service.name, service.phase, &service.phase_reason, service.revision, step, weights))
        });
        services.chain([format!("{:?}", self.config().error)]).collect()
    }

    /// None while a rollout runs.
    fn ended(&self) -> Option<Exit> {
        let phases = || self.services().iter().map(|service| service.phase);
        if phases().any(|phase| matches!(phase, Phase::Progressing | Phase::Paused)) {
            return None;
        }
        Some(if phases().any(|phase| phase == Phase::Degraded) { Exit::Aborted } else { Exit::Done })
    }

    fn text(&self, style: Style) -> String {
        match self {
            Self::One(document) => one(&document.body, style),
            Self::All(document) => all(&document.body, style),
        }
    }
}

fn watch(args: &Args, global: &Global, client: &Client) -> Result<Exit, Trouble> {
    let mut picture = if output::is_live(global) { Some(Picture::open()?) } else { None };
    let mut shown = String::new();
    loop {
        match Answer::ask(args, client) {
            Ok(answer) => {
                let key = answer.key();
                if let Some(picture) = &mut picture {
                    picture.draw(&answer.text(output::style(global)))?;
                } else if key != shown {
                    match &answer {
                        Answer::One(document) => output::show(global, &**document, |style| one(&document.body, style))?,
                        Answer::All(document) => output::show(global, document, |style| all(&document.body, style))?,
                    }
                }
                shown = key;
                if let Some(exit) = answer.ended().filter(|_| args.exit || picture.is_none()) {
                    return Ok(exit);
                }
            }
            Err(trouble) => match &mut picture {
                // A restart is nothing to stop watching for.
                Some(picture) if trouble.exit == Exit::Unreachable && !shown.is_empty() => {
                    picture.draw(&format!("{}\n", trouble.message()))?;
                }
                _ => return Err(trouble),
            },
        }
        match &picture {
            Some(picture) if !picture.wait(INTERVAL) => return Ok(Exit::Interrupted),
            Some(_) => {}
            None => std::thread::sleep(INTERVAL),
        }
    }
}

fn one(status: &ServiceStatus, style: Style) -> String {
    let before = status.service.last_event.as_ref().and_then(|event| event.weight_before_ppm);
    words::status(status.at, &status.service.clone().into(), before, note(&status.config), style)
}

fn all(list: &ServiceList, style: Style) -> String {
    let services: Vec<_> = list.services.iter().cloned().map(Into::into).collect();
    words::overview(list.at, &services, note(&list.config), style)
}

fn note(config: &ConfigStatus) -> ConfigNote<'_> {
    let (error, needs_restart) = (config.error.as_deref(), &config.needs_restart[..]);
    ConfigNote { path: &config.path, loaded: config.loaded, error, needs_restart }
}
