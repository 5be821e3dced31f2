//! All probes and the processes of one machine or host, read together: what they read, and what of the machine's CPU time the
//! run and strangers took.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use linux::cgroup::{Cgroup, CpuTime, Hierarchies};
use linux::procfs;
use record::rows::Sample;

use crate::groups::{Usage, top_of};
use crate::probes::{KINDS, Probe};
use crate::process_tree::Member;
use crate::process_tree::{ExternalTarget, ProcessForest, TreeReading};
use crate::{Isolation, Setup};

/// All probes, and the processes.
pub struct SampleReader {
    source: SampleSource,
    probes: Vec<Box<dyn Probe>>,
    forest: ProcessForest,
    last: Option<Instant>,
}

/// What a reading came to.
pub struct ReadRows {
    /// The machine or host.
    pub host: Sample,
    /// Each role that runs.
    pub roles: Vec<Sample>,
    /// This program; `process` is empty.
    pub own: Option<Sample>,
    /// CPU time of all that belongs to the run, where it is told.
    pub run: Sample,
}

impl SampleReader {
    /// Of all probes and processes there.
    #[must_use]
    pub fn new(source: SampleSource) -> Self {
        let probes = KINDS.iter().map(|kind| (kind.make)()).collect();
        Self { source, probes, forest: ProcessForest::default(), last: None }
    }

    /// Also tells to whom the machine's CPU time is put down: see [`ProcessForest::share_out`].
    pub fn share_out(&mut self, sought: Option<ExternalTarget>, lab: Option<String>) {
        self.forest.share_out(sought, lab);
    }

    /// The processes, as of the last reading.
    #[must_use]
    pub fn forest(&self) -> &ProcessForest {
        &self.forest
    }

    /// The files that it reads.
    #[must_use]
    pub fn proc(&self) -> &ProcDir {
        &self.source.proc
    }

    /// Says what the host's control groups have used by now: before each reading.
    pub fn set_usage(&mut self, usage: Usage) {
        if let Some(bounds) = &mut self.source.host {
            bounds.usage = usage;
        }
    }

    /// Reads everything and fills in `host`, which has time and name; `None` at the first reading.
    pub fn read(&mut self, now: Instant, members: &[Member], mut host: Sample) -> Option<ReadRows> {
        let interval_s = self.last.replace(now).map(|last| now.duration_since(last).as_secs_f64());
        let length_s = interval_s.unwrap_or(f64::NAN);
        // First, so that a host's control group, where it knows better, has the last word.
        let TreeReading { roles, own, run } = self.forest.read(&self.source, members, length_s, &mut host);
        for probe in &mut self.probes {
            probe.read(&self.source, length_s, &mut host);
        }
        let (user, system) = run.unzip();
        let run = Sample { cpu_user_pct: user, cpu_system_pct: system, ..Sample::default() };
        interval_s.map(|_| ReadRows { host, roles, own, run })
    }
}

/// What is busy and neither the target nor Plimsoll. The kernel counts both sides in clock ticks, so a small difference
/// is noise and one below 0 is none.
pub fn strangers_pct(host: &Sample, ours: &[Sample]) -> Option<f64> {
    let busy = host.cpu_user_pct? + host.cpu_system_pct?;
    let ours = ours.iter().map(|sample| Some(sample.cpu_user_pct? + sample.cpu_system_pct?)).sum::<Option<f64>>()?;
    Some((busy - ours).max(0.0))
}

/// All hosts of a run on this machine together: the control group that theirs are in. Processes come and go, its account
/// stays.
pub struct RunGroup {
    group: Cgroup,
    /// What it had used, and when.
    last: Option<(Instant, CpuTime)>,
}

impl RunGroup {
    /// Of the run with this id.
    #[must_use]
    pub fn of(run: &str) -> Self {
        Self { group: Cgroup::new(&Arc::new(Hierarchies::detect()), top_of(run)), last: None }
    }

    /// Its CPU time since the last reading; empty if nothing is known.
    pub fn read(&mut self, proc: &ProcDir, now: Instant) -> Sample {
        let time = self.group.cpu_time();
        let last = std::mem::replace(&mut self.last, time.map(|time| (now, time)));
        let used = last.zip(time).and_then(|((then, before), time)| {
            let percent = 100.0 / (now.duration_since(then).as_secs_f64() * 1e9 * proc.cpus()?);
            let user_ns = time.user_ns.checked_sub(before.user_ns)?;
            Some((user_ns as f64 * percent, time.system_ns.checked_sub(before.system_ns)? as f64 * percent))
        });
        Sample {
            cpu_user_pct: used.map(|(user, _)| user),
            cpu_system_pct: used.map(|(_, system)| system),
            ..Sample::default()
        }
    }
}

// What the probes read: a machine's /proc and, of a host that Plimsoll made, its control group
// and what it may use.

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
