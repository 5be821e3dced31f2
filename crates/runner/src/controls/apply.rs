//! Faults on a real host: control groups, network, disk and clock. On a shared machine, this module
//! keeps the connection for orders open and refuses changes that would permanently harm other
//! users.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use experiment::profile::Disk;
use linux::network::{self, ALONE, Cut, LinkLimits, Ownership};
use linux::procfs;
use rustix::fs::{FallocateFlags, fallocate, fstatfs, fstatvfs};
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::time::{ClockId, Timespec, clock_gettime, clock_settime};

use super::{HostControls, LinkState, PacketCuts, PeerSet};
use crate::control_groups::Groups;
use crate::folder_name;
use crate::{OrderRefusal, Setup};

/// Access to the host's groups, network, disk and clock.
pub(super) struct KernelControls {
    groups: Arc<Groups>,
    /// Folder of the host's data. `has_volume` is true if the data has its own file system.
    data: PathBuf,
    has_volume: bool,
    /// Folders of the storage tiers that have their own volume.
    tiers: BTreeMap<String, PathBuf>,
    /// Whether Plimsoll made the host for this run.
    is_isolated: bool,
    connection: Option<ControlConnection>,
    /// Whether orders come by another way than the host's network, so that no connection must be
    /// kept open.
    is_reached_aside: bool,
    /// Mark of this run's changes to the network.
    owner: Ownership,
    /// Last applied state of the link.
    shaped: Mutex<LinkState>,
    /// Shaped interface of a real host, and its original segment limit.
    segments: Mutex<Option<(String, String)>>,
    /// Current offset of the clock.
    offset_s: Mutex<f64>,
}

/// Local end of the connection that carries the orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ControlConnection {
    address: IpAddr,
    port: u16,
}

impl ControlConnection {
    /// Parses `SSH_CONNECTION` as set by sshd: client, its port, server, its port.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ').skip(2);
        // In a link-local address, `%` and the name of the link follow the address.
        let address: IpAddr = words.next()?.split('%').next()?.parse().ok()?;
        // An sshd that listens on both IP versions writes an IPv4 address as `::ffff:10.0.0.1`.
        Some(Self { address: address.to_canonical(), port: words.next()?.parse().ok()? })
    }
}

impl KernelControls {
    pub fn of(setup: &Setup, groups: Arc<Groups>) -> Self {
        let volume = setup.isolation.as_ref().and_then(|isolation| isolation.volume.as_ref());
        Self {
            groups,
            data: volume.map_or_else(|| setup.folder.clone(), |volume| volume.at.clone()),
            has_volume: volume.is_some(),
            tiers: setup
                .isolation
                .iter()
                .flat_map(|isolation| &isolation.tiers)
                .filter(|tier| tier.device.is_some())
                .map(|tier| (tier.name.clone(), tier.at.clone()))
                .collect(),
            is_isolated: setup.isolation.is_some(),
            // If orders come by another way, the whole link is shaped, as on a virtual host.
            owner: if setup.isolation.is_some() || setup.is_reached_aside {
                ALONE.clone()
            } else {
                Ownership::of(&folder_name(&setup.run, &setup.host))
            },
            connection: std::env::var("SSH_CONNECTION").ok().and_then(|text| ControlConnection::parse(&text)),
            is_reached_aside: setup.is_reached_aside,
            shaped: Mutex::new(LinkState { all: setup.envelope.link.clone(), ..LinkState::default() }),
            segments: Mutex::default(),
            offset_s: Mutex::default(),
        }
    }

    /// A process in a virtual host is always root there.
    fn need_root(&self, what: &str) -> Result<(), OrderRefusal> {
        if self.is_isolated || geteuid().is_root() {
            return Ok(());
        }
        Err(cannot(format!("{what} needs root on this host: connect as root, as in ssh = [\"root@10.0.0.11\"]")))
    }

    /// Returns the connection that carries the orders. `None` if they come by another way.
    fn connection(&self) -> Result<Option<ControlConnection>, OrderRefusal> {
        if self.is_isolated || self.is_reached_aside {
            return Ok(None);
        }
        self.connection
            .ok_or_else(|| {
                let reason = "the connection for orders to this host is unknown, because its sshd sets no \
                          SSH_CONNECTION: network faults are refused, because they might cut that connection";
                cannot(reason.to_owned())
            })
            .map(Some)
    }

    /// Returns the interfaces to shape. On a real host, returns only the interface through which
    /// the lab connects.
    fn interfaces(&self) -> Result<Vec<String>, OrderRefusal> {
        let Some(connection) = self.connection()? else { return Ok(network::interfaces()) };
        let address = connection.address.to_string();
        let says = network::ip_says(&["-o", "address", "show", "to", &address])?;
        match interface_in(&says) {
            Some(interface) => Ok(vec![interface]),
            None => {
                Err(cannot(format!("no link of this host has the address {address}, by which Plimsoll reaches it")))
            }
        }
    }

    /// Shapes the links. A failure leaves them without limits.
    fn shape(&self, links: &LinkState) -> Result<(), OrderRefusal> {
        let toward: Vec<network::LinkByPeer> =
            links.toward.iter().map(|(peers, link)| (peers.iter().copied().collect(), link.clone())).collect();
        let ports: Vec<network::PortLink> = links.ports.iter().map(|(port, link)| (*port, link.clone())).collect();
        let spared = self.connection()?.map(|connection| connection.port);
        let limits = LinkLimits { all: &links.all, toward: &toward, ports: &ports, spared, owner: &self.owner };
        for interface in self.interfaces()? {
            if !self.is_isolated {
                self.remember(&interface)?;
            }
            network::shape(&interface, limits)?;
        }
        if !self.is_isolated && *links == LinkState::default() {
            self.put_back()?;
        }
        Ok(())
    }

    /// Saves the original properties of a real machine's link, once. Refused if the link is already
    /// shaped.
    fn remember(&self, interface: &str) -> Result<(), OrderRefusal> {
        let mut segments = lock(&self.segments);
        if segments.is_some() {
            return Ok(());
        }
        let says = network::ip_says(&["-d", "-o", "link", "show", "dev", interface])?;
        let (discipline, most) = (word_after(&says, "qdisc"), word_after(&says, "gso_max_segs"));
        let discipline = discipline.unwrap_or("unknown");
        if !PLAIN.contains(&discipline) {
            return Err(cannot(format!(
                "the link {interface} is already shaped ({discipline}) by another run of Plimsoll or another \
                 program, and Plimsoll could not restore that"
            )));
        }
        // Without nft, no rule drops packets.
        let tables = network::nft_says(&["list", "tables"]).unwrap_or_default();
        if let Some(table) = self.owner.others_losses(interface, &tables) {
            return Err(cannot(format!(
                "another run of Plimsoll drops packets on the link {interface} (nft table {table})"
            )));
        }
        let most = most.unwrap_or("65535");
        // Another process reads this note to clean up if this one cannot.
        let note = self.data.join(SEGMENTS);
        fs::write(&note, format!("{interface} {most}\n"))
            .map_err(|error| OrderRefusal::system(format!("write {}", note.display()), &error))?;
        *segments = Some((interface.to_owned(), most.to_owned()));
        Ok(())
    }

    fn put_back(&self) -> Result<(), OrderRefusal> {
        match lock(&self.segments).take() {
            Some((interface, most)) => {
                let _ = fs::remove_file(self.data.join(SEGMENTS));
                Ok(network::ip(&format!("link set {interface} gso_max_segs {most}\n"))?)
            }
            None => Ok(()),
        }
    }
}

/// File beside a real host's data while its link is shaped. It holds the interface and its original
/// segment limit.
const SEGMENTS: &str = "segments";
/// Types of file systems on other machines.
const REMOTE: [&str; 6] = ["nfs", "nfs4", "cifs", "smb3", "ceph", "fuse.sshfs"];
/// Queueing disciplines that the kernel restores when another discipline is removed.
const PLAIN: [&str; 7] = ["noqueue", "noop", "mq", "fq", "fq_codel", "pfifo", "pfifo_fast"];

impl HostControls for KernelControls {
    fn freeze(&self, still: bool) -> Result<(), OrderRefusal> {
        self.groups.freeze(still)
    }

    fn cut(&self, cuts: &PacketCuts) -> Result<(), OrderRefusal> {
        self.need_root("dropping packets")?;
        let rules = rules(cuts);
        if rules.is_empty() {
            return Ok(network::uncut_all(&self.owner)?);
        }
        let spared = self.connection()?.map(|connection| connection.port);
        let is_total = rules.iter().any(|cut| cut.from.is_none() || cut.to.is_none());
        if spared.is_some()
            && is_total
            && let Some(mount) = remote_mount(&mounts())
        {
            return Err(cannot(format!(
                "{mount} is mounted over the network; without it the fault might not be healed: use `pause`"
            )));
        }
        Ok(network::cut(&rules, spared, &self.owner)?)
    }

    fn link(&self, links: &LinkState) -> Result<(), OrderRefusal> {
        self.need_root("limiting a link")?;
        let mut shaped = lock(&self.shaped);
        match self.shape(links) {
            Ok(()) => shaped.clone_from(links),
            Err(refusal) => {
                // Restore the earlier state, which could be applied before.
                let _ = self.shape(&shaped);
                return Err(refusal);
            }
        }
        Ok(())
    }

    fn carrier(&self, up: bool) -> Result<(), OrderRefusal> {
        if !self.is_isolated {
            let reason = "the link of a real host cannot be taken down, because it carries the order to take it up \
                          again; use `partition`";
            return Err(cannot(reason.to_owned()));
        }
        for interface in network::interfaces() {
            if up {
                network::up(&interface)?;
            } else {
                network::down(&interface)?;
            }
        }
        Ok(())
    }

    fn cpu(&self, of_profile: f64) -> Result<(), OrderRefusal> {
        self.groups.set_cpu(of_profile.ne(&1.0).then_some(of_profile))
    }

    fn memory(&self, bytes: Option<u64>) -> Result<(), OrderRefusal> {
        self.groups.set_memory(bytes)
    }

    fn disk(&self, disk: &Disk) -> Result<(), OrderRefusal> {
        self.groups.set_disk(Some(disk))
    }

    fn fill(&self, leave_bytes: Option<u64>) -> Result<(), OrderRefusal> {
        let Some(leave_bytes) = leave_bytes else { return empty_disk(&self.data) };
        if self.is_isolated && !self.has_volume {
            let reason = "this host's data is on the machine's own disk, and filling that would affect the whole \
                          machine: give its profile a disk with a size";
            return Err(cannot(reason.to_owned()));
        }
        fill_disk(&self.data, leave_bytes)
    }

    fn tiers(&self, tiers: &BTreeMap<String, Disk>) -> Result<(), OrderRefusal> {
        tiers.iter().try_for_each(|(name, disk)| self.groups.set_tier(name, disk))
    }

    fn fill_tiers(&self, leave_bytes: &BTreeMap<String, u64>) -> Result<(), OrderRefusal> {
        if let Some(unknown) = leave_bytes.keys().find(|name| !self.tiers.contains_key(*name)) {
            return Err(cannot(format!("the tier `{unknown}` has no volume of its own on this host")));
        }
        self.tiers.iter().try_for_each(|(name, folder)| match leave_bytes.get(name) {
            Some(leave_bytes) => fill_disk(folder, *leave_bytes),
            None => empty_disk(folder),
        })
    }

    fn clock(&self, offset_s: f64) -> Result<(), OrderRefusal> {
        if self.is_isolated {
            let reason = "virtual hosts share the wall clock of this machine and cannot set it; `clock_skew` needs \
                          hosts that are reached over ssh";
            return Err(cannot(reason.to_owned()));
        }
        self.need_root("setting the clock")?;
        let mut was_s = lock(&self.offset_s);
        // Shift the current time, so that the time passed since the last change is kept.
        let now = clock_gettime(ClockId::Realtime);
        let set = clock_settime(ClockId::Realtime, shifted(now, offset_s - *was_s));
        set.map_err(|errno| match errno {
            Errno::PERM => {
                cannot("this host does not allow its clock to be set, most likely because it is a container".to_owned())
            }
            errno => OrderRefusal::System { doing: "set the clock".to_owned(), error: errno.to_string() },
        })?;
        *was_s = offset_s;
        Ok(())
    }
}

/// Returns the rules for the cuts.
fn rules(cuts: &PacketCuts) -> Vec<Cut> {
    if cuts.silent {
        return vec![Cut { from: None, to: None }];
    }
    let [from, to] = [&cuts.from, &cuts.to].map(|peers| match peers {
        PeerSet::These(some) => Some(some.iter().copied().collect::<Vec<_>>()),
        PeerSet::Everybody => None,
    });
    let is_empty = [&from, &to].into_iter().all(|peers| peers.as_ref().is_some_and(Vec::is_empty));
    if is_empty { Vec::new() } else { vec![Cut { from, to }] }
}

fn mounts() -> String {
    procfs::text(Path::new("/proc/self/mounts")).unwrap_or_default()
}

/// Returns the mount point of the first remote file system in the text of `/proc/mounts`.
fn remote_mount(mounts: &str) -> Option<&str> {
    let mut lines = mounts.lines().map(|line| line.split(' '));
    lines.find_map(|mut words| {
        let place = words.nth(1)?;
        words.next().filter(|kind| REMOTE.contains(kind)).map(|_| place)
    })
}

/// Returns the time shifted by this many seconds.
fn shifted(time: Timespec, by_s: f64) -> Timespec {
    let nanoseconds = time.tv_nsec as f64 + by_s.fract() * 1e9;
    let carried = (nanoseconds / 1e9).floor();
    Timespec {
        tv_sec: time.tv_sec.saturating_add((by_s.trunc() + carried) as i64),
        tv_nsec: (nanoseconds - carried * 1e9).clamp(0.0, 999_999_999.0) as _,
    }
}

/// Returns the interface in a line of `ip -o address`: `2: eth0 inet …`.
fn interface_in(says: &str) -> Option<String> {
    let name = says.lines().next()?.split_whitespace().nth(1)?;
    Some(name.split('@').next().unwrap_or(name).to_owned())
}

fn word_after<'a>(says: &'a str, word: &str) -> Option<&'a str> {
    says.split_whitespace().skip_while(|other| *other != word).nth(1)
}

fn cannot(reason: String) -> OrderRefusal {
    OrderRefusal::Cannot { reason }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// Filler file: a file that fills the file system of a folder.

const NAME: &str = ".plimsoll-full";
/// Bytes per write, if space cannot be reserved.
const PIECE_BYTES: usize = 1 << 20;
/// Remaining space below which the disk counts as full. The file system needs the rest itself.
const SMALLEST_BYTES: u64 = 4096;
/// `TMPFS_MAGIC` and `RAMFS_MAGIC`.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// Fills the disk except for this space. Succeeds if less is free already.
fn fill_disk(folder: &Path, leave_bytes: u64) -> Result<(), OrderRefusal> {
    empty_disk(folder)?;
    let path = filling_path(folder);
    let doing = format!("fill the disk with {}", path.display());
    let file = File::options().write(true).create_new(true).open(&path);
    let file = file.map_err(|error| OrderRefusal::system(doing.clone(), &error))?;
    let filled = match is_in_memory(&file) {
        Ok(true) => {
            let reason = format!(
                "{} is in memory, and filling it would use up the memory of the whole machine",
                folder.display()
            );
            Err(OrderRefusal::Cannot { reason })
        }
        Ok(false) => grow(&file, leave_bytes).map_err(|errno| OrderRefusal::System { doing, error: errno.to_string() }),
        Err(errno) => Err(OrderRefusal::System { doing, error: errno.to_string() }),
    };
    filled.inspect_err(|_| drop(fs::remove_file(&path)))
}

/// Removes the filler file.
fn empty_disk(folder: &Path) -> Result<(), OrderRefusal> {
    let path = filling_path(folder);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(OrderRefusal::System { doing: format!("remove {}", path.display()), error: error.to_string() })
        }
        _ => Ok(()),
    }
}

fn filling_path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

fn is_in_memory(file: &File) -> Result<bool, Errno> {
    let kind = fstatfs(file)?.f_type as u64;
    Ok(IN_MEMORY.contains(&(kind & 0xffff_ffff)))
}

/// Returns the bytes that can still be written. For root, includes the blocks reserved for root.
fn free_bytes(file: &File) -> Result<u64, Errno> {
    let found = fstatvfs(file)?;
    let blocks = if geteuid().is_root() { found.f_bfree } else { found.f_bavail };
    Ok(blocks.saturating_mul(found.f_frsize))
}

fn grow(file: &File, leave_bytes: u64) -> Result<(), Errno> {
    let mut length: u64 = 0;
    let mut most = u64::MAX;
    loop {
        let missing = free_bytes(file)?.saturating_sub(leave_bytes).min(most);
        if missing < SMALLEST_BYTES {
            return Ok(());
        }
        match fallocate(file, FallocateFlags::empty(), length, missing) {
            Ok(()) => length += missing,
            // The file's block list needs space too.
            Err(Errno::NOSPC) => most = missing / 2,
            // A disk at its quota is full for its user.
            Err(Errno::DQUOT | Errno::FBIG) if missing > PIECE_BYTES as u64 => most = missing / 2,
            Err(Errno::DQUOT | Errno::FBIG) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return write(file, leave_bytes),
            Err(errno) => return Err(errno),
        }
    }
}

/// Fills the disk by writing, if space cannot be reserved.
fn write(mut file: &File, leave_bytes: u64) -> Result<(), Errno> {
    let piece = vec![0; PIECE_BYTES];
    loop {
        let missing = free_bytes(file)?.saturating_sub(leave_bytes).min(PIECE_BYTES as u64);
        if missing < SMALLEST_BYTES {
            return Ok(());
        }
        match file.write(&piece[..missing as usize]) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => return Ok(()),
                Some(Errno::INTR) => {}
                errno => return Err(errno.unwrap_or(Errno::IO)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;
    use std::process::Command;

    use experiment::profile::Link;
    use fixture::{TestDir, until};
    use linux::cgroup;

    use super::*;
    use crate::controls::Controls;
    use crate::{Injection, Isolation, control_groups};

    const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

    fn some(addresses: &[Ipv4Addr]) -> PeerSet {
        PeerSet::These(addresses.iter().copied().collect::<BTreeSet<_>>())
    }

    #[test]
    fn the_connection_is_read() {
        let here = |address: &str, port| Some(ControlConnection { address: address.parse().unwrap(), port });
        assert_eq!(ControlConnection::parse("10.0.0.1 51234 10.0.0.2 22"), here("10.0.0.2", 22));
        assert_eq!(ControlConnection::parse("::ffff:10.0.0.1 5 ::ffff:10.0.0.2 2222"), here("10.0.0.2", 2222));
        assert_eq!(ControlConnection::parse("fe80::1%eth0 5 fe80::2%eth0 22"), here("fe80::2", 22));
        assert_eq!(ControlConnection::parse("UNKNOWN 65535 UNKNOWN 65535"), None);
        assert_eq!(ControlConnection::parse(""), None);
    }

    #[test]
    fn cuts_become_rules() {
        let cuts = PacketCuts { from: some(&[PEER]), to: some(&[]), silent: false };
        assert_eq!(rules(&cuts), [Cut { from: Some(vec![PEER]), to: Some(Vec::new()) }]);
        assert_eq!(rules(&PacketCuts::default()), []);
        let everybody = PacketCuts { from: PeerSet::Everybody, ..PacketCuts::default() };
        assert_eq!(rules(&everybody), [Cut { from: None, to: Some(Vec::new()) }]);
        let silent = PacketCuts { silent: true, ..PacketCuts::default() };
        assert_eq!(rules(&silent), [Cut { from: None, to: None }]);
    }

    #[test]
    fn network_faults_need_a_known_control_connection() {
        let made = Made::new("d", None);
        let hands = KernelControls { connection: None, ..made.hands() };
        let everybody = PacketCuts { from: PeerSet::Everybody, ..PacketCuts::default() };
        assert!(reason(hands.cut(&everybody)).contains("SSH_CONNECTION"));
        let slow = Link { rate_bits_per_s: Some(1e6), ..Link::default() };
        assert!(reason(hands.link(&LinkState { all: slow, ..LinkState::default() })).contains("SSH_CONNECTION"));
    }

    #[test]
    fn a_network_file_system_is_found() {
        let mounts = "/dev/sda / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\n";
        assert_eq!(remote_mount(mounts), Some("/home"));
        assert_eq!(remote_mount("proc /proc proc rw 0 0\n"), None);
    }

    #[test]
    fn a_clock_is_shifted_both_ways() {
        let at = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
        assert_eq!(shifted(at(100, 500_000_000), 2.75), at(103, 250_000_000));
        assert_eq!(shifted(at(100, 500_000_000), -2.75), at(97, 750_000_000));
        assert_eq!(shifted(at(100, 0), -5.0), at(95, 0));
    }

    #[test]
    fn the_output_of_ip_is_parsed() {
        let line = "2: eth0@if5    inet 10.0.0.2/24 brd 10.0.0.255 scope global eth0\\       valid_lft forever\n";
        assert_eq!(interface_in(line).as_deref(), Some("eth0"));
        assert_eq!(interface_in(""), None);
        let link = "2: eth0: <UP> mtu 1500 qdisc fq_codel state UP gso_max_size 65536 gso_max_segs 65535";
        assert_eq!((word_after(link, "qdisc"), word_after(link, "gso_max_segs")), (Some("fq_codel"), Some("65535")));
        assert_eq!(word_after(link, "none"), None);
    }

    /// A host with its own name, so that tests do not conflict. Dropping it removes its groups.
    struct Made {
        setup: Setup,
        groups: Arc<Groups>,
    }

    impl Made {
        fn new(host: &str, isolation: Option<Isolation>) -> Self {
            let run = format!("test-hands-{host}-{}", std::process::id());
            let setup = Setup { run, host: host.to_owned(), isolation, ..Setup::default() };
            let groups = Arc::new(Groups::make(&setup).unwrap().0);
            Self { setup, groups }
        }

        fn hands(&self) -> KernelControls {
            KernelControls::of(&self.setup, Arc::clone(&self.groups))
        }
    }

    impl Drop for Made {
        fn drop(&mut self) {
            let _ = self.groups.remove();
            let _ = cgroup::remove_tree(&control_groups::top_of(&self.setup.run));
        }
    }

    fn reason(done: Result<(), OrderRefusal>) -> String {
        match done {
            Err(OrderRefusal::Cannot { reason }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn faults_on_shared_resources_are_refused() {
        let made = Made::new("a", Some(Isolation::default()));
        assert!(reason(made.hands().clock(5.0)).contains("share the wall clock"));
        assert!(reason(made.hands().fill(Some(0))).contains("give its profile a disk"));
        let made = Made::new("b", None);
        assert!(reason(made.hands().carrier(false)).contains("use `partition`"));
    }

    fn says(program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the settings in force in this network namespace, without hardware addresses and
    /// counters.
    fn in_force() -> String {
        let links = says("ip", &["-o", "link"]).replace(char::is_numeric, "");
        let links: String = links.lines().filter_map(|line| line.split("link/").next()).collect();
        links + &says("tc", &["qdisc"]).replace(char::is_numeric, "") + &says("nft", &["list", "ruleset"])
    }

    #[test]
    fn controls_take_effect_and_are_undone() {
        if !geteuid().is_root() {
            println!("skipped: namespaces need root");
            return;
        }
        let play = || {
            linux::leave_network().unwrap();
            network::ip("link add eth0 type veth peer name far\naddress add 10.83.0.1/24 dev eth0\n").unwrap();
            network::ip("link set lo up\nlink set eth0 up\nlink set far up\nroute add 10.84.0.0/24 via 10.83.0.2\n")
                .unwrap();
            let made = Made::new("c", Some(Isolation::default()));
            let controls = Controls::new(&made.setup, Arc::clone(&made.groups));
            until("both ends are up", || in_force().matches("state UP").count() == 2);
            let before = in_force();
            let limited = |link: Link| Injection::Link { link, peers: None };
            let all = [
                Injection::Cut { from: Some(vec![PEER]), to: Some(vec![PEER]) },
                Injection::Cut { from: None, to: None },
                limited(Link { rate_bits_per_s: Some(1e7), delay_s: None, loss_pct: None }),
                limited(Link { rate_bits_per_s: None, delay_s: None, loss_pct: Some(5.0) }),
                Injection::LinkDown,
                Injection::LinkFlap { down_s: 0.01, up_s: 0.01 },
                Injection::Freeze,
            ];
            for (number, control) in all.iter().enumerate() {
                let key = format!("it#{number}");
                match controls.inject(&key, control) {
                    Ok(()) => assert_ne!(in_force(), before, "{control:?}"),
                    // Without control groups a host cannot be frozen.
                    Err(refusal) => assert!(*control == Injection::Freeze && !made.groups.are_there(), "{refusal:?}"),
                }
                controls.heal(&key).unwrap();
                // A change of the carrier takes effect with a delay.
                until(&format!("{control:?} is undone"), || in_force() == before);
            }
            for control in &all[..3] {
                controls.inject(&format!("{control:?}"), control).unwrap();
            }
            let delayed = limited(Link { rate_bits_per_s: None, delay_s: Some(0.05), loss_pct: None });
            let with_rate = in_force();
            if let Err(refusal) = controls.inject("delay", &delayed) {
                assert!(format!("{refusal:?}").contains("netem"), "{refusal:?}");
                assert_eq!(in_force(), with_rate, "what was in force still is");
            }
            controls.heal_all();
            assert_eq!(in_force(), before);
            assert!(says("ip", &["route"]).contains("10.84.0.0/24"), "routes come back with the link");
            if made.groups.are_there() {
                for control in [Injection::Cpu { of_profile: 0.5 }, Injection::Memory { bytes: 1 << 28 }] {
                    controls.inject("it", &control).unwrap();
                    controls.heal("it").unwrap();
                }
                let disk = Disk { write_iops: Some(10.0), ..Disk::default() };
                let refused = reason(controls.inject("it", &Injection::Disk { disk, tier: None }));
                assert!(refused.contains("volume of its own"), "{refused}");
            }
        };
        std::thread::Builder::new().spawn(play).unwrap().join().unwrap();
    }

    #[test]
    fn a_file_system_in_memory_is_not_filled() {
        let folder = Path::new("/dev/shm").join(format!("plimsoll-test-{}", std::process::id()));
        if fs::create_dir(&folder).is_err() {
            return;
        }
        let file = File::create(folder.join("x")).unwrap();
        let refused = if is_in_memory(&file).unwrap() { fill_disk(&folder, 0).err() } else { None };
        let left = fs::read_dir(&folder).unwrap().count();
        fs::remove_dir_all(&folder).unwrap();
        if let Some(refused) = refused {
            assert!(
                matches!(refused, OrderRefusal::Cannot { ref reason } if reason.contains("is in memory")),
                "{refused:?}"
            );
        }
        assert_eq!(left, 1);
    }

    /// A file system of 16 MiB. `None` if this user cannot make one.
    struct Small(TestDir);

    impl Small {
        fn make() -> Option<Self> {
            if !geteuid().is_root() {
                return None;
            }
            let scratch = TestDir::new();
            let (image, at) = (scratch.join("image"), scratch.join("at"));
            File::create(&image).unwrap().set_len(16 << 20).unwrap();
            fs::create_dir(&at).unwrap();
            let done = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
            let made = done(Command::new("mkfs.ext4").arg("-q").arg(&image))
                && done(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&at));
            made.then_some(Self(scratch))
        }

        fn at(&self) -> PathBuf {
            self.0.join("at")
        }
    }

    impl Drop for Small {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg(self.at()).status();
        }
    }

    #[test]
    fn a_filled_disk_is_full_until_emptied() {
        // Needs root, mkfs.ext4 and a loop device.
        let Some(small) = Small::make() else { return };
        let at = small.at();
        fill_disk(&at, 0).unwrap();
        let refused = fs::write(at.join("more"), vec![1; 1 << 16]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::StorageFull);
        let _ = fs::remove_file(at.join("more"));
        fill_disk(&at, 4 << 20).unwrap();
        let file = File::open(filling_path(&at)).unwrap();
        // The file system releases the reservation of a failed write with a delay, possibly after
        // the filling.
        until("4 MiB are free", || {
            fill_disk(&at, 4 << 20).unwrap();
            (3 << 20..=4 << 20).contains(&free_bytes(&file).unwrap())
        });
        fs::write(at.join("more"), vec![1; 1 << 20]).unwrap();
        empty_disk(&at).unwrap();
        empty_disk(&at).unwrap();
        assert!(!filling_path(&at).exists());
    }
}
