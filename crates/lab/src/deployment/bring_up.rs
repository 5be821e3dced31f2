//! Start and stop of a target. Roles without `after` start together. Each other role starts once
//! the role in its `after` is ready on all hosts. The target is stopped in good order or at once.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use experiment::manifest::{self, Manifest};
use experiment::plan::{self, TargetKind};
use experiment::profile::Disk;
use experiment::socket_url;
use experiment::tier::Tier;
use linux::account::Account;
use linux::procfs;
use record::events::{HostFigures, What};
use runner::{Injection, MARK};
use runner::{plain_text, ports, probes};
use rustix::process::Signal;

use super::injection::ActiveFaults;
use super::layout::{LayoutInput, ProcessSlot, Service};
use super::{Deployment, HostEvent, Hosts, NotUp, host_tasks, presences, told, watched};
use crate::deployment::HostTask;
use crate::deployment_spec::DeploymentSpec;
use crate::hooks::{Hook, variable};
use crate::host::{Host, HostKind, in_parallel, on_each_host};
use crate::host_process::{HostProcess, ProcessExit, Start};
use crate::hosts;
use crate::placement::ClientPlacement;
use crate::process_log::LogWatcher;
use crate::readiness::{self, ReadinessCheck, ReadinessWait, UrlParts};
use crate::sampling::COMMAND_ROLE;
use crate::session::RunnerSession;
use crate::tiers::{self, user_of};
use crate::{Caller, Error, targets};

/// Time limit for such a target to stop, seconds.
const COMMAND_STOP_S: f64 = 10.0;
/// Keys of the injections on hosts while the target starts.
const QUICK_CORES: &str = "quick start";
const QUICK_DISKS: &str = "quick start, disks";
/// Factor that lifts the CPU limit of any slow core.
const UNHINDERED: f64 = 1e6;
/// Limits that no disk reaches.
const UNHINDERED_DISK: Disk = Disk {
    size_bytes: None,
    read_iops: Some(1e9),
    write_iops: Some(1e9),
    read_bytes_per_s: Some(1e12),
    write_bytes_per_s: Some(1e12),
};
/// Interval between checks whether the user wants to end.
const GLANCE: Duration = Duration::from_millis(20);

pub fn up(build: &DeploymentSpec<'_>, caller: Arc<dyn Caller>, stop: &AtomicBool) -> Result<Deployment, NotUp> {
    tiers::check(build.manifest, build.trial)
        .map_err(|error| NotUp { error: Box::new(error), observed: Vec::new() })?;
    let lab = match &build.trial.target.kind {
        // The target's location is given, so virtual hosts would be idle. Commands of faults run on
        // this machine if the lab has no real host.
        TargetKind::Running { .. } if !build.trial.lab.hosts.iter().any(plan::Host::is_real) => {
            let commands = build.trial.all_faults().iter().any(|fault| fault.kind == crate::faults::COMMAND.info.name);
            let here = commands.then(|| hosts::this_machine(build.registry.ledger()));
            Ok((here.into_iter().collect(), ClientPlacement::default()))
        }
        _ => hosts::of(build, stop),
    };
    match lab {
        Ok((hosts, client_placement)) => up_on(hosts, client_placement, build, caller, stop),
        Err(error) => Err(NotUp { error: Box::new(error), observed: Vec::new() }),
    }
}

/// Starts the target on existing hosts.
pub fn up_on(
    mut hosts: Hosts,
    client_placement: ClientPlacement,
    build: &DeploymentSpec<'_>,
    caller: Arc<dyn Caller>,
    stop: &AtomicBool,
) -> Result<Deployment, NotUp> {
    let presence = interruptible(&sessions(&hosts), stop, || presences(build, &mut hosts, stop));
    let mut watched = watched(build.registry.id(), &hosts);
    watched.runs_operations = build.trial.target.protocol == "command";
    watched.clients_cpus = clients_alone(&build.trial.lab, client_placement.cpus()).into();
    let client_placement = Arc::new(client_placement);
    let mut deployment = Deployment {
        hosts,
        presence,
        posts: Vec::new(),
        services: Vec::new(),
        caller: Arc::new(InClientNetns {
            client_placement: Arc::clone(&client_placement),
            caller: Arc::clone(&caller),
        }),
        client_placement,
        ledger: build.registry.ledger(),
        hooks: BTreeMap::new(),
        hook_hosts: Vec::new(),
        command_hosts: Vec::new(),
        observed: VecDeque::new(),
        watched,
        broken: ActiveFaults::of(&build.trial.lab),
        at_once: Arc::clone(&build.at_once),
        is_switch_lost: false,
    };
    deployment.note_hosts();
    let notices = deployment.client_placement.notices.iter().cloned();
    deployment.observed.extend(notices.map(|text| HostEvent { at: Instant::now(), what: What::Notice { text } }));
    let prepared = interruptible(&sessions(&deployment.hosts), stop, || deployment.prepare(build));
    match prepared.and_then(|()| deployment.start_in(&build.trial.lab, caller.as_ref(), stop)) {
        Ok(()) => {
            deployment.watched.addresses = addresses(&build.trial.target, deployment.watched.sources.is_lab());
            deployment.watched.also = build.trial.target.also.clone();
            Ok(deployment)
        }
        Err(error) => {
            let interrupted = stop.load(Ordering::SeqCst);
            if interrupted {
                // Hosts that were given up on an interrupt were not lost.
                let down: Vec<usize> =
                    (0..deployment.hosts.len()).filter(|index| !deployment.hosts[*index].is_up()).collect();
                down.into_iter().for_each(|index| deployment.host_down(index, true));
            }
            let lost = || deployment.lost_host().unwrap_or(error);
            let error = if interrupted { Error::Interrupted } else { lost() };
            // Processes that cannot be ended stay in the registry. The reason for the failed start
            // matters more.
            let _ = deployment.kill_all();
            Err(NotUp { error: Box::new(error), observed: deployment.poll() })
        }
    }
}

/// Returns the addresses of a target that may have processes not started here: it already runs, or
/// a command may have left processes behind. An address that is not known is an error with the
/// reason. There are none in a lab: all processes on its hosts belong to the target. There are none
/// if operations are programs: these are the target.
fn addresses(target: &plan::Target, is_lab: bool) -> Vec<Result<SocketAddr, String>> {
    let is_started = matches!(target.kind, TargetKind::Started { .. });
    // The listener on a local socket is not looked up. The command is assumed to have started it.
    let is_known = |url: &String| is_lab || (is_started && socket_url::socket_of(url).is_some());
    let address = |url: String| match target.tls.proxy {
        Some(_) if !is_started => Err("it is reached through a proxy".to_owned()),
        _ => readiness::address(&url),
    };
    target.urls().into_iter().filter(|url| !is_known(url)).map(address).collect()
}

/// Returns the clients' CPUs if only clients use them, otherwise none. Hosts of generators use them
/// too, and would be taken for foreign processes.
fn clients_alone<'a>(lab: &plan::Lab, cpus: &'a [u32]) -> &'a [u32] {
    if lab.hosts.iter().any(|host| host.is_generator) { &[] } else { cpus }
}

/// Returns the factor by which time limits grow in a lab of this speed.
pub fn slowdown(speed: f64) -> f64 {
    if speed > 0.0 && speed < 1.0 { 1.0 / speed } else { 1.0 }
}

pub fn sessions(hosts: &Hosts) -> Vec<Arc<RunnerSession>> {
    hosts.iter().filter_map(|host| host.session()).collect()
}

/// Does slow work on hosts. Once `stop` is set, gives up the sessions, so that no reply is awaited.
/// Each host then ends its work by itself.
pub fn interruptible<T>(sessions: &[Arc<RunnerSession>], stop: &AtomicBool, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (done, is_done) = channel::<()>();
        let watch = move || {
            while is_done.recv_timeout(GLANCE) == Err(RecvTimeoutError::Timeout) {
                if stop.load(Ordering::SeqCst) {
                    return sessions.iter().for_each(|session| session.give_up("interrupted"));
                }
            }
        };
        // If the thread cannot start, the user only waits longer.
        let _watching = thread::Builder::new().name("stop".to_owned()).spawn_scoped(scope, watch);
        let did = work();
        drop(done);
        did
    })
}

/// Sends operations from the clients' network and CPUs.
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

/// Returns the slot of a target that a command starts. It runs in the user's folder, and clients
/// reach it by its URL.
fn started(
    build: &DeploymentSpec<'_>,
    command: &str,
    url: &str,
    check: ReadinessCheck,
    within_s: f64,
    host: &str,
) -> ProcessSlot {
    ProcessSlot {
        host: 0,
        rank: 0,
        start: Start {
            role: COMMAND_ROLE.to_owned(),
            program: "sh".into(),
            arguments: vec!["-c".into(), command.into()],
            environment: Vec::new(),
            folder: None,
            user: None,
            log: build.logs.join(format!("{host}.{COMMAND_ROLE}.log")),
            log_watcher: LogWatcher::default(),
            programs: Vec::new(),
        },
        check,
        ready_within_s: within_s,
        stop_signal: Signal::TERM,
        stop_within_s: COMMAND_STOP_S * slowdown(build.trial.lab.speed),
        stops_group: true,
        may_detach: true,
        service: None,
        member: Some(url.to_owned()),
        folder: None,
        process: None,
        last: None,
        end_expected: false,
    }
}

/// Returns the first path in a process's arguments and environment that exists on this machine but
/// is hidden on a virtual host by the host's own folder.
fn hidden_path(start: &Start, exists: &dyn Fn(&Path) -> bool) -> Option<String> {
    let values = start.environment.iter().map(|(_, value)| value);
    let words = start.arguments.iter().chain(values).filter_map(|word| word.to_str());
    let mut paths = words.flat_map(|word| word.split([' ', ',', ':', '=', '"', '\'']));
    let is_hidden = |path: &&str| {
        ["/tmp/", "/run/", "/dev/shm/"].iter().any(|folder| path.starts_with(folder))
            && start.folder.as_ref().is_none_or(|own| !Path::new(path).starts_with(own))
            && exists(Path::new(path))
    };
    paths.find(is_hidden).map(ToOwned::to_owned)
}

/// Returns the program that checks whether a process is ready, if there is one.
fn readiness_program(post: &ProcessSlot, host: &dyn Host, run: &str) -> Option<HostTask> {
    let ReadinessCheck::Run(hook) = &post.check else { return None };
    let mut hook = Hook::clone(hook);
    hook.environment.insert(MARK.to_owned(), run.into());
    let pid = post.process.as_ref().map(|process| process.pid().to_string()).unwrap_or_default();
    hook.environment.insert(variable("PLIMSOLL_PID_", &post.start.role), pid.into());
    Some(HostTask::of_hook(host, hook))
}

impl Deployment {
    /// Prepares everything up to the first process.
    fn prepare(&mut self, build: &DeploymentSpec<'_>) -> Result<(), Error> {
        match &build.trial.target.kind {
            TargetKind::Folder { name, with } => {
                let manifest = build.manifest.ok_or_else(|| Error::Manifest(format!("there is none of `{name}`")))?;
                self.prepare_folder(build, manifest, with)?;
            }
            TargetKind::Running { url } => {
                // If operations are programs, there may be no server. Generators elsewhere may
                // reach a server that this machine cannot reach.
                let is_reached_here = build.trial.fleet.as_ref().is_none_or(|fleet| !fleet.by.is_elsewhere());
                let urls = build.trial.target.urls();
                for url in urls.iter().filter(|_| is_reached_here) {
                    // Servers behind a proxy may be reachable only from the proxy.
                    let reached = build.trial.target.tls.proxy.as_deref().unwrap_or(url);
                    readiness::reach(reached)
                        .map_err(|reason| Error::Unreachable { url: reached.to_owned(), reason })?;
                }
                self.services = if urls.is_empty() { vec![url.clone()] } else { urls };
            }
            TargetKind::Started { command, url, ready, within_s } => {
                let urls = build.trial.target.urls();
                self.client_placement.inside(|| urls.iter().try_for_each(|url| must_be_free(url)))??;
                self.services = urls;
                let accept = || ReadinessCheck::Tcp(self.services.clone());
                let check = ready.clone().map_or_else(accept, ReadinessCheck::Http);
                let host = self.hosts.first().map(|host| host.name()).unwrap_or_default();
                let post = started(build, command, url, check, *within_s, host);
                self.posts.push(post);
            }
        }
        Ok(())
    }

    fn prepare_folder(
        &mut self,
        build: &DeploymentSpec<'_>,
        manifest: &Manifest,
        with: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let service = Service::of(manifest)?;
        let parameters = &targets::parameters_at(build.trial.lab.speed, manifest, with)?;
        let hosts = &look_around(build, manifest, parameters, &mut self.hosts)?;
        let ports = &choose_ports(manifest, parameters, service, hosts, &self.hosts)?;
        let laid_out = LayoutInput {
            manifest,
            parameters,
            service,
            hosts,
            ports,
            logs: &build.logs,
            slowdown: slowdown(build.trial.lab.speed),
        }
        .lay_out()?;
        self.slow_ports(&build.trial.lab, hosts, ports)?;
        self.posts = laid_out.posts;
        self.hook_hosts = laid_out.hook_hosts;
        self.command_hosts = laid_out.command_hosts;
        self.watched.sources.set_endpoints(laid_out.endpoints);
        self.services = self.posts.iter().filter_map(|post| post.service.clone()).collect();
        if self.services.is_empty() {
            // If clients only run programs, there is no service.
            self.services.push(String::new());
        }
        self.hooks.clone_from(&manifest.hooks);
        self.hooks.extend(host_tasks::hook_names(manifest));
        Ok(())
    }

    /// Returns an error for a host that was lost, if there is one. The state of its processes is
    /// unknown.
    fn lost_host(&self) -> Option<Error> {
        let lost = self.hosts.iter().find(|host| !host.is_up())?;
        let why =
            lost.session().and_then(|session| session.lost_for()).map_or_else(String::new, |why| format!(": {why}"));
        let reason = format!("it went while the target was being started{why}");
        Some(Error::HostLost { host: lost.name().to_owned(), reason })
    }

    /// Starts the target with unlimited cores and disks if the lab asks for a quick start. Restores
    /// the limits afterwards.
    pub(super) fn start_in(&mut self, lab: &plan::Lab, caller: &dyn Caller, stop: &AtomicBool) -> Result<(), Error> {
        if !(lab.quick_start && lab.is_virtual()) {
            return self.start(caller, stop);
        }
        let cores = |host: &plan::Host| (host.name.clone(), Injection::Cpu { of_profile: UNHINDERED });
        let fast = |tier: Option<&str>| Injection::Disk { disk: UNHINDERED_DISK, tier: tier.map(str::to_owned) };
        let disk = |host: &plan::Host| (host.name.clone(), fast(None));
        let has_slow_disk =
            |host: &&plan::Host| lab.profile_of(host).is_some_and(|profile| profile.disk.is_throttled());
        self.inject(QUICK_CORES, &lab.hosts.iter().map(cores).collect::<Vec<_>>())?;
        self.inject(QUICK_DISKS, &lab.hosts.iter().filter(has_slow_disk).map(disk).collect::<Vec<_>>())?;
        let slow: Vec<&Tier> = lab.tiers.iter().filter(|tier| tier.limits.is_throttled()).collect();
        let tier_key = |tier: &Tier| format!("{QUICK_DISKS}, {}", tier.name);
        for tier in &slow {
            let on = |host: &&plan::Host| tiers::on_host(lab, Some(host)).any(|(other, _)| other.name == tier.name);
            let hosts = lab.hosts.iter().filter(on).map(|host| (host.name.clone(), fast(Some(&tier.name))));
            self.inject(&tier_key(tier), &hosts.collect::<Vec<_>>())?;
        }
        self.start(caller, stop)?;
        for tier in &slow {
            self.heal(&tier_key(tier))?;
        }
        self.heal(QUICK_DISKS)?;
        self.heal(QUICK_CORES)
    }

    fn start(&mut self, caller: &dyn Caller, stop: &AtomicBool) -> Result<(), Error> {
        for rank in self.ranks() {
            if stop.load(Ordering::SeqCst) {
                return Err(Error::Interrupted);
            }
            for role in self.roles().into_iter().filter(|role| rank.contains(&role.start)) {
                self.start_posts(role)?;
            }
            self.await_ready(rank, caller, stop)?;
        }
        Ok(())
    }

    /// Starts the slots of a role on all hosts in parallel, at most one per host. Does not wait
    /// until they are ready.
    fn start_posts(&mut self, role: Range<usize>) -> Result<(), Error> {
        let mut starts: Vec<Option<&Start>> = self.hosts.iter().map(|_| None).collect();
        for post in &self.posts[role.clone()] {
            starts[post.host] = Some(&post.start);
        }
        let started =
            on_each_host(&mut self.hosts, |index, host| starts[index].map(|start| host.start(start)).transpose());
        let mut started: Vec<_> = started.into_iter().map(Some).collect();
        let mut failed = None;
        for index in role {
            match started[self.posts[index].host].take() {
                Some(Ok(Some(process))) => self.has_started(index, process),
                Some(Err(error)) => drop(failed.get_or_insert(error)),
                Some(Ok(None)) | None => {}
            }
        }
        self.watch();
        failed.map_or(Ok(()), Err)
    }

    /// Starts a slot's process. Does not wait until it is ready.
    pub(super) fn start_post(&mut self, index: usize) -> Result<(), Error> {
        let Some(post) = self.posts.get(index) else { return Ok(()) };
        let process = self.hosts[post.host].start(&post.start)?;
        self.has_started(index, process);
        self.watch();
        Ok(())
    }

    fn has_started(&mut self, index: usize, process: Box<dyn HostProcess>) {
        let Some(post) = self.posts.get_mut(index) else { return };
        let host = self.hosts[post.host].name().to_owned();
        let what = What::ProcessUp { host, process: post.start.role.clone(), pid: process.pid() };
        post.process = Some(process);
        post.end_expected = false;
        self.observed.push_back(HostEvent { at: Instant::now(), what });
    }

    /// Waits for all slots of a rank in parallel. If a process ends, stops waiting for the others.
    /// If a process is not ready in time, the others keep their own time limits.
    pub(super) fn await_ready(
        &mut self,
        rank: Range<usize>,
        caller: &dyn Caller,
        stop: &AtomicBool,
    ) -> Result<(), Error> {
        let hosts: Vec<&str> = self.hosts.iter().map(|host| host.name()).collect();
        let run = self.ledger.id().to_owned();
        let posts = self.posts[rank.clone()].iter_mut().map(|post| {
            let role = &post.start.role;
            let name = if hosts.len() > 1 { format!("{role} on {}", hosts[post.host]) } else { role.clone() };
            (name, readiness_program(post, self.hosts[post.host].as_ref(), &run), post)
        });
        let posts: Vec<(String, Option<HostTask>, &mut ProcessSlot)> = posts.collect();
        let failed = AtomicBool::new(false);
        let must_stop = || stop.load(Ordering::SeqCst) || failed.load(Ordering::SeqCst);
        let ready = self.client_placement.inside(|| {
            in_parallel(posts, |(name, program, post)| {
                let waiting = ReadinessWait {
                    role: &name,
                    check: &post.check,
                    program: program.as_ref(),
                    within_s: post.ready_within_s,
                    may_detach: post.may_detach,
                };
                let Some(process) = post.process.as_deref_mut() else { return Ok(()) };
                let ready = readiness::wait(&waiting, process, caller, &must_stop);
                failed.fetch_or(matches!(ready, Err(Error::DiedAtStart { .. })), Ordering::SeqCst);
                ready
            })
        })?;
        let failures = self.posts[rank].iter().zip(ready).filter_map(|(post, ready)| Some((post, ready.err()?)));
        // If the host is down, the target did not fail.
        let failures: Vec<Error> = failures
            .map(|(post, error)| match (&self.hosts[post.host], error) {
                (host, error) if !host.is_up() && error.is_targets() => {
                    let reason = "it was lost while the target was being started".to_owned();
                    Error::HostLost { host: host.name().to_owned(), reason }
                }
                (host, Error::DiedAtStart { role, how, log, .. }) if host.kind() == HostKind::Virtual => {
                    Error::DiedAtStart { role, how, log, hidden: hidden_path(&post.start, &|path| path.exists()) }
                }
                (_, error) => error,
            })
            .collect();
        // Waits that were stopped because of another failure are not the cause.
        let (stopped, mut failures): (Vec<_>, Vec<_>) =
            failures.into_iter().partition(|error| matches!(error, Error::Interrupted));
        match failures.len() {
            0 => stopped.into_iter().next().map_or(Ok(()), Err),
            1 => Err(failures.swap_remove(0)),
            _ => Err(Error::Several(failures)),
        }
    }
}

// Facts about the hosts that a layout needs, collected from all hosts in parallel: the path of the
// target's folder, private folders, and ports that are free on all hosts.

/// Number of attempts to choose ports. On a real machine, a port may be taken.
const TRIES: usize = 20;

/// The facts about a host that a layout needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredHost {
    pub name: String,
    /// Address at which other hosts reach it.
    pub address: String,
    /// Roles that it runs. Empty: it runs all roles.
    pub roles: Vec<String>,
    /// Path of the target's folder on the host. Empty for a built-in target.
    pub target: PathBuf,
    /// Path of this program on the host.
    pub plimsoll: PathBuf,
    /// Role to the private folder of its process, and `role.folder` to each folder on a tier of
    /// storage.
    pub folders: BTreeMap<String, PathBuf>,
    /// Number of its cores, if known.
    pub cores: Option<u32>,
    /// Memory in MiB, if known.
    pub memory_mb: Option<u64>,
}

impl DiscoveredHost {
    /// Whether the host runs this role.
    pub fn runs(&self, role: &str) -> bool {
        self.roles.is_empty() || self.roles.iter().any(|own| own == role)
    }
}

/// Role and port name to port number. The numbers are the same on every host, so that members can
/// address each other.
pub type PortNumbers = BTreeMap<(String, String), u16>;

/// Copies the target to every host, makes the private folders, and collects the facts for the
/// layout.
fn look_around(
    build: &DeploymentSpec<'_>,
    manifest: &Manifest,
    parameters: &BTreeMap<String, String>,
    hosts: &mut [Box<dyn Host>],
) -> Result<Vec<DiscoveredHost>, Error> {
    let folder = build.folder.filter(|folder| !folder.as_os_str().is_empty());
    on_each_host(hosts, |index, host| {
        let planned = build.trial.lab.hosts.get(index);
        let roles = planned.map(|host| host.roles.clone()).unwrap_or_default();
        if !planned.is_some_and(|host| host.is_generator) {
            roles.iter().try_for_each(|role| check_role(manifest, role, host))?;
        }
        let target = folder.map(|folder| host.bring(folder)).transpose()?.unwrap_or_default();
        if host.kind() == HostKind::Remote {
            check_installed(manifest, parameters, &target, host)?;
        }
        let (cores, memory_mb) = size(host.kind(), &host.figures());
        let mut surveyed = DiscoveredHost {
            name: host.name().to_owned(),
            address: host.address().to_owned(),
            roles,
            target,
            plimsoll: host.plimsoll(),
            folders: BTreeMap::new(),
            cores,
            memory_mb,
        };
        let here: Vec<_> = manifest.processes.iter().filter(|process| surveyed.runs(&process.role)).collect();
        for process in here {
            let user = user_of(process, parameters);
            surveyed.folders.insert(process.role.clone(), owned(host, host.folder(&process.role)?, user.as_deref())?);
            for name in process.folders.keys().map(|name| format!("{}.{name}", process.role)) {
                let tier = build.trial.lab.tiers.iter().find(|tier| tier.folders.contains(&name));
                let tier = tier.ok_or_else(|| Error::Manifest(format!("the plan has no tier for `{name}`")))?;
                let folder = owned(host, host.tier_folder(tier, &name)?, user.as_deref())?;
                surveyed.folders.insert(name, folder);
            }
            if let (HostKind::ThisMachine, Some(user)) = (host.kind(), &user) {
                reaches(&process.role, user, &surveyed.target)?;
            }
        }
        Ok(surveyed)
    })
    .into_iter()
    .collect()
}

/// Gives a folder to the user whose process uses it. Returns the folder.
fn owned(host: &dyn Host, folder: PathBuf, user: Option<&str>) -> Result<PathBuf, Error> {
    user.map_or(Ok(()), |user| host.give(&folder, user)).map(|()| folder)
}

/// Checks that a user of this machine can reach the target's folder.
fn reaches(role: &str, user: &str, target: &Path) -> Result<(), Error> {
    let Ok(Some(account)) = Account::to_become(user) else { return Ok(()) };
    let Some(closed) = account.is_kept_from(&target.join("target.toml")) else { return Ok(()) };
    Err(Error::Needs {
        what: format!("`{role}`, which runs as the user `{user}`,"),
        needs: format!("a way to {}, and {} is closed to it", target.display(), closed.display()),
        instead: "copy the target to a folder that all may read, and name that in PLIMSOLL_TARGETS; on a virtual host \
                  ([lab] hosts = 1) it is reached wherever it is"
            .to_owned(),
    })
}

fn check_role(manifest: &Manifest, role: &str, host: &dyn Host) -> Result<(), Error> {
    let known: Vec<&str> = manifest.processes.iter().map(|process| process.role.as_str()).collect();
    if known.contains(&role) {
        return Ok(());
    }
    let reason = format!("`{}` has no role `{role}`; it has {}", manifest.name, known.join(", "));
    Err(Error::Host { host: host.name().to_owned(), reason })
}

/// Runs the target's hook `install check` on a machine that the user prepares.
fn check_installed(
    manifest: &Manifest,
    parameters: &BTreeMap<String, String>,
    target: &Path,
    host: &dyn Host,
) -> Result<(), Error> {
    let Some(hook) = targets::installing(target, manifest, ("install", Some("check")), parameters)? else {
        return Ok(());
    };
    let checked = hook.run_on(host)?;
    let output = plain_text::lines(&checked.output);
    let missing: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    let reason = match checked.ended {
        ProcessExit::Exit(0) => return Ok(()),
        ProcessExit::Exit(1) if !missing.is_empty() => {
            let lines = missing.join("\n  ");
            format!("`{}` is not installed completely there; what has to be done on it:\n  {lines}", manifest.name)
        }
        ended => {
            let last = checked.errors.trim().lines().last().unwrap_or("it names nothing");
            format!("`install check` of `{}` failed there: {ended}: {last}", manifest.name)
        }
    };
    Err(Error::Host { host: host.name().to_owned(), reason })
}

/// Returns the cores and the memory in MiB of a host, from its profile, or from this machine if it
/// runs here.
fn size(kind: HostKind, figures: &HostFigures) -> (Option<u32>, Option<u64>) {
    let is_here = kind != HostKind::Remote;
    let machine = || u32::try_from(thread::available_parallelism().ok()?.get()).ok();
    let cores = figures.cores.or_else(|| if is_here { machine() } else { None });
    let memory_bytes = figures.memory_bytes.or_else(|| {
        let text = if is_here { procfs::text(Path::new("/proc/meminfo")) } else { None };
        probes::memory_bytes(&text?, "MemTotal:")
    });
    (cores, memory_bytes.map(|bytes| bytes >> 20))
}

/// Chooses ports for every process that are free on all its hosts. A parameter named `port` may set
/// the service's port.
fn choose_ports(
    manifest: &Manifest,
    parameters: &BTreeMap<String, String>,
    service: Service<'_>,
    surveyed: &[DiscoveredHost],
    hosts: &[Box<dyn Host>],
) -> Result<PortNumbers, Error> {
    let names: Vec<(String, String)> = manifest.processes.iter().flat_map(names).collect();
    let fixed = match parameters.get("port").filter(|port| !matches!(port.as_str(), "" | "0" | "auto")) {
        Some(port) if !service.role.is_empty() => {
            Some(port.parse().map_err(|_| Error::Manifest(format!("parameter port: `{port}` is not a port")))?)
        }
        _ => None,
    };
    let Some((first, others)) = hosts.split_first() else { return Ok(PortNumbers::new()) };
    let others = || others.iter().map(AsRef::as_ref).zip(surveyed.iter().skip(1));
    let check = |ports: &PortNumbers, (host, surveyed): (&dyn Host, &DiscoveredHost)| {
        let mut here = ports.iter().filter(|((role, _), _)| surveyed.runs(role));
        here.try_for_each(|(_, number)| host.check_port(*number))
    };
    let mut tries = 1;
    loop {
        let mut ports: PortNumbers = names.iter().cloned().zip(first.free_ports(names.len())?).collect();
        if let Some(number) = fixed {
            ports.insert((service.role.to_owned(), service.port.to_owned()), number);
            if surveyed.first().is_some_and(|host| host.runs(service.role)) {
                first.check_port(number)?;
            }
        }
        match others().try_for_each(|other| check(&ports, other)) {
            Ok(()) => return Ok(ports),
            Err(Error::PortTaken { port, .. }) if Some(port) != fixed && tries < TRIES => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

fn names(process: &manifest::Process) -> impl Iterator<Item = (String, String)> {
    process.ports.iter().map(|port| (process.role.clone(), port.clone()))
}

// Stop of a target and its hosts: in good order or at once. At the end, checks that no process is
// left.

/// Time limit between SIGKILL and the end of a process.
const PATIENCE: Duration = Duration::from_secs(5);

/// Interval between checks whether the user wants to end at once.
const END_GLANCE: Duration = Duration::from_millis(50);

/// Manner in which a target is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// Each process gets a stop signal and its time limit.
    InOrder,
    /// Each process gets SIGKILL.
    AtOnce,
}

impl Deployment {
    /// Stops all processes in reverse start order, and drops the hosts. A second call does nothing.
    pub(super) fn take_down(&mut self, manner: StopMode) -> Result<(), Error> {
        self.note_hosts();
        // A frozen process does not receive a stop signal.
        self.mend();
        match manner {
            StopMode::InOrder => {
                for role in self.roles().into_iter().rev() {
                    self.ask_to_end(role.clone());
                    self.end_posts(role);
                }
            }
            StopMode::AtOnce => self.end_posts(0..self.posts.len()),
        }
        let had_posts = !self.posts.is_empty();
        for index in 0..self.hosts.len() {
            self.host_down(index, true);
        }
        self.watch();
        self.release();
        // A process that left its group, or a child of such a process, still carries the mark.
        let (_, left) = if had_posts { self.ledger.marks().end(false) } else { Default::default() };
        if left.is_empty() { Ok(()) } else { Err(Error::Left { pids: left.iter().map(|stat| stat.pid).collect() }) }
    }

    /// Returns the slots of each role, in start order.
    pub(super) fn roles(&self) -> Vec<Range<usize>> {
        self.stretches(|one, next| one.start.role == next.start.role)
    }

    /// Returns the ranges of slots that start together, in start order.
    pub(super) fn ranks(&self) -> Vec<Range<usize>> {
        self.stretches(|one, next| one.rank == next.rank)
    }

    /// Splits the slots into ranges in which neighbours are the same.
    fn stretches(&self, is_same: fn(&ProcessSlot, &ProcessSlot) -> bool) -> Vec<Range<usize>> {
        let mut start = 0;
        let stretches = self.posts.chunk_by(is_same).map(|posts| {
            start += posts.len();
            start - posts.len()..start
        });
        stretches.collect()
    }

    /// Sends the stop signal to all slots. Then waits for each, up to its time limit.
    fn ask_to_end(&mut self, posts: Range<usize>) {
        let asked = Instant::now();
        for index in posts.clone() {
            self.note_end(index);
            let Some(post) = self.posts.get_mut(index) else { return };
            post.end_expected = true;
            if let Some(process) = &mut post.process {
                if post.stops_group {
                    process.signal_group(post.stop_signal);
                } else {
                    process.signal(post.stop_signal);
                }
            }
        }
        for index in posts {
            let Some(post) = self.posts.get_mut(index) else { return };
            let within = Duration::try_from_secs_f64(post.stop_within_s).unwrap_or_default();
            if let Some(process) = &mut post.process {
                // Stops waiting once the user wants to end at once.
                while !self.at_once.load(Ordering::SeqCst)
                    && asked.elapsed() < within
                    && process.wait(within.saturating_sub(asked.elapsed()).min(END_GLANCE)).is_none()
                {}
            }
            self.note_end(index);
        }
    }

    /// Kills all remaining processes of these slots.
    pub(super) fn end_posts(&mut self, posts: Range<usize>) {
        for index in posts.clone() {
            self.note_end(index);
            let Some(post) = self.posts.get_mut(index) else { return };
            post.end_expected = true;
            for process in post.process.iter_mut().chain(&mut post.last) {
                process.signal_group(Signal::KILL);
            }
        }
        for index in posts.rev() {
            if let Some(process) = self.posts.get_mut(index).and_then(|post| post.process.as_mut()) {
                process.wait(PATIENCE);
            }
            self.note_end(index);
        }
    }

    /// Drops all processes and hosts. A dropped virtual host ends every process in it.
    fn release(&mut self) {
        let mut folders: Vec<Vec<String>> = self.hosts.iter().map(|_| Vec::new()).collect();
        for mut post in self.posts.drain(..) {
            // Dropping the process first lets its log reader finish.
            (post.process, post.last) = (None, None);
            let host = self.hosts.get(post.host).map(|host| host.name()).unwrap_or_default();
            let heard = post.start.log_watcher.take().into_iter().chain(post.start.log_watcher.take_left_out());
            self.observed.extend(heard.map(|heard| told(heard, host, &post.start.role)));
            if let (Some(folders), Some(name)) = (folders.get_mut(post.host), post.folder) {
                folders.push(name);
            }
        }
        self.presence.clear();
        let hosts = std::mem::take(&mut self.hosts).into_iter().zip(folders).collect();
        drop(in_parallel(hosts, |(host, folders): (Box<dyn Host>, Vec<String>)| {
            folders.iter().for_each(|name| host.remove_folder(name));
            Ok(())
        }));
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        // Processes that cannot be ended here stay in the registry.
        let _ = self.take_down(StopMode::AtOnce);
    }
}

#[cfg(test)]
mod tests {
    use fixture::TestDir;
    use runner::{ProgramSpec, Setup, VERSION};

    use super::*;
    use crate::fakes::runner_thread;

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
            user: None,
            log: PathBuf::new(),
            log_watcher: LogWatcher::default(),
            programs: Vec::new(),
        };
        let hidden = |run: &str, home: &str| hidden_path(&start(run, home), &|path| path != Path::new("/tmp/made"));
        assert_eq!(hidden("--data=/tmp/own/x", "/tmp/e35").as_deref(), Some("/tmp/e35"));
        assert_eq!(hidden("PATH=/bin:/dev/shm/bin", "").as_deref(), Some("/dev/shm/bin"));
        assert_eq!(hidden("/tmp/made", "/srv/etcd"), None, "it may be made there");
    }

    #[test]
    fn a_stop_request_aborts_a_long_operation_on_a_host() {
        let folder = TestDir::new();
        let run = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let setup = Setup {
            version: VERSION.to_owned(),
            host: "n1".to_owned(),
            run,
            folder: folder.join("n1"),
            ..Setup::default()
        };
        let (input, to) = std::io::pipe().unwrap();
        let (from, output) = std::io::pipe().unwrap();
        let serving = runner_thread(input, output);
        let long = Duration::from_secs(600);
        let session = RunnerSession::open(Box::new(to), Box::new(from), &setup, long, &Default::default()).unwrap();
        let program = ProgramSpec { command: vec!["sleep".to_owned(), "600".to_owned()], ..ProgramSpec::default() };
        let sessions = [session];
        let ran = interruptible(&sessions, &AtomicBool::new(true), || sessions[0].run(&program, "", long));
        assert!(matches!(ran, Err(Error::HostLost { .. })), "{ran:?}");
        assert_eq!(serving.join().unwrap(), 0, "it has ended what it was doing");
    }
}
