//! What a group may use: CPU time, CPUs, memory, processes, a disk. It must not decide how much that is.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use super::{Controller, Device, Error, Group, Version, number, write, write_or};

/// CPU time in each period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// 1 ms to 1 s.
    pub period_us: u64,
    /// At least 1 ms; more than the period is more than one core.
    pub quota_us: u64,
}

impl Quota {
    /// So many cores, with a period as short as the kernel lets it be but not below 10 ms: a short one is nearer to a slow
    /// core, and shorter than a scheduler tick means nothing.
    #[must_use]
    pub fn of_cores(cores: f64) -> Self {
        let cores = cores.max(0.001);
        let period_us = (1000.0 / cores).clamp(10_000.0, 1_000_000.0);
        Self { period_us: period_us.round() as u64, quota_us: (period_us * cores).round().max(1000.0) as u64 }
    }
}

/// The most that is read from and written to a device; `None`: not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttle {
    /// Reads/s.
    pub read_iops: Option<u64>,
    /// Writes/s.
    pub write_iops: Option<u64>,
    /// Bytes/s.
    pub read_bytes_per_s: Option<u64>,
    /// Bytes/s.
    pub write_bytes_per_s: Option<u64>,
}

impl Group {
    /// CPU time for all that is in it together; `None`: as much as there is.
    ///
    /// # Errors
    /// [`Error::Missing`], or what the system says.
    pub fn set_quota(&self, quota: Option<Quota>) -> Result<(), Error> {
        let what = "a limit of CPU time";
        let (version, folder) = self.at(Controller::Cpu, what)?;
        let (text, period_us) = match quota {
            Some(quota) => (quota.quota_us.to_string(), quota.period_us),
            None => ("max".to_owned(), 100_000),
        };
        if version == Version::V2 {
            return self.put(Controller::Cpu, what, &folder.join("cpu.max"), &format!("{text} {period_us}"));
        }
        // With neither too little quota for the old period nor too much of it in between.
        self.put(Controller::Cpu, what, &folder.join("cpu.cfs_quota_us"), "-1")?;
        write_or(&folder.join("cpu.cfs_period_us"), &period_us.to_string())?;
        if quota.is_some() { write_or(&folder.join("cpu.cfs_quota_us"), &text) } else { Ok(()) }
    }

    /// How much it counts beside its neighbours when there is not enough for all: 1 is what every group has.
    ///
    /// # Errors
    /// [`Error::Missing`], or what the system says.
    pub fn set_weight(&self, weight: f64) -> Result<(), Error> {
        let what = "a share of CPU time";
        let (version, folder) = self.at(Controller::Cpu, what)?;
        let (file, figure) = match version {
            Version::V1 => ("cpu.shares", (weight * 1024.0).clamp(2.0, 262_144.0)),
            Version::V2 => ("cpu.weight", (weight * 100.0).clamp(1.0, 10_000.0)),
        };
        self.put(Controller::Cpu, what, &folder.join(file), &figure.round().to_string())
    }

    /// CPUs that it may run on, by number; empty: all that the group above may.
    ///
    /// # Errors
    /// [`Error::Missing`], or what the system says.
    pub fn set_cpus(&self, cpus: &[u32]) -> Result<(), Error> {
        let what = "a choice of CPUs";
        let (version, folder) = self.at(Controller::Cpuset, what)?;
        let list = cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let above = || folder.parent().and_then(|above| fs::read_to_string(above.join("cpuset.cpus")).ok());
        let text = match (version, cpus.is_empty()) {
            (_, false) => list,
            (Version::V1, true) => above().unwrap_or_default().trim().to_owned(),
            (Version::V2, true) => "\n".to_owned(),
        };
        self.put(Controller::Cpuset, what, &folder.join("cpuset.cpus"), &text)
    }

    /// Memory with page cache, and no swap beside it; `None`: not limited. Lowered below what is in use, version 2 kills, and
    /// version 1 frees what it can or refuses.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::MemoryInUse`], or what the system says.
    pub fn set_memory(&self, bytes: Option<u64>) -> Result<(), Error> {
        let what = "a limit of memory";
        let (version, folder) = self.at(Controller::Memory, what)?;
        if version == Version::V2 {
            let text = bytes.map_or_else(|| "max".to_owned(), |bytes| bytes.to_string());
            self.put(Controller::Memory, what, &folder.join("memory.max"), &text)?;
            // Not there without swap.
            let _ = write(&folder.join("memory.swap.max"), if bytes.is_some() { "0" } else { "max" });
            return Ok(());
        }
        let limit = folder.join("memory.limit_in_bytes");
        let with_swap = folder.join("memory.memsw.limit_in_bytes");
        let text = bytes.map_or_else(|| "-1".to_owned(), |bytes| bytes.to_string());
        // The second never below the first: whichever way it goes, one of the two orders is right.
        let raised = with_swap.exists() && write(&with_swap, &text).is_ok();
        match write(&limit, &text) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                let used_bytes = number(&folder.join("memory.usage_in_bytes")).unwrap_or(0);
                return Err(Error::MemoryInUse { asked_bytes: bytes.unwrap_or(0), used_bytes });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(self.hierarchies.missing(Controller::Memory, what));
            }
            done => done.map_err(|error| Error::of(format!("write {text} to {}", limit.display()), error))?,
        }
        if with_swap.exists() && !raised { write_or(&with_swap, &text) } else { Ok(()) }
    }

    /// Processes and threads; `None`: not limited.
    ///
    /// # Errors
    /// [`Error::Missing`], or what the system says.
    pub fn set_pids(&self, most: Option<u64>) -> Result<(), Error> {
        let what = "a limit of the number of processes";
        let (_, folder) = self.at(Controller::Pids, what)?;
        let text = most.map_or_else(|| "max".to_owned(), |most| most.to_string());
        self.put(Controller::Pids, what, &folder.join("pids.max"), &text)
    }

    /// What may be read from and written to a device. In version 1 this counts reads and writes by the group's own processes,
    /// and misses those the kernel does for them (a file system's journal) unless the group is the root.
    ///
    /// # Errors
    /// [`Error::Missing`] also for the root of version 2, which cannot be limited; or what the system says.
    pub fn set_throttle(&self, device: Device, throttle: &Throttle) -> Result<(), Error> {
        let what = "a limit of reads and writes";
        let (version, folder) = self.at(Controller::Block, what)?;
        let figures = [
            ("rbps", "read_bps", throttle.read_bytes_per_s),
            ("wbps", "write_bps", throttle.write_bytes_per_s),
            ("riops", "read_iops", throttle.read_iops),
            ("wiops", "write_iops", throttle.write_iops),
        ];
        if version == Version::V2 {
            let line = figures.iter().fold(device.to_string(), |mut line, (name, _, figure)| {
                // A limit of 0 is refused.
                let figure = figure.map_or_else(|| "max".to_owned(), |figure| figure.max(1).to_string());
                let _ = write!(line, " {name}={figure}");
                line
            });
            return self.put(Controller::Block, what, &folder.join("io.max"), &line);
        }
        for (_, name, figure) in figures {
            let file = folder.join(format!("blkio.throttle.{name}_device"));
            // 0 takes the limit away.
            let line = format!("{device} {}", figure.map_or(0, |figure| figure.max(1)));
            self.put(Controller::Block, what, &file, &line)?;
        }
        Ok(())
    }

    /// A file that is not there is a feature that is not there.
    fn put(&self, controller: Controller, what: &'static str, file: &Path, text: &str) -> Result<(), Error> {
        match write(file, text) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.hierarchies.missing(controller, what)),
            done => done.map_err(|error| Error::of(format!("write {text:?} to {}", file.display()), error)),
        }
    }
}
