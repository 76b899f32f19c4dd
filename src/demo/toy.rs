//! A toy upstream: a small HTTP service with a version, that can be slow and can fail, and counts what it was asked.
//! HTTP/1.1 and HTTP/2 by prior knowledge on one port. Runs on a thread of its own and knows nothing of the proxy.

use std::{
    convert::Infallible,
    fmt, io,
    net::{SocketAddr, TcpListener as StdListener},
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use tokio::{net::TcpListener, sync::Semaphore, sync::oneshot, time};

/// How long answers under way may take to end when a toy is drained.
const DRAIN: Duration = Duration::from_secs(5);
/// Open connections; more wait to be accepted.
const CONNECTIONS_MAX: usize = 1_024;

/// What a toy is like.
#[derive(Debug, Clone, PartialEq)]
pub struct ToySpec {
    /// Its version, sent as `x-version` and in the body.
    pub name: String,
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Which requests it fails, with 500.
    pub failing: Failing,
    /// How long it takes at least.
    pub latency: Duration,
    /// How much longer at most; evenly spread.
    pub jitter: Duration,
}

/// Which requests fail.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Failing {
    /// None.
    Never,
    /// Each n-th, over all connections.
    Every(NonZeroU32),
    /// Each with this probability, in `0.0..=1.0`.
    Share(f64),
}

/// Why a toy does not start.
#[derive(Debug, thiserror::Error)]
pub enum ToyError {
    /// The name cannot be sent in a header.
    #[error("`{0}` cannot be sent as a header's value: use letters, digits, '-', '_' and '.'")]
    Name(String),
    /// The address cannot be taken.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The operating system's words.
        cause: io::Error,
    },
    /// No thread or runtime.
    #[error("cannot start a thread: {0}")]
    Start(io::Error),
}

/// A running toy. Dropping it stops it.
#[derive(Debug)]
pub struct Toy {
    address: SocketAddr,
    state: Arc<State>,
    stop: Option<oneshot::Sender<End>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// How a toy ends; a sender that is gone closes everything at once.
#[derive(Debug)]
struct End;

impl ToySpec {
    /// A toy that answers at once and never fails.
    #[must_use]
    pub fn new(name: &str, listen: SocketAddr) -> Self {
        Self { name: name.to_owned(), listen, failing: Failing::Never, latency: Duration::ZERO, jitter: Duration::ZERO }
    }
}

impl Toy {
    /// Starts a toy; when this returns, connections are taken.
    pub fn start(spec: ToySpec) -> Result<Self, ToyError> {
        let name = HeaderValue::from_str(&spec.name).map_err(|_| ToyError::Name(spec.name.clone()))?;
        let refused = |cause| ToyError::Listen { address: spec.listen, cause };
        let listener = StdListener::bind(spec.listen).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ToyError::Start)?;
        let title = format!("toy {}", spec.name);
        let state = Arc::new(State { spec, name, requests: AtomicU64::new(0), failures: AtomicU64::new(0) });
        let (stop, stopped) = oneshot::channel();
        let serving = Arc::clone(&state);
        let serve = move || {
            runtime.block_on(async {
                let connections = GracefulShutdown::new();
                let end = tokio::select! {
                    () = accept(listener, serving, &connections) => return,
                    end = stopped => end,
                };
                if end.is_ok() {
                    // Those that do not end in time are cut.
                    let _late = time::timeout(DRAIN, connections.shutdown()).await;
                }
            });
        };
        let thread = thread::Builder::new().name(title).spawn(serve).map_err(ToyError::Start)?;
        Ok(Self { address, state, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requests so far, health checks apart.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.state.requests.load(Relaxed)
    }

    /// Takes no more connections, and lets answers under way end, for up to five seconds, as a good service does on SIGTERM.
    pub fn drain(mut self) {
        if let Some(stop) = self.stop.take() {
            // A thread that is gone has nothing under way.
            let _gone = stop.send(End);
        }
    }

    /// Those of them that were failed.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.state.failures.load(Relaxed)
    }
}

impl Drop for Toy {
    /// Closes the port and all connections, and returns when that is done.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing to say; a panic of it was printed.
            let _ = thread.join();
        }
    }
}

#[derive(Debug)]
struct State {
    spec: ToySpec,
    name: HeaderValue,
    requests: AtomicU64,
    failures: AtomicU64,
}

async fn accept(listener: StdListener, state: Arc<State>, connections: &GracefulShutdown) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(30));
    http.http2().timer(TokioTimer::new());
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, most likely: others must close first.
            time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Small answers would otherwise wait for the client's acknowledgement.
        let _ = stream.set_nodelay(true);
        let state = Arc::clone(&state);
        let service = service_fn(move |request| answer(Arc::clone(&state), request));
        let connection = connections.watch(http.serve_connection(TokioIo::new(stream), service).into_owned());
        tokio::spawn(async move {
            // A broken connection is the client's business.
            let _ = connection.await;
            drop(place);
        });
    }
}

async fn answer(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, mut body) = request.into_parts();
    // Read to the end and forget, so that the connection can be used again.
    while let Some(Ok(_)) = body.frame().await {}
    if head.uri.path() == "/healthz" {
        return Ok(state.text(StatusCode::OK, "ok"));
    }
    let fails = state.count();
    let wait = state.spec.latency + state.spec.jitter.mul_f64(fastrand::f64());
    if !wait.is_zero() {
        time::sleep(wait).await;
    }
    let status = if fails { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK };
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    Ok(state.text(status, format_args!("{} {path} {:?}", head.method, head.version)))
}

impl State {
    /// Counts a request and says whether it fails.
    fn count(&self) -> bool {
        let nth = self.requests.fetch_add(1, Relaxed) + 1;
        let fails = match self.spec.failing {
            Failing::Never => false,
            Failing::Every(n) => nth.is_multiple_of(u64::from(n.get())),
            Failing::Share(share) => fastrand::f64() < share,
        };
        self.failures.fetch_add(u64::from(fails), Relaxed);
        fails
    }

    fn text(&self, status: StatusCode, words: impl fmt::Display) -> Response<Full<Bytes>> {
        let mut answer = Response::new(Full::from(format!("{}: {words}\n", self.spec.name)));
        *answer.status_mut() = status;
        let headers = answer.headers_mut();
        headers.insert("x-version", self.name.clone());
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::{Client, Limits, Reach};

    fn spec(name: &str) -> ToySpec {
        ToySpec::new(name, SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    async fn get(toy: &Toy, client: &Client, path: &str) -> Response<Bytes> {
        let request = Request::post(format!("http://{}{path}", toy.address())).body(Bytes::from("hello")).unwrap();
        client.request(request).await.unwrap()
    }

    #[tokio::test]
    async fn it_says_its_name_and_fails_every_second_request() {
        let toy = Toy::start(ToySpec { failing: Failing::Every(NonZeroU32::new(2).unwrap()), ..spec("v2") }).unwrap();
        let client = Client::new(Limits::default(), Reach::anywhere());
        for status in [200, 500, 200, 500] {
            assert_eq!(get(&toy, &client, "/healthz").await.status(), 200);
            let answer = get(&toy, &client, "/a?b=c").await;
            assert_eq!(answer.status(), status);
            assert_eq!(answer.headers()["x-version"], "v2");
            assert_eq!(answer.body(), "v2: POST /a?b=c HTTP/1.1\n");
        }
        assert_eq!((toy.requests(), toy.failures()), (4, 2));
    }

    #[tokio::test]
    async fn it_fails_a_share() {
        let client = Client::new(Limits::default(), Reach::anywhere());
        for (share, failures) in [(0.0, 0), (1.0, 10)] {
            let toy = Toy::start(ToySpec { failing: Failing::Share(share), ..spec("v2") }).unwrap();
            for _ in 0..10 {
                get(&toy, &client, "/").await;
            }
            assert_eq!(toy.failures(), failures);
        }
    }

    #[tokio::test]
    async fn it_takes_its_time() {
        let (latency, jitter) = (Duration::from_millis(30), Duration::from_millis(5));
        let toy = Toy::start(ToySpec { latency, jitter, ..spec("slow") }).unwrap();
        let started = std::time::Instant::now();
        get(&toy, &Client::new(Limits::default(), Reach::anywhere()), "/").await;
        assert!(started.elapsed() >= latency);
    }

    #[tokio::test]
    async fn it_speaks_http2_by_prior_knowledge() {
        let toy = Toy::start(spec("v1")).unwrap();
        let stream = tokio::net::TcpStream::connect(toy.address()).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get(format!("http://{}/x", toy.address())).body(Full::<Bytes>::default()).unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.version(), http::Version::HTTP_2);
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "v1: GET /x HTTP/2.0\n");
    }

    #[tokio::test]
    async fn a_drained_toy_answers_what_is_under_way_and_takes_nothing_more() {
        let toy = Toy::start(ToySpec { latency: Duration::from_millis(200), ..spec("v1") }).unwrap();
        let url = format!("http://{}/", toy.address());
        let ask = tokio::spawn({
            let request = Request::get(url.clone()).body(Bytes::new()).unwrap();
            async move { Client::new(Limits::default(), Reach::anywhere()).request(request).await }
        });
        let asked = std::time::Instant::now();
        while toy.requests() == 0 {
            assert!(asked.elapsed() < Duration::from_secs(10), "the request never came");
            tokio::task::yield_now().await;
        }
        tokio::task::spawn_blocking(move || toy.drain()).await.unwrap();
        assert_eq!(ask.await.unwrap().unwrap().status(), 200);
        let late = Request::get(url).body(Bytes::new()).unwrap();
        assert!(Client::new(Limits::default(), Reach::anywhere()).request(late).await.is_err());
    }

    #[test]
    fn it_stops_when_dropped_and_says_why_it_cannot_start() {
        let toy = Toy::start(spec("v1")).unwrap();
        let taken = ToySpec { listen: toy.address(), ..spec("v2") };
        let error = Toy::start(taken.clone()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot listen on {}: ", toy.address())), "{error}");
        drop(toy);
        Toy::start(taken).unwrap();
        assert!(matches!(Toy::start(spec("a\nb")), Err(ToyError::Name(_))));
    }
}
