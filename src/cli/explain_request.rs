//! `serin explain-request`: where a request would go, and why, without sending it.

use std::{fmt::Write as _, net::IpAddr};

use super::{
    Global,
    client::Client,
    exit::Exit,
    output::{self, Trouble},
};
use crate::api::{Document, RequestAnswer, RequestQuestion};

/// Says which route, service and version a request would get, and why, without sending it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin explain-request http://shop.example/cart
  serin explain-request -X POST -H 'x-canary: always' http://shop.example/cart
  serin explain-request --client 10.1.2.3 -H 'cookie: serin=0123456789abcdef' https://shop.example/")]
pub(super) struct Args {
    /// The whole URL, with the host that the client asks for
    url: String,
    /// The method
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET")]
    request: String,
    /// A header field; may be given several times
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// The client's address
    #[arg(long, value_name = "IP")]
    client: Option<IpAddr>,
}

pub(super) fn run(args: &Args, global: &Global) -> Result<Exit, Trouble> {
    let split = |field: &String| {
        let (name, value) = field.split_once(':')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    let headers = args.headers.iter().map(split).collect::<Option<Vec<_>>>();
    let headers = headers.ok_or_else(|| Trouble::new(Exit::Usage, "write a header as `name: value`".to_owned()))?;
    let question =
        RequestQuestion { method: args.request.clone(), url: args.url.clone(), headers, client: args.client };
    let document: Document<RequestAnswer> = Client::new(global)?.post("/api/v1/explain-request", &question)?;
    output::show(global, &document, |_| text(&document.body))?;
    Ok(Exit::Done)
}

fn text(answer: &RequestAnswer) -> String {
    let mut lines = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(lines, "{name:<9}{value}");
    };
    if let Some(route) = &answer.route {
        line("route", route.clone());
    }
    if let Some(status) = answer.status {
        let location = answer.location.as_ref().map_or_else(String::new, |location| format!(" to {location}"));
        line("answer", format!("{status}{location}"));
    }
    if let Some(service) = &answer.service {
        line("service", service.to_string());
    }
    for candidate in &answer.versions {
        let chance = if answer.versions.len() > 1 { format!(", {}", candidate.chance_ppm) } else { String::new() };
        line("version", format!("{} ({}{chance})", candidate.version, candidate.role.as_str()));
    }
    let reason = answer.reason.as_ref().map_or_else(String::new, |reason| format!("{reason}: "));
    line("reason", format!("{reason}{}", answer.because));
    if let Some(bucket) = answer.bucket {
        line("bucket", format!("{bucket} of 1000000"));
    }
    for copy in &answer.copies {
        line("copy", format!("{} of {}, {}: {}", copy.version, copy.service, copy.chance_ppm, copy.because));
    }
    lines
}
