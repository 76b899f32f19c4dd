//! Queries of Flagger, of MetricTemplates or written in the Canary: they become an analysis beside the steps.
//! Refuses providers other than Prometheus, and queries with words that cannot be filled in.

use std::time::Duration;

use super::{
    argo::keep,
    draft::{Draft, Service},
    ledger::Ledger,
    manifest::{Item, Object, Objects},
    secret,
    template::{MetricDraft, TemplateDraft},
    value::{go_duration, scalar, shown, whole},
};

/// Reads the metrics that are queries, and puts the analysis into the service.
pub(super) fn read(
    canary: &Object,
    analysis: &Item,
    service: &mut Service,
    draft: &mut Draft,
    objects: &Objects,
    ledger: &mut Ledger,
) {
    let mut template = TemplateDraft { name: format!("{}-queries", service.name), ..TemplateDraft::default() };
    if crate::engine::names::VersionName::new(&template.name).is_err() {
        "queries".clone_into(&mut template.name);
    }
    let every = analysis.get("interval").and_then(Item::text).and_then(go_duration).unwrap_or(Duration::from_mins(1));
    let every = every.clamp(Duration::from_secs(10), Duration::from_hours(24));
    let allowed = analysis.get("threshold").and_then(whole).unwrap_or(1).clamp(1, 10_000) - 1;
    for metric in analysis.list(&["metrics"]) {
        if metric.get("templateRef").is_none() && metric.get("query").is_none() {
            continue;
        }
        let plan = Plan { canary, metric, every, allowed };
        match plan.read(&template, objects, ledger) {
            Ok(read) => template.metrics.push(read),
            Err(why) => {
                ledger.dropped(metric, format!("this metric is not watched: {why}"));
                draft.remark("not every query of the source is watched: `--explain` says which and why");
            }
        }
    }
    if template.metrics.is_empty() {
        return;
    }
    if draft.templates.iter().any(|other| other.name == template.name) {
        template.name = format!("queries-{}", draft.templates.len() + 1);
    }
    service.policy.push(("analysis", format!("{{ templates: [{{ templateName: {} }}] }}", scalar(&template.name))));
    keep(vec![template], draft);
}

/// A metric, and what is said around it.
struct Plan<'a> {
    canary: &'a Object,
    metric: &'a Item,
    every: Duration,
    /// Failures that do not matter yet.
    allowed: u64,
}

impl Plan<'_> {
    fn read(&self, template: &TemplateDraft, objects: &Objects, ledger: &mut Ledger) -> Result<MetricDraft, String> {
        let name = self.metric.get("name").and_then(Item::text).unwrap_or_default();
        let source = match self.metric.at(&["templateRef", "name"]).and_then(Item::text) {
            Some(name) => Some(
                objects
                    .named("MetricTemplate", name)
                    .ok_or("there is no MetricTemplate of that name in these files")?,
            ),
            None => None,
        };
        let query_at = match source {
            Some(source) => source.spec(&["query"]),
            None => self.metric.get("query"),
        };
        let query = self.filled(query_at.and_then(Item::text).unwrap_or_default())?;
        let provider = self.provider(source, &query, ledger)?;
        let condition = self.condition().ok_or("without a limit it can never fail")?;
        let mut fields = vec![
            ("name", scalar(name)),
            ("interval", shown(self.every)),
            ("failureLimit", self.allowed.to_string()),
            ("successCondition", scalar(&condition)),
        ];
        fields.push(("provider", format!("{{ prometheus: {provider} }}")));
        let fields = fields.into_iter().map(|(field, value)| (field.to_owned(), value)).collect();
        let read = MetricDraft { name: name.to_owned(), fields };
        if template.metric_names().any(|other| other == name) {
            return Err("there is a metric of that name already".to_owned());
        }
        template.try_out(&read)?;
        self.say(source, query_at, ledger);
        Ok(read)
    }

    fn say(&self, source: Option<&Object>, query_at: Option<&Item>, ledger: &mut Ledger) {
        if let Some(item) = query_at {
            ledger.approximated(
                item,
                "`query`, with the words of Flagger filled in; without data it waits, and does not fail",
            );
        }
        if let Some(reference) = self.metric.get("templateRef") {
            ledger.kept(reference, "its query is asked beside the steps");
        }
        if let Some(variables) = self.metric.get("templateVariables") {
            ledger.kept(variables, "filled into the query");
        }
        ledger.kept(self.metric, "a metric of the analysis beside the steps");
        let Some(source) = source else { return };
        for path in [&["metadata", "name"][..], &["spec", "provider", "type"], &["spec", "provider", "address"]] {
            ledger.kept_field(source, path, "the provider of the metric");
        }
        ledger.kept_field(source, &["spec", "provider", "insecureSkipVerify"], "`insecure`");
        for (name, value) in headers(source) {
            // What is a password is said by name; others are copied.
            if secret::is_secret(name) {
                secret::reference(&secret::environment(&[&source.name, name]), value, ledger);
            } else {
                ledger.kept(value, "a header of the question");
            }
        }
    }

    /// `prometheus: { address, query, … }`.
    fn provider(&self, source: Option<&Object>, query: &str, ledger: &mut Ledger) -> Result<String, String> {
        let of = source.and_then(|source| source.spec(&["provider"]));
        let text = |field: &str| of.and_then(|of| of.get(field)).and_then(Item::text);
        let kind = text("type").unwrap_or("prometheus");
        if source.is_some() && kind != "prometheus" {
            return Err(format!("write a template for the provider `{}` by hand", kind.escape_default()));
        }
        if of.is_some_and(|of| of.get("secretRef").is_some()) {
            return Err(
                "its Secret holds a name and a password or a token: write `basicAuth` or `bearerToken` by hand"
                    .to_owned(),
            );
        }
        let address = text("address").or_else(|| self.canary.spec(&["metricsServer"]).and_then(Item::text));
        let address = address.ok_or("it says no address")?;
        let mut parts = vec![format!("address: {}", scalar(address)), format!("query: {}", scalar(query))];
        let headers: Vec<String> = source
            .map(headers)
            .unwrap_or_default()
            .into_iter()
            .map(|(name, value)| {
                let text = value.text().unwrap_or_default();
                let value = if secret::is_secret(name) {
                    let of = source.map_or("", |source| &source.name);
                    format!("\"${{{}:-}}\"", ledger.secret(&secret::environment(&[of, name]), text))
                } else {
                    scalar(text)
                };
                format!("{{ key: {}, value: {value} }}", scalar(name))
            })
            .collect();
        if !headers.is_empty() {
            parts.push(format!("headers: [{}]", headers.join(", ")));
        }
        if text("insecureSkipVerify") == Some("true") {
            parts.push("insecure: true".to_owned());
        }
        Ok(format!("{{ {} }}", parts.join(", ")))
    }

    /// Minimum and maximum are good; what was called `threshold` before is a maximum.
    fn condition(&self) -> Option<String> {
        let limit = |path: &[&str]| {
            let text = self.metric.at(path).and_then(Item::text)?;
            text.parse::<f64>().ok().filter(|limit| limit.is_finite()).map(|_| text.to_owned())
        };
        let (min, max) = (limit(&["thresholdRange", "min"]), limit(&["thresholdRange", "max"]));
        let max = if min.is_none() { max.or_else(|| limit(&["threshold"])) } else { max };
        let parts: Vec<String> = [("<=", max), (">=", min)]
            .into_iter()
            .filter_map(|(sign, limit)| Some(format!("last(result) {sign} {}", limit?)))
            .collect();
        (!parts.is_empty()).then(|| format!("len(result) > 0 && {}", parts.join(" && ")))
    }

    /// Puts what Flagger knows into a query.
    fn filled(&self, query: &str) -> Result<String, String> {
        let spec = |path: &[&str]| self.canary.spec(path).and_then(Item::text);
        let target = spec(&["targetRef", "name"]).unwrap_or(&self.canary.name);
        let mut text = String::new();
        let mut rest = query;
        while let Some((before, behind)) = rest.split_once("{{") {
            let (word, tail) = behind.split_once("}}").ok_or("a word in the query is never closed")?;
            let value = match word.trim() {
                "name" => &*self.canary.name,
                "namespace" => {
                    self.canary.item.at(&["metadata", "namespace"]).and_then(Item::text).unwrap_or("default")
                }
                "target" => target,
                "service" => spec(&["service", "name"]).unwrap_or(target),
                "ingress" => spec(&["ingressRef", "name"]).unwrap_or(target),
                "route" => spec(&["routeRef", "name"]).unwrap_or(target),
                "interval" => self.metric.get("interval").and_then(Item::text).unwrap_or("1m"),
                other => {
                    let variable = other.strip_prefix("variables.").map(str::trim);
                    let found = variable.and_then(|name| self.metric.at(&["templateVariables", name])?.text());
                    found.ok_or("a word in the query that Serin does not know")?
                }
            };
            text += before;
            text += value;
            rest = tail;
        }
        Ok(text + rest)
    }
}

/// Headers of a provider; of each the first value.
fn headers(source: &Object) -> Vec<(&str, &Item)> {
    let fields = source.spec(&["provider", "headers"]).map_or(&[][..], Item::fields).iter();
    fields.filter_map(|(name, item)| Some((&**name, item.items().first()?))).collect()
}
