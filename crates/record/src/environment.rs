//! `environment.json`: what a run ran on, for whoever compares it with another.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a run ran on. What could not be found out is null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// Version of Plimsoll.
    pub plimsoll: Option<String>,
    /// How it was built.
    pub build: Build,
    /// Versions of the targets, by name, as their folders say.
    pub targets: BTreeMap<String, String>,
    /// What is installed for each target on this machine, by the target's name: its parts and their versions, as the target's
    /// hook says. `{"vsns": {"otp": "25.2.3"}}`
    pub installed: BTreeMap<String, BTreeMap<String, String>>,
    /// Name of the machine.
    pub hostname: Option<String>,
    /// Name and version of the operating system.
    pub os: Option<String>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Command line of the kernel.
    pub kernel_command_line: Option<String>,
    /// The processors.
    pub cpu: Cpu,
    /// Memory of the machine.
    pub memory_bytes: Option<u64>,
    /// Transfers per second of its modules, millions; told to root only.
    pub memory_speed_mt_per_s: Option<u64>,
    /// Nodes of memory, each nearer to some of the processors.
    pub memory_nodes: Option<u32>,
    /// Swap space.
    pub swap_bytes: Option<u64>,
    /// `none`, `kvm`, `docker`, …
    pub virtualisation: Option<String>,
    /// 1 or 2; a machine with both is 1.
    pub cgroup_version: Option<u32>,
    /// CPUs' worth of time that the quota of our own control group leaves; null without one.
    pub quota_cores: Option<f64>,
    /// Memory that the limit of our own control group leaves; null without one.
    pub memory_limit_bytes: Option<u64>,
    /// Where the kernel takes its time from: `tsc`, `kvm-clock`, …
    pub clocksource: Option<String>,
    /// Whether the kernel says that its wall clock is synchronised.
    pub is_synchronised: Option<bool>,
    /// The program that synchronises it.
    pub time_keeper: Option<String>,
    /// What the kernel allows.
    pub limits: Limits,
    /// Where the run folder lies.
    pub disk: RunFolderDisk,
    /// Plimsoll ran as root.
    pub root: Option<bool>,
    /// Time zone of the machine.
    pub time_zone: Option<String>,
    /// Its loopback and the interfaces that are devices.
    pub interfaces: Vec<Interface>,
    /// Settings of the kernel that change what is measured and stand nowhere else here, by their names:
    /// `net.core.rmem_max`.
    pub sysctls: BTreeMap<String, String>,
    /// Other things worth knowing, by name.
    pub more: BTreeMap<String, String>,
}

/// How Plimsoll was built.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Build {
    /// `release`, `debug`.
    pub profile: Option<String>,
    /// The compiler.
    pub rustc: Option<String>,
    /// The commit that its sources are of, or were changed from; null if they were no clone.
    pub revision: Option<String>,
}

/// A network interface.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interface {
    /// `lo`, `eth0`, …
    pub name: String,
    /// Largest packet.
    pub mtu_bytes: Option<u32>,
    /// Its driver.
    pub driver: Option<String>,
    /// What it says its speed is.
    pub speed_mbit_per_s: Option<u64>,
}

/// A cache of the first processor.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cache {
    /// 1 is the nearest.
    pub level: Option<u32>,
    /// `Data`, `Instruction`, `Unified`.
    pub holds: Option<String>,
    /// Its size.
    pub size_bytes: Option<u64>,
    /// Logical processors that share it.
    pub shared_by: Option<u32>,
}

/// The processors of a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// Model name.
    pub model: Option<String>,
    /// Revision of the model.
    pub stepping: Option<String>,
    /// Version of its microcode; a hypervisor may make one up.
    pub microcode: Option<String>,
    /// Packages.
    pub sockets: Option<u32>,
    /// Caches of the first processor.
    pub caches: Vec<Cache>,
    /// Logical processors that are threads of one core are in use.
    pub smt: Option<bool>,
    /// `x86_64`, `aarch64`, …
    pub architecture: Option<String>,
    /// Logical processors that Plimsoll may use.
    pub cores: Option<u32>,
    /// Threads of one physical core.
    pub threads_per_core: Option<u32>,
    /// Frequency governor.
    pub governor: Option<String>,
    /// Who sets the frequency.
    pub frequency_driver: Option<String>,
    /// Logical processors on which nothing runs by itself: `2-3`.
    pub isolated: Option<String>,
    /// Whether the frequency may rise above its nominal value.
    pub turbo: Option<bool>,
    /// Highest frequency.
    pub max_mhz: Option<f64>,
    /// Mitigations of processor faults, by name.
    pub mitigations: BTreeMap<String, String>,
}

/// What the kernel allows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Open files of a process: soft limit.
    pub open_files: Option<u64>,
    /// … and hard limit.
    pub open_files_max: Option<u64>,
    /// First and last port that outgoing connections get.
    pub ephemeral_ports: Option<[u32; 2]>,
    /// Longest queue of connections that wait to be accepted: `somaxconn`.
    pub accept_queue: Option<u64>,
    /// Whether ports of closed connections are used again early: `tcp_tw_reuse`.
    pub reuses_ports: Option<u32>,
    /// Processes and threads.
    pub processes: Option<u64>,
}

/// Where the run folder lies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunFolderDisk {
    /// The device, as mounted.
    pub device: Option<String>,
    /// Type of the file system.
    pub file_system: Option<String>,
    /// Options it is mounted with.
    pub mount_options: Option<String>,
    /// Whether the device says that it rotates.
    pub rotational: Option<bool>,
    /// Who orders its requests: `none`, `mq-deadline`, …
    pub scheduler: Option<String>,
    /// Median time of a synced write of 4 KiB when the run began.
    pub sync_us: Option<f64>,
    /// Free when the run began.
    pub free_bytes: Option<u64>,
}
