//! Network of the calling thread's namespace, configured with the programs `ip`, `tc` and `nft`.
//! Pure functions make the texts for these programs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use experiment::profile::Link;

use super::procfs;

/// Owner of the rules and queues that a run makes. In a shared network they carry the owner's name,
/// so that a run removes only its own rules and queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ownership {
    name: Cow<'static, str>,
}

/// Owner in a private network, which no other run uses.
pub static ALONE: Ownership = Ownership { name: Cow::Borrowed("plimsoll") };

impl Ownership {
    /// Makes an owner with a name that is unique on the machine. The name consists of letters,
    /// digits and `-`.
    pub fn of(name: &str) -> Self {
        Self { name: Cow::Owned(name.to_owned()) }
    }

    /// Returns the major number of the queue at the root of an interface, in hexadecimal digits as
    /// `tc` shows it. The kernel does not assign this number by itself.
    pub fn root_handle(&self) -> String {
        if *self == ALONE {
            return "9e83".to_owned();
        }
        format!("{:x}", 0x1000 + crc32fast::hash(self.name.as_bytes()) % 0x7000)
    }

    /// Returns the name of the nft table for cuts.
    pub fn cuts_table(&self) -> &str {
        &self.name
    }

    /// Returns the name of the nft table for an interface's packet losses.
    pub fn losses_table(&self, interface: &str) -> String {
        format!("{}.{}", self.name, interface.replace(|c: char| !c.is_ascii_alphanumeric(), "_"))
    }

    /// Returns the name of the ifb device through which packets that arrive at an interface pass.
    pub fn arriving(&self, interface: &str) -> String {
        let whose = if *self == ALONE { String::new() } else { format!("{}-", self.root_handle()) };
        // The kernel limits a device name to 15 bytes.
        format!("ifb-{whose}{interface}").chars().take(15).collect()
    }

    /// Whether this owner made the queues of an interface. `says` is the output of `tc qdisc show`
    /// for the interface.
    pub fn has_shaped(&self, says: &str) -> bool {
        let root = format!(" {}: root", self.root_handle());
        *self == ALONE || says.lines().any(|line| line.starts_with("qdisc htb") && line.contains(&root))
    }

    /// Returns another run's table that drops packets of an interface. `says` is the output of `nft
    /// list tables`.
    pub fn others_losses(&self, interface: &str, says: &str) -> Option<String> {
        let ours = self.losses_table(interface);
        let end = ours.strip_prefix(self.name.as_ref()).unwrap_or_default().to_owned();
        let mut tables = says.lines().filter_map(|line| line.split_whitespace().nth(2));
        tables.find(|name| name.starts_with("plimsoll") && name.ends_with(&end) && *name != ours).map(str::to_owned)
    }
}

/// Error of a change to the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkError {
    /// The program is not installed on this machine.
    NoProgram(String),
    /// The kernel lacks a part, which the text describes.
    NoKernel(String),
    /// A system call or program failed.
    System {
        /// Action that failed.
        doing: String,
        /// Error text.
        error: String,
    },
}

impl std::fmt::Display for NetworkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoProgram(program) => write!(f, "`{program}` is not on this machine"),
            Self::NoKernel(what) => write!(f, "not supported by this kernel: {what}"),
            Self::System { doing, error } => write!(f, "cannot {doing}: {error}"),
        }
    }
}

/// Runs `ip` with the commands in `batch`, one per line. `ip` stops at the first failure.
pub fn ip(batch: &str) -> Result<(), NetworkError> {
    run("ip", &["-batch", "-"], batch, "set up interfaces").map(drop)
}

/// Runs `tc` with the commands in `batch`, one per line. `tc` stops at the first failure.
pub fn tc(batch: &str) -> Result<(), NetworkError> {
    run("tc", &["-batch", "-"], batch, "limit a link").map(drop)
}

/// Runs `nft`, which applies all rules or none.
pub fn nft(rules: &str) -> Result<(), NetworkError> {
    run("nft", &["-f", "-"], rules, "filter packets").map(drop)
}

/// Returns the interfaces of this namespace except the loopback, in the kernel's order.
pub fn interfaces() -> Vec<String> {
    // `thread-self`, because a thread may be in another namespace than the process.
    let text = procfs::text(Path::new("/proc/thread-self/net/dev")).unwrap_or_default();
    let names = text.lines().skip(2).filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.trim().to_owned()).filter(|name| name != "lo" && !name.starts_with("ifb-")).collect()
}

/// Returns the output of `tc`.
pub fn tc_says(arguments: &[&str]) -> Result<String, NetworkError> {
    run("tc", arguments, "", "list queues")
}

/// Returns the output of `nft`.
pub fn nft_says(arguments: &[&str]) -> Result<String, NetworkError> {
    run("nft", arguments, "", "list packet filters")
}

/// Sets whether this namespace forwards packets.
pub fn forward(on: bool) -> Result<(), NetworkError> {
    let text = if on { "1" } else { "0" };
    std::fs::write("/proc/sys/net/ipv4/ip_forward", text)
        .map_err(|error| NetworkError::System { doing: "set ip_forward".to_owned(), error: error.to_string() })
}

/// Returns the output of `ip`.
pub fn ip_says(arguments: &[&str]) -> Result<String, NetworkError> {
    run("ip", arguments, "", "list interfaces")
}

/// Prevents automatic IPv6 addresses on new interfaces of this namespace. They would be unused, and
/// the kernel would announce them. Does nothing without IPv6.
pub fn only_given_addresses() {
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/addr_gen_mode", "1");
}

fn run(program: &str, arguments: &[&str], input: &str, doing: &str) -> Result<String, NetworkError> {
    let refused = |error: io::Error| NetworkError::System { doing: doing.to_owned(), error: error.to_string() };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(NetworkError::NoProgram(program.to_owned()));
        }
        Err(error) => return Err(refused(error)),
    };
    if let Some(mut pipe) = child.stdin.take() {
        // If the program stops reading, its standard error has the reason.
        let _ = pipe.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(refused)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(understood(doing, input, &String::from_utf8_lossy(&output.stderr)))
}

/// Shortens the error output of `ip`, `tc` or `nft` to the first complaint and the line of `input`
/// that caused it.
pub fn understood(doing: &str, input: &str, errors: &str) -> NetworkError {
    let complaint = errors.lines().find(|line| !line.trim().is_empty() && !line.starts_with("Command failed"));
    let number = errors.lines().find_map(|line| line.strip_prefix("Command failed -:")?.parse::<usize>().ok());
    let line = number.and_then(|number| input.lines().nth(number.checked_sub(1)?)).unwrap_or_default();
    let complaint = complaint.unwrap_or("no reason given").trim_start_matches("Error: ").trim();
    let is_unknown =
        ["kind is unknown", "Unknown device type", "not supported"].iter().any(|text| errors.contains(text));
    if is_unknown && let Some(part) = part_of(line) {
        return NetworkError::NoKernel(format!("{part} is missing"));
    }
    let about = if line.is_empty() { String::new() } else { format!(" (at `{line}`)") };
    NetworkError::System { doing: doing.to_owned(), error: format!("{complaint}{about}") }
}

/// Returns the part of the kernel that a line for `ip` or `tc` needs.
fn part_of(line: &str) -> Option<&'static str> {
    ["netem", "tbf", "htb", "mirred", "ifb", "ingress", "u32", "veth", "bridge"]
        .into_iter()
        .find(|part| line.split(' ').any(|word| word == *part))
}

// Packet loss: nft rules that drop arriving packets and lose departing ones. The sender must not
// notice. If nft dropped a departing packet, UDP would report an error and TCP would hold the
// packet back. So the packet is sent to the loopback with another hardware address, where no one
// receives it.

/// A cut: packets from and to these hosts are lost. `None` means all hosts, an empty list means
/// none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cut {
    /// Drops packets from these hosts.
    pub from: Option<Vec<Ipv4Addr>>,
    /// Loses packets to these hosts.
    pub to: Option<Vec<Ipv4Addr>>,
}

/// Replaces all cuts of this owner. Packets from or to TCP port `spared`, local or remote, always
/// pass.
pub fn cut(cuts: &[Cut], spared: Option<u16>, owner: &Ownership) -> Result<(), NetworkError> {
    if cuts.is_empty() {
        return uncut_all(owner);
    }
    let rules = Rules {
        table: owner.cuts_table().to_owned(),
        arriving: cuts.iter().map(|cut| LossRule { whom: cut.from.clone(), loss_pct: 100.0 }).collect(),
        leaving: cuts.iter().map(|cut| LossRule { whom: cut.to.clone(), loss_pct: 100.0 }).collect(),
        spared,
        devices: interfaces(),
    };
    rules.put()
}

/// Heals all cuts of this owner.
pub fn uncut_all(owner: &Ownership) -> Result<(), NetworkError> {
    nft(&removal(owner.cuts_table()))
}

/// Loses packets of one interface in both directions, by the same limits as [`shape`].
pub fn lose(interface: &str, limits: &LinkLimits<'_>) -> Result<(), NetworkError> {
    let rules = losses(limits.all, limits.toward);
    if rules.iter().all(|rule| rule.loss_pct <= 0.0) {
        return Ok(());
    }
    let devices = vec![interface.to_owned()];
    let (arriving, leaving) = (rules.clone(), rules);
    let table = limits.owner.losses_table(interface);
    Rules { table, arriving, leaving, spared: limits.spared, devices }.put()
}

/// Removes the packet losses of an interface.
fn lose_nothing(interface: &str, owner: &Ownership) {
    // Without nft there were no losses.
    let _ = nft(&removal(&owner.losses_table(interface)));
}

/// Loss of packets from or to some hosts, percent. The first rule that matches a packet decides.
#[derive(Debug, Clone, PartialEq)]
struct LossRule {
    whom: Option<Vec<Ipv4Addr>>,
    loss_pct: f64,
}

fn losses(all: &Link, toward: &[LinkByPeer]) -> Vec<LossRule> {
    let links = toward.iter().map(|(peers, link)| (Some(peers), link)).chain([(None, all)]);
    links.map(|(whom, link)| LossRule { whom: whom.cloned(), loss_pct: link.loss_pct.unwrap_or_default() }).collect()
}

/// Contents of an nft table.
#[derive(Debug, Clone, PartialEq)]
struct Rules {
    table: String,
    /// Rules for arriving packets, by source address.
    arriving: Vec<LossRule>,
    /// Rules for departing packets, by destination address.
    leaving: Vec<LossRule>,
    /// TCP port that is exempt from all rules.
    spared: Option<u16>,
    devices: Vec<String>,
}

impl Rules {
    /// Replaces the contents of the table.
    fn put(&self) -> Result<(), NetworkError> {
        if self.devices.is_empty() {
            return Ok(());
        }
        // Before Linux 5.16 there is no hook for packets that leave a device. Senders then notice
        // the loss.
        nft(&self.text(true)).or_else(|_| nft(&self.text(false)))
    }

    /// Returns the text for `nft -f`. With `silent`, departing packets are lost without an error to
    /// the sender.
    fn text(&self, silent: bool) -> String {
        let Self { table, devices, spared, .. } = self;
        let names = devices.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        let mut text = if silent { removal(table) } else { format!("table inet {table}\ndelete table inet {table}\n") };
        // The device's ingress hook is not used, because packets from an ifb device do not pass it.
        let _ = writeln!(text, "table inet {table} {{\nchain arriving {{\ntype filter hook prerouting priority -300;");
        let _ = writeln!(text, "iifname != {{ {names} }} accept");
        chain(&mut text, "saddr", &self.arriving, *spared, "drop");
        text.push_str("}\n");
        if !silent {
            let _ = writeln!(text, "chain leaving {{\ntype filter hook postrouting priority 300;");
            let _ = writeln!(text, "oifname != {{ {names} }} accept");
            chain(&mut text, "daddr", &self.leaving, *spared, "drop");
            text.push_str("}\n");
        }
        text.push_str("}\n");
        if silent {
            let _ = writeln!(text, "table netdev {table} {{");
            for (number, device) in devices.iter().enumerate() {
                let hook = format!("type filter hook egress device \"{device}\" priority 0;");
                let _ = writeln!(text, "chain leaving{number} {{\n{hook}");
                chain(&mut text, "daddr", &self.leaving, *spared, "fwd to \"lo\"");
                text.push_str("}\n");
            }
            text.push_str("}\n");
        }
        text
    }
}

fn removal(table: &str) -> String {
    // Naming a table first makes it, so that it can be deleted.
    format!("table inet {table}\ndelete table inet {table}\ntable netdev {table}\ndelete table netdev {table}\n")
}

/// Bit of a hardware address that marks a group address.
const TO_MANY: &str = "ether daddr & 01:00:00:00:00:00";

/// Messages of IPv6 that look up a neighbour's hardware address. IPv4 has a separate protocol for
/// that.
const NEIGHBOURS: &str = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-advert }";

fn chain(text: &mut String, end: &str, rules: &[LossRule], spared: Option<u16>, away: &str) {
    if let Some(port) = spared {
        let _ = writeln!(text, "tcp sport {port} accept\ntcp dport {port} accept\n{NEIGHBOURS} accept");
    }
    for LossRule { whom, loss_pct } in rules {
        let whom = match whom.as_deref() {
            Some([]) => continue,
            Some(addresses) => format!("ip {end} {}", set(addresses)),
            None => "meta protocol { ip, ip6 }".to_owned(),
        };
        let is_all = *loss_pct >= 100.0;
        let chance = if is_all { String::new() } else { format!("numgen random mod 1000000 < {:.0} ", loss_pct * 1e4) };
        if away == "drop" {
            let _ = writeln!(text, "{whom} {chance}drop");
        } else {
            // The loopback would accept group addresses, so such packets are dropped.
            let _ = writeln!(text, "{whom} {TO_MANY} == 01:00:00:00:00:00 {chance}drop");
            let _ = writeln!(text, "{whom} {TO_MANY} == 00:00:00:00:00:00 {chance}{away}");
        }
        if !is_all {
            let _ = writeln!(text, "{whom} accept");
        }
    }
}

fn set(addresses: &[Ipv4Addr]) -> String {
    let names: Vec<_> = addresses.iter().map(Ipv4Addr::to_string).collect();
    format!("{{ {} }}", names.join(", "))
}

// Shape of a link. tbf limits the rate of departing packets and, on an ifb device, of arriving
// packets. netem adds delay. nft rules lose packets. A TCP port can be slower than its link.

/// Rate above that of any link, for classes that only sort packets.
const UNLIMITED: &str = "400gbit";
/// Queue limit of a link without a rate, on which no packet has to wait.
const UNLIMITED_QUEUE_BYTES: f64 = (4 << 20) as f64;
/// Size of a full Ethernet frame.
const FRAME_BYTES: f64 = 1514.0;

/// Routes of interfaces that were taken down, in the format of `ip`.
static GONE: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// Link toward some hosts. The first entry that contains a host applies to it.
pub type LinkByPeer = (Vec<Ipv4Addr>, Link);

/// Limits of TCP packets from or to a port, local or remote, within a link.
pub type PortLink = (u16, Link);

/// Limits of an interface.
#[derive(Debug, Clone, Copy)]
pub struct LinkLimits<'a> {
    /// Link toward all hosts that are not in `toward`.
    pub all: &'a Link,
    /// Links toward some hosts.
    pub toward: &'a [LinkByPeer],
    /// Limits of ports, each separately. Packets of a port also pass the link's limits.
    pub ports: &'a [PortLink],
    /// TCP port, local or remote, without limits.
    pub spared: Option<u16>,
    /// Owner of the limits.
    pub owner: &'a Ownership,
}

impl<'a> LinkLimits<'a> {
    /// Makes limits that are equal for all hosts and ports.
    pub fn of(all: &'a Link) -> Self {
        Self { all, toward: &[], ports: &[], spared: None, owner: &ALONE }
    }

    fn links(&self) -> impl Iterator<Item = &'a Link> {
        let toward = self.toward.iter().map(|(_, link)| link);
        toward.chain(self.ports.iter().map(|(_, link)| link)).chain([self.all])
    }
}

/// Sets the limits of an interface. Removes the owner's earlier limits, even if this fails.
pub fn shape(interface: &str, limits: LinkLimits<'_>) -> Result<(), NetworkError> {
    clear(interface, limits.owner);
    inject(interface, limits).inspect_err(|_| clear(interface, limits.owner))
}

/// Sets the limits of an interface that has none, as in [`shape`].
pub fn inject(interface: &str, limits: LinkLimits<'_>) -> Result<(), NetworkError> {
    let text = commands(interface, limits);
    if !text.ip.is_empty() {
        ip(&text.ip)?;
    }
    if !text.tc.is_empty() {
        tc(&text.tc)?;
    }
    lose(interface, &limits)
}

/// Takes an interface down. The kernel forgets its routes; [`up`] makes them again.
pub fn down(interface: &str) -> Result<(), NetworkError> {
    let routes = ip_says(&["-o", "route", "show", "dev", interface])?;
    ip(&format!("link set {interface} down\n"))?;
    let mut gone = GONE.lock().unwrap_or_else(PoisonError::into_inner);
    // An interface that is already down has no routes to save.
    gone.entry(interface.to_owned()).or_insert(routes);
    Ok(())
}

/// Brings an interface up and restores its routes.
pub fn up(interface: &str) -> Result<(), NetworkError> {
    ip(&format!("link set {interface} up\n"))?;
    let gone = GONE.lock().unwrap_or_else(PoisonError::into_inner).remove(interface);
    let again = again(interface, &gone.unwrap_or_default());
    if again.is_empty() { Ok(()) } else { ip(&again) }
}

/// Returns the commands that restore routes from the output of `ip route show`. The kernel makes
/// the routes to an interface's own network itself.
fn again(interface: &str, routes: &str) -> String {
    let made = routes.lines().map(str::trim).filter(|route| !route.is_empty() && !route.contains("proto kernel"));
    made.map(|route| format!("route replace {} dev {interface}\n", route.replace(" linkdown", ""))).collect()
}

/// Removes all limits of this owner. Ignores errors, because there may be no limits.
fn clear(interface: &str, owner: &Ownership) {
    if owner.has_shaped(&tc_says(&["qdisc", "show", "dev", interface]).unwrap_or_default()) {
        // One at a time, because a batch stops at the first failure.
        let _ = tc(&format!("qdisc del dev {interface} root\n"));
        let _ = tc(&format!("qdisc del dev {interface} ingress\n"));
    }
    let _ = ip(&format!("link del {}\n", owner.arriving(interface)));
    lose_nothing(interface, owner);
}

/// Input for `ip` and `tc`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Commands {
    ip: String,
    tc: String,
}

fn commands(interface: &str, limits: LinkLimits<'_>) -> Commands {
    let mut text = Commands::default();
    let is_limited = limits.links().any(|link| link.rate_bits_per_s.is_some());
    if is_limited || limits.links().any(|link| link.delay_s.is_some()) {
        direction(&mut text.tc, interface, "dst", limits);
    }
    if is_limited {
        let ifb = limits.owner.arriving(interface);
        let _ = writeln!(text.ip, "link add {ifb} type ifb\nlink set {ifb} up");
        let redirect = format!("u32 match u32 0 0 action mirred egress redirect dev {ifb}");
        let _ = writeln!(text.tc, "qdisc add dev {interface} ingress");
        let _ = writeln!(text.tc, "filter add dev {interface} parent ffff: protocol all {redirect}");
        // Only departing packets are delayed. Otherwise both ends of a link would delay each
        // packet.
        let undelayed = |link: &Link| Link { delay_s: None, ..link.clone() };
        let all = undelayed(limits.all);
        let toward: Vec<LinkByPeer> =
            limits.toward.iter().map(|(peers, link)| (peers.clone(), undelayed(link))).collect();
        let slow = limits.ports.iter().filter(|(_, link)| link.rate_bits_per_s.is_some());
        let ports: Vec<PortLink> = slow.map(|(port, link)| (*port, undelayed(link))).collect();
        let arriving = LinkLimits { all: &all, toward: &toward, ports: &ports, ..limits };
        direction(&mut text.tc, &ifb, "src", arriving);
    }
    // Without this, a large segment would be lost as a whole, because the kernel splits segments
    // last.
    if limits.links().any(|link| link.loss_pct.is_some()) {
        let _ = writeln!(text.ip, "link set {interface} gso_max_segs 1");
    }
    text
}

/// Limits one direction at the root of a device. `end` selects the address of the other host in a
/// packet.
fn direction(text: &mut String, device: &str, end: &str, limits: LinkLimits<'_>) {
    let LinkLimits { all, toward, ports, spared, owner } = limits;
    let root = owner.root_handle();
    let mut queues = Queues { text, device, handle: 0 };
    if toward.is_empty() && spared.is_none() {
        return queues.link("root", all, ports);
    }
    queues.apart("root", &root);
    let links = [all].into_iter().chain(toward.iter().map(|(_, link)| link));
    for (class, link) in (1..).zip(links) {
        let at = queues.class(&root, class);
        queues.link(&at, link, ports);
    }
    // A filter preference can have only one protocol. The spared port comes first.
    if let Some(port) = spared {
        let last = toward.len() + 2;
        queues.class(&root, last);
        queues.port(&root, port, last);
    }
    for ((class, preference), (peers, _)) in (2..).zip(3..).zip(toward) {
        for address in peers {
            queues.filter(&root, preference, &format!("ip u32 match ip {end} {address}/32"), class);
        }
    }
}

/// Commands for `tc` that make the queues of a device.
struct Queues<'a> {
    text: &'a mut String,
    device: &'a str,
    /// Last assigned handle.
    handle: u32,
}

impl Queues<'_> {
    fn handle(&mut self) -> String {
        self.handle += 1;
        format!("{:x}", self.handle)
    }

    /// Adds a link and, within it, the slower ports.
    fn link(&mut self, at: &str, link: &Link, ports: &[PortLink]) {
        let at = self.limit(at, link, queue_bytes);
        if ports.is_empty() {
            return;
        }
        // No packet waits in this queue: each class has its own queue, and the link asks for the
        // next packet.
        let handle = self.handle();
        self.apart(&at, &handle);
        let others = self.class(&handle, 1);
        let waiting = link.rate_bits_per_s.map_or(UNLIMITED_QUEUE_BYTES, |rate| burst_bytes(rate) + queue_bytes(rate));
        let fifo = self.handle();
        let _ = writeln!(self.text, "qdisc add dev {} {others} handle {fifo}: bfifo limit {waiting:.0}", self.device);
        for (class, (port, link)) in (2..).zip(ports) {
            let at = self.class(&handle, class);
            self.limit(&at, link, port_queue_bytes);
            self.port(&handle, *port, class);
        }
    }

    /// Adds a queue that sorts packets into classes. Packets without a matching filter go to class
    /// 1.
    fn apart(&mut self, at: &str, handle: &str) {
        let _ = writeln!(self.text, "qdisc add dev {} {at} handle {handle}: htb default 1", self.device);
    }

    /// Adds a class and returns the `parent …` argument for its queue.
    fn class(&mut self, handle: &str, class: usize) -> String {
        let (device, id) = (self.device, format!("{handle}:{class:x}"));
        let _ = writeln!(
            self.text,
            "class add dev {device} parent {handle}: classid {id} htb rate {UNLIMITED} quantum 200000"
        );
        format!("parent {id}")
    }

    fn filter(&mut self, handle: &str, preference: u32, matched: &str, class: usize) {
        let start = format!("filter add dev {} parent {handle}: prio {preference}", self.device);
        let _ = writeln!(self.text, "{start} protocol {matched} flowid {handle}:{class:x}");
    }

    /// Sorts TCP packets from or to a port into this class.
    fn port(&mut self, handle: &str, port: u16, class: usize) {
        for way in ["sport", "dport"] {
            let v4 = format!("ip u32 match ip protocol 6 0xff match ip {way} {port} 0xffff");
            self.filter(handle, 1, &v4, class);
            let v6 = format!("ipv6 u32 match ip6 protocol 6 0xff match ip6 {way} {port} 0xffff");
            self.filter(handle, 2, &v6, class);
        }
    }

    /// Adds a queue for the delay, then one for the rate. Returns the place for a queue below both.
    fn limit(&mut self, at: &str, link: &Link, queue_bytes: fn(f64) -> f64) -> String {
        let device = self.device;
        let mut at = at.to_owned();
        if let Some(delay_s) = link.delay_s {
            let delay_us = delay_s * 1e6;
            // The queue holds the packets of a fast link during the delay.
            let packets = delay_us.clamp(1000.0, 1e6).round();
            let handle = self.handle();
            let _ = writeln!(
                self.text,
                "qdisc add dev {device} {at} handle {handle}: netem delay {delay_us:.0}us limit {packets}"
            );
            at = format!("parent {handle}:1");
        }
        if let Some(rate) = link.rate_bits_per_s {
            let (burst, queue) = (burst_bytes(rate), burst_bytes(rate) + queue_bytes(rate));
            let handle = self.handle();
            let _ = writeln!(
                self.text,
                "qdisc add dev {device} {at} handle {handle}: tbf rate {rate:.0}bit burst {burst:.0} limit {queue:.0}"
            );
            at = format!("parent {handle}:1");
        }
        at
    }
}

/// Returns the bytes that may pass at once: the link's bytes in 4 ms, so that a late timer costs no
/// throughput.
fn burst_bytes(rate_bits_per_s: f64) -> f64 {
    (rate_bits_per_s / 8.0 * 0.004).max(2.0 * FRAME_BYTES).round()
}

/// Returns the bytes that may wait for a link: those of 50 ms, and at least the initial bursts of
/// two connections, including large segments.
fn queue_bytes(rate_bits_per_s: f64) -> f64 {
    (rate_bits_per_s / 8.0 * 0.05).max(100.0 * FRAME_BYTES).round()
}

/// Returns the bytes that may wait for a port: those of 300 ms, because this wait is the intended
/// lag, and TCP must see a queue instead of loss. At least twice the initial bursts of two
/// connections.
fn port_queue_bytes(rate_bits_per_s: f64) -> f64 {
    (rate_bits_per_s / 8.0 * 0.3).max(40.0 * FRAME_BYTES).round()
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use rustix::process::geteuid;

    use super::*;

    const HERE: Ipv4Addr = Ipv4Addr::new(10, 83, 0, 1);
    const THERE: Ipv4Addr = Ipv4Addr::new(10, 83, 0, 2);

    /// Runs a function on a thread in a new network namespace.
    fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        if !geteuid().is_root() {
            println!("skipped: namespaces need root");
            return None;
        }
        // `make check` installs nothing. `make test` installs these programs.
        if let Some(missing) =
            ["ip", "tc", "nft"].into_iter().find(|name| Command::new(name).arg("-V").output().is_err())
        {
            println!("skipped: {missing} is not installed");
            return None;
        }
        let there = move || {
            crate::leave_network().unwrap();
            ip("link set lo up\n").unwrap();
            work()
        };
        Some(std::thread::Builder::new().spawn(there).unwrap().join().unwrap())
    }

    fn said(program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    fn link(rate: Option<f64>, loss: Option<f64>) -> Link {
        Link { rate_bits_per_s: rate, delay_s: None, loss_pct: loss }
    }

    #[test]
    fn a_link_is_limited_in_both_directions_and_restored() {
        let profile = link(Some(100e6), None);
        apart(move || {
            ip("link add eth0 type veth peer name far\nlink set eth0 up\nlink set far up\n").unwrap();
            assert_eq!(interfaces(), ["far", "eth0"]);
            shape("eth0", LinkLimits::of(&profile)).unwrap();
            let qdiscs = || said("tc", &["qdisc"]);
            let before = qdiscs();
            assert_eq!(before.matches("qdisc tbf").count(), 2, "{before}");
            assert!(before.contains("rate 100Mbit"), "{before}");
            // Slower toward one host only, then with loss.
            shape("eth0", LinkLimits { toward: &[(vec![THERE], link(Some(1e6), None))], ..LinkLimits::of(&profile) })
                .unwrap();
            let now = qdiscs();
            assert_eq!(now.matches("qdisc htb").count(), 2, "{now}");
            assert_eq!((now.matches("rate 1Mbit").count(), now.matches("rate 100Mbit").count()), (2, 2), "{now}");
            shape("eth0", LinkLimits { toward: &[(vec![THERE], link(None, Some(1.5)))], ..LinkLimits::of(&profile) })
                .unwrap();
            assert!(said("nft", &["list", "ruleset"]).contains("numgen random mod 1000000 < 15000"));
            shape("eth0", LinkLimits::of(&profile)).unwrap();
            let handles = |text: &str| text.replace(char::is_numeric, "");
            assert_eq!(handles(&qdiscs()), handles(&before));
            shape("eth0", LinkLimits::of(&Link::default())).unwrap();
            assert!(!qdiscs().contains("tbf"));
            assert!(!said("ip", &["link"]).contains("ifb"));
            assert_eq!(said("nft", &["list", "ruleset"]), "");
        });
    }

    #[test]
    fn an_interface_comes_up_again_with_its_routes() {
        apart(|| {
            ip("link add eth0 type veth peer name far\nlink set far up\naddress add 10.83.0.1/24 dev eth0\n").unwrap();
            ip("link set eth0 up\nroute add 10.83.1.0/24 via 10.83.0.9\n").unwrap();
            let before = said("ip", &["route"]);
            down("eth0").unwrap();
            down("eth0").unwrap();
            assert_eq!(said("ip", &["route"]), "");
            up("eth0").unwrap();
            assert_eq!(said("ip", &["route"]), before);
        });
    }

    #[test]
    fn a_delay_without_netem_leaves_nothing() {
        apart(|| {
            ip("link add eth0 type veth peer name far\nlink set eth0 up\n").unwrap();
            let slow = Link { rate_bits_per_s: Some(1e6), delay_s: Some(0.01), loss_pct: None };
            match shape("eth0", LinkLimits::of(&slow)) {
                Ok(()) => assert!(said("tc", &["qdisc"]).contains("delay 10ms")),
                Err(trouble) => {
                    assert_eq!(trouble.to_string(), "not supported by this kernel: netem is missing");
                    assert!(!said("tc", &["qdisc"]).contains("tbf"));
                    assert!(!said("ip", &["link"]).contains("ifb"));
                }
            }
        });
    }

    /// Makes two namespaces with a cable between them. Data that arrives in the second is sent to
    /// the channel.
    fn with_a_neighbour(work: impl FnOnce(&UdpSocket, &Receiver<u8>) + Send + 'static) {
        apart(|| {
            let (tid_in, tid) = channel::<i32>();
            let (go_in, go) = channel::<()>();
            let (heard_in, heard) = channel::<u8>();
            let listen = move || neighbour(&tid_in, &go, &heard_in);
            let neighbour = std::thread::Builder::new().spawn(listen).unwrap();
            let tid = tid.recv().unwrap();
            ip(&format!(
                "link add eth0 type veth peer name eth0 netns {tid}\naddress add {HERE}/24 dev eth0\nlink set eth0 up\n"
            ))
            .unwrap();
            go_in.send(()).unwrap();
            assert_eq!(heard.recv().unwrap(), 0, "it listens");
            let socket = UdpSocket::bind((HERE, 0)).unwrap();
            socket.connect((THERE, 9)).unwrap();
            work(&socket, &heard);
            uncut_all(&ALONE).unwrap();
            socket.send(&[255]).unwrap();
            neighbour.join().unwrap();
        });
    }

    fn neighbour(tid: &Sender<i32>, go: &Receiver<()>, heard: &Sender<u8>) {
        crate::leave_network().unwrap();
        tid.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        go.recv().unwrap();
        ip(&format!("address add {THERE}/24 dev eth0\nlink set eth0 up\n")).unwrap();
        let socket = UdpSocket::bind((THERE, 9)).unwrap();
        heard.send(0).unwrap();
        let mut byte = [0];
        while socket.recv(&mut byte).is_ok() && byte[0] != 255 {
            heard.send(byte[0]).unwrap();
        }
    }

    #[test]
    fn cut_packets_vanish_without_an_error() {
        let only = |whom: &[Ipv4Addr]| Some(whom.to_vec());
        with_a_neighbour(move |socket, heard| {
            let send = |byte: u8| socket.send(&[byte]).expect("whoever sends is not told");
            send(1);
            assert_eq!(heard.recv().unwrap(), 1);
            let cuts = [Cut { from: only(&[]), to: only(&[THERE]) }, Cut { from: None, to: None }];
            for cut in &cuts {
                super::cut(std::slice::from_ref(cut), None, &ALONE).unwrap();
                send(2);
            }
            cut(&[Cut { from: only(&[THERE]), to: only(&[HERE]) }], None, &ALONE).unwrap();
            send(4);
            assert_eq!(heard.recv().unwrap(), 4);
            uncut_all(&ALONE).unwrap();
            send(5);
            assert_eq!(heard.recv().unwrap(), 5);
            assert_eq!(said("nft", &["list", "ruleset"]), "");
        });
    }

    #[test]
    fn full_loss_drops_every_packet() {
        with_a_neighbour(|socket, heard| {
            shape("eth0", LinkLimits::of(&link(Some(1e9), Some(100.0)))).unwrap();
            socket.send(&[1]).unwrap();
            shape("eth0", LinkLimits::of(&Link::default())).unwrap();
            socket.send(&[2]).unwrap();
            assert_eq!(heard.recv_timeout(Duration::from_secs(20)).unwrap(), 2);
        });
    }

    #[test]
    fn a_run_removes_only_its_own_limits() {
        let (one, other) = (Ownership::of("plimsoll-run-1-n1"), Ownership::of("plimsoll-run-2-n1"));
        assert_ne!(one.root_handle(), other.root_handle());
        apart(move || {
            ip("link add eth0 type veth peer name far\nlink set eth0 up\nlink set far up\n").unwrap();
            let slow = link(Some(1e6), Some(5.0));
            let limits = LinkLimits { spared: Some(22), owner: &one, ..LinkLimits::of(&slow) };
            shape("eth0", limits).unwrap();
            cut(&[Cut { from: None, to: None }], Some(22), &one).unwrap();
            let in_force =
                || said("tc", &["qdisc"]) + &said("ip", &["-o", "link"]) + &said("nft", &["list", "ruleset"]);
            let before = in_force();
            assert!(one.has_shaped(&said("tc", &["qdisc", "show", "dev", "eth0"])), "{before}");
            let tables = said("nft", &["list", "tables"]);
            assert_eq!(other.others_losses("eth0", &tables).as_deref(), Some("plimsoll-run-1-n1.eth0"));
            assert_eq!((one.others_losses("eth0", &tables), other.others_losses("eth1", &tables)), (None, None));

            uncut_all(&other).unwrap();
            shape("eth0", LinkLimits { spared: Some(22), owner: &other, ..LinkLimits::of(&Link::default()) }).unwrap();
            assert_eq!(in_force(), before);
            uncut_all(&one).unwrap();
            shape("eth0", LinkLimits { spared: Some(22), owner: &one, ..LinkLimits::of(&Link::default()) }).unwrap();
            assert_eq!(said("nft", &["list", "ruleset"]), "");
            assert!(!said("tc", &["qdisc"]).contains("htb") && !said("ip", &["-o", "link"]).contains("ifb"));
        });
    }

    #[test]
    fn program_errors_are_translated() {
        let missing = understood(
            "limit a link",
            "a\nqdisc add dev x root netem delay 1ms\n",
            "Error: Specified qdisc kind is unknown.\nCommand failed -:2\n",
        );
        assert_eq!(missing.to_string(), "not supported by this kernel: netem is missing");
        let wrong =
            understood("set up interfaces", "link set x up\n", "Cannot find device \"x\"\nCommand failed -:1\n");
        assert_eq!(wrong.to_string(), "cannot set up interfaces: Cannot find device \"x\" (at `link set x up`)");
        let none = run("plimsoll-no-such-program", &[], "", "do it").unwrap_err();
        assert_eq!(none, NetworkError::NoProgram("plimsoll-no-such-program".to_owned()));
    }

    #[test]
    fn the_first_matching_rule_decides() {
        let peer = Ipv4Addr::new(10, 83, 0, 2);
        let lossy = Link { loss_pct: Some(10.0), ..Link::default() };
        let rules = losses(&Link::default(), &[(vec![peer], lossy)]);
        let mut text = String::new();
        chain(&mut text, "saddr", &rules, None, "drop");
        let expected = "\
ip saddr { 10.83.0.2 } numgen random mod 1000000 < 100000 drop
ip saddr { 10.83.0.2 } accept
meta protocol { ip, ip6 } numgen random mod 1000000 < 0 drop
meta protocol { ip, ip6 } accept
";
        assert_eq!(text, expected);
    }

    #[test]
    fn an_empty_peer_list_matches_nothing() {
        let mut text = String::new();
        let rule = |whom| LossRule { whom, loss_pct: 100.0 };
        chain(&mut text, "daddr", &[rule(Some(Vec::new()))], None, "drop");
        assert_eq!(text, "");
        chain(&mut text, "daddr", &[rule(None)], Some(22), "fwd to \"lo\"");
        assert!(text.starts_with("tcp sport 22 accept\ntcp dport 22 accept\nicmpv6 "), "{text}");
        assert!(text.ends_with("== 00:00:00:00:00:00 fwd to \"lo\"\n"), "{text}");
    }

    #[test]
    fn a_table_name_has_no_odd_characters() {
        assert_eq!(ALONE.losses_table("enp1s0.4"), "plimsoll.enp1s0_4");
    }

    #[test]
    fn a_link_without_limits_needs_no_commands() {
        assert_eq!(commands("eth0", LinkLimits::of(&Link::default())), Commands::default());
    }

    #[test]
    fn a_rate_holds_both_ways_and_a_delay_one_way() {
        let link = Link { rate_bits_per_s: Some(10e6), delay_s: Some(0.0015), loss_pct: None };
        let text = commands("eth0", LinkLimits::of(&link));
        assert_eq!(text.ip, "link add ifb-eth0 type ifb\nlink set ifb-eth0 up\n");
        let expected = "\
qdisc add dev eth0 root handle 1: netem delay 1500us limit 1500
qdisc add dev eth0 parent 1:1 handle 2: tbf rate 10000000bit burst 5000 limit 156400
qdisc add dev eth0 ingress
filter add dev eth0 parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev ifb-eth0
qdisc add dev ifb-eth0 root handle 1: tbf rate 10000000bit burst 5000 limit 156400
";
        assert_eq!(text.tc, expected);
    }

    #[test]
    fn loss_disables_segmentation_offload() {
        let link = Link { loss_pct: Some(1.0), ..Link::default() };
        let text = commands("eth0", LinkLimits::of(&link));
        assert_eq!((text.ip.as_str(), text.tc.as_str()), ("link set eth0 gso_max_segs 1\n", ""));
    }

    #[test]
    fn routes_are_restored_with_their_interface() {
        let routes =
            "10.83.0.0/24 proto kernel scope link src 10.83.0.2 linkdown\n10.83.1.0/24 via 10.83.0.1 linkdown \n";
        assert_eq!(again("eth0", routes), "route replace 10.83.1.0/24 via 10.83.0.1 dev eth0\n");
    }

    #[test]
    fn a_slow_port_is_limited_within_the_link() {
        let link = Link { rate_bits_per_s: Some(100e6), ..Link::default() };
        let ports = [(7000, Link { rate_bits_per_s: Some(2e6), delay_s: Some(0.005), loss_pct: None })];
        let text = commands("eth0", LinkLimits { ports: &ports, ..LinkLimits::of(&link) });
        let expected = "\
qdisc add dev eth0 root handle 1: tbf rate 100000000bit burst 50000 limit 675000
qdisc add dev eth0 parent 1:1 handle 2: htb default 1
class add dev eth0 parent 2: classid 2:1 htb rate 400gbit quantum 200000
qdisc add dev eth0 parent 2:1 handle 3: bfifo limit 675000
class add dev eth0 parent 2: classid 2:2 htb rate 400gbit quantum 200000
qdisc add dev eth0 parent 2:2 handle 4: netem delay 5000us limit 5000
qdisc add dev eth0 parent 4:1 handle 5: tbf rate 2000000bit burst 3028 limit 78028
filter add dev eth0 parent 2: prio 1 protocol ip u32 match ip protocol 6 0xff match ip sport 7000 0xffff flowid 2:2
filter add dev eth0 parent 2: prio 2 protocol ipv6 u32 match ip6 protocol 6 0xff match ip6 sport 7000 0xffff flowid 2:2
filter add dev eth0 parent 2: prio 1 protocol ip u32 match ip protocol 6 0xff match ip dport 7000 0xffff flowid 2:2
filter add dev eth0 parent 2: prio 2 protocol ipv6 u32 match ip6 protocol 6 0xff match ip6 dport 7000 0xffff flowid 2:2
";
        let (leaving, arriving) = text.tc.split_once("qdisc add dev eth0 ingress\n").unwrap();
        assert_eq!(leaving, expected);
        assert!(!arriving.contains("netem"), "{arriving}");
        assert!(
            arriving.contains("dev ifb-eth0 parent 2:2 handle 4: tbf rate 2000000bit burst 3028 limit 78028"),
            "{arriving}"
        );
    }

    #[test]
    fn a_port_delay_applies_to_one_direction() {
        let ports = [(7000, Link { delay_s: Some(0.005), ..Link::default() })];
        let text = commands("eth0", LinkLimits { ports: &ports, ..LinkLimits::of(&Link::default()) });
        assert_eq!((text.ip.as_str(), text.tc.matches("netem").count()), ("", 1));
    }

    #[test]
    fn a_slow_port_spares_the_control_connection() {
        let (link, slow) = (Link::default(), Link { rate_bits_per_s: Some(1e6), ..Link::default() });
        let toward = [(vec![[10, 83, 0, 2].into()], Link { rate_bits_per_s: Some(5e6), ..Link::default() })];
        let text = commands(
            "eth0",
            LinkLimits { all: &link, toward: &toward, ports: &[(7000, slow)], spared: Some(22), owner: &ALONE },
        );
        assert_eq!((text.tc.matches("rate 1000000bit").count(), text.tc.matches("rate 5000000bit").count()), (4, 2));
        assert!(text.tc.contains("match ip dport 22 0xffff flowid 9e83:3\n"));
        assert!(text.tc.starts_with("qdisc add dev eth0 root handle 9e83: htb default 1\n"));
    }
}
