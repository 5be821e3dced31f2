//! Processes that the kernel killed for lack of memory.

use record::rows::Sample;

use super::{Probe, ProbeKind, grown};
use crate::sample_source::SampleSource;

pub static KIND: ProbeKind = ProbeKind {
    name: "out_of_memory",
    help: "processes killed because memory ran out: /proc/vmstat, a host's control group",
    make: || Box::new(OutOfMemory::default()),
};

#[derive(Default)]
struct OutOfMemory {
    last: Option<u64>,
}

impl Probe for OutOfMemory {
    fn read(&mut self, source: &SampleSource, _interval_s: f64, host: &mut Sample) {
        let now = match &source.host {
            Some(bounds) => bounds.usage.memory.and_then(|memory| memory.oom_kills),
            None => source.proc.text("vmstat").and_then(|text| oom_kills(&text)),
        };
        host.oom_kills = grown(self.last, now);
        self.last = now;
    }
}

fn oom_kills(vmstat: &str) -> Option<u64> {
    vmstat.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}
