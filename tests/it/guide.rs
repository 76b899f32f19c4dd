//! The manual and the files that it names: every command is one that the binary takes, every file is what it says it is.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use serin::{
    config,
    demo::show::Pace,
    engine::plan::{Pause, Step},
    guide::PAGES,
};

/// The blocks of a page: the word behind the fence, and the text.
fn blocks(text: &str) -> Vec<(&str, &str)> {
    let mut fences = text.split("```");
    let mut found = Vec::new();
    fences.next();
    while let (Some(block), Some(_)) = (fences.next(), fences.next()) {
        found.push(block.split_once('\n').unwrap());
    }
    found
}

fn serin(folder: &Path, args: &[String]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_serin"));
    command.current_dir(folder).env_clear().stdin(Stdio::null()).args(args).output().unwrap()
}

/// The picture at the top of the README, drawn by the command that its plan names; `SERIN_BLESS=1` draws it anew.
#[test]
fn the_picture_of_the_demo_is_what_its_plan_does() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let plan = config::load(&root.join("config/demo.yaml"), &|_| None).unwrap().services.remove(0);
    let hold = Step::Pause(Pause::For(Pace::NORMAL.hold));
    assert_eq!(plan.strategy.steps.iter().filter(|step| **step == hold).count(), 3, "the demo's own plan");
    let told = fs::read_to_string(root.join("config/demo.yaml")).unwrap();
    let line = told.lines().find_map(|line| line.strip_prefix("# serin ")).unwrap();
    assert!(line.contains(&format!("--rate {} ", Pace::NORMAL.rate)), "{line}");
    let (line, path) = line.split_once(" --svg ").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let drawn = folder.path().join("demo.svg");
    let args = [words(line), vec!["--svg".to_owned(), drawn.display().to_string()]].concat();
    let done = serin(root, &args);
    assert!(done.status.success(), "{done:?}");
    let picture = fs::read_to_string(drawn).unwrap();
    if std::env::var_os("SERIN_BLESS").is_some() {
        fs::write(root.join(path), &picture).unwrap();
    }
    assert_eq!(fs::read_to_string(root.join(path)).unwrap_or_default(), picture, "{path}: run with SERIN_BLESS=1");
    assert!(fs::read_to_string(root.join("README.md")).unwrap().contains(&format!("]({path})")));
}

/// Splits as a shell does for what is in the manual: words, and double quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quoted, mut any) = (String::new(), false, false);
    for letter in line.chars() {
        match letter {
            '"' => (quoted, any) = (!quoted, true),
            ' ' if !quoted => {
                if any {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            _ => {
                word.push(letter);
                any = true;
            }
        }
    }
    if any {
        words.push(word);
    }
    words
}

/// Each `serin …` line of shell blocks, with what follows a comment, a pipe or a redirection left out.
fn commands(text: &str) -> Vec<Vec<String>> {
    let shell = blocks(text).into_iter().filter(|(kind, _)| *kind == "sh").map(|(_, block)| block);
    let lines = shell.flat_map(str::lines).filter(|line| line.starts_with("serin "));
    lines
        .map(|line| {
            let mut line = line;
            for end in ["  #", " #", " | ", " > "] {
                line = line.split(end).next().unwrap();
            }
            words(line)[1..].to_vec()
        })
        .collect()
}

fn documents() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all: Vec<(String, String)> =
        PAGES.iter().map(|page| (page.topic.to_owned(), page.text.to_owned())).collect();
    all.push(("README.md".to_owned(), fs::read_to_string(root.join("README.md")).unwrap()));
    all
}

#[test]
fn every_command_of_the_manual_is_one_that_the_binary_takes() {
    let folder = tempfile::tempdir().unwrap();
    let mut tried = 0;
    for (name, text) in documents() {
        for mut args in commands(&text) {
            let line = args.join(" ");
            // Everything before it is parsed; nothing is run.
            args.push("--help".to_owned());
            let output = serin(folder.path(), &args);
            assert!(output.status.success(), "{name}: serin {line}\n{}", String::from_utf8_lossy(&output.stderr));
            tried += 1;
        }
    }
    assert!(tried >= 40, "{tried}");
}

#[test]
fn every_config_of_the_manual_is_sound() {
    let mut tried = 0;
    for (name, text) in documents() {
        let of_kind = |kind: &'static str| {
            let all = blocks(&text).into_iter().filter(move |(own, _)| *own == kind).map(|(_, block)| block.to_owned());
            all.collect::<Vec<_>>()
        };
        // The config within a ConfigMap is indented by four.
        let embedded = of_kind("kubernetes").into_iter().filter_map(|manifest| {
            let (_, rest) = manifest.split_once("serin.yaml: |\n")?;
            let lines = rest.lines().map_while(|line| line.strip_prefix("    "));
            Some(lines.collect::<Vec<_>>().join("\n"))
        });
        for file in of_kind("yaml").into_iter().chain(embedded) {
            let checked = config::check(&file, Path::new("serin.yaml"), &|_| None);
            assert!(checked.diagnostics.items().is_empty(), "{name}:\n{}", checked.diagnostics);
            tried += 1;
        }
    }
    assert!(tried >= 3, "{tried}");
}

#[test]
fn manifests_of_the_manual_are_imported() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ["argo", "flagger", "nginx", "istio", "traefik", "gateway-api"] {
        let page = PAGES.iter().find(|page| page.topic == format!("from-{kind}")).unwrap();
        let manifests: Vec<_> = blocks(page.text).into_iter().filter(|(own, _)| *own == kind).collect();
        assert_eq!(manifests.len(), 1, "{kind}");
        fs::write(folder.path().join("in.yaml"), manifests[0].1).unwrap();
        let args = ["import", kind, "in.yaml"].map(str::to_owned);
        let output = serin(folder.path(), &args);
        assert!(output.status.success(), "{kind}: {}", String::from_utf8_lossy(&output.stderr));
        let made = String::from_utf8(output.stdout).unwrap();
        let checked = config::check(&made, Path::new("serin.yaml"), &|_| None);
        assert!(checked.config.is_some(), "{kind}: {}\n{made}", checked.diagnostics);
    }
}

#[test]
fn the_kubernetes_example_and_the_trials_are_what_they_say() {
    let running = PAGES.iter().find(|page| page.topic == "running").unwrap();
    let manifest = blocks(running.text).into_iter().find(|(kind, _)| *kind == "kubernetes").unwrap().1;
    let read = config::documents(manifest, Path::new("kubernetes.yaml")).unwrap();
    assert_eq!(read.len(), 3);
    assert!(!manifest.contains("Role"), "no rights in the cluster are needed");
    let docker = Path::new(env!("CARGO_MANIFEST_DIR")).join("docker");
    for file in ["trial/serin.yaml", "sidecar/serin.yaml"] {
        let text = fs::read_to_string(docker.join(file)).unwrap();
        let checked = config::check(&text, Path::new(file), &|_| Some("token".to_owned()));
        assert!(checked.diagnostics.items().is_empty(), "{}", checked.diagnostics);
    }
    for file in ["compose.yaml", "sidecar.yaml"] {
        let text = fs::read_to_string(docker.join(file)).unwrap();
        assert!(config::documents(&text, Path::new(file)).is_ok_and(|read| read.len() == 1), "{file}");
    }
}

#[test]
fn the_manual_is_asked_by_topic() {
    let folder = tempfile::tempdir().unwrap();
    let overview = serin(folder.path(), &["explain".to_owned()]);
    let overview = String::from_utf8(overview.stdout).unwrap();
    for page in PAGES {
        assert!(overview.contains(page.topic), "{}", page.topic);
        let output = serin(folder.path(), &["explain".to_owned(), page.topic.to_owned()]);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), page.text);
    }
}
