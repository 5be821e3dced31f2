//! Processes that belong to a target by their connections on this machine: back ends to which the
//! target connects, peers of the same program that connect to it, and their back ends and peers.
//! Processes that the experiment names belong to it too. Other clients are load.
//!
//! A search reads the open files of all processes and the tables of all connections. After the
//! first searches, further ones follow as often as their CPU time allows.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use experiment::plan::AlsoTarget;
use linux::procfs::{self, Stat};
use linux::sock_diag::{TcpSocket, UnixSocket, tcp_sockets, unix_sockets};
use rustix::time::{ClockId, clock_gettime};

use crate::ports::{ControlGroup, ServerProcesses, all_sockets, ancestors, namespaces};
use crate::sample_source::ProcDir;

/// Number of searches without a pause. Clients need time to connect to servers, and servers to
/// their back ends.
const FIRST_LOOKS: u32 = 3;
/// Mean CPU time per reading that searches may use.
const LOOK_NS: u64 = 2_000_000;
/// Maximum number of readings of the target's own sockets per search. Many servers open a new
/// connection to their back ends for each request.
const ROUNDS: u32 = 8;
/// CPU time of a search's repeated readings after which no further one starts.
const ROUNDS_NS: u64 = 8_000_000;
/// Services of the whole machine. Many programs connect to them, but they are never part of a
/// target.
const MACHINE_SERVICES: [&str; 16] = [
    "Xorg",
    "Xwayland",
    "avahi-daemon",
    "containerd",
    "dbus-broker",
    "dbus-daemon",
    "dockerd",
    "gnome-shell",
    "nscd",
    "pipewire",
    "polkitd",
    "pulseaudio",
    "rsyslogd",
    "sshd",
    "sssd",
    "syslog-ng",
];
/// Programs whose first argument determines the program that runs.
const INTERPRETERS: [&str; 10] = ["beam", "bun", "deno", "dotnet", "java", "node", "perl", "php", "python", "ruby"];

/// Repeated search for connected processes, which start and end during a run.
pub struct ConnectedProcesses {
    /// Id of this process.
    us: u32,
    also: AlsoTarget,
    /// Start times by process id. A process stays part of the target after its connection has
    /// ended.
    found: HashMap<u32, u64>,
    looks: u32,
    /// Number of readings until the next search.
    pause: u64,
    tables: fn() -> KernelTables,
}

/// Sockets of this network namespace, as the kernel lists them.
#[derive(Default)]
struct KernelTables {
    /// TCP sockets. `None`: they must be read from `/proc`.
    tcp: Option<Vec<TcpSocket>>,
    unix: Vec<UnixSocket>,
}

impl KernelTables {
    fn read() -> Self {
        Self { tcp: tcp_sockets().ok(), unix: unix_sockets().unwrap_or_default() }
    }
}

impl ConnectedProcesses {
    /// Starts the search. `also` holds the processes that the experiment names. `us` is the id of
    /// this process.
    pub fn new(also: AlsoTarget, us: u32) -> Self {
        Self { us, also, found: HashMap::new(), looks: 0, pause: 0, tables: KernelTables::read }
    }

    /// Whether the experiment names any processes.
    pub fn is_named(&self) -> bool {
        self.also != AlsoTarget::default()
    }

    /// Adds connected and named processes to `target`, which holds the processes found by address.
    /// `started` holds the target's processes that the lab started.
    pub fn look(&mut self, proc: &ProcDir, all: &HashMap<u32, Stat>, started: &[u32], target: &mut ServerProcesses) {
        self.found.retain(|pid, started| all.get(pid).is_some_and(|stat| stat.started_ticks == *started));
        target.roots.extend(self.found.keys());
        if let Some(pause) = self.pause.checked_sub(1) {
            self.pause = pause;
            return;
        }
        let began_ns = thread_cpu_ns();
        let before = target.roots.clone();
        let mut sockets = OpenSockets::default();
        // This program has a socket per connection of the load, and is not part of the target.
        sockets.add_open(proc, all.keys().copied().filter(|pid| *pid != self.us));
        sockets.add_others(proc, all);
        sockets.link(proc, &(self.tables)());
        self.add_named(proc, all, &sockets, target);
        let machine = ProcessRelations { proc, all, us: self.us, children: children(all) };
        machine.follow(&sockets, started, target);
        // Measured separately: on a machine with many processes the first reading alone takes
        // longer than `ROUNDS_NS`.
        let rounds_began_ns = thread_cpu_ns();
        for _ in 1..ROUNDS {
            let family = machine.family_of(started, target);
            sockets.add_open(proc, family.iter().copied());
            let tables = (self.tables)();
            // Read the open files again. A connection that began while the tables were read is in
            // one of both readings.
            sockets.add_open(proc, family.into_iter());
            sockets.link(proc, &tables);
            machine.follow(&sockets, started, target);
            if thread_cpu_ns().saturating_sub(rounds_began_ns) > ROUNDS_NS {
                break;
            }
        }
        let new = target.roots.difference(&before).filter_map(|pid| Some((*pid, all.get(pid)?.started_ticks)));
        self.found.extend(new);
        self.looks += 1;
        let took_ns = thread_cpu_ns().saturating_sub(began_ns);
        self.pause = if self.looks < FIRST_LOOKS { 0 } else { took_ns / LOOK_NS };
    }

    fn add_named(&self, proc: &ProcDir, all: &HashMap<u32, Stat>, sockets: &OpenSockets, target: &mut ServerProcesses) {
        if !self.is_named() {
            return;
        }
        let AlsoTarget { ports, units, processes, cgroups } = &self.also;
        let listening = sockets.listeners.iter().filter(|((net, port), _)| *net == 0 && ports.contains(port));
        let inodes = listening.flat_map(|(_, listeners)| listeners).map(|(_, inode)| *inode);
        let mut named: BTreeSet<u32> = inodes.flat_map(|inode| sockets.holders_of(inode)).copied().collect();
        let is_in_group = |pid: u32| {
            let groups = proc.text(&format!("{pid}/cgroup")).unwrap_or_default();
            groups.lines().filter_map(ControlGroup::parse).any(|group| {
                units.iter().any(|unit| group.is_in_unit(unit)) || cgroups.iter().any(|path| group.is_below(path))
            })
        };
        let has_groups = !units.is_empty() || !cgroups.is_empty();
        named.extend(all.values().filter_map(|stat| {
            let runs = processes.iter().any(|program| procfs::runs_program(proc.path(), stat, program));
            (runs || (has_groups && is_in_group(stat.pid))).then_some(stat.pid)
        }));
        let above_us = ancestors(self.us, all);
        for pid in named.into_iter().filter(|pid| *pid != self.us) {
            if above_us.contains(&pid) {
                target.more.insert(pid)
            } else {
                target.roots.insert(pid)
            };
        }
    }
}

fn thread_cpu_ns() -> u64 {
    let spent = Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
    u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the children of each process.
fn children(all: &HashMap<u32, Stat>) -> HashMap<u32, Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    all.values().for_each(|stat| children.entry(stat.parent).or_default().push(stat.pid));
    children
}

/// All processes and their children.
struct ProcessRelations<'a> {
    proc: &'a ProcDir,
    all: &'a HashMap<u32, Stat>,
    us: u32,
    children: HashMap<u32, Vec<u32>>,
}

impl ProcessRelations<'_> {
    /// Adds to the roots the processes that belong to the target by their connections, until no new
    /// ones are found.
    fn follow(&self, sockets: &OpenSockets, started: &[u32], target: &mut ServerProcesses) {
        let mut programs = HashMap::new();
        let (ours, above_us) = (self.family(&[self.us].into(), None), ancestors(self.us, self.all));
        loop {
            let family = self.family_of(started, target);
            let of = |pid: &u32| self.connected_to(*pid, sockets, &mut programs);
            let connected: Vec<u32> = family.iter().flat_map(of).collect();
            let is_new = |pid: &u32| {
                let name = self.all.get(pid).map(|stat| stat.name.as_str());
                let is_machines = |name: &str| name.starts_with("systemd") || MACHINE_SERVICES.contains(&name);
                let is_ours = ours.contains(pid) || above_us.contains(pid);
                *pid != 1 && !family.contains(pid) && !is_ours && name.is_some_and(|name| !is_machines(name))
            };
            let before = target.roots.len();
            target.roots.extend(connected.into_iter().filter(is_new));
            if target.roots.len() == before {
                return;
            }
        }
    }

    /// Returns all processes of the target.
    fn family_of(&self, started: &[u32], target: &ServerProcesses) -> HashSet<u32> {
        let roots = target.roots.iter().chain(started).copied().collect();
        let mut family = self.family(&roots, Some(self.us));
        family.extend(&target.more);
        family
    }

    /// Returns these processes and their descendants, without `but` and its descendants.
    fn family(&self, roots: &BTreeSet<u32>, but: Option<u32>) -> HashSet<u32> {
        let mut open: Vec<u32> = roots.iter().copied().collect();
        let mut found = HashSet::new();
        while let Some(pid) = open.pop() {
            if Some(pid) != but && found.insert(pid) {
                open.extend(self.children.get(&pid).into_iter().flatten());
            }
        }
        found
    }

    /// Returns the servers to which a process is connected, and its clients that are servers of the
    /// same program.
    fn connected_to(
        &self,
        pid: u32,
        sockets: &OpenSockets,
        programs: &mut HashMap<u32, Option<RunProgram>>,
    ) -> Vec<u32> {
        let mut found = Vec::new();
        for link in sockets.links_of(pid) {
            let at_other_end = link.other.map_or(&[][..], |other| sockets.holders_of(other));
            if !link.other_listeners.is_empty() {
                found.extend(at_other_end);
                found.extend(link.other_listeners.iter().flat_map(|inode| sockets.holders_of(*inode)));
            } else if link.is_accepted {
                found.extend(at_other_end.iter().filter_map(|client| self.peer(*client, pid, sockets, programs)));
            }
        }
        found
    }

    /// Returns the server that the client belongs to: the client or one of its ancestors. That
    /// process must listen and run the same program as `server`.
    fn peer(
        &self,
        client: u32,
        server: u32,
        sockets: &OpenSockets,
        programs: &mut HashMap<u32, Option<RunProgram>>,
    ) -> Option<u32> {
        let mut program = |pid: u32| programs.entry(pid).or_insert_with(|| RunProgram::of(self.proc, pid)).clone();
        let of_server = program(server)?;
        let parent = |pid: &u32| self.all.get(pid).map(|stat| stat.parent);
        let alike =
            std::iter::successors(Some(client), parent).take_while(|pid| program(*pid).as_ref() == Some(&of_server));
        alike.filter(|pid| sockets.listens(*pid)).last()
    }
}

/// Program that a process runs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RunProgram {
    file: PathBuf,
    /// Script, if the file is an interpreter.
    script: Option<String>,
}

impl RunProgram {
    fn of(proc: &ProcDir, pid: u32) -> Option<Self> {
        let file = fs::read_link(proc.path().join(format!("{pid}/exe"))).ok()?;
        let name = file.file_name()?.to_string_lossy();
        let is_interpreter = INTERPRETERS.iter().any(|known| name.starts_with(known));
        let words =
            if is_interpreter { proc.text(&format!("{pid}/cmdline")).unwrap_or_default() } else { String::new() };
        let script = words.split('\0').skip(1).find(|word| !word.is_empty() && !word.starts_with('-'));
        Some(Self { script: script.map(ToOwned::to_owned), file })
    }
}

/// Open sockets of processes, and their connections on this machine. Later readings are added,
/// because the kernel does not soon reuse socket inodes.
#[derive(Default)]
struct OpenSockets {
    /// Open sockets by process id.
    of: HashMap<u32, HashSet<u64>>,
    /// Processes that hold a socket, by socket.
    holders: HashMap<u64, Vec<u32>>,
    /// Connections by socket.
    links: HashMap<u64, SocketLink>,
    /// TCP sockets of other network namespaces, with the index of the namespace. This program's
    /// namespace has index 0.
    elsewhere: Vec<(usize, TcpSocket)>,
    /// Listening TCP sockets, by network namespace and port.
    listeners: HashMap<(usize, u16), HashSet<(IpAddr, u64)>>,
    /// All listening sockets.
    listening: HashSet<u64>,
}

/// A connection, as seen from one of its sockets.
struct SocketLink {
    /// Socket at the other end. `None` while the connection waits to be accepted.
    other: Option<u64>,
    /// Whether this socket was accepted by a listener.
    is_accepted: bool,
    /// Listeners that may have accepted the other end. Empty if the other end is the client's.
    other_listeners: Vec<u64>,
}

impl OpenSockets {
    fn add_open(&mut self, proc: &ProcDir, pids: impl Iterator<Item = u32>) {
        for pid in pids {
            let own = self.of.entry(pid).or_default();
            for inode in open_sockets(proc, pid) {
                if own.insert(inode) {
                    self.holders.entry(inode).or_default().push(pid);
                }
            }
        }
    }

    /// Adds the tables of other network namespaces, such as containers'.
    fn add_others(&mut self, proc: &ProcDir, all: &HashMap<u32, Stat>) {
        let mut nets = namespaces(proc, all);
        nets.remove(&fs::read_link(proc.path().join("self/ns/net")).unwrap_or_default());
        let numbered = nets.into_values().zip(1..);
        self.elsewhere =
            numbered.flat_map(|(net, number)| all_sockets(&net).into_iter().map(move |one| (number, one))).collect();
    }

    fn link(&mut self, proc: &ProcDir, tables: &KernelTables) {
        self.link_unix(&tables.unix);
        let from_files = if tables.tcp.is_none() { all_sockets(&proc.path().join("net")) } else { Vec::new() };
        let here = tables.tcp.iter().flatten().chain(&from_files).map(|socket| (0, socket));
        let elsewhere = std::mem::take(&mut self.elsewhere);
        self.link_tcp(here.chain(elsewhere.iter().map(|(net, socket)| (*net, socket))));
        self.elsewhere = elsewhere;
    }

    fn link_tcp<'a>(&mut self, sockets: impl Iterator<Item = (usize, &'a TcpSocket)>) {
        let mut ends: HashMap<_, (usize, u64)> = HashMap::new();
        // Each namespace has its own loopback addresses.
        let key = |net: usize, from: SocketAddr, to: SocketAddr| (from.ip().is_loopback().then_some(net), from, to);
        for (net, socket) in sockets {
            if let Some(remote) = socket.remote {
                ends.insert(key(net, socket.address, remote), (net, socket.inode));
            } else {
                let at = self.listeners.entry((net, socket.address.port())).or_default();
                at.insert((socket.address.ip(), socket.inode));
                self.listening.insert(socket.inode);
            }
        }
        let accepted_by = |net: usize, address: SocketAddr| -> Vec<u64> {
            let at = self.listeners.get(&(net, address.port())).into_iter().flatten();
            at.filter(|(ip, _)| *ip == address.ip() || ip.is_unspecified()).map(|(_, inode)| *inode).collect()
        };
        for ((_, local, remote), (net, inode)) in ends.iter().filter(|(_, (_, inode))| *inode != 0) {
            let other = ends.get(&key(*net, *remote, *local));
            // A connection that waits to be accepted may be in no table.
            let is_here = other.is_some() || remote.ip().is_loopback() || remote.ip() == local.ip();
            if is_here {
                let other_listeners = accepted_by(other.map_or(*net, |(net, _)| *net), *remote);
                let is_accepted = !accepted_by(*net, *local).is_empty();
                let other = other.map(|(_, inode)| *inode).filter(|inode| *inode != 0);
                self.links.insert(*inode, SocketLink { other, is_accepted, other_listeners });
            }
        }
    }

    fn link_unix(&mut self, sockets: &[UnixSocket]) {
        let mut names: HashMap<&[u8], Vec<u64>> = HashMap::new();
        for socket in sockets.iter().filter(|socket| socket.is_listening) {
            self.listening.insert(socket.inode);
            names.entry(socket.name.as_deref().unwrap_or_default()).or_default().push(socket.inode);
        }
        let by_inode: HashMap<u64, &UnixSocket> = sockets.iter().map(|socket| (socket.inode, socket)).collect();
        let accepted_by = |socket: &UnixSocket| -> Vec<u64> {
            socket.name.as_deref().and_then(|name| names.get(name)).cloned().unwrap_or_default()
        };
        for socket in sockets.iter().filter(|socket| !socket.is_listening) {
            let Some(other) = socket.peer.and_then(|peer| by_inode.get(&peer)) else { continue };
            let is_accepted = !accepted_by(socket).is_empty();
            let link = SocketLink { other: Some(other.inode), is_accepted, other_listeners: accepted_by(other) };
            self.links.insert(socket.inode, link);
        }
    }

    fn links_of(&self, pid: u32) -> impl Iterator<Item = &SocketLink> {
        self.of.get(&pid).into_iter().flatten().filter_map(|inode| self.links.get(inode))
    }

    fn holders_of(&self, inode: u64) -> &[u32] {
        self.holders.get(&inode).map_or(&[], Vec::as_slice)
    }

    fn listens(&self, pid: u32) -> bool {
        self.of.get(&pid).into_iter().flatten().any(|inode| self.listening.contains(inode))
    }
}

/// Returns the sockets among a process's open files. Empty if they cannot be read.
fn open_sockets(proc: &ProcDir, pid: u32) -> Vec<u64> {
    let files = fs::read_dir(proc.path().join(format!("{pid}/fd"))).into_iter().flatten().flatten();
    let links = files.filter_map(|file| fs::read_link(file.path()).ok());
    links.filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()).collect()
}

#[cfg(test)]
mod tests;
