//! Start of a target. Roles without `after` start together. Each other role starts once the role in
//! its `after` is ready on all hosts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use experiment::manifest::Manifest;
use experiment::plan::{self, TargetKind};
use experiment::profile::Disk;
use experiment::socket_url;
use runner::{Injection, MARK, ports};

use super::discovery::{DiscoveredHost, PortNumbers, choose_ports, discover};
use super::fault_ledger::{FaultLedger, HostInjections, InjectionKey};
use super::hook_runner::{self, HookRunner};
use super::host_tasks::HostTask;
use super::lab_facts::{LabFacts, slowdown};
use super::lab_hosts::{LabHosts, interruptible, sessions};
use super::layout::{DeploymentLayout, LayoutInput, Service};
use super::process_slots::{ProcessSlot, ProcessSlots};
use super::{Deployment, Hosts, NotUp};
use crate::deployment_spec::DeploymentSpec;
use crate::hooks::{Hook, variable};
use crate::host::{Host, HostKind, in_parallel};
use crate::host_process::Start;
use crate::hosts;
use crate::placement::ClientPlacement;
use crate::process_log::LogWatcher;
use crate::readiness::{self, ReadinessCheck, ReadinessWait, UrlParts};
use crate::sampling::{COMMAND_ROLE, ProbeSources, WatchedProcesses};
use crate::{Caller, Error, targets, tiers};

/// Stop time limit of a target that a command started, seconds.
const COMMAND_STOP_S: f64 = 10.0;
/// Keys of the injections on hosts while the target starts.
const QUICK_CORES: &str = "quick start";
const QUICK_DISKS: &str = "quick start, disks";
/// CPU speed factor that removes the limit of any slow core.
const UNHINDERED: f64 = 1e6;
/// Limits that no disk reaches.
const UNHINDERED_DISK: Disk = Disk {
    size_bytes: None,
    read_iops: Some(1e9),
    write_iops: Some(1e9),
    read_bytes_per_s: Some(1e12),
    write_bytes_per_s: Some(1e12),
};

/// Starts the target and waits until it is ready. On failure, stops everything again.
pub fn up(build: &DeploymentSpec<'_>, caller: Arc<dyn Caller>, stop: &AtomicBool) -> Result<Deployment, NotUp> {
    let lab = tiers::check(build.manifest, build.trial).and_then(|()| match &build.trial.target.kind {
        // The target's location is given, so virtual hosts would be idle. Commands of faults run on
        // this machine if the lab has no real host.
        TargetKind::Running { .. } if !build.trial.lab.hosts.iter().any(plan::Host::is_real) => {
            let commands = build.trial.all_faults().iter().any(|fault| fault.kind == crate::faults::COMMAND.info.name);
            let here = commands.then(|| hosts::this_machine(build)).transpose();
            here.map(|here| (here.into_iter().collect(), ClientPlacement::default()))
        }
        _ => hosts::of(build, stop),
    });
    match lab {
        Ok((hosts, client_placement)) => up_on(hosts, client_placement, build, caller, stop),
        Err(error) => Err(NotUp { error: Box::new(error), observed: Vec::new() }),
    }
}

/// Starts the target on existing hosts.
pub fn up_on(
    hosts: Hosts,
    client_placement: ClientPlacement,
    build: &DeploymentSpec<'_>,
    caller: Arc<dyn Caller>,
    stop: &AtomicBool,
) -> Result<Deployment, NotUp> {
    let lab = &build.trial.lab;
    let watched = watched(build, &hosts, &client_placement);
    let client_placement = Arc::new(client_placement);
    let mut deployment = Deployment {
        processes: ProcessSlots::new(LabHosts::new(hosts, build, watched, stop)),
        faults: FaultLedger::default(),
        lab: LabFacts { lab: lab.clone(), ..LabFacts::default() },
        hooks: HookRunner::new(build.registry.id(), lab.speed),
        services: Vec::new(),
        caller: Arc::new(InClientNetns {
            client_placement: Arc::clone(&client_placement),
            caller: Arc::clone(&caller),
        }),
        client_placement,
        registry: build.registry.ledger(),
        at_once: Arc::clone(&build.at_once),
        is_switch_lost: false,
    };
    deployment.processes.note_hosts();
    for notice in &deployment.client_placement.notices {
        deployment.processes.hosts.notice(notice.clone());
    }
    let sessions = sessions(&deployment.processes.hosts.all);
    let prepared = interruptible(&sessions, stop, || {
        let target = prepare(build, &mut deployment.processes.hosts, &deployment.client_placement)?;
        deployment.install(target)
    });
    match prepared.and_then(|()| deployment.start(lab, caller.as_ref(), stop)) {
        Ok(()) => {
            let watched = &mut deployment.processes.hosts.watched;
            watched.addresses = addresses(&build.trial.target, watched.sources.is_lab());
            watched.also = build.trial.target.also.clone();
            Ok(deployment)
        }
        Err(error) => {
            let error = if stop.load(Ordering::SeqCst) {
                // Hosts whose sessions ended because of the interrupt were not lost.
                for host in deployment.processes.hosts.down() {
                    deployment.processes.note_host_down(host, true);
                }
                Error::Interrupted
            } else {
                deployment.processes.hosts.lost_at_start().unwrap_or(error)
            };
            // Processes that cannot be ended stay in the registry. The reason for the failed start
            // is the more important error.
            let _ = deployment.kill_all();
            Err(NotUp { error: Box::new(error), observed: deployment.poll() })
        }
    }
}

/// Returns the hosts and CPUs that the probes read, and the host name under which they read this
/// machine.
fn watched(build: &DeploymentSpec<'_>, hosts: &Hosts, client_placement: &ClientPlacement) -> WatchedProcesses {
    let local = hosts.iter().find(|host| host.is_here());
    WatchedProcesses {
        host: local.map(|host| host.name()).unwrap_or_default().into(),
        sources: ProbeSources::of(hosts.iter().map(|host| host.kind()), build.registry.id()),
        runs_operations: build.trial.target.protocol == "command",
        clients_cpus: clients_alone(&build.trial.lab, client_placement.cpus()).into(),
        ..WatchedProcesses::default()
    }
}

/// Returns the addresses of a target that may have processes not started here: it already runs, or
/// a command may have left processes behind. An address that is not known is an error with the
/// reason. A lab has no such addresses: all processes on its hosts belong to the target. A target
/// whose operations are programs has none either: the programs are the target.
fn addresses(target: &plan::Target, is_lab: bool) -> Vec<Result<SocketAddr, String>> {
    let is_started = matches!(target.kind, TargetKind::Started { .. });
    // The listener on a local socket is not looked up. The command is assumed to have started it.
    let mut urls = target.urls();
    urls.retain(|url| !is_lab && (!is_started || socket_url::socket_of(url).is_none()));
    let addresses = urls.iter().map(|url| match target.tls.proxy {
        Some(_) if !is_started => Err("the target is reached through a proxy".to_owned()),
        _ => readiness::address(url),
    });
    addresses.collect()
}

/// Returns the clients' CPUs if only clients use them, otherwise none. Hosts of generators also use
/// them, and would count as foreign processes.
fn clients_alone<'a>(lab: &plan::Lab, cpus: &'a [u32]) -> &'a [u32] {
    if lab.hosts.iter().any(|host| host.is_generator) { &[] } else { cpus }
}

/// A caller that sends operations from the clients' network and CPUs.
struct InClientNetns {
    client_placement: Arc<ClientPlacement>,
    caller: Arc<dyn Caller>,
}

impl Caller for InClientNetns {
    fn call(&self, service: &str, operation: &str, with: &BTreeMap<String, String>) -> Result<(), String> {
        let called = self.client_placement.inside(|| self.caller.call(service, operation, with));
        called.unwrap_or_else(|error| Err(error.to_string()))
    }

    fn provoke(&self, service: &str, operation: &str, with: &BTreeMap<String, String>) -> Result<(), String> {
        let provoked = self.client_placement.inside(|| self.caller.provoke(service, operation, with));
        provoked.unwrap_or_else(|error| Err(error.to_string()))
    }
}

/// A target on its hosts before its start.
#[derive(Default)]
pub struct PreparedTarget {
    pub layout: DeploymentLayout,
    /// Destinations of the load; at least one.
    pub services: Vec<String>,
    /// Facts about the hosts, if the target comes from a folder.
    pub hosts: Vec<DiscoveredHost>,
    pub ports: PortNumbers,
    /// Path of each hook in the target's folder, by name.
    pub hooks: BTreeMap<String, String>,
}

/// Prepares the target up to the start of its first process.
fn prepare(
    build: &DeploymentSpec<'_>,
    hosts: &mut LabHosts,
    client_placement: &ClientPlacement,
) -> Result<PreparedTarget, Error> {
    let urls = build.trial.target.urls();
    match &build.trial.target.kind {
        TargetKind::Folder { name, with } => {
            let manifest =
                build.manifest.ok_or_else(|| Error::Manifest(format!("the target `{name}` has no target.toml")))?;
            prepare_folder(build, manifest, with, hosts)
        }
        TargetKind::Running { url } => {
            // If operations are programs, there may be no server. A server may also be reachable
            // only for generators elsewhere.
            let is_reached_here = build.trial.fleet.as_ref().is_none_or(|fleet| !fleet.by.is_elsewhere());
            for url in urls.iter().filter(|_| is_reached_here) {
                // Servers behind a proxy may be reachable only from the proxy.
                let reached = build.trial.target.tls.proxy.as_deref().unwrap_or(url);
                readiness::reach(reached).map_err(|reason| Error::Unreachable { url: reached.to_owned(), reason })?;
            }
            let services = if urls.is_empty() { vec![url.clone()] } else { urls };
            Ok(PreparedTarget { services, ..PreparedTarget::default() })
        }
        TargetKind::Started { command, url, ready, within_s } => {
            client_placement.inside(|| urls.iter().try_for_each(|url| must_be_free(url)))??;
            let check = match ready {
                Some(url) => ReadinessCheck::Http(url.clone()),
                None => ReadinessCheck::Tcp(urls.clone()),
            };
            let slots = vec![started(build, command, url, check, *within_s, hosts.name(0))];
            let layout = DeploymentLayout { slots, ..DeploymentLayout::default() };
            Ok(PreparedTarget { layout, services: urls, ..PreparedTarget::default() })
        }
    }
}

fn prepare_folder(
    build: &DeploymentSpec<'_>,
    manifest: &Manifest,
    with: &BTreeMap<String, String>,
    hosts: &mut LabHosts,
) -> Result<PreparedTarget, Error> {
    let service = Service::of(manifest)?;
    let parameters = targets::parameters_at(build.trial.lab.speed, manifest, with)?;
    let discovered = discover(build, manifest, &parameters, &mut hosts.all)?;
    let ports = choose_ports(manifest, &parameters, service, &discovered, &hosts.all)?;
    let layout = LayoutInput {
        manifest,
        parameters: &parameters,
        service,
        hosts: &discovered,
        ports: &ports,
        logs: &build.logs,
        slowdown: slowdown(build.trial.lab.speed),
    }
    .lay_out()?;
    let mut services: Vec<String> = layout.slots.iter().filter_map(|slot| slot.service.clone()).collect();
    if services.is_empty() {
        // If clients only run programs, there is no service.
        services.push(String::new());
    }
    Ok(PreparedTarget { layout, services, hosts: discovered, ports, hooks: hook_runner::paths(manifest) })
}

/// Checks that no server answers at the URL before the command has run. Such a server would be
/// measured instead of the target.
fn must_be_free(url: &str) -> Result<(), Error> {
    if readiness::reach(url).is_err() {
        return Ok(());
    }
    if let Some(Ok(path)) = socket_url::socket_of(url) {
        return Err(Error::SocketTaken { path });
    }
    let place = UrlParts::parse(url).map_err(|reason| Error::Unreachable { url: url.to_owned(), reason })?;
    Err(Error::PortTaken { port: place.port, holder: ports::holder(place.port) })
}

/// Returns the slot of a target that a command starts. The command runs in the user's folder, and
/// clients reach the target by its URL.
fn started(
    build: &DeploymentSpec<'_>,
    command: &str,
    url: &str,
    check: ReadinessCheck,
    within_s: f64,
    host: &str,
) -> ProcessSlot {
    let start = Start {
        role: COMMAND_ROLE.to_owned(),
        program: "sh".into(),
        arguments: vec!["-c".into(), command.into()],
        environment: Vec::new(),
        folder: None,
        user: None,
        log: build.logs.join(format!("{host}.{COMMAND_ROLE}.log")),
        log_watcher: LogWatcher::default(),
        programs: Vec::new(),
    };
    ProcessSlot {
        check,
        ready_within_s: within_s,
        stop_within_s: COMMAND_STOP_S * slowdown(build.trial.lab.speed),
        stops_group: true,
        may_detach: true,
        member: Some(url.to_owned()),
        ..ProcessSlot::new(0, start)
    }
}

/// Start of a target's processes, rank by rank.
pub struct BringUp<'a> {
    /// Id of the run.
    pub run: &'a str,
    pub client_placement: &'a ClientPlacement,
    pub caller: &'a dyn Caller,
    /// Whether the user wants to end.
    pub stop: &'a AtomicBool,
}

impl BringUp<'_> {
    /// Starts the target with unlimited cores and disks if the lab asks for a quick start. Restores
    /// the limits afterwards.
    pub fn start_in(
        &self,
        lab: &plan::Lab,
        processes: &mut ProcessSlots,
        faults: &mut FaultLedger,
    ) -> Result<(), Error> {
        let lifted = if lab.quick_start && lab.is_virtual() { quick_start(lab) } else { Vec::new() };
        for (key, controls) in &lifted {
            faults.inject(&mut processes.hosts, key, controls)?;
        }
        self.start(processes)?;
        lifted.iter().rev().try_for_each(|(key, _)| faults.heal(&mut processes.hosts, key))
    }

    fn start(&self, processes: &mut ProcessSlots) -> Result<(), Error> {
        for rank in processes.ranks() {
            if self.stop.load(Ordering::SeqCst) {
                return Err(Error::Interrupted);
            }
            for role in processes.roles().into_iter().filter(|role| rank.contains(&role.start)) {
                processes.start_role(role)?;
            }
            self.await_ready(processes, rank)?;
        }
        Ok(())
    }

    /// Waits for all slots of a rank in parallel. If a process ends, stops waiting for the others.
    /// If a process is not ready in time, still waits for the others up to their own time limits.
    pub fn await_ready(&self, processes: &mut ProcessSlots, rank: Range<usize>) -> Result<(), Error> {
        let hosts = &processes.hosts.all;
        let mut waits = Vec::new();
        for slot in &mut processes.slots[rank.clone()] {
            let (host, role) = (&hosts[slot.host], &slot.start.role);
            let name = if hosts.len() > 1 { format!("{role} on {}", host.name()) } else { role.clone() };
            waits.push((name, readiness_program(slot, host, self.run), slot));
        }
        let failed = AtomicBool::new(false);
        let ready = self.client_placement.inside(|| {
            in_parallel(waits, |(name, program, slot): (String, Option<HostTask>, &mut ProcessSlot)| {
                let waiting = ReadinessWait {
                    role: &name,
                    check: &slot.check,
                    program: program.as_ref(),
                    within_s: slot.ready_within_s,
                    may_detach: slot.may_detach,
                };
                let Some(process) = &slot.process else { return Ok(()) };
                let ready = readiness::wait(&waiting, process, self.caller, &|| {
                    self.stop.load(Ordering::SeqCst) || failed.load(Ordering::SeqCst)
                });
                failed.fetch_or(matches!(ready, Err(Error::DiedAtStart { .. })), Ordering::SeqCst);
                ready
            })
        })?;
        let (mut failures, mut was_stopped) = (Vec::new(), false);
        for (slot, ready) in processes.slots[rank].iter().zip(ready) {
            match ready {
                Ok(()) => {}
                // Waits that were stopped because of another failure are not its cause.
                Err(Error::Interrupted) => was_stopped = true,
                Err(error) => failures.push(cause(error, slot, &hosts[slot.host])),
            }
        }
        match failures.len() {
            0 if was_stopped => Err(Error::Interrupted),
            0 => Ok(()),
            1 => Err(failures.swap_remove(0)),
            _ => Err(Error::Several(failures)),
        }
    }
}

/// Returns the injections that lift the limits of the lab's cores and disks.
fn quick_start(lab: &plan::Lab) -> Vec<(InjectionKey, HostInjections)> {
    let cores = lab.hosts.iter().map(|host| (host.name.clone(), Injection::Cpu { of_profile: UNHINDERED }));
    let slow_disks = lab.hosts.iter().filter(|host| lab.profile_of(host).is_some_and(|own| own.disk.is_throttled()));
    let disks = slow_disks.map(|host| (host.name.clone(), fast_disk(None)));
    let mut lifted = vec![
        (InjectionKey::Lab(QUICK_CORES.to_owned()), cores.collect()),
        (InjectionKey::Lab(QUICK_DISKS.to_owned()), disks.collect()),
    ];
    for tier in lab.tiers.iter().filter(|tier| tier.limits.is_throttled()) {
        let mut controls = Vec::new();
        for host in &lab.hosts {
            if tiers::on_host(lab, Some(host)).any(|(other, _)| other.name == tier.name) {
                controls.push((host.name.clone(), fast_disk(Some(&tier.name))));
            }
        }
        lifted.push((InjectionKey::Lab(format!("{QUICK_DISKS}, {}", tier.name)), controls));
    }
    lifted
}

fn fast_disk(tier: Option<&str>) -> Injection {
    Injection::Disk { disk: UNHINDERED_DISK, tier: tier.map(str::to_owned) }
}

/// Returns the cause of a failed start. If the host is down, the host failed and not the target.
fn cause(error: Error, slot: &ProcessSlot, host: &Host) -> Error {
    if !host.is_up() && error.is_targets() {
        let reason = "the host was lost while the target was being started".to_owned();
        return Error::HostLost { host: host.name().to_owned(), reason };
    }
    match error {
        Error::DiedAtStart { role, how, log, .. } if host.kind() == HostKind::Virtual => {
            Error::DiedAtStart { role, how, log, hidden: hidden_path(&slot.start, &|path| path.exists()) }
        }
        error => error,
    }
}

/// Returns the first path in a process's arguments and environment that exists on this machine but
/// not on a virtual host, because the host has its own folder there.
fn hidden_path(start: &Start, exists: &dyn Fn(&Path) -> bool) -> Option<String> {
    let values = start.environment.iter().map(|(_, value)| value);
    let words = start.arguments.iter().chain(values).filter_map(|word| word.to_str());
    let mut paths = words.flat_map(|word| word.split([' ', ',', ':', '=', '"', '\'']));
    let hidden = paths.find(|path| {
        ["/tmp/", "/run/", "/dev/shm/"].iter().any(|folder| path.starts_with(folder))
            && start.folder.as_ref().is_none_or(|own| !Path::new(path).starts_with(own))
            && exists(Path::new(path))
    });
    hidden.map(ToOwned::to_owned)
}

/// Returns the program that checks whether a process is ready, if there is one.
fn readiness_program(slot: &ProcessSlot, host: &Host, run: &str) -> Option<HostTask> {
    let ReadinessCheck::Run(hook) = &slot.check else { return None };
    let mut hook = Hook::clone(hook);
    hook.environment.insert(MARK.to_owned(), run.into());
    let pid = slot.process.as_ref().map(|process| process.pid().to_string()).unwrap_or_default();
    hook.environment.insert(variable("PLIMSOLL_PID_", &slot.start.role), pid.into());
    Some(HostTask::of_hook(host, hook))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_client_cpus_are_not_checked_for_strangers() {
        let host = |is_generator| plan::Host { is_generator, ..plan::Host::default() };
        let mut lab = plan::Lab { hosts: vec![host(false)], ..plan::Lab::default() };
        assert_eq!(clients_alone(&lab, &[1]), [1]);
        lab.hosts.push(host(true));
        assert_eq!(clients_alone(&lab, &[1]), [0; 0]);
    }

    #[test]
    fn a_path_that_a_virtual_host_does_not_have_is_named() {
        let start = |run: &str, home: &str| Start {
            role: "member".to_owned(),
            program: "/srv/etcd/run".into(),
            arguments: vec![run.into()],
            environment: vec![("ETCD_HOME".into(), home.into())],
            folder: Some("/tmp/own".into()),
            ..Start::default()
        };
        let hidden = |run: &str, home: &str| hidden_path(&start(run, home), &|path| path != Path::new("/tmp/made"));
        assert_eq!(hidden("--data=/tmp/own/x", "/tmp/e35").as_deref(), Some("/tmp/e35"));
        assert_eq!(hidden("PATH=/bin:/dev/shm/bin", "").as_deref(), Some("/dev/shm/bin"));
        assert_eq!(hidden("/tmp/made", "/srv/etcd"), None, "it may be made there");
    }
}
