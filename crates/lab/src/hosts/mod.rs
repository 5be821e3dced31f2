//! Where target processes run. A host starts processes, hands out addresses, ports and private folders; how it does so is
//! its kind's business. It must not know what the processes are for.

mod local;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use experiment::plan;
use rustix::process::Signal;

use crate::Error;
use crate::registry::Registry;

/// A kind of host.
#[derive(Debug)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// One line.
    pub help: &'static str,
    make: fn(name: &str, registry: &Registry) -> Box<dyn Host>,
}

/// Every kind, sorted by name.
pub static KINDS: &[&Kind] = &[&local::KIND];

/// What a host is asked to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    pub role: String,
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// More environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Where it runs; `None`: where this program does.
    pub folder: Option<PathBuf>,
    /// Gets standard output and error.
    pub log: PathBuf,
}

/// A host.
pub(crate) trait Host: Send {
    /// Its name in records.
    fn name(&self) -> &str;

    /// The address that its members listen on.
    fn address(&self) -> &str;

    /// Ports that nothing listens on, all different.
    fn free_ports(&self, count: usize) -> Result<Vec<u16>, Error>;

    /// Whether something can listen on this port.
    fn check_port(&self, port: u16) -> Result<(), Error>;

    /// An empty private folder of that name.
    fn folder(&self, name: &str) -> Result<PathBuf, Error>;

    /// Removes a folder that [`Host::folder`] gave.
    fn remove_folder(&self, name: &str);

    /// Starts a process; what it starts carries the run's mark and is registered.
    fn start(&self, start: &Start) -> Result<Box<dyn Process>, Error>;
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With this code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit {code}"),
            Self::Signal(number) => write!(f, "signal {number}"),
        }
    }
}

/// A process that a host started.
pub(crate) trait Process: Send {
    /// Its pid on this machine.
    fn pid(&self) -> u32;

    /// How it ended, once it has.
    fn ended(&mut self) -> Option<Ended>;

    /// Waits for its end.
    fn wait(&mut self, within: Duration) -> Option<Ended>;

    /// Signals it; nothing happens if it has ended.
    fn signal(&mut self, signal: Signal);

    /// Signals it and all that it started that has not left its process group, also when it has ended itself.
    fn signal_group(&mut self, signal: Signal);

    /// The last lines it wrote, oldest first. After its end, all that it wrote counts.
    fn last_lines(&mut self) -> Vec<String>;
}

/// The hosts of a lab. Without any: this machine, as `n1`.
pub(crate) fn of(lab: &plan::Lab, registry: &Registry) -> Result<Vec<Box<dyn Host>>, Error> {
    let not_yet = |what: &str| Err(Error::NotYet(what.to_owned()));
    // 0 is what a plan without [lab] has.
    if lab.speed != 0.0 && (lab.speed - 1.0).abs() > f64::EPSILON {
        return not_yet("lab.speed needs virtual hosts");
    }
    if lab.hosts.iter().any(|host| host.ssh.is_some()) {
        return not_yet("hosts over ssh");
    }
    if lab.hosts.len() > 1 || lab.hosts.iter().any(|host| host.profile.is_some() || host.role.is_some()) {
        return not_yet("virtual hosts; without [lab] the target runs on this machine");
    }
    let name = lab.hosts.first().map_or("n1", |host| &host.name);
    Ok(vec![(local::KIND.make)(name, registry)])
}
