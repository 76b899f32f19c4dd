//! What counts as a failure and what is done about it: `countAsError`, `rescue`, `deadCanary`, and a route's `retry`.
//! Refuses methods that must not be sent twice, and statuses that do not exist.

use super::{
    diagnostic::Code,
    report::{At, Fields, Problem, Report},
    shape,
    yaml::Value,
};
use crate::engine::failure::{
    Condition, Conditions, CountAsError, DeadCanary, FailurePlan, GRPC_CODES, IdempotentMethod, Methods, Rescue, Retry,
    StatusSet,
};

/// Most entries of a list of statuses.
const STATUSES_MAX: usize = 100;
const STATUS_HELP: &str = "write a status such as `503`, or a range such as `500-599`";

/// What a service says about failures; its fields are `countAsError`, `rescue` and `deadCanary`.
pub fn failure(service: &Fields<'_>, report: &mut Report) -> Option<FailurePlan> {
    let base = FailurePlan::default();
    let count_as_error =
        service.get("countAsError").map_or(Some(base.count_as_error), |at| count_as_error(&at, report));
    let rescue = service.get("rescue").map_or(base.rescue, |at| rescue(&at, report));
    let words = [("stable", DeadCanary::Stable), ("fail", DeadCanary::Fail)];
    let dead_canary = service.get("deadCanary").map_or(Some(base.dead_canary), |at| report.word(&at, &words));
    Some(FailurePlan { count_as_error: count_as_error?, rescue, dead_canary: dead_canary? })
}

/// `retry` of a route.
pub fn retry(at: &At<'_>, report: &mut Report) -> Option<Retry> {
    let fields = report.fields(at, &shape::RETRY)?;
    let base = Retry::default();
    let retries = fields.get("retries").map_or(Some(u64::from(base.retries)), |at| report.whole(&at, 0..=10));
    let conditions = fields.get("conditions").map_or(Some(base.conditions), |at| conditions(&at, report));
    let statuses = fields.get("statuses").map_or(Some(base.statuses), |at| statuses(&at, report));
    let budget = fields.get("budget").map_or(Some(base.budget), |at| report.share(&at));
    if conditions == Some(Conditions::default()) && statuses == Some(StatusSet::EMPTY) && retries != Some(0) {
        report
            .warning(&at.key_span, "nothing is ever tried again: there is neither a condition nor a status")
            .help("name some, or write `retries: 0`");
    }
    Some(Retry {
        retries: u32::try_from(retries?).ok()?,
        conditions: conditions?,
        statuses: statuses?,
        budget: budget?,
    })
}

fn count_as_error(at: &At<'_>, report: &mut Report) -> Option<CountAsError> {
    let fields = report.fields(at, &shape::COUNT_AS_ERROR)?;
    let base = CountAsError::default();
    let statuses = fields.get("statuses").map_or(Some(base.statuses), |at| statuses(&at, report));
    if let (Some(at), Some(read)) = (fields.get("statuses"), statuses)
        && read.contains(200)
    {
        report
            .warning(&at.span(), "answers with status 200 would be errors")
            .help("leave out what your service answers when all is well");
    }
    let grpc = fields.get("grpc").map_or(Some(base.grpc), |at| grpc(&at, report));
    Some(CountAsError { statuses: statuses?, grpc: grpc? })
}

/// None when it is `off`, or wrong: that has been reported then.
fn rescue(at: &At<'_>, report: &mut Report) -> Option<Rescue> {
    if let Value::Scalar(_) = &at.node.value {
        return report.word(at, &[("off", None), ("on", Some(Rescue::default()))])?;
    }
    let fields = report.fields(at, &shape::RESCUE)?;
    let base = Rescue::default();
    let methods = fields.get("methods").map_or(Some(base.methods), |at| methods(&at, report));
    let conditions = fields.get("conditions").map_or(Some(base.conditions), |at| conditions(&at, report));
    Some(Rescue { methods: methods?, conditions: conditions? })
}

fn methods(at: &At<'_>, report: &mut Report) -> Option<Methods> {
    let items = list(at, 20, report)?;
    let read: Vec<_> = items.iter().filter_map(|item| method(item, report)).collect();
    (read.len() == items.len()).then(|| read.into_iter().fold(Methods::default(), Methods::with))
}

fn method(at: &At<'_>, report: &mut Report) -> Option<IdempotentMethod> {
    let all = IdempotentMethod::ALL.map(|method| format!("`{}`", method.as_str())).join(", ");
    report.scalar(at, "a method", |text| {
        if let Some(method) = IdempotentMethod::of(text) {
            return Ok(method);
        }
        let upper = text.to_ascii_uppercase();
        let fix = IdempotentMethod::of(&upper).map(|_| format!("`{upper}`"));
        let message = match &*upper {
            "POST" | "PATCH" | "LOCK" => "cannot be sent twice: it may have been carried out",
            _ => "is not a method that can be sent twice",
        };
        Err(Problem::new(message, format!("choose among {all}")).fix(fix))
    })
}

fn conditions(at: &At<'_>, report: &mut Report) -> Option<Conditions> {
    let items = list(at, 20, report)?;
    let words = Condition::ALL.map(|condition| (condition.as_str(), condition));
    let read: Vec<_> = items.iter().filter_map(|item| report.word(item, &words)).collect();
    (read.len() == items.len()).then(|| read.into_iter().fold(Conditions::default(), Conditions::with))
}

fn statuses(at: &At<'_>, report: &mut Report) -> Option<StatusSet> {
    let items = list(at, STATUSES_MAX, report)?;
    let read: Vec<_> = items.iter().filter_map(|item| report.scalar(item, "a status", status)).collect();
    (read.len() == items.len())
        .then(|| read.into_iter().fold(StatusSet::EMPTY, |set, (first, last)| set.with(first, last)))
}

/// `503`, or `500-599`; from 200 on, since what comes before is no answer.
fn status(text: &str) -> Result<(u16, u16), Problem> {
    let one = |text: &str| {
        let digits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|status: &u16| digits && (200..=599).contains(status))
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (one(first.trim()), one(last.trim())) {
        (Some(first), Some(last)) if first <= last => Ok((first, last)),
        (Some(_), Some(_)) => Err(Problem::new("is a range that ends before it begins", STATUS_HELP)),
        _ => {
            let fix = text.strip_suffix("xx").filter(|class| class.len() == 1 && one(&format!("{class}00")).is_some());
            let fix = fix.map(|class| format!("`{class}00-{class}99`"));
            Err(Problem::new("is not a status from 200 to 599", STATUS_HELP).fix(fix))
        }
    }
}

fn grpc(at: &At<'_>, report: &mut Report) -> Option<u32> {
    let items = list(at, GRPC_CODES.len(), report)?;
    let words: Vec<_> = GRPC_CODES.into_iter().zip(0_u32..).collect();
    let mut bits = 0;
    for item in &items {
        let Some(code) = report.word(item, &words) else { continue };
        if code == 0 {
            report
                .error(Code::BadValue, &item.span(), "`OK` cannot be an error")
                .help("name the codes that are the server's fault, such as `UNAVAILABLE`");
        }
        bits |= 1 << code;
    }
    Some(bits)
}

/// A list that may be empty.
fn list<'a>(at: &At<'a>, max: usize, report: &mut Report) -> Option<Vec<At<'a>>> {
    match &at.node.value {
        Value::List(items) if items.is_empty() => Some(Vec::new()),
        _ => report.items(at, max),
    }
}
