//! Listeners: where clients come in, by which protocols, with which certificates, and what one client may take.
//! Refuses certificates and keys that a handshake would fail on.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use super::{
    diagnostic::{Code, Span},
    file::{WAIT, below},
    report::{At, Fields, Report},
    service,
    settings::{CertificateFiles, Limits, Listener, Tls},
    shape,
};
use crate::tls::{Authorities, Fault, Pair, Part, Protocols, Validity};
use crate::{clock::Clock, engine::time::Timestamp};

/// Most listeners of a file.
pub const LISTENERS_MAX: usize = 64;
/// Most certificates of a listener.
pub const CERTIFICATES_MAX: usize = 1_000;
/// How long before its end a certificate is worth a warning.
const ENDS_SOON: Duration = Duration::from_hours(7 * 24);

/// All listeners, each with the place of its address; files are relative to `folder`.
pub fn listeners(file: &Fields<'_>, folder: &Path, report: &mut Report) -> Vec<(Listener, Span)> {
    let help = "say where clients come in: `listen: 0.0.0.0:8080`";
    match (file.get("listen"), file.get("listeners")) {
        (None, None) => report.missing(file.at(), "listen", help),
        (Some(short), Some(long)) => {
            report
                .error(Code::Conflict, &long.key_span, "`listen` and `listeners` exclude each other")
                .related(&short.key_span, "the short form is here")
                .help("keep one; `listen: ADDRESS` is short for one entry of `listeners`");
        }
        (Some(short), None) => {
            return report.address(&short).map(|listen| (Listener::at(listen), short.span())).into_iter().collect();
        }
        (None, Some(long)) => {
            let items = report.items(&long, LISTENERS_MAX).unwrap_or_default();
            let read: Vec<_> = items.iter().filter_map(|at| listener(at, folder, report)).collect();
            for (index, (this, span)) in read.iter().enumerate() {
                if let Some((_, first)) = read[..index].iter().find(|(other, _)| other.name == this.name) {
                    let message = format!("two listeners are named `{}`", this.name);
                    report.error(Code::Conflict, span, message).related(first, "the first is here");
                }
            }
            return read;
        }
    }
    Vec::new()
}

fn listener(at: &At<'_>, folder: &Path, report: &mut Report) -> Option<(Listener, Span)> {
    let fields = report.fields(at, &shape::LISTENER)?;
    let listen = fields.need(report, "listen", "say which address: `listen: 0.0.0.0:8080`");
    let span = listen.as_ref().map(At::span);
    let listen = listen.and_then(|at| report.address(&at));
    let name = fields
        .need(report, "name", "a listener's name is its label in logs and metrics: `name: http`")
        .and_then(|at| service::name(&at, report));
    let http = fields.get("http").map_or(Some(Protocols::BOTH), |at| protocols(&at, report));
    let proxy_protocol = fields.get("proxyProtocol");
    let words = [("true", true), ("false", false)];
    let proxy_protocol = proxy_protocol.map_or(Some(false), |at| report.word(&at, &words));
    let tls = fields.get("tls").map(|at| tls(&at, folder, report));
    let limits = fields.get("limits").map_or(Some(Limits::default()), |at| limits(&at, report));
    let tls = match tls {
        Some(tls) => Some(tls?),
        None => None,
    };
    Some((
        Listener { name: name?, listen: listen?, http: http?, proxy_protocol: proxy_protocol?, tls, limits: limits? },
        span?,
    ))
}

fn protocols(at: &At<'_>, report: &mut Report) -> Option<Protocols> {
    let items = report.items(at, 2)?;
    let words: Vec<_> = items.iter().filter_map(|item| report.word(item, &[("h1", 1), ("h2", 2)])).collect();
    (words.len() == items.len()).then(|| Protocols { h1: words.contains(&1), h2: words.contains(&2) })
}

fn tls(at: &At<'_>, folder: &Path, report: &mut Report) -> Option<Tls> {
    let fields = report.fields(at, &shape::LISTENER_TLS)?;
    let help = "name a certificate and its key: `certificates: [{ cert: tls.crt, key: tls.key }]`";
    let certificates = fields.need(report, "certificates", help).and_then(|at| {
        let items = report.items(&at, CERTIFICATES_MAX)?;
        let read: Vec<_> = items.iter().filter_map(|item| certificate(item, folder, report)).collect();
        (read.len() == items.len()).then_some(read)
    });
    let client_ca = match fields.get("clientCa") {
        None => None,
        Some(at) => {
            let path = below(folder, &report.filled(&at, "a file such as `ca.crt`")?);
            if let Err(fault) = Authorities::read(&path) {
                file_fault(&at, &fault, report);
                return None;
            }
            Some(path)
        }
    };
    Some(Tls { certificates: certificates?, client_ca })
}

fn certificate(at: &At<'_>, folder: &Path, report: &mut Report) -> Option<CertificateFiles> {
    let fields = report.fields(at, &shape::CERTIFICATE)?;
    let cert_at = fields.need(report, "cert", "name the certificate's file: `cert: tls.crt`");
    let key_at = fields.need(report, "key", "name the key's file: `key: tls.key`");
    let (cert_at, key_at) = (cert_at?, key_at?);
    let cert = report.filled(&cert_at, "a file such as `tls.crt`");
    let key = report.filled(&key_at, "a file such as `tls.key`");
    let files = CertificateFiles { cert: below(folder, &cert?), key: below(folder, &key?) };
    match Pair::read(&files.cert, &files.key) {
        Ok(pair) => {
            advise(&cert_at, &pair, report);
            Some(files)
        }
        Err(fault) => {
            file_fault(if fault.part == Part::Key { &key_at } else { &cert_at }, &fault, report);
            None
        }
    }
}

/// Says what is wrong with a file that is named here.
pub(super) fn file_fault(at: &At<'_>, fault: &Fault, report: &mut Report) {
    let code = if fault.is_absent { Code::BadReference } else { Code::BadValue };
    report.error(code, &at.span(), format!("`{}` {}", at.name, fault.message)).help(fault.help);
}

/// What is odd about a certificate that can be used.
fn advise(at: &At<'_>, pair: &Pair, report: &mut Report) {
    let now = SystemTime::UNIX_EPOCH + Duration::from_millis(Clock::start(Timestamp::default()).now().as_millis());
    let (message, help) = match (pair.validity(now), pair.validity(now + ENDS_SOON)) {
        (Validity::Ended(end), _) => {
            (format!("the certificate expired on {}", day(end)), "clients refuse it; put a new one in its place")
        }
        (Validity::Begins(begin), _) => {
            (format!("the certificate is not valid before {}", day(begin)), "clients refuse it until then")
        }
        (Validity::Valid, Validity::Ended(end)) => (
            format!("the certificate expires on {}", day(end)),
            "put a new one in its place before that; it is taken up without a restart",
        ),
        (Validity::Valid, _) => return,
    };
    report.warning(&at.span(), message).help(help);
}

fn day(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).map_or_else(|_| "a day".to_owned(), |at| at.strftime("%Y-%m-%d").to_string())
}

fn limits(at: &At<'_>, report: &mut Report) -> Option<Limits> {
    let fields = report.fields(at, &shape::LIMITS)?;
    let base = Limits::default();
    let header_bytes = fields.get("headerBytes").map(|at| report.size(&at, 8 << 10..=1 << 20));
    let headers = fields.get("headers").map(|at| report.whole(&at, 1..=1_000));
    let header_timeout = fields.get("headerTimeout").map(|at| report.duration(&at, WAIT));
    let body_timeout = fields.get("bodyTimeout").map(|at| report.duration(&at, WAIT));
    let idle_timeout = fields.get("idleTimeout").map(|at| report.duration(&at, WAIT));
    let connections = fields.get("connections").map(|at| report.whole(&at, 1..=1_000_000));
    let h2_streams = fields.get("h2Streams").map(|at| report.whole(&at, 1..=10_000));
    Some(Limits {
        header_bytes: header_bytes.unwrap_or(Some(base.header_bytes))?,
        headers: headers.map_or(Some(base.headers), |n| usize::try_from(n?).ok())?,
        header_timeout: header_timeout.unwrap_or(Some(base.header_timeout))?,
        body_timeout: body_timeout.unwrap_or(Some(base.body_timeout))?,
        idle_timeout: idle_timeout.unwrap_or(Some(base.idle_timeout))?,
        connections: connections.map_or(Some(base.connections), |n| usize::try_from(n?).ok())?,
        h2_streams: h2_streams.map_or(Some(base.h2_streams), |n| u32::try_from(n?).ok())?,
    })
}
