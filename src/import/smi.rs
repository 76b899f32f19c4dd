//! SMI: the weighted backends of a TrafficSplit. Weights are proportions; a backend is a Service of its own.
//! With `matches` only the requests of an HTTPRouteGroup are split; all others reach the root Service.

use super::{
    Importer,
    backend::{Backend, Place, backend},
    draft::{Draft, Service, unused_name},
    ledger::Ledger,
    manifest::{Item, Object, Objects},
    matching::{Condition, How, MATCHES_MAX, Match},
    route::Route,
    weighted::{self, Leg},
};
use crate::engine::names::VersionName;

pub(super) const IMPORTER: Importer = Importer {
    word: "smi",
    reads: &["TrafficSplit", "HTTPRouteGroup", "Service"],
    wants: "TrafficSplit with backends",
    reasons: &[
        ("TrafficSplit", "spec.matches", "there is no HTTPRouteGroup of that name in these files, or nothing in it"),
        ("HTTPRouteGroup", "spec.matches", "no TrafficSplit names this group"),
    ],
    draft,
};

fn draft(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    let splits: Vec<&Object> = objects.all("TrafficSplit").collect();
    let mut draft = Draft::empty();
    for split in &splits {
        one_split(split, splits.len() > 1, &mut draft, objects, ledger);
    }
    draft.remark_splits();
    (!draft.services.is_empty()).then_some(draft)
}

fn one_split(
    split: &Object,
    has_others: bool,
    draft: &mut Draft,
    objects: &Objects,
    ledger: &mut Ledger,
) -> Option<()> {
    let namespace = split.namespace(ledger);
    let root = split.spec(&["service"]);
    // `web` or `web.prod.svc.cluster.local`: the first label is the service that clients ask for.
    let full = root.and_then(Item::text);
    let first = full.map(|text| text.split_once('.').map_or(text, |(first, _)| first));
    let name = first.filter(|name| VersionName::new(name).is_ok()).unwrap_or("app").to_owned();
    let mut legs = Vec::new();
    for (index, item) in split.spec(&["backends"])?.items().iter().enumerate() {
        let fallback = (&*format!("{name}-{}", index + 1), &*format!("v{}", index + 1));
        let backend = backend(item.get("service"), Place { namespace, port: 80, fallback }, objects, ledger);
        legs.push(Leg { backend, item, weight_at: item.get("weight"), default: 0 });
    }
    let service = weighted::service(unused_name(&name, &draft.services), legs, ledger)?;
    // Several splits are told apart by the host that clients ask for.
    let hosts: Vec<Option<String>> = match full.filter(|_| has_others) {
        Some(full) => hosts_of(full, namespace).into_iter().map(Some).collect(),
        None => vec![None],
    };
    if hosts.is_empty() {
        ledger.retracted(&split.item, "its service's name is no host, which several splits are told apart by");
        return None;
    }
    if let Some(item) = root {
        let how = if has_others { "its hosts tell the services apart" } else { "clients reach it where Serin listens" };
        ledger.approximated(item, format!("the service `{}`; {how}", service.name));
    }
    let matches = groups(split, objects, ledger);
    let at_hosts = |one: &Match| hosts.iter().map(|host| Match { host: host.clone(), ..one.clone() }).collect();
    let everything: Vec<Match> = at_hosts(&Match::default());
    let route = |matches, service: &Service| Route { matches, service: Some(service.name.clone()), ..Route::default() };
    if matches.is_empty() {
        draft.routes.push(route(everything, &service));
        draft.services.push(service);
        return Some(());
    }
    let split_ones: Vec<Match> =
        matches.iter().flat_map(|one| -> Vec<Match> { at_hosts(one) }).take(MATCHES_MAX).collect();
    draft.routes.push(route(split_ones, &service));
    let rest = Backend::of_service(&name, namespace, objects.port(&name, ledger).unwrap_or(80));
    draft.services.push(service);
    let rest = rest.unwrap_or_else(|| Backend::unknown("v1"));
    let rest = Service::new(unused_name(&format!("{name}-rest"), &draft.services), rest, None);
    draft.routes.push(route(everything, &rest));
    draft.services.push(rest);
    Some(())
}

/// What clients in a cluster call a Service by.
pub(super) fn hosts_of(name: &str, namespace: Option<&str>) -> Vec<String> {
    let mut hosts = vec![name.to_owned()];
    if let (Some(namespace), false) = (namespace, name.contains('.')) {
        hosts.push(format!("{name}.{namespace}"));
        hosts.push(format!("{name}.{namespace}.svc.cluster.local"));
    }
    hosts.retain(|host| Match { host: Some(host.clone()), ..Match::default() }.try_out().is_ok());
    hosts
}

/// The matches of all groups that a split names.
fn groups(split: &Object, objects: &Objects, ledger: &mut Ledger) -> Vec<Match> {
    let mut all = Vec::new();
    for reference in split.spec(&["matches"]).map_or(&[][..], Item::items) {
        let name = reference.get("name").and_then(Item::text).unwrap_or_default();
        let group = objects.named("HTTPRouteGroup", name);
        let read: Vec<Match> = group
            .and_then(|group| group.spec(&["matches"]))
            .map_or(&[][..], Item::items)
            .iter()
            .flat_map(|item| of_group(item, ledger))
            .collect();
        if let Some(group) = group.filter(|_| !read.is_empty()) {
            ledger.kept(reference, "only the requests of this group are split");
            ledger.kept_field(group, &["metadata", "name"], "the group that the split names");
        }
        all.extend(read);
    }
    all
}

/// `{ name, methods, pathRegex, headers }`; every condition of it is needed.
fn of_group(item: &Item, ledger: &mut Ledger) -> Vec<Match> {
    let text = |item: Option<&Item>| item.and_then(Item::text).map(str::to_owned);
    let headers = item.get("headers").map_or(&[][..], Item::fields).iter();
    let one = Match {
        path: text(item.get("pathRegex")).map(|pattern| (How::Regex, pattern)),
        headers: headers.filter_map(|(name, value)| Some(Condition::new(name, How::Regex, value.text()?))).collect(),
        ..Match::default()
    };
    let methods: Vec<&str> = item.list(&["methods"]).iter().filter_map(Item::text).collect();
    let all = if methods.is_empty() || methods.contains(&"*") {
        vec![one]
    } else {
        methods.iter().map(|method| Match { method: Some((*method).to_owned()), ..one.clone() }).collect()
    };
    match all.iter().try_for_each(Match::try_out) {
        Ok(()) => {
            ledger.kept(item, "a `match` of the route; patterns cover the whole value");
            all
        }
        Err(why) => {
            ledger.dropped(item, why);
            Vec::new()
        }
    }
}
