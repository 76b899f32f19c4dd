//! SMI: the weighted backends of a TrafficSplit. Weights are proportions; a backend is a Service of its own.

use super::{
    Importer,
    draft::{Draft, Place, backend},
    ledger::Ledger,
    manifest::{Item, Objects},
    weighted::{self, Leg},
};
use crate::engine::names::VersionName;

pub(super) const IMPORTER: Importer = Importer {
    word: "smi",
    reads: &["TrafficSplit", "Service"],
    wants: "TrafficSplit with backends",
    reasons: &[(
        "TrafficSplit",
        "spec.matches",
        "who is meant by a match stands in an HTTPRouteGroup, which is not read",
    )],
    draft,
};

fn draft(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    let split = objects.only("TrafficSplit", ledger)?;
    let namespace = split.namespace(ledger);
    let root = split.spec(&["service"]);
    // `web` or `web.prod.svc.cluster.local`: the first label is the service that clients ask for.
    let name = root.and_then(Item::text).map(|text| text.split_once('.').map_or(text, |(first, _)| first));
    let name = name.filter(|name| VersionName::new(name).is_ok()).unwrap_or("app").to_owned();
    if let Some(item) = root {
        ledger.approximated(item, format!("the service `{name}`; clients reach it where Serin listens"));
    }
    let mut legs = Vec::new();
    for (index, item) in split.spec(&["backends"])?.items().iter().enumerate() {
        let fallback = (&*format!("{name}-{}", index + 1), &*format!("v{}", index + 1));
        let backend = backend(item.get("service"), Place { namespace, port: 80, fallback }, objects, ledger);
        legs.push(Leg { backend, item, weight_at: item.get("weight"), default: 0 });
    }
    weighted::draft(name, legs, ledger)
}
