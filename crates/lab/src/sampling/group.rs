//! A control group as the kernel's files show it, of either version, or of both beside each other: what its processes used
//! and what they were refused. It must not make or change one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::source::Proc;
use crate::linux::procfs;

/// USER_HZ, in which version 1 counts user and system time.
const US_PER_TICK: u64 = 10_000;

/// The folders of one group in the hierarchies that have it. Empty where there is none: nothing is known then.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Group {
    /// Version 1: controller to folder.
    controllers: BTreeMap<String, PathBuf>,
    /// Version 2, which keeps account of CPU time and pressure even where the controllers are version 1's.
    unified: Option<PathBuf>,
}

/// CPU time that a group and those below it used. The total is exact; the parts may be counted by the clock's ticks, and
/// say only how it is divided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CpuTime {
    total_us: u64,
    user_us: u64,
    system_us: u64,
}

/// Memory of a group, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Without what the page cache holds, which is given up when it is needed.
    pub used: u64,
    /// What it may have; `None`: as much as there is.
    pub limit: Option<u64>,
}

impl Group {
    /// The group of that name below the hierarchies' roots, as `/proc/self/mounts` lists them.
    pub fn find(proc: &Proc, name: &str) -> Self {
        let mounts = proc.text("self/mounts").unwrap_or_default();
        let mut group = Self::default();
        for line in mounts.lines() {
            let mut fields = line.split_ascii_whitespace().skip(1);
            let (Some(at), Some(kind), Some(options)) = (fields.next(), fields.next(), fields.next()) else { continue };
            let folder = Path::new(at).join(name);
            match kind {
                "cgroup2" if folder.is_dir() => group.unified = Some(folder),
                "cgroup" if folder.is_dir() => {
                    let options = options.split(',').map(|option| (option.to_owned(), folder.clone()));
                    group.controllers.extend(options);
                }
                _ => {}
            }
        }
        group
    }

    pub fn cpu_time(&self) -> Option<CpuTime> {
        self.cpu_time_v2().or_else(|| self.cpu_time_v1())
    }

    fn cpu_time_v2(&self) -> Option<CpuTime> {
        let stat = self.v2("cpu.stat")?;
        let figure = |name| figure(&stat, name);
        Some(CpuTime {
            total_us: figure("usage_usec")?,
            user_us: figure("user_usec")?,
            system_us: figure("system_usec")?,
        })
    }

    fn cpu_time_v1(&self) -> Option<CpuTime> {
        let total_ns: u64 = self.v1("cpuacct", "cpuacct.usage")?.trim().parse().ok()?;
        let stat = self.v1("cpuacct", "cpuacct.stat")?;
        Some(CpuTime {
            total_us: total_ns / 1000,
            user_us: figure(&stat, "user")? * US_PER_TICK,
            system_us: figure(&stat, "system")? * US_PER_TICK,
        })
    }

    /// For the group and each below it that has a quota of its own (a slow core): how long its threads were kept from
    /// running, microseconds since it was made. A group that is not under version 1's `cpu` is looked up in version 2.
    pub fn throttled_us(&self) -> Option<BTreeMap<PathBuf, u64>> {
        let folder = self.controllers.get("cpu").or(self.unified.as_ref())?;
        let own = throttled_us(folder)?;
        let below = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let slots = below.filter_map(|slot| throttled_us(&slot).map(|us| (slot, us)));
        Some(slots.chain([(folder.clone(), own)]).collect())
    }

    /// Whether a folder that [`Self::throttled_us`] named is a slot of this group, not itself.
    pub fn is_slot(&self, folder: &Path) -> bool {
        self.controllers.get("cpu").or(self.unified.as_ref()).is_some_and(|own| own != folder)
    }

    pub fn memory(&self) -> Option<Memory> {
        self.memory_v1().or_else(|| self.memory_v2())
    }

    fn memory_v1(&self) -> Option<Memory> {
        /// Version 1 says "no limit" with the largest number of pages there is.
        const NO_LIMIT: u64 = 1 << 62;
        let number = |file| self.v1("memory", file)?.trim().parse::<u64>().ok();
        let stat = self.v1("memory", "memory.stat")?;
        let cached = figure(&stat, "total_inactive_file")? + figure(&stat, "total_active_file")?;
        let limit = number("memory.limit_in_bytes").filter(|bytes| *bytes < NO_LIMIT);
        Some(Memory { used: number("memory.usage_in_bytes")?.saturating_sub(cached), limit })
    }

    fn memory_v2(&self) -> Option<Memory> {
        let stat = self.v2("memory.stat")?;
        let given_up = ["inactive_file", "active_file", "slab_reclaimable"];
        let cached: u64 = given_up.iter().filter_map(|name| figure(&stat, name)).sum();
        let current: u64 = self.v2("memory.current")?.trim().parse().ok()?;
        // `max` is no limit.
        let limit = self.v2("memory.max").and_then(|text| text.trim().parse().ok());
        Some(Memory { used: current.saturating_sub(cached), limit })
    }

    /// Processes that the kernel killed for want of memory so far.
    pub fn oom_kills(&self) -> Option<u64> {
        let v1 = self.v1("memory", "memory.oom_control").and_then(|text| figure(&text, "oom_kill"));
        v1.or_else(|| figure(&self.v2("memory.events")?, "oom_kill"))
    }

    /// Version 2's `io.stat`. Version 1's counters are no substitute: they leave out what was written behind the cache, and
    /// devices that nobody throttles.
    pub fn io_stat(&self) -> Option<String> {
        self.v2("io.stat")
    }

    /// `cpu`, `io` or `memory`: as in `/proc/pressure`.
    pub fn pressure(&self, of: &str) -> Option<String> {
        self.v2(&format!("{of}.pressure"))
    }

    fn v1(&self, controller: &str, file: &str) -> Option<String> {
        procfs::text(&self.controllers.get(controller)?.join(file))
    }

    fn v2(&self, file: &str) -> Option<String> {
        procfs::text(&self.unified.as_ref()?.join(file))
    }
}

impl CpuTime {
    /// User and system time since `before`, microseconds; `None` if the account was set back.
    pub fn since(&self, before: &Self) -> Option<(f64, f64)> {
        let total = self.total_us.checked_sub(before.total_us)? as f64;
        let user = self.user_us.saturating_sub(before.user_us) as f64;
        let system = self.system_us.saturating_sub(before.system_us) as f64;
        let user_part = if user + system > 0.0 { user / (user + system) } else { 1.0 };
        Some((total * user_part, total * (1.0 - user_part)))
    }
}

/// Version 1 says `throttled_time`, in nanoseconds, version 2 `throttled_usec`.
fn throttled_us(folder: &Path) -> Option<u64> {
    let stat = procfs::text(&folder.join("cpu.stat"))?;
    figure(&stat, "throttled_time").map(|ns| ns / 1000).or_else(|| figure(&stat, "throttled_usec"))
}

/// `NAME FIGURE`, a line each.
pub(crate) fn figure(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests;
