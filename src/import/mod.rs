//! READ WHAT PEOPLE HAVE. Manifests of other tools become a config that passes `config::check`, and a report that names
//! every value of the input as kept, approximated or dropped. Refuses to leave anything out in silence; touches no socket.

mod alb;
mod alb_conditions;
mod ambassador;
mod analysis;
mod apisix;
mod argo;
mod argo_blue_green;
mod argo_experiment;
mod argo_routing;
mod backend;
mod draft;
mod flagger;
mod flagger_gates;
mod flagger_metrics;
mod flagger_tell;
mod gateway_api;
mod gateway_filters;
mod istio;
mod istio_http;
mod istio_policy;
mod ledger;
mod manifest;
mod matching;
mod mirror;
mod nginx;
mod nginx_filters;
mod report;
mod route;
mod secret;
mod smi;
mod template;
#[cfg(test)]
mod tests;
mod traefik;
mod traefik_middleware;
mod traefik_mirror;
mod traefik_rule;
mod traefik_servers;
mod trial;
mod value;
mod watch;
mod weighted;

use std::path::{Path, PathBuf};

pub use report::{Entry, Fate, Report};

use crate::config::{self, Diagnostics};
use draft::Draft;
use ledger::Ledger;
use manifest::Objects;

/// Whose manifests they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Argo Rollouts: Rollout, AnalysisTemplate, ClusterAnalysisTemplate
    Argo,
    /// Flagger: Canary, MetricTemplate, AlertProvider
    Flagger,
    /// ingress-nginx: an Ingress and its canary Ingress
    Nginx,
    /// Gateway API: HTTPRoute and GRPCRoute with weighted backends
    GatewayApi,
    /// Traefik: weighted service, in a dynamic file or as TraefikService
    Traefik,
    /// Istio: VirtualService with weighted destinations, DestinationRule
    Istio,
    /// AWS Load Balancer Controller: Ingress with weighted target groups in an action's annotation
    Alb,
    /// SMI: TrafficSplit
    Smi,
    /// Apache APISIX: ApisixRoute with weighted backends
    Apisix,
    /// Ambassador, Emissary: two Mappings, one of them with a weight
    Ambassador,
}

/// One file of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// What it is called in the report.
    pub path: PathBuf,
    /// One or more YAML documents.
    pub text: String,
}

/// What came of the input.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// A config file that passes [`config::check`].
    pub config: String,
    /// What became of every value of the input.
    pub report: Report,
}

/// Why nothing came of the input.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ImportError {
    /// A file is not YAML, or too large.
    #[error("{0}")]
    Unreadable(Diagnostics),
    /// No object that a config can be made of.
    #[error("there is no {0} in these files")]
    Nothing(&'static str),
    /// What was made of the input is no config, as when it grew too large.
    #[error("what these files ask for does not fit into a config of Serin:\n{0}")]
    Unfit(Diagnostics),
}

/// How one importer is put together.
struct Importer {
    /// As the user says it.
    word: &'static str,
    /// The kinds of objects that it reads.
    reads: &'static [&'static str],
    /// What it looks for, in words.
    wants: &'static str,
    /// Why what it leaves alone is left out: the object's kind (empty: any), the beginning of the path, the reason.
    reasons: &'static [(&'static str, &'static str, &'static str)],
    /// Makes a draft of the objects that it looks for.
    draft: fn(&Objects, &mut Ledger) -> Option<Draft>,
}

impl Kind {
    const fn importer(self) -> &'static Importer {
        match self {
            Self::Argo => &argo::IMPORTER,
            Self::Flagger => &flagger::IMPORTER,
            Self::Nginx => &nginx::IMPORTER,
            Self::GatewayApi => &gateway_api::IMPORTER,
            Self::Traefik => &traefik::IMPORTER,
            Self::Istio => &istio::IMPORTER,
            Self::Alb => &alb::IMPORTER,
            Self::Smi => &smi::IMPORTER,
            Self::Apisix => &apisix::IMPORTER,
            Self::Ambassador => &ambassador::IMPORTER,
        }
    }
}

/// Makes a config of the rollouts or splits in the files. All files are read together: a template may stand in
/// another file than what uses it.
///
/// # Errors
/// When a file is not YAML, or nothing in them can be imported.
pub fn import(kind: Kind, inputs: &[Input]) -> Result<Imported, ImportError> {
    let importer = kind.importer();
    let mut ledger = Ledger::new(inputs);
    let mut objects = Objects::default();
    for (file, input) in inputs.iter().enumerate() {
        let roots = config::documents(&input.text, &input.path).map_err(|found| unreadable(found, &input.text))?;
        for root in &roots {
            objects.add(root, file, &mut ledger);
        }
    }
    let mut draft = (importer.draft)(&objects, &mut ledger).ok_or(ImportError::Nothing(importer.wants))?;
    mirror::settle(&mut draft);
    if inputs.iter().any(|input| input.text.contains("${")) {
        draft.remark(
            "`${…}` is taken as it is written: if something fills it in before the cluster sees it, import what that makes",
        );
    }
    let text = draft.text(importer.word, inputs);
    let checked = config::check(&text, Path::new("serin.yaml"), &|_| None);
    if checked.config.is_none() {
        return Err(ImportError::Unfit(checked.diagnostics));
    }
    Ok(Imported { config: text, report: ledger.report(importer, draft.remarks) })
}

/// Manifests are often templates of manifests.
fn unreadable(found: Diagnostics, text: &str) -> ImportError {
    let is_template = text.contains("{{");
    ImportError::Unreadable(if is_template {
        found.with_help("if this is a template, import what `helm template` or `kustomize build` makes of it")
    } else {
        found
    })
}
