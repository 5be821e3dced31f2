//! Exit codes: the only place that turns an error into a number and a message with a remedy.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::output;

use record::ReadError;

/// Outcome of a command that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The command did what was asked.
    Well,
    /// The user interrupted the command.
    Interrupted,
    /// The result is void.
    Void,
    /// A requirement or a gate was violated.
    Violated,
    /// A gate is inconclusive.
    Inconclusive,
}

/// Reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Problems of the experiment file, each with the underlined line, or of options.
    #[error("{0}")]
    Problems(String),
    /// Another invalid argument or file of the user, and how to correct it.
    #[error("{what}\n  {remedy}")]
    Bad { what: String, remedy: String },
    /// The target did not answer a single request.
    #[error("{what}\n  {remedy}")]
    Unanswered {
        /// Name of the target, and the reason why it did not answer.
        what: String,
        /// Suggestion of what to check.
        remedy: String,
    },
    /// A run could not be played to its end.
    #[error(transparent)]
    Conduct(#[from] conduct::Error),
    /// The lab failed outside of a run.
    #[error(transparent)]
    Lab(#[from] lab::Error),
    /// The records cannot be analysed.
    #[error("{0}")]
    Analysis(#[from] analysis::Error),
    /// The report could not be made.
    #[error("{0}")]
    Report(#[from] report::Error),
    /// The built-in echo target failed.
    #[error("{0}")]
    Echo(#[from] echo::Error),
    /// Plimsoll could not read or write a file.
    #[error("{what}: {error}")]
    File {
        /// Action that failed, with the path.
        what: String,
        error: std::io::Error,
    },
    /// A bug in Plimsoll.
    #[error("{0}")]
    Ours(String),
}

impl Failure {
    /// Returns a function that turns an I/O error into a failure. `what` describes the failed
    /// action, such as "cannot write FILE".
    pub fn file(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        |error| Self::File { what, error }
    }

    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Problems(_) | Self::Bad { .. } => 2,
            Self::Unanswered { .. } => 4,
            Self::Conduct(error) => conduct_code(error),
            Self::Lab(error) => lab_code(error),
            Self::Analysis(
                analysis::Error::NotARun(_)
                | analysis::Error::Read(ReadError::Later { .. })
                | analysis::Error::Incomparable { .. },
            )
            | Self::Report(report::Error::Record(ReadError::Later { .. })) => 2,
            Self::Analysis(_) | Self::Report(_) | Self::Echo(_) | Self::File { .. } | Self::Ours(_) => 1,
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::Conduct(conduct::Error::Lab(error)) | Self::Lab(error) => error.hint(),
            Self::Conduct(conduct::Error::Record(error)) | Self::File { error, .. }
                if error.kind() == std::io::ErrorKind::StorageFull =>
            {
                Some("free some space, or choose another disk with --out; `run --resume` continues the run".to_owned())
            }
            Self::Conduct(conduct::Error::Record(error)) | Self::File { error, .. }
                if error.kind() == std::io::ErrorKind::FileTooLarge =>
            {
                Some(
                    "a limit of this shell, `ulimit -f`, or of the file system keeps files from growing further"
                        .to_owned(),
                )
            }
            _ => None,
        }
    }
}

fn conduct_code(error: &conduct::Error) -> u8 {
    match error {
        conduct::Error::Lab(error) => lab_code(error),
        conduct::Error::Load(error) => load_code(error),
        // A generator refuses only loads that it or its machine cannot play.
        conduct::Error::Placement(fleet::engines::PlacementError::Start { .. })
        | conduct::Error::Fleet(fleet::session::SessionError::Generator { .. }) => 2,
        conduct::Error::Fleet(fleet::session::SessionError::Unreached { .. }) => 4,
        conduct::Error::Placement(_) | conduct::Error::Fleet(_) => 1,
        conduct::Error::Record(_) | conduct::Error::Broken(_) | conduct::Error::Panicked(_) => 1,
    }
}

fn load_code(error: &load::Error) -> u8 {
    use load::{Error as E, TransportError as T};
    match error {
        E::Protocol(_)
        | E::Transport(T::Service { .. })
        | E::Step { .. }
        | E::Values(_)
        | E::Replay { .. }
        | E::Setting(_) => 2,
        E::Files { .. } | E::Transport(T::Ports { .. } | T::From { .. }) => 3,
        // A target that cannot be prepared counts as not started.
        E::Prepare { .. } => 4,
        E::Disk { .. } | E::Transport(T::System { .. }) | E::RecorderGone | E::Panicked => 1,
    }
}

fn lab_code(error: &lab::Error) -> u8 {
    match error {
        lab::Error::Distrusted(_) => 2,
        error if error.is_targets() => 4,
        _ => 3,
    }
}

/// Whether a thread has panicked.
static HAS_PANICKED: AtomicBool = AtomicBool::new(false);

/// Does the program's work, and returns its exit code. If any thread panics, prints the panic, ends
/// the run in good order and returns exit code 1.
pub fn guarded(work: impl FnOnce() -> ExitCode) -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        HAS_PANICKED.store(true, Ordering::SeqCst);
        output::say(&bug(std::thread::current().name().unwrap_or("without a name"), panic));
        output::end_run();
    }));
    let code = catch_unwind(AssertUnwindSafe(work)).unwrap_or(ExitCode::FAILURE);
    if HAS_PANICKED.load(Ordering::SeqCst) { ExitCode::FAILURE } else { code }
}

fn bug(thread: &str, panic: &std::panic::PanicHookInfo<'_>) -> String {
    let place = panic.location().map_or_else(String::new, |place| format!(" at {}:{}", place.file(), place.line()));
    let payload = panic.payload();
    let why = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let why = why.unwrap_or("no reason given");
    format!(
        "plimsoll: this is a bug: the thread `{thread}` panicked{place}: {why}\n  the run ends, and its records are kept; \
         please report these lines"
    )
}

/// Prints a command's failure, if any, and returns the exit code.
pub fn code(done: Result<Exit, Failure>) -> ExitCode {
    match done {
        Ok(Exit::Well) => ExitCode::SUCCESS,
        Ok(Exit::Violated) => ExitCode::from(5),
        Ok(Exit::Void) => ExitCode::from(6),
        Ok(Exit::Inconclusive) => ExitCode::from(7),
        Ok(Exit::Interrupted) => ExitCode::from(130),
        Err(failure @ Failure::Problems(_)) => {
            output::say_text(&failure.to_string());
            ExitCode::from(failure.code())
        }
        Err(failure) => {
            output::say(&format!("plimsoll: {failure}"));
            if let Some(remedy) = failure.remedy() {
                output::say(&format!("  {remedy}"));
            }
            ExitCode::from(failure.code())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn a_panic_in_any_thread_exits_with_code_1() {
        let here = guarded(|| panic!("here"));
        assert_eq!(format!("{here:?}"), format!("{:?}", ExitCode::from(1)));
        let elsewhere = guarded(|| {
            let thread = std::thread::Builder::new().name("elsewhere".to_owned()).spawn(|| panic!("there"));
            assert!(thread.unwrap().join().is_err());
            ExitCode::SUCCESS
        });
        assert_eq!(format!("{elsewhere:?}"), format!("{:?}", ExitCode::from(1)));
        drop(std::panic::take_hook());
    }
}
