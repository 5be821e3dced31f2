//! Standard output, for results only. A reader that has seen enough (`plimsoll show DIR | head`) is no error.

use std::io::{ErrorKind, Write as _};

use serde::Serialize;

use crate::exit::Failure;

/// Prints a text as it is.
///
/// # Errors
/// If standard output cannot be written, for another reason than that nobody reads it any more.
pub fn text(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
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
/// As [`text`].
pub fn json<T: Serialize>(value: &T) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value).map_err(|error| Failure::Ours(error.to_string()))?;
    text(&(json + "\n"))
}
