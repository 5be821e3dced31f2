//! Standard output, for results only, and standard error, for everything else. This is the only
//! file of the program that prints. A failed print does not panic, and a run whose output is closed
//! ends in good order.
#![allow(clippy::disallowed_methods, reason = "home of standard output and standard error")]

use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use conduct::Interrupts;
use experiment::secrets::Secrets;
use rustix::event::{PollFd, PollFlags, poll};
use serde::Serialize;

use crate::exit::Failure;

/// Escape sequences of the colours that Plimsoll prints.
const COLOURS: [&str; 5] = ["\x1b[0m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"];

/// Whether standard output or standard error is lost.
static IS_LOST: AtomicBool = AtomicBool::new(false);
/// Run that is asked to end when an output is lost.
static RUN: Mutex<Option<Arc<Interrupts>>> = Mutex::new(None);
/// Secrets that are never printed.
static SECRETS: Mutex<Option<Secrets>> = Mutex::new(None);

/// Prints a text on standard output. Replaces control characters, except Plimsoll's own colours.
pub fn text(text: &str) -> Result<(), Failure> {
    data(&without_commands(text))
}

/// Replaces control characters, except Plimsoll's own colours.
fn without_commands(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('\x1b') {
        shown.push_str(&text::plain(&rest[..at]));
        let colour = COLOURS.iter().find(|colour| rest[at..].starts_with(**colour) && colour_on_stdout());
        shown.push_str(colour.copied().unwrap_or("\u{fffd}"));
        rest = &rest[at + colour.map_or(1, |colour| colour.len())..];
    }
    shown + &text::plain(rest)
}

/// Prints a text for other programs on standard output, unchanged except for secrets. It is no
/// error if the reader stops early (`plimsoll show DIR | head`).
pub fn data(text: &str) -> Result<(), Failure> {
    let text = without_secrets(text);
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::File { what: "cannot write to standard output".to_owned(), error })
        }
        _ => Ok(()),
    }
}

/// Prints a value as JSON, for people and programs alike.
pub fn json<T: Serialize>(value: &T) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value).map_err(|error| Failure::Ours(error.to_string()))?;
    data(&(json + "\n"))
}

/// Prints a line on standard error. Replaces control characters.
pub fn say(line: &str) {
    say_text(&format!("{}\n", text::plain(line)));
}

/// Prints a text on standard error, unchanged except for secrets.
pub fn say_text(text: &str) {
    // One write, so that other threads cannot print in between.
    match io::stderr().lock().write_all(without_secrets(text).as_bytes()) {
        // A terminal whose buffer is full is not lost.
        Err(error) if error.kind() != ErrorKind::WouldBlock => lose(),
        _ => {}
    }
}

/// Hides these secrets in all later output.
pub fn hide(secrets: &Secrets) {
    *SECRETS.lock().unwrap_or_else(PoisonError::into_inner) =
        Some(secrets.clone()).filter(|secrets| !secrets.is_empty());
}

/// Returns the text without the secrets that [`hide`] named.
pub fn without_secrets(text: &str) -> std::borrow::Cow<'_, str> {
    match &*SECRETS.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(secrets) => secrets.hidden(text).into_owned().into(),
        None => text.into(),
    }
}

/// Makes the run end when its output is lost, because of a closed terminal, a full disk, or a
/// reader that has ended. A failed print or, between two prints, a thread detects the loss.
pub fn ends(run: &Arc<Interrupts>) -> io::Result<()> {
    *RUN.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(run));
    if IS_LOST.load(Ordering::SeqCst) {
        run.ask_once();
    }
    std::thread::Builder::new().name("outputs".to_owned()).spawn(await_loss).map(drop)
}

/// Asks the current run, if any, to end in good order.
pub fn end_run() {
    if let Some(run) = &*RUN.lock().unwrap_or_else(PoisonError::into_inner) {
        run.ask_once();
    }
}

fn lose() {
    IS_LOST.store(true, Ordering::SeqCst);
    end_run();
}

/// Waits until the reader of standard output or standard error is gone. For files it does not wait.
fn await_loss() {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    // No event is requested, because poll always reports a lost reader.
    let mut ends = [PollFd::new(&stdout, PollFlags::empty()), PollFd::new(&stderr, PollFlags::empty())];
    loop {
        match poll(&mut ends, None) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) if ends.iter().any(|end| end.revents().intersects(PollFlags::ERR | PollFlags::HUP)) => return lose(),
            _ => return,
        }
    }
}

/// Whether standard error is a terminal.
#[must_use]
pub fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Whether stderr takes colours.
#[must_use]
pub fn colour_on_stderr() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Whether stdout takes colours.
#[must_use]
pub fn colour_on_stdout() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        let shown = without_commands("a \x1b]0;owned\x07\u{9b}2J \u{202e}txt\x1b[31m red\tb\n");
        assert_eq!(
            shown, "a \u{fffd}]0;owned\u{fffd}\u{fffd}2J [U+202E]txt\u{fffd}[31m red\tb\n",
            "tests have no terminal"
        );
    }
}
