//! Devices of a machine: packages and caches of processors, modules of memory, interfaces. It must not talk to them.

use std::collections::BTreeSet;
use std::fs;

use record::environment::{Cache, Interface};

use super::{Root, count_listed};

const CPUS: &str = "sys/devices/system/cpu";

/// How many packages the processors are in.
pub fn sockets(root: &Root) -> Option<u32> {
    let is_cpu = |name: &String| name.strip_prefix("cpu").is_some_and(|number| number.parse::<u32>().is_ok());
    let package = |cpu: String| root.text(&format!("{CPUS}/{cpu}/topology/physical_package_id"));
    let packages: BTreeSet<String> = root.names(CPUS).into_iter().filter(is_cpu).filter_map(package).collect();
    u32::try_from(packages.len()).ok().filter(|count| *count > 0)
}

/// The caches of the first processor, the nearest first.
pub fn caches(root: &Root) -> Vec<Cache> {
    let folder = format!("{CPUS}/cpu0/cache");
    let indexes = root.names(&folder).into_iter().filter(|name| name.starts_with("index"));
    let read = |index: String| {
        let says = |what: &str| root.text(&format!("{folder}/{index}/{what}"));
        Cache {
            level: says("level").and_then(|level| level.parse().ok()),
            holds: says("type"),
            size_bytes: says("size").and_then(|size| in_bytes(&size)),
            shared_by: says("shared_cpu_list").and_then(|list| count_listed(&list)),
        }
    };
    indexes.map(read).collect()
}

/// `1024K`
fn in_bytes(size: &str) -> Option<u64> {
    let (number, unit) = size.split_at(size.find(|c: char| !c.is_ascii_digit()).unwrap_or(size.len()));
    let unit = match unit {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// The loopback, and the interfaces that are devices: bridges and tunnels come and go.
pub fn interfaces(root: &Root) -> Vec<Interface> {
    const FOLDER: &str = "sys/class/net";
    let names = root.names(FOLDER).into_iter();
    let kept = names.filter(|name| name == "lo" || root.path(&format!("{FOLDER}/{name}/device")).exists());
    let read = |name: String| {
        let driver = fs::read_link(root.path(&format!("{FOLDER}/{name}/device/driver"))).ok();
        // One that is down says -1.
        let speed = root.number::<i64>(&format!("{FOLDER}/{name}/speed")).filter(|speed| *speed > 0);
        Interface {
            mtu_bytes: root.number(&format!("{FOLDER}/{name}/mtu")),
            driver: driver.and_then(|driver| Some(driver.file_name()?.to_str()?.to_owned())),
            speed_mbit_per_s: speed.and_then(|speed| u64::try_from(speed).ok()),
            name,
        }
    };
    kept.map(read).collect()
}

/// What the fastest module of memory runs at, from the firmware's tables, which only root may read.
pub fn memory_speed_mt_per_s(root: &Root) -> Option<u64> {
    memory_speed(&fs::read(root.path("sys/firmware/dmi/tables/DMI")).ok()?)
}

/// Structures of type 17, "Memory Device": size at 0Ch, speed at 15h, configured speed at 20h (DMTF DSP0134, 7.18).
fn memory_speed(table: &[u8]) -> Option<u64> {
    const MEMORY_DEVICE: u8 = 17;
    let mut fastest = None;
    let mut rest = table;
    while let [kind, length, ..] = *rest {
        let fixed = rest.get(..usize::from(length)).filter(|fixed| fixed.len() >= 4)?;
        let word = |at: usize| Some(u64::from(u16::from_le_bytes([*fixed.get(at)?, *fixed.get(at + 1)?])));
        let known = |at: usize| word(at).filter(|speed| (1..0xffff).contains(speed));
        if kind == MEMORY_DEVICE && word(0x0c).is_some_and(|size| size > 0) {
            fastest = fastest.max(known(0x20).or_else(|| known(0x15)));
        }
        // Behind it its texts, which end with two zeros.
        let texts = &rest[fixed.len()..];
        let end = texts.windows(2).position(|pair| pair == [0, 0])? + 2;
        rest = &texts[end..];
    }
    fastest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Scratch;

    #[test]
    fn packages_and_caches_are_counted() {
        let folder = Scratch::new();
        for (cpu, package) in [("cpu0", "0"), ("cpu1", "1"), ("cpu2", "1"), ("cpufreq", "7")] {
            folder.write(&format!("{CPUS}/{cpu}/topology/physical_package_id"), package);
        }
        for (index, [level, kind, size, list]) in
            [["1", "Data", "32K", "0"], ["3", "Unified", "16M", "0-1"]].into_iter().enumerate()
        {
            for (what, value) in [("level", level), ("type", kind), ("size", size), ("shared_cpu_list", list)] {
                folder.write(&format!("{CPUS}/cpu0/cache/index{index}/{what}"), value);
            }
        }
        let root = Root::at(&folder);
        assert_eq!(sockets(&root), Some(2));
        let caches = caches(&root);
        assert_eq!((caches.len(), caches[0].size_bytes, caches[1].size_bytes), (2, Some(32 << 10), Some(16 << 20)));
        assert_eq!(
            (caches[1].level, caches[1].holds.as_deref(), caches[1].shared_by),
            (Some(3), Some("Unified"), Some(2))
        );
        assert_eq!((in_bytes("1G"), in_bytes("")), (None, None));
    }

    #[test]
    fn interfaces_are_the_loopback_and_devices() {
        let folder = Scratch::new();
        folder.write("sys/class/net/lo/mtu", "65536");
        folder.write("sys/class/net/docker0/mtu", "1500");
        folder.write("sys/class/net/eth0/mtu", "1500");
        folder.write("sys/class/net/eth0/speed", "-1");
        folder.write("sys/class/net/eth0/device/vendor", "x");
        std::os::unix::fs::symlink(
            "../../../bus/virtio/drivers/virtio_net",
            folder.join("sys/class/net/eth0/device/driver"),
        )
        .unwrap();
        let found = interfaces(&Root::at(&folder));
        assert_eq!(found.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["eth0", "lo"]);
        assert_eq!(
            (found[0].driver.as_deref(), found[0].mtu_bytes, found[0].speed_mbit_per_s),
            (Some("virtio_net"), Some(1500), None)
        );
        assert_eq!((found[1].driver.as_deref(), found[1].mtu_bytes), (None, Some(65_536)));
    }

    /// A structure of that type with a text behind it.
    fn structure(kind: u8, words: &[(usize, u16)]) -> Vec<u8> {
        let mut bytes = vec![0; 0x22];
        (bytes[0], bytes[1]) = (kind, 0x22);
        for (at, word) in words {
            bytes[*at..*at + 2].copy_from_slice(&word.to_le_bytes());
        }
        bytes.extend(b"DIMM 0\0\0");
        bytes
    }

    #[test]
    fn the_fastest_module_that_is_there_counts() {
        let module =
            |size: u16, speed: u16, configured: u16| structure(17, &[(0x0c, size), (0x15, speed), (0x20, configured)]);
        let table =
            [structure(1, &[(0x20, 9999)]), module(0, 4800, 4800), module(8, 3200, 2666), module(8, 2400, 0)].concat();
        assert_eq!(memory_speed(&table), Some(2666));
        assert_eq!(memory_speed(&module(8, 0xffff, 0)), None);
        assert_eq!(memory_speed(&[]), None);
        for cut in 0..table.len() {
            // Whatever is cut off: no panic, and nothing made up.
            assert!(memory_speed(&table[..cut]).is_none_or(|speed| speed == 2666 || speed == 2400));
        }
    }
}
