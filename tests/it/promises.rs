//! The promises that people choose Serin for, on the real binary with real sockets.

use std::{
    net::SocketAddr,
    num::NonZeroU32,
    thread,
    time::{Duration, Instant},
};

use serin::demo::{
    load::{Load, LoadSpec},
    toy::{Failing, Toy, ToySpec},
};

use crate::harness::{Client, Foreign, Serin, eventually, pace, serin};

fn toy(name: &str, failing: Failing) -> Toy {
    let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
    Toy::start(ToySpec { failing, ..ToySpec::new(name, listen) }).unwrap()
}

fn every_second() -> Failing {
    Failing::Every(NonZeroU32::new(2).unwrap())
}

/// The twelve-line file without its first two lines, which the harness writes.
fn twelve_lines(v1: &str, v2: &str, canary: &str, steps: &str, hold: &str) -> String {
    format!(
        "services:\n  web:\n    versions:\n      v1: http://{v1}\n      v2: http://{v2}\n    stable: v1\n\
         \x20   canary: {canary}\n    steps: {steps}\n    hold: {hold}\n\
         \x20   abortWhen: {{ errorRate: 2%, p99: 800ms }}\n"
    )
}

fn load(port: u16, rate: f64) -> Load {
    Load::start(LoadSpec::new(format!("http://127.0.0.1:{port}/").parse().unwrap(), rate)).unwrap()
}

/// A hundred more answers.
fn served_more(load: &Load) {
    let served = load.stats().summary().answered;
    eventually("more traffic", || (load.stats().summary().answered > served + 100).then_some(()));
}

/// Stable is a server of another kind; the canary fails half at 5 % and 100 requests a second.
fn reverted_after() -> Duration {
    let (foreign, bad) = (Foreign::start(), toy("v2", every_second()));
    let v1 = format!("127.0.0.1:{}", foreign.port);
    let serin = Serin::start(&twelve_lines(&v1, &bad.address().to_string(), "v2", "[5%, 25%]", "2m"));
    let load = load(serin.port, 100.0);
    let first_failure = eventually("a first failure", || (bad.failures() > 0).then(Instant::now));
    eventually("the canary's withdrawal", || (serin.status()["phase"] == "Degraded").then_some(()));
    let took = first_failure.elapsed();
    // What was sent before the abort may still lie in the canary's sockets.
    served_more(&load);
    let reached = bad.requests();
    served_more(&load);
    assert_eq!(bad.requests(), reached, "no request reaches the canary after its abort is published");
    let why = String::from_utf8(serin.cli(&["why"]).stdout).unwrap();
    assert!(why.contains("v2"), "{why}");
    took
}

#[test]
fn a_canary_that_fails_half_is_gone_within_six_seconds_in_nine_of_ten_runs() {
    let five_at_once = || {
        let runs: Vec<_> = (0..5).map(|_| thread::spawn(reverted_after)).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect::<Vec<Duration>>()
    };
    let times = [five_at_once(), five_at_once()].concat();
    let in_time = times.iter().filter(|took| **took <= Duration::from_secs(6)).count();
    assert!(in_time >= 9, "{in_time} of 10 in time: {times:?}");
}

#[test]
fn a_healthy_canary_of_another_kind_is_promoted_through_all_steps() {
    let (good, foreign) = (toy("v1", Failing::Never), Foreign::start());
    let v2 = format!("127.0.0.1:{}", foreign.port);
    let serin = Serin::start(&twelve_lines(&good.address().to_string(), &v2, "v2", "[10%, 25%, 50%]", "1s"));
    let load = load(serin.port, 300.0);
    serin.event("promoted");
    let weights: Vec<_> = serin.history().iter().filter(|event| event["kind"] == "weightChanged").cloned().collect();
    let weights: Vec<_> = weights.iter().map(|event| event["weightPpm"].as_u64().unwrap()).collect();
    assert_eq!(weights, [100_000, 250_000, 500_000]);
    served_more(&load);
    let stable_only = good.requests();
    served_more(&load);
    assert_eq!(good.requests(), stable_only, "the new version takes all");
    let seen = load.stop();
    let failed = seen.broken + seen.timed_out;
    assert_eq!((failed, seen.statuses.keys().copied().collect::<Vec<_>>()), (0, vec![200]), "{seen:?}");
}

/// Clients with cookies: 10 % → 20 % → 5 % → abort moves only those it must.
#[test]
fn the_sticky_cookie_moves_only_the_clients_it_must() {
    let (v1, v2) = (toy("v1", Failing::Never), toy("v2", Failing::Never));
    let services = format!(
        "services:\n  web:\n    versions: {{ v1: \"http://{}\", v2: \"http://{}\" }}\n    stable: v1\n    canary: v2\n\
         \x20   assign: {{ sticky: {{ by: cookie, name: serin }} }}\n    steps: [10%]\n    hold: 1h\n",
        v1.address(),
        v2.address()
    );
    let serin = Serin::start(&services);
    let mut connection = serin.client();
    let mut visit = |cookie: Option<&str>| {
        let headers: Vec<_> = cookie.map(|cookie| ("Cookie", cookie)).into_iter().collect();
        let answer = connection.send("/", &headers).unwrap();
        let handed = answer.header("set-cookie").map(|line| line.split(';').next().unwrap().to_owned());
        (answer.version() == "v2", handed)
    };
    let cookies: Vec<String> = (0..2_000).map(|_| visit(None).1.expect("a cookie")).collect();
    let mut on_canary = |cookies: &[String]| -> Vec<bool> {
        cookies
            .iter()
            .map(|cookie| {
                let (canary, handed) = visit(Some(cookie));
                assert_eq!(handed, None, "a good cookie is kept");
                canary
            })
            .collect()
    };
    let set = |weight: &str| {
        let output = serin.cli(&["set-weight", "web", weight]);
        assert!(output.status.success(), "{output:?}");
    };
    let count = |of: &[bool]| of.iter().filter(|canary| **canary).count();
    let at_10 = on_canary(&cookies);
    assert_eq!(on_canary(&cookies), at_10, "each client keeps its version while the weight holds");
    // 2,000 clients at 10 %: four standard deviations are 54.
    assert!((146..=254).contains(&count(&at_10)), "{}", count(&at_10));
    set("20%");
    let at_20 = on_canary(&cookies);
    assert!(at_10.iter().zip(&at_20).all(|(before, after)| !before || *after), "raising moves nobody back");
    assert!(count(&at_20) > count(&at_10));
    set("5%");
    let at_5 = on_canary(&cookies);
    assert!(at_5.iter().zip(&at_10).all(|(after, before)| !after || *before), "those left were there at 10%");
    assert!(serin.cli(&["abort", "web", "--reason", "test"]).status.success());
    assert_eq!(count(&on_canary(&cookies)), 0, "an old cookie after the abort means stable");
}

/// The history, with everything that a lost or doubled decision would break.
fn check_history(events: &[serde_json::Value]) {
    let sequences: Vec<u64> = events.iter().map(|event| event["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, (1..=sequences.len() as u64).collect::<Vec<_>>(), "no gap, no double");
}

#[test]
fn fifty_kills_lose_no_decision() {
    let (v1, v2) = (toy("v1", Failing::Never), toy("v2", Failing::Never));
    let services = format!(
        "services:\n  web:\n    versions: {{ v1: \"http://{}\", v2: \"http://{}\" }}\n    stable: v1\n    canary: v2\n\
         \x20   strategy:\n      canary:\n        steps: [{}]\n        guard: {{ versusStable: false, consecutiveErrors: 0 }}\n",
        v1.address(),
        v2.address(),
        (1..=50)
            .map(|step| format!("{{ setWeight: {step}00ppm }}, {{ pause: {{ duration: 2s }} }}"))
            .collect::<Vec<_>>()
            .join(", ")
    );
    let mut serin = Serin::start(&services);
    let load = load(serin.port, 200.0);
    let mut dice = 0x5EED_u64;
    for kill in 0..50 {
        let before = serin.status();
        let until = Instant::now() + Duration::from_millis(20 + roll(&mut dice) % 300);
        while Instant::now() < until {
            pace();
        }
        let known = serin.history();
        serin.kill9();
        serin.spawn();
        serin.ready();
        // In this order: a step may be taken between the two looks.
        let history = serin.history();
        let after = serin.status();
        check_history(&history);
        assert_eq!(history[..known.len()], known[..], "what was told stays told");
        let weight = |status: &serde_json::Value| canary_ppm(status);
        assert!(weight(&after) >= weight(&before), "kill {kill}: {before} then {after}");
        let last = history.iter().rfind(|event| event["kind"] == "weightChanged").unwrap();
        assert!(weight(&after) >= last["weightPpm"].as_u64().unwrap_or(0), "kill {kill}: behind its last decision");
    }
    assert!(serin.cli(&["abort", "web"]).status.success());
    serin.kill9();
    let reached = v2.requests();
    serin.spawn();
    serin.ready();
    assert_eq!(serin.status()["phase"], "Degraded", "an abort stays an abort");
    served_more(&load);
    assert_eq!(v2.requests(), reached, "the first request already follows the abort");
    check_history(&serin.history());
}

fn roll(dice: &mut u64) -> u64 {
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    *dice
}

fn canary_ppm(status: &serde_json::Value) -> u64 {
    let versions = status["versions"].as_array().unwrap();
    versions
        .iter()
        .find(|version| version["role"] == "canary")
        .map_or(0, |version| version["weightPpm"].as_u64().unwrap())
}

#[test]
fn saving_the_file_ten_times_a_second_under_load_fails_no_request() {
    let (v1, v2) = (toy("v1", Failing::Never), toy("v2", Failing::Never));
    let file = |max: u32| {
        let (v1, v2) = (v1.address().to_string(), v2.address().to_string());
        twelve_lines(&v1, &v2, "v2", "[5%, 25%]", "1h").replace("800ms", &format!("{}ms", 800 + max))
    };
    let serin = Serin::start(&file(0));
    let load = load(serin.port, 300.0);
    let begin = Instant::now();
    for save in 1..=300_u32 {
        serin.write(&file(save % 7));
        while begin.elapsed() < Duration::from_millis(100) * save {
            pace();
        }
    }
    let seen = load.stop();
    assert_eq!((seen.broken, seen.timed_out), (0, 0), "{seen:?}");
    assert_eq!(seen.statuses.keys().copied().collect::<Vec<_>>(), [200], "{seen:?}");
    assert!(seen.answered > 5_000, "{seen:?}");
    let config = serin.json("/api/v1/config");
    assert!(config["loads"].as_u64().unwrap() > 100, "the saves were seen: {config}");
    assert_eq!(canary_ppm(&serin.status()), 50_000, "and moved nothing");
}

#[test]
fn a_changed_file_is_in_force_within_a_second_and_a_bad_one_changes_nothing() {
    let (v1, v2) = (toy("v1", Failing::Never), toy("v2", Failing::Never));
    let file = |canary: &str| twelve_lines(&v1.address().to_string(), &v2.address().to_string(), canary, "[5%]", "1h");
    let serin = Serin::start(&file("v1"));
    assert_eq!(serin.status()["phase"], "Healthy", "naming the stable version is no wish");
    serin.write(&file("v2"));
    serin.event("started");
    serin.write(&file("v9"));
    eventually("the refusal to show", || serin.json("/api/v1/config")["error"].as_str().map(str::to_owned));
    assert_eq!(canary_ppm(&serin.status()), 50_000);
    let output = serin.cli(&["reload"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let status = String::from_utf8(serin.cli(&["status"]).stdout).unwrap();
    assert!(status.contains("v9"), "status shows why the file was refused: {status}");
    let metrics = String::from_utf8(Client::get(serin.admin, "/metrics").unwrap().body).unwrap();
    assert!(metrics.contains("serin_config_last_reload_successful 0"), "{metrics}");
    assert!(serin.log().contains("v9"), "the log says so too");
    serin.write(&file("v2"));
    eventually("the good file to be in force", || serin.json("/api/v1/config")["error"].is_null().then_some(()));
    assert_eq!(serin.cli(&["reload"]).status.code(), Some(0));
}

#[test]
fn idle_it_is_small_and_it_serves_soon() {
    let v1 = toy("v1", Failing::Never);
    let mut serin = Serin::prepare(&format!(
        "services:\n  web:\n    versions: {{ v1: \"http://{}\" }}\n    stable: v1\n",
        v1.address()
    ));
    serin.spawn();
    serin.ready();
    assert_eq!(serin.client().send("/", &[]).unwrap().status, 200);
    let status = std::fs::read_to_string(format!("/proc/{}/status", serin.pid())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap().trim();
    let kib: u64 = resident.split(' ').next().unwrap().parse().unwrap();
    eprintln!("{kib} KiB resident");
    // The promise is about the release build, which `.ci/run` names; a debug build's code alone is larger.
    let limit = if std::env::var_os("SERIN_BINARY").is_some() { 20 } else { 64 };
    assert!(kib < limit * 1024, "{kib} KiB resident");
}

#[test]
fn each_trouble_has_one_clear_message() {
    let v1 = toy("v1", Failing::Never);
    let services = format!("services:\n  web:\n    versions: {{ v1: \"http://{}\" }}\n    stable: v1\n", v1.address());
    let running = Serin::start(&services);

    let bad = Serin::prepare("services:\n  web:\n    versoins: {}\n    stable: v1\n");
    let (code, text) = refused(&bad);
    assert_eq!(code, Some(3));
    assert!(text.contains("versoins") && text.contains("versions") && text.contains("serin.yaml:5:"), "{text}");

    let busy = Serin::prepare(&services);
    std::fs::write(
        busy.file(),
        format!("listen: 127.0.0.1:{}\nadmin: {{ listen: 127.0.0.1:{} }}\n{services}", running.port, busy.admin),
    )
    .unwrap();
    let (code, text) = refused(&busy);
    assert_eq!(code, Some(1));
    assert!(text.contains(&running.port.to_string()) && text.contains("choose another port"), "{text}");

    let locked = Serin::prepare(&format!(
        "state: {{ dir: \"{}\" }}\n{services}",
        running.dir.path().join("serin-state").display()
    ));
    let mut locked = locked;
    locked.spawn();
    eventually("a word of the process that holds the folder", || {
        locked.log().contains(&format!("serving beside process {}", running.pid())).then_some(())
    });

    let rights = Serin::prepare(&format!("state: {{ dir: /proc/serin-state }}\n{services}"));
    let (code, text) = refused(&rights);
    assert_eq!(code, Some(1));
    assert!(text.contains("/proc/serin-state"), "{text}");
}

/// An unfinished rollout that nobody watched for longer than `maxAge` is not gone on with.
#[test]
fn a_stale_rollout_waits_for_a_person_with_stable_only() {
    let (v1, v2) = (toy("v1", Failing::Never), toy("v2", Failing::Never));
    let services = twelve_lines(&v1.address().to_string(), &v2.address().to_string(), "v2", "[50%]", "1h");
    let mut serin = Serin::start(&format!("state: {{ maxAge: 1s }}\n{services}"));
    serin.event("weightChanged");
    serin.kill9();
    let killed = Instant::now();
    while killed.elapsed() < Duration::from_millis(2_500) {
        pace();
    }
    serin.spawn();
    serin.ready();
    assert_eq!(serin.status()["phase"], "Paused");
    assert_eq!(canary_ppm(&serin.status()), 0);
    let why = String::from_utf8(serin.cli(&["why"]).stdout).unwrap();
    assert!(why.contains("state.maxAge") && why.contains("serin start"), "{why}");
    assert_eq!(serin.cli(&["resume"]).status.code(), Some(6), "resume would go on with what nobody watched");
    assert!(serin.cli(&["start", "--to", "v2"]).status.success());
    assert_eq!(canary_ppm(&serin.status()), 500_000);
}

fn refused(serin_: &Serin) -> (Option<i32>, String) {
    let output = serin(&["run", "--config"]).arg(serin_.file()).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_dead_upstream_is_named_in_the_answer_the_log_and_the_metrics() {
    let dead = crate::harness::free_port();
    let serin = Serin::start(&format!(
        "services:\n  web:\n    versions: {{ v1: \"http://127.0.0.1:{dead}\" }}\n    stable: v1\n"
    ));
    assert_eq!(serin.client().send("/", &[]).unwrap().status, 502);
    let metrics = String::from_utf8(Client::get(serin.admin, "/metrics").unwrap().body).unwrap();
    let charged =
        metrics.lines().find(|line| line.starts_with("serin_attempts_total") && line.contains("connect_failed"));
    assert!(charged.is_some_and(|line| line.ends_with(" 1")), "{charged:?}");
    assert!(serin.log().contains(&format!("127.0.0.1:{dead}")), "{}", serin.log());
}

/// Requests at each weight, counted by the upstream, within four standard deviations.
fn shares_hold(send: impl Fn(u16, usize)) {
    let (v1, v2) = (toy("v1", Failing::Never), toy("v2", Failing::Never));
    let serin = Serin::start(&twelve_lines(&v1.address().to_string(), &v2.address().to_string(), "v2", "[1%]", "1h"));
    for (text, share) in [("1%", 0.01_f64), ("5%", 0.05), ("0.01%", 0.0001)] {
        assert!(serin.cli(&["set-weight", "web", text]).status.success());
        let (canary, all) = (v2.requests(), v1.requests() + v2.requests());
        let requests = requests();
        send(serin.port, requests);
        assert_eq!(v1.requests() + v2.requests() - all, requests as u64, "each request reaches one version");
        let seen = f64::from(u32::try_from(v2.requests() - canary).unwrap());
        let mean = f64::from(u32::try_from(requests).unwrap()) * share;
        // Where about one is expected, the binomial is far from normal: five are as unlikely as four deviations.
        let bound = (4.0 * (mean * (1.0 - share)).sqrt()).max(8.0);
        assert!((seen - mean).abs() <= bound, "{text}: {seen} of {requests}");
    }
}

/// Ten thousand in a debug build, where a request costs ten times as much; `.ci/run` asks the release build for a
/// hundred thousand.
fn requests() -> usize {
    std::env::var("SERIN_REQUESTS").map_or(10_000, |number| number.parse().unwrap())
}

#[test]
fn shares_hold_over_keep_alive_connections() {
    shares_hold(|port, requests| {
        let clients = (0..8).map(|_| {
            thread::spawn(move || {
                let mut client = Client::connect(port).unwrap();
                for _ in 0..requests / 8 {
                    assert_eq!(client.send("/", &[]).unwrap().status, 200);
                }
            })
        });
        clients.collect::<Vec<_>>().into_iter().for_each(|client| client.join().unwrap());
    });
}

#[test]
fn shares_hold_over_one_http2_connection() {
    shares_hold(|port, requests| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let (client, connection) = h2::client::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            let streams = (0..50).map(|_| tokio::spawn(ask(client.clone(), port, requests / 50)));
            for stream in streams.collect::<Vec<_>>() {
                stream.await.unwrap();
            }
        });
    });
}

/// So many requests, one after the other, each on a stream of its own.
async fn ask(client: h2::client::SendRequest<bytes::Bytes>, port: u16, times: usize) {
    for _ in 0..times {
        let request = http::Request::get(format!("http://127.0.0.1:{port}/")).body(()).unwrap();
        let mut ready = client.clone().ready().await.unwrap();
        let (response, _) = ready.send_request(request, true).unwrap();
        let response = response.await.unwrap();
        assert_eq!(response.status(), 200);
        let mut body = response.into_body();
        while let Some(data) = body.data().await {
            body.flow_control().release_capacity(data.unwrap().len()).unwrap();
        }
    }
}
