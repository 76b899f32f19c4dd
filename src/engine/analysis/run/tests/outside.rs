//! Metrics that somebody else is asked about: what is asked, how an answer is judged (rows E of lists and NaN), and that
//! a provider's outage is an Error with patience. Runs that are told to end (rows T).

use super::*;
use crate::engine::analysis::{
    answer::Answer,
    ask::{Ask, Http, Part, SecretSource},
};

const TIMEOUT: Duration = Duration::from_secs(30);

fn asking(success: &str, failure: &str) -> MetricPlan {
    let condition = |text: &str| (!text.is_empty()).then(|| Condition::parse(text, Shape::Anything).unwrap());
    let query = vec![
        Part::Plain("up{v=\"".to_owned()),
        Part::BuiltIn(BuiltIn::Canary),
        Part::Plain("\"}".to_owned()),
        Part::Secret(SecretSource::Env("TOKEN".to_owned())),
    ];
    let ask =
        Ask::Prometheus { address: Text::plain("http://p"), query: Text(query), range: None, http: Http::default() };
    MetricPlan {
        success: condition(success),
        failure: condition(failure),
        provider: Provider::Outside { ask: Box::new(ask), timeout: TIMEOUT },
        ..lettered("m")
    }
}

fn quiet(_: &Arm, _: Duration) -> Summary {
    traffic(10, 0)
}

/// Starts a run, asks, and answers; the verdict and its reason.
fn judged(plan: &MetricPlan, reply: &Result<Reply, String>) -> (Verdict, String) {
    let mut run = AnalysisRun::start(&[template(vec![plan.clone()])], 1, START);
    assert_eq!(run.advance(START, facts(&quiet)).len(), 1);
    let later = START + Duration::from_millis(40);
    run.answered("m", START, reply, later, facts(&quiet));
    let (_, measurements) = run.measurements().next().unwrap();
    let only = measurements.front().unwrap();
    assert_eq!((only.at, only.finished), (START, later));
    (only.verdict, only.in_words())
}

#[test]
fn answers_are_judged_as_in_table_e() {
    use Verdict::{Error, Failed, Inconclusive, NoData, Successful};
    let number = |number: f64| Answer::Number(number);
    let list = |numbers: &[f64]| Answer::numbers(numbers.iter().copied());
    let text = |text: &str| Answer::Text(text.to_owned());
    let nan = f64::NAN;
    for (id, answer, success, failure, verdict) in [
        ("E1", number(0.99), "result >= 0.95", "", Successful),
        ("E2", number(0.90), "result >= 0.95", "", Failed),
        ("E3", number(0.01), "", "result > 0.05", Successful),
        ("E4", number(0.06), "", "result > 0.05", Failed),
        ("E5", number(0.70), "result >= 0.9", "result < 0.5", Inconclusive),
        ("E6", number(0.40), "result >= 0.9", "result < 0.5", Failed),
        ("E8", text("anything"), "", "", Successful),
        ("E9: a ratio of nothing does not fail", number(nan), "result >= 0.95", "", NoData),
        ("E10: no traffic does not pass", number(nan), "", "result > 0.05", NoData),
        ("E11", list(&[nan]), "result[0] >= 0.95", "result[0] < 0.90", NoData),
        ("E9 by its own words", number(nan), "isNaN(result) || result >= 0.95", "", Successful),
        ("E13", number(f64::INFINITY), "result >= 0.95", "", Successful),
        ("E14: absent data is no fault", list(&[]), "result[0] >= 0.95", "", NoData),
        ("E15", list(&[]), "", "result[0] > 0.05", NoData),
        ("E17", list(&[]), "len(result) > 0 && result[0] >= 0.95", "", Failed),
        ("E18", list(&[]), "", "len(result) > 0 && result[0] > 0.05", Successful),
        ("E20", text("abc"), "result >= 0.95", "", Error),
        ("E21", number(0.99), "result + 1", "", Error),
        ("nil", Answer::Nil, "result > 1", "", NoData),
        ("nil by its own words", Answer::Nil, "default(result, 0) <= 1", "", Successful),
        ("both versions beside it", number(3.0), "result < canary.requests && stable.errors == 0", "", Successful),
    ] {
        // The check at the door refuses E21; here it stands for whatever passes it.
        let Ok(_) = Condition::parse(if success.is_empty() { "true" } else { success }, Shape::Anything) else {
            assert_eq!(id, "E21");
            continue;
        };
        let (got, words) = judged(&asking(success, failure), &Ok(Reply::Value(answer)));
        assert_eq!(got, verdict, "{id}: {words}");
    }
    let (verdict, words) = judged(&asking("result > 1", ""), &Err("cannot reach p:80: refused".to_owned()));
    assert_eq!(verdict, Error);
    assert!(words.starts_with("cannot reach p:80: refused; canary 10 requests"), "{words}");
    let (verdict, words) = judged(&asking("", ""), &Ok(Reply::Failed("exit code 3".to_owned())));
    assert_eq!((verdict, words.starts_with("exit code 3")), (Failed, true));
}

#[test]
fn the_value_and_the_limit_are_told() {
    let (_, words) = judged(&asking("result[0] >= 0.95", ""), &Ok(Reply::Value(Answer::numbers([0.5]))));
    assert!(words.starts_with("result = [0.5]; successCondition `result[0] >= 0.95` is false; canary 10"), "{words}");
}

#[test]
fn a_question_has_the_names_of_the_moment_and_no_secret() {
    let mut run = AnalysisRun::start(&[template(vec![asking("result > 1", "")])], 1, START);
    let wanted = run.advance(START, facts(&quiet));
    let [Wanted { metric, ask: Ask::Prometheus { query, .. }, timeout }] = &wanted[..] else { panic!("{wanted:?}") };
    assert_eq!((metric.as_str(), *timeout), ("m", TIMEOUT));
    assert_eq!(query.0[1], Part::Plain("<canary.name>".to_owned()));
    assert!(query.is_secret(), "a secret is filled in by who asks");
}

#[test]
fn an_outage_is_an_error_after_forty_seconds_whatever_the_interval() {
    for interval in [None, Some(1), Some(5), Some(300)] {
        let plan = MetricPlan { interval: interval.map(seconds), count: Some(3), ..asking("result > 1", "") };
        let mut run = AnalysisRun::start(&[template(vec![plan])], 1, START);
        let mut now = START;
        while run.phase() == AnalysisPhase::Running {
            now = run.deadline().unwrap();
            run.advance(now, facts(&quiet));
            run.answered("m", now, &Err("down".to_owned()), now, facts(&quiet));
        }
        assert_eq!((run.phase(), now.since(START).as_secs()), (AnalysisPhase::Error, 40), "{interval:?}");
        assert!(run.deciding().unwrap().1.starts_with("errors in a row: 5, allowed 4; down"));
    }
}

#[test]
fn an_answer_that_never_comes_is_an_error_and_one_to_an_old_question_is_dropped() {
    let mut run = AnalysisRun::start(&[template(vec![asking("result > 1", "")])], 1, START);
    run.advance(START, facts(&quiet));
    let given_up = run.deadline().unwrap();
    assert!(given_up > START + TIMEOUT);
    assert_eq!(run.advance(given_up, facts(&quiet)), []);
    let late = Ok(Reply::Value(Answer::Number(7.0)));
    run.answered("m", START, &late, given_up, facts(&quiet));
    let record = run.record(Revision(1), RunKind::Step);
    let tally = record.metrics[0].tally;
    assert_eq!((tally.error, tally.count, run.phase()), (1, 0, AnalysisPhase::Running));
    assert_eq!(record.metrics[0].measurements[0].why, "no answer came in time");
}

#[test]
fn runs_told_to_end_are_terminated_as_in_table_t() {
    use AnalysisPhase::{Failed, Terminated};
    let every_minute = |count| MetricPlan { interval: Some(seconds(60)), count: Some(count), ..lettered("m") };
    let delayed = MetricPlan { initial_delay: seconds(300), ..lettered("m") };
    for (id, plan, sequence, seconds_in, phase, successful) in [
        ("T1", delayed, "", 30, Terminated, 0),
        ("T3", every_minute(10), "S", 240, Terminated, 5),
        ("T6", every_minute(10), "F", 240, Failed, 0),
    ] {
        let mut run = AnalysisRun::start(&[template(vec![plan])], 1, START);
        let read = |_: &Arm, _: Duration| letter(sequence.chars().next().unwrap());
        for second in 0..=seconds_in {
            run.advance(START + seconds(second), facts(&read));
        }
        run.terminate("terminated by a person", START + seconds(seconds_in));
        let record = run.record(Revision(1), RunKind::Step);
        assert_eq!((run.phase(), run.deadline()), (phase, None), "{id}");
        assert_eq!(record.metrics[0].tally.successful, successful, "{id}");
    }
    let mut in_flight = AnalysisRun::start(&[template(vec![asking("result > 1", "")])], 1, START);
    in_flight.advance(START, facts(&quiet));
    in_flight.terminate("terminated by a person", START);
    in_flight.answered("m", START, &Err("late".to_owned()), START + seconds(1), facts(&quiet));
    assert_eq!(in_flight.phase(), Terminated, "T5: an answer under way changes nothing");
}

#[test]
fn a_run_that_goes_on_after_another_measures_one_interval_later() {
    let plan = MetricPlan { interval: Some(seconds(60)), initial_delay: seconds(300), ..lettered("m") };
    let run = AnalysisRun::go_on(&[template(vec![plan])], 1, START);
    assert_eq!(run.deadline(), Some(START + seconds(60)));
}
