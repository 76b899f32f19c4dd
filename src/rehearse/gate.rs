//! The gates of a plan: what can end a rollout on evidence, which of them did, and the plan with one of them alone.
//! Judges nothing: the engine does.

use crate::{
    engine::{
        analysis::template::MetricPlan,
        event::Cause,
        plan::{ErrorRateLimit, Guard, LatencyLimit, ServicePlan, ShareTestPlan},
    },
    words,
};

/// The step of gates beside the steps.
const BACKGROUND: usize = 0;

/// A threshold, test or metric that a plan is guarded by.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Gate {
    ErrorRate(ErrorRateLimit),
    Latency(LatencyLimit),
    ShareTest(ShareTestPlan),
    ConsecutiveErrors(u64),
    Analysis { step: usize, template: String, metric: String },
}

/// All gates of a plan, in the order of the file. A template that is used in several steps has a gate in each.
pub(super) fn gates(plan: &ServicePlan) -> Vec<Gate> {
    let guard = &plan.strategy.guard;
    let mut all: Vec<Gate> = guard.error_rate.map(Gate::ErrorRate).into_iter().collect();
    all.extend(guard.latency.iter().copied().map(Gate::Latency));
    all.extend(guard.share_test.map(Gate::ShareTest));
    all.extend(Some(guard.consecutive_errors).filter(|limit| *limit > 0).map(Gate::ConsecutiveErrors));
    let steps = plan.strategy.steps.iter().enumerate().filter_map(|(at, step)| Some((at + 1, step.analyses()?)));
    let background = plan.strategy.analysis.iter().map(|analysis| (BACKGROUND, &*analysis.templates));
    for (step, templates) in steps.chain(background) {
        for template in templates {
            let decides = |metric: &&MetricPlan| !metric.dry_run;
            all.extend(template.metrics.iter().filter(decides).map(|metric| Gate::Analysis {
                step,
                template: template.name.clone(),
                metric: metric.name.clone(),
            }));
        }
    }
    all
}

/// What decided, as the report names it. `step` is the one that the rollout was in, from 1.
pub(super) fn evidence(gates: &[Gate], cause: &Cause, step: usize) -> String {
    let gate = gates.iter().find(|gate| gate.decided(cause, step)).map(Gate::name);
    gate.unwrap_or_else(|| match cause {
        Cause::NoTraffic { .. } => "noTraffic".to_owned(),
        Cause::Deadline { .. } => "deadline".to_owned(),
        other => words::cause(other),
    })
}

impl Gate {
    /// Its name, unique in a plan save for limits that differ in nothing but their window.
    pub(super) fn name(&self) -> String {
        match self {
            Self::ErrorRate(_) => "errorRate".to_owned(),
            Self::Latency(limit) => words::quantile(limit.quantile),
            Self::ShareTest(_) => "versusStable".to_owned(),
            Self::ConsecutiveErrors(_) => "consecutiveErrors".to_owned(),
            Self::Analysis { step: BACKGROUND, template, metric } => format!("{template}/{metric} (background)"),
            Self::Analysis { step, template, metric } => format!("{template}/{metric} (step {step})"),
        }
    }

    /// When it fires, in words.
    pub(super) fn limit(&self) -> String {
        match self {
            Self::ErrorRate(limit) => format!(
                "above {} in {}, from {} on",
                words::limit(limit.max),
                words::duration(limit.window),
                words::counted(limit.min_requests, "request")
            ),
            Self::Latency(limit) => format!(
                "above {} in {}, from {} on",
                words::latency(limit.max),
                words::duration(limit.window),
                words::counted(limit.min_requests, "request")
            ),
            Self::ShareTest(plan) => format!("more than its share of the errors, alpha {}", words::limit(plan.alpha)),
            Self::ConsecutiveErrors(limit) => format!("{} in a row", words::counted(*limit, "error")),
            Self::Analysis { .. } => "analysis not successful".to_owned(),
        }
    }

    /// Whether this gate is the cause of a decision.
    pub(super) fn decided(&self, cause: &Cause, step: usize) -> bool {
        match (self, cause) {
            (Self::ErrorRate(_), Cause::ErrorRate { .. })
            | (Self::ShareTest(_), Cause::ShareTest { .. })
            | (Self::ConsecutiveErrors(_), Cause::ConsecutiveErrors { .. }) => true,
            (Self::Latency(limit), Cause::Latency { quantile, max, .. }) => {
                limit.quantile.to_bits() == quantile.to_bits() && limit.max == *max
            }
            (Self::Analysis { step: of, metric, .. }, Cause::Analysis { metric: decided, .. }) => {
                (*of == step || *of == BACKGROUND) && metric == decided
            }
            _ => false,
        }
    }

    /// The same plan with no other gate.
    pub(super) fn alone(&self, plan: &ServicePlan) -> ServicePlan {
        let mut plan = plan.clone();
        let guard = &mut plan.strategy.guard;
        *guard = Guard {
            error_rate: None,
            latency: Vec::new(),
            share_test: None,
            consecutive_errors: 0,
            warmup: guard.warmup,
            on_failure: guard.on_failure,
        };
        match self {
            Self::ErrorRate(limit) => guard.error_rate = Some(*limit),
            Self::Latency(limit) => guard.latency.push(*limit),
            Self::ShareTest(test) => guard.share_test = Some(*test),
            Self::ConsecutiveErrors(limit) => guard.consecutive_errors = *limit,
            Self::Analysis { .. } => {}
        }
        let steps =
            plan.strategy.steps.iter_mut().enumerate().filter_map(|(at, step)| Some((at + 1, step.analyses_mut()?)));
        let background = plan.strategy.analysis.as_mut().map(|analysis| (BACKGROUND, &mut analysis.templates));
        for (step, templates) in steps.chain(background) {
            for template in templates {
                let name = template.name.clone();
                template.metrics.retain(|metric| {
                    *self == Self::Analysis { step, template: name.clone(), metric: metric.name.clone() }
                });
            }
        }
        plan
    }
}
