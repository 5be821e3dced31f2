//! Memory of the machine or host. Used memory is memory that is not available, so the page cache
//! does not count.

use record::rows::Sample;

use super::{Probe, ProbeKind};
use crate::sample_source::{HostBounds, SampleSource};

pub static KIND: ProbeKind = ProbeKind {
    name: "memory",
    help: "used and available: /proc/meminfo, a host's control group",
    make: || Box::new(MemoryProbe),
};

struct MemoryProbe;

impl Probe for MemoryProbe {
    fn read(&mut self, source: &SampleSource, _interval_s: f64, host: &mut Sample) {
        let text = source.proc.text("meminfo").unwrap_or_default();
        let available = bytes(&text, "MemAvailable:");
        if let Some(bounds) = &source.host {
            fill(bounds, available, host);
            return;
        }
        host.memory_available_bytes = available;
        host.memory_used_bytes =
            bytes(&text, "MemTotal:").zip(available).map(|(total, free)| total.saturating_sub(free));
    }
}

/// Fills in the memory of a host. A host's available memory is at most the machine's.
fn fill(bounds: &HostBounds, machine_has: Option<u64>, host: &mut Sample) {
    let Some(memory) = &bounds.usage.memory else { return };
    let used = memory.used_bytes.saturating_sub(memory.inactive_file_bytes);
    host.memory_used_bytes = Some(used);
    let left = memory.limit_bytes.or(bounds.memory_bytes).map(|limit| limit.saturating_sub(used));
    host.memory_available_bytes = left.into_iter().chain(machine_has).min();
}

/// Returns a value in bytes. The file's unit is called kB but is KiB.
pub fn bytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
