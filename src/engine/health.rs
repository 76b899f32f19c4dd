//! Which endpoints of one version get requests: those that pass their health checks and did not fail requests in a row.
//! Told what was seen and when, answers who is out and why. Never takes the last endpoint from anybody but a canary,
//! for which stable answers; keeps within `maxShare`. Not remembered over a restart: what is bad is soon found again.

use std::{sync::Arc, time::Duration};

use super::{
    endpoint::{InUse, Instance},
    names::Role,
    samples::{EndpointSamples, InstanceSamples},
    time::Timestamp,
    upstream::{EjectionPlan, HealthPlan, UpstreamPlan},
};

/// An ejection lasts at most so long, or `base` if that is longer.
const EJECTED_MAX: Duration = Duration::from_mins(5);
/// How long an instance is remembered that its name no longer has: answers may come in turns.
const KEPT_FOR: Duration = Duration::from_mins(5);
/// Instances that are remembered so.
const KEPT_MAX: usize = 256;
/// Within so long, each instance's leaving is told once, and so many leavings of a version in all.
const TOLD_EVERY: Duration = Duration::from_mins(10);
const TOLD_MAX: usize = 8;

/// The instances of one version.
#[derive(Debug, Clone, Default)]
pub(in crate::engine) struct Health {
    members: Vec<Member>,
    /// Whom it was told of last.
    known: Arc<[Instance]>,
}

#[derive(Debug, Clone)]
struct Member {
    instance: Instance,
    check: Check,
    ejection: Option<Ejection>,
    /// Ejections that are not made up for yet.
    ejections: u32,
    /// Serving since then, after an ejection.
    back_since: Timestamp,
    gone_since: Option<Timestamp>,
    was_out: bool,
    /// When it was last told that it is out.
    told_at: Option<Timestamp>,
    /// That it is out was told, so that it is back must be.
    is_told: bool,
}

/// What the health checks say.
#[derive(Debug, Clone)]
enum Check {
    /// Nothing yet.
    New,
    Passing {
        failed: u32,
    },
    Failing {
        passed: u32,
        why: Arc<str>,
    },
}

#[derive(Debug, Clone)]
struct Ejection {
    until: Timestamp,
    why: Arc<str>,
}

/// How an instance stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndpointState {
    /// It gets requests.
    Healthy,
    /// It was not asked yet.
    Unknown,
    /// It fails its health check.
    Unhealthy,
    /// It failed too many requests in a row.
    Ejected,
}

impl EndpointState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Healthy, Self::Unknown, Self::Unhealthy, Self::Ejected];

    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Unknown => "unknown",
            Self::Unhealthy => "unhealthy",
            Self::Ejected => "ejected",
        }
    }

    /// Whether it is at fault.
    #[must_use]
    pub const fn is_out(self) -> bool {
        matches!(self, Self::Unhealthy | Self::Ejected)
    }
}

/// One instance, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointView {
    /// Which, as `host:port`, with the address behind an `@` if it is one of a name's.
    pub name: String,
    /// How it stands.
    pub state: EndpointState,
    /// Why it is out.
    pub why: Option<String>,
    /// How long it stays out at least, where that is known.
    pub back_in: Option<Duration>,
}

/// That an instance went out or came back, for the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::engine) struct Turn {
    pub(in crate::engine) instance: Instance,
    /// Why it went out; none when it is back.
    pub(in crate::engine) out: Option<Arc<str>>,
}

impl Health {
    /// Takes in what was seen, and lets those back whose time has come.
    pub(in crate::engine) fn measured(&mut self, plan: &UpstreamPlan, seen: Option<&EndpointSamples>, now: Timestamp) {
        if let Some(seen) = seen {
            self.meet(&seen.known, now);
            for news in &seen.news {
                self.hear(plan, news, now);
            }
        }
        self.let_back(plan.ejection.as_ref(), now);
    }

    /// Who went out or came back since this was last asked, as far as it is worth telling: one that comes and goes is
    /// told of once in a while.
    pub(in crate::engine) fn turns(&mut self, plan: &UpstreamPlan, now: Timestamp) -> Vec<Turn> {
        let recent = |member: &Member| member.told_at.is_some_and(|at| now.since(at) < TOLD_EVERY);
        let mut told = self.members.iter().filter(|member| recent(member)).count();
        let mut turns = Vec::new();
        for member in &mut self.members {
            let is_out = member.state(plan).is_out();
            if is_out == std::mem::replace(&mut member.was_out, is_out) {
                continue;
            }
            let instance = member.instance.clone();
            if !is_out {
                let was_told = std::mem::take(&mut member.is_told);
                turns.extend(was_told.then_some(Turn { instance, out: None }));
            } else if told < TOLD_MAX && !recent(member) {
                told += 1;
                (member.told_at, member.is_told) = (Some(now), true);
                turns.push(Turn { instance, out: Some(member.why()) });
            }
        }
        turns
    }

    /// What the data plane is to use. Only a canary can be without anybody.
    pub(in crate::engine) fn in_use(&self, plan: &UpstreamPlan, role: Role) -> InUse {
        let proven = self.present().any(|member| member.is_proven(plan));
        let left_out = |member: &&Member| match member.state(plan) {
            EndpointState::Unhealthy | EndpointState::Ejected => true,
            // Nobody meets an endpoint that was not asked yet while others are known to be well.
            EndpointState::Unknown => proven,
            EndpointState::Healthy => false,
        };
        let out: Vec<Instance> = self.members.iter().filter(left_out).map(|member| member.instance.clone()).collect();
        let nobody_left = self.present().next().is_some() && self.present().all(|member| left_out(&member));
        match (nobody_left, role) {
            (true, Role::Canary) => InUse::Nobody,
            (false, _) if !out.is_empty() => InUse::AllBut(out.into()),
            _ => InUse::All,
        }
    }

    /// How many instances are not known to be bad, and how many there are; none are known where nothing is watched.
    pub(in crate::engine) fn fit(&self, plan: &UpstreamPlan) -> (usize, usize) {
        let fit = self.present().filter(|member| !member.state(plan).is_out()).count();
        (fit, self.present().count())
    }

    /// How many have passed their check and are not ejected, and how many there are.
    pub(in crate::engine) fn proven(&self, plan: &UpstreamPlan) -> (usize, usize) {
        (self.present().filter(|member| member.is_proven(plan)).count(), self.present().count())
    }

    /// When one comes back by time alone.
    pub(in crate::engine) fn deadline(&self) -> Option<Timestamp> {
        self.members.iter().filter_map(|member| member.ejection.as_ref()).map(|ejection| ejection.until).min()
    }

    /// Those that there are now.
    pub(in crate::engine) fn views(&self, plan: &UpstreamPlan, now: Timestamp) -> Vec<EndpointView> {
        let view = |member: &Member| {
            let state = member.state(plan);
            let (why, back_in) = match (state, &member.check, &member.ejection) {
                (EndpointState::Ejected, _, Some(ejection)) => (Some(&ejection.why), Some(ejection.until.since(now))),
                (EndpointState::Unhealthy, Check::Failing { why, .. }, _) => (Some(why), None),
                _ => (None, None),
            };
            EndpointView { name: member.instance.to_string(), state, why: why.map(ToString::to_string), back_in }
        };
        self.present().map(view).collect()
    }

    fn present(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.gone_since.is_none())
    }

    /// An address that a name has again is the one that it was.
    fn meet(&mut self, known: &Arc<[Instance]>, now: Timestamp) {
        if Arc::ptr_eq(known, &self.known) && self.members.iter().all(|member| member.gone_since.is_none()) {
            return;
        }
        self.known = Arc::clone(known);
        for member in &mut self.members {
            let is_here = known.contains(&member.instance);
            member.gone_since = (!is_here).then(|| member.gone_since.unwrap_or(now));
        }
        self.members.retain(|member| member.gone_since.is_none_or(|since| now.since(since) < KEPT_FOR));
        for instance in known.iter() {
            if !self.members.iter().any(|member| member.instance == *instance) {
                self.members.push(Member::new(instance.clone(), now));
            }
        }
        let mut surplus = self.members.len().saturating_sub(known.len().max(KEPT_MAX));
        self.members.retain(|member| {
            let goes = member.gone_since.is_some() && surplus > 0;
            surplus -= usize::from(goes);
            !goes
        });
    }

    fn hear(&mut self, plan: &UpstreamPlan, news: &InstanceSamples, now: Timestamp) {
        let Some(at) = self.members.iter().position(|member| member.instance == news.instance) else { return };
        if let Some(health) = &plan.health {
            for outcome in &news.checks {
                self.members[at].checked(health, outcome);
            }
        }
        let ejection = plan.ejection.as_ref().filter(|_| news.error_runs > 0);
        if let Some(ejection) = ejection.filter(|plan| self.may_eject(plan)) {
            self.members[at].eject(ejection, news.last_error, now);
        }
    }

    fn may_eject(&self, plan: &EjectionPlan) -> bool {
        self.present().filter(|member| member.ejection.is_some()).count() < self.most(plan)
    }

    /// Most that may be ejected at once.
    fn most(&self, plan: &EjectionPlan) -> usize {
        let all = self.present().count() as u64;
        usize::try_from(all * u64::from(plan.max_share.ppm()) / 1_000_000).unwrap_or(usize::MAX).max(1)
    }

    fn let_back(&mut self, plan: Option<&EjectionPlan>, now: Timestamp) {
        for member in &mut self.members {
            if plan.is_none() || member.ejection.as_ref().is_some_and(|ejection| ejection.until <= now) {
                member.come_back(now);
            }
        }
        // A name with fewer addresses: who would have come back first does.
        let Some(plan) = plan else { return };
        while self.present().filter(|member| member.ejection.is_some()).count() > self.most(plan) {
            let present = self.members.iter_mut().filter(|member| member.gone_since.is_none());
            let ejected = present.filter_map(|member| Some((member.ejection.as_ref()?.until, member)));
            let Some((_, first)) = ejected.min_by_key(|(until, _)| *until) else { return };
            first.come_back(now);
        }
    }
}

impl Member {
    const fn new(instance: Instance, now: Timestamp) -> Self {
        Self {
            instance,
            check: Check::New,
            ejection: None,
            ejections: 0,
            back_since: now,
            gone_since: None,
            was_out: false,
            told_at: None,
            is_told: false,
        }
    }

    fn state(&self, plan: &UpstreamPlan) -> EndpointState {
        match (&plan.health, &self.check) {
            _ if plan.ejection.is_some() && self.ejection.is_some() => EndpointState::Ejected,
            (Some(_), Check::Failing { .. }) => EndpointState::Unhealthy,
            (Some(_), Check::New) => EndpointState::Unknown,
            (Some(_), Check::Passing { .. }) | (None, _) => EndpointState::Healthy,
        }
    }

    fn is_proven(&self, plan: &UpstreamPlan) -> bool {
        matches!(self.check, Check::Passing { .. }) && self.state(plan) == EndpointState::Healthy
    }

    fn why(&self) -> Arc<str> {
        match (&self.ejection, &self.check) {
            (Some(ejection), _) => Arc::clone(&ejection.why),
            (None, Check::Failing { why, .. }) => Arc::clone(why),
            (None, Check::New | Check::Passing { .. }) => Arc::default(),
        }
    }

    /// The first answer decides; later ones in a row, as many as the plan says.
    fn checked(&mut self, plan: &HealthPlan, outcome: &Result<(), Arc<str>>) {
        self.check = match (std::mem::replace(&mut self.check, Check::New), outcome) {
            (Check::Failing { passed, why }, Ok(())) if passed + 1 < plan.healthy => {
                Check::Failing { passed: passed + 1, why }
            }
            (_, Ok(())) => Check::Passing { failed: 0 },
            (Check::Passing { failed }, Err(_)) if failed + 1 < plan.unhealthy => Check::Passing { failed: failed + 1 },
            (_, Err(why)) => Check::Failing { passed: 0, why: Arc::clone(why) },
        };
    }

    fn eject(&mut self, plan: &EjectionPlan, last_error: &str, now: Timestamp) {
        if self.ejection.is_some() {
            return;
        }
        // What it served in between makes up for as many ejections.
        let made_up = now.since(self.back_since).as_millis() / plan.base.as_millis().max(1);
        self.ejections = self.ejections.saturating_sub(u32::try_from(made_up).unwrap_or(u32::MAX)).saturating_add(1);
        let lasts = plan.base.saturating_mul(self.ejections).min(EJECTED_MAX.max(plan.base));
        let why = format!("{} errors in a row, the last one {last_error}", plan.consecutive_errors);
        self.ejection = Some(Ejection { until: now + lasts, why: why.into() });
    }

    fn come_back(&mut self, now: Timestamp) {
        if self.ejection.take().is_some() {
            self.back_since = now;
        }
    }
}

#[cfg(test)]
mod tests;
