//! One address of a version, and how HTTP is spoken to it.

use std::{fmt, sync::Arc};

/// Where a version answers: a host name or address, and a port. Plain HTTP; names are resolved by the data plane.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Host name, IPv4 address, or IPv6 address without brackets.
    pub host: Arc<str>,
    /// TCP port.
    pub port: u16,
}

/// Which HTTP is spoken to the endpoints of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum UpstreamHttp {
    /// HTTP/1.1.
    #[default]
    H1,
    /// HTTP/2 by prior knowledge.
    H2,
}

impl fmt::Display for Endpoint {
    /// `host:port`, with brackets around an IPv6 address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}
