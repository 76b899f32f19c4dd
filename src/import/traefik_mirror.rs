//! Mirroring of Traefik: a service whose requests another one gets copies of, in a dynamic file or as TraefikService.
//! Refuses copies of copies, and a mirror without `percent`, to which Traefik copies nothing.

use super::{
    backend::Backend,
    ledger::Ledger,
    manifest::{Item, Object, Objects},
    mirror::{self, Mirror, ONE_MIRROR},
    route::Route,
    traefik_servers::{bare, file_services, object_legs, servers},
};

/// Where a mirroring is written.
#[derive(Clone, Copy)]
pub(super) enum Mirroring<'o> {
    InFile(&'o Item),
    Of(&'o Object, &'o Item),
}

/// The mirroring of that name.
pub(super) fn named<'o>(name: &str, objects: &'o Objects) -> Option<Mirroring<'o>> {
    let in_file = file_services(objects).into_iter().find(|(other, _)| *other == name);
    if let Some((_, item)) = in_file {
        return item.get("mirroring").map(Mirroring::InFile);
    }
    let object = objects.named("TraefikService", name)?;
    object.spec(&["mirroring"]).map(|item| Mirroring::Of(object, item))
}

/// The name of the first mirroring of a service of services.
pub(super) fn over<'o>(name: &str, objects: &'o Objects) -> Option<&'o str> {
    let is_over = |one: &Mirroring<'_>| one.service().and_then(Item::text).map(bare) == Some(name) && one.is_nested();
    let names = file_services(objects).into_iter().map(|(name, _)| name);
    let mut names = names.chain(objects.all("TraefikService").map(|object| &*object.name));
    names.find(|other| named(other, objects).is_some_and(|one| is_over(&one)))
}

impl<'o> Mirroring<'o> {
    pub(super) const fn item(&self) -> &'o Item {
        match self {
            Self::InFile(item) | Self::Of(_, item) => item,
        }
    }

    /// The name of the service whose requests are copied.
    pub(super) fn service(&self) -> Option<&'o Item> {
        match self {
            Self::InFile(item) => item.get("service"),
            Self::Of(_, item) => item.get("name"),
        }
    }

    /// Whether that is not a Service of Kubernetes.
    pub(super) fn is_nested(&self) -> bool {
        match self {
            Self::InFile(_) => true,
            Self::Of(_, item) => item.get("kind").and_then(Item::text) == Some("TraefikService"),
        }
    }

    /// Copies to its first mirror, put into a route.
    pub(super) fn apply(&self, route: &mut Route, objects: &Objects, ledger: &mut Ledger) {
        // A redirect is answered at once, and nothing is copied; another router may lead here.
        if route.service.is_none() {
            return;
        }
        let mut mirrors = self.item().list(&["mirrors"]).iter();
        if let Some(first) = mirrors.next()
            && let Some(percent) = first.get("percent")
            && let Some(share) = mirror::share(percent, ledger)
        {
            match self.backend(first, objects, ledger) {
                Some(backend) => Mirror::new(backend, share).apply(first, route, ledger),
                None => ledger.retracted(first, "it has no server that is in these files, and gets no copies"),
            }
        }
        for other in mirrors {
            ledger.dropped(other, ONE_MIRROR);
        }
        for (field, why) in [
            ("mirrors", "without a number of `percent` nothing is copied"),
            ("mirrorBody", "bodies go along with copies of the methods that have any"),
            ("maxBodySize", "Serin has a limit of its own for the bodies of copies"),
        ] {
            if let Some(item) = self.item().get(field) {
                ledger.dropped(item, why);
            }
        }
    }

    fn backend(&self, mirror: &Item, objects: &Objects, ledger: &mut Ledger) -> Option<Backend> {
        match self {
            Self::InFile(_) => {
                let name = bare(mirror.get("name")?.text()?);
                let found = file_services(objects).into_iter().find(|(other, _)| *other == name);
                servers(name, "mirror", found?.1, ledger)
            }
            Self::Of(object, _) => {
                mirror.get("name")?.text()?;
                let namespace = object.namespace(ledger);
                let legs = object_legs(std::slice::from_ref(mirror), "mirror", namespace, objects, ledger);
                legs.into_iter().next().map(|leg| leg.backend)
            }
        }
    }
}
