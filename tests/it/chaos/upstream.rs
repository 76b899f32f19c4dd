//! Upstreams that do with each request what its head tells them, and check what reached them.

use std::{
    collections::HashSet,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use super::plan::{After, Fate, Frame, Told, body, breathe};

/// What all upstreams of a run have seen.
#[derive(Debug, Default)]
pub struct Seen {
    pub requests: AtomicU64,
    /// What may be carried out once only, and was.
    posts: Mutex<HashSet<String>>,
    /// Upstreams that have closed their door, or are about to.
    pub closings: AtomicU64,
    pub faults: Mutex<Vec<String>>,
}

impl Seen {
    pub fn fault(&self, what: String) {
        self.faults.lock().unwrap().push(what);
    }
}

/// One of them.
pub struct Upstream {
    pub address: SocketAddr,
    accepted: Arc<AtomicU64>,
    stop: watch::Sender<bool>,
}

impl Upstream {
    pub async fn start(name: &'static str, seen: &Arc<Seen>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let accepted = Arc::new(AtomicU64::new(0));
        let (count, seen) = (Arc::clone(&accepted), Arc::clone(seen));
        tokio::spawn(async move {
            let mut stopping = stopped.clone();
            let serve = |stream| {
                let nth = count.fetch_add(1, SeqCst);
                let (seen, stopped) = (Arc::clone(&seen), stopped.clone());
                tokio::spawn(async move {
                    let random = fastrand::Rng::with_seed(nth);
                    let mut connection = Connection { name, stream: BufReader::new(stream), seen, stopped, random };
                    // How a connection ends is the clients' to judge.
                    drop(connection.serve().await);
                });
            };
            loop {
                tokio::select! {
                    accepted = listener.accept() => serve(accepted.unwrap().0),
                    _ = stopping.wait_for(|stop| *stop) => break,
                }
            }
            // Who is connected by now is served: a reset of those would be a fate that nobody drew. The kernel is asked,
            // since the runtime knows only of those who came before it last looked. Who comes between is reset, and counted.
            let listener = listener.into_std().unwrap();
            let closings = &seen.closings;
            closings.fetch_add(1, SeqCst);
            let waiting: Vec<_> = std::iter::from_fn(|| listener.accept().ok()).collect();
            drop(listener);
            closings.fetch_add(1, SeqCst);
            for (stream, _) in waiting {
                stream.set_nonblocking(true).unwrap();
                serve(TcpStream::from_std(stream).unwrap());
            }
        });
        Self { address, accepted, stop }
    }

    pub fn has_been_used(&self) -> bool {
        self.accepted.load(SeqCst) > 0
    }

    /// Accepts no more and closes what is idle; requests under way are answered.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

struct Connection {
    name: &'static str,
    stream: BufReader<TcpStream>,
    seen: Arc<Seen>,
    stopped: watch::Receiver<bool>,
    random: fastrand::Rng,
}

struct Request {
    token: String,
    told: Told,
    by_head: bool,
}

impl Connection {
    async fn serve(&mut self) -> io::Result<()> {
        self.stream.get_ref().set_nodelay(true)?;
        for nth in 0.. {
            let idle = self.stream.fill_buf();
            let bytes = tokio::select! {
                biased;
                bytes = idle => bytes?.len(),
                _ = self.stopped.wait_for(|stop| *stop), if nth > 0 => 0,
            };
            if bytes == 0 {
                return Ok(());
            }
            let Some(request) = self.request().await? else { return Ok(()) };
            if !self.answer(&request).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// A request with its body, which must be the one that belongs to its token.
    async fn request(&mut self) -> io::Result<Option<Request>> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head).await? == 0 {
                return Ok(None);
            }
        }
        let fields = |name: &str| -> Vec<&str> {
            let named = |line: &str| line.split_once(':').is_some_and(|(of, _)| of.eq_ignore_ascii_case(name));
            let lines = head.split("\r\n").skip(1).filter(|line| named(line));
            lines.filter_map(|line| Some(line.split_once(':')?.1.trim())).collect()
        };
        let method = head.split(' ').next().unwrap_or_default();
        let (tokens, told) = (fields("x-token"), fields("x-plan"));
        let ([token], [told]) = (&tokens[..], &told[..]) else {
            self.seen.fault(format!("a head with {} tokens reached {}: {head:?}", tokens.len(), self.name));
            return Ok(None);
        };
        let Some(told) = Told::parse(told) else {
            self.seen.fault(format!("a head was changed on its way: {head:?}"));
            return Ok(None);
        };
        let expected: usize = fields("x-upload").first().and_then(|length| length.parse().ok()).unwrap_or(0);
        let length = fields("content-length").first().and_then(|length| length.parse::<usize>().ok());
        let chunked = !fields("transfer-encoding").is_empty();
        let request = Request { token: (*token).to_owned(), told, by_head: method == "HEAD" };
        let is_post = method == "POST";
        if chunked && length.is_some() {
            self.seen.fault(format!("{} came with two lengths", request.token));
        }
        let upload = match (chunked, length) {
            (true, _) => self.chunks().await?,
            (false, Some(length)) => {
                let mut upload = vec![0; length];
                self.stream.read_exact(&mut upload).await?;
                upload
            }
            (false, None) => Vec::new(),
        };
        if upload != body(&request.token, expected) {
            self.seen.fault(format!("the body of {} is not its own: {} bytes", request.token, upload.len()));
        }
        if is_post && !self.seen.posts.lock().unwrap().insert(request.token.clone()) {
            self.seen.fault(format!("{} is a POST that was sent twice", request.token));
        }
        self.seen.requests.fetch_add(1, SeqCst);
        Ok(Some(request))
    }

    async fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).await?;
            let size = usize::from_str_radix(line.trim_end(), 16).map_err(io::Error::other)?;
            let start = all.len();
            all.resize(start + size, 0);
            self.stream.read_exact(&mut all[start..]).await?;
            self.stream.read_line(&mut line).await?;
            if size == 0 {
                return Ok(all);
            }
        }
    }

    /// Does what it was told. False when the connection ends.
    async fn answer(&mut self, request: &Request) -> io::Result<bool> {
        let Told { fate, frame, after, size } = request.told;
        match fate {
            Fate::Stalled => {
                // Until the proxy gives up.
                let _nothing = self.stream.read(&mut [0; 1]).await;
                return Ok(false);
            }
            Fate::Reset => {
                self.stream.get_ref().set_zero_linger()?;
                return Ok(false);
            }
            Fate::Garbage => {
                let garbage: Vec<u8> = (0..size.min(500)).map(|_| self.random.u8(..)).collect();
                self.write(&[b"\x00".as_slice(), &garbage].concat()).await?;
                return Ok(false);
            }
            Fate::Informed => self.write(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n").await?,
            Fate::Whole | Fate::Slow | Fate::Failed | Fate::Truncated => {}
        }
        let status = if fate == Fate::Failed { "500 Oops" } else { "200 OK" };
        let (token, name) = (&request.token, self.name);
        let mut head = format!("HTTP/1.1 {status}\r\nx-token: {token}\r\nx-version: {name}\r\n");
        match frame {
            Frame::Length => head.extend(["content-length: ", &size.to_string(), "\r\n"]),
            Frame::Chunked => head.push_str("transfer-encoding: chunked\r\n"),
            Frame::UntilClose => {}
        }
        let closes = after == After::Close || frame == Frame::UntilClose || *self.stopped.borrow();
        if closes {
            head.push_str("connection: close\r\n");
        }
        head.push_str("\r\n");
        let mut whole = if request.by_head { Vec::new() } else { body(token, size) };
        if fate == Fate::Truncated {
            whole.truncate(size / 2);
        }
        if frame == Frame::Chunked && !request.by_head {
            whole = in_chunks(&whole, fate != Fate::Truncated);
        }
        let mut bytes = [head.as_bytes(), &whole].concat();
        if after == After::Poison && !closes && fate == Fate::Whole {
            // With the answer, so that the proxy has it before another request is on this connection.
            let extra = b"HTTP/1.1 200 OK\r\nx-token: poison\r\ncontent-length: 6\r\n\r\npoison";
            if bytes.len() + extra.len() < 4_000 {
                bytes.extend_from_slice(extra);
            }
        }
        if fate == Fate::Slow {
            self.write_slowly(&bytes).await?;
        } else {
            self.write(&bytes).await?;
        }
        if fate == Fate::Truncated {
            return Ok(false);
        }
        if let After::Vanish(millis) = after {
            // why: so that the end comes while the connection is idle, or as it is used again.
            tokio::time::sleep(Duration::from_millis(millis)).await;
            return Ok(false);
        }
        Ok(!closes)
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes).await
    }

    async fn write_slowly(&mut self, bytes: &[u8]) -> io::Result<()> {
        let piece = (bytes.len() / 8).max(1);
        for piece in bytes.chunks(piece) {
            self.write(piece).await?;
            breathe(&mut self.random).await;
        }
        Ok(())
    }
}

/// In chunks of odd sizes, with or without the last one.
pub fn in_chunks(bytes: &[u8], ends: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 64);
    for chunk in bytes.chunks(7_001) {
        out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
    }
    if ends {
        out.extend_from_slice(b"0\r\n\r\n");
    }
    out
}
