//! Whom Flagger tells: alerts with their AlertProviders, and webhooks of events. They become `notify`.
//! Addresses of chat rooms are passwords, so the config names the environment in their place.

use super::{
    draft::Draft,
    ledger::Ledger,
    manifest::{Item, Objects},
    secret, trial,
    value::scalar,
};

/// Reads the alerts and the webhooks of an analysis.
pub(super) fn read(analysis: &Item, draft: &mut Draft, objects: &Objects, ledger: &mut Ledger) {
    for alert in analysis.list(&["alerts"]) {
        if let Err(why) = one_alert(alert, draft, objects, ledger) {
            ledger.dropped(alert, why);
        }
    }
    for hook in analysis.list(&["webhooks"]) {
        if hook.get("type").and_then(Item::text) != Some("event") {
            continue;
        }
        let Some(url) = hook.get("url").and_then(Item::text) else { continue };
        match add(format!("{{ webhook: {} }}", scalar(url)), draft) {
            Ok(()) => ledger.approximated(hook, "`notify`, in another form: see `format`"),
            Err(why) => ledger.dropped(hook, why),
        }
    }
}

fn one_alert(alert: &Item, draft: &mut Draft, objects: &Objects, ledger: &mut Ledger) -> Result<(), String> {
    let name = alert.at(&["providerRef", "name"]).and_then(Item::text).unwrap_or_default();
    let provider =
        objects.named("AlertProvider", name).ok_or("there is no AlertProvider of that name in these files")?;
    let text = |field: &str| provider.spec(&[field]).and_then(Item::text);
    let kind = text("type").unwrap_or_default();
    if !matches!(kind, "slack" | "rocket") {
        return Err(format!("write a `webhook` for `{}` by hand", kind.escape_default()));
    }
    let severity_at = alert.get("severity");
    let events = match severity_at.and_then(Item::text) {
        // Everything that Serin tells where nothing is said.
        Some("info") => "",
        Some("warn") => ", events: [paused, aborted, superseded]",
        Some("error") => ", events: [aborted]",
        _ => return Err("without a severity Flagger sends no alert, so nobody is told".to_owned()),
    };
    let address = provider.spec(&["address"]).or_else(|| provider.spec(&["secretRef"]));
    let password = address.and_then(Item::text).unwrap_or_default();
    let environment = ledger.secret(&secret::environment(&[name, "url"]), password);
    add(format!("{{ slack: \"${{{environment}:-}}\"{events} }}"), draft)?;
    if let Some(address) = address {
        secret::reference(&environment, address, ledger);
    }
    ledger.kept_field(provider, &["spec", "type"], "`slack`");
    ledger.kept_field(provider, &["metadata", "name"], "the alert's receiver");
    ledger.kept(alert, "an entry of `notify`");
    Ok(())
}

/// Adds a receiver, if a config may have it.
fn add(receiver: String, draft: &mut Draft) -> Result<(), String> {
    if draft.notify.contains(&receiver) {
        return Ok(());
    }
    let all: Vec<&str> = draft.notify.iter().map(|other| &**other).chain([&*receiver]).collect();
    let service = "services: { a: { versions: { a: \"http://a\" }, stable: a } }\n";
    trial::file(&format!("listen: 127.0.0.1:1\nnotify: [{}]\n{service}", all.join(", ")))?;
    draft.notify.push(receiver);
    Ok(())
}
