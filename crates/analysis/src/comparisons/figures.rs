//! Which figures of a trial are compared, and which way is better. It must not know who is compared.

use record::results::Trial;

use crate::metrics::metric;
use crate::stats::order::largest;

/// A figure of a trial.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figure {
    /// Its path.
    pub path: String,
    /// Whether more of it is better; otherwise less is.
    pub more_is_better: bool,
    /// Whether it is a count or a share that can be 0, so that ratios of it mean nothing.
    pub can_be_zero: bool,
}

const OPERATIONS: &str = "throughput.operations_per_s";
const CYCLES: &str = "throughput.cycles_per_s";

/// What is compared if nobody asks for something else; cycles only where they tell more than operations do.
const USUAL: [&str; 9] = [
    OPERATIONS,
    CYCLES,
    "latency_us.p50",
    "latency_us.p99",
    "failed_pct",
    "wrong_per_1000_cycles",
    "consistency.lost_writes",
    "faults.outage.failed",
    "faults.outage.back_to_baseline_s",
];

/// Words of a path that make it a count or a share.
const COUNTED: [&str; 14] = [
    "count",
    "_pct",
    "failed",
    "wrong",
    "timeout",
    "unfinished",
    "lost",
    "diverged",
    "dropped",
    "failures",
    "attempt",
    "kills",
    "outcomes",
    "threads",
];

/// Units of which more is better; of everything else (times, losses, memory, cost) less is.
const GAINS: [&str; 3] = ["_per_s", "outcomes.ok", "checked"];

/// What runs takes CPU, and a rate is a rate also of losses.
const NEVER_ZERO: [&str; 2] = ["_per_s", "cpu_pct"];

/// Cycles per operation that differ by no more than this are the same: the figure would only count twice.
const SAME_CYCLES: f64 = 0.05;

impl Figure {
    /// The figure at a path, judged by its words.
    pub fn of(path: &str) -> Self {
        let gains = GAINS.iter().any(|gain| path.ends_with(gain));
        let counted = COUNTED.iter().any(|word| path.contains(word));
        Self {
            path: path.to_owned(),
            more_is_better: gains,
            can_be_zero: counted && !NEVER_ZERO.iter().any(|unit| path.ends_with(unit)),
        }
    }

    /// Its value in a trial; of several, the worst.
    pub fn value(&self, trial: &Trial) -> Option<f64> {
        let values = metric(trial, &self.path);
        if self.more_is_better {
            largest(values.into_iter().map(|value| -value)).map(|value| -value)
        } else if values.len() < self.expected(trial) {
            None
        } else {
            largest(values)
        }
    }

    /// How many values a trial must have. A service that was once not back within the trial has no worst time of coming back,
    /// and the times of those that did come back must not stand for it.
    fn expected(&self, trial: &Trial) -> usize {
        let Some(of) =
            self.path.strip_prefix("faults.").and_then(|path| path.strip_suffix("outage.back_to_baseline_s"))
        else {
            return 0;
        };
        let meant = |name: &str| of.is_empty() || of.strip_suffix('.') == Some(name);
        trial.faults.iter().filter(|fault| fault.outage.is_some() && meant(&fault.name)).count()
    }
}

/// What is compared if nobody asks for something else.
pub(super) fn usual<'a>(trials: impl Iterator<Item = &'a Trial>) -> Vec<Figure> {
    let of_each: Vec<f64> = trials
        .filter_map(|trial| {
            Some(trial.throughput.cycles_per_s? / trial.throughput.operations_per_s.filter(|rate| *rate > 0.0)?)
        })
        .collect();
    let most = of_each.iter().copied().fold(0.0, f64::max);
    let least = of_each.iter().copied().fold(f64::INFINITY, f64::min);
    let cycles_tell_more = most > least * (1.0 + SAME_CYCLES);
    USUAL.into_iter().filter(|path| *path != CYCLES || cycles_tell_more).map(Figure::of).collect()
}

#[cfg(test)]
mod tests {
    use record::results::{Fault, Outage, Throughput};

    use super::*;

    #[test]
    fn paths_say_which_way_is_better() {
        for (path, more_is_better, can_be_zero) in [
            ("throughput.operations_per_s", true, false),
            ("throughput.before_first_fault_per_s", true, false),
            ("operations.save.throughput_per_s", true, false),
            ("latency_us.p99", false, false),
            ("service_us.p50", false, false),
            ("failed_pct", false, true),
            ("outcomes.ok", true, true),
            ("outcomes.timeout", false, true),
            ("consistency.lost_writes", false, true),
            ("faults.outage.failed", false, true),
            ("faults.oops.outage.lost_operations", false, true),
            ("faults.outage.back_to_baseline_s", false, false),
            ("hosts.rss_max_bytes", false, false),
            ("hosts.cpu_pct", false, false),
            ("machine.steal_pct", false, true),
            ("cost.joules_per_cycle", false, false),
        ] {
            let figure = Figure::of(path);
            assert_eq!((figure.more_is_better, figure.can_be_zero), (more_is_better, can_be_zero), "{path}");
        }
    }

    #[test]
    fn what_is_usual_exists() {
        let paths = crate::metric_paths();
        for path in USUAL {
            assert!(paths.iter().any(|known| known == path), "{path}");
        }
    }

    #[test]
    fn a_service_that_never_came_back_has_no_worst_time() {
        let fault = |name: &str, back_to_baseline_s| Fault {
            name: name.into(),
            outage: Some(Outage { back_to_baseline_s, failed: 5, ..Outage::default() }),
            ..Fault::default()
        };
        let trial =
            |second| Trial { faults: vec![fault("oops", Some(1.5)), fault("kill", second)], ..Trial::default() };
        let back = Figure::of("faults.outage.back_to_baseline_s");
        assert_eq!(back.value(&trial(Some(0.5))), Some(1.5));
        assert_eq!(back.value(&trial(None)), None);
        assert_eq!(Figure::of("faults.oops.outage.back_to_baseline_s").value(&trial(None)), Some(1.5));
        assert_eq!(Figure::of("faults.kill.outage.back_to_baseline_s").value(&trial(None)), None);
        assert_eq!(Figure::of("faults.outage.failed").value(&trial(None)), Some(5.0));
        assert_eq!(back.value(&Trial::default()), None);
    }

    #[test]
    fn cycles_are_compared_where_they_tell_more() {
        let trial = |per_s: f64, cycles| Trial {
            throughput: Throughput {
                operations_per_s: Some(per_s),
                cycles_per_s: Some(cycles),
                ..Throughput::default()
            },
            ..Trial::default()
        };
        let has = |trials: &[Trial]| usual(trials.iter()).iter().any(|figure| figure.path == CYCLES);
        assert!(!has(&[trial(100.0, 25.0), trial(200.0, 50.1)]));
        assert!(has(&[trial(100.0, 25.0), trial(200.0, 40.0)]));
        assert!(!has(&[]));
    }
}
