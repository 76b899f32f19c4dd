//! Health checks, beside the requests: on a thread of their own each endpoint of a version with `health` is asked at
//! its interval over a connection of its own, by the version's protocol and TLS. What came of it, and which endpoints
//! there are, goes to `measure`. Decides nothing; never more than so many questions at once.

use std::{
    collections::{HashMap, HashSet},
    io,
    rc::Rc,
    sync::Arc,
    thread,
    time::Duration,
};

use http::{HeaderValue, Request, header, request::Parts};
use tokio::{
    runtime::{Builder, LocalOptions},
    sync::{Semaphore, oneshot},
    task::{AbortHandle, spawn_local},
    time::{sleep, timeout},
};

use super::{
    balance::literal,
    body::RequestBody,
    connect::{Connector, Patience, Place},
    deadline::Ticks,
    gate::Gate,
    headers::Hop,
    http1::RequestHead,
    pool::{Pool, instance},
    resolver::{Name, Resolver},
    upstream_tls::TlsClient,
};
use crate::{
    engine::{
        endpoint::{Endpoint, Instance, UpstreamHttp},
        names::{ServiceName, VersionName},
        table::{Table, VersionTable},
        upstream::{HealthPlan, UpstreamLimits, UpstreamTls},
    },
    measure::{Hub, endpoints::Known},
    publish::Publication,
};

/// How often it is looked whether others are to be asked.
const LOOK: Duration = Duration::from_millis(100);
/// Questions at once. With more endpoints that do not answer in time, each is asked less often.
const QUESTIONS_MAX: usize = 128;
/// The first question comes within so long: a process that starts does not ask everybody at the same moment.
const FIRST_WITHIN: Duration = Duration::from_millis(50);
/// Longest text of a failure.
const WHY_MAX: usize = 160;

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Prober {
    _running: oneshot::Sender<()>,
}

/// Starts asking as the published table says.
pub(super) fn start(publication: Publication, hub: Arc<Hub>, resolver: Arc<Resolver>) -> io::Result<Prober> {
    let (running, mut stopped) = oneshot::channel();
    let runtime = || Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    thread::Builder::new().name("health".to_owned()).spawn(move || match runtime() {
        Ok(runtime) => runtime.block_on(async {
            let mut round = Round::new(hub, resolver);
            loop {
                round.follow(&publication.current());
                if timeout(LOOK, &mut stopped).await.is_ok() {
                    return;
                }
            }
        }),
        Err(error) => tracing::error!("no endpoint is asked whether it is well: {error}"),
    })?;
    Ok(Prober { _running: running })
}

/// Who is asked at present.
struct Round {
    hub: Arc<Hub>,
    resolver: Arc<Resolver>,
    permits: Rc<Semaphore>,
    seen: Option<(Arc<Table>, u64)>,
    /// Kept, so that they stay up to date.
    names: Vec<Arc<Name>>,
    asked: HashMap<Asked, AbortHandle>,
}

/// Whom, and how. With another of these it is another endpoint to be asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Asked {
    service: ServiceName,
    version: VersionName,
    instance: Instance,
    http: UpstreamHttp,
    tls: Option<Arc<UpstreamTls>>,
    plan: HealthPlan,
}

impl Round {
    fn new(hub: Arc<Hub>, resolver: Arc<Resolver>) -> Self {
        let permits = Rc::new(Semaphore::new(QUESTIONS_MAX));
        Self { hub, resolver, permits, seen: None, names: Vec::new(), asked: HashMap::new() }
    }

    /// Begins with those that are new, and leaves off with those that are gone.
    fn follow(&mut self, table: &Arc<Table>) {
        let changes = self.resolver.changes();
        if self.seen.as_ref().is_some_and(|(seen, at)| Arc::ptr_eq(seen, table) && *at == changes) {
            return;
        }
        let (mut known, mut names, mut wanted) = (Vec::new(), Vec::new(), HashMap::new());
        for service in &table.services {
            for version in service.versions.iter().filter(|version| is_watched(version)) {
                let places = self.places(version, &mut names);
                let instances = places.iter().map(|(instance, _)| instance.clone()).collect();
                known.push(Known { service: service.name.clone(), version: version.name.clone(), instances });
                let Some(plan) = &version.upstream.health else { continue };
                wanted.extend(places.into_iter().map(|(instance, place)| {
                    let asked = Asked {
                        service: service.name.clone(),
                        version: version.name.clone(),
                        instance,
                        http: version.http,
                        tls: version.upstream.tls.clone(),
                        plan: plan.clone(),
                    };
                    (asked, place)
                }));
            }
        }
        self.hub.known_endpoints(known);
        self.names = names;
        self.seen = Some((Arc::clone(table), changes));
        self.ask(wanted);
    }

    fn ask(&mut self, wanted: HashMap<Asked, Place>) {
        let still: HashSet<&Asked> = wanted.keys().collect();
        self.asked.retain(|asked, task| {
            let stays = still.contains(asked);
            if !stays {
                task.abort();
            }
            stays
        });
        for (asked, place) in wanted {
            if !self.asked.contains_key(&asked) {
                let task =
                    spawn_local(keep_asking(asked.clone(), place, Arc::clone(&self.hub), Rc::clone(&self.permits)));
                self.asked.insert(asked, task.abort_handle());
            }
        }
    }

    /// The endpoints of a version with where each leads, as far as the names are known.
    fn places(&self, version: &VersionTable, names: &mut Vec<Arc<Name>>) -> Vec<(Instance, Place)> {
        let mut places = Vec::new();
        for endpoint in &version.endpoints {
            let (host, port) = match endpoint {
                Endpoint::Tcp { host, port } => (host, port),
                Endpoint::Unix { path } => {
                    places.push((instance(endpoint, None), Place::Unix(Arc::clone(path))));
                    continue;
                }
            };
            if let Some(address) = literal(endpoint) {
                places.push((instance(endpoint, Some(address)), Place::Address(address)));
                continue;
            }
            let name = self.resolver.name(host, *port);
            let addresses = name.addresses();
            if addresses.is_empty() {
                places.push((instance(endpoint, None), Place::Name(Arc::clone(&name))));
            }
            let each = addresses.iter().map(|at| (instance(endpoint, Some(*at)), Place::Address(*at)));
            places.extend(each);
            names.push(name);
        }
        places
    }
}

fn is_watched(version: &VersionTable) -> bool {
    version.upstream.health.is_some() || version.upstream.ejection.is_some()
}

async fn keep_asking(asked: Asked, place: Place, hub: Arc<Hub>, permits: Rc<Semaphore>) {
    let Asked { service, version, instance, http, tls, plan } = asked;
    let endpoint = &instance.endpoint;
    let tls = tls.as_deref().map(|tls| TlsClient::new(tls, endpoint, http));
    // By this clock only the check's own timeout would be shortened, so it may stand still.
    let connector = Connector { place, tls, ticks: Ticks::new() };
    let gate = Gate::new(UpstreamLimits { connections: 1, pending: 1 });
    let pool = Rc::new(Pool::new(endpoint.clone(), connector, http, gate));
    let question = plan.path.as_deref().and_then(question);
    sleep(FIRST_WITHIN.mul_f64(fastrand::f64())).await;
    loop {
        let Ok(permit) = permits.acquire().await else { return };
        let answered = timeout(plan.timeout, once(&pool, question.as_ref())).await;
        drop(permit);
        let outcome = answered.unwrap_or_else(|_| Err(format!("no answer within {} ms", plan.timeout.as_millis())));
        let outcome = outcome.map_err(|why| why.chars().take(WHY_MAX).collect::<String>().into());
        hub.checked((service.clone(), version.clone(), instance.clone()), outcome);
        pool.close_idle();
        sleep(plan.interval.mul_f64(0.9 + 0.2 * fastrand::f64())).await;
    }
}

/// One question over a new connection, which is closed.
async fn once(pool: &Rc<Pool>, question: Option<&Parts>) -> Result<(), String> {
    let lease = pool.connect(Patience::Whole).await.map_err(|error| error.to_string())?;
    let Some(head) = question else { return Ok(()) };
    let hop = Hop { upgrade: None, takes_trailers: false };
    let request = RequestHead { head, hop: &hop, endpoint: pool.endpoint() };
    let answer = lease.send(request, RequestBody::None).await.map_err(|unanswered| unanswered.error.to_string())?;
    let status = answer.status();
    answer.into_body().abandon();
    if (200..400).contains(&status.as_u16()) { Ok(()) } else { Err(format!("answered {status}")) }
}

/// The head of the request. A path of the file is one.
fn question(path: &str) -> Option<Parts> {
    let mut request = Request::get(path).body(()).ok()?;
    request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static("serin-health"));
    Some(request.into_parts().0)
}

#[cfg(test)]
mod tests {
    use std::{net::SocketAddr, sync::Mutex};

    use tokio::task::{LocalSet, yield_now};

    use super::*;
    use crate::engine::{
        endpoint::InUse,
        failure::{FailurePlan, Retry},
        names::{Generation, Role},
        split::Split,
        table::{ServiceTable, Timeouts},
        upstream::UpstreamPlan,
        weight::Weight,
    };

    fn address(last: u8) -> SocketAddr {
        // Nobody answers there; who is asked is what matters.
        SocketAddr::from(([192, 0, 2, last], 80))
    }

    /// One version at one name, which is asked.
    fn table() -> Arc<Table> {
        let version = VersionTable {
            name: VersionName::new("v1").unwrap(),
            role: Role::Stable,
            weight: Weight::FULL,
            endpoints: vec![Endpoint::tcp("app", 80)],
            http: UpstreamHttp::H1,
            upstream: Arc::new(UpstreamPlan { health: Some(HealthPlan::default()), ..UpstreamPlan::default() }),
            in_use: InUse::All,
            filters: Arc::default(),
        };
        let service = ServiceTable {
            name: ServiceName::new("web").unwrap(),
            weight_generation: Generation(1),
            versions: vec![version],
            stable: 0,
            canary: None,
            split: Split::all_to(0),
            force: None,
            header_routes: Vec::new(),
            mirror_routes: Vec::new(),
            cohorts: Vec::new(),
            sticky: None,
            draining: false,
            drain_timeout: Duration::ZERO,
            timeouts: Timeouts::default(),
            retry: Retry::default(),
            failure: FailurePlan::default(),
        };
        Arc::new(Table::new(Generation(1), vec![service]))
    }

    fn addresses(round: &Round) -> Vec<String> {
        let mut asked: Vec<String> = round.asked.keys().map(|asked| asked.instance.to_string()).collect();
        asked.sort();
        asked
    }

    #[tokio::test]
    async fn an_address_that_stays_in_the_answer_is_asked_on_and_the_others_change() {
        let answer = Arc::new(Mutex::new(vec![address(1), address(2)]));
        let told = Arc::clone(&answer);
        let lookup = move |_, _| -> super::super::resolver::Looked {
            let now = told.lock().unwrap().clone();
            Box::pin(async move { Ok(now) })
        };
        let resolver = Resolver::with(Box::new(lookup)).unwrap();
        let hub = Hub::new(1);
        let mut reader = hub.reader().unwrap();
        let mut known = || -> Vec<String> {
            let seen = reader.drain().endpoints;
            seen.iter().flat_map(|of| of.known.iter()).map(ToString::to_string).collect()
        };
        LocalSet::new()
            .run_until(async {
                let (mut round, table) = (Round::new(hub, Arc::clone(&resolver)), table());
                round.follow(&table);
                round.names[0].first().await.unwrap();
                while addresses(&round) != ["app:80@192.0.2.1", "app:80@192.0.2.2"] {
                    round.follow(&table);
                    yield_now().await;
                }
                assert_eq!(known(), ["app:80@192.0.2.1", "app:80@192.0.2.2"]);
                let id = |round: &Round| {
                    let stays = round.asked.iter().find(|(asked, _)| asked.instance.to_string().ends_with(".2"));
                    stays.map(|(_, task)| task.id())
                };
                let before = id(&round);
                *answer.lock().unwrap() = vec![address(2), address(3)];
                while addresses(&round) != ["app:80@192.0.2.2", "app:80@192.0.2.3"] {
                    round.names[0].again().await;
                    round.follow(&table);
                }
                assert_eq!(known(), ["app:80@192.0.2.2", "app:80@192.0.2.3"]);
                assert_eq!(id(&round), before, "it goes on being asked as it was");
            })
            .await;
    }
}
