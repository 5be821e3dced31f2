//! Faults of a deployment: their possible victims, the injections on hosts, the frozen processes,
//! and how each fault is healed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use experiment::plan;
use experiment::profile::{Disk, Link};
use experiment::tier::TierMedium;
use record::events::{HostFigures, What};
use runner::{Injection, ProgramSpec};
use rustix::process::Signal;

use super::bring_up::PortNumbers;
use super::host_tasks::HostTask;
use super::layout::ProcessSlot;
use super::{ASK_PATIENCE, Deployment, HostEvent};
use crate::deployment::bring_up::DiscoveredHost;
use crate::host::{Host, HostKind, in_parallel};
use crate::host_process::ProgramOutput;
use crate::session::RunnerSession;
use crate::{Caller, Error};

/// The active faults, and the facts about the lab that faults need.
#[derive(Debug, Default)]
pub(super) struct ActiveFaults {
    /// Time dilation; 1 is real time.
    speed: f64,
    /// Ports of the target.
    ports: PortNumbers,
    /// Disk limits of each host's profile, by host name, at speed 1.
    disks: BTreeMap<String, Disk>,
    /// Limits of the storage tiers that are separate volumes, by name, at the lab's speed.
    tiers: BTreeMap<String, Disk>,
    /// Slots that each occurrence of a fault hit, by fault name and number.
    hit: BTreeMap<(String, u32), Vec<usize>>,
    /// Frozen processes, each with the occurrence that froze it.
    paused: Vec<(String, PausedProcess)>,
    /// Injections on hosts, in the order of injection.
    injected: Vec<ActiveInjection>,
    /// Names of the hosts for generators.
    generators: Vec<String>,
    /// Occurrences that ran a command, each with the host.
    commanded: Vec<(String, String)>,
    /// Occurrences that crashed a host, each with the host.
    crashed: Vec<(String, usize)>,
    /// Output of the hook `leader` for the next faults.
    leader: Option<Result<String, String>>,
    /// Slots to start again once their process has ended.
    restarts: Vec<Restart>,
}

/// A frozen process of a slot with its group, or a frozen program in its tree.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PausedProcess {
    post: usize,
    program: Option<String>,
}

impl ActiveFaults {
    /// Returns the state without faults for this lab.
    pub fn of(lab: &plan::Lab) -> Self {
        let disks = lab.hosts.iter().filter_map(|host| {
            let profile = lab.profile_of(host)?;
            Some((host.name.clone(), profile.disk.clone()))
        });
        let speed = if lab.speed > 0.0 { lab.speed } else { 1.0 };
        let tiers = lab.tiers.iter().filter(|tier| tier.medium == TierMedium::Volume);
        let tiers = tiers.map(|tier| (tier.name.clone(), tier.limits_at(speed)));
        let generators = lab.hosts.iter().filter(|host| host.is_generator).map(|host| host.name.clone());
        let generators = generators.collect();
        Self { speed, disks: disks.collect(), tiers: tiers.collect(), generators, ..Self::default() }
    }
}

impl Deployment {
    /// Returns the names of the members' hosts, in order. Empty if the target was not started here
    /// and has no real hosts.
    pub(crate) fn member_hosts(&self) -> Vec<String> {
        if self.posts.is_empty() {
            // A target that already runs has its real hosts as members.
            return self
                .hosts
                .iter()
                .filter(|host| host.kind() == HostKind::Remote)
                .map(|host| host.name().to_owned())
                .collect();
        }
        self.hosts_of(|post| post.member.is_some())
    }

    /// Returns the names of the hosts between the clients and the members. They serve clients but
    /// run no member.
    pub(crate) fn fronts(&self) -> Vec<String> {
        let members = self.member_hosts();
        let mut serving = self.hosts_of(|post| post.service.is_some());
        serving.retain(|host| !members.contains(host));
        serving
    }

    fn hosts_of(&self, is: impl Fn(&ProcessSlot) -> bool) -> Vec<String> {
        self.posts.iter().filter(|post| is(post)).map(|post| self.hosts[post.host].name().to_owned()).collect()
    }

    /// Returns the names of the hosts that run a process of this role.
    pub(crate) fn running(&self, role: &str) -> Vec<String> {
        self.hosts_of(|post| post.start.role == role)
    }

    /// Returns the names of the hosts for generators.
    pub(crate) fn generator_hosts(&self) -> &[String] {
        &self.broken.generators
    }

    /// Returns the names of all hosts, in order.
    pub(crate) fn host_names(&self) -> Vec<String> {
        self.hosts.iter().map(|host| host.name().to_owned()).collect()
    }

    /// Whether a host is this machine itself, on which no faults are injected.
    pub(crate) fn is_this_machine(&self) -> bool {
        self.hosts.iter().any(|host| host.kind() == HostKind::ThisMachine)
    }

    /// Returns the time dilation; 1 is real time.
    #[must_use]
    pub fn speed(&self) -> f64 {
        self.broken.speed
    }

    /// Returns the disk limits of a host's profile, at the lab's speed.
    pub(crate) fn profiled_disk(&self, host: &str) -> Option<Disk> {
        let disk = self.broken.disks.get(host)?;
        let at_speed = |figure: Option<f64>| figure.map(|figure| figure * self.broken.speed);
        Some(Disk {
            size_bytes: disk.size_bytes,
            read_iops: at_speed(disk.read_iops),
            write_iops: at_speed(disk.write_iops),
            read_bytes_per_s: at_speed(disk.read_bytes_per_s),
            write_bytes_per_s: at_speed(disk.write_bytes_per_s),
        })
    }

    /// Returns the limits of a storage tier at the lab's speed, if the tier is a separate volume.
    pub(crate) fn tier_limits(&self, name: &str) -> Option<Disk> {
        self.broken.tiers.get(name).cloned()
    }

    /// Returns the addresses of every host, in order: one for each of its networks.
    pub(crate) fn addresses(&self) -> Result<Vec<Vec<Ipv4Addr>>, Error> {
        let of = |host: &dyn Host| host.addresses().iter().map(|address| ipv4(host.name(), address)).collect();
        self.hosts.iter().map(|host| of(host.as_ref())).collect()
    }

    /// Returns the clients' address as this host sees it.
    pub(crate) fn clients_toward(&self, host: Ipv4Addr) -> Result<Ipv4Addr, Error> {
        // Connecting a datagram socket sends nothing. The kernel only chooses the local address.
        let ask = || -> std::io::Result<SocketAddr> {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.connect((host, 9))?;
            socket.local_addr()
        };
        match self.client_placement.inside(ask)?.map_err(Error::system(format!("find the way to {host}")))?.ip() {
            IpAddr::V4(address) => Ok(address),
            IpAddr::V6(address) => Err(Error::Fault(format!("the clients have no IPv4 address, but {address}"))),
        }
    }

    /// Returns the address of the member on this host.
    pub(crate) fn service_of(&self, host: &str) -> String {
        let mut here = self.posts.iter().filter(|post| self.hosts[post.host].name() == host);
        here.find_map(|post| post.member.clone()).unwrap_or_else(|| self.service())
    }

    pub(crate) fn caller(&self) -> Arc<dyn Caller> {
        Arc::clone(&self.caller)
    }

    /// Returns the task that finds the leader. Run it on a separate thread: the hook may take
    /// seconds.
    ///
    /// # Errors
    /// If the target has no hook `leader`.
    pub fn leader_task(&self) -> Result<HostTask, Error> {
        let hook = self
            .hook("leader", ASK_PATIENCE)
            .ok_or_else(|| Error::Fault("this target has no hook `leader`".to_owned()))?;
        Ok(HostTask::of_hook(hook.host, hook.hook))
    }

    /// Stores the result of [`Deployment::leader_task`] for the next faults. With `None`, each
    /// fault runs the hook itself.
    pub fn know_leader(&mut self, answer: Option<Result<String, String>>) {
        self.broken.leader = answer;
    }

    /// Returns the member that the target's hook `leader` names.
    pub(crate) fn leader(&self) -> Result<String, Error> {
        let known = self.broken.leader.clone();
        known.map_or_else(|| self.leader_task().map(|task| task.run(&|| false).leader()), Ok)?.map_err(Error::Fault)
    }

    /// Returns the slot of a role on a host. Without a role, returns the member's slot.
    pub(crate) fn post_of(&self, host: &str, role: Option<&str>) -> Result<usize, Error> {
        let found = self.posts.iter().position(|post| {
            self.hosts[post.host].name() == host && role.map_or(post.member.is_some(), |role| post.start.role == role)
        });
        found.ok_or_else(|| Error::Fault(format!("{host} has no process `{}`", role.unwrap_or("of a member"))))
    }

    pub(super) fn host_index(&self, host: &str) -> Result<usize, Error> {
        let known = || Error::NoVictim { on: host.to_owned(), known: self.host_names() };
        self.hosts.iter().position(|one| one.name() == host).ok_or_else(known)
    }
}

/// Replaces the known placeholders in a command. All other braces, also those of `${host}`, are
/// left to the shell.
fn with_placeholders(command: &str, values: &BTreeMap<String, String>) -> String {
    let (mut filled, mut rest) = (String::new(), command);
    while let Some(open) = rest.find('{') {
        let (before, inside) = rest.split_at(open);
        filled.push_str(before);
        let name = inside[1..].split_once('}').map(|(name, _)| name).filter(|_| !before.ends_with('$'));
        let value = name.and_then(|name| Some((name, values.get(name)?)));
        filled.push_str(value.map_or("{", |(_, value)| value.as_str()));
        rest = &inside[value.map_or(1, |(name, _)| name.len() + 2)..];
    }
    filled + rest
}

fn ipv4(host: &str, address: &str) -> Result<Ipv4Addr, Error> {
    let found = (address, 0).to_socket_addrs().map_err(Error::system(format!("find the address of {host}")))?;
    let mut v4 = found.filter_map(|address| match address.ip() {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    });
    v4.next()
        .ok_or_else(|| Error::Fault(format!("{host} ({address}) has no IPv4 address, and only those can be cut off")))
}

// Faults of a deployment's hosts: injections, crashes and boots.

/// An injection on a host.
#[derive(Debug)]
struct ActiveInjection {
    key: String,
    host: usize,
    control: Injection,
}

impl Deployment {
    /// Injects a fault on hosts under a key, in parallel: on all of them or on none. On a host that
    /// is down, it takes effect when the host is up again.
    pub(crate) fn inject(&mut self, key: &str, controls: &[(String, Injection)]) -> Result<(), Error> {
        let injected = |(host, control): &(String, Injection)| {
            Ok(ActiveInjection { key: key.to_owned(), host: self.host_index(host)?, control: control.clone() })
        };
        let wanted: Vec<ActiveInjection> = controls.iter().map(injected).collect::<Result<_, Error>>()?;
        let hosts = self.hosts.iter_mut().enumerate();
        let items = hosts.filter_map(|(index, host)| Some((wanted.iter().find(|one| one.host == index)?, host)));
        let done = in_parallel(items.filter(|(_, host)| host.is_up()).collect(), |(injected, host)| {
            let name = host.name().to_owned();
            host.inject(key, &injected.control).map_err(|error| match error {
                Error::Fault(reason) => Error::Fault(format!("{name}: {reason}")),
                // The error already names the host.
                other => other,
            })
        });
        self.broken.injected.extend(wanted);
        let Some(error) = done.into_iter().find_map(Result::err) else { return Ok(()) };
        // A failed heal is undone when its host ends.
        let _ = self.heal(key);
        Err(error)
    }

    /// Heals all injections under this key on every host.
    pub(crate) fn heal(&mut self, key: &str) -> Result<(), Error> {
        let (own, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.broken.injected).into_iter().partition(|injected| injected.key == key);
        self.broken.injected = others;
        let hosts = self.hosts.iter_mut().enumerate();
        let items = hosts.filter(|(index, _)| own.iter().any(|injected| injected.host == *index));
        // A host that is down has lost all its injections.
        let items = items.map(|(_, host)| host).filter(|host| host.is_up()).collect();
        let done = in_parallel(items, |host: &mut Box<dyn Host>| host.heal(key));
        if done.iter().any(|one| matches!(one, Err(Error::HostLost { .. }))) {
            self.ask_all_whether_they_answer();
        }
        done.into_iter().find_map(Result::err).map_or(Ok(()), Err)
    }

    /// Queries all hosts in parallel after one host did not answer. A host that is silent then
    /// counts as lost. Otherwise each silent host would use up its own time limit, one after the
    /// other.
    fn ask_all_whether_they_answer(&self) {
        let sessions = self.hosts.iter().filter(|host| host.is_up()).filter_map(|host| host.session()).collect();
        drop(in_parallel(sessions, |session: Arc<RunnerSession>| session.figures().map(drop)));
    }

    /// Ends a host at once, with every process on it.
    pub(crate) fn crash_host(&mut self, host: &str, key: &str) -> Result<(), Error> {
        let index = self.host_index(host)?;
        if !self.hosts[index].is_up() {
            return Err(Error::Fault(format!("{host} is down already")));
        }
        let posts: Vec<usize> = (0..self.posts.len()).filter(|post| self.posts[*post].host == index).collect();
        // Processes that ended earlier did not end because of the crash.
        for post in &posts {
            self.note_end(*post);
        }
        self.hosts[index].crash()?;
        self.broken.crashed.push((key.to_owned(), index));
        self.broken.restarts.retain(|restart| !posts.contains(&restart.post));
        self.host_down(index, true);
        Ok(())
    }

    /// Boots the hosts that this occurrence crashed, repeats the injections on them, and starts
    /// their processes in order. Does not wait until these are ready.
    pub(crate) fn boot_hosts(&mut self, key: &str) -> Result<(), Error> {
        let (own, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.broken.crashed).into_iter().partition(|(holder, _)| holder == key);
        self.broken.crashed = others;
        let mut failed = None;
        for (_, index) in own {
            if let Err(error) = self.boot_host(index) {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn boot_host(&mut self, index: usize) -> Result<(), Error> {
        let host = &mut self.hosts[index];
        if host.is_up() {
            return Ok(());
        }
        host.boot()?;
        self.host_up(index);
        let mut failed = self.inject_again(index).err();
        for post in 0..self.posts.len() {
            // A generator cannot join a running load.
            if self.posts[post].host == index
                && self.posts[post].process.is_none()
                && self.posts[post].start.role != plan::GENERATOR_ROLE
                && let Err(error) = self.start_post(post)
            {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Repeats the injections that a host had before it went down.
    pub(super) fn inject_again(&self, index: usize) -> Result<(), Error> {
        let mut failed = None;
        for injected in self.broken.injected.iter().filter(|injected| injected.host == index) {
            if let Err(error) = self.hosts[index].inject(&injected.key, &injected.control) {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Heals all faults, but keeps the lab's own limits. A later heal of the same keys does
    /// nothing.
    pub(super) fn forget_faults(&mut self) {
        let lab = |injected: &ActiveInjection| !injected.key.contains('#');
        let keys: Vec<String> =
            self.broken.injected.iter().rev().filter(|one| !lab(one)).map(|one| one.key.clone()).collect();
        for key in keys {
            let _ = self.heal(&key);
        }
        self.broken.restarts.clear();
        self.broken.crashed.clear();
        self.broken.hit.clear();
        for (_, paused) in std::mem::take(&mut self.broken.paused) {
            self.go_on(&paused);
        }
    }

    /// Returns a user's shell command as a program on a host. It gets the environment of a hook
    /// there. The target's placeholders are replaced.
    pub(crate) fn command_on(&self, host: &str, role: &str, command: &str) -> ProgramSpec {
        let place = self.command_hosts.iter().find(|place| self.hosts[place.host].name() == host);
        let text = |text: OsString| text.to_string_lossy().into_owned();
        // For a target that already runs, only the host's name is known.
        let nothing = || BTreeMap::from(["PLIMSOLL_HOST", "PLIMSOLL_NAME"].map(|name| (name.to_owned(), host.into())));
        let environment = place.map_or_else(nothing, |place| self.environment_at(place, host));
        let command = place.map_or_else(|| command.to_owned(), |place| with_placeholders(command, &place.values));
        ProgramSpec {
            role: role.to_owned(),
            command: vec!["sh".to_owned(), "-c".to_owned(), command],
            environment: environment.into_iter().map(|(name, value)| (name, text(value))).collect(),
            ..ProgramSpec::default()
        }
    }

    /// Runs a program on a host to its end.
    pub(crate) fn run_on(&self, host: &str, program: &ProgramSpec, within: Duration) -> Result<ProgramOutput, Error> {
        self.hosts[self.host_index(host)?].run(program, "", within)
    }

    /// Remembers the host on which an occurrence ran a command, for healing.
    pub(crate) fn remember_commanded(&mut self, key: &str, host: &str) {
        self.broken.commanded.push((key.to_owned(), host.to_owned()));
    }

    /// Returns and forgets the hosts on which an occurrence ran a command.
    pub(crate) fn take_commanded(&mut self, key: &str) -> Vec<String> {
        let (own, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.broken.commanded).into_iter().partition(|(holder, _)| holder == key);
        self.broken.commanded = others;
        own.into_iter().map(|(_, host)| host).collect()
    }

    /// Returns the measured figures of a host's storage.
    pub(crate) fn storage_of(&self, host: &str) -> Result<HostFigures, Error> {
        let presence = self.presence.get(self.host_index(host)?);
        Ok(presence.map(|presence| presence.storage().clone()).unwrap_or_default())
    }

    /// Heals everything and resumes all processes, so that the target can be stopped. A failed heal
    /// is undone when its host ends.
    pub(super) fn mend(&mut self) {
        self.broken.restarts.clear();
        let keys: Vec<String> = self.broken.injected.iter().rev().map(|injected| injected.key.clone()).collect();
        for key in keys {
            let _ = self.heal(&key);
        }
        for (_, paused) in std::mem::take(&mut self.broken.paused) {
            self.go_on(&paused);
        }
    }
}

// Slow ports of the target. The lab sets them for the whole trial; faults use their numbers.

impl Deployment {
    /// Returns the numbers of all ports with this name, of any role.
    pub(crate) fn ports_named(&self, name: &str) -> Vec<u16> {
        let named = self.broken.ports.iter().filter(|((_, other), _)| other == name);
        named.map(|(_, number)| *number).collect()
    }

    /// Slows down the lab's slow ports on each host that runs a role with such a port. Must run
    /// before the processes start.
    pub(super) fn slow_ports(
        &mut self,
        lab: &plan::Lab,
        hosts: &[DiscoveredHost],
        ports: &PortNumbers,
    ) -> Result<(), Error> {
        self.broken.ports.clone_from(ports);
        for port in &lab.ports {
            let roles = || ports.keys().filter(|(_, name)| *name == port.name).map(|(role, _)| role);
            let slowed = hosts.iter().filter(|host| roles().any(|role| host.runs(role)));
            let control =
                Injection::Port { ports: self.ports_named(&port.name), link: at_speed(&port.link, self.speed()) };
            let controls: Vec<_> = slowed.map(|host| (host.name.clone(), control.clone())).collect();
            // This is not a fault's key, because those contain a `#`.
            self.inject(&format!("lab.port.{}", port.name), &controls)?;
        }
        Ok(())
    }
}

fn at_speed(link: &Link, speed: f64) -> Link {
    Link {
        rate_bits_per_s: link.rate_bits_per_s.map(|rate| rate * speed),
        delay_s: link.delay_s.map(|delay_s| delay_s / speed),
        loss_pct: None,
    }
}

// Faults of a deployment's processes: signals, pauses and restarts.

/// Time limit for a killed process to disappear before it is started again.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// A slot to start again.
#[derive(Debug)]
struct Restart {
    post: usize,
    /// Id of the process that must end.
    pid: u32,
    /// Time at which the process is killed.
    give_up: Instant,
    /// Pause between the end and the start.
    wait: Duration,
    /// Time of the start, once the process has ended.
    due: Option<Instant>,
}

impl Deployment {
    /// Signals a slot's process. If a shell command started the target, signals its whole group. If
    /// `ends`, the end of the process counts as expected from now on. Fails if the process does not
    /// run.
    pub(crate) fn signal(&mut self, index: usize, signal: Signal, ends: bool) -> Result<(), Error> {
        self.note_end(index);
        let post = self.posts.get_mut(index).ok_or_else(does_not_run)?;
        let process = post.process.as_mut().ok_or_else(does_not_run)?;
        if post.stops_group {
            process.signal_group(signal);
        } else {
            process.signal(signal);
        }
        post.end_expected |= ends;
        Ok(())
    }

    /// Signals a program in the tree of a slot's process. If `ends` and the program is the process
    /// itself, its end counts as expected. Fails if the process does not run.
    pub(crate) fn signal_program(
        &mut self,
        index: usize,
        program: &str,
        signal: Signal,
        ends: bool,
    ) -> Result<(), Error> {
        self.note_end(index);
        let post = self.posts.get_mut(index).ok_or_else(does_not_run)?;
        let process = post.process.as_mut().ok_or_else(does_not_run)?;
        let signalled = process.signal_program(program, signal)?;
        post.end_expected |= ends && signalled.contains(&process.pid());
        Ok(())
    }

    /// Remembers the slots that an occurrence of a fault hit, for healing.
    pub(crate) fn remember_hit(&mut self, fault: &str, number: u32, posts: Vec<usize>) {
        self.broken.hit.insert((fault.to_owned(), number), posts);
    }

    pub(crate) fn take_hit(&mut self, fault: &str, number: u32) -> Vec<usize> {
        self.broken.hit.remove(&(fault.to_owned(), number)).unwrap_or_default()
    }

    /// Starts a slot's process again with the same ports and data, if it has ended. First kills
    /// what is left of the previous process group, which may hold the port. Waits a moment for a
    /// process whose end is expected.
    pub(crate) fn start_again(&mut self, index: usize) -> Result<(), Error> {
        self.note_end(index);
        let Some(post) = self.posts.get_mut(index) else { return Ok(()) };
        if let (Some(process), true) = (&mut post.process, post.end_expected) {
            process.wait(END_PATIENCE);
        }
        self.note_end(index);
        let Some(post) = self.posts.get_mut(index) else { return Ok(()) };
        if post.process.is_some() {
            let lives_on = format!("`{}` did not end, so there is nothing to start again", post.start.role);
            return if post.end_expected { Err(Error::Fault(lives_on)) } else { Ok(()) };
        }
        if let Some(mut last) = post.last.take() {
            last.signal_group(Signal::KILL);
        }
        self.start_post(index)
    }

    /// Freezes a slot's process with its group, or a program in its tree. Fails if the process does
    /// not run.
    pub(crate) fn pause(&mut self, index: usize, program: Option<&str>, key: &str) -> Result<(), Error> {
        if let Some(program) = program {
            self.signal_program(index, program, Signal::STOP, false)?;
        } else {
            self.note_end(index);
            let process = self.posts.get_mut(index).and_then(|post| post.process.as_mut()).ok_or_else(does_not_run)?;
            process.signal_group(Signal::STOP);
        }
        let paused = PausedProcess { post: index, program: program.map(str::to_owned) };
        self.broken.paused.push((key.to_owned(), paused));
        Ok(())
    }

    /// Resumes the processes that this occurrence froze, unless another occurrence also froze them.
    pub(crate) fn unpause(&mut self, key: &str) {
        let (own, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.broken.paused).into_iter().partition(|(holder, _)| holder == key);
        self.broken.paused = others;
        for (_, paused) in own {
            let holds = |held: &PausedProcess| {
                held.post == paused.post && (held.program == paused.program || held.program.is_none())
            };
            if !self.broken.paused.iter().any(|(_, held)| holds(held)) {
                self.go_on(&paused);
            }
        }
    }

    fn go_on(&mut self, paused: &PausedProcess) {
        let Some(post) = self.posts.get_mut(paused.post) else { return };
        if let (Some(program), Some(process)) = (&paused.program, &mut post.process) {
            // An error means that the program has ended.
            let _ = process.signal_program(program, Signal::CONT);
            return;
        }
        // If the process has ended, others of its group may still be frozen.
        for process in [&mut post.process, &mut post.last].into_iter().flatten() {
            process.signal_group(Signal::CONT);
        }
    }

    /// Asks a slot's process to end. Starts it again `wait` after its end. Fails if the process
    /// does not run.
    pub(crate) fn restart(&mut self, index: usize, wait: Duration) -> Result<(), Error> {
        let post = self.posts.get(index).ok_or_else(does_not_run)?;
        if self.broken.restarts.iter().any(|restart| restart.post == index) {
            return Err(Error::Fault("its process is being restarted already".to_owned()));
        }
        let pid = post.process.as_ref().map_or(0, |process| process.pid());
        let within = Duration::try_from_secs_f64(post.stop_within_s).unwrap_or_default();
        self.signal(index, post.stop_signal, true)?;
        let give_up = Instant::now() + within;
        self.broken.restarts.push(Restart { post: index, pid, give_up, wait, due: None });
        Ok(())
    }

    /// Continues pending restarts: kills processes that do not end in time, and starts those that
    /// have ended.
    pub(super) fn go_on_restarting(&mut self) {
        let mut open = Vec::new();
        for mut restart in std::mem::take(&mut self.broken.restarts) {
            let now = Instant::now();
            let process = self.posts[restart.post].process.as_ref();
            let runs = process.is_some_and(|process| process.pid() == restart.pid);
            if runs && now >= restart.give_up {
                // Kills a process that did not end in time.
                self.posts[restart.post].process.iter_mut().for_each(|process| process.signal_group(Signal::KILL));
            }
            if !runs && restart.due.is_none() {
                restart.due = Some(now + restart.wait);
            }
            match restart.due {
                Some(due) if now >= due => {
                    if let Err(error) = self.start_again(restart.post) {
                        let role = &self.posts[restart.post].start.role;
                        let text = format!("`{role}` could not be started again: {error}");
                        self.observed.push_back(HostEvent { at: now, what: What::Notice { text } });
                    }
                }
                _ => open.push(restart),
            }
        }
        self.broken.restarts = open;
    }
}

fn does_not_run() -> Error {
    Error::Fault("its process does not run".to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fixture::until;
    use record::events::What;
    use runner::Injection;
    use rustix::process::Signal;

    use crate::deployment::Deployment;
    use crate::fakes::FakeDeployment;

    const SQUEEZE: Injection = Injection::Cpu { of_profile: 0.5 };
    const SQUEEZED: &str = r#"{"control":"cpu","of_profile":0.5}"#;

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
        stage.deployment.inject("a#1", &[("n1".to_owned(), SQUEEZE), ("n3".to_owned(), SQUEEZE)]).unwrap();
        stage.deployment.inject("a#2", &[("n3".to_owned(), SQUEEZE)]).unwrap();
        stage.done();
        stage.deployment.heal("a#1").unwrap();
        assert_eq!(stage.done(), ["n1 heal a#1", "n3 heal a#1"]);
        stage.deployment.heal("a#1").unwrap();
        assert_eq!(stage.done(), [] as [&str; 0]);
        assert!(
            stage
                .deployment
                .inject("a#3", &[("n9".to_owned(), SQUEEZE)])
                .err()
                .unwrap()
                .to_string()
                .contains("no member `n9`")
        );
    }

    #[test]
    fn an_injection_survives_a_crash() {
        let mut stage = FakeDeployment::of(2);
        seen(&mut stage.deployment);
        stage.deployment.inject("cut#1", &[("n2".to_owned(), SQUEEZE)]).unwrap();
        stage.deployment.crash_host("n2", "crash#1").unwrap();
        assert_eq!(stage.done(), [&format!("n2 inject cut#1 {SQUEEZED}"), "n2 crash"]);
        assert_eq!(
            seen(&mut stage.deployment),
            ["n2 down true", "n2 server down signal 9 true", "n2 agent down signal 9 true"]
        );
        assert_eq!(stage.deployment.members().len(), 2);

        // An injection on a host that is down takes effect later, unless it is healed meanwhile.
        stage.deployment.inject("cut#2", &[("n2".to_owned(), SQUEEZE)]).unwrap();
        stage.deployment.heal("cut#1").unwrap();
        assert!(stage.deployment.crash_host("n2", "crash#2").err().unwrap().to_string().contains("n2 is down already"));
        assert_eq!(stage.done(), [] as [&str; 0]);

        stage.deployment.boot_hosts("crash#2").unwrap();
        assert_eq!(stage.done(), [] as [&str; 0], "it crashed nothing");
        stage.deployment.boot_hosts("crash#1").unwrap();
        let expected = ["n2 boot", &format!("n2 inject cut#2 {SQUEEZED}"), "n2 start server", "n2 start agent"];
        assert_eq!(stage.done(), expected);
        assert_eq!(seen(&mut stage.deployment), ["n2 up netns", "n2 server up", "n2 agent up"]);
        stage.deployment.boot_hosts("crash#1").unwrap();
        assert_eq!(stage.done(), [] as [&str; 0]);
    }

    #[test]
    fn a_failed_boot_is_reported() {
        let mut stage = FakeDeployment::of(2);
        stage.deployment.crash_host("n1", "crash#1").unwrap();
        stage.refuse(Some("boot"));
        assert_eq!(stage.deployment.boot_hosts("crash#1").err().unwrap().to_string(), "it cannot");
        stage.refuse(None);
        stage.done();
        stage.deployment.stop().unwrap();
        assert!(stage.done().iter().all(|line| line.starts_with("n2")), "nothing is asked of a host that is down");
    }

    #[test]
    fn a_process_paused_twice_continues_after_both_heals() {
        let mut stage = FakeDeployment::of(1);
        let post = stage.deployment.post_of("n1", None).unwrap();
        stage.deployment.pause(post, None, "a#1").unwrap();
        stage.deployment.pause(post, None, "b#1").unwrap();
        stage.deployment.unpause("a#1");
        assert_eq!(stage.done(), ["n1 server group signal 19", "n1 server group signal 19"]);
        stage.deployment.unpause("b#1");
        stage.deployment.unpause("b#1");
        assert_eq!(stage.done(), ["n1 server group signal 18"]);
    }

    #[test]
    fn a_program_is_paused_apart_from_its_process() {
        let mut stage = FakeDeployment::of(1);
        let post = stage.deployment.post_of("n1", None).unwrap();
        stage.deployment.pause(post, Some("worker"), "a#1").unwrap();
        stage.deployment.pause(post, None, "b#1").unwrap();
        stage.deployment.unpause("a#1");
        stage.deployment.unpause("b#1");
        stage.deployment.signal_program(post, "worker", Signal::KILL, true).unwrap();
        let error = stage.deployment.pause(post, Some("missing"), "c#1").unwrap_err();
        assert_eq!(error.to_string(), "no `missing` runs");
        let expected =
            ["worker signal 19", "group signal 19", "group signal 18", "worker signal 9", "missing signal 19"];
        assert_eq!(stage.done(), expected.map(|line| format!("n1 server {line}")));
        assert!(!stage.deployment.posts[post].end_expected, "it is not the process itself");
    }

    #[test]
    fn only_known_placeholders_are_replaced() {
        let values = [("host", "10.83.0.1"), ("port.pg", "5432")];
        let values = values.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let filled = |command: &str| super::with_placeholders(command, &values);
        assert_eq!(filled("psql -h {host} -p {port.pg}; {host}"), "psql -h 10.83.0.1 -p 5432; 10.83.0.1");
        for own in ["echo ${host}", "awk '{print $1}'", "f() { echo; }", "a{b", "{port.other}", "}{"] {
            assert_eq!(filled(own), own);
        }
    }

    #[test]
    fn polling_completes_a_restart() {
        let mut stage = FakeDeployment::of(1);
        seen(&mut stage.deployment);
        let post = stage.deployment.post_of("n1", Some("agent")).unwrap();
        stage.deployment.restart(post, Duration::from_millis(1)).unwrap();
        assert!(stage.deployment.restart(post, Duration::ZERO).err().unwrap().to_string().contains("already"));
        let mut all = Vec::new();
        until("it is up again", || {
            all.extend(seen(&mut stage.deployment));
            all.len() == 2
        });
        assert_eq!(all, ["n1 agent down signal 15 true", "n1 agent up"]);
        assert_eq!(stage.done(), ["n1 agent signal 15", "n1 start agent"]);
        stage.deployment.restart(post, Duration::ZERO).unwrap();
    }

    #[test]
    fn a_failed_restart_is_reported_once() {
        let mut stage = FakeDeployment::of(1);
        let post = stage.deployment.post_of("n1", None).unwrap();
        stage.deployment.restart(post, Duration::ZERO).unwrap();
        stage.refuse(Some("start server"));
        let mut all = Vec::new();
        until("it is noticed", || {
            all.extend(seen(&mut stage.deployment));
            all.iter().any(|line| line.contains("could not be started again: it cannot"))
        });
        assert!(seen(&mut stage.deployment).is_empty());
    }

    #[test]
    fn faults_are_healed_before_the_target_stops() {
        let mut stage = FakeDeployment::of(2);
        let post = stage.deployment.post_of("n1", None).unwrap();
        stage.deployment.pause(post, None, "a#1").unwrap();
        stage.deployment.inject("b#1", &[("n2".to_owned(), Injection::Freeze)]).unwrap();
        stage.done();
        stage.deployment.stop().unwrap();
        assert_eq!(stage.done()[..2], ["n2 heal b#1", "n1 server group signal 18"]);
    }
}
