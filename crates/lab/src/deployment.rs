//! A deployment: the target on its hosts, from its start to its stop, and the operations on it
//! while it runs.

mod bring_up;
mod discovery;
mod fault_ledger;
mod generators;
mod hook_runner;
mod host_tasks;
mod lab_facts;
mod lab_hosts;
mod layout;
mod process_slots;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use experiment::plan;
use record::events::What;
use runner::process_tree::Member;
use serde_json::Value;

pub(crate) use fault_ledger::{FaultLedger, FaultOccurrence, HostInjections, InjectionKey};
pub use generators::LabGenerator;
pub use hook_runner::MemberAnswer;
pub use host_tasks::{HostTask, TaskEnd};
pub(crate) use layout::stop_signal;
pub(crate) use process_slots::{PausedProcess, ProcessSlots};

use crate::deployment_spec::DeploymentSpec;
use crate::faults;
use crate::hooks::variable;
use crate::host::{Host, HostKind, on_each_host};
use crate::member_programs::MemberPrograms;
use crate::placement::ClientPlacement;
use crate::registry::RegistryWriter;
use crate::sampling::WatchedProcesses;
use crate::{Caller, Error};
use bring_up::{BringUp, PreparedTarget};
use hook_runner::{AUDIT_PATIENCE, HookRunner};
use lab_facts::LabFacts;
use lab_hosts::{interruptible, sessions};
use layout::ASK_PATIENCE;

/// Name of the hook that removes the data of a trial.
const RESET: &str = "reset";
/// Time limit of the reset hook. Deleting the data of a load may take a while.
const RESET_PATIENCE: Duration = Duration::from_secs(60);
/// Folder in which a virtual host keeps the content of the target's private folders.
const PRIVATE_FOLDERS: &str = ".private";

pub(crate) type Hosts = Vec<Host>;

/// Failure to start a target.
#[derive(Debug)]
pub struct NotUp {
    pub error: Box<Error>,
    /// Events of hosts and processes until all were down again.
    pub observed: Vec<HostEvent>,
}

/// An event of a host or of a target process.
#[derive(Debug, Clone, PartialEq)]
pub struct HostEvent {
    /// Time at which the lab noticed the event.
    pub at: Instant,
    /// `HostUp`, `HostDown`, `SwitchLost`, `ProcessUp`, `ProcessDown` or `Log`, or a `Notice` about
    /// a host or a process.
    pub what: What,
}

/// A running target.
pub struct Deployment {
    pub(crate) processes: ProcessSlots,
    pub(crate) faults: FaultLedger,
    pub(crate) lab: LabFacts,
    pub(crate) hooks: HookRunner,
    client_placement: Arc<ClientPlacement>,
    /// Destinations of the load; at least one.
    services: Vec<String>,
    /// Sends operations from the place where the clients run.
    caller: Arc<dyn Caller>,
    registry: Arc<RegistryWriter>,
    /// Whether the user wants to end at once.
    at_once: Arc<AtomicBool>,
    /// Whether the loss of the switch was reported.
    is_switch_lost: bool,
}

impl Deployment {
    /// Starts the target and waits until it is ready. On failure, stops everything again.
    ///
    /// # Errors
    /// The cause, such as a missing program, a taken port, or a process that ended or was not ready
    /// in time. [`Error::Interrupted`] once `stop` is set.
    pub fn up(build: DeploymentSpec<'_>, caller: Arc<dyn Caller>, stop: &AtomicBool) -> Result<Self, NotUp> {
        bring_up::up(&build, caller, stop)
    }

    /// Starts the target on existing hosts.
    #[cfg(test)]
    pub(crate) fn up_on(
        hosts: Hosts,
        client_placement: ClientPlacement,
        build: &DeploymentSpec<'_>,
        caller: Arc<dyn Caller>,
        stop: &AtomicBool,
    ) -> Result<Self, NotUp> {
        bring_up::up_on(hosts, client_placement, build, caller, stop)
    }

    /// Takes over a prepared target. Injects the lab's slow ports, which must be slow before the
    /// processes start.
    fn install(&mut self, target: PreparedTarget) -> Result<(), Error> {
        self.lab.ports = target.ports;
        for (key, controls) in self.lab.slow_ports(&target.hosts) {
            self.faults.inject(&mut self.processes.hosts, &key, &controls)?;
        }
        self.processes.hosts.watched.sources.set_endpoints(target.layout.endpoints);
        self.processes.slots = target.layout.slots;
        self.services = target.services;
        self.hooks.paths = target.hooks;
        self.hooks.members = target.layout.hook_hosts;
        self.hooks.all = target.layout.command_hosts;
        Ok(())
    }

    /// Starts the processes and waits until they are ready.
    fn start(&mut self, lab: &plan::Lab, caller: &dyn Caller, stop: &AtomicBool) -> Result<(), Error> {
        let start = BringUp { run: self.registry.id(), client_placement: &self.client_placement, caller, stop };
        start.start_in(lab, &mut self.processes, &mut self.faults)
    }

    /// Returns the load's destinations: `host:port` of every serving host, in start order, or the
    /// URLs that the experiment gives.
    #[must_use]
    pub fn services(&self) -> Vec<String> {
        self.services.clone()
    }

    /// Returns the load's destinations without those on `down` hosts, or all if none remains.
    /// Clients that know which hosts are down use these destinations.
    #[must_use]
    pub fn services_but(&self, down: &[String]) -> Vec<String> {
        let services: Vec<String> =
            self.processes.serving(down).into_iter().filter_map(|slot| slot.service.clone()).collect();
        if services.is_empty() { self.services.clone() } else { services }
    }

    /// Returns the host names of [`Self::services_but`], in the same order. With several URLs,
    /// returns their `host:port`. With one URL, returns none.
    #[must_use]
    pub fn members_but(&self, down: &[String]) -> Vec<String> {
        let serving = self.processes.serving(down);
        if serving.is_empty() && self.services.len() > 1 {
            return crate::readiness::places(&self.services);
        }
        serving.into_iter().map(|slot| self.processes.hosts.name(slot.host).to_owned()).collect()
    }

    /// Returns the member programs on each host of [`Self::services_but`], in the same order. Empty
    /// if clients use a service that is not a member.
    #[must_use]
    pub fn programs_but(&self, down: &[String]) -> Vec<MemberPrograms> {
        let serving = self.processes.serving(down).into_iter();
        let programs = serving.map(|slot| self.hooks.member_programs(&self.processes.hosts, slot.host));
        programs.collect::<Option<_>>().unwrap_or_default()
    }

    /// Returns the first destination of the load.
    #[must_use]
    pub fn service(&self) -> String {
        self.services.first().cloned().unwrap_or_default()
    }

    /// Returns the address of the member on this host.
    pub(crate) fn service_of(&self, host: &str) -> String {
        self.processes.member_address(host).unwrap_or_else(|| self.service())
    }

    /// Returns where the clients run.
    #[must_use]
    pub fn client_placement(&self) -> &ClientPlacement {
        &self.client_placement
    }

    /// Returns the clients' address as this host sees it.
    pub(crate) fn clients_toward(&self, host: Ipv4Addr) -> Result<Ipv4Addr, Error> {
        // Connecting a datagram socket sends nothing. The kernel only chooses the local address.
        let address = self.client_placement.inside(|| -> std::io::Result<SocketAddr> {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.connect((host, 9))?;
            socket.local_addr()
        })?;
        match address.map_err(Error::system(format!("find a route to {host}")))?.ip() {
            IpAddr::V4(address) => Ok(address),
            IpAddr::V6(address) => Err(Error::Fault(format!("the clients need an IPv4 address, but use {address}"))),
        }
    }

    pub(crate) fn caller(&self) -> Arc<dyn Caller> {
        Arc::clone(&self.caller)
    }

    /// Returns the target's running processes.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        self.processes.hosts.watched.members()
    }

    /// Returns the processes that the probes sample. Restarts update the returned value.
    #[must_use]
    pub fn watched(&self) -> WatchedProcesses {
        self.processes.hosts.watched.clone()
    }

    /// Returns the time dilation; 1 is real time.
    #[must_use]
    pub fn speed(&self) -> f64 {
        self.lab.speed()
    }

    /// Returns the events of hosts and processes since the previous `poll`.
    pub fn poll(&mut self) -> Vec<HostEvent> {
        self.look();
        self.processes.hosts.take_events()
    }

    /// Collects events for the next [`Deployment::poll`].
    fn look(&mut self) {
        self.processes.note_hosts();
        if let Some(reason) = self.client_placement.lost_switch()
            && !std::mem::replace(&mut self.is_switch_lost, true)
        {
            let text = format!("the switch between the hosts was lost without a fault: {reason}");
            self.processes.hosts.report(What::SwitchLost { reason });
            self.processes.hosts.notice(text);
        }
        self.processes.note_processes();
    }

    /// Returns the output of the target's hook `inspect`, or `None` without that hook. A failure is
    /// returned as `{"failed": "…"}`.
    #[must_use]
    pub fn inspect(&self) -> Option<Value> {
        let (hook, host) = self.hooks.for_first_up(&self.processes, "inspect", ASK_PATIENCE)?;
        Some(hook.ask_on(host).unwrap_or_else(|error| serde_json::json!({ "failed": error.to_string() })))
    }

    /// Whether the target can list its members' records.
    #[must_use]
    pub fn can_audit(&self) -> bool {
        self.hooks.can_audit()
    }

    /// Reads the records of every member that is up. Returns the reason for each member that was
    /// not read. Empty if the target cannot list its members' records.
    pub fn audit(&mut self) -> Vec<MemberAnswer> {
        self.look();
        self.hooks.audit(&mut self.processes)
    }

    /// Returns the task that finds the leader. Run it on a separate thread: the hook may take
    /// seconds.
    ///
    /// # Errors
    /// If the target has no hook `leader`.
    pub fn leader_task(&self) -> Result<HostTask, Error> {
        self.hooks.leader_task(&self.processes)
    }

    /// Stores the result of [`Deployment::leader_task`] for the next faults. With `None`, each
    /// fault runs the hook itself.
    pub fn know_leader(&mut self, answer: Option<Result<String, String>>) {
        self.hooks.leader = answer;
    }

    /// Returns the programs for the `number`th run of a step, each with its host and time limit.
    ///
    /// # Errors
    /// If the step has no possible victim.
    pub fn step_tasks(
        &mut self,
        step: &str,
        fault: &plan::Fault,
        number: u32,
        within: Duration,
    ) -> Result<Vec<HostTask>, Error> {
        let Some(action) = &fault.action else { return self.command_tasks(fault, number, within) };
        let chosen = faults::choose_members(fault, number, self)?;
        let mut environment = BTreeMap::from([("PLIMSOLL_STEP".to_owned(), step.into())]);
        for name in fault.with.keys() {
            let value = faults::text(&fault.with, name).unwrap_or_default();
            environment.insert(variable("PLIMSOLL_ARG_", name), value.into());
        }
        let hook = format!("action {action}");
        let tasks = self.hooks.tasks_of(&self.processes, &chosen, &hook, within, &environment);
        if tasks.len() < chosen.len() {
            return Err(Error::Fault(format!("the action `{action}` cannot run on {}", chosen.join(", "))));
        }
        Ok(tasks)
    }

    /// Returns the programs of the fault `command`, without running them.
    fn command_tasks(&mut self, fault: &plan::Fault, number: u32, within: Duration) -> Result<Vec<HostTask>, Error> {
        let mut tasks = Vec::new();
        for (host, program) in faults::commands(fault, number, self)? {
            let index = self.processes.hosts.index(&host)?;
            let on = &self.processes.hosts.all[index];
            if on.is_here() {
                return Err(Error::NotAHost);
            }
            tasks.push(HostTask::inside(host, on.session(), program, within));
        }
        Ok(tasks)
    }

    /// Returns one check of a condition for each member whose host is up.
    #[must_use]
    pub fn condition_tasks(&self, name: &str, within: Duration) -> Vec<HostTask> {
        let within = within.min(self.hooks.scaled(ASK_PATIENCE));
        self.hooks.tasks_of_all(&self.processes, &format!("condition {name}"), within)
    }

    /// Returns one audit for each member whose host is up.
    #[must_use]
    pub fn audit_tasks(&self, name: &str) -> Vec<HostTask> {
        self.hooks.tasks_of_all(&self.processes, &format!("audit {name}"), self.hooks.scaled(AUDIT_PATIENCE))
    }

    /// Starts a generator on each of these hosts. The generators' output goes to `logs`. They end
    /// with the deployment at the latest.
    ///
    /// # Errors
    /// The first generator that does not start or connect; [`Error::Interrupted`] once `given_up`
    /// returns true.
    pub fn start_generators(
        &mut self,
        hosts: &[String],
        logs: &Path,
        given_up: &dyn Fn() -> bool,
    ) -> Result<Vec<LabGenerator>, Error> {
        generators::start(&mut self.processes, hosts, logs, given_up)
    }

    /// Ends the target's processes, empties their folders, and starts the target again on the same
    /// hosts and ports. Ends and boots virtual hosts, so that no process on them is left.
    ///
    /// # Errors
    /// The same as for the first start; [`Error::Interrupted`] once `stop` is set.
    pub fn rebuild(&mut self, lab: &plan::Lab, caller: &dyn Caller, stop: &AtomicBool) -> Result<(), Error> {
        self.look();
        self.faults.forget_faults(&mut self.processes);
        self.processes.end_all();
        let hosts = self.processes.hosts.all.iter().enumerate();
        let hosts = hosts.filter(|(_, host)| host.kind() == HostKind::Virtual);
        let are_virtual: Vec<usize> = hosts.map(|(index, _)| index).collect();
        for index in &are_virtual {
            self.processes.note_host_down(*index, true);
        }
        let booted = on_each_host(&mut self.processes.hosts.all, |index, host| {
            if are_virtual.contains(&index) {
                if !host.is_up() {
                    host.boot()?;
                }
                // The host mounts the folder at boot, so it boots again after the removal.
                host.remove_folder(PRIVATE_FOLDERS);
                host.crash()?;
            }
            if host.is_up() { Ok(()) } else { host.boot() }
        });
        booted.into_iter().collect::<Result<(), Error>>()?;
        for index in 0..self.processes.hosts.all.len() {
            self.processes.hosts.report_up(index);
            if are_virtual.contains(&index) {
                self.faults.inject_again(&self.processes.hosts, index)?;
            }
        }
        let folders = self.processes.folders();
        let emptied = on_each_host(&mut self.processes.hosts.all, |index, host| {
            folders[index].iter().try_for_each(|name| host.folder(name).map(drop))
        });
        emptied.into_iter().collect::<Result<(), Error>>()?;
        self.processes.watch();
        self.start(lab, caller, stop)
    }

    // Use of one started target by several trials.

    /// Whether all hosts and processes that were started are still up.
    pub fn is_whole(&mut self) -> bool {
        self.first_down().is_none()
    }

    /// Returns an error that names the first part of the target that is down.
    fn first_down(&mut self) -> Option<Error> {
        self.look();
        if self.is_switch_lost {
            let host = self.processes.hosts.name(0).to_owned();
            return Some(Error::Host { host, reason: "the switch between the hosts was lost".to_owned() });
        }
        self.processes.first_down()
    }

    /// Ends the parts that belong to one trial, so that the target can serve the next: ends the
    /// generators and reports the log lines that were left out of the events.
    pub fn leave(&mut self) {
        self.processes.end_generators();
        self.processes.report_left_out();
    }

    /// Makes a running target ready for another trial, whose logs go to `logs`. Reports its hosts
    /// and processes again. Returns whether the target's hook `reset` ran.
    ///
    /// # Errors
    /// If a host or a process is down, the hook fails, or the target does not become ready;
    /// [`Error::Interrupted`] once `stop` is set.
    pub fn resume(&mut self, logs: &Path, caller: &dyn Caller, stop: &AtomicBool) -> Result<bool, Error> {
        self.first_down().map_or(Ok(()), Err)?;
        for slot in &mut self.processes.slots {
            slot.start.log = logs.join(slot.start.log.file_name().unwrap_or_default());
            let turned = slot.start.log_watcher.turn_over(&slot.start.log);
            turned.map_err(Error::on("write the log", &slot.start.log))?;
        }
        self.processes.report_all_up();
        for notice in &self.client_placement.notices {
            self.processes.hosts.notice(notice.clone());
        }
        let reset = self.hooks.for_first_up(&self.processes, RESET, RESET_PATIENCE);
        if let Some((hook, host)) = &reset {
            interruptible(&sessions(&self.processes.hosts.all), stop, || hook.ask_on(host))?;
        }
        let was_reset = reset.is_some();
        let start = BringUp { run: self.registry.id(), client_placement: &self.client_placement, caller, stop };
        for rank in self.processes.ranks() {
            start.await_ready(&mut self.processes, rank)?;
        }
        Ok(was_reset)
    }

    /// Stops the target in reverse start order. Asks each process to end, then kills it with all
    /// its children. Ends the hosts too.
    ///
    /// # Errors
    /// If any part of the target is left.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.heal_all();
        for role in self.processes.roles().into_iter().rev() {
            self.processes.ask_to_end(role.clone(), &self.at_once);
            self.processes.end(role);
        }
        self.release()
    }

    /// Ends the target and its hosts at once.
    ///
    /// # Errors
    /// If any part of the target is left.
    pub fn kill_all(&mut self) -> Result<(), Error> {
        self.heal_all();
        self.processes.end(0..self.processes.slots.len());
        self.release()
    }

    /// Heals all faults. Frozen processes would not react to a stop signal.
    fn heal_all(&mut self) {
        self.processes.note_hosts();
        self.faults.heal_all(&mut self.processes);
    }

    /// Drops the ended processes and the hosts. A second call does nothing.
    fn release(&mut self) -> Result<(), Error> {
        let had_processes = !self.processes.slots.is_empty();
        self.processes.release();
        // A process that left its group, or a child of such a process, still carries the mark.
        let (_, left) = if had_processes { self.registry.marks().end(false) } else { Default::default() };
        if left.is_empty() { Ok(()) } else { Err(Error::Left { pids: left.iter().map(|stat| stat.pid).collect() }) }
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        // Processes that cannot be ended here stay in the registry.
        let _ = self.kill_all();
    }
}

#[cfg(test)]
mod tests;
