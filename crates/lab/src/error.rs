//! What can go wrong in the lab, in sentences for the user, each with what to do about it where anything can be done.

use std::fmt::Write as _;
use std::path::PathBuf;

use runner::ports::{PortError, PortHolder};

use crate::untrusted_path::UntrustedPath;

/// Why the lab could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program that a process of the target runs is not on this machine.
    #[error("`{program}`, which `{role}` runs, is not on this machine")]
    Missing {
        /// The process.
        role: String,
        /// The program.
        program: String,
    },
    /// A process of the target is to run as a user that is not there.
    #[error("`{role}` is to run as the user `{user}`, and there is none of that name")]
    NoUser {
        /// The process.
        role: String,
        /// The user.
        user: String,
    },
    /// The target's `install check` says that something is missing.
    #[error("`{target}` is not installed completely:{}", listed(missing))]
    NotInstalled {
        /// The target.
        target: String,
        /// The command that installs it.
        command: String,
        /// What `install apply` would do, a line each.
        missing: Vec<String>,
    },
    /// Settings of this machine that a target needs otherwise.
    #[error("this machine's settings do not suffice:{}", listed(whats))]
    Unmet {
        /// What there is and what is needed, a line each.
        whats: Vec<String>,
        /// What to do about each.
        remedies: Vec<String>,
        /// Whether `plimsoll doctor FILE --fix` helps.
        can_fix: bool,
    },
    /// Debian packages that are missing and could not be installed.
    #[error("cannot install {}: {why}", packages.join(", "))]
    Packages {
        /// Their names.
        packages: Vec<String>,
        /// Why not.
        why: String,
    },
    /// A port that the experiment asks for is in use.
    #[error("port {port} is taken{}", holding(.holder.as_ref()))]
    PortTaken {
        /// The port.
        port: u16,
        /// Who holds it; `None` if that could not be found out.
        holder: Option<PortHolder>,
    },
    /// Somebody listens on the socket that the experiment's command is to listen on.
    #[error("somebody listens on the socket {path} already")]
    SocketTaken {
        /// The socket.
        path: String,
    },
    /// A process ended before it was ready.
    #[error("`{role}` ended before it was ready ({how}){}", quoted(log))]
    DiedAtStart {
        /// The process.
        role: String,
        /// `exit 1`, `signal 9`.
        how: String,
        /// Its last log lines.
        log: Vec<String>,
        /// A path of this machine that it was given, and that its host does not have.
        hidden: Option<String>,
    },
    /// A process did not become ready in time.
    #[error("`{role}` was not ready within {within_s} s; tried {tried}, last: {last}{}", quoted(log))]
    NotReady {
        /// The process.
        role: String,
        /// The check.
        tried: String,
        /// Seconds it was given.
        within_s: f64,
        /// What the last attempt came to.
        last: String,
        /// Its last log lines.
        log: Vec<String>,
    },
    /// Several processes did not start.
    #[error("{} processes of the target did not start:{}", .0.len(), each(.0))]
    Several(Vec<Error>),
    /// A target that should run already does not answer.
    #[error("nothing answers at {url}: {reason}")]
    Unreachable {
        /// Where.
        url: String,
        /// Why not.
        reason: String,
    },
    /// `target.toml` uses a placeholder that does not exist.
    #[error("`{{{name}}}` in `{text}` of `{role}` is not a placeholder")]
    Placeholder {
        /// The process.
        role: String,
        /// The text.
        text: String,
        /// The placeholder.
        name: String,
        /// Those that exist.
        known: Vec<String>,
    },
    /// `target.toml` does not fit together.
    #[error("target.toml: {0}")]
    Manifest(String),
    /// A hook failed.
    #[error("hook `{hook}` failed: {reason}")]
    Hook {
        /// The hook.
        hook: String,
        /// Why.
        reason: String,
    },
    /// A fault for a target that the experiment did not start.
    #[error("`{kind}` is refused: this experiment did not start the target, so it must not break it")]
    NotOurs {
        /// The fault's kind.
        kind: String,
    },
    /// A fault's victim that does not exist.
    #[error("no member `{on}`")]
    NoVictim {
        /// What was asked.
        on: String,
        /// The members, or why the choice is empty.
        known: Vec<String>,
    },
    /// A fault against this machine itself.
    #[error("that would hit this machine as a whole, which the experiment does not own")]
    NotAHost,
    /// Virtual and real hosts in one lab.
    #[error(
        "{host} is reached over ssh, and others of the lab are virtual hosts of this machine: they cannot reach each other"
    )]
    MixedLab {
        /// The ssh host.
        host: String,
    },
    /// The lab asks for more than this machine has.
    #[error("{what}")]
    DoesNotFit {
        /// What is too much, with both figures.
        what: String,
        /// The largest `lab.speed` that fits, if that would help.
        speed: Option<f64>,
    },
    /// A part of the lab needs root, or a program, or something of the kernel that is not there.
    #[error("{what} needs {needs}")]
    Needs {
        /// Which part of the lab.
        what: String,
        /// What it needs.
        needs: String,
        /// What still works without, or how to get it.
        instead: String,
    },
    /// A host could not be made or reached.
    #[error("host {host}: {reason}")]
    Host {
        /// Its name.
        host: String,
        /// Why.
        reason: String,
    },
    /// A host stopped answering.
    #[error("host {host} does not answer any more: {reason}")]
    HostLost {
        /// Its name.
        host: String,
        /// What was noticed.
        reason: String,
    },
    /// A platform gives no place for generators, or does not answer.
    #[error("generators: {reason}")]
    Platform {
        /// Why, in the platform's own words.
        reason: String,
    },
    /// A fault could not be injected or healed.
    #[error("{0}")]
    Fault(String),
    /// Processes of the run that even SIGKILL did not end.
    #[error("these processes could not be ended: {}", .pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))]
    Left {
        /// Their pids.
        pids: Vec<u32>,
    },
    /// The user asked for an end while the target was being started.
    #[error("interrupted")]
    Interrupted,
    /// The plan asks for hosts that this version cannot make.
    #[error("this version cannot do that yet: {0}")]
    NotYet(String),
    /// The machine refused.
    #[error("cannot {doing}: {error}")]
    System {
        /// What was being done, with the path if there is one.
        doing: String,
        /// Why not.
        error: std::io::Error,
    },
    /// Something that another user can have written, where that must not be.
    #[error("{0}")]
    Distrusted(Box<UntrustedPath>),
    /// There is no place for private files: what is there is not the caller's alone.
    #[error("no place for private files: {0}")]
    NoPrivateFolder(Box<UntrustedPath>),
    /// The folder for temporary files is not there.
    #[error("there is no folder {}, where temporary files should go", path.display())]
    NoTemporaryFolder {
        /// The folder.
        path: PathBuf,
    },
}

/// What to do about a host that no name server knows.
pub const UNKNOWN_NAME: &str = "check the host's name; `getent hosts NAME` asks this machine's DNS for it";

impl Error {
    /// Whether the target failed to start, rather than the lab to be built.
    #[must_use]
    pub fn is_targets(&self) -> bool {
        match self {
            Self::DiedAtStart { .. } | Self::NotReady { .. } | Self::Unreachable { .. } => true,
            Self::Several(errors) => errors.iter().all(Self::is_targets),
            _ => false,
        }
    }

    /// What to do about it, if anything can be said.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Missing { .. } => "`plimsoll install TARGET` installs what a target needs".to_owned(),
            Self::NoUser { user, .. } => format!(
                "`plimsoll install TARGET` makes it, if the target's hook does; or, as root: useradd --system --no-create-home \
                 {user}"
            ),
            Self::NotInstalled { command, .. } => {
                format!("`{command}` does this; `plimsoll run --install` does it before the run")
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
                format!("end process {pid}, or leave `port` out: then a free one is taken")
            }
            Self::PortTaken { holder: None, .. } => "leave `port` out: then a free one is taken".to_owned(),
            Self::SocketTaken { .. } => "end who does, or let the command and `url` name another one".to_owned(),
            Self::DiedAtStart { hidden: Some(path), .. } => format!(
                "a virtual host has its own /tmp, /run and /dev/shm, and not this machine's {path}: keep it in another folder"
            ),
            Self::DiedAtStart { .. } | Self::NotReady { .. } => {
                "its whole output is in the trial's folder logs/".to_owned()
            }
            Self::Several(errors) => return errors.iter().find_map(Self::hint),
            Self::Unreachable { reason, .. } if reason.contains("lookup address") => UNKNOWN_NAME.to_owned(),
            Self::Unreachable { .. } => {
                "start it first; a file can name the command that does, with `start`".to_owned()
            }
            Self::Placeholder { known, .. } => format!("there are: {}", known.join(", ")),
            Self::NotOurs { .. } => "let Plimsoll start the target, with `use` or `start`".to_owned(),
            Self::NotAHost => "give it hosts of its own: [lab] hosts = 3, or ssh = [...]".to_owned(),
            Self::MixedLab { .. } => "make all of them virtual, or reach all of them over ssh".to_owned(),
            Self::DoesNotFit { speed: Some(speed), .. } => {
                format!("the largest speed that fits is lab.speed = {speed}")
            }
            Self::Needs { instead, .. } => instead.clone(),
            Self::NoVictim { known, .. } => format!("there are: {}", known.join(", ")),
            Self::Left { .. } => {
                "they wait for the kernel, most likely for a disk; `plimsoll clean` tries again".to_owned()
            }
            Self::System { error, .. } if error.kind() == std::io::ErrorKind::StorageFull => {
                "free some space; TMPDIR says where targets keep their data".to_owned()
            }
            Self::Distrusted(found) => found.remedy(),
            Self::NoPrivateFolder(_) => {
                "remove that, or set XDG_RUNTIME_DIR and TMPDIR to folders that only you can write to".to_owned()
            }
            Self::NoTemporaryFolder { .. } => "make it, or set TMPDIR to another one".to_owned(),
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

    /// For `map_err`: what another can have written is in the way of files of our own.
    pub(crate) fn for_private_files(self) -> Self {
        match self {
            Self::Distrusted(found) => Self::NoPrivateFolder(found),
            other => other,
        }
    }

    /// For `map_err`: what was being done when the machine refused.
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

/// The command that installs these packages.
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
    if log.is_empty() { "; it wrote nothing".to_owned() } else { format!("; its last lines:{}", listed(log)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_named_with_its_holder() {
        let holder = Some(PortHolder { pid: 17, program: "nginx".to_owned() });
        let error = Error::from(PortError::Taken { port: 80, holder });
        assert_eq!(error.to_string(), "port 80 is taken: process 17 (nginx) listens on it");
        assert_eq!(error.hint().unwrap(), "end process 17, or leave `port` out: then a free one is taken");
    }
}
