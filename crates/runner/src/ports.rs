//! Ports of this machine: free ones, who holds one that is not, and which processes serve an
//! address.
//!
//! The formats are the kernel's: `/proc/net/tcp` and `fib_trie` (`net/ipv4`), `if_inet6`,
//! cgroups(7).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linux::procfs::{self, Stat};
use linux::sock_diag::TcpSocket;

use crate::sample_source::ProcDir;

/// Who holds a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortHolder {
    /// Its process.
    pub pid: u32,
    /// The program's name.
    pub program: String,
}

/// Why a port cannot be had.
#[derive(Debug)]
pub enum PortError {
    /// Something listens on it.
    Taken {
        /// Which.
        port: u16,
        /// Who holds it; `None` if that could not be found out.
        holder: Option<PortHolder>,
    },
    /// The system refused.
    System {
        /// What was being done.
        doing: String,
        /// What it said.
        error: std::io::Error,
    },
}

/// Tries for each port before giving up.
const TRIES: usize = 200;

/// So many different ports of 127.0.0.1 on which nothing listens.
pub fn free(count: usize) -> Result<Vec<u16>, PortError> {
    free_at(Ipv4Addr::LOCALHOST, count)
}

/// So many different ports of an address of this machine on which nothing listens; of all addresses if it is 0.0.0.0. They are taken from outside of the range that the kernel
/// gives to outgoing connections: a client that reconnects to a dead port of that range can get the same number for its own
/// end and then be connected to itself, and a port of that range may be in use when its server comes back.
pub fn free_at(address: Ipv4Addr, count: usize) -> Result<Vec<u16>, PortError> {
    let range = below(ephemeral());
    let mut held = Vec::with_capacity(count);
    let mut ports = Vec::with_capacity(count);
    for _ in 0..count.saturating_mul(TRIES) {
        if ports.len() == count {
            break;
        }
        // All are held until the last is found, so that none is found twice.
        if let Ok(listener) = TcpListener::bind((address, fastrand::u16(range.clone())))
            && let Ok(bound) = listener.local_addr()
        {
            ports.push(bound.port());
            held.push(listener);
        }
    }
    if ports.len() < count {
        let error = std::io::Error::from(ErrorKind::AddrInUse);
        return Err(PortError::System { doing: format!("find {count} free ports"), error });
    }
    Ok(ports)
}

/// The larger part of the unprivileged ports that the kernel leaves alone; all of them if it leaves too few.
fn below(ephemeral: Option<(u16, u16)>) -> RangeInclusive<u16> {
    const FIRST: u16 = 10_000;
    const ENOUGH: u16 = 1_000;
    let Some((low, high)) = ephemeral else { return FIRST..=32_767 };
    let (under, over) = (low.saturating_sub(FIRST), u16::MAX - high);
    if under < ENOUGH && over < ENOUGH {
        FIRST..=u16::MAX
    } else if under >= over {
        FIRST..=low - 1
    } else {
        high + 1..=u16::MAX
    }
}

fn ephemeral() -> Option<(u16, u16)> {
    let text = procfs::text(Path::new("/proc/sys/net/ipv4/ip_local_port_range"))?;
    let mut bounds = text.split_whitespace().map(str::parse);
    Some((bounds.next()?.ok()?, bounds.next()?.ok()?))
}

/// Whether something can listen on this port of 127.0.0.1.
pub fn check(port: u16) -> Result<(), PortError> {
    check_at(Ipv4Addr::LOCALHOST, port)
}

/// Whether something can listen on this port of an address; of all addresses if it is 0.0.0.0.
pub fn check_at(address: Ipv4Addr, port: u16) -> Result<(), PortError> {
    settled(|| match TcpListener::bind((address, port)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AddrInUse => Err(PortError::Taken { port, holder: holder(port) }),
        Err(error) => Err(PortError::System { doing: format!("listen on port {port}"), error }),
    })
}

/// A port that nobody is seen to hold is looked at so often, so long apart: a process that is being started has the sockets of the one
/// that starts it until it runs its own program, and is gone from there when the holder is looked for.
const LOOKS_AT_PORT: usize = 6;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

fn settled(mut look: impl FnMut() -> Result<(), PortError>) -> Result<(), PortError> {
    for _ in 1..LOOKS_AT_PORT {
        match look() {
            Err(PortError::Taken { holder: None, .. }) => std::thread::park_timeout(BETWEEN_LOOKS),
            found => return found,
        }
    }
    look()
}

/// Who listens on this port, if we may see it.
pub fn holder(port: u16) -> Option<PortHolder> {
    let inodes = all_listeners(Path::new("/proc/net")).into_iter().filter(|one| one.address.port() == port);
    let links: Vec<String> = inodes.map(|one| one.link()).collect();
    procfs::numbers(Path::new("/proc")).into_iter().find_map(|pid| {
        let files = PathBuf::from(format!("/proc/{pid}/fd"));
        holds(&files, &links).filter(|holds| *holds)?;
        Some(PortHolder { pid, program: procfs::stat(pid)?.name })
    })
}

// Who serves an address of this machine: the sockets that listen there, the processes that hold
// them, and what belongs to these. So a target that Plimsoll did not start is told from the
// other processes beside it.

/// A process is looked at so often before what was found of it is taken as settled: it may be given its socket or its control group
/// a moment after its start.
const LOOKS: u8 = 2;
/// Programs that only pass connections on, so that whoever answers is behind them.
const FORWARDERS: [&str; 10] = [
    "conmon",
    "gvproxy",
    "kube-proxy",
    "kubectl",
    "pasta",
    "passt",
    "rootlesskit",
    "rootlessport",
    "slirp4netns",
    "ssh",
];
/// Docker's, which says where it passes connections on to.
const DOCKER_PROXY: &str = "docker-proxy";
/// It keeps the sockets of services that it starts when they are needed.
const SYSTEMD: &str = "systemd";
/// Services in whose control group anybody's jobs run.
const JOB_RUNNERS: [&str; 4] = ["atd.service", "cron.service", "cronie.service", "crond.service"];

/// A TCP socket from a line of `/proc/net/tcp` or `tcp6`; `None` if it is none.
fn parse_socket(line: &str) -> Option<TcpSocket> {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
    let address = |place: usize| {
        let (address, port) = fields.get(place)?.rsplit_once(':')?;
        Some(SocketAddr::new(parse_address(address)?, u16::from_str_radix(port, 16).ok()?))
    };
    let remote = if *fields.get(3)? == LISTEN { None } else { Some(address(2)?) };
    let (uid, inode) = (fields.get(7)?.parse().ok()?, fields.get(9)?.parse().ok()?);
    Some(TcpSocket { address: address(1)?, remote, uid, inode })
}

/// All TCP sockets of a network namespace, `net` being its folder in `/proc`.
pub fn all_sockets(net: &Path) -> Vec<TcpSocket> {
    lines(net).flat_map(|lines| lines.filter_map(|line| parse_socket(&line))).collect()
}

/// The lines of a network namespace's tables of TCP sockets, those of IPv4 first.
fn lines(net: &Path) -> impl Iterator<Item = impl Iterator<Item = String>> {
    let table = move |name| fs::File::open(net.join(name)).ok();
    ["tcp", "tcp6"].into_iter().filter_map(table).map(|file| BufReader::new(file).lines().skip(1).map_while(Result::ok))
}

/// Words of 32 bits in the byte order of this machine, of an address in that of the network.
fn parse_address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let words: Vec<[u8; 4]> = (0..text.len()).step_by(8).map(word).collect::<Option<_>>()?;
    match words.concat() {
        bytes if bytes.len() == 4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        bytes => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical()),
    }
}

/// All listeners of a network namespace, `net` being its folder in `/proc`. The kernel lists them before all connections, which are
/// not read.
fn all_listeners(net: &Path) -> Vec<TcpSocket> {
    let listener = |line: String| parse_socket(&line).filter(|one| one.remote.is_none());
    lines(net).flat_map(|lines| lines.map_while(listener)).collect()
}

/// Of these, whom the kernel gives a connection to that address: those of just that address before those of all addresses, those
/// of IPv4 before those of both. There are several where they share the port (`SO_REUSEPORT`).
fn serving(listeners: &[TcpSocket], address: SocketAddr) -> Vec<&TcpSocket> {
    let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    let own = address.ip().to_canonical();
    let wanted = if own.is_ipv4() { vec![own, any[0], any[1]] } else { vec![own, any[1]] };
    let at = |ip: IpAddr| listeners.iter().filter(move |one| one.address == SocketAddr::new(ip, address.port()));
    wanted.into_iter().map(|ip| at(ip).collect::<Vec<_>>()).find(|found| !found.is_empty()).unwrap_or_default()
}

/// Whether this is an address of the network namespace whose folder in `/proc` that is; `None` if that cannot be read.
fn has_address(net: &Path, ip: IpAddr) -> Option<bool> {
    if ip.is_loopback() || ip.is_unspecified() {
        return Some(true);
    }
    match ip {
        IpAddr::V4(ip) => Some(has_v4(&procfs::text(&net.join("fib_trie"))?, ip)),
        IpAddr::V6(ip) => {
            let wanted: String = ip.octets().iter().map(|byte| format!("{byte:02x}")).collect();
            Some(procfs::text(&net.join("if_inet6"))?.lines().any(|line| line.starts_with(&wanted)))
        }
    }
}

/// A leaf of the trie is an address (`|-- 127.0.0.0`) and below it a line for each of its prefixes (`/8 host LOCAL`).
fn has_v4(trie: &str, ip: Ipv4Addr) -> bool {
    let mut leaf = None;
    trie.lines().any(|line| {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse::<Ipv4Addr>().ok();
        }
        let length = line.strip_prefix('/').filter(|line| line.ends_with(" LOCAL"));
        let length: Option<u32> = length.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
        let Some((leaf, length)) = leaf.zip(length) else { return false };
        let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
        u32::from(leaf) & mask == u32::from(ip) & mask
    })
}

/// Where a target is that Plimsoll did not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetLocation {
    /// On this machine: these processes.
    Here(ServerProcesses),
    /// On another machine.
    Elsewhere,
    /// That cannot be told, for this reason.
    Unknown(String),
}

/// The processes behind an address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerProcesses {
    /// Those that hold its socket; what they started belongs to them.
    pub roots: BTreeSet<u32>,
    /// Those that belong to them, but not what they started: in the same control group, or one that passes connections on.
    pub more: BTreeSet<u32>,
}

/// Finds them again and again, for they come and go. What was found of a process is kept, so that each look costs little.
pub struct Finder {
    address: SocketAddr,
    /// This program.
    us: u32,
    place: Option<AddressNamespace>,
    known: HashMap<u32, ListenerOwner>,
    /// Of the sockets that were looked for last.
    links: BTreeSet<String>,
    had_holders: bool,
    /// The control groups that this program is in.
    our_groups: String,
}

/// The network namespace that an address is in.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AddressNamespace {
    /// With this folder in `/proc`.
    Net(PathBuf),
    Elsewhere,
    Unreadable,
}

/// What was found of a process.
#[derive(Debug, Default)]
struct ListenerOwner {
    /// A pid alone is no name.
    started_ticks: u64,
    looks: u8,
    holds: bool,
    /// Its files could not be looked at.
    is_closed: bool,
    groups: String,
}

impl Finder {
    /// Of whoever answers there, seen from this program.
    pub fn new(address: SocketAddr, us: u32) -> Self {
        let (known, links, our_groups) = (HashMap::new(), BTreeSet::new(), String::new());
        Self { address, us, place: None, known, links, had_holders: false, our_groups }
    }

    /// Looks again, among these processes.
    pub fn look(&mut self, proc: &ProcDir, all: &HashMap<u32, Stat>) -> TargetLocation {
        let address = self.address;
        let place = self.place.get_or_insert_with(|| place_of(proc, all, address.ip())).clone();
        match place {
            AddressNamespace::Net(net) => self.look_in(proc, all, &net),
            AddressNamespace::Elsewhere => TargetLocation::Elsewhere,
            AddressNamespace::Unreadable => {
                TargetLocation::Unknown("the addresses of this machine cannot be read in `/proc/net`".to_owned())
            }
        }
    }

    fn look_in(&mut self, proc: &ProcDir, all_processes: &HashMap<u32, Stat>, net: &Path) -> TargetLocation {
        let address = self.address;
        let listeners = all_listeners(net);
        let serving = serving(&listeners, address);
        let Some(first) = serving.first() else {
            return TargetLocation::Unknown(format!(
                "no process that listens at {address} can be seen here; the kernel may pass its connections on to another address"
            ));
        };
        self.get_to_know(proc, all_processes, serving.iter().map(|one| one.link()).collect());
        let holders: BTreeSet<u32> = self.known.iter().filter(|(_, known)| known.holds).map(|(pid, _)| *pid).collect();
        self.had_holders = !holders.is_empty();
        if holders.is_empty() {
            let why = match self.known.values().any(|known| known.is_closed) {
                true => format!("belongs to user {}, into whose processes this user may not look", first.uid),
                false => "is held by no process that can be seen here".to_owned(),
            };
            return TargetLocation::Unknown(format!("the socket that listens at {address} {why}"));
        }
        let named = |name: &str| -> BTreeSet<u32> {
            holders.iter().copied().filter(|pid| all_processes.get(pid).is_some_and(|stat| stat.name == name)).collect()
        };
        let proxies = named(DOCKER_PROXY);
        if let Some(proxy) = proxies.first() {
            return self.follow(proc, all_processes, *proxy, proxies.clone());
        }
        for name in FORWARDERS {
            if let Some(pid) = named(name).first() {
                let text = format!("`{name}` (pid {pid}) passes connections to {address} on, and to whom is not known");
                return TargetLocation::Unknown(text);
            }
        }
        self.with_company(all_processes, holders)
    }

    /// Into the container whose port Docker's proxy publishes.
    fn follow(
        &self,
        proc: &ProcDir,
        all_processes: &HashMap<u32, Stat>,
        proxy: u32,
        proxies: BTreeSet<u32>,
    ) -> TargetLocation {
        let lost = |why: &str| {
            TargetLocation::Unknown(format!("`{DOCKER_PROXY}` (pid {proxy}) passes connections to a container, {why}"))
        };
        let Some(inside) = container_address(&proc.text(&format!("{proxy}/cmdline")).unwrap_or_default()) else {
            return lost("and its arguments do not say which");
        };
        let AddressNamespace::Net(net) = namespace_of(proc, all_processes, inside.ip()) else {
            return lost("whose processes this user may not look into");
        };
        let mut finder = Self::new(inside, self.us);
        match finder.look_in(proc, all_processes, &net) {
            TargetLocation::Here(mut found) => {
                found.more.extend(proxies);
                TargetLocation::Here(found)
            }
            TargetLocation::Unknown(why) => lost(&format!("where {why}")),
            TargetLocation::Elsewhere => lost("and that is not on this machine"),
        }
    }

    /// Looks at processes that are new, and at all of them where the sockets have changed, or all holders are gone.
    fn get_to_know(&mut self, proc: &ProcDir, all_processes: &HashMap<u32, Stat>, links: BTreeSet<String>) {
        let started = |pid: &u32| all_processes.get(pid).map(|stat| stat.started_ticks);
        self.known.retain(|pid, known| started(pid) == Some(known.started_ticks));
        let is_held = self.known.values().any(|known| known.holds);
        let again = links != self.links || (self.had_holders && !is_held);
        self.links = links;
        if again {
            self.our_groups = proc.text(&format!("{}/cgroup", self.us)).unwrap_or_default();
        }
        let links: Vec<String> = self.links.iter().cloned().collect();
        for (pid, stat) in all_processes.iter().filter(|(pid, _)| **pid != self.us) {
            let known = self.known.entry(*pid).or_default();
            known.started_ticks = stat.started_ticks;
            if again || known.looks < LOOKS {
                known.looks = known.looks.saturating_add(1);
                let holds = holds(&proc.path().join(pid.to_string()).join("fd"), &links);
                (known.holds, known.is_closed) = (holds == Some(true), holds.is_none());
                known.groups = proc.text(&format!("{pid}/cgroup")).unwrap_or_default();
            }
        }
    }

    /// What belongs to those who hold the socket.
    fn with_company(&self, all_processes: &HashMap<u32, Stat>, holders: BTreeSet<u32>) -> TargetLocation {
        let above_us = ancestors(self.us, all_processes);
        let keeps = |pid: &u32| {
            // Whoever starts everything has all sockets that it hands on.
            (*pid == 1 && above_us.contains(pid)) || all_processes.get(pid).is_some_and(|stat| stat.name == SYSTEMD)
        };
        let (keepers, servers): (BTreeSet<u32>, BTreeSet<u32>) = holders.into_iter().partition(keeps);
        if servers.is_empty() {
            let keeper = keepers.first().copied().unwrap_or_default();
            let name = all_processes.get(&keeper).map_or("", |stat| stat.name.as_str());
            let address = self.address;
            return TargetLocation::Unknown(format!(
                "`{name}` (pid {keeper}) keeps the socket that listens at {address} for a service that does not have it"
            ));
        }
        // What an editor or a terminal has started is not all the target: it has started Plimsoll.
        let (mut more, roots): (BTreeSet<u32>, BTreeSet<u32>) =
            servers.into_iter().partition(|pid| above_us.contains(pid));
        for group in roots.iter().filter_map(|pid| self.group_of_its_own(*pid, all_processes)) {
            more.extend(self.known.iter().filter(|(_, known)| group.holds(&known.groups)).map(|(pid, _)| *pid));
        }
        TargetLocation::Here(ServerProcesses { more: &more - &roots, roots })
    }

    /// The control group of a process, if everything in it serves one purpose: a service's or a container's; or another one, if
    /// it holds neither Plimsoll nor anybody at a terminal.
    fn group_of_its_own(&self, pid: u32, all_processes: &HashMap<u32, Stat>) -> Option<ControlGroup> {
        let mut groups: Vec<ControlGroup> =
            self.known.get(&pid)?.groups.lines().filter_map(ControlGroup::parse).collect();
        groups.sort_by_key(ControlGroup::rank);
        groups.into_iter().filter_map(ControlGroup::whole).find(|group| {
            let at_terminal = || {
                let mut inside = self.known.iter().filter(|(_, known)| group.holds(&known.groups));
                inside.any(|(pid, _)| all_processes.get(pid).is_some_and(|stat| stat.terminal != 0))
            };
            !group.holds(&self.our_groups) && (group.is_container() || !at_terminal())
        })
    }
}

/// Whether one of these is among a process's open files; `None` where they cannot be looked at.
pub fn holds(files: &Path, links: &[String]) -> Option<bool> {
    let mut targets = fs::read_dir(files).ok()?.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    Some(targets.any(|target| links.iter().any(|link| target.as_os_str() == link.as_str())))
}

/// Its parent, whose parent, and so on.
pub fn ancestors(of: u32, all_processes: &HashMap<u32, Stat>) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut next = all_processes.get(&of).map(|stat| stat.parent);
    while let Some(pid) = next.filter(|pid| found.insert(*pid)) {
        next = all_processes.get(&pid).map(|stat| stat.parent);
    }
    found
}

/// Of this network namespace or, for a container's address, of another one on this machine.
fn place_of(proc: &ProcDir, all_processes: &HashMap<u32, Stat>, ip: IpAddr) -> AddressNamespace {
    let ours = proc.path().join("net");
    match has_address(&ours, ip.to_canonical()) {
        Some(true) => AddressNamespace::Net(ours),
        Some(false) => namespace_of(proc, all_processes, ip.to_canonical()),
        None => AddressNamespace::Unreadable,
    }
}

/// Of the namespaces of all processes that may be looked into, the one with that address.
fn namespace_of(proc: &ProcDir, all_processes: &HashMap<u32, Stat>, ip: IpAddr) -> AddressNamespace {
    let mut nets = namespaces(proc, all_processes).into_values();
    nets.find(|net| has_address(net, ip) == Some(true)).map_or(AddressNamespace::Elsewhere, AddressNamespace::Net)
}

/// The network namespaces of all processes that may be looked into: name to its folder in `/proc`.
pub fn namespaces(proc: &ProcDir, all_processes: &HashMap<u32, Stat>) -> BTreeMap<PathBuf, PathBuf> {
    let mut namespaces: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for pid in all_processes.keys() {
        let folder = proc.path().join(pid.to_string());
        if let Ok(name) = fs::read_link(folder.join("ns/net")) {
            namespaces.entry(name).or_insert_with(|| folder.join("net"));
        }
    }
    namespaces
}

/// From the arguments of Docker's proxy: where it passes connections on to.
fn container_address(command_line: &str) -> Option<SocketAddr> {
    let words: Vec<&str> = command_line.split('\0').collect();
    let value = |name: &str| {
        let place = words.iter().position(|word| *word == name)?;
        words.get(place + 1).copied()
    };
    Some(SocketAddr::new(value("-container-ip")?.parse().ok()?, value("-container-port")?.parse().ok()?))
}

/// A line of `/proc/PID/cgroup`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlGroup {
    /// `0:`, `9:name=systemd`.
    hierarchy: String,
    /// Names, from the root.
    path: Vec<String>,
}

impl ControlGroup {
    /// Parses a line of `/proc/PID/cgroup`.
    pub fn parse(line: &str) -> Option<Self> {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let path = path.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Some(Self { hierarchy: format!("{number}:{controllers}"), path })
    }

    /// The trees that systemd keeps come first, for there the names mean something.
    fn rank(&self) -> u8 {
        match self.hierarchy.as_str() {
            "0:" => 0,
            name if name.ends_with("name=systemd") => 1,
            _ => 2,
        }
    }

    /// The service or container that this is a part of, or else itself; `None` if it is the root, a login session, a folder for
    /// groups, or one in which anybody's jobs run.
    fn whole(mut self) -> Option<Self> {
        let is_service = |name: &String| name.ends_with(".service") && !name.starts_with("user@");
        let is_folder = |name: &String| name.ends_with(".slice") || name == "init.scope" || name.starts_with("user@");
        let is_session = |name: &String| name.starts_with("session-") && name.ends_with(".scope");
        if let Some(place) = self.container() {
            self.path.truncate(place + 1);
        } else if let Some(place) = self.path.iter().rposition(is_service) {
            self.path.truncate(place + 1);
            if self.path.last().is_some_and(|name| JOB_RUNNERS.contains(&name.as_str())) {
                return None;
            }
        } else if self.path.iter().any(is_session) || self.path.last().is_none_or(is_folder) {
            return None;
        }
        Some(self)
    }

    fn is_container(&self) -> bool {
        self.container().is_some()
    }

    /// Where in the path the container's name is.
    fn container(&self) -> Option<usize> {
        const SCOPES: [&str; 7] =
            ["containerd-", "cri-containerd-", "crio-", "docker-", "libpod-", "machine-", "nerdctl-"];
        let is_scope = |name: &str| {
            name.ends_with(".scope") && !name.contains("conmon") && SCOPES.iter().any(|scope| name.starts_with(scope))
        };
        let is_below = |above: &str| matches!(above, "docker" | "lxc" | "podman");
        let mut pairs = (0..self.path.len()).map(|at| (at, at.checked_sub(1).map(|above| self.path[above].as_str())));
        let found = pairs.find(|(at, above)| {
            let name = self.path[*at].as_str();
            is_scope(name) || name.starts_with("lxc.payload.") || above.is_some_and(is_below)
        });
        let is_pod = self.path.len() > 2 && self.path.iter().any(|name| name.starts_with("kubepods"));
        found.map(|(at, _)| at).or_else(|| is_pod.then(|| self.path.len() - 1))
    }

    /// Whether it is that of a unit of systemd or below it; a name without a type is a service's.
    pub fn is_in_unit(&self, unit: &str) -> bool {
        let is_unit = |name: &String| name == unit || name.strip_suffix(".service") == Some(unit);
        self.path.iter().any(is_unit)
    }

    /// Whether it is the group with this path or below it.
    pub fn is_below(&self, path: &str) -> bool {
        self.path.starts_with(&path.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect::<Vec<_>>())
    }

    /// Whether a process with this `/proc/PID/cgroup` is in it, or in a group below it.
    fn holds(&self, groups: &str) -> bool {
        let mut groups = groups.lines().filter_map(Self::parse);
        groups.any(|group| group.hierarchy == self.hierarchy && group.path.starts_with(&self.path))
    }
}

#[cfg(test)]
mod tests;
