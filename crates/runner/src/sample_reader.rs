//! All probes and the processes of one machine or host, read together: what they read, and what of the machine's CPU time the
//! run and strangers took.

use std::sync::Arc;
use std::time::Instant;

use linux::cgroup::{Cgroup, CpuTime, Hierarchies};
use record::rows::{ProgramSample, Sample};

use crate::external_target::ExternalTarget;
use crate::groups::{Usage, top_of};
use crate::probes::{KINDS, Probe};
use crate::process_tree::Member;
use crate::process_tree::{ProcessForest, TreeReading};
use crate::sample_source::{ProcDir, SampleSource};

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
    /// Each program that has figures of its own.
    pub programs: Vec<ProgramSample>,
    /// This program; `process` is empty.
    pub own: Option<Sample>,
    /// CPU time of all that belongs to the run, where it is told.
    pub run: Sample,
    /// CPU time of the programs that run as operations, percent of the machine.
    pub operations_pct: Option<f64>,
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

/// A host and its processes are read one after the other, so that their difference can be off by so much, percent.
const MOST_OWED_PCT: f64 = 5.0;

/// CPU time that was used by neither the target nor Plimsoll.
#[derive(Debug, Default)]
pub struct StrangersMeter {
    /// Differences below 0, which are taken from later ones, so that the mean is right.
    owed_pct: f64,
}

impl StrangersMeter {
    /// Returns the part of the host's CPU time since the last reading that is not ours, percent, or `None` if any of them is unknown.
    pub fn pct(&mut self, host: &Sample, ours: &[Sample]) -> Option<f64> {
        let busy = host.cpu_user_pct? + host.cpu_system_pct?;
        let ours =
            ours.iter().map(|sample| Some(sample.cpu_user_pct? + sample.cpu_system_pct?)).sum::<Option<f64>>()?;
        let left = busy - ours + self.owed_pct;
        self.owed_pct = left.clamp(-MOST_OWED_PCT, 0.0);
        Some(left.max(0.0))
    }
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
    fn differences_that_are_noise_add_up_to_nothing() {
        let mut meter = StrangersMeter::default();
        let told = [18.0, 22.0, 19.0, 21.0].map(|busy| meter.pct(&used(busy), &[used(20.0)]).unwrap());
        assert_eq!(told, [0.0, 0.0, 0.0, 0.0]);
        let told = [0.0, 30.0].map(|busy| meter.pct(&used(busy), &[used(20.0)]).unwrap());
        assert_eq!(told, [0.0, 5.0], "no more is owed than can be an error");
    }
}
