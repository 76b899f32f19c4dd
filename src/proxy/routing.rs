//! The published table with what this worker keeps for it, so that a request finds its slots and pools by index.
//! Built once for each table and worker; decides nothing.

use std::{collections::HashMap, io, rc::Rc, sync::Arc};

use super::{
    balance::Group,
    budget::Budget,
    connect::Patience,
    deadline::Ticks,
    error::{FaultLog, Place},
    fast,
    pool::{Lease, Pool, Pools, Purpose},
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
    /// What of it the fast path takes.
    pub(super) fast: fast::Scope,
    /// Whether any of its requests may have copies.
    pub(super) has_mirrors: bool,
    services: Vec<Vec<VersionRoute>>,
    /// The service of each route, by its index; none for a redirect.
    targets: Vec<Option<usize>>,
    /// The service that gets copies of its requests, likewise; empty where no route has any.
    mirrors: Vec<Option<usize>>,
    log: Rc<FaultLog>,
    ticks: Rc<Ticks>,
}

#[derive(Debug)]
struct VersionRoute {
    slot: Arc<Slot>,
    group: Group,
    /// The same for copies, where some may come.
    copies: Option<Group>,
    budget: Budget,
}

impl Routing {
    pub(super) fn new(table: Arc<Table>, recorder: &mut Recorder, pools: &Rc<Pools>, log: &Rc<FaultLog>) -> Self {
        let ticks = Rc::clone(pools.ticks());
        let mut route = |service: &ServiceTable, version: &VersionTable| VersionRoute {
            slot: recorder.slot(SlotKey {
                service: service.name.clone(),
                version: version.name.clone(),
                role: version.role,
                weight_generation: service.weight_generation,
            }),
            group: Group::new(pools, &service.name, version, Purpose::Requests),
            copies: table
                .copies_go_to(service, version)
                .then(|| Group::new(pools, &service.name, version, Purpose::Copies)),
            budget: Budget::new(ticks.now()),
        };
        let services: Vec<Vec<_>> = table
            .services
            .iter()
            .map(|service| service.versions.iter().map(|version| route(service, version)).collect())
            .collect();
        let fast = fast::Scope::of(&table);
        let places: HashMap<&ServiceName, usize> =
            table.services.iter().enumerate().map(|(at, service)| (&service.name, at)).collect();
        let has_mirrors = services.iter().flatten().any(|version| version.copies.is_some());
        let target = |route: &Route| match &route.action {
            Action::Forward(service) => places.get(service).copied(),
            Action::Redirect(_) => None,
        };
        let targets = table.routes.all().iter().map(target).collect();
        let mirror = |route: &Route| places.get(&route.filters.mirror.as_ref()?.service).copied();
        let mirrors = if has_mirrors { table.routes.all().iter().map(mirror).collect() } else { Vec::new() };
        Self { table, fast, has_mirrors, services, targets, mirrors, log: Rc::clone(log), ticks }
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

    /// The index of the service that gets copies of a route's requests.
    pub(super) fn mirror_of(&self, route: usize) -> Option<usize> {
        self.mirrors.get(route).copied().flatten()
    }

    /// The place of a service in this table. It seldom moves, so `at` is looked at first.
    pub(super) fn place_of(&self, name: &ServiceName, at: usize) -> Option<usize> {
        let is_it = |service: &ServiceTable| service.name == *name;
        if self.service(at).is_some_and(is_it) { Some(at) } else { self.table.services.iter().position(is_it) }
    }
}

/// A version chosen for a request, under the table that chose it, and the endpoint whose turn it is.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    routing: Rc<Routing>,
    service: usize,
    version: usize,
    pool: Rc<Pool>,
    pub(super) reason: Reason,
    pub(super) bucket: Option<Bucket>,
    pub(super) hand_out: Option<StickyId>,
}

impl Choice {
    /// Takes over what `assign` chose for a service. None when the version has no endpoint, which a table never says.
    pub(super) fn new(routing: &Rc<Routing>, service: usize, assignment: Assignment) -> Option<Self> {
        let Assignment { version, reason, bucket, hand_out } = assignment;
        let pool = routing.services.get(service)?.get(version)?.group.pick(bucket, None)?;
        Some(Self { routing: Rc::clone(routing), service, version, pool, reason, bucket, hand_out })
    }

    /// A version for a copy of a request; none where no copies go.
    pub(super) fn for_copy(routing: &Rc<Routing>, service: usize, version: usize) -> Option<Self> {
        let pool = routing.services.get(service)?.get(version)?.copies.as_ref()?.pick(None, None)?;
        let routing = Rc::clone(routing);
        Some(Self { routing, service, version, pool, reason: Reason::Mirror, bucket: None, hand_out: None })
    }

    /// The stable version of a table in this one's place, for the same reason.
    pub(super) fn of_stable(&self, routing: &Rc<Routing>) -> Option<Self> {
        let service = self.service_under(routing)?;
        let version = routing.service(service)?.stable;
        let pool = routing.services.get(service)?.get(version)?.group.pick(self.bucket, None)?;
        Some(Self { routing: Rc::clone(routing), service, version, pool, ..self.clone() })
    }

    /// Another endpoint of the same version, or the same where there is but one.
    pub(super) fn elsewhere(&self) -> Self {
        let pool = self.route().group.pick(self.bucket, Some(self.endpoint())).unwrap_or_else(|| Rc::clone(&self.pool));
        Self { pool, ..self.clone() }
    }

    pub(super) fn has_another_endpoint(&self) -> bool {
        self.route().group.has_several_endpoints()
    }

    /// Counts the request in what the version's retries are a share of.
    pub(super) fn count_request(&self) {
        self.route().budget.request(self.routing.ticks.now());
    }

    /// Whether the version's retries are within their share; if so, this one is counted.
    pub(super) fn may_retry(&self, share: Weight) -> bool {
        self.route().budget.retry(share, self.routing.ticks.now())
    }

    fn group(&self) -> &Group {
        match (&self.route().copies, self.reason) {
            (Some(copies), Reason::Mirror) => copies,
            _ => &self.route().group,
        }
    }

    fn route(&self) -> &VersionRoute {
        &self.routing.services[self.service][self.version]
    }

    pub(super) fn service(&self) -> &ServiceTable {
        &self.routing.table.services[self.service]
    }

    /// Its service and version, by their places in the table that chose.
    pub(super) fn place(&self) -> (usize, usize) {
        (self.service, self.version)
    }

    /// The place of its service in another table.
    pub(super) fn service_under(&self, now: &Routing) -> Option<usize> {
        now.place_of(&self.service().name, self.service)
    }

    pub(super) fn version(&self) -> &VersionTable {
        &self.service().versions[self.version]
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        self.pool.endpoint()
    }

    pub(super) fn slot(&self) -> &Slot {
        &self.route().slot
    }

    pub(super) fn pool(&self) -> &Rc<Pool> {
        &self.pool
    }

    /// A connection to the endpoint: to another of its addresses if this one cannot be connected to, and to those of a new
    /// answer for its name if none can. Nothing has been sent before, so this is one attempt.
    pub(super) async fn connect(&mut self) -> io::Result<Lease> {
        if self.pool.is_nobody() {
            return self.pool.connect(Patience::Short).await;
        }
        if let Some(cause) = self.known_dead() {
            return Err(io::Error::other(&*cause));
        }
        let mut error = match self.pool.connect(Patience::Short).await {
            Ok(lease) => return Ok(lease),
            Err(error) => error,
        };
        let mut tried = vec![Rc::clone(&self.pool)];
        let mut has_asked = error.kind() == io::ErrorKind::QuotaExceeded;
        loop {
            let group = self.group();
            let Some(pool) = group.sibling(self.pool.endpoint(), &tried) else {
                if !has_asked && group.ask_again(self.pool.endpoint()).await {
                    has_asked = true;
                    continue;
                }
                let is_silent = error.kind() == io::ErrorKind::TimedOut;
                return if is_silent { self.pool.connect(Patience::Whole).await } else { Err(error) };
            };
            match pool.connect(Patience::Short).await {
                Ok(lease) => {
                    self.pool = pool;
                    return Ok(lease);
                }
                Err(other) => error = other,
            }
            tried.push(pool);
        }
    }

    /// Why a canary needs not be tried: none of its endpoints could be connected to just now, and stable answers.
    fn known_dead(&self) -> Option<Rc<str>> {
        self.pool.unreachable().filter(|_| self.is_replaceable())
    }

    fn is_replaceable(&self) -> bool {
        self.version().role == Role::Canary && self.service().failure.dead_canary == DeadCanary::Stable
    }

    /// The time for a connection ran out.
    pub(super) fn gave_up_connecting(&self) {
        self.pool.mark_unreachable("no connection in time");
    }

    /// Whether it is one and the same choice.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        let place = |choice: &Self| (choice.service, choice.version);
        Rc::ptr_eq(&self.routing, &other.routing) && place(self) == place(other) && Rc::ptr_eq(&self.pool, &other.pool)
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
                && new.upstream.tls == old.upstream.tls
                && (!self.reason.is_by_weight() || new.weight.ppm() > 0)
                && new.endpoints.contains(self.endpoint())
        })
    }
}
