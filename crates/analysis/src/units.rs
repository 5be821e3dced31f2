//! Units of work that `ok` operations did, and the parts of their answers, from `units.csv`: in
//! total and by operation.

use std::collections::BTreeMap;

use experiment::plan::Load;
use record::results::{AnswerParts, Trial};
use record::rows::UnitSecond;

use crate::generator::share_inside;
use crate::stats::quantiles::median;

/// Status of parts that were rejected because of overload.
const REJECTED: &str = "429";

/// Largest time between the end of a second and the time in its rows, seconds.
const NEAR_S: f64 = 0.01;

/// Units and parts of one operation, or of all.
#[derive(Debug, Default)]
struct WorkDone<'a> {
    units: Vec<&'a UnitSecond>,
    parts: BTreeMap<&'a str, u64>,
    has_parts: bool,
}

/// Adds the units and parts to a trial, if any operation counts them.
pub(crate) fn add(trial: &mut Trial, load: Option<&Load>, rows: &[UnitSecond], measured_s: Option<(f64, f64)>) {
    let counting = load.into_iter().flat_map(Load::all_steps);
    let mut by_operation: BTreeMap<&str, WorkDone<'_>> = BTreeMap::new();
    for step in counting.filter(|step| step.units.is_some() || step.parts.is_some()) {
        by_operation.entry(&step.name).or_default().has_parts |= step.parts.is_some();
    }
    if by_operation.is_empty() {
        return;
    }
    let mut all = WorkDone { has_parts: by_operation.values().any(|work| work.has_parts), ..WorkDone::default() };
    for row in rows {
        for work in by_operation.get_mut(row.operation.as_str()).into_iter().chain([&mut all]) {
            match row.status.as_str() {
                "" => work.units.push(row),
                status => *work.parts.entry(status).or_default() += row.count,
            }
        }
    }
    let rates =
        |work: &WorkDone<'_>| measured_s.map(|window_s| (work.per_s(window_s), work.median_per_s(window_s))).unzip();
    for (name, work) in &by_operation {
        let operation = trial.operations.entry((*name).to_owned()).or_default();
        let (per_s, median_per_s) = rates(work);
        (operation.units_per_s, operation.median_units_per_s) = (per_s, median_per_s.flatten());
        (operation.units, operation.parts) = (Some(work.sum()), work.parts());
    }
    let (per_s, median_per_s) = rates(&all);
    (trial.throughput.units_per_s, trial.throughput.median_units_per_s) = (per_s, median_per_s.flatten());
    (trial.units, trial.parts) = (Some(all.sum()), all.parts());
}

impl WorkDone<'_> {
    fn sum(&self) -> u64 {
        self.units.iter().map(|row| row.count).sum()
    }

    /// Returns units per second. A second that lies partly in the window counts in proportion.
    fn per_s(&self, (from_s, until_s): (f64, f64)) -> f64 {
        let inside =
            self.units.iter().map(|row| row.count as f64 * share_inside(row.at_s, row.interval_s, (from_s, until_s)));
        inside.sum::<f64>() / (until_s - from_s)
    }

    /// Returns the median of units per second over the whole clock seconds within the window. A
    /// second without a row counts as 0.
    fn median_per_s(&self, (from_s, until_s): (f64, f64)) -> Option<f64> {
        let (first, end) = ((from_s - NEAR_S).ceil(), (until_s + NEAR_S).floor());
        let mut seconds = vec![0.0; (end - first).max(0.0) as usize];
        for row in &self.units {
            let place = (row.at_s - NEAR_S).ceil() - 1.0 - first;
            if place >= 0.0
                && let Some(second) = seconds.get_mut(place as usize)
            {
                *second += row.count as f64;
            }
        }
        median(&seconds)
    }

    fn parts(&self) -> Option<AnswerParts> {
        if !self.has_parts {
            return None;
        }
        let all: u64 = self.parts.values().sum();
        let ok = self.parts.iter().filter(|(status, _)| status.len() == 3 && status.starts_with('2'));
        let ok: u64 = ok.map(|(_, count)| count).sum();
        let rejected = self.parts.get(REJECTED).copied().unwrap_or(0);
        Some(AnswerParts {
            ok,
            rejected,
            failed: all - ok - rejected,
            not_ok_pct: (all > 0).then(|| 100.0 * (all - ok) as f64 / all as f64),
            by_status: self.parts.iter().map(|(status, count)| ((*status).to_owned(), *count)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use experiment::plan::{Step, UnitAmount};

    use super::*;

    fn row(at_s: f64, operation: &str, status: &str, count: u64) -> UnitSecond {
        UnitSecond { at_s, interval_s: 1.0, operation: operation.into(), status: status.into(), count }
    }

    fn load() -> Load {
        let steps = [("bulk", None, true), ("get", Some(1), false), ("ping", None, false)];
        let steps = steps.map(|(name, units, parts)| Step {
            name: name.into(),
            units: units.map(UnitAmount::Fixed),
            parts: parts.then(|| "answer.body/items/*/status".to_owned()),
            ..Step::default()
        });
        Load { steps: steps.to_vec(), ..Load::default() }
    }

    #[test]
    fn rates_cover_the_measured_part_and_counts_everything() {
        let rows = [
            row(1.0, "bulk", "", 9_000),
            row(1.0, "bulk", "201", 9_000),
            row(2.0, "bulk", "", 500),
            row(2.0, "bulk", "201", 500),
            row(2.0, "bulk", "429", 20),
            row(2.0, "bulk", "400", 5),
            row(3.0, "bulk", "", 700),
            row(3.0, "get", "", 10),
            row(5.0, "bulk", "", 600),
            row(5.5, "bulk", "", 50),
        ];
        let mut trial = Trial::default();
        add(&mut trial, Some(&load()), &rows, Some((1.0, 5.0)));
        assert_eq!((trial.throughput.units_per_s, trial.throughput.median_units_per_s), (Some(458.75), Some(550.0)));
        assert_eq!((trial.units, trial.operations.len()), (Some(10_860), 2));
        let bulk = &trial.operations["bulk"];
        assert_eq!((bulk.units_per_s, bulk.median_units_per_s, bulk.units), (Some(456.25), Some(550.0), Some(10_850)));
        let parts = bulk.parts.as_ref().unwrap();
        assert_eq!((parts.ok, parts.rejected, parts.failed, parts.by_status["400"]), (9_500, 20, 5, 5));
        assert!((parts.not_ok_pct.unwrap() - 100.0 * 25.0 / 9_525.0).abs() < 1e-9);
        assert_eq!(trial.parts.as_ref(), Some(parts), "`get` has none");
        assert_eq!((trial.operations["get"].median_units_per_s, &trial.operations["get"].parts), (Some(0.0), &None));
    }

    #[test]
    fn units_of_groups_are_counted_too() {
        let groups = vec![Load { name: Some("producers".to_owned()), ..load() }, Load::default()];
        let mut trial = Trial::default();
        let rows = [row(1.0, "bulk", "", 500), row(2.0, "bulk", "", 700), row(2.0, "get", "", 1)];
        add(&mut trial, Some(&Load { groups, ..Load::default() }), &rows, Some((0.0, 2.0)));
        assert_eq!((trial.units, trial.throughput.median_units_per_s), (Some(1_201), Some(600.5)));
        assert_eq!(trial.operations["bulk"].units, Some(1_200));
    }

    #[test]
    fn uncounted_units_are_absent_and_idle_units_zero() {
        let mut trial = Trial::default();
        add(&mut trial, Some(&Load::default()), &[], Some((0.0, 5.0)));
        add(&mut trial, None, &[row(1.0, "bulk", "", 7)], Some((0.0, 5.0)));
        assert_eq!(trial, Trial::default());
        add(&mut trial, Some(&load()), &[], None);
        assert_eq!((trial.units, trial.throughput.units_per_s), (Some(0), None));
        assert_eq!(trial.parts.unwrap().not_ok_pct, None);
        let mut trial = Trial::default();
        add(&mut trial, Some(&load()), &[], Some((0.2, 0.9)));
        assert_eq!(
            (trial.throughput.units_per_s, trial.throughput.median_units_per_s),
            (Some(0.0), None),
            "no whole second"
        );
    }
}
