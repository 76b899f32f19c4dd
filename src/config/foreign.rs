//! Fields of Argo Rollouts and Flagger that people paste here, which mean nothing in a process without pods or have another
//! name, each with what to do instead. Refuses nothing itself; `report` asks for advice on what is unknown.

const PODS: &str = "Serin starts, scales and labels no pods; remove it, whoever runs them keeps it";
const ROUTER: &str = "Serin is the router itself, and tells no mesh or ingress; remove it";
const MANIFEST: &str =
    "this is a manifest of Kubernetes: `serin import argo FILE` or `serin import flagger FILE` makes a config of it";
const VERSIONS: &str = "versions are named: `versions: { v1: http://…, v2: http://… }`, `stable: v1`, `canary: v2`";
const READY: &str = "write `versions.<name>.health`: weight rises once an endpoint of the canary is well, or as many as `strategy.canary.minHealthy` says";
const RUNS: &str = "of each service the latest five good runs and five others are kept, and every decision is in the history; remove it";

/// What a manifest has at its top.
const TOP: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

const ADVICE: &[(&[&str], &str)] = &[
    (
        &[
            "replicas",
            "selector",
            "template",
            "workloadRef",
            "restartAt",
            "maxSurge",
            "maxUnavailable",
            "antiAffinity",
            "canaryMetadata",
            "stableMetadata",
            "activeMetadata",
            "previewMetadata",
            "scaleDownDelayRevisionLimit",
            "dynamicStableScale",
            "previewReplicaCount",
            "targetRef",
            "autoscalerRef",
        ],
        PODS,
    ),
    (
        &["setCanaryScale"],
        "Serin scales no pods; to warm a version up before it has weight, copy requests to it: `setMirrorRoute`, then `pause`",
    ),
    (&["trafficRouting", "ingressRef", "routeRef", "upstreamRef", "meshName", "gatewayRefs"], ROUTER),
    (&["managedRoutes"], "routes of `setHeaderRoute` and `setMirrorRoute` need no list; remove it"),
    (&["canaryService", "stableService", "activeService", "pingPong"], VERSIONS),
    (
        &["previewService"],
        "say who sees the new version before the switch: `preview: { header: { name: x-preview, exact: \"1\" } }`",
    ),
    (&["stickinessConfig", "sessionAffinity"], "write `assign: { sticky: { by: cookie } }` in the service"),
    (
        &[
            "minReadySeconds",
            "minPodsPerReplicaSet",
            "replicaProgressThreshold",
            "primaryReadyThreshold",
            "canaryReadyThreshold",
        ],
        READY,
    ),
    (
        &["progressDeadlineSeconds", "progressDeadlineAbort"],
        "write `strategy.canary.deadline`: the rollout is aborted after it",
    ),
    (
        &["revisionHistoryLimit"],
        "the state folder keeps the history; how far `serin undo` goes back at once is `strategy.canary.rollbackWindow`",
    ),
    (&["paused", "suspend"], "say `serin pause` to hold a running rollout, and `serin resume` to go on"),
    (&["successfulRunHistoryLimit", "unsuccessfulRunHistoryLimit", "analysisRunMetadata"], RUNS),
    (
        &["ttlStrategy"],
        "write it in the template: `analysisTemplates.<name>.ttlStrategy: { secondsAfterCompletion: 86400 }`",
    ),
    (
        &["scaleDownDelaySeconds"],
        "write `strategy.canary.scaleDownDelay: 30s`; then the notification `scaleDown` is sent",
    ),
    (
        &["abortScaleDownDelaySeconds"],
        "write `strategy.canary.abort: { scaleDownDelay: 30s }`; then the notification `scaleDown` is sent",
    ),
    (&["plugin"], "Serin loads no plugins; ask a service of your own: `gates: [{ name: …, type: rollout, url: … }]`"),
    (&["specRef"], "an experiment names a version of this service: `version: baseline`; remove it"),
    (&["clusterScope"], "there is one kind of template; remove it"),
    (
        &["authentication"],
        "write `bearerToken`, `basicAuth` or `headers`; what needs OAuth 2 or signatures is asked by a command: `exec: { command: [ … ] }`",
    ),
    (
        &["secretRef", "profile"],
        "write the keys as arguments that come from the environment or a file: `valueFrom: { env: API_KEY }`",
    ),
    (&["revertOnDeletion"], "removing `canary` from the file ends a rollout, and stable serves everything; remove it"),
    (&["canaryAnalysis"], "Flagger's `analysis` is the `steps` here, and what it watches the `guard`"),
    (
        &["skipAnalysis"],
        "for all traffic at once write `strategy: { canary: { steps: [{ setWeight: 100 }] } }`, or say `serin promote --full`",
    ),
    (&["maxWeight", "stepWeight", "stepWeights"], "write the weights: `steps: [10%, 20%, 50%]`, each held for `hold`"),
    (
        &["stepWeightPromotion"],
        "nothing is moved back after a promotion: versions stay what they are, and roles move; remove it",
    ),
    (&["iterations"], "write `strategy: { blueGreen: { autoPromotionSeconds: 600 } }`, or a `pause` of as long"),
    (
        &["mirrorWeight"],
        "write a step `setMirrorRoute: { name: shadow, percentage: 10, match: [{ path: { prefix: / } }] }`",
    ),
    (
        &["threshold"],
        "how many failures are too many is a metric's `failureLimit`; the guard reverts as soon as the evidence is there",
    ),
    (
        &["thresholdRange"],
        "write limits into the guard, as `abortWhen: { errorRate: 1%, p99: 500ms }`, or a metric's `failureCondition: result[0] > 5`",
    ),
    (&["templateRef"], "name it in an analysis: `templates: [{ templateName: … }]`"),
    (&["templateVariables"], "arguments are written `args: [{ name: …, value: … }]`"),
    (
        &["metricsServer"],
        "Serin measures by itself; another store is asked by a metric: `provider: { prometheus: { … } }`",
    ),
    (&["alerts"], "write at the top of the file `notify: [{ slack: \"${SLACK_URL:-}\" }]`"),
    (
        &["webhooks"],
        "write `gates: [{ name: …, type: confirm-promotion, url: … }]` in the service; events are told by `notify`",
    ),
];

/// Words that mean something else at other places.
const THERE: [(&str, &str, &str); 4] = [
    ("services.<name>.strategy.canary.steps[].experiment", "scaleDownDelaySeconds", PODS),
    ("services.<name>", "interval", "each step is held for `hold`: `hold: 1m`"),
    (
        "services.<name>",
        "analysis",
        "templates that run beside the steps are in `strategy.canary.analysis`; Flagger's weights and interval are `steps` and `hold`",
    ),
    (
        "services.<name>",
        "metrics",
        "limits are written `abortWhen: { errorRate: 1%, p99: 500ms }`; queries are metrics of `analysisTemplates`",
    ),
];

/// What to do instead of a field of another tool that is unknown in the mapping of this path.
pub fn advice(path: &str, field: &str) -> Option<&'static str> {
    if path.is_empty() && TOP.contains(&field) {
        return Some(MANIFEST);
    }
    let there = THERE.iter().find(|(at, name, _)| *at == path && *name == field).map(|(.., advice)| *advice);
    there.or_else(|| anywhere(field))
}

fn anywhere(field: &str) -> Option<&'static str> {
    ADVICE.iter().find(|(names, _)| names.contains(&field)).map(|(_, advice)| *advice)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Code, check, shape};

    /// Wherever a word of another tool is no field, it is refused with its own advice, and what stands beside it is read.
    #[test]
    fn each_field_of_another_tool_is_refused_with_advice() {
        let head = "listen: 127.0.0.1:8080\nservices:\n  web:\n    versions: { v1: 'http://a:80', v2: 'http://b:80' }\n    stable: v1\n    canary: v2\n";
        for (names, advice) in ADVICE {
            for name in *names {
                for (shape, place) in [
                    (&shape::SERVICE, "    NAME: {}\n"),
                    (
                        &shape::CANARY,
                        "    strategy: { canary: { steps: [{ setWeight: 5 }, { pause: {} }], NAME: {} } }\n",
                    ),
                    (&shape::BLUE_GREEN, "    strategy: { blueGreen: { autoPromotionSeconds: 5, NAME: {} } }\n"),
                ] {
                    if shape.fields.contains(name) {
                        continue;
                    }
                    let text = format!("{head}{}", place.replace("NAME", name));
                    let found = check(&text, Path::new("serin.yaml"), &|_| None).diagnostics;
                    let errors: Vec<_> = found.items().iter().filter(|item| item.code == Code::UnknownField).collect();
                    assert_eq!(errors.len(), 1, "{name} in {}: {found}", shape.path);
                    assert_eq!(errors[0].help.as_deref(), Some(*advice), "{name} in {}", shape.path);
                }
            }
        }
    }
}
