//! What it costs to count a request, to choose its version and count it, to find its route, and to evaluate six metrics, in
//! time and in instructions, beside what is promised. Ends with status 1 where a promise is broken.
//!
//! `cargo bench --bench decide`, or sooner `cargo bench --profile sim --bench decide`. Instructions are counted by
//! valgrind, where it is there: two runs that differ only in how often the same is done, so noise is in neither.

use std::{
    env,
    hint::black_box,
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use http::{HeaderMap, Method};
use serin::{
    config,
    engine::{
        Engine, Recovered,
        address::Address,
        filter::Scheme,
        input::Input,
        names::{Generation, Role, ServiceName, VersionName},
        plan::ShareTestPlan,
        request::RequestView,
        samples::Counts,
        split::{Claims, Reason, assign},
        stats::{
            share_test::{News, ShareTest},
            window::Summary,
        },
        table::Table,
        time::Timestamp,
    },
    measure::slot::{Ending, Finished, Slot, SlotKey},
    rehearse::{Dice, Latencies, LogNormal},
};

/// How often each is done under valgrind.
const FEW: u32 = 1_000;
const MANY: u32 = 5_000;

/// One thing that is done over and over.
struct Work {
    name: &'static str,
    says: &'static str,
    times: u32,
    at_most: Duration,
    /// Where the promise is about these.
    instructions_at_most: u64,
    run: fn(u32) -> Duration,
}

const ALL: [Work; 5] = [
    Work {
        name: "counting",
        says: "counting a request",
        times: 5_000_000,
        at_most: Duration::from_micros(1),
        instructions_at_most: u64::MAX,
        run: counting,
    },
    Work {
        name: "choosing",
        says: "choosing a version and counting the request",
        times: 5_000_000,
        at_most: Duration::from_micros(1),
        instructions_at_most: 400,
        run: choosing,
    },
    Work {
        name: "routing-10",
        says: "finding the route of a request among 10",
        times: 1_000_000,
        at_most: Duration::from_micros(2),
        instructions_at_most: u64::MAX,
        run: |times| routing(10, times),
    },
    Work {
        name: "routing-10000",
        says: "finding the route of a request among 10,000",
        times: 1_000_000,
        at_most: Duration::from_micros(2),
        instructions_at_most: u64::MAX,
        run: |times| routing(10_000, times),
    },
    Work {
        name: "evaluating",
        says: "evaluating six metrics over a second of 1,000 requests",
        times: 100_000,
        at_most: Duration::from_micros(50),
        instructions_at_most: u64::MAX,
        run: evaluating,
    },
];

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    if let [name, times] = &args[..]
        && let (Some(work), Ok(times)) = (ALL.iter().find(|work| work.name == name), times.parse())
    {
        (work.run)(times);
        return ExitCode::SUCCESS;
    }
    let mut kept = true;
    for work in &ALL {
        // The quickest of five is the least disturbed.
        let took = (0..5).map(|_| (work.run)(work.times) / work.times).min().unwrap_or_default();
        let each = instructions(work);
        let counted = each.map_or_else(|| "instructions not counted".to_owned(), |each| format!("{each} instructions"));
        let promised = match work.instructions_at_most {
            u64::MAX => format!("{:?}", work.at_most),
            most => format!("{most} instructions"),
        };
        println!("{}: {took:?}, {counted} (promised: at most {promised})", work.says);
        kept &= took <= work.at_most && each.is_none_or(|each| each <= work.instructions_at_most);
    }
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// As the proxy does for each request, over four statuses and many latencies.
fn counting(times: u32) -> Duration {
    let key = SlotKey {
        service: ServiceName::new("web").expect("a name"),
        version: VersionName::new("v2").expect("a name"),
        role: Role::Canary,
        weight_generation: Generation(1),
    };
    let slot = Slot::new(key);
    let begin = Instant::now();
    for request in 0..times {
        let (status, ending) = if request % 100 == 0 { (503, Ending::ErrorStatus) } else { (200, Ending::Answered) };
        slot.started();
        let latency = Duration::from_micros(u64::from(request.wrapping_mul(2_654_435_761) >> 16));
        slot.finished(black_box(Finished { reason: Reason::Sampled, status, ending, latency }));
    }
    let took = begin.elapsed();
    black_box(slot.started_total());
    took
}

/// The table of a file: one service with a canary at 5 %, and so many routes to it.
fn table(routes: u32) -> Table {
    let mut text = "listen: 127.0.0.1:8080\nservices: { web: { versions: { v1: 'http://a:80', v2: 'http://b:80' }, stable: v1, canary: v2, \
                    strategy: { canary: { steps: [{ setWeight: 5 }, { pause: {} }] } } } }\nroutes:\n".to_owned();
    text.extend((0..routes).map(|nth| {
        let host = nth % 100;
        format!("  - {{ match: [{{ host: h{host}.example, path: {{ prefix: /p{nth}/x }} }}], service: web }}\n")
    }));
    let config = config::check(&text, Path::new("bench.yaml"), &|_| None).config.expect("a file without mistakes");
    let mut engine = Engine::new(Recovered::default());
    engine.apply(Input::Configure(config.services.into()), Timestamp::from_millis(1), &mut Vec::new()).expect("a plan");
    let mut table = Table::clone(&engine.table());
    table.routes = config.routes;
    table
}

/// As the proxy does for a request that nothing is known of: its claims, a draw, and its slot.
fn choosing(times: u32) -> Duration {
    let table = table(1);
    let service = &table.services[0];
    let slots = [0, 1].map(|at: usize| {
        let version = &service.versions[at];
        let (service, weight_generation) = (service.name.clone(), service.weight_generation);
        Slot::new(SlotKey { service, version: version.name.clone(), role: version.role, weight_generation })
    });
    let (headers, latency) = (HeaderMap::new(), Duration::from_millis(3));
    let mut draw = 1_u64;
    let begin = Instant::now();
    for _ in 0..times {
        let claims = Claims::of(service, black_box(&asked("h1.example", "/p1/x", &headers)));
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let chosen = assign(service, &claims, || draw);
        let slot = &slots[chosen.version];
        slot.started();
        slot.finished(black_box(Finished { reason: chosen.reason, status: 200, ending: Ending::Answered, latency }));
    }
    let took = begin.elapsed();
    black_box(slots[0].started_total());
    took
}

fn routing(routes: u32, times: u32) -> Duration {
    let table = table(routes);
    let headers = HeaderMap::new();
    let begin = Instant::now();
    for _ in 0..times {
        assert!(table.routes.find(black_box(&asked("h7.example", "/p7/x/and/more", &headers))).is_some());
    }
    begin.elapsed()
}

fn asked<'r>(host: &'r str, path: &'r str, headers: &'r HeaderMap) -> RequestView<'r> {
    let client = Address::v4([192, 0, 2, 1]);
    RequestView { scheme: Scheme::Http, method: &Method::GET, host, port: None, path, query: "", headers, client }
}

/// Errors and five levels of latency, with the defaults: what is news is added, looked at, and the second ended.
fn evaluating(times: u32) -> Duration {
    let usual = Latencies::new(&[LogNormal { share: 1.0, median_ms: 20.0, sigma: 0.5 }]);
    let mut dice = Dice::new(1, 1);
    let mut test = ShareTest::new(ShareTestPlan::default());
    let seen = Counts { requests: 57_000, errors: 57 };
    test.learn(&Summary::new(seen, Duration::from_mins(1), usual.counts(57_000, &mut dice)));
    let news = News {
        w: 0.05,
        canary: Counts { requests: 50, errors: 1 },
        stable: Counts { requests: 950, errors: 1 },
        latency: Some((usual.counts(50, &mut dice), usual.counts(950, &mut dice))),
    };
    let begin = Instant::now();
    for _ in 0..times {
        test.add(black_box(&news));
        black_box(test.reverts());
        test.end_tick();
    }
    begin.elapsed()
}

/// Instructions of one time; none without valgrind.
fn instructions(work: &Work) -> Option<u64> {
    let [few, many] = [FEW, MANY].map(|times| collected(work.name, times));
    Some(many?.checked_sub(few?)? / u64::from(MANY - FEW))
}

fn collected(name: &str, times: u32) -> Option<u64> {
    let valgrind = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env::current_exe().ok()?)
        .args([name, &times.to_string()])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&valgrind.stderr).into_owned();
    let (_, number) = said.split_once("Collected :")?;
    number.split_whitespace().next()?.parse().ok()
}
