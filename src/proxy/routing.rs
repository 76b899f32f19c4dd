//! The published table with what this worker keeps for it, so that a request finds its slots and pools by index.
//! Built once for each table and worker; decides nothing.

use std::{cell::Cell, rc::Rc, sync::Arc};

use super::{
    budget::Budget,
    deadline::Ticks,
    error::{FaultLog, Place},
    fast,
    pool::{Pool, Pools},
    way::Way,
};
use crate::{
    engine::{
        endpoint::Endpoint,
        failure::DeadCanary,
        names::{Role, ServiceName},
        request::RequestView,
        route::{Action, Route},
        split::{Assignment, Bucket, Reason},
        sticky::StickyId,
        table::{ServiceTable, Table, VersionTable},
        weight::Weight,
    },
    measure::{
        Recorder,
        slot::{Ending, Slot, SlotKey},
    },
};

/// One table, as one worker uses it.
#[derive(Debug)]
pub(super) struct Routing {
    pub(super) table: Arc<Table>,
    /// Whether its requests may take the fast path.
    pub(super) is_fast: bool,
    services: Vec<Vec<VersionRoute>>,
    /// The service of each route, by its index; none for a redirect.
    targets: Vec<Option<usize>>,
    log: Rc<FaultLog>,
    ticks: Rc<Ticks>,
}

#[derive(Debug)]
struct VersionRoute {
    slot: Arc<Slot>,
    pools: Vec<Rc<Pool>>,
    next: Cell<usize>,
    budget: Budget,
}

impl Routing {
    pub(super) fn new(table: Arc<Table>, recorder: &mut Recorder, pools: &Pools, log: &Rc<FaultLog>) -> Self {
        let ticks = Rc::clone(pools.ticks());
        let mut route = |service: &ServiceTable, version: &VersionTable| VersionRoute {
            slot: recorder.slot(SlotKey {
                service: service.name.clone(),
                version: version.name.clone(),
                role: version.role,
                weight_generation: service.weight_generation,
            }),
            pools: version.endpoints.iter().map(|endpoint| pools.of(endpoint, version.http)).collect(),
            next: Cell::new(0),
            budget: Budget::new(ticks.now()),
        };
        let services = table
            .services
            .iter()
            .map(|service| service.versions.iter().map(|version| route(service, version)).collect())
            .collect();
        let is_fast = fast::understands_table(&table);
        let position = |name: &ServiceName| table.services.iter().position(|service| service.name == *name);
        let target = |route: &Route| match &route.action {
            Action::Forward(service) => position(service),
            Action::Redirect(_) => None,
        };
        let targets = table.routes.all().iter().map(target).collect();
        Self { table, is_fast, services, targets, log: Rc::clone(log), ticks }
    }

    /// Which route takes the request, and the index of the service that it leads to, if it leads to one. Without routes
    /// there is one service, and it takes every request. None when no route does.
    pub(super) fn way(&self, request: &RequestView<'_>) -> Option<(Way, Option<usize>)> {
        let routes = &self.table.routes;
        if routes.is_empty() {
            return Some((Way::default(), (!self.services.is_empty()).then_some(0)));
        }
        let found = routes.find(request)?;
        Some((Way::new(routes, found, request.headers), self.targets[found.route]))
    }

    pub(super) fn service(&self, at: usize) -> Option<&ServiceTable> {
        self.table.services.get(at)
    }

    /// The place of a service in this table. It seldom moves, so `at` is looked at first.
    pub(super) fn place_of(&self, name: &ServiceName, at: usize) -> Option<usize> {
        let is_it = |service: &ServiceTable| service.name == *name;
        if self.service(at).is_some_and(is_it) { Some(at) } else { self.table.services.iter().position(is_it) }
    }
}

impl VersionRoute {
    /// The endpoint whose turn it is.
    fn next(&self) -> Option<usize> {
        let endpoints = self.pools.len();
        let endpoint = self.next.get().checked_rem(endpoints)?;
        self.next.set((endpoint + 1) % endpoints);
        Some(endpoint)
    }
}

/// A version chosen for a request, under the table that chose it, and the endpoint whose turn it is.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    routing: Rc<Routing>,
    service: usize,
    version: usize,
    endpoint: usize,
    pub(super) reason: Reason,
    pub(super) bucket: Option<Bucket>,
    pub(super) hand_out: Option<StickyId>,
}

impl Choice {
    /// Takes over what `assign` chose for a service. None when the version has no endpoint, which a table never says.
    pub(super) fn new(routing: &Rc<Routing>, service: usize, assignment: Assignment) -> Option<Self> {
        let Assignment { version, reason, bucket, hand_out } = assignment;
        let endpoint = routing.services.get(service)?.get(version)?.next()?;
        Some(Self { routing: Rc::clone(routing), service, version, endpoint, reason, bucket, hand_out })
    }

    /// The stable version of a table in this one's place, for the same reason.
    pub(super) fn of_stable(&self, routing: &Rc<Routing>) -> Option<Self> {
        let service = self.service_under(routing)?;
        let version = routing.service(service)?.stable;
        let endpoint = routing.services.get(service)?.get(version)?.next()?;
        Some(Self { routing: Rc::clone(routing), service, version, endpoint, ..self.clone() })
    }

    /// Who answers if this version cannot be connected to: stable, for a canary that may have a stand-in.
    pub(super) fn stand_in(&self, routing: &Rc<Routing>) -> Option<Self> {
        let is_replaceable =
            self.version().role == Role::Canary && self.service().failure.dead_canary == DeadCanary::Stable;
        if is_replaceable { self.of_stable(routing) } else { None }
    }

    /// Another endpoint of the same version, or the same where there is but one.
    pub(super) fn elsewhere(&self) -> Self {
        let others = std::iter::repeat_with(|| self.route().next()).take(self.route().pools.len());
        let endpoint = others.flatten().find(|&at| at != self.endpoint).unwrap_or(self.endpoint);
        Self { endpoint, ..self.clone() }
    }

    pub(super) fn has_another_endpoint(&self) -> bool {
        self.route().pools.len() > 1
    }

    /// Counts the request in what the version's retries are a share of.
    pub(super) fn count_request(&self) {
        self.route().budget.request(self.routing.ticks.now());
    }

    /// Whether the version's retries are within their share; if so, this one is counted.
    pub(super) fn may_retry(&self, share: Weight) -> bool {
        self.route().budget.retry(share, self.routing.ticks.now())
    }

    fn route(&self) -> &VersionRoute {
        &self.routing.services[self.service][self.version]
    }

    pub(super) fn service(&self) -> &ServiceTable {
        &self.routing.table.services[self.service]
    }

    /// The place of its service in another table.
    pub(super) fn service_under(&self, now: &Routing) -> Option<usize> {
        now.place_of(&self.service().name, self.service)
    }

    pub(super) fn version(&self) -> &VersionTable {
        &self.service().versions[self.version]
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.version().endpoints[self.endpoint]
    }

    pub(super) fn slot(&self) -> &Slot {
        &self.route().slot
    }

    pub(super) fn pool(&self) -> &Rc<Pool> {
        &self.route().pools[self.endpoint]
    }

    /// Whether it is one and the same choice.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        let place = |choice: &Self| (choice.service, choice.version, choice.endpoint);
        Rc::ptr_eq(&self.routing, &other.routing) && place(self) == place(other)
    }

    /// Says in the log that this version failed a request.
    pub(super) fn log_failure(&self, ending: Ending, cause: &str) {
        let (service, version) = (&self.service().name, &self.version().name);
        self.routing.log.upstream(Place { service, version, endpoint: self.endpoint() }, ending, cause);
    }

    /// Whether the table now in force would still let this request go where it was about to go: the version
    /// has its part and some weight, and the endpoint is still one of its own.
    pub(super) fn holds_under(&self, now: &Rc<Routing>) -> bool {
        if Rc::ptr_eq(&self.routing, now) {
            return true;
        }
        let Some(service) = self.service_under(now).and_then(|at| now.service(at)) else { return false };
        let old = self.version();
        service.versions.iter().any(|new| {
            new.name == old.name
                && new.role == old.role
                && new.http == old.http
                && (!self.reason.is_by_weight() || new.weight.ppm() > 0)
                && new.endpoints.contains(self.endpoint())
        })
    }
}
