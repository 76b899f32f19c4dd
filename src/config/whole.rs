//! Tests over whole files: what is meant by them, that no input is too strange, and that misspellings are understood.

use std::{fmt::Write as _, path::Path, time::Duration};

use http::HeaderName;
use proptest::prelude::*;

use super::{Code, Config, check, load, parse, shape, suggest};
use crate::engine::{
    assign::ForceRule,
    endpoint::{Endpoint, UpstreamHttp},
    plan::{ErrorRateLimit, Guard, LatencyLimit, OnFailure, OnNoTraffic, Pause, Step},
    sticky::StickyBy,
    table::Timeouts,
    weight::Weight,
};

fn parsed(text: &str) -> Config {
    parse(text, Path::new("/etc/serin/serin.yaml"), &|_| None).unwrap_or_else(|found| panic!("{found}"))
}

/// The smallest file with more lines for its service.
fn with(lines: &str) -> String {
    let mut text = "listen: 127.0.0.1:8080\nservices:\n  web:\n    versions: { v1: 'http://a:80', v2: 'http://b:80' }\n    stable: v1\n".to_owned();
    for line in lines.lines() {
        let _ = writeln!(text, "    {line}");
    }
    text
}

pub(super) fn sample(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(name)
}

pub(super) fn percent(percent: u32) -> Weight {
    Weight::from_ppm(percent * 10_000).unwrap()
}

#[test]
fn a_match_without_conditions_may_say_so() {
    let routes = |query: &str| {
        let matches = format!("[{{ path: {{ prefix: / }}, headers: [], query: {query} }}]");
        format!("{}routes: [{{ service: web, match: {matches} }}]\n", with(""))
    };
    assert_eq!(parsed(&routes("[]")).routes, parsed(&routes("[]").replace(", headers: [], query: []", "")).routes);
    assert!(check(&routes("{}"), Path::new("serin.yaml"), &|_| None).config.is_none());
}

#[test]
fn the_small_sample_means_what_it_says() {
    let path = sample("serin.yaml");
    let config = load(&path, &|_| None).unwrap_or_else(|found| panic!("{found}"));
    assert_eq!(config.listeners[0].listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.workers, None);
    assert_eq!(config.metrics, None);
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:9900");
    assert_eq!((config.admin.read_token, config.admin.write_token), (None, None));
    assert_eq!(config.state.dir, sample("serin-state"));
    let [service] = &config.services[..] else { panic!("one service") };
    assert_eq!(service.name.as_str(), "web");
    let addresses = service.versions.iter().map(|v| (v.name.as_str(), v.endpoints[0].to_string()));
    assert_eq!(
        addresses.collect::<Vec<_>>(),
        [("v1", "127.0.0.1:8001".to_owned()), ("v2", "127.0.0.1:8002".to_owned())]
    );
    assert_eq!(service.stable.as_str(), "v1");
    let wish = service.wish.as_ref().unwrap();
    assert_eq!((wish.version.as_str(), &*wish.revision), ("v2", ""));
    assert_eq!(service.timeouts, Timeouts::default());
    let hold = Step::Pause(Pause::For(Duration::from_mins(2)));
    let steps = [1, 5, 25, 50].map(|p| [Step::SetWeight(percent(p)), hold.clone()]).concat();
    assert_eq!(service.strategy.steps, steps);
    let error_rate = ErrorRateLimit { max: 0.02, window: Duration::from_secs(10), min_requests: 50 };
    let latency = LatencyLimit {
        quantile: 0.99,
        max: Duration::from_millis(800),
        window: Duration::from_secs(30),
        min_requests: 200,
    };
    let guard = Guard { error_rate: Some(error_rate), latency: vec![latency], ..Guard::default() };
    assert_eq!(service.strategy.guard, guard);
    assert_eq!(service.strategy.deadline, None);
}

#[test]
fn what_is_not_written_is_as_documented() {
    let strategy = parsed(&with("canary: v2")).services.remove(0).strategy;
    assert_eq!(strategy.steps, parsed(&with("steps: [1%, 5%, 25%, 50%]\nhold: 2m")).services[0].strategy.steps);
    assert_eq!(strategy.guard, Guard::default());
    assert_eq!(strategy.on_no_traffic, OnNoTraffic::Wait);
    assert_eq!(strategy.no_traffic_for, Duration::from_mins(10));
    assert_eq!(strategy, parsed(&with("strategy: { canary: {} }")).services[0].strategy);
}

#[test]
fn the_long_form_means_what_it_says() {
    let text = with(
        "canary: v2
revision: abc
assign: { force: { header: X-Canary }, sticky: { by: cookie, ttl: 1h } }
strategy:
  canary:
    maxTrafficWeight: 1000
    steps: [{ setWeight: 5 }, { setWeight: 0.1% }, { setWeight: 1000ppm }, { pause: {} }, { pause: { requests: 20 } }]
    guard: { versusStable: off, consecutiveErrors: 0, onFailure: pause, errorRate: 0% }
    onNoTraffic: abort
    noTrafficFor: 1m
    deadline: 12h",
    );
    let service = parsed(&text).services.remove(0);
    assert_eq!(service.wish.unwrap().revision, "abc");
    assert_eq!(service.force, Some(ForceRule::by_header(HeaderName::from_static("x-canary"))));
    let sticky = service.sticky.unwrap();
    assert_eq!((sticky.by, sticky.ttl), (StickyBy::Cookie("serin".to_owned()), Some(Duration::from_hours(1))));
    let weights = [5_000, 1_000, 1_000].map(|ppm| Step::SetWeight(Weight::from_ppm(ppm).unwrap()));
    let pauses = [Pause::Person, Pause::Requests(20)].map(Step::Pause);
    assert_eq!(service.strategy.steps, [&weights[..], &pauses].concat());
    let guard = service.strategy.guard;
    assert_eq!((guard.share_test, guard.consecutive_errors, guard.on_failure), (None, 0, OnFailure::Pause));
    assert_eq!(service.strategy.on_no_traffic, OnNoTraffic::Abort);
    assert_eq!(service.strategy.deadline, Some(Duration::from_hours(12)));
}

#[test]
fn blue_green_is_a_look_an_analysis_a_wait_the_switch_and_an_analysis() {
    let analysis = "{ templates: [{ templateName: rate }] }";
    let fields = format!(
        "preview: {{ header: {{ name: x-preview, exact: '1' }} }}, prePromotionAnalysis: {analysis}, autoPromotionEnabled: false, \
         autoPromotionSeconds: 30, postPromotionAnalysis: {analysis}, scaleDownDelaySeconds: 60"
    );
    let templates = "analysisTemplates:\n  rate:\n    metrics: [{ name: rate, successCondition: result.errorRate < 0.01, provider: { serin: {} } }]\n";
    for (abort, kept_for) in
        [("", Some(60)), (", abortScaleDownDelaySeconds: 600", Some(600)), (", abortScaleDownDelaySeconds: 0", None)]
    {
        let text = with(&format!("canary: v2\nstrategy: {{ blueGreen: {{ {fields}{abort} }} }}")) + templates;
        let strategy = parsed(&text).services.remove(0).strategy;
        let [Step::SetHeaderRoute { route: Some(route), .. }, Step::Analysis(_), wait, switch, Step::Analysis(_)] =
            &strategy.steps[..]
        else {
            panic!("{:?}", strategy.steps)
        };
        assert_eq!(route.matches.len(), 1);
        // The timer comes behind the analysis, and is no wait for a person.
        assert_eq!(*wait, Step::Pause(Pause::For(Duration::from_secs(30))));
        assert_eq!(*switch, Step::SetWeight(Weight::FULL));
        assert_eq!(strategy.policy.scale_down_delay, Duration::from_mins(1));
        assert_eq!(strategy.policy.abort_scale_down_delay, kept_for.map(Duration::from_secs), "{abort}");
    }
}

#[test]
fn a_guard_that_is_off_watches_nothing() {
    for word in ["off", "false"] {
        let text = with(&format!(
            "strategy: {{ canary: {{ steps: [{{ setWeight: 5 }}, {{ pause: {{}} }}], guard: {word} }} }}"
        ));
        let guard = parsed(&text).services.remove(0).strategy.guard;
        let watched = (guard.error_rate, guard.latency, guard.share_test, guard.consecutive_errors);
        assert_eq!(watched, (None, Vec::new(), None, 0), "{word}");
    }
}

#[test]
fn integers_are_parts_of_the_maximum() {
    for (max, weight, ppm) in [(100, 5, 50_000), (1_000_000, 5, 5), (3, 1, 333_333), (3, 2, 666_667), (7, 7, 1_000_000)]
    {
        let text =
            with(&format!("strategy: {{ canary: {{ maxTrafficWeight: {max}, steps: [{{ setWeight: {weight} }}] }} }}"));
        assert_eq!(parsed(&text).services[0].strategy.steps, [Step::SetWeight(Weight::from_ppm(ppm).unwrap())]);
    }
}

#[test]
fn the_state_after_a_promotion_wishes_nothing() {
    for lines in ["canary: v1", "canary: v1\nrevision: ''", "canary: ''", "revision: abc", ""] {
        assert_eq!(parsed(&with(lines)).services[0].wish, None, "{lines}");
    }
}

#[test]
fn aliases_and_merge_keys_work() {
    let config = parsed(
        "listen: &port 127.0.0.1:8080
services:
  web:
    versions:
      v1: &base { endpoints: [http://a:80], http: h2 }
      v2: { <<: *base, endpoints: [http://b:80] }
    stable: v1
    steps: &steps [1%, 100%]
",
    );
    let [v1, v2] = &config.services[0].versions[..] else { panic!("two versions") };
    assert_eq!((v1.http, v2.http), (UpstreamHttp::H2, UpstreamHttp::H2));
    assert_eq!((&v1.endpoints[0], &v2.endpoints[0]), (&Endpoint::tcp("a", 80), &Endpoint::tcp("b", 80)));
}

#[test]
fn the_environment_fills_values_in() {
    let text = "listen: ${ADDRESS}\nadmin:\n  listen: 0.0.0.0:9900\n  readToken: ${READ}\n  writeToken: x$$y\nstate: { dir: \"${DIR:-data}\" }\nservices:\n  web: { versions: { v1: \"http://${HOST:-a}:80\" }, stable: v1 }\n";
    let environment = |name: &str| match name {
        "ADDRESS" => Some("127.0.0.1:1".to_owned()),
        "READ" => Some("hunter2".to_owned()),
        _ => None,
    };
    let config =
        parse(text, Path::new("/etc/serin/serin.yaml"), &environment).unwrap_or_else(|found| panic!("{found}"));
    assert_eq!(config.listeners[0].listen.port(), 1);
    assert_eq!(config.admin.read_token.as_ref().unwrap().reveal(), "hunter2");
    assert_eq!(config.admin.write_token.as_ref().unwrap().reveal(), "x$y");
    assert_eq!(config.state.dir, Path::new("/etc/serin/data"));
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn listeners_have_limits_of_their_own() {
    let text = with("").replace("listen: 127.0.0.1:8080", "listeners:\n  - { name: a, listen: \"[::1]:0\", limits: { headerBytes: 16KiB, h2Streams: 7, idleTimeout: 1m30s } }\n  - { name: b, listen: \"127.0.0.1:0\" }");
    let config = parsed(&(text + "workers: 3\nmetrics: { listen: 127.0.0.1:0 }\n"));
    let limits = config.listeners[0].limits;
    assert_eq!(
        (limits.header_bytes, limits.h2_streams, limits.idle_timeout.as_secs(), limits.headers),
        (16_384, 7, 90, 100)
    );
    assert_eq!((config.listeners.len(), config.workers), (2, Some(3)));
}

#[test]
fn the_fast_path_is_a_switch() {
    for (line, on) in [("fastPath: on\n", true), ("fastPath: off\n", false), ("fastPath: 'on'\n", true), ("", true)] {
        assert_eq!(parsed(&(with("") + line)).fast_path, on, "{line:?}");
    }
}

#[test]
fn large_files_and_strange_bytes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("serin.yaml");
    for (content, code) in [(vec![b'#'; super::FILE_BYTES_MAX + 1], Code::TooLarge), (vec![0xff, 0xfe], Code::Syntax)] {
        std::fs::write(&path, content).unwrap();
        assert_eq!(load(&path, &|_| None).unwrap_err().items()[0].code, code);
    }
    assert_eq!(load(folder.path(), &|_| None).unwrap_err().items()[0].code, Code::Unreadable);
    assert_eq!(load(&folder.path().join("none"), &|_| None).unwrap_err().items()[0].code, Code::Unreadable);
}

#[test]
fn the_file_is_found_in_the_documented_order() {
    let folder = tempfile::tempdir().unwrap();
    let locate = |explicit: Option<&str>, variable: Option<&str>| {
        let environment = |name: &str| variable.filter(|_| name == "SERIN_CONFIG").map(str::to_owned);
        super::locate(explicit.map(Path::new), folder.path(), &environment)
    };
    assert!(locate(None, None).is_err());
    std::fs::create_dir(folder.path().join("config")).unwrap();
    std::fs::write(folder.path().join("config/serin.yaml"), "").unwrap();
    assert_eq!(locate(None, None), Ok(folder.path().join("config/serin.yaml")));
    std::fs::write(folder.path().join("serin.yaml"), "").unwrap();
    assert_eq!(locate(None, None), Ok(folder.path().join("serin.yaml")));
    assert_eq!(locate(None, Some("a")), Ok("a".into()));
    assert_eq!(locate(None, Some("")), Ok(folder.path().join("serin.yaml")));
    assert_eq!(locate(Some("b"), Some("a")), Ok("b".into()));
}

/// Every letter left out, doubled, swapped with its neighbour or replaced, in every field of every mapping.
#[test]
fn nine_of_ten_misspellings_are_understood() {
    let (mut right, mut all) = (0_u32, 0_u32);
    let mut missed = Vec::new();
    for shape in shape::ALL {
        let fields = || shape.fields.iter().chain(shape.later).copied();
        for field in fields() {
            for word in misspellings(field).into_iter().filter(|word| !fields().any(|field| field == word)) {
                all += 1;
                if suggest::closest(&word, fields()) == Some(field) {
                    right += 1;
                } else {
                    missed.push(format!("{word} for {field}"));
                }
            }
        }
    }
    assert!(all > 3_000 && right * 10 >= all * 9, "{right} of {all}: {missed:?}");
}

fn misspellings(field: &str) -> Vec<String> {
    let letters: Vec<char> = field.chars().collect();
    let mut words = Vec::new();
    for at in 0..letters.len() {
        let mut word = letters.clone();
        word.remove(at);
        words.push(word);
        let mut word = letters.clone();
        word.insert(at, letters[at]);
        words.push(word);
        let mut word = letters.clone();
        word[at] = 'x';
        words.push(word);
        if at > 0 {
            let mut word = letters.clone();
            word.swap(at - 1, at);
            words.push(word);
        }
    }
    words.into_iter().map(|word| word.into_iter().collect()).filter(|word: &String| !word.is_empty()).collect()
}

#[test]
fn snake_case_and_kebab_case_are_understood() {
    for shape in shape::ALL {
        for field in shape.fields.iter().chain(shape.later) {
            for separator in ['_', '-'] {
                let mut word = String::new();
                for letter in field.chars() {
                    if letter.is_ascii_uppercase() {
                        word.push(separator);
                    }
                    word.push(letter.to_ascii_lowercase());
                }
                assert_eq!(suggest::closest(&word, shape.fields.iter().chain(shape.later).copied()), Some(*field));
            }
        }
    }
}

/// Whatever the text, there is a config or an error with a place in the text, and it can be shown.
pub(super) fn is_answered(text: &str) {
    let checked = check(text, Path::new("serin.yaml"), &|name| (name.len() % 2 == 0).then(|| name.to_owned()));
    assert_eq!(checked.config.is_none(), checked.diagnostics.errors() > 0);
    for item in checked.diagnostics.items() {
        let span = item.span.clone().expect("a place");
        assert!(span.start <= span.end && span.end <= text.len(), "{span:?}");
    }
    let _ = (checked.diagnostics.to_string(), checked.diagnostics.to_json());
}

/// Cuts a piece out of a file and puts something strange there.
pub(super) fn mutated(source: &'static str) -> impl Strategy<Value = String> {
    let strange = prop_oneof![
        Just(String::new()),
        "\\PC{0,6}",
        "[-:{}\\[\\],&*!|>'\"%@`#?~$ \t\n0-9a-z]{0,8}",
        Just("\u{feff}".to_owned()),
        Just("<<: *a\n".to_owned()),
        Just("${A:-".to_owned()),
        Just("\r\n".to_owned()),
    ];
    let place = (0..=source.len(), 0_usize..20, strange);
    proptest::collection::vec(place, 1..4).prop_map(move |edits| {
        let mut text = source.to_owned();
        for (start, len, strange) in edits {
            let start = text.floor_char_boundary(start);
            let end = text.floor_char_boundary((start + len).min(text.len())).max(start);
            text.replace_range(start..end, &strange);
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_answered(text in "[\\PC\n\t]{0,200}") {
        is_answered(&text);
    }

    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        is_answered(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn a_damaged_small_file_is_answered(text in mutated(include_str!("../../config/serin.yaml"))) {
        is_answered(&text);
    }
}
