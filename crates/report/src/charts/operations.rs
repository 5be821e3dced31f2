//! Charts of attempts per second, by operation and by result. If there is only one operation or one
//! result, the chart of all operations is sufficient.

use super::{TrialView, lines_with_values};
use crate::drawing::chart::{Chart, ChartLine, Ink, Panel, PanelUnit};
use crate::drawing::path::{DataPoint, thinned};
use crate::series::CountSeries;

/// Maximum number of lines in a chart: the ones with the highest counts.
const LINES: usize = 8;

/// Minimum number of points per line. With fewer, many trials share the page, and these charts
/// would make it too large; the table of attempts has the counts.
const LEAST_POINTS: usize = 110;

pub fn draw(view: &TrialView) -> Vec<Chart> {
    if view.points < LEAST_POINTS {
        return Vec::new();
    }
    let operations = ("by-operation", "Attempts by operation", "Attempts that ended, retries included.");
    let results = ("by-result", "Attempts by result", "Status of the answer, or why there was none.");
    let charts = [(operations, &view.series.by_operation), (results, &view.series.by_result)];
    charts.into_iter().filter_map(|(words, series)| chart(view, words, series)).collect()
}

fn chart(view: &TrialView, (id, title, note): (&str, &str, &str), series: &[CountSeries]) -> Option<Chart> {
    if series.len() < 2 {
        return None;
    }
    let mut most: Vec<&CountSeries> = series.iter().collect();
    most.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.iter().sum::<u64>()));
    let line = |(index, (name, counts)): (usize, &&CountSeries)| {
        let (ink, shape) = Ink::nth(index);
        let end_s = view.end_s();
        // A second without attempts counts as 0. The incomplete second at the end is left out.
        let seconds = (end_s + 0.05) as usize;
        let count = |second: usize| counts.get(second).copied().unwrap_or(0) as f64;
        let points: Vec<DataPoint> = (0..seconds).map(|second| (second as f64 + 0.5, Some(count(second)))).collect();
        ChartLine { name: name.clone(), ink, shape, points: thinned(&points, view.points) }
    };
    let lines = lines_with_values(most.iter().take(LINES).enumerate().map(line).collect());
    let left_out = match most.len().saturating_sub(LINES) {
        0 => String::new(),
        more => format!(" {more} more are rarer; the table has them."),
    };
    let panel = Panel::linear("per second", PanelUnit::PerSecond, 130.0, lines);
    panel.has_values().then(|| view.chart_with_warmup(id, title, &format!("{note}{left_out}"), vec![panel]))
}

#[cfg(test)]
mod tests {
    use record::results::Trial;
    use record::rows::OutcomeSlot;

    use super::*;
    use crate::series::TrialSeries;

    #[test]
    fn each_operation_and_each_result_has_a_line() {
        let of = |name: &str, counts: &[u64]| (name.to_owned(), counts.to_vec());
        let outcomes = vec![OutcomeSlot { at_s: 3.0, slot_s: 0.008, ok: 1, ..OutcomeSlot::default() }];
        let mut series = TrialSeries { outcomes, ..TrialSeries::default() };
        series.by_operation = vec![of("find", &[10, 10, 10, 1])];
        series.by_result = vec![of("ok", &[3, 0, 9]), of("status 503", &[7, 10])];
        let trial = Trial::default();
        let view = |points| TrialView { trial: &trial, series: &series, points };
        assert_eq!(draw(&view(LEAST_POINTS - 1)).len(), 0, "too many trials");
        let charts = draw(&view(LEAST_POINTS));
        assert_eq!(charts.len(), 1, "one operation is all operations");
        let lines = &charts[0].panels[0].lines;
        assert_eq!(lines[0].name, "status 503", "the most first");
        assert_eq!(lines[1].points, [(0.5, Some(3.0)), (1.5, Some(0.0)), (2.5, Some(9.0))]);
    }
}
