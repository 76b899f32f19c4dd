//! `serin run`: serves until told to stop.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sd_notify::NotifyState;
use tracing::{error, info, warn};

use super::{Global, exit::Exit, output};
use crate::{
    config,
    server::{Server, Source, StartError},
    shutdown::{Signal, Signals},
    telemetry::{self, LogFormat},
};

/// How long running requests may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(30);

/// Serve: split, measure, decide.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
SIGTERM and Ctrl-C let running requests end, then stop. A second Ctrl-C stops at once. SIGHUP reads the file again;
so does saving it.

To replace a running process, start the next one with the same file: it serves beside the first, and decides once that
one has ended. Sockets that systemd holds are taken over (LISTEN_FDS).

Examples:
  serin run config/serin.yaml
  SERIN_LOG=debug serin run")]
pub struct Args {
    /// The config file, as `--config` names it.
    file: Option<PathBuf>,
    /// Write logs as JSON, one object a line.
    #[arg(long)]
    pub log_json: bool,
}

/// Serves until told to stop.
pub(super) fn run(args: &Args, global: &Global) -> Exit {
    let named = args.file.as_deref().or(global.config.as_deref());
    let file = match config::locate(named, Path::new(""), &config::process_environment) {
        Ok(file) => file,
        Err(not_found) => {
            output::note(&format!("{not_found}\n  `serin demo` shows a file and what it does"));
            return Exit::ConfigInvalid;
        }
    };
    let source = match Source::read(&file) {
        Ok(source) => source,
        Err(diagnostics) => {
            output::note(&diagnostics.to_string());
            return Exit::ConfigInvalid;
        }
    };
    if let Err(error) = telemetry::start(if args.log_json { LogFormat::Json } else { LogFormat::Text }) {
        output::note(&error.to_string());
        return Exit::Usage;
    }
    raise_open_files();
    let server = match Server::start(source) {
        Ok(server) => server,
        Err(error) => {
            output::note(&error.to_string());
            return if matches!(error, StartError::Control(_)) { Exit::ConfigInvalid } else { Exit::Failed };
        }
    };
    let listening: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    info!(version = env!("CARGO_PKG_VERSION"), admin = %server.admin(), "serving on {}", listening.join(", "));
    tell_systemd(&[NotifyState::Ready]);
    serve(server)
}

/// A proxied request takes two descriptors. The soft limit is low for the sake of old programs; what is allowed is the hard one.
fn raise_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(cause) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        warn!("the limit of open files stays at {current:?}: {cause}");
    }
}

/// Says how things stand to a service manager that asks for it by `NOTIFY_SOCKET`.
fn tell_systemd(state: &[NotifyState<'_>]) {
    if let Err(cause) = sd_notify::notify(state) {
        warn!("the service manager cannot be told: {cause}");
    }
}

fn serve(server: Server) -> Exit {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(cause) => {
            error!("cannot wait for signals: {cause}");
            return Exit::Failed;
        }
    };
    let handle = server.handle();
    runtime.block_on(async {
        let mut signals = match Signals::listen() {
            Ok(signals) => signals,
            Err(cause) => return error!("cannot wait for signals: {cause}"),
        };
        loop {
            match signals.next().await {
                Signal::Reload => {
                    if let Ok(now) = NotifyState::monotonic_usec_now() {
                        tell_systemd(&[NotifyState::Reloading, now]);
                    }
                    // The driver has logged the outcome.
                    let _logged = handle.reload().await;
                    tell_systemd(&[NotifyState::Ready]);
                }
                Signal::Drain => break,
                Signal::Quit => std::process::exit(i32::from(Exit::Failed as u8)),
            }
        }
    });
    tell_systemd(&[NotifyState::Stopping]);
    info!("stopping: no new connections; running requests have {} s to end", GRACE.as_secs());
    let second = std::thread::spawn(quit_on_second_signal);
    server.shutdown(GRACE);
    drop(second);
    info!("stopped");
    Exit::Done
}

/// A second Ctrl-C during the drain means now.
fn quit_on_second_signal() {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        if let Ok(mut signals) = Signals::listen() {
            loop {
                if signals.next().await != Signal::Reload {
                    std::process::exit(i32::from(Exit::Failed as u8));
                }
            }
        }
    });
}
