//! Reader of all probes and processes of one machine or host. It also divides the machine's CPU
//! time between the run and other programs.

use std::sync::Arc;
use std::time::Instant;

use linux::cgroup::{Cgroup, CpuTime, Hierarchies};
use record::rows::{ProgramSample, Sample};

use crate::control_groups::{Usage, top_of};
use crate::external_target::ExternalTarget;
use crate::probes::{KINDS, Probe};
use crate::process_tree::Member;
use crate::process_tree::{ProcessForest, TreeReading};
use crate::sample_source::{ProcDir, SampleSource};

/// Reader of all probes and processes.
pub struct SampleReader {
    source: SampleSource,
    probes: Vec<Box<dyn Probe>>,
    forest: ProcessForest,
    last: Option<Instant>,
}

/// Result of a reading.
pub struct ReadRows {
    /// Row of the machine or host.
    pub host: Sample,
    /// One row per running role.
    pub roles: Vec<Sample>,
    /// One row per program that has its own samples.
    pub programs: Vec<ProgramSample>,
    /// Row of this program, with `process` empty.
    pub own: Option<Sample>,
    /// CPU time of all processes of the run, if it is known.
    pub run: Sample,
    /// CPU time of programs that run as operations, percent of the machine.
    pub operations_pct: Option<f64>,
}

impl SampleReader {
    #[must_use]
    pub fn new(source: SampleSource) -> Self {
        let probes = KINDS.iter().map(|kind| (kind.make)()).collect();
        Self { source, probes, forest: ProcessForest::default(), last: None }
    }

    /// Enables attribution of the machine's CPU time to its users: see
    /// [`ProcessForest::share_out`].
    pub fn share_out(&mut self, sought: Option<ExternalTarget>, lab: Option<String>) {
        self.forest.share_out(sought, lab);
    }

    /// Returns the processes as of the last reading.
    #[must_use]
    pub fn forest(&self) -> &ProcessForest {
        &self.forest
    }

    #[must_use]
    pub fn proc(&self) -> &ProcDir {
        &self.source.proc
    }

    /// Sets the current use of the host's control groups. Call it before each reading.
    pub fn set_usage(&mut self, usage: Usage) {
        if let Some(bounds) = &mut self.source.host {
            bounds.usage = usage;
        }
    }

    /// Reads everything and fills in `host`, whose time and name are already set. Returns `None` at
    /// the first reading.
    pub fn read(&mut self, now: Instant, members: &[Member], mut host: Sample) -> Option<ReadRows> {
        let interval_s = self.last.replace(now).map(|last| now.duration_since(last).as_secs_f64());
        let length_s = interval_s.unwrap_or(f64::NAN);
        // The processes are read first, so that figures of a host's control group can replace their
        // less exact figures.
        let TreeReading { roles, programs, own, run, operations_pct } =
            self.forest.read(&self.source, members, length_s, &mut host);
        for probe in &mut self.probes {
            probe.read(&self.source, length_s, &mut host);
        }
        let (user, system) = run.unzip();
        let run = Sample { cpu_user_pct: user, cpu_system_pct: system, ..Sample::default() };
        interval_s.map(|_| ReadRows { host, roles, programs, own, run, operations_pct })
    }
}

/// Largest negative difference that is carried over, percent. A host and its processes are read one
/// after the other, so their difference can be too small by this much.
const MOST_OWED_PCT: f64 = 5.0;

/// Meter of the CPU time used by neither the target nor Plimsoll.
#[derive(Debug, Default)]
pub struct StrangersMeter {
    /// Sum of negative differences. Later differences are reduced by it, so that the mean is right.
    owed_pct: f64,
}

impl StrangersMeter {
    /// Returns the part of the host's CPU time since the last reading that is not in `ours`,
    /// percent. `None` if any figure is unknown.
    pub fn pct(&mut self, host: &Sample, ours: &[Sample]) -> Option<f64> {
        let busy = host.cpu_user_pct? + host.cpu_system_pct?;
        let ours =
            ours.iter().map(|sample| Some(sample.cpu_user_pct? + sample.cpu_system_pct?)).sum::<Option<f64>>()?;
        let left = busy - ours + self.owed_pct;
        self.owed_pct = left.clamp(-MOST_OWED_PCT, 0.0);
        Some(left.max(0.0))
    }
}

/// CPU time of all hosts of a run on this machine together, from the run's control group, which
/// contains the hosts' groups. The group's counters stay while processes start and end.
pub struct RunGroup {
    group: Cgroup,
    /// Time and counters of the last reading.
    last: Option<(Instant, CpuTime)>,
}

impl RunGroup {
    /// Opens the group of the run with this id.
    #[must_use]
    pub fn of(run: &str) -> Self {
        Self { group: Cgroup::new(&Arc::new(Hierarchies::detect()), top_of(run)), last: None }
    }

    /// Returns the CPU time since the last reading. Empty if it is unknown.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn used(user: f64) -> Sample {
        Sample { cpu_user_pct: Some(user), cpu_system_pct: Some(1.0), ..Sample::default() }
    }

    #[test]
    fn strangers_are_the_rest_and_never_negative() {
        let pct = |host: &Sample, ours: &[Sample]| StrangersMeter::default().pct(host, ours);
        assert_eq!(pct(&used(50.0), &[used(20.0), used(9.0)]), Some(20.0));
        assert_eq!(pct(&used(5.0), &[used(20.0)]), Some(0.0));
        assert_eq!(pct(&used(5.0), &[Sample::default()]), None, "unknown, if any part is");
        assert_eq!(pct(&Sample::default(), &[]), None);
    }

    #[test]
    fn noise_around_zero_cancels_out() {
        let mut meter = StrangersMeter::default();
        let readings = [18.0, 22.0, 19.0, 21.0].map(|busy| meter.pct(&used(busy), &[used(20.0)]).unwrap());
        assert_eq!(readings, [0.0, 0.0, 0.0, 0.0]);
        let readings = [0.0, 30.0].map(|busy| meter.pct(&used(busy), &[used(20.0)]).unwrap());
        assert_eq!(readings, [0.0, 5.0], "no more is owed than can be an error");
    }
}
