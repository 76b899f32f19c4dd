//! A body as lines, while it comes. Holds one line at most.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::{Asked, Error, root_cause};

/// Lines of an answer that may go on for long.
#[derive(Debug)]
pub struct Lines {
    body: Incoming,
    asked: Asked,
    /// What is not handed out yet.
    pending: BytesMut,
    /// So much of it is known to hold no line end.
    searched: usize,
    ended: bool,
}

impl Lines {
    pub(super) fn new(body: Incoming, asked: Asked) -> Self {
        Self { body, asked, pending: BytesMut::new(), searched: 0, ended: false }
    }

    /// The next line without its `\n` or `\r\n`; none at the end. A last line may lack its end; bytes that are not
    /// UTF-8 are replaced. Waits without limit; a dropped wait loses nothing.
    pub async fn next(&mut self) -> Result<Option<String>, Error> {
        loop {
            if let Some(line) = self.take_line()? {
                return Ok(Some(line));
            }
            if self.ended {
                self.searched = 0;
                let rest = self.pending.split().freeze();
                return Ok((!rest.is_empty()).then(|| text(&rest)));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.pending.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(self.asked.broken(root_cause(&error))),
                None => self.ended = true,
            }
        }
    }

    fn take_line(&mut self) -> Result<Option<String>, Error> {
        let found = self.pending[self.searched..].iter().position(|byte| *byte == b'\n');
        let length = found.map_or(self.pending.len(), |at| self.searched + at);
        if length > self.asked.limits.body_bytes {
            return Err(self.asked.too_large());
        }
        if found.is_none() {
            self.searched = length;
            return Ok(None);
        }
        let line = self.pending.split_to(length + 1).freeze();
        self.searched = 0;
        Ok(Some(text(&line.slice(..length))))
    }
}

fn text(line: &Bytes) -> String {
    String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned()
}
