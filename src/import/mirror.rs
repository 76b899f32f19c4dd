//! Mirroring of other tools: copies to another backend become a service of their own and a filter of the route, those of
//! a rollout's step stay a step. Other tools copy requests of any method; here only safe ones are, unless they are named.
//! Refuses to copy more than the source does: a condition or a share that cannot be said copies nothing.

use super::{
    backend::Backend,
    draft::{Draft, Service, Step, unused_name},
    istio_http::condition,
    ledger::Ledger,
    manifest::Item,
    route::Route,
    trial,
    value::{key_of, percent_ppm, scalar},
};
use crate::engine::weight::Weight;

/// Copies of a route's requests to a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mirror {
    /// Of the service that gets them; another one until [`settle`] if it is taken.
    pub(super) service: String,
    backend: Backend,
    share: Weight,
}

/// Most conditions of a mirror route, as in the file.
const MATCHES_MAX: usize = 32;

/// Said of copies whose methods are not told.
const SAFE_ONLY: &str = "GET, HEAD and OPTIONS only: whoever wants others copied names them";

/// Why only the first of several mirrors is taken over.
pub(super) const ONE_MIRROR: &str = "a route has one mirror";

/// Where nothing is said of a share.
pub(super) const EVERYTHING: Weight = Weight::FULL;

impl Mirror {
    pub(super) fn new(backend: Backend, share: Weight) -> Self {
        Self { service: backend.version.clone(), backend, share }
    }

    /// Puts it into a route that leads to a service; `item` is what it was read from.
    pub(super) fn apply(self, item: &Item, route: &mut Route, ledger: &mut Ledger) {
        ledger.approximated(item, format!("`filters.mirror`, {SAFE_ONLY} in `methods`"));
        route.mirror = Some(self);
    }

    /// As a value of `filters.mirror`.
    pub(super) fn text(&self) -> String {
        format!("{{ service: {}, percentage: {} }}", scalar(&self.service), percentage(self.share))
    }
}

/// Makes the services that get copies. Only now all others have their names.
pub(super) fn settle(draft: &mut Draft) {
    let Draft { routes, services, .. } = &mut *draft;
    let mut is_copied = false;
    for route in routes {
        let Some(mirror) = &mut route.mirror else { continue };
        is_copied = true;
        let is_it = |service: &&Service| {
            service.canary.is_none()
                && service.stable == mirror.backend
                && Some(&service.name) != route.service.as_ref()
        };
        if let Some(known) = services.iter().find(is_it) {
            mirror.service.clone_from(&known.name);
            continue;
        }
        mirror.service = unused_name(&mirror.service, services);
        services.push(Service::new(mirror.service.clone(), mirror.backend.clone(), None));
    }
    if is_copied {
        draft.remark(
            "copies are made of GET, HEAD and OPTIONS only, since others would do things twice: name more in `methods` of \
             the mirror if that is meant",
        );
    }
}

/// How much is copied, in percent; dropped aloud if it is no number of percent.
pub(super) fn share(item: &Item, ledger: &mut Ledger) -> Option<Weight> {
    let share = percent(item);
    match share {
        Some(_) => ledger.kept(item, "`percentage` of the mirror"),
        None => ledger.dropped(item, "not a number of percent; nothing is copied"),
    }
    share
}

fn percent(item: &Item) -> Option<Weight> {
    Weight::from_ppm(percent_ppm(item.text()?)?).ok()
}

/// As the field is written.
fn percentage(share: Weight) -> String {
    let ppm = share.ppm();
    let (whole, part) = (ppm / 10_000, ppm % 10_000);
    if part == 0 { whole.to_string() } else { format!("{whole}.{part:04}").trim_end_matches('0').to_owned() }
}

/// Argo's `setMirrorRoute`.
pub(super) fn step(item: &Item, place: &str, service: &mut Service, ledger: &mut Ledger) {
    match read_step(item, ledger) {
        Ok(text) => {
            ledger.kept(item, "a `setMirrorRoute`; copies are no evidence and gone with the rollout");
            service.steps.push(Step::MirrorRoute(text), place);
        }
        Err(why) => ledger.retracted(item, &why),
    }
}

fn read_step(item: &Item, ledger: &mut Ledger) -> Result<String, String> {
    let name = scalar(item.get("name").and_then(Item::text).unwrap_or_default());
    let entries = item.list(&["match"]);
    let percent_at = item.get("percentage");
    if entries.is_empty() {
        let text = format!("{{ name: {name} }}");
        try_out(&text)?;
        if let Some(percentage) = percent_at {
            ledger.dropped(percentage, "without `match` the route is removed");
        }
        ledger.kept(item, "removes the mirror route");
        return Ok(text);
    }
    let share = percent_at.map_or(Some(EVERYTHING), percent);
    let share = share.ok_or("`percentage` is not a number of percent; nothing is copied")?;
    let read: Vec<String> = entries.iter().take(MATCHES_MAX).filter_map(|entry| one_match(entry, ledger)).collect();
    for entry in entries.get(MATCHES_MAX..).unwrap_or_default() {
        ledger.dropped(entry, "one condition too many");
    }
    if read.is_empty() {
        return Err("of its conditions none can be said here; nothing is copied".to_owned());
    }
    let text = format!("{{ name: {name}, percentage: {}, match: [{}] }}", percentage(share), read.join(", "));
    try_out(&text).map(|()| text)
}

fn try_out(route: &str) -> Result<(), String> {
    trial::service(&format!(
        "    strategy: {{ canary: {{ steps: [{{ setMirrorRoute: {route} }}, {{ setWeight: 1 }}] }} }}\n"
    ))
}

/// All of `method`, `path` and `headers`; none, and dropped aloud, if one cannot be said: too much would be copied.
fn one_match(item: &Item, ledger: &mut Ledger) -> Option<String> {
    let read = conditions(item).and_then(|text| try_out(&format!("{{ name: a, match: [{text}] }}")).map(|()| text));
    match read {
        Ok(text) => {
            if item.get("method").is_some() {
                ledger.kept(item, "a condition of the mirror route");
            } else {
                ledger.approximated(item, format!("a condition of the mirror route, {SAFE_ONLY} by `method`"));
            }
            Some(text)
        }
        Err(why) => {
            ledger.dropped(item, format!("without this too much would be copied: {why}"));
            None
        }
    }
}

fn conditions(item: &Item) -> Result<String, String> {
    let one = |item: &Item| condition(item).map(|(how, text)| format!("{{ {}: {} }}", how.word(), scalar(&text)));
    let mut parts = Vec::new();
    for (field, value) in item.fields() {
        let text = match &**field {
            "method" | "path" => one(value)?,
            "headers" => {
                let all = value.fields().iter();
                let all: Result<Vec<String>, String> =
                    all.map(|(name, value)| Ok(format!("{}: {}", key_of(name), one(value)?))).collect();
                format!("{{ {} }}", all?.join(", "))
            }
            other => return Err(format!("`{other}` is no condition of a mirror route")),
        };
        parts.push(format!("{field}: {text}"));
    }
    Ok(format!("{{ {} }}", parts.join(", ")))
}
