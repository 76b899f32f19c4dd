//! A question about one request, and where it would go.

use serde::{Deserialize, Serialize};

use super::codec;
use crate::engine::{
    explain::{Copied, Explanation, Outcome},
    names::{Role, ServiceName, VersionName},
    weight::Weight,
};

/// `POST explain-request`: a request that is not sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestQuestion {
    /// `GET` without.
    #[serde(default = "get")]
    pub method: String,
    /// `http://host[:port]/path?query`, or `https://…` for a client who comes by TLS.
    pub url: String,
    /// Fields as `[name, value]`, in their order.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// The client's address; 127.0.0.1 without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<std::net::IpAddr>,
}

/// Where it would go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestAnswer {
    /// The route that takes it.
    pub route: Option<String>,
    /// Set when the proxy answers itself: 404 without a route, or the status of a redirect.
    pub status: Option<u16>,
    /// Where a redirect leads to.
    pub location: Option<String>,
    /// The service that it reaches.
    #[serde(with = "codec::word_option", default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceName>,
    /// `forced`, `cohort`, `sticky` or `sampled`.
    pub reason: Option<String>,
    /// What decides, in words.
    pub because: String,
    /// The client's bucket, where it is known.
    pub bucket: Option<u32>,
    /// Who may get it; one alone where it is certain.
    pub versions: Vec<Candidate>,
    /// Copies that it may have; their answers are thrown away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<RequestCopy>,
}

/// A copy of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestCopy {
    /// To a version of this service.
    #[serde(with = "codec::word")]
    pub service: ServiceName,
    /// To this one.
    #[serde(with = "codec::word")]
    pub version: VersionName,
    /// With this chance, in parts per million.
    #[serde(with = "codec::ppm")]
    pub chance_ppm: Weight,
    /// What asks for it, in words.
    pub because: String,
}

/// A version that may get the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// Its name.
    #[serde(with = "codec::word")]
    pub version: VersionName,
    /// Its part.
    #[serde(with = "codec::word")]
    pub role: Role,
    /// Its chance, in parts per million.
    #[serde(with = "codec::ppm")]
    pub chance_ppm: Weight,
}

fn get() -> String {
    "GET".to_owned()
}

impl From<Explanation> for RequestAnswer {
    fn from(told: Explanation) -> Self {
        let mut answer = Self {
            route: told.route,
            status: None,
            location: None,
            service: None,
            reason: None,
            because: String::new(),
            bucket: None,
            versions: Vec::new(),
            copies: Vec::new(),
        };
        match told.outcome {
            Outcome::NoRoute => {
                answer.status = Some(404);
                answer.because.push_str("no route takes this request");
            }
            Outcome::Redirect { status, location } => {
                (answer.status, answer.location) = (Some(status), Some(location));
                answer.because.push_str("the route redirects");
            }
            Outcome::Version(chosen) => {
                answer.service = Some(chosen.service);
                answer.reason = Some(chosen.reason.as_str().to_owned());
                answer.because = chosen.because;
                answer.bucket = chosen.bucket;
                let candidate = |(version, role, chance_ppm)| Candidate { version, role, chance_ppm };
                answer.versions = chosen.versions.into_iter().map(candidate).collect();
                let copy = |Copied { service, version, share, because }| RequestCopy {
                    service,
                    version,
                    chance_ppm: share,
                    because,
                };
                answer.copies = chosen.copies.into_iter().map(copy).collect();
            }
        }
        answer
    }
}
