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
mod tests;
