//! Chart: throughput over a swept path whose values are texts, such as the rate of a link, in the order of the file.

use super::{Kind, Sheet, short};
use crate::drawing::chart::{Chart, Panel, Unit};

pub const KIND: Kind = Kind { name: "by_value", place: 2, draw };

fn draw(sheet: &Sheet) -> Option<Chart> {
    if sheet.names.is_empty() {
        return None;
    }
    let (label, lines) = if sheet.tells_cycles() {
        ("full cycles per second", sheet.of_trials(|trial, _| trial.throughput.cycles_per_s))
    } else {
        ("ok operations per second", sheet.of_trials(|trial, _| trial.throughput.operations_per_s))
    };
    let panel = Panel::linear(label, Unit::PerSecond, 220.0, lines);
    let note = "Dots are the repeats, lines go through their means. Values stand in the order of the file, at equal distances.";
    let title = format!("Throughput at each {}", short(sheet.over));
    panel.has_values().then(|| sheet.chart(&title, note, vec![panel], Vec::new()))
}
