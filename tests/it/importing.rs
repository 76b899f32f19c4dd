//! The samples of the importers become files that can be rehearsed: their plans go through the engine to their ends.
//! Every sample whose outcome has two versions is rehearsed, those whose splits were set by hand too.

use std::{fs, path::Path};

use clap::ValueEnum as _;
use serin::{
    config,
    import::{Input, Kind, import},
    rehearse::{Rehearsal, rehearse},
};

#[test]
fn what_is_imported_can_be_rehearsed() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/import/golden");
    let models = ["fails-50".to_owned()];
    let mut rehearsed = 0;
    for kind in Kind::value_variants() {
        let word = kind.to_possible_value().unwrap().get_name().to_owned();
        let mut of_kind = 0;
        for entry in fs::read_dir(golden.join(&word)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "yaml") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let made = import(*kind, &[Input { path: path.clone(), text }]).unwrap().config;
            let config = config::check(&made, Path::new("serin.yaml"), &|_| None).config.unwrap();
            for plan in config.services.iter().filter(|plan| plan.versions.len() > 1) {
                // A split that was set by hand waits for a person to the end: fewer requests say as much.
                let rate = if matches!(kind, Kind::Argo | Kind::Flagger) { 10.0 } else { 2.0 };
                let wanted = Rehearsal { plan, rate, runs: 1, seed: 1, models: &models, recording: None };
                let report = rehearse(&wanted, &|_, _| {}).unwrap();
                assert!(!report.models.is_empty(), "{}", path.display());
                of_kind += 1;
            }
        }
        assert!(of_kind > 0, "{word}");
        rehearsed += of_kind;
    }
    assert!(rehearsed >= 100, "{rehearsed}");
}
