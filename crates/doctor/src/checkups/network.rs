//! Network settings: ports, socket queues and buffers, and connection tracking.

use super::{CheckKind, CheckResult, CheckScope, Fix, MachineSnapshot, NOT_TOLD, OF_LAB, Tuning};

pub static TRACKED: CheckKind = CheckKind {
    name: "connection tracking",
    about: CheckScope::Network,
    reads: "net.netfilter.nf_conntrack_max and _count",
    why: "a full table drops the packets of new connections, on the loopback, too; otherwise every packet costs a \
          look-up",
    source: "https://docs.kernel.org/networking/nf_conntrack-sysctl.html",
    caught_by: &["failed_connects"],
    article: None,
    look: look_at_tracked,
};

fn look_at_tracked(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let entries = ["net.netfilter.nf_conntrack_max", "net.netfilter.nf_conntrack_count"];
    let [Some(most), Some(now)] = entries.map(|name| snapshot.sysctl(name)?.first().copied()) else {
        return CheckResult::good("not loaded");
    };
    // The count is 0 if no rule uses connection tracking. Loading the module alone has no cost.
    if now == 0 {
        return CheckResult::good("loaded, and not on the path: it tracks nothing");
    }
    // A connection stays tracked for one or two minutes after its end.
    let needed = snapshot.agents().unwrap_or(0).saturating_mul(4).max(65_536);
    let found = format!("on the path: {now} of {most} entries are used");
    if most < needed || now > most / 2 {
        let to = needed.max(262_144).to_string();
        return CheckResult::bad(found, "make the table larger")
            .fixed_by(snapshot.fix_sysctl("net.netfilter.nf_conntrack_max", &to));
    }
    CheckResult::good(found)
}

pub static RANGE: CheckKind = CheckKind {
    name: "local ports",
    about: CheckScope::Network,
    reads: "net.ipv4.ip_local_port_range",
    why: "each connection to one address needs a local port, and keeps it for a minute after it is closed",
    source: "https://docs.kernel.org/networking/ip-sysctl.html",
    caught_by: &["local_limits"],
    article: Some(Tuning {
        number: 3,
        says: "ip_local_port_range 1024 65535",
        worth: "only beyond 28,000 connections to one address, or 470 new ones a second: the default has 28,232 ports",
    }),
    look: look_at_range,
};

pub static REUSE: CheckKind = CheckKind {
    name: "reuse of ports",
    about: CheckScope::Network,
    reads: "net.ipv4.tcp_tw_reuse",
    why: "a load that connects again and again runs out of ports: each is kept for a minute after its connection",
    source: "https://docs.kernel.org/networking/ip-sysctl.html",
    caught_by: &["local_limits"],
    article: None,
    look: look_at_reuse,
};

/// Number of local ports in a new network namespace: 32768 to 60999.
const DEFAULT: u64 = 28_232;
/// Number of local ports below which reconnecting agents soon run out of ports.
const FEW: u64 = 16_000;

fn look_at_range(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let name = "net.ipv4.ip_local_port_range";
    let Some([first, last]) = snapshot.sysctl(name).and_then(|numbers| <[u64; 2]>::try_from(numbers).ok()) else {
        return CheckResult::unknown(NOT_TOLD);
    };
    let ports = last.saturating_sub(first) + 1;
    let needed = snapshot.asked.map(|asked| asked.agents.div_ceil(asked.services.max(1) * asked.sources.max(1)));
    if snapshot.is_in_lab() {
        return match needed {
            Some(needed) if needed > DEFAULT => CheckResult::bad(
                format!("{DEFAULT} in the lab's own networks, and {needed} connections go to one address"),
                "use fewer agents, or more hosts that serve",
            ),
            _ => CheckResult::good(OF_LAB),
        };
    }
    let is_on_loopback = snapshot.asked.is_some_and(|asked| asked.is_on_loopback);
    let widened = snapshot.fix_sysctl(name, "1024 65535");
    match needed {
        Some(needed) if ports < needed && is_on_loopback => CheckResult::good(format!(
            "{ports} for each local address, and on the loopback agents connect from several: {needed} connections go to one address"
        )),
        Some(needed) if ports < needed => {
            let found = format!("{ports}, and {needed} connections go to one address");
            let remedy = if needed > 64_512 {
                "give the service more addresses, name more local ones in `load.from`, or use fewer agents"
            } else {
                "widen the range"
            };
            CheckResult::bad(found, remedy).fixed_by(widened.filter(|_| needed <= 64_512))
        }
        _ if ports < FEW => {
            CheckResult::notice(format!("{ports} ({first} to {last})"), "widen the range").fixed_by(widened)
        }
        _ => CheckResult::good(format!("{ports}: the maximum of connections to one address")),
    }
}

fn look_at_reuse(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    if snapshot.is_in_lab() {
        return CheckResult::good(OF_LAB);
    }
    let name = "net.ipv4.tcp_tw_reuse";
    match snapshot.sysctl(name).as_deref() {
        Some([0]) => CheckResult::notice("never", "allow it where it is safe").fixed_by(snapshot.fix_sysctl(name, "1")),
        Some([2]) => CheckResult::good("on the loopback, where labs and local targets are"),
        Some([_]) => CheckResult::good("everywhere"),
        _ => CheckResult::unknown(NOT_TOLD),
    }
}

pub static ACCEPT: CheckKind = CheckKind {
    name: "accept queue",
    about: CheckScope::Network,
    reads: "net.core.somaxconn",
    why: "if many agents connect at once and the queue is full, connections wait for a second until they are tried \
          again",
    source: "https://docs.kernel.org/networking/ip-sysctl.html",
    caught_by: &["failed_connects"],
    article: None,
    look: |snapshot| look_at_queue(snapshot, "net.core.somaxconn", 4096),
};

pub static HALF_OPEN: CheckKind = CheckKind {
    name: "SYN backlog",
    about: CheckScope::Network,
    reads: "net.ipv4.tcp_max_syn_backlog, tcp_syncookies",
    why: "beyond it, connections are made with cookies, without window scaling, or are dropped and tried again after a second",
    source: "https://docs.kernel.org/networking/ip-sysctl.html",
    caught_by: &["failed_connects"],
    article: None,
    look: |snapshot| look_at_queue(snapshot, "net.ipv4.tcp_max_syn_backlog", 4096),
};

/// Queue length that suffices for any number of agents, because a ramp spreads their connection
/// attempts.
const ENOUGH: u64 = 1024;

fn look_at_queue(snapshot: &MachineSnapshot<'_>, name: &str, to: u64) -> CheckResult {
    if snapshot.is_in_lab() {
        return CheckResult::good(OF_LAB);
    }
    let Some([length]) = snapshot.sysctl(name).and_then(|numbers| <[u64; 1]>::try_from(numbers).ok()) else {
        return CheckResult::unknown(NOT_TOLD);
    };
    let knocking = snapshot.asked.map(|asked| asked.at_once);
    let to = to.max(knocking.unwrap_or(0)).to_string();
    match knocking {
        Some(knocking) if knocking > length && length < ENOUGH => CheckResult::bad(
            format!("{length}, and {knocking} agents connect at once"),
            "lengthen it, or give the load a ramp",
        )
        .fixed_by(snapshot.fix_sysctl(name, &to)),
        // If the number of agents is unknown, the low default of a small machine suffices.
        None if length < 128 || (length < ENOUGH && name.ends_with("somaxconn")) => {
            CheckResult::notice(format!("{length}"), "lengthen it").fixed_by(snapshot.fix_sysctl(name, &to))
        }
        _ => CheckResult::good(format!("{length}")),
    }
}

pub static ANY: CheckKind = CheckKind {
    name: "socket buffers",
    about: CheckScope::Network,
    reads: "net.core.rmem_default, rmem_max, wmem_default, wmem_max",
    why: "a program that sets its buffer size gets no more than the maximum, and loses the kernel's tuning of it",
    source: "https://docs.kernel.org/networking/ip-sysctl.html",
    caught_by: &[],
    article: Some(Tuning {
        number: 6,
        says: "rmem_default, rmem_max, wmem_default, wmem_max = 640000",
        worth: "the defaults: nothing for TCP, which uses tcp_rmem and tcp_wmem and tunes itself; the maxima: only if \
                a program sets SO_RCVBUF or SO_SNDBUF",
    }),
    look: look_at_any,
};

pub static TCP: CheckKind = CheckKind {
    name: "TCP buffers",
    about: CheckScope::Network,
    reads: "net.ipv4.tcp_rmem, tcp_wmem, tcp_moderate_rcvbuf",
    why: "a connection cannot have more in flight than its buffers hold, which limits its throughput on a long link",
    source: "https://docs.kernel.org/networking/ip-sysctl.html",
    caught_by: &[],
    article: None,
    look: look_at_tcp,
};

/// Kernel's default of the maximum socket buffer, bytes. A lower value was set by an administrator.
const MAXIMUM: u64 = 212_992;
/// Minimum upper limit, bytes, for buffers that the kernel sizes itself. Suffices for 1 Gbit/s at 8
/// ms round trip.
const TUNED: u64 = 1 << 20;

fn look_at_any(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let names = ["net.core.rmem_max", "net.core.wmem_max"];
    let maxima: Option<Vec<u64>> =
        names.iter().map(|name| snapshot.sysctl(name)?.first().copied()).collect::<Option<_>>();
    let Some([read, write]) = maxima.as_deref() else { return CheckResult::unknown(NOT_TOLD) };
    let found = format!("at most {} KiB in, {} KiB out, if a program requests it", read / 1024, write / 1024);
    if *read.min(write) < MAXIMUM {
        let to = MAXIMUM.to_string();
        let low = names.iter().filter(|name| snapshot.sysctl(name).is_some_and(|numbers| numbers < vec![MAXIMUM]));
        let fixes: Vec<Fix> = low.filter_map(|name| snapshot.fix_sysctl(name, &to)).collect();
        return CheckResult::notice(found, "put back the kernel's default").fixed_by(fixes);
    }
    CheckResult::good(found)
}

fn look_at_tcp(snapshot: &MachineSnapshot<'_>) -> CheckResult {
    let (names, to) = (["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"], ["4096 131072 6291456", "4096 16384 4194304"]);
    let [Some(read), Some(write)] = names.map(|name| snapshot.sysctl(name)?.get(2).copied()) else {
        return CheckResult::unknown(NOT_TOLD);
    };
    let found = format!("tuned by the kernel up to {} KiB in, {} KiB out", read / 1024, write / 1024);
    let mut fixes: Vec<Fix> = Vec::new();
    for ((name, to), most) in names.iter().zip(to).zip([read, write]) {
        fixes.extend(snapshot.fix_sysctl(name, to).filter(|_| most < TUNED));
    }
    if snapshot.sysctl("net.ipv4.tcp_moderate_rcvbuf").as_deref() == Some(&[0]) {
        fixes.extend(snapshot.fix_sysctl("net.ipv4.tcp_moderate_rcvbuf", "1"));
        return CheckResult::notice("the kernel's tuning is switched off", "switch it on").fixed_by(fixes);
    }
    if fixes.is_empty() {
        CheckResult::good(found)
    } else {
        CheckResult::notice(found, "raise the maximum").fixed_by(fixes)
    }
}
