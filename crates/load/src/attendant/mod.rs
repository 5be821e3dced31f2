//! Programs run for agents: behind an agent's socket an attendant, a thread, takes its orders, starts a program for each, and tells what came
//! of it when it has ended. It must not measure, and not judge an end: its own end of the socket is all that it knows of a load.
//!
//! So the engine waits for a program as it does for an answer from a network, and starting one, which takes a millisecond, holds up no
//! other agent. An agent that gives up hangs up, and the program is killed.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use rustix::fd::OwnedFd;

use crate::protocols::command::frames::{How, Order, Outcome};

mod running;

use running::Running;

/// Ties the life of a program that is about to be started to this process': it must not outlive it, however it ends.
pub type Tether = fn(&mut Command);

/// Of an attendant's thread.
const STACK: usize = 256 * 1024;

/// Starts an attendant for a connection to `service`; gives the agent's end of its socket. It ends when that is closed.
pub(crate) fn attend(tether: Option<Tether>, service: &str) -> io::Result<(OwnedFd, JoinHandle<()>)> {
    let (theirs, ours) = UnixStream::pair()?;
    theirs.set_nonblocking(true)?;
    let mut attendant = Attendant { agent: ours, tether, variables: variables(service) };
    let named = std::thread::Builder::new().name("attendant".to_owned()).stack_size(STACK);
    // An agent that hangs up ends it, and is not there to be told.
    let thread = named.spawn(move || while attendant.serve().is_ok() {})?;
    Ok((theirs.into(), thread))
}

/// What programs are told of the service, in their environment; nothing where there is none.
fn variables(service: &str) -> Vec<(&'static str, String)> {
    let rest = service.split_once("://").map_or(service, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let address = authority.rsplit_once('@').map_or(authority, |(_, address)| address);
    let mut variables = Vec::new();
    if !service.is_empty() {
        variables.push(("PLIMSOLL_SERVICE", service.to_owned()));
    }
    if let Some((host, port)) = address.rsplit_once(':') {
        variables.push(("PLIMSOLL_HOST", host.trim_matches(['[', ']']).to_owned()));
        variables.push(("PLIMSOLL_PORT", port.to_owned()));
    }
    variables
}

struct Attendant {
    agent: UnixStream,
    tether: Option<Tether>,
    variables: Vec<(&'static str, String)>,
}

impl Attendant {
    /// One order.
    fn serve(&mut self) -> io::Result<()> {
        let mut length = [0; 4];
        self.agent.read_exact(&mut length)?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.agent.read_exact(&mut frame)?;
        let order = Order::read(&frame).ok_or(ErrorKind::InvalidData)?;
        let mut told = Vec::new();
        match self.start(&order) {
            Ok(mut running) => {
                let how = running.attend_to(&self.agent)?;
                let [stdout, stderr] = running.outputs();
                let is_cut = stdout.is_cut || stderr.is_cut;
                Outcome { how, is_cut, stdout: &stdout.kept, stderr: &stderr.kept }.write(&mut told);
            }
            Err(error) => {
                let why = error.to_string();
                Outcome { how: How::NotStarted, is_cut: false, stdout: b"", stderr: why.as_bytes() }.write(&mut told);
            }
        }
        self.agent.write_all(&told)
    }

    fn start(&self, order: &Order<'_>) -> io::Result<Running> {
        let (program, arguments) = order.words.split_first().ok_or(ErrorKind::InvalidInput)?;
        let mut command = Command::new(OsStr::from_bytes(program));
        command.args(arguments.iter().map(|word| OsStr::from_bytes(word)));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(if order.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        // A group of its own: so what it starts in turn is found, and an interruption at the terminal is for us alone.
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        if let Some(tether) = self.tether {
            tether(&mut command);
        }
        Running::of(command.spawn()?, order.stdin)
    }
}

#[cfg(test)]
mod tests;
