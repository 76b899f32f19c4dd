//! The verbs that change something: each is one POST, and prints what came of it in one sentence.

use super::{
    Global,
    client::Client,
    exit::Exit,
    output::{self, Trouble},
};
use crate::api::{CommandReply, CommandRequest, Document};

/// What all of them take.
#[derive(Debug, clap::Args)]
pub(super) struct Shared {
    /// Why, for the history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Refuses (exit code 6) unless this is the present revision
    #[arg(long, value_name = "N")]
    expect_revision: Option<u64>,
    /// Only says what would happen
    #[arg(long)]
    dry_run: bool,
}

/// A verb that changes something.
pub(super) trait Act {
    /// The service it names, the verb's word, and the body.
    fn request(&self) -> Result<(Option<&str>, &'static str, CommandRequest), Trouble>;
}

pub(super) fn run(act: &impl Act, global: &Global) -> Result<Exit, Trouble> {
    let (service, verb, body) = act.request()?;
    let client = Client::new(global)?;
    let service = client.service(service)?;
    let reply: Document<CommandReply> = client.post(&format!("/api/v1/services/{service}/{verb}"), &body)?;
    let dry = if body.dry_run { " (dry run, nothing is changed)" } else { "" };
    output::show(global, &reply, |_| format!("{service}: {}{dry}\n", reply.body.message))?;
    Ok(Exit::Done)
}

impl Shared {
    pub(super) fn body(&self) -> CommandRequest {
        CommandRequest {
            reason: self.reason.clone(),
            expect_revision: self.expect_revision,
            dry_run: self.dry_run,
            ..CommandRequest::default()
        }
    }
}

/// Starts a rollout to another version
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin start --to v2
  serin start web --to v2 --revision 3f2c1ab --reason \"release 42\"
  serin start web --to v43 --endpoint http://app-v43:8000     a version that the config file does not name")]
pub(super) struct StartArgs {
    /// Which service; may be left out when there is only one
    service: Option<String>,
    /// The wanted version, as the config file names it
    #[arg(long, value_name = "VERSION")]
    to: String,
    /// Where it answers, for a version that the config file does not name; kept in the state, and told by `serin drift`
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Another build under the same version name
    #[arg(long, value_name = "TEXT")]
    revision: Option<String>,
    #[command(flatten)]
    shared: Shared,
}

impl Act for StartArgs {
    fn request(&self) -> Result<(Option<&str>, &'static str, CommandRequest), Trouble> {
        let body = CommandRequest {
            to: Some(self.to.clone()),
            revision: self.revision.clone(),
            endpoint: self.endpoint.clone(),
            ..self.shared.body()
        };
        Ok((self.service.as_deref(), "start", body))
    }
}

/// Goes on with the next step now, or with --full makes the canary stable at once
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin promote                                  next step now
  serin promote web --full --reason \"hotfix\"     skips all that is left")]
pub(super) struct PromoteArgs {
    /// Which service; may be left out when there is only one
    service: Option<String>,
    /// Skips all that is left: the canary becomes stable at once
    #[arg(long)]
    full: bool,
    /// With --full: also when the rollout was aborted
    #[arg(long, requires = "full")]
    force: bool,
    #[command(flatten)]
    shared: Shared,
}

impl Act for PromoteArgs {
    fn request(&self) -> Result<(Option<&str>, &'static str, CommandRequest), Trouble> {
        let body = CommandRequest { full: self.full, force: self.force, ..self.shared.body() };
        Ok((self.service.as_deref(), "promote", body))
    }
}

/// Goes back to the version that was stable before
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin undo                         to the version before the present one
  serin undo web --to-revision 6     to what revision 6 had made stable (see serin history)")]
pub(super) struct UndoArgs {
    /// Which service; may be left out when there is only one
    service: Option<String>,
    /// The revision whose result is wanted
    #[arg(long, value_name = "N")]
    to_revision: Option<u64>,
    #[command(flatten)]
    shared: Shared,
}

impl Act for UndoArgs {
    fn request(&self) -> Result<(Option<&str>, &'static str, CommandRequest), Trouble> {
        let body = CommandRequest { to_revision: self.to_revision, ..self.shared.body() };
        Ok((self.service.as_deref(), "undo", body))
    }
}

/// Sets the canary's weight and pauses there
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin set-weight 10%
  serin set-weight web 0.25%      as fine as 0.0001%, which is 1ppm")]
pub(super) struct SetWeightArgs {
    /// The weight, e.g. `10%`; before it the service, unless there is only one
    #[arg(required = true, num_args = 1..=2, value_name = "[SERVICE] WEIGHT")]
    words: Vec<String>,
    #[command(flatten)]
    shared: Shared,
}

impl Act for SetWeightArgs {
    fn request(&self) -> Result<(Option<&str>, &'static str, CommandRequest), Trouble> {
        let (service, weight) = match &self.words[..] {
            [weight] => (None, weight),
            [service, weight] => (Some(service.as_str()), weight),
            _ => return Err(Trouble::new(Exit::Usage, "write `serin set-weight [SERVICE] WEIGHT`")),
        };
        Ok((service, "set-weight", CommandRequest { weight: Some(weight.clone()), ..self.shared.body() }))
    }
}

macro_rules! bare_verb {
    ($(#[$about:meta])* $args:ident, $verb:literal) => {
        #[derive(Debug, clap::Args)]
        $(#[$about])*
        pub(super) struct $args {
            /// Which service; may be left out when there is only one
            service: Option<String>,
            #[command(flatten)]
            shared: Shared,
        }

        impl Act for $args {
            fn request(&self) -> Result<(Option<&str>, &'static str, CommandRequest), Trouble> {
                Ok((self.service.as_deref(), $verb, self.shared.body()))
            }
        }
    };
}

bare_verb!(
    /// Stops the rollout's clock where it is; the weight stays
    #[command(after_help = "\
Examples:
  serin pause --reason \"looking at a graph\"")]
    PauseArgs, "pause"
);
bare_verb!(
    /// Goes on after a pause
    #[command(after_help = "\
Examples:
  serin resume")]
    ResumeArgs, "resume"
);
bare_verb!(
    /// Gives all traffic to stable, at once
    #[command(after_help = "\
Examples:
  serin abort
  serin abort web --reason \"checkout is slow\" --expect-revision 7")]
    AbortArgs, "abort"
);
bare_verb!(
    /// Lets nobody new come to the canary; clients who are kept on it stay until `abort` or `resume`
    #[command(after_help = "\
Examples:
  serin drain --reason \"checkout of the new version ends on Friday\"")]
    DrainArgs, "drain"
);
bare_verb!(
    /// Tries an aborted version again, from step 1
    #[command(after_help = "\
Examples:
  serin retry --reason \"database was down\"")]
    RetryArgs, "retry"
);
bare_verb!(
    /// Ends the analyses that are running; the rollout goes on without their verdict
    #[command(after_help = "\
Examples:
  serin terminate --reason \"the dashboard's query is wrong\"")]
    TerminateArgs, "terminate"
);
