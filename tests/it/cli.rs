//! The binary against an admin listener: transcripts as people and scripts see them.
#![expect(clippy::unwrap_used, reason = "a scenario that cannot go on fails")]

use std::{
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use serin::{
    control::handle::ConfigStatus,
    engine::{time::Timestamp, view::View},
};

use crate::{
    harness::eventually,
    stage::{self, NOW, Setting, Stage, WRITE},
};

struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The binary with nothing of this machine in its environment.
fn serin(stage: &Stage, token: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_serin"));
    command
        .env_clear()
        .env("USER", "ann")
        .env("SERIN_TOKEN", token)
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::null())
        .args(["--admin", &format!("http://{}", stage.address)]);
    command
}

fn run(stage: &Stage, args: &[&str]) -> Run {
    serin(stage, WRITE).args(args).output().unwrap().into()
}

/// Compares with the transcript `tests/it/golden/NAME`; `SERIN_BLESS=1` writes it anew.
fn golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden").join(name);
    if std::env::var_os("SERIN_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, wanted, "{name} differs; if that is meant, run with SERIN_BLESS=1\n{text}");
}

fn stages() -> [(&'static str, Stage); 6] {
    let with = |service, history| Stage::new(vec![service], history, Setting::default());
    let mut lopsided = stage::degraded();
    lopsided.last_event = stage::lopsided_history().pop();
    [
        ("progressing", Stage::progressing()),
        ("quiet", with(stage::quiet(), stage::history())),
        ("paused", with(stage::paused(), stage::paused_history())),
        ("degraded", with(stage::degraded(), stage::aborted_history())),
        ("lopsided", with(lopsided, stage::lopsided_history())),
        ("healthy", with(stage::healthy(), stage::history()[..1].to_vec())),
    ]
}

#[test]
fn each_phase_has_its_status_and_its_why() {
    for (name, stage) in stages() {
        for verb in ["status", "why"] {
            let run = run(&stage, &[verb]);
            assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{verb} of {name}");
            golden(&format!("{verb}-{name}.txt"), &run.stdout);
        }
    }
}

#[test]
fn a_canary_that_nobody_has_drawn_yet_is_told_from_silence() {
    let mut service = stage::quiet();
    (service.versions[1].rps, service.versions[1].counts) = (0.0, stage::counts(0, 0));
    let status = |service| run(&Stage::new(vec![service], stage::history(), Setting::default()), &["status"]).stdout;
    let busy = status(service.clone());
    assert!(busy.contains("3 of 20 requests, about 4m") && !busy.contains("no traffic"), "{busy}");
    service.versions[0].rps = 0.0;
    let silent = status(service);
    assert!(silent.contains("3 of 20 requests, no traffic at present"), "{silent}");
}

#[test]
fn ascii_and_colours_are_as_asked() {
    let stage = Stage::progressing();
    let plain = run(&stage, &["status", "--ascii"]);
    assert!(plain.stdout.is_ascii(), "{}", plain.stdout);
    golden("status-ascii.txt", &plain.stdout);
    assert!(run(&stage, &["why", "--ascii"]).stdout.is_ascii());
    let colour = run(&stage, &["status", "--color", "always"]).stdout;
    assert!(colour.contains("\x1b[36m◌ Progressing\x1b[0m"), "{colour}");
    let bare = run(&stage, &["status"]).stdout;
    assert!(!bare.contains('\x1b'), "into a pipe without being asked");
    let stripped = anstream::adapter::strip_str(&colour).to_string();
    assert_eq!(stripped, bare, "colours change nothing but colours");
}

#[test]
fn several_services_are_a_row_each_and_verbs_ask_which() {
    let mut api = stage::healthy();
    api.name = serin::engine::names::ServiceName::new("api").unwrap();
    let stage = Stage::new(vec![stage::progressing(), api], stage::history(), Setting::default());
    golden("status-several.txt", &run(&stage, &["status"]).stdout);
    assert!(run(&stage, &["status", "api"]).stdout.contains("Healthy, v1 serves everything"));
    let which = run(&stage, &["abort"]);
    assert_eq!((which.code, which.stderr.as_str()), (2, "error: which service? There are web, api\n"));
}

#[test]
fn a_refused_config_is_loud() {
    let error = "error[C012]: unknown field `maxWieght`\n  --> config/serin.yaml:14:7\n";
    let setting = Setting { config_error: Some(error), ..Setting::default() };
    let stage = Stage::new(vec![stage::progressing()], stage::history(), setting);
    let status = run(&stage, &["status"]).stdout;
    let wanted = "Config     ✖ config/serin.yaml was refused; what was loaded 12m34s ago stays in force\n  \
                  error[C012]: unknown field `maxWieght`\n    --> config/serin.yaml:14:7\n";
    assert!(status.contains(wanted), "{status}");
    let reload = run(&stage, &["reload"]);
    assert_eq!((reload.code, reload.stdout.as_str()), (3, ""));
    assert!(reload.stderr.starts_with("error[C012]: unknown field `maxWieght`\n"), "{}", reload.stderr);
    assert!(reload.stderr.contains("the last good config stays in force"), "{}", reload.stderr);
}

#[test]
fn history_and_events_are_a_line_each() {
    let stage = Stage::new(vec![stage::degraded()], stage::aborted_history(), Setting::default());
    let history = run(&stage, &["history"]);
    golden("history.txt", &history.stdout);
    assert_eq!(run(&stage, &["events", "web"]).stdout, history.stdout);
    let last = run(&stage, &["history", "web", "--limit", "1", "--output", "json"]).stdout;
    let last: serde_json::Value = serde_json::from_str(&last).unwrap();
    assert_eq!(last["events"][0]["cause"]["canary"], serde_json::json!({ "requests": 38, "errors": 19 }));
    assert_eq!(last["events"][0]["weightBeforePpm"], 50_000);
    let yaml = run(&stage, &["history", "--output", "yaml"]).stdout;
    assert!(yaml.starts_with("---\napiVersion: serin/v1\n"), "{yaml}");
}

#[test]
fn documents_are_one_line_of_json() {
    let stage = Stage::progressing();
    for (args, kind) in
        [(&["status"][..], "phase"), (&["why"], "text"), (&["events"], "sequence"), (&["abort"], "message")]
    {
        let out = run(&stage, &[args, &["--output", "json"]].concat()).stdout;
        for line in out.lines() {
            let document: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(document["apiVersion"], "serin/v1", "{args:?}");
            assert!(!document[kind].is_null(), "{args:?}: {line}");
        }
        assert!(out.lines().count() >= 1, "{args:?}");
    }
}

#[test]
fn acting_verbs_say_what_came_of_it() {
    let stage = Stage::progressing();
    let abort = run(&stage, &["abort", "--reason", "too slow", "--expect-revision", "7"]);
    assert_eq!(abort.stdout, "web: v2 aborted at 5%: abort by ann, \"too slow\"\n");
    assert_eq!((abort.code, abort.stderr.as_str()), (0, ""));
    let rows: &[(&[&str], i32, &str)] = &[
        (
            &["abort", "web", "--expect-revision", "6"],
            6,
            "error: the present revision is 7, not 6: look again before acting\n",
        ),
        (&["resume"], 6, "error: web is not paused; `serin promote web` goes on\n"),
        (&["start", "--to", "v9"], 2, "error: service `web` has no version `v9`; it has v1, v2\n"),
        (&["start"], 2, "--to <VERSION>"),
        (&["promote", "--force"], 2, "--full"),
        (&["abort", "nope"], 2, "error: there is no service `nope`\n  the config file has `web`\n"),
        (&["abort", "a b"], 2, "error: this makes no request"),
        (
            &["set-weight", "5"],
            2,
            "error: `weight`: `5` is not a weight: write a weight as `5%`, `0.25%` or `2500ppm`\n",
        ),
        (&["set-weight", "web", "5%"], 1, "error: the decision could not be remembered: no space left on device\n"),
        (&["set-weight"], 2, "WEIGHT"),
        (&["retry"], 1, "error: the control plane does not take commands now; try again\n"),
        (&["explode"], 2, "unrecognized subcommand"),
    ];
    for (args, code, message) in rows {
        let run = run(&stage, args);
        assert_eq!((run.code, run.stdout.as_str()), (*code, ""), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(message), "{args:?}: {}", run.stderr);
    }
    assert_eq!(run(&stage, &["undo", "--to-revision", "3"]).stdout, "web: nothing to do\n");
    assert_eq!(run(&stage, &["reload"]).stdout, "config/serin.yaml is in force\n");
}

#[test]
fn a_missing_or_wrong_token_is_code_8() {
    let stage = Stage::progressing();
    for (token, message) in
        [("", "error: this needs the write token: set SERIN_TOKEN"), ("x", "error: this is not the write token")]
    {
        let run: Run = serin(&stage, token).arg("abort").output().unwrap().into();
        assert_eq!(run.code, 8, "{}", run.stderr);
        assert!(run.stderr.contains(message), "{}", run.stderr);
        assert!(!run.stderr.contains(WRITE));
    }
    assert!(stage.commands.lock().unwrap().is_empty());
}

#[test]
fn where_nothing_answers_is_code_7_and_for_healthcheck_1() {
    let mut stage = Stage::progressing();
    assert_eq!(run(&stage, &["healthcheck"]).stdout, "ok\n");
    let ready = format!("http://{}/readyz", stage.address);
    assert_eq!(run(&stage, &["healthcheck", "--url", &ready]).stdout, "ready\n");
    let missing = format!("http://{}/nope", stage.address);
    assert_eq!(run(&stage, &["healthcheck", "--url", &missing]).code, 1);
    stage.shut_down();
    let gone = run(&stage, &["status"]);
    assert_eq!(gone.code, 7);
    let start = format!("error: no Serin answers at {} (", stage.address);
    assert!(gone.stderr.starts_with(&start), "{}", gone.stderr);
    let end = "): is `serin run` running? (--admin URL or --config FILE choose another)\n";
    assert!(gone.stderr.ends_with(end), "{}", gone.stderr);
    assert_eq!(run(&stage, &["healthcheck"]).code, 1);
}

#[test]
fn what_is_not_serin_is_said_to_be_so() {
    let stage = Stage::new(vec![], vec![], Setting { metrics_only: true, ..Setting::default() });
    let run = run(&stage, &["status"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("there is nothing at /api/v1/services"), "{}", run.stderr);
}

#[test]
fn watching_into_a_pipe_prints_each_change_and_ends_with_the_rollout() {
    use std::io::{BufRead as _, BufReader};
    let stage = Stage::progressing();
    let mut child = serin(&stage, WRITE).args(["status", "-w", "-o", "json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> serde_json::Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["phase"], "Progressing");
    let after = |services| View { at: Timestamp::from_millis(NOW), services, ..(**stage.shared.view.load()).clone() };
    stage.shared.view.store(after(vec![stage::paused()]).into());
    assert_eq!(next()["phase"], "Paused");
    let refused = ConfigStatus { error: Some("no".into()), ..(**stage.shared.config.load()).clone() };
    stage.shared.config.store(refused.into());
    assert_eq!(next()["config"]["error"], "no");
    stage.shared.view.store(after(vec![stage::degraded()]).into());
    assert_eq!(next()["phase"], "Degraded");
    assert_eq!(child.wait().unwrap().code(), Some(4), "an abort is code 4");
}

#[test]
fn following_events_prints_what_happens() {
    use std::io::{BufRead as _, BufReader};
    let stage = Stage::progressing();
    let mut child = serin(&stage, WRITE).args(["events", "-f"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.by_ref().take(3).filter(|line| line.contains("v2")).count(), 2);
    assert_eq!(stage.post("/api/v1/services/web/abort", "").status, 200);
    let line = lines.next().unwrap();
    assert!(line.ends_with("✖ v2 aborted at 5%: abort by api"), "{line}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let stage = Stage::progressing();
    let mut child =
        serin(&stage, WRITE).args(["events", "-f"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    // A child that is just being started elsewhere may hold the pipe open a moment longer, so there is always more to say.
    eventually("the end of `events -f`", || {
        assert_eq!(stage.post("/api/v1/services/web/abort", "").status, 200);
        child.try_wait().unwrap()
    });
    let run = Run::from(child.wait_with_output().unwrap());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
}

#[test]
fn each_version_has_a_row_of_numbers() {
    let stage = Stage::progressing();
    golden("stat.txt", &run(&stage, &["stat"]).stdout);
    assert_eq!(run(&stage, &["stat", "nope"]).code, 2);
    assert!(run(&stage, &["stat", "web", "--ascii"]).stdout.is_ascii());
}

#[test]
fn a_rollout_is_told_from_start_to_end() {
    let stage = Stage::new(vec![stage::degraded()], stage::aborted_history(), Setting::default());
    golden("report.txt", &run(&stage, &["report"]).stdout);
    golden("report.md", &run(&stage, &["report", "--markdown"]).stdout);
    let document = run(&stage, &["report", "web", "--output", "json"]).stdout;
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!((document["outcome"].as_str(), document["apiVersion"].as_str()), (Some("aborted"), Some("serin/v1")));
    let none = run(&stage, &["report", "--revision", "99"]);
    assert_eq!((none.code, none.stdout.as_str()), (2, ""), "{}", none.stderr);
}

#[test]
fn a_dry_run_says_what_would_happen() {
    let stage = Stage::progressing();
    let abort = run(&stage, &["abort", "--reason", "too slow", "--dry-run"]);
    let said = "web: v2 aborted at 5%: abort by ann, \"too slow\" (dry run, nothing is changed)\n";
    assert_eq!((abort.code, abort.stdout.as_str()), (0, said), "{}", abort.stderr);
    assert_eq!(run(&stage, &["resume", "--dry-run"]).code, 6);
}

#[test]
fn drift_names_the_line_to_edit() {
    let stage = Stage::progressing();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("serin.yaml");
    let text = "listen: 127.0.0.1:1\nservices:\n  web:\n    versions: { v1: 'http://a', v2: 'http://b' }\n    stable: v1\n    canary: v2\n";
    let drift = |text: &str| {
        std::fs::write(&file, text).unwrap();
        run(&stage, &["drift", "--config", file.to_str().unwrap()])
    };
    let none = drift(text);
    assert_eq!(none.code, 0, "{}{}", none.stdout, none.stderr);
    let some = drift(&text.replace("stable: v1", "stable: v2").replace("canary: v2", "canary: v1"));
    assert_eq!(some.code, 1);
    assert!(
        some.stdout.contains(":5: services.web.stable\n  the file says  v2\n  in force is    v1\n"),
        "{}",
        some.stdout
    );
    assert!(
        some.stdout.contains(":6: services.web.canary\n  the file says  v1\n  in force is    v2\n"),
        "{}",
        some.stdout
    );
    assert_eq!(drift("listen: [").code, 3);
}

#[test]
fn ctrl_c_ends_demo_and_try_with_130() {
    let stage = Stage::progressing();
    let url = format!("http://{}", stage.address);
    for args in [&["demo", "--plain"][..], &["try", &url, &url, "--plain", "--path", "/healthz"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_serin"))
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Its first line is said once everything is up.
        let mut lines = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut lines, &mut String::new()).unwrap();
        let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        std::io::Read::read_to_end(&mut lines, &mut Vec::new()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{args:?}");
    }
}

#[test]
fn a_file_is_named_to_run_as_people_try_to() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.yaml");
    std::fs::write(&file, "listen: nowhere\n").unwrap();
    let file = file.to_str().unwrap();
    for args in [&["run", file][..], &["run", "-c", file], &["run", "--config", file], &["-c", file, "run"]] {
        let run = Run::from(crate::harness::serin(args).output().unwrap());
        assert_eq!(run.code, 3, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(&format!("{file}:1:9")), "{args:?}: {}", run.stderr);
    }
}
