//! Which dependencies there may be: each says in Cargo.toml why it is there; licences, sources and duplicates as in .deny.toml.

use std::{collections::BTreeMap, process::Command};

use super::{assert_kept, source::file};

/// Dependencies without a comment, in the line or above it.
fn unexplained(manifest: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut within, mut nesting, mut above) = (false, 0_usize, "");
    for (number, line) in (1..).zip(manifest.lines()) {
        let line = line.trim();
        let value = line.split(" #").next().unwrap_or_default();
        let header = line.starts_with('[').then(|| line.trim_matches(['[', ']'])).filter(|_| nesting == 0);
        let entry = within && nesting == 0 && header.is_none() && value.contains('=') && !line.starts_with('#');
        let own_table = header.and_then(|header| header.rsplit_once("dependencies.")).map(|(_, name)| name);
        if let Some(name) = own_table.or_else(|| entry.then(|| value.split('=').next().unwrap_or_default().trim())) {
            let explained = line.contains(" # ") || above.starts_with("# ");
            if !explained {
                found.push(format!("Cargo.toml:{number}: `{name}` needs a comment that says why it is there"));
            }
        }
        within = header.map_or(within, |header| header.ends_with("dependencies"));
        nesting = (nesting + value.matches(['[', '{']).count()).saturating_sub(value.matches([']', '}']).count());
        above = line;
    }
    found
}

/// The quoted words of a list in .deny.toml, each followed by what else its line says.
fn list<'t>(deny: &'t str, name: &str) -> Vec<(&'t str, &'t str)> {
    let lines = deny.lines().skip_while(|line| *line != format!("{name} = [")).skip(1);
    let quoted = |line: &'t str| {
        let (_, from) = line.split_once('"')?;
        from.split_once('"')
    };
    lines.take_while(|line| *line != "]").filter_map(quoted).collect()
}

/// Whether a licence expression (SPDX, or with the `/` of old manifests) is met by what is allowed.
fn licensed(expression: &str, allowed: &[&str]) -> bool {
    let expression = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ").replace(" WITH ", "+");
    let words: Vec<String> = expression.split_whitespace().map(|word| word.replace('+', " WITH ")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (met, rest) = any_of(&words, allowed);
    met && rest.is_empty()
}

fn any_of<'w>(words: &'w [&'w str], allowed: &[&str]) -> (bool, &'w [&'w str]) {
    let (mut met, mut rest) = all_of(words, allowed);
    while let [word, more @ ..] = rest {
        if *word != "OR" {
            break;
        }
        let (also, after) = all_of(more, allowed);
        (met, rest) = (met || also, after);
    }
    (met, rest)
}

fn all_of<'w>(words: &'w [&'w str], allowed: &[&str]) -> (bool, &'w [&'w str]) {
    let (mut met, mut rest) = one(words, allowed);
    while let [word, more @ ..] = rest {
        if *word != "AND" {
            break;
        }
        let (also, after) = one(more, allowed);
        (met, rest) = (met && also, after);
    }
    (met, rest)
}

fn one<'w>(words: &'w [&'w str], allowed: &[&str]) -> (bool, &'w [&'w str]) {
    match words {
        ["(", inner @ ..] => match any_of(inner, allowed) {
            (met, [")", rest @ ..]) => (met, rest),
            (_, rest) => (false, rest),
        },
        [licence, rest @ ..] => (allowed.contains(licence), rest),
        [] => (false, words),
    }
}

struct Package {
    name: String,
    version: String,
    licence: Option<String>,
    source: Option<String>,
}

/// Everything that is built for this machine, tests included.
fn packages() -> Vec<Package> {
    let cargo = || {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        cargo
    };
    let about = cargo().arg("-vV").output().unwrap();
    let about = String::from_utf8(about.stdout).unwrap();
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let metadata = cargo()
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", host])
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let used: Vec<&str> =
        metadata["resolve"]["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap()).collect();
    let of_use = metadata["packages"].as_array().unwrap().iter();
    let of_use = of_use.filter(|package| used.contains(&package["id"].as_str().unwrap()));
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    of_use
        .map(|package| Package {
            name: text(&package["name"]).unwrap(),
            version: text(&package["version"]).unwrap(),
            licence: text(&package["license"]),
            source: text(&package["source"]),
        })
        .collect()
}

fn unlicensed(packages: &[Package], deny: &str) -> Vec<String> {
    let allowed: Vec<&str> = list(deny, "allow").into_iter().map(|(licence, _)| licence).collect();
    let met = |package: &&Package| package.licence.as_deref().is_some_and(|licence| licensed(licence, &allowed));
    let complaint = |package: &Package| {
        let licence = package.licence.as_deref().unwrap_or("none");
        format!("{} {}: its licence, {licence}, is not allowed by .deny.toml", package.name, package.version)
    };
    packages.iter().filter(|package| !met(package)).map(complaint).collect()
}

/// The package itself has no source.
fn foreign(packages: &[Package]) -> Vec<String> {
    let home = "registry+https://github.com/rust-lang/crates.io-index";
    let foreign = packages.iter().filter(|package| package.source.as_deref().is_some_and(|source| source != home));
    foreign
        .map(|package| format!("{} {}: comes from elsewhere than crates.io", package.name, package.version))
        .collect()
}

/// More versions of a package than one that are not skipped in .deny.toml, with a reason.
fn doubled(packages: &[Package], deny: &str) -> Vec<String> {
    let skipped = list(deny, "skip");
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    let mut found = Vec::new();
    for (crate_version, rest) in &skipped {
        let (name, version) = crate_version.split_once('@').unwrap_or((crate_version, ""));
        let needed = versions.get(name).is_some_and(|built| built.len() > 1 && built.contains(&version));
        if !needed {
            found.push(format!("{crate_version}: is skipped in .deny.toml, but is no duplicate now: remove it there"));
        }
        if !rest.contains("reason = \"") {
            found.push(format!("{crate_version}: is skipped in .deny.toml without a reason"));
        }
    }
    for (name, versions) in versions {
        let counted = |version: &&&str| !skipped.iter().any(|(known, _)| *known == format!("{name}@{version}"));
        if versions.iter().filter(counted).count() > 1 {
            found.push(format!("{name}: is built in versions {}; .deny.toml explains none", versions.join(" and ")));
        }
    }
    found
}

#[test]
fn each_dependency_says_why_it_is_there() {
    assert_kept(&unexplained(&file("Cargo.toml")));
}

#[test]
fn licences_sources_and_duplicates_are_as_in_deny_toml() {
    let (packages, deny) = (packages(), file(".deny.toml"));
    assert!(packages.iter().any(|package| package.name == "tokio"));
    assert_kept(&unlicensed(&packages, &deny));
    assert_kept(&foreign(&packages));
    assert_kept(&doubled(&packages, &deny));
}

#[test]
fn the_rule_of_reasons_sees_what_it_forbids() {
    let explained = "[dependencies]\n# Because.\na = \"1\"\nb = \"1\" # because\n# Because.\n[dev-dependencies.c]\nversion = \"1\"\n\
                     [features]\nd = []\n[dependencies]\n# Because.\ne = { version = \"1\", features = [\n    \"x\",\n] }\n";
    assert_eq!(unexplained(explained), [""; 0]);
    for (without, name) in [("# Because.\na", "a"), (" # because", "b"), ("# Because.\n[", "c"), ("# Because.\ne", "e")]
    {
        let kept = without.trim_start_matches("# Because.\n").trim_start_matches(" # because");
        let found = unexplained(&explained.replacen(without, kept, 1));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(&format!("`{name}` needs a comment")), "{found:?}");
    }
    assert_eq!(unexplained("[target.'cfg(unix)'.dependencies]\na = \"1\"").len(), 1);
    assert_eq!(unexplained("[build-dependencies]\n\na.workspace = true").len(), 1);
}

#[test]
fn licence_expressions_are_understood() {
    let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"];
    for (expression, met) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("MIT OR GPL-3.0", true),
        ("GPL-3.0/MIT", true),
        ("MIT AND GPL-3.0", false),
        ("MIT AND ISC", true),
        ("GPL-3.0 OR MIT AND ISC", true),
        ("(GPL-3.0 OR MIT) AND GPL-3.0", false),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("Apache-2.0", false),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("MIT GPL-3.0", false),
        ("(MIT", false),
        ("", false),
    ] {
        assert_eq!(licensed(expression, &allowed), met, "{expression}");
    }
}

#[test]
fn the_rules_on_packages_see_what_they_forbid() {
    let package = |name: &str, version: &str, licence: Option<&str>, source: &str| Package {
        name: name.to_owned(),
        version: version.to_owned(),
        licence: licence.map(str::to_owned),
        source: Some(source.to_owned()),
    };
    let home = "registry+https://github.com/rust-lang/crates.io-index";
    let deny = "allow = [\n    \"MIT\",\n]\nskip = [\n    { crate = \"a@1.0.0\", reason = \"x\" },\n]\n";
    let packages = [
        package("a", "1.0.0", Some("MIT"), home),
        package("a", "2.0.0", Some("GPL-3.0"), home),
        package("b", "1.0.0", None, "git+https://example.com/b"),
    ];
    assert_eq!(unlicensed(&packages, deny).len(), 2);
    assert_eq!(foreign(&packages), ["b 1.0.0: comes from elsewhere than crates.io"]);
    assert_eq!(doubled(&packages, deny), [""; 0]);
    assert_eq!(doubled(&packages, ""), ["a: is built in versions 1.0.0 and 2.0.0; .deny.toml explains none"]);
    assert_eq!(doubled(&packages[..1], deny).len(), 1, "a skip that is no longer needed");
    assert_eq!(doubled(&packages, &deny.replace("reason", "other")).len(), 1);
}
