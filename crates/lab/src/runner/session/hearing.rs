//! Hears what a runner says and hands it to whom it concerns. It must not ask anything.

use std::io::{BufRead as _, BufReader, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::Shared;
use crate::Error;
use crate::hosts::Ended;
use crate::runner::{LINE_BYTES, Said};

/// Before the runner speaks, something else may: a login's greeting. Of it, so much is quoted if no runner comes.
const NOISE_LINES: usize = 5;

/// Hears on a thread of its own; the first thing is whether the runner is ready.
pub fn begin(
    output: Box<dyn Read + Send>,
    shared: Arc<Shared>,
) -> Result<Receiver<Result<Vec<String>, String>>, Error> {
    let (sender, first) = channel();
    let hear = move || {
        let mut lines = Lines { reader: BufReader::with_capacity(64 << 10, output), line: Vec::new() };
        let reason = match until_ready(&mut lines, sender) {
            Ok(()) => hear(&mut lines, &shared),
            Err(reason) => reason,
        };
        shared.lose(&reason);
    };
    let thread = std::thread::Builder::new().name("session".to_owned()).spawn(hear);
    thread.map_err(Error::system("start a thread"))?;
    Ok(first)
}

struct Lines {
    reader: BufReader<Box<dyn Read + Send>>,
    line: Vec<u8>,
}

impl Lines {
    /// The next whole line.
    fn next(&mut self) -> Option<&[u8]> {
        self.line.clear();
        self.reader.by_ref().take(LINE_BYTES).read_until(b'\n', &mut self.line).ok()?;
        self.line.ends_with(b"\n").then_some(&self.line)
    }
}

/// Passes over what is not said by a runner, and hands on what it says first.
fn until_ready(lines: &mut Lines, first: Sender<Result<Vec<String>, String>>) -> Result<(), String> {
    let mut noise: Vec<String> = Vec::new();
    let said = loop {
        let Some(line) = lines.next() else { break Err(silent(&noise)) };
        match serde_json::from_slice(line) {
            Ok(Said::Ready { notices, .. }) => break Ok(notices),
            Ok(Said::Failed { reason }) => break Err(reason),
            Ok(_) | Err(_) => {
                noise.push(quoted(line));
                noise.drain(..noise.len().saturating_sub(NOISE_LINES));
            }
        }
    };
    let went = said.as_ref().map(drop).map_err(Clone::clone);
    // Nobody waits for it any more if the time was over.
    let _ = first.send(said);
    went
}

fn silent(noise: &[String]) -> String {
    if noise.is_empty() {
        return "its runner ended without a word".to_owned();
    }
    format!("no runner spoke, but something else did: {}", noise.join(" / "))
}

fn quoted(line: &[u8]) -> String {
    const CHARACTERS: usize = 200;
    String::from_utf8_lossy(line).trim().chars().filter(|c| !c.is_control()).take(CHARACTERS).collect()
}

/// Hears until nothing more comes; gives the reason.
fn hear(lines: &mut Lines, shared: &Shared) -> String {
    while let Some(line) = lines.next() {
        match serde_json::from_slice(line) {
            Ok(said) => take(said, shared),
            // Answers may be missing from now on, so nothing can be relied on.
            Err(_) => return format!("its runner said what is no message: {}", quoted(line)),
        }
    }
    "its runner is gone".to_owned()
}

fn take(said: Said, shared: &Shared) {
    match said {
        Said::Done { number, answer } => {
            // Who does not wait any more is not told.
            if let Some(asker) = shared.state().pending.remove(&number) {
                let _ = asker.send(Ok(answer));
            }
        }
        Said::Refused { number, why } => {
            if let Some(asker) = shared.state().pending.remove(&number) {
                let _ = asker.send(Err(why));
            }
        }
        Said::Wrote { process, text } => {
            let feed = shared.state().feeds.get(&process).cloned();
            if let Some(feed) = feed {
                feed.take(text.as_bytes());
            }
        }
        Said::Ended { process, how } => {
            let feed = shared.state().feeds.get(&process).cloned();
            if let Some(feed) = feed {
                feed.end(Ended::from_code(how));
            }
        }
        // Said once, at the beginning.
        Said::Ready { .. } | Said::Failed { .. } => {}
    }
}
