//! What a file holds: certificates and a key that belong together, or authorities.
//! Refuses whatever a handshake would fail on later, and reads no further than a bound.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use rustls::{
    Error as TlsError, InconsistentKeys, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem, pem::PemObject},
    sign::CertifiedKey,
};
use webpki::{EndEntityCert, KeyUsage};

use super::{FILE_BYTES_MAX, Fault, Part, Validity, provider};

/// Most certificates of one file.
const CERTIFICATES_MAX: usize = 1_000;

/// A certificate with its chain, and the key that belongs to it.
#[derive(Debug, Clone)]
pub struct Pair {
    pub(super) key: Arc<CertifiedKey>,
    names: Vec<String>,
}

/// Whose certificates are believed.
#[derive(Debug, Clone)]
pub struct Authorities {
    pub(super) roots: Arc<RootCertStore>,
    /// The bytes they were read from, to tell a change.
    pub(super) content: Vec<u8>,
}

impl Pair {
    /// Reads both files and checks that they belong together.
    ///
    /// # Errors
    /// What is wrong with which file.
    pub fn read(cert: &Path, key: &Path) -> Result<Self, Fault> {
        let chain = certificates(&read(cert, Part::Cert)?, Part::Cert)?;
        let key = private_key(&read(key, Part::Key)?)?;
        let names = {
            let leaf = chain.first().map(EndEntityCert::try_from).and_then(Result::ok).ok_or_else(|| {
                let help = "make one of X.509 version 3, with the host in `subjectAltName`";
                Fault::new(Part::Cert, "holds a certificate that cannot be used for TLS", help)
            })?;
            leaf.valid_dns_names().map(str::to_ascii_lowercase).collect()
        };
        let certified = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
            TlsError::InconsistentKeys(InconsistentKeys::KeyMismatch) => Fault::new(
                Part::Key,
                "is not the key of this certificate",
                "take the key that the certificate was made with; the certificate itself comes first in its file",
            ),
            _ => Fault::new(
                Part::Key,
                "holds a key that cannot be used",
                "use an RSA (2048 bits or more), ECDSA or Ed25519 key",
            ),
        })?;
        Ok(Self { key: Arc::new(certified), names })
    }

    /// The hosts that it names, in lower case, wildcards as `*.example.org`.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether it may be used at a time.
    #[must_use]
    pub fn validity(&self, at: SystemTime) -> Validity {
        let leaf = self.key.cert.first().map(EndEntityCert::try_from).and_then(Result::ok);
        leaf.map_or(Validity::Valid, |leaf| validity(&leaf, at))
    }

    /// The certificate with its chain, and its key, for a client that shows it.
    #[must_use]
    pub fn certified(&self) -> &Arc<CertifiedKey> {
        &self.key
    }
}

impl Authorities {
    /// Reads the authorities of a file: one or more certificates.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(path: &Path) -> Result<Self, Fault> {
        let content = read(path, Part::Ca)?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&content, Part::Ca)? {
            roots.add(certificate).map_err(|_| {
                let message = "holds a certificate that cannot be an authority's";
                Fault::new(Part::Ca, message, "make it one of X.509 version 3")
            })?;
        }
        Ok(Self { roots: Arc::new(roots), content })
    }

    /// The certificates that are believed.
    #[must_use]
    pub fn roots(&self) -> &Arc<RootCertStore> {
        &self.roots
    }
}

/// At most [`FILE_BYTES_MAX`] bytes of a plain file.
fn read(path: &Path, part: Part) -> Result<Vec<u8>, Fault> {
    let cannot = |error: io::Error| Fault {
        part,
        is_absent: error.kind() == io::ErrorKind::NotFound,
        message: format!("cannot be read: {error}"),
        help: match error.kind() {
            io::ErrorKind::NotFound => "check the path; it is relative to the config file's folder",
            io::ErrorKind::PermissionDenied => "give the user that runs serin the right to read it",
            _ => "check the path and the disk",
        },
    };
    // A pipe would be waited for, and a device never ends.
    if !fs::metadata(path).map_err(cannot)?.is_file() {
        return Err(Fault::new(part, "is no plain file", "name a PEM file"));
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
    read.map_err(cannot)?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(Fault::new(part, "is larger than 1 MiB", "name a PEM file"));
    }
    Ok(bytes)
}

fn certificates(bytes: &[u8], part: Part) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let fault = |message: &str, help| Fault::new(part, message, help);
    let read: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(bytes).take(CERTIFICATES_MAX).collect();
    match read {
        Ok(found) if found.is_empty() => {
            Err(fault("holds no certificate", "it must be PEM, with `-----BEGIN CERTIFICATE-----`"))
        }
        Ok(found) => Ok(found),
        Err(_) => Err(fault("is not valid PEM", "it must be PEM, with `-----BEGIN CERTIFICATE-----`")),
    }
}

fn private_key(bytes: &[u8]) -> Result<PrivateKeyDer<'static>, Fault> {
    let fault = |message: &str, help| Fault::new(Part::Key, message, help);
    if String::from_utf8_lossy(bytes).contains("ENCRYPTED") {
        return Err(fault(
            "holds a key under a passphrase",
            "take the passphrase off: `openssl pkey -in KEY -out NEW`",
        ));
    }
    PrivateKeyDer::from_pem_slice(bytes).map_err(|error| match error {
        pem::Error::NoItemsFound => fault("holds no private key", "it must be PEM, with `-----BEGIN PRIVATE KEY-----`"),
        _ => fault("is not valid PEM", "it must be PEM, with `-----BEGIN PRIVATE KEY-----`"),
    })
}

/// By an examination without any authority: that fails in the end, but with what is said about time first.
fn validity(leaf: &EndEntityCert<'_>, at: SystemTime) -> Validity {
    let algorithms = provider().signature_verification_algorithms.all;
    let now = UnixTime::since_unix_epoch(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
    let time = |at: UnixTime| SystemTime::UNIX_EPOCH + Duration::from_secs(at.as_secs());
    match leaf.verify_for_usage(algorithms, &[], &[], now, KeyUsage::server_auth(), None, None).map(|_| ()) {
        Err(webpki::Error::CertExpired { not_after, .. }) => Validity::Ended(time(not_after)),
        Err(webpki::Error::CertNotValidYet { not_before, .. }) => Validity::Begins(time(not_before)),
        _ => Validity::Valid,
    }
}
