//! What a person may do now, and what it would do: the same verbs that the API would take in this phase.

use crate::{
    engine::{
        names::{Role, VersionName},
        view::{PhaseView, ServiceView},
        weight::Weight,
    },
    words,
};

/// One thing that may be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) verb: &'static str,
    /// `promote` past all steps.
    pub(super) full: bool,
    /// The words on the button.
    pub(super) label: String,
    /// What it does, in one sentence.
    pub(super) effect: String,
    /// What else must be said.
    pub(super) wants: Option<Wants>,
}

/// What a form asks for besides the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wants {
    /// The canary's share; it has this now.
    Weight(Weight),
    /// One of these versions.
    Version(Vec<String>),
}

/// All that may be done now; giving up comes first.
pub(super) fn offers(service: &ServiceView) -> Vec<Offer> {
    let canary = service.canary.as_ref().map_or("the canary", |canary| canary.as_str());
    let stable = &service.stable;
    let weight = service.versions.iter().find(|version| version.role == Role::Canary).map(|canary| canary.weight);
    let at = weight.map_or_else(String::new, |weight| format!("{weight} \u{2192} 0%: "));
    let offer = |verb, label: String, effect: String| Offer { verb, full: false, label, effect, wants: None };
    match (service.phase, &service.rollout) {
        (_, Some(rollout)) => {
            let stop = offer(
                "abort",
                format!("Stop {canary}\u{2026}"),
                format!("{at}{canary} is withdrawn at once, {stable} takes all requests."),
            );
            let next = match rollout.steps.get(rollout.step) {
                Some(words) => format!("Goes to step {} of {} ({words}) now.", rollout.step + 1, rollout.steps.len()),
                None => format!("{canary} becomes stable now."),
            };
            let next = offer("promote", "Next step\u{2026}".to_owned(), next);
            let paused = service.phase == PhaseView::Paused;
            let hold = if paused {
                offer("resume", "Go on\u{2026}".to_owned(), "Goes on with the plan from here.".to_owned())
            } else {
                let left = format!("{canary} stays at its weight until a person goes on.");
                offer("pause", "Pause\u{2026}".to_owned(), left)
            };
            let full = Offer {
                full: true,
                ..offer(
                    "promote",
                    format!("Promote {canary} fully\u{2026}"),
                    format!(
                        "{canary} takes all requests and becomes stable now; no further step or limit is waited for."
                    ),
                )
            };
            let mut all = vec![stop, hold, next, set_weight(canary, weight.unwrap_or(Weight::ZERO))];
            if weight.is_some_and(|weight| weight > Weight::ZERO) {
                let effect =
                    "Nobody new comes to it; who is there already may finish, and clients that stick to it stay.";
                all.push(offer("drain", format!("Drain {canary}\u{2026}"), format!("{at}{effect}")));
            }
            if service.analysis_runs.iter().any(|run| run.completed.is_none()) {
                let effect = "Ends what is being analysed without a verdict; the rollout goes on without it.";
                all.push(offer("terminate", "End the analysis\u{2026}".to_owned(), effect.to_owned()));
            }
            all.push(full);
            all.extend(start(service, &format!("{canary} is given up at once for it.")));
            all
        }
        (phase, None) => {
            let mut all = Vec::new();
            if phase == PhaseView::Degraded {
                let first = format!("{canary} is tried again from step 1.");
                all.push(offer("retry", format!("Try {canary} again\u{2026}"), first));
            }
            if let Some(back) = &service.undo_to {
                let effect = format!(
                    "{back}, which was stable before {stable}, becomes stable again: at once within `rollbackWindow`, else by \
                     a rollout."
                );
                all.push(offer("undo", format!("Go back to {back}\u{2026}"), effect));
            }
            all.extend(start(service, &format!("{stable} stays stable until it is promoted.")));
            all
        }
    }
}

fn set_weight(canary: &str, now: Weight) -> Offer {
    Offer {
        verb: "set-weight",
        full: false,
        label: "Set the weight\u{2026}".to_owned(),
        effect: format!("{canary} gets the share below at once, and the rollout pauses there until a person goes on."),
        wants: Some(Wants::Weight(now)),
    }
}

/// A rollout of a version that has no part yet, if there is one.
fn start(service: &ServiceView, besides: &str) -> Option<Offer> {
    let canary = service.canary.as_ref().filter(|_| service.rollout.is_some());
    let has_part = |name: &VersionName| *name == service.stable || Some(name) == canary;
    let others: Vec<String> =
        service.versions.iter().filter(|of| !has_part(&of.name)).map(|of| of.name.to_string()).collect();
    (!others.is_empty()).then(|| Offer {
        verb: "start",
        full: false,
        label: "Start a rollout\u{2026}".to_owned(),
        effect: format!("The version below begins at step 1 of the plan. {besides}"),
        wants: Some(Wants::Version(others)),
    })
}

/// The offer of that verb, if it may be done now.
pub(super) fn offer(service: &ServiceView, verb: &str, full: bool) -> Option<Offer> {
    offers(service).into_iter().find(|offer| offer.verb == verb && offer.full == full)
}

/// What is so now, for the page that asks whether it shall be done.
pub(super) fn standing(service: &ServiceView) -> Vec<String> {
    let busy = service.versions.iter().filter(|version| version.counts.requests > 0);
    busy.map(|version| {
        let share = version.measured.map_or_else(|| "no requests".to_owned(), words::share);
        let errors = version.counts.error_rate().map_or_else(|| "nothing".to_owned(), words::share);
        let window = words::duration(version.window);
        format!(
            "{} ({}) gets {share} and fails {errors} of it, over the last {window}.",
            version.name,
            version.role.as_str()
        )
    })
    .collect()
}
