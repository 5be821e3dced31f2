//! Where target processes run. A host starts processes, hands out addresses, ports and private folders; how it does so is
//! its kind's business. It must not know what the processes are for.

mod local;
pub(crate) mod netns;
mod ssh;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use experiment::plan::{self, TargetKind};
use record::events::HostFigures;
use rustix::process::Signal;

use crate::Error;
use crate::ears::Ears;
use crate::everywhere::{all_or_none, at_once};
use crate::ground::Ground;
use crate::placement::{self, Placement};
use crate::registry::{Ledger, Registry};
use crate::runner::session::Session;
use crate::runner::{Control, Program};
use crate::site::Build;
pub(crate) use ssh::{Leftover, folder_name};

/// A kind of host.
#[derive(Debug)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// One line.
    pub help: &'static str,
}

/// Every kind, sorted by name.
pub static KINDS: &[&Kind] = &[&local::KIND, &netns::KIND, &ssh::KIND];

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
    /// Hear what goes there.
    pub ears: Ears,
}

/// What a program that ran to its end came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Output {
    pub ended: Ended,
    pub output: String,
    pub errors: String,
}

/// A host.
pub(crate) trait Host: Send {
    /// Its name in records.
    fn name(&self) -> &str;

    /// Name of its kind.
    fn kind(&self) -> &'static str;

    /// What it got.
    fn figures(&self) -> HostFigures;

    /// The address that its members listen on.
    fn address(&self) -> &str;

    /// Every address that the others of the lab may see it under: one on each of its networks.
    fn addresses(&self) -> Vec<String> {
        vec![self.address().to_owned()]
    }

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

    /// Makes the target's folder available; where it is on this host.
    fn bring(&self, target: &Path) -> Result<PathBuf, Error>;

    /// Where this program is on this host.
    fn plimsoll(&self) -> PathBuf;

    /// Runs a program to its end.
    fn run(&self, program: &Program, input: &str, within: Duration) -> Result<Output, Error>;

    /// Measures the storage that [`Host::folder`] gives; nothing but `storage_…` is filled in.
    fn measure_storage(&self, within: Duration) -> Result<HostFigures, Error>;

    /// Imposes a fault under a key.
    fn impose(&self, key: &str, control: &Control) -> Result<(), Error>;

    /// Lifts it; harmless if there is none.
    fn lift(&self, key: &str) -> Result<(), Error>;

    /// Ends it at once, as if its power failed.
    fn crash(&mut self) -> Result<(), Error>;

    /// Makes it again after that: same name, address, folders and data, nothing running.
    fn boot(&mut self) -> Result<(), Error>;

    /// Whether it is up, as far as is known.
    fn is_up(&self) -> bool;

    /// Its runner, for the probes; `None` where there is none.
    fn session(&self) -> Option<Arc<Session>>;
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With this code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

impl Ended {
    /// From the way a runner says it: the exit code, or the signal, negative.
    pub fn from_code(how: i32) -> Self {
        if how < 0 { Self::Signal(-how) } else { Self::Exit(how) }
    }
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

/// The hosts of a trial's lab, and where its clients are. Without any: this machine, as `n1`. Once `stop` is set, none are
/// made.
pub(crate) fn of(build: &Build<'_>, stop: &AtomicBool) -> Result<(Vec<Box<dyn Host>>, Ground), Error> {
    let (lab, ledger) = (&build.trial.lab, build.registry.ledger());
    if lab.hosts.is_empty() {
        return Ok((vec![local::make("n1", ledger)], Ground::default()));
    }
    if lab.is_virtual() {
        let placement = placed(build.trial)?;
        return netns::raise(build, &placement, &ledger, stop);
    }
    Ok((reach_all(build, &ledger, stop)?, Ground::default()))
}

/// Measures a machine that is reached over ssh at `destination`, with this program sent there: a profile in TOML.
///
/// # Errors
/// That it is not reached, or cannot be measured.
pub fn measure(destination: &str, plimsoll: &Path) -> Result<String, Error> {
    let registry = Registry::begin(Path::new("profile measure"))?;
    ssh::measure(destination, plimsoll, &registry.ledger())
}

/// Whether this machine can make the hosts of every trial; nothing is made. Asked before a run begins, so that none ends after
/// hours at a trial that could not be played.
///
/// # Errors
/// What does not fit, or is not there.
pub fn can_make<'a>(trials: impl IntoIterator<Item = &'a plan::Trial>) -> Result<(), Error> {
    for trial in different(trials) {
        netns::can_make(trial, &placed(trial)?.envelopes)?;
    }
    Ok(())
}

/// Debian's packages of programs that the virtual hosts of these trials are made and measured with, and this machine has not.
///
/// # Errors
/// What does not fit, or that this user cannot make any.
pub fn lacking<'a>(trials: impl IntoIterator<Item = &'a plan::Trial>) -> Result<Vec<String>, Error> {
    let mut packages: Vec<String> = Vec::new();
    for trial in different(trials) {
        packages.extend(netns::lacking(trial, &placed(trial)?.envelopes)?.into_iter().map(str::to_owned));
    }
    packages.sort_unstable();
    packages.dedup();
    Ok(packages)
}

/// The same for whatever any lab of virtual hosts may need.
#[must_use]
pub fn lacking_for_any() -> Vec<String> {
    netns::lacking_for_any().into_iter().map(str::to_owned).collect()
}

/// Those with virtual hosts, of several that ask for the same the first.
fn different<'a>(trials: impl IntoIterator<Item = &'a plan::Trial>) -> Vec<&'a plan::Trial> {
    let mut different: Vec<&plan::Trial> = Vec::new();
    for trial in trials {
        let is_virtual = trial.lab.is_virtual() && !matches!(trial.target.kind, TargetKind::Running { .. });
        if is_virtual && !different.iter().any(|other| other.lab == trial.lab && other.faults == trial.faults) {
            different.push(trial);
        }
    }
    different
}

fn placed(trial: &plan::Trial) -> Result<Placement, Error> {
    let lab = &trial.lab;
    if let Some(host) = lab.hosts.iter().find(|host| host.ssh.is_some()) {
        return Err(Error::MixedLab { host: host.name.clone() });
    }
    placement::place(lab, &crate::environment::room(lab))
}

/// Reaches all hosts at the same time. If one cannot be reached, all others are let go.
fn reach_all(build: &Build<'_>, ledger: &Arc<Ledger>, stop: &AtomicBool) -> Result<Vec<Box<dyn Host>>, Error> {
    let hosts = build.trial.lab.hosts.iter().collect();
    all_or_none(at_once(hosts, |host| ssh::reach(build, host, ledger, stop)))
}

/// Removes what an abandoned run may have left on other machines, at the same time on all: what was removed on each, or why
/// that is not known.
pub(crate) fn remove_remote(left: &[Leftover], run: &str) -> Vec<Result<Vec<String>, String>> {
    let removed = at_once(left.iter().collect(), |left| Ok(ssh::remove(left, run)));
    removed.into_iter().map(|removed| removed.unwrap_or_else(|error| Err(error.to_string()))).collect()
}

/// This machine, as `n1`.
#[cfg(test)]
pub(crate) fn local(registry: &Registry) -> Box<dyn Host> {
    local::make("n1", registry.ledger())
}

/// This machine under another name.
#[cfg(test)]
pub(crate) fn named(name: &str, registry: &Registry) -> Box<dyn Host> {
    local::make(name, registry.ledger())
}
