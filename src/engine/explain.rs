//! Where a request would go under a table, and why. The same functions decide as for real requests; nothing is sent.

use super::{
    assign::{CohortTarget, ForceRule},
    endpoint::InUse,
    failure::DeadCanary,
    names::{Role, ServiceName, VersionName},
    request::RequestView,
    route::{Action, Route},
    split::{self, Claims, Reason},
    table::{ServiceTable, Table, VersionTable},
    weight::Weight,
};

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The route that takes it; none without routes, or when none does.
    pub route: Option<String>,
    /// The rest.
    pub outcome: Outcome,
}

/// The end of the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// No route takes it: 404.
    NoRoute,
    /// The proxy sends the client elsewhere.
    Redirect {
        /// With this status.
        status: u16,
        /// To there.
        location: String,
    },
    /// A version answers.
    Version(Chosen),
}

/// The version, or those that a draw would choose from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Of this service.
    pub service: ServiceName,
    /// What decides.
    pub reason: Reason,
    /// What it was of the request, in words.
    pub because: String,
    /// The bucket, where the client is known by one.
    pub bucket: Option<u32>,
    /// Each version that may get it, with its chance; one alone where it is certain.
    pub versions: Vec<(VersionName, Role, Weight)>,
    /// Copies that it may have.
    pub copies: Vec<Copied>,
}

/// A copy of a request, which is thrown away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// To a version of this service.
    pub service: ServiceName,
    /// To this one.
    pub version: VersionName,
    /// With this chance, where the request goes to a version whose requests are copied.
    pub share: Weight,
    /// What asks for it, in words.
    pub because: String,
}

/// Explains a request. None when the table has no service.
#[must_use]
pub fn explain(table: &Table, request: &RequestView<'_>) -> Option<Explanation> {
    if table.routes.is_empty() {
        let outcome = Outcome::Version(chosen(table.services.first()?, None, table, request));
        return Some(Explanation { route: None, outcome });
    }
    let Some(found) = table.routes.find(request) else {
        return Some(Explanation { route: None, outcome: Outcome::NoRoute });
    };
    let route = &table.routes.all()[found.route];
    let outcome = match &route.action {
        Action::Redirect(redirect) => {
            let location = redirect.location(request, found.prefix);
            Outcome::Redirect { status: redirect.status, location }
        }
        Action::Forward(name) => {
            let service = table.services.iter().find(|service| service.name == *name)?;
            Outcome::Version(chosen(service, Some(route), table, request))
        }
    };
    Some(Explanation { route: Some(route.name.clone()), outcome })
}

fn chosen(service: &ServiceTable, route: Option<&Route>, table: &Table, request: &RequestView<'_>) -> Chosen {
    let claims = Claims::of(service, request);
    let assignment = split::assign(service, &claims, || 0);
    let is_drawn = assignment.reason == Reason::Sampled || assignment.hand_out.is_some();
    let mut because = match assignment.reason {
        Reason::Forced => forced(service, claims.forced.as_ref(), assignment.version),
        Reason::Cohort => match claims.header_route.as_ref().filter(|_| Some(assignment.version) == service.canary) {
            Some(name) => format!("header route `{name}` of the rollout"),
            None => format!("a cohort that goes to {}", target(claims.cohort.as_ref())),
        },
        _ if is_drawn && service.draining => "the canary drains: nobody new comes to it".to_owned(),
        Reason::Sticky if is_drawn => "a new client: a draw, kept by a cookie from then on".to_owned(),
        Reason::Sticky => "the client's bucket, compared with the canary's weight".to_owned(),
        Reason::Sampled | Reason::Mirror => "a fresh draw".to_owned(),
    };
    let one = |at: usize, chance: Weight| {
        let version = &service.versions[at];
        (version.name.clone(), version.role, chance)
    };
    let versions = if is_drawn && !service.draining {
        let with_weight = |at: &usize| service.versions[*at].weight > Weight::ZERO;
        (0..service.versions.len()).filter(with_weight).map(|at| one(at, service.versions[at].weight)).collect()
    } else {
        vec![one(assignment.version, Weight::FULL)]
    };
    let is_dead = |of: &&VersionTable| of.in_use == InUse::Nobody;
    if let Some(dead) = service.canary.map(|at| &service.versions[at]).filter(is_dead)
        && versions.iter().any(|(name, ..)| *name == dead.name)
    {
        let instead = match service.failure.dead_canary {
            DeadCanary::Stable => format!("{} answers for it", service.versions[service.stable].name),
            DeadCanary::Fail => "it fails there".to_owned(),
        };
        because = format!("{because}; no endpoint of {} is well, so {instead}, and it counts as failed", dead.name);
    }
    if let Some(why) = service.force.as_ref().and_then(|rule| unheeded(rule, &claims, request)) {
        because = format!("{because}; {why}");
    }
    let bucket = assignment.bucket.filter(|_| !is_drawn).map(split::Bucket::number);
    let by_rollout =
        service.mirror_route(request).filter(|_| versions.iter().any(|(_, role, _)| *role == Role::Stable));
    let to_canary = by_rollout.zip(service.canary).map(|(mirror, canary)| Copied {
        service: service.name.clone(),
        version: service.versions[canary].name.clone(),
        share: mirror.share,
        because: format!("mirror route `{}` of the rollout, where stable serves the request", mirror.name),
    });
    let copies = route.and_then(|route| to_service(route, table, request)).into_iter().chain(to_canary).collect();
    Chosen { service: service.name.clone(), reason: assignment.reason, because, bucket, versions, copies }
}

fn to_service(route: &Route, table: &Table, request: &RequestView<'_>) -> Option<Copied> {
    let filter = route.filters.mirror.as_ref().filter(|filter| filter.is_met_by(request))?;
    let service = table.services.iter().find(|service| service.name == filter.service)?;
    Some(Copied {
        service: service.name.clone(),
        version: service.versions[service.stable].name.clone(),
        share: filter.share,
        because: "`mirror` of the route".to_owned(),
    })
}

/// What was asked for by force, and what comes of it: only stable and canary serve.
fn forced(service: &ServiceTable, wanted: Option<&CohortTarget>, got: usize) -> String {
    let asked = format!("the request forces it: {}", target(wanted));
    let is_met = match wanted {
        Some(CohortTarget::Canary) => service.canary == Some(got),
        Some(CohortTarget::Version(name)) => service.versions[got].name == *name,
        Some(CohortTarget::Stable) | None => true,
    };
    match service.canary.map(|at| &service.versions[at].name) {
        _ if is_met => asked,
        Some(canary) => format!("{asked}, which serves nobody now, so stable answers; the canary is {canary}"),
        None => format!("{asked}, but no rollout is under way, so stable answers"),
    }
}

/// Why a word that asks for a version is not followed.
fn unheeded(rule: &ForceRule, claims: &Claims, request: &RequestView<'_>) -> Option<String> {
    let is_asked = rule.header.as_ref().is_some_and(|name| request.headers.contains_key(name))
        || rule.cookie.as_ref().is_some_and(|name| request.cookie(name).is_some());
    if !is_asked || claims.forced.is_some() {
        return None;
    }
    Some(match rule.word(request) {
        Some(word) => {
            format!("`{}` forces nothing: it is `always`, `never` or the name of a version", word.escape_debug())
        }
        None => "this client may not force a version: it is not of `force.from`, and says no right secret".to_owned(),
    })
}

fn target(target: Option<&CohortTarget>) -> String {
    match target {
        Some(CohortTarget::Canary) => "canary".to_owned(),
        Some(CohortTarget::Version(name)) => format!("version `{name}`"),
        Some(CohortTarget::Stable) | None => "stable".to_owned(),
    }
}
