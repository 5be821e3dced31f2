//! What the probes read: a machine's /proc and, of a host that Plimsoll made, its control group and what it may use.

use std::path::{Path, PathBuf};

use linux::procfs;

use crate::groups::Usage;
use crate::{Isolation, Setup};

/// `/proc`, or a recorded one.
pub struct ProcDir(PathBuf);

impl ProcDir {
    /// What is below this folder.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self(path.to_path_buf())
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A file's text; `None` if it cannot be read.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        procfs::text(&self.0.join(name))
    }

    /// CPUs of the machine.
    pub fn cpus(&self) -> Option<f64> {
        let stat = self.text("stat")?;
        let count = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count();
        (count > 0).then_some(count as f64)
    }
}

/// Where figures come from.
pub struct SampleSource {
    /// Of the machine or, seen from inside a host, with that host's processes and interfaces only.
    pub proc: ProcDir,
    /// What marks off a host from the machine that plays it; `None`: it is the machine.
    pub host: Option<HostBounds>,
}

/// A host that Plimsoll made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostBounds {
    /// What its control groups had used when the reading began.
    pub usage: Usage,
    /// What they can do together, in cores of the machine: 100 %.
    pub capacity: f64,
    /// Its memory, bytes.
    pub memory_bytes: Option<u64>,
    /// The device its data is on, if it has one to itself: `loop3`.
    pub device: Option<String>,
}

impl SampleSource {
    /// The machine as it is.
    pub fn machine(proc: ProcDir) -> Self {
        Self { proc, host: None }
    }

    /// What a runner sees: its host, if it was to make one.
    pub fn of(setup: &Setup, proc: ProcDir) -> Self {
        let host = setup.isolation.as_ref().map(|isolation| HostBounds::of(setup, isolation, &proc));
        Self { proc, host }
    }

    /// What one core can do, in cores of the machine.
    pub fn core_speed(&self) -> f64 {
        let slow = self.host.as_ref().filter(|bounds| bounds.usage.cores > 0 && bounds.capacity > 0.0);
        slow.map_or(1.0, |bounds| bounds.capacity / f64::from(bounds.usage.cores))
    }

    /// What 100 % of CPU is, in cores of the machine.
    pub fn capacity(&self) -> Option<f64> {
        match &self.host {
            Some(bounds) => Some(bounds.capacity),
            None => self.proc.cpus(),
        }
    }
}

impl HostBounds {
    fn of(setup: &Setup, isolation: &Isolation, proc: &ProcDir) -> Self {
        let envelope = &setup.envelope;
        let may_use = match envelope.cpus.len() {
            0 => proc.cpus().unwrap_or(1.0),
            count => count as f64,
        };
        let cores = envelope.cores.map_or(may_use, f64::from);
        let device = isolation.volume.as_ref().and_then(|volume| volume.device.file_name());
        Self {
            usage: Usage::default(),
            capacity: cores * envelope.core_speed.unwrap_or(1.0),
            memory_bytes: envelope.memory_bytes,
            device: device.map(|name| name.to_string_lossy().into_owned()),
        }
    }
}
