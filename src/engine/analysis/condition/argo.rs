//! Conditions as people write them for Argo Rollouts, each with the result that it meets and what Argo says: true, false,
//! or a fault. One table, so that a change of the language underneath is seen.

use super::*;

fn list(numbers: &[f64]) -> Answer {
    Answer::numbers(numbers.iter().copied())
}

fn text(text: &str) -> Answer {
    Answer::Text(text.to_owned())
}

fn map(fields: &[(&str, Answer)]) -> Answer {
    Answer::Map(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

fn verdict(source: &str, answer: &Answer) -> Option<bool> {
    let empty = Summary::empty();
    let args = [("threshold", "0.95"), ("count", "3"), ("service-name", "web")];
    let args: Vec<_> = args.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let scope = Scope { result: Seen::Answer(answer), stable: &empty, canary: &empty, args: &args };
    Condition::parse(source, Shape::Anything).ok()?.evaluate(&scope).ok()
}

const YES: Option<bool> = Some(true);
const NO: Option<bool> = Some(false);
const FAULT: Option<bool> = None;

type Row = (&'static str, Answer, Option<bool>);

/// A number or a list of them, of which there may be none.
fn on_numbers() -> Vec<Row> {
    let (nan, infinite) = (f64::NAN, f64::INFINITY);
    vec![
        ("result[0] >= 0.95", list(&[0.97]), YES),
        ("result[0] >= 0.95", list(&[0.5]), NO),
        ("result[0] >= 0.95", list(&[]), FAULT),
        ("result[0] >= 0.95", list(&[nan]), NO),
        ("result[0] >= 0.95", list(&[infinite]), YES),
        ("result[0] >= 0.95", Answer::Number(0.97), FAULT),
        ("result >= 0.95", Answer::Number(0.97), YES),
        ("result >= 0.95", list(&[0.97]), FAULT),
        ("result >= 0.95", text("abc"), FAULT),
        ("result >= 0.95", Answer::Nil, FAULT),
        ("result > 0.05", Answer::Number(nan), NO),
        ("result < 0.05", Answer::Number(-infinite), YES),
        ("len(result) > 0 && result[0] >= 0.95", list(&[]), NO),
        ("len(result) > 0 && result[0] >= 0.95", list(&[0.97]), YES),
        ("len(result) == 0 || result[0] < 0.05", list(&[]), YES),
        ("len(result) == 0 || result[0] < 0.05", list(&[0.2]), NO),
        ("len(result) == 0 || isNaN(result[0]) || result[0] > 0.9", list(&[nan]), YES),
        ("isNaN(result[0])", list(&[nan]), YES),
        ("isNaN(result)", Answer::Number(1.0), NO),
        ("isNaN(result)", text("abc"), FAULT),
        ("!isNaN(result[0]) && result[0] > 0.9", list(&[nan]), NO),
        ("isInf(result[0])", list(&[infinite]), YES),
        ("isInf(result)", Answer::Number(0.0), NO),
        ("isNil(result)", Answer::Nil, YES),
        ("isNil(result)", Answer::Number(0.0), NO),
        ("isNil(result)", Answer::Bool(false), NO),
        ("result == nil", Answer::Nil, YES),
        ("default(result, 0) == 0", Answer::Nil, YES),
        ("default(result, 0) == 1", Answer::Number(1.0), YES),
        ("default(result, 0) < 0.05", list(&[]), FAULT),
        ("asFloat(result) >= 0.95", text("0.97"), YES),
        ("asFloat(result) >= 0.95", text("abc"), FAULT),
        ("asFloat(result) == 1", Answer::Integer(1), YES),
        ("asFloat(result) == 1.1", Answer::Number(1.1), YES),
        ("asFloat(result) == 1.1", text("1.1"), YES),
        ("asInt(result) == 1", text("1"), YES),
        ("asInt(result) == 1", Answer::Number(1.123), YES),
        ("asInt(result) == 1.1", text("1.1"), FAULT),
        ("asInt(result) > 2", text("notint"), FAULT),
    ]
}

/// Texts, truths, lists as a whole, and JSON.
fn on_anything() -> Vec<Row> {
    let nested =
        map(&[("service_apdex", map(&[("label", Answer::Nil), ("values", map(&[("values", list(&[2.0, 2.0]))]))]))]);
    let series = Answer::List(vec![
        map(&[("Id", text("rate")), ("Values", list(&[0.01, 0.0]))]),
        map(&[("Id", text("count")), ("Values", list(&[40.0]))]),
    ]);
    let health = map(&[("ok", Answer::Bool(true)), ("status", text("green")), ("errors", Answer::Integer(3))]);
    vec![
        ("result == true", Answer::Bool(true), YES),
        ("result == false", Answer::Bool(true), NO),
        ("result", Answer::Bool(true), YES),
        ("!result", Answer::Bool(true), NO),
        ("result", Answer::Number(1.0), FAULT),
        ("result == 'ok'", text("ok"), YES),
        ("result == \"ok\"", text("down"), NO),
        ("result != 'ok'", text("down"), YES),
        ("result in ['ok', 'green']", text("green"), YES),
        ("result in ['ok', 'green']", text("red"), NO),
        ("result not in ['red']", text("green"), YES),
        ("result contains 'ok'", text("all ok"), YES),
        ("result startsWith 'all'", text("all ok"), YES),
        ("result endsWith 'ok'", text("all ok"), YES),
        ("result matches '^a.*k$'", text("all ok"), YES),
        ("2 in result", list(&[2.0, 3.0]), YES),
        ("4 in result", list(&[2.0, 3.0]), NO),
        ("all(result, {# > 1})", list(&[2.0, 3.0]), YES),
        ("all(result, {# > 2})", list(&[2.0, 3.0]), NO),
        ("all(result, {# > 1})", list(&[]), YES),
        ("any(result, {# > 2})", list(&[2.0, 3.0]), YES),
        ("any(result, # > 2)", list(&[]), NO),
        ("none(result, {# > 5})", list(&[2.0, 3.0]), YES),
        ("one(result, {# > 2})", list(&[2.0, 3.0]), YES),
        ("count(result, {# > 1}) == 2", list(&[2.0, 3.0]), YES),
        ("len(filter(result, {# > 2})) == 1", list(&[2.0, 3.0]), YES),
        ("sum(result) == 5", list(&[2.0, 3.0]), YES),
        ("max(result) < 4", list(&[2.0, 3.0]), YES),
        ("min(result) > 2", list(&[2.0, 3.0]), NO),
        ("mean(result) == 2.5", list(&[2.0, 3.0]), YES),
        ("first(result) < last(result)", list(&[2.0, 3.0]), YES),
        ("abs(result[0]) < 3", list(&[-2.0]), YES),
        ("round(result) == 3", Answer::Number(2.6), YES),
        ("all(result.service_apdex.values.values, {# > 1})", nested.clone(), YES),
        ("result.service_apdex.label == nil", nested, YES),
        ("all(result[0].Values, {# <= 0.01})", series.clone(), YES),
        ("all(result[0].Values, {# <= 0.001})", series.clone(), NO),
        ("len(result[1].Values) == 1 && result[1].Values[0] > 30", series.clone(), YES),
        ("result[2].Values[0] > 30", series, FAULT),
        ("result.ok && result.errors < 5", health.clone(), YES),
        ("result.status == 'green' and not (result.errors > 5)", health.clone(), YES),
        ("result.absent == nil", health.clone(), YES),
        ("result.absent > 3", health.clone(), FAULT),
        ("result['status'] == 'green'", health.clone(), YES),
        ("(result.absent ?? 0) < 1", health, YES),
        ("result >= asFloat(args.threshold)", Answer::Number(0.97), YES),
        ("result[0] < asInt(args.count)", list(&[2.0]), YES),
        ("args['service-name'] == 'web' && result > 0", Answer::Integer(1), YES),
        ("result > 0.9 ? true : false", Answer::Number(0.97), YES),
        ("result > 0 && result < 1 || result == 7", Answer::Integer(7), YES),
        ("result + 1", Answer::Number(0.99), FAULT),
        ("result[0] >= 0.95 &&", list(&[1.0]), FAULT),
        ("invalidVariable", Answer::Bool(true), FAULT),
        ("result.Name() == 'hi'", Answer::Bool(true), FAULT),
    ]
}

#[test]
fn argos_conditions_give_argos_verdicts() {
    let rows = [on_numbers(), on_anything()].concat();
    assert!(rows.len() >= 80, "{}", rows.len());
    let wrong: Vec<String> = rows
        .iter()
        .map(|(source, answer, says)| (source, answer, says, verdict(source, answer)))
        .filter(|(_, _, says, got)| **says != *got)
        .map(|(source, answer, says, got)| format!("{source} on {}: {got:?}, not {says:?}", answer.in_words()))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_can_give_no_verdict_on_numbers_is_refused_at_the_door() {
    for (source, words) in [
        ("result[0]", "not true or false"),
        ("result + 1", "not true or false"),
        ("len(result)", "not true or false"),
        ("result == 'ok' + 1", "fails on every typical result"),
        ("reslt[0] > 1", "unknown variable `reslt`"),
        ("isNan(result[0])", "unknown function `isNan`"),
    ] {
        let error = Condition::parse(source, Shape::Numbers).expect_err(source).to_string();
        assert!(error.contains(words), "{source}: {error}");
    }
    for source in ["result[0] > 1", "result > 1", "all(result, {# > 1})", "default(result, 0) > 1"] {
        assert!(Condition::parse(source, Shape::Numbers).is_ok(), "{source}");
    }
    let wants = |source: &str| Condition::parse(source, Shape::Numbers).unwrap().wants_a_plain_number();
    assert!(wants("result > 1") && !wants("result[0] > 1") && !wants("len(result) > 0 && result[0] > 1"));
}
