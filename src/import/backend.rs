//! Versions: names of Kubernetes Services made into names and addresses. Refuses what a config cannot hold.

use std::fmt::Write as _;

use super::{
    ledger::Ledger,
    manifest::{Item, Objects},
    trial,
    value::scalar,
};
use crate::engine::names::VersionName;

/// A version and where it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Backend {
    pub(super) version: String,
    pub(super) url: String,
    /// Further addresses.
    pub(super) more: Vec<String>,
    /// Further fields of the version, values on one line.
    pub(super) settings: Vec<(&'static str, String)>,
}

impl Backend {
    /// A version at an address; none if either is impossible in a config.
    pub(super) fn new(version: &str, host: &str, port: u16) -> Option<Self> {
        // Words with meanings of their own in the force header and in templates.
        let is_taken = matches!(version, "always" | "never" | "stable" | "canary");
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(fine);
        if is_taken || VersionName::new(version).is_err() || host.len() > 253 || !host.split('.').all(is_label) {
            return None;
        }
        Some(Self {
            version: version.to_owned(),
            url: format!("http://{host}:{port}"),
            more: Vec::new(),
            settings: Vec::new(),
        })
    }

    /// A version named after a Service, at the address that the name has in a cluster.
    pub(super) fn of_service(service: &str, namespace: Option<&str>, port: u16) -> Option<Self> {
        let host = namespace.map_or_else(|| service.to_owned(), |namespace| format!("{service}.{namespace}"));
        Self::new(service, &host, port)
    }

    /// A version where nothing better is known.
    pub(super) fn unknown(version: &str) -> Self {
        Self {
            version: version.to_owned(),
            url: format!("http://{version}:80"),
            more: Vec::new(),
            settings: Vec::new(),
        }
    }
}

/// Where the port and the names around a backend come from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) namespace: Option<&'a str>,
    /// Unless a Service in the input says otherwise.
    pub(super) port: u16,
    /// The version's name when the Service's is absent or impossible, and when that is impossible too.
    pub(super) fallback: (&'a str, &'a str),
}

/// Makes the backend of the Service that an item names, and says so.
pub(super) fn backend(item: Option<&Item>, place: Place<'_>, objects: &Objects, ledger: &mut Ledger) -> Backend {
    let name = item.and_then(Item::text);
    let of = |name: &str, ledger: &mut Ledger| {
        let port = objects.port(name, ledger).unwrap_or(place.port);
        Backend::of_service(name, place.namespace, port)
    };
    let backend = name.and_then(|name| of(name, ledger));
    let backend = backend.or_else(|| of(place.fallback.0, ledger));
    let backend = backend.unwrap_or_else(|| Backend::unknown(place.fallback.1));
    if let Some(item) = item {
        if Some(&*backend.version) == name {
            let how = format!("a version of that name; its endpoint `{}` is derived from it", backend.url);
            ledger.approximated(item, how);
        } else {
            ledger.dropped(item, format!("cannot be a version's name here; it is called `{}`", backend.version));
        }
    }
    backend
}

impl Backend {
    /// As a value of `versions`.
    pub(super) fn text(&self) -> String {
        let urls: Vec<String> = std::iter::once(&self.url).chain(&self.more).map(|url| scalar(url)).collect();
        let mut settings = String::new();
        for (field, value) in &self.settings {
            let _ = write!(settings, ", {field}: {value}");
        }
        match &urls[..] {
            [url] if settings.is_empty() => url.clone(),
            _ => format!("{{ endpoints: [{}]{settings} }}", urls.join(", ")),
        }
    }

    /// Makes its endpoints those of TLS.
    pub(super) fn secure(&mut self) {
        for url in std::iter::once(&mut self.url).chain(&mut self.more) {
            *url = url.replacen("http://", "https://", 1);
        }
    }

    /// Adds a field, if a version may have it.
    pub(super) fn set(&mut self, field: &'static str, value: String) -> Result<(), String> {
        trial::version(&format!("{field}: {value}"))?;
        self.settings.retain(|(other, _)| *other != field);
        self.settings.push((field, value));
        Ok(())
    }
}
