//! A connection to an endpoint: the name resolved when it is needed, at most one lookup of a name at a time,
//! and the last good addresses kept for when the resolver fails.

use std::{
    cell::{Cell, RefCell},
    io,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    time::Duration,
};

use tokio::{
    net::{TcpStream, lookup_host},
    sync::Mutex,
};

use super::deadline::{Coarse, Ticks};
use crate::engine::endpoint::Endpoint;

/// How long an answer is used without asking again: bursts of connects make one lookup, and changes are followed.
const RESOLVED_FOR: Duration = Duration::from_secs(1);
/// Addresses taken from one answer.
const ADDRESSES_MAX: usize = 64;

/// Connects to one endpoint.
#[derive(Debug)]
pub(super) struct Connector {
    endpoint: Endpoint,
    ticks: Rc<Ticks>,
    known: RefCell<Known>,
    asking: Mutex<()>,
    next: Cell<usize>,
}

#[derive(Debug)]
struct Known {
    addresses: Rc<[SocketAddr]>,
    fresh_until: Option<Coarse>,
}

impl Connector {
    pub(super) fn new(endpoint: Endpoint, ticks: &Rc<Ticks>) -> Self {
        let literal = endpoint.host.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, endpoint.port));
        let fresh_until = literal.map(|_| Coarse::NEVER);
        let known = RefCell::new(Known { addresses: literal.into_iter().collect(), fresh_until });
        Self { endpoint, ticks: Rc::clone(ticks), known, asking: Mutex::new(()), next: Cell::new(0) }
    }

    /// Connects to the addresses in turn until one answers; the next call begins with the next address.
    pub(super) async fn connect(&self) -> io::Result<TcpStream> {
        let addresses = self.addresses().await?;
        let first = self.next.get();
        self.next.set(first.wrapping_add(1));
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for nth in 0..addresses.len() {
            match TcpStream::connect(addresses[first.wrapping_add(nth) % addresses.len()]).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn addresses(&self) -> io::Result<Rc<[SocketAddr]>> {
        if let Some(known) = self.fresh() {
            return Ok(known);
        }
        let _one_at_a_time = self.asking.lock().await;
        if let Some(known) = self.fresh() {
            return Ok(known);
        }
        let answer = lookup_host((&*self.endpoint.host, self.endpoint.port)).await;
        let known = &mut *self.known.borrow_mut();
        match answer {
            Ok(addresses) => known.addresses = addresses.take(ADDRESSES_MAX).collect(),
            Err(error) if known.addresses.is_empty() => return Err(error),
            Err(_) => {}
        }
        known.fresh_until = Some(self.ticks.in_future(RESOLVED_FOR));
        Ok(Rc::clone(&known.addresses))
    }

    fn fresh(&self) -> Option<Rc<[SocketAddr]>> {
        let known = self.known.borrow();
        known.fresh_until.filter(|&until| self.ticks.now() < until).map(|_| Rc::clone(&known.addresses))
    }
}
