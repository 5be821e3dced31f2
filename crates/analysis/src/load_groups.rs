//! The groups of a load's agents. Each group has separate operations and a separate range of agent
//! ids.

use std::collections::BTreeSet;

use experiment::plan::{self, Load, is_offered};
use record::results::{GroupFigures, Trial};
use record::rows::Attempts;

use crate::evidence::Evidence;
use crate::operations::{LoadLog, OperationTotals, agents_without_cycle, failed_pct, share_pct};

/// Returns the groups of a load with their operations; empty for a load without groups.
pub(crate) fn by_operation(load: &Load) -> Vec<(String, Vec<String>)> {
    let mut groups = Vec::new();
    for group in &load.groups {
        let operations: BTreeSet<String> = group.steps.iter().map(|step| step.name.clone()).collect();
        groups.extend(group.name.clone().map(|name| (name, operations.into_iter().collect())));
    }
    groups
}

/// Returns the throughput that curves over the swept path `over` show: that of a group, if the path
/// belongs to a group. Over an offered rate, throughput counts operations, as the rate does.
pub(crate) fn throughput_over(trial: &Trial, over: &str) -> Option<f64> {
    match plan::group_of(over) {
        Some(name) => trial.groups.get(name)?.throughput_per_s,
        None if is_offered(over) => trial.throughput.operations_per_s,
        None => trial.throughput.work_per_s(),
    }
}

/// Adds the figures of each group, and sets the group of each operation.
pub(crate) fn add(trial: &mut Trial, load: &Load, evidence: &Evidence) {
    let mut before = 0;
    for (group, (name, operations)) in load.groups.iter().zip(by_operation(load)) {
        for operation in &operations {
            trial.operations.entry(operation.clone()).and_modify(|known| known.group = Some(name.clone()));
        }
        let rates = operations.iter().filter_map(|name| trial.operations.get(name)?.throughput_per_s);
        let throughput_per_s = trial.measured_s.map(|_| rates.sum());
        let agents = before + 1..=before + group.agents;
        before += group.agents;
        let cycles: Option<Vec<_>> = evidence
            .agent_cycles
            .as_ref()
            .map(|rows| rows.iter().filter(|row| agents.contains(&row.agent)).cloned().collect());
        let figures = figures(&evidence.load, &evidence.attempts, &operations);
        trial.groups.insert(
            name,
            GroupFigures {
                agents: group.agents,
                offered_per_s: group.rate.as_ref().and_then(plan::Rate::operations_per_s),
                throughput_per_s,
                cycles: cycles.as_ref().map(|rows| rows.iter().map(|row| row.cycles).sum()),
                agents_without_cycle: agents_without_cycle(cycles.as_deref(), f64::NEG_INFINITY),
                ..figures
            },
        );
    }
}

/// Returns the figures of these operations together.
fn figures(log: &LoadLog, attempts: &[Attempts], operations: &[String]) -> GroupFigures {
    let all = OperationTotals::of_all(operations.iter().filter_map(|name| log.totals.get(name)));
    let measured = OperationTotals::of_all(operations.iter().filter_map(|name| log.measured().get(name)));
    let outcomes = all.outcomes();
    GroupFigures {
        outcomes,
        failed_pct: failed_pct(&outcomes),
        timeout_pct: share_pct(outcomes.timeout, &outcomes),
        wrong_pct: share_pct(outcomes.wrong, &outcomes),
        attempts: attempts.iter().filter(|row| operations.contains(&row.operation)).map(|row| row.count).sum(),
        latency_us: measured.latency_us(&log.asked),
        service_us: measured.service_us(&log.asked),
        arrival: measured.arrival(&log.asked),
        by_outcome: all.by_outcome(&log.asked),
        ..GroupFigures::default()
    }
}

#[cfg(test)]
mod tests {
    use experiment::plan::{Rate, Step};
    use hdrhistogram::Histogram;
    use record::hlog::Interval;
    use record::results::{Outcomes, Throughput};
    use record::rows::AgentCycles;

    use super::*;
    use crate::operations::operations;
    use crate::synthetic;

    fn group(name: &str, agents: u32, rate: Option<f64>, steps: &[&str]) -> Load {
        Load {
            name: Some(name.to_owned()),
            rate: rate.map(Rate::Constant),
            steps: steps.iter().map(|name| Step { name: (*name).to_owned(), ..Step::default() }).collect(),
            ..synthetic::load(agents, 2.0)
        }
    }

    fn log(tags: &[(&str, u64, u64)]) -> LoadLog {
        let mut log = LoadLog::default();
        for (tag, us, count) in tags {
            let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
            histogram.record_n(us * 1_000, *count).unwrap();
            log.add(&(&Interval { tag: (*tag).to_owned(), start_s: 0.0, length_s: 2.0, histogram }).into());
        }
        log
    }

    #[test]
    fn each_group_has_its_own_operations_and_agents() {
        let groups = vec![group("writers", 2, None, &["save", "load"]), group("readers", 3, Some(50.0), &["look"])];
        let load = Load { groups, ..synthetic::load(5, 2.0) };
        let load_log = log(&[
            ("save/ok/latency", 100, 300),
            ("load/ok/latency", 300, 100),
            ("load/failed/latency", 5, 100),
            ("look/ok/latency", 9_000, 50),
        ]);
        let cycles = [(1, 7), (2, 8), (3, 9), (4, 0), (5, 1)];
        let cycles =
            cycles.map(|(agent, cycles)| AgentCycles { agent, cycles, last_cycle_s: (cycles > 0).then_some(1.0) });
        let evidence = Evidence {
            load: load_log,
            attempts: vec![Attempts { at_s: 1.0, operation: "look".into(), result: "ok".into(), count: 51 }],
            agent_cycles: Some(cycles.to_vec()),
            ..Evidence::default()
        };
        let mut trial = Trial {
            measured_s: Some([0.0, 2.0]),
            operations: operations(&evidence.load, &evidence.attempts, Some((0.0, 2.0))),
            ..Trial::default()
        };
        add(&mut trial, &load, &evidence);
        assert_eq!(trial.operations["load"].group.as_deref(), Some("writers"));
        let (writers, readers) = (&trial.groups["writers"], &trial.groups["readers"]);
        assert_eq!((writers.agents, writers.cycles, writers.agents_without_cycle), (2, Some(15), Some(0)));
        assert_eq!((readers.agents, readers.cycles, readers.agents_without_cycle), (3, Some(10), Some(1)));
        assert_eq!((writers.throughput_per_s, readers.throughput_per_s), (Some(200.0), Some(25.0)));
        assert_eq!((writers.offered_per_s, readers.offered_per_s), (None, Some(50.0)));
        assert_eq!(writers.outcomes, Outcomes { ok: 400, failed: 100, ..Outcomes::default() });
        assert_eq!((writers.failed_pct, readers.attempts), (Some(20.0), 51));
        let p50s = [writers, readers].map(|figures| figures.latency_us.as_ref().unwrap().p50.unwrap().round());
        assert_eq!((p50s[0], p50s[1].div_euclid(100.0)), (100.0, 90.0));
        assert_eq!(throughput_over(&trial, "load.group.readers.rate"), Some(25.0));
        assert_eq!(throughput_over(&trial, "load.agents"), None);
        // An operation that counts documents is measured by documents, except against an offered
        // rate, which counts operations.
        trial.throughput =
            Throughput { operations_per_s: Some(20.0), median_units_per_s: Some(9_000.0), ..Throughput::default() };
        assert_eq!(throughput_over(&trial, "load.copies"), Some(9_000.0));
        assert_eq!(throughput_over(&trial, "load.rate"), Some(20.0));
    }

    #[test]
    fn a_load_without_groups_has_no_group_figures() {
        let mut trial = Trial::default();
        add(&mut trial, &synthetic::load(5, 2.0), &Evidence::default());
        assert_eq!(trial, Trial::default());
    }
}
