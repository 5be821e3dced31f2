//! What a group has used, and what it was kept from. It must not take differences: a counter is a counter.

use std::fs;

use super::{Controller, Device, Group, Version, field, number};

/// CPU time used, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user mode.
    pub user_ns: u64,
    /// In the kernel.
    pub system_ns: u64,
}

/// What a quota has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttling {
    /// Periods in which the group ran.
    pub periods: u64,
    /// … and in which it was stopped by its quota.
    pub throttled_periods: u64,
    /// For how long, summed over the CPUs it was stopped on, nanoseconds.
    pub throttled_ns: u64,
}

impl Throttling {
    /// From the text of `cpu.stat`, of either version. `None` where CPU time is not controlled.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let throttled_ns =
            field(text, "throttled_time").or_else(|| Some(field(text, "throttled_usec")?.saturating_mul(1000)));
        Some(Self {
            periods: field(text, "nr_periods")?,
            throttled_periods: field(text, "nr_throttled")?,
            throttled_ns: throttled_ns?,
        })
    }
}

/// Memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// In use, with page cache.
    pub used_bytes: u64,
    /// … of it page cache that was not used lately, the first to be given up. What is in use without it is what monitors
    /// call the working set.
    pub inactive_file_bytes: u64,
    /// Limit; `None`: none.
    pub limit_bytes: Option<u64>,
    /// Processes killed for want of memory, since the group was made.
    pub oom_kills: Option<u64>,
}

/// What a task can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// A CPU.
    Cpu,
    /// A disk.
    Io,
    /// Memory.
    Memory,
}

/// Pressure: how long tasks waited, since the group was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stall {
    /// At least one of them, microseconds.
    pub some_us: u64,
    /// All of them, microseconds.
    pub full_us: Option<u64>,
}

impl Group {
    /// CPU time used by it and all below it. Needs no controller where there is version 2.
    #[must_use]
    pub fn cpu_time(&self) -> Option<CpuTime> {
        if let Some(text) = self.at_v2().and_then(|folder| fs::read_to_string(folder.join("cpu.stat")).ok()) {
            let ns = |key: &str| field(&text, key).map(|us| us.saturating_mul(1000));
            return Some(CpuTime { user_ns: ns("user_usec")?, system_ns: ns("system_usec")? });
        }
        let (_, folder) = self.at(Controller::CpuAccount, "CPU time").ok()?;
        Some(CpuTime {
            user_ns: number(&folder.join("cpuacct.usage_user"))?,
            system_ns: number(&folder.join("cpuacct.usage_sys"))?,
        })
    }

    /// What its own quota has done; not that of groups below.
    #[must_use]
    pub fn throttling(&self) -> Option<Throttling> {
        let (_, folder) = self.at(Controller::Cpu, "CPU time").ok()?;
        Throttling::parse(&fs::read_to_string(folder.join("cpu.stat")).ok()?)
    }

    /// Memory of it and all below it.
    #[must_use]
    pub fn memory(&self) -> Option<Memory> {
        let (version, folder) = self.at(Controller::Memory, "memory").ok()?;
        let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let stat = text("memory.stat");
        Some(match version {
            Version::V1 => Memory {
                used_bytes: number(&folder.join("memory.usage_in_bytes"))?,
                inactive_file_bytes: field(&stat, "total_inactive_file").unwrap_or(0),
                // No limit is the largest number of whole pages.
                limit_bytes: number(&folder.join("memory.limit_in_bytes")).filter(|bytes| *bytes < i64::MAX as u64 / 2),
                oom_kills: field(&text("memory.oom_control"), "oom_kill"),
            },
            Version::V2 => Memory {
                used_bytes: number(&folder.join("memory.current"))?,
                inactive_file_bytes: field(&stat, "inactive_file").unwrap_or(0),
                limit_bytes: number(&folder.join("memory.max")),
                oom_kills: field(&text("memory.events"), "oom_kill"),
            },
        })
    }

    /// Pressure on it and all below it. Needs version 2, with or without controllers, and a kernel with PSI switched on.
    #[must_use]
    pub fn stall(&self, resource: Resource) -> Option<Stall> {
        let name = match resource {
            Resource::Cpu => "cpu.pressure",
            Resource::Io => "io.pressure",
            Resource::Memory => "memory.pressure",
        };
        let text = fs::read_to_string(self.at_v2()?.join(name)).ok()?;
        let total = |kind: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
            line.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
        };
        Some(Stall { some_us: total("some ")?, full_us: total("full ") })
    }

    /// Bytes read from and written to each device by it and all below it.
    #[must_use]
    pub fn transferred(&self) -> Option<Vec<(Device, u64, u64)>> {
        let (version, folder) = self.at(Controller::Block, "reads and writes").ok()?;
        let name = match version {
            Version::V1 => "blkio.throttle.io_service_bytes_recursive",
            Version::V2 => "io.stat",
        };
        let text = fs::read_to_string(folder.join(name)).ok()?;
        let mut devices: Vec<(Device, u64, u64)> = Vec::new();
        for (device, is_write, bytes) in text.lines().flat_map(transfers) {
            if devices.last().is_none_or(|last| last.0 != device) {
                devices.push((device, 0, 0));
            }
            if let Some(last) = devices.last_mut() {
                *(if is_write { &mut last.2 } else { &mut last.1 }) += bytes;
            }
        }
        Some(devices)
    }

    /// Processes and threads in it and below it.
    #[must_use]
    pub fn pids(&self) -> Option<u64> {
        number(&self.at(Controller::Pids, "processes").ok()?.1.join("pids.current"))
    }
}

/// `7:0 Read 4096` and `7:0 rbytes=4096 wbytes=0 …`: device, whether written, bytes.
fn transfers(line: &str) -> Vec<(Device, bool, u64)> {
    let mut words = line.split_ascii_whitespace();
    let Some(device) = words.next().and_then(Device::parse) else { return Vec::new() };
    let rest: Vec<&str> = words.collect();
    if let [kind @ ("Read" | "Write"), bytes] = rest.as_slice() {
        return bytes.parse().map(|bytes| vec![(device, *kind == "Write", bytes)]).unwrap_or_default();
    }
    let figure = |name: &str| rest.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
    let figures = [(false, figure("rbytes")), (true, figure("wbytes"))];
    figures.into_iter().filter_map(|(is_write, bytes)| Some((device, is_write, bytes?))).collect()
}
