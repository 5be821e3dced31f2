//! Ports for outgoing connections.

use super::{About, Finding, Kind, NOT_TOLD, OF_LAB, Patient, Tuning};

pub static RANGE: Kind = Kind {
    name: "local ports",
    about: About::Network,
    reads: "net.ipv4.ip_local_port_range",
    why: "connections to one address need a local port each, and one that was closed keeps it for a minute",
    source: "https://docs.kernel.org/networking/ip-sysctl.html",
    caught_by: &["failed_connects"],
    article: Some(Tuning {
        number: 3,
        says: "ip_local_port_range 1024 65535",
        worth: "only beyond 28,000 connections to one address, or 470 new ones a second: the default has 28,232 ports",
    }),
    look: look_at_range,
};

pub static REUSE: Kind = Kind {
    name: "reuse of ports",
    about: About::Network,
    reads: "net.ipv4.tcp_tw_reuse",
    why: "a load that connects again and again runs out of ports that wait a minute after their connection's end",
    source: "https://docs.kernel.org/networking/ip-sysctl.html",
    caught_by: &["failed_connects"],
    article: None,
    look: look_at_reuse,
};

/// Of a new network: 32768 to 60999.
const DEFAULT: u64 = 28_232;
/// Fewer than this and agents that reconnect run out soon.
const FEW: u64 = 16_000;

fn look_at_range(patient: &Patient<'_>) -> Finding {
    let name = "net.ipv4.ip_local_port_range";
    let Some([first, last]) = patient.sysctl(name).and_then(|numbers| <[u64; 2]>::try_from(numbers).ok()) else {
        return Finding::unknown(NOT_TOLD);
    };
    let ports = last.saturating_sub(first) + 1;
    let needed = patient.asked.map(|asked| asked.agents.div_ceil(asked.services.max(1) * asked.sources.max(1)));
    if patient.is_in_lab() {
        return match needed {
            Some(needed) if needed > DEFAULT => Finding::bad(
                format!("{DEFAULT} in the lab's own networks, and {needed} connections go to one address"),
                "use fewer agents, or more hosts that serve",
            ),
            _ => Finding::good(OF_LAB),
        };
    }
    let is_on_loopback = patient.asked.is_some_and(|asked| asked.is_on_loopback);
    let widened = || patient.fix_sysctl(name, "1024 65535");
    match needed {
        Some(needed) if ports < needed && is_on_loopback => Finding::good(format!(
            "{ports} for each local address, and on the loopback agents connect from several: {needed} connections go to one address"
        )),
        Some(needed) if ports < needed => {
            let found = format!("{ports}, and {needed} connections go to one address");
            let remedy = if needed > 64_512 {
                "give the service more addresses, name more local ones in `load.from`, or use fewer agents"
            } else {
                "widen the range"
            };
            Finding::bad(found, remedy).fixed_by(widened().filter(|_| needed <= 64_512))
        }
        _ if ports < FEW => {
            Finding::notice(format!("{ports} ({first} to {last})"), "widen the range").fixed_by(widened())
        }
        _ => Finding::good(format!("{ports}: as many connections to one address")),
    }
}

fn look_at_reuse(patient: &Patient<'_>) -> Finding {
    if patient.is_in_lab() {
        return Finding::good(OF_LAB);
    }
    let name = "net.ipv4.tcp_tw_reuse";
    match patient.sysctl(name).as_deref() {
        Some([0]) => Finding::notice("never", "allow it where it is safe").fixed_by(patient.fix_sysctl(name, "1")),
        Some([2]) => Finding::good("on the loopback, where labs and local targets are"),
        Some([_]) => Finding::good("everywhere"),
        _ => Finding::unknown(NOT_TOLD),
    }
}
