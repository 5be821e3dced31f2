//! The kinds of hosts, and the hosts of a lab: made or reached, all at the same time.

mod local;
mod netns;
mod pods;
mod ssh;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use experiment::plan::{self, TargetKind};

pub use netns::{LinkSupport, what_links_can_be};
pub(crate) use ssh::packed;
pub use ssh::{RemoteGeneratorStream, RemoteGenerators};

use crate::Error;
use crate::deployment_spec::DeploymentSpec;
use crate::host::{Host, all_or_none, in_parallel};
use crate::placement::{self, ClientPlacement, Placement};
use crate::registry::{Leftover, Registry, RegistryWriter};

/// The hosts of a trial's lab, and where its clients are. Without any: this machine, as `n1`. Once `stop` is set, none are
/// made.
pub(crate) fn of(
    build: &DeploymentSpec<'_>,
    stop: &AtomicBool,
) -> Result<(Vec<Box<dyn Host>>, ClientPlacement), Error> {
    let (lab, ledger) = (&build.trial.lab, build.registry.ledger());
    if lab.hosts.is_empty() {
        return Ok((vec![this_machine(ledger)], ClientPlacement::default()));
    }
    if let Some(settings) = &lab.pods {
        return Ok((pods::reach_all(build, settings, stop)?, ClientPlacement::default()));
    }
    if lab.is_virtual() {
        let placement = placed(build.trial)?;
        return netns::raise(build, &placement, &ledger, stop);
    }
    Ok((reach_all(build, &ledger, stop)?, ClientPlacement::default()))
}

/// This machine, as it is.
pub(crate) fn this_machine(ledger: Arc<RegistryWriter>) -> Box<dyn Host> {
    local::make("n1", ledger)
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
    if let Some(host) = lab.hosts.iter().find(|host| host.is_real()) {
        return Err(Error::MixedLab { host: host.name.clone() });
    }
    placement::place(lab, &placement::room(lab))
}

/// Reaches all hosts at the same time. If one cannot be reached, all others are let go.
fn reach_all(
    build: &DeploymentSpec<'_>,
    ledger: &Arc<RegistryWriter>,
    stop: &AtomicBool,
) -> Result<Vec<Box<dyn Host>>, Error> {
    let hosts = build.trial.lab.hosts.iter().collect();
    all_or_none(in_parallel(hosts, |host| ssh::reach(build, host, ledger, stop)))
}

/// Removes what an abandoned run may have left on other machines, at the same time on all: what was removed on each, or why
/// that is not known.
pub(crate) fn remove_remote(left: &[Leftover], run: &str) -> Vec<Result<Vec<String>, String>> {
    let removed = in_parallel(left.iter().collect(), |left| Ok(ssh::remove(left, run)));
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
