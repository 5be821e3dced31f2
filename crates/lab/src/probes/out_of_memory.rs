//! Processes that the kernel killed for want of memory.

use record::rows::Sample;

use super::{Kind, Probe, grown};
use crate::sampling::Source;
use crate::sampling::figure;

/// The table's entry.
pub static KIND: Kind = Kind {
    name: "out_of_memory",
    help: "processes killed for want of memory: /proc/vmstat, a host's control group",
    make: || Box::new(OutOfMemory::default()),
};

#[derive(Default)]
struct OutOfMemory {
    last: Option<u64>,
}

impl Probe for OutOfMemory {
    fn read(&mut self, source: &Source, _interval_s: f64, host: &mut Sample) {
        let now = match &source.host {
            Some(bounds) => bounds.group.oom_kills(),
            None => source.proc.text("vmstat").and_then(|text| figure(&text, "oom_kill")),
        };
        host.oom_kills = grown(self.last, now);
        self.last = now;
    }
}
