//! Redis under the engine: values, refusals, and a server that has enough clients.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use experiment::plan::{AuditAs, AuditEffect, Step};
use load::LoadOrder;
use record::events::Outcome;

use crate::server::{Reply, Server};
use crate::setting::{load, orders, pairs, play, step};

fn to(server: &Server, steps: Vec<Step>) -> LoadOrder {
    LoadOrder { protocol: "redis".into(), ..orders(&format!("redis://{}", server.service()), load(2, 0.2, steps)) }
}

/// Returns a server that keeps texts under keys.
fn keeping() -> Server {
    let kept: Mutex<BTreeMap<String, String>> = Mutex::default();
    Server::redis(move |request| {
        let text = String::from_utf8_lossy(&request.body).into_owned();
        let mut kept = kept.lock().unwrap();
        let mut words = text.splitn(3, ' ');
        let mut next = || words.next().unwrap_or_default().to_owned();
        let answer = match (next().as_str(), next(), next()) {
            ("SET", key, value) => {
                kept.insert(key, value);
                "+OK\r\n".to_owned()
            }
            ("GET", key, _) => {
                kept.get(&key).map_or("$-1\r\n".to_owned(), |value| format!("${}\r\n{value}\r\n", value.len()))
            }
            ("DEL", key, _) => format!(":{}\r\n", usize::from(kept.remove(&key).is_some())),
            ("MGET", ..) => "*2\r\n$1\r\na\r\n$-1\r\n".to_owned(),
            _ => "-ERR unknown command\r\n".to_owned(),
        };
        Reply::Bytes(answer.into_bytes())
    })
}

#[test]
fn values_are_kept_and_removed() {
    let server = keeping();
    let audited = |step: Step| Step { audit: true, ..step };
    let set = Step {
        keep: pairs(&["saved=request.value"]),
        ..audited(step("set", &["key={agent}-{seq}", "value={seq} {bytes:20}"]))
    };
    let get = Step { expect: pairs(&["value={saved}"]), ..audited(step("get", &["key={agent}-{seq}"])) };
    let del = Step { expect: pairs(&["removed=1"]), ..audited(step("del", &["key={agent}-{seq}"])) };
    let gone = Step { expect: pairs(&["status=not_found"]), ..audited(step("get", &["key={agent}-{seq}"])) };
    let some = Step { expect: pairs(&["value=a\n", "count=2"]), ..step("command", &["arguments=MGET a b"]) };
    let run = play(to(&server, vec![set, get, del, gone, some]));
    assert!(run.summary.ok > 4 && run.summary.wrong == 0 && run.summary.failed == 0);
    assert!(run.history().iter().all(|line| line.applied == Some(true)));
    let effects: Vec<&str> = run.history().iter().take(4).map(|line| line.effect.as_str()).collect();
    assert!(effects.contains(&"write") && effects.contains(&"read"), "{effects:?}");
}

/// Returns a server that answers compare-and-sets of one key, as a script on the server would: the
/// key, the expected value and the new one; 1 if it was written.
fn comparing(unsure: bool) -> Server {
    let kept = Mutex::new("0".to_owned());
    Server::redis(move |request| {
        let text = String::from_utf8_lossy(&request.body).into_owned();
        let mut kept = kept.lock().unwrap();
        let words: Vec<&str> = text.split(' ').collect();
        let answer = match words.as_slice() {
            ["GET", _] => format!("${}\r\n{kept}\r\n", kept.len()),
            [_, _, from, to] if *from == kept.as_str() => {
                (*to).clone_into(&mut kept);
                ":1\r\n".to_owned()
            }
            _ if unsure => return Reply::Close,
            _ => ":0\r\n".to_owned(),
        };
        Reply::Bytes(answer.into_bytes())
    })
}

#[test]
fn compare_and_sets_are_told_by_the_step() {
    let told = AuditAs {
        effect: AuditEffect::Cas,
        key: "k".into(),
        from: Some("{seen}".into()),
        value: Some("{agent}-{seq}".into()),
        succeeded: Some("answer.value".into()),
        ..AuditAs::default()
    };
    for unsure in [false, true] {
        let server = comparing(unsure);
        let get = Step { audit: true, keep: pairs(&["seen=answer.value"]), ..step("get", &["key=k"]) };
        let cas = step("command", &["arguments=CAS k {seen} {agent}-{seq}"]);
        let cas = Step { audit: true, audit_as: Some(told.clone()), ..cas };
        let run = play(LoadOrder { seed: 3, ..to(&server, vec![get, cas]) });
        let history = run.history();
        let compared: Vec<_> = history.iter().filter(|line| line.effect == "cas").collect();
        assert!(compared.iter().all(|line| line.value.is_some() && line.from.is_some()));
        let mut written = 0;
        for line in compared.iter().filter(|line| line.outcome == Outcome::Ok) {
            assert_eq!((line.applied, line.found.as_ref()), (line.equal, None), "{line:?}");
            written += u64::from(line.equal == Some(true));
        }
        assert!(written > 2, "{written} of {}", compared.len());
        for line in compared.iter().filter(|line| line.outcome == Outcome::Failed) {
            assert_eq!((line.applied, line.equal), (None, None), "{line:?}");
        }
    }
}

#[test]
fn refusals_have_their_own_results() {
    for (answer, result, applied) in [
        ("-READONLY You can't write against a read only replica.\r\n", "answer: readonly", Some(false)),
        ("-MOVED 1 127.0.0.1:7001\r\n", "answer: moved", Some(false)),
        ("-ERR something\r\n", "answer: err", None),
        ("-WRONGTYPE Operation against a key\r\n", "answer: wrongtype", Some(false)),
        ("-IOERR error or timeout\r\n", "answer: ioerr", None),
    ] {
        let server = Server::redis(move |_| Reply::Bytes(answer.as_bytes().to_vec()));
        let set = Step { audit: true, ..step("set", &["key=k", "value=v"]) };
        let run = play(to(&server, vec![set]));
        assert!(run.summary.failed > 0 && run.attempts(result) == run.summary.failed, "{answer}");
        assert!(run.history().iter().all(|line| line.outcome == Outcome::Failed && line.applied == applied));
        assert_eq!(server.connections.load(Ordering::SeqCst), 2);
    }
}

#[test]
fn a_refusal_for_maxclients_had_no_effect() {
    let server = Server::redis(|_| Reply::Last(b"-ERR max number of clients reached\r\n".to_vec()));
    let set = Step { audit: true, ..step("set", &["key=k", "value=v"]) };
    let run = play(to(&server, vec![set]));
    assert!(run.summary.failed > 0);
    assert_eq!(run.attempts("answer: maxclients"), run.summary.failed);
    assert!(run.history().iter().all(|line| line.applied == Some(false)));
}
