//! Passwords that stand in manifests. They are not copied: the config names the environment in their place, and the
//! report says so.

use super::{
    ledger::Ledger,
    manifest::Item,
    value::{key_of, scalar},
};

/// Whether what is called so is likely a password.
pub(super) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace(['-', '_'], "");
    let words =
        ["authorization", "cookie", "token", "secret", "password", "apikey", "appkey", "credential", "accesskey"];
    words.iter().any(|word| name.contains(word))
}

/// A name of the environment, made of words.
pub(super) fn environment(words: &[&str]) -> String {
    let fine = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let name: String = words.iter().filter(|word| !word.is_empty()).copied().collect::<Vec<_>>().join("_");
    let name: String = name.chars().map(fine).take(100).collect();
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { format!("SECRET_{name}") }
}

/// The value of a header, ready to be written; of one that is a password the environment.
pub(super) fn header(name: &str, item: &Item, ledger: &mut Ledger) -> String {
    let text = item.text().unwrap_or_default();
    // What an argument fills in is no password itself.
    if !is_secret(name) || text.is_empty() || text.contains("{{") {
        return scalar(text);
    }
    reference(&environment(&[name]), item, ledger)
}

/// The environment in place of an item.
pub(super) fn reference(name: &str, item: &Item, ledger: &mut Ledger) -> String {
    let name = ledger.secret(name, item.text().unwrap_or_default());
    let how = format!("not copied, as it is likely a password: set `{name}` in the environment, else it is empty");
    ledger.approximated(item, how);
    format!("\"${{{name}:-}}\"")
}

/// A mapping on one line, of values that are ready to be written.
pub(super) fn mapping(entries: &[(String, String)]) -> String {
    let entries: Vec<String> = entries.iter().map(|(key, value)| format!("{}: {value}", key_of(key))).collect();
    format!("{{ {} }}", entries.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_likely_a_password_is_known_by_its_name() {
        for name in ["Authorization", "X-Api-Key", "PRIVATE-TOKEN", "cookie", "DD_APP_KEY"] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["accept", "x-scope-orgid", "content-type"] {
            assert!(!is_secret(name), "{name}");
        }
        assert_eq!(environment(&["1st", "x-y"]), "SECRET_1ST_X_Y");
    }
}
