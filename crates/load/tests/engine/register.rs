//! A court's register of cases over HTTP: complete cycles of operations that depend on each other,
//! and the outcomes of answers that are stale, missing or never come.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use experiment::plan::{AuditAs, AuditEffect, Load, Rate, Retry, Step, WhenFailed};
use load::LoadOrder;
use record::events::{HistoryEntry, Outcome};

use crate::server::{Reply, Server};
use crate::setting::{LoadRun, load, moment, orders, pairs, play, step};

/// Method and path of every request.
type Seen = Arc<Mutex<Vec<(String, String)>>>;

/// A request to the register.
struct Asked<'a> {
    method: &'a str,
    path: &'a str,
    if_match: Option<&'a str>,
    body: &'a str,
}

impl<'a> Asked<'a> {
    fn read(text: &'a str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let mut words = head.split(' ');
        let if_match = head.lines().find_map(|line| line.strip_prefix("if-match: "));
        Self { method: words.next().unwrap(), path: words.next().unwrap(), if_match, body }
    }
}

fn answer(status: u16, version: u64, body: &str) -> Reply {
    let etag = if version > 0 { format!("etag: \"{version}\"\r\n") } else { String::new() };
    let text = format!("HTTP/1.1 {status} x\r\n{etag}content-length: {}\r\n\r\n{body}", body.len());
    Reply::Bytes(text.into_bytes())
}

/// Returns a correct register, except where `amiss` returns another answer. `amiss` gets the number
/// of earlier requests with the same method and path.
fn register(amiss: impl Fn(&Asked<'_>, usize) -> Option<Reply> + Send + Sync + 'static) -> (Server, Seen) {
    let (seen, cases) = (Seen::default(), Mutex::new(BTreeMap::<String, (u64, String)>::new()));
    let noted = Arc::clone(&seen);
    let server = Server::http(move |request| {
        let text = String::from_utf8_lossy(&request.body);
        let asked = Asked::read(&text);
        let before = {
            let mut noted = noted.lock().unwrap();
            let this = (asked.method.to_owned(), asked.path.to_owned());
            let before = noted.iter().filter(|known| **known == this).count();
            noted.push(this);
            before
        };
        if let Some(reply) = amiss(&asked, before) {
            return reply;
        }
        let mut cases = cases.lock().unwrap();
        let known = cases.get(asked.path).cloned();
        match (asked.method, known) {
            ("POST", None) => {
                cases.insert(asked.path.to_owned(), (1, asked.body.to_owned()));
                answer(201, 1, "")
            }
            ("POST", Some(_)) => answer(409, 0, "there is such a case"),
            (_, None) => answer(404, 0, "no such case"),
            ("GET", Some((version, document))) => answer(200, version, &document),
            ("PUT", Some((version, _))) if asked.if_match != Some(format!("\"{version}\"").as_str()) => {
                answer(412, 0, "the case has another version")
            }
            ("PUT", Some((version, _))) => {
                cases.insert(asked.path.to_owned(), (version + 1, asked.body.to_owned()));
                answer(200, version + 1, "")
            }
            _ => {
                cases.remove(asked.path);
                answer(204, 0, "")
            }
        }
    });
    (server, seen)
}

fn audit(effect: AuditEffect, value: Option<&str>) -> Option<AuditAs> {
    let key = "case-{agent}-{seq}".to_owned();
    Some(AuditAs { effect, key, value: value.map(Into::into), ..AuditAs::default() })
}

fn case(name: &str, call: &str, with: &[&str], expect: &[&str], keep: &[&str]) -> Step {
    let mut step = step(call, with);
    step.with.insert("path".into(), "/cases/case-{agent}-{seq}".into());
    let (effect, value) = match call {
        "get" => (AuditEffect::Read, Some("answer.body")),
        "delete" => (AuditEffect::Remove, None),
        _ => (AuditEffect::Write, Some("request.body")),
    };
    let (expect, keep) = (pairs(expect), pairs(keep));
    Step { name: name.into(), expect, keep, audit: true, audit_as: audit(effect, value), ..step }
}

/// The article's cycle. The change is computed from the created document, and its new version is
/// kept.
fn cycle() -> Vec<Step> {
    let document = r#"body={{"party": "p-{agent}", "text": "{bytes:20}"}}"#;
    vec![
        case("create", "post", &[document], &["status=201"], &["sent=request.body", "version=answer.header.etag"]),
        case("browse", "get", &[], &["status=200", "body={sent}"], &["version=answer.header.etag"]),
        case(
            "modify",
            "put",
            &["body=[{sent}, {seq}]", "header.if-match={version}"],
            &["status=200"],
            &["sent=request.body", "version=answer.header.etag"],
        ),
        case("browse-modified", "get", &[], &["status=200", "body={sent}", "header.etag={version}"], &[]),
        case("delete", "delete", &["header.if-match={version}"], &["status=204"], &[]),
        case("browse-deleted", "get", &[], &["status=404"], &[]),
    ]
}

fn http(server: &Server, load: Load) -> LoadOrder {
    LoadOrder { protocol: "http".into(), ..orders(&server.service(), load) }
}

fn strict(agents: u32, steps: Vec<Step>) -> Load {
    Load { when_failed: WhenFailed::NextCycle, ..load(agents, 0.2, steps) }
}

fn of(run: &LoadRun, outcome: Outcome) -> Vec<&HistoryEntry> {
    run.history().into_iter().filter(|line| line.outcome == outcome).collect()
}

#[test]
fn a_whole_cycle_and_its_history() {
    let (server, _) = register(|_, _| None);
    let run = play(http(&server, strict(4, cycle())));
    let summary = run.summary;
    assert!(summary.cycles > 0 && (summary.failed, summary.timeout, summary.wrong) == (0, 0, 0), "{summary:?}");
    // Each agent may have been within a cycle.
    assert!((6 * summary.cycles..=6 * summary.cycles + 4 * 5).contains(&summary.ok), "{summary:?}");
    let first: Vec<&HistoryEntry> = run.history().into_iter().filter(|line| line.key == "case-2-1").collect();
    let effects: Vec<&str> = first.iter().map(|line| line.effect.as_str()).collect();
    assert_eq!(effects, ["write", "read", "write", "read", "remove", "read"]);
    let values: Vec<Option<&str>> = first.iter().map(|line| line.value.as_deref()).collect();
    let created = values[0].unwrap();
    assert!(created.starts_with(r#"{"party": "p-2", "text": ""#) && created.ends_with("\"}"), "{created}");
    assert_eq!(values[1], Some(created));
    // The value that was sent, although its slot has been filled again since.
    assert_eq!(values[2], Some(format!("[{created}, 1]").as_str()));
    assert_eq!(values[3], values[2]);
    // The text of a 404 is not a value. The history shows that there is none.
    assert_eq!(values[4..], [None, None]);
    assert!(first.iter().all(|line| line.space.is_empty() && line.applied == Some(true)));
}

#[test]
fn stale_answers_are_wrong_and_end_the_cycle() {
    // The second read of a case still returns the created document.
    let stale = |asked: &Asked<'_>, before| {
        (asked.method == "GET" && before == 1).then(|| answer(200, 1, r#"{"party": "old"}"#))
    };
    let (server, seen) = register(stale);
    let run = play(http(&server, strict(2, cycle())));
    assert!(run.summary.wrong > 2 && run.summary.failed == 0, "{:?}", run.summary);
    assert_eq!(run.summary.cycles, 0, "no cycle was right throughout");
    assert!(seen.lock().unwrap().iter().all(|(method, _)| method != "DELETE"), "the rest is left out");
    assert!(of(&run, Outcome::Wrong).iter().all(|line| line.value.as_deref() == Some(r#"{"party": "old"}"#)));

    let (server, seen) = register(stale);
    let run = play(http(&server, load(2, 0.2, cycle())));
    assert!(run.summary.wrong > 0 && run.summary.cycles > 0, "{:?}", run.summary);
    assert!(seen.lock().unwrap().iter().any(|(method, _)| method == "DELETE"), "by default the cycle goes on");
}

#[test]
fn missing_and_undeleted_cases_are_wrong() {
    let (server, _) =
        register(|asked, before| (asked.method == "GET" && before == 0).then(|| answer(404, 0, "no such case")));
    let missing = play(http(&server, strict(2, cycle())));
    assert!(missing.summary.wrong > 2 && missing.summary.failed == 0, "{:?}", missing.summary);
    let wrong = of(&missing, Outcome::Wrong);
    assert!(wrong.iter().all(|line| line.effect == "read" && line.value.is_none() && line.applied == Some(true)));

    let (server, _) = register(|asked, before| (asked.method == "GET" && before == 2).then(|| answer(200, 2, "still")));
    let resurrected = play(http(&server, strict(2, cycle())));
    assert!(resurrected.summary.wrong > 2 && resurrected.summary.failed == 0 && resurrected.summary.cycles == 0);
    assert!(of(&resurrected, Outcome::Wrong).iter().all(|line| line.value.as_deref() == Some("still")));
}

#[test]
fn timeouts_and_failures_skip_the_rest_of_the_cycle() {
    for (is_silent, when_failed) in
        [(true, WhenFailed::NextCycle), (false, WhenFailed::NextCycle), (false, WhenFailed::GoOn)]
    {
        let (server, seen) = register(move |asked, _| match asked.method {
            "PUT" if is_silent => Some(Reply::Silence),
            "PUT" => Some(answer(503, 0, "overloaded")),
            _ => None,
        });
        let mut load = Load { when_failed, ..strict(2, cycle()) };
        (load.timeout_s, load.time_s) = if is_silent { (0.15, 0.6) } else { (5.0, 0.2) };
        let run = play(http(&server, load));
        let (outcome, count) = match is_silent {
            true => (Outcome::Timeout, run.summary.timeout),
            false => (Outcome::Failed, run.summary.failed),
        };
        assert!(count > 2 && run.summary.wrong == 0 && run.summary.cycles == 0, "{:?}", run.summary);
        assert!(of(&run, outcome).iter().all(|line| line.applied.is_none()));
        let seen = seen.lock().unwrap();
        assert!(seen.iter().all(|(method, _)| method != "DELETE"));
        let looks = seen.iter().filter(|(method, path)| method == "GET" && path == "/cases/case-1-1").count();
        assert!(looks <= 1, "nobody looks at what may have changed");
    }
}

#[test]
fn only_statuses_about_data_contradict_an_expectation() {
    let got = |status: u16, expect: &[&str]| {
        let (server, _) = register(move |_, _| Some(answer(status, 0, "no")));
        let mut load = strict(1, vec![Step { expect: pairs(expect), ..case("browse", "get", &[], &[], &[]) }]);
        load.time_s = moment(0.05);
        load.retry = Retry::Tries { tries: 3, wait_s: 0.0 };
        let run = play(http(&server, load));
        let Outcomes { ok, failed, wrong, attempts } = Outcomes::of(&run);
        assert!(ok + failed + wrong > 0);
        assert_eq!(attempts, ok + wrong + 3 * failed, "{status} {expect:?}: only failures are tried again");
        (ok > 0, failed > 0, wrong > 0)
    };
    let (ok, failed, wrong) = ((true, false, false), (false, true, false), (false, false, true));
    for status in [404, 409, 410, 412] {
        assert_eq!(got(status, &[]), failed, "{status}: nothing is contradicted");
        assert_eq!(got(status, &["body=no"]), failed, "{status}: nor here");
        assert_eq!(got(status, &["status=200"]), wrong, "{status}");
        assert_eq!(got(status, &["body={{}}"]), wrong, "{status}");
        assert_eq!(got(status, &[&format!("status={status}")]), ok, "{status}");
        assert_eq!(got(status, &[&format!("status={status}"), "body=yes"]), wrong, "{status}");
    }
    for status in [400, 401, 403, 405, 413, 422, 428, 429, 500, 503] {
        assert_eq!(got(status, &["status=200", "body=yes"]), failed, "{status}");
    }
    assert_eq!(got(200, &["status=404"]), wrong);
}

struct Outcomes {
    ok: u64,
    failed: u64,
    wrong: u64,
    attempts: u64,
}

impl Outcomes {
    fn of(run: &LoadRun) -> Self {
        let load::Summary { ok, failed, wrong, attempts, .. } = run.summary;
        Self { ok, failed, wrong, attempts }
    }
}

#[test]
fn an_expectation_with_an_empty_slot_contradicts_nothing() {
    let create = Step { every: 2, ..case("create", "post", &["body=x"], &[], &["sent=request.body"]) };
    let browse = case("browse", "get", &[], &["body={sent}"], &[]);
    let (server, _) = register(|asked, _| (asked.method == "GET").then(|| answer(404, 0, "no such case")));
    let run = play(http(&server, strict(1, vec![create, browse])));
    let missing: Vec<(bool, Outcome)> = run
        .history()
        .iter()
        .filter(|line| line.effect == "read")
        .map(|line| (line.key.ends_with(['0', '2', '4', '6', '8']), line.outcome))
        .collect();
    assert!(missing.len() > 3);
    assert!(
        missing.iter().all(|(created, outcome)| *outcome == if *created { Outcome::Wrong } else { Outcome::Failed })
    );
}

#[test]
fn a_refusal_had_no_effect_and_keeps_nothing() {
    let (server, _) = register(|asked, _| (asked.method == "PUT").then(|| answer(412, 0, "another version")));
    let run = play(http(&server, load(1, 0.2, cycle())));
    let refused: Vec<&HistoryEntry> =
        of(&run, Outcome::Wrong).into_iter().filter(|line| line.effect == "write").collect();
    assert!(refused.len() > 1 && refused.iter().all(|line| line.applied == Some(false)));
    // By default the cycle continues, and the created document is still expected.
    assert_eq!(run.summary.wrong, refused.len() as u64);
    assert!(run.summary.cycles > 0);
}

#[test]
fn a_conflict_with_an_earlier_attempt_is_not_wrong() {
    // Every first attempt takes effect and is never answered.
    let done: Mutex<BTreeMap<(String, String), usize>> = Mutex::default();
    let server = Server::http(move |request| {
        let text = String::from_utf8_lossy(&request.body);
        let asked = Asked::read(&text);
        let mut done = done.lock().unwrap();
        let times = done.entry((asked.method.to_owned(), asked.path.to_owned())).or_default();
        *times += 1;
        match (asked.method, *times) {
            (_, 1) => Reply::Close,
            ("POST", _) => answer(409, 0, "there is such a case"),
            _ => answer(404, 0, "no such case"),
        }
    });
    let retry = Retry::Wait { wait_s: 0.001 };
    let create = case("create", "post", &["body=x"], &["status=201"], &[]);
    let run = play(http(&server, Load { retry, ..strict(1, vec![create]) }));
    assert!(run.summary.failed > 1 && run.summary.wrong == 0, "{:?}", run.summary);
    assert_eq!(run.attempts("status 409"), run.summary.failed, "and it is not tried for ever");
    assert!(of(&run, Outcome::Failed).iter().all(|line| line.applied.is_none()));

    let browse = case("browse", "get", &[], &["status=200"], &[]);
    let run = play(http(&server, Load { retry, ..strict(1, vec![browse]) }));
    assert!(run.summary.wrong > 1 && run.summary.failed == 0, "reading changes nothing: {:?}", run.summary);
}

#[test]
fn steps_that_are_not_due_do_not_end_the_cycle() {
    let mut steps = cycle();
    steps[3].every = 2;
    let (server, _) = register(|_, _| None);
    let run = play(http(&server, strict(1, steps)));
    let (cycles, ok) = (run.summary.cycles, run.summary.ok);
    assert!(cycles > 2 && ok >= 5 * cycles + cycles / 2, "{:?}", run.summary);
}

#[test]
fn an_open_loop_starts_a_new_cycle_after_a_wrong_answer() {
    let (server, seen) = register(|asked, _| (asked.method == "PUT").then(|| answer(412, 0, "another version")));
    let mut load = strict(1, cycle());
    load.rate = Some(Rate::Constant(90.0));
    load.time_s = 0.5;
    let run = play(http(&server, load));
    assert_eq!(run.summary.ok + run.summary.wrong, 45, "as many operations as were due: {:?}", run.summary);
    assert_eq!((run.summary.wrong, run.summary.cycles), (15, 0));
    let methods: Vec<String> = seen.lock().unwrap().iter().map(|(method, _)| method.clone()).collect();
    assert!(methods.chunks(3).all(|cycle| cycle == ["POST", "GET", "PUT"]));
}

#[test]
fn invalid_audits_are_refused() {
    let (server, _) = register(|_, _| None);
    for (told, about) in [
        (audit(AuditEffect::Write, None), "a write needs request.FIELD"),
        (audit(AuditEffect::Read, Some("request.path")), "a read answer.FIELD"),
        (audit(AuditEffect::Remove, Some("answer.body")), "a removal none"),
        (audit(AuditEffect::Write, Some("request.body")), "no argument `body`"),
        (audit(AuditEffect::Read, Some("body")), "neither"),
    ] {
        let step = Step { audit_as: told, ..case("browse", "get", &[], &[], &[]) };
        let error = load::check(&http(&server, strict(1, vec![step]))).unwrap_err().to_string();
        assert!(error.contains(about), "{error}");
    }
    let mut step = case("browse", "get", &[], &[], &[]);
    step.audit_as.as_mut().unwrap().key = "{id}".into();
    let error = load::check(&http(&server, strict(1, vec![step]))).unwrap_err().to_string();
    assert!(error.contains("no earlier step of the cycle keeps `id`"), "{error}");
}
