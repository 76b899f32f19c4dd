//! Judging by each request against asking for a success rate each minute, on the same made-up releases: the README's table, which
//! this renews with `SERIN_BLESS=1` and checks without.

use std::{fmt::Write as _, path::Path, time::Duration};

use serin::{
    config,
    rehearse::{ModelReport, Rehearsal, rehearse},
    words,
};

const PLANS: [(&str, &str); 3] = [
    ("each-request", "each request (the guard by default)"),
    ("each-minute", "each minute, `failureLimit: 0`"),
    ("each-minute-4", "each minute, `failureLimit: 3`"),
];
const MODELS: [&str; 4] = ["fails-50", "fails-5", "fails-1", "healthy"];
const RUNS: usize = 20;
const BEGIN: &str = "<!-- renewed by tests/sim/polling.rs: -->\n";
const END: &str = "<!-- up to here -->\n";

fn cell(model: &ModelReport) -> String {
    let share = words::share(model.reverted.share);
    match model.reverted.after_ms {
        Some(after) => format!(
            "{} after {}, {} failed",
            share,
            words::duration(Duration::from_millis(after.median)),
            model.failed.median
        ),
        None => "none".to_owned(),
    }
}

#[test]
fn the_table_of_the_readme_is_what_a_rehearsal_shows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = config::load(&root.join("config/polling.yaml"), &|_| None).unwrap_or_else(|found| panic!("{found}"));
    let mut table =
        "| reverted by judging | 0.1 → 50 % errors | 0.1 → 5 % | 0.1 → 1 % | healthy |\n|---|---|---|---|---|\n"
            .to_owned();
    let models = MODELS.map(str::to_owned);
    for (name, says) in PLANS {
        let plan = config.services.iter().find(|plan| plan.name.as_str() == name).unwrap();
        let wanted = Rehearsal { plan, rate: 100.0, runs: RUNS, seed: 1, models: &models, recording: None };
        let report = rehearse(&wanted, &|_, _| {}).unwrap();
        let of = |name: &str| cell(report.models.iter().find(|model| model.name == name).unwrap());
        let cells = models.iter().map(|name| of(name)).collect::<Vec<_>>().join(" | ");
        writeln!(table, "| {says} | {cells} |").unwrap();
    }
    let path = root.join("README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = readme.split_once(BEGIN).unwrap();
    let (stated, after) = rest.split_once(END).unwrap();
    if std::env::var_os("SERIN_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}\n{table}\n{END}{after}")).unwrap();
        return;
    }
    assert_eq!(stated.trim(), table.trim(), "if that is meant, run with SERIN_BLESS=1");
}
