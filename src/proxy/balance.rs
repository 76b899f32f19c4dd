//! The endpoints of a version as one worker sees them: each address of each name with its pool, and whose turn it is.
//! An address that could not be connected to is left out for a moment, unless there is no other.

use std::{
    cell::{Cell, RefCell},
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::Arc,
};

use super::{
    connect::Place,
    pool::{Pool, PoolKey, Pools, Purpose},
    resolver::Name,
};
use crate::engine::{
    endpoint::{Endpoint, InUse},
    names::ServiceName,
    split::Bucket,
    table::VersionTable,
    upstream::{Balancing, UpstreamPlan},
};

/// Where a version's requests may go.
#[derive(Debug)]
pub(super) struct Group {
    pools: Rc<Pools>,
    key: PoolKey,
    balancing: Balancing,
    plan: Arc<UpstreamPlan>,
    in_use: InUse,
    members: Vec<Member>,
    targets: RefCell<Rc<[Rc<Pool>]>>,
    /// The state of the names when the targets were made.
    seen: Cell<u64>,
    next: Cell<usize>,
}

/// An endpoint as it is configured.
#[derive(Debug)]
struct Member {
    endpoint: Endpoint,
    name: Option<Arc<Name>>,
}

impl Group {
    pub(super) fn new(pools: &Rc<Pools>, service: &ServiceName, version: &VersionTable, purpose: Purpose) -> Self {
        let member = |endpoint: &Endpoint| {
            let name = match endpoint {
                Endpoint::Tcp { host, port } if literal(endpoint).is_none() => Some(pools.name(host, *port)),
                _ => None,
            };
            Member { endpoint: endpoint.clone(), name }
        };
        let group = Self {
            pools: Rc::clone(pools),
            key: PoolKey::of(service, version, purpose),
            balancing: version.upstream.balancing,
            plan: Arc::clone(&version.upstream),
            in_use: version.in_use.clone(),
            members: version.endpoints.iter().map(member).collect(),
            targets: RefCell::new(Rc::new([])),
            seen: Cell::default(),
            next: Cell::default(),
        };
        group.look_up();
        group
    }

    /// Whether more than one endpoint is configured, and any is to be used.
    pub(super) fn has_several_endpoints(&self) -> bool {
        self.members.len() > 1 && self.in_use != InUse::Nobody
    }

    /// The pool whose turn it is, among those of other endpoints than `not`; any, if none can be connected to as far as
    /// is known.
    pub(super) fn pick(&self, bucket: Option<Bucket>, not: Option<&Endpoint>) -> Option<Rc<Pool>> {
        let targets = self.targets();
        if let [only] = &*targets {
            return Some(Rc::clone(only));
        }
        let others = |pool: &&Rc<Pool>| not.is_none_or(|not| pool.endpoint() != not);
        let fit = |pool: &&Rc<Pool>| others(pool) && !pool.is_skipped();
        let picked = match (self.balancing, bucket) {
            (Balancing::RingHash, Some(bucket)) => {
                targets.iter().filter(fit).max_by_key(|pool| pool.rank_for(bucket.number()))
            }
            (Balancing::RoundRobin, _) => {
                let turn = self.next.get();
                self.next.set(turn.wrapping_add(1));
                from(&targets, turn).find(fit)
            }
            (Balancing::LeastRequest, _) => self.less_busy(&targets, fit),
            (Balancing::Random | Balancing::RingHash, _) => from(&targets, self.pools.draw()).find(fit),
        };
        let picked = picked.map(|pool| self.unless_cold(&targets, pool, fit));
        let any = || from(&targets, self.pools.draw()).find(others).or(targets.first());
        picked.or_else(any).map(Rc::clone)
    }

    /// Another address of the same endpoint that is not among the tried ones.
    pub(super) fn sibling(&self, of: &Endpoint, tried: &[Rc<Pool>]) -> Option<Rc<Pool>> {
        let targets = self.targets();
        let is_new = |pool: &&Rc<Pool>| pool.endpoint() == of && !tried.iter().any(|one| Rc::ptr_eq(one, pool));
        targets.iter().find(is_new).map(Rc::clone)
    }

    /// Asks for the addresses of an endpoint anew; false when it has no name to ask for.
    pub(super) async fn ask_again(&self, of: &Endpoint) -> bool {
        let named = self.members.iter().find(|member| member.endpoint == *of).and_then(|member| member.name.clone());
        match named {
            Some(name) => {
                name.again().await;
                true
            }
            None => false,
        }
    }

    /// The less busy one of two that chance names: nearly as good as the least busy of all, and it does not send
    /// everything to the one that was just seen idle.
    fn less_busy<'t>(&self, targets: &'t [Rc<Pool>], fit: impl Fn(&&Rc<Pool>) -> bool + Copy) -> Option<&'t Rc<Pool>> {
        let first = from(targets, self.pools.draw()).find(fit)?;
        let second = from(targets, self.pools.draw()).find(|pool| fit(pool) && !Rc::ptr_eq(pool, first));
        Some(second.filter(|second| second.busy() < first.busy()).unwrap_or(first))
    }

    /// While an endpoint is new, another one takes a part of its turns.
    fn unless_cold<'t>(
        &self,
        targets: &'t [Rc<Pool>],
        pool: &'t Rc<Pool>,
        fit: impl Fn(&&Rc<Pool>) -> bool + Copy,
    ) -> &'t Rc<Pool> {
        let warmth = pool.warmth(self.plan.slow_start);
        if warmth >= 100 || self.pools.draw() % 100 < usize::from(warmth) {
            return pool;
        }
        from(targets, self.pools.draw()).find(|other| fit(other) && !Rc::ptr_eq(other, pool)).unwrap_or(pool)
    }

    /// All addresses as they are known now.
    fn targets(&self) -> Rc<[Rc<Pool>]> {
        if self.seen.get() != self.pools.name_changes() {
            self.look_up();
        }
        Rc::clone(&self.targets.borrow())
    }

    fn look_up(&self) {
        self.seen.set(self.pools.name_changes());
        let targets = match &self.in_use {
            InUse::All => self.known(),
            InUse::AllBut(out) => {
                let known = self.known();
                let used: Vec<_> = known.iter().filter(|pool| !out.contains(&pool.instance())).map(Rc::clone).collect();
                // Nobody else is known here: better one that is held to be bad than none.
                if used.is_empty() { known } else { used }
            }
            InUse::Nobody => {
                self.members.first().map(|first| self.pools.nobody(&first.endpoint, &self.key)).into_iter().collect()
            }
        };
        *self.targets.borrow_mut() = targets.into();
    }

    /// All addresses of all endpoints.
    fn known(&self) -> Vec<Rc<Pool>> {
        let mut targets = Vec::with_capacity(self.members.len());
        for Member { endpoint, name } in &self.members {
            let addresses = name.as_ref().map(|name| name.addresses());
            match (endpoint, name, addresses) {
                (_, Some(_), Some(addresses)) if !addresses.is_empty() => {
                    let places = addresses.iter().map(|address| Place::Address(*address));
                    targets.extend(places.map(|place| self.pools.of(endpoint, place, &self.key)));
                }
                (_, Some(name), _) => targets.push(self.pools.of(endpoint, Place::Name(Arc::clone(name)), &self.key)),
                (Endpoint::Unix { path }, ..) => {
                    targets.push(self.pools.of(endpoint, Place::Unix(Arc::clone(path)), &self.key));
                }
                (Endpoint::Tcp { .. }, ..) => {
                    let place = literal(endpoint).map(Place::Address);
                    targets.extend(place.map(|place| self.pools.of(endpoint, place, &self.key)));
                }
            }
        }
        targets
    }
}

/// The address of an endpoint that is configured by one.
pub(super) fn literal(endpoint: &Endpoint) -> Option<SocketAddr> {
    match endpoint {
        Endpoint::Tcp { host, port } => host.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, *port)),
        Endpoint::Unix { .. } => None,
    }
}

/// All of them, beginning with this one.
fn from(targets: &[Rc<Pool>], first: usize) -> impl Iterator<Item = &Rc<Pool>> {
    let (before, after) = targets.split_at(first.checked_rem(targets.len()).unwrap_or_default());
    after.iter().chain(before)
}
