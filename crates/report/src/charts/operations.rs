//! Charts of attempts per second, by operation and by result. If there is only one operation or one
//! result, the chart of all operations is sufficient.

use super::{TrialView, lines_with_values};
use crate::drawing::chart::{Chart, Ink, Panel, PanelUnit};
use crate::drawing::path::DataPoint;
use crate::series::CountSeries;

/// Maximum number of lines in a chart: the ones with the highest counts.
const LINES: usize = 8;

/// Smallest limit of points per line with which these charts are drawn. A lower limit means that
/// many trials share the page, which these charts would make too large; the table of attempts has
/// the counts.
const LEAST_POINTS: usize = 110;

pub fn draw(view: &TrialView) -> Vec<Chart> {
    if view.points < LEAST_POINTS {
        return Vec::new();
    }
    let operations = ("by-operation", "Attempts by operation", "Attempts that ended, retries included.");
    let results = ("by-result", "Attempts by result", "Status of the answer, or the reason why there was none.");
    let charts = [(operations, &view.series.by_operation), (results, &view.series.by_result)];
    charts.into_iter().filter_map(|(words, series)| chart(view, words, series)).collect()
}

fn chart(view: &TrialView, (id, title, note): (&str, &str, &str), series: &[CountSeries]) -> Option<Chart> {
    if series.len() < 2 {
        return None;
    }
    let mut most: Vec<&CountSeries> = series.iter().collect();
    most.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.iter().sum::<u64>()));
    // A second without attempts counts as 0. The incomplete second at the end is left out.
    let seconds = (view.end_s() + 0.05) as usize;
    let mut lines = Vec::new();
    for (index, (name, counts)) in most.iter().take(LINES).enumerate() {
        let counts = counts.iter().copied().chain(std::iter::repeat(0)).take(seconds).enumerate();
        let points: Vec<DataPoint> = counts.map(|(second, count)| (second as f64 + 0.5, Some(count as f64))).collect();
        lines.push(view.line(name, Ink::nth(index), &points));
    }
    let left_out = match most.len().saturating_sub(LINES) {
        0 => String::new(),
        more => format!(" {more} more are rarer; the table has them."),
    };
    let panel = Panel::linear("per second", PanelUnit::PerSecond, 130.0, lines_with_values(lines));
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
        let outcomes = vec![OutcomeSlot { at_s: 3.0, slot_s: 0.008, ok: 1, ..OutcomeSlot::default() }];
        let mut series = TrialSeries { outcomes, ..TrialSeries::default() };
        series.by_operation = vec![("find".to_owned(), vec![10, 10, 10, 1])];
        series.by_result = vec![("ok".to_owned(), vec![3, 0, 9]), ("status 503".to_owned(), vec![7, 10])];
        let view = TrialView { trial: &Trial::default(), series: &series, points: LEAST_POINTS };
        assert_eq!(draw(&TrialView { points: LEAST_POINTS - 1, ..view }).len(), 0, "too many trials");
        let charts = draw(&view);
        assert_eq!(charts.len(), 1, "one operation is all operations");
        let lines = &charts[0].panels[0].lines;
        assert_eq!(lines[0].name, "status 503", "the most first");
        assert_eq!(lines[1].points, [(0.5, Some(3.0)), (1.5, Some(0.0)), (2.5, Some(9.0))]);
    }
}
