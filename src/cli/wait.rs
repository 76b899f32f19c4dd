//! `serin wait`: for pipelines. Ends when a rollout has come to where it was awaited, or cannot any more.

use std::{
    str::FromStr,
    thread,
    time::{Duration, Instant},
};

use super::{
    Global,
    client::Client,
    exit::Exit,
    output::{self, Trouble},
    value,
};
use crate::api::{Document, Phase, ServiceStatus};

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(250);

/// Waits until a rollout is promoted, paused, aborted or at a step, and says by its exit code what came of it
///
/// Exit code 0: as awaited. 4: aborted instead. 5: time ran out. 9: paused for a person instead. 6: it can no longer
/// happen, because the rollout ended otherwise.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin wait web --for promoted --timeout 30m
  serin wait --for step=3 --timeout 5m
  serin wait --for promoted --through-pauses     goes on waiting while a person is asked")]
pub(super) struct Args {
    /// Which service; may be left out when there is only one
    service: Option<String>,
    /// What is awaited: promoted, paused, aborted or step=N
    #[arg(long = "for", value_name = "WHAT")]
    until: Until,
    /// How long
    #[arg(long, value_name = "DURATION", value_parser = value::duration, default_value = "30m")]
    timeout: Duration,
    /// A pause for a person does not end the wait
    #[arg(long)]
    through_pauses: bool,
}

/// What is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    Promoted,
    Paused,
    Aborted,
    Step(usize),
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let step = text.strip_prefix("step=").and_then(|number| number.parse().ok()).filter(|number| *number > 0);
        match (text, step) {
            ("promoted", _) => Ok(Self::Promoted),
            ("paused", _) => Ok(Self::Paused),
            ("aborted", _) => Ok(Self::Aborted),
            (_, Some(step)) => Ok(Self::Step(step)),
            _ => Err("write promoted, paused, aborted or step=N with N from 1".to_owned()),
        }
    }
}

pub(super) fn run(args: &Args, global: &Global) -> Result<Exit, Trouble> {
    let client = Client::new(global)?;
    let path = format!("/api/v1/services/{}", client.service(args.service.as_deref())?);
    let end = Instant::now() + args.timeout;
    loop {
        let status: Document<ServiceStatus> = client.get(&path)?;
        let service = &status.body.service;
        let step = service.rollout.as_ref().map(|rollout| rollout.step);
        let verdict = judge(args.until, args.through_pauses, service.phase, step);
        if let Some(exit) = verdict {
            output::show(global, &status, |_| format!("{}: {}\n", service.name, service.phase.as_str()))?;
            return Ok(exit);
        }
        if Instant::now() >= end {
            return Err(Trouble::new(Exit::TimedOut, format!("{} is still {}", service.name, service.phase.as_str())));
        }
        thread::sleep(INTERVAL);
    }
}

/// What the phase means for what is awaited; none while it can still come.
fn judge(until: Until, through_pauses: bool, phase: Phase, step: Option<usize>) -> Option<Exit> {
    let reached = match (until, phase) {
        (Until::Step(wanted), Phase::Progressing | Phase::Paused) => step.is_some_and(|step| step >= wanted),
        (Until::Promoted | Until::Step(_), Phase::Healthy)
        | (Until::Paused, Phase::Paused)
        | (Until::Aborted, Phase::Degraded) => true,
        _ => false,
    };
    match phase {
        _ if reached => Some(Exit::Done),
        Phase::Degraded => Some(Exit::Aborted),
        Phase::Healthy => Some(Exit::Refused),
        Phase::Paused if !through_pauses => Some(Exit::PausedForPerson),
        Phase::Paused | Phase::Progressing => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_has_its_exit_code() {
        use Phase::{Degraded, Healthy, Paused, Progressing};
        let step = Until::Step(3);
        for (until, phase, at, exit) in [
            (Until::Promoted, Progressing, Some(2), None),
            (Until::Promoted, Healthy, None, Some(Exit::Done)),
            (Until::Promoted, Degraded, None, Some(Exit::Aborted)),
            (Until::Promoted, Paused, Some(2), Some(Exit::PausedForPerson)),
            (Until::Paused, Paused, Some(2), Some(Exit::Done)),
            (Until::Paused, Healthy, None, Some(Exit::Refused)),
            (Until::Aborted, Degraded, None, Some(Exit::Done)),
            (Until::Aborted, Healthy, None, Some(Exit::Refused)),
            (step, Progressing, Some(2), None),
            (step, Progressing, Some(3), Some(Exit::Done)),
            (step, Paused, Some(4), Some(Exit::Done)),
            (step, Healthy, None, Some(Exit::Done)),
            (step, Degraded, None, Some(Exit::Aborted)),
        ] {
            assert_eq!(judge(until, false, phase, at), exit, "{until:?} in {phase:?}");
        }
        assert_eq!(judge(Until::Promoted, true, Paused, Some(2)), None);
    }

    #[test]
    fn what_is_awaited_is_read_strictly() {
        assert_eq!("step=3".parse(), Ok(Until::Step(3)));
        assert_eq!("promoted".parse(), Ok(Until::Promoted));
        for bad in ["", "step", "step=", "step=0", "step=-1", "Promoted"] {
            assert!(bad.parse::<Until>().is_err(), "{bad}");
        }
    }
}
