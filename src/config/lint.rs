//! Plans that can hardly finish, or that nothing could ever stop: warnings, since a person may mean it.
//! Looks only at services that are right in every other way.

pub mod requests;

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use super::{
    diagnostic::Span,
    report::{At, Fields, Report},
    scalar::human,
    settings::Listener,
    yaml::{Node, Value},
};
use crate::engine::{
    endpoint::Endpoint,
    plan::{Guard, Pause, ServicePlan, Step, VersionPlan},
    weight::Weight,
};

/// So many requests a second of the whole service are more than most have.
const RATE_HIGH: f64 = 1_000.0;

/// Warns of what a person would hardly want.
pub fn service(plan: &ServicePlan, fields: &Fields<'_>, report: &mut Report) {
    let place = Place { fields };
    unwatched(plan, &place, report);
    unproven(plan, &place, report);
    hasty(plan, &place, report);
    unmirrored(plan, &place, report);
    starving(plan, &place, report);
    late(plan, &place, report);
    unseeing(plan, &place, report);
    unlooked(plan, &place, report);
    requests::service(plan, &place, report);
}

/// Versions that are a listener of the same process: a request would go round until its head is too large.
pub fn circular(listeners: &[(Listener, Span)], services: &[ServicePlan], report: &mut Report) {
    let leads_to = |endpoint: &Endpoint, listen: SocketAddr| match endpoint {
        Endpoint::Tcp { host, port } if *port == listen.port() => match host.parse::<IpAddr>() {
            Ok(address) => address == listen.ip() || (address.is_loopback() && listen.ip().is_unspecified()),
            Err(_) => &**host == "localhost" && (listen.ip().is_loopback() || listen.ip().is_unspecified()),
        },
        _ => false,
    };
    for (listener, span) in listeners {
        for (service, version) in services.iter().flat_map(|of| of.versions.iter().map(move |version| (of, version))) {
            if version.endpoints.iter().any(|endpoint| leads_to(endpoint, listener.listen)) {
                let (service, version) = (&service.name, &version.name);
                report
                    .warning(
                        span,
                        format!("version `{version}` of `{service}` is this listener itself: requests would go round"),
                    )
                    .help("write where the version itself listens");
            }
        }
    }
}

/// Nothing could ever revert the canary.
fn unwatched(plan: &ServicePlan, place: &Place<'_>, report: &mut Report) {
    let strategy = &plan.strategy;
    let analyses = strategy.analysis.is_some() || strategy.steps.iter().any(|step| step.analyses().is_some());
    if limits(&strategy.guard).next().is_none()
        && strategy.guard.share_test.is_none()
        && strategy.guard.consecutive_errors == 0
        && !analyses
    {
        let span = place.of(&["strategy", "canary", "guard"]);
        report
            .warning(&span, "nothing could ever revert this canary: every guard is off and there is no analysis")
            .help("leave `guard` out, which watches the share test and errors in a row, or write limits: `guard: { errorRate: 2% }`");
    }
}

/// Holds that never end early, since what would prove a canary good enough is off.
fn unproven(plan: &ServicePlan, place: &Place<'_>, report: &mut Report) {
    let strategy = &plan.strategy;
    if strategy.policy.promote_early.is_some() && strategy.guard.share_test.is_none() {
        report
            .warning(
                &place.of(&["strategy", "canary", "promoteEarly"]),
                "no hold ever ends early: the share test is off",
            )
            .help("leave `guard.versusStable` on, or remove `promoteEarly`");
    }
}

/// A weight that is left again at once: nobody looks at it.
fn hasty(plan: &ServicePlan, place: &Place<'_>, report: &mut Report) {
    let steps = &plan.strategy.steps;
    for (index, step) in steps.iter().enumerate() {
        let Step::SetWeight(weight) = step else { continue };
        let is_last = index + 1 == steps.len();
        let next_is_weight = matches!(steps.get(index + 1), Some(Step::SetWeight(_)));
        if !next_is_weight && (!is_last || *weight == Weight::FULL) {
            continue;
        }
        let then = if is_last { "the canary is promoted" } else { "the next weight is set" };
        report
            .warning(&place.step(index), format!("nobody looks at {weight}: {then} at once"))
            .help("put a `pause` or an `analysis` behind it, or leave the step out");
    }
}

/// Copies that nobody gets, and a mirror route that is removed but was never there.
fn unmirrored(plan: &ServicePlan, place: &Place<'_>, report: &mut Report) {
    let mut set: Vec<&str> = Vec::new();
    for (index, step) in plan.strategy.steps.iter().enumerate() {
        let Step::SetMirrorRoute { name, route } = step else { continue };
        if route.is_some() {
            if plan.versions.len() == 1 {
                report
                    .warning(&place.step(index), "nothing gets these copies: the service has no version besides stable")
                    .help("name a canary, or copy to another service by `routes[].filters.mirror`");
            }
            set.push(name);
        } else if !set.contains(&&**name) {
            report
                .warning(
                    &place.step(index),
                    format!("this removes the mirror route `{name}`, which no step before has set"),
                )
                .help("say which requests are copied: `match: [{ path: { prefix: / } }]`");
        }
    }
}

/// A hold that sees its minimum of requests only under traffic that few have.
fn starving(plan: &ServicePlan, place: &Place<'_>, report: &mut Report) {
    let guard = &plan.strategy.guard;
    let Some(most) = limits(guard).max() else { return };
    let mut weight = Weight::ZERO;
    for (index, step) in plan.strategy.steps.iter().enumerate() {
        match step {
            Step::SetWeight(set) => weight = *set,
            Step::Pause(Pause::For(hold)) if weight != Weight::ZERO => {
                #[expect(clippy::cast_precision_loss, reason = "a limit is far below 2^53")]
                let rate = most as f64 / (weight.ratio() * hold.as_secs_f64());
                if rate > RATE_HIGH {
                    let hold = human(*hold);
                    report
                        .warning(
                            &place.step(index),
                            format!("this step can hardly end: in {hold} at {weight} the canary gets {most} requests only if the service has more than {rate:.0} a second"),
                        )
                        .help("until then the step waits; give it a longer hold, a larger weight, or a smaller `minRequests`");
                    return;
                }
            }
            _ => {}
        }
    }
}

/// A deadline before the end of the holds.
fn late(plan: &ServicePlan, place: &Place<'_>, report: &mut Report) {
    let Some(deadline) = plan.strategy.deadline else { return };
    let holds = plan.strategy.steps.iter().map(|step| match step {
        Step::Pause(Pause::For(hold)) => *hold,
        _ => Duration::ZERO,
    });
    let all: Duration = holds.sum();
    if all >= deadline {
        let message =
            format!("it can never be promoted: its pauses take {} and its deadline is {}", human(all), human(deadline));
        report
            .warning(&place.of(&["strategy", "canary", "deadline"]), message)
            .help("make the deadline longer than all pauses together");
    }
}

/// A guard that waits for endpoints of which nothing is known.
fn unseeing(plan: &ServicePlan, place: &Place<'_>, report: &mut Report) {
    if plan.strategy.policy.capacity_guard.is_none() {
        return;
    }
    let is_watched = |of: &VersionPlan| of.upstream.health.is_some() || of.upstream.ejection.is_some();
    let blind: Vec<String> =
        plan.versions.iter().filter(|of| !is_watched(of)).map(|of| format!("`{}`", of.name)).collect();
    if !blind.is_empty() {
        let message = format!(
            "nothing is known of the endpoints of {}, so `capacityGuard` never waits while it is stable",
            blind.join(", ")
        );
        report
            .warning(&place.of(&["strategy", "canary", "abort", "capacityGuard"]), message)
            .help("give each version that can be stable a `health: { path: /healthz }`");
    }
}

/// A canary that is to be well, and is not looked at.
fn unlooked(plan: &ServicePlan, place: &Place<'_>, report: &mut Report) {
    let wanted = plan.strategy.policy.min_healthy > Weight::ZERO;
    let canary = plan.wish.as_ref().and_then(|wish| plan.version(&wish.version));
    if let Some(canary) = canary.filter(|of| wanted && of.upstream.health.is_none()) {
        let message =
            format!("nothing is known of the endpoints of `{}`, so `minHealthy` waits for nothing", canary.name);
        report
            .warning(&place.of(&["strategy", "canary", "minHealthy"]), message)
            .help("give it a `health: { path: /healthz }`");
    }
}

/// The minimum of requests of each limit.
fn limits(guard: &Guard) -> impl Iterator<Item = u64> {
    let errors = guard.error_rate.as_ref().map(|limit| limit.min_requests);
    errors.into_iter().chain(guard.latency.iter().map(|limit| limit.min_requests))
}

/// Where in the file something is written.
struct Place<'a> {
    fields: &'a Fields<'a>,
}

impl Place<'_> {
    /// The field of this path within the service, or the nearest above it that is written.
    fn of(&self, path: &[&str]) -> Span {
        let mut found = self.fields.at().key_span.clone();
        let mut node = self.fields.at().node;
        for name in path {
            let Some(field) = field(node, name) else { break };
            found = field.key_span.clone();
            node = &field.node;
        }
        found
    }

    /// A step of the plan. In the short form each entry is a weight and its hold.
    fn step(&self, index: usize) -> Span {
        let service = self.fields.at().node;
        let long =
            ["strategy", "canary", "steps"].iter().try_fold(service, |node, name| Some(&field(node, name)?.node));
        let (list, index) = match (long, self.fields.get("steps")) {
            (Some(list), _) => (list, index),
            (None, Some(At { node, .. })) => (node, index / 2),
            (None, None) => return self.of(&["canary"]),
        };
        let item = match &list.value {
            Value::List(items) => items.get(index),
            _ => None,
        };
        let span = item.map(|item| match &item.value {
            Value::Map(fields) => fields.first().map_or(item.span.clone(), |first| first.key_span.clone()),
            _ => item.span.clone(),
        });
        span.unwrap_or_else(|| self.fields.at().key_span.clone())
    }
}

fn field<'a>(node: &'a Node, name: &str) -> Option<&'a super::yaml::Field> {
    match &node.value {
        Value::Map(fields) => fields.iter().find(|field| field.key == name),
        _ => None,
    }
}
