//! The traffic models: what the canary does, what happens to both, and whether reverting it would be right.
//! Knows no plan and no engine.

use super::{
    latencies::{Latencies, LogNormal},
    recording::Recording,
};

/// One way in which a release and its traffic may behave.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    /// Its name on the command line and in the report.
    pub name: &'static str,
    /// What happens in it, in words.
    pub says: &'static str,
    /// Whether the release is sound, so that a revert would be a false one.
    pub sound: bool,
    pub(super) kind: Kind,
}

/// What varies.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// The canary behaves so all the time, at this part of the rate.
    Steady { canary: Behaviour, rate: f64 },
    /// The canary is slow at first.
    SlowStart,
    /// Both versions fail and are slow for a while after each change of weight.
    Incident,
    /// Peaks of traffic in which both versions fail.
    Bursts,
    /// The canary begins to fail in the middle of the plan.
    Late,
}

/// How a version answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Behaviour {
    /// Share of failing requests.
    pub(super) errors: f64,
    pub(super) pace: Pace,
}

/// Which distribution of latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    Usual,
    Twice,
    FourTimes,
    TwentyTimes,
    /// One request in twenty takes about four seconds.
    Tail,
}

/// What is true at a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Weather {
    /// Factor of the rate.
    pub(super) rate: f64,
    pub(super) stable: Behaviour,
    pub(super) canary: Behaviour,
}

/// When it is, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// Since the rollout began.
    pub(super) elapsed: u64,
    /// Since the weight last changed.
    pub(super) since_change: u64,
    /// How long the plan takes when nothing happens.
    pub(super) planned: u64,
}

/// The latencies of each pace.
#[derive(Debug)]
pub(super) struct Paces([Latencies; 5]);

/// What a sound version and its traffic are like: made up, or as recorded.
#[derive(Debug)]
pub(super) struct Usual<'a> {
    pub(super) recording: Option<&'a Recording>,
    pub(super) paces: Paces,
}

/// Share of requests that fail in a sound version.
pub const USUAL_ERRORS: f64 = 0.001;
/// Median latency of a sound version, in milliseconds.
pub const USUAL_MEDIAN_MS: f64 = 20.0;
/// Standard deviation of its logarithm: p99 is 3.2 times the median.
const USUAL_SIGMA: f64 = 0.5;

const USUAL: Behaviour = Behaviour { errors: USUAL_ERRORS, pace: Pace::Usual };
const SLOW_START_MS: u64 = 30_000;
const INCIDENT_MS: std::ops::Range<u64> = 10_000..100_000;
const BURST_CYCLE_MS: u64 = 30_000;
const BURST_MS: std::ops::Range<u64> = 20_000..22_000;

/// All models, in the order of the report.
pub const MODELS: [Model; 14] = [
    sound("healthy", "the canary is as good as stable", steady(USUAL, 1.0)),
    bad("fails-1", "1% of the canary's requests fail", steady(failing(0.01), 1.0)),
    bad("fails-5", "5% of the canary's requests fail", steady(failing(0.05), 1.0)),
    bad("fails-50", "every second request of the canary fails", steady(failing(0.5), 1.0)),
    bad("fails-all", "the canary answers nothing right", steady(failing(1.0), 1.0)),
    bad("slower-2x", "the canary takes twice as long", steady(slow(Pace::Twice), 1.0)),
    bad("slower-20x", "the canary takes twenty times as long", steady(slow(Pace::TwentyTimes), 1.0)),
    bad("slow-tail", "1 in 20 of the canary's requests takes about 4 s", steady(slow(Pace::Tail), 1.0)),
    sound("slow-start", "the canary takes twenty times as long in its first 30 s, then is good", Kind::SlowStart),
    sound("incident", "both fail 20% and take four times as long, 90 s after each new weight", Kind::Incident),
    sound("bursts", "2 s of each 30 s: five times the traffic, and both fail 20%", Kind::Bursts),
    sound("low-traffic", "a good canary at a hundredth of the traffic", steady(USUAL, 0.01)),
    bad("low-traffic-fails", "every second request fails, at a hundredth of the traffic", steady(failing(0.5), 0.01)),
    bad("late-regression", "good at first; 10% fail from the middle of the plan on", Kind::Late),
];

const fn sound(name: &'static str, says: &'static str, kind: Kind) -> Model {
    Model { name, says, sound: true, kind }
}

const fn bad(name: &'static str, says: &'static str, kind: Kind) -> Model {
    Model { name, says, sound: false, kind }
}

const fn steady(canary: Behaviour, rate: f64) -> Kind {
    Kind::Steady { canary, rate }
}

const fn failing(errors: f64) -> Behaviour {
    Behaviour { errors, pace: Pace::Usual }
}

const fn slow(pace: Pace) -> Behaviour {
    Behaviour { errors: USUAL_ERRORS, pace }
}

impl Kind {
    /// What is true at a moment.
    pub(super) fn weather(self, at: Moment) -> Weather {
        let usual = Weather { rate: 1.0, stable: USUAL, canary: USUAL };
        let troubled = |pace| Behaviour { errors: 0.2, pace };
        match self {
            Self::Steady { canary, rate } => Weather { rate, canary, ..usual },
            Self::SlowStart if at.elapsed < SLOW_START_MS => Weather { canary: slow(Pace::TwentyTimes), ..usual },
            Self::Incident if INCIDENT_MS.contains(&at.since_change) => {
                let both = troubled(Pace::FourTimes);
                Weather { stable: both, canary: both, ..usual }
            }
            Self::Bursts if BURST_MS.contains(&(at.elapsed % BURST_CYCLE_MS)) => {
                let both = troubled(Pace::Usual);
                Weather { rate: 5.0, stable: both, canary: both }
            }
            Self::Late if at.elapsed >= at.planned / 2 => Weather { canary: failing(0.1), ..usual },
            Self::SlowStart | Self::Incident | Self::Bursts | Self::Late => usual,
        }
    }

    /// How long until the weather changes by itself, if it does.
    pub(super) fn holds_for(self, at: Moment) -> Option<u64> {
        let until = |points: &[u64], now: u64| points.iter().find(|&&point| point > now).map(|point| point - now);
        match self {
            Self::Steady { .. } => None,
            Self::SlowStart => until(&[SLOW_START_MS], at.elapsed),
            Self::Incident => until(&[INCIDENT_MS.start, INCIDENT_MS.end], at.since_change),
            Self::Bursts => until(&[BURST_MS.start, BURST_MS.end, BURST_CYCLE_MS], at.elapsed % BURST_CYCLE_MS),
            Self::Late => until(&[at.planned / 2], at.elapsed),
        }
    }
}

impl<'a> Usual<'a> {
    pub(super) fn new(recording: Option<&'a Recording>) -> Self {
        Self { recording, paces: recording.map_or_else(Paces::new, Paces::recorded) }
    }

    /// A model's weather upon what was recorded for that time: what the model leaves as usual is as it was then, and
    /// trouble is never less than it was.
    pub(super) fn upon(&self, weather: Weather, from: u64, until: u64) -> Weather {
        let Some(recording) = self.recording else { return weather };
        let (rate, errors) = recording.over(from, until);
        let then = |behaviour: Behaviour| {
            let is_usual = behaviour.errors <= USUAL_ERRORS;
            Behaviour { errors: if is_usual { errors } else { behaviour.errors.max(errors) }, ..behaviour }
        };
        Weather { rate: weather.rate * rate, stable: then(weather.stable), canary: then(weather.canary) }
    }
}

impl Paces {
    fn recorded(recording: &Recording) -> Self {
        let times = |factor: f64| Latencies::of_masses(&recording.masses(factor));
        let usual = recording.masses(1.0);
        let total: f64 = usual.iter().sum();
        let tail = LogNormal { share: 1.0, median_ms: 4_000.0, sigma: 0.25 }.masses();
        let tail: Vec<f64> = usual.iter().zip(tail).map(|(usual, tail)| 0.95 * usual / total + 0.05 * tail).collect();
        Self([times(1.0), times(2.0), times(4.0), times(20.0), Latencies::of_masses(&tail)])
    }

    pub(super) fn new() -> Self {
        let times = |factor: f64| LogNormal { share: 1.0, median_ms: USUAL_MEDIAN_MS * factor, sigma: USUAL_SIGMA };
        let tail =
            [LogNormal { share: 0.95, ..times(1.0) }, LogNormal { share: 0.05, median_ms: 4_000.0, sigma: 0.25 }];
        Self([
            Latencies::new(&[times(1.0)]),
            Latencies::new(&[times(2.0)]),
            Latencies::new(&[times(4.0)]),
            Latencies::new(&[times(20.0)]),
            Latencies::new(&tail),
        ])
    }

    pub(super) const fn of(&self, pace: Pace) -> &Latencies {
        let [usual, twice, four, twenty, tail] = &self.0;
        match pace {
            Pace::Usual => usual,
            Pace::Twice => twice,
            Pace::FourTimes => four,
            Pace::TwentyTimes => twenty,
            Pace::Tail => tail,
        }
    }
}
