//! Memory: how much is left, and what the kernel does behind a program's back.

use experiment::quantity::show_bytes;

use super::{About, Finding, Kind, NOT_TOLD, Patient, chosen};
use crate::probes::memory_bytes;

pub static AVAILABLE: Kind = Kind {
    name: "memory available",
    about: About::Memory,
    reads: "/proc/meminfo, and the limits of our own control group",
    why: "without memory to spare, the kernel drops caches, swaps, or kills the target",
    source: "https://docs.kernel.org/filesystems/proc.html",
    caught_by: &["lost_process"],
    article: None,
    look: look_at_available,
};

pub static HUGE_PAGES: Kind = Kind {
    name: "transparent huge pages",
    about: About::Memory,
    reads: "/sys/kernel/mm/transparent_hugepage/enabled",
    why: "the kernel may stop a process to find and clear 2 MiB at once, at moments of its own choosing; databases advise against `always`",
    source: "https://docs.kernel.org/admin-guide/mm/transhuge.html",
    caught_by: &[],
    article: None,
    look: look_at_huge_pages,
};

pub static SWAP: Kind = Kind {
    name: "swap",
    about: About::Memory,
    reads: "/proc/meminfo, vm.swappiness",
    why: "a page that was swapped out takes as long as a disk to come back: one slow answer in a thousand, and no trace of why",
    source: "https://docs.kernel.org/admin-guide/sysctl/vm.html",
    caught_by: &[],
    article: None,
    look: look_at_swap,
};

const MIB: u64 = 1 << 20;

/// Whole MiB, in the larger unit if that is exact enough.
fn show(bytes: u64) -> String {
    match bytes {
        small if small < 10 * 1024 * MIB => show_bytes(small / MIB * MIB),
        large => show_bytes(large / (1024 * MIB) * (1024 * MIB)),
    }
}

fn look_at_available(patient: &Patient<'_>) -> Finding {
    let text = patient.text("proc/meminfo").unwrap_or_default();
    let (total, available) = (memory_bytes(&text, "MemTotal:"), memory_bytes(&text, "MemAvailable:"));
    let (Some(total), Some(available)) = (total, available) else { return Finding::unknown(NOT_TOLD) };
    let (most, whose) = match crate::environment::memory_limit_bytes(patient.root) {
        Some(limit) if limit < total => (available.min(limit), format!("{} that this container may use", show(limit))),
        _ => (available, show(total)),
    };
    let found = format!("{} of {whose}", show(most));
    match most {
        least if least < 256 * MIB => Finding::bad(found, "end what is not needed (ps --sort=-rss aux | head)"),
        little if little < 1024 * MIB => Finding::notice(found, "end what is not needed (ps --sort=-rss aux | head)"),
        _ => Finding::good(found),
    }
}

fn look_at_huge_pages(patient: &Patient<'_>) -> Finding {
    let path = "sys/kernel/mm/transparent_hugepage/enabled";
    match patient.text(path).map(|text| chosen(&text)).as_deref() {
        None => Finding::unknown(NOT_TOLD),
        Some("always") => Finding::notice("always", "let programs ask for them").fixed_by(patient.fix(path, "madvise")),
        Some(choice) => Finding::good(choice),
    }
}

fn look_at_swap(patient: &Patient<'_>) -> Finding {
    let text = patient.text("proc/meminfo").unwrap_or_default();
    let (Some(total), Some(free)) = (memory_bytes(&text, "SwapTotal:"), memory_bytes(&text, "SwapFree:")) else {
        return Finding::unknown(NOT_TOLD);
    };
    let name = "vm.swappiness";
    let swappiness = patient.sysctl(name).and_then(|numbers| numbers.first().copied());
    match (total, total.saturating_sub(free), swappiness) {
        (0, ..) => Finding::good("none"),
        (_, used, _) if used > 64 * MIB => {
            Finding::notice(format!("{} of {} are in use", show(used), show(total)), "swapoff -a, if memory suffices")
        }
        (_, _, Some(swappiness)) if swappiness > 10 => {
            let found = format!("{}, at swappiness {swappiness}", show(total));
            Finding::notice(found, "swap as the last resort only").fixed_by(patient.fix_sysctl(name, "1"))
        }
        _ => Finding::good(format!("{}, the last resort", show(total))),
    }
}
