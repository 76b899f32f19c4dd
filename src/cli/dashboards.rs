//! `serin dashboards`: what others show and warn by, ready to be imported.

use super::{
    exit::Exit,
    output::{self, Trouble},
};

/// Print the dashboard for Grafana, or the rules for Prometheus
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin dashboards grafana > serin-dashboard.json
  serin dashboards prometheus > /etc/prometheus/serin-rules.yaml")]
pub(super) struct Args {
    /// For whom
    #[arg(value_enum)]
    of: Whose,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Whose {
    /// A dashboard of both versions, the rollout and its checks
    Grafana,
    /// Alerting and recording rules
    Prometheus,
}

pub(super) fn run(args: &Args) -> Result<Exit, Trouble> {
    let text = match args.of {
        Whose::Grafana => include_str!("../../config/grafana-dashboard.json"),
        Whose::Prometheus => include_str!("../../config/prometheus-rules.yaml"),
    };
    output::print(text)?;
    Ok(Exit::Done)
}
