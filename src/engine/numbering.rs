//! How steps are counted and called for people: as whoever wrote the plan did. The engine itself counts each step from 0.

use std::time::Duration;

use super::plan::{Experiment, Pause, Step, Strategy};

/// What is one step to whoever wrote the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Numbering {
    /// Each step.
    #[default]
    Each,
    /// A weight and the hold behind it, as in `steps: [5%]` with `hold: 2m`.
    WithHold,
}

impl Strategy {
    /// The number, from 1, of the written step that a step belongs to; one more than there are for what comes after the last.
    #[must_use]
    pub fn number(&self, step: usize) -> usize {
        let before = self.steps.get(..step).unwrap_or(&self.steps);
        let present = self.steps.get(step);
        let written = self.chunks(before).count();
        let goes_on = before.last().zip(present).is_some_and(|(last, present)| self.are_one(last, present));
        if goes_on { written } else { written + 1 }
    }

    /// The steps as they were written, in words, as `setWeight 5%` or `weight 5%, hold 2m`.
    pub fn written(&self) -> impl Iterator<Item = String> {
        self.chunks(&self.steps).map(|steps| match steps {
            [Step::SetWeight(weight), Step::Pause(Pause::For(hold))] => {
                format!("weight {weight}, hold {}", duration_words(*hold))
            }
            steps => steps.iter().map(step_words).collect::<Vec<_>>().join(", "),
        })
    }

    fn chunks<'a>(&self, steps: &'a [Step]) -> impl Iterator<Item = &'a [Step]> {
        steps.chunk_by(|first, second| self.are_one(first, second))
    }

    const fn are_one(&self, first: &Step, second: &Step) -> bool {
        matches!((self.numbering, first, second), (Numbering::WithHold, Step::SetWeight(_), Step::Pause(Pause::For(_))))
    }
}

/// A step as the file writes it.
fn step_words(step: &Step) -> String {
    match step {
        Step::SetWeight(weight) => format!("setWeight {weight}"),
        Step::SetHeaderRoute { name, route: Some(_) } => format!("setHeaderRoute {name}"),
        Step::SetHeaderRoute { name, route: None } => format!("setHeaderRoute {name} removed"),
        Step::SetMirrorRoute { name, route: Some(route) } => format!("setMirrorRoute {name} {}", route.share),
        Step::SetMirrorRoute { name, route: None } => format!("setMirrorRoute {name} removed"),
        Step::Pause(Pause::For(duration)) => format!("pause {}", duration_words(*duration)),
        Step::Pause(Pause::Bake(duration)) => format!("bake {}", duration_words(*duration)),
        Step::Pause(Pause::Requests(requests)) => format!("pause {requests} requests"),
        Step::Pause(Pause::Person) => "pause until promoted".to_owned(),
        Step::Experiment(Experiment { duration, arms, .. }) => {
            let arms: Vec<String> = arms.iter().map(|arm| format!("{} {}", arm.name, arm.weight)).collect();
            let duration = duration.map(|duration| format!(", {}", duration_words(duration))).unwrap_or_default();
            format!("experiment {}{duration}", arms.join(", "))
        }
        Step::Analysis(templates) => {
            let names: Vec<_> = templates.iter().map(|template| template.name.as_str()).collect();
            format!("analysis {}", names.join(", "))
        }
    }
}

/// `1h30m`, `2m`, `1.5s`, `250ms`: as the file writes durations.
fn duration_words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if duration.subsec_millis() > 0 || seconds == 0 {
        return if seconds == 0 {
            format!("{}ms", duration.as_millis())
        } else {
            format!("{}s", duration.as_secs_f64())
        };
    }
    let parts = [(seconds / 3600, "h"), (seconds % 3600 / 60, "m"), (seconds % 60, "s")];
    let written = parts.iter().filter(|(number, _)| *number > 0).map(|(number, unit)| format!("{number}{unit}"));
    written.collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::weight::Weight;

    fn strategy(numbering: Numbering, steps: Vec<Step>) -> Strategy {
        let (on_no_traffic, no_traffic_for) = (crate::engine::plan::OnNoTraffic::Wait, Duration::from_mins(10));
        Strategy {
            steps,
            numbering,
            guard: crate::engine::plan::Guard::default(),
            on_no_traffic,
            no_traffic_for,
            deadline: None,
            policy: crate::engine::policy::Policy::default(),
            analysis: None,
        }
    }

    #[test]
    fn a_weight_and_its_hold_are_one_step_only_where_they_were_written_as_one() {
        let weight = |percent: u32| Step::SetWeight(Weight::from_ppm(percent * 10_000).unwrap());
        let hold = || Step::Pause(Pause::For(Duration::from_mins(2)));
        let steps = vec![weight(5), hold(), weight(50), hold(), Step::Pause(Pause::Bake(Duration::from_secs(90)))];
        let seen = |strategy: &Strategy| -> Vec<usize> { (0..=5).map(|step| strategy.number(step)).collect() };
        let short = strategy(Numbering::WithHold, steps.clone());
        assert_eq!(seen(&short), [1, 1, 2, 2, 3, 4]);
        assert_eq!(short.written().collect::<Vec<_>>(), ["weight 5%, hold 2m", "weight 50%, hold 2m", "bake 1m30s"]);
        let long = strategy(Numbering::Each, steps);
        assert_eq!(seen(&long), [1, 2, 3, 4, 5, 6]);
        assert_eq!(long.written().take(2).collect::<Vec<_>>(), ["setWeight 5%", "pause 2m"]);
        assert_eq!(strategy(Numbering::WithHold, Vec::new()).number(0), 1);
    }
}
