//! Whom to believe on the way out: the system's authorities, Mozilla's where the system has none, one's own, or anybody.

use std::{
    fs, io,
    path::PathBuf,
    sync::{Arc, LazyLock},
};

use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};

/// Largest file of authorities, in bytes.
const CA_BYTES_MAX: u64 = 4 << 20;

/// Whom to believe. The default is whom the system believes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Trust {
    /// A PEM file of authorities that are believed in place of the system's.
    pub ca: Option<PathBuf>,
    /// Believe anybody: the connection is encrypted, but nobody knows with whom.
    pub insecure: bool,
}

/// Why authorities cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file cannot be read.
    #[error("the authorities in {} cannot be read: {cause}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The file is read, but holds no usable certificate.
    #[error("{} holds no certificate of an authority: write them as PEM", path.display())]
    Empty {
        /// Which file.
        path: PathBuf,
    },
}

/// The system's authorities are read once: that takes milliseconds.
static SYSTEM: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    let (read, _unusable) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if read == 0 {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    believing(roots)
});

pub(super) fn system() -> Arc<ClientConfig> {
    Arc::clone(&SYSTEM)
}

impl Trust {
    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, TrustError> {
        if self.insecure {
            return Ok(believing_anybody());
        }
        let Some(path) = &self.ca else { return Ok(system()) };
        let unreadable = |cause| TrustError::Unreadable { path: path.clone(), cause };
        if fs::metadata(path).map_err(unreadable)?.len() > CA_BYTES_MAX {
            return Err(unreadable(io::Error::other("it is larger than 4 MiB")));
        }
        let pem = fs::read(path).map_err(unreadable)?;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
        if roots.is_empty() {
            return Err(TrustError::Empty { path: path.clone() });
        }
        Ok(believing(roots))
    }
}

fn believing(roots: RootCertStore) -> Arc<ClientConfig> {
    Arc::new(of_today().with_root_certificates(roots).with_no_client_auth())
}

fn believing_anybody() -> Arc<ClientConfig> {
    let anybody = Arc::new(Anybody(Arc::new(ring::default_provider())));
    Arc::new(of_today().dangerous().with_custom_certificate_verifier(anybody).with_no_client_auth())
}

#[expect(clippy::expect_used, reason = "the provider that is compiled in has both versions of TLS")]
fn of_today() -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    let provider = Arc::new(ring::default_provider());
    ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("TLS 1.2 and 1.3")
}

/// Takes every certificate, but still holds the server to the key in it.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
