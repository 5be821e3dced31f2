//! The kinds of faults that can be injected into a target that the experiment started and into its
//! hosts, and how each is healed.

mod call;
mod clock_skew;
mod command;
mod full_disk;
mod host_crash;
mod host_freeze;
mod kill;
mod link_flap;
mod lossy_link;
mod memory_limit;
mod partition;
mod pause;
mod restart;
mod slow_disk;
mod slow_link;
mod slow_port;
mod squeeze;

use std::collections::BTreeMap;
use std::time::Instant;

use experiment::catalog::{self, ArgumentProblem, Field};
use experiment::plan::Victim;
use experiment::quantity::Quantity;
use experiment::tier::DISK_TIER;
use experiment::{duration, plan};
use runner::Injection;
use serde_json::Value;

use crate::deployment::{FaultOccurrence, HostInjections, InjectionKey};
use crate::{Deployment, Error};

pub(crate) use command::{KIND as COMMAND, commands};

/// A kind of fault.
pub struct FaultKind {
    /// The description of the kind for experiments.
    pub info: &'static catalog::Fault,
    /// Injects the occurrence with this sequence number, from 1. If it fails on one of several
    /// members, the members before stay hit, but states of hosts are healed.
    pub inject: fn(&plan::Fault, u32, &mut Deployment) -> Result<ActiveFault, Error>,
    /// Heals the occurrence with this sequence number. Returns whether there was anything to heal.
    pub heal: fn(&plan::Fault, u32, &mut Deployment) -> Result<bool, Error>,
}

/// An injected fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveFault {
    /// The members or hosts that the fault hit.
    pub on: Vec<String>,
    /// Time of the injection: after the victims were chosen, before the first was hit.
    pub at: Instant,
}

/// All kinds, sorted by name.
pub static KINDS: &[&FaultKind] = &[
    &call::KIND,
    &clock_skew::KIND,
    &command::KIND,
    &full_disk::KIND,
    &host_crash::KIND,
    &host_freeze::KIND,
    &kill::KIND,
    &link_flap::KIND,
    &lossy_link::KIND,
    &memory_limit::KIND,
    &partition::KIND,
    &pause::KIND,
    &restart::KIND,
    &slow_disk::KIND,
    &slow_link::KIND,
    &slow_port::KIND,
    &squeeze::KIND,
];

/// Returns the kind with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static FaultKind> {
    KINDS.iter().find(|kind| kind.info.name == name).copied()
}

/// Returns an argument from the fault's `with` as text.
fn argument(fault: &plan::Fault, name: &str) -> Option<String> {
    text(&fault.with, name)
}

/// The argument that names a program in a process's tree.
const PROGRAM: Field = Field {
    name: "program",
    help: "only processes of this program (file name) in the member's process tree; an error if there are none",
    required: false,
};

/// Adds the host's name to a fault's error.
fn on_host(host: &str, error: Error) -> Error {
    match error {
        Error::Fault(reason) => Error::Fault(format!("{host}: {reason}")),
        other => other,
    }
}

fn occurrence(fault: &plan::Fault, number: u32) -> FaultOccurrence {
    FaultOccurrence { fault: fault.name.clone(), number }
}

/// Returns an error with this reason. The caller adds the name of the fault.
fn refused(reason: impl std::fmt::Display) -> Error {
    Error::Fault(reason.to_string())
}

/// Converts problems with arguments into an error. The plan has checked its arguments before, so
/// this error appears only for callers without a plan.
fn read<T>(read: Result<T, Vec<ArgumentProblem>>) -> Result<T, Error> {
    read.map_err(|wrongs| {
        let whats: Vec<String> = wrongs.into_iter().map(|wrong| wrong.what).collect();
        refused(whats.join("; "))
    })
}

/// Makes an injection from a fault's arguments and the lab's speed.
type InjectionOf = fn(&BTreeMap<String, Value>, f64) -> Result<Injection, Vec<ArgumentProblem>>;

/// Injects the same state, made by `control`, on every host that the fault hits.
fn inject_state(
    fault: &plan::Fault,
    number: u32,
    deployment: &mut Deployment,
    control: InjectionOf,
) -> Result<ActiveFault, Error> {
    let hosts = choose_hosts(fault, number, deployment)?;
    let control = read(control(&fault.with, deployment.speed()))?;
    let at =
        inject_states(fault, number, deployment, hosts.iter().map(|host| (host.clone(), control.clone())).collect())?;
    Ok(ActiveFault { on: hosts, at })
}

/// Makes the given injections: on all hosts or on none. Returns the time of the injection.
fn inject_states(
    fault: &plan::Fault,
    number: u32,
    deployment: &mut Deployment,
    controls: HostInjections,
) -> Result<Instant, Error> {
    let at = Instant::now();
    let key = InjectionKey::Fault(occurrence(fault, number));
    deployment.faults.inject(&mut deployment.processes.hosts, &key, &controls).map_err(refused)?;
    Ok(at)
}

/// Heals a fault that is a state of hosts.
fn heal_state(fault: &plan::Fault, number: u32, deployment: &mut Deployment) -> Result<bool, Error> {
    let key = InjectionKey::Fault(occurrence(fault, number));
    deployment.faults.heal(&mut deployment.processes.hosts, &key).map(|()| true)
}

/// The argument that names the storage tier that a disk fault hits.
const TIER: Field = Field { name: "tier", help: "the storage tier to hit; default: disk", required: false };

/// Returns the tier that a fault names, or `None` for the disk. Fails if the lab does not use the
/// tier.
fn tier_of(with: &BTreeMap<String, Value>, deployment: &Deployment) -> Result<Option<String>, Error> {
    let Some(name) = Arguments::new(with).tier() else { return Ok(None) };
    if deployment.lab.tier_limits(&name).is_none() {
        return Err(refused(format!("no folder of the target is on the tier `{name}`")));
    }
    Ok(Some(name))
}

// The arguments of a fault, parsed from the experiment's `with`: numbers, texts, and quantities
// with units.

/// Parses arguments one by one and collects the problems.
pub(crate) struct Arguments<'a> {
    with: &'a BTreeMap<String, Value>,
    wrongs: Vec<ArgumentProblem>,
}

impl<'a> Arguments<'a> {
    pub fn new(with: &'a BTreeMap<String, Value>) -> Self {
        Self { with, wrongs: Vec::new() }
    }

    /// Returns `made` if there were no problems.
    pub fn finish<T>(self, made: T) -> Result<T, Vec<ArgumentProblem>> {
        if self.wrongs.is_empty() { Ok(made) } else { Err(self.wrongs) }
    }

    /// Adds a problem with one argument, or with all of them.
    pub fn refuse(&mut self, argument: Option<&'static str>, what: impl Into<String>, hint: &str) {
        self.wrongs.push(ArgumentProblem { argument, what: what.into(), hint: Some(hint.to_owned()) });
    }

    /// Returns an argument as text.
    pub fn text(&self, name: &str) -> Option<String> {
        text(self.with, name)
    }

    /// Returns the name of a storage tier with its own volume, or `None` for the disk.
    pub fn tier(&mut self) -> Option<String> {
        let name = self.text("tier")?;
        if ["memory", "pmem"].contains(&name.as_str()) {
            let hint = "use `disk` (the host's data), `sata`, `nvme` or a tier of your own";
            self.refuse(Some("tier"), format!("the tier `{name}` has no volume of its own"), hint);
        }
        (name != DISK_TIER).then_some(name)
    }

    /// Returns the argument if it is one of `words`, else the first word.
    pub fn word(&mut self, name: &'static str, words: &[&'static str]) -> &'static str {
        let first = words.first().copied().unwrap_or_default();
        let Some(text) = self.text(name) else { return first };
        let found = words.iter().copied().find(|word| *word == text);
        found.unwrap_or_else(|| {
            self.refuse(Some(name), self.not(name, "a known value"), &format!("known values: {}", words.join(", ")));
            first
        })
    }

    /// Returns a number above `above` and at most `most`. A text may end in `%`.
    pub fn number(&mut self, name: &'static str, above: f64, most: f64) -> Option<f64> {
        let text = self.text(name)?;
        let number = text.trim().trim_end_matches('%').trim().parse().ok();
        let hint =
            if most.is_finite() { format!("above {above}, at most {most}") } else { format!("a number above {above}") };
        self.take(name, number.filter(|number| *number > above && *number <= most), "valid", &hint)
    }

    /// Returns a bit rate in bits/s, such as `"10mbit"`.
    pub fn bits_per_s(&mut self, name: &'static str) -> Option<f64> {
        self.quantity(name, Quantity::BitRate)
    }

    /// Returns a byte rate in bytes/s, such as `"20MB/s"`.
    pub fn bytes_per_s(&mut self, name: &'static str) -> Option<f64> {
        self.quantity(name, Quantity::ByteRate)
    }

    /// Returns a size in bytes, such as `"512MiB"`.
    pub fn bytes(&mut self, name: &'static str) -> Option<u64> {
        // Zero is a valid size here, for example as the space left on a disk.
        if self.text(name).is_some_and(|text| text.trim() == "0B") {
            return Some(0);
        }
        self.quantity(name, Quantity::Size).map(|bytes| bytes.round() as u64)
    }

    fn quantity(&mut self, name: &'static str, quantity: Quantity) -> Option<f64> {
        let value = quantity.parse(&self.text(name)?).ok();
        let (kind, _) = quantity.words().split_once(" such as").unwrap_or((quantity.words(), ""));
        self.take(name, value, kind, &format!("{}; units: {}", quantity.words(), quantity.units()))
    }

    /// Returns a duration in seconds, such as `"500ms"`.
    pub fn seconds(&mut self, name: &'static str) -> Option<f64> {
        let text = self.text(name)?;
        match duration::parse_s(&text) {
            Ok(seconds) => Some(seconds),
            Err(error) => {
                self.refuse(Some(name), self.not(name, "a duration"), &error.to_string());
                None
            }
        }
    }

    /// Returns a duration in seconds that may be negative, such as `"-5s"`.
    pub fn signed_seconds(&mut self, name: &'static str) -> Option<f64> {
        let text = self.text(name)?;
        let (sign, rest) = match text.trim().strip_prefix('-') {
            Some(rest) => (-1.0, rest),
            None => (1.0, text.trim().trim_start_matches('+')),
        };
        let seconds = duration::parse_s(rest).ok().map(|seconds| sign * seconds);
        self.take(name, seconds, "a duration", "such as \"5s\", or \"-5s\" for a clock that is behind")
    }

    fn take<T>(&mut self, name: &'static str, value: Option<T>, kind: &str, hint: &str) -> Option<T> {
        if value.is_none() {
            self.refuse(Some(name), self.not(name, kind), hint);
        }
        value
    }

    fn not(&self, name: &str, kind: &str) -> String {
        let value = self.with.get(name).map(ToString::to_string).unwrap_or_default();
        format!("`{name} = {value}` is not {kind}")
    }
}

/// Returns an argument as text.
pub(crate) fn text(with: &BTreeMap<String, Value>, name: &str) -> Option<String> {
    with.get(name).map(|value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

// The victims of a fault: turns `on` into members or hosts.

/// Returns the hosts of the members that this occurrence hits, at least one. The same seed and
/// occurrence number give the same hosts.
pub(crate) fn choose_members(fault: &plan::Fault, number: u32, deployment: &Deployment) -> Result<Vec<String>, Error> {
    choose_of(fault, number, deployment, deployment.processes.member_hosts())
}

/// Like [`choose_members`], but chooses among the hosts that run a process of this role, if there
/// are any.
fn choose_running(
    fault: &plan::Fault,
    number: u32,
    deployment: &Deployment,
    role: Option<&str>,
) -> Result<Vec<String>, Error> {
    let hosts = role.map(|role| deployment.processes.hosts_with(role)).filter(|hosts| !hosts.is_empty());
    choose_of(fault, number, deployment, hosts.unwrap_or_else(|| deployment.processes.member_hosts()))
}

/// Returns the hosts that this occurrence hits: those of [`choose_members`], or the host that `on`
/// names, even if it runs no member. Fails if the host is this machine itself.
fn choose_hosts(fault: &plan::Fault, number: u32, deployment: &Deployment) -> Result<Vec<String>, Error> {
    let hosts = choose_any_hosts(fault, number, deployment)?;
    if deployment.processes.hosts.is_this_machine() { Err(Error::NotAHost) } else { Ok(hosts) }
}

/// Like [`choose_hosts`], but also allows this machine itself.
fn choose_any_hosts(fault: &plan::Fault, number: u32, deployment: &Deployment) -> Result<Vec<String>, Error> {
    let members = deployment.processes.member_hosts();
    let named = deployment.processes.hosts.names().into_iter().find(|name| name == fault.on.name());
    if let (false, Some(host)) = (members.is_empty(), named) {
        return Ok(vec![host]);
    }
    choose_of(fault, number, deployment, members)
}

fn choose_of(
    fault: &plan::Fault,
    number: u32,
    deployment: &Deployment,
    members: Vec<String>,
) -> Result<Vec<String>, Error> {
    if members.is_empty() {
        return Err(Error::NotOurs { kind: fault.kind.clone() });
    }
    if fault.on == Victim::Leader && !members.iter().any(|name| name == fault.on.name()) {
        return named(&deployment.hooks.leader(&deployment.processes)?, &members);
    }
    among(&fault.on, fault.seed.wrapping_add(u64::from(number)), &members)
}

fn among(on: &Victim, seed: u64, members: &[String]) -> Result<Vec<String>, Error> {
    let count = match on {
        Victim::One => 1,
        Victim::All => members.len(),
        Victim::Minority => members.len().saturating_sub(1) / 2,
        Victim::Majority => members.len() / 2 + 1,
        Victim::Leader | Victim::Named(_) => return named(on.name(), members),
    };
    if count == 0 {
        let known = vec![format!("{} members, too few for a minority", members.len())];
        return Err(Error::NoVictim { on: on.to_string(), known });
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut chosen = random.choose_multiple(members.iter().enumerate(), count);
    chosen.sort_unstable();
    Ok(chosen.into_iter().map(|(_, name)| name.clone()).collect())
}

fn named(name: &str, members: &[String]) -> Result<Vec<String>, Error> {
    if members.iter().any(|member| member == name) {
        return Ok(vec![name.to_owned()]);
    }
    Err(Error::NoVictim { on: name.to_owned(), known: members.to_vec() })
}

#[cfg(test)]
mod tests;
