//! Results of the data checks at each variant and point, over all repeats that are not void.
//!
//! The interval of the rate of wrong answers depends on the counts. With at least three repeats and
//! any wrong answer, it is that of the ratio of sums over repeats, which includes the differences
//! between repeats. With fewer repeats, counts in parts of the load replace counts in repeats,
//! because one incident causes many wrong answers. Without any wrong answer, the pooled counts give
//! the largest rate that may have gone unnoticed. The pooled counts also apply if repeats differ by
//! less than chance allows: three repeats with one wrong answer each do not prove that there is
//! always one.

use record::results::{Consistency, PooledConsistency, Trial, counting};

use crate::stats::shares::{clustered_share_ci95, ratio_of_sums, share_ci95};
use crate::trial_groups::{operations, repeats};

/// Fewest repeats from which their spread is estimated.
const REPEATS: usize = 3;
const RATIO: &str = "ratio";
const CLUSTERS: &str = "Korn-Graubard";
const COUNTS: &str = "Clopper-Pearson";

/// Returns an entry for each variant and point with any check, in the order of the trials.
pub(crate) fn pooled(trials: &[Trial]) -> Vec<PooledConsistency> {
    repeats(counting(trials)).into_iter().filter_map(|group| of_group(&group.trials)).collect()
}

fn of_group(trials: &[&Trial]) -> Option<PooledConsistency> {
    let first = trials.first()?;
    let found: Vec<&Consistency> = trials.iter().map(|trial| &trial.consistency).collect();
    let is_checked = found.iter().any(|found| found.wrong.or(found.lost_writes).or(found.diverged_keys).is_some());
    if !is_checked {
        return None;
    }
    let wrong: Option<Vec<u64>> = found.iter().map(|found| found.wrong).collect();
    let cycles: Option<Vec<u64>> = found.iter().map(|found| found.cycles).collect();
    let operations: Vec<u64> = trials.iter().map(|trial| operations(trial)).collect();
    let parts: Vec<u64> = found.iter().flat_map(|found| found.wrong_by_part.iter().copied()).collect();
    let [by_cycle, by_operation] =
        [cycles.as_ref(), Some(&operations)].map(|all| pooled_rate(wrong.as_ref()?, all?, &parts));
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
        diverged_keys: found.iter().map(|found| found.diverged_keys).collect(),
        lost_writes: found.iter().map(|found| found.lost_writes).collect(),
    })
}

struct ErrorRate {
    per_1000: f64,
    ci95: Option<[f64; 2]>,
    method: &'static str,
}

/// Returns the rate of `some` among `all`; each has one count per repeat. `parts` holds the wrong
/// answers in each part of each repeat. Returns `None` if `all` is 0.
fn pooled_rate(some: &[u64], all: &[u64], parts: &[u64]) -> Option<ErrorRate> {
    let (wrong, of) = (some.iter().sum::<u64>(), all.iter().sum::<u64>());
    if of == 0 {
        return None;
    }
    let pairs: Vec<(f64, f64)> = some.iter().zip(all).map(|(some, all)| (*some as f64, *all as f64)).collect();
    let over_repeats = (wrong > 0 && pairs.len() >= REPEATS).then(|| ratio_of_sums(&pairs)).flatten();
    let of_counts = share_ci95(wrong, of);
    let width_of_counts = of_counts.map_or(0.0, |[low, high]| high - low);
    let (method, ci95) = match over_repeats {
        Some((_, ci95)) if ci95[1] - ci95[0] >= width_of_counts => (RATIO, Some(ci95)),
        None if wrong > 0 => (CLUSTERS, clustered_share_ci95(parts, of)),
        _ => (COUNTS, of_counts),
    };
    let per_1000 = 1000.0 * (wrong as f64 / of as f64);
    Some(ErrorRate { per_1000, ci95: ci95.map(|ends| ends.map(|share| 1000.0 * share)), method })
}

#[cfg(test)]
mod tests {
    use record::results::{Outcomes, Trust, Verdict};

    use super::*;

    fn trial(variant: &str, wrong: Option<u64>, cycles: u64, diverged_keys: Option<u64>) -> Trial {
        let lost_writes = diverged_keys.map(|keys| keys / 2);
        Trial {
            variant: Some(variant.to_owned()),
            outcomes: Outcomes {
                ok: 6 * cycles - wrong.unwrap_or(0),
                wrong: wrong.unwrap_or(0),
                ..Outcomes::default()
            },
            consistency: Consistency {
                wrong,
                wrong_by_part: vec![wrong.unwrap_or(0), 0],
                cycles: Some(cycles),
                diverged_keys,
                lost_writes,
                ..Consistency::default()
            },
            ..Trial::default()
        }
    }

    #[test]
    fn repeats_of_a_variant_are_pooled() {
        let mut void = trial("dirty", Some(999), 1000, Some(999));
        void.verdict = Verdict { is: Trust::Void, ..Verdict::default() };
        let trials = [
            trial("dirty", Some(10), 1000, Some(4)),
            trial("sync", Some(0), 16_000, Some(0)),
            trial("dirty", Some(20), 1000, Some(6)),
            void,
            trial("dirty", Some(30), 2000, None),
            trial("sync", Some(0), 0, Some(0)),
        ];
        let [dirty, sync] = pooled(&trials).try_into().unwrap();
        assert_eq!((dirty.variant.as_deref(), dirty.repeats), (Some("dirty"), 3));
        assert_eq!((dirty.wrong, dirty.cycles, dirty.operations), (Some(60), Some(4000), 24_000));
        assert_eq!((dirty.wrong_per_1000_cycles, dirty.wrong_per_1000_operations), (Some(15.0), Some(2.5)));
        assert_eq!(dirty.method, "ratio");
        let [low, high] = dirty.ci95.unwrap();
        assert!(low < 15.0 - 5.0 && high > 15.0 + 5.0 && ((low + high) / 2.0 - 15.0).abs() < 1e-9, "{low} {high}");
        assert_eq!(
            (dirty.diverged_keys, dirty.lost_writes),
            (vec![Some(4), Some(6), None], vec![Some(2), Some(3), None])
        );

        assert_eq!(
            (sync.wrong, sync.wrong_per_1000_cycles, sync.method.as_str()),
            (Some(0), Some(0.0), "Clopper-Pearson")
        );
        let [low, high] = sync.ci95.unwrap();
        assert!(low == 0.0 && (high - 0.2306).abs() < 1e-3, "at most {high} in 1,000");
    }

    #[test]
    fn few_or_equal_repeats_use_binomial_intervals() {
        let [few, equal, several] = [&[10, 90][..], &[1, 1, 1], &[10, 90, 20]].map(|wrongs| {
            let trials: Vec<Trial> = wrongs.iter().map(|wrong| trial("a", Some(*wrong), 1000, None)).collect();
            pooled(&trials).remove(0)
        });
        assert_eq!([&*few.method, &*equal.method, &*several.method], ["Korn-Graubard", "Clopper-Pearson", "ratio"]);
        let [low, high] = equal.ci95.unwrap();
        assert!(low < 0.3 && high > 2.0, "{low} {high}");
    }

    #[test]
    fn unchecked_trials_have_no_figures() {
        assert_eq!(pooled(&[trial("a", None, 1000, None)]), []);
        assert_eq!(pooled(&[]), []);
        let found = pooled(&[trial("a", None, 1000, Some(3))]).remove(0);
        assert_eq!(
            (found.wrong, found.wrong_per_1000_cycles, found.ci95, found.method.as_str()),
            (None, None, None, "")
        );
        // More wrong answers than cycles: cycles with several wrong answers are not independent
        // draws.
        let found = pooled(&[trial("a", Some(20), 10, None)]).remove(0);
        assert_eq!((found.wrong_per_1000_cycles, found.ci95), (Some(2000.0), None));
        assert!(found.operations_ci95.is_some());
    }

    #[test]
    fn all_trials_are_pooled_if_all_are_void() {
        let void = [1, 2].map(|wrong| Trial {
            verdict: Verdict { is: Trust::Void, ..Verdict::default() },
            ..trial("a", Some(wrong), 1000, None)
        });
        let found = pooled(&void).remove(0);
        assert_eq!((found.repeats, found.wrong), (2, Some(3)));
    }
}
