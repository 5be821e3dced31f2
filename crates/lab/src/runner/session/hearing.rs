//! Hears what a runner says and hands it to whom it concerns. It must not ask anything, nor hear for ever what nobody asked for.

use std::io::Read;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::{RUNNER_GONE, Shared};
use crate::Error;
use crate::hosts::Ended;
use crate::plain_text;
use crate::runner::{HostLines, Said};

/// Before the runner speaks, something else may: a login's greeting. Of it, so much is quoted if no runner comes.
const NOISE_LINES: usize = 5;
const QUOTED_CHARACTERS: usize = 200;
/// Who has said so much before a runner speaks is none.
const NOISE_BYTES: usize = 1 << 20;
/// Answers that nobody waits for: those to orders whose time was over, and what a runner says once. More are a flood.
const UNASKED: usize = 10_000;

type Output = HostLines<Box<dyn Read + Send>>;

/// Hears on a thread of its own; the first thing is whether the runner is ready.
pub fn begin(
    output: Box<dyn Read + Send>,
    shared: Arc<Shared>,
) -> Result<Receiver<Result<Vec<String>, String>>, Error> {
    let (sender, first) = channel();
    let hear = move || {
        let mut lines = HostLines::of(output);
        let reason = match until_ready(&mut lines, sender) {
            Ok(()) => hear(&mut lines, &shared),
            Err(reason) => reason,
        };
        // It is not read any more: a runner that goes on is held up, or ends.
        drop(lines);
        shared.lose(&reason);
    };
    let thread = std::thread::Builder::new().name("session".to_owned()).spawn(hear);
    thread.map_err(Error::system("start a thread"))?;
    Ok(first)
}

/// Passes over what is not said by a runner, and hands on what it says first.
fn until_ready(lines: &mut Output, first: Sender<Result<Vec<String>, String>>) -> Result<(), String> {
    let (mut noise, mut heard_bytes): (Vec<String>, usize) = (Vec::new(), 0);
    let said = loop {
        let line = match lines.next_line() {
            Ok(Some(line)) => line,
            Ok(None) => break Err(silent(&noise)),
            Err(reason) => break Err(format!("no runner spoke, but something else did: {reason}")),
        };
        heard_bytes += line.len();
        if heard_bytes > NOISE_BYTES {
            break Err(format!("{}; it says more than {} MiB", silent(&noise), NOISE_BYTES >> 20));
        }
        match Said::read(line) {
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
    plain_text::beginning(String::from_utf8_lossy(line).trim(), QUOTED_CHARACTERS)
}

/// Hears until nothing more comes; gives the reason.
fn hear(lines: &mut Output, shared: &Shared) -> String {
    let mut unasked = 0;
    loop {
        let line = match lines.next_line() {
            Ok(Some(line)) => line,
            Ok(None) => return RUNNER_GONE.to_owned(),
            Err(reason) => return format!("its runner broke the rules: {reason}"),
        };
        let was_asked = match Said::read(line) {
            Ok(said) => take(said, shared),
            // Answers may be missing from now on, so nothing can be relied on.
            Err(why) => return format!("its runner said what is no message: {} ({why})", quoted(line)),
        };
        match was_asked {
            Ok(true) => {}
            Ok(false) if unasked < UNASKED => unasked += 1,
            Ok(false) => return format!("its runner said more than {UNASKED} things that nobody had asked"),
            Err(reason) => return reason,
        }
    }
}

/// Hands on what was said. False: nobody had asked for it.
fn take(said: Said, shared: &Shared) -> Result<bool, String> {
    match said {
        Said::Done { number, answer } => {
            let asker = shared.state().pending.remove(&number);
            Ok(asker.map(|asker| asker.answered(answer)).is_some())
        }
        Said::Refused { number, why } => {
            let asker = shared.state().pending.remove(&number);
            // Who does not wait any more is not told.
            Ok(asker.map(|asker| drop(asker.asker.send(Err(why)))).is_some())
        }
        Said::Printed { number, to_errors, text } => {
            match shared.state().pending.get_mut(&number).map(|asker| asker.take(to_errors, &text)) {
                Some(false) => Err("its runner gave more of what a program printed than was to be kept".to_owned()),
                taken => Ok(taken.is_some()),
            }
        }
        Said::Wrote { process, text } => {
            let feed = shared.state().feeds.get(&process).cloned();
            if let Some(feed) = feed {
                feed.take(text.as_bytes());
            }
            // What a process leaves behind may write for as long as it likes.
            Ok(true)
        }
        Said::Ended { process, how } => {
            let feed = shared.state().feeds.get(&process).cloned();
            if let Some(feed) = feed {
                feed.end(Ended::from_code(how));
            }
            Ok(true)
        }
        // Said once, at the beginning.
        Said::Ready { .. } | Said::Failed { .. } => Ok(false),
    }
}
