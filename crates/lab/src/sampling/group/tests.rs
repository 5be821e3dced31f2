//! Tests of control groups' files, recorded and made up, and of the probes of a host that has them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::symlink;

use record::rows::Sample;

use super::*;
use crate::fixture::Scratch;
use crate::probes::{KINDS, Probe};
use crate::sampling::{Bounds, Source};

/// A machine whose /proc is `proc`, and on which the group's files are in `now/CONTROLLER`.
struct Machine {
    folder: Scratch,
    probes: Vec<Box<dyn Probe>>,
}

impl Machine {
    fn new(hierarchies: &[&str]) -> Self {
        let folder = Scratch::new();
        let mounts = hierarchies.iter().map(|of| match *of {
            "unified" => format!("cgroup2 {}/now/unified cgroup2 rw,nosuid 0 0\n", folder.display()),
            of => format!("cgroup {}/now/{} cgroup rw,relatime,{of} 0 0\n", folder.display(), of.replace(',', "_")),
        });
        let text: String = ["proc /proc proc rw 0 0\n".to_owned()].into_iter().chain(mounts).collect();
        folder.write("proc/self/mounts", &text);
        Self { folder, probes: KINDS.iter().map(|kind| (kind.make)()).collect() }
    }

    /// The group's files are those recorded at this moment.
    fn at(&self, moment: &str) {
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/cgroup/linux-6.18-hybrid").join(moment);
        let _ = fs::remove_file(self.folder.join("now"));
        symlink(recorded, self.folder.join("now")).unwrap();
    }

    fn proc(&self) -> Proc {
        Proc::at(&self.folder.join("proc"))
    }

    fn group(&self) -> Group {
        Group::find(&self.proc(), ".")
    }

    fn write(&self, file: &str, text: &str) {
        self.folder.write(file, text);
    }

    /// As a host of two cores that can do a fifth each.
    fn read(&mut self, interval_s: f64) -> Sample {
        self.read_with(interval_s, None)
    }

    fn read_with(&mut self, interval_s: f64, device: Option<&str>) -> Sample {
        let device = device.map(str::to_owned);
        let bounds = Bounds { group: self.group(), cores: 2.0, capacity: 0.4, memory_bytes: None, device };
        let source = Source { proc: self.proc(), host: Some(bounds) };
        // The processes' own account, which was taken before.
        let mut host = Sample { disk_write_bytes: Some(77), ..Sample::default() };
        self.probes.iter_mut().for_each(|probe| probe.read(&source, interval_s, &mut host));
        host
    }
}

fn near(value: Option<f64>, wanted: f64) {
    assert!(value.is_some_and(|value| (value - wanted).abs() < 0.01), "{value:?}, not {wanted}");
}

#[test]
fn a_host_of_slow_cores_one_of_which_is_busy() {
    let mut machine = Machine::new(&["cpu", "cpuacct", "memory", "unified"]);
    machine.at("0");
    let first = machine.read(f64::NAN);
    assert_eq!((first.cpu_user_pct, first.cpu_throttled_pct, first.oom_kills), (None, None, None), "no base yet");
    assert_eq!(first.memory_used_bytes, Some(33_927_168 - 12_582_912 - 651_264));
    machine.at("1");
    // There is less left than the host may have.
    machine.write("proc/meminfo", "MemTotal: 90000 kB\nMemAvailable: 1000 kB\n");
    let host = machine.read(1.52);
    // 400,833 us in 1.52 s of 0.4 cores, divided as 381,124 to 19,704.
    near(host.cpu_user_pct, 62.68);
    near(host.cpu_system_pct, 3.24);
    // 1.213 and 0.389 s of 1.52 s each.
    near(host.cpu_throttled_pct, 52.69);
    assert_eq!((host.memory_used_bytes, host.memory_available_bytes), (Some(20_078_592), Some(1_024_000)));
    assert_eq!(host.oom_kills, Some(1));
    near(host.psi_cpu_some_pct, 65.89);
    near(host.psi_memory_some_pct, 0.12);
    assert_eq!((host.cpu_iowait_pct, host.cpu_steal_pct, host.cpu_strangers_pct), (None, None, None), "the machine's");
}

#[test]
fn version_1_alone_keeps_account_of_cpu_time_too() {
    let mut machine = Machine::new(&["cpu", "cpuacct"]);
    machine.at("0");
    machine.read(f64::NAN);
    machine.at("1");
    let host = machine.read(1.52);
    // 404,798 us, divided as 38 to 2 ticks.
    near(host.cpu_user_pct, 63.25);
    near(host.cpu_system_pct, 3.33);
    assert_eq!((host.psi_cpu_some_pct, host.memory_used_bytes, host.oom_kills), (None, None, None));
}

#[test]
fn version_2_alone_has_everything() {
    let mut machine = Machine::new(&["unified"]);
    machine.write(
        "proc/diskstats",
        " 7 0 loop0 1 0 2 0 3 0 4 0\n 254 0 vda 1 0 2 0 3 0 4 0\n 254 1 vda1 1 0 2 0 3 0 4 0\n",
    );
    let write = |machine: &Machine, usage: u64, throttled: u64, kills: u64, read: u64| {
        let file = |name: &str, text: &str| machine.write(&format!("now/unified/{name}"), text);
        file(
            "cpu.stat",
            &format!("usage_usec {usage}\nuser_usec {usage}\nsystem_usec 0\nnr_periods 1\nthrottled_usec 0\n"),
        );
        file("core0/cpu.stat", &format!("usage_usec {usage}\nthrottled_usec {throttled}\n"));
        file("memory.current", "5000\n");
        file("memory.max", "max\n");
        file("memory.stat", "anon 1\nfile 2000\ninactive_file 800\nactive_file 200\nslab_reclaimable 100\n");
        file("memory.events", &format!("low 0\noom 9\noom_kill {kills}\noom_group_kill 7\n"));
        // A loop device lies on another: what goes to it goes there as well.
        file(
            "io.stat",
            &format!("7:0 rbytes=99 wbytes=99\n254:0 rbytes={read} wbytes=7 rios=1\n254:1 rbytes=1 wbytes=1\n"),
        );
    };
    write(&machine, 100_000, 50_000, 1, 4096);
    machine.write("proc/meminfo", "MemTotal: 90000 kB\nMemAvailable: 1000 kB\n");
    machine.read(f64::NAN);
    write(&machine, 300_000, 1_550_000, 3, 5096);
    let host = machine.read(1.0);
    near(host.cpu_user_pct, 50.0);
    // No core can wait for longer than there was: 1.5 s of 1 s, of two cores.
    near(host.cpu_throttled_pct, 50.0);
    assert_eq!((host.memory_used_bytes, host.memory_available_bytes), (Some(3900), Some(1_024_000)));
    assert_eq!(host.oom_kills, Some(2));
    assert_eq!((host.disk_read_bytes, host.disk_write_bytes), (Some(1000), Some(0)));
}

#[test]
fn a_device_of_its_own_is_a_hosts_disk_and_its_loopback_no_network() {
    let mut machine = Machine::new(&[]);
    let write = |machine: &Machine, sectors: u64| {
        let disk = format!(" 7 3 loop3 1 0 {sectors} 0 3 0 4 0\n 254 0 vda 1 0 9 0 3 0 9 0\n");
        machine.write("proc/diskstats", &disk);
        let row = |name: &str| format!("{name}: {sectors} 1 0 0 0 0 0 0 {sectors} 1 0 0 0 0 0 0\n");
        machine.write("proc/net/dev", &format!("Inter-|\n face |\n    {}  {}", row("lo"), row("eth0")));
    };
    write(&machine, 10);
    machine.read_with(f64::NAN, Some("loop3"));
    write(&machine, 14);
    let host = machine.read_with(1.0, Some("loop3"));
    assert_eq!((host.disk_read_bytes, host.disk_write_bytes), (Some(4 * 512), Some(0)));
    assert_eq!((host.net_rx_bytes, host.net_tx_bytes), (Some(4), Some(4)));
}

#[test]
fn without_a_group_the_processes_own_account_stands() {
    let mut machine = Machine::new(&[]);
    assert_eq!(machine.group(), Group::default());
    for interval_s in [f64::NAN, 1.0] {
        assert_eq!(machine.read(interval_s), Sample { disk_write_bytes: Some(77), ..Sample::default() });
    }
}

#[test]
fn an_account_that_is_set_back_is_unknown() {
    let time = |total_us, user_us, system_us| CpuTime { total_us, user_us, system_us };
    assert_eq!(time(10, 5, 5).since(&time(20, 5, 5)), None);
    assert_eq!(time(30, 20, 10).since(&time(10, 10, 10)), Some((20.0, 0.0)));
    // The clock has not ticked meanwhile.
    assert_eq!(time(30, 20, 10).since(&time(10, 20, 10)), Some((20.0, 0.0)));
    assert_eq!(time(110, 40, 20).since(&time(10, 10, 10)), Some((75.0, 25.0)));
}
