//! Clients of both versions of HTTP, of every manner, and the judgement of what they got.

use std::{
    collections::BTreeMap,
    fmt, io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{Request, Response, body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};

use super::{
    plan::{Fate, Manner, Plan, body, breathe},
    upstream::{Seen, in_chunks},
};

/// Longest wait for any answer: more than the proxy's own timeouts together.
const PATIENCE: Duration = Duration::from_secs(90);
/// Streams at once on one HTTP/2 connection.
const STREAMS: usize = 60;
/// Requests after which a client takes another connection.
const PER_CONNECTION: u64 = 300;

/// A request that an upstream was closing its door on.
pub const SHUT_OUT: &str = "502 at the closing door";

/// The run: who sends what, when, and what came of it.
pub struct Run {
    pub seed: u64,
    pub target: SocketAddr,
    pub start: Instant,
    pub length: Duration,
    pub rate: u64,
    pub next: AtomicU64,
    pub seen: Arc<Seen>,
    pub ends: Mutex<BTreeMap<&'static str, u64>>,
}

/// What a client got for a request.
#[derive(Debug)]
enum Got {
    Answer(Answer),
    /// The head, and a part of the body.
    Cut(Answer),
    /// The connection ended without any of it; why.
    Nothing(#[expect(dead_code, reason = "for the message")] String),
}

#[derive(Default)]
struct Answer {
    status: u16,
    token: Option<String>,
    error: Option<String>,
    body: Vec<u8>,
    closes: bool,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, token, error, body, closes } = self;
        let start = String::from_utf8_lossy(&body[..body.len().min(40)]);
        write!(f, "{status} of {token:?}, error {error:?}, {} bytes {start:?}, closes {closes}", body.len())
    }
}

impl Run {
    /// The next request, at its time; none once the run is over.
    async fn next(&self) -> Option<Plan> {
        let number = self.next.fetch_add(1, SeqCst);
        let at = Duration::from_nanos(1_000_000_000 / self.rate) * u32::try_from(number).unwrap();
        if at >= self.length {
            return None;
        }
        // why: requests come at the rate that was asked for.
        sleep_until(self.start + at).await;
        Some(Plan::new(self.seed, number))
    }

    /// Whether all has been asked.
    pub fn is_over(&self) -> bool {
        self.start.elapsed() >= self.length
    }

    fn count(&self, end: &'static str) {
        *self.ends.lock().unwrap().entry(end).or_default() += 1;
    }

    fn fault(&self, plan: &Plan, over: &str, what: &str) {
        self.seen.fault(format!("{over} {}: {what}; {plan:?}", plan.token));
    }

    /// How many upstreams have closed their doors.
    fn closings(&self) -> u64 {
        self.seen.closings.load(SeqCst)
    }

    /// Whether that is what had to come of the request, which began after so many `closings`.
    fn judge(&self, plan: &Plan, over: &'static str, got: &Got, before: Option<&Plan>, closings: u64) {
        let whole = |answer: &Answer, status: u16| {
            let expected = if plan.method == "HEAD" { Vec::new() } else { body(&plan.token, plan.size) };
            answer.status == status && answer.token.as_ref() == Some(&plan.token) && answer.body == expected
        };
        let failed = |answer: &Answer, errors: &[&str]| {
            (answer.status == 502 || answer.status == 504)
                && answer.token.is_none()
                && answer.error.as_deref().is_some_and(|error| errors.contains(&error))
        };
        // The upstream had closed under a request that must not be sent twice.
        let was_stale = |answer: &Answer| !plan.may_be_repeated() && failed(answer, &["reset"]);
        // The upstream closed its door with the connection in it: what was sent over a new connection is not sent again.
        let was_shut_out = |answer: &Answer| self.closings() > closings && failed(answer, &["reset"]);
        let end =
            match (plan.fate, got) {
                (Fate::Truncated, Got::Cut(answer)) if answer.token.as_ref() == Some(&plan.token) => {
                    body(&plan.token, plan.size).starts_with(&answer.body).then_some("cut")
                }
                // hyper lost the head with the error.
                (Fate::Truncated, Got::Nothing(_)) => Some("cut to nothing"),
                (Fate::Truncated, Got::Answer(answer)) if plan.method != "HEAD" => {
                    (was_stale(answer)).then_some("stale POST")
                }
                (Fate::Whole | Fate::Slow | Fate::Informed | Fate::Truncated, Got::Answer(answer)) => {
                    if was_stale(answer) { Some("stale POST") } else { whole(answer, 200).then_some("200") }
                }
                (Fate::Failed, Got::Answer(answer)) => {
                    if was_stale(answer) {
                        Some("stale POST")
                    } else {
                        whole(answer, 500).then_some("500")
                    }
                }
                (Fate::Reset, Got::Answer(answer)) => failed(answer, &["reset"]).then_some("502 reset"),
                (Fate::Garbage, Got::Answer(answer)) => {
                    failed(answer, &["malformed", "reset"]).then_some("502 malformed")
                }
                (Fate::Stalled, Got::Answer(answer)) => failed(answer, &["timed_out"]).then_some("504"),
                _ => None,
            };
        match (end, got) {
            (Some(end), _) => self.count(end),
            (None, Got::Answer(answer)) if was_shut_out(answer) => self.count(SHUT_OUT),
            (None, _) => self.fault(plan, over, &format!("{got:?}, behind {before:?}")),
        }
    }
}

/// Requests over HTTP/1.1 connections, one after the other or several at once, until the run is over.
pub async fn http1(run: Arc<Run>, which: u64) {
    let mut random = fastrand::Rng::with_seed(run.seed ^ which);
    let mut connection: Option<BufReader<TcpStream>> = None;
    let mut before = None;
    let mut used = 0;
    while let Some(first) = run.next().await {
        let mut plans = vec![first];
        if random.u8(..12) == 0 {
            for _ in 0..random.u8(1..5) {
                plans.extend(run.next().await);
            }
        }
        if used > PER_CONNECTION {
            connection = None;
        }
        if connection.is_none() {
            before = None;
        }
        let mut stream = match connection.take() {
            Some(stream) => stream,
            None => match TcpStream::connect(run.target).await {
                Ok(stream) => {
                    used = 0;
                    stream.set_nodelay(true).unwrap();
                    BufReader::new(stream)
                }
                Err(error) => {
                    run.fault(&plans[0], "h1", &format!("cannot connect: {error}"));
                    continue;
                }
            },
        };
        used += plans.len() as u64;
        if exchange(&run, &mut stream, &plans, &mut random, before.as_ref()).await {
            connection = Some(stream);
        }
        before = plans.pop();
    }
}

/// Sends requests together, and takes their answers in order. Whether the connection may be used again.
async fn exchange(
    run: &Run,
    stream: &mut BufReader<TcpStream>,
    plans: &[Plan],
    random: &mut fastrand::Rng,
    before: Option<&Plan>,
) -> bool {
    let manner = plans[0].manner;
    let closings = run.closings();
    let mut bytes: Vec<u8> = plans.iter().flat_map(request).collect();
    if manner == Manner::LeavesEarly {
        bytes.truncate(random.usize(..bytes.len()));
    }
    let (reader, mut writer) = stream.get_mut().split();
    let mut pauses = random.fork();
    let sending = async {
        if manner == Manner::Trickles {
            for piece in bytes.chunks((bytes.len() / 12).max(1)) {
                writer.write_all(piece).await?;
                breathe(&mut pauses).await;
            }
            Ok(())
        } else {
            writer.write_all(&bytes).await
        }
    };
    if plans.iter().any(Plan::leaves) {
        let _gone = sending.await;
        if plans.iter().any(|plan| plan.manner == Manner::LeavesLate) {
            let mut some = vec![0; random.usize(1..2_000)];
            let wait = Duration::from_millis(random.u64(..200));
            let mut reader = reader;
            let _either = timeout(wait, reader.read(&mut some)).await;
        }
        for _ in plans {
            run.count("left");
        }
        return false;
    }
    let mut reader = BufReader::new(reader);
    let receiving = receive(run, &mut reader, plans, random.fork(), before, closings);
    // An answer may come before the request is sent.
    let (sent, may_go_on) = tokio::join!(sending, receiving);
    sent.is_ok() && may_go_on
}

async fn receive<R: tokio::io::AsyncRead + Unpin>(
    run: &Run,
    reader: &mut BufReader<R>,
    plans: &[Plan],
    mut random: fastrand::Rng,
    before: Option<&Plan>,
    closings: u64,
) -> bool {
    for (nth, plan) in plans.iter().enumerate() {
        let slowly = (plan.manner == Manner::ReadsSlowly).then_some(&mut random);
        let got = match timeout(PATIENCE, read_answer(reader, plan.method == "HEAD", slowly)).await {
            Ok(got) => got,
            Err(_) => Got::Nothing("in time".to_owned()),
        };
        run.judge(plan, "h1", &got, plans[..nth].last().or(before), closings);
        let closes = match &got {
            Got::Answer(answer) => answer.closes,
            Got::Cut(_) | Got::Nothing(_) => true,
        };
        if closes {
            // The proxy said so, or could not do otherwise: what was sent behind it is not answered.
            for _ in &plans[nth + 1..] {
                run.count("behind an end");
            }
            return false;
        }
    }
    // Nothing may come that was not asked for.
    if let Some(extra) = reader.buffer().first() {
        run.fault(plans.last().unwrap(), "h1", &format!("more than the answer, from byte {extra}"));
    }
    true
}

fn request(plan: &Plan) -> Vec<u8> {
    let Plan { token, method, upload, .. } = plan;
    let told = plan.told();
    let mut head = format!(
        "{method} /{token} HTTP/1.1\r\nhost: t.example\r\nx-token: {token}\r\nx-plan: {told}\r\nx-upload: {upload}\r\n"
    );
    if plan.odd {
        head.push_str("te: trailers\r\nconnection: te\r\n");
    }
    let mut content = body(token, *upload);
    if matches!(*method, "POST" | "PUT") {
        if plan.chunked {
            head.push_str("transfer-encoding: chunked\r\n");
            content = in_chunks(&content, true);
        } else {
            head.extend(["content-length: ", &upload.to_string(), "\r\n"]);
        }
    }
    head.push_str("\r\n");
    [head.into_bytes(), content].concat()
}

async fn read_answer<R: tokio::io::AsyncRead + Unpin>(
    reader: &mut BufReader<R>,
    by_head: bool,
    slowly: Option<&mut fastrand::Rng>,
) -> Got {
    let mut answer = Answer::default();
    let framed = loop {
        match read_head(reader, &mut answer).await {
            Ok(_) if (100..200).contains(&answer.status) => answer = Answer::default(),
            Ok(framed) => break framed,
            Err(error) => return Got::Nothing(error.to_string()),
        }
    };
    if by_head {
        return Got::Answer(answer);
    }
    match read_body(reader, framed, slowly, &mut answer.body).await {
        Ok(()) => Got::Answer(answer),
        Err(_) => Got::Cut(answer),
    }
}

#[derive(Debug, Clone, Copy)]
enum Framed {
    Length(usize),
    Chunked,
}

async fn read_head<R: tokio::io::AsyncRead + Unpin>(
    reader: &mut BufReader<R>,
    answer: &mut Answer,
) -> io::Result<Framed> {
    let mut framed = None;
    let status = line(reader).await?;
    answer.status = status.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| bad(&status))?;
    if !status.starts_with("HTTP/1.1 ") {
        return Err(bad(&status));
    }
    loop {
        let field = line(reader).await?;
        let Some((name, value)) = field.split_once(": ") else {
            if field.is_empty() {
                break;
            }
            return Err(bad(&field));
        };
        match name {
            "x-token" => answer.token = Some(value.to_owned()),
            "serin-error" => answer.error = Some(value.to_owned()),
            "connection" => answer.closes |= value == "close",
            "content-length" if framed.is_none() => {
                framed = Some(Framed::Length(value.parse().map_err(|_| bad(value))?));
            }
            "transfer-encoding" if framed.is_none() => framed = Some(Framed::Chunked),
            "content-length" | "transfer-encoding" => return Err(bad("framed twice")),
            _ => {}
        }
    }
    Ok(framed.unwrap_or(Framed::Length(0)))
}

async fn read_body<R: tokio::io::AsyncRead + Unpin>(
    reader: &mut BufReader<R>,
    framed: Framed,
    mut slowly: Option<&mut fastrand::Rng>,
    body: &mut Vec<u8>,
) -> io::Result<()> {
    let mut left = match framed {
        Framed::Length(length) => length,
        Framed::Chunked => 0,
    };
    loop {
        while left > 0 {
            let some = reader.fill_buf().await?;
            if some.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let taken = some.len().min(left);
            body.extend_from_slice(&some[..taken]);
            reader.consume(taken);
            left -= taken;
            if let Some(random) = slowly.as_deref_mut() {
                breathe(random).await;
            }
            if left == 0 && matches!(framed, Framed::Chunked) {
                line(reader).await?;
            }
        }
        if matches!(framed, Framed::Length(_)) {
            return Ok(());
        }
        let size = line(reader).await?;
        left = usize::from_str_radix(&size, 16).map_err(|_| bad(&size))?;
        if left == 0 {
            line(reader).await?;
            return Ok(());
        }
    }
}

async fn line<R: tokio::io::AsyncRead + Unpin>(reader: &mut BufReader<R>) -> io::Result<String> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line).await?;
    let line = String::from_utf8_lossy(&line).into_owned();
    line.strip_suffix("\r\n").map(ToOwned::to_owned).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn bad(what: &str) -> io::Error {
    io::Error::other(format!("not HTTP: {what:?}"))
}

type Sender = http2::SendRequest<Upload>;

/// Requests over HTTP/2 connections, many at once, until the run is over.
pub async fn http2(run: Arc<Run>, which: u64) {
    let mut random = fastrand::Rng::with_seed(run.seed ^ which);
    let room = Arc::new(Semaphore::new(STREAMS));
    let mut under_way = JoinSet::new();
    let mut connection: Option<Sender> = None;
    let mut used = 0;
    while let Some(plan) = run.next().await {
        if used > PER_CONNECTION || connection.as_ref().is_some_and(Sender::is_closed) {
            if used <= PER_CONNECTION {
                run.fault(&plan, "h2", "the proxy ended the connection");
            }
            connection = None;
        }
        if connection.is_none() {
            let opened = async {
                let io = TokioIo::new(TcpStream::connect(run.target).await?);
                http2::handshake(TokioExecutor::new(), io).await.map_err(io::Error::other)
            };
            match opened.await {
                Ok((sender, driven)) => {
                    tokio::spawn(driven);
                    connection = Some(sender);
                    used = 0;
                }
                Err(error) => {
                    run.fault(&plan, "h2", &format!("cannot connect: {error}"));
                    continue;
                }
            }
        }
        used += 1;
        let permit = Arc::clone(&room).acquire_owned().await.unwrap();
        let (run, sender, random) = (Arc::clone(&run), connection.clone().unwrap(), random.fork());
        under_way.spawn(async move {
            stream(&run, sender, plan, random).await;
            drop(permit);
        });
        while under_way.try_join_next().is_some() {}
    }
    under_way.join_all().await;
}

async fn stream(run: &Run, mut sender: Sender, plan: Plan, mut random: fastrand::Rng) {
    let head = Request::builder()
        .method(plan.method)
        .uri(format!("http://t.example/{}", plan.token))
        .header("x-token", &plan.token)
        .header("x-plan", plan.told())
        .header("x-upload", plan.upload);
    let upload = Upload::of(&plan, &mut random);
    let closings = run.closings();
    let answered = sender.send_request(head.body(upload).unwrap());
    if plan.leaves() {
        let wait = Duration::from_millis(random.u64(..50));
        // Dropped wherever it is: before its answer, or within it.
        let _gone = timeout(wait, async { answered.await.ok()?.into_body().collect().await.ok() }).await;
        return run.count("left");
    }
    let got = match timeout(PATIENCE, answered).await {
        Ok(Ok(response)) => take(response, (plan.manner == Manner::ReadsSlowly).then_some(random)).await,
        Ok(Err(error)) => Got::Nothing(format!("{error:?}")),
        Err(_) => Got::Nothing("in time".to_owned()),
    };
    run.judge(&plan, "h2", &got, None, closings);
}

async fn take(response: Response<Incoming>, mut slowly: Option<fastrand::Rng>) -> Got {
    let field = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let mut answer = Answer {
        status: response.status().as_u16(),
        token: field("x-token"),
        error: field("serin-error"),
        ..Answer::default()
    };
    let mut body = response.into_body();
    loop {
        match timeout(PATIENCE, body.frame()).await {
            Ok(None) => return Got::Answer(answer),
            Ok(Some(Ok(frame))) => answer.body.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new())),
            Ok(Some(Err(_))) | Err(_) => return Got::Cut(answer),
        }
        if let Some(random) = &mut slowly {
            breathe(random).await;
        }
    }
}

/// A request's body, whole or in pieces with pauses; cut short by a client that leaves early.
struct Upload {
    pieces: std::vec::IntoIter<Bytes>,
    pause: Option<Pin<Box<tokio::time::Sleep>>>,
    trickles: bool,
    breaks: bool,
}

impl Upload {
    fn of(plan: &Plan, random: &mut fastrand::Rng) -> Self {
        let whole = Bytes::from(body(&plan.token, plan.upload));
        let trickles = plan.manner == Manner::Trickles;
        let breaks = plan.manner == Manner::LeavesEarly && random.bool();
        let piece = if trickles { (whole.len() / 10).max(1) } else { 16_000 };
        let pieces: Vec<_> = whole.chunks(piece).map(|piece| whole.slice_ref(piece)).collect();
        Self { pieces: pieces.into_iter(), pause: None, trickles, breaks }
    }
}

impl http_body::Body for Upload {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<http_body::Frame<Bytes>>>> {
        if let Some(pause) = &mut self.pause {
            std::task::ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        if self.trickles {
            // why: the slowness is what is tried.
            self.pause = Some(Box::pin(tokio::time::sleep(Duration::from_millis(1))));
        }
        match self.pieces.next() {
            Some(piece) => Poll::Ready(Some(Ok(http_body::Frame::data(piece)))),
            None if self.breaks => Poll::Ready(Some(Err(io::Error::other("broken on purpose")))),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.len() == 0 && !self.breaks
    }
}
