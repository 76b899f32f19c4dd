//! The dashboard in a real browser: live, by button, by keyboard, on a phone, in both colour schemes, and with scripts off.

mod driver;

use std::time::Instant;

use serde_json::json;
use serin::demo::{
    load::{Load, LoadSpec},
    toy::{Toy, ToySpec},
};

use crate::{
    harness::{Serin, eventually},
    stage::{self, Setting, Stage},
};
use driver::{Browser, ENTER, TAB};

/// Two good versions, traffic, and a rollout that stays at half until somebody stops it.
struct Scene {
    serin: Serin,
    _toys: [Toy; 2],
    _load: Load,
}

fn scene() -> Scene {
    let toy = |name: &str| Toy::start(ToySpec::new(name, "127.0.0.1:0".parse().unwrap())).unwrap();
    let toys = [toy("v1"), toy("v2")];
    let serin = Serin::start(&format!(
        "services:\n  web:\n    versions: {{ v1: \"http://{}\", v2: \"http://{}\" }}\n    stable: v1\n    steps: [50%, 60%]\n    hold: 1h\n\
         \x20   abortWhen: {{ errorRate: 2%, p99: 800ms }}\n",
        toys[0].address(),
        toys[1].address()
    ));
    let load = Load::start(LoadSpec::new(format!("http://127.0.0.1:{}/", serin.port).parse().unwrap(), 100.0)).unwrap();
    Scene { serin, _toys: toys, _load: load }
}

impl Scene {
    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.serin.admin)
    }

    fn token(&self) -> String {
        let folder = self.serin.dir.path().join("serin-state");
        std::fs::read_to_string(folder.join("write-token")).unwrap().trim().to_owned()
    }

    fn start_rollout(&self) {
        let started = self.serin.cli(&["start", "web", "--to", "v2", "--reason", "the new one"]);
        assert!(started.status.success(), "{started:?}");
    }
}

/// Nothing came from elsewhere, and the browser had nothing to complain of.
fn was_clean(browser: &Browser, own: &str) {
    // The page of a new tab is the browser's own.
    let is_foreign = |url: &String| !["chrome:", "data:", own].iter().any(|known| url.starts_with(known));
    let foreign: Vec<_> = browser.requests().into_iter().filter(is_foreign).collect();
    assert_eq!(foreign, [""; 0], "requests to elsewhere");
    assert_eq!(browser.console(), [""; 0], "the console");
}

#[test]
fn the_page_shows_a_rollout_live_and_a_click_stops_it_with_proof() {
    let Some(browser) = Browser::start(true) else { return };
    let scene = scene();
    browser.open(&scene.url());
    browser.wait_for("#state", "Healthy");
    browser.run("window.notReloaded = true");
    scene.start_rollout();
    browser.wait_for("#state", "Progressing");
    browser.wait_for("#answers", "cli, \"the new one\"");
    browser.wait_for("#state .split", "50%");
    browser.wait_for("#curves", "v2");
    eventually("a curve of the canary", || (browser.all("path.line.canary[d^=M]").len() == 2).then_some(()));
    assert_eq!(browser.run("return window.notReloaded"), true, "the page kept itself up to date");

    browser.click("#do-abort");
    browser.find("#token");
    browser.keys(&format!("{}{TAB}ann{ENTER}", scene.token()));
    browser.wait_for(".effect", "50% \u{2192} 0%");
    let clicked = Instant::now();
    browser.click("#confirm");
    let proof = browser.wait_for("#proof", "Measured share 0.0%");
    eprintln!("stopped and proven {:?} after the click: {proof}", clicked.elapsed());
    assert!(proof.contains("v2: 50% \u{2192} 0%"), "{proof}");
    assert!(browser.text("#history").contains("abort by ann"));
    assert_eq!(scene.serin.status()["phase"], "Degraded");
    was_clean(&browser, &scene.url());
}

#[test]
fn a_keyboard_is_enough_and_scripts_are_not_needed() {
    for scripts in [true, false] {
        let Some(browser) = Browser::start(scripts) else { return };
        let scene = scene();
        scene.start_rollout();
        browser.open(&scene.url());
        browser.wait_for("#state", "Progressing");
        assert!(!browser.text("body").contains("not live"));
        // From the start of the page: the way to the content, home, log in, and then the one button.
        browser.keys(&[TAB; 4].concat());
        assert_eq!(browser.focused(), "do-abort");
        browser.keys(ENTER);
        browser.wait_for_focus("token");
        browser.keys(&format!("{}{ENTER}", scene.token()));
        browser.wait_for(".effect", "v2 is withdrawn at once");
        // One more key.
        browser.wait_for_focus("confirm");
        browser.keys(ENTER);
        let proof = browser.wait_for("#proof", "Measured share 0.0%");
        assert!(proof.contains("v1 serves everything"), "{proof}");
        assert!(browser.text("#history").contains("abort by dashboard"));
        was_clean(&browser, &scene.url());
    }
}

/// The same scene with something that is analysed beside the steps.
fn analysed() -> Scene {
    let toy = |name: &str| Toy::start(ToySpec::new(name, "127.0.0.1:0".parse().unwrap())).unwrap();
    let toys = [toy("v1"), toy("v2")];
    let serin = Serin::start(&format!(
        "services:\n  web:\n    versions: {{ v1: \"http://{}\", v2: \"http://{}\" }}\n    stable: v1\n    strategy:\n      canary:\n\
         \x20       steps: [{{ setWeight: 5 }}, {{ pause: {{}} }}, {{ setWeight: 50 }}, {{ pause: {{}} }}]\n        analysis: {{ templates: [{{ templateName: calm }}] }}\n\
         analysisTemplates:\n  calm:\n    metrics:\n      - {{ name: success, interval: 1h, successCondition: \"result.requests >= 0\", \
         provider: {{ serin: {{ version: stable, window: 1m }} }} }}\n",
        toys[0].address(),
        toys[1].address()
    ));
    let load = Load::start(LoadSpec::new(format!("http://127.0.0.1:{}/", serin.port).parse().unwrap(), 50.0)).unwrap();
    Scene { serin, _toys: toys, _load: load }
}

#[test]
fn each_button_does_what_it_says_with_scripts_and_without() {
    for scripts in [true, false] {
        let Some(browser) = Browser::start(scripts) else { return };
        let scene = analysed();
        let say = |button: &str, focus: &str, keys: &str| {
            browser.click(&format!("#do-{button}"));
            browser.wait_for_focus(focus);
            assert_eq!(browser.run(FAINT_TEXTS), json!([]), "too faint, {button}");
            let fields = browser.all("form.ask input:not([type=hidden]), form.ask select, form.ask button");
            assert!(fields.iter().all(|field| browser.name(field).is_some_and(|name| !name.is_empty())), "{button}");
            browser.keys(keys);
        };
        browser.open(&scene.url());
        browser.wait_for("#state", "Healthy");
        browser.click("#do-start");
        browser.wait_for_focus("token");
        browser.keys(&format!("{}{TAB}ann{ENTER}", scene.token()));
        browser.wait_for_focus("to");
        browser.keys(&format!("{TAB}a trial{ENTER}"));
        browser.wait_for("#history", "start by ann, \"a trial\"");
        browser.wait_for("#state .split", "5%");

        say("set-weight", "weight", &format!("20%{TAB}slowly{ENTER}"));
        browser.wait_for("#history", "set-weight by ann, \"slowly\"");
        browser.wait_for("#state .split", "20%");
        browser.wait_for("#state", "Paused");
        say("resume", "confirm", ENTER);
        browser.wait_for("#state .split", "50%");

        say("terminate", "confirm", ENTER);
        browser.wait_for("#history", "terminate by ann");
        say("drain", "confirm", ENTER);
        browser.wait_for("#state", "nobody new comes to the canary");
        say("promote-full", "confirm", ENTER);
        browser.wait_for("#state", "Healthy");
        assert_eq!(scene.serin.status()["stable"], "v2");
        say("undo", "confirm", ENTER);
        browser.wait_for("#history", "undo by ann");
        assert_eq!(scene.serin.status()["stable"], "v1");
        was_clean(&browser, &scene.url());
    }
}

/// Each text with its contrast against what is behind it, where that is too little.
const FAINT_TEXTS: &str = r"
const numbers = (color) => (color.match(/[\d.]+/g) || []).map(Number);
const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const behind = (node) => {
  for (let at = node; at; at = at.parentElement) {
    const color = numbers(getComputedStyle(at).backgroundColor);
    if (color.length === 3 || color[3] === 1) return color;
  }
  return [255, 255, 255];
};
const faint = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walk.nextNode(); node; node = walk.nextNode()) {
  const of = node.parentElement;
  if (!node.data.trim() || ['SCRIPT', 'STYLE', 'NOSCRIPT'].includes(of.tagName) || of.closest('.skip, .spoken')) continue;
  const style = getComputedStyle(of);
  const front = numbers(of.closest('svg') ? style.fill : style.color);
  const [a, b] = [light(front), light(behind(of))].sort((x, y) => y - x);
  const contrast = (a + 0.05) / (b + 0.05);
  if (contrast < 4.5) faint.push(node.data.trim() + ' ' + contrast.toFixed(2));
}
return faint;";

#[test]
fn it_can_be_read_by_everybody_and_on_a_phone() {
    let Some(browser) = Browser::start(true) else { return };
    let stages = [
        (stage::progressing(), stage::history(), None),
        (stage::quiet(), stage::history(), None),
        (stage::paused(), stage::paused_history(), None),
        (stage::degraded(), stage::aborted_history(), Some("error: unknown field")),
        (stage::healthy(), stage::history(), None),
    ]
    .map(|(service, history, config_error)| {
        Stage::new(vec![service], history, Setting { config_error, ..Setting::default() })
    });
    for (width, scheme) in [(1280, "light"), (1280, "dark"), (390, "dark"), (360, "light")] {
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        browser.chromium("Emulation.setEmulatedMedia", &media);
        let metrics = json!({ "width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 600 });
        browser.chromium("Emulation.setDeviceMetricsOverride", &metrics);
        for stage in &stages {
            browser.open(&format!("http://{}/", stage.address));
            let state = browser.text("#state .phase");
            assert_eq!(browser.run(FAINT_TEXTS), json!([]), "too faint, {state}, {width}, {scheme}");
            // Not against the window's width: a phone's grows with what does not fit.
            let wide = browser.run("return document.documentElement.scrollWidth");
            assert!(wide.as_i64().unwrap() <= width, "{state} is {wide} wide at {width}");
        }
    }
    names_are_there(&browser, &stages[0]);
}

fn names_are_there(browser: &Browser, stage: &Stage) {
    browser.open(&format!("http://{}/", stage.address));
    // The page renews its pieces each second, and what was found before is gone then.
    let names = eventually("all names at once", || {
        let elements = browser.all("a, button, input:not([type=hidden]), svg[role=img]");
        elements.iter().map(|element| browser.name(element)).collect::<Option<Vec<_>>>()
    });
    assert!(names.len() >= 8 && names.iter().all(|name| !name.is_empty()), "{names:?}");
    assert!(names.iter().any(|name| name == "Stop v2\u{2026}"), "{names:?}");
    let headings = browser.run("return [...document.querySelectorAll('h1, h2')].map((h) => h.textContent)");
    assert_eq!(headings[0], "web");
    let language = browser.run("return [document.documentElement.lang, document.title]");
    assert_eq!(language, json!(["en", "web: Progressing \u{b7} Serin"]));
}

/// Twelve minutes of two versions, of which the canary came to 5 %: the same each time.
fn fill(stage: &Stage) {
    use serin::engine::{
        names::{Generation, ServiceName},
        samples::{Counts, FailedBuckets, Samples, SlotSamples},
        stats::latency::{LatencyCounts, bucket_of},
        time::Timestamp,
    };
    let mut trail = stage.shared.trail.lock().unwrap();
    let mut noise = 7_u64;
    let mut next = |below: u64| {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (noise >> 33) % below
    };
    for ago in (0..720_u64).rev() {
        let canary = match ago {
            0..48 => 8,
            48..691 => 2,
            _ => 0,
        };
        for (name, requests, slower) in [("v1", 150, 0), ("v2", canary, 6)] {
            let errors = u64::from(next(1_000) < requests);
            let mut latency: Vec<_> = (0..requests)
                .map(|_| {
                    let (usual, rare) = (22 + slower + next(40), if next(80) == 0 { 60 + next(90) } else { 0 });
                    (u16::try_from(bucket_of(std::time::Duration::from_millis(usual + rare))).unwrap(), 1)
                })
                .collect();
            latency.sort_unstable();
            let slot = SlotSamples {
                service: ServiceName::new("web").unwrap(),
                version: stage::version(name),
                weight_generation: Generation(1),
                sampled: Counts { requests, errors: errors.min(requests) },
                sticky: Counts::default(),
                sticky_failed: FailedBuckets::default(),
                latency: LatencyCounts(latency),
                longest_error_run: 0,
                slowest_failure: std::time::Duration::ZERO,
            };
            let at = Timestamp::from_millis(stage::NOW - ago * 1_000);
            trail.add(at, &Samples { slots: vec![slot], ..Samples::default() });
        }
    }
}

/// The README's is taken by `SERIN_PICTURE=src/guide/dashboard.png cargo test --test it a_picture`.
#[test]
fn a_picture_can_be_taken_of_it() {
    let Some(browser) = Browser::start(true) else { return };
    let stage = Stage::progressing();
    fill(&stage);
    browser.chromium(
        "Emulation.setDeviceMetricsOverride",
        &json!({ "width": 1200, "height": 720, "deviceScaleFactor": 1, "mobile": false }),
    );
    browser.chromium("Emulation.setScrollbarsHidden", &json!({ "hidden": true }));
    browser.open(&format!("http://{}/", stage.address));
    browser.wait_for("#curves", "v2");
    let picture = browser.picture();
    assert!(picture.starts_with(b"\x89PNG") && picture.len() <= 150 * 1024, "{}", picture.len());
    if let Some(file) = std::env::var_os("SERIN_PICTURE") {
        std::fs::write(file, picture).unwrap();
    }
}
