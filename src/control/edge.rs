//! The settings of listeners as the file and the certificates say, published anew when either changes.
//! Refuses what a handshake would fail on: then the former settings stay in force. Where to listen is settled at the start.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use http::HeaderValue;
use tracing::{error, info};

use crate::{
    config::{
        Config,
        settings::{AccessLog, Limits, Listener, Tls, Tracing},
    },
    publish::{self, AccessLogFormat, Collector, ListenerSettings, Publication, Settings},
    tls::{Authorities, Pair, Part, ServerTls},
};

/// Publishes the settings.
#[derive(Debug)]
pub(super) struct Edge {
    publication: Publication,
    /// What was bound, in order, with the settings in force.
    listeners: Vec<Listener>,
    fast_path: bool,
    access_log: Option<AccessLog>,
    tracing: Option<Tracing>,
    files: Vec<(PathBuf, Option<Mark>)>,
}

/// What changes of a file when it is replaced or written.
type Mark = (u64, u64, i64, i64, u64);

/// Settings that can be put in force.
#[derive(Debug)]
pub(super) struct Prepared {
    settings: Settings,
    listeners: Vec<Listener>,
    access_log: Option<AccessLog>,
    tracing: Option<Tracing>,
    files: Vec<(PathBuf, Option<Mark>)>,
}

impl Edge {
    /// Publishes the first settings.
    pub(super) fn start(config: &Config, publication: Publication) -> Result<Self, String> {
        let listeners = config.listeners.clone();
        let (fast_path, access_log, tracing) = (config.fast_path, config.access_log, config.tracing.clone());
        let mut edge = Self { publication, listeners, fast_path, access_log, tracing, files: Vec::new() };
        let first = edge.prepare(config)?;
        edge.put_in_force(first);
        Ok(edge)
    }

    /// The settings that a file has for the listeners that are open.
    pub(super) fn prepare(&self, config: &Config) -> Result<Prepared, String> {
        let mut listeners = self.listeners.clone();
        for wanted in &config.listeners {
            if let Some(open) = listeners.iter_mut().find(|open| is_same_place(open, wanted)) {
                *open = wanted.clone();
            }
        }
        self.read(listeners, config.access_log, config.tracing.clone())
    }

    pub(super) fn put_in_force(&mut self, prepared: Prepared) {
        let Prepared { settings, listeners, access_log, tracing, files } = prepared;
        self.publication.publish_settings(settings);
        (self.files, self.listeners, self.access_log, self.tracing) = (files, listeners, access_log, tracing);
    }

    /// Reads the files again that are in use. On a fault the former certificates stay in force.
    pub(super) fn read_again(&mut self) {
        match self.read(self.listeners.clone(), self.access_log, self.tracing.clone()) {
            Ok(prepared) => {
                self.put_in_force(prepared);
                info!("the changed certificates are in force");
            }
            Err(cause) => error!("the changed certificates were refused, the former ones stay in force: {cause}"),
        }
    }

    /// Whether a certificate, key or authority was written or replaced since the last call.
    pub(super) fn files_changed(&mut self) -> bool {
        let mut changed = false;
        for (path, mark) in &mut self.files {
            let now = mark_of(path);
            changed |= now != *mark;
            *mark = now;
        }
        changed
    }

    fn read(
        &self,
        listeners: Vec<Listener>,
        access_log: Option<AccessLog>,
        tracing: Option<Tracing>,
    ) -> Result<Prepared, String> {
        let sample = tracing.as_ref().map(|tracing| tracing.sample);
        // Marked first: what changes while it is read is seen by the next look.
        let files = files(&listeners).map(|path| (path.clone(), mark_of(path))).collect();
        let before = self.publication.settings();
        let settings = listeners.iter().enumerate().map(|(index, listener)| {
            let before = before.listeners.get(index).and_then(|before| before.tls.as_ref());
            let tls = listener.tls.as_ref().map(|tls| server_tls(listener, tls, before)).transpose()?;
            Ok(ListenerSettings {
                limits: limits(listener.limits),
                protocols: listener.http,
                proxy_protocol: listener.proxy_protocol,
                tls,
                access_log: access_log.map(published),
                tracing: sample,
                fast_path: self.fast_path,
            })
        });
        let listener_settings = settings.collect::<Result<_, String>>()?;
        let collector = tracing.as_ref().map(|tracing| Arc::new(collector(tracing)));
        let settings = Settings { listeners: listener_settings, collector };
        Ok(Prepared { settings, listeners, access_log, tracing, files })
    }
}

/// Whether both files listen at the same addresses under the same names.
pub(super) fn same_places(before: &[Listener], after: &[Listener]) -> bool {
    before.len() == after.len() && before.iter().zip(after).all(|(a, b)| is_same_place(a, b))
}

fn is_same_place(a: &Listener, b: &Listener) -> bool {
    (&a.name, a.listen) == (&b.name, b.listen)
}

fn files(listeners: &[Listener]) -> impl Iterator<Item = &PathBuf> {
    listeners
        .iter()
        .filter_map(|listener| listener.tls.as_ref())
        .flat_map(|tls| tls.certificates.iter().flat_map(|files| [&files.cert, &files.key]).chain(&tls.client_ca))
}

fn mark_of(path: &Path) -> Option<Mark> {
    let of = fs::metadata(path).ok()?;
    Some((of.dev(), of.ino(), of.mtime(), of.mtime_nsec(), of.size()))
}

fn server_tls(listener: &Listener, tls: &Tls, before: Option<&ServerTls>) -> Result<ServerTls, String> {
    let mut pairs = Vec::new();
    for files in &tls.certificates {
        let pair = Pair::read(&files.cert, &files.key).map_err(|fault| {
            let path = if fault.part == Part::Key { &files.key } else { &files.cert };
            format!("{} {fault}", path.display())
        })?;
        pairs.push(pair);
    }
    let authorities = tls
        .client_ca
        .as_ref()
        .map(|path| Authorities::read(path).map_err(|fault| format!("{} {fault}", path.display())));
    ServerTls::new(&pairs, authorities.transpose()?.as_ref(), listener.http, before)
        .map_err(|error| format!("listener `{}` cannot use its certificates: {error}", listener.name))
}

fn published(of: AccessLog) -> publish::AccessLog {
    let format = if of.is_json { AccessLogFormat::Json } else { AccessLogFormat::Combined };
    publish::AccessLog { format, sample_success: of.sample_success }
}

fn collector(of: &Tracing) -> Collector {
    let headers = of.headers.iter().filter_map(|(name, value)| {
        let mut value = HeaderValue::from_str(value.reveal()).ok()?;
        value.set_sensitive(true);
        Some((name.clone(), value))
    });
    Collector { url: of.otlp.clone(), headers: headers.collect() }
}

fn limits(of: Limits) -> publish::Limits {
    publish::Limits {
        header_bytes: of.header_bytes,
        headers: of.headers,
        header_timeout: of.header_timeout,
        body_timeout: of.body_timeout,
        idle_timeout: of.idle_timeout,
        connections: of.connections,
        h2_streams: of.h2_streams,
    }
}
