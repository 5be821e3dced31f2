//! Probes of a machine or host, one per kind of figure.

mod cpu;
mod disk;
mod load_average;
mod memory;
mod network;
mod out_of_memory;
mod pressure;

use record::rows::Sample;

pub use cpu::CpuTicks;
pub use memory::bytes as memory_bytes;

use crate::sample_source::SampleSource;

/// A kind of figure about the machine.
pub struct ProbeKind {
    pub name: &'static str,
    /// Description in one line.
    pub help: &'static str,
    /// Makes a probe without an earlier reading.
    pub make: fn() -> Box<dyn Probe>,
}

/// All kinds, sorted by name.
pub static KINDS: &[&ProbeKind] = &[
    &cpu::KIND,
    &disk::KIND,
    &load_average::KIND,
    &memory::KIND,
    &network::KIND,
    &out_of_memory::KIND,
    &pressure::KIND,
];

/// A reader of figures of the machine or of a virtual host. Counters are reported as differences
/// from the last reading.
pub trait Probe: Send {
    /// Fills in this probe's fields of `host`. Fields stay empty if the kernel does not provide
    /// them, or if they need an earlier reading.
    fn read(&mut self, source: &SampleSource, interval_s: f64, host: &mut Sample);
}

/// Returns the growth of a counter, or `None` without an earlier reading or after a reset.
fn grown(before: Option<u64>, now: Option<u64>) -> Option<u64> {
    now?.checked_sub(before?)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fixture::TestDir;
    use linux::cgroup::{self, CpuTime, PressureTotals};

    use super::*;
    use crate::control_groups::Usage;
    use crate::sample_source::{HostBounds, ProcDir};

    /// Reads a recorded machine twice, one second apart.
    fn second_of(before: &Path, after: &Path) -> Sample {
        let mut probes: Vec<Box<dyn Probe>> = KINDS.iter().map(|kind| (kind.make)()).collect();
        let mut read = |folder: &Path| {
            let mut host = Sample::default();
            probes.iter_mut().for_each(|probe| probe.read(&SampleSource::machine(ProcDir::at(folder)), 1.0, &mut host));
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
    fn figures_of_a_machine_with_a_busy_disk() {
        let host = recorded("linux-6.18");
        // 206 ticks: 174 user, 26 system and 3 softirq, 3 iowait.
        near(host.cpu_user_pct, 84.47);
        near(host.cpu_system_pct, 14.08);
        near(host.cpu_iowait_pct, 1.46);
        near(host.cpu_steal_pct, 0.0);
        // Only /dev/vda: loop devices and zram are on other devices.
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
        // This kernel has no /proc/schedstat, so the value is unknown, not 0.
        assert_eq!(host.run_delay_pct, None);
    }

    #[test]
    fn figures_missing_from_the_kernel_are_empty() {
        let (before, after) = (TestDir::new(), TestDir::new());
        // As in Linux 2.4: four columns, no MemAvailable, no pressure, no other files.
        before.write("stat", "cpu  100 10 50 840\ncpu0 100 10 50 840\n");
        after.write("stat", "cpu  120 10 60 910\ncpu0 120 10 60 910\n");
        for machine in [&before, &after] {
            machine.write("meminfo", "MemTotal: 1000 kB\nMemFree: 300 kB\n");
        }
        let host = second_of(&before, &after);
        near(host.cpu_user_pct, 20.0);
        near(host.cpu_system_pct, 10.0);
        let filled =
            Sample { cpu_user_pct: host.cpu_user_pct, cpu_system_pct: host.cpu_system_pct, ..Sample::default() };
        assert_eq!(host, filled);
    }

    #[test]
    fn damaged_texts_give_no_figures() {
        let (before, after) = (TestDir::new(), TestDir::new());
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
        let (before, after) = (TestDir::new(), TestDir::new());
        let disk = |sectors: u32| format!("   8       0 sda 5 0 {sectors} 0 5 0 {sectors} 0 0 0 0\n");
        before.write("diskstats", disk(100));
        after.write("diskstats", disk(40));
        assert_eq!(second_of(&before, &after).disk_read_bytes, None);
    }

    #[test]
    fn out_of_memory_kills_are_counted() {
        let (before, after) = (TestDir::new(), TestDir::new());
        before.write("vmstat", "nr_free_pages 1\noom_kill 3\n");
        after.write("vmstat", "nr_free_pages 1\noom_kill 5\n");
        assert_eq!(second_of(&before, &after).oom_kills, Some(2));
    }

    #[test]
    fn run_delay_is_summed_over_the_cpus() {
        let (before, after) = (TestDir::new(), TestDir::new());
        // Layout of versions 15 to 17. Domain lines are not CPUs.
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
        let text: String = names.map(|name| format!("   8       0 {name} 1 0 10 0 1 0 100 0 0 0 0\n")).concat();
        // sda, nvme0n1, nvme1n1, mmcblk0, vdb
        assert_eq!(disk::totals(&text), Some((5 * 10 * 512, 5 * 100 * 512)));
        assert_eq!(disk::totals(""), None);
    }

    #[test]
    fn all_interfaces_count_with_or_without_a_space_after_the_colon() {
        let (before, after) = (TestDir::new(), TestDir::new());
        let dev = |bytes: u64| {
            format!(
                "Inter-|\n face |\n    lo:{bytes} 1 0 0 0 0 0 0 {bytes} 1 0 0 0 0 0 0\n  eth0: 7 1 0 0 0 0 0 0 {bytes} 1 0 0 0 0 0 0\n"
            )
        };
        before.write("net/dev", dev(10));
        after.write("net/dev", dev(15));
        let host = second_of(&before, &after);
        assert_eq!((host.net_rx_bytes, host.net_tx_bytes), (Some(5), Some(10)));
    }

    /// Reads a host of two cores at a fifth of full speed twice, 1.52 s apart. The processes' own
    /// account is 77 bytes.
    fn host_of(machine: &TestDir, device: Option<&str>, moments: [(Usage, &dyn Fn()); 2]) -> Sample {
        let mut probes: Vec<Box<dyn Probe>> = KINDS.iter().map(|kind| (kind.make)()).collect();
        let mut host = Sample::default();
        for (usage, happen) in moments {
            happen();
            let bounds =
                HostBounds { usage, capacity: 0.4, device: device.map(str::to_owned), ..HostBounds::default() };
            let source = SampleSource { proc: ProcDir::at(machine), host: Some(bounds) };
            host = Sample { disk_write_bytes: Some(77), ..Sample::default() };
            probes.iter_mut().for_each(|probe| probe.read(&source, 1.52, &mut host));
        }
        host
    }

    #[test]
    fn a_host_with_slow_cores_under_load() {
        let machine = TestDir::new();
        // As recorded on Linux 6.18: a busy thread on one core, and on the other a thread that was
        // killed for lack of memory.
        let stall = |some_us| Some(PressureTotals { some_us, full_us: None });
        let memory = |used_bytes, inactive_file_bytes, kills| {
            Some(cgroup::MemoryUsage {
                used_bytes,
                inactive_file_bytes,
                limit_bytes: Some(50_331_648),
                oom_kills: Some(kills),
            })
        };
        let before = Usage {
            cpu: Some(CpuTime { user_ns: 368_264_000, system_ns: 37_942_000 }),
            throttled_ns: Some(1_574_761_527),
            cores: 2,
            memory: memory(33_927_168, 12_582_912, 0),
            cpu_stall: stall(1_397_336),
            io_stall: stall(6_632),
            ..Usage::default()
        };
        let after = Usage {
            cpu: Some(CpuTime { user_ns: 749_392_000, system_ns: 57_646_000 }),
            throttled_ns: Some(2_787_842_679 + 388_639_348),
            memory: memory(20_099_072, 8_192, 1),
            cpu_stall: stall(2_398_872),
            ..before.clone()
        };
        let host = host_of(&machine, None, [(before.clone(), &|| ()), (after.clone(), &|| ())]);
        // 381,128 and 19,704 us in 1.52 s of 0.4 cores.
        near(host.cpu_user_pct, 62.69);
        near(host.cpu_system_pct, 3.24);
        // 1.602 s of 1.52 s on two cores.
        near(host.cpu_throttled_pct, 52.69);
        assert_eq!((host.memory_used_bytes, host.memory_available_bytes), (Some(20_090_880), Some(30_240_768)));
        assert_eq!(host.oom_kills, Some(1));
        near(host.psi_cpu_some_pct, 65.89);
        near(host.psi_io_some_pct, 0.0);
        assert_eq!(host.psi_memory_some_pct, None);
        assert_eq!((host.cpu_iowait_pct, host.cpu_steal_pct, host.disk_write_bytes), (None, None, Some(77)));
        // The machine has less memory left than the host may use, and a fault has made the groups
        // again.
        machine.write("meminfo", "MemTotal: 90000 kB\nMemAvailable: 1000 kB\n");
        let host = host_of(&machine, None, [(after, &|| ()), (before, &|| ())]);
        assert_eq!(host.memory_available_bytes, Some(1_024_000));
        assert_eq!((host.cpu_user_pct, host.cpu_throttled_pct, host.oom_kills), (None, None, None));
    }

    #[test]
    fn throttled_time_is_at_most_the_elapsed_time() {
        let usage = |throttled_ns| Usage { throttled_ns: Some(throttled_ns), cores: 2, ..Usage::default() };
        let host = host_of(&TestDir::new(), None, [(usage(0), &|| ()), (usage(9_000_000_000), &|| ())]);
        near(host.cpu_throttled_pct, 100.0);
    }

    #[test]
    fn a_host_counts_its_own_device_and_no_loopback() {
        let machine = TestDir::new();
        let write = |sectors: u64| {
            let disk = format!(" 7 3 loop3 1 0 {sectors} 0 3 0 4 0\n 254 0 vda 1 0 9 0 3 0 9 0\n");
            machine.write("diskstats", &disk);
            let row = |name: &str| format!("{name}: {sectors} 1 0 0 0 0 0 0 {sectors} 1 0 0 0 0 0 0\n");
            machine.write("net/dev", format!("Inter-|\n face |\n    {}  {}", row("lo"), row("eth0")));
        };
        let moments: [(Usage, &dyn Fn()); 2] = [(Usage::default(), &|| write(10)), (Usage::default(), &|| write(14))];
        let host = host_of(&machine, Some("loop3"), moments);
        assert_eq!((host.disk_read_bytes, host.disk_write_bytes), (Some(4 * 512), Some(0)));
        assert_eq!((host.net_rx_bytes, host.net_tx_bytes), (Some(4), Some(4)));
    }

    #[test]
    fn process_accounts_are_kept_without_control_groups() {
        let host = host_of(&TestDir::new(), None, [(Usage::default(), &|| ()), (Usage::default(), &|| ())]);
        assert_eq!(host, Sample { disk_write_bytes: Some(77), ..Sample::default() });
    }
}
