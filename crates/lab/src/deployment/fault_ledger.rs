//! The active faults of a deployment: injections on hosts, crashed hosts, killed and frozen
//! processes, and how each is healed.

use std::fmt;

use runner::Injection;

use super::lab_hosts::LabHosts;
use super::process_slots::{PausedProcess, ProcessSlots};
use crate::Error;
use crate::host::{Host, in_parallel};

/// An occurrence of a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FaultOccurrence {
    /// Name of the fault.
    pub fault: String,
    /// Sequence number of the occurrence, from 1.
    pub number: u32,
}

/// The key under which an injection is made and healed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InjectionKey {
    /// A limit of the lab itself.
    Lab(String),
    Fault(FaultOccurrence),
}

impl fmt::Display for InjectionKey {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lab(name) => to.write_str(name),
            Self::Fault(FaultOccurrence { fault, number }) => write!(to, "{fault}#{number}"),
        }
    }
}

/// Injections on hosts, each with the name of its host.
pub(crate) type HostInjections = Vec<(String, Injection)>;

/// An injection on a host.
#[derive(Debug)]
struct ActiveInjection {
    key: InjectionKey,
    host: usize,
    control: Injection,
}

/// The active faults, each with its occurrence.
#[derive(Debug, Default)]
pub(crate) struct FaultLedger {
    /// Injections on hosts, in the order of injection.
    injections: Vec<ActiveInjection>,
    /// Hosts that a fault crashed.
    crashed: Vec<(FaultOccurrence, usize)>,
    /// Slots whose process a fault killed.
    killed: Vec<(FaultOccurrence, usize)>,
    /// Processes that a fault froze.
    paused: Vec<(FaultOccurrence, PausedProcess)>,
    /// Names of the hosts on which a fault ran a command.
    commanded: Vec<(FaultOccurrence, String)>,
}

/// Removes and returns the entries of an occurrence.
fn take<T>(entries: &mut Vec<(FaultOccurrence, T)>, occurrence: &FaultOccurrence) -> Vec<T> {
    entries.extract_if(.., |(holder, _)| holder == occurrence).map(|(_, entry)| entry).collect()
}

impl FaultLedger {
    /// Makes an injection on hosts under a key, in parallel: on all of them or on none. On a host
    /// that is down, the injection takes effect when the host is up again.
    pub fn inject(
        &mut self,
        hosts: &mut LabHosts,
        key: &InjectionKey,
        controls: &[(String, Injection)],
    ) -> Result<(), Error> {
        let mut wanted = Vec::new();
        for (host, control) in controls {
            wanted.push(ActiveInjection { key: key.clone(), host: hosts.index(host)?, control: control.clone() });
        }
        let mut items = Vec::new();
        for (index, host) in hosts.all.iter_mut().enumerate().filter(|(_, host)| host.is_up()) {
            items.extend(wanted.iter().find(|one| one.host == index).map(|injection| (injection, host)));
        }
        let done = in_parallel(items, |(injection, host)| {
            let name = host.name().to_owned();
            host.inject(&key.to_string(), &injection.control).map_err(|error| match error {
                Error::Fault(reason) => Error::Fault(format!("{name}: {reason}")),
                // The error already names the host.
                other => other,
            })
        });
        self.injections.extend(wanted);
        let injected: Result<(), Error> = done.into_iter().collect();
        if injected.is_err() {
            // If the heal fails, too, the end of the host undoes the injection.
            let _ = self.heal(hosts, key);
        }
        injected
    }

    /// Heals all injections under this key on every host.
    pub fn heal(&mut self, hosts: &mut LabHosts, key: &InjectionKey) -> Result<(), Error> {
        let healed: Vec<usize> = self.injections.extract_if(.., |one| one.key == *key).map(|one| one.host).collect();
        let items = hosts.all.iter_mut().enumerate().filter(|(index, _)| healed.contains(index));
        // A host that is down has lost all its injections.
        let items = items.map(|(_, host)| host).filter(|host| host.is_up()).collect();
        let done = in_parallel(items, |host: &mut Host| host.heal(&key.to_string()));
        if done.iter().any(|one| matches!(one, Err(Error::HostLost { .. }))) {
            hosts.query_all();
        }
        done.into_iter().collect()
    }

    /// Repeats the injections that were active on a host when it went down.
    pub fn inject_again(&self, hosts: &LabHosts, host: usize) -> Result<(), Error> {
        let mine = self.injections.iter().filter(|injection| injection.host == host);
        let again = mine.map(|one| hosts.all[host].inject(&one.key.to_string(), &one.control));
        again.fold(Ok(()), Result::and)
    }

    /// Ends a host at once, with every process on it.
    pub fn crash(
        &mut self,
        processes: &mut ProcessSlots,
        host: &str,
        occurrence: &FaultOccurrence,
    ) -> Result<(), Error> {
        let host = processes.hosts.index(host)?;
        processes.crash_host(host)?;
        self.crashed.push((occurrence.clone(), host));
        Ok(())
    }

    /// Boots the hosts that this occurrence crashed, repeats the injections on them, and starts
    /// their processes in order. Does not wait until the processes are ready.
    pub fn boot(&mut self, processes: &mut ProcessSlots, occurrence: &FaultOccurrence) -> Result<(), Error> {
        let crashed = take(&mut self.crashed, occurrence);
        crashed.into_iter().map(|host| self.boot_host(processes, host)).fold(Ok(()), Result::and)
    }

    fn boot_host(&self, processes: &mut ProcessSlots, host: usize) -> Result<(), Error> {
        if processes.hosts.is_up(host) {
            return Ok(());
        }
        processes.hosts.all[host].boot()?;
        processes.hosts.report_up(host);
        let injected = self.inject_again(&processes.hosts, host);
        injected.and(processes.start_missing(host))
    }

    /// Freezes a process or a program. Fails if the process does not run.
    pub fn pause(
        &mut self,
        processes: &mut ProcessSlots,
        paused: PausedProcess,
        occurrence: &FaultOccurrence,
    ) -> Result<(), Error> {
        processes.freeze(&paused)?;
        self.paused.push((occurrence.clone(), paused));
        Ok(())
    }

    /// Resumes the processes that this occurrence froze, except those that another occurrence also
    /// froze.
    pub fn unpause(&mut self, processes: &mut ProcessSlots, occurrence: &FaultOccurrence) {
        for paused in take(&mut self.paused, occurrence) {
            if !self.paused.iter().any(|(_, other)| other.holds(&paused)) {
                processes.resume(&paused);
            }
        }
    }

    /// Stores a slot whose process an occurrence killed, for healing.
    pub fn remember_killed(&mut self, occurrence: &FaultOccurrence, slot: usize) {
        self.killed.push((occurrence.clone(), slot));
    }

    pub fn take_killed(&mut self, occurrence: &FaultOccurrence) -> Vec<usize> {
        take(&mut self.killed, occurrence)
    }

    /// Stores the host on which an occurrence ran a command, for healing.
    pub fn remember_commanded(&mut self, occurrence: &FaultOccurrence, host: &str) {
        self.commanded.push((occurrence.clone(), host.to_owned()));
    }

    /// Returns and removes the hosts on which an occurrence ran a command.
    pub fn take_commanded(&mut self, occurrence: &FaultOccurrence) -> Vec<String> {
        take(&mut self.commanded, occurrence)
    }

    /// Heals all faults, but keeps the lab's own limits. A later heal of the same keys does
    /// nothing.
    pub fn forget_faults(&mut self, processes: &mut ProcessSlots) {
        self.heal_where(processes, |key| matches!(key, InjectionKey::Fault(_)));
        self.crashed.clear();
        self.killed.clear();
    }

    /// Heals everything and resumes all processes, so that the target can be stopped.
    pub fn heal_all(&mut self, processes: &mut ProcessSlots) {
        self.heal_where(processes, |_| true);
    }

    fn heal_where(&mut self, processes: &mut ProcessSlots, is_healed: fn(&InjectionKey) -> bool) {
        processes.cancel_restarts();
        let keys = self.injections.iter().rev().map(|injection| injection.key.clone());
        for key in keys.filter(is_healed).collect::<Vec<_>>() {
            // If the heal fails, the end of the host undoes the injection.
            let _ = self.heal(&mut processes.hosts, &key);
        }
        for (_, paused) in std::mem::take(&mut self.paused) {
            processes.resume(&paused);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use experiment::plan;
    use fixture::until;
    use record::events::What;
    use rustix::process::Signal;

    use super::*;
    use crate::deployment::Deployment;
    use crate::fakes::{AlwaysOk, FakeDeployment};

    const SQUEEZE: Injection = Injection::Cpu { of_profile: 0.5 };
    const SQUEEZED: &str = r#"{"control":"cpu","of_profile":0.5}"#;

    /// Parses `FAULT#NUMBER`.
    fn of(text: &str) -> FaultOccurrence {
        let (fault, number) = text.split_once('#').unwrap();
        FaultOccurrence { fault: fault.to_owned(), number: number.parse().unwrap() }
    }

    /// Injects under a key of a fault, or of the lab if it has no number.
    fn inject(stage: &mut FakeDeployment, key: &str, on: &[&str], control: &Injection) -> Result<(), Error> {
        let key = if key.contains('#') { InjectionKey::Fault(of(key)) } else { InjectionKey::Lab(key.to_owned()) };
        let controls: HostInjections = on.iter().map(|host| ((*host).to_owned(), control.clone())).collect();
        stage.deployment.faults.inject(&mut stage.deployment.processes.hosts, &key, &controls)
    }

    fn heal(stage: &mut FakeDeployment, key: &str) {
        let key = InjectionKey::Fault(of(key));
        stage.deployment.faults.heal(&mut stage.deployment.processes.hosts, &key).unwrap();
    }

    fn crash(stage: &mut FakeDeployment, host: &str, key: &str) -> Result<(), Error> {
        stage.deployment.faults.crash(&mut stage.deployment.processes, host, &of(key))
    }

    fn boot(stage: &mut FakeDeployment, key: &str) -> Result<(), Error> {
        stage.deployment.faults.boot(&mut stage.deployment.processes, &of(key))
    }

    fn pause(stage: &mut FakeDeployment, slot: usize, program: Option<&str>, key: &str) -> Result<(), Error> {
        let paused = PausedProcess { slot, program: program.map(str::to_owned) };
        stage.deployment.faults.pause(&mut stage.deployment.processes, paused, &of(key))
    }

    fn unpause(stage: &mut FakeDeployment, key: &str) {
        stage.deployment.faults.unpause(&mut stage.deployment.processes, &of(key));
    }

    /// Returns the events from `poll`, one line each.
    fn seen(deployment: &mut Deployment) -> Vec<String> {
        let line = |what| match what {
            What::ProcessUp { host, process, .. } => format!("{host} {process} up"),
            What::ProcessDown { host, process, how, expected, .. } => format!("{host} {process} down {how} {expected}"),
            What::HostUp { host, kind, .. } => format!("{host} up {kind}"),
            What::HostDown { host, expected } => format!("{host} down {expected}"),
            other => format!("{other:?}"),
        };
        deployment.poll().into_iter().map(|observed| line(observed.what)).collect()
    }

    #[test]
    fn an_occurrence_heals_only_its_own_injections() {
        let mut stage = FakeDeployment::of(3);
        inject(&mut stage, "a#1", &["n1", "n3"], &SQUEEZE).unwrap();
        inject(&mut stage, "a#2", &["n3"], &SQUEEZE).unwrap();
        stage.done();
        heal(&mut stage, "a#1");
        assert_eq!(stage.done(), ["n1 heal a#1", "n3 heal a#1"]);
        heal(&mut stage, "a#1");
        assert_eq!(stage.done(), [] as [&str; 0]);
        assert!(inject(&mut stage, "a#3", &["n9"], &SQUEEZE).err().unwrap().to_string().contains("no member `n9`"));
    }

    #[test]
    fn an_injection_survives_a_crash() {
        let mut stage = FakeDeployment::of(2);
        seen(&mut stage.deployment);
        inject(&mut stage, "cut#1", &["n2"], &SQUEEZE).unwrap();
        crash(&mut stage, "n2", "crash#1").unwrap();
        assert_eq!(stage.done(), [&format!("n2 inject cut#1 {SQUEEZED}"), "n2 crash"]);
        assert_eq!(
            seen(&mut stage.deployment),
            ["n2 down true", "n2 server down signal 9 true", "n2 agent down signal 9 true"]
        );
        assert_eq!(stage.deployment.members().len(), 2);

        // An injection on a host that is down takes effect later, unless it is healed meanwhile.
        inject(&mut stage, "cut#2", &["n2"], &SQUEEZE).unwrap();
        heal(&mut stage, "cut#1");
        assert!(crash(&mut stage, "n2", "crash#2").err().unwrap().to_string().contains("n2 is already down"));
        assert_eq!(stage.done(), [] as [&str; 0]);

        boot(&mut stage, "crash#2").unwrap();
        assert_eq!(stage.done(), [] as [&str; 0], "it crashed nothing");
        boot(&mut stage, "crash#1").unwrap();
        let expected = ["n2 boot", &format!("n2 inject cut#2 {SQUEEZED}"), "n2 start server", "n2 start agent"];
        assert_eq!(stage.done(), expected);
        assert_eq!(seen(&mut stage.deployment), ["n2 up netns", "n2 server up", "n2 agent up"]);
        boot(&mut stage, "crash#1").unwrap();
        assert_eq!(stage.done(), [] as [&str; 0]);
    }

    #[test]
    fn a_failed_boot_is_reported() {
        let mut stage = FakeDeployment::of(2);
        crash(&mut stage, "n1", "crash#1").unwrap();
        stage.refuse(Some("boot"));
        assert_eq!(boot(&mut stage, "crash#1").err().unwrap().to_string(), "it cannot");
        stage.refuse(None);
        stage.done();
        stage.deployment.stop().unwrap();
        assert!(stage.done().iter().all(|line| line.starts_with("n2")), "nothing is asked of a host that is down");
    }

    #[test]
    fn a_process_paused_twice_continues_after_both_heals() {
        let mut stage = FakeDeployment::of(1);
        let slot = stage.deployment.processes.slot_of("n1", None).unwrap();
        pause(&mut stage, slot, None, "a#1").unwrap();
        pause(&mut stage, slot, None, "b#1").unwrap();
        unpause(&mut stage, "a#1");
        assert_eq!(stage.done(), ["n1 server group signal 19", "n1 server group signal 19"]);
        unpause(&mut stage, "b#1");
        unpause(&mut stage, "b#1");
        assert_eq!(stage.done(), ["n1 server group signal 18"]);
    }

    #[test]
    fn a_program_is_paused_apart_from_its_process() {
        let mut stage = FakeDeployment::of(1);
        let slot = stage.deployment.processes.slot_of("n1", None).unwrap();
        pause(&mut stage, slot, Some("worker"), "a#1").unwrap();
        pause(&mut stage, slot, None, "b#1").unwrap();
        unpause(&mut stage, "a#1");
        unpause(&mut stage, "b#1");
        stage.deployment.processes.signal_program(slot, "worker", Signal::KILL, true).unwrap();
        let error = pause(&mut stage, slot, Some("missing"), "c#1").unwrap_err();
        assert_eq!(error.to_string(), "no `missing` runs");
        let expected =
            ["worker signal 19", "group signal 19", "group signal 18", "worker signal 9", "missing signal 19"];
        assert_eq!(stage.done(), expected.map(|line| format!("n1 server {line}")));
        assert!(!stage.deployment.processes.slots[slot].end_expected, "it is not the process itself");
    }

    #[test]
    fn polling_completes_a_restart() {
        let mut stage = FakeDeployment::of(1);
        seen(&mut stage.deployment);
        let slot = stage.deployment.processes.slot_of("n1", Some("agent")).unwrap();
        stage.deployment.processes.restart(slot, Duration::from_millis(1)).unwrap();
        assert!(
            stage.deployment.processes.restart(slot, Duration::ZERO).err().unwrap().to_string().contains("already")
        );
        let mut all = Vec::new();
        until("it is up again", || {
            all.extend(seen(&mut stage.deployment));
            all.len() == 2
        });
        assert_eq!(all, ["n1 agent down signal 15 true", "n1 agent up"]);
        assert_eq!(stage.done(), ["n1 agent signal 15", "n1 start agent"]);
        stage.deployment.processes.restart(slot, Duration::ZERO).unwrap();
    }

    #[test]
    fn a_failed_restart_is_reported_once() {
        let mut stage = FakeDeployment::of(1);
        let slot = stage.deployment.processes.slot_of("n1", None).unwrap();
        stage.deployment.processes.restart(slot, Duration::ZERO).unwrap();
        stage.refuse(Some("start server"));
        let mut all = Vec::new();
        until("it is noticed", || {
            all.extend(seen(&mut stage.deployment));
            all.iter().any(|line| line.contains("could not be started again: host n1: it cannot"))
        });
        assert!(seen(&mut stage.deployment).is_empty());
    }

    #[test]
    fn faults_are_healed_before_the_target_stops() {
        let mut stage = FakeDeployment::of(2);
        let slot = stage.deployment.processes.slot_of("n1", None).unwrap();
        pause(&mut stage, slot, None, "a#1").unwrap();
        inject(&mut stage, "b#1", &["n2"], &Injection::Freeze).unwrap();
        stage.done();
        stage.deployment.stop().unwrap();
        assert_eq!(stage.done()[..2], ["n2 heal b#1", "n1 server group signal 18"]);
    }

    #[test]
    fn a_rebuild_heals_faults_and_keeps_the_hosts() {
        let mut stage = FakeDeployment::of(2);
        let services = stage.deployment.services();
        inject(&mut stage, "cut#1", &["n2"], &SQUEEZE).unwrap();
        inject(&mut stage, "lab.port.main", &["n1"], &SQUEEZE).unwrap();
        crash(&mut stage, "n2", "crash#1").unwrap();
        stage.done();
        stage.deployment.rebuild(&plan::Lab::default(), &AlwaysOk, &AtomicBool::new(false)).unwrap();
        let mut done = stage.done();
        done.retain(|line| !line.contains("signal"));
        done.sort();
        let again = "n1 inject lab.port.main {\"control\":\"cpu\",\"of_profile\":0.5}";
        let starts = [
            "n1 start agent",
            "n1 start server",
            "n2 boot",
            "n2 boot",
            "n2 crash",
            "n2 start agent",
            "n2 start server",
        ];
        assert_eq!(done[..3], ["n1 boot", "n1 crash", again]);
        assert_eq!(done[3..], starts);
        assert_eq!((stage.deployment.members().len(), stage.deployment.services()), (4, services));
        boot(&mut stage, "crash#1").unwrap();
        heal(&mut stage, "cut#1");
        assert_eq!(stage.done(), [""; 0], "what was broken is forgotten");
    }

    #[test]
    fn a_failed_rebuild_is_an_error() {
        let mut stage = FakeDeployment::of(1);
        stage.refuse(Some("start server"));
        let built = stage.deployment.rebuild(&plan::Lab::default(), &AlwaysOk, &AtomicBool::new(false));
        assert_eq!(built.err().unwrap().to_string(), "host n1: it cannot");
        stage.refuse(None);
        let built = stage.deployment.rebuild(&plan::Lab::default(), &AlwaysOk, &AtomicBool::new(true));
        assert!(matches!(built, Err(Error::Interrupted)), "{built:?}");
    }
}
