//! `serin demo`: two acts on real sockets. A bad release is reverted on evidence, its fix climbs to 100 %.
//! The show succeeds only if both acts ended as told, so it is the smoke test too.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use super::{
    load::Summary,
    screen::Screen,
    stage::{LOOK, Script, Stage, StageError},
    toy::{Failing, Toy, ToyError, ToySpec},
};
use crate::engine::event::{Event, EventKind};

/// How the show is given.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Requests a second.
    pub rate: f64,
    /// How long each step is held.
    pub hold: Duration,
    /// Longest time an act may take before the show is given up.
    pub patience: Duration,
}

impl Pace {
    /// About a minute: time to read.
    pub const NORMAL: Self = Self { rate: 200.0, hold: Duration::from_secs(14), patience: Duration::from_secs(90) };
    /// About a quarter of that.
    pub const FAST: Self = Self { rate: 400.0, hold: Duration::from_millis(2_500), patience: Duration::from_mins(1) };
}

/// How the show ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Both acts ended as told.
    AsTold,
    /// An act ended otherwise.
    Otherwise,
    /// Somebody pressed Ctrl-C.
    Interrupted,
}

/// Why there is no show.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    /// The stage cannot be set.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// A toy does not start.
    #[error(transparent)]
    Toy(#[from] ToyError),
}

/// Plays both acts. `interrupted` ends it early, with everything put away.
///
/// # Errors
/// When the stage cannot be set.
pub fn play(pace: Pace, screen: &mut Screen, interrupted: &AtomicBool) -> Result<Ending, ShowError> {
    let every_second = NonZeroU32::new(2).map_or(Failing::Never, Failing::Every);
    let toys = [("v1", Failing::Never), ("v2", every_second), ("v3", Failing::Never)];
    let toys = toys.map(|(name, failing)| toy(name, failing));
    let [v1, v2, v3] = toys;
    let toys = [("v1", v1?), ("v2", v2?), ("v3", v3?)];
    let versions = toys.iter().map(|(name, toy)| ((*name).to_owned(), format!("http://{}", toy.address())));
    let mut stage = Stage::set(Script {
        listen: ([127, 0, 0, 1], 0).into(),
        versions: versions.collect(),
        canary: "v2".to_owned(),
        steps: ["5%", "25%", "50%"].map(str::to_owned).to_vec(),
        hold: pace.hold,
        rate: pace.rate,
        path: "/".to_owned(),
    })?;
    introduce(&stage, pace, screen);
    screen.say("\nAct 1 of 2: a bad release. v2 fails every second request; it starts at 5%.");
    let first = act(&mut stage, "v2", pace, screen, interrupted);
    let after_first = stage.load();
    if first == Some(EventKind::Aborted) {
        screen.say("\nAct 2 of 2: the fix. `canary: v3` is written into the file and saved.");
        stage.wish("v3")?;
    }
    let second = first.filter(|end| *end == EventKind::Aborted);
    let second = second.and_then(|_| act(&mut stage, "v3", pace, screen, interrupted));
    let history = stage.history();
    let total = stage.clear();
    if interrupted.load(Relaxed) {
        screen.say("\nStopped; nothing is left behind.");
        return Ok(Ending::Interrupted);
    }
    sum_up(screen, &history, after_first.as_ref(), total.as_ref());
    let as_told = (first, second) == (Some(EventKind::Aborted), Some(EventKind::Promoted));
    Ok(if as_told { Ending::AsTold } else { Ending::Otherwise })
}

fn toy(name: &str, failing: Failing) -> Result<Toy, ToyError> {
    let listen = ([127, 0, 0, 1], 0).into();
    let (latency, jitter) = (Duration::from_millis(2), Duration::from_millis(3));
    Toy::start(ToySpec { failing, latency, jitter, ..ToySpec::new(name, listen) })
}

fn introduce(stage: &Stage, pace: Pace, screen: &mut Screen) {
    let (Some(address), Some(admin)) = (stage.address(), stage.admin()) else { return };
    screen.say(&format!("serin demo: {} requests a second to http://{address}, admin on http://{admin}", pace.rate));
    screen.say("This is the whole config file:\n");
    for line in stage.config_text().lines() {
        screen.say(&format!("    {line}"));
    }
}

/// Plays until the rollout of a version has ended, and a little longer so that the end is seen.
fn act(
    stage: &mut Stage,
    version: &str,
    pace: Pace,
    screen: &mut Screen,
    interrupted: &AtomicBool,
) -> Option<EventKind> {
    let curtain = Instant::now() + pace.patience;
    while Instant::now() < curtain && !interrupted.load(Relaxed) {
        // why: the show is watched by people, at ten pictures a second.
        thread::sleep(LOOK);
        screen.follow(stage);
        if let Some(end) = stage.outcome(version) {
            return Some(end);
        }
    }
    if !interrupted.load(Relaxed) {
        screen.say(&format!("  {version} did not come to an end within {} s", pace.patience.as_secs()));
    }
    None
}

/// How many users saw a failure, how long the bad release was live, and where the reasons are.
fn sum_up(screen: &mut Screen, history: &[Event], after_first: Option<&Summary>, total: Option<&Summary>) {
    let time = |kind: EventKind| history.iter().find(|event| event.kind == kind).map(|event| event.at);
    screen.say("\nWhat happened:");
    if let (Some(started), Some(aborted), Some(seen)) =
        (time(EventKind::Started), time(EventKind::Aborted), after_first)
    {
        screen.say(&format!(
            "  the bad release was live for {:.1} s at 5%; {} of {} requests failed",
            aborted.since(started).as_secs_f64(),
            failures(seen),
            seen.answered,
        ));
    }
    if let (Some(total), Some(seen)) = (total, after_first) {
        screen.say(&format!(
            "  after the revert: {} of {} requests failed, while v3 went from 5% to 100%",
            failures(total).saturating_sub(failures(seen)),
            total.answered.saturating_sub(seen.answered),
        ));
    }
    screen.say("\nOn your own services the same facts are in:  serin status · serin why · serin history");
    screen.say("Try it with two URLs of yours:                serin try http://localhost:3000 http://localhost:3001");
}

fn failures(of: &Summary) -> u64 {
    let bad: u64 = of.statuses.iter().filter(|(status, _)| **status >= 500).map(|(_, count)| count).sum();
    bad + of.broken + of.timed_out
}
