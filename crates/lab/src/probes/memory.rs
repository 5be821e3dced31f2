//! Memory of the machine. Used is what is not available, so the page cache does not count.

use record::rows::Sample;

use super::{Kind, Probe, Proc};

/// The table's entry.
pub static KIND: Kind = Kind { name: "memory", help: "used and available: /proc/meminfo", make: || Box::new(Memory) };

struct Memory;

impl Probe for Memory {
    fn read(&mut self, proc: &Proc, _interval_s: f64, host: &mut Sample) {
        let text = proc.text("meminfo").unwrap_or_default();
        let available = bytes(&text, "MemAvailable:");
        host.memory_available_bytes = available;
        host.memory_used_bytes =
            bytes(&text, "MemTotal:").zip(available).map(|(total, free)| total.saturating_sub(free));
    }
}

/// The file says kB and means KiB.
pub fn bytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
