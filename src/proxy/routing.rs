//! The published table with what this worker keeps for it, so that a request finds its slots and pools by index.
//! Built once for each table and worker; decides nothing.

use std::{cell::Cell, rc::Rc, sync::Arc};

use super::{
    budget::Budget,
    deadline::Ticks,
    error::{FaultLog, Place},
    fast,
    pool::{Pool, Pools},
};
use crate::{
    engine::{
        endpoint::Endpoint,
        split::{Assignment, Bucket, Reason},
        sticky::StickyId,
        table::{ServiceTable, Table, VersionTable},
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
        Self { table, is_fast, services, log: Rc::clone(log), ticks }
    }

    /// Without routes there is one service, and it takes every request.
    pub(super) fn service(&self) -> Option<&ServiceTable> {
        self.table.services.first()
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
    version: usize,
    endpoint: usize,
    pub(super) reason: Reason,
    pub(super) bucket: Option<Bucket>,
    pub(super) hand_out: Option<StickyId>,
}

impl Choice {
    /// Takes over what `assign` chose. None when the version has no endpoint, which a table never says.
    pub(super) fn new(routing: &Rc<Routing>, assignment: Assignment) -> Option<Self> {
        let Assignment { version, reason, bucket, hand_out } = assignment;
        let endpoint = routing.services.first()?.get(version)?.next()?;
        Some(Self { routing: Rc::clone(routing), version, endpoint, reason, bucket, hand_out })
    }

    /// The stable version of a table in this one's place, for the same reason.
    pub(super) fn of_stable(&self, routing: &Rc<Routing>) -> Option<Self> {
        let version = routing.service()?.stable;
        let endpoint = routing.services.first()?.get(version)?.next()?;
        Some(Self { routing: Rc::clone(routing), version, endpoint, ..self.clone() })
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
    pub(super) fn may_retry(&self) -> bool {
        self.route().budget.retry(self.service().retry.budget, self.routing.ticks.now())
    }

    fn route(&self) -> &VersionRoute {
        &self.routing.services[0][self.version]
    }

    pub(super) fn service(&self) -> &ServiceTable {
        &self.routing.table.services[0]
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
        Rc::ptr_eq(&self.routing, &other.routing) && (self.version, self.endpoint) == (other.version, other.endpoint)
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
        let (old, Some(service)) = (self.version(), now.service()) else { return false };
        service.name == self.service().name
            && service.versions.iter().any(|new| {
                new.name == old.name
                    && new.role == old.role
                    && new.http == old.http
                    && (!self.reason.is_by_weight() || new.weight.ppm() > 0)
                    && new.endpoints.contains(self.endpoint())
            })
    }
}
