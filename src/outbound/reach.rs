//! Which addresses may be asked. Link-local addresses and those where clouds keep credentials are refused, whether they
//! are written in the URL or are what its name resolves to; loopback is not, as a metrics store beside us is ordinary.

use std::{
    future::Future,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    vec,
};

use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower_service::Service;

/// Where clouds answer with credentials, outside of the link-local networks: AWS and Google by IPv6, Alibaba, Azure.
const METADATA: [IpAddr; 4] = [
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
];

/// Which addresses may be asked. Cloning is cheap.
#[derive(Clone)]
pub struct Reach(Kind);

#[derive(Clone)]
enum Kind {
    Anywhere,
    Guarded(Arc<dyn Fn(IpAddr) -> bool + Send + Sync>),
}

impl std::fmt::Debug for Reach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Kind::Anywhere => "Anywhere",
            Kind::Guarded(_) => "Guarded",
        })
    }
}

impl Reach {
    /// Whatever a person types at a terminal.
    #[must_use]
    pub const fn anywhere() -> Self {
        Self(Kind::Anywhere)
    }

    /// No link-local and no metadata addresses but those that `allowed` says yes to. An IPv4 address in the clothes of an
    /// IPv6 one is asked about as what it is.
    #[must_use]
    pub fn guarded(allowed: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self(Kind::Guarded(Arc::new(allowed)))
    }

    /// Whether it may be asked; else why not.
    pub(super) fn check(&self, address: IpAddr) -> io::Result<()> {
        let Kind::Guarded(allowed) = &self.0 else { return Ok(()) };
        let address = address.to_canonical();
        let kind = match address {
            _ if METADATA.contains(&address) => "where a cloud keeps credentials",
            IpAddr::V4(v4) if v4.is_link_local() => "link-local",
            IpAddr::V6(v6) if v6.is_unicast_link_local() => "link-local",
            _ => return Ok(()),
        };
        if allowed(address) {
            return Ok(());
        }
        let message = format!("{address} is {kind}; `outbound.allow` lists what may be asked all the same");
        Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
    }
}

/// Resolves names to addresses that may be asked.
#[derive(Clone, Debug)]
pub(super) struct Resolver {
    system: GaiResolver,
    reach: Reach,
}

impl Resolver {
    pub(super) fn new(reach: Reach) -> Self {
        Self { system: GaiResolver::new(), reach }
    }
}

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.system.poll_ready(context)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (found, reach) = (self.system.call(name), self.reach.clone());
        Box::pin(async move {
            let mut good = Vec::new();
            let mut refused = None;
            // A name that has one address of either kind is asked at the good one.
            for address in found.await? {
                match reach.check(address.ip()) {
                    Ok(()) => good.push(address),
                    Err(why) => refused = Some(why),
                }
            }
            match refused {
                Some(why) if good.is_empty() => Err(why),
                _ => Ok(good.into_iter()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_and_link_local_addresses_are_refused_in_every_form() {
        let none = Reach::guarded(|_| false);
        for address in [
            "169.254.169.254",
            "169.254.0.1",
            "::ffff:169.254.169.254",
            "fe80::1",
            "febf::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "100.100.100.200",
            "168.63.129.16",
        ] {
            let error = none.check(address.parse().unwrap()).unwrap_err();
            assert!(error.to_string().contains("outbound.allow"), "{address}: {error}");
            assert!(Reach::anywhere().check(address.parse().unwrap()).is_ok());
        }
        for address in ["127.0.0.1", "::1", "10.0.0.1", "192.168.1.1", "169.253.255.255", "fec0::1", "fd00::1"] {
            assert!(none.check(address.parse().unwrap()).is_ok(), "{address}");
        }
        let one = Reach::guarded(|address| address == IpAddr::from([169, 254, 1, 1]));
        assert!(one.check("::ffff:169.254.1.1".parse().unwrap()).is_ok());
        assert!(one.check("169.254.1.2".parse().unwrap()).is_err());
    }
}
