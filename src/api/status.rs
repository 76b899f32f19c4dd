//! Services, their rollouts and their versions on the wire: everything of the engine's view.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::{AnalysisRun, ConfigStatus, Event, codec};
use crate::engine::{
    event,
    health::{EndpointState, EndpointView},
    names::{Generation, Revision, Role, ServiceName, VersionName},
    samples,
    time::Timestamp,
    view::{self, PhaseView, Unit, Verdict},
    weight::Weight,
};

/// `GET services`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceList {
    /// When this was true.
    #[serde(with = "codec::word")]
    pub at: Timestamp,
    /// The table in force.
    pub generation: u64,
    /// What the file last said.
    pub config: ConfigStatus,
    /// Each service.
    pub services: Vec<Service>,
}

/// `GET services/{s}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceStatus {
    /// When this was true.
    #[serde(with = "codec::word")]
    pub at: Timestamp,
    /// What the file last said.
    pub config: ConfigStatus,
    /// The service.
    #[serde(flatten)]
    pub service: Service,
}

/// `GET services/{s}/why`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// It all in words, a line each.
    pub text: Vec<String>,
    /// The event that brought the service where it stands, as far as it is remembered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<Event>,
    /// The service as it is.
    #[serde(flatten)]
    pub status: ServiceStatus,
}

/// One service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    /// Its name.
    #[serde(with = "codec::word")]
    pub name: ServiceName,
    /// `Healthy`, `Progressing`, `Paused` or `Degraded`.
    #[serde(with = "codec::word")]
    pub phase: PhaseView,
    /// Why it stands there, where that needs saying.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_reason: Option<String>,
    /// The present or last attempt.
    pub revision: u64,
    /// The stable version.
    #[serde(with = "codec::word")]
    pub stable: VersionName,
    /// The canary, or the version that was withdrawn last.
    #[serde(with = "codec::word_option", default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<VersionName>,
    /// The running rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// Each configured version.
    pub versions: Vec<Version>,
    /// The latest event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_event: Option<Event>,
    /// Analysis runs, the latest last: those that ended (bounded), then those that go on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub analysis_runs: Vec<AnalysisRun>,
}

/// A running rollout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// When it started.
    #[serde(with = "codec::word")]
    pub started: Timestamp,
    /// The present step, from 1.
    pub step: usize,
    /// All steps, in words.
    pub steps: Vec<String>,
    /// Unpaused time in the present step.
    #[serde(with = "codec::millis")]
    pub in_step_ms: Duration,
    /// What must still happen before the next step.
    pub waiting: Vec<Waiting>,
    /// What would end the rollout, with where it stands.
    pub checks: Vec<Check>,
    /// The header routes in force, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub header_routes: Vec<String>,
    /// The mirror routes in force.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mirror_routes: Vec<MirrorRoute>,
    /// How soon the share test would see a bad canary; absent without weight or traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<Forecast>,
}

/// A mirror route in force: copies of requests that stable serves go to the canary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MirrorRoute {
    /// Its name.
    pub name: String,
    /// Of so many requests that meet it, in parts per million.
    #[serde(with = "codec::ppm")]
    pub share_ppm: Weight,
}

/// How soon a canary that fails a share of its requests would be seen: about, in the median.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// That share: twice stable's, and at least 1 %.
    pub error_rate: f64,
    /// Until it would be seen.
    #[serde(with = "codec::millis")]
    pub about_ms: Duration,
}

/// One thing that is awaited.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Waiting {
    /// Time.
    Time {
        /// This much.
        #[serde(with = "codec::millis")]
        left_ms: Duration,
    },
    /// Canary requests.
    Requests {
        /// Who needs them.
        check: String,
        /// Seen.
        have: u64,
        /// Needed.
        need: u64,
        /// How long it takes at the present rate.
        #[serde(with = "codec::millis_option", default, skip_serializing_if = "Option::is_none")]
        about_ms: Option<Duration>,
    },
    /// A person.
    Person,
    /// Something that lets the next step begin.
    Permit {
        /// What, in words.
        what: String,
        /// How long it takes, where that is known.
        #[serde(with = "codec::millis_option", default, skip_serializing_if = "Option::is_none")]
        left_ms: Option<Duration>,
    },
    /// An analysis run.
    Analysis {
        /// Which metric.
        metric: String,
        /// Where it stands, in words.
        state: String,
    },
}

/// One guard or analysis check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// e.g. `errorRate`.
    pub name: String,
    /// `pass`, `fail` or `noData`.
    #[serde(with = "codec::word")]
    pub verdict: Verdict,
    /// The value; absent without data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The limit.
    pub limit: f64,
    /// `ratio`, `seconds`, `logEvidence` or `count`.
    #[serde(with = "codec::word")]
    pub unit: Unit,
    /// Canary requests behind it.
    pub requests: u64,
    /// Requests it needs.
    pub min_requests: u64,
    /// The same value of stable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable: Option<f64>,
}

/// One version over the last minute at most, never past the last weight change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Its name.
    #[serde(with = "codec::word")]
    pub name: VersionName,
    /// Where it answers, when the config file does not name it: it was added by `start` with an endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_at: Option<String>,
    /// `stable`, `canary` or `other`.
    #[serde(with = "codec::word")]
    pub role: Role,
    /// The share asked for, in parts per million.
    #[serde(with = "codec::ppm")]
    pub weight_ppm: Weight,
    /// The same as text.
    pub weight: String,
    /// The share it got; absent without traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_share: Option<f64>,
    /// Over this time.
    #[serde(with = "codec::millis")]
    pub window_ms: Duration,
    /// Requests in it.
    pub requests: u64,
    /// Errors in it.
    pub errors: u64,
    /// Share of errors; absent without requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_rate: Option<f64>,
    /// Requests a second.
    pub rps: f64,
    /// Median latency.
    #[serde(with = "codec::millis_option", default, skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<Duration>,
    /// 95th percentile.
    #[serde(with = "codec::millis_option", default, skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<Duration>,
    /// 99th percentile.
    #[serde(with = "codec::millis_option", default, skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<Duration>,
    /// Its endpoints, where they are watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<Endpoint>,
}

/// One endpoint, at one of the addresses of its name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// `host:port`, with the address behind an `@` if it is one of a name's; or `unix:` and a path.
    pub name: String,
    /// `healthy`, `unknown`, `unhealthy` or `ejected`.
    #[serde(with = "codec::word")]
    pub state: EndpointState,
    /// Why it is out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How long it stays out at least, where that is known.
    #[serde(with = "codec::millis_option", default, skip_serializing_if = "Option::is_none")]
    pub back_in_ms: Option<Duration>,
}

impl Service {
    /// The wire form; `event` gives that of an event.
    #[must_use]
    pub fn new(service: &view::ServiceView, event: impl FnOnce(&event::Event) -> Event) -> Self {
        Self {
            name: service.name.clone(),
            phase: service.phase,
            phase_reason: service.phase_reason.clone(),
            revision: service.revision.0,
            stable: service.stable.clone(),
            canary: service.canary.clone(),
            rollout: service.rollout.as_ref().map(Rollout::from),
            versions: service.versions.iter().map(Version::from).collect(),
            last_event: service.last_event.as_ref().map(event),
            analysis_runs: service.analysis_runs.iter().map(|run| AnalysisRun::from(&**run)).collect(),
        }
    }
}

impl From<Service> for view::ServiceView {
    fn from(service: Service) -> Self {
        Self {
            name: service.name,
            phase: service.phase,
            phase_reason: service.phase_reason,
            revision: Revision(service.revision),
            stable: service.stable,
            canary: service.canary,
            rollout: service.rollout.map(Into::into),
            // Only the process itself knows what it would do.
            undo_to: None,
            versions: service.versions.into_iter().map(Into::into).collect(),
            last_event: service.last_event.map(Into::into),
            analysis_runs: service.analysis_runs.into_iter().map(|run| Arc::new(run.into())).collect(),
        }
    }
}

impl From<ServiceList> for view::View {
    fn from(list: ServiceList) -> Self {
        Self {
            at: list.at,
            generation: Generation(list.generation),
            services: list.services.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<&view::RolloutView> for Rollout {
    fn from(rollout: &view::RolloutView) -> Self {
        Self {
            started: rollout.started,
            step: rollout.step,
            steps: rollout.steps.clone(),
            in_step_ms: rollout.in_step,
            waiting: rollout.waiting.iter().map(Waiting::from).collect(),
            checks: rollout.checks.iter().map(Check::from).collect(),
            header_routes: rollout.header_routes.clone(),
            mirror_routes: rollout.mirror_routes.iter().map(MirrorRoute::from).collect(),
            forecast: rollout.forecast.map(|of| Forecast { error_rate: of.error_rate, about_ms: of.about }),
        }
    }
}

impl From<Rollout> for view::RolloutView {
    fn from(rollout: Rollout) -> Self {
        Self {
            started: rollout.started,
            step: rollout.step,
            steps: rollout.steps,
            in_step: rollout.in_step_ms,
            waiting: rollout.waiting.into_iter().map(Into::into).collect(),
            checks: rollout.checks.into_iter().map(Into::into).collect(),
            header_routes: rollout.header_routes,
            mirror_routes: rollout.mirror_routes.into_iter().map(Into::into).collect(),
            forecast: rollout.forecast.map(|of| view::Forecast { error_rate: of.error_rate, about: of.about_ms }),
        }
    }
}

impl From<&view::MirrorView> for MirrorRoute {
    fn from(route: &view::MirrorView) -> Self {
        Self { name: route.name.clone(), share_ppm: route.share }
    }
}

impl From<MirrorRoute> for view::MirrorView {
    fn from(route: MirrorRoute) -> Self {
        Self { name: route.name, share: route.share_ppm }
    }
}

impl From<&view::Waiting> for Waiting {
    fn from(waiting: &view::Waiting) -> Self {
        match waiting.clone() {
            view::Waiting::Time { left } => Self::Time { left_ms: left },
            view::Waiting::Requests { check, have, need, about } => {
                Self::Requests { check, have, need, about_ms: about }
            }
            view::Waiting::Person => Self::Person,
            view::Waiting::Permit { what, left } => Self::Permit { what, left_ms: left },
            view::Waiting::Analysis { metric, state } => Self::Analysis { metric, state },
        }
    }
}

impl From<Waiting> for view::Waiting {
    fn from(waiting: Waiting) -> Self {
        match waiting {
            Waiting::Time { left_ms } => Self::Time { left: left_ms },
            Waiting::Requests { check, have, need, about_ms } => Self::Requests { check, have, need, about: about_ms },
            Waiting::Person => Self::Person,
            Waiting::Permit { what, left_ms } => Self::Permit { what, left: left_ms },
            Waiting::Analysis { metric, state } => Self::Analysis { metric, state },
        }
    }
}

impl From<&view::CheckView> for Check {
    fn from(check: &view::CheckView) -> Self {
        // JSON has no infinities: evidence that is infinitely small is none.
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        Self {
            name: check.name.clone(),
            verdict: check.verdict,
            value: finite(check.value),
            limit: check.limit,
            unit: check.unit,
            requests: check.requests,
            min_requests: check.min_requests,
            stable: finite(check.stable),
        }
    }
}

impl From<Check> for view::CheckView {
    fn from(check: Check) -> Self {
        let Check { name, verdict, value, limit, unit, requests, min_requests, stable } = check;
        Self { name, verdict, value, limit, unit, requests, min_requests, stable }
    }
}

impl From<&view::VersionView> for Version {
    fn from(version: &view::VersionView) -> Self {
        Self {
            added_at: version.added_at.clone(),
            name: version.name.clone(),
            role: version.role,
            weight_ppm: version.weight,
            weight: version.weight.to_string(),
            measured_share: version.measured,
            window_ms: version.window,
            requests: version.counts.requests,
            errors: version.counts.errors,
            error_rate: version.counts.error_rate(),
            rps: version.rps,
            p50_ms: version.p50,
            p95_ms: version.p95,
            p99_ms: version.p99,
            endpoints: version.endpoints.iter().cloned().map(Into::into).collect(),
        }
    }
}

impl From<Version> for view::VersionView {
    fn from(version: Version) -> Self {
        Self {
            added_at: version.added_at,
            name: version.name,
            role: version.role,
            weight: version.weight_ppm,
            measured: version.measured_share,
            window: version.window_ms,
            counts: samples::Counts { requests: version.requests, errors: version.errors },
            rps: version.rps,
            p50: version.p50_ms,
            p95: version.p95_ms,
            p99: version.p99_ms,
            endpoints: version.endpoints.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<EndpointView> for Endpoint {
    fn from(endpoint: EndpointView) -> Self {
        let EndpointView { name, state, why, back_in } = endpoint;
        Self { name, state, why, back_in_ms: back_in }
    }
}

impl From<Endpoint> for EndpointView {
    fn from(endpoint: Endpoint) -> Self {
        let Endpoint { name, state, why, back_in_ms } = endpoint;
        Self { name, state, why, back_in: back_in_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, unit: Unit) -> view::CheckView {
        view::CheckView {
            name: name.into(),
            verdict: Verdict::Pass,
            value: Some(0.0027),
            limit: 0.02,
            unit,
            requests: 371,
            min_requests: 50,
            stable: Some(0.0025),
        }
    }

    fn progressing() -> view::ServiceView {
        let s = Duration::from_secs;
        view::ServiceView {
            name: ServiceName::new("web").unwrap(),
            phase: PhaseView::Progressing,
            phase_reason: None,
            revision: Revision(7),
            stable: VersionName::new("v1").unwrap(),
            canary: Some(VersionName::new("v2").unwrap()),
            rollout: Some(view::RolloutView {
                started: Timestamp::from_millis(1_790_000_000_123),
                step: 3,
                steps: vec!["setWeight 1%".into(), "pause 2m".into(), "setWeight 5%".into()],
                in_step: s(48),
                waiting: vec![
                    view::Waiting::Time { left: s(72) },
                    view::Waiting::Requests { check: "errorRate".into(), have: 3, need: 50, about: Some(s(34)) },
                    view::Waiting::Person,
                    view::Waiting::Permit { what: "gate approve".into(), left: Some(s(9)) },
                    view::Waiting::Analysis { metric: "p95".into(), state: "1 of 3".into() },
                ],
                checks: [Unit::Ratio, Unit::Seconds, Unit::LogEvidence, Unit::Count]
                    .into_iter()
                    .map(|unit| check("x", unit))
                    .collect(),
                header_routes: vec!["staff".into()],
                mirror_routes: vec![view::MirrorView { name: "shadow".into(), share: "12.5%".parse().unwrap() }],
                forecast: Some(view::Forecast { error_rate: 0.02, about: s(40) }),
            }),
            undo_to: None,
            versions: vec![view::VersionView {
                added_at: Some("http://app:8000".into()),
                name: VersionName::new("v2").unwrap(),
                role: Role::Canary,
                weight: "5%".parse().unwrap(),
                measured: Some(0.0497),
                window: s(60),
                counts: samples::Counts { requests: 371, errors: 1 },
                rps: 3.8,
                p50: Some(Duration::from_micros(31_743)),
                p95: Some(Duration::from_micros(92_159)),
                p99: None,
                endpoints: vec![EndpointView {
                    name: "app:80@10.0.0.7".into(),
                    state: EndpointState::Ejected,
                    why: Some("5 errors in a row".into()),
                    back_in: Some(s(9)),
                }],
            }],
            last_event: None,
            analysis_runs: Vec::new(),
        }
    }

    fn wire(event: &event::Event) -> Event {
        Event::new(event, None, String::new())
    }

    #[test]
    fn a_service_comes_back_as_it_went() {
        let service = progressing();
        let wire = super::super::Document::new(Service::new(&service, wire));
        let json = serde_json::to_string(&wire).unwrap();
        let back: super::super::Document<Service> = serde_json::from_str(&json).unwrap();
        assert_eq!(view::ServiceView::from(back.body), service, "{json}");
    }

    #[test]
    fn the_wire_has_the_documented_names_and_units() {
        let json = serde_json::to_value(Service::new(&progressing(), wire)).unwrap();
        let version = &json["versions"][0];
        assert_eq!(json["phase"], "Progressing");
        assert_eq!(json["rollout"]["started"], "2026-09-21T14:13:20.123Z");
        assert_eq!(json["rollout"]["inStepMs"], 48_000);
        assert_eq!(json["rollout"]["waiting"][0], serde_json::json!({ "for": "time", "leftMs": 72_000 }));
        assert_eq!((&version["weightPpm"], &version["weight"]), (&50_000.into(), &"5%".into()));
        assert_eq!(version["p50Ms"], 31.743);
        assert_eq!(version.get("p99Ms"), None);
    }

    #[test]
    fn words_that_are_not_known_are_refused_at_the_door() {
        let mut json = serde_json::to_value(Service::new(&progressing(), wire)).unwrap();
        json["phase"] = "Exploded".into();
        let error = serde_json::from_value::<Service>(json).unwrap_err().to_string();
        assert!(error.contains("`Exploded`"), "{error}");
    }
}
