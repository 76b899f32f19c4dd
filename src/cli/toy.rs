//! `serin toy`: one toy upstream until it is told to stop.

use std::{net::SocketAddr, num::NonZeroU32, time::Duration};

use tokio::signal::unix::{SignalKind, signal};

use super::{exit::Exit, output, value};
use crate::demo::toy::{Failing, Toy, ToySpec};

/// Serves a toy version of an HTTP service, to try a canary with
///
/// It answers every request with its name, in the body and as `x-version`, over HTTP/1.1 and over HTTP/2 by prior
/// knowledge. `/healthz` always answers 200. It runs until SIGINT or SIGTERM.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  serin toy --name v1
  serin toy --name v2 --listen 127.0.0.1:8001 --fail-every 2
  serin toy --name slow --listen 127.0.0.1:8002 --latency 200ms --jitter 100ms --fail-share 5%")]
pub struct Args {
    /// Its version
    #[arg(long, default_value = "v1")]
    pub name: String,
    /// Where it listens; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8000")]
    pub listen: SocketAddr,
    /// Fails each n-th request with status 500
    #[arg(long, value_name = "N", conflicts_with = "fail_share")]
    pub fail_every: Option<NonZeroU32>,
    /// Fails this share of requests with status 500, at random, e.g. `5%`
    #[arg(long, value_name = "SHARE", value_parser = value::share)]
    pub fail_share: Option<f64>,
    /// How long each answer takes, e.g. `20ms`
    #[arg(long, value_name = "DURATION", value_parser = value::duration, default_value = "0s")]
    pub latency: Duration,
    /// How much longer an answer may take, evenly spread, e.g. `10ms`
    #[arg(long, value_name = "DURATION", value_parser = value::duration, default_value = "0s")]
    pub jitter: Duration,
}

/// Serves until told to stop.
pub fn run(args: &Args) -> Exit {
    match serve(args) {
        Ok(()) => Exit::Done,
        Err(error) => {
            output::note(&error.to_string());
            Exit::Failed
        }
    }
}

fn serve(args: &Args) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        // Before the start, so that a stop just after it is not missed. As process 1 of a container it must listen.
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let toy = Toy::start(spec_of(args))?;
        eprintln!("{} answers on http://{}", args.name, toy.address());
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        output::remark(&format!("{} had {} requests and failed {}", args.name, toy.requests(), toy.failures()));
        toy.drain();
        Ok(())
    })
}

fn spec_of(args: &Args) -> ToySpec {
    let every = args.fail_every.map(Failing::Every);
    ToySpec {
        name: args.name.clone(),
        listen: args.listen,
        failing: every.or(args.fail_share.map(Failing::Share)).unwrap_or(Failing::Never),
        latency: args.latency,
        jitter: args.jitter,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Result<ToySpec, clap::Error> {
        Cli::try_parse_from(line.split(' ')).map(|cli| spec_of(&cli.args))
    }

    #[test]
    fn its_arguments_say_what_the_toy_is_like() {
        let spec = parse("toy --name v2 --listen 127.0.0.1:1 --fail-share 50% --latency 20ms --jitter 10ms").unwrap();
        let expected = ToySpec {
            failing: Failing::Share(0.5),
            latency: Duration::from_millis(20),
            jitter: Duration::from_millis(10),
            ..ToySpec::new("v2", SocketAddr::from(([127, 0, 0, 1], 1)))
        };
        assert_eq!(spec, expected);
        assert_eq!(parse("toy --fail-every 2").unwrap().failing, Failing::Every(NonZeroU32::new(2).unwrap()));
        for wrong in ["toy --fail-every 0", "toy --fail-every 2 --fail-share 5%", "toy --latency 20"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
