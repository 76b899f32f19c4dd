//! What a trace tells of a request: the note's own facts, no longer than they may be, without the query.

use super::{Note, Traced, line::cut};
use crate::measure::traces::{Routed, Trace};

/// The trace of a request that has ended.
pub(super) fn of(note: &Note, traced: &Traced) -> Box<Trace> {
    let routed = note.routed.borrow();
    let routed = routed.as_ref().map(|routed| Routed {
        service: routed.service.clone(),
        version: routed.version.clone(),
        role: routed.role,
        reason: routed.reason,
        outcome: routed.trip.outcome,
        attempts: routed.trip.attempts,
    });
    Box::new(Trace {
        id: traced.id,
        span: traced.span,
        parent: traced.parent,
        state: traced.state.clone(),
        started: traced.started,
        took: traced.took(),
        client: (note.client.ip().to_canonical(), note.client.port()),
        scheme: note.scheme,
        protocol: match note.protocol {
            "HTTP/1.0" => "1.0",
            "HTTP/2.0" => "2",
            _ => "1.1",
        },
        method: cut(note.method.as_str()),
        host: cut(&note.host),
        path: cut(&note.path),
        user_agent: note.user_agent.as_ref().map(|name| cut(&String::from_utf8_lossy(name.as_bytes()))),
        status: note.status.get(),
        error: note.error.get(),
        complete: note.ended.get(),
        bytes_out: note.bytes_out.get(),
        routed,
        attempts: traced.attempts(),
    })
}
