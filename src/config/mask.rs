//! Excerpts without secrets: a copy of the file, byte for byte as long, in which what looks like a secret is stars.
//! Refuses to know the fields: a misspelt token must not be shown either, nor one in a file that is not YAML.

use super::{
    suggest,
    yaml::{Field, Node, Value},
};

/// A key that contains one of these, or nearly is one of the fields, holds a secret.
const WORDS: [&str; 10] =
    ["slack", "webhook", "token", "secret", "password", "passwd", "authorization", "credential", "apikey", "appkey"];
const FIELDS: [&str; 4] = ["readToken", "writeToken", "secret", "password"];

/// The copy for a file that could be read as YAML.
#[must_use]
pub fn by_tree(source: &str, root: &Node) -> String {
    let mut bytes = source.as_bytes().to_vec();
    hide_in(&mut bytes, root, false);
    hide_in_urls(&mut bytes, source);
    text(bytes)
}

/// The copy for a file that is not YAML: from the colon after a secret's key to the end of its line, and the deeper
/// lines below it.
#[must_use]
pub fn by_line(source: &str) -> String {
    let mut bytes = source.as_bytes().to_vec();
    let mut start = 0;
    let mut secret_above: Option<usize> = None;
    for line in source.split_inclusive('\n') {
        let indent = line.len() - line.trim_start().len();
        if secret_above.is_some_and(|above| indent > above || line.trim().is_empty()) {
            hide(&mut bytes, start, start + line.len());
        } else {
            let value = line.match_indices(':').find(|(at, _)| is_secret(key_before(&line[..*at])));
            if let Some((at, _)) = value {
                hide(&mut bytes, start + at + 1, start + line.len());
            }
            secret_above = value.map(|_| indent);
        }
        start += line.len();
    }
    hide_in_urls(&mut bytes, source);
    text(bytes)
}

fn is_secret(key: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    WORDS.iter().any(|word| lower.contains(word)) || suggest::closest(key, FIELDS).is_some()
}

/// The word at the end, which before a colon is a key.
fn key_before(text: &str) -> &str {
    let text = text.trim_end().trim_end_matches(['"', '\'']);
    text.rsplit(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_'))).next().unwrap_or_default()
}

fn hide_in(bytes: &mut [u8], node: &Node, secret: bool) {
    match &node.value {
        Value::Null => {}
        // What could not be replaced from the environment may have a secret beside the reference.
        Value::Scalar(_) | Value::Unresolved => {
            if secret && !is_bare_reference(&bytes[node.span.clone()]) {
                hide(bytes, node.span.start, node.span.end);
            }
        }
        Value::List(items) => items.iter().for_each(|item| hide_in(bytes, item, secret)),
        Value::Map(fields) => {
            for field in fields {
                hide_in(bytes, &field.node, secret || is_secret(&field.key));
                // Who leaves out `webhook:` has written the URL itself.
                if let (Value::List(items), "notify") = (&field.node.value, &*field.key) {
                    let bare = items.iter().filter(|item| matches!(item.value, Value::Scalar(_)));
                    bare.for_each(|item| hide_in(bytes, item, true));
                }
                if let (Value::List(headers), "headers") = (&field.node.value, &*field.key) {
                    for header in headers {
                        hide_value(bytes, header);
                    }
                }
                if field.key == "tracing" {
                    hide_address(bytes, &field.node);
                }
                if let (Value::List(gates), "gates") = (&field.node.value, &*field.key) {
                    for gate in gates {
                        hide_address(bytes, gate);
                    }
                }
            }
        }
    }
}

/// `{ key: x, value: … }`, a header field that we send.
fn hide_value(bytes: &mut [u8], header: &Node) {
    let Value::Map(fields) = &header.value else { return };
    fields.iter().filter(|field| field.key == "value").for_each(|field| hide_in(bytes, &field.node, true));
}

/// Name and password before the host of a URL, and keys in its query, wherever one is written.
fn hide_in_urls(bytes: &mut [u8], source: &str) {
    for (at, _) in source.match_indices("://") {
        let start = at + "://".len();
        let rest = &source[start..];
        let end = rest.find(|c: char| c.is_whitespace() || "/\"'`,}]".contains(c)).unwrap_or(rest.len());
        if let Some(user) = rest[..end].rfind('@') {
            hide(bytes, start, start + user);
        }
        let end = rest.find(|c: char| c.is_whitespace() || "\"'`,}]".contains(c)).unwrap_or(rest.len());
        let Some(query) = rest[..end].find('?') else { continue };
        let mut at = start + query + 1;
        for pair in source[at..start + end].split(['&', ';', '#']) {
            if let Some((key, value)) = pair.split_once('=').filter(|(key, _)| is_secret_parameter(key)) {
                hide(bytes, at + key.len() + 1, at + key.len() + 1 + value.len());
            }
            at += pair.len() + 1;
        }
    }
}

/// As queries name them: `api_key`, `sig`.
fn is_secret_parameter(key: &str) -> bool {
    let key = key.replace(['_', '-', '.'], "").to_ascii_lowercase();
    is_secret(&key) || key.ends_with("key") || ["auth", "sig", "signature", "pwd", "pass", "code"].contains(&&*key)
}

/// How a gate or a collector is asked: its URL may be a password, and its header fields are.
fn hide_address(bytes: &mut [u8], asked: &Node) {
    let Value::Map(fields) = &asked.value else { return };
    let secret = |field: &&Field| suggest::closest(&field.key, ["url", "otlp", "headers"]).is_some();
    fields.iter().filter(secret).for_each(|field| hide_in(bytes, &field.node, true));
}

/// `${NAME}` and `${NAME:-}` show nothing, and seeing them helps.
fn is_bare_reference(written: &[u8]) -> bool {
    let text = std::str::from_utf8(written).unwrap_or_default().trim_matches(['"', '\'']);
    let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| {
        name.strip_suffix(":-").unwrap_or(name).bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

fn hide(bytes: &mut [u8], start: usize, end: usize) {
    for byte in bytes.get_mut(start..end).unwrap_or_default() {
        if !matches!(byte, b'\n' | b'\r' | b' ') {
            *byte = b'*';
        }
    }
}

fn text(bytes: Vec<u8>) -> String {
    // Whole characters were replaced, byte by byte, so this is UTF-8; nothing is shown should that ever be wrong.
    String::from_utf8(bytes).unwrap_or_else(|error| "*".repeat(error.as_bytes().len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::yaml;

    #[test]
    fn secrets_are_stars_and_nothing_moves() {
        let source = "admin:\n  readTokn: hünter2\n  readToken: ${R:-}\n  writeToken: \"${W:-geheim}\"\nlisten: 1\n";
        let masked = by_tree(source, &yaml::read(source).unwrap());
        assert_eq!(masked.len(), source.len());
        let expected = "admin:\n  readTokn: ********\n  readToken: ${R:-}\n  writeToken: **************\nlisten: 1\n";
        assert_eq!(masked, expected);
    }

    #[test]
    fn a_secret_beside_a_reference_that_leads_nowhere_is_stars() {
        let source = "admin:\n  readToken: hunter2${NOWHERE}\n  writeToken: ${NOWHERE}\nlisten: 1\n";
        let shown = crate::config::check(source, std::path::Path::new("x.yaml"), &|_| None).diagnostics.to_string();
        assert!(shown.contains("NOWHERE") && !shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn a_user_in_a_url_and_the_value_of_a_header_are_stars() {
        let source = "a: http://ann:geheim@host/x\nb: [\"https://geheim@host\"]\nc: http://host/@x\n\
                      headers: [{ key: X-Key, value: geheim }]\nprovider: { datadog: { apiKey: geheim, appKey: geheim } }\n";
        let tree = by_tree(source, &yaml::read(source).unwrap());
        assert!(!tree.contains("geheim") && !tree.contains("ann") && tree.len() == source.len(), "{tree}");
        assert!(tree.contains("@host/x") && tree.contains("http://host/@x") && tree.contains("key: X-Key"), "{tree}");
        let lines = by_line("a: http://ann:geheim@host\nb: [");
        assert_eq!(lines, "a: http://**********@host\nb: [");
    }

    #[test]
    fn a_key_in_the_query_of_a_url_was_shown() {
        let source = "a: \"https://host/q?api_key=geheim&from=now&X-Auth-Token=geheim#x\"\nb: [http://host?sig=geheim, http://host?q=up]\n";
        let shown = "a: \"https://host/q?api_key=******&from=now&X-Auth-Token=******#x\"\nb: [http://host?sig=******, http://host?q=up]\n";
        assert_eq!(by_tree(source, &yaml::read(source).unwrap()), shown);
        assert_eq!(by_line(source), shown);
    }

    #[test]
    fn secrets_are_stars_in_what_is_not_yaml() {
        for (source, masked) in [
            ("a: [\n  writeToken: hunter2\n b: 1", "a: [\n  writeToken: *******\n b: 1"),
            ("a: { listen: x, 'readTokn': hunter2, b: ]", "a: { listen: x, 'readTokn': ******** ** *"),
            ("a:\n readToken: |\n  hunter2\n\n  more\n b: [", "a:\n readToken: *\n  *******\n\n  ****\n b: ["),
            ("listen: 0.0.0.0:80\nä: [", "listen: 0.0.0.0:80\nä: ["),
        ] {
            assert_eq!(by_line(source), masked);
        }
    }
}
