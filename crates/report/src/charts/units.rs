//! Chart of units of work per second of each operation that counts units, and of the parts of its
//! answers that failed.

use std::collections::BTreeMap;

use record::rows::UnitSecond;
use text::numbers;

use super::{TrialView, lines_with_values};
use crate::drawing::chart::{Chart, Ink, LineStyle, Panel, PanelUnit};
use crate::drawing::path::DataPoint;

/// Width of a bar in thousandths of a second.
const SECOND: u32 = 1_000;

pub fn draw(view: &TrialView) -> Vec<Chart> {
    let rows = &view.series.units;
    let operations = view.trial.operations.iter().filter(|(_, operation)| operation.units.is_some());
    let seconds = view.end_s().ceil() as usize;
    let lines = operations.enumerate().map(|(index, (name, _))| {
        let rows = rows.iter().filter(|row| row.status.is_empty() && row.operation == *name);
        view.line(name, Ink::nth(index), &by_second(rows.map(counted), seconds))
    });
    let lines = lines_with_values(lines.collect());
    if lines.is_empty() {
        return Vec::new();
    }
    let mut panels = vec![Panel::linear("units of work per second", PanelUnit::PerSecond, 110.0, lines)];
    let mut not_ok: BTreeMap<&str, Vec<&UnitSecond>> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.status.is_empty() && !row.status.starts_with('2')) {
        not_ok.entry(&row.status).or_default().push(row);
    }
    for (status, rows) in not_ok {
        let total: u64 = rows.iter().map(|row| row.count).sum();
        let label = format!("parts with status {status}: {} in all", numbers::count(total));
        let line = view.line(
            status,
            (Ink::Failed, LineStyle::Bars(SECOND)),
            &by_second(rows.into_iter().map(counted), seconds),
        );
        panels.push(Panel::linear(&label, PanelUnit::Count, 40.0, vec![line]));
    }
    let note = "Of operations that ended ok in each second; failed parts of an answer count no units.";
    vec![view.chart_with_warmup("units", "Units of work", note, panels)]
}

fn counted(row: &UnitSecond) -> SecondCount {
    SecondCount { at_s: row.at_s, interval_s: row.interval_s, count: row.count }
}

/// A count in a second.
pub(super) struct SecondCount {
    /// End of the interval, seconds since load start.
    pub at_s: f64,
    pub interval_s: f64,
    pub count: u64,
}

/// Returns the sum of each second, at its middle. Leaves out an incomplete last second.
pub(super) fn by_second(rows: impl Iterator<Item = SecondCount>, seconds: usize) -> Vec<DataPoint> {
    let mut sums = vec![Some(0.0); seconds];
    for row in rows {
        let place = (row.at_s - row.interval_s + 0.01).max(0.0) as usize;
        let Some(sum) = sums.get_mut(place) else { continue };
        *sum = if row.interval_s > 0.9 { sum.map(|sum| sum + row.count as f64) } else { None };
    }
    (0..).zip(sums).map(|(second, sum)| (f64::from(second) + 0.5, sum)).collect()
}

#[cfg(test)]
mod tests {
    use record::results::{Operation, Trial};

    use super::*;
    use crate::series::TrialSeries;

    #[test]
    fn units_and_failed_parts_have_panels() {
        let mut trial = Trial::default();
        let mut series = TrialSeries::default();
        assert_eq!(draw(&TrialView { trial: &trial, series: &series, points: 100 }), []);
        trial.operations.insert("bulk".into(), Operation { units: Some(1_700), ..Operation::default() });
        trial.operations.insert("get".into(), Operation::default());
        let rows = [(1.0, "", 1_000), (1.0, "201", 1_000), (2.0, "", 500), (2.0, "429", 30), (2.5, "", 200)];
        series.units = rows
            .map(|(at_s, status, count)| UnitSecond {
                at_s,
                interval_s: if at_s > 2.0 { 0.5 } else { 1.0 },
                operation: "bulk".into(),
                status: status.into(),
                count,
            })
            .to_vec();
        series.generator = vec![record::rows::GeneratorSecond { at_s: 2.5, ..Default::default() }];
        let charts = draw(&TrialView { trial: &trial, series: &series, points: 100 });
        let panels = &charts[0].panels;
        assert_eq!(panels.iter().map(|panel| panel.lines.len()).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(panels[0].lines[0].points, [(0.5, Some(1_000.0)), (1.5, Some(500.0)), (2.5, None)]);
        assert_eq!(panels[1].label, "parts with status 429: 30 in all");
    }
}
