//! What a Rollout says of its traffic router that means something without one: header routes, and annotations of
//! ingress-nginx and stickiness of load balancers that the controller would have passed on.

use std::time::Duration;

use super::{
    draft::{Service, Step, Sticky},
    istio_http::condition,
    ledger::Ledger,
    manifest::{Item, Object},
    matching::{Condition, How},
    trial,
    value::{is_token, scalar, whole},
};

/// Reads `trafficRouting`.
pub(super) fn read(canary: &Item, service: &mut Service, ledger: &mut Ledger) {
    let Some(routing) = canary.get("trafficRouting") else { return };
    for route in routing.list(&["managedRoutes"]) {
        ledger.kept(route, "names of header routes need no list");
    }
    if let Some(sticky) = routing.at(&["alb", "stickinessConfig"])
        && sticky.get("enabled").is_some_and(Item::is_true)
    {
        let age = sticky.get("durationSeconds").and_then(whole).filter(|age| (1..=31_536_000).contains(age));
        service.sticky = Some(Sticky { cookie: "serin".to_owned(), ttl: age.map(Duration::from_secs) });
        ledger.approximated(sticky, "`assign.sticky`: an abort moves everybody at once, whatever their cookie says");
    }
    let annotations = routing.at(&["nginx", "additionalIngressAnnotations"]);
    let named = |name: &str| annotations.and_then(|all| all.get(name)).filter(|item| item.text().is_some_and(is_token));
    let (header_at, cookie_at) = (named("canary-by-header"), named("canary-by-cookie"));
    let value_at = annotations.and_then(|all| all.get("canary-by-header-value"));
    if let Some(header) = header_at.and_then(Item::text) {
        let done = if let Some(value) = value_at.and_then(Item::text).filter(|value| !value.is_empty()) {
            let cohort = format!("{{ header: {}, values: [{}], to: canary }}", scalar(header), scalar(value));
            trial::service(&format!("    assign: {{ cohorts: [{cohort}] }}\n"))
                .map(|()| service.cohorts.push((header.to_owned(), value.to_owned())))
        } else {
            service.force_header = Some(header.to_owned());
            Ok(())
        };
        for item in [header_at, value_at].into_iter().flatten() {
            match &done {
                Ok(()) => ledger.kept(item, "`assign`: who sends this goes to the canary"),
                Err(why) => ledger.dropped(item, why),
            }
        }
    }
    if let Some(item) = cookie_at {
        service.force_cookie = item.text().map(str::to_owned);
        ledger.kept(item, "`assign.force.cookie`");
    }
}

/// `setHeaderRoute: { name, match }`. Istio takes any of several conditions; load balancers and plugins want all of them.
pub(super) fn step(item: &Item, place: &str, rollout: &Object, service: &mut Service, ledger: &mut Ledger) {
    let routing = rollout.spec(&["strategy", "canary", "trafficRouting"]);
    let wants_all = routing.is_some_and(|routing| routing.get("alb").or_else(|| routing.get("plugins")).is_some());
    let name = item.get("name").and_then(Item::text).unwrap_or_default();
    let mut conditions = Vec::new();
    for condition in item.list(&["match"]) {
        match header(condition) {
            Ok(read) => conditions.push(read.as_header_route()),
            Err(why) => return ledger.dropped(item, why),
        }
    }
    let field = if wants_all { "all" } else { "match" };
    let list = if conditions.is_empty() { String::new() } else { format!(", {field}: [{}]", conditions.join(", ")) };
    let text = format!("{{ name: {}{list} }}", scalar(name));
    let steps = format!("[{{ setHeaderRoute: {text} }}, {{ setWeight: 1 }}]");
    match trial::service(&format!("    strategy: {{ canary: {{ steps: {steps} }} }}\n")) {
        Ok(()) => {
            service.steps.push(Step::HeaderRoute(text), place);
            if conditions.len() > 1 && !wants_all {
                ledger.approximated(
                    item,
                    "`setHeaderRoute`: any of the conditions, as over Istio; `all` needs every one",
                );
            } else {
                ledger.kept(item, "`setHeaderRoute`: in force until it is removed, or the rollout ends");
            }
        }
        Err(why) => ledger.dropped(item, why),
    }
}

fn header(item: &Item) -> Result<Condition, String> {
    let name = item.get("headerName").and_then(Item::text).unwrap_or_default();
    let (how, value): (How, String) = condition(item.get("headerValue").ok_or("a condition without a value")?)?;
    Ok(Condition::new(name, how, &value))
}
