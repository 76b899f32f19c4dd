//! What a service with little traffic has to expect of a plan, and what can be done about it. Knows no measured number.

use std::time::Duration;

use super::{
    quantity::{counted, duration, trimmed},
    status::check_name,
};
use crate::engine::{minimum::SlowHold, names::ServiceName, weight::Weight};

/// From so long on, what is awaited is worth a word about how to wait less.
pub(super) const LONG: Duration = Duration::from_mins(10);

/// Which step takes longer than it says, at which traffic, why, and how long at so many requests a second.
#[must_use]
pub fn slow_hold(slow: &SlowHold, at: f64) -> String {
    let SlowHold { step, weight, hold, check, requests } = slow;
    format!(
        "Below {} requests a second step {step} ({weight}) takes longer than its {}, since {} needs {}: at {} a second {}",
        trimmed(slow.rate().ceil(), 1),
        duration(*hold),
        check_name(check),
        counted(*requests, "canary request"),
        trimmed(at, 2),
        duration(slow.takes(at)),
    )
}

/// What shortens it.
#[must_use]
pub fn shorter(check: &str) -> String {
    let ask_less = match check {
        "versusStable" | "consecutiveErrors" => "",
        _ => ", or a smaller `minRequests` or no such limit",
    };
    format!("A larger first weight{ask_less} makes that shorter.")
}

/// What a person can do while a rollout waits for requests of a check.
pub(super) fn waits_long(service: &ServiceName, (canary, weight): (&str, Weight), check: &str) -> Vec<String> {
    let name = check_name(check);
    let more = ["20%", "50%"].into_iter().find(|more| more.parse::<Weight>().is_ok_and(|more| more > weight));
    let more = more.map(|more| {
        format!("  serin set-weight {service} {more}   gives {canary} more of the requests, and pauses there")
    });
    let mut ways: Vec<String> = more.into_iter().collect();
    if !matches!(check, "versusStable" | "consecutiveErrors") {
        ways.push(format!(
            "  in the file: leave {name} out, or give it a smaller `minRequests` (`strategy.canary.guard`); that applies at once"
        ));
    }
    ways.push(format!("  serin promote {service}   goes to the next step without having seen them"));
    std::iter::once(format!("To wait less for {name}:")).chain(ways).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_service_is_told_what_to_expect() {
        let slow = SlowHold {
            step: 1,
            weight: "1%".parse().unwrap(),
            hold: Duration::from_mins(2),
            check: "p99".to_owned(),
            requests: 200,
        };
        assert_eq!(
            slow_hold(&slow, 10.0),
            "Below 167 requests a second step 1 (1%) takes longer than its 2m, since p99 needs 200 canary requests: \
             at 10 a second 33m20s"
        );
        let web = ServiceName::new("web").unwrap();
        let [none, half] = ["1%", "50%"].map(|weight| waits_long(&web, ("v2", weight.parse().unwrap()), "p99"));
        assert!(none[1].starts_with("  serin set-weight web 20% ") && none[2].contains("minRequests"), "{none:?}");
        assert!(half.iter().all(|line| !line.contains("set-weight")), "{half:?}");
        assert!(shorter("p99").contains("minRequests") && !shorter("versusStable").contains("minRequests"));
    }
}
