//! What the checks found at each variant and point, over all repeats that are not void, if any is not. It must not look into a single trial's records.
//!
//! The rate of wrong answers has an interval of the ratio of sums over repeats where there are three of them and any answer was wrong:
//! it counts in how much repeats differ. With fewer, and where nothing was wrong and repeats thus cannot differ, it is that of the pooled
//! counts, which says how rare wrong answers must be to have been missed. So it is where repeats resemble each other more than counts
//! can: three that had one wrong answer each do not show that there is always one.

use record::results::{PooledConsistency, Trial};

use crate::groups::{groups, usable};
use crate::stats::clopper_pearson::share_ci95;
use crate::stats::ratio::ratio_of_sums;

/// As many repeats show how much they differ.
const REPEATS: usize = 3;
const RATIO: &str = "ratio";
const COUNTS: &str = "Clopper-Pearson";

/// An entry for each variant and point of which anything was checked, in the order of the trials.
pub(crate) fn pooled(trials: &[Trial]) -> Vec<PooledConsistency> {
    groups(trials).into_iter().filter_map(|group| of_group(&usable(group.trials))).collect()
}

fn of_group(trials: &[&Trial]) -> Option<PooledConsistency> {
    let first = trials.first()?;
    let found = || trials.iter().map(|trial| &trial.consistency);
    let is_checked = found().any(|found| found.wrong.or(found.lost_writes).or(found.diverged_keys).is_some());
    if !is_checked {
        return None;
    }
    let wrong: Option<Vec<u64>> = found().map(|found| found.wrong).collect();
    let cycles: Option<Vec<u64>> = found().map(|found| found.cycles).collect();
    let operations: Vec<u64> = trials.iter().map(|trial| ended(trial)).collect();
    let of = |all: Option<&Vec<u64>>| wrong.as_ref().zip(all).and_then(|(wrong, all)| rate(wrong, all));
    let (by_cycle, by_operation) = (of(cycles.as_ref()), of(Some(&operations)));
    let method = by_cycle.as_ref().or(by_operation.as_ref()).map(|rate| rate.method);
    Some(PooledConsistency {
        variant: first.variant.clone(),
        point: first.point.clone(),
        repeats: trials.len() as u64,
        cycles: cycles.map(|cycles| cycles.iter().sum()),
        operations: operations.iter().sum(),
        wrong: wrong.map(|wrong| wrong.iter().sum()),
        wrong_per_1000_cycles: by_cycle.as_ref().map(|rate| rate.per_1000),
        ci95: by_cycle.and_then(|rate| rate.ci95),
        wrong_per_1000_operations: by_operation.as_ref().map(|rate| rate.per_1000),
        operations_ci95: by_operation.and_then(|rate| rate.ci95),
        method: method.unwrap_or_default().to_owned(),
        diverged_keys: found().map(|found| found.diverged_keys).collect(),
        lost_writes: found().map(|found| found.lost_writes).collect(),
    })
}

fn ended(trial: &Trial) -> u64 {
    let outcomes = &trial.outcomes;
    outcomes.ok + outcomes.failed + outcomes.timeout + outcomes.wrong
}

struct Rate {
    per_1000: f64,
    ci95: Option<[f64; 2]>,
    method: &'static str,
}

/// Some of all, a pair for each repeat; `None` if there was nothing that could have been wrong.
fn rate(some: &[u64], all: &[u64]) -> Option<Rate> {
    let (wrong, of) = (some.iter().sum::<u64>(), all.iter().sum::<u64>());
    if of == 0 {
        return None;
    }
    let pairs: Vec<(f64, f64)> = some.iter().zip(all).map(|(some, all)| (*some as f64, *all as f64)).collect();
    let over_repeats = (wrong > 0 && pairs.len() >= REPEATS).then(|| ratio_of_sums(&pairs)).flatten();
    let of_counts = share_ci95(wrong, of);
    let width = |[low, high]: [f64; 2]| high - low;
    let (method, ci95) = match over_repeats {
        Some((_, ci95)) if of_counts.is_none_or(|counts| width(ci95) >= width(counts)) => (RATIO, Some(ci95)),
        _ => (COUNTS, of_counts),
    };
    let thousand = |share: f64| 1000.0 * share;
    Some(Rate { per_1000: thousand(wrong as f64 / of as f64), ci95: ci95.map(|ends| ends.map(thousand)), method })
}

#[cfg(test)]
mod tests;
