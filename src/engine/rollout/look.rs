//! The read model of one service: the same facts for status, why, API, metrics and dashboard.

use std::time::Duration;

use super::state::{Phase, Rollout, Service};
use crate::engine::{
    mirror::MirrorRoute,
    names::{Role, VersionName},
    plan::{Experiment, Pause, Step},
    stats::{forecast::time_to_see, window::Summary},
    time::Timestamp,
    view::{Forecast, MirrorView, PhaseView, RolloutView, ServiceView, VersionView, Waiting},
};

/// What the version table looks back on.
const LOOK_BACK: Duration = Duration::from_mins(1);

/// What a forecast is made for at least: a canary that fails one request of a hundred.
const FORECAST_ERRORS: f64 = 0.01;

impl Service {
    /// How things stand.
    pub(in crate::engine) fn view(&self, now: Timestamp) -> ServiceView {
        let (phase, reason, canary) = match &self.phase {
            Phase::Healthy => (PhaseView::Healthy, None, None),
            Phase::Progressing(rollout) => (PhaseView::Progressing, None, Some(&rollout.target)),
            Phase::Paused { rollout, reason, .. } => (PhaseView::Paused, Some(reason.clone()), Some(&rollout.target)),
            Phase::Degraded { target, reason, ramp } => {
                let waits = ramp.and_then(|ramp| ramp.waits_until).map_or_else(String::new, |until| {
                    let stable = &self.standing.stable.version;
                    let ((fit, all), left) = (self.fit(stable), until.since(now).as_secs() + 1);
                    format!("; kept up to {left}s more, since {fit} of {all} endpoints of {stable} are well")
                });
                (PhaseView::Degraded, Some(format!("{reason}{waits}")), Some(target))
            }
        };
        ServiceView {
            name: self.plan.name.clone(),
            phase,
            phase_reason: reason,
            revision: self.standing.revision,
            stable: self.standing.stable.version.clone(),
            canary: canary.map(|wish| wish.version.clone()),
            rollout: self.rollout().map(|rollout| self.rollout_view(rollout, now)),
            undo_to: self.rollout().is_none().then(|| self.undo_target()).flatten(),
            versions: self.version_views(now),
            last_event: self.last_event.clone(),
            analysis_runs: self.run_records(),
        }
    }

    fn rollout_view(&self, rollout: &Rollout, now: Timestamp) -> RolloutView {
        let until = match &self.phase {
            Phase::Paused { at, .. } => *at,
            _ => now,
        };
        let table = self.table();
        RolloutView {
            started: rollout.started,
            step: self.plan.strategy.number(rollout.step),
            steps: self.plan.strategy.written().collect(),
            in_step: until.since(rollout.since),
            waiting: self.waiting(rollout, now),
            checks: self.checks(now),
            header_routes: table.header_routes.into_iter().map(|route| route.name.to_string()).collect(),
            mirror_routes: table.mirror_routes.iter().map(mirror_view).collect(),
            forecast: self.forecast(rollout, now),
        }
    }

    fn forecast(&self, rollout: &Rollout, now: Timestamp) -> Option<Forecast> {
        let (share, watched) = (self.plan.strategy.guard.share_test?, rollout.test.as_ref()?);
        let rps = |version| self.traffic.summary(version, now, LOOK_BACK, 0).rps();
        let (canary, stable) = (rps(&rollout.target.version), rps(&self.standing.stable.version));
        let of_stable = watched.test.counts().1.error_rate().unwrap_or(0.0);
        let error_rate = (2.0 * of_stable).max(FORECAST_ERRORS);
        let all = canary + stable;
        if canary <= 0.0 || stable <= 0.0 || error_rate > 1.0 {
            return None;
        }
        let about = time_to_see(of_stable, error_rate, canary / all, share.alpha, all)?;
        Some(Forecast { error_rate, about })
    }

    fn waiting(&self, rollout: &Rollout, now: Timestamp) -> Vec<Waiting> {
        if matches!(self.phase, Phase::Paused { .. }) {
            return vec![Waiting::Person];
        }
        let mut waiting = Vec::new();
        let canary = &rollout.target.version;
        if self.stands_before(rollout) {
            waiting.extend(self.held(rollout.step, now));
            return waiting;
        }
        match self.plan.strategy.steps.get(rollout.step) {
            Some(Step::Pause(Pause::For(duration) | Pause::Bake(duration))) => {
                let left = duration.saturating_sub(now.since(rollout.since));
                if !left.is_zero() {
                    waiting.push(Waiting::Time { left });
                }
            }
            Some(Step::Pause(Pause::Requests(need))) => {
                let have = self.traffic.since_cut(canary).requests;
                if have < *need {
                    waiting.push(self.requests("step", have, *need, canary, now));
                }
            }
            Some(step @ (Step::Analysis(_) | Step::Experiment(_))) => {
                if let Step::Experiment(Experiment { duration: Some(duration), .. }) = step {
                    let left = duration.saturating_sub(now.since(rollout.since));
                    waiting.extend(Some(Waiting::Time { left }).filter(|_| !left.is_zero()));
                }
                let progress = rollout.analysis.iter().flat_map(super::super::analysis::run::AnalysisRun::progress);
                waiting.extend(progress.map(|(metric, state)| Waiting::Analysis { metric, state }));
            }
            _ => {}
        }
        if let Some(warm_at) = self.traffic.warm_at().filter(|at| now < *at) {
            let what = "the canary to warm up".to_owned();
            waiting.push(Waiting::Permit { what, left: Some(warm_at.since(now)) });
        }
        let lack =
            self.lacks().filter(|_| !matches!(self.plan.strategy.steps.get(rollout.step), Some(Step::Analysis(_))));
        waiting.extend(self.gate_within(now));
        waiting.extend(lack.map(|lack| self.requests(&lack.check, lack.have, lack.need, canary, now)));
        waiting
    }

    fn requests(&self, check: &str, have: u64, need: u64, canary: &VersionName, now: Timestamp) -> Waiting {
        let rps = |version| self.traffic.summary(version, now, LOOK_BACK, 0).rps();
        let mut rps_of_canary = rps(canary);
        if rps_of_canary <= 0.0 {
            // None has been drawn yet, which is no sign of silence where stable has requests.
            rps_of_canary = rps(&self.standing.stable.version) * self.canary_weight().ratio();
        }
        #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
        let seconds = need.saturating_sub(have) as f64 / rps_of_canary;
        let about = Duration::try_from_secs_f64(seconds).ok();
        Waiting::Requests { check: check.to_owned(), have, need, about }
    }

    fn version_views(&self, now: Timestamp) -> Vec<VersionView> {
        let table = self.table();
        let summaries: Vec<Summary> =
            table.versions.iter().map(|version| self.traffic.summary(&version.name, now, LOOK_BACK, 0)).collect();
        let all: u64 = summaries.iter().map(|summary| summary.counts.requests).sum();
        let views = table.versions.into_iter().zip(summaries).map(|(version, seen)| VersionView {
            measured: share(seen.counts.requests, all),
            window: now.since(self.traffic.cut_at()).min(LOOK_BACK),
            counts: seen.counts,
            rps: seen.rps(),
            p50: seen.quantile(0.5),
            p95: seen.quantile(0.95),
            p99: seen.quantile(0.99),
            endpoints: self.endpoint_views(&version.name, now),
            added_at: self.standing.added_at(&version.name).map(ToString::to_string),
            name: version.name,
            role: version.role,
            weight: version.weight,
        });
        let mut views: Vec<VersionView> = views.collect();
        views.sort_by_key(|view| match view.role {
            Role::Stable => 0,
            Role::Canary => 1,
            Role::Other => 2,
        });
        views
    }
}

fn mirror_view(route: &MirrorRoute) -> MirrorView {
    MirrorView { name: route.name.to_string(), share: route.share }
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn share(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}
