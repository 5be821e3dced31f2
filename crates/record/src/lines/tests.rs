//! Checks of JSONL: what is written is read again, also when the file is cut off at any byte.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::events::{By, Ending, History, Outcome, Phase};
use crate::scratch::Scratch;

fn events() -> Vec<Event> {
    let what = [
        What::Clock { unix_s: 1_795_170_665.25 },
        What::Phase { phase: Phase::Load },
        What::FaultBegun { fault: "oops".into(), number: 1, kind: "call".into(), on: "n1".into() },
        What::ProcessDown {
            host: "n1".into(),
            process: "server".into(),
            how: "signal 9".into(),
            expected: true,
            last_lines: Vec::new(),
        },
        What::Log {
            host: "n1".into(),
            process: "server".into(),
            line: "Störung: \"名\"\nzwei".into(),
            text: "Störung".into(),
            alarming: true,
            left_out: 3,
        },
        What::Inspected { when: "after_load".into(), says: serde_json::json!({ "names": 12, "tables": ["a"] }) },
        What::Ended { how: Ending::Done, reason: None },
    ];
    what.into_iter().enumerate().map(|(number, what)| Event { at_s: number as f64 - 1.5, what }).collect()
}

#[test]
fn what_is_written_is_read() {
    let scratch = Scratch::new("lines");
    let path = scratch.path("events.jsonl");
    let mut writer = Writer::create(&path).unwrap();
    for event in events() {
        writer.write(&event).unwrap();
    }
    writer.flush().unwrap();
    assert_eq!(read::<Event>(&path).unwrap(), Records { items: events(), torn: false });
}

#[test]
fn a_file_cut_off_at_any_byte_is_readable_up_to_there() {
    let scratch = Scratch::new("lines");
    let path = scratch.path("events.jsonl");
    let mut writer = Writer::create(&path).unwrap();
    for event in events() {
        writer.write(&event).unwrap();
    }
    drop(writer);
    let whole = std::fs::read(&path).unwrap();
    for cut in 0..=whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let lines = whole[..cut].iter().filter(|&&byte| byte == b'\n').count();
        let records = read::<Event>(&path).unwrap();
        assert_eq!(records.items, events()[..lines], "cut at {cut}");
        assert_eq!(records.torn, cut > 0 && whole[cut - 1] != b'\n', "cut at {cut}");
    }
}

#[test]
fn unknown_kinds_and_fields_of_later_versions_are_skipped() {
    let scratch = Scratch::new("lines");
    let path = scratch.path("events.jsonl");
    let content = "{\"at_s\":0,\"event\":\"clock\",\"unix_s\":1.5,\"zone\":\"UTC\"}\n\
                   {\"at_s\":1,\"event\":\"eclipse\",\"of\":{\"the\":\"sun\"}}\n\
                   {\"at_s\":2,\"event\":\"notice\",\"text\":\"on\"}\n";
    std::fs::write(&path, content).unwrap();
    let what: Vec<_> = read_events(&path).unwrap().items.into_iter().map(|event| event.what).collect();
    assert_eq!(what, [What::Clock { unix_s: 1.5 }, What::Notice { text: "on".into() }]);
    assert_eq!(read::<Event>(&path).unwrap().items.len(), 3);
}

#[test]
fn a_known_kind_without_its_fields_is_broken() {
    let scratch = Scratch::new("lines");
    let path = scratch.path("events.jsonl");
    let content = "{\"at_s\":0,\"event\":\"clock\"}\n{\"at_s\":2,\"event\":\"notice\",\"text\":\"on\"}\n";
    std::fs::write(&path, content).unwrap();
    let message = read::<Event>(&path).unwrap_err().to_string();
    assert!(message.contains("events.jsonl:1:") && message.contains("unix_s"), "{message}");
}

#[test]
fn a_history_keeps_what_nobody_knows_apart_from_what_did_not_happen() {
    let scratch = Scratch::new("lines");
    let path = scratch.path("history.jsonl");
    let line = |applied, outcome| History {
        at_s: 1.0,
        by: By::Load,
        agent: Some(3),
        effect: "write".into(),
        space: "kept-3".into(),
        key: "kept-200".into(),
        value: Some("v".into()),
        outcome,
        applied,
    };
    let items = vec![line(Some(true), Outcome::Ok), line(Some(false), Outcome::Failed), line(None, Outcome::Timeout)];
    let mut writer = Writer::append(&path).unwrap();
    for item in &items {
        writer.write(item).unwrap();
    }
    drop(writer);
    assert_eq!(read::<History>(&path).unwrap().items, items);
}
