//! `serin analyze`: a person runs an analysis template, and may wait for its verdict. Ends with the verdict, and decides
//! nothing about a rollout.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{
    Global,
    act::{self, Act},
    client::Client,
    exit::Exit,
    output::{self, Trouble},
    value,
};
use crate::{
    api::{AnalysisRun, CommandReply, CommandRequest, Document, ServiceStatus},
    engine::time::Timestamp,
};

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(250);

/// Runs an analysis template by hand, in a rollout or outside one; its verdict decides nothing
///
/// The template runs with the values that the config file gives its arguments, on the versions as they are: outside a
/// rollout its canary is the stable version. One runs at a time; `serin terminate` ends it, and so does a restart.
///
/// With --wait the exit code says what came of it. 0: Successful. 10: Failed, Error, Inconclusive or NoData. 5: time ran
/// out, and it goes on. 6: a person or a restart ended it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin analyze smoke --reason \"after the move of the database\"
  serin analyze web latency --wait --timeout 10m")]
pub(super) struct Args {
    /// The template, as the config file names it; before it the service, unless there is only one
    #[arg(required = true, num_args = 1..=2, value_name = "[SERVICE] TEMPLATE")]
    words: Vec<String>,
    /// Waits for the verdict
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    /// How long --wait waits
    #[arg(long, value_name = "DURATION", value_parser = value::duration, default_value = "30m")]
    timeout: Duration,
    #[command(flatten)]
    shared: act::Shared,
}

impl Act for Args {
    fn request(&self) -> Result<(Option<&str>, &'static str, CommandRequest), Trouble> {
        let (service, template) = match &self.words[..] {
            [template] => (None, template),
            [service, template] => (Some(service.as_str()), template),
            _ => return Err(Trouble::new(Exit::Usage, "write `serin analyze [SERVICE] TEMPLATE`")),
        };
        Ok((service, "analyze", CommandRequest { template: Some(template.clone()), ..self.shared.body() }))
    }
}

pub(super) fn run(args: &Args, global: &Global) -> Result<Exit, Trouble> {
    if !args.wait {
        return act::run(args, global);
    }
    let (service, verb, body) = args.request()?;
    let client = Client::new(global)?;
    let path = format!("/api/v1/services/{}", client.service(service)?);
    let end = Instant::now() + args.timeout;
    let reply: Document<CommandReply> = client.post(&format!("{path}/{verb}"), &body)?;
    let Some(started) = reply.body.event.map(|event| event.at) else {
        return Err(Trouble::new(Exit::Failed, "the answer does not say when the analysis began"));
    };
    loop {
        let status: Document<ServiceStatus> = client.get(&path)?;
        let name = &status.body.service.name;
        match find(&status.body.service.analysis_runs, started) {
            None => {
                return Err(Trouble::new(
                    Exit::Refused,
                    format!(
                        "{name}: the analysis is no longer on record: a restart ended it, or its `ttlStrategy` says so"
                    ),
                ));
            }
            Some(run) if run.phase.is_over() => {
                output::show(global, &status, |_| told(name.as_str(), run))?;
                return Ok(exit(run.phase.as_str()));
            }
            Some(run) if Instant::now() >= end => {
                return Err(Trouble::new(
                    Exit::TimedOut,
                    format!("{name}: the analysis is still {}", run.phase.as_str()),
                ));
            }
            Some(_) => thread::sleep(INTERVAL),
        }
    }
}

/// The run that was started then: there is one at a time.
fn find(runs: &[AnalysisRun], started: Timestamp) -> Option<&AnalysisRun> {
    runs.iter().find(|run| run.kind.as_str() == "manual" && run.started_at == started)
}

fn told(service: &str, run: &AnalysisRun) -> String {
    let why = if run.message.is_empty() { String::new() } else { format!(": {}", run.message) };
    format!("{service}: {} {}{why}\n", run.templates.join(", "), run.phase.as_str())
}

/// What the verdict means to a script.
fn exit(phase: &str) -> Exit {
    match phase {
        "Successful" => Exit::Done,
        "Terminated" => Exit::Refused,
        _ => Exit::NotSuccessful,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_of_an_analysis_has_its_exit_code() {
        for (phase, wanted) in [
            ("Successful", Exit::Done),
            ("Failed", Exit::NotSuccessful),
            ("Error", Exit::NotSuccessful),
            ("Inconclusive", Exit::NotSuccessful),
            ("NoData", Exit::NotSuccessful),
            ("Terminated", Exit::Refused),
        ] {
            assert_eq!(exit(phase), wanted, "{phase}");
        }
    }
}
