//! The kinds of hosts, and how the hosts of a trial are made or reached, all in parallel.

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

/// Makes or reaches the hosts of a trial. Also returns where the trial's clients run. A lab without
/// hosts gets this machine, as `n1`. Makes no host once `stop` is set.
pub(crate) fn of(build: &DeploymentSpec<'_>, stop: &AtomicBool) -> Result<(Vec<Host>, ClientPlacement), Error> {
    let (lab, ledger) = (&build.trial.lab, build.registry.ledger());
    if lab.hosts.is_empty() {
        return Ok((vec![this_machine(build)?], ClientPlacement::default()));
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

/// Returns this machine as a host. It is neither limited nor isolated.
pub(crate) fn this_machine(build: &DeploymentSpec<'_>) -> Result<Host, Error> {
    local::make("n1", build.registry.ledger(), &build.at_once)
}

/// Measures the machine at `destination` over ssh and returns a profile in TOML. Copies this
/// program there first.
pub fn measure(destination: &str, plimsoll: &Path) -> Result<String, Error> {
    let registry = Registry::begin(Path::new("profile measure"))?;
    ssh::measure(destination, plimsoll, &registry.ledger())
}

/// Checks that this machine can make the hosts of every trial, without making any host. A run
/// checks this before its first trial, so that it does not fail hours later.
pub fn can_make<'a>(trials: impl IntoIterator<Item = &'a plan::Trial>) -> Result<(), Error> {
    for trial in different(trials) {
        netns::can_make(trial, &placed(trial)?.envelopes)?;
    }
    Ok(())
}

/// Returns the Debian packages that this machine lacks to make and measure the virtual hosts of
/// these trials.
///
/// # Errors
/// If a lab does not fit on this machine, or this user cannot make virtual hosts.
pub fn lacking<'a>(trials: impl IntoIterator<Item = &'a plan::Trial>) -> Result<Vec<String>, Error> {
    let mut packages: Vec<String> = Vec::new();
    for trial in different(trials) {
        packages.extend(netns::lacking(trial, &placed(trial)?.envelopes)?.into_iter().map(str::to_owned));
    }
    packages.sort_unstable();
    packages.dedup();
    Ok(packages)
}

/// Returns the Debian packages that this machine lacks for any lab of virtual hosts.
#[must_use]
pub fn lacking_for_any() -> Vec<String> {
    netns::lacking_for_any().into_iter().map(str::to_owned).collect()
}

/// Returns the trials with virtual hosts, one for each distinct pair of lab and faults.
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

/// Reaches all hosts in parallel. If one cannot be reached, drops all others.
fn reach_all(build: &DeploymentSpec<'_>, ledger: &Arc<RegistryWriter>, stop: &AtomicBool) -> Result<Vec<Host>, Error> {
    let hosts = build.trial.lab.hosts.iter().collect();
    all_or_none(in_parallel(hosts, |host| ssh::reach(build, host, ledger, stop)))
}

/// Removes the leftovers of an abandoned run from other machines, in parallel. Returns for each
/// machine a list of removed items, or the reason why the machine was not reached.
pub(crate) fn remove_remote(left: &[Leftover], run: &str) -> Vec<Result<Vec<String>, String>> {
    let removed = in_parallel(left.iter().collect(), |left| Ok(ssh::remove(left, run)));
    removed.into_iter().map(|removed| removed.unwrap_or_else(|error| Err(error.to_string()))).collect()
}

/// Returns this machine as the host `n1`.
#[cfg(test)]
pub(crate) fn local(registry: &Registry) -> Host {
    local::make("n1", registry.ledger(), &Arc::default()).unwrap()
}
