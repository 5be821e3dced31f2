//! What a link is like: its rate by tbf, as packets leave and, through an ifb device, as they arrive; delay by netem; loss by
//! [`super::drops`]. It must not know why.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};

use experiment::profile::Link;

use super::{Trouble, drops, ip, ip_says, tc};

/// More than any link: for the packets that a class only tells from others.
const UNLIMITED: &str = "400gbit";
/// Major number of a queue that tells packets apart: by it, what was left over is known for ours.
const ROOT: &str = "9e83";
/// Of a full Ethernet frame.
const FRAME_BYTES: f64 = 1514.0;

/// Routes that went with an interface that was taken down, as `ip` writes them.
static GONE: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// What a link is like toward some; whoever is in two of them belongs to the first.
pub type Toward = (Vec<Ipv4Addr>, Link);

/// Makes a link like `all`, but toward some like that, and without any limit for TCP port `spared`, here or there. Whatever it was like before is over, also if this fails.
pub fn shape(interface: &str, all: &Link, toward: &[Toward], spared: Option<u16>) -> Result<(), Trouble> {
    clear(interface);
    impose(interface, all, toward, spared).inspect_err(|_| clear(interface))
}

/// Like [`shape`], for an interface that nothing was done to.
pub fn impose(interface: &str, all: &Link, toward: &[Toward], spared: Option<u16>) -> Result<(), Trouble> {
    let text = commands(interface, all, toward, spared);
    if !text.ip.is_empty() {
        ip(&text.ip)?;
    }
    if !text.tc.is_empty() {
        tc(&text.tc)?;
    }
    drops::lose(interface, all, toward, spared)
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

/// Takes every limit off. What is not there cannot be removed, and that is no trouble.
fn clear(interface: &str) {
    // One at a time: a batch ends at the first that fails.
    let _ = tc(&format!("qdisc del dev {interface} root\n"));
    let _ = tc(&format!("qdisc del dev {interface} ingress\n"));
    let _ = ip(&format!("link del {}\n", arriving(interface)));
    drops::lose_nothing(interface);
}

/// The device that what arrives is sent through.
fn arriving(interface: &str) -> String {
    // The kernel takes 15 bytes.
    format!("ifb-{interface}").chars().take(15).collect()
}

/// What `ip` and `tc` are told.
#[derive(Debug, Default, PartialEq, Eq)]
struct Commands {
    ip: String,
    tc: String,
}

fn commands(interface: &str, all: &Link, toward: &[Toward], spared: Option<u16>) -> Commands {
    let mut text = Commands::default();
    let links = || toward.iter().map(|(_, link)| link).chain([all]);
    let is_limited = links().any(|link| link.rate_bits_per_s.is_some());
    if is_limited || links().any(|link| link.delay_s.is_some()) {
        direction(&mut text.tc, interface, "dst", (all, toward), spared);
    }
    if is_limited {
        let ifb = arriving(interface);
        let _ = writeln!(text.ip, "link add {ifb} type ifb\nlink set {ifb} up");
        let redirect = format!("u32 match u32 0 0 action mirred egress redirect dev {ifb}");
        let _ = writeln!(text.tc, "qdisc add dev {interface} ingress");
        let _ = writeln!(text.tc, "filter add dev {interface} parent ffff: protocol all {redirect}");
        // Only what leaves is delayed: else both ends of a link would delay it.
        let undelayed = |link: &Link| Link { delay_s: None, ..link.clone() };
        let toward: Vec<Toward> = toward.iter().map(|(peers, link)| (peers.clone(), undelayed(link))).collect();
        direction(&mut text.tc, &ifb, "src", (&undelayed(all), &toward), spared);
    }
    // A large segment that the kernel cuts up at the very end would be lost as a whole.
    if links().any(|link| link.loss_pct.is_some()) {
        let _ = writeln!(text.ip, "link set {interface} gso_max_segs 1");
    }
    text
}

/// Limits one direction at the root of a device; `end` is which address of a packet is the other host's.
fn direction(text: &mut String, device: &str, end: &str, (all, toward): (&Link, &[Toward]), spared: Option<u16>) {
    if toward.is_empty() && spared.is_none() {
        return limit(text, device, "root", 1, all);
    }
    let _ = writeln!(text, "qdisc add dev {device} root handle {ROOT}: htb default 1");
    let unlimited = Link::default();
    let links = [all].into_iter().chain(toward.iter().map(|(_, link)| link)).chain(spared.map(|_| &unlimited));
    for (class, link) in (1..).zip(links) {
        let class_id = format!("{ROOT}:{class:x}");
        let _ = writeln!(
            text,
            "class add dev {device} parent {ROOT}: classid {class_id} htb rate {UNLIMITED} quantum 200000"
        );
        limit(text, device, &format!("parent {class_id}"), class * 0x10, link);
    }
    // One protocol may have one preference. What is spared comes first.
    let mut filter = |preference: u32, matched: &str, class: usize| {
        let start = format!("filter add dev {device} parent {ROOT}: prio {preference}");
        let _ = writeln!(text, "{start} protocol {matched} flowid {ROOT}:{class:x}");
    };
    if let Some(port) = spared {
        for way in ["sport", "dport"] {
            let last = toward.len() + 2;
            filter(1, &format!("ip u32 match ip protocol 6 0xff match ip {way} {port} 0xffff"), last);
            filter(2, &format!("ipv6 u32 match ip6 protocol 6 0xff match ip6 {way} {port} 0xffff"), last);
        }
    }
    for ((class, preference), (peers, _)) in (2..).zip(3..).zip(toward) {
        for address in peers {
            filter(preference, &format!("ip u32 match ip {end} {address}/32"), class);
        }
    }
}

/// Delay, then rate. Handles count from `handle`.
fn limit(text: &mut String, device: &str, at: &str, handle: u32, link: &Link) {
    let mut at = at.to_owned();
    let mut handle = handle;
    if let Some(delay_s) = link.delay_s {
        let delay_us = delay_s * 1e6;
        // Its queue holds what a fast link carries in that time.
        let packets = delay_us.clamp(1000.0, 1e6).round();
        let _ = writeln!(
            text,
            "qdisc add dev {device} {at} handle {handle:x}: netem delay {delay_us:.0}us limit {packets}"
        );
        at = format!("parent {handle:x}:1");
        handle += 1;
    }
    if let Some(rate) = link.rate_bits_per_s {
        let (burst, queue) = (burst_bytes(rate), burst_bytes(rate) + queue_bytes(rate));
        let _ = writeln!(
            text,
            "qdisc add dev {device} {at} handle {handle:x}: tbf rate {rate:.0}bit burst {burst:.0} limit {queue:.0}"
        );
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

#[cfg(test)]
mod tests;
