//! Chart: what of the operations was not `ok`, at each point: timeouts, definite errors, wrong answers. Nothing where all were.

use record::results::Trial;

use super::{Kind, Sheet, short};
use crate::drawing::chart::{Chart, Panel, Unit};
use crate::facts::operations;

pub const KIND: Kind = Kind { name: "not_ok", place: 4, draw };

const HEIGHT: f64 = 110.0;

fn draw(sheet: &Sheet) -> Option<Chart> {
    let share = |count: fn(&Trial) -> u64| {
        sheet.of_trials(move |trial, _| {
            let all = operations(trial);
            (all > 0).then(|| 100.0 * count(trial) as f64 / all as f64)
        })
    };
    let timeouts = share(|trial| trial.outcomes.timeout);
    let failed = share(|trial| trial.outcomes.failed);
    let wrong = sheet.of_trials(|trial, _| trial.wrong_per_1000_cycles);
    let panels: Vec<Panel> = [
        Panel::linear("timeouts, of the operations", Unit::Percent, HEIGHT, timeouts),
        Panel::linear("failed, of the operations", Unit::Percent, HEIGHT, failed),
        Panel::linear("wrong answers for 1,000 cycles", Unit::Plain, HEIGHT, wrong),
    ]
    .into_iter()
    .filter(is_any)
    .collect();
    let note = "Of the whole load. What is not drawn was 0 everywhere, or not looked for. The table counts them.";
    let title = format!("What was not ok, over {}", short(sheet.over));
    (!panels.is_empty()).then(|| sheet.chart(&title, note, panels, Vec::new()))
}

/// Whether any value is above 0.
fn is_any(panel: &Panel) -> bool {
    panel.lines.iter().flat_map(|line| &line.points).any(|point| point.1.is_some_and(|value| value > 0.0))
}
