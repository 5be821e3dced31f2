//! Exit codes: the one place that turns an error into a number and a message with a remedy.

use std::process::ExitCode;

/// What a command came to, if not to an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// As asked.
    Well,
    /// The user ended it.
    Interrupted,
    /// The result is void.
    Void,
    /// A requirement or a gate was violated.
    Violated,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The experiment file, with every problem underlined.
    #[error("{0}")]
    Problems(String),
    /// Any other bad argument or file of the user's.
    #[error("{what}\n  {remedy}")]
    Bad {
        /// What is wrong.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// A run that could not be played to its end.
    #[error(transparent)]
    Conduct(#[from] conduct::Error),
    /// The lab, outside of a run.
    #[error(transparent)]
    Lab(#[from] lab::Error),
    /// Records that cannot be analysed.
    #[error("{0}")]
    Analysis(#[from] analysis::Error),
    /// The page could not be made.
    #[error("{0}")]
    Report(#[from] report::Error),
    /// The built-in target.
    #[error("{0}")]
    Echo(#[from] echo::Error),
    /// A file of ours.
    #[error("{what}: {error}")]
    File {
        /// What was being done, with the path.
        what: String,
        /// Why not.
        error: std::io::Error,
    },
    /// Something that must not happen.
    #[error("{0}")]
    Ours(String),
}

impl Failure {
    /// Its exit code.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Problems(_) | Self::Bad { .. } => 2,
            Self::Conduct(error) => conduct_code(error),
            Self::Lab(error) => lab_code(error),
            Self::Analysis(
                analysis::Error::NotARun(_) | analysis::Error::Later { .. } | analysis::Error::Incomparable { .. },
            ) => 2,
            Self::Analysis(_) | Self::Report(_) | Self::Echo(_) | Self::File { .. } | Self::Ours(_) => 1,
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::Conduct(conduct::Error::Lab(error)) | Self::Lab(error) => error.hint(),
            Self::Conduct(conduct::Error::Record(error)) | Self::File { error, .. }
                if error.kind() == std::io::ErrorKind::StorageFull =>
            {
                Some("free some space, or choose another disk with --out; `run --resume` goes on".to_owned())
            }
            _ => None,
        }
    }
}

fn conduct_code(error: &conduct::Error) -> u8 {
    match error {
        conduct::Error::Lab(error) => lab_code(error),
        conduct::Error::Load(error) => load_code(error),
        conduct::Error::NotYet(_) => 2,
        conduct::Error::Record(_) | conduct::Error::Broken(_) => 1,
    }
}

fn load_code(error: &load::Error) -> u8 {
    use load::Error as E;
    match error {
        E::Protocol(_)
        | E::Service { .. }
        | E::Step { .. }
        | E::Feed { .. }
        | E::Replay { .. }
        | E::Script { .. }
        | E::Setting(_) => 2,
        E::Files { .. } | E::Ports { .. } | E::From { .. } => 3,
        // A target that cannot be brought into its first state has not started.
        E::Prepare { .. } => 4,
        E::Disk { .. } | E::System { .. } | E::RecorderGone | E::Panicked => 1,
    }
}

fn lab_code(error: &lab::Error) -> u8 {
    match error {
        lab::Error::Distrusted(_) => 2,
        error if error.is_targets() => 4,
        _ => 3,
    }
}

/// Says what went wrong, if anything, and gives the exit code.
pub fn code(done: Result<Done, Failure>) -> ExitCode {
    match done {
        Ok(Done::Well) => ExitCode::SUCCESS,
        Ok(Done::Violated) => ExitCode::from(5),
        Ok(Done::Void) => ExitCode::from(6),
        Ok(Done::Interrupted) => ExitCode::from(130),
        Err(failure @ Failure::Problems(_)) => {
            eprint!("{failure}");
            ExitCode::from(failure.code())
        }
        Err(failure) => {
            eprintln!("plimsoll: {failure}");
            if let Some(remedy) = failure.remedy() {
                eprintln!("  {remedy}");
            }
            ExitCode::from(failure.code())
        }
    }
}
