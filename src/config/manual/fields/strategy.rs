//! The fields of how a rollout goes: canary or blue-green, windows, and how it ends.

use super::{
    Field,
    Kind::{Duration, Flag, List, Map, Share, Text, Whole, Word},
    REQUIRED,
};

fields! {
    "services.<name>.strategy" {
        canary [Map("services.<name>.strategy.canary")] = "none; this or `blueGreen`", eg "{ steps: [{ setWeight: 5 }] }":
            "Step by step, on evidence";
        blueGreen [Map("services.<name>.strategy.blueGreen")] = "none; this or `canary`", eg "{ autoPromotionEnabled: false }":
            "Everything at once, after a look without traffic; an abort before or after the switch leaves the old version "
            "in charge of everything";
    }
    "services.<name>.strategy.blueGreen" {
        preview [Map("services.<name>.strategy.blueGreen.preview")] = "nobody, but for force headers",
            eg "{ header: { name: x-preview, exact: \"1\" } }":
            "Who sees the new version before the switch";
        prePromotionAnalysis [Map("services.<name>.strategy.canary.steps[].analysis")] = "none",
            eg "{ templates: [{ templateName: latency }], args: [{ name: limit, value: 500 }] }":
            "Runs before the switch and must be successful";
        autoPromotionEnabled [Flag] = "true", eg "false":
            "With `false` the switch waits for `serin promote`, unless `autoPromotionSeconds` is given";
        autoPromotionSeconds [Whole(0, 2_592_000)] = "0", eg "30":
            "The switch waits so many seconds, and not for a person";
        postPromotionAnalysis [Map("services.<name>.strategy.canary.steps[].analysis")] = "none",
            eg "{ templates: [{ templateName: latency }], args: [{ name: limit, value: 500 }] }":
            "Runs after the switch; if it fails, everything goes back to the old version";
        scaleDownDelaySeconds [Whole(0, 604_800)] = "30", eg "30":
            "After the promotion or an abort: when the version that serves no longer may be stopped";
        abortScaleDownDelaySeconds [Whole(0, 604_800)] = "as `scaleDownDelaySeconds`", eg "600":
            "After an abort: when the version that was given up may be stopped; 0 is never, so that somebody can look at it";
    }
    "services.<name>.strategy.canary.bake" {
        duration [Duration] = REQUIRED, eg "10m":
            "How long";
        weight [Share] = "99%", eg "99%":
            "The canary's share meanwhile; what is left stays on stable, to compare with";
    }
    "services.<name>.strategy.canary.abort" {
        ramp [Duration] = "0s, at once", eg "20s":
            "An abort takes the canary's weight down over so long, for a stable version that could not take everything at "
            "once. Asked for again, an abort is at once";
        capacityGuard [Map("services.<name>.strategy.canary.abort.capacityGuard")] = "none",
            eg "{ minHealthy: 50%, deadline: 10s }":
            "An abort waits, but not for long, until enough of stable's addresses are well to take the traffic: they may "
            "have been scaled down. Asked for again, an abort is at once";
        scaleDownDelay [Duration, Word(&["never"])] = "as `strategy.canary.scaleDownDelay`", eg "10m":
            "After an abort: when `scaleDown` is told, and the canary may be stopped; `never` keeps it for a look at it";
    }
    "services.<name>.strategy.canary.abort.capacityGuard" {
        minHealthy [Share] = "50%", eg "50%":
            "So many of stable's addresses must be well, as far as its `health` and `ejection` know them";
        deadline [Duration] = "10s", eg "10s":
            "After so long the weight goes back in any case, from 1s to 10m";
    }
    "services.<name>.strategy.canary.windows[]" {
        days [List(&[Word(&["mon", "tue", "wed", "thu", "fri", "sat", "sun"])])] = "every day", eg "[mon, tue]":
            "On which days it opens";
        from [Text] = REQUIRED, eg "\"09:00\"":
            "When it opens, in quotes";
        to [Text] = REQUIRED, eg "\"16:00\"":
            "When it closes; on the next day if that is not after `from`";
        zone [Text] = "UTC", eg "Europe/Berlin":
            "Whose hours these are, by its name in the tz database";
    }
    "services.<name>.strategy.canary" {
        maxTrafficWeight [Whole(1, 1_000_000)] = "100", eg "100":
            "What a bare `setWeight` is a part of, as in Argo Rollouts";
        steps [List(&[Map("services.<name>.strategy.canary.steps[]")])] = "1%, 5%, 25%, 50%, each held 2m",
            eg "[{ setWeight: 5 }, { pause: { duration: 5m } }]":
            "What is done in order; shown and addressed from 1. After the last one the canary becomes stable";
        guard [Word(&["off", "false"]), Map("services.<name>.strategy.canary.guard")] = "the share test, and 20 errors in a row",
            eg "{ errorRate: 2% }":
            "What is watched from the first canary request to the promotion; with `off` nothing is: then holds go by the "
            "clock alone, even without a request, and only an analysis, a gate, the deadline or a person stops a bad canary";
        promoteEarly [Word(&["on", "off", "true", "false"]), Map("services.<name>.strategy.canary.promoteEarly")] = "off",
            eg "{ alpha: 5%, blastRadius: 0.1% }":
            "A hold ends sooner once errors and latency are proven good enough for the next weight; needs the share test";
        onNoTraffic [Word(&["wait", "pause", "abort"])] = "wait", eg "wait":
            "What happens when a step does not get its minimum of requests";
        noTrafficFor [Duration] = "10m", eg "10m":
            "For how long a step may lack its requests before `onNoTraffic`";
        deadline [Duration] = "none", eg "12h":
            "After so much unpaused time the rollout is aborted. Waiting for a window or a turn is not counted, waiting for a canary to be well is";
        analysis [Map("services.<name>.strategy.canary.analysis")] = "none", eg "{ templates: [{ templateName: more }], args: [{ name: token, value: x }] }":
            "Runs analysis templates beside the steps, again and again, to the end of the rollout";
        bake [Map("services.<name>.strategy.canary.bake")] = "none", eg "{ duration: 10m }":
            "The last step: nearly everything goes to the canary and is watched before it becomes stable";
        abort [Map("services.<name>.strategy.canary.abort")] = "at once", eg "{ ramp: 20s }":
            "How the canary leaves";
        drainTimeout [Duration] = "30s", eg "30s":
            "How long WebSockets, other upgraded connections, event streams and gRPC calls of a version go on after an abort or a promotion took its part away";
        scaleDownDelay [Duration] = "30s", eg "30s":
            "After a promotion or an abort: when `scaleDown` is told, and the version that serves no longer may be stopped";
        minHealthy [Share] = "one of them", eg "50%":
            "Weight rises only once this share of the canary's addresses passed their health check (`versions.<name>.health`)";
        rollbackWindow [Whole(0, 16)] = "3", eg "3":
            "To how many earlier stable versions `serin undo` goes back at once; to older ones it is an ordinary rollout";
        windows [List(&[Map("services.<name>.strategy.canary.windows[]")])] = "always",
            eg "[{ days: [mon, tue, wed, thu], from: \"09:00\", to: \"16:00\", zone: Europe/Berlin }]":
            "When weight may rise. It may fall at any time, and `serin promote` is not held";
    }
    "services.<name>.strategy.blueGreen.preview" {
        header [Map("services.<name>.strategy.blueGreen.preview.header")] = REQUIRED, eg "{ name: x-preview, exact: \"1\" }":
            "Requests with this header";
    }
    "services.<name>.strategy.blueGreen.preview.header" {
        name [Text] = REQUIRED, eg "x-preview":
            "The header";
        exact [Text] = "none; this, `prefix` or `regex`", eg "\"1\"":
            "Its value is the same";
        prefix [Text] = "none; this, `exact` or `regex`", eg "st":
            "It begins so";
        regex [Text] = "none; this, `exact` or `prefix`", eg "\"st.*\"":
            "The pattern covers the whole value";
    }
    "services.<name>.strategy.canary.analysis" {
        templates [List(&[Map("services.<name>.strategy.canary.steps[].analysis.templates[]")])] = REQUIRED,
            eg "[{ templateName: outside }]":
            "Which templates run, at once";
        args [List(&[Map("services.<name>.strategy.canary.steps[].analysis.args[]")])] = "the templates' own values",
            eg "[{ name: token, value: x }, { name: password, value: x }, { name: version, value: x }]":
            "Values for the templates' arguments";
        dryRun [List(&[Map("analysisTemplates.<name>.dryRun[]")])] = "none", eg "[{ metricName: \"*\" }]":
            "Metrics that are measured and shown, but decide nothing";
        measurementRetention [List(&[Map("analysisTemplates.<name>.measurementRetention[]")])] = "none",
            eg "[{ metricName: \"*\", limit: 50 }]":
            "How many measurements of which metrics are kept";
        startingStep [Whole(0, 99)] = "0", eg "1":
            "After so many steps it begins, as in Argo Rollouts";
    }
    "services.<name>.strategy.canary.promoteEarly" {
        alpha [Share] = "5%", eg "5%":
            "How likely a canary beyond the margin may end a hold early, for each step";
        blastRadius [Share] = "0.1%", eg "0.1%":
            "Failed requests more than stable's that are tolerated, as a share of all traffic at the next weight; at 5% this "
            "is a margin of 2 points for the canary, at 50% of 0.2";
    }
}
