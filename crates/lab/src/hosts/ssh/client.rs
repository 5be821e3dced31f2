//! The system's `ssh`, as a program that is started: with the user's own configuration, agent and jump hosts, and without
//! anything that would ask somebody. It must not know what is done at the other end.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};

use super::destination::Destination;
use crate::linux::{pidfd, spawn};

/// Names a configuration file for ssh instead of the user's own.
const CONFIG: &str = "PLIMSOLL_SSH_CONFIG";

/// What we insist on. The first value that ssh gets for an option holds, and these come first.
const INSISTED: &[&str] = &[
    "BatchMode=yes",
    "LogLevel=ERROR",
    "RequestTTY=no",
    "RemoteCommand=none",
    "PermitLocalCommand=no",
    "ClearAllForwardings=yes",
    "ForwardX11=no",
    "ControlPersist=no",
    // A machine that is gone without a word is noticed after 15 s.
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
];

/// How connections to one destination are made.
#[derive(Debug, Clone)]
pub struct Client {
    destination: Destination,
    config: Option<PathBuf>,
    /// Where ssh runs. The control socket is named relative to it: a socket's path may have about 90 characters only.
    folder: PathBuf,
    socket: String,
    connect_timeout_s: Option<u32>,
}

/// Which part a connection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// It makes the connection and carries the others.
    Master,
    /// It goes through the master.
    Passenger,
    /// It has a connection of its own.
    Alone,
}

/// What a command that ran to its end came to.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended; `None`: it did not in time, and was killed.
    pub status: Option<ExitStatus>,
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub errors: String,
}

impl Outcome {
    /// Whether it did what it should.
    pub fn is_ok(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// Whether it was ssh itself that failed.
    pub fn is_ssh(&self) -> bool {
        self.status.is_some_and(|status| status.code() == Some(255))
    }
}

impl Client {
    /// A client that runs in `folder`, with a control socket of that name there.
    pub fn new(destination: Destination, folder: &Path, socket: &str) -> Self {
        let config = std::env::var_os(CONFIG).filter(|path| !path.is_empty());
        let config = config.map(|path| std::path::absolute(&path).unwrap_or_else(|_| path.into()));
        Self { destination, config, folder: folder.to_path_buf(), socket: socket.to_owned(), connect_timeout_s: None }
    }

    /// Gives up connecting after so long, unless the user's configuration says otherwise.
    pub fn with_connect_timeout(mut self, seconds: u32) -> Self {
        self.connect_timeout_s = Some(seconds);
        self
    }

    /// Where it goes.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// Arguments that let ssh run `script` there.
    pub fn arguments(&self, part: Part, script: &str) -> Vec<OsString> {
        let mut arguments = self.config_arguments();
        arguments.push("-T".into());
        let (master, socket) = match part {
            Part::Master => ("yes", self.socket.as_str()),
            Part::Passenger => ("no", self.socket.as_str()),
            Part::Alone => ("no", "none"),
        };
        let own = [format!("ControlMaster={master}"), format!("ControlPath={socket}")];
        let patience = self.connect_timeout_s.map(|seconds| format!("ConnectTimeout={seconds}"));
        for option in INSISTED.iter().map(|option| (*option).to_owned()).chain(own).chain(patience) {
            arguments.extend(["-o".into(), option.into()]);
        }
        arguments.extend(self.destination.arguments().into_iter().map(OsString::from));
        arguments.push(script.into());
        arguments
    }

    fn config_arguments(&self) -> Vec<OsString> {
        self.config.iter().flat_map(|path| ["-F".into(), path.into()]).collect()
    }

    fn command(&self, arguments: Vec<OsString>) -> Command {
        let mut command = Command::new("ssh");
        command.args(arguments).current_dir(&self.folder);
        // A jump host's ssh is not told BatchMode: whatever it asks gets no answer.
        command.env("SSH_ASKPASS_REQUIRE", "force").env("SSH_ASKPASS", "false");
        command
    }

    /// Starts ssh; it ends with this program.
    ///
    /// # Errors
    /// What the system says; `NotFound` if there is no ssh.
    pub fn spawn(&self, part: Part, script: &str, pipes: (Stdio, Stdio, Stdio)) -> io::Result<Child> {
        let mut command = self.command(self.arguments(part, script));
        command.stdin(pipes.0).stdout(pipes.1).stderr(pipes.2);
        spawn::spawn(command)
    }

    /// Runs a script there to its end.
    ///
    /// # Errors
    /// As [`Self::spawn`].
    pub fn run(&self, part: Part, script: &str, input: Stdio, within: Duration) -> io::Result<Outcome> {
        play(self.command(self.arguments(part, script)), input, within)
    }

    /// What the user's configuration makes of the destination: `ssh -G`.
    ///
    /// # Errors
    /// As [`Self::spawn`].
    pub fn resolve(&self) -> io::Result<Outcome> {
        let mut arguments = self.config_arguments();
        arguments.push("-G".into());
        arguments.extend(self.destination.arguments().into_iter().map(OsString::from));
        play(self.command(arguments), Stdio::null(), Duration::from_secs(10))
    }
}

/// Runs a command to its end, or kills it. What it writes goes to memory: nobody has to read along.
///
/// # Errors
/// What the system says; `NotFound` if there is no such program.
pub fn play(mut command: Command, input: Stdio, within: Duration) -> io::Result<Outcome> {
    let (mut output, mut errors) = (memory()?, memory()?);
    command.stdin(input).stdout(output.try_clone()?).stderr(errors.try_clone()?);
    let mut child = spawn::spawn(command)?;
    let status = await_end(&mut child, within)?;
    if status.is_none() {
        let _ = child.kill();
        child.wait()?;
    }
    Ok(Outcome { status, output: written(&mut output)?, errors: written(&mut errors)? })
}

/// A file without a name.
///
/// # Errors
/// What the system says.
pub fn memory() -> io::Result<File> {
    Ok(memfd_create("ssh", MemfdFlags::CLOEXEC)?.into())
}

/// All that was written to it.
///
/// # Errors
/// What the system says.
pub fn written(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Waits for the end of a child.
///
/// # Errors
/// What the system says.
pub fn await_end(child: &mut Child, within: Duration) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + within;
    loop {
        let ended = child.try_wait()?;
        if ended.is_some() || Instant::now() >= until {
            return Ok(ended);
        }
        pidfd::await_end(child.id(), until.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests;
