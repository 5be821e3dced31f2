//! The table of connections that packet filters keep.

use super::{About, Finding, Kind, Patient};

pub static KIND: Kind = Kind {
    name: "connection tracking",
    about: About::Network,
    reads: "net.netfilter.nf_conntrack_max and _count",
    why: "a full table drops the packets of new connections, also those of the loopback; below that, every packet pays for a look-up",
    source: "https://docs.kernel.org/networking/nf_conntrack-sysctl.html",
    caught_by: &["failed_connects"],
    article: None,
    look,
};

fn look(patient: &Patient<'_>) -> Finding {
    let one = |name: &str| patient.sysctl(name).and_then(|numbers| numbers.first().copied());
    let (Some(most), Some(now)) = (one("net.netfilter.nf_conntrack_max"), one("net.netfilter.nf_conntrack_count"))
    else {
        return Finding::good("not loaded");
    };
    // Nothing is counted where no rule looks at connections: the module alone costs nothing.
    if now == 0 {
        return Finding::good("loaded, and not on the path: it tracks nothing");
    }
    // Each connection is tracked for a minute or two after its end, too.
    let needed = patient.agents().unwrap_or(0).saturating_mul(4).max(65_536);
    let found = format!("on the path: {now} of {most} entries are used");
    if most < needed || now > most / 2 {
        let to = needed.max(262_144).to_string();
        return Finding::bad(found, "make the table larger")
            .fixed_by(patient.fix_sysctl("net.netfilter.nf_conntrack_max", &to));
    }
    Finding::good(found)
}
