//! Fuzz target for the messages from a host. Any bytes are read within a budget. An accepted
//! message is small, has values in range, and can be printed.

use std::path::Component;

use runner::{HostLines, LINE_BYTES, OrderRefusal, OrderReply, RunnerMessage};
use serde_json::Value;

/// Reads messages line by line, as a session does, to the end or to the first line that is too
/// long.
pub fn hosts(input: &[u8]) {
    let mut lines = HostLines::of(input);
    while let Ok(Some(line)) = lines.next_line() {
        assert!(line.len() <= LINE_BYTES);
        let Ok(said) = RunnerMessage::read(line) else { continue };
        believe(&said);
        // A message that was accepted can be encoded and is accepted again.
        believe(&RunnerMessage::read(&serde_json::to_vec(&said).unwrap()).unwrap());
    }
}

fn believe(said: &RunnerMessage) {
    match said {
        RunnerMessage::Ready { version, pid, folder, notices } => {
            assert!(notices.len() <= 21 && *pid <= 4_194_304);
            assert!(!folder.components().any(|part| part == Component::ParentDir));
            notices.iter().chain([version]).for_each(|text| shown(text, 600));
        }
        RunnerMessage::Failed { reason } => shown(reason, 5000),
        RunnerMessage::Refused { why, .. } => refused(why),
        RunnerMessage::Ended { how, .. } => assert!((-255..=255).contains(how)),
        RunnerMessage::Done { answer, .. } => answered(answer),
        RunnerMessage::Wrote { .. } | RunnerMessage::Printed { .. } => {}
    }
}

fn answered(answer: &OrderReply) {
    match answer {
        OrderReply::Started(group) => assert!((1..=4_194_304).contains(&group.pid)),
        OrderReply::Ran { how, .. } => assert!((-255..=255).contains(how)),
        OrderReply::Ports { ports } => assert!(ports.len() <= 1024 && !ports.contains(&0)),
        OrderReply::Folder { path } => {
            shown(path.to_str().unwrap(), 5000);
            assert!(path.as_os_str().is_empty() || path.is_absolute());
            assert!(!path.components().any(|part| part == Component::ParentDir));
        }
        OrderReply::Samples { rows, programs } => {
            assert!(rows.len() <= 1024 && programs.len() <= 1024);
            rows.iter().for_each(|row| can_be(&serde_json::to_value(row).unwrap()));
            programs.iter().for_each(|row| can_be(&serde_json::to_value(row).unwrap()));
        }
        OrderReply::Processes { pids } => assert!(pids.iter().all(|pid| (1..=4_194_304).contains(pid))),
        OrderReply::Figures { figures } => can_be(&serde_json::to_value(figures).unwrap()),
        OrderReply::Text { text } => assert!(!text.replace(['\n', '\t'], "").chars().any(char::is_control)),
        OrderReply::Nothing => {}
    }
}

fn refused(why: &OrderRefusal) {
    match why {
        OrderRefusal::NoProgram { program } => shown(program, 5000),
        OrderRefusal::NoUser { user } => shown(user, 5000),
        OrderRefusal::PortTaken { .. } => {}
        OrderRefusal::Cannot { reason } => shown(reason, 5000),
        OrderRefusal::System { doing, error } => [doing, error].into_iter().for_each(|text| shown(text, 5000)),
    }
}

/// Checks that each number is between 0 and 2⁵³, up to which integers are exact, and that each text
/// can be printed.
fn can_be(figures: &Value) {
    for (name, figure) in figures.as_object().unwrap() {
        match figure {
            Value::Null => {}
            Value::Number(number) => {
                assert!((0.0..=9_007_199_254_740_992.0).contains(&number.as_f64().unwrap()), "{name}: {number}");
            }
            Value::String(text) => shown(text, 5000),
            other => panic!("{name}: {other}"),
        }
    }
}

/// Checks that a text has at most `characters` characters before escaping, and that no character
/// moves the cursor or changes the text's direction.
fn shown(text: &str, characters: usize) {
    let turns =
        |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    assert!(!text.chars().any(|c| turns(c) || (c.is_control() && c != '\t')), "{text:?}");
    assert!(text.chars().count() <= characters * "\\u{10ffff}".len());
}
