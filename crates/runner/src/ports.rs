//! Ports of this machine: free ports, the holder of a used port, and the processes that serve an
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

/// Process that listens on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortHolder {
    pub pid: u32,
    pub program: String,
}

/// Reason why a port cannot be used.
#[derive(Debug)]
pub enum PortError {
    /// A process already listens on the port.
    Taken {
        port: u16,
        /// Process that listens. `None` if it could not be found.
        holder: Option<PortHolder>,
    },
    /// A system call failed.
    System {
        /// Action that failed.
        doing: String,
        /// System error.
        error: std::io::Error,
    },
}

/// Maximum number of attempts per port.
const TRIES: usize = 200;

/// Returns distinct ports of 127.0.0.1 on which nothing listens.
pub fn free(count: usize) -> Result<Vec<u16>, PortError> {
    free_at(Ipv4Addr::LOCALHOST, count)
}

/// Returns distinct ports of an address of this machine on which nothing listens. For 0.0.0.0, the
/// ports are free on all addresses. The ports lie outside the range that the kernel uses for
/// outgoing connections. Otherwise a client that reconnects to a dead port could get the same port
/// for its own end and be connected to itself, and a port could be in use when its server restarts.
pub fn free_at(address: Ipv4Addr, count: usize) -> Result<Vec<u16>, PortError> {
    let range = below(ephemeral());
    let mut held = Vec::with_capacity(count);
    let mut ports = Vec::with_capacity(count);
    for _ in 0..count.saturating_mul(TRIES) {
        if ports.len() == count {
            break;
        }
        // Hold all ports until the last is found, so that none is found twice.
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

/// Returns the larger range of unprivileged ports outside the kernel's range for outgoing
/// connections. Returns all unprivileged ports if both such ranges are too small.
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

/// Checks that a process can listen on this port of 127.0.0.1.
pub fn check(port: u16) -> Result<(), PortError> {
    check_at(Ipv4Addr::LOCALHOST, port)
}

/// Checks that a process can listen on this port of an address. For 0.0.0.0, checks all addresses.
pub fn check_at(address: Ipv4Addr, port: u16) -> Result<(), PortError> {
    settled(|| match TcpListener::bind((address, port)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AddrInUse => Err(PortError::Taken { port, holder: holder(port) }),
        Err(error) => Err(PortError::System { doing: format!("listen on port {port}"), error }),
    })
}

/// Number of checks of a used port without a visible holder, and time between them. A process that
/// is being started shares its parent's sockets until `exec`, and may have closed them when the
/// holder is searched.
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

/// Returns the process that listens on this port, if it is visible to this user.
pub fn holder(port: u16) -> Option<PortHolder> {
    let inodes = all_listeners(Path::new("/proc/net")).into_iter().filter(|one| one.address.port() == port);
    let links: Vec<String> = inodes.map(|one| one.link()).collect();
    procfs::numbers(Path::new("/proc")).into_iter().find_map(|pid| {
        let files = PathBuf::from(format!("/proc/{pid}/fd"));
        holds(&files, &links).filter(|holds| *holds)?;
        Some(PortHolder { pid, program: procfs::stat(pid)?.name })
    })
}

// Search for the processes that serve an address of this machine: listening sockets, their
// processes, and related processes. It separates a target that Plimsoll did not start from other
// processes.

/// Number of times that a process is examined. A process may get its socket or control group
/// shortly after its start.
const LOOKS: u8 = 2;
/// Programs that only forward connections. Another process is the server.
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
/// Docker's proxy. Its arguments contain the address to which it forwards.
const DOCKER_PROXY: &str = "docker-proxy";
/// Name of systemd, which holds the sockets of services that it starts on demand.
const SYSTEMD: &str = "systemd";
/// Services whose control group contains jobs of any user.
const JOB_RUNNERS: [&str; 4] = ["atd.service", "cron.service", "cronie.service", "crond.service"];

/// Parses a TCP socket from a line of `/proc/net/tcp` or `tcp6`. Returns `None` for another line.
fn parse_socket(line: &str) -> Option<TcpSocket> {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
    let remote = if *fields.get(3)? == LISTEN { None } else { Some(parse_endpoint(fields.get(2)?)?) };
    let (uid, inode) = (fields.get(7)?.parse().ok()?, fields.get(9)?.parse().ok()?);
    Some(TcpSocket { address: parse_endpoint(fields.get(1)?)?, remote, uid, inode })
}

fn parse_endpoint(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.rsplit_once(':')?;
    Some(SocketAddr::new(parse_address(address)?, u16::from_str_radix(port, 16).ok()?))
}

/// Returns all TCP sockets of a network namespace. `net` is the namespace's folder in `/proc`.
pub fn all_sockets(net: &Path) -> Vec<TcpSocket> {
    lines(net).flat_map(|lines| lines.filter_map(|line| parse_socket(&line))).collect()
}

/// Returns the lines of a network namespace's TCP socket tables, IPv4 first.
fn lines(net: &Path) -> impl Iterator<Item = impl Iterator<Item = String>> {
    let tables = ["tcp", "tcp6"].into_iter().filter_map(|name| fs::File::open(net.join(name)).ok());
    tables.map(|table| BufReader::new(table).lines().skip(1).map_while(Result::ok))
}

/// Parses an address that the kernel prints as 32-bit words in this machine's byte order. The words
/// hold the address in network byte order.
fn parse_address(text: &str) -> Option<IpAddr> {
    let words = (0..text.len()).step_by(8).map(|at| text.get(at..at + 8));
    let words = words.map(|word| Some(u32::from_str_radix(word?, 16).ok()?.to_ne_bytes()));
    let words: Vec<[u8; 4]> = words.collect::<Option<_>>()?;
    match words.concat() {
        bytes if bytes.len() == 4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        bytes => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical()),
    }
}

/// Returns all listeners of a network namespace. `net` is the namespace's folder in `/proc`. The
/// kernel lists listeners first, so reading stops at the first connection.
fn all_listeners(net: &Path) -> Vec<TcpSocket> {
    lines(net)
        .flat_map(|lines| lines.map_while(|line| parse_socket(&line).filter(|one| one.remote.is_none())))
        .collect()
}

/// Returns the listeners that get a connection to this address. Listeners on the exact address take
/// precedence over listeners on all addresses, and IPv4 over dual stack. Several listeners may
/// share a port (`SO_REUSEPORT`).
fn serving(listeners: &[TcpSocket], address: SocketAddr) -> Vec<&TcpSocket> {
    let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    let own = address.ip().to_canonical();
    let wanted = if own.is_ipv4() { vec![own, any[0], any[1]] } else { vec![own, any[1]] };
    for address in wanted.into_iter().map(|ip| SocketAddr::new(ip, address.port())) {
        let found: Vec<&TcpSocket> = listeners.iter().filter(|one| one.address == address).collect();
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// Whether the address belongs to the network namespace whose folder in `/proc` is `net`. `None` if
/// the addresses cannot be read.
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

/// Whether the text of `fib_trie` contains the address. A leaf of the trie is an address (`|--
/// 127.0.0.0`), followed by a line per prefix (`/8 host LOCAL`).
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

/// Location of a target that Plimsoll did not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetLocation {
    /// Processes on this machine that serve the address.
    Here(ServerProcesses),
    /// Another machine.
    Elsewhere,
    /// Unknown, for this reason.
    Unknown(String),
}

/// Processes that serve an address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerProcesses {
    /// Processes that hold the socket. Their children belong to the target too.
    pub roots: BTreeSet<u32>,
    /// Processes that belong to the target without their children: members of the same control
    /// group, and forwarders.
    pub more: BTreeSet<u32>,
}

/// Repeated search for a target's processes, which start and end during a run. Facts about a
/// process are kept, so that a search is cheap.
pub struct Finder {
    address: SocketAddr,
    /// Id of this process.
    us: u32,
    place: Option<AddressNamespace>,
    known: HashMap<u32, ListenerOwner>,
    /// Sockets of the last search.
    links: BTreeSet<String>,
    had_holders: bool,
    /// Control groups of this process.
    our_groups: String,
}

/// Network namespace of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AddressNamespace {
    /// A namespace with this folder in `/proc`.
    Net(PathBuf),
    Elsewhere,
    Unreadable,
}

/// Facts about a process.
#[derive(Debug, Default)]
struct ListenerOwner {
    /// Start time. A process id can be reused, so only id and start time together identify a
    /// process.
    started_ticks: u64,
    looks: u8,
    holds: bool,
    /// Whether the process's open files cannot be read.
    is_closed: bool,
    groups: String,
}

impl Finder {
    /// Makes a search for the server at `address`. `us` is the id of this process.
    pub fn new(address: SocketAddr, us: u32) -> Self {
        let (known, links, our_groups) = (HashMap::new(), BTreeSet::new(), String::new());
        Self { address, us, place: None, known, links, had_holders: false, our_groups }
    }

    /// Searches again among these processes.
    pub fn look(&mut self, proc: &ProcDir, all: &HashMap<u32, Stat>) -> TargetLocation {
        let address = self.address;
        let place = self.place.get_or_insert_with(|| place_of(proc, all, address.ip())).clone();
        match place {
            AddressNamespace::Net(net) => self.look_in(proc, all, &net),
            AddressNamespace::Elsewhere => TargetLocation::Elsewhere,
            AddressNamespace::Unreadable => {
                TargetLocation::Unknown("cannot read the addresses of this machine in `/proc/net`".to_owned())
            }
        }
    }

    fn look_in(&mut self, proc: &ProcDir, all_processes: &HashMap<u32, Stat>, net: &Path) -> TargetLocation {
        let address = self.address;
        let listeners = all_listeners(net);
        let serving = serving(&listeners, address);
        let Some(first) = serving.first() else {
            return TargetLocation::Unknown(format!(
                "no process that listens at {address} is visible here; the kernel may forward its connections to \
                 another address"
            ));
        };
        self.get_to_know(proc, all_processes, serving.iter().map(|one| one.link()).collect());
        let holders: BTreeSet<u32> = self.known.iter().filter(|(_, known)| known.holds).map(|(pid, _)| *pid).collect();
        self.had_holders = !holders.is_empty();
        if holders.is_empty() {
            let why = match self.known.values().any(|known| known.is_closed) {
                true => format!("belongs to user {}, whose processes this user may not examine", first.uid),
                false => "belongs to no process that is visible here".to_owned(),
            };
            return TargetLocation::Unknown(format!("the socket that listens at {address} {why}"));
        }
        let mut named: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        for stat in holders.iter().filter_map(|pid| all_processes.get(pid)) {
            named.entry(&stat.name).or_default().insert(stat.pid);
        }
        if let Some(proxies) = named.get(DOCKER_PROXY)
            && let Some(proxy) = proxies.first()
        {
            return self.follow(proc, all_processes, *proxy, proxies.clone());
        }
        for name in FORWARDERS {
            if let Some(pid) = named.get(name).and_then(BTreeSet::first) {
                let text =
                    format!("`{name}` (pid {pid}) forwards connections to {address}, but their destination is unknown");
                return TargetLocation::Unknown(text);
            }
        }
        self.with_company(all_processes, holders)
    }

    /// Finds the container whose port Docker's proxy publishes.
    fn follow(
        &self,
        proc: &ProcDir,
        all_processes: &HashMap<u32, Stat>,
        proxy: u32,
        proxies: BTreeSet<u32>,
    ) -> TargetLocation {
        let found = match container_address(&proc.text(&format!("{proxy}/cmdline")).unwrap_or_default()) {
            None => Err("but its arguments do not name the container".to_owned()),
            Some(inside) => match namespace_of(proc, all_processes, inside.ip()) {
                AddressNamespace::Net(net) => match Self::new(inside, self.us).look_in(proc, all_processes, &net) {
                    TargetLocation::Here(found) => Ok(found),
                    TargetLocation::Unknown(why) => Err(format!("where {why}")),
                    TargetLocation::Elsewhere => Err("which is not on this machine".to_owned()),
                },
                _ => Err("whose processes this user may not examine".to_owned()),
            },
        };
        match found {
            Ok(mut found) => {
                found.more.extend(proxies);
                TargetLocation::Here(found)
            }
            Err(why) => TargetLocation::Unknown(format!(
                "`{DOCKER_PROXY}` (pid {proxy}) forwards connections to a container, {why}"
            )),
        }
    }

    /// Examines new processes. Examines all processes if the sockets have changed or all holders
    /// have ended.
    fn get_to_know(&mut self, proc: &ProcDir, all_processes: &HashMap<u32, Stat>, links: BTreeSet<String>) {
        self.known
            .retain(|pid, known| all_processes.get(pid).is_some_and(|stat| stat.started_ticks == known.started_ticks));
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

    /// Adds the processes that belong to the holders of the socket.
    fn with_company(&self, all_processes: &HashMap<u32, Stat>, holders: BTreeSet<u32>) -> TargetLocation {
        let above_us = ancestors(self.us, all_processes);
        let (keepers, servers): (BTreeSet<u32>, BTreeSet<u32>) = holders.into_iter().partition(|pid| {
            // A process that starts all services holds every socket that it passes on.
            (*pid == 1 && above_us.contains(pid)) || all_processes.get(pid).is_some_and(|stat| stat.name == SYSTEMD)
        });
        if servers.is_empty() {
            let keeper = keepers.first().copied().unwrap_or_default();
            let name = all_processes.get(&keeper).map_or("", |stat| stat.name.as_str());
            let address = self.address;
            return TargetLocation::Unknown(format!(
                "`{name}` (pid {keeper}) holds the socket that listens at {address} for a service that has not taken it"
            ));
        }
        // An editor or terminal that started Plimsoll may also hold the socket. Its other children
        // are not the target.
        let (mut more, roots): (BTreeSet<u32>, BTreeSet<u32>) =
            servers.into_iter().partition(|pid| above_us.contains(pid));
        for group in roots.iter().filter_map(|pid| self.group_of_its_own(*pid, all_processes)) {
            more.extend(self.known.iter().filter(|(_, known)| group.holds(&known.groups)).map(|(pid, _)| *pid));
        }
        TargetLocation::Here(ServerProcesses { more: &more - &roots, roots })
    }

    /// Returns the control group of a process, if all the group's members serve one purpose. Such a
    /// group is a service's or container's, or another group that contains neither Plimsoll nor a
    /// process with a terminal.
    fn group_of_its_own(&self, pid: u32, all_processes: &HashMap<u32, Stat>) -> Option<ControlGroup> {
        let mut groups: Vec<ControlGroup> =
            self.known.get(&pid)?.groups.lines().filter_map(ControlGroup::parse).collect();
        groups.sort_by_key(ControlGroup::rank);
        groups.into_iter().filter_map(ControlGroup::whole).find(|group| {
            let mut inside = self.known.iter().filter(|(_, known)| group.holds(&known.groups));
            !group.holds(&self.our_groups)
                && (group.is_container()
                    || !inside.any(|(pid, _)| all_processes.get(pid).is_some_and(|stat| stat.terminal != 0)))
        })
    }
}

/// Whether a process has one of these sockets among its open files. `None` if the files cannot be
/// read.
pub fn holds(files: &Path, links: &[String]) -> Option<bool> {
    let mut targets = fs::read_dir(files).ok()?.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    Some(targets.any(|target| links.iter().any(|link| target.as_os_str() == link.as_str())))
}

/// Returns all ancestors of a process: its parent, grandparent and so on.
pub fn ancestors(of: u32, all_processes: &HashMap<u32, Stat>) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut next = all_processes.get(&of).map(|stat| stat.parent);
    while let Some(pid) = next.filter(|pid| found.insert(*pid)) {
        next = all_processes.get(&pid).map(|stat| stat.parent);
    }
    found
}

/// Returns the network namespace of an address: this process's, or for a container's address
/// another on this machine.
fn place_of(proc: &ProcDir, all_processes: &HashMap<u32, Stat>, ip: IpAddr) -> AddressNamespace {
    let ours = proc.path().join("net");
    match has_address(&ours, ip.to_canonical()) {
        Some(true) => AddressNamespace::Net(ours),
        Some(false) => namespace_of(proc, all_processes, ip.to_canonical()),
        None => AddressNamespace::Unreadable,
    }
}

/// Returns the namespace with this address, among those of all readable processes.
fn namespace_of(proc: &ProcDir, all_processes: &HashMap<u32, Stat>, ip: IpAddr) -> AddressNamespace {
    let mut nets = namespaces(proc, all_processes).into_values();
    nets.find(|net| has_address(net, ip) == Some(true)).map_or(AddressNamespace::Elsewhere, AddressNamespace::Net)
}

/// Returns the network namespaces of all readable processes: folder in `/proc` by name.
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

/// Returns the address to which Docker's proxy forwards, from its arguments.
fn container_address(command_line: &str) -> Option<SocketAddr> {
    let [ip, port] = ["-container-ip", "-container-port"]
        .map(|name| command_line.split('\0').skip_while(|word| *word != name).nth(1));
    Some(SocketAddr::new(ip?.parse().ok()?, port?.parse().ok()?))
}

/// A line of `/proc/PID/cgroup`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlGroup {
    /// Hierarchy id and controllers: `0:`, `9:name=systemd`.
    hierarchy: String,
    /// Names in the path, from the root.
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

    /// Returns the group's rank. Groups in systemd's trees come first, because their names are
    /// meaningful.
    fn rank(&self) -> u8 {
        match self.hierarchy.as_str() {
            "0:" => 0,
            name if name.ends_with("name=systemd") => 1,
            _ => 2,
        }
    }

    /// Returns the service or container that contains the group, or else the group itself. Returns
    /// `None` for the root, a login session, a folder of groups, or a group with jobs of any user.
    fn whole(mut self) -> Option<Self> {
        if let Some(place) = self.container() {
            self.path.truncate(place + 1);
        } else if let Some(place) =
            self.path.iter().rposition(|name| name.ends_with(".service") && !name.starts_with("user@"))
        {
            self.path.truncate(place + 1);
            if self.path.last().is_some_and(|name| JOB_RUNNERS.contains(&name.as_str())) {
                return None;
            }
        } else if self.path.iter().any(|name| name.starts_with("session-") && name.ends_with(".scope"))
            || self
                .path
                .last()
                .is_none_or(|name| name.ends_with(".slice") || name == "init.scope" || name.starts_with("user@"))
        {
            return None;
        }
        Some(self)
    }

    fn is_container(&self) -> bool {
        self.container().is_some()
    }

    /// Returns the index of the container's name in the path.
    fn container(&self) -> Option<usize> {
        const SCOPES: [&str; 7] =
            ["containerd-", "cri-containerd-", "crio-", "docker-", "libpod-", "machine-", "nerdctl-"];
        let mut above = "";
        for (at, name) in self.path.iter().enumerate() {
            let is_scope = name.ends_with(".scope") && !name.contains("conmon");
            if is_scope && SCOPES.iter().any(|scope| name.starts_with(scope))
                || name.starts_with("lxc.payload.")
                || matches!(above, "docker" | "lxc" | "podman")
            {
                return Some(at);
            }
            above = name;
        }
        let is_pod = self.path.len() > 2 && self.path.iter().any(|name| name.starts_with("kubepods"));
        is_pod.then(|| self.path.len() - 1)
    }

    /// Whether the group is at or below that of a systemd unit. A unit name without a type names a
    /// service.
    pub fn is_in_unit(&self, unit: &str) -> bool {
        self.path.iter().any(|name| name == unit || name.strip_suffix(".service") == Some(unit))
    }

    /// Whether the group is at or below this path.
    pub fn is_below(&self, path: &str) -> bool {
        self.path.starts_with(&path.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect::<Vec<_>>())
    }

    /// Whether a process with this `/proc/PID/cgroup` is in the group or below it.
    fn holds(&self, groups: &str) -> bool {
        let mut groups = groups.lines().filter_map(Self::parse);
        groups.any(|group| group.hierarchy == self.hierarchy && group.path.starts_with(&self.path))
    }
}

#[cfg(test)]
mod tests;
