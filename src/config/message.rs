//! Pieces of HTTP messages as values: names and values of fields, methods, hosts, paths, conditions on texts, networks.
//! Refuses what could not stand in a message, and fields that are not the user's to change.

use std::net::IpAddr;

use http::{HeaderName, HeaderValue, Method, header};

use super::{
    diagnostic::Code,
    report::{At, Fields, Problem, Report},
};
use crate::engine::{
    address::{Address, Network},
    request::{Pattern, StringMatch},
};

/// Longest pattern, in bytes.
const PATTERN_TEXT_MAX: usize = 512;
/// Most networks of a list.
const NETWORKS_MAX: usize = 256;

/// A token of RFC 9110, 5.6.2, which names of headers and cookies are.
pub fn token(at: &At<'_>, noun: &str, report: &mut Report) -> Option<String> {
    report.scalar(at, noun, |text| {
        if is_token(text) {
            return Ok(text.to_owned());
        }
        Err(Problem::new(format!("is not {noun}"), "use letters, digits and `-`"))
    })
}

/// The name of a header field.
pub fn header_name(at: &At<'_>, report: &mut Report) -> Option<HeaderName> {
    HeaderName::from_bytes(token(at, "a header's name", report)?.as_bytes()).ok()
}

/// Entries of a mapping from a header's name to what `read` makes of it; fields that say how a message is framed or
/// where it goes are refused.
pub fn by_header<T>(
    at: &At<'_>,
    report: &mut Report,
    mut read: impl FnMut(&At<'_>, &mut Report) -> Option<T>,
) -> Vec<(HeaderName, T)> {
    let mut all = Vec::new();
    for field in report.entries(at).unwrap_or_default() {
        let entry = at.entry(field);
        let name = changeable(&entry.name, &entry, report);
        all.extend(name.zip(read(&entry, report)));
    }
    all
}

/// A header's name that filters may change.
pub fn changeable(text: &str, at: &At<'_>, report: &mut Report) -> Option<HeaderName> {
    let name = HeaderName::from_bytes(text.as_bytes()).ok().filter(|_| is_token(text));
    let Some(name) = name else {
        report.error(Code::BadValue, &at.span(), "this is not a header's name").help("use letters, digits and `-`");
        return None;
    };
    let help = match name {
        header::HOST => "write `rewrite: { host: … }`",
        header::CONNECTION
        | header::CONTENT_LENGTH
        | header::TE
        | header::TRAILER
        | header::TRANSFER_ENCODING
        | header::UPGRADE => "it says how the message is sent, which Serin does itself",
        _ => return Some(name),
    };
    report.error(Code::BadValue, &at.key_span, format!("`{name}` cannot be changed by a filter")).help(help);
    None
}

/// A header's value: visible text on one line.
pub fn header_value(at: &At<'_>, report: &mut Report) -> Option<HeaderValue> {
    report.scalar(at, "a header's value", |text| {
        HeaderValue::from_str(text)
            .map_err(|_| Problem::new("is not a header's value", "use printable text on one line"))
    })
}

/// A method, which is compared in its case.
pub fn method(at: &At<'_>, report: &mut Report) -> Option<Method> {
    report.scalar(at, "a method such as `GET`", |text| {
        let upper = text.to_ascii_uppercase();
        match Method::from_bytes(text.as_bytes()) {
            Ok(method) if text == upper && text.len() <= 64 => Ok(method),
            Ok(_) if text.len() <= 64 => {
                Err(Problem::new("is in lower case, and methods are compared in their case", "write it as `GET`")
                    .fix(Some(format!("`{upper}`"))))
            }
            _ => Err(Problem::new("is not a method", "write it as `GET` or `POST`")),
        }
    })
}

/// A host name or address without port, made lower case.
pub fn host(at: &At<'_>, wildcard: bool, report: &mut Report) -> Option<String> {
    report.scalar(at, "a host such as `shop.example`", |text| {
        let name = text.strip_prefix("*.").filter(|_| wildcard).unwrap_or(text);
        if name.contains("://") || name.contains('/') {
            return Err(Problem::new("is more than a host", "write the host alone, as `shop.example`"));
        }
        if let Some((before, port)) = name.rsplit_once(':').filter(|_| !name.ends_with(']'))
            && port.bytes().all(|b| b.is_ascii_digit())
        {
            let fix = Some(format!("`{before}`"));
            return Err(Problem::new("has a port, which is not compared", "write the host alone").fix(fix));
        }
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        };
        let is_v6 = name.starts_with('[') && name.ends_with(']');
        if name.len() <= 253 && (is_v6 || name.split('.').all(is_label)) {
            return Ok(text.to_ascii_lowercase());
        }
        let help = if wildcard { "write it as `shop.example` or `*.example`" } else { "write it as `shop.example`" };
        Err(Problem::new("is not a host", help))
    })
}

/// A path that begins with `/`, without query.
pub fn path(at: &At<'_>, report: &mut Report) -> Option<String> {
    report.scalar(at, "a path such as `/shop`", |text| {
        let problem = |message: &str, help: &str| Err(Problem::new(message, help));
        if !text.starts_with('/') {
            return Err(Problem::new("is not a path", "a path begins with `/`").fix(Some(format!("`/{text}`"))));
        }
        if text.contains(['?', '#']) {
            return problem("has a query or a fragment", "write the path alone; conditions on the query go to `query`");
        }
        if text.contains("//") || text.split('/').any(|part| matches!(part, "." | "..")) {
            return problem("has empty or dot segments", "write it in its plain form, as `/a/b`");
        }
        if text.len() > 1024 || text.parse::<http::uri::PathAndQuery>().is_err() {
            return problem("is not a path", "use at most 1024 bytes, without spaces; write `%20` for one");
        }
        Ok(text.to_owned())
    })
}

/// A regular expression.
pub fn pattern(at: &At<'_>, report: &mut Report) -> Option<Pattern> {
    report.scalar(at, "a regular expression", |text| {
        if text.is_empty() || text.len() > PATTERN_TEXT_MAX {
            let help = format!("write one of 1 to {PATTERN_TEXT_MAX} bytes");
            return Err(Problem::new("is not a regular expression of a useful length", help));
        }
        Pattern::new(text).map_err(|error| {
            let help = format!("{error}; the pattern must cover the whole text");
            Problem::new("is not a regular expression", help)
        })
    })
}

/// `exact`, `prefix` or `regex`: just one of them, out of the fields of a mapping.
pub fn condition(fields: &Fields<'_>, report: &mut Report) -> Option<StringMatch> {
    let kind = one_of(fields, &["exact", "prefix", "regex"], report)?;
    match &*kind.name {
        "regex" => pattern(&kind, report).map(StringMatch::Regex),
        "prefix" => report.filled(&kind, "a beginning").map(StringMatch::Prefix),
        _ => report.scalar(&kind, "a text", |text| Ok(StringMatch::Exact(text.to_owned()))),
    }
}

/// The one field of these that is there; reports none and more than one.
pub fn one_of<'a>(fields: &Fields<'a>, names: &[&str], report: &mut Report) -> Option<At<'a>> {
    let all = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let mut found = names.iter().filter_map(|name| fields.get(name));
    let Some(first) = found.next() else {
        let place = fields.at();
        report
            .error(Code::MissingField, &place.span(), format!("`{}` needs one of {all}", place.name))
            .help("say what it is compared with");
        return None;
    };
    if let Some(second) = found.next() {
        report
            .error(
                Code::Conflict,
                &second.key_span,
                format!("`{}` and `{}` exclude each other", first.name, second.name),
            )
            .related(&first.key_span, "the other is here")
            .help("keep one of them");
    }
    Some(first)
}

/// A list of networks.
pub fn networks(at: &At<'_>, report: &mut Report) -> Vec<Network> {
    let items = report.items(at, NETWORKS_MAX).unwrap_or_default();
    items.iter().filter_map(|item| network(item, report)).collect()
}

fn network(at: &At<'_>, report: &mut Report) -> Option<Network> {
    let parse = |text: &str| {
        Some(match text.parse().ok()? {
            IpAddr::V4(address) => Address::v4(address.octets()),
            IpAddr::V6(address) => Address::v6(address.octets()),
        })
    };
    report.scalar(at, "a network such as `10.0.0.0/8`", |text| {
        Network::read(text, parse).map_err(|error| Problem::new("is not a network", error.to_string()))
    })
}

fn is_token(text: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (1..=128).contains(&text.len()) && text.bytes().all(fine)
}
