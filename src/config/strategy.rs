//! How a canary is tried: the short form (`steps`, `hold`, `abortWhen`) or `strategy.canary`, never both.
//! Refuses steps that do nothing, fall back, or could mean two things.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    blue_green,
    diagnostic::Code,
    experiment, guard, header_route, mirror, policy,
    report::{At, Fields, Problem, Report},
    shape,
    template::Templates,
    yaml::Value,
};
use crate::engine::{
    numbering::Numbering,
    plan::{Guard, OnNoTraffic, Pause, Step, Strategy},
    policy::Policy,
    weight::{Weight, WeightError},
};

/// Most steps of a strategy.
pub const STEPS_MAX: usize = 100;

/// The steps where none are written, in percent, each held for [`HOLD`].
const STEPS: [u32; 4] = [1, 5, 25, 50];
const HOLD: Duration = Duration::from_mins(2);
const NO_TRAFFIC_FOR: Duration = Duration::from_mins(10);
const DAY: Duration = Duration::from_hours(24);
/// How long a step may hold.
pub(super) const HOLDS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(30 * 24);

/// The strategy of a service in either form.
pub fn strategy(
    service: &Fields<'_>,
    templates: &Templates<'_>,
    versions: &[&str],
    report: &mut Report,
) -> Option<Strategy> {
    let Some(long) = service.get("strategy") else { return short(service, report) };
    if let Some(short) = ["steps", "hold", "abortWhen"].iter().find_map(|name| service.get(name)) {
        report
            .error(Code::Conflict, &long.key_span, format!("`strategy` and `{}` exclude each other", short.name))
            .related(&short.key_span, "the short form is here")
            .help("`steps`, `hold` and `abortWhen` are short for `strategy.canary`; keep one form");
    }
    let fields = report.fields(&long, &shape::STRATEGY)?;
    match (fields.get("canary"), fields.get("blueGreen")) {
        (Some(canary), Some(blue_green)) => {
            report
                .error(Code::Conflict, &blue_green.key_span, "`canary` and `blueGreen` exclude each other")
                .related(&canary.key_span, "the other is here")
                .help("keep one strategy");
            None
        }
        (Some(canary), None) => self::canary(&canary, templates, versions, report),
        (None, Some(blue_green)) => blue_green::strategy(&blue_green, templates, versions, report),
        // What is there instead is reported already.
        (None, None) if long.has_any() => None,
        (None, None) => {
            report.missing(&long, "canary", "write `strategy: { canary: { steps: [ … ] } }`");
            None
        }
    }
}

fn short(service: &Fields<'_>, report: &mut Report) -> Option<Strategy> {
    let hold = service.get("hold").map_or(Some(HOLD), |at| report.duration(&at, HOLDS));
    let weights = match service.get("steps") {
        Some(at) => short_weights(&at, report),
        None => Some(STEPS.iter().filter_map(|percent| Weight::from_ppm(percent * 10_000).ok()).collect()),
    };
    let guard = service.get("abortWhen").map_or(Some(Guard::default()), |at| guard::abort_when(&at, report));
    let numbering = Numbering::WithHold;
    Some(Strategy { numbering, ..with_defaults(held(weights?, hold?), guard?) })
}

fn held(weights: Vec<Weight>, hold: Duration) -> Vec<Step> {
    weights.into_iter().flat_map(|weight| [Step::SetWeight(weight), Step::Pause(Pause::For(hold))]).collect()
}

/// Steps and guard, with the defaults of all else.
pub fn with_defaults(steps: Vec<Step>, guard: Guard) -> Strategy {
    let policy = Policy::default();
    Strategy {
        steps,
        numbering: Numbering::Each,
        guard,
        on_no_traffic: OnNoTraffic::Wait,
        no_traffic_for: NO_TRAFFIC_FOR,
        deadline: None,
        analysis: None,
        policy,
    }
}

/// `[1%, 5%, 25%, 50%]`: rising, above nothing, the last one at most everything.
fn short_weights(at: &At<'_>, report: &mut Report) -> Option<Vec<Weight>> {
    let items = report.items(at, STEPS_MAX)?;
    let mut weights: Vec<Weight> = Vec::new();
    for item in &items {
        if let Value::Map(_) = item.node.value {
            report
                .error(
                    Code::WrongType,
                    &item.span(),
                    format!("`{}` must be a weight such as `5%`, not a mapping", item.name),
                )
                .help("write pauses and analyses as `strategy: { canary: { steps: [ … ] } }`");
            continue;
        }
        let Some(weight) = report.share(item) else { continue };
        let help = "short steps rise from above 0% to at most 100%; for anything else use `strategy.canary.steps`";
        if weight == Weight::ZERO {
            report.error(Code::BadValue, &item.span(), format!("`{}` gives the canary nothing", item.name)).help(help);
        } else if weights.last().is_some_and(|last| weight <= *last) {
            report.error(Code::BadValue, &item.span(), format!("`{}` does not rise", item.name)).help(help);
        }
        weights.push(weight);
    }
    (weights.len() == items.len()).then_some(weights)
}

fn canary(at: &At<'_>, templates: &Templates<'_>, versions: &[&str], report: &mut Report) -> Option<Strategy> {
    let fields = report.fields(at, &shape::CANARY)?;
    let max = fields.get("maxTrafficWeight").map_or(Some(100), |at| report.whole(&at, 1..=1_000_000));
    let steps = match fields.get("steps") {
        Some(at) => steps(&at, max.unwrap_or(100), templates, versions, report),
        None => Some(held(STEPS.iter().filter_map(|percent| Weight::from_ppm(percent * 10_000).ok()).collect(), HOLD)),
    };
    let numbering = if fields.get("steps").is_some() { Numbering::Each } else { Numbering::WithHold };
    let guard = fields.get("guard").map_or(Some(Guard::default()), |at| guard::guard(&at, report));
    let words = [("wait", OnNoTraffic::Wait), ("pause", OnNoTraffic::Pause), ("abort", OnNoTraffic::Abort)];
    let on_no_traffic = fields.get("onNoTraffic").map_or(Some(OnNoTraffic::Wait), |at| report.word(&at, &words));
    let range = Duration::from_secs(1)..=DAY * 30;
    let no_traffic_for = fields.get("noTrafficFor").map_or(Some(NO_TRAFFIC_FOR), |at| report.duration(&at, range));
    let range = Duration::from_secs(1)..=DAY * 366;
    let deadline = fields.get("deadline").map(|at| report.duration(&at, range));
    let known = steps.as_ref().map_or(STEPS_MAX, Vec::len);
    let analysis = fields.get("analysis").map(|at| templates.background(&at, versions, known, report));
    let policy = policy::policy(&fields, report);
    max?;
    let (policy, bake) = policy?;
    let mut steps = steps?;
    steps.extend(bake);
    Some(Strategy {
        steps,
        numbering,
        policy,
        analysis: analysis.map_or(Some(None), |analysis| analysis.map(Some))?,
        guard: guard?,
        on_no_traffic: on_no_traffic?,
        no_traffic_for: no_traffic_for?,
        deadline: deadline.map_or(Some(None), |deadline| deadline.map(Some))?,
    })
}

fn steps(
    at: &At<'_>,
    max: u64,
    templates: &Templates<'_>,
    versions: &[&str],
    report: &mut Report,
) -> Option<Vec<Step>> {
    let items = report.items(at, STEPS_MAX)?;
    let read: Vec<Step> = items.iter().filter_map(|at| step(at, max, templates, versions, report)).collect();
    let mut read = Some(read).filter(|read| read.len() == items.len())?;
    experiment::fill_in(&mut read, &items, report);
    Some(read)
}

fn step(at: &At<'_>, max: u64, templates: &Templates<'_>, versions: &[&str], report: &mut Report) -> Option<Step> {
    if let Value::Scalar(_) = at.node.value {
        report.wrong_type(at, "a mapping such as `setWeight: 5`");
        return None;
    }
    let fields = report.fields(at, &shape::STEP)?;
    let mut present = shape::STEP.fields.iter().filter_map(|name| fields.get(name));
    let Some(first) = present.next() else {
        if !at.has_any() {
            report.missing(at, "setWeight", "a step is one of `setWeight`, `pause`, `analysis` and `experiment`");
        }
        return None;
    };
    if let Some(second) = present.next() {
        report
            .error(
                Code::Conflict,
                &second.key_span,
                format!("a step does one thing, not `{}` and `{}`", first.name, second.name),
            )
            .help(format!("begin a new step: `- {}: …`", second.name));
    }
    match &*first.name {
        "setWeight" => set_weight(&first, max, report).map(Step::SetWeight),
        "setHeaderRoute" => header_route::step(&first, report),
        "setMirrorRoute" => mirror::step(&first, report),
        "pause" => pause(&first, report).map(Step::Pause),
        "experiment" => experiment::step(&first, max, templates, versions, report),
        _ => templates.analysis(&first, versions, report).map(Step::Analysis),
    }
}

/// An integer is a part of `max`, as in Argo Rollouts; `0.1%` and `1000ppm` are what they say.
pub(super) fn set_weight(at: &At<'_>, max: u64, report: &mut Report) -> Option<Weight> {
    let help = format!("write an integer from 0 to {max} (a part of `maxTrafficWeight`), `5%`, `0.1%` or `1000ppm`");
    let bad = |message: String| Problem::new(message, &*help);
    report.scalar(at, "a weight such as `5` or `0.1%`", |text| {
        if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
            let part = text.parse().ok().filter(|part: &u64| *part <= max);
            let part = part.ok_or_else(|| bad(format!("is more than `maxTrafficWeight` ({max})")))?;
            // Rounded to the nearest part per million.
            let ppm = (part * 1_000_000 + max / 2) / max;
            return u32::try_from(ppm)
                .ok()
                .and_then(|ppm| Weight::from_ppm(ppm).ok())
                .ok_or_else(|| bad("is not a weight".to_owned()));
        }
        if text.parse::<f64>().is_ok() {
            let fix = format!("`{text}%`");
            return Err(bad("needs a unit unless it is a whole number".to_owned()).fix(Some(fix)));
        }
        text.parse().map_err(|error| match error {
            WeightError::Form => bad("is not a weight".to_owned()),
            WeightError::TooLarge | WeightError::TooFine => bad(format!("is out of range: {error}")),
        })
    })
}

fn pause(at: &At<'_>, report: &mut Report) -> Option<Pause> {
    // `pause:` and `pause: {}` are both written; the second is what Argo's manuals show.
    if at.node.value == Value::Null {
        report
            .error(Code::MissingField, &at.key_span, "`pause` has no value")
            .help("write `pause: {}` to wait for a person, or `pause: { duration: 5m }`");
        return None;
    }
    if let Value::Scalar(scalar) = &at.node.value {
        let found = report.error(Code::WrongType, &at.span(), "`pause` must be a mapping, not a single value");
        let duration = if scalar.substituted { "…" } else { &scalar.text };
        found.help(format!("write `pause: {{ duration: {duration} }}`"));
        return None;
    }
    let fields = report.fields(at, &shape::PAUSE)?;
    match (fields.get("duration"), fields.get("requests")) {
        (None, None) => Some(Pause::Person),
        (Some(duration), None) => report.duration(&duration, HOLDS).map(Pause::For),
        (None, Some(requests)) => report.whole(&requests, 1..=1_000_000_000_000).map(Pause::Requests),
        (Some(duration), Some(requests)) => {
            report
                .error(Code::Conflict, &requests.key_span, "a pause has either `duration` or `requests`")
                .related(&duration.key_span, "the other is here")
                .help("write two pauses, one after the other, to wait for both");
            None
        }
    }
}
