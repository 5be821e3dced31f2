//! Late starts in bunches: a generator that did not run for a while then sends all due operations
//! at once. A target that limits bursts rejects these operations, but the generator caused the
//! failures.

use experiment::plan;
use record::results::{Outcomes, Trial};
use record::rows::{GeneratorSecond, OutcomeSlot};

use crate::evidence::Evidence;
use crate::operations::failed_pct;

/// Smallest number of operations, due while the generator did not run, that form a bunch.
const BUNCH: f64 = 2.0;

/// Longest time between the second in which a bunch was sent and its failures, seconds.
const AFTER_S: f64 = 0.1;

/// Share of the load's slots that must be without bunches to compute a share of failures.
const ENOUGH: f64 = 0.5;

/// Whether starts in a row's second were so late that they formed a bunch.
pub(crate) fn is_bunched(row: &GeneratorSecond) -> bool {
    let due_per_s = row.due.unwrap_or(row.operations) as f64 / row.interval_s.max(f64::EPSILON);
    row.late_us_max.is_some_and(|late_us| late_us / 1e6 * due_per_s >= BUNCH)
}

/// Time with bunched starts, and failures in the rest of the time.
#[derive(Debug, Clone, Copy, PartialEq)]
struct BunchedStarts {
    /// Percentage of the load's time in which late starts came in bunches.
    pct: f64,
    /// Percentage of operations that failed in the rest of the time; `None` if the rest is less
    /// than half.
    failed_pct: Option<f64>,
}

/// Adds the figures on bunched starts, if the load is open.
pub(crate) fn add(trial: &mut Trial, planned: &plan::Trial, evidence: &Evidence) {
    if planned.load.as_ref().is_some_and(plan::Load::is_open) {
        let found = of_rows(&evidence.generator, &evidence.slots);
        trial.generator.bunched_pct = found.map(|found| found.pct);
        trial.generator.punctual_failed_pct = found.and_then(|found| found.failed_pct);
    }
}

fn of_rows(generator: &[GeneratorSecond], slots: &[OutcomeSlot]) -> Option<BunchedStarts> {
    let mut bunched: Vec<&GeneratorSecond> = generator.iter().filter(|row| is_bunched(row)).collect();
    bunched.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    // Earliest start among each row and all rows after it.
    let mut begins_s: Vec<f64> = bunched.iter().map(|row| row.at_s - row.interval_s).collect();
    for place in (1..begins_s.len()).rev() {
        begins_s[place - 1] = begins_s[place - 1].min(begins_s[place]);
    }
    let (mut punctual, mut outcomes) = (0, Outcomes::default());
    for slot in slots {
        let first = bunched.partition_point(|row| row.at_s + AFTER_S <= slot.at_s);
        if begins_s.get(first).is_none_or(|begin_s| slot.at_s + slot.slot_s <= *begin_s) {
            punctual += 1;
            outcomes.ok += u64::from(slot.ok);
            outcomes.failed += u64::from(slot.failed);
            outcomes.timeout += u64::from(slot.timeout);
            outcomes.wrong += u64::from(slot.wrong);
        }
    }
    let share = f64::from(punctual) / slots.len() as f64;
    let failed_pct = if share >= ENOUGH { failed_pct(&outcomes) } else { None };
    (!slots.is_empty()).then_some(BunchedStarts { pct: 100.0 * (1.0 - share), failed_pct })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at_s: f64, late_us: f64) -> GeneratorSecond {
        GeneratorSecond {
            at_s,
            interval_s: 1.0,
            due: Some(100),
            late_us_max: Some(late_us),
            ..GeneratorSecond::default()
        }
    }

    /// Ten seconds of 100 operations each. In seconds with a bunch, one in a hundred fails.
    fn slots(bunched: &[usize]) -> Vec<OutcomeSlot> {
        let slots = (0..100_usize).map(|index| {
            let failed = u32::from(bunched.contains(&(index / 10)));
            OutcomeSlot { at_s: index as f64 / 10.0, slot_s: 0.1, ok: 10 - failed, failed, ..OutcomeSlot::default() }
        });
        slots.collect()
    }

    #[test]
    fn failures_after_bunched_starts_are_excluded() {
        let generator: Vec<GeneratorSecond> =
            (1..=10).map(|at| second(f64::from(at), if at == 4 { 60_000.0 } else { 500.0 })).collect();
        let found = of_rows(&generator, &slots(&[3])).unwrap();
        assert!((found.pct - 11.0).abs() < 1e-9, "the second and a slot after it: {found:?}");
        assert_eq!(found.failed_pct, Some(0.0));
        let others = of_rows(&generator, &slots(&[3, 7])).unwrap();
        assert!(others.failed_pct.unwrap() > 1.0, "the target fails on its own: {others:?}");
    }

    #[test]
    fn a_single_late_start_is_no_bunch() {
        let [one, many] =
            [15_000.0, 60_000.0].map(|late_us| (1..=10).map(|at| second(f64::from(at), late_us)).collect::<Vec<_>>());
        assert_eq!(of_rows(&one, &slots(&[3])).unwrap().pct, 0.0, "1.5 operations were due");
        assert_eq!(of_rows(&many, &slots(&[3])), Some(BunchedStarts { pct: 100.0, failed_pct: None }));
        assert_eq!(of_rows(&many, &[]), None);
    }
}
