//! One address of a version, and how HTTP is spoken to it.

use std::{fmt, sync::Arc};

use super::address::Address;

/// Where a version answers. Names are resolved by the data plane.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// Over TCP.
    Tcp {
        /// Host name, IPv4 address, or IPv6 address without brackets.
        host: Arc<str>,
        /// TCP port.
        port: u16,
    },
    /// Over a Unix socket.
    Unix {
        /// The path of the socket.
        path: Arc<str>,
    },
}

/// An endpoint with the scheme that it is written with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Site {
    /// Where it is.
    pub endpoint: Endpoint,
    /// Whether it is asked by TLS.
    pub is_tls: bool,
}

impl fmt::Display for Site {
    /// As the file writes it: `http://host:port`, `https://host:port` or `unix:/path`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match (&self.endpoint, self.is_tls) {
            (Endpoint::Unix { .. }, _) => "",
            (Endpoint::Tcp { .. }, true) => "https://",
            (Endpoint::Tcp { .. }, false) => "http://",
        };
        write!(f, "{scheme}{}", self.endpoint)
    }
}

impl Endpoint {
    /// An endpoint over TCP.
    #[must_use]
    pub fn tcp(host: impl Into<Arc<str>>, port: u16) -> Self {
        Self::Tcp { host: host.into(), port }
    }
}

/// An endpoint at one of the addresses of its name: what is asked, counted and left out by itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Instance {
    /// As it is configured.
    pub endpoint: Endpoint,
    /// Which address, where the endpoint has a name; none where it has none, and while the name's addresses are not known.
    pub address: Option<Address>,
}

/// Which of a version's instances get requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum InUse {
    /// All that the data plane knows.
    #[default]
    All,
    /// All but these. If no other is known, these as well.
    AllBut(Arc<[Instance]>),
    /// None, however many are known: a canary that is dead.
    Nobody,
}

/// Which HTTP is spoken to the endpoints of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum UpstreamHttp {
    /// HTTP/1.1.
    #[default]
    H1,
    /// HTTP/2, without TLS by prior knowledge.
    H2,
    /// What TLS agrees on, HTTP/2 if it can be had.
    Auto,
}

impl fmt::Display for Endpoint {
    /// `host:port`, with brackets around an IPv6 address, or `unix:` and the path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix { path } => write!(f, "unix:{path}"),
        }
    }
}

impl fmt::Display for Instance {
    /// The endpoint, and the address behind an `@` if it is one of a name's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.endpoint.fmt(f)?;
        self.address.map_or(Ok(()), |address| write!(f, "@{address}"))
    }
}

impl Endpoint {
    /// What stands for it as the host of a request that names none.
    #[must_use]
    pub fn authority(&self) -> String {
        match self {
            Self::Tcp { .. } => self.to_string(),
            Self::Unix { .. } => "localhost".to_owned(),
        }
    }
}
