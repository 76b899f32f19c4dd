//! Certificates made for a test: an authority of its own, and what it issues, as files in a folder that goes with it.

use std::{fs, path::PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer as Signer, KeyPair};

/// An authority.
pub struct Issuer {
    pub dir: tempfile::TempDir,
    /// Its certificate.
    pub cert: PathBuf,
    signer: Signer<'static, KeyPair>,
}

/// A certificate and its key.
pub struct Issued {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Issuer {
    pub fn new(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let cert = dir.path().join("ca.crt");
        fs::write(&cert, certificate.pem()).unwrap();
        Self { dir, cert, signer: Signer::new(params, key) }
    }

    /// Issues a certificate for some hosts, as `NAME.crt` and `NAME.key`.
    pub fn issue(&self, name: &str, hosts: &[&str]) -> Issued {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.signer).unwrap();
        let path = |end: &str| self.dir.path().join(format!("{name}.{end}"));
        let issued = Issued { cert: path("crt"), key: path("key") };
        fs::write(&issued.cert, certificate.pem()).unwrap();
        fs::write(&issued.key, key.serialize_pem()).unwrap();
        issued
    }
}
