//! Files that are right, and every way in which they are wrong.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use rcgen::{CertificateParams, KeyPair, date_time_ymd};

use super::{Authorities, Pair, Part, Protocols, ServerTls, Validity};

/// A day in 2026: what rcgen makes is valid from 1975 to 4096.
fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_hours(57 * 365 * 24)
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// A certificate for some names and its key, as two files.
    fn pair(&self, name: &str, hosts: &[&str]) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(hosts.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
        let cert = params.self_signed(&key).unwrap();
        (self.write(&format!("{name}.crt"), &cert.pem()), self.write(&format!("{name}.key"), &key.serialize_pem()))
    }

    fn read(&self, name: &str, hosts: &[&str]) -> Pair {
        let (cert, key) = self.pair(name, hosts);
        Pair::read(&cert, &key).unwrap()
    }
}

#[test]
fn a_pair_names_its_hosts() {
    let pair = Folder::new().read("a", &["Shop.example", "*.shop.example"]);
    assert_eq!(pair.names(), ["shop.example", "*.shop.example"]);
    assert_eq!(pair.validity(now()), Validity::Valid);
}

#[test]
fn what_is_wrong_is_said_of_the_right_file() {
    let folder = Folder::new();
    let (cert, key) = folder.pair("a", &["a.example"]);
    let (other_cert, other_key) = folder.pair("b", &["b.example"]);
    let fault = |cert: &PathBuf, key: &PathBuf| {
        let fault = Pair::read(cert, key).unwrap_err();
        (fault.part, fault.message)
    };
    let says = |(part, message): (Part, String), expected: Part, words: &str| {
        assert_eq!(part, expected, "{message}");
        assert!(message.contains(words), "{message}");
    };
    let absent = folder.0.path().join("absent");
    says(fault(&absent, &key), Part::Cert, "cannot be read");
    says(fault(&cert, &absent), Part::Key, "cannot be read");
    says(fault(&cert, &other_key), Part::Key, "not the key of this certificate");
    says(fault(&other_cert, &key), Part::Key, "not the key of this certificate");
    says(fault(&key, &key), Part::Cert, "holds no certificate");
    says(fault(&cert, &cert), Part::Key, "holds no private key");
    says(fault(&cert, &folder.write("empty", "")), Part::Key, "holds no private key");
    says(fault(&folder.0.path().to_owned(), &key), Part::Cert, "no plain file");
    let cut = fs::read_to_string(&cert).unwrap().replace("-----END CERTIFICATE-----", "");
    says(fault(&folder.write("cut", &cut), &key), Part::Cert, "is not valid PEM");
    let strange = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    says(fault(&folder.write("strange", strange), &key), Part::Cert, "cannot be used for TLS");
    let locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    says(fault(&cert, &folder.write("locked", locked)), Part::Key, "under a passphrase");
    says(fault(&cert, &folder.write("large", &"#".repeat((1 << 20) + 1))), Part::Key, "larger than 1 MiB");
    assert!(Authorities::read(&key).unwrap_err().message.contains("holds no certificate"));
    assert!(Authorities::read(&cert).is_ok());
}

#[test]
fn a_certificate_out_of_its_time_is_seen() {
    let folder = Folder::new();
    let key = KeyPair::generate().unwrap();
    let key_file = folder.write("key", &key.serialize_pem());
    let validity = |from: i32, until: i32| {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(until, 1, 1));
        let cert = folder.write("crt", &params.self_signed(&key).unwrap().pem());
        Pair::read(&cert, &key_file).unwrap().validity(now())
    };
    assert!(matches!(validity(2000, 2001), Validity::Ended(_)));
    assert!(matches!(validity(4000, 4001), Validity::Begins(_)));
}

#[test]
fn the_exact_name_goes_before_a_wildcard_and_the_first_is_for_all_else() {
    let folder = Folder::new();
    let pairs = [
        folder.read("first", &["first.example"]),
        folder.read("wild", &["*.shop.example"]),
        folder.read("exact", &["www.shop.example"]),
    ];
    let tls = ServerTls::new(&pairs, None, Protocols::BOTH, None).unwrap();
    let index = |host| tls.certificates.index_for(Some(host));
    assert_eq!(tls.certificates.index_for(None), 0);
    for (host, expected) in [
        ("first.example", 0),
        ("unknown.example", 0),
        ("a.shop.example", 1),
        ("WWW.shop.Example.", 2),
        ("a.b.shop.example", 0),
        ("shop.example", 0),
    ] {
        assert_eq!(index(host), expected, "{host}");
    }
    assert!(!tls.is_misdirected("a.shop.example", "b.shop.example"));
    assert!(tls.is_misdirected("a.shop.example", "www.shop.example"));
    assert!(tls.is_misdirected("www.shop.example", "unknown.example"));
    assert!(!tls.is_misdirected("unknown.example", "first.example"));
}

#[test]
fn one_certificate_serves_every_host() {
    let pairs = [Folder::new().read("only", &["a.example"])];
    let tls = ServerTls::new(&pairs, None, Protocols::BOTH, None).unwrap();
    assert!(!tls.is_misdirected("a.example", "b.example"));
}

#[test]
fn sessions_outlive_a_new_certificate_but_not_new_authorities() {
    let folder = Folder::new();
    let pairs = [folder.read("a", &["a.example"])];
    let ca = |name: &str| Authorities::read(&folder.pair(name, &["ca"]).0).unwrap();
    let (first, second) = (ca("one"), ca("two"));
    let before = ServerTls::new(&pairs, Some(&first), Protocols::BOTH, None).unwrap();
    let same_keys = |authorities| {
        let after = ServerTls::new(&pairs, authorities, Protocols::BOTH, Some(&before)).unwrap();
        std::sync::Arc::ptr_eq(&after.tickets.keys, &before.tickets.keys)
    };
    assert!(same_keys(Some(&first)));
    assert!(!same_keys(Some(&second)));
    assert!(!same_keys(None));
}
