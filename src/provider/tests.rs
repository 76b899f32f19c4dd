//! Against servers on real sockets that answer as the hosted ones do by their public documentation, and keep what they
//! were asked; against commands that do what commands do.

use std::sync::Mutex;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::engine::analysis::{
    answer::Answer,
    ask::{Auth, CloudWatchQuery, CloudWatchStat, Http, Part, Range, SecretSource, Text},
};

/// Never reached unless something is broken.
const PATIENT: Duration = Duration::from_secs(20);
const NOW: Duration = Duration::from_secs(1_790_000_000);

/// A server that answers every request in the same way.
struct Contract {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Contract {
    async fn answering(status: &str, body: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (kept, answer) = (Arc::clone(&asked), whole(status, body));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let request = read(&mut stream).await;
                kept.lock().unwrap().push(request);
                let _hung_up = stream.write_all(answer.as_bytes()).await;
            }
        });
        Self { address, asked }
    }

    /// The only request: its head in lower case, and its body.
    fn only(&self) -> (String, String) {
        let asked = self.asked.lock().unwrap();
        let [request] = &asked[..] else { panic!("{asked:?}") };
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }
}

fn whole(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

async fn read(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0_usize) {
                return text;
            }
        }
        bytes.push(stream.read_u8().await.unwrap());
    }
}

async fn put(ask: &Ask) -> Result<Answer, String> {
    match ask_within(ask, NOW, PATIENT, &Clients::new(Reach::guarded(|_| false))).await? {
        Reply::Value(answer) => Ok(answer),
        Reply::Failed(said) => panic!("failed: {said}"),
    }
}

fn plain(text: &str) -> Text {
    Text::plain(text)
}

/// `PATH` is there in every environment.
fn secret() -> (Text, String) {
    (Text(vec![Part::Secret(SecretSource::Env("PATH".to_owned()))]), std::env::var("PATH").unwrap())
}

fn prometheus(address: &str) -> Ask {
    Ask::Prometheus { address: plain(address), query: plain("up == 1"), range: None, http: Http::default() }
}

fn web(url: &str, json_path: Option<&str>) -> Ask {
    let json_path = json_path.map(plain);
    Ask::Web { method: "GET", url: plain(url), body: None, json_path, http: Http::default() }
}

fn exec(command: &[&str]) -> Ask {
    Ask::Exec { command: command.iter().map(|word| plain(word)).collect(), env: Vec::new() }
}

#[tokio::test]
async fn prometheus_gives_numbers_as_argos_conditions_see_them() {
    let data = |kind: &str, result: &str| {
        format!(r#"{{"status":"success","data":{{"resultType":"{kind}","result":{result}}}}}"#)
    };
    for (kind, result, answer) in [
        (
            "vector",
            r#"[{"metric":{},"value":[1,"0.97"]},{"metric":{},"value":[1,"+Inf"]}]"#,
            Answer::numbers([0.97, f64::INFINITY]),
        ),
        ("vector", "[]", Answer::numbers([])),
        ("matrix", r#"[{"values":[[1,"1"],[2,"2"]]},{"values":[[1,"3"]]}]"#, Answer::numbers([1.0, 2.0, 3.0])),
        ("scalar", r#"[1,"-Inf"]"#, Answer::Number(f64::NEG_INFINITY)),
        ("string", r#"[1,"ok"]"#, Answer::Text("ok".to_owned())),
    ] {
        let server = Contract::answering("200 OK", &data(kind, result)).await;
        assert_eq!(put(&prometheus(&server.address)).await, Ok(answer), "{kind}");
        let (head, body) = server.only();
        assert!(head.starts_with("POST /api/v1/query HTTP/1.1\r\n"), "{head}");
        assert_eq!(body, "query=up%20%3D%3D%201");
    }
    let server = Contract::answering("200 OK", &data("vector", r#"[{"value":[1,"NaN"]}]"#)).await;
    assert!(put(&prometheus(&server.address)).await.unwrap().has_nan());
}

#[tokio::test]
async fn prometheus_faults_are_errors_with_its_own_words() {
    let refused = r#"{"status":"error","errorType":"bad_data","error":"parse error at char 3"}"#;
    for (status, body, words) in [
        ("400 Bad Request", refused, "prometheus: the query is refused (bad_data): parse error at char 3"),
        ("503 Service Unavailable", "no healthy upstream", "it answered 503 Service Unavailable: no healthy upstream"),
        ("200 OK", "<html>login</html>", "its answer is not JSON: <html>login</html>"),
        ("200 OK", r#"{"status":"success","data":{"resultType":"streams","result":[]}}"#, "type `streams`"),
        (
            "200 OK",
            r#"{"status":"success","data":{"resultType":"vector","result":[{"histogram":[1,{}]}]}}"#,
            "native histograms",
        ),
        ("200 OK", "{}", "it answered 200 OK"),
    ] {
        let server = Contract::answering(status, body).await;
        let error = put(&prometheus(&server.address)).await.unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_range_query_says_from_when_to_when_and_how_finely() {
    let server =
        Contract::answering("200 OK", r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#).await;
    let range = Range { start: Duration::from_hours(1), end: Duration::from_mins(5), step: Duration::from_secs(30) };
    let ask = Ask::Prometheus {
        address: plain(&format!("{}/prometheus/", server.address)),
        query: plain("up"),
        range: Some(range),
        http: Http::default(),
    };
    put(&ask).await.unwrap();
    let (head, body) = server.only();
    assert!(head.starts_with("POST /prometheus/api/v1/query_range "), "{head}");
    let value = |name: &str| {
        let pair = body.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        pair.unwrap().parse::<f64>().unwrap()
    };
    assert!((value("end") - value("start") - 3_300.0).abs() < 1.0 && (value("step") - 30.0).abs() < 1e-9, "{body}");
}

#[tokio::test]
async fn who_we_are_is_said_and_never_told() {
    let (token, path) = secret();
    let basic = Auth::Basic { username: plain("me"), password: plain("hunter2") };
    for (auth, field) in [
        (Auth::Bearer(token.clone()), format!("authorization: Bearer {path}")),
        (basic, "authorization: Basic bWU6aHVudGVyMg==".to_owned()),
    ] {
        let server = Contract::answering("401 Unauthorized", &format!("bad token {path}")).await;
        let http = Http {
            headers: vec![("x-scope-orgid".to_owned(), plain("team")), ("x-secret".to_owned(), token.clone())],
            auth: Some(auth),
            ..Http::default()
        };
        let ask = Ask::Web { method: "GET", url: plain(&server.address), body: None, json_path: None, http };
        let error = put(&ask).await.unwrap_err();
        assert!(error.starts_with("web: it answered 401 Unauthorized: bad token <secret>"), "{error}");
        let (head, _) = server.only();
        assert!(head.contains(&field) && head.contains("x-scope-orgid: team") && head.contains(&path), "{head}");
    }
    let server = Contract::answering("200 OK", &serde_json::json!({ "echo": [path] }).to_string()).await;
    let http = Http { headers: vec![("x-secret".to_owned(), token)], ..Http::default() };
    let ask = Ask::Web { method: "GET", url: plain(&server.address), body: None, json_path: None, http };
    assert_eq!(put(&ask).await.unwrap().in_words(), "{echo: [\"<secret>\"]}");
}

#[tokio::test]
async fn a_secret_is_read_when_it_is_needed_and_its_absence_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "s3cr3t\n").unwrap();
    let server = Contract::answering("200 OK", "1").await;
    let from = |source| Text(vec![Part::Plain(server.address.clone() + "/?t="), Part::Secret(source)]);
    let asks =
        |source| Ask::Web { method: "GET", url: from(source), body: None, json_path: None, http: Http::default() };
    put(&asks(SecretSource::File(file.display().to_string()))).await.unwrap();
    assert!(server.only().0.starts_with("GET /?t=s3cr3t HTTP"));
    for (source, words) in [
        (SecretSource::Env("SERIN_NOT_THERE".to_owned()), "the environment has no `SERIN_NOT_THERE`"),
        (SecretSource::File(folder.path().join("absent").display().to_string()), "cannot be read"),
    ] {
        let error = put(&asks(source)).await.unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[tokio::test]
async fn web_gives_what_of_a_body_counts() {
    let json = r#"{"data":{"ok":true,"values":[1,2.5],"text":"0.9","nothing":null}}"#;
    for (body, path, answer) in [
        (json, Some("{$.data.ok}"), Answer::Bool(true)),
        (json, Some("$.data.values[1]"), Answer::Number(2.5)),
        (json, Some("{.data.values}"), Answer::List(vec![Answer::Integer(1), Answer::Number(2.5)])),
        (json, Some("{$.data.text}"), Answer::Text("0.9".to_owned())),
        (json, Some("{$.data.nothing}"), Answer::Nil),
        ("17", None, Answer::Integer(17)),
        ("healthy", None, Answer::Text("healthy".to_owned())),
    ] {
        let server = Contract::answering("200 OK", body).await;
        assert_eq!(put(&web(&server.address, path)).await, Ok(answer), "{path:?}");
    }
    for (status, body, words) in [
        ("200 OK", json, "the answer has nothing at `{$.data.absent}`"),
        ("200 OK", "healthy", "its answer is not JSON"),
        ("404 Not Found", json, "it answered 404 Not Found"),
        ("302 Found", "", "it answered 302 Found"),
    ] {
        let server = Contract::answering(status, body).await;
        let error = put(&web(&server.address, Some("{$.data.absent}"))).await.unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[tokio::test]
async fn web_sends_what_it_is_told() {
    let server = Contract::answering("200 OK", "true").await;
    let headers = vec![("content-type".to_owned(), plain("application/json"))];
    let http = Http { headers, ..Http::default() };
    let body = Some(plain(r#"{"a":1}"#));
    let ask = Ask::Web { method: "POST", url: plain(&server.address), body, json_path: None, http };
    put(&ask).await.unwrap();
    let (head, body) = server.only();
    assert!(head.starts_with("POST / HTTP/1.1") && head.contains("content-type: application/json"), "{head}");
    assert_eq!(body, r#"{"a":1}"#);
}

#[tokio::test]
async fn outages_slow_answers_and_large_ones_are_errors_and_never_verdicts() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let error =
        ask_within(&web(&address, None), NOW, Duration::from_millis(50), &Clients::new(Reach::guarded(|_| false)))
            .await
            .unwrap_err();
    assert_eq!(error, "web: no answer within 50ms");
    drop(listener);
    assert!(put(&web(&address, None)).await.unwrap_err().contains("connection refused"));
    let server = Contract::answering("200 OK", &"x".repeat((2 << 20) + 1)).await;
    assert!(put(&web(&server.address, None)).await.unwrap_err().contains("larger than the limit"));
}

#[tokio::test]
async fn a_command_is_good_by_its_exit_code_and_its_output_is_the_result() {
    for (script, answer) in [
        ("echo 0.97", Answer::Number(0.97)),
        ("echo '{\"errors\": 3}'", Answer::Map(vec![("errors".to_owned(), Answer::Integer(3))])),
        ("echo ' all well '", Answer::Text("all well".to_owned())),
        ("true", Answer::Text(String::new())),
    ] {
        assert_eq!(put(&exec(&["sh", "-c", script])).await, Ok(answer), "{script}");
    }
    let ask = exec(&["sh", "-c", "echo seen; echo why >&2; exit 3"]);
    let failed = ask_within(&ask, NOW, PATIENT, &Clients::new(Reach::guarded(|_| false))).await;
    assert_eq!(failed, Ok(Reply::Failed("`sh` ended with exit code 3: why".to_owned())));
}

#[tokio::test]
async fn a_command_that_cannot_say_anything_is_an_error() {
    for (command, words) in [
        (&["/no/such/program"][..], "`/no/such/program` cannot be started"),
        (&["sh", "-c", "kill -9 $$"], "killed by signal 9"),
        (&["sh", "-c", "head -c 70000 /dev/zero"], "more than 65536 bytes"),
    ] {
        let error = put(&exec(command)).await.unwrap_err();
        assert!(error.starts_with("exec: ") && error.contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_command_has_a_clean_environment_and_what_it_is_given() {
    let (token, path) = secret();
    let command = ["sh", "-c", "env | cut -d= -f1 | sort; echo $TOKEN"].map(plain).into();
    let env = vec![("TOKEN".to_owned(), token), ("LIMIT".to_owned(), plain("7"))];
    let answer = put(&Ask::Exec { command, env }).await.unwrap();
    let Answer::Text(text) = answer else { panic!("{answer:?}") };
    let names: Vec<&str> = text.lines().filter(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name)).collect();
    assert_eq!(names, ["LIMIT", "PATH", "TOKEN", "<secret>"], "{path} must not be shown");
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = format!("sleep 300 & echo $! > {}; wait", file.display());
    let (ask, clients) = (exec(&["sh", "-c", &script]), Clients::new(Reach::guarded(|_| false)));
    let asked = ask_within(&ask, NOW, Duration::from_millis(500), &clients).await;
    assert_eq!(asked, Err("exec: no answer within 500ms".to_owned()));
    let pid = std::fs::read_to_string(&file).unwrap();
    let stat = std::path::PathBuf::from(format!("/proc/{}/stat", pid.trim()));
    // Nobody reaps it at once in every container: a zombie is dead as well.
    let gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
    let end = std::time::Instant::now() + PATIENT;
    while !gone() {
        assert!(std::time::Instant::now() < end, "{} lives on", pid.trim());
        tokio::task::yield_now().await;
    }
    let left_behind = put(&exec(&["sh", "-c", "sleep 300 & echo done"])).await;
    assert_eq!(left_behind, Ok(Answer::Text("done".to_owned())));
}

fn datadog(address: &str, v2: bool) -> Ask {
    Ask::Datadog {
        address: plain(address),
        api_key: plain("api"),
        app_key: plain("app"),
        v2,
        interval: Duration::from_mins(5),
        queries: vec![("errors".to_owned(), plain("sum:errors{service:web}")), ("all".to_owned(), plain("sum:all{*}"))],
        formula: v2.then(|| plain("errors / all")),
        aggregator: "last",
    }
}

#[tokio::test]
async fn datadog_is_asked_as_both_versions_of_its_api_want_it() {
    let series = r#"{"status":"ok","series":[{"pointlist":[[1,0.1],[2,0.02],[3,null]]}]}"#;
    let server = Contract::answering("200 OK", series).await;
    assert_eq!(put(&datadog(&server.address, false)).await, Ok(Answer::Number(0.02)));
    let (head, _) = server.only();
    assert!(
        head.starts_with("GET /api/v1/query?from=") && head.contains("&query=sum%3Aerrors%7Bservice%3Aweb%7D "),
        "{head}"
    );
    assert!(head.contains("dd-api-key: api") && head.contains("dd-application-key: app"), "{head}");
    let columns = r#"{"data":{"type":"scalar_response","attributes":{"columns":[{"name":"q","values":[0.004]}]}}}"#;
    let server = Contract::answering("200 OK", columns).await;
    assert_eq!(put(&datadog(&server.address, true)).await, Ok(Answer::Number(0.004)));
    let (head, body) = server.only();
    assert!(head.starts_with("POST /api/v2/query/scalar "), "{head}");
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    let attributes = &body["data"]["attributes"];
    assert_eq!(attributes["formulas"][0]["formula"], "errors / all");
    assert_eq!(attributes["queries"][1]["name"], "all");
    assert_eq!(attributes["to"].as_u64().unwrap() - attributes["from"].as_u64().unwrap(), 300_000);
    for (v2, body) in [(false, r#"{"status":"ok","series":[]}"#), (true, r#"{"data":{"attributes":{"columns":[]}}}"#)] {
        let server = Contract::answering("200 OK", body).await;
        assert_eq!(put(&datadog(&server.address, v2)).await, Ok(Answer::Nil), "no series is no value");
    }
    let server = Contract::answering("403 Forbidden", r#"{"errors":["Forbidden"]}"#).await;
    assert!(put(&datadog(&server.address, false)).await.unwrap_err().contains("403 Forbidden"));
}

#[tokio::test]
async fn new_relic_gives_one_row_or_several() {
    let rows = |rows: &str| format!(r#"{{"data":{{"actor":{{"account":{{"nrql":{{"results":{rows}}}}}}}}}}}"#);
    let asks = |address: &str| Ask::NewRelic {
        address: plain(address),
        api_key: plain("NRAK"),
        account: plain("12345"),
        query: plain("SELECT count(*) FROM Transaction"),
    };
    for (results, words) in
        [(r#"[{"count":7}]"#, "{count: 7}"), (r#"[{"a":1},{"a":2}]"#, "[{a: 1}, {a: 2}]"), ("[]", "[]")]
    {
        let server = Contract::answering("200 OK", &rows(results)).await;
        assert_eq!(put(&asks(&server.address)).await.unwrap().in_words(), words);
        let (head, body) = server.only();
        assert!(head.contains("api-key: NRAK"), "{head}");
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            body["variables"],
            serde_json::json!({ "account": 12345, "nrql": "SELECT count(*) FROM Transaction" })
        );
    }
    let server = Contract::answering("200 OK", r#"{"errors":[{"message":"NRQL Syntax Error"}]}"#).await;
    assert!(put(&asks(&server.address)).await.unwrap_err().contains("NRQL Syntax Error"));
}

#[tokio::test]
async fn graphite_gives_the_points_that_have_a_value() {
    let server = Contract::answering("200 OK", r#"[{"target":"t","datapoints":[[0.5,1],[null,2],["3",3]]}]"#).await;
    let asks = |address: &str| Ask::Graphite {
        address: plain(address),
        query: plain("target=a.b&from=-5min"),
        http: Http::default(),
    };
    assert_eq!(put(&asks(&server.address)).await, Ok(Answer::numbers([0.5, 3.0])));
    assert!(server.only().0.starts_with("GET /render?target=a.b&from=-5min&format=json HTTP"));
    let server = Contract::answering("200 OK", "[]").await;
    assert_eq!(put(&asks(&server.address)).await, Ok(Answer::numbers([])));
}

#[tokio::test]
async fn influxdb_gives_the_values_of_all_rows() {
    let server = Contract::answering("200 OK", ",result,table,_value\r\n,_result,0,0.25\r\n,_result,0,2\r\n\r\n").await;
    let ask = Ask::Influx {
        address: plain(&server.address),
        org: plain("my org"),
        token: plain("t0k3n"),
        query: plain("from(bucket: \"b\")"),
        http: Http::default(),
    };
    assert_eq!(put(&ask).await, Ok(Answer::numbers([0.25, 2.0])));
    let (head, body) = server.only();
    assert!(
        head.starts_with("POST /api/v2/query?org=my%20org ") && head.contains("authorization: Token t0k3n"),
        "{head}"
    );
    assert_eq!(body, "from(bucket: \"b\")");
}

#[tokio::test]
async fn cloudwatch_is_asked_with_a_signature_and_gives_its_results_as_they_are() {
    let results = r#"{"Messages":[],"MetricDataResults":[{"Id":"rate","Label":"rate","StatusCode":"Complete","Timestamps":[1],"Values":[0.004]}]}"#;
    let asks = |address: &str| Ask::CloudWatch {
        address: Some(plain(address)),
        region: plain("eu-central-1"),
        access_key: plain("AKID"),
        secret_key: plain("key"),
        session_token: Some(plain("session")),
        interval: Duration::from_mins(30),
        queries: vec![
            CloudWatchQuery {
                id: "rate".to_owned(),
                expression: Some(plain("errors / requests")),
                label: None,
                stat: None,
                period: None,
                return_data: None,
            },
            CloudWatchQuery {
                id: "errors".to_owned(),
                expression: None,
                label: None,
                stat: Some(CloudWatchStat {
                    namespace: Some(plain("app")),
                    metric: plain("errors"),
                    dimensions: vec![("service".to_owned(), plain("web"))],
                    period: 300,
                    stat: plain("Sum"),
                    unit: Some("Count".to_owned()),
                }),
                period: None,
                return_data: Some(false),
            },
        ],
    };
    let server = Contract::answering("200 OK", results).await;
    let answer = put(&asks(&server.address)).await.unwrap();
    assert!(answer.in_words().contains("Values: [0.004]"), "{}", answer.in_words());
    let (head, body) = server.only();
    for field in [
        "x-amz-target: GraniteServiceVersion20100801.GetMetricData",
        "authorization: AWS4-HMAC-SHA256 Credential=AKID/",
        "/eu-central-1/monitoring/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target, Signature=",
    ] {
        assert!(head.contains(field), "{field} in {head}");
    }
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["MetricDataQueries"][1]["MetricStat"]["Metric"]["Dimensions"][0]["Value"], "web");
    assert_eq!(body["EndTime"].as_u64().unwrap() - body["StartTime"].as_u64().unwrap(), 1_800);
    let server = Contract::answering("200 OK", r#"{"MetricDataResults":[{"Id":"rate","Values":[]}]}"#).await;
    assert_eq!(put(&asks(&server.address)).await, Ok(Answer::List(Vec::new())), "no value is no result");
}

#[tokio::test]
async fn the_thread_asks_and_answers_and_takes_no_more_than_it_can_hold() {
    let server = Contract::answering("200 OK", "7").await;
    let (provider, mut answers) = Provider::start(Reach::guarded(|_| false)).unwrap();
    let ticket = |metric: &str| Ticket {
        service: crate::engine::names::ServiceName::new("web").unwrap(),
        revision: crate::engine::names::Revision(1),
        run: crate::engine::analysis::ask::RunKind::Step,
        metric: metric.to_owned(),
        asked: crate::engine::time::Timestamp::from_millis(0),
    };
    let question = |metric| Question { ticket: ticket(metric), ask: web(&server.address, None), timeout: PATIENT };
    assert!(provider.ask(question("a")));
    let Some(Answered::Question(of, reply)) = answers.recv().await else { panic!("no answer") };
    assert_eq!((of, reply), (ticket("a"), Ok(Reply::Value(Answer::Integer(7)))));
    drop(provider);
    assert!(answers.recv().await.is_none());
}
