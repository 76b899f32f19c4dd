//! Blue-green of Argo Rollouts, of which the words are the same here.
//! An analysis before the switch that cannot be asked as it is makes the switch wait for a person.

use super::{
    analysis::{self, Context, Outcome},
    argo::{PARTIAL, keep},
    draft::{Draft, Service},
    ledger::Ledger,
    manifest::{Item, Object, Objects},
    trial,
    value::whole,
};

/// Fills in `blueGreen` of a service.
pub(super) fn read(
    green: &Item,
    rollout: &Object,
    service: &mut Service,
    draft: &mut Draft,
    objects: &Objects,
    ledger: &mut Ledger,
) {
    let context = Context { objects, owner: rollout, background: None };
    draft.remark(
        "nothing reaches the new version before the switch; add `blueGreen.preview` for those who shall see it, as the \
         preview Service did",
    );
    let mut needs_person = false;
    for field in ["prePromotionAnalysis", "postPromotionAnalysis"] {
        let Some(item) = green.get(field) else { continue };
        let Outcome { text, is_partial, templates } = analysis::analysis(item, context, &draft.templates, ledger);
        keep(templates, draft);
        if let Some(text) = text {
            service.blue_green.push((field, text, ledger.place(item)));
        }
        if is_partial && field == "prePromotionAnalysis" {
            needs_person = true;
            draft.remark(PARTIAL);
        } else if is_partial {
            draft.remark(
                "a part of the analysis after the switch cannot be asked: watch it, and say `serin abort` in time",
            );
        }
    }
    let auto = green.get("autoPromotionEnabled");
    let seconds = green.get("autoPromotionSeconds");
    if needs_person {
        let why = "the switch waits for a person, as the analysis before it cannot be asked as it is";
        service.blue_green.push(("autoPromotionEnabled", "false".to_owned(), why.to_owned()));
        for item in [auto, seconds].into_iter().flatten() {
            match item.text() {
                Some("false") => ledger.kept(item, "`autoPromotionEnabled`"),
                _ => ledger.dropped(item, why),
            }
        }
    } else {
        if let Some(item) = auto {
            match item.text().filter(|word| matches!(*word, "true" | "false")) {
                Some(word) => {
                    service.blue_green.push(("autoPromotionEnabled", word.to_owned(), ledger.place(item)));
                    ledger.kept(item, "`autoPromotionEnabled`");
                }
                None => ledger.dropped(item, "neither true nor false"),
            }
        }
        number("autoPromotionSeconds", seconds, service, ledger);
    }
    for field in ["scaleDownDelaySeconds", "abortScaleDownDelaySeconds"] {
        number(field, green.get(field), service, ledger);
    }
    if service.blue_green.is_empty() {
        service.blue_green.push(("autoPromotionEnabled", "true".to_owned(), String::new()));
    }
}

fn number(field: &'static str, item: Option<&Item>, service: &mut Service, ledger: &mut Ledger) {
    let Some(item) = item else { return };
    let Some(seconds) = whole(item) else { return ledger.dropped(item, "not a number of seconds") };
    match trial::service(&format!("    strategy: {{ blueGreen: {{ {field}: {seconds} }} }}\n")) {
        Ok(()) => {
            service.blue_green.push((field, seconds.to_string(), ledger.place(item)));
            ledger.kept(item, format!("`{field}`"));
        }
        Err(why) => ledger.dropped(item, why),
    }
}
