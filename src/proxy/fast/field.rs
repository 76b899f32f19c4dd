//! Which names of fields mean something to the proxy.

/// What a field is to the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Passed on.
    Field,
    /// About this hop alone, and nothing comes of it.
    Hop,
    /// About this hop, in a request that the proxy has to settle.
    Settle,
    Connection,
    Coding,
    Length,
    Host,
    Cookie,
    /// Perhaps about where a request came from.
    Claim,
    Trailer,
    Kind,
    Caching,
    /// How a gRPC call ended.
    CallEnd,
    Date,
}

/// The part of a name in lower case.
pub(super) fn part_of(name: &[u8]) -> Part {
    match name {
        [b'c', ..] => match name {
            b"cookie" => Part::Cookie,
            b"connection" => Part::Connection,
            b"content-type" => Part::Kind,
            b"cache-control" => Part::Caching,
            b"content-length" => Part::Length,
            _ => Part::Field,
        },
        [b't', ..] => match name {
            b"te" => Part::Settle,
            b"trailer" => Part::Trailer,
            b"transfer-encoding" => Part::Coding,
            _ => Part::Field,
        },
        b"host" => Part::Host,
        b"date" => Part::Date,
        b"http2-settings" | b"upgrade" | b"expect" => Part::Settle,
        b"grpc-status" => Part::CallEnd,
        b"keep-alive" | b"proxy-connection" => Part::Hop,
        [b'x', ..] | b"forwarded" => Part::Claim,
        _ => Part::Field,
    }
}
