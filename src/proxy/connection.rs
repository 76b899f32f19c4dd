//! One client's connection: once it is open, hyper as the server of HTTP/1 or HTTP/2, and the deadlines
//! that hyper leaves open: first byte, head, idle, and a client that does not take its answer.

use std::{
    cell::{Cell, OnceCell, RefCell},
    convert::Infallible,
    future::{Future, poll_fn},
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use http::{Method, Request, Response, StatusCode, Version};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::{
    access::{Access, Note},
    body::{self, ResponseBody},
    client_io::{Activity, ClientIo},
    deadline::Coarse,
    error::{Refusal, chain},
    fast,
    forward::forward,
    linger::linger,
    listener::{Accepted, Admission},
    opening,
    origin::Origin,
    worker::{LocalExec, Worker},
};
use crate::{
    engine::address::Address,
    measure::RefusedReason,
    publish::{Limits, ListenerSettings},
};

/// How long a connection without a request is let be when the proxy stops: a request may be on its way already.
const LAST_CHANCE: Duration = Duration::from_millis(500);
/// How long a client that has ended its side of the connection gets nothing before it is taken to be gone. It may still
/// read, as `nc` and old scripts do; whether it does cannot be told.
pub(super) const HALF_CLOSED: Duration = Duration::from_millis(500);
/// Largest `headers` limit for which hyper parses heads on the stack.
const HEADERS_ON_STACK: usize = 100;

/// A connection, as its requests and the worker's sweep see it.
#[derive(Debug)]
pub(super) struct Conn {
    worker: Rc<Worker>,
    number: u64,
    peer: SocketAddr,
    /// Known once the connection is open.
    origin: OnceCell<Origin>,
    settings: ListenerSettings,
    access: Option<Access>,
    /// Of the request that begins next.
    note: RefCell<Option<Rc<Note>>>,
    activity: Arc<Activity>,
    stage: Cell<Stage>,
    /// How long a tunnel may be silent both ways.
    tunnel_idle: Cell<Duration>,
    /// When the silence that is waited for now is too long.
    quiet_until: Cell<Coarse>,
    /// When a client that has ended its side is taken to be gone.
    gone_at: Cell<Option<Coarse>>,
    streams: Cell<usize>,
    waiting_for_upstream: Cell<usize>,
    order: Cell<Order>,
    waker: RefCell<Option<Waker>>,
    _admission: Admission,
}

/// Who has come in, and under which settings.
struct Client {
    peer: SocketAddr,
    settings: ListenerSettings,
    access: Option<Access>,
    admission: Admission,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Within a TLS handshake.
    Handshake,
    /// Nothing whole has come yet.
    Opening,
    /// HTTP/1, between two requests.
    Idle,
    /// HTTP/1, within a head.
    Head,
    /// HTTP/2.
    Http2,
    /// Bytes of another protocol.
    Tunnel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Serve,
    Drain,
    End,
}

/// Serves a connection until it ends.
pub(super) async fn serve(worker: Rc<Worker>, accepted: Accepted) {
    worker.connection_begins();
    let Accepted { stream, peer, settings, access, admission } = accepted;
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    if stream.set_nodelay(true).is_err() {
        return; // It is gone already.
    }
    let conn = Conn::new(&worker, Client { peer, settings, access, admission });
    let opened = {
        let opening = pin!(opening::open(&conn, stream));
        conn.unless_ended(opening).await
    };
    let Some(Some(mut opened)) = opened else { return };
    if !opened.is_http2 && fast::understands_listener(conn.settings()) {
        let unread = std::mem::take(&mut opened.unread);
        let served = {
            let serving = pin!(fast::serve(&conn, &mut opened.transport, unread));
            conn.unless_ended(pin!(unless_it_panics(serving))).await
        };
        match served {
            Some(Some(fast::End::Left(unread))) => opened.unread = unread,
            Some(Some(fast::End::Closed)) => return Box::pin(linger(&conn, opened.transport)).await,
            Some(None) => return conn.panicked(),
            None | Some(Some(fast::End::Gone)) => return,
        }
    }
    let is_http2 = opened.is_http2;
    let io = TokioIo::new(ClientIo::new(opened.transport, opened.unread, Arc::clone(&conn.activity)));
    // In boxes: the fast path's connections are many, and need not be as large.
    let ended = if is_http2 {
        unless_it_panics(Box::pin(serve_http2(&conn, io)).as_mut()).await
    } else {
        unless_it_panics(Box::pin(serve_http1(&conn, io)).as_mut()).await
    };
    let Some(ended) = ended else { return conn.panicked() };
    let Some(ended) = ended else { return };
    if let Err(error) = ended {
        conn.count_client_error(&error);
    }
    conn.stage.set(Stage::Idle);
    // None of a connection that has switched to another protocol.
    if let Some(transport) = conn.activity.take_connection() {
        Box::pin(linger(&conn, transport)).await;
    }
}

async fn serve_http1(conn: &Rc<Conn>, io: TokioIo<ClientIo>) -> Option<hyper::Result<()>> {
    let mut server = http1::Builder::new();
    server
        .header_read_timeout(None)
        .max_header_size(conn.limits().header_bytes)
        .max_buf_size(conn.limits().header_bytes.max(128 * 1024));
    if conn.limits().headers > HEADERS_ON_STACK {
        server.max_headers(conn.limits().headers);
    }
    let service = service_fn(|request: Request<Incoming>| {
        // Before hyper looks for what comes behind the head.
        conn.activity.request_begins();
        answer(Rc::clone(conn), request)
    });
    let connection = pin!(server.serve_connection(io, service).with_upgrades());
    conn.drive(connection, http1::UpgradeableConnection::graceful_shutdown).await
}

async fn serve_http2(conn: &Rc<Conn>, io: TokioIo<ClientIo>) -> Option<hyper::Result<()>> {
    conn.stage.set(Stage::Http2);
    conn.quiet_until.set(conn.worker.ticks.in_future(conn.limits().idle_timeout));
    let header_list = u32::try_from(conn.limits().header_bytes).unwrap_or(u32::MAX);
    let mut server = http2::Builder::new(LocalExec);
    server
        .max_concurrent_streams(conn.limits().h2_streams)
        .initial_stream_window_size(64 * 1024)
        .initial_connection_window_size(1024 * 1024)
        .max_send_buf_size(64 * 1024)
        .max_header_list_size(header_list)
        .enable_connect_protocol();
    let shared = Rc::clone(conn);
    let service = service_fn(move |request| answer(Rc::clone(&shared), request));
    let connection = pin!(server.serve_connection(io, service));
    conn.drive(connection, http2::Connection::graceful_shutdown).await
}

/// A request's answer. A panic is this request's 500 and an alarm, not the end of anything else.
async fn answer(conn: Rc<Conn>, mut request: Request<Incoming>) -> Result<Response<ResponseBody>, Infallible> {
    let note = Note::begin(&conn, &mut request);
    // hyper leaves out the content of such answers over HTTP/1 only.
    let leaves_content_out = request.version() == Version::HTTP_2 && request.method() == Method::HEAD;
    if note.is_some() {
        conn.note_next(note.clone());
    }
    let forwarded = {
        let forwarding = pin!(forward(&conn, request));
        unless_it_panics(forwarding).await
    };
    let mut response = forwarded.unwrap_or_else(|| {
        conn.panicked();
        let refusal = Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, RefusedReason::Panic, "a fault in the proxy");
        refusal.answer(conn.begin_request().0)
    });
    if leaves_content_out {
        body::without_content(&mut response);
    }
    if let Some(note) = note {
        note.answered(&mut response);
    }
    Ok(response)
}

/// None when polling the future panicked; it is not polled again. Pinned by the caller, since an `async fn` would hold it
/// twice: as its argument, and pinned.
pub(super) fn unless_it_panics<F: Future>(mut future: Pin<&mut F>) -> impl Future<Output = Option<F::Output>> {
    poll_fn(move |cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Some),
        Err(_panic) => Poll::Ready(None),
    })
}

impl Conn {
    fn new(worker: &Rc<Worker>, client: Client) -> Rc<Self> {
        let Client { peer, settings, access, admission } = client;
        let conn = Rc::new(Self {
            worker: Rc::clone(worker),
            number: worker.next_connection(),
            peer,
            origin: OnceCell::new(),
            activity: Arc::default(),
            stage: Cell::new(Stage::Opening),
            quiet_until: Cell::new(worker.ticks.in_future(settings.limits.header_timeout)),
            settings,
            gone_at: Cell::default(),
            tunnel_idle: Cell::default(),
            access,
            note: RefCell::default(),
            streams: Cell::new(0),
            waiting_for_upstream: Cell::new(0),
            order: Cell::new(Order::Serve),
            waker: RefCell::default(),
            _admission: admission,
        });
        worker.register(conn.number, Rc::downgrade(&conn));
        if worker.is_draining() {
            // Accepted before the stop, with a request on its way: closed under it, its client would see a reset.
            conn.drain();
        }
        conn
    }

    pub(super) fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    /// The client's address.
    pub(super) fn peer(&self) -> SocketAddr {
        self.origin.get().map_or(self.peer, Origin::peer)
    }

    /// Where the connection comes from, and how.
    pub(super) fn origin(&self) -> &Origin {
        self.origin.get_or_init(|| Origin::plain(self.peer))
    }

    /// Says once where the connection comes from.
    pub(super) fn comes_from(&self, origin: Origin) {
        // It is said once, by the opening.
        drop(self.origin.set(origin));
    }

    pub(super) fn access(&self) -> Option<&Access> {
        self.access.as_ref()
    }

    pub(super) fn settings(&self) -> &ListenerSettings {
        &self.settings
    }

    /// The client's address, as a number.
    pub(super) fn address(&self) -> Address {
        self.origin().address()
    }

    pub(super) fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    /// Whether it is told to take no further requests.
    pub(super) fn takes_no_more(&self) -> bool {
        self.order.get() != Order::Serve
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// Whether a TLS handshake is what is waited for.
    pub(super) fn is_in_handshake(&self, is: bool) {
        self.stage.set(if is { Stage::Handshake } else { Stage::Opening });
    }

    /// The note of the request that begins next.
    pub(super) fn note_next(&self, note: Option<Rc<Note>>) {
        *self.note.borrow_mut() = note;
    }

    /// Counts a request as under way on this connection until the guard is dropped. False when the worker has too many.
    pub(super) fn begin_request(self: &Rc<Self>) -> (StreamGuard, bool) {
        if self.stage.get() != Stage::Http2 {
            self.stage.set(Stage::Idle);
        }
        self.streams.set(self.streams.get() + 1);
        self.waiting_for_upstream.set(self.waiting_for_upstream.get() + 1);
        let has_room = self.worker.request_begins();
        let is_noted = self.access.is_some() || self.settings.tracing.is_some();
        let note = if is_noted { self.note.borrow_mut().take() } else { None };
        (StreamGuard { conn: Rc::clone(self), waits_for_upstream: Cell::new(true), note }, has_room)
    }

    /// From now on the connection carries another protocol, until the guard is dropped or nothing has come in either
    /// direction for so long.
    pub(super) fn begin_tunnel(self: &Rc<Self>, idle: Duration) -> StreamGuard {
        let (guard, _) = self.begin_request();
        self.stage.set(Stage::Tunnel);
        self.activity.request_ends();
        self.tunnel_idle.set(idle);
        self.quiet_until.set(self.worker.ticks.in_future(idle));
        guard
    }

    /// Ends the connection if the client has been silent for too long where it should not be.
    pub(super) fn end_if_overdue(&self) {
        let (read, wrote) = (self.activity.take_read(), self.activity.take_wrote());
        let ticks = &self.worker.ticks;
        if self.is_gone(wrote) {
            return self.give_order(Order::End);
        }
        match self.stage.get() {
            Stage::Tunnel if read || wrote => self.quiet_until.set(ticks.in_future(self.tunnel_idle.get())),
            Stage::Tunnel => {}
            // The request has deadlines of its own while the upstream is waited for.
            _ if self.waiting_for_upstream.get() > 0 => return,
            _ if self.streams.get() > 0 && wrote => self.quiet_until.set(ticks.in_future(self.limits().idle_timeout)),
            Stage::Idle if self.streams.get() == 0 && read => {
                self.stage.set(Stage::Head);
                self.quiet_until.set(ticks.in_future(self.limits().header_timeout));
            }
            _ => {}
        }
        if ticks.now() < self.quiet_until.get() {
            return;
        }
        if self.streams.get() == 0 && self.order.get() == Order::Serve {
            match self.stage.get() {
                Stage::Handshake => self.refuse(RefusedReason::TlsHandshake, "no TLS handshake in time"),
                Stage::Opening | Stage::Head => {
                    self.refuse(RefusedReason::HeaderTimeout, "no whole request head in time");
                }
                Stage::Idle | Stage::Http2 | Stage::Tunnel => {}
            }
        }
        self.give_order(Order::End);
    }

    /// Whether the client ended its side, and has got nothing for long enough since. Within its request that is the end.
    fn is_gone(&self, wrote: bool) -> bool {
        let Some(is_whole) = self.activity.ended() else { return false };
        if self.streams.get() > 0 && !is_whole {
            self.activity.tell_end();
            self.wake();
            return false;
        }
        let ticks = &self.worker.ticks;
        let until = self.gone_at.get().filter(|_| !wrote).unwrap_or_else(|| ticks.in_future(HALF_CLOSED));
        self.gone_at.set(Some(until));
        let owes_it_an_answer = self.streams.get() > 0 && self.waiting_for_upstream.get() == 0;
        ticks.now() >= until && !owes_it_an_answer
    }

    /// Takes no further requests but what is on its way here: `Connection: close` or GOAWAY with the next answer, and an end
    /// soon where nothing comes.
    pub(super) fn drain(&self) {
        if self.stage.get() != Stage::Tunnel && self.stage.get() != Stage::Http2 && self.streams.get() == 0 {
            let soon = self.worker.ticks.in_future(LAST_CHANCE);
            self.quiet_until.set(self.quiet_until.get().min(soon));
        }
        self.give_order(Order::Drain);
    }

    fn give_order(&self, order: Order) {
        self.order.set(order);
        self.wake();
    }

    fn wake(&self) {
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Runs a part of the connection's life; none when the sweep ended it.
    pub(super) fn unless_ended<F: Future>(&self, mut future: Pin<&mut F>) -> impl Future<Output = Option<F::Output>> {
        poll_fn(move |cx| {
            if self.order.get() == Order::End {
                return Poll::Ready(None);
            }
            self.listen(cx);
            future.as_mut().poll(cx).map(Some)
        })
    }

    async fn drive<C>(&self, mut connection: Pin<&mut C>, drain: impl Fn(Pin<&mut C>)) -> Option<C::Output>
    where
        C: Future,
    {
        let mut draining = false;
        poll_fn(|cx| {
            match self.order.get() {
                Order::End => return Poll::Ready(None),
                // Without a request hyper would close at once, under whatever is on its way.
                Order::Drain if !draining && (self.stage.get() == Stage::Http2 || self.streams.get() > 0) => {
                    draining = true;
                    drain(connection.as_mut());
                }
                Order::Drain | Order::Serve => {}
            }
            self.listen(cx);
            connection.as_mut().poll(cx).map(Some)
        })
        .await
    }

    /// A fault in the proxy itself, which must not end more than this request.
    fn panicked(&self) {
        tracing::error!(fault = "proxy", client = %self.peer(), "a request made the proxy panic");
        self.worker.count_refused(RefusedReason::Panic);
    }

    /// Has this task woken for the next order.
    fn listen(&self, cx: &Context<'_>) {
        let waker = &mut *self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// What hyper refused by itself, without asking the service.
    fn count_client_error(&self, error: &hyper::Error) {
        let broken_http2 = chain(error)
            .filter_map(|error| error.downcast_ref::<h2::Error>())
            .any(|error| !error.is_io() && !error.is_remote());
        let reason = if error.is_parse_too_large() {
            RefusedReason::HeaderTooLarge
        } else if error.is_parse() || broken_http2 {
            RefusedReason::BadRequest
        } else {
            return; // It went away.
        };
        self.refuse(reason, &error.to_string());
    }

    /// Counts and logs that the client got no further.
    pub(super) fn refuse(&self, reason: RefusedReason, cause: &str) {
        self.worker.count_refused(reason);
        self.worker.log.refused(self.peer(), reason, cause);
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.worker.unregister(self.number);
    }
}

/// A request under way on a connection.
#[derive(Debug)]
pub(super) struct StreamGuard {
    conn: Rc<Conn>,
    waits_for_upstream: Cell<bool>,
    note: Option<Rc<Note>>,
}

impl StreamGuard {
    /// Its note for the access log and for a trace, if there is one.
    pub(super) fn note(&self) -> Option<&Note> {
        self.note.as_deref()
    }

    /// Says who is waited for from now on; whether the upstream was before.
    pub(super) fn waits_for_upstream(&self, waits: bool) -> bool {
        let before = self.waits_for_upstream.replace(waits);
        if before != waits {
            let waiting = &self.conn.waiting_for_upstream;
            waiting.set(if waits { waiting.get() + 1 } else { waiting.get().saturating_sub(1) });
            if !waits {
                self.conn.quiet_until.set(self.conn.worker.ticks.in_future(self.conn.limits().idle_timeout));
            }
        }
        before
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.waits_for_upstream(false);
        let conn = &self.conn;
        conn.streams.set(conn.streams.get().saturating_sub(1));
        conn.worker.request_ends();
        if conn.streams.get() == 0 {
            conn.quiet_until.set(conn.worker.ticks.in_future(conn.limits().idle_timeout));
            // What came in so far was this request.
            conn.activity.take_read();
            conn.activity.request_ends();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_task<A, B, F: Future>(_: fn(A, B) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_connection_that_waits_takes_little() {
        let (task, conn) = (size_of_task(serve), size_of::<Conn>());
        assert!(task <= 7 * 512 && conn <= 1024, "task {task}, connection {conn}");
    }

    #[tokio::test]
    async fn a_panic_ends_only_the_future_that_made_it() {
        assert_eq!(unless_it_panics(pin!(async { 1 })).await, Some(1));
        let later = pin!(async {
            tokio::task::yield_now().await;
            assert!(std::hint::black_box(false), "a panic on purpose, within a test");
        });
        assert_eq!(unless_it_panics(later).await, None);
    }
}
