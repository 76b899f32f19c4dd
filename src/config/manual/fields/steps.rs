//! The fields of the steps of a canary.

use super::{
    Field,
    Kind::{Duration, Flag, List, Map, Name, Named, Number, Path, Share, Text, Weight, Whole, Word},
    REQUIRED,
};

fields! {
    "services.<name>.strategy.canary.steps[]" {
        setWeight [Weight] = "none", eg "5":
            "The canary's share from here on";
        setHeaderRoute [Map("services.<name>.strategy.canary.steps[].setHeaderRoute")] = "none",
            eg "{ name: staff, match: [{ headerName: x-group, headerValue: { exact: staff } }] }":
            "From here on, requests with such a header go to the canary, whatever its weight; gone with the rollout";
        setMirrorRoute [Map("services.<name>.strategy.canary.steps[].setMirrorRoute")] = "none",
            eg "{ name: shadow, percentage: 10, match: [{ method: { exact: GET } }] }":
            "From here on, the canary gets copies of such requests as stable serves; gone with the rollout. What it answers "
            "is thrown away, and counts for nothing";
        pause [Map("services.<name>.strategy.canary.steps[].pause")] = "none", eg "{ duration: 5m }":
            "Waits: for a duration, for requests, or with `{}` until somebody says `serin promote`";
        analysis [Map("services.<name>.strategy.canary.steps[].analysis")] = "none",
            eg "{ templates: [{ templateName: latency }], args: [{ name: limit, value: 500 }] }":
            "Runs analysis templates to their end; the step passes or fails with them";
        experiment [Map("services.<name>.strategy.canary.steps[].experiment")] = "none",
            eg "{ duration: 10m, templates: [{ name: baseline, version: baseline }] }":
            "Gives other versions a part of stable's share for as long as the step takes, and judges them";
    }
    "services.<name>.strategy.canary.steps[].experiment" {
        duration [Duration] = "none; until the analyses are successful", eg "10m":
            "How long it goes on";
        templates [List(&[Map("services.<name>.strategy.canary.steps[].experiment.templates[]")])] = REQUIRED,
            eg "[{ name: baseline, version: baseline, weight: 5 }]":
            "Who takes part; they have the highest buckets, so that no client of the canary moves";
        analyses [List(&[Map("services.<name>.strategy.canary.steps[].experiment.analyses[]")])] = "none",
            eg "[{ name: compare, templateName: latency, args: [{ name: limit, value: 500 }] }]":
            "What is judged meanwhile; Failed and Error abort the rollout, Inconclusive pauses it";
        dryRun [List(&[Map("analysisTemplates.<name>.dryRun[]")])] = "none", eg "[{ metricName: \"*\" }]":
            "Metrics of the analyses that are measured and shown, but decide nothing";
    }
    "services.<name>.strategy.canary.steps[].experiment.templates[]" {
        name [Name] = REQUIRED, eg "baseline":
            "What it is called in `status`";
        version [Name] = REQUIRED, eg "baseline":
            "Which version; one that is stable or the canary by then gets nothing by it";
        weight [Weight] = "the canary's weight at this step", eg "5":
            "Its share, taken out of stable's";
    }
    "services.<name>.strategy.canary.steps[].experiment.analyses[]" {
        name [Name] = "none", eg "compare":
            "For people";
        templateName [Name] = REQUIRED, eg "latency":
            "The template";
        args [List(&[Map("services.<name>.strategy.canary.steps[].analysis.args[]")])] = "the template's defaults",
            eg "[{ name: limit, value: 500 }]":
            "Values for its arguments";
        requiredForCompletion [Flag] = "false", eg "true":
            "The experiment ends as soon as they are successful; for all of them or for none";
    }
    "services.<name>.strategy.canary.steps[].setHeaderRoute" {
        name [Name] = REQUIRED, eg "staff":
            "By which a later step replaces it, or removes it by having no condition";
        match [List(&[Map("services.<name>.strategy.canary.steps[].setHeaderRoute.match[]")])] = "none",
            eg "[{ headerName: x-group, headerValue: { exact: staff } }]":
            "Conditions of which any one is enough";
        all [List(&[Map("services.<name>.strategy.canary.steps[].setHeaderRoute.match[]")])] = "none; in place of `match`",
            eg "[{ headerName: x-group, headerValue: { exact: staff } }]":
            "Conditions that must all be met";
    }
    "services.<name>.strategy.canary.steps[].setHeaderRoute.match[]" {
        headerName [Text] = REQUIRED, eg "x-group":
            "The header";
        headerValue [Map("services.<name>.strategy.canary.steps[].setHeaderRoute.match[].headerValue")] = REQUIRED,
            eg "{ exact: staff }":
            "What one of its values must be";
    }
    "services.<name>.strategy.canary.steps[].setHeaderRoute.match[].headerValue" {
        exact [Text] = "none; this, `prefix` or `regex`", eg "staff":
            "The same";
        prefix [Text] = "none; this, `exact` or `regex`", eg "st":
            "It begins so";
        regex [Text] = "none; this, `exact` or `prefix`", eg "\"st.*\"":
            "The pattern covers the whole value";
    }
    "services.<name>.strategy.canary.steps[].setMirrorRoute" {
        name [Name] = REQUIRED, eg "shadow":
            "By which a later step replaces it, or removes it by having no `match`";
        percentage [Number(0.0), Share] = "100", eg "10":
            "Of so many percent of them, by a draw of their own for each";
        match [List(&[Map("services.<name>.strategy.canary.steps[].setMirrorRoute.match[]")])] = "none: it is removed",
            eg "[{ method: { exact: GET } }]":
            "Conditions of which any one is enough";
    }
    "services.<name>.strategy.canary.steps[].setMirrorRoute.match[]" {
        method [Map("services.<name>.strategy.canary.steps[].setMirrorRoute.match[].path")] = "GET, HEAD and OPTIONS",
            eg "{ exact: GET }":
            "The method; others than these three are copied only where it says so";
        path [Map("services.<name>.strategy.canary.steps[].setMirrorRoute.match[].path")] = "any", eg "{ prefix: / }":
            "The path as the client sent it, without the query; a prefix is compared by the character";
        headers [Named(&[Map("services.<name>.strategy.canary.steps[].setMirrorRoute.match[].path")])] = "any",
            eg "{ x-group: { exact: staff } }":
            "Headers, all of which must have such a value";
    }
    "services.<name>.strategy.canary.steps[].setMirrorRoute.match[].path" {
        exact [Text] = "none; this, `prefix` or `regex`", eg "/shop":
            "The same";
        prefix [Text] = "none; this, `exact` or `regex`", eg "/":
            "It begins so";
        regex [Text] = "none; this, `exact` or `prefix`", eg "\"/shop/[0-9]+\"":
            "The pattern covers all of it";
    }
    "services.<name>.strategy.canary.steps[].pause" {
        duration [Duration] = "none; this, `requests` or neither", eg "5m":
            "For so long, and until each guard limit has had its minimum of requests";
        requests [Whole(1, 1_000_000_000_000)] = "none; this, `duration` or neither", eg "2000":
            "Until the canary has answered so many requests at this weight";
    }
    "services.<name>.strategy.canary.steps[].analysis" {
        templates [List(&[Map("services.<name>.strategy.canary.steps[].analysis.templates[]")])] = REQUIRED,
            eg "[{ templateName: latency }]":
            "Which templates run, at once";
        args [List(&[Map("services.<name>.strategy.canary.steps[].analysis.args[]")])] = "the templates' own values",
            eg "[{ name: limit, value: 500 }]":
            "Values for the templates' arguments";
        dryRun [List(&[Map("analysisTemplates.<name>.dryRun[]")])] = "none", eg "[{ metricName: \"*\" }]":
            "Metrics that are measured and shown, but decide nothing";
        measurementRetention [List(&[Map("analysisTemplates.<name>.measurementRetention[]")])] = "none",
            eg "[{ metricName: \"*\", limit: 50 }]":
            "How many measurements of which metrics are kept";
    }
    "services.<name>.strategy.canary.steps[].analysis.templates[]" {
        templateName [Name] = REQUIRED, eg "latency":
            "A name from `analysisTemplates`";
    }
    "services.<name>.strategy.canary.steps[].analysis.args[]" {
        name [Name] = REQUIRED, eg "limit":
            "The argument's name; conditions see it as `args.limit`";
        value [Text] = "must be given where the template is used", eg "\"500\"":
            "Its value, a text: `asFloat(args.limit)` makes a number of it";
        valueFrom [Map("services.<name>.strategy.canary.steps[].analysis.args[].valueFrom")] = "none; this or `value`",
            eg "{ podTemplateHashValue: Latest }":
            "Where its value is found";
    }
    "services.<name>.strategy.canary.steps[].analysis.args[].valueFrom" {
        env [Text] = "none", eg "PROMETHEUS_TOKEN":
            "A secret in the environment of the process, looked up when it is needed, never printed and never stored";
        file [Path] = "none", eg "/run/secrets/password":
            "A secret in a file, read when it is needed, never printed and never stored";
        podTemplateHashValue [Word(&["Latest", "Stable"])] = "none", eg "Latest":
            "As Argo Rollouts writes it: the name of the canary, or that of the stable version";
    }
}
