//! Bytes read from and written to whole disks. Partitions, and devices that lie on other devices, would count twice.

use record::rows::Sample;

use super::{Kind, Probe, Proc, grown};

/// The table's entry.
pub static KIND: Kind = Kind {
    name: "disk",
    help: "bytes read and written, whole disks only: /proc/diskstats",
    make: || Box::new(Disk::default()),
};

/// The unit of `/proc/diskstats`, whatever the disk's own sector size.
const SECTOR_BYTES: u64 = 512;

#[derive(Default)]
struct Disk {
    last: Option<(u64, u64)>,
}

impl Probe for Disk {
    fn read(&mut self, proc: &Proc, _interval_s: f64, host: &mut Sample) {
        let now = proc.text("diskstats").and_then(|text| read_and_written_bytes(&text));
        host.disk_read_bytes = grown(self.last.map(|last| last.0), now.map(|now| now.0));
        host.disk_write_bytes = grown(self.last.map(|last| last.1), now.map(|now| now.1));
        self.last = now;
    }
}

/// `None` if no whole disk is there: then nothing is known, which is not nothing read.
fn read_and_written_bytes(diskstats: &str) -> Option<(u64, u64)> {
    let rows: Vec<Vec<&str>> = diskstats.lines().map(|line| line.split_ascii_whitespace().collect()).collect();
    let names: Vec<&str> = rows.iter().filter_map(|row| row.get(2).copied()).collect();
    let disks = rows.iter().filter(|row| row.get(2).is_some_and(|name| is_whole_disk(name, &names)));
    let bytes: Vec<(u64, u64)> = disks
        .filter_map(|row| Some((row.get(5)?.parse::<u64>().ok()?, row.get(9)?.parse::<u64>().ok()?)))
        .map(|(read, written)| (read * SECTOR_BYTES, written * SECTOR_BYTES))
        .collect();
    (!bytes.is_empty()).then(|| bytes.iter().fold((0, 0), |sum, disk| (sum.0 + disk.0, sum.1 + disk.1)))
}

/// A partition is named after its disk: `sda1` of `sda`, `nvme0n1p2` of `nvme0n1`.
fn is_whole_disk(name: &str, names: &[&str]) -> bool {
    const STACKED: [&str; 9] = ["bcache", "dm-", "drbd", "fd", "loop", "md", "ram", "sr", "zram"];
    let is_partition_of = |disk: &str| {
        let rest = name.strip_prefix(disk).unwrap_or_default();
        let number = if disk.ends_with(|c: char| c.is_ascii_digit()) { rest.strip_prefix('p') } else { Some(rest) };
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    !STACKED.iter().any(|stacked| name.starts_with(stacked)) && !names.iter().any(|disk| is_partition_of(disk))
}

#[cfg(test)]
pub(super) fn totals(diskstats: &str) -> Option<(u64, u64)> {
    read_and_written_bytes(diskstats)
}
