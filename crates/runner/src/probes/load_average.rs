//! Load averages over 1, 5 and 15 minutes: the kernel's or, inside a virtual host, those of its own
//! threads.

use record::rows::Sample;

use super::{Probe, ProbeKind};
use crate::sample_source::SampleSource;

pub static KIND: ProbeKind = ProbeKind {
    name: "load_average",
    help: "over 1, 5 and 15 minutes: /proc/loadavg",
    make: || Box::new(LoadAverageProbe),
};

struct LoadAverageProbe;

impl Probe for LoadAverageProbe {
    fn read(&mut self, source: &SampleSource, _interval_s: f64, host: &mut Sample) {
        let text = source.proc.text("loadavg").unwrap_or_default();
        let mut averages = text.split_ascii_whitespace().map(|average| average.parse().ok());
        host.load1 = averages.next().flatten();
        host.load5 = averages.next().flatten();
        host.load15 = averages.next().flatten();
    }
}
