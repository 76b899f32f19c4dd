//! `serin try`: a canary trial of two services of one's own, without a config file.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Instant,
};

use super::{
    screen::Screen,
    stage::{LOOK, Script, Stage, StageError},
};
use crate::engine::event::EventKind;

/// Tries `canary` beside `stable` until it is promoted or withdrawn, or `interrupted`.
///
/// # Errors
/// When the stage cannot be set.
pub fn play(script: Script, screen: &mut Screen, interrupted: &AtomicBool) -> Result<Option<EventKind>, StageError> {
    let rate = script.rate;
    let canary = script.canary.clone();
    let began = Instant::now();
    let mut stage = Stage::set(script)?;
    if let (Some(address), Some(admin)) = (stage.address(), stage.admin()) {
        screen.say(&format!("serin try: http://{address} splits, admin on http://{admin}, {rate} requests a second"));
    }
    let mut end = None;
    while end.is_none() && !interrupted.load(Relaxed) {
        // why: the trial is watched by people, at ten pictures a second.
        thread::sleep(LOOK);
        screen.follow(&mut stage);
        end = stage.outcome(&canary);
    }
    let summary = stage.clear();
    if let Some(summary) = summary {
        let seconds = began.elapsed().as_secs();
        screen.say(&format!("\n{} requests answered in {seconds} s:", summary.answered));
        for (status, count) in &summary.statuses {
            screen.say(&format!("  {status}: {count}"));
        }
        if summary.broken + summary.timed_out > 0 {
            screen.say(&format!("  without an answer: {}", summary.broken + summary.timed_out));
        }
    }
    Ok(end)
}
