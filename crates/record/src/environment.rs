//! `environment.json`: machine and versions of a run, for comparison with other runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Machine and versions of a run. A value that could not be determined is null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    pub plimsoll: Option<String>,
    pub build: Build,
    /// Versions of the targets by name, as their folders declare them.
    pub targets: BTreeMap<String, String>,
    /// Installed parts of each target on this machine and their versions, by the target's name, as
    /// the target's hook reports them. `{"vsns": {"otp": "25.2.3"}}`
    pub installed: BTreeMap<String, BTreeMap<String, String>>,
    pub hostname: Option<String>,
    /// Name and version of the operating system.
    pub os: Option<String>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    pub kernel_command_line: Option<String>,
    pub cpu: Cpu,
    pub memory_bytes: Option<u64>,
    /// Speed of the memory modules, million transfers per second. Only root can read it.
    pub memory_speed_mt_per_s: Option<u64>,
    /// Number of NUMA nodes.
    pub memory_nodes: Option<u32>,
    pub swap_bytes: Option<u64>,
    /// Kind of virtualisation: `none`, `kvm`, `docker`, …
    pub virtualisation: Option<String>,
    /// Version of cgroups: 1 or 2. A machine with both counts as 1.
    pub cgroup_version: Option<u32>,
    /// Number of CPUs that the quota of Plimsoll's own control group allows. Null without a quota.
    pub quota_cores: Option<f64>,
    /// Memory that the limit of Plimsoll's own control group allows. Null without a limit.
    pub memory_limit_bytes: Option<u64>,
    /// Clock source of the kernel: `tsc`, `kvm-clock`, …
    pub clocksource: Option<String>,
    /// Whether the kernel reports its wall clock as synchronised.
    pub is_synchronised: Option<bool>,
    /// Name of the program that synchronises the clock.
    pub time_keeper: Option<String>,
    pub limits: Limits,
    /// Disk that holds the run folder.
    pub disk: RunFolderDisk,
    /// Whether Plimsoll ran as root.
    pub root: Option<bool>,
    pub time_zone: Option<String>,
    /// Network interfaces: the loopback and those that are devices.
    pub interfaces: Vec<Interface>,
    /// Other kernel settings that influence measurements, by name: `net.core.rmem_max`.
    pub sysctls: BTreeMap<String, String>,
    /// Other values of the machine, by name.
    pub more: BTreeMap<String, String>,
}

/// Build of Plimsoll.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Build {
    /// Build profile: `release` or `debug`.
    pub profile: Option<String>,
    /// Version of the compiler.
    pub rustc: Option<String>,
    /// Commit of the sources. Local changes are not recorded. Null if the sources were not a git
    /// clone.
    pub revision: Option<String>,
}

/// A network interface.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interface {
    /// Name, such as `lo` or `eth0`.
    pub name: String,
    /// Size of the largest packet that the interface can send.
    pub mtu_bytes: Option<u32>,
    pub driver: Option<String>,
    /// Speed, as the interface reports it.
    pub speed_mbit_per_s: Option<u64>,
}

/// A cache of the first processor.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cache {
    /// Level: 1 is closest to the processor.
    pub level: Option<u32>,
    /// Content: `Data`, `Instruction` or `Unified`.
    pub holds: Option<String>,
    pub size_bytes: Option<u64>,
    /// Number of logical processors that share the cache.
    pub shared_by: Option<u32>,
}

/// The processors of a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    pub model: Option<String>,
    pub stepping: Option<String>,
    /// Version of the microcode. A hypervisor may invent it.
    pub microcode: Option<String>,
    /// Number of processor packages.
    pub sockets: Option<u32>,
    pub caches: Vec<Cache>,
    /// Whether several threads of one core are used as logical processors.
    pub smt: Option<bool>,
    /// Architecture: `x86_64`, `aarch64`, …
    pub architecture: Option<String>,
    /// Number of logical processors that Plimsoll may use.
    pub cores: Option<u32>,
    /// Threads per physical core.
    pub threads_per_core: Option<u32>,
    pub governor: Option<String>,
    /// Driver that sets the frequency.
    pub frequency_driver: Option<String>,
    /// Logical processors that are isolated from the scheduler: `2-3`.
    pub isolated: Option<String>,
    /// Whether the frequency may rise above its nominal value.
    pub turbo: Option<bool>,
    pub max_mhz: Option<f64>,
    /// Mitigations of processor faults, by name.
    pub mitigations: BTreeMap<String, String>,
}

/// Limits that the kernel sets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Soft limit of open files per process.
    pub open_files: Option<u64>,
    /// Hard limit of open files per process.
    pub open_files_max: Option<u64>,
    /// First and last port for outgoing connections.
    pub ephemeral_ports: Option<[u32; 2]>,
    /// Longest queue of connections that wait to be accepted: `somaxconn`.
    pub accept_queue: Option<u64>,
    /// Whether ports of closed connections are reused early: `tcp_tw_reuse`.
    pub reuses_ports: Option<u32>,
    /// Maximum number of processes and threads.
    pub processes: Option<u64>,
}

/// Disk that holds the run folder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunFolderDisk {
    /// Device, as mounted.
    pub device: Option<String>,
    pub file_system: Option<String>,
    pub mount_options: Option<String>,
    /// Whether the device reports that it rotates.
    pub rotational: Option<bool>,
    /// I/O scheduler: `none`, `mq-deadline`, …
    pub scheduler: Option<String>,
    /// Median time of a synced write of 4 KiB when the run started.
    pub sync_us: Option<f64>,
    /// Free space when the run started.
    pub free_bytes: Option<u64>,
}
