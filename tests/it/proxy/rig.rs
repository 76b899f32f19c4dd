//! A proxy with one service of two versions, upstreams that a test scripts, and clients that say what came back.

use std::{
    future::Future,
    net::SocketAddr,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serin::{
    engine::{
        Engine, Recovered,
        endpoint::{Endpoint, InUse, UpstreamHttp},
        failure::{FailurePlan, Retry},
        input::Input,
        names::{Generation, Role, ServiceName, VersionName},
        split::Split,
        table::{ServiceTable, Table, Timeouts, VersionTable},
        time::Timestamp,
        weight::Weight,
    },
    measure::{Hub, RefusedReason, slot::Ending},
    proxy::{Limits, ListenerSpec, Listening, Proxy},
    publish::{ListenerSettings, Publication, Settings},
    tls::Protocols,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Longest wait for what must happen.
pub const PATIENCE: Duration = Duration::from_mins(1);

pub type Body = BoxBody<Bytes, hyper::Error>;

/// Limits that no test reaches by accident.
pub fn limits() -> Limits {
    Limits {
        header_bytes: 64 * 1024,
        headers: 100,
        header_timeout: PATIENCE,
        body_timeout: PATIENCE,
        idle_timeout: PATIENCE,
        connections: 1_000,
        h2_streams: 100,
    }
}

/// A plain listener for both versions of HTTP.
pub fn listener() -> ListenerSettings {
    // The whole suite may be run over either path.
    let fast_path = std::env::var("SERIN_FAST_PATH").map_or(true, |path| path == "on");
    ListenerSettings {
        limits: limits(),
        protocols: Protocols::BOTH,
        proxy_protocol: false,
        tls: None,
        access_log: None,
        tracing: None,
        fast_path,
    }
}

/// A service whose stable version is `v1` and whose canary is `v2`.
pub fn service(stable: SocketAddr, canary: SocketAddr) -> ServiceTable {
    let version = |name: &str, role, at: SocketAddr| VersionTable {
        name: VersionName::new(name).unwrap(),
        role,
        weight: Weight::ZERO,
        endpoints: vec![Endpoint::tcp(at.ip().to_string(), at.port())],
        http: UpstreamHttp::H1,
        upstream: Arc::default(),
        in_use: InUse::All,
        filters: Arc::default(),
    };
    let mut service = ServiceTable {
        name: ServiceName::new("web").unwrap(),
        weight_generation: Generation(0),
        versions: vec![version("v1", Role::Stable, stable), version("v2", Role::Canary, canary)],
        stable: 0,
        canary: Some(1),
        split: Split::new(&[(0, Weight::FULL)]).unwrap(),
        force: None,
        header_routes: Vec::new(),
        mirror_routes: Vec::new(),
        cohorts: Vec::new(),
        sticky: None,
        draining: false,
        drain_timeout: PATIENCE,
        timeouts: Timeouts { request: PATIENCE, attempt: PATIENCE, idle: PATIENCE, upgraded: PATIENCE },
        retry: Retry::default(),
        failure: FailurePlan::default(),
    };
    weigh(&mut service, 0);
    service
}

/// What a file without a running rollout has the data plane obey. A wish in it is started, with the first step's weight.
pub fn table_of(file: &str) -> Table {
    let text = format!("listen: 127.0.0.1:1\n{file}");
    let config = serin::config::parse(&text, std::path::Path::new("serin.yaml"), &|_| None);
    let config = config.unwrap_or_else(|found| panic!("{found}"));
    let mut engine = Engine::new(Recovered::default());
    engine.apply(Input::Configure(config.plan()), Timestamp::from_millis(1_000), &mut Vec::new()).unwrap();
    Table::clone(&engine.table())
}

/// Gives the canary so many parts of a million.
pub fn weigh(service: &mut ServiceTable, ppm: u32) {
    let canary = Weight::from_ppm(ppm).unwrap();
    service.split = Split::new(&[(1, canary), (0, canary.rest())]).unwrap();
    service.versions[1].weight = canary;
    service.versions[0].weight = canary.rest();
}

/// What an abort publishes.
pub fn abort(service: &mut ServiceTable) {
    weigh(service, 0);
    service.canary = None;
    service.versions[1].role = Role::Other;
}

/// A proxy under test.
pub struct Rig {
    pub proxy: Proxy,
    pub hub: Arc<Hub>,
    publication: Publication,
    service: ServiceTable,
    generation: u64,
}

impl Rig {
    pub fn start(service: ServiceTable) -> Self {
        Self::with_limits(service, limits())
    }

    pub fn with_limits(service: ServiceTable, limits: Limits) -> Self {
        Self::with_settings(service, ListenerSettings { limits, ..listener() })
    }

    pub fn with_settings(service: ServiceTable, settings: ListenerSettings) -> Self {
        const WORKERS: usize = 2;
        let table = Table::new(Generation(1), vec![service.clone()]);
        let publication = Publication::new(Arc::new(table));
        publication.publish_settings(Settings { listeners: vec![settings], collector: None });
        let hub = Hub::new(WORKERS);
        let spec = ListenerSpec { name: "test".to_owned(), addr: ([127, 0, 0, 1], 0).into() };
        let listening = Listening::bind(spec).unwrap();
        let proxy = Proxy::start(vec![listening], WORKERS, publication.clone(), Arc::clone(&hub)).unwrap();
        Self { proxy, hub, publication, service, generation: 1 }
    }

    /// A proxy of a whole file, which says all but where it listens.
    pub fn of(file: &str) -> Self {
        let table = table_of(file);
        let first = table.services[0].clone();
        let mut rig = Self::start(first);
        rig.publish_file(file);
        rig
    }

    /// Publishes the table of a whole file.
    pub fn publish_file(&mut self, file: &str) {
        self.generation += 1;
        let table = Table { generation: Generation(self.generation), ..table_of(file) };
        assert!(self.publication.publish(Arc::new(table)));
    }

    /// A proxy that sends everything to one upstream, as `v1`.
    pub fn to(upstream: SocketAddr) -> Self {
        Self::start(service(upstream, upstream))
    }

    pub fn address(&self) -> SocketAddr {
        self.proxy.local_addrs()[0]
    }

    /// Puts other settings of the listener in force.
    pub fn set(&mut self, settings: ListenerSettings) {
        self.publication.publish_settings(Settings { listeners: vec![settings], collector: None });
    }

    /// Publishes a changed service.
    pub fn publish(&mut self, change: impl FnOnce(&mut ServiceTable)) {
        self.generation += 1;
        change(&mut self.service);
        self.service.weight_generation = Generation(self.generation);
        let table = Table::new(Generation(self.generation), vec![self.service.clone()]);
        assert!(self.publication.publish(Arc::new(table)));
    }

    /// Publishes a table without services.
    pub fn publish_nothing(&mut self) {
        self.generation += 1;
        let table = Table::new(Generation(self.generation), Vec::new());
        assert!(self.publication.publish(Arc::new(table)));
    }

    /// How often a version's attempts ended so.
    pub fn endings(&self, version: &str, ending: Ending) -> u64 {
        let of = self.hub.slots().into_iter().filter(|slot| slot.key().version.as_str() == version);
        of.map(|slot| slot.ending_total(ending as usize)).sum()
    }

    /// Waits until a version's attempts have ended so often, and checks that none ended otherwise.
    pub async fn ended(&self, version: &str, expected: &[(Ending, u64)]) {
        let all: u64 = expected.iter().map(|(_, times)| times).sum();
        let total = || Ending::ALL.into_iter().map(|ending| self.endings(version, ending)).sum::<u64>();
        eventually("all requests recorded", || total() >= all).await;
        for ending in Ending::ALL {
            let times = expected.iter().find(|(of, _)| *of == ending).map_or(0, |(_, times)| *times);
            assert_eq!(self.endings(version, ending), times, "{version} {}", ending.as_str());
        }
    }

    pub async fn refused(&self, reason: RefusedReason, times: u64) {
        eventually(reason.as_str(), || self.hub.refused_total(reason) >= times).await;
        assert_eq!(self.hub.refused_total(reason), times, "{}", reason.as_str());
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address()).await.unwrap()
    }

    /// Sends bytes over a new connection and reads until the proxy closes it.
    pub async fn exchange(&self, bytes: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes.as_bytes()).await.unwrap();
        rest(&mut stream).await
    }

    /// One GET over a new connection.
    pub async fn get(&self, fields: &str) -> String {
        self.exchange(&format!("GET / HTTP/1.1\r\nhost: t.example\r\n{fields}connection: close\r\n\r\n")).await
    }

    pub async fn h1(&self) -> http1::SendRequest<Body> {
        let (sender, connection) = http1::handshake(TokioIo::new(self.connect().await)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    pub async fn h2(&self) -> http2::SendRequest<Body> {
        let io = TokioIo::new(self.connect().await);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        sender
    }
}

/// Waits until it is so.
pub async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "waited {PATIENCE:?} in vain for: {what}");
        // why: the pause between two looks, not a wait for something to be done.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits for something that must come.
pub async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("nothing came in time")
}

/// Reads to the end; a reset is an end too.
pub async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    drop(soon(stream.read_to_end(&mut bytes)).await);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads through the given text.
pub async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end.as_bytes()) {
        match soon(stream.read_u8()).await {
            Ok(byte) => bytes.push(byte),
            Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&bytes)),
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// Reads a head.
pub async fn read_head(stream: &mut TcpStream) -> String {
    read_until(stream, "\r\n\r\n").await
}

/// The field's values in a head, in order; names as given.
pub fn values<'h>(head: &'h str, name: &str) -> Vec<&'h str> {
    let named = |line: &'h str| line.split_once(": ").filter(|(of, _)| of.eq_ignore_ascii_case(name));
    head.split("\r\n").take_while(|line| !line.is_empty()).filter_map(named).map(|(_, value)| value).collect()
}

pub fn status_of(answer: &str) -> u16 {
    answer.get(9..12).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("no status in {answer:?}"))
}

/// An address where nobody listens, and nobody will: it is taken for as long as the tests run, or another test's upstream
/// would be found there.
pub fn nobody() -> SocketAddr {
    static TAKEN: LazyLock<socket2::Socket> = LazyLock::new(|| {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        socket
    });
    TAKEN.local_addr().unwrap().as_socket().unwrap()
}

/// An upstream that a test scripts by the connection; the number of the connection is given, from 0.
pub async fn scripted<F: Future<Output = ()> + Send + 'static>(
    script: impl Fn(usize, TcpStream) -> F + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for nth in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            tokio::spawn(script(nth, stream));
        }
    });
    address
}

/// An upstream that answers the first request with these bytes and closes.
pub async fn answering(bytes: &'static str) -> SocketAddr {
    scripted(move |_, mut stream| async move {
        read_head(&mut stream).await;
        stream.write_all(bytes.as_bytes()).await.unwrap();
    })
    .await
}

/// An upstream by hyper, for both HTTP/1 and HTTP/2, that answers as the function says.
pub async fn serving<F: Future<Output = Response<Body>> + Send + 'static>(
    answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
) -> SocketAddr {
    scripted(move |_, stream| {
        let answer = answer.clone();
        async move {
            let service = service_fn(move |request| {
                let answered = answer(request);
                async move { Ok::<_, hyper::Error>(answered.await) }
            });
            let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            drop(server.serve_connection(TokioIo::new(stream), service).await);
        }
    })
    .await
}

/// An upstream that answers with its name and keeps the requests' `x-id`.
pub struct Named {
    pub address: SocketAddr,
    ids: Arc<Mutex<Vec<String>>>,
    requests: Arc<AtomicUsize>,
}

impl Named {
    pub async fn start(name: &'static str) -> Self {
        let ids = Arc::<Mutex<Vec<String>>>::default();
        let requests = Arc::<AtomicUsize>::default();
        let (seen, counted) = (Arc::clone(&ids), Arc::clone(&requests));
        let address = serving(move |request| {
            counted.fetch_add(1, SeqCst);
            if let Some(id) = request.headers().get("x-id") {
                seen.lock().unwrap().push(id.to_str().unwrap().to_owned());
            }
            async move { Response::new(full(name)) }
        })
        .await;
        Self { address, ids, requests }
    }

    pub fn requests(&self) -> usize {
        self.requests.load(SeqCst)
    }

    pub fn has_seen(&self, id: &str) -> bool {
        self.ids.lock().unwrap().iter().any(|seen| seen == id)
    }
}

pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed()
}

pub fn request(uri: &str) -> Request<Body> {
    Request::builder().uri(uri).header("host", "t.example").body(full("")).unwrap()
}

/// The body as text.
pub async fn text(response: Response<Incoming>) -> String {
    let bytes = soon(response.into_body().collect()).await.unwrap().to_bytes();
    String::from_utf8(bytes.into()).unwrap()
}
