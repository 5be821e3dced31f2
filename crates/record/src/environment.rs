//! `environment.json`: what a run ran on, for whoever compares it with another. It must not say how any of it is found out,
//! nor whether it is good.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a run ran on. What could not be found out is null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// Version of Plimsoll.
    pub plimsoll: Option<String>,
    /// Versions of the targets, by name.
    pub targets: BTreeMap<String, String>,
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
    /// Swap space.
    pub swap_bytes: Option<u64>,
    /// `none`, `kvm`, `docker`, …
    pub virtualisation: Option<String>,
    /// 1 or 2; a machine with both is 1.
    pub cgroup_version: Option<u32>,
    /// Where the kernel takes its time from: `tsc`, `kvm-clock`, …
    pub clocksource: Option<String>,
    /// What the kernel allows.
    pub limits: Limits,
    /// Where the run folder lies.
    pub disk: Disk,
    /// Plimsoll ran as root.
    pub root: Option<bool>,
    /// Time zone of the machine.
    pub time_zone: Option<String>,
    /// Other things worth knowing, by name.
    pub more: BTreeMap<String, String>,
}

/// The processors of a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// Model name.
    pub model: Option<String>,
    /// `x86_64`, `aarch64`, …
    pub architecture: Option<String>,
    /// Logical processors that Plimsoll may use.
    pub cores: Option<u32>,
    /// Threads of one physical core.
    pub threads_per_core: Option<u32>,
    /// Frequency governor.
    pub governor: Option<String>,
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
pub struct Disk {
    /// The device, as mounted.
    pub device: Option<String>,
    /// Type of the file system.
    pub file_system: Option<String>,
    /// Whether the device says that it rotates.
    pub rotational: Option<bool>,
    /// Free when the run began.
    pub free_bytes: Option<u64>,
}
