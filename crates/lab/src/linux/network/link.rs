//! What a link is like: its rate by tbf, as packets leave and, through an ifb device, as they arrive; delay by netem; loss by
//! [`super::drops`]. A TCP port can be slower than the link it is on. It must not know why.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};

use experiment::profile::Link;

use super::{ALONE, Ownership, Trouble, drops, ip, ip_says, tc, tc_says};

/// More than any link: for the packets that a class only tells from others.
const UNLIMITED: &str = "400gbit";
/// What may wait where nothing has to.
const UNLIMITED_QUEUE_BYTES: f64 = (4 << 20) as f64;
/// Of a full Ethernet frame.
const FRAME_BYTES: f64 = 1514.0;

/// Routes that went with an interface that was taken down, as `ip` writes them.
static GONE: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// What a link is like toward some; whoever is in two of them belongs to the first.
pub type Toward = (Vec<Ipv4Addr>, Link);

/// What TCP packets from or to a port, here or there, have of a link.
pub type Port = (u16, Link);

/// What an interface is to be like.
#[derive(Debug, Clone, Copy)]
pub struct Limits<'a> {
    /// The link toward everybody.
    pub all: &'a Link,
    /// … but for these.
    pub toward: &'a [Toward],
    /// What of it these ports have at most, each by itself; what passes there has passed the link as well.
    pub ports: &'a [Port],
    /// A TCP port, here or there, without any limit.
    pub spared: Option<u16>,
    /// Whose limits these are.
    pub owner: &'a Ownership,
}

impl<'a> Limits<'a> {
    /// The same toward everybody, through every port.
    pub fn of(all: &'a Link) -> Self {
        Self { all, toward: &[], ports: &[], spared: None, owner: &ALONE }
    }

    fn links(&self) -> impl Iterator<Item = &'a Link> {
        let toward = self.toward.iter().map(|(_, link)| link);
        toward.chain(self.ports.iter().map(|(_, link)| link)).chain([self.all])
    }
}

/// Makes an interface like that. Whatever the same owner made of it before is over, also if this fails.
pub fn shape(interface: &str, limits: Limits<'_>) -> Result<(), Trouble> {
    clear(interface, limits.owner);
    impose(interface, limits).inspect_err(|_| clear(interface, limits.owner))
}

/// Like [`shape`], for an interface that nothing was done to.
pub fn impose(interface: &str, limits: Limits<'_>) -> Result<(), Trouble> {
    let text = commands(interface, limits);
    if !text.ip.is_empty() {
        ip(&text.ip)?;
    }
    if !text.tc.is_empty() {
        tc(&text.tc)?;
    }
    drops::lose(interface, &limits)
}

/// Takes an interface down. The kernel forgets its routes; [`up`] makes them again.
pub fn down(interface: &str) -> Result<(), Trouble> {
    let routes = ip_says(&["-o", "route", "show", "dev", interface])?;
    ip(&format!("link set {interface} down\n"))?;
    let mut gone = GONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Of one that is down already there is nothing to be learned.
    gone.entry(interface.to_owned()).or_insert(routes);
    Ok(())
}

/// Brings an interface up, with the routes that it had.
pub fn up(interface: &str) -> Result<(), Trouble> {
    ip(&format!("link set {interface} up\n"))?;
    let gone = GONE.lock().unwrap_or_else(PoisonError::into_inner).remove(interface);
    let again = again(interface, &gone.unwrap_or_default());
    if again.is_empty() { Ok(()) } else { ip(&again) }
}

/// What makes routes again that `ip route show` showed. Those to an interface's own network the kernel makes itself.
fn again(interface: &str, routes: &str) -> String {
    let made = routes.lines().map(str::trim).filter(|route| !route.is_empty() && !route.contains("proto kernel"));
    made.map(|route| format!("route replace {} dev {interface}\n", route.replace(" linkdown", ""))).collect()
}

/// Takes every limit off that is the owner's. What is not there cannot be removed, and that is no trouble.
fn clear(interface: &str, owner: &Ownership) {
    if owner.has_shaped(&tc_says(&["qdisc", "show", "dev", interface]).unwrap_or_default()) {
        // One at a time: a batch ends at the first that fails.
        let _ = tc(&format!("qdisc del dev {interface} root\n"));
        let _ = tc(&format!("qdisc del dev {interface} ingress\n"));
    }
    let _ = ip(&format!("link del {}\n", owner.arriving(interface)));
    drops::lose_nothing(interface, owner);
}

/// What `ip` and `tc` are told.
#[derive(Debug, Default, PartialEq, Eq)]
struct Commands {
    ip: String,
    tc: String,
}

fn commands(interface: &str, limits: Limits<'_>) -> Commands {
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
        // Only what leaves is delayed: else both ends of a link would delay it.
        let undelayed = |link: &Link| Link { delay_s: None, ..link.clone() };
        let all = undelayed(limits.all);
        let toward: Vec<Toward> = limits.toward.iter().map(|(peers, link)| (peers.clone(), undelayed(link))).collect();
        let slow = limits.ports.iter().filter(|(_, link)| link.rate_bits_per_s.is_some());
        let ports: Vec<Port> = slow.map(|(port, link)| (*port, undelayed(link))).collect();
        let arriving = Limits { all: &all, toward: &toward, ports: &ports, ..limits };
        direction(&mut text.tc, &ifb, "src", arriving);
    }
    // A large segment that the kernel cuts up at the very end would be lost as a whole.
    if limits.links().any(|link| link.loss_pct.is_some()) {
        let _ = writeln!(text.ip, "link set {interface} gso_max_segs 1");
    }
    text
}

/// Limits one direction at the root of a device; `end` is which address of a packet is the other host's.
fn direction(text: &mut String, device: &str, end: &str, limits: Limits<'_>) {
    let Limits { all, toward, ports, spared, owner } = limits;
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
    // One protocol may have one preference. What is spared comes first.
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

/// Queues of a device, as `tc` is told to make them.
struct Queues<'a> {
    text: &'a mut String,
    device: &'a str,
    /// The last that was given.
    handle: u32,
}

impl Queues<'_> {
    fn handle(&mut self) -> String {
        self.handle += 1;
        format!("{:x}", self.handle)
    }

    /// A link, and within it the ports that are slower.
    fn link(&mut self, at: &str, link: &Link, ports: &[Port]) {
        let at = self.limit(at, link, queue_bytes);
        if ports.is_empty() {
            return;
        }
        // Nothing waits here: each class has a queue of its own, and whoever asks for the next packet is the link.
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

    /// Tells packets from each other; those that no filter is about belong to class 1.
    fn apart(&mut self, at: &str, handle: &str) {
        let _ = writeln!(self.text, "qdisc add dev {} {at} handle {handle}: htb default 1", self.device);
    }

    /// A class of them; where its queue goes.
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

    /// TCP packets from or to a port belong to this class.
    fn port(&mut self, handle: &str, port: u16, class: usize) {
        for way in ["sport", "dport"] {
            let v4 = format!("ip u32 match ip protocol 6 0xff match ip {way} {port} 0xffff");
            self.filter(handle, 1, &v4, class);
            let v6 = format!("ipv6 u32 match ip6 protocol 6 0xff match ip6 {way} {port} 0xffff");
            self.filter(handle, 2, &v6, class);
        }
    }

    /// Delay, then rate; where what comes before them goes.
    fn limit(&mut self, at: &str, link: &Link, queue_bytes: fn(f64) -> f64) -> String {
        let device = self.device;
        let mut at = at.to_owned();
        if let Some(delay_s) = link.delay_s {
            let delay_us = delay_s * 1e6;
            // Its queue holds what a fast link carries in that time.
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

/// How much may pass at once: what the link carries in 4 ms, so that a late timer loses nothing.
fn burst_bytes(rate_bits_per_s: f64) -> f64 {
    (rate_bits_per_s / 8.0 * 0.004).max(2.0 * FRAME_BYTES).round()
}

/// How much may wait: 50 ms, and at least what two connections send at once at their begin, large segments included.
fn queue_bytes(rate_bits_per_s: f64) -> f64 {
    (rate_bits_per_s / 8.0 * 0.05).max(100.0 * FRAME_BYTES).round()
}

/// How much may wait for a port: 300 ms, for what waits there is the lag that is wanted, and TCP has to see it as a queue and
/// not as loss; at least what two connections send at once at their begin, and as much again.
fn port_queue_bytes(rate_bits_per_s: f64) -> f64 {
    (rate_bits_per_s / 8.0 * 0.3).max(40.0 * FRAME_BYTES).round()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_about_a_link_without_limits() {
        assert_eq!(commands("eth0", Limits::of(&Link::default())), Commands::default());
    }

    #[test]
    fn a_rate_holds_both_ways_and_a_delay_one_way() {
        let link = Link { rate_bits_per_s: Some(10e6), delay_s: Some(0.0015), loss_pct: None };
        let text = commands("eth0", Limits::of(&link));
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
    fn large_segments_are_cut_up_before_they_are_lost() {
        let link = Link { loss_pct: Some(1.0), ..Link::default() };
        let text = commands("eth0", Limits::of(&link));
        assert_eq!((text.ip.as_str(), text.tc.as_str()), ("link set eth0 gso_max_segs 1\n", ""));
    }

    #[test]
    fn routes_that_went_with_an_interface_are_made_again() {
        let routes =
            "10.83.0.0/24 proto kernel scope link src 10.83.0.2 linkdown\n10.83.1.0/24 via 10.83.0.1 linkdown \n";
        assert_eq!(again("eth0", routes), "route replace 10.83.1.0/24 via 10.83.0.1 dev eth0\n");
    }

    #[test]
    fn a_slow_port_has_a_part_of_the_link_both_ways() {
        let link = Link { rate_bits_per_s: Some(100e6), ..Link::default() };
        let ports = [(7000, Link { rate_bits_per_s: Some(2e6), delay_s: Some(0.005), loss_pct: None })];
        let text = commands("eth0", Limits { ports: &ports, ..Limits::of(&link) });
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
    fn a_port_that_is_only_late_is_so_one_way() {
        let ports = [(7000, Link { delay_s: Some(0.005), ..Link::default() })];
        let text = commands("eth0", Limits { ports: &ports, ..Limits::of(&Link::default()) });
        assert_eq!((text.ip.as_str(), text.tc.matches("netem").count()), ("", 1));
    }

    #[test]
    fn a_slow_port_is_slow_toward_everybody_and_spares_the_way_of_orders() {
        let (link, slow) = (Link::default(), Link { rate_bits_per_s: Some(1e6), ..Link::default() });
        let toward = [(vec![[10, 83, 0, 2].into()], Link { rate_bits_per_s: Some(5e6), ..Link::default() })];
        let text = commands(
            "eth0",
            Limits { all: &link, toward: &toward, ports: &[(7000, slow)], spared: Some(22), owner: &ALONE },
        );
        assert_eq!((text.tc.matches("rate 1000000bit").count(), text.tc.matches("rate 5000000bit").count()), (4, 2));
        assert!(text.tc.contains("match ip dport 22 0xffff flowid 9e83:3\n"));
        assert!(text.tc.starts_with("qdisc add dev eth0 root handle 9e83: htb default 1\n"));
    }
}
