//! The load averages over 1, 5 and 15 minutes: the kernel's, or inside a host those of its own threads.

use record::rows::Sample;

use super::{Kind, Probe};
use crate::sampling::Source;

/// The table's entry.
pub static KIND: Kind =
    Kind { name: "load_average", help: "over 1, 5 and 15 minutes: /proc/loadavg", make: || Box::new(LoadAverage) };

struct LoadAverage;

impl Probe for LoadAverage {
    fn read(&mut self, source: &Source, _interval_s: f64, host: &mut Sample) {
        let text = source.proc.text("loadavg").unwrap_or_default();
        let mut averages = text.split_ascii_whitespace().map(|average| average.parse().ok());
        host.load1 = averages.next().flatten();
        host.load5 = averages.next().flatten();
        host.load15 = averages.next().flatten();
    }
}
