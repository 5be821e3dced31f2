//! Standard output, for results only, and standard error, for everything else. The only file of the program that prints: what is printed
//! here cannot make it panic, and a run whose output nobody can see any more ends in good order.

use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use conduct::Interrupts;
use experiment::secrets::Secrets;
use rustix::event::{PollFd, PollFlags, poll};
use serde::Serialize;

use crate::exit::Failure;

/// Escape sequences of our own colours.
const COLOURS: [&str; 5] = ["\x1b[0m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"];

/// Whether something could not be said.
static IS_LOST: AtomicBool = AtomicBool::new(false);
/// The run that ends when nobody can hear of it any more.
static RUN: Mutex<Option<Arc<Interrupts>>> = Mutex::new(None);
/// Secrets that are never printed.
static SECRETS: Mutex<Option<Secrets>> = Mutex::new(None);

/// Prints words on standard output, in which what others have put into them commands no terminal; our own colours stay.
///
/// # Errors
/// Returns the errors of [`data`].
pub fn text(text: &str) -> Result<(), Failure> {
    data(&without_commands(text))
}

/// The words with our own colours and no other command of a terminal.
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

/// Prints a text as it is on standard output: what other programs read. A reader that has seen enough (`plimsoll show DIR | head`) is no error.
///
/// # Errors
/// If standard output cannot be written, for another reason than that nobody reads it any more.
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
///
/// # Errors
/// Returns the errors of [`data`].
pub fn json<T: Serialize>(value: &T) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value).map_err(|error| Failure::Ours(error.to_string()))?;
    data(&(json + "\n"))
}

/// Says a line on standard error. What others have put into it must not command the terminal.
pub fn say(line: &str) {
    say_text(&format!("{}\n", text::plain(line)));
}

/// Says a text on standard error as it is.
pub fn say_text(text: &str) {
    // In one piece, so that nothing that another thread says comes between.
    match io::stderr().lock().write_all(without_secrets(text).as_bytes()) {
        // A terminal that is full for a moment is not gone.
        Err(error) if error.kind() != ErrorKind::WouldBlock => lose(),
        _ => {}
    }
}

/// Values that are never printed from now on.
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

/// From now on the run is asked to end when its output is gone: a closed terminal, a full disk, a reader that has ended. That is
/// noticed by what is said, and, between two words, by a thread that waits for it.
///
/// # Errors
/// If the thread cannot be started.
pub fn ends(run: &Arc<Interrupts>) -> io::Result<()> {
    *RUN.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(run));
    if IS_LOST.load(Ordering::SeqCst) {
        run.ask_once();
    }
    std::thread::Builder::new().name("outputs".to_owned()).spawn(await_loss).map(drop)
}

/// Asks the run to end in good order, if there is one.
pub fn end_run() {
    if let Some(run) = &*RUN.lock().unwrap_or_else(PoisonError::into_inner) {
        run.ask_once();
    }
}

fn lose() {
    IS_LOST.store(true, Ordering::SeqCst);
    end_run();
}

/// Waits until nobody is at the other end of one of the two any more. Files never lose theirs.
fn await_loss() {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    // Nothing is asked for: a loss is always told.
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
    fn words_of_others_command_no_terminal() {
        let shown = without_commands("a \x1b]0;owned\x07\u{9b}2J \u{202e}txt\x1b[31m red\tb\n");
        assert_eq!(
            shown, "a \u{fffd}]0;owned\u{fffd}\u{fffd}2J [U+202E]txt\u{fffd}[31m red\tb\n",
            "tests have no terminal"
        );
    }
}
