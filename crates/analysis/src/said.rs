//! What the target's processes said that its `[log]` names, line by line in the events, put together by who said what. It must not
//! judge.

use record::events::{Event, What};
use record::results::Said;

/// Each process and text once, in the order in which it was first said.
pub(crate) fn said(events: &[Event]) -> Vec<Said> {
    let mut all: Vec<Said> = Vec::new();
    for event in events {
        let What::Log { host, process, line, text, alarming, left_out } = &event.what else { continue };
        let count = (*left_out).max(1);
        // Early versions did not say which text it was.
        let is_same = |said: &Said| said.text == *text && (!text.is_empty() || said.line == *line);
        let known = all.iter_mut().find(|said| said.host == *host && said.role == *process && is_same(said));
        match known {
            Some(said) => said.count += count,
            None => all.push(Said {
                at_s: event.at_s,
                host: host.clone(),
                role: process.clone(),
                text: text.clone(),
                line: line.clone(),
                count,
                alarming: *alarming,
            }),
        }
    }
    all.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(at_s: f64, host: &str, line: &str, text: &str, left_out: u64) -> Event {
        let (host, process, line, text) = (host.to_owned(), "member".to_owned(), line.to_owned(), text.to_owned());
        let alarming = text == "split";
        Event { at_s, what: What::Log { host, process, line, text, alarming, left_out } }
    }

    #[test]
    fn lines_are_counted_by_who_said_what() {
        let events = [
            log(2.0, "n2", "split: n1", "split", 0),
            log(-1.0, "n1", "it waits", "waits", 0),
            log(3.0, "n2", "split: n3", "split", 0),
            Event { at_s: 4.0, what: What::Notice { text: "split".into() } },
            log(5.0, "n1", "split: n2", "split", 0),
            log(9.0, "n2", "split: n4", "split", 480),
        ];
        let told: Vec<_> = said(&events)
            .into_iter()
            .map(|said| (said.at_s, said.host, said.line, said.count, said.alarming))
            .collect();
        let line =
            |at_s, host: &str, line: &str, count, alarming| (at_s, host.to_owned(), line.to_owned(), count, alarming);
        let expected = [
            line(-1.0, "n1", "it waits", 1, false),
            line(2.0, "n2", "split: n1", 482, true),
            line(5.0, "n1", "split: n2", 1, true),
        ];
        assert_eq!(told, expected);
        assert_eq!(said(&[]), []);
    }
}
