//! A client's side of TLS, towards upstreams: whom to believe, what to show, and which protocols to offer.

use std::{
    path::Path,
    sync::{Arc, LazyLock},
};

use rustls::{ClientConfig, RootCertStore, sign::SingleCertAndKey};

use super::{Authorities, Fault, Pair, provider};

/// The system's authorities, or Mozilla's in an empty image. Read once: that takes milliseconds.
static SYSTEM: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    let (read, _unusable) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if read == 0 {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    Arc::new(roots)
});

/// A client that believes the authorities of `ca`, or the system's without; shows a certificate with its key if it has
/// one; and offers protocols by their names in ALPN, the best first.
///
/// # Errors
/// What is wrong with which file.
#[expect(clippy::expect_used, reason = "the provider that is compiled in has both versions of TLS")]
pub fn client(
    ca: Option<&Path>,
    identity: Option<(&Path, &Path)>,
    protocols: &[&[u8]],
) -> Result<Arc<ClientConfig>, Fault> {
    let roots = match ca {
        Some(path) => Arc::clone(Authorities::read(path)?.roots()),
        None => Arc::clone(&SYSTEM),
    };
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("TLS 1.2 and 1.3")
        .with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let certified = Arc::clone(Pair::read(cert, key)?.certified());
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
        }
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(Arc::new(config))
}
