//! What a listener answers a TLS handshake with: a certificate by SNI, tickets for resumption, and the demand for a
//! client's certificate. One immutable value, replaced as a whole when a file changes.

use std::{collections::HashMap, fmt, sync::Arc};

use rustls::{
    Error as TlsError, ServerConfig,
    crypto::ring::Ticketer,
    server::{ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert, WebPkiClientVerifier},
    sign::CertifiedKey,
};

use super::{Authorities, Pair, provider};

/// The versions of HTTP that a listener speaks; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocols {
    /// HTTP/1.1 and HTTP/1.0.
    pub h1: bool,
    /// HTTP/2.
    pub h2: bool,
}

impl Protocols {
    /// Both.
    pub const BOTH: Self = Self { h1: true, h2: true };
}

/// The keys that tickets for resumption are sealed with, which rotate, and whom the sessions in them were checked by.
#[derive(Clone)]
pub(super) struct Tickets {
    pub(super) keys: Arc<dyn ProducesTickets>,
    checked_by: Option<Vec<u8>>,
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tickets(…)")
    }
}

/// A listener's side of TLS.
#[derive(Debug, Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    pub(super) certificates: Arc<Certificates>,
    pub(super) tickets: Tickets,
}

impl ServerTls {
    /// The certificates in the order of the file: the first is for clients that name no host, or none that is known.
    /// Sessions of `before` can be resumed, unless other authorities have to say who the client is.
    ///
    /// # Errors
    /// When there is no certificate, no authority in `client_ca`, or the system gives no random numbers.
    pub fn new(
        pairs: &[Pair],
        client_ca: Option<&Authorities>,
        protocols: Protocols,
        before: Option<&Self>,
    ) -> Result<Self, TlsError> {
        let certificates = Arc::new(Certificates::new(pairs).ok_or(TlsError::NoCertificatesPresented)?);
        let checked_by = client_ca.map(|ca| ca.content.clone());
        let tickets = match before.map(|before| &before.tickets).filter(|tickets| tickets.checked_by == checked_by) {
            Some(tickets) => tickets.clone(),
            None => Tickets { keys: Ticketer::new()?, checked_by },
        };
        let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&ca.roots), provider());
                let verifier = verifier.build().map_err(|error| TlsError::General(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::clone(&certificates) as Arc<dyn ResolvesServerCert>);
        let offered = [(protocols.h2, &b"h2"[..]), (protocols.h1, b"http/1.1"), (protocols.h1, b"http/1.0")];
        config.alpn_protocols = offered.iter().filter(|(on, _)| *on).map(|(_, name)| name.to_vec()).collect();
        config.ticketer = Arc::clone(&tickets.keys);
        // Sealed in tickets, sessions need no store that all workers would wait for.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 1;
        Ok(Self { config: Arc::new(config), certificates, tickets })
    }

    /// For the handshake.
    #[must_use]
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }

    /// Whether a request for `host` came over a connection that was made with another certificate, for `sni`: then it
    /// belongs to another connection (RFC 9110 15.5.20).
    #[must_use]
    pub fn is_misdirected(&self, sni: &str, host: &str) -> bool {
        !sni.eq_ignore_ascii_case(host)
            && self.certificates.several()
            && self.certificates.index_for(Some(sni)) != self.certificates.index_for(Some(host))
    }
}

/// The certificates by the names in them.
#[derive(Debug)]
pub(super) struct Certificates {
    keys: Vec<Arc<CertifiedKey>>,
    exact: HashMap<Box<str>, usize>,
    /// By what follows `*.`; stands for one label.
    wildcard: HashMap<Box<str>, usize>,
}

impl Certificates {
    fn new(pairs: &[Pair]) -> Option<Self> {
        let (mut exact, mut wildcard) = (HashMap::new(), HashMap::new());
        for (index, pair) in pairs.iter().enumerate() {
            for name in pair.names() {
                match name.strip_prefix("*.") {
                    Some(parent) => wildcard.entry(parent.into()).or_insert(index),
                    None => exact.entry(name.as_str().into()).or_insert(index),
                };
            }
        }
        let keys: Vec<_> = pairs.iter().map(|pair| Arc::clone(&pair.key)).collect();
        (!keys.is_empty()).then_some(Self { keys, exact, wildcard })
    }

    fn several(&self) -> bool {
        self.keys.len() > 1
    }

    /// The exact name before a wildcard, and the first for all else.
    pub(super) fn index_for(&self, host: Option<&str>) -> usize {
        let Some(host) = host else { return 0 };
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let by_parent = || host.split_once('.').and_then(|(_, parent)| self.wildcard.get(parent));
        self.exact.get(&*host).or_else(by_parent).copied().unwrap_or(0)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.keys.get(self.index_for(hello.server_name())).cloned()
    }
}
