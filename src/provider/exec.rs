//! A command on this machine, as a Job is in Argo Rollouts: exit code 0 is good, another one is a failure, and what it
//! prints is the result. A command that cannot run, is killed, prints too much or takes too long is a fault, never a verdict.

use std::{io, os::unix::process::ExitStatusExt, process::Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
};

use super::{http::excerpt, json, secret::Secrets};
use crate::engine::analysis::{
    answer::{Answer, Reply},
    ask::Text,
};

/// Most bytes that a command may print.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// Where programs are looked for when the process itself has no `PATH`.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub(super) async fn run(command: &[Text], env: &[(String, Text)], secrets: &mut Secrets) -> Result<Reply, String> {
    let words: Vec<String> = command.iter().map(|text| secrets.text(text)).collect::<Result<_, _>>()?;
    let Some((program, args)) = words.split_first() else { return Err("there is no command".to_owned()) };
    let path = std::env::var_os("PATH").unwrap_or_else(|| PATH.into());
    let mut command = Command::new(program);
    command.args(args).env_clear().env("PATH", path).process_group(0).kill_on_drop(true);
    for (name, text) in env {
        command.env(name, secrets.text(text)?);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("`{program}` cannot be started: {error}"))?;
    let group = Group::of(&child);
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let ended = async move {
        let status = child.wait().await;
        // What it left running would keep its output open.
        drop(group);
        status
    };
    let (out, err, status) = tokio::join!(read(out), read(err), ended);
    let status = status.map_err(|error| format!("`{program}` cannot be waited for: {error}"))?;
    let out = out.map_err(|error| format!("the output of `{program}` cannot be taken: {error}"))?;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(Reply::Value(result(&out))),
        (Some(code), _) => {
            let said = err.ok().filter(|err| !err.is_empty()).unwrap_or(out);
            Ok(Reply::Failed(format!("`{program}` ended with exit code {code}{}", excerpt(&said))))
        }
        (None, signal) => Err(format!("`{program}` was killed by signal {}", signal.unwrap_or_default())),
    }
}

fn result(out: &[u8]) -> Answer {
    json::parse(out)
        .map_or_else(|_| Answer::Text(String::from_utf8_lossy(out).trim().to_owned()), |value| json::answer(&value))
}

async fn read(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let Some(pipe) = pipe else { return Ok(Vec::new()) };
    let mut bytes = Vec::new();
    let limit = u64::try_from(OUTPUT_BYTES_MAX).unwrap_or(u64::MAX);
    let mut pipe = pipe.take(limit + 1);
    pipe.read_to_end(&mut bytes).await?;
    if bytes.len() > OUTPUT_BYTES_MAX {
        return Err(io::Error::other(format!("it is more than {OUTPUT_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// The command and all that it started, which ends with the question: also when its time is over.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Nobody left in it is what is wanted.
            let _none_left = kill_process_group(group, Signal::KILL);
        }
    }
}
