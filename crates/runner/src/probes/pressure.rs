//! Pressure stall information: the share of time in which some task waited for a CPU, for I/O or
//! for memory.

use record::rows::Sample;

use super::{Probe, ProbeKind, grown};
use crate::sample_source::{HostBounds, SampleSource};

pub static KIND: ProbeKind = ProbeKind {
    name: "pressure",
    help: "time in which tasks waited for CPU, I/O, memory: /proc/pressure (Linux 4.20, if it is switched on), a host's \
           control group (version 2)",
    make: || Box::new(Pressure::default()),
};

#[derive(Default)]
struct Pressure {
    cpu: PressureSource,
    io: PressureSource,
    memory: PressureSource,
}

impl Probe for Pressure {
    fn read(&mut self, source: &SampleSource, interval_s: f64, host: &mut Sample) {
        let [cpu_us, io_us, memory_us] = match &source.host {
            Some(HostBounds { usage, .. }) => {
                [usage.cpu_stall, usage.io_stall, usage.memory_stall].map(|stall| stall.map(|stall| stall.some_us))
            }
            None => ["pressure/cpu", "pressure/io", "pressure/memory"]
                .map(|name| source.proc.text(name).and_then(|text| total_us(&text))),
        };
        host.psi_cpu_some_pct = self.cpu.share_pct(cpu_us, interval_s);
        host.psi_io_some_pct = self.io.share_pct(io_us, interval_s);
        host.psi_memory_some_pct = self.memory.share_pct(memory_us, interval_s);
    }
}

#[derive(Default)]
struct PressureSource {
    last_us: Option<u64>,
}

impl PressureSource {
    fn share_pct(&mut self, now_us: Option<u64>, interval_s: f64) -> Option<f64> {
        let stalled_us = grown(self.last_us, now_us);
        self.last_us = now_us;
        // The kernel updates the total with a delay, so one second may seem to contain more than
        // one second.
        stalled_us.map(|us| (us as f64 / 1e6 / interval_s * 100.0).min(100.0))
    }
}

/// Returns the total stall time. `avg10` is not used, because it is a moving average.
fn total_us(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split_ascii_whitespace().find_map(|field| field.strip_prefix("total="))?.parse().ok()
}
