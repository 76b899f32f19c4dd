//! Analysis runs on the Prometheus page. Labels are names out of the config and words of fixed lists.

use std::{collections::BTreeSet, fmt};

use prometheus_client::encoding::DescriptorEncoder;

use super::{gauge, gauges};
use crate::engine::{
    analysis::{ask::RunKind, record::RunRecord, run::AnalysisPhase},
    view::ServiceView,
};

/// Runs by phase, and what the latest run of each kind has measured.
pub(super) fn analyses(to: &mut DescriptorEncoder, services: &[ServiceView]) -> fmt::Result {
    let help = "Analysis runs that are kept: those going on, and the last ones that ended.";
    let mut runs = gauges(to, "serin_analysis_runs", help)?;
    for service in services.iter().filter(|service| !service.analysis_runs.is_empty()) {
        for phase in AnalysisPhase::ALL {
            let count = service.analysis_runs.iter().filter(|run| run.phase == phase).count() as u64;
            gauge(&mut runs, [("service", service.name.as_str()), ("phase", phase.as_str())], &count)?;
        }
    }
    let help = "Measurements of the latest analysis run of each kind, by metric and verdict.";
    let mut measurements = gauges(to, "serin_analysis_measurements", help)?;
    each_metric(services, |labels, run, at| {
        let tally = &run.metrics[at].tally;
        let verdicts = [
            ("Successful", tally.successful),
            ("Failed", tally.failed),
            ("Inconclusive", tally.inconclusive),
            ("Error", tally.error),
            ("NoData", tally.no_data),
        ];
        let [service, kind, metric] = labels;
        verdicts.iter().try_for_each(|(word, count)| {
            gauge(&mut measurements, [service, kind, metric, ("verdict", word)], &u64::from(*count))
        })
    })?;
    let help = "1 for the phase that a metric of the latest analysis run of each kind is in.";
    let mut phases = gauges(to, "serin_analysis_metric_phase", help)?;
    each_metric(services, |[service, kind, metric], run, at| {
        AnalysisPhase::ALL.iter().try_for_each(|phase| {
            let is_it = u64::from(run.metrics[at].phase == *phase);
            gauge(&mut phases, [service, kind, metric, ("phase", phase.as_str())], &is_it)
        })
    })
}

type Labels<'a> = [(&'static str, &'a str); 3];

/// Each metric of the latest run of each kind, by its place in the run; names are unique in a run, and a series is not written twice.
fn each_metric(
    services: &[ServiceView],
    mut tell: impl FnMut(Labels<'_>, &RunRecord, usize) -> fmt::Result,
) -> fmt::Result {
    for service in services {
        for (kind, word) in RunKind::ALL.map(|kind| (kind, kind.as_str())) {
            let Some(run) = service.analysis_runs.iter().rev().find(|run| run.kind == kind) else { continue };
            let mut taken = BTreeSet::new();
            for (at, metric) in run.metrics.iter().enumerate() {
                if taken.insert(metric.name.as_str()) {
                    let labels = [("service", service.name.as_str()), ("kind", word), ("metric", metric.name.as_str())];
                    tell(labels, run, at)?;
                }
            }
        }
    }
    Ok(())
}
