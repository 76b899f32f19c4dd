//! `serin tap`: what is failing right now. Reads the access log as JSON lines, from a pipe or a file, and shows the requests that are asked
//! for. Asks no process: off the way of requests, and good for yesterday's log as well.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;

use super::{
    Global,
    exit::Exit,
    output::{self, Format, Trouble},
    value,
};
use crate::words::{self, Mark, Style};

/// Longest line that is looked at, in bytes.
const LINE_MAX: u64 = 64 * 1024;

/// Shows single requests out of the access log: the failed ones, the canary's, the slow ones
///
/// Reads JSON lines as `accessLog: { format: json }` writes them; other lines, and what a container engine puts before a line, are
/// passed over.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin run | serin tap --failed
  docker compose logs --follow proxy | serin tap --role canary --failed
  serin tap access.log --version v42 --slower 500ms --output json")]
pub(super) struct Args {
    /// The log; standard input without
    file: Option<PathBuf>,
    /// Only requests that failed: status 500 or above, or no whole answer
    #[arg(long)]
    failed: bool,
    /// Only those of `stable`, `canary` or `other`
    #[arg(long, value_name = "ROLE", value_parser = ["stable", "canary", "other"])]
    role: Option<String>,
    /// Only those of this version
    #[arg(long, value_name = "NAME")]
    version: Option<String>,
    /// Only those of this service
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Only those whose path begins so
    #[arg(long, value_name = "PREFIX")]
    path: Option<String>,
    /// Only those that took longer
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    slower: Option<Duration>,
    /// Ends after so many
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u64>,
}

/// As much of a line as is looked at.
#[derive(Debug, Deserialize)]
struct Line {
    time: String,
    status: u16,
    method: String,
    path: String,
    duration: f64,
    #[serde(default = "yes")]
    complete: bool,
    error: Option<String>,
    service: Option<String>,
    version: Option<String>,
    role: Option<String>,
    reason: Option<String>,
    request_id: Option<String>,
}

const fn yes() -> bool {
    true
}

pub(super) fn run(args: &Args, global: &Global) -> Result<Exit, Trouble> {
    match args.file.as_deref().filter(|file| *file != Path::new("-")) {
        None => follow(io::stdin().lock(), args, global),
        Some(file) => {
            let open = File::open(file);
            let cannot = |error| Trouble::new(Exit::Usage, format!("cannot read {}: {error}", file.display()));
            follow(BufReader::new(open.map_err(cannot)?), args, global)
        }
    }
}

fn follow(mut log: impl BufRead, args: &Args, global: &Global) -> Result<Exit, Trouble> {
    let style = output::style(global);
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    while left > 0 {
        bytes.clear();
        let read = log.by_ref().take(LINE_MAX).read_until(b'\n', &mut bytes);
        if read.map_err(|error| Trouble::new(Exit::Failed, format!("the log cannot be read: {error}")))? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&bytes);
        let Some(json) = text.find('{').map(|at| text[at..].trim_end()) else { continue };
        let Ok(line) = serde_json::from_str::<Line>(json) else { continue };
        if !args.wants(&line) {
            continue;
        }
        left -= 1;
        match global.output {
            Format::Table => output::print(&shown(&line, style))?,
            Format::Json | Format::Sarif => output::print(&format!("{json}\n"))?,
            Format::Yaml => output::print(&format!("---\n{}", yaml(json)))?,
        }
    }
    Ok(Exit::Done)
}

fn yaml(json: &str) -> String {
    let document: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    serde_yaml::to_string(&document).unwrap_or_default()
}

impl Line {
    fn failed(&self) -> bool {
        self.status >= 500 || self.status == 0 || !self.complete || self.error.is_some()
    }

    fn took(&self) -> Duration {
        Duration::try_from_secs_f64(self.duration).unwrap_or_default()
    }
}

impl Args {
    fn wants(&self, line: &Line) -> bool {
        let is = |wanted: &Option<String>, own: &Option<String>| wanted.is_none() || wanted == own;
        (!self.failed || line.failed())
            && is(&self.role, &line.role)
            && is(&self.version, &line.version)
            && is(&self.service, &line.service)
            && self.path.as_ref().is_none_or(|prefix| line.path.starts_with(prefix))
            && self.slower.is_none_or(|limit| line.took() > limit)
    }
}

/// A request as one line. What a client sent may hold anything, so control characters are left out.
fn shown(line: &Line, style: Style) -> String {
    let mark = if line.failed() { Mark::Bad } else { Mark::Good };
    let clean = |text: &str| text.chars().filter(|letter| !letter.is_control()).collect::<String>();
    let or_dash = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), clean);
    let why = [&line.error, &line.reason, &line.request_id].into_iter().flatten().map(|text| clean(text));
    let text = format!(
        "{}  {}  {:>9}  {} ({})  {} {}  {}",
        clean(&line.time),
        style.marked(mark, &line.status.to_string()),
        words::latency(line.took()),
        or_dash(&line.version),
        or_dash(&line.role),
        clean(&line.method),
        clean(&line.path),
        why.collect::<Vec<_>>().join("  "),
    );
    text.trim_end().to_owned() + "\n"
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

    const LOG: [&str; 3] = [
        r#"{"time":"t1","status":200,"method":"GET","path":"/a","duration":0.001,"complete":true,"version":"v1","role":"stable"}"#,
        r#"{"time":"t2","status":502,"method":"GET","path":"/api/x","duration":0.7,"complete":true,"error":"connect","version":"v2","role":"canary","reason":"sampled","request_id":"i"}"#,
        r#"{"time":"t3","status":200,"method":"POST","path":"/api/y","duration":2.5,"complete":false,"version":"v2","role":"canary"}"#,
    ];

    fn kept(flags: &[&str]) -> Vec<String> {
        let args = Cli::try_parse_from(["tap"].iter().chain(flags)).unwrap().args;
        let lines = LOG.iter().map(|line| serde_json::from_str::<Line>(line).unwrap());
        lines.filter(|line| args.wants(line)).map(|line| line.time).collect()
    }

    #[test]
    fn what_is_asked_for_is_kept() {
        assert_eq!(kept(&[]), ["t1", "t2", "t3"]);
        assert_eq!(kept(&["--failed"]), ["t2", "t3"]);
        assert_eq!(kept(&["--role", "stable"]), ["t1"]);
        assert_eq!(kept(&["--version", "v2", "--slower", "1s"]), ["t3"]);
        assert_eq!(kept(&["--path", "/api", "--failed"]), ["t2", "t3"]);
        assert!(Cli::try_parse_from(["tap", "--role", "boss"]).is_err());
    }

    #[test]
    fn a_line_is_a_row_and_nobody_forges_another() {
        let style = Style { ascii: true, color: false };
        let failed: Line = serde_json::from_str(LOG[1]).unwrap();
        assert_eq!(shown(&failed, style), "t2  x 502     700 ms  v2 (canary)  GET /api/x  connect  sampled  i\n");
        let forged = shown(&Line { path: "/\x1b[2J\nt9".to_owned(), ..failed }, style);
        assert!(forged.lines().count() == 1 && !forged.contains('\x1b'), "{forged}");
    }
}
