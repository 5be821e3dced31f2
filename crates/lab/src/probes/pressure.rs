//! Pressure stall information: the share of time in which some task waited for a CPU, for I/O, for memory.

use record::rows::Sample;

use super::{Kind, Probe, grown};
use crate::sampling::Source;

/// The table's entry.
pub static KIND: Kind = Kind {
    name: "pressure",
    help: "time in which tasks waited for CPU, I/O, memory: /proc/pressure (Linux 4.20, if it is switched on), a host's \
           control group (version 2)",
    make: || Box::new(Pressure::default()),
};

#[derive(Default)]
struct Pressure {
    cpu: Stall,
    io: Stall,
    memory: Stall,
}

impl Probe for Pressure {
    fn read(&mut self, source: &Source, interval_s: f64, host: &mut Sample) {
        let text = |of: &str| match &source.host {
            Some(bounds) => bounds.group.pressure(of),
            None => source.proc.text(&format!("pressure/{of}")),
        };
        host.psi_cpu_some_pct = self.cpu.share_pct(text("cpu"), interval_s);
        host.psi_io_some_pct = self.io.share_pct(text("io"), interval_s);
        host.psi_memory_some_pct = self.memory.share_pct(text("memory"), interval_s);
    }
}

#[derive(Default)]
struct Stall {
    last_us: Option<u64>,
}

impl Stall {
    /// From the total, not from `avg10`: that is a moving average.
    fn share_pct(&mut self, text: Option<String>, interval_s: f64) -> Option<f64> {
        let now_us = text.and_then(|text| {
            let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
            some.split_ascii_whitespace().find_map(|field| field.strip_prefix("total="))?.parse().ok()
        });
        let stalled_us = grown(self.last_us, now_us);
        self.last_us = now_us;
        // The kernel brings the total up to date a little late, so that a second may seem to have more than itself.
        stalled_us.map(|us| (us as f64 / 1e6 / interval_s * 100.0).min(100.0))
    }
}
