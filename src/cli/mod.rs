//! SPEAK. One file per verb: `Args` for clap and `run(&Args) -> Exit`. Data goes to stdout, everything else to stderr.
//! Reaches a running engine by HTTP alone.

mod act;
mod analyze;
mod check;
mod client;
mod completions;
mod dashboards;
mod demo;
mod drift;
mod events;
pub mod exit;
mod explain;
mod explain_request;
mod healthcheck;
mod history;
mod import;
mod init;
mod interrupt;
mod load;
mod output;
mod picture;
mod rehearse;
mod reload;
mod report;
mod run;
mod schema;
mod stat;
mod status;
mod tap;
mod toy;
mod try_;
mod value;
mod wait;
mod why;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use exit::Exit;
use output::{Color, Format};

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "serin",
    version,
    about = "A mesh-free canary proxy: splits requests, measures both versions, steps forward or reverts on evidence.",
    after_help = AFTER_HELP,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 120
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

/// What every verb takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
struct Global {
    /// The config file; the verbs find the running process and its token through it [./serin.yaml, config/serin.yaml]
    #[arg(long, short, global = true, env = "SERIN_CONFIG", value_name = "FILE", hide_env_values = true)]
    config: Option<PathBuf>,
    /// Where the admin API answers, instead of what the config file says; the token is then SERIN_TOKEN
    #[arg(long, global = true, value_name = "URL")]
    admin: Option<String>,
    /// How data is printed
    #[arg(long, short, global = true, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    output: Format,
    /// Colours; NO_COLOR and CLICOLOR_FORCE are heeded
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
    /// Only ASCII characters in tables and trees
    #[arg(long, global = true)]
    ascii: bool,
}

/// The verbs, in the order of the help.
#[derive(Debug, Subcommand)]
enum Verb {
    Run(run::Args),
    Demo(demo::Args),
    Try(try_::Args),
    Init(init::Args),
    Check(check::Args),
    Schema(schema::Args),
    Explain(explain::Args),
    Import(import::Args),
    Rehearse(rehearse::Args),
    Status(status::Args),
    Stat(stat::Args),
    Why(why::Args),
    ExplainRequest(explain_request::Args),
    History(history::Args),
    Report(report::Args),
    Tap(tap::Args),
    Events(events::Args),
    Start(act::StartArgs),
    Promote(act::PromoteArgs),
    Pause(act::PauseArgs),
    Resume(act::ResumeArgs),
    Abort(act::AbortArgs),
    Drain(act::DrainArgs),
    Retry(act::RetryArgs),
    Undo(act::UndoArgs),
    SetWeight(act::SetWeightArgs),
    Terminate(act::TerminateArgs),
    Analyze(analyze::Args),
    Wait(wait::Args),
    Reload(reload::Args),
    Drift(drift::Args),
    Healthcheck(healthcheck::Args),
    Completions(completions::CompletionsArgs),
    Man(completions::ManArgs),
    Dashboards(dashboards::Args),
    Toy(toy::Args),
    Load(load::Args),
}

impl Verb {
    fn run(&self, global: &Global) -> Exit {
        if global.output == Format::Sarif && !matches!(self, Self::Check(_)) {
            output::note("only `serin check` gives SARIF");
            return Exit::Usage;
        }
        match self {
            Self::Run(args) => run::run(args, global),
            Self::Demo(args) => demo::run(args),
            Self::Try(args) => try_::run(args),
            Self::Init(args) => output::finish(init::run(args)),
            Self::Check(args) => check::run(args, global),
            Self::Schema(_) => output::finish(schema::run()),
            Self::Explain(args) => output::finish(explain::run(args, global)),
            Self::Import(args) => import::run(args, global),
            Self::Rehearse(args) => output::finish(rehearse::run(args, global)),
            Self::Status(args) => output::finish(status::run(args, global)),
            Self::Stat(args) => output::finish(stat::run(args, global)),
            Self::Why(args) => output::finish(why::run(args, global)),
            Self::ExplainRequest(args) => output::finish(explain_request::run(args, global)),
            Self::History(args) => output::finish(history::run(args, global)),
            Self::Report(args) => output::finish(report::run(args, global)),
            Self::Tap(args) => output::finish(tap::run(args, global)),
            Self::Events(args) => output::finish(events::run(args, global)),
            Self::Start(args) => output::finish(act::run(args, global)),
            Self::Promote(args) => output::finish(act::run(args, global)),
            Self::Pause(args) => output::finish(act::run(args, global)),
            Self::Resume(args) => output::finish(act::run(args, global)),
            Self::Abort(args) => output::finish(act::run(args, global)),
            Self::Drain(args) => output::finish(act::run(args, global)),
            Self::Retry(args) => output::finish(act::run(args, global)),
            Self::Undo(args) => output::finish(act::run(args, global)),
            Self::SetWeight(args) => output::finish(act::run(args, global)),
            Self::Terminate(args) => output::finish(act::run(args, global)),
            Self::Analyze(args) => output::finish(analyze::run(args, global)),
            Self::Wait(args) => output::finish(wait::run(args, global)),
            Self::Reload(args) => output::finish(reload::run(args, global)),
            Self::Drift(_) => output::finish(drift::run(global)),
            Self::Completions(args) => output::finish(completions::completions(args)),
            Self::Man(args) => output::finish(completions::man(args)),
            Self::Healthcheck(args) => output::finish(healthcheck::run(args, global)),
            Self::Dashboards(args) => output::finish(dashboards::run(args)),
            Self::Toy(args) => toy::run(args),
            Self::Load(args) => load::run(args, global),
        }
    }
}

/// Which verbs the help shows together. A verb in no group is shown last.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Serve", &["run", "demo", "try"]),
    ("Write a config", &["init", "check", "explain", "schema", "rehearse", "import"]),
    ("Look", &["status", "stat", "why", "explain-request", "history", "report", "events", "tap"]),
    (
        "Act",
        &[
            "start",
            "promote",
            "pause",
            "resume",
            "abort",
            "drain",
            "retry",
            "undo",
            "set-weight",
            "terminate",
            "analyze",
        ],
    ),
    (
        "Operate and test",
        &["wait", "reload", "drift", "healthcheck", "dashboards", "completions", "man", "toy", "load"],
    ),
];

const AFTER_HELP: &str = "\
Examples:
  serin demo                           see it once
  serin explain tutorial               from nothing to your own two services
  serin status -w                      where the rollout stands, live
  serin why                            what it waits for, or why it was aborted
  serin abort --reason \"too slow\"      all traffic to stable, at once
  serin history --output json          every decision with its numbers

Exit codes:
  0 done                 1 failed unexpectedly    2 wrong usage            3 config invalid
  4 rollout aborted      5 time ran out           6 refused                7 admin API not reachable
  8 not allowed (token)  9 paused for a person    10 analysis not successful
  130 interrupted";

/// Runs the command line, the program's name first.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match command().try_get_matches_from(args).and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli.verb.run(&cli.global).into(),
        Err(error) => {
            // Nowhere left to say that it cannot be said.
            let _ = error.print();
            if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() }
        }
    }
}

/// The command with its verbs grouped in the help.
fn command() -> clap::Command {
    let command = Cli::command();
    let mut verbs = String::new();
    let about = |name: &str| {
        let verb = command.get_subcommands().find(|verb| verb.get_name() == name)?;
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        Some(format!("  {name:<12} {about}\n"))
    };
    for (title, names) in GROUPS {
        let lines: String = names.iter().filter_map(|name| about(name)).collect();
        if !lines.is_empty() {
            verbs.extend([title, ":\n", &lines, "\n"]);
        }
    }
    let grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let rest: String = command
        .get_subcommands()
        .filter(|verb| !grouped(verb.get_name()))
        .filter_map(|verb| about(verb.get_name()))
        .collect();
    if !rest.is_empty() {
        verbs.extend(["Other:\n", &rest, "\n"]);
    }
    let template =
        format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{verbs}Options:\n{{options}}{{after-help}}");
    command.help_template(template).mut_subcommands(|verb| {
        verb.help_template("{about-with-newline}\n{usage-heading} {usage}\n\n{all-args}{after-help}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn the_help_has_every_exit_code_and_no_other() {
        let (_, codes) = AFTER_HELP.split_once("Exit codes:").unwrap();
        for (exit, meaning) in Exit::ALL {
            assert!(codes.contains(&format!("{} {meaning}", exit as u8)), "{codes}");
        }
        let numbers = codes.split_whitespace().filter(|word| word.parse::<u8>().is_ok()).count();
        assert_eq!(numbers, Exit::ALL.len(), "{codes}");
    }

    #[test]
    fn every_verb_is_in_a_group_and_has_an_example() {
        for verb in Cli::command().get_subcommands() {
            let name = verb.get_name();
            assert!(GROUPS.iter().any(|(_, names)| names.contains(&name)), "{name}");
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("serin {name}")), "{name} teaches no example");
        }
    }
}
