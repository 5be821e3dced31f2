//! Tests of the probes on recorded /proc texts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use super::*;
use crate::fixture::Scratch;
use crate::sampling::Proc;

/// Two readings of a recorded machine, a second apart.
fn second_of(before: &Path, after: &Path) -> Sample {
    let mut probes: Vec<Box<dyn Probe>> = KINDS.iter().map(|kind| (kind.make)()).collect();
    let mut read = |folder: &Path| {
        let mut host = Sample::default();
        probes.iter_mut().for_each(|probe| probe.read(&Source::machine(Proc::at(folder)), 1.0, &mut host));
        host
    };
    let first = read(before);
    assert_eq!((first.cpu_user_pct, first.disk_read_bytes, first.net_rx_bytes), (None, None, None), "no base yet");
    assert_eq!(first.psi_io_some_pct, None);
    read(after)
}

fn recorded(machine: &str) -> Sample {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/proc").join(machine);
    second_of(&folder.join("0"), &folder.join("1"))
}

fn near(value: Option<f64>, wanted: f64) {
    assert!(value.is_some_and(|value| (value - wanted).abs() < 0.005), "{value:?}, not {wanted}");
}

#[test]
fn kinds_are_sorted() {
    assert!(KINDS.is_sorted_by_key(|kind| kind.name));
}

#[test]
fn a_machine_that_writes_to_its_disk_as_fast_as_it_can() {
    let host = recorded("linux-6.18");
    // 206 ticks: 174 user, 26 system and 3 softirq, 3 iowait.
    near(host.cpu_user_pct, 84.47);
    near(host.cpu_system_pct, 14.08);
    near(host.cpu_iowait_pct, 1.46);
    near(host.cpu_steal_pct, 0.0);
    // /dev/vda alone: loop devices and zram lie on others.
    assert_eq!(host.disk_read_bytes, Some((32_583_130 - 32_581_386) * 512));
    assert_eq!(host.disk_write_bytes, Some((11_762_720 - 9_395_464) * 512));
    assert_eq!((host.net_rx_bytes, host.net_tx_bytes), (Some(0), Some(0)));
    near(host.psi_io_some_pct, 35.29);
    near(host.psi_cpu_some_pct, 54.88);
    near(host.psi_memory_some_pct, 0.0);
    assert_eq!((host.load1, host.load5, host.load15), (Some(1.57), Some(0.84), Some(0.51)));
    assert_eq!(host.memory_available_bytes, Some(23_931_556 * 1024));
    assert_eq!(host.memory_used_bytes, Some((24_684_084 - 23_931_556) * 1024));
    assert!(host.io_wait_threads.is_some());
    // This kernel has no /proc/schedstat: unknown, not 0.
    assert_eq!(host.run_delay_pct, None);
}

#[test]
fn what_a_kernel_does_not_offer_is_empty() {
    let (before, after) = (Scratch::new(), Scratch::new());
    // As of Linux 2.4: four columns, no MemAvailable, no pressure, nothing else.
    before.write("stat", "cpu  100 10 50 840\ncpu0 100 10 50 840\n");
    after.write("stat", "cpu  120 10 60 910\ncpu0 120 10 60 910\n");
    for machine in [&before, &after] {
        machine.write("meminfo", "MemTotal: 1000 kB\nMemFree: 300 kB\n");
    }
    let host = second_of(&before, &after);
    near(host.cpu_user_pct, 20.0);
    near(host.cpu_system_pct, 10.0);
    let filled = Sample { cpu_user_pct: host.cpu_user_pct, cpu_system_pct: host.cpu_system_pct, ..Sample::default() };
    assert_eq!(host, filled);
}

#[test]
fn torn_and_strange_texts_are_empty_too() {
    let (before, after) = (Scratch::new(), Scratch::new());
    for machine in [&before, &after] {
        machine.write("stat", "cpu  1 2\n");
        machine.write("loadavg", "");
        machine.write("meminfo", "MemTotal: many kB\n");
        machine.write("diskstats", "   7       0 loop0 5 0 40 0 5 0 40 0 0 0 0\n");
        machine.write("net/dev", "Inter-|\n face |\n    lo: 12\n");
        machine.write("pressure/io", "some avg10=0.00\n");
        machine.write("schedstat", "version 15\ncpu0 0 0\n");
        machine.write("vmstat", "oom_kill\noom_killer 4\n");
    }
    assert_eq!(second_of(&before, &after), Sample::default());
}

#[test]
fn counters_that_are_set_back_are_unknown() {
    let (before, after) = (Scratch::new(), Scratch::new());
    let disk = |sectors: u32| format!("   8       0 sda 5 0 {sectors} 0 5 0 {sectors} 0 0 0 0\n");
    before.write("diskstats", &disk(100));
    after.write("diskstats", &disk(40));
    assert_eq!(second_of(&before, &after).disk_read_bytes, None);
}

#[test]
fn kills_for_want_of_memory_are_counted() {
    let (before, after) = (Scratch::new(), Scratch::new());
    before.write("vmstat", "nr_free_pages 1\noom_kill 3\n");
    after.write("vmstat", "nr_free_pages 1\noom_kill 5\n");
    assert_eq!(second_of(&before, &after).oom_kills, Some(2));
}

#[test]
fn run_delay_is_summed_over_the_cpus() {
    let (before, after) = (Scratch::new(), Scratch::new());
    // The layout of version 15 to 17; domain lines are not CPUs.
    before.write(
        "schedstat",
        "version 15\ntimestamp 1\ncpu0 0 0 0 0 0 0 5 1000000 9\ndomain0 3 0\ncpu1 0 0 0 0 0 0 5 2000000 9\n",
    );
    after.write(
        "schedstat",
        "version 15\ntimestamp 2\ncpu0 0 0 0 0 0 0 5 51000000 9\ndomain0 3 0\ncpu1 0 0 0 0 0 0 5 202000000 9\n",
    );
    near(second_of(&before, &after).run_delay_pct, 25.0);
}

#[test]
fn only_whole_disks_count() {
    let row = |name: &str| format!("   8       0 {name} 1 0 10 0 1 0 100 0 0 0 0\n");
    let names = [
        "sda",
        "sda1",
        "nvme0n1",
        "nvme0n1p1",
        "nvme1n1",
        "mmcblk0",
        "mmcblk0p2",
        "vdb",
        "dm-0",
        "md0",
        "md0p1",
        "loop3",
        "zram0",
        "ram1",
        "sr0",
    ];
    let text: String = names.map(row).concat();
    // sda, nvme0n1, nvme1n1, mmcblk0, vdb
    assert_eq!(disk::totals(&text), Some((5 * 10 * 512, 5 * 100 * 512)));
    assert_eq!(disk::totals(""), None);
}

#[test]
fn all_interfaces_count_with_or_without_a_space_after_the_colon() {
    let (before, after) = (Scratch::new(), Scratch::new());
    let dev = |bytes: u64| {
        format!(
            "Inter-|\n face |\n    lo:{bytes} 1 0 0 0 0 0 0 {bytes} 1 0 0 0 0 0 0\n  eth0: 7 1 0 0 0 0 0 0 {bytes} 1 0 0 0 0 0 0\n"
        )
    };
    before.write("net/dev", &dev(10));
    after.write("net/dev", &dev(15));
    let host = second_of(&before, &after);
    assert_eq!((host.net_rx_bytes, host.net_tx_bytes), (Some(5), Some(10)));
}
