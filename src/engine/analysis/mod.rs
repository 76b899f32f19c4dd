//! Analysis as in Argo Rollouts: templates of metrics, measured again and again, judged by conditions, counted against limits.

pub mod answer;
pub mod ask;
pub mod condition;
pub mod measurement;
mod metric;
pub mod record;
pub mod run;
pub mod schedule;
pub mod template;

pub use metric::RETENTION;
pub use template::Template;
