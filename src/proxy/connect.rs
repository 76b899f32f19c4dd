//! Where a pool's connections lead, and how one is opened.

use std::{io, net::SocketAddr, pin::pin, rc::Rc, sync::Arc, time::Duration};

use tokio::net::{TcpStream, UnixStream};

use super::{
    deadline::{Deadline, Ticks},
    resolver::Name,
    socket::Socket,
    upstream_tls::TlsClient,
};

/// How long an address may be silent while there may be another one: long enough for a packet that was lost once.
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// How long to wait for an address that neither accepts nor refuses, as that of a container that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// There may be others: after two seconds it is an error of kind `TimedOut`.
    Short,
    /// It is all there is: a slow network is no dead one, and the caller's own deadline ends the wait.
    Whole,
}

/// Where connections lead.
#[derive(Debug)]
pub(super) enum Place {
    Address(SocketAddr),
    Unix(Arc<str>),
    /// Until there is a first answer, to any of the addresses in it.
    Name(Arc<Name>),
    /// Nowhere: none of a dead canary's endpoints is to be used.
    Nobody,
}

/// Opens connections to one place.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) place: Place,
    pub(super) tls: Option<TlsClient>,
    pub(super) ticks: Rc<Ticks>,
}

impl Connector {
    pub(super) async fn connect(&self, patience: Patience) -> io::Result<Socket> {
        let stream = match &self.place {
            Place::Unix(path) => return Ok(Socket::Unix(UnixStream::connect(&**path).await?)),
            Place::Address(address) => self.connect_to(*address, patience).await?,
            Place::Nobody => return Err(io::Error::other("all its endpoints are ejected or fail their health checks")),
            Place::Name(name) => self.connect_to_any(&name.first().await?, patience).await?,
        };
        stream.set_nodelay(true)?;
        match &self.tls {
            None => Ok(Socket::Tcp(stream)),
            Some(tls) => Ok(Socket::Tls(Box::new(tls.connect(stream).await?))),
        }
    }

    async fn connect_to_any(&self, addresses: &[SocketAddr], patience: Patience) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let mut silent = None;
        for &address in addresses {
            match self.connect_to(address, Patience::Short).await {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    silent = silent.or((error.kind() == io::ErrorKind::TimedOut).then_some(address));
                    last = error;
                }
            }
        }
        match silent {
            Some(address) if patience == Patience::Whole => self.connect_to(address, patience).await,
            _ => Err(last),
        }
    }

    async fn connect_to(&self, address: SocketAddr, patience: Patience) -> io::Result<TcpStream> {
        let deadline = Deadline::new(&self.ticks);
        if patience == Patience::Short {
            deadline.arm(SILENCE_MAX);
        }
        let connected = Ticks::until(&deadline, pin!(TcpStream::connect(address))).await;
        connected.unwrap_or_else(|| Err(io::Error::new(io::ErrorKind::TimedOut, "the address was silent for 2 s")))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream as Blocking;

    use socket2::{Domain, Socket as Raw, Type};

    use super::*;
    use crate::proxy::resolver::Resolver;

    /// An address that neither accepts nor refuses: its queue of connections is full, and nobody takes one from it.
    struct Silent {
        address: SocketAddr,
        _listener: Raw,
        _queued: Vec<Blocking>,
    }

    impl Silent {
        fn new() -> Self {
            let listener = Raw::new(Domain::IPV4, Type::STREAM, None).unwrap();
            listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
            listener.listen(0).unwrap();
            let address = listener.local_addr().unwrap().as_socket().unwrap();
            let queue = || Blocking::connect_timeout(&address, Duration::from_millis(300)).ok();
            let queued: Vec<_> = std::iter::from_fn(queue).take(8).collect();
            assert!(queued.len() < 8, "the queue is never full here");
            Self { address, _listener: listener, _queued: queued }
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_address_of_a_container_that_is_gone_holds_up_nobody_for_long() {
        let (silent, good) = (Silent::new(), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let answer = vec![silent.address, good.local_addr().unwrap()];
        let resolver = Resolver::with(Box::new(move |_, _| {
            let answer = answer.clone();
            Box::pin(async move { Ok(answer) })
        }))
        .unwrap();
        let name = Place::Name(resolver.name(&"app".into(), 80));
        let ticks = Ticks::new();
        let at = |place| Connector { place, tls: None, ticks: Rc::clone(&ticks) };
        let (lone, either) = (at(Place::Address(silent.address)), at(name));
        // Each in a time that is not that of the kernel, which goes on for two minutes.
        let mut tried = pin!(async {
            assert_eq!(lone.connect(Patience::Short).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
            either.connect(Patience::Whole).await.unwrap();
        });
        let mut turns = tokio::time::interval(Duration::from_millis(25));
        let end = std::time::Instant::now() + Duration::from_secs(30);
        loop {
            tokio::select! {
                () = &mut tried => return,
                _ = turns.tick() => ticks.tick(),
            }
            assert!(std::time::Instant::now() < end, "a silent address is waited for");
        }
    }
}
