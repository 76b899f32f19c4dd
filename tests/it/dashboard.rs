//! The dashboard as plain HTTP: pages, the way in, forms, and what strangers try. A real browser is in `browser`.
#![expect(clippy::unwrap_used, reason = "a scenario that cannot go on fails")]

use serin::engine::{
    event::{Cause, EventKind},
    input::Verb,
    names::Revision,
    view::ServiceView,
};

use crate::stage::{self, Answer, Setting, Stage, WRITE};

const HTML: (&str, &str) = ("accept", "text/html,*/*");
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

fn page(stage: &Stage, path: &str) -> Answer {
    stage.ask("GET", path, &[HTML], "")
}

/// Logs in and gives the cookie.
fn log_in(stage: &Stage, token: &str, actor: &str) -> String {
    let answer = stage.ask("POST", "/login", &[FORM, HTML], &format!("token={token}&actor={actor}&next=/"));
    assert_eq!(answer.status, 303, "{}", answer.body);
    let cookie = answer.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    for wanted in ["httponly", "samesite=strict", "path=/"] {
        assert!(cookie.contains(wanted), "{cookie}");
    }
    // `head` is in lower case, and the cookie's value is not.
    let exact = answer.exact_head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    exact.split(';').next().unwrap().to_owned()
}

/// The hidden field of that name.
fn field(page: &Answer, name: &str) -> String {
    let from = page.body.split_once(&format!("name=\"{name}\" value=\"")).unwrap().1;
    from.split('"').next().unwrap().to_owned()
}

fn deed(stage: &Stage, cookie: &str, path: &str, body: &str) -> Answer {
    stage.ask("POST", path, &[FORM, HTML, ("cookie", cookie)], body)
}

#[test]
fn the_first_screen_answers_the_night_questions_in_a_small_page_of_its_own() {
    let stage = Stage::progressing();
    let page = page(&stage, "/");
    assert_eq!(page.status, 200);
    for words in [
        "Is it us?",
        "Nothing points at v2 so far",
        "What changed, and who?",
        "by the config file (revision 7)",
        "Who is hurt?",
        "v2: 1 of 371 requests failed",
        "Stop v2",
        "href=\"/services/web/abort\"",
        "4.97%",
        "pause 2m",
        "Evidence that v2 has more than its share",
        "stays at 5%, step 4 of 6",
        "<noscript><meta http-equiv=\"refresh\"",
    ] {
        assert!(page.body.contains(words), "{words} in {}", page.body);
    }
    assert!(page.body.len() <= 60 * 1024, "{}", page.body.len());
    assert!(!page.body.contains("style=") && !page.body.contains("http://") && !page.body.contains("https://"));
    assert!(page.head.contains("content-security-policy: default-src 'none'; style-src 'self'; script-src 'self'"));
    let script = stage.get("/live.js");
    assert!(script.head.contains("content-type: text/javascript"));
    assert!(script.body.len() <= 12 * 1024);
    assert!(stage.get("/style.css").head.contains("content-type: text/css"));
}

#[test]
fn every_phase_has_its_page_and_several_services_a_table() {
    for (service, history, words) in [
        (stage::paused(), stage::paused_history(), "Go on"),
        (stage::degraded(), stage::aborted_history(), "Measured share 0.0%: 0 of 900 requests in the last 12s."),
        (stage::degraded(), stage::lopsided_history(), "It was v2, stopped 12s ago"),
        (stage::healthy(), stage::history(), "No rollout is running"),
    ] {
        let stage = Stage::new(vec![service], history, Setting::default());
        let page = page(&stage, "/services/web");
        assert!(page.body.contains(words), "{words} in {}", page.body);
    }
    let other = ServiceView { name: serin::engine::names::ServiceName::new("api").unwrap(), ..stage::degraded() };
    let stage = Stage::new(vec![stage::progressing(), other], stage::history(), Setting::default());
    let body = page(&stage, "/").body;
    assert!(body.find("/services/api").unwrap() < body.find("/services/web").unwrap(), "what is wrong stands first");
    assert_eq!(page(&stage, "/services/nope").status, 404);
    let refused = Setting { config_error: Some("error: <b>unknown</b> field"), ..Setting::default() };
    let body = page(&Stage::new(vec![stage::healthy()], vec![], refused), "/").body;
    assert!(body.contains("The config file was refused") && body.contains("&lt;b&gt;unknown"), "{body}");
}

#[test]
fn a_button_leads_over_the_login_and_a_question_to_a_command_with_actor_and_reason() {
    let stage = Stage::progressing();
    let first = page(&stage, "/services/web/abort");
    assert_eq!(first.status, 303);
    assert!(first.head.contains("location: /login?next=/services/web/abort"), "{}", first.head);
    assert!(page(&stage, "/login?next=/services/web/abort").body.contains("value=\"/services/web/abort\""));
    let cookie = log_in(&stage, WRITE, "ann");
    let question = stage.ask("GET", "/services/web/abort", &[HTML, ("cookie", &cookie)], "");
    assert!(question.body.contains("5% → 0%: v2 is withdrawn at once, v1 takes all requests."), "{}", question.body);
    let form = field(&question, "form");
    assert_eq!(field(&question, "revision"), "7");
    assert!(stage.commands.lock().unwrap().is_empty(), "a question changes nothing");
    let done = deed(&stage, &cookie, "/services/web/abort", &format!("form={form}&revision=7&reason=too+slow"));
    assert_eq!(done.status, 303, "{}", done.body);
    assert!(done.head.contains("location: /services/web"));
    let command = stage.commands.lock().unwrap()[0].clone();
    assert_eq!((command.verb, command.expect_revision), (Verb::Abort, Some(Revision(7))));
    assert_eq!((command.actor.as_str(), command.reason.as_str()), ("ann", "too slow"));

    let late = deed(&stage, &cookie, "/services/web/abort", &format!("form={form}&revision=6&reason="));
    assert_eq!(late.status, 409, "another rollout than the one that was looked at");
    let full = stage.ask("GET", "/services/web/promote?full=true", &[HTML, ("cookie", &cookie)], "");
    assert!(full.body.contains("becomes stable now"));
    let form = field(&full, "form");
    deed(&stage, &cookie, "/services/web/promote", &format!("form={form}&revision=7&full=true"));
    assert_eq!(stage.commands.lock().unwrap().last().unwrap().verb, Verb::Promote { full: true, force: false });
    assert_eq!(stage.ask("GET", "/services/web/retry", &[HTML, ("cookie", &cookie)], "").status, 409);

    let out = deed(&stage, &cookie, "/logout", &format!("form={form}"));
    assert!(out.head.contains("max-age=0"), "{}", out.head);
    assert_eq!(deed(&stage, &cookie, "/services/web/abort", &format!("form={form}&revision=7")).status, 303);
    assert_eq!(stage.commands.lock().unwrap().len(), 3, "the session is over");
}

#[test]
fn a_verb_has_a_button_where_it_applies_and_nowhere_else() {
    let verbs = ["abort", "pause", "resume", "promote", "set-weight", "drain", "terminate", "retry", "undo", "start"];
    let has = |service: ServiceView| {
        let stage = Stage::new(vec![service], stage::history(), Setting::default());
        let body = page(&stage, "/services/web").body;
        let cookie = log_in(&stage, WRITE, "ann");
        let shown = verbs.map(|verb| body.contains(&format!("id=\"do-{verb}\"")));
        for (verb, shown) in verbs.iter().zip(shown) {
            let asked = stage.ask("GET", &format!("/services/web/{verb}"), &[HTML, ("cookie", &cookie)], "");
            assert_eq!(asked.status, if shown { 200 } else { 409 }, "{verb}");
        }
        verbs.into_iter().zip(shown).filter(|(_, shown)| *shown).map(|(verb, _)| verb).collect::<Vec<_>>()
    };
    assert_eq!(has(stage::progressing()), ["abort", "pause", "promote", "set-weight", "drain"]);
    assert_eq!(has(stage::paused()), ["abort", "resume", "promote", "set-weight", "drain"]);
    assert_eq!(has(stage::degraded()), ["retry", "start"]);
    assert_eq!(has(stage::healthy()), ["undo", "start"]);

    let stage = Stage::new(vec![stage::healthy()], stage::history(), Setting::default());
    let cookie = log_in(&stage, WRITE, "ann");
    let question = stage.ask("GET", "/services/web/undo", &[HTML, ("cookie", &cookie)], "");
    assert!(question.body.contains("v0, which was stable before v1, becomes stable again"), "{}", question.body);
    let form = field(&question, "form");
    assert_eq!(deed(&stage, &cookie, "/services/web/undo", &format!("form={form}&revision=7&reason=x")).status, 303);
    assert_eq!(stage.commands.lock().unwrap()[0].verb, Verb::Undo { to: None });
}

#[test]
fn a_weight_and_a_version_are_asked_for_and_passed_on() {
    let stage = Stage::progressing();
    let away = page(&stage, "/services/web/set-weight");
    assert!(away.head.contains("location: /login?next=/services/web/set-weight"), "{}", away.head);
    let cookie = log_in(&stage, WRITE, "ann");
    let path = "/services/web/set-weight";
    let question = stage.ask("GET", path, &[HTML, ("cookie", &cookie)], "");
    for words in
        ["<label for=\"weight\">Its share, as 5% or 2500ppm (now 5%)</label>", "pauses there until a person goes on"]
    {
        assert!(question.body.contains(words), "{words} in {}", question.body);
    }
    assert!(question.body.len() <= 60 * 1024);
    let form = field(&question, "form");
    let deed_of =
        |path: &str, fields: &str| deed(&stage, &cookie, path, &format!("form={form}&revision=7&{fields}")).status;
    // It is passed on to a control plane that cannot write it down.
    for (fields, status) in [
        ("reason=x", 422),
        ("weight=", 422),
        ("weight=200%25", 422),
        ("weight=20%25&to=v2", 422),
        ("weight=20%25&reason=slowly", 500),
    ] {
        assert_eq!(deed_of(path, fields), status, "{fields}");
    }
    let command = stage.commands.lock().unwrap().pop().unwrap();
    assert_eq!(
        (command.verb, command.actor, command.reason),
        (Verb::SetWeight("20%".parse().unwrap()), "ann".into(), "slowly".into())
    );

    let stage = Stage::new(vec![stage::healthy()], stage::history(), Setting::default());
    let cookie = log_in(&stage, WRITE, "ann");
    let path = "/services/web/start";
    let question = stage.ask("GET", path, &[HTML, ("cookie", &cookie)], "");
    assert!(
        question.body.contains("<option value=\"v2\">v2</option>") && !question.body.contains("value=\"v1\""),
        "{}",
        question.body
    );
    let form = field(&question, "form");
    for (fields, status) in [("reason=x", 422), ("to=v2&reason=again", 303)] {
        assert_eq!(deed(&stage, &cookie, path, &format!("form={form}&revision=7&{fields}")).status, status, "{fields}");
    }
    let command = stage.commands.lock().unwrap().pop().unwrap();
    let started = matches!(&command.verb, Verb::Start { to, site: None, .. } if to.as_str() == "v2");
    assert!(started && command.expect_revision == Some(Revision(7)) && command.reason == "again", "{command:?}");
}

#[test]
fn nothing_is_done_for_a_form_that_is_not_ones_own() {
    let stage = Stage::progressing();
    let (ann, bob) = (log_in(&stage, WRITE, "ann"), log_in(&stage, WRITE, "bob"));
    let form = field(&stage.ask("GET", "/services/web/abort", &[HTML, ("cookie", &bob)], ""), "form");
    let path = "/services/web/abort";
    for (fields, body, status) in [
        (vec![("cookie", ann.as_str())], format!("form={form}&revision=7"), 403),
        (vec![("cookie", ann.as_str())], "form=&revision=7".to_owned(), 403),
        (vec![("cookie", ann.as_str())], "revision=7".to_owned(), 422),
        (vec![("cookie", bob.as_str())], format!("form={form}&revision=7&weight=5"), 422),
        (vec![("cookie", bob.as_str())], format!("form={form}&revision=x"), 422),
        (vec![("cookie", bob.as_str()), ("origin", "http://evil.example")], format!("form={form}&revision=7"), 403),
        (vec![("cookie", bob.as_str()), ("origin", "null")], format!("form={form}&revision=7"), 403),
        (vec![("cookie", bob.as_str()), ("host", "evil.example")], format!("form={form}&revision=7"), 421),
        (vec![("cookie", bob.as_str())], format!("form={form}&revision=7&reason={}", "x".repeat(17_000)), 413),
        (vec![("cookie", "serin_1=x")], format!("form={form}&revision=7"), 303),
        (vec![], format!("form={form}&revision=7"), 303),
    ] {
        let fields: Vec<_> = [FORM, HTML].into_iter().chain(fields).collect();
        let answer = stage.ask("POST", path, &fields, &body);
        assert_eq!(answer.status, status, "{fields:?} {body:.80} {}", answer.body);
    }
    let json = stage.ask("POST", path, &[HTML, ("cookie", &bob), ("content-type", "text/plain")], "form=x&revision=7");
    assert_eq!(json.status, 415);
    let api = stage.ask("POST", "/api/v1/services/web/abort", &[("cookie", &bob)], "");
    assert_eq!(api.status, 401, "a session is for forms, not for the API");
    assert!(stage.commands.lock().unwrap().is_empty());
}

#[test]
fn a_reader_may_look_and_change_nothing() {
    let setting = Setting { read_token: Some("r-1"), ..Setting::default() };
    let stage = Stage::new(vec![stage::progressing()], stage::history(), setting);
    let away = page(&stage, "/");
    assert_eq!(away.status, 303, "a person is sent to the login");
    assert_eq!(stage.get("/").status, 401, "a program is told");
    assert_eq!(stage.get("/services/web/live").status, 401);
    for open in ["/login", "/style.css", "/live.js", "/icon.svg", "/healthz"] {
        assert_eq!(page(&stage, open).status, 200, "{open}");
    }
    let cookie = log_in(&stage, "r-1", "");
    assert_eq!(stage.ask("GET", "/", &[HTML, ("cookie", &cookie)], "").status, 200);
    assert_eq!(stage.ask("GET", "/api/v1/services", &[("cookie", &cookie)], "").status, 200);
    let question = stage.ask("GET", "/services/web/abort", &[HTML, ("cookie", &cookie)], "");
    assert_eq!(question.status, 303, "to the login, for more");
    let form = field(&stage.ask("GET", "/", &[HTML, ("cookie", &cookie)], ""), "form");
    assert_eq!(deed(&stage, &cookie, "/services/web/abort", &format!("form={form}&revision=7")).status, 403);
    assert!(stage.commands.lock().unwrap().is_empty());
}

#[test]
fn wrong_tokens_are_answered_ever_slower_and_sessions_go_on() {
    let stage = Stage::progressing();
    let cookie = log_in(&stage, WRITE, "ann");
    let tries: Vec<u16> = (0..14)
        .map(|number| stage.ask("POST", "/login", &[FORM, HTML], &format!("token=guess{number}")).status)
        .collect();
    assert_eq!(tries[..10], [401; 10]);
    assert!(tries.contains(&429), "{tries:?}");
    let api = stage.post("/api/v1/services/web/abort", "");
    assert_eq!((api.status, api.code().as_str()), (429, "tooManyFailures"), "the right guess is not told either");
    assert!(api.head.contains("retry-after"));
    let question = stage.ask("GET", "/services/web/abort", &[HTML, ("cookie", &cookie)], "");
    assert_eq!(question.status, 200, "whoever is in can still stop a rollout");
}

#[test]
fn a_name_or_reason_that_is_markup_is_shown_as_text_everywhere() {
    let evil = "<script>alert(1)</script>\"'><img src=x>";
    let cause = |verb| Cause::Person { verb, actor: evil.into(), reason: evil.into() };
    let mut service = stage::progressing();
    service.phase_reason = Some(evil.into());
    let rollout = service.rollout.as_mut().unwrap();
    rollout.steps[3] = evil.into();
    rollout.checks[0].name = evil.into();
    rollout.waiting.push(serin::engine::view::Waiting::Analysis { metric: evil.into(), state: evil.into() });
    service.last_event = Some(stage::event(9, 5, EventKind::WeightChanged, cause("set-weight")));
    let mut history = stage::history();
    history.push(stage::event(8, 6, EventKind::Started, cause("start")));
    history.push(stage::event(9, 5, EventKind::WeightChanged, cause("set-weight")));
    let stage =
        Stage::new(vec![service.clone()], history.clone(), Setting { config_error: Some(evil), ..Setting::default() });
    let two = Stage::new(vec![service, stage::degraded()], history, Setting::default());
    let cookie = log_in(&stage, WRITE, "%3Cscript%3Ealert(1)%3C/script%3E");
    let with = |path| stage.ask("GET", path, &[HTML, ("cookie", &cookie)], "").body;
    let strange = page(&stage, "/services/%3Cscript%3E").body;
    let login = page(&stage, "/login?next=/%22%3E%3Cscript%3E").body;
    let wrong = stage.ask("POST", "/login", &[FORM, HTML], "token=%3Cscript%3E&next=%22%3E%3Cscript%3E").body;
    for body in [with("/"), with("/services/web/abort"), page(&two, "/").body, strange, login, wrong] {
        assert!(!body.contains("<script>") && !body.contains("<img src=x"), "{body}");
    }
    assert!(with("/").matches("&lt;script&gt;alert(1)").count() >= 6);
}

#[test]
fn paths_lead_nowhere_else() {
    let stage = Stage::progressing();
    for path in [
        "/../etc/passwd",
        "/services/../api/v1/services",
        "/services/web/%2e%2e/",
        "//evil.example/",
        "/services/web/abort/",
        "/static/style.css",
        "/style.css/",
        "/services/web/live/x",
        "/.git/config",
    ] {
        let answer = page(&stage, path);
        assert!([303, 404, 409].contains(&answer.status), "{path}: {}", answer.status);
        assert!(
            !answer.head.contains("location: //") && !answer.head.contains("evil.example"),
            "{path}: {}",
            answer.head
        );
    }
}
