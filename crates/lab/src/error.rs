//! Errors of the lab, as sentences for the user, each with a remedy if there is one.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use runner::ports::{PortError, PortHolder};

use crate::untrusted_path::UntrustedPath;

/// An error of the lab.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program that a process of the target runs is missing on this machine.
    #[error("`{program}`, which `{role}` runs, is not on this machine")]
    Missing {
        /// The process's role.
        role: String,
        program: String,
    },
    /// A process of the target must run as a user that does not exist.
    #[error("`{role}` must run as user `{user}`, which does not exist on this machine")]
    NoUser {
        /// The process's role.
        role: String,
        user: String,
    },
    /// The target's `install check` reports missing parts.
    #[error("`{target}` is not completely installed; missing steps:{}", listed(missing))]
    NotInstalled {
        target: String,
        /// The command that installs the target.
        command: String,
        /// The steps of `install apply`, one line each.
        missing: Vec<String>,
    },
    /// Settings of this machine do not meet a target's needs.
    #[error("settings of this machine are too low:{}", listed(whats))]
    Unmet {
        /// The current and the needed value, one line each.
        whats: Vec<String>,
        /// A remedy for each setting.
        remedies: Vec<String>,
        /// Whether `plimsoll doctor FILE --fix` helps.
        can_fix: bool,
    },
    /// Debian packages are missing and could not be installed.
    #[error("cannot install {}: {why}", packages.join(", "))]
    Packages {
        packages: Vec<String>,
        /// The reason.
        why: String,
    },
    /// A port that the experiment uses is taken.
    #[error("port {port} is taken{}", holding(.holder.as_ref()))]
    PortTaken {
        port: u16,
        /// The process that holds the port, or `None` if it is not known.
        holder: Option<PortHolder>,
    },
    /// A process already listens on the socket of the experiment's command.
    #[error("another process already listens on the socket {path}")]
    SocketTaken {
        /// The path of the socket.
        path: String,
    },
    /// A process ended before it was ready.
    #[error("`{role}` ended before it was ready ({how}){}", quoted(log))]
    DiedAtStart {
        /// The process's role.
        role: String,
        /// The exit status: `exit 1`, `signal 9`.
        how: String,
        /// The last lines of the process's log.
        log: Vec<String>,
        /// A path in the process's arguments that exists on this machine but not on the process's
        /// host.
        hidden: Option<String>,
    },
    /// A process was not ready in time.
    #[error("`{role}` was not ready within {within_s} s; check: {tried}; last result: {last}{}", quoted(log))]
    NotReady {
        /// The process's role.
        role: String,
        /// The readiness check.
        tried: String,
        /// The time limit, seconds.
        within_s: f64,
        /// The result of the last attempt.
        last: String,
        /// The last lines of the process's log.
        log: Vec<String>,
    },
    /// Several processes did not start.
    #[error("{} processes of the target did not start:{}", .0.len(), each(.0))]
    Several(Vec<Error>),
    /// A target that should already run does not answer.
    #[error("nothing answers at {url}: {reason}")]
    Unreachable { url: String, reason: String },
    /// `target.toml` uses an unknown placeholder.
    #[error("`{{{name}}}` in `{text}` of `{role}` is not a placeholder")]
    Placeholder {
        /// The process's role.
        role: String,
        /// The text with the placeholder.
        text: String,
        /// The unknown placeholder.
        name: String,
        /// The known placeholders.
        known: Vec<String>,
    },
    /// `target.toml` is inconsistent.
    #[error("target.toml: {0}")]
    Manifest(String),
    /// A hook failed.
    #[error("hook `{hook}` failed: {reason}")]
    Hook { hook: String, reason: String },
    /// A fault needs a target that the experiment started, but this target was already running.
    #[error("`{kind}` is refused: this experiment did not start the target, so it must not break it")]
    NotOurs {
        /// The kind of the fault.
        kind: String,
    },
    /// The victim of a fault does not exist.
    #[error("no member `{on}`")]
    NoVictim {
        /// The requested victim.
        on: String,
        /// The members, or the reason why there is no victim.
        known: Vec<String>,
    },
    /// A fault would affect this whole machine.
    #[error("this fault would affect this whole machine, not only the target")]
    NotAHost,
    /// The lab mixes virtual and real hosts.
    #[error(
        "{host} is reached over ssh, but other hosts of the lab are virtual hosts of this machine: the two kinds \
         cannot reach each other"
    )]
    MixedLab { host: String },
    /// The lab needs more than this machine has.
    #[error("{what}")]
    DoesNotFit {
        /// The exceeded capacities, with requested and available values.
        what: String,
        /// The largest `lab.speed` that fits, if a lower speed helps.
        speed: Option<f64>,
    },
    /// A part of the lab needs root, a program, or a kernel feature that is missing.
    #[error("{what} needs {needs}")]
    Needs {
        /// The part of the lab.
        what: String,
        /// The missing requirement.
        needs: String,
        /// Features that work without the requirement, or a way to meet it.
        instead: String,
    },
    /// A host could not be made or reached.
    #[error("host {host}: {reason}")]
    Host { host: String, reason: String },
    /// A host stopped answering.
    #[error("host {host} no longer answers: {reason}")]
    HostLost {
        host: String,
        /// The observed symptom.
        reason: String,
    },
    /// A platform provides no generators, or does not answer.
    #[error("generators: {reason}")]
    Platform {
        /// The platform's own message.
        reason: String,
    },
    /// A fault could not be injected or healed.
    #[error("{0}")]
    Fault(String),
    /// Processes of the run did not end, not even by SIGKILL.
    #[error("processes could not be ended: {}", .pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))]
    Left { pids: Vec<u32> },
    /// The user interrupted the start of the target.
    #[error("interrupted")]
    Interrupted,
    /// The plan needs hosts that this version cannot make.
    #[error("not supported in this version: {0}")]
    NotYet(String),
    /// A system call or program failed.
    #[error("cannot {doing}: {error}")]
    System {
        /// The failed action, with the path if there is one.
        doing: String,
        error: std::io::Error,
    },
    /// Another user can have written a file or folder that must be trusted.
    #[error("{0}")]
    Distrusted(Box<UntrustedPath>),
    /// No folder is private enough for Plimsoll's files, because other users can write to it.
    #[error("no safe folder for private files: {0}")]
    NoPrivateFolder(Box<UntrustedPath>),
    /// The folder for temporary files does not exist.
    #[error("the folder for temporary files, {}, does not exist", path.display())]
    NoTemporaryFolder { path: PathBuf },
}

/// Remedy for a host name that cannot be resolved.
pub const UNKNOWN_NAME: &str = "check the host's name; `getent hosts NAME` looks it up in DNS";

impl Error {
    /// Whether the target failed to start, rather than the lab.
    #[must_use]
    pub fn is_targets(&self) -> bool {
        match self {
            Self::DiedAtStart { .. } | Self::NotReady { .. } | Self::Unreachable { .. } => true,
            Self::Several(errors) => errors.iter().all(Self::is_targets),
            _ => false,
        }
    }

    /// Returns a remedy, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Missing { .. } => "`plimsoll install TARGET` installs what a target needs".to_owned(),
            Self::NoUser { user, .. } => format!(
                "`plimsoll install TARGET` creates the user if the target's install hook does; or run as root: \
                 useradd --system --no-create-home {user}"
            ),
            Self::NotInstalled { command, .. } => {
                format!("`{command}` runs these steps; `plimsoll run --install` runs them before the run")
            }
            Self::Unmet { remedies, can_fix, .. } => {
                let fix = if *can_fix {
                    "`plimsoll doctor FILE --fix` changes settings until the next boot; by hand: "
                } else {
                    ""
                };
                format!("{fix}{}", remedies.join("; "))
            }
            Self::Packages { packages, .. } => format!("run: {}", install_command(packages)),
            Self::PortTaken { holder: Some(PortHolder { pid, .. }), .. } => {
                format!("end process {pid}, or leave out `port` to use a free port")
            }
            Self::PortTaken { holder: None, .. } => "leave out `port` to use a free port".to_owned(),
            Self::SocketTaken { .. } => {
                "end that process, or use another socket in the command and in `url`".to_owned()
            }
            Self::DiedAtStart { hidden: Some(path), .. } => format!(
                "a virtual host has its own /tmp, /run and /dev/shm, so it does not see this machine's {path}: move \
                 {path} to another folder"
            ),
            Self::DiedAtStart { .. } | Self::NotReady { .. } => {
                "the complete output of the process is in the trial's folder logs/".to_owned()
            }
            Self::Several(errors) => return errors.iter().find_map(Self::hint),
            Self::Unreachable { reason, .. } if reason.contains("lookup address") => UNKNOWN_NAME.to_owned(),
            Self::Unreachable { .. } => {
                "start the target first; or set `start` to the command that starts it".to_owned()
            }
            Self::Placeholder { known, .. } => format!("known placeholders: {}", known.join(", ")),
            Self::NotOurs { .. } => "let Plimsoll start the target, with `use` or `start`".to_owned(),
            Self::NotAHost => "run the target on hosts of its own: [lab] hosts = 3, or ssh = [...]".to_owned(),
            Self::MixedLab { .. } => "make all hosts virtual, or reach all of them over ssh".to_owned(),
            Self::DoesNotFit { speed: Some(speed), .. } => {
                format!("the largest speed that fits is lab.speed = {speed}")
            }
            Self::Needs { instead, .. } => instead.clone(),
            Self::NoVictim { known, .. } => format!("there are: {}", known.join(", ")),
            Self::Left { .. } => {
                "the kernel is holding them, most likely for a disk; `plimsoll clean` tries again".to_owned()
            }
            Self::System { error, .. } if error.kind() == std::io::ErrorKind::StorageFull => {
                "free some disk space; targets keep their data in TMPDIR".to_owned()
            }
            Self::Distrusted(found) => found.remedy(),
            Self::NoPrivateFolder(_) => {
                "remove it, or set XDG_RUNTIME_DIR and TMPDIR to folders that only you can write to".to_owned()
            }
            Self::NoTemporaryFolder { .. } => "create the folder, or set TMPDIR to an existing one".to_owned(),
            Self::Manifest(_)
            | Self::Hook { .. }
            | Self::DoesNotFit { .. }
            | Self::Host { .. }
            | Self::HostLost { .. }
            | Self::Platform { .. }
            | Self::Fault(_)
            | Self::Interrupted
            | Self::NotYet(_)
            | Self::System { .. } => return None,
        })
    }

    /// Converts, for `map_err`, an untrusted path into an error about Plimsoll's private files.
    pub(crate) fn for_private_files(self) -> Self {
        match self {
            Self::Distrusted(found) => Self::NoPrivateFolder(found),
            other => other,
        }
    }

    /// Adds, for `map_err`, the action on a file that failed, such as `read`.
    pub(crate) fn on(doing: &str, path: &Path) -> impl Fn(std::io::Error) -> Self + Copy {
        move |error| Self::System { doing: format!("{doing} {}", path.display()), error }
    }

    /// Adds, for `map_err`, the action that failed.
    pub fn system(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let doing = doing.into();
        move |error| Self::System { doing, error }
    }
}

impl From<UntrustedPath> for Error {
    fn from(found: UntrustedPath) -> Self {
        Self::Distrusted(Box::new(found))
    }
}

impl From<PortError> for Error {
    fn from(error: PortError) -> Self {
        match error {
            PortError::Taken { port, holder } => Self::PortTaken { port, holder },
            PortError::System { doing, error } => Self::System { doing, error },
        }
    }
}

/// Returns the command that installs these packages.
pub(crate) fn install_command(packages: &[String]) -> String {
    format!("sudo apt-get update && sudo apt-get install --yes --no-install-recommends {}", packages.join(" "))
}

fn holding(holder: Option<&PortHolder>) -> String {
    holder.map(|PortHolder { pid, program }| format!(": process {pid} ({program}) listens on it")).unwrap_or_default()
}

fn listed(lines: &[String]) -> String {
    lines.iter().fold(String::new(), |mut text, line| {
        let _ = write!(text, "\n  {line}");
        text
    })
}

fn each(errors: &[Error]) -> String {
    errors.iter().map(|error| format!("\n- {error}")).collect()
}

fn quoted(log: &[String]) -> String {
    if log.is_empty() { "; it printed nothing".to_owned() } else { format!("; its last lines:{}", listed(log)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_named_with_its_holder() {
        let holder = Some(PortHolder { pid: 17, program: "nginx".to_owned() });
        let error = Error::from(PortError::Taken { port: 80, holder });
        assert_eq!(error.to_string(), "port 80 is taken: process 17 (nginx) listens on it");
        assert_eq!(error.hint().unwrap(), "end process 17, or leave out `port` to use a free port");
    }
}
