//! Clients who come again and again, over reloads, crashes and changes of the weight. Whoever is kept on a version stays there
//! while its weight does not fall; whoever is in a group is where the group goes; while a canary drains, nobody new comes.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serin::engine::{
    address::Address,
    assign::{Cohort, CohortTarget},
    event::{Cause, Event, EventKind},
    filter::Scheme,
    memory::{PauseKind, PhaseMemory, ServiceMemory},
    names::{Revision, ServiceName, VersionName},
    plan::StickyPlan,
    request::RequestView,
    split::{Assignment, Claims, assign},
    sticky::StickyBy,
    table::ServiceTable,
    weight::Weight,
};

use crate::world::Dice;

const COOKIE: &str = "serin";
const GROUP: &str = "x-group";
/// Who come again, of each service.
const REGULARS: usize = 6;

/// The clients of one service.
pub struct Clients {
    pub service: ServiceName,
    regulars: [Option<Regular>; REGULARS],
}

struct Regular {
    cookie: String,
    version: VersionName,
    attempt: Revision,
    weight: Weight,
}

/// Cookies for half of the services.
pub fn sticky(dice: &mut Dice) -> Option<StickyPlan> {
    dice.chance(60).then(|| StickyPlan { by: StickyBy::Cookie(COOKIE.to_owned()), ttl: None })
}

/// Groups for half of them.
pub fn cohorts(dice: &mut Dice) -> Vec<Cohort> {
    let header = HeaderName::from_static(GROUP);
    let group = |name: &str, to| Cohort { header: header.clone(), values: vec![name.to_owned()], to };
    let both = vec![group("staff", CohortTarget::Canary), group("calm", CohortTarget::Stable)];
    if dice.chance(50) { both } else { Vec::new() }
}

impl Clients {
    pub fn of(service: ServiceName) -> Self {
        Self { service, regulars: Default::default() }
    }

    /// Everybody asks for something. `last` is what was last told of the service.
    pub fn come(&mut self, table: &ServiceTable, last: Option<&Event>, dice: &mut Dice) {
        let Some(last) = last else { return };
        for place in &mut self.regulars {
            if dice.chance(5) {
                *place = None;
            }
            *place = come_again(place.take(), table, last, dice);
        }
    }

    /// Where groups are, by what the disk has.
    pub fn groups_are_where_they_belong(table: &ServiceTable, memory: &ServiceMemory, dice: &mut Dice) {
        if table.cohorts.is_empty() {
            return;
        }
        let version = |group, dice: &mut Dice| {
            let Assignment { version, .. } = ask(table, &[(GROUP, group)], dice);
            &table.versions[version].name
        };
        assert_eq!(version("calm", dice), &memory.stable.version, "a group that is kept off the canary");
        let target = match &memory.phase {
            PhaseMemory::Progressing(rollout) => rollout,
            PhaseMemory::Paused { rollout, kind, .. } if !matches!(kind, PauseKind::Untrusted | PauseKind::Drain) => {
                rollout
            }
            _ => return,
        };
        assert_eq!(version("staff", dice), &target.target.version, "a group that goes to the canary");
    }
}

fn come_again(before: Option<Regular>, table: &ServiceTable, last: &Event, dice: &mut Dice) -> Option<Regular> {
    let cookie = before.as_ref().map(|regular| format!("{COOKIE}={}", regular.cookie));
    let fields: Vec<(&str, &str)> = cookie.iter().map(|cookie| (header::COOKIE.as_str(), &**cookie)).collect();
    let Assignment { version, hand_out, .. } = ask(table, &fields, dice);
    table.sticky.as_ref()?;
    let now = &table.versions[version];
    let drains = last.kind == EventKind::Paused && matches!(last.cause, Cause::Person { verb: "drain", .. });
    let comes_to_canary = table.canary == Some(version);
    if let Some(before) = before.as_ref().filter(|before| before.attempt == last.revision) {
        let of = table.versions.iter().find(|version| version.name == before.version);
        let weight = of.map_or(Weight::ZERO, |version| version.weight);
        assert!(weight < before.weight || now.name == before.version, "a client was moved in vain after {last:?}");
    }
    assert!(!drains || !comes_to_canary || before.is_some(), "nobody new comes to a canary that drains");
    let cookie = hand_out.map_or_else(|| before.map(|before| before.cookie), |id| Some(id.to_string()))?;
    Some(Regular { cookie, version: now.name.clone(), attempt: last.revision, weight: now.weight })
}

fn ask(table: &ServiceTable, fields: &[(&str, &str)], dice: &mut Dice) -> Assignment {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    let client = Address::v4([192, 0, 2, 1]);
    let view = RequestView {
        scheme: Scheme::Http,
        method: &Method::GET,
        host: "",
        port: None,
        path: "/",
        query: "",
        headers: &headers,
        client,
    };
    assign(table, &Claims::of(table, &view), || dice.bits())
}
