//! Whom a metric asks: Serin itself, a metric store, a web server, or a command. Refuses what only a cluster can do and
//! says what does the same here.

mod hosted;

use std::{ops::RangeInclusive, path::Path, time::Duration};

use super::{
    diagnostic::Code,
    message,
    report::{At, Fields, Problem, Report},
    service, shape,
    yaml::{Node, Value},
};
use crate::engine::{
    analysis::{
        ask::{Ask, Auth, Http, Range, Text},
        condition::Shape,
        template::{Arm, Provider},
    },
    names::VersionName,
};

const WINDOW: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(1);
const WINDOW_DEFAULT: Duration = Duration::from_mins(1);
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_mins(10);
const EXEC_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_hours(1);
/// Most header fields, arguments, variables, queries or dimensions.
const LIST_MAX: usize = 100;

/// What the fields of a provider may mention, and where relative files are.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Names of the template's arguments.
    pub declared: &'a [&'a str],
    /// The folder of the config file.
    pub folder: &'a Path,
}

/// A provider, and where it names a version, if it does.
pub fn provider<'a>(at: &At<'a>, place: Place<'_>, report: &mut Report) -> Option<(Provider, Option<At<'a>>)> {
    if refuse_foreign(at, report) {
        return None;
    }
    let fields = report.fields(at, &shape::PROVIDER)?;
    let mut present = shape::PROVIDER.fields.iter().filter_map(|name| fields.get(name));
    let Some(first) = present.next() else {
        if !at.has_any() {
            report.missing(at, "serin", "write `provider: { serin: { version: canary, window: 1m } }`");
        }
        return None;
    };
    if let Some(second) = present.next() {
        report
            .error(
                Code::Conflict,
                &second.key_span,
                format!("a metric asks one provider, not `{}` and `{}`", first.name, second.name),
            )
            .help("write a metric for each");
    }
    let (ask, timeout) = match &*first.name {
        "serin" => return serin(&first, report),
        "prometheus" => prometheus(&first, place, report)?,
        "web" => web(&first, place, report)?,
        "exec" => exec(&first, place, report)?,
        _ => hosted::hosted(&first, place, report)?,
    };
    Some((Provider::Outside { ask: Box::new(ask), timeout }, None))
}

/// What `result` can be, from the provider's name alone.
pub fn result_shape(provider: Option<&At<'_>>) -> Shape {
    let has = |name: &str| provider.is_some_and(|at| at.has(name));
    match () {
        () if provider.is_none() || has("serin") => Shape::Own,
        () if has("prometheus") || has("graphite") || has("datadog") => Shape::Numbers,
        () => Shape::Anything,
    }
}

/// Providers of Argo Rollouts that cannot be asked from here, each with what to do instead.
fn refuse_foreign(at: &At<'_>, report: &mut Report) -> bool {
    let Value::Map(fields) = &at.node.value else { return false };
    let instead = |name: &str| match name {
        "job" => Some("there is no cluster to run a Job in; run its command here: `exec: { command: [ … ] }`"),
        "kayenta" | "skywalking" | "wavefront" => Some(
            "ask its HTTP API: `web: { url: …, jsonPath: … }`, or run a command that does: `exec: { command: [ … ] }`",
        ),
        "plugin" => Some(
            "nothing is loaded into Serin at run time; run the plugin's work as a command: `exec: { command: [ … ] }`",
        ),
        _ => None,
    };
    let foreign = fields.iter().find_map(|field| Some((field, instead(&field.key)?)));
    if let Some((field, help)) = foreign {
        let message = format!("the provider `{}` cannot be asked by Serin", field.key);
        report.error(Code::NotSupportedYet, &field.key_span, message).help(help);
    }
    foreign.is_some()
}

fn serin<'a>(at: &At<'a>, report: &mut Report) -> Option<(Provider, Option<At<'a>>)> {
    let fields = report.fields(at, &shape::SERIN)?;
    let window = fields.get("window").map_or(Some(WINDOW_DEFAULT), |at| report.duration(&at, WINDOW));
    let version_at = fields.get("version");
    let version = match &version_at {
        None => Some(Arm::Canary),
        Some(at) => service::name(at, report).and_then(|name| match &*name {
            "canary" => Some(Arm::Canary),
            "stable" => Some(Arm::Stable),
            name => VersionName::new(name).ok().map(Arm::Named),
        }),
    };
    Some((Provider::Serin { version: version?, window: window? }, version_at))
}

fn prometheus(at: &At<'_>, place: Place<'_>, report: &mut Report) -> Option<(Ask, Duration)> {
    let fields = report.fields(at, &shape::PROMETHEUS)?;
    let address = fields.need(report, "address", "say where it is: `address: http://prometheus:9090`");
    let address = address.and_then(|at| report.url(&at, place.declared));
    let query = fields.need(report, "query", "give it a query in PromQL");
    let query = query.and_then(|at| report.text(&at, "a query in PromQL", place.declared));
    let range = fields.get("rangeQuery").map_or(Some(None), |at| range(&at, report).map(Some));
    let timeout = timeout(&fields, Duration::from_secs(30), report);
    let http = http(&fields, place, report);
    Some((Ask::Prometheus { address: address?, query: query?, range: range?, http: http? }, timeout?))
}

/// `start` and `end` as Argo Rollouts writes them: `now()` and `now() - duration("1h")`.
fn range(at: &At<'_>, report: &mut Report) -> Option<Range> {
    let fields = report.fields(at, &shape::RANGE_QUERY)?;
    let help = "say from when: `start: now() - duration(\"1h\")`";
    let start = fields.need(report, "start", help).and_then(|at| before_now(&at, report));
    let end = fields.get("end").map_or(Some(Duration::ZERO), |at| before_now(&at, report));
    let help = "say how far apart the points are: `step: 1m`";
    let step = fields.need(report, "step", help);
    let step = step.and_then(|at| report.duration(&at, Duration::from_secs(1)..=Duration::from_hours(24)));
    let range = Range { start: start?, end: end?, step: step? };
    if range.end >= range.start {
        report.error(Code::BadValue, &at.span(), "`end` is not after `start`").help(help);
        return None;
    }
    Some(range)
}

fn before_now(at: &At<'_>, report: &mut Report) -> Option<Duration> {
    let bad = || Problem::new("is not a time", "write `now()` or `now() - duration(\"1h\")`");
    report.scalar(at, "a time such as `now() - duration(\"1h\")`", |text| {
        let bare: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let behind = bare.strip_prefix("now()").ok_or_else(bad)?;
        if behind.is_empty() {
            return Ok(Duration::ZERO);
        }
        let quoted = behind.strip_prefix("-duration(").and_then(|text| text.strip_suffix(')')).ok_or_else(bad)?;
        super::scalar::span(quoted.trim_matches(['"', '\''])).ok_or_else(bad)
    })
}

fn web(at: &At<'_>, place: Place<'_>, report: &mut Report) -> Option<(Ask, Duration)> {
    let fields = report.fields(at, &shape::WEB)?;
    let url = fields.need(report, "url", "say what to ask: `url: https://host/path`");
    let url = url.and_then(|at| report.url(&at, place.declared));
    let words = [("GET", "GET"), ("POST", "POST"), ("PUT", "PUT")];
    let method = fields.get("method").map_or(Some("GET"), |at| report.word(&at, &words));
    let (body_at, json_at) = (fields.get("body"), fields.get("jsonBody"));
    if let (Some(body), Some(json)) = (&body_at, &json_at) {
        report
            .error(Code::Conflict, &json.key_span, "a request has either `body` or `jsonBody`")
            .related(&body.key_span, "the other is here")
            .help("keep one of them");
    }
    if let (Some("GET"), Some(at)) = (method, body_at.as_ref().or(json_at.as_ref())) {
        report.error(Code::Conflict, &at.key_span, "a GET has no body").help("add `method: POST`, or remove the body");
    }
    let body = body_at.map_or(Some(None), |at| report.text_or_empty(&at, place.declared).map(Some));
    let json = json_at.as_ref().map_or(Some(None), |at| json_body(at, place, report).map(Some));
    let path = fields.get("jsonPath").map_or(Some(None), |at| json_path(&at, place, report).map(Some));
    let seconds = fields.get("timeoutSeconds").map_or(Some(10), |at| report.whole(&at, 1..=600));
    let mut http = http(&fields, place, report)?;
    if json_at.is_some() && !http.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        let json = Text::plain("application/json");
        http.headers.push(("content-type".to_owned(), json));
    }
    let body = json?.or(body?);
    let ask = Ask::Web { method: method?, url: url?, body, json_path: path?, http };
    Some((ask, Duration::from_secs(seconds?)))
}

/// Written as YAML, sent as JSON.
fn json_body(at: &At<'_>, place: Place<'_>, report: &mut Report) -> Option<Text> {
    if !matches!(at.node.value, Value::Map(_)) {
        report.wrong_type(at, "a mapping");
        return None;
    }
    report.placed(at, &json(at.node).to_string(), place.declared)
}

/// Numbers, `true`, `false` and `null` are sent as such, also between quotes; everything else is a text.
fn json(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null | Value::Unresolved => serde_json::Value::Null,
        Value::Scalar(scalar) => match serde_json::from_str(&scalar.text) {
            Ok(value @ (serde_json::Value::Number(_) | serde_json::Value::Bool(_) | serde_json::Value::Null)) => value,
            _ => scalar.text.as_str().into(),
        },
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(fields) => fields.iter().map(|field| (field.key.clone(), json(&field.node))).collect(),
    }
}

fn json_path(at: &At<'_>, place: Place<'_>, report: &mut Report) -> Option<Text> {
    let text = report.text(at, "a JSON path such as `{$.data.ok}`", place.declared)?;
    // A path with places can be tried only when they are filled.
    if let Some(path) = text.as_plain() {
        report.scalar(at, "a JSON path", |_| {
            let path = path.trim();
            let path = path.strip_prefix('{').and_then(|path| path.strip_suffix('}')).unwrap_or(path).trim();
            let path = if path.starts_with('$') { path.to_owned() } else { format!("${path}") };
            let help = "write it as `{$.data.items[0].value}`";
            serde_json_path::JsonPath::parse(&path).map_err(|_| Problem::new("is not a JSON path", help))
        })?;
    }
    Some(text)
}

fn exec(at: &At<'_>, place: Place<'_>, report: &mut Report) -> Option<(Ask, Duration)> {
    let fields = report.fields(at, &shape::EXEC)?;
    let command = fields.need(report, "command", "say what to run: `command: [./check.sh, \"{{canary.name}}\"]`");
    let command = command.and_then(|at| {
        let items = report.items(&at, LIST_MAX)?;
        let texts: Vec<_> = items.iter().filter_map(|item| report.text_or_empty(item, place.declared)).collect();
        (texts.len() == items.len()).then_some(texts)
    });
    let env = fields.get("env").map_or(Some(Vec::new()), |at| named_texts(&at, place, report));
    let timeout = fields.get("timeout").map_or(Some(Duration::from_mins(1)), |at| report.duration(&at, EXEC_TIMEOUT));
    Some((Ask::Exec { command: command?, env: env? }, timeout?))
}

/// `{ name: text }`
fn named_texts(at: &At<'_>, place: Place<'_>, report: &mut Report) -> Option<Vec<(String, Text)>> {
    let entries = report.entries(at)?;
    if entries.len() > LIST_MAX {
        report.error(Code::TooLarge, &at.key_span, format!("`{}` has more than {LIST_MAX} entries", at.name));
        return None;
    }
    let texts = entries.iter().map(|field| {
        let text = report.text_or_empty(&at.entry(field), place.declared)?;
        Some((field.key.clone(), text))
    });
    texts.collect::<Vec<_>>().into_iter().collect()
}

fn timeout(fields: &Fields<'_>, default: Duration, report: &mut Report) -> Option<Duration> {
    fields.get("timeout").map_or(Some(default), |at| report.duration(&at, TIMEOUT))
}

/// What every provider over HTTP may have beside its question.
fn http(fields: &Fields<'_>, place: Place<'_>, report: &mut Report) -> Option<Http> {
    let headers = fields.get("headers").map_or(Some(Vec::new()), |at| headers(&at, place, report));
    let bearer_at = fields.get("bearerToken");
    let bearer = bearer_at.as_ref().map_or(Some(None), |at| report.text(at, "a token", place.declared).map(Some));
    let basic_at = fields.get("basicAuth");
    let basic = basic_at.as_ref().map_or(Some(None), |at| basic(at, place, report).map(Some));
    if let (Some(bearer), Some(basic)) = (&bearer_at, &basic_at) {
        report
            .error(Code::Conflict, &basic.key_span, "a request has either `bearerToken` or `basicAuth`")
            .related(&bearer.key_span, "the other is here")
            .help("keep one of them");
    }
    let ca = fields.get("ca").map_or(Some(None), |at| {
        let file = report.filled(&at, "a file of authorities such as `ca.crt`")?;
        Some(Some(place.folder.join(file).display().to_string()))
    });
    let words = [("true", true), ("false", false)];
    let insecure = fields.get("insecure").map_or(Some(false), |at| report.word(&at, &words));
    Some(Http { headers: headers?, auth: bearer?.map(Auth::Bearer).or(basic?), ca: ca?, insecure: insecure? })
}

fn headers(at: &At<'_>, place: Place<'_>, report: &mut Report) -> Option<Vec<(String, Text)>> {
    let items = report.items(at, LIST_MAX)?;
    let read: Vec<_> = items
        .iter()
        .filter_map(|item| {
            let fields = report.fields(item, &shape::HEADER)?;
            let key = fields.need(report, "key", "name the header field: `key: Authorization`");
            let key = key.and_then(|at| message::token(&at, "a header's name", report));
            let value = fields.need(report, "value", "give the header field its value");
            let value = value.and_then(|at| report.text_or_empty(&at, place.declared));
            Some((key?, value?))
        })
        .collect();
    (read.len() == items.len()).then_some(read)
}

fn basic(at: &At<'_>, place: Place<'_>, report: &mut Report) -> Option<Auth> {
    let fields = report.fields(at, &shape::BASIC_AUTH)?;
    let username = fields.need(report, "username", "`basicAuth` has a `username` and a `password`");
    let username = username.and_then(|at| report.text(&at, "a name", place.declared));
    let password = fields.need(report, "password", "`basicAuth` has a `username` and a `password`");
    let password = password.and_then(|at| report.text_or_empty(&at, place.declared));
    Some(Auth::Basic { username: username?, password: password? })
}
