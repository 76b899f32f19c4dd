//! `serin try`: the demo's second half with two services of one's own.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Uri, uri::PathAndQuery};

use super::{exit::Exit, interrupt, output};
use crate::{
    demo::{screen::Screen, stage::Script, trial},
    engine::event::EventKind,
    outbound::{Client, Limits, Reach},
};

/// Try a canary beside a stable service of your own, without a config file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Starts a proxy in front of both, sends a bounded load of GET requests through it, and steps the canary from 5% to 100% or
reverts it on evidence. Exits 0 when it was promoted, 4 when it was reverted.

Examples:
  serin try http://localhost:3000 http://localhost:3001
  serin try http://localhost:3000 http://localhost:3001 --path /api/items
  serin try http://localhost:3000 http://localhost:3001 --rate 200 --hold 5 --write serin.yaml")]
pub struct Args {
    /// URL of the version that serves now.
    #[arg(value_name = "STABLE_URL")]
    pub stable: String,
    /// URL of the version to be tried.
    #[arg(value_name = "CANARY_URL")]
    pub canary: String,
    /// Where the proxy listens; a free port without.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// What the load asks for.
    #[arg(long, value_name = "PATH", default_value = "/", value_parser = path)]
    pub path: String,
    /// Requests a second that are sent.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rate: u32,
    /// Seconds that each step is held.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub hold: u64,
    /// Keep the config that was used.
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// A line for each event instead of a live picture.
    #[arg(long)]
    pub plain: bool,
}

/// Plays the trial.
pub fn run(args: &Args) -> Exit {
    for (which, url) in [("STABLE_URL", &args.stable), ("CANARY_URL", &args.canary)] {
        if let Err((exit, problem)) = answers(url) {
            output::note(&format!("{which} {problem}"));
            return exit;
        }
    }
    let script = Script {
        listen: args.listen,
        versions: vec![("stable".to_owned(), base(&args.stable)), ("canary".to_owned(), base(&args.canary))],
        canary: "canary".to_owned(),
        steps: ["5%", "25%", "50%"].map(str::to_owned).to_vec(),
        hold: Duration::from_secs(args.hold),
        rate: f64::from(args.rate),
        path: args.path.clone(),
    };
    if let Some(file) = &args.write {
        let kept = script.config();
        if let Err(error) = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(file)
            .and_then(|mut to| std::io::Write::write_all(&mut to, kept.as_bytes()))
        {
            output::note(&format!("cannot write {}: {error}", file.display()));
            return Exit::Failed;
        }
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    interrupt::raise(Arc::clone(&interrupted));
    match trial::play(script, &mut Screen::new(args.plain), &interrupted) {
        Ok(Some(EventKind::Promoted)) => Exit::Done,
        Ok(Some(EventKind::Aborted)) => Exit::Aborted,
        Ok(_) if interrupted.load(Relaxed) => Exit::Interrupted,
        Ok(_) => Exit::Failed,
        Err(error) => {
            output::note(&error.to_string());
            Exit::Failed
        }
    }
}

/// A path and query, as a request has them.
fn path(text: &str) -> Result<String, String> {
    let is_path = text.starts_with('/') && text.parse::<PathAndQuery>().is_ok();
    if is_path { Ok(text.to_owned()) } else { Err("write a path as `/api/items?page=1`".to_owned()) }
}

/// Whether anything answers there: a typing error is said before any user-like request fails on it.
fn answers(url: &str) -> Result<(), (Exit, String)> {
    let usage = |problem: &str| (Exit::Usage, format!("`{url}` {problem}"));
    let uri: Uri = base(url).parse().map_err(|_| usage("is no URL: write it as http://HOST:PORT"))?;
    if uri.scheme_str() != Some("http") || uri.authority().is_none() {
        return Err(usage("cannot be tried: write it as http://HOST:PORT"));
    }
    if !matches!(uri.path_and_query().map(PathAndQuery::as_str), None | Some("/")) {
        return Err(usage("has a path: name the service alone, as http://HOST:PORT"));
    }
    let failed = |problem: String| (Exit::Failed, problem);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(format!("cannot be asked: {error}")))?;
    let request = Request::get(uri).body(Bytes::new()).map_err(|error| failed(format!("cannot be asked: {error}")))?;
    // Any answer will do: which ones count as errors is for the trial to see.
    let answer = runtime.block_on(Client::new(Limits::default(), Reach::anywhere()).stream(request));
    answer.map(|_| ()).map_err(|error| failed(format!("does not answer: {error}")))
}

/// People paste a URL with its slash; an endpoint has no path.
fn base(url: &str) -> String {
    url.strip_suffix('/').unwrap_or(url).to_owned()
}
