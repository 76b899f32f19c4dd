//! Analysis as in Argo Rollouts: templates of metrics, measured again and again, judged by conditions, counted against limits.

pub mod condition;
pub mod measurement;
mod metric;
pub mod run;
pub mod schedule;
pub mod template;

pub use metric::MEASUREMENTS_KEPT;
pub use template::Template;
