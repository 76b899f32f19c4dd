//! What is rehearsed: the plan with its canary, and how long it takes when nothing happens. Changes no other part of it.

use std::time::Duration;

use super::rollout::{PERSON_AFTER, Times, millis};
use crate::engine::{
    analysis::template::Provider,
    names::{ServiceName, VersionName},
    plan::{Experiment, OnNoTraffic, Pause, ServicePlan, Step, Wish},
    weight::Weight,
};

/// Plans beyond this are cut: nobody waits for the rehearsal of a year.
const PLANNED_MAX: Duration = Duration::from_hours(24 * 7);
/// Looks of the engine in a plan of any length, about: longer plans are looked at less often.
const LOOKS: u64 = 20_000;

/// A service with nothing to try.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "service `{service}` has one version only, `{stable}`, so there is no canary to rehearse\n  help: add the version \
     that is to be tried under `services.{service}.versions`, e.g. `v2: http://127.0.0.1:8002`; it need not run yet"
)]
pub struct NoCanary {
    /// Which.
    pub service: ServiceName,
    /// Its only version.
    pub stable: VersionName,
}

/// A plan that can be rehearsed.
#[derive(Debug)]
pub(super) struct Script {
    /// With a wish for a version that is not stable.
    pub(super) plan: ServicePlan,
    pub(super) canary: VersionName,
    pub(super) rate: f64,
    pub(super) times: Times,
    /// Whether a person is waited for somewhere.
    pub(super) waits_for_person: bool,
}

impl Script {
    pub(super) fn new(plan: &ServicePlan, rate: f64) -> Result<Self, NoCanary> {
        let mut plan = plan.clone();
        let wished = plan.wish.as_ref().map(|wish| &wish.version).filter(|version| **version != plan.stable);
        let other = || plan.versions.iter().map(|version| &version.name).find(|name| **name != plan.stable);
        let Some(canary) = wished.or_else(other).cloned() else {
            return Err(NoCanary { service: plan.name, stable: plan.stable });
        };
        if plan.wish.as_ref().is_none_or(|wish| wish.version != canary) {
            plan.wish = Some(Wish { version: canary.clone(), revision: String::new() });
        }
        // A rehearsal has the whole stage to itself, at any hour.
        plan.strategy.policy.windows.clear();
        plan.strategy.policy.concurrent = 0;
        leave_out_outside(&mut plan);
        let waits_for_person = plan.strategy.steps.contains(&Step::Pause(Pause::Person));
        let times = times(&plan, rate);
        Ok(Self { plan, canary, rate, times, waits_for_person })
    }
}

/// Nobody outside can be asked about made-up traffic.
fn leave_out_outside(plan: &mut ServicePlan) {
    let strategy = &mut plan.strategy;
    let steps = strategy.steps.iter_mut().filter_map(Step::analyses_mut);
    for templates in steps.chain(strategy.analysis.as_mut().map(|analysis| &mut analysis.templates)) {
        for template in templates {
            template.metrics.retain(|metric| matches!(metric.provider, Provider::Serin { .. }));
        }
    }
}

fn times(plan: &ServicePlan, rate: f64) -> Times {
    let planned = millis(planned(plan, rate).min(PLANNED_MAX));
    let patience = match plan.strategy.on_no_traffic {
        OnNoTraffic::Wait => Duration::ZERO,
        OnNoTraffic::Pause | OnNoTraffic::Abort => plan.strategy.no_traffic_for.min(PLANNED_MAX),
    };
    let horizon = 3 * planned + millis(patience) + 60_000;
    Times { planned, horizon, tick: (planned / LOOKS).clamp(1_000, 60_000) }
}

/// What the steps take by their own words, with a request minimum met at the expected rate.
fn planned(plan: &ServicePlan, rate: f64) -> Duration {
    let needed = plan.strategy.guard.minimums().map(|(_, need)| need).max().unwrap_or(0);
    let mut weight = Weight::ZERO;
    let mut sum = Duration::ZERO;
    for step in &plan.strategy.steps {
        let requests = |count: u64| {
            // Without weight they never come, and nobody waits for the end of that.
            if weight == Weight::ZERO {
                return Duration::ZERO;
            }
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let seconds = count as f64 / (rate * weight.ratio());
            Duration::try_from_secs_f64(seconds).unwrap_or(PLANNED_MAX).min(PLANNED_MAX)
        };
        let minimum = requests(needed);
        let takes = match step {
            Step::SetWeight(set) => {
                weight = *set;
                Duration::ZERO
            }
            Step::SetHeaderRoute { .. } | Step::SetMirrorRoute { .. } => Duration::ZERO,
            Step::Pause(Pause::For(duration) | Pause::Bake(duration))
            | Step::Experiment(Experiment { duration: Some(duration), .. }) => minimum.max(*duration),
            Step::Pause(Pause::Requests(count)) => minimum.max(requests(*count)),
            Step::Pause(Pause::Person) => PERSON_AFTER,
            Step::Experiment(Experiment { analyses: templates, .. }) | Step::Analysis(templates) => {
                let metrics = templates.iter().flat_map(|template| &template.metrics);
                let takes = metrics.map(|metric| {
                    let times = metric.count.unwrap_or(1).saturating_sub(1);
                    let between = metric.interval.unwrap_or_default().saturating_mul(times);
                    metric.initial_delay.saturating_add(between)
                });
                takes.max().unwrap_or_default()
            }
        };
        sum = sum.saturating_add(takes);
    }
    sum
}
