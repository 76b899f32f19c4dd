//! The one place that says when a metric is measured next.
