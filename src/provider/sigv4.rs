//! Signature Version 4 of Amazon's APIs, for a POST with a body.

use std::fmt::Write as _;

use jiff::Timestamp;
use ring::{digest, hmac};

/// Whose signature.
pub(super) struct Credentials<'a> {
    pub(super) access_key: &'a str,
    pub(super) secret_key: &'a str,
}

/// What is signed.
pub(super) struct Signed<'a> {
    pub(super) region: &'a str,
    pub(super) service: &'a str,
    pub(super) path: &'a str,
    /// All of them in lower case and sorted by name, `host` and `x-amz-date` included.
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: &'a str,
}

/// `20150830T123600Z`
pub(super) fn amz_date(at: Timestamp) -> String {
    at.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// The value of `authorization`.
pub(super) fn authorization(signed: &Signed<'_>, credentials: &Credentials<'_>, amz_date: &str) -> String {
    let day = amz_date.get(..8).unwrap_or(amz_date);
    let scope = format!("{day}/{}/{}/aws4_request", signed.region, signed.service);
    let names: Vec<&str> = signed.headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let mut canonical = format!("POST\n{}\n\n", signed.path);
    for (name, value) in signed.headers {
        // Writing into a string cannot fail.
        let _ = writeln!(canonical, "{name}:{}", value.trim());
    }
    let _ = write!(canonical, "\n{names}\n{}", hash(signed.body.as_bytes()));
    let to_sign = format!("AWS4-HMAC-SHA256\n{amz_date}\n{scope}\n{}", hash(canonical.as_bytes()));
    let key = format!("AWS4{}", credentials.secret_key);
    let key = [day, signed.region, signed.service, "aws4_request"]
        .iter()
        .fold(key.into_bytes(), |key, part| keyed(&key, part.as_bytes()));
    let signature = hex(&keyed(&key, to_sign.as_bytes()));
    format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
        credentials.access_key
    )
}

fn keyed(key: &[u8], data: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data).as_ref().to_vec()
}

fn hash(data: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, data).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The `post-vanilla` and `post-x-www-form-urlencoded` cases of Amazon's own test suite.
    #[test]
    fn signatures_are_those_of_amazons_test_suite() {
        let credentials =
            Credentials { access_key: "AKIDEXAMPLE", secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" };
        let date = "20150830T123600Z";
        let vanilla = [("host", "example.amazonaws.com"), ("x-amz-date", date)];
        let form = [
            ("content-type", "application/x-www-form-urlencoded"),
            ("host", "example.amazonaws.com"),
            ("x-amz-date", date),
        ];
        for (headers, body, signature) in [
            (&vanilla[..], "", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
            (&form[..], "Param1=value1", "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"),
        ] {
            let signed = Signed { region: "us-east-1", service: "service", path: "/", headers, body };
            let value = authorization(&signed, &credentials, date);
            assert!(value.ends_with(&format!("Signature={signature}")), "{value}");
            assert!(value.contains("Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"), "{value}");
        }
    }

    #[test]
    fn the_date_is_written_as_amazon_reads_it() {
        assert_eq!(amz_date(Timestamp::from_second(1_440_938_160).unwrap()), "20150830T123600Z");
    }
}
