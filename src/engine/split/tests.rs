//! The order of precedence, and that buckets keep clients where they are.

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::*;
use crate::engine::{
    address::Address,
    assign::{Cohort, ForceRule, ForceSecret, HeaderRoute},
    endpoint::{InUse, UpstreamHttp},
    explain::{Outcome, explain},
    failure::{FailurePlan, Retry},
    filter::Scheme,
    names::{Generation, Role, ServiceName, VersionName},
    request::{HeaderMatch, StringMatch},
    sticky::BucketKey,
    table::{Table, Timeouts, VersionTable},
};

/// v1 stable, v2 canary with so much, v3 without a part.
fn service(ppm: u32) -> ServiceTable {
    let canary = Weight::from_ppm(ppm).unwrap();
    let version = |name: &str, role, weight| VersionTable {
        name: VersionName::new(name).unwrap(),
        role,
        weight,
        endpoints: Vec::new(),
        http: UpstreamHttp::H1,
        upstream: Arc::default(),
        in_use: InUse::All,
        filters: Arc::default(),
    };
    ServiceTable {
        name: ServiceName::new("web").unwrap(),
        weight_generation: Generation(1),
        versions: vec![
            version("v1", Role::Stable, canary.rest()),
            version("v2", Role::Canary, canary),
            version("v3", Role::Other, Weight::ZERO),
        ],
        stable: 0,
        canary: Some(1),
        split: Split::new(&[(1, canary), (0, canary.rest())]).unwrap(),
        force: Some(ForceRule::by_header(HeaderName::from_static("x-canary"))),
        header_routes: vec![HeaderRoute {
            name: "staff".into(),
            matches: vec![HeaderMatch {
                name: HeaderName::from_static("x-staff"),
                value: StringMatch::Exact("yes".to_owned()),
            }],
            all: true,
        }],
        mirror_routes: Vec::new(),
        cohorts: vec![
            cohort("beta", CohortTarget::Canary),
            cohort("calm", CohortTarget::Stable),
            cohort("fans", CohortTarget::Version(VersionName::new("v2").unwrap())),
        ],
        sticky: Some(StickyRule { by: StickyBy::Cookie("serin".to_owned()), ttl: None, key: key("v2") }),
        draining: false,
        drain_timeout: std::time::Duration::ZERO,
        timeouts: Timeouts::default(),
        retry: Retry::default(),
        failure: FailurePlan::default(),
    }
}

fn cohort(value: &str, to: CohortTarget) -> Cohort {
    Cohort { header: HeaderName::from_static("x-group"), values: vec![value.to_owned()], to }
}

fn key(target: &str) -> BucketKey {
    BucketKey::of(&ServiceName::new("web").unwrap(), &VersionName::new(target).unwrap(), "")
}

fn routed(service: &ServiceTable, fields: &[(&'static str, &str)], draw: u64) -> (usize, Reason) {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    let request = RequestView {
        scheme: Scheme::Http,
        method: &Method::GET,
        host: "a",
        port: None,
        path: "/",
        query: "",
        headers: &headers,
        client: Address::v4([192, 0, 2, 1]),
    };
    let assignment = assign(service, &Claims::of(service, &request), || draw);
    (assignment.version, assignment.reason)
}

/// A cookie whose bucket is the canary's at that weight, or stable's.
fn cookie_of(service: &ServiceTable, version: usize) -> String {
    let rule = service.sticky.as_ref().unwrap();
    let id = (0..10_000).map(StickyId).find(|id| service.split.version_of(rule.key.bucket(*id)) == version).unwrap();
    format!("serin={id}")
}

#[test]
fn each_claim_comes_before_those_below_it() {
    let half = service(500_000);
    let (stable, canary) = (&*cookie_of(&half, 0), &*cookie_of(&half, 1));
    let to_stable = [("x-canary", "never"), ("x-staff", "yes"), ("x-group", "beta"), ("cookie", canary)];
    let to_canary = [("x-canary", "always"), ("x-group", "calm"), ("cookie", stable)];
    for (fields, expected) in [
        (&to_stable[..], (0, Reason::Forced)),
        (&to_canary[..], (1, Reason::Forced)),
        (&[("x-canary", "v2")], (1, Reason::Forced)),
        (&[("x-canary", "v1"), ("cookie", canary)], (0, Reason::Forced)),
        (&[("x-canary", "v3"), ("cookie", canary)], (0, Reason::Forced)),
        (&[("x-canary", "other"), ("cookie", canary)], (1, Reason::Sticky)),
        (&[("x-staff", "yes"), ("x-group", "calm"), ("cookie", stable)], (1, Reason::Cohort)),
        (&[("x-staff", "no"), ("x-group", "calm"), ("cookie", canary)], (0, Reason::Cohort)),
        (&[("x-group", "beta"), ("cookie", stable)], (1, Reason::Cohort)),
        (&[("x-group", "fans"), ("cookie", stable)], (1, Reason::Cohort)),
        (&[("x-group", "else"), ("cookie", stable)], (0, Reason::Sticky)),
        (&[("cookie", canary)], (1, Reason::Sticky)),
    ] {
        assert_eq!(routed(&half, fields, 0), expected, "{fields:?}");
    }
}

#[test]
fn without_a_canary_every_claim_means_stable() {
    let mut aborted = service(0);
    let cookie = cookie_of(&service(500_000), 1);
    aborted.canary = None;
    aborted.header_routes.clear();
    for fields in [
        &[("x-canary", "always")][..],
        &[("x-canary", "v2")],
        &[("x-staff", "yes")],
        &[("x-group", "beta")],
        &[("x-group", "fans")],
        &[("cookie", &*cookie)],
        &[],
    ] {
        assert_eq!(routed(&aborted, fields, 0).0, 0, "{fields:?}");
    }
}

#[test]
fn a_header_route_that_is_gone_holds_no_claim() {
    let mut half = service(500_000);
    let claims = Claims { header_route: Some("staff".into()), ..Claims::default() };
    assert_eq!(assign(&half, &claims, || 0).reason, Reason::Cohort);
    half.header_routes.clear();
    assert_eq!(assign(&half, &claims, || 0).reason, Reason::Sticky);
}

#[test]
fn a_key_that_is_missing_is_a_fresh_draw() {
    for by in [StickyBy::Header(HeaderName::from_static("x-user")), StickyBy::Query("user".to_owned())] {
        let mut half = service(500_000);
        half.sticky.as_mut().unwrap().by = by;
        assert_eq!(routed(&half, &[], 0), (1, Reason::Sampled));
        assert_eq!(routed(&half, &[], u64::MAX), (0, Reason::Sampled));
    }
    let mut half = service(500_000);
    half.sticky.as_mut().unwrap().by = StickyBy::ClientIp;
    assert_eq!(routed(&half, &[], 0), routed(&half, &[], u64::MAX));
}

#[test]
fn clients_move_only_the_way_the_weight_moves() {
    let rule = |service: &ServiceTable| service.sticky.clone().unwrap().key;
    let canaries = |ppm: u32| {
        let service = service(ppm);
        let on_canary = |id: &u64| service.split.version_of(rule(&service).bucket(StickyId(*id))) == 1;
        (0..100_000_u64).filter(on_canary).collect::<std::collections::BTreeSet<_>>()
    };
    let (ten, twenty, five) = (canaries(100_000), canaries(200_000), canaries(50_000));
    assert!(ten.is_subset(&twenty) && five.is_subset(&ten));
    assert!(canaries(0).is_empty());
    // Four standard deviations of 100,000 at 10 % are 380.
    assert!(ten.len().abs_diff(10_000) <= 380, "{}", ten.len());
}

/// Ten thousand clients come back twenty times, a tenth of them each time as somebody new.
#[test]
fn returning_clients_keep_the_share_and_do_not_gather_on_the_canary() {
    let service = service(100_000);
    let key = service.sticky.clone().unwrap().key;
    let mut ids: Vec<u64> = (0..10_000).collect();
    for round in 1..=20_u64 {
        let forgetful = ids.iter_mut().enumerate().filter(|(at, _)| *at as u64 % 10 == round % 10);
        forgetful.for_each(|(_, id)| *id += 10_000);
        let on_canary = ids.iter().filter(|id| service.split.version_of(key.bucket(StickyId(**id))) == 1).count();
        // Four standard deviations of 10,000 at 10 % are 120.
        assert!(on_canary.abs_diff(1_000) <= 120, "round {round}: {on_canary}");
    }
}

#[test]
fn another_rollout_begins_with_other_clients() {
    let first = |target: &str| {
        let key = key(target);
        (0..100_000_u64).filter(|id| key.bucket(StickyId(*id)).number() < 100_000).collect::<Vec<_>>()
    };
    let (one, two) = (first("v2"), first("v3"));
    let both = one.iter().filter(|id| two.binary_search(id).is_ok()).count();
    // A tenth of a tenth: 1,000, give or take four standard deviations of 31.
    assert!(both.abs_diff(1_000) <= 124, "{both}");
}

#[test]
fn one_part_of_a_million_is_one_bucket() {
    let one = service(1);
    assert_eq!((0..BUCKETS).filter(|&number| one.split.version_of(Bucket(number)) == 1).count(), 1);
}

#[test]
fn while_it_drains_the_canary_keeps_its_clients_and_takes_nobody_new() {
    let mut draining = service(500_000);
    draining.draining = true;
    let cookie = cookie_of(&draining, 1);
    assert_eq!(routed(&draining, &[("cookie", &cookie)], 0), (1, Reason::Sticky));
    assert_eq!(routed(&draining, &[("x-canary", "always")], 0), (1, Reason::Forced));
    assert_eq!(routed(&draining, &[("x-staff", "yes"), ("cookie", &cookie)], 0), (1, Reason::Sticky));
    assert_eq!(routed(&draining, &[("x-group", "beta")], 0), (0, Reason::Cohort));
    for draw in (0..1_000).map(|nth: u64| nth.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
        let newcomer = assign(&draining, &Claims::default(), || draw);
        let id = newcomer.hand_out.unwrap();
        assert_eq!(newcomer.version, 0);
        assert_eq!(routed(&draining, &[("cookie", &format!("serin={id}"))], 0), (0, Reason::Sticky));
    }
    draining.sticky = None;
    assert_eq!(routed(&draining, &[], 0), (0, Reason::Sampled));
    let mut all = service(1_000_000);
    all.draining = true;
    let newcomer = assign(&all, &Claims::default(), || 7);
    assert_eq!((newcomer.version, newcomer.hand_out), (0, None));
}

#[test]
fn nobody_is_drawn_for_a_canary_without_weight_and_all_are_for_one_with_the_whole() {
    for (ppm, expected) in [(0, 0), (1_000_000, 1)] {
        let service = service(ppm);
        for nth in 0..10_000_u64 {
            // Spread over all buckets, the first and the last among them.
            let draw = nth.wrapping_mul(u64::MAX / 9_999);
            assert_eq!(routed(&service, &[], draw).0, expected, "{ppm} ppm, draw {draw}");
        }
        let cookies = (0..10_000).map(|id| format!("serin={}", StickyId(id)));
        assert!(cookies.map(|cookie| routed(&service, &[("cookie", &cookie)], 0).0).all(|version| version == expected));
    }
}

fn because(service: &ServiceTable, fields: &[(&'static str, &str)]) -> String {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    let request = RequestView {
        scheme: Scheme::Http,
        method: &Method::GET,
        host: "a",
        port: None,
        path: "/",
        query: "",
        headers: &headers,
        client: Address::v4([192, 0, 2, 1]),
    };
    let table = Table::new(Generation(1), vec![service.clone()]);
    let Some(Outcome::Version(chosen)) = explain(&table, &request).map(|told| told.outcome) else {
        panic!("no version")
    };
    chosen.because
}

/// It said that the request forces `v3`, and named another version.
#[test]
fn a_force_that_is_not_met_was_explained_as_if_it_were() {
    let mut half = service(500_000);
    let of = |half: &ServiceTable, word: &str| because(half, &[("x-canary", word)]);
    assert_eq!(of(&half, "v2"), "the request forces it: version `v2`");
    assert_eq!(of(&half, "never"), "the request forces it: stable");
    let third = "the request forces it: version `v3`, which serves nobody now, so stable answers; the canary is v2";
    assert_eq!(of(&half, "v3"), third);
    assert_eq!(
        of(&half, "v\u{9}9"),
        "a new client: a draw, kept by a cookie from then on; `v\\t9` forces nothing: it is `always`, `never` or the name of a version"
    );
    half.force.as_mut().unwrap().secret = Some(ForceSecret::new("a-long-secret"));
    let not_let = "a new client: a draw, kept by a cookie from then on; this client may not force a version: it is not of \
                   `force.from`, and says no right secret";
    for word in ["always", "always:another-secret"] {
        assert_eq!(of(&half, word), not_let);
    }
    assert_eq!(of(&half, "always:a-long-secret"), "the request forces it: canary");
    assert!(!of(&half, "v9:a-long-secret").contains("a-long-secret"));
    half.canary = None;
    let none = "the request forces it: canary, but no rollout is under way, so stable answers";
    assert_eq!(of(&half, "always:a-long-secret"), none);
}
