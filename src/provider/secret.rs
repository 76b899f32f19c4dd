//! Texts with their secrets put in, and the same secrets taken out of whatever comes back.

use std::{fs::File, io::Read};

use crate::engine::analysis::{
    answer::{Answer, Reply},
    ask::{Part, SecretSource, Text},
};

/// Largest secret, in bytes.
const SECRET_BYTES_MAX: u64 = 64 * 1024;
/// Shorter ones are not looked for in answers: they would be found everywhere.
const HIDDEN_BYTES_MIN: usize = 4;
const HIDDEN: &str = "<secret>";

/// The secrets that were put into one question.
#[derive(Default)]
pub(super) struct Secrets {
    used: Vec<String>,
}

impl Secrets {
    /// The whole text.
    pub(super) fn text(&mut self, text: &Text) -> Result<String, String> {
        let mut whole = String::new();
        for part in &text.0 {
            match part {
                Part::Plain(text) => whole.push_str(text),
                Part::Secret(source) => {
                    let secret = read(source)?;
                    whole.push_str(&secret);
                    self.used.push(secret);
                }
                Part::Arg(name) => return Err(format!("the argument `{name}` has no value")),
                Part::BuiltIn(name) => return Err(format!("`{}` is not known here", name.as_str())),
            }
        }
        Ok(whole)
    }

    /// A secret that is put in otherwise.
    pub(super) fn keep(&mut self, secret: String) {
        self.used.push(secret);
    }

    /// As [`text`](Self::text), of texts that may be absent.
    pub(super) fn optional(&mut self, text: Option<&Text>) -> Result<Option<String>, String> {
        text.map(|text| self.text(text)).transpose()
    }

    /// A text without any secret that was put in.
    pub(super) fn hide(&self, text: &str) -> String {
        let hidden = self.used.iter().filter(|secret| secret.len() >= HIDDEN_BYTES_MIN);
        hidden.fold(text.to_owned(), |text, secret| text.replace(secret, HIDDEN))
    }

    /// A reply without any secret that was put in.
    pub(super) fn hide_in(&self, reply: Reply) -> Reply {
        match reply {
            Reply::Value(answer) if self.used.is_empty() => Reply::Value(answer),
            Reply::Value(answer) => Reply::Value(self.hide_in_answer(answer)),
            Reply::Failed(said) => Reply::Failed(self.hide(&said)),
        }
    }

    fn hide_in_answer(&self, answer: Answer) -> Answer {
        match answer {
            Answer::Text(text) => Answer::Text(self.hide(&text)),
            Answer::List(items) => Answer::List(items.into_iter().map(|item| self.hide_in_answer(item)).collect()),
            Answer::Map(fields) => Answer::Map(
                fields.into_iter().map(|(name, value)| (self.hide(&name), self.hide_in_answer(value))).collect(),
            ),
            other => other,
        }
    }
}

/// Read anew for each question, so that a rotated secret is used at once.
fn read(source: &SecretSource) -> Result<String, String> {
    match source {
        SecretSource::Env(name) => {
            std::env::var(name).map_err(|_| format!("the environment has no `{name}`, which an argument comes from"))
        }
        SecretSource::File(path) => {
            let unreadable = |error| format!("the secret in {path} cannot be read: {error}");
            let mut text = String::new();
            let file = File::open(path).map_err(unreadable)?;
            file.take(SECRET_BYTES_MAX).read_to_string(&mut text).map_err(unreadable)?;
            Ok(text.strip_suffix('\n').map_or(&*text, |text| text.strip_suffix('\r').unwrap_or(text)).to_owned())
        }
    }
}
