//! Tests on recorded files, and on a firmware's table made up here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

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
    assert_eq!((caches[1].level, caches[1].holds.as_deref(), caches[1].shared_by), (Some(3), Some("Unified"), Some(2)));
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
