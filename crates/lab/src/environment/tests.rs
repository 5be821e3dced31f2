//! Tests on recorded files of machines that are not this one, and of this one for what must be there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::fixture::Scratch;

fn root(files: &[(&str, &str)]) -> (Root, Scratch) {
    let folder = Scratch::new();
    for (path, text) in files {
        folder.write(path, text);
    }
    (Root(folder.to_path_buf()), folder)
}

#[test]
fn this_machine_has_the_basics() {
    let found = read(Path::new("a/run/folder/that/is/not/there/yet"));
    assert!(found.kernel.is_some() && found.memory_bytes.unwrap() > 0 && found.cpu.cores.unwrap() > 0);
    assert_eq!(found.plimsoll.as_deref(), Some(env!("CARGO_PKG_VERSION")));
    assert!(found.disk.free_bytes.is_some() && found.disk.file_system.is_some() && found.root.is_some());
    assert!(found.limits.open_files.is_some() && found.limits.ephemeral_ports.is_some());
}

#[test]
fn a_machine_that_says_nothing_gives_nothing() {
    let (root, _folder) = root(&[]);
    let found = read_at(&root, Path::new("/"));
    // All of it that is not of this program or of the folder.
    let known = Environment {
        plimsoll: found.plimsoll.clone(),
        root: found.root,
        time_zone: found.time_zone.clone(),
        disk: found.disk.clone(),
        cpu: Cpu { architecture: found.cpu.architecture.clone(), cores: found.cpu.cores, ..Cpu::default() },
        ..Environment::default()
    };
    assert_eq!(found, known);
}

#[test]
fn a_laptop() {
    let (root, _folder) = root(&[
        ("etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
        ("proc/cpuinfo", "processor\t: 0\nmodel name\t: A Processor @ 2.00GHz\nflags\t\t: fpu vme\n"),
        ("proc/meminfo", "MemTotal:       16000 kB\nSwapTotal:      0 kB\n"),
        ("proc/self/cgroup", "0::/user.slice\n"),
        ("proc/812/comm", "chronyd\n"),
        ("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
        ("sys/fs/cgroup/cpu.max", "max 100000\n"),
        ("sys/fs/cgroup/memory.max", "4294967296\n"),
        ("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n"),
        ("sys/fs/cgroup/user.slice/memory.max", "max\n"),
        ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
        ("sys/devices/system/node/online", "0-1\n"),
        ("sys/devices/system/cpu/smt/active", "1\n"),
        ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "4600000\n"),
        ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,4-5\n"),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
        ("sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n"),
        ("sys/devices/system/cpu/vulnerabilities/l1tf", "Not affected\n"),
    ]);
    let found = read_at(&root, Path::new("/"));
    assert_eq!(found.os.as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
    assert_eq!((found.memory_bytes, found.swap_bytes), (Some(16_000 << 10), Some(0)));
    assert_eq!((found.virtualisation.as_deref(), found.cgroup_version), (Some("none"), Some(2)));
    assert_eq!(found.limits.ephemeral_ports, Some([32_768, 60_999]));
    assert_eq!((found.quota_cores, found.memory_limit_bytes), (Some(1.5), Some(4 << 30)));
    assert_eq!((found.time_keeper.as_deref(), found.memory_nodes), (Some("chronyd"), Some(2)));
    assert_eq!(found.sysctls["net.ipv4.tcp_rmem"], "4096 131072 6291456");
    let cpu = found.cpu;
    assert_eq!((cpu.smt, cpu.stepping, cpu.sockets), (Some(true), None, None));
    assert_eq!((cpu.model.as_deref(), cpu.governor.as_deref()), (Some("A Processor @ 2.00GHz"), Some("powersave")));
    assert_eq!((cpu.max_mhz, cpu.threads_per_core, cpu.turbo), (Some(4600.0), Some(3), Some(true)));
    assert_eq!(cpu.mitigations, BTreeMap::from([("meltdown".to_owned(), "Mitigation: PTI".to_owned())]));
}

#[test]
fn guests_are_known_by_what_they_say() {
    let guest = ("proc/cpuinfo", "flags\t\t: fpu hypervisor\n");
    let says = |files: &[(&str, &str)]| virtualisation(&root(files).0);
    assert_eq!(says(&[guest, ("sys/class/dmi/id/sys_vendor", "QEMU\n")]).as_deref(), Some("QEMU"));
    let clock = ("sys/devices/system/clocksource/clocksource0/available_clocksource", "kvm-clock tsc\n");
    assert_eq!(says(&[guest, clock]).as_deref(), Some("kvm"));
    assert_eq!(says(&[guest]).as_deref(), Some("unknown hypervisor"));
    assert_eq!(says(&[guest, (".dockerenv", "")]).as_deref(), Some("docker"));
    // ARM says nothing of a hypervisor.
    assert_eq!(says(&[("proc/cpuinfo", "Features\t: fp asimd\nModel\t: Raspberry Pi 2\n")]), None);
}

#[test]
fn only_kernel_options_that_matter_are_kept() {
    let line = "BOOT_IMAGE=/vmlinuz root=/dev/sda1 mitigations=off quiet token=abc isolcpus=2,3 intel_idle.max_cstate=1 -- psi=1";
    assert_eq!(machine::measured_options(line), "mitigations=off isolcpus=2,3 intel_idle.max_cstate=1");
}

#[test]
fn both_cgroup_versions_are_version_1() {
    let version = |text: &str| cgroup_version(&root(&[("proc/self/cgroup", text)]).0);
    assert_eq!(version("4:memory:/x\n1:name=systemd:/\n0::/\n"), Some(1));
    assert_eq!(version("1:name=systemd:/\n0::/\n"), Some(2));
}

#[test]
fn limits_are_read_from_their_table() {
    let table = [
        "Limit                     Soft Limit           Hard Limit           Units",
        "Max processes             unlimited            96365                processes",
        "Max open files            1024                 1048576              files",
    ];
    let table = &table.join("\n");
    assert_eq!(limit(table, "Max open files"), (Some(1024), Some(1_048_576)));
    assert_eq!(limit(table, "Max processes"), (None, Some(96_365)));
    assert_eq!(limit(table, "Max locked memory"), (None, None));
}

#[test]
fn the_nearest_mount_holds_a_folder() {
    let mounts = "22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 0:20 / /data rw,nosuid shared:2 - tmpfs tmpfs rw
31 30 8:1 / /data/my\\040disk rw - xfs /dev/sda1 rw
";
    let device = |folder: &str| mounts::holding(mounts, Path::new(folder)).unwrap().device;
    assert_eq!(device("/var/runs"), "/dev/vda");
    assert_eq!(device("/data/runs"), "tmpfs");
    assert_eq!(device("/database"), "/dev/vda");
    assert_eq!(device("/data/my disk/runs"), "/dev/sda1");
    assert_eq!(mounts::holding("", Path::new("/")), None);
    assert_eq!(mounts::holding(mounts, Path::new("/data")).unwrap().options, "rw,nosuid");
}

#[test]
fn a_partition_asks_its_disk_whether_it_rotates() {
    let (root, _folder) = root(&[("sys/dev/block/8:0/queue/rotational", "1\n"), ("sys/dev/block/8:0/8:1/size", "1\n")]);
    assert_eq!(mounts::is_rotational(&root, "8:0"), Some(true));
    assert_eq!(mounts::is_rotational(&root, "8:0/8:1"), Some(true));
    assert_eq!(mounts::is_rotational(&root, "9:0"), None);
}
