//! What a link is like: its rate by tbf, as packets leave and, through an ifb device, as they arrive; delay by netem; loss by
//! [`super::drops`]. It must not know why.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use experiment::profile::Link;

use super::{Trouble, drops, ip, tc};

/// More than any link: for the packets that a class only tells from others.
const UNLIMITED_BITS_PER_S: f64 = 400e9;
/// Of a full Ethernet frame.
const FRAME_BYTES: f64 = 1514.0;

/// Makes a link like `link` toward `peers` and like `otherwise` toward all others; without `peers`, like `link` toward all.
/// Whatever it was like before is over, also if this fails.
pub fn shape(interface: &str, link: &Link, peers: Option<&[Ipv4Addr]>, otherwise: &Link) -> Result<(), Trouble> {
    clear(interface);
    impose(interface, link, peers, otherwise).inspect_err(|_| clear(interface))
}

/// Makes a link what its profile says it is.
pub fn restore(interface: &str, profile: &Link) -> Result<(), Trouble> {
    shape(interface, profile, None, &Link::default())
}

/// Like [`shape`], for an interface that nothing was done to.
pub fn impose(interface: &str, link: &Link, peers: Option<&[Ipv4Addr]>, otherwise: &Link) -> Result<(), Trouble> {
    let text = commands(interface, link, peers, otherwise);
    if !text.ip.is_empty() {
        ip(&text.ip)?;
    }
    if !text.tc.is_empty() {
        tc(&text.tc)?;
    }
    drops::lose(interface, link, peers, otherwise)
}

/// Takes an interface down. Its routes go with it.
pub fn down(interface: &str) -> Result<(), Trouble> {
    ip(&format!("link set {interface} down\n"))
}

/// Brings an interface up. Routes through other hosts have to be made again.
pub fn up(interface: &str) -> Result<(), Trouble> {
    ip(&format!("link set {interface} up\n"))
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

fn commands(interface: &str, link: &Link, peers: Option<&[Ipv4Addr]>, otherwise: &Link) -> Commands {
    let mut text = Commands::default();
    let all = [link, otherwise];
    let links = if peers.is_some() { &all[..] } else { &all[..1] };
    if links.iter().any(|link| link.rate_bits_per_s.is_some() || link.delay_s.is_some()) {
        direction(&mut text.tc, interface, "dst", link, peers, otherwise);
    }
    if links.iter().any(|link| link.rate_bits_per_s.is_some()) {
        let ifb = arriving(interface);
        let _ = writeln!(text.ip, "link add {ifb} type ifb\nlink set {ifb} up");
        let _ = writeln!(text.tc, "qdisc add dev {interface} ingress");
        let _ = writeln!(
            text.tc,
            "filter add dev {interface} parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev {ifb}"
        );
        // Only what leaves is delayed: else both ends of a link would delay it.
        let (link, otherwise) = (undelayed(link), undelayed(otherwise));
        direction(&mut text.tc, &ifb, "src", &link, peers, &otherwise);
    }
    // A large segment that the kernel cuts up at the very end would be lost as a whole.
    if links.iter().any(|link| link.loss_pct.is_some()) {
        let _ = writeln!(text.ip, "link set {interface} gso_max_segs 1");
    }
    text
}

fn undelayed(link: &Link) -> Link {
    Link { delay_s: None, ..link.clone() }
}

/// Limits one direction at the root of a device.
fn direction(text: &mut String, device: &str, peer: &str, link: &Link, peers: Option<&[Ipv4Addr]>, otherwise: &Link) {
    let Some(peers) = peers else { return limit(text, device, "root", 1, link) };
    let _ = writeln!(text, "qdisc add dev {device} root handle 1: htb default 1");
    for class in 1..=2 {
        let _ = writeln!(
            text,
            "class add dev {device} parent 1: classid 1:{class} htb rate {UNLIMITED_BITS_PER_S}bit quantum 200000"
        );
    }
    limit(text, device, "parent 1:1", 0x10, otherwise);
    limit(text, device, "parent 1:2", 0x20, link);
    for address in peers {
        let _ =
            writeln!(text, "filter add dev {device} parent 1: protocol ip u32 match ip {peer} {address}/32 flowid 1:2");
    }
}

/// Delay, then rate. Handles count from `handle`.
fn limit(text: &mut String, device: &str, at: &str, handle: u32, link: &Link) {
    let mut at = at.to_owned();
    let mut handle = handle;
    if let Some(delay_s) = link.delay_s {
        // Its queue is as long as the fastest link makes it in that time.
        let packets = (delay_s * 1e6).clamp(1000.0, 1e6).round();
        let _ = writeln!(
            text,
            "qdisc add dev {device} {at} handle {handle:x}: netem delay {:.0}us limit {packets}",
            delay_s * 1e6
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
