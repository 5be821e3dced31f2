//! Buffers of sockets.

use super::{About, Finding, Fix, Kind, NOT_TOLD, Patient, Tuning};

pub static ANY: Kind = Kind {
    name: "socket buffers",
    about: About::Network,
    reads: "net.core.rmem_default, rmem_max, wmem_default, wmem_max",
    why: "a program that asks for a buffer of its own gets no more than the maximum, and loses the kernel's tuning of it",
    source: "https://docs.kernel.org/networking/ip-sysctl.html",
    caught_by: &[],
    article: Some(Tuning {
        number: 6,
        says: "rmem_default, rmem_max, wmem_default, wmem_max = 640000",
        worth: "the defaults nothing for TCP, which goes by tcp_rmem and tcp_wmem and tunes itself; the maxima only where a program sets SO_RCVBUF or SO_SNDBUF",
    }),
    look: look_at_any,
};

pub static TCP: Kind = Kind {
    name: "TCP buffers",
    about: About::Network,
    reads: "net.ipv4.tcp_rmem, tcp_wmem, tcp_moderate_rcvbuf",
    why: "a connection cannot have more under way than its buffers hold, which bounds its throughput on a long link",
    source: "https://docs.kernel.org/networking/ip-sysctl.html",
    caught_by: &[],
    article: None,
    look: look_at_tcp,
};

/// The kernel's own default; less was set by somebody.
const MAXIMUM: u64 = 212_992;
/// Of a connection that the kernel tunes: enough for a gigabit over 8 ms.
const TUNED: u64 = 1 << 20;

fn look_at_any(patient: &Patient<'_>) -> Finding {
    let names = ["net.core.rmem_max", "net.core.wmem_max"];
    let maxima: Option<Vec<u64>> =
        names.iter().map(|name| patient.sysctl(name)?.first().copied()).collect::<Option<_>>();
    let Some([read, write]) = maxima.as_deref() else { return Finding::unknown(NOT_TOLD) };
    let found = format!("at most {} KiB in, {} KiB out, where a program asks", read / 1024, write / 1024);
    if *read.min(write) < MAXIMUM {
        let to = MAXIMUM.to_string();
        let low = names.iter().filter(|name| patient.sysctl(name).is_some_and(|numbers| numbers < vec![MAXIMUM]));
        let fixes: Vec<Fix> = low.filter_map(|name| patient.fix_sysctl(name, &to)).collect();
        return Finding::notice(found, "put back the kernel's default").fixed_by(fixes);
    }
    Finding::good(found)
}

fn look_at_tcp(patient: &Patient<'_>) -> Finding {
    let (names, to) = (["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"], ["4096 131072 6291456", "4096 16384 4194304"]);
    let largest = |name: &str| patient.sysctl(name)?.get(2).copied();
    let (Some(read), Some(write)) = (largest(names[0]), largest(names[1])) else { return Finding::unknown(NOT_TOLD) };
    let found = format!("tuned by the kernel up to {} KiB in, {} KiB out", read / 1024, write / 1024);
    let mut fixes: Vec<Fix> = Vec::new();
    for ((name, to), most) in names.iter().zip(to).zip([read, write]) {
        fixes.extend(patient.fix_sysctl(name, to).filter(|_| most < TUNED));
    }
    if patient.sysctl("net.ipv4.tcp_moderate_rcvbuf").as_deref() == Some(&[0]) {
        fixes.extend(patient.fix_sysctl("net.ipv4.tcp_moderate_rcvbuf", "1"));
        return Finding::notice("the kernel's tuning is switched off", "switch it on").fixed_by(fixes);
    }
    if fixes.is_empty() { Finding::good(found) } else { Finding::notice(found, "raise the maximum").fixed_by(fixes) }
}
