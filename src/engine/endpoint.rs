//! One address of a version, and how HTTP is spoken to it.

use std::{fmt, sync::Arc};

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

impl Endpoint {
    /// An endpoint over TCP.
    #[must_use]
    pub fn tcp(host: impl Into<Arc<str>>, port: u16) -> Self {
        Self::Tcp { host: host.into(), port }
    }
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
