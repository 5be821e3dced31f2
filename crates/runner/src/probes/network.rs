//! Bytes received and sent over all interfaces. The loopback is included, because it carries the
//! traffic of a local target. For a virtual host the loopback is left out, because the traffic is
//! on the host's links.

use record::rows::Sample;

use super::{Probe, ProbeKind, grown};
use crate::sample_source::SampleSource;

pub static KIND: ProbeKind = ProbeKind {
    name: "network",
    help: "bytes received and sent, loopback included on the machine itself: /proc/net/dev",
    make: || Box::new(NetworkProbe::default()),
};

#[derive(Default)]
struct NetworkProbe {
    last: Option<(u64, u64)>,
}

impl Probe for NetworkProbe {
    fn read(&mut self, source: &SampleSource, _interval_s: f64, host: &mut Sample) {
        let leaves_out = source.host.as_ref().map(|_| "lo");
        let now = source.proc.text("net/dev").and_then(|text| received_and_sent(&text, leaves_out));
        host.net_rx_bytes = grown(self.last.map(|last| last.0), now.map(|now| now.0));
        host.net_tx_bytes = grown(self.last.map(|last| last.1), now.map(|now| now.1));
        self.last = now;
    }
}

fn received_and_sent(dev: &str, leaves_out: Option<&str>) -> Option<(u64, u64)> {
    let mut sum = None;
    for line in dev.lines().skip(2) {
        // A long number may follow the colon without a space.
        let (name, counters) = line.split_once(':')?;
        let columns: Vec<u64> = counters.split_ascii_whitespace().map_while(|column| column.parse().ok()).collect();
        let (received, sent) = (*columns.first()?, *columns.get(8)?);
        if Some(name.trim()) == leaves_out {
            continue;
        }
        sum = Some(sum.map_or((received, sent), |(rx, tx): (u64, u64)| (rx + received, tx + sent)));
    }
    sum
}
