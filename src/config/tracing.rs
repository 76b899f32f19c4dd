//! Traces of requests: which, and for whom. Refuses a collector that cannot be asked, and credentials within its URL, which
//! messages would show.

use http::Uri;

use super::{
    gate, notify,
    report::{At, Problem, Report},
    settings::Tracing,
    shape,
    yaml::Value,
};
use crate::engine::weight::Weight;

/// What OTLP over HTTP calls the address of traces.
const PATH: &str = "/v1/traces";
/// One request of a hundred.
const SAMPLE_DEFAULT: u32 = 10_000;

/// None when it is off, or wrong.
pub fn tracing(at: &At<'_>, report: &mut Report) -> Option<Tracing> {
    let fields = report.fields(at, &shape::TRACING)?;
    let otlp = fields.need(report, "otlp", "say whom to send them to: `otlp: http://collector:4318`");
    let is_off = otlp.as_ref().is_some_and(|at| matches!(&at.node.value, Value::Scalar(of) if of.text.is_empty()));
    let otlp = otlp.filter(|_| !is_off).and_then(|at| collector(&at, report));
    let sample = fields.get("sample").map_or_else(|| Weight::from_ppm(SAMPLE_DEFAULT).ok(), |at| report.share(&at));
    let headers = fields.get("headers").map(|at| gate::headers(&at, report)).unwrap_or_default();
    Some(Tracing { otlp: otlp?, sample: sample?, headers })
}

fn collector(at: &At<'_>, report: &mut Report) -> Option<Uri> {
    let written = notify::url(at, report)?;
    report.scalar(at, "a URL such as `http://collector:4318`", |_| {
        let uri = |text: &str| text.parse::<Uri>().ok().filter(|uri| uri.query().is_none());
        let plain = uri(&written).ok_or_else(|| Problem::new("is not a collector's URL", "leave the query out"))?;
        if plain.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            let help = "put them into `headers: { authorization: … }`, from a variable";
            return Err(Problem::new("has a user or a password, which messages would show", help));
        }
        if plain.path().ends_with(PATH) {
            return Ok(plain);
        }
        let whole = uri(&format!("{}{PATH}", written.trim_end_matches('/')));
        whole.ok_or_else(|| Problem::new("is not a collector's URL", "write `http://collector:4318`"))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::{check, parse};

    fn file(tracing: &str) -> String {
        format!(
            "listen: 127.0.0.1:1\nservices: {{ web: {{ versions: {{ v1: http://a:80 }}, stable: v1 }} }}\ntracing: {tracing}\n"
        )
    }

    #[test]
    fn a_collector_is_asked_where_otlp_says() {
        for (written, whole) in [
            ("http://c:4318", "http://c:4318/v1/traces"),
            ("http://c:4318/", "http://c:4318/v1/traces"),
            ("https://c/otlp", "https://c/otlp/v1/traces"),
            ("https://c/x/v1/traces", "https://c/x/v1/traces"),
        ] {
            let config = parse(&file(&format!("{{ otlp: \"{written}\" }}")), Path::new("s.yaml"), &|_| None).unwrap();
            let tracing = config.tracing.unwrap();
            assert_eq!((tracing.otlp.to_string().as_str(), tracing.sample.ppm()), (whole, 10_000));
        }
        let off = parse(&file("{ otlp: \"\", sample: 5% }"), Path::new("s.yaml"), &|_| None).unwrap();
        assert_eq!(off.tracing, None);
    }

    #[test]
    fn what_cannot_be_asked_is_refused_and_secrets_are_not_shown() {
        for wrong in [
            "{}",
            "{ otlp: \"c:4318\" }",
            "{ otlp: \"http://c:4318?x=1\" }",
            "{ otlp: \"http://u:hunter2@c\" }",
            "{ otlp: \"http://c\", sample: 101% }",
            "{ otlp: \"http://c\", headers: { authorization: hunter2 }, sampel: 1% }",
            "{ otlp: \"http://c\", headers: { \"a b\": hunter2 } }",
        ] {
            let checked = check(&file(wrong), Path::new("s.yaml"), &|_| None);
            assert!(checked.config.is_none(), "{wrong}");
            assert!(!checked.diagnostics.to_string().contains("hunter2"), "{}", checked.diagnostics);
        }
    }
}
