//! Findings as SARIF 2.1.0, which code hosts show beside the lines of a pull request.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{
    diagnostic::{Diagnostics, Severity},
    manual,
};

/// One run with one result for each finding.
pub(super) fn sarif(found: &Diagnostics, file: &str) -> Value {
    let rules: Vec<Value> = manual::codes()
        .map(|code| json!({ "id": code, "shortDescription": { "text": manual::code_in_a_line(code) } }))
        .collect();
    let results: Vec<Value> = found
        .items()
        .iter()
        .map(|item| {
            let help = item.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
            let mut physical = json!({ "artifactLocation": { "uri": uri(file) } });
            if let Some((line, column)) = found.position(item) {
                physical["region"] = json!({ "startLine": line, "startColumn": column });
            }
            json!({
                "ruleId": item.code.as_str(),
                "level": match item.severity { Severity::Error => "error", Severity::Warning => "warning" },
                "message": { "text": format!("{}{help}", item.message) },
                "locations": [{ "physicalLocation": physical }],
            })
        })
        .collect();
    json!({
        "version": "2.1.0",
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "runs": [{
            "tool": { "driver": { "name": "serin check", "version": env!("CARGO_PKG_VERSION"), "rules": rules } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

/// A path as a relative reference: forward slashes, and what a URI does not allow as percent codes.
fn uri(path: &str) -> String {
    let mut uri = String::new();
    for byte in path.strip_prefix("./").unwrap_or(path).bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::check;

    #[test]
    fn each_finding_is_a_result_with_its_place_and_its_rule() {
        let found = check("listen: 127.0.0.1:1\nservics: {}\n", Path::new("./my config.yaml"), &|_| None).diagnostics;
        let sarif = found.to_sarif();
        let run = &sarif["runs"][0];
        let results = run["results"].as_array().unwrap();
        assert_eq!(results.len(), found.items().len());
        let typo = results.iter().find(|result| result["ruleId"] == "unknown-field").unwrap();
        assert_eq!(typo["level"], "error");
        assert_eq!(typo["message"]["text"], "unknown field `servics` in the file; did you mean `services`?");
        let place = &typo["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "my%20config.yaml");
        assert_eq!(place["region"], json!({ "startLine": 2, "startColumn": 1 }));
        let rules: Vec<_> = run["tool"]["driver"]["rules"].as_array().unwrap().iter().map(|rule| &rule["id"]).collect();
        assert!(results.iter().all(|result| rules.contains(&&result["ruleId"])));
    }
}
