//! Chart: energy for each cycle over the swept load: what a service that is busier costs.

use super::{Kind, Sheet, short};
use crate::drawing::chart::{Chart, Panel, Unit};

pub const KIND: Kind = Kind { name: "cost", place: 5, draw };

fn draw(sheet: &Sheet) -> Option<Chart> {
    let lines = sheet.of_trials(|trial, _| trial.cost.joules_per_cycle);
    let panel = Panel::linear("joules for each cycle, all hosts", Unit::Plain, 190.0, lines);
    let note = "Modelled from the profile's watts and the measured CPU. Hosts that idle draw power too: the busier they are, the more \
                cycles share it.";
    let title = format!("Energy over {}", short(sheet.over));
    panel.has_values().then(|| sheet.chart(&title, note, vec![panel], Vec::new()))
}
