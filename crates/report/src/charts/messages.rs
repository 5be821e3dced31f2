//! Chart of messages per second: of each operation whose answers are streams, and those that
//! answered no operation.

use super::units::{SecondCount, by_second};
use super::{TrialView, lines_with_values};
use crate::drawing::chart::{Chart, ChartLine, Ink, Panel, PanelUnit};

pub fn draw(view: &TrialView) -> Vec<Chart> {
    let operations = view.trial.operations.iter().filter(|(_, operation)| operation.arrival.messages.is_some());
    let seconds = view.end_s().ceil() as usize;
    let lines = operations.enumerate().map(|(index, (name, _))| {
        let rows = view.series.messages.iter().filter(|row| row.operation == *name);
        let rows = rows.map(|row| SecondCount { at_s: row.at_s, interval_s: row.interval_s, count: row.count });
        view.line(name, Ink::nth(index), &by_second(rows, seconds))
    });
    let mut lines: Vec<ChartLine> = lines.collect();
    lines.extend(pushed(view, seconds, lines.len()));
    let lines = lines_with_values(lines);
    if lines.is_empty() {
        return Vec::new();
    }
    let panel = Panel::linear("messages per second", PanelUnit::PerSecond, 110.0, lines);
    let note = "Messages of streams as they arrived, whatever the outcome of their operations. Messages that the target sent \
                by itself and that answered no operation are counted as (no operation).";
    vec![view.chart_with_warmup("messages", "Messages", note, vec![panel])]
}

/// Returns the line of messages that answered no operation, if there were any.
fn pushed(view: &TrialView, seconds: usize, index: usize) -> Option<ChartLine> {
    view.trial.arrival.pushed_messages.filter(|pushed| *pushed > 0)?;
    let rows = view.series.generator.iter().filter_map(|row| {
        Some(SecondCount { at_s: row.at_s, interval_s: row.interval_s, count: row.pushed_messages? })
    });
    Some(view.line("(no operation)", Ink::nth(index), &by_second(rows, seconds)))
}

#[cfg(test)]
mod tests {
    use record::results::{Arrival, Operation, Trial};
    use record::rows::{GeneratorSecond, MessageSecond};

    use super::*;
    use crate::series::TrialSeries;

    #[test]
    fn operations_with_streams_have_lines() {
        let (mut trial, mut series) = (Trial::default(), TrialSeries::default());
        assert_eq!(draw(&TrialView { trial: &trial, series: &series, points: 100 }), []);
        let arrival = Arrival { messages: Some(70), ..Arrival::default() };
        trial.operations.insert("chat".into(), Operation { arrival, ..Operation::default() });
        trial.operations.insert("get".into(), Operation::default());
        let row = |at_s, count| MessageSecond { at_s, interval_s: 1.0, operation: "chat".into(), count };
        series.messages = vec![row(1.0, 50), row(2.0, 20)];
        series.generator = vec![GeneratorSecond { at_s: 2.0, ..Default::default() }];
        let charts = draw(&TrialView { trial: &trial, series: &series, points: 100 });
        assert_eq!(charts[0].panels[0].lines.len(), 1);
        assert_eq!(charts[0].panels[0].lines[0].points, [(0.5, Some(50.0)), (1.5, Some(20.0))]);
        trial.arrival.pushed_messages = Some(7);
        series.generator.push(GeneratorSecond {
            at_s: 2.0,
            interval_s: 1.0,
            pushed_messages: Some(7),
            ..Default::default()
        });
        let charts = draw(&TrialView { trial: &trial, series: &series, points: 100 });
        assert_eq!(charts[0].panels[0].lines[1].points[1], (1.5, Some(7.0)));
    }
}
