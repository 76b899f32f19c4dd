//! A secret of its own in each place of the config that takes one, and a search for all of them in everything that the real
//! binary writes, answers and stores, over a start, questions to others, messages, an abort, a refused file and a reload.

use std::{
    fmt::Write as _,
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
};

use serin::demo::toy::{Toy, ToySpec};

use crate::{
    asked::{answer, anywhere, serve},
    certificates::Issuer,
    harness::{Client, Serin, eventually, free_port, serin},
};

/// Who is asked and told: takes everything, says yes to gates and messages, and nothing of use to questions.
struct Sink {
    port: u16,
    heard: Arc<Mutex<String>>,
}

impl Sink {
    fn start() -> Self {
        let heard: Arc<Mutex<String>> = Arc::default();
        let kept = Arc::clone(&heard);
        let port = serve(anywhere(), move |request| {
            let _endless = writeln!(kept.lock().unwrap(), "{}\n{}", request.head.join("\n"), request.body);
            let is_fine = ["/gate", "/told", "/v1/traces"].iter().any(|fine| request.path().starts_with(fine));
            Some(answer(if is_fine { "200 OK" } else { "401 Unauthorized" }, "", "{}"))
        });
        Self { port, heard }
    }

    fn heard(&self) -> String {
        self.heard.lock().unwrap().clone()
    }
}

/// Where secrets were planted: each by the name of its place.
#[derive(Default)]
struct Planted(Vec<(&'static str, String)>);

impl Planted {
    /// A new secret for a place.
    fn plant(&mut self, place: &'static str) -> String {
        let secret = format!("planted{:02}x{place}", self.0.len());
        self.0.push((place, secret.clone()));
        secret
    }

    /// What base64 makes of it behind a user's name, and the text itself.
    fn forms(secret: &str) -> [String; 2] {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        [secret.to_owned(), STANDARD.encode(format!("serin:{secret}"))]
    }

    fn found_in(&self, text: &str) -> Vec<&'static str> {
        let is_there = |secret: &str| Self::forms(secret).iter().any(|form| text.contains(form));
        self.0.iter().filter(|(_, secret)| is_there(secret)).map(|(place, _)| *place).collect()
    }
}

/// A question to each kind of provider, each with its own secret.
fn metrics(planted: &mut Planted, at: &str) -> String {
    let mut plant = |place| planted.plant(place);
    let metric = |name: &str, provider: String| {
        format!(
            "      - {{ name: {name}, interval: 1s, count: 30, consecutiveErrorLimit: 1, successCondition: result == 1, provider: {{ {provider} }} }}\n"
        )
    };
    [
        metric(
            "bearer",
            format!(
                "prometheus: {{ address: \"{at}\", query: up, bearerToken: {}, headers: [{{ key: X-Key, value: {} }}] }}",
                plant("bearer"),
                plant("header")
            ),
        ),
        metric(
            "basic",
            format!(
                "graphite: {{ address: \"{at}\", query: target=a, basicAuth: {{ username: serin, password: {} }} }}",
                plant("basic")
            ),
        ),
        metric(
            "args",
            format!(
                "web: {{ url: \"{at}/web?api_key={}\", method: POST, headers: [{{ key: X-Env, value: \"{{{{args.env}}}}\" }}], body: \"{{{{args.file}}}}\" }}",
                plant("query")
            ),
        ),
        metric(
            "datadog",
            format!(
                "datadog: {{ address: \"{at}\", query: a, apiKey: {}, appKey: {} }}",
                plant("apiKey"),
                plant("appKey")
            ),
        ),
        metric(
            "newrelic",
            format!(
                "newRelic: {{ address: \"{at}\", accountId: \"1\", query: FROM T SELECT count(*), apiKey: {} }}",
                plant("userKey")
            ),
        ),
        metric(
            "influx",
            format!("influxdb: {{ address: \"{at}\", org: o, query: q, authToken: {} }}", plant("authToken")),
        ),
        metric(
            "cloudwatch",
            format!(
                "cloudWatch: {{ address: \"{at}\", region: r, accessKeyId: id, secretAccessKey: {}, sessionToken: {}, metricDataQueries: [{{ id: a, expression: b }}] }}",
                plant("secretKey"),
                plant("session")
            ),
        ),
        metric(
            "exec",
            "exec: { command: [sh, -c, \"echo no; exit 3\"], env: { TOKEN: \"{{args.file}}\" } }".to_owned(),
        ),
    ]
    .concat()
}

/// The file, with a secret wherever one may be.
fn config(planted: &mut Planted, sink: u16, serin: &Serin, toys: &[Toy; 2], certificate: (&Path, &Path)) -> String {
    let at = format!("http://127.0.0.1:{sink}");
    let metrics = metrics(planted, &at);
    let mut plant = |place| planted.plant(place);
    format!(
        "listeners:\n  - {{ name: plain, listen: 127.0.0.1:{} }}\n  - {{ name: tls, listen: 127.0.0.1:{}, tls: {{ certificates: [{{ cert: {}, key: {} }}] }} }}\n\
         admin: {{ listen: 127.0.0.1:{}, readToken: {}, writeToken: {} }}\naccessLog: {{ format: json }}\n\
         tracing: {{ otlp: \"{at}\", sample: 100%, headers: {{ authorization: \"Bearer {}\" }} }}\n\
         notify:\n  - {{ slack: \"{at}/told/{}\" }}\n  - {{ webhook: \"{at}/told?sig={}\", secret: {} }}\n\
         services:\n  web:\n    versions: {{ v1: \"http://{}\", v2: \"http://{}\" }}\n    stable: v1\n\
         \x20   assign: {{ force: {{ header: x-canary, secret: {} }} }}\n\
         \x20   gates: [{{ name: approve, type: confirm-rollout, url: \"{at}/gate?key={}\", headers: {{ x-key: {} }} }}]\n\
         \x20   strategy: {{ canary: {{ steps: [{{ setWeight: 50 }}, {{ pause: {{}} }}, {{ analysis: {{ templates: [{{ templateName: outside }}] }} }}] }} }}\n\
         analysisTemplates:\n  outside:\n    args: [{{ name: env, valueFrom: {{ env: PLANTED }} }}, {{ name: file, valueFrom: {{ file: secret.txt }} }}]\n    metrics:\n{}",
        serin.port,
        free_port(),
        certificate.0.display(),
        certificate.1.display(),
        serin.admin,
        plant("readToken"),
        plant("writeToken"),
        plant("tracing"),
        plant("slack"),
        plant("webhook"),
        plant("signing"),
        toys[0].address(),
        toys[1].address(),
        plant("force"),
        plant("gateUrl"),
        plant("gateHeader"),
        metrics,
    )
}

/// Everything that can be read over HTTP, with the write token, each named.
fn answers(serin: &Serin, token: &str) -> Vec<(String, String)> {
    let bearer = format!("Bearer {token}");
    let paths = [
        "/",
        "/services/web",
        "/services/web/abort",
        "/login",
        "/metrics",
        "/metrics/compat",
        "/api/v1/services",
        "/api/v1/services/web",
        "/api/v1/services/web/why",
        "/api/v1/services/web/history",
        "/api/v1/history",
        "/api/v1/config",
        "/api/v1/openapi.json",
    ];
    let asked = paths.iter().flat_map(|path| ["text/html", "application/json"].map(|accept| (*path, accept)));
    asked
        .map(|(path, accept)| {
            let answer = Client::connect(serin.admin)
                .unwrap()
                .send(path, &[("authorization", &bearer), ("accept", accept)])
                .unwrap();
            (
                format!("GET {path} as {accept}"),
                format!("{:?} {}", answer.headers, String::from_utf8_lossy(&answer.body)),
            )
        })
        .collect()
}

/// All events until the process ends.
fn events(serin: &Serin, token: &str) -> JoinHandle<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", serin.admin)).unwrap();
    let head = format!("GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    thread::spawn(move || {
        let mut told = String::new();
        let _ended = stream.read_to_string(&mut told);
        told
    })
}

/// Everything that the command line says, each named.
fn said(serin: &Serin, force: &str) -> Vec<(String, String)> {
    let forced = format!("x-canary: always:{force}");
    let mut verbs: Vec<Vec<&str>> = vec![
        vec!["explain-request", "http://localhost/", "--header", &forced],
        vec!["check", "-o", "sarif"],
        vec!["report", "--markdown"],
    ];
    let log = serin.dir.path().join("out").display().to_string();
    verbs.extend([vec!["tap", &log], vec!["tap", &log, "-o", "json"]]);
    verbs.push(vec!["rehearse", "--runs", "2", "--model=healthy"]);
    for verb in ["status", "why", "history", "report", "stat", "drift", "check"] {
        verbs.extend([vec![verb], vec![verb, "-o", "json"], vec![verb, "-o", "yaml"]]);
    }
    let say = |args: &[&str]| {
        let out = serin.cli(args);
        format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
    };
    verbs.iter().map(|args| (args[0].to_owned() + args.last().unwrap(), say(args))).collect()
}

/// Those that begin so have said this: what fails shows no secret either.
fn assert_told(told: &[(String, String)], expected: &[(&str, &str)]) {
    for (beginning, word) in expected {
        let (_, words) = told.iter().find(|(place, _)| place.starts_with(beginning)).unwrap();
        assert!(words.contains(word), "{beginning}: {words}");
    }
}

/// All files of a folder, but those named.
fn files(folder: &Path, but: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, but));
        } else if !but.iter().any(|name| path.ends_with(name)) {
            found.push((
                path.display().to_string(),
                String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned(),
            ));
        }
    }
    found
}

#[test]
fn a_secret_of_the_config_is_found_nowhere_else() {
    let (sink, issuer, mut planted) = (Sink::start(), Issuer::new("secrets"), Planted::default());
    let toy = |name: &str| Toy::start(ToySpec::new(name, "127.0.0.1:0".parse().unwrap())).unwrap();
    let toys = [toy("v1"), toy("v2")];
    let shop = issuer.issue("shop", &["localhost"]);
    let mut serin = Serin::prepare("services: {}\n");
    let text = config(&mut planted, sink.port, &serin, &toys, (&shop.cert, &shop.key));
    let (env, file) = (planted.plant("env"), planted.plant("file"));
    let key = fs::read_to_string(&shop.key).unwrap();
    planted.0.push(("key", key.lines().nth(1).unwrap().to_owned()));
    let secret = |place: &str| planted.0.iter().find(|(of, _)| *of == place).unwrap().1.clone();
    fs::write(serin.dir.path().join("secret.txt"), &file).unwrap();
    fs::write(serin.file(), &text).unwrap();

    let out = serin.dir.path().join("out");
    serin.spawn_told(&[("SERIN_LOG", "debug"), ("PLANTED", &env)], fs::File::create(&out).unwrap().into());
    serin.ready();
    let events = events(&serin, &secret("writeToken"));
    let run = |args: &[&str]| {
        let done = serin.cli(args);
        assert!(done.status.success(), "{args:?}: {done:?}");
    };
    run(&["start", "web", "--to", "v2", "--reason", "a trial"]);
    for word in ["always", "never"] {
        let forced = format!("{word}:{}", secret("force"));
        assert_eq!(serin.client().send("/", &[("x-canary", &forced)]).unwrap().status, 200);
    }
    run(&["wait", "web", "--for", "paused", "--timeout", "60s"]);
    let mut seen = answers(&serin, &secret("writeToken"));
    run(&["resume", "web"]);
    // All questions fail, which ends the rollout.
    eventually("the analysis to end it", || {
        let status = serin.cli(&["status", "web"]);
        String::from_utf8_lossy(&status.stdout).contains("Degraded").then_some(())
    });
    run(&["retry", "web"]);
    run(&["abort", "web", "--reason", "enough"]);
    seen.extend(said(&serin, &secret("force")));
    assert_told(&seen, &[("tap", "forced"), ("rehearse", "healthy"), ("explain-request", "forces it: canary")]);
    seen.extend(answers(&serin, &secret("writeToken")));

    // A refused file is told of with excerpts, and an error in each line that has a secret in it.
    fs::write(serin.file(), text.replace(" }", ", oops: 1 }").replace("http://127", "http://ann:hunter@127")).unwrap();
    let refused = serin.cli(&["reload"]);
    assert!(!refused.status.success());
    seen.extend(said(&serin, &secret("force")));
    fs::write(serin.file(), text.replace("setWeight: 50", "setWeight: 40")).unwrap();
    run(&["reload"]);

    // What is sent in plain has come to whom it is for; so the search is for the right words.
    let kept = ["readToken", "writeToken", "signing", "force", "secretKey", "key"];
    eventually("all secrets to be used", || {
        let heard = planted.found_in(&sink.heard());
        planted.0.iter().all(|(place, _)| kept.contains(place) || heard.contains(place)).then_some(())
    });
    seen.extend(answers(&serin, &secret("writeToken")));
    serin.terminate();
    let events = events.join().unwrap();
    assert!(events.contains("a trial") && events.contains("enough"), "{events}");
    seen.push(("events".to_owned(), events));
    seen.push(("log".to_owned(), serin.log()));
    seen.extend(files(serin.dir.path(), &["serin.yaml", "secret.txt"]));
    assert!(serin.log().contains("DEBUG") && fs::read_to_string(&out).unwrap().contains("\"forced\""));
    for (place, text) in &seen {
        let found = planted.found_in(text);
        assert!(found.is_empty() && !text.contains("hunter"), "{found:?} in {place}:\n{text}");
    }
    assert!(planted.0.len() >= 20 && seen.len() > 60, "{} in {}", planted.0.len(), seen.len());
}

/// A password before a host is refused, and not shown by the refusal.
#[test]
fn a_password_in_a_url_is_refused_without_being_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("serin.yaml");
    for url in ["http://ann:planted99@127.0.0.1:1", "http://planted99@host"] {
        let text =
            format!("listen: 127.0.0.1:1\nservices: {{ web: {{ versions: {{ v1: \"{url}\" }}, stable: v1 }} }}\n");
        fs::write(&path, text).unwrap();
        for format in ["table", "json", "sarif"] {
            let mut check: Command = serin(&["check", "-o", format]);
            let out = check.arg(&path).output().unwrap();
            let said = format!("{out:?}");
            assert!(
                !out.status.success() && said.contains("must not contain a user") && !said.contains("planted99"),
                "{said}"
            );
        }
    }
}
