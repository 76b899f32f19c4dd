//! The fields of what is watched all the time.

use super::{
    Field,
    Kind::{Duration, List, Map, Number, Points, Share, Whole, Word},
    MANY, REQUIRED,
};

fields! {
    "services.<name>.abortWhen" {
        errorRate [Share, Map("services.<name>.strategy.canary.guard.errorRate")] = "none", eg "2%":
            "Reverts when more than this share of the canary's requests fails, over 10s and at least 50 requests "
            "unless written otherwise";
        p50 [Duration] = "none", eg "100ms":
            "Reverts when the median latency is above this, over 30s and at least 200 requests";
        p75 [Duration] = "none", eg "150ms":
            "The same for the 75th percentile";
        p90 [Duration] = "none", eg "200ms":
            "The same for the 90th percentile";
        p95 [Duration] = "none", eg "400ms":
            "The same for the 95th percentile";
        p99 [Duration] = "none", eg "800ms":
            "The same for the 99th percentile";
        p999 [Duration] = "none", eg "2s":
            "The same for the 99.9th percentile";
    }
    "services.<name>.strategy.canary.guard.warmup" {
        errors [Duration] = "0s", eg "0s":
            "For so long after its first weight the canary's errors are not counted";
        latency [Duration] = "10s", eg "10s":
            "The same for its latencies: a cold process is truly slower";
    }
    "services.<name>.strategy.canary.guard" {
        errorRate [Share, Map("services.<name>.strategy.canary.guard.errorRate")] = "none", eg "2%":
            "Fails when more than this share of the canary's requests fails";
        latency [List(&[Map("services.<name>.strategy.canary.guard.latency[]")])] = "none",
            eg "[{ quantile: 0.99, max: 800ms }]":
            "Fails when a quantile of the canary's latency is above its limit";
        versusStable [Word(&["on", "off", "true", "false"]), Map("services.<name>.strategy.canary.guard.versusStable")] = "on",
            eg "{ alpha: 1% }":
            "The share test: does the canary get more than its fair share of the errors? It may be looked at all "
            "the time, and an incident that hits both versions is no evidence";
        warmup [Map("services.<name>.strategy.canary.guard.warmup")] = "errors 0s, latency 10s", eg "{ latency: 30s }":
            "What is not counted at the canary's start";
        consecutiveErrors [Whole(0, 1_000_000)] = "20", eg "20":
            "Fails at so many canary errors in a row; 0 switches it off";
        onFailure [Word(&["abort", "pause"])] = "abort", eg "abort":
            "What a failed guard does";
    }
    "services.<name>.strategy.canary.guard.errorRate" {
        max [Share] = REQUIRED, eg "2%":
            "The largest share of failed requests that is no failure";
        window [Duration] = "10s", eg "10s":
            "How far back is looked, and further until `minRequests` are seen; never past the last change of "
            "weight";
        minRequests [MANY] = "50", eg "50":
            "Fewer canary requests than this say nothing, and the step waits for them";
    }
    "services.<name>.strategy.canary.guard.latency[]" {
        quantile [Number(0.0)] = REQUIRED, eg "0.99":
            "Between 0 and 1; 0.99 is the time that 99 of 100 requests do not pass";
        max [Duration] = REQUIRED, eg "800ms":
            "The largest value that is no failure, from the request sent to the response's head";
        window [Duration] = "30s", eg "30s":
            "How far back is looked, and further until `minRequests` are seen; never past the last change of "
            "weight";
        minRequests [MANY] = "200", eg "200":
            "Fewer canary requests than this say nothing, and the step waits for them";
    }
    "services.<name>.strategy.canary.guard.versusStable" {
        alpha [Share] = "1%", eg "1%":
            "How often a canary within tolerance may ever be reverted";
        errors [Map("services.<name>.strategy.canary.guard.versusStable.errors")] = "as given for each",
            eg "{ relative: 1.25, absolute: 0.1pp }":
            "How much worse than stable the canary may be";
        latency [Word(&["on", "off", "true", "false"]), Map("services.<name>.strategy.canary.guard.versusStable.latency")] =
            "on, as given for each", eg "{ relative: 20%, absolute: 10ms }":
            "How much slower than stable the canary may be: it is judged by its share of the requests slower than stable's p50, "
            "p90, p95, p99 and twice its p99; `off` compares errors only";
        minBadSeconds [Whole(1, 3_600)] = "3", eg "3":
            "What is bad must have come in more than so many different seconds";
    }
    "services.<name>.strategy.canary.guard.versusStable.latency" {
        relative [Share] = "20%", eg "20%":
            "So much slower than stable is still fine, as a share of stable's latency";
        absolute [Duration] = "10ms", eg "10ms":
            "And so much more: where everything is fast, small differences hurt nobody";
    }
    "services.<name>.strategy.canary.guard.versusStable.errors" {
        relative [Number(1.0)] = "1.25", eg "1.25":
            "So many times stable's error rate is still fine";
        absolute [Points] = "0.1pp", eg "0.1pp":
            "So many percentage points more than that are still fine";
    }
}
