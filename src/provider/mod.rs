//! ASK OTHERS. Questions of analysis become requests and commands, and what comes back becomes an answer or a fault in words.
//! Refuses to retry, to judge, to wait longer than told, and to let a secret out in an answer or a message.

mod cloudwatch;
mod datadog;
mod exec;
mod gate;
mod graphite;
mod http;
mod influxdb;
mod json;
mod newrelic;
mod prometheus;
mod secret;
mod sigv4;
mod web;

use std::{io, sync::Arc, thread, time::Duration};

use tokio::sync::{Semaphore, mpsc};

use crate::{
    engine::{
        analysis::{
            answer::Reply,
            ask::{Ask, Question, Ticket},
        },
        gate::{GateAnswer, GateTicket},
    },
    outbound::Reach,
};
pub use gate::Call;
use http::Clients;
use secret::Secrets;

/// Questions that may wait to be asked.
pub const QUEUE_MAX: usize = 256;
/// Questions that are asked at once.
pub const AT_ONCE_MAX: usize = 32;

/// What came of a question.
#[derive(Debug)]
pub enum Answered {
    /// Of an analysis.
    Question(Ticket, Result<Reply, String>),
    /// Of a gate.
    Gate(GateTicket, Result<GateAnswer, String>),
}

/// What is asked.
#[derive(Debug)]
enum Asked {
    Question(Question),
    Gate(Call),
}

/// Asks, on a thread of its own: neither a large answer nor a secret's slow disk holds up a decision.
#[derive(Debug)]
pub struct Provider {
    questions: mpsc::Sender<Asked>,
}

impl Provider {
    /// Starts the thread, which asks nobody but whom `reach` lets it; answers come out of the receiver. It ends when this is
    /// dropped.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(reach: Reach) -> io::Result<(Self, mpsc::Receiver<Answered>)> {
        let (questions, asked) = mpsc::channel(QUEUE_MAX);
        let (answer, answers) = mpsc::channel(QUEUE_MAX);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new()
            .name("provider".to_owned())
            .spawn(move || runtime.block_on(serve(asked, answer, reach)))?;
        Ok((Self { questions }, answers))
    }

    /// Asks soon. False when too many questions wait already; this one is never answered then.
    #[must_use]
    pub fn ask(&self, question: Question) -> bool {
        self.questions.try_send(Asked::Question(question)).is_ok()
    }

    /// Asks a gate soon. False as with [`ask`](Self::ask).
    #[must_use]
    pub fn consult(&self, call: Call) -> bool {
        self.questions.try_send(Asked::Gate(call)).is_ok()
    }
}

async fn serve(mut asked: mpsc::Receiver<Asked>, answer: mpsc::Sender<Answered>, reach: Reach) {
    let (clients, places) = (Arc::new(Clients::new(reach)), Arc::new(Semaphore::new(AT_ONCE_MAX)));
    while let Some(asked) = asked.recv().await {
        let (clients, answer) = (Arc::clone(&clients), answer.clone());
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        tokio::spawn(async move {
            let answered = match asked {
                Asked::Question(Question { ticket, ask, timeout }) => {
                    let now = Duration::from_millis(ticket.asked.as_millis());
                    let reply = ask_within(&ask, now, timeout, &clients).await;
                    Answered::Question(ticket, reply)
                }
                Asked::Gate(call) => {
                    let reply = gate::ask(&call, &clients).await;
                    Answered::Gate(call.question.ticket, reply)
                }
            };
            drop(place);
            // Nobody listens any more when the control plane is gone.
            let _gone = answer.send(answered).await;
        });
    }
}

/// Asks now, which is `now` after 1970 began, and waits no longer than `timeout`.
async fn ask_within(ask: &Ask, now: Duration, timeout: Duration, clients: &Clients) -> Result<Reply, String> {
    let mut secrets = Secrets::default();
    let outcome = tokio::time::timeout(timeout, put(ask, now, clients, &mut secrets)).await;
    let reply = outcome.unwrap_or_else(|_| Err(format!("no answer within {timeout:?}")));
    reply.map(|reply| secrets.hide_in(reply)).map_err(|error| secrets.hide(&format!("{}: {error}", ask.provider())))
}

async fn put(ask: &Ask, now: Duration, clients: &Clients, secrets: &mut Secrets) -> Result<Reply, String> {
    match ask {
        Ask::Prometheus { address, query, range, http } => {
            prometheus::ask(&prometheus::Asked { address, query, range: *range, now, http }, clients, secrets).await
        }
        Ask::Web { method, url, body, json_path, http } => {
            let asked = web::Asked { method, url, body: body.as_ref(), json_path: json_path.as_ref(), http };
            web::ask(&asked, clients, secrets).await
        }
        Ask::Exec { command, env } => exec::run(command, env, secrets).await,
        Ask::Datadog { .. } => datadog::ask(ask, now, clients, secrets).await,
        Ask::NewRelic { address, api_key, account, query } => {
            newrelic::ask([address, api_key, account, query], clients, secrets).await
        }
        Ask::Graphite { address, query, http } => graphite::ask(address, query, http, clients, secrets).await,
        Ask::Influx { address, org, token, query, http } => {
            influxdb::ask([address, org, token, query], http, clients, secrets).await
        }
        Ask::CloudWatch { .. } => cloudwatch::ask(ask, now, clients, secrets).await,
    }
}

#[cfg(test)]
mod tests;
