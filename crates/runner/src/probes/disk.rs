//! Bytes read from and written to whole disks. Partitions and stacked devices are left out, because
//! they would count twice. A host with its own device counts that device as its disk.

use record::rows::Sample;

use super::{Probe, ProbeKind, grown};
use crate::sample_source::{HostBounds, SampleSource};

pub static KIND: ProbeKind = ProbeKind {
    name: "disk",
    help: "bytes read and written, whole disks only: /proc/diskstats, a host's processes' /proc/PID/io",
    make: || Box::new(DiskProbe::default()),
};

/// Unit of `/proc/diskstats`, whatever the disk's own sector size.
const SECTOR_BYTES: u64 = 512;

#[derive(Default)]
struct DiskProbe {
    last: Option<(u64, u64)>,
}

impl Probe for DiskProbe {
    fn read(&mut self, source: &SampleSource, _interval_s: f64, host: &mut Sample) {
        let diskstats = source.proc.text("diskstats").unwrap_or_default();
        let now = match &source.host {
            None => read_and_written_bytes(&diskstats),
            // Keep the processes' own account, which the process tree has filled in. Version 1 of
            // control groups leaves out writes through the page cache and disks without limits.
            Some(HostBounds { device: None, .. }) => return,
            Some(HostBounds { device: Some(device), .. }) => {
                sum(rows(&diskstats).iter().filter(|row| row.name == device))
            }
        };
        host.disk_read_bytes = grown(self.last.map(|last| last.0), now.map(|now| now.0));
        host.disk_write_bytes = grown(self.last.map(|last| last.1), now.map(|now| now.1));
        self.last = now;
    }
}

/// A line of `/proc/diskstats`.
struct DiskStatsRow<'a> {
    name: &'a str,
    read_bytes: u64,
    written_bytes: u64,
}

impl<'a> DiskStatsRow<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let [read, written] = [5, 9].map(|at| columns.get(at)?.parse::<u64>().ok());
        Some(Self { name: columns.get(2)?, read_bytes: read? * SECTOR_BYTES, written_bytes: written? * SECTOR_BYTES })
    }
}

fn rows(diskstats: &str) -> Vec<DiskStatsRow<'_>> {
    diskstats.lines().filter_map(DiskStatsRow::parse).collect()
}

/// Returns the bytes read and written. `None` if there is no whole disk, because the figures are
/// then unknown, not 0.
fn read_and_written_bytes(diskstats: &str) -> Option<(u64, u64)> {
    let rows = rows(diskstats);
    let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
    sum(rows.iter().filter(|row| is_whole_disk(row.name, &names)))
}

fn sum<'a>(mut rows: impl Iterator<Item = &'a DiskStatsRow<'a>>) -> Option<(u64, u64)> {
    let first = rows.next()?;
    Some(
        rows.fold((first.read_bytes, first.written_bytes), |sum, row| {
            (sum.0 + row.read_bytes, sum.1 + row.written_bytes)
        }),
    )
}

/// Whether the device is a whole disk. A partition is named after its disk: `sda1` of `sda`,
/// `nvme0n1p2` of `nvme0n1`.
fn is_whole_disk(name: &str, names: &[&str]) -> bool {
    const STACKED: [&str; 9] = ["bcache", "dm-", "drbd", "fd", "loop", "md", "ram", "sr", "zram"];
    let is_partition = names.iter().any(|disk| {
        let rest = name.strip_prefix(disk).unwrap_or_default();
        let number = if disk.ends_with(|c: char| c.is_ascii_digit()) { rest.strip_prefix('p') } else { Some(rest) };
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    });
    !is_partition && !STACKED.iter().any(|stacked| name.starts_with(stacked))
}

#[cfg(test)]
pub(super) fn totals(diskstats: &str) -> Option<(u64, u64)> {
    read_and_written_bytes(diskstats)
}
