//! Data sources of the probes: a machine's `/proc` and, for a virtual host, its control group and
//! its limits.

use std::path::{Path, PathBuf};

use linux::procfs;

use crate::control_groups::Usage;
use crate::{Isolation, Setup};

/// A folder with the contents of `/proc`: the real one or a recorded one.
pub struct ProcDir(PathBuf);

impl ProcDir {
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self(path.to_path_buf())
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns a file's text, or `None` if it cannot be read.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        procfs::text(&self.0.join(name))
    }

    /// Returns the number of CPUs of the machine.
    pub fn cpus(&self) -> Option<f64> {
        let stat = self.text("stat")?;
        let count = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count();
        (count > 0).then_some(count as f64)
    }
}

/// Data source of samples.
pub struct SampleSource {
    /// `/proc` of the machine or, inside a host, with that host's processes and interfaces only.
    pub proc: ProcDir,
    /// Part of the machine that belongs to the host. `None`: the whole machine.
    pub host: Option<HostBounds>,
}

/// Use and limits of a host that Plimsoll made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostBounds {
    /// Use of the host's control groups at the start of the reading.
    pub usage: Usage,
    /// Capacity of all cores together, in cores of the machine: 100 %.
    pub capacity: f64,
    /// Memory limit, bytes.
    pub memory_bytes: Option<u64>,
    /// Device of the host's data, if the data has its own device: `loop3`.
    pub device: Option<String>,
}

impl SampleSource {
    /// Reads the whole machine.
    pub fn machine(proc: ProcDir) -> Self {
        Self { proc, host: None }
    }

    /// Reads the host that the setup describes. Without isolation, reads the whole machine.
    pub fn of(setup: &Setup, proc: ProcDir) -> Self {
        let host = setup.isolation.as_ref().map(|isolation| HostBounds::of(setup, isolation, &proc));
        Self { proc, host }
    }

    /// Returns the speed of one core, in cores of the machine.
    pub fn core_speed(&self) -> f64 {
        let slow = self.host.as_ref().filter(|bounds| bounds.usage.cores > 0 && bounds.capacity > 0.0);
        slow.map_or(1.0, |bounds| bounds.capacity / f64::from(bounds.usage.cores))
    }

    /// Returns the capacity that counts as 100 % CPU, in cores of the machine.
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
