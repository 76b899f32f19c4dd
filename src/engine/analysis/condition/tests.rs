//! Conditions: what is accepted, what is refused and with which words, what they give, and what they cannot break.

use proptest::prelude::*;

use super::*;

fn summary(requests: u64, errors: u64, bucket: u16) -> Summary {
    Summary::new(Counts { requests, errors }, Duration::from_secs(10), LatencyCounts(vec![(bucket, requests)]))
}

fn evaluate(source: &str, args: &[(&str, &str)]) -> Result<bool, ConditionError> {
    let args: Vec<_> = args.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let (canary, stable) = (summary(200, 4, 400), summary(3_800, 38, 380));
    let scope = Scope { result: Seen::Summary(&canary), stable: &stable, canary: &canary, args: &args };
    Condition::parse(source, Shape::Own)?.evaluate(&scope)
}

#[test]
fn conditions_give_verdicts_on_what_was_measured() {
    for source in [
        "result.requests == 200 && result.errors == 4",
        "result.errorRate == 0.02 and result.successRate == 0.98",
        "result.rps == 20",
        "stable.errorRate == 0.01",
        "canary.requests == result.requests",
        "result.p95 <= 2 * stable.p95",
        "result.p95 > stable.p95",
        "result.p50 == result.p999 && result.p75 == result.max && result.p90 == result.p99",
        "result.mean <= result.max",
        "result[\"p99\"] > 0",
        "result?.p99 > 0",
        "result.p95 < asFloat(args.limit)",
        "args[\"service-name\"] == 'web' // a comment",
        "asInt(args.count) in [1, 2, 3]",
        "args.missing == nil",
        "default(args.missing, 7) == 7",
        "let worst = max(result.p99, stable.p99); worst < 10000",
        "all([result.p50, result.p90], # > 0)",
        "any(1..3, {# == 2})",
        "if result.errors > 3 { true } else { false }",
        "result.errors > 3 ? true : false",
        "(result.p95 ?? 0) > 0 || isNaN(result.p95)",
        "args.name matches '^w.b$' or args[\"service-name\"] startsWith \"w\"",
        "/* all of it */ true",
    ] {
        let args = [("limit", "5000"), ("service-name", "web"), ("count", "2"), ("name", "web")];
        assert_eq!(evaluate(source, &args), Ok(true), "{source}");
    }
    assert_eq!(evaluate("result.errorRate > 0.05", &[]), Ok(false));
}

#[test]
fn what_can_give_no_verdict_is_refused_and_the_words_help() {
    for (source, words) in [
        ("", "expected"),
        ("result.p95 <", "expected"),
        ("result.p95", "not true or false"),
        ("1", "not true or false"),
        ("nil", "not true or false"),
        ("reslt.p95 < 500", "unknown variable `reslt`; there are result, stable, canary and args"),
        ("true || reslt.p95 < 500", "unknown variable `reslt`"),
        ("result.p96 < 500", "`result` has no `p96`; it has requests, errors"),
        ("false && stable[\"p96\"] < 500", "`stable` has no `p96`"),
        ("isNan(result.p95)", "unknown function `isNan`; there are abs, all"),
        ("true || nope()", "unknown function `nope`"),
        ("result.p95.round() > 1", "`.round()`"),
        ("result.p95 < '500'", "fails on every typical result: Invalid operands for operator <"),
        ("result[0] >= 0.95", "fails on every typical result"),
        ("result >= 0.95", "fails on every typical result"),
        ("result.p95 < args.limit", "fails on every typical result"),
        ("args == nil", "`args` needs a name"),
        ("$env.result == nil", "unknown variable `$env`"),
        ("{a: 1} == nil", "a map cannot be written"),
        ("len({\"a\": result}) > 0", "a map cannot be written"),
        ("{/* */ a // b\n : 1} == nil", "a map cannot be written"),
        ("len(1..1000000000) > 0", "a range needs two plain numbers"),
        ("len(0..9 * 1000000000) > 0", "a range needs two plain numbers"),
        ("len(0..result.requests) > 0", "a range needs two plain numbers"),
        ("len(-1000000000..1) > 0", "a range needs two plain numbers"),
        ("len(repeat('x', 1000000)) > 0", "unknown function `repeat`"),
        ("reduce(1..9, #acc + #, 0) > 0", "unknown function `reduce`"),
        ("now() > 0", "unknown function `now`"),
        ("args.name matches '('", "regex parse error"),
        ("result.p95 < 500 Ω", "expected"),
        ("'unclosed", "expected"),
        ("99999999999999999999 > 1", "invalid integer literal"),
    ] {
        let error = Condition::parse(source, Shape::Own).expect_err(source).to_string();
        assert!(error.contains(words), "{source}: {error}");
    }
}

#[test]
fn limits_are_named() {
    let chain = |times: usize| format!("true{}", " && true".repeat(times));
    assert!(Condition::parse(&chain(63), Shape::Own).is_ok());
    for (source, words) in [
        (format!("{}true", " ".repeat(4_096)), "bytes; at most 4096"),
        (chain(64), "words and signs; at most 128"),
        (format!("{}true{}", "(".repeat(17), ")".repeat(17)), "nested too deeply"),
        ("[[[[[1]]]]] == nil".to_owned(), "nested too deeply"),
        ("sum([]) + sum([]) + sum([]) > 0".to_owned(), "at most 2 of these"),
        ("let a=1;let b=1;let c=1;let d=1;let e=1; true".to_owned(), "variables of its own; at most 4"),
    ] {
        let error = Condition::parse(&source, Shape::Own).expect_err(&source).to_string();
        assert!(error.contains(words), "{source}: {error}");
    }
}

/// Everything the limits allow fits a small stack and little time, also in a build without optimisation.
#[test]
fn the_worst_that_is_allowed_neither_overflows_the_stack_nor_takes_long() {
    let worst = [
        format!("true{}", " && true".repeat(63)),
        format!("true{}", " == true".repeat(63)),
        format!("1{} > 0", "**1".repeat(62)),
        format!("nil{} == nil", " ?? nil".repeat(62)),
        format!("true{}", " ? true : true".repeat(31)),
        format!("{}true{}", "true ? true : ".repeat(31), ""),
        format!("{}true {}", "if true { true } else ".repeat(20), "").replace("else true", "else { true }"),
        format!("result{} == nil", "?.x".repeat(62).replacen("?.x", "?.p50", 1)),
        format!("{}true{}", "(".repeat(16), ")".repeat(16)),
        format!("{}true{}", "!(".repeat(16), ")".repeat(16)),
        format!("{}1{} > 0", "max(".repeat(16), ")".repeat(16)),
        format!("1{} > 0", " | max()".repeat(31)),
        "[[[[1]]]][[[[0]][0]][0][0]] == nil".to_owned(),
        "len(map(0..31, {map(0..31, {0..31})})) > 0".to_owned(),
        "let a = map(0..31, {0..31}); let b = map(a, {a}); len(b) > 0".to_owned(),
    ];
    let small = std::thread::Builder::new().stack_size(1536 * 1024);
    let work = move || {
        for source in worst {
            assert!(
                Condition::parse(&source, Shape::Own).is_ok(),
                "{source}: {:?}",
                Condition::parse(&source, Shape::Own)
            );
        }
    };
    small.spawn(work).unwrap().join().unwrap();
}

#[test]
fn a_missing_version_makes_a_comparison_fail_rather_than_pass() {
    let condition = Condition::parse("result.p95 <= 1.2 * stable.p95", Shape::Own).unwrap();
    let (some, none) = (summary(10, 0, 300), Summary::empty());
    let scope = Scope { result: Seen::Summary(&some), stable: &none, canary: &some, args: &[] };
    assert!(condition.evaluate(&scope).is_err());
    assert_eq!(condition.subjects(), [Subject::Result, Subject::Stable]);
    assert_eq!(condition.values(&scope)[1], "stable.p95 = unknown");
}

#[test]
fn values_are_shown_with_their_units() {
    let summary =
        Summary::new(Counts { requests: 400, errors: 5 }, Duration::from_secs(16), LatencyCounts(vec![(300, 400)]));
    let scope = Scope { result: Seen::Summary(&summary), stable: &summary, canary: &summary, args: &[] };
    let condition =
        Condition::parse("result.errorRate < 1 && result.rps > 0 && canary.requests > 1 && stable.p99 > 0", Shape::Own);
    let shown = condition.unwrap().values(&scope);
    let wanted = ["result.errorRate = 1.25 %", "result.rps = 25.0", "canary.requests = 400", "stable.p99 = 11.5 ms"];
    assert_eq!(shown, wanted);
}

#[test]
fn conditions_are_equal_by_their_text() {
    let (a, b) = (
        Condition::parse("result.p95 < 5", Shape::Own).unwrap(),
        Condition::parse("result.p95 < 5", Shape::Own).unwrap(),
    );
    assert_eq!(a, b);
    assert_ne!(a, Condition::parse("result.p95 < 6", Shape::Own).unwrap());
}

/// Words that make up conditions, thrown together.
fn scraps() -> impl Strategy<Value = String> {
    let scrap = prop::sample::select(vec![
        "result",
        "stable.p95",
        "args.a",
        "1",
        "0.5",
        "-",
        "9223372036854775807",
        "'x'",
        "b'\\xff'",
        "`",
        "\"\\ud800\"",
        "nil",
        "true",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        ";",
        "?",
        "??",
        "?.",
        ".",
        "..",
        "#",
        "#acc",
        "|",
        "!",
        "not",
        "in",
        "not in",
        "==",
        "<",
        ">=",
        "+",
        "*",
        "**",
        "/",
        "%",
        "&&",
        "or",
        "let x =",
        "x",
        "if",
        "else",
        "len(",
        "all(",
        "map(",
        "max(",
        "int(",
        "string(",
        "first(",
        "take(",
        "median(",
        "find(",
        "sum(",
        "asInt(",
        "matches",
        "contains",
        "//",
        "/*",
        "ä",
        "0x",
        "1e",
        "1_",
        "type(",
        "indexOf(",
        "[:",
        ":]",
        "-1]",
    ]);
    prop::collection::vec(scrap, 0..14).prop_map(|scraps| scraps.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn no_text_breaks_the_evaluator(text in prop_oneof![scraps(), ".{0,60}"]) {
        match Condition::parse(&text, Shape::Own) {
            Ok(condition) => {
                let empty = Summary::empty();
                let scope = Scope { result: Seen::Summary(&empty), stable: &empty, canary: &empty, args: &[] };
                let verdict = condition.evaluate(&scope);
                prop_assert!(!verdict.is_err_and(|error| error.0.contains("broke down")), "{}", text);
            }
            Err(error) => prop_assert!(!error.0.contains("broke down"), "{}: {}", text, error),
        }
    }
}
