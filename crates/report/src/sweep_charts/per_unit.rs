//! Chart: throughput for each agent, host or whatever else was swept: what one more brings.

use super::{Kind, Sheet, short};
use crate::drawing::chart::{Chart, Panel, Unit};

pub const KIND: Kind = Kind { name: "per_unit", place: 2, draw };

fn draw(sheet: &Sheet) -> Option<Chart> {
    // Of an offered rate it is a share.
    let (label, unit) = match sheet.over {
        "load.rate" => ("ok operations for each one offered".to_owned(), Unit::Plain),
        "load.agents" => ("ok operations per second for each agent".to_owned(), Unit::PerSecond),
        "lab.hosts" => ("ok operations per second for each host".to_owned(), Unit::PerSecond),
        other => (format!("ok operations per second for each of {}", short(other)), Unit::PerSecond),
    };
    let panel = Panel::linear(&label, unit, 190.0, sheet.measured(|point, rate| rate / point.load));
    let note = "Level: nobody waits for anybody. Falling: they share, or hinder each other.";
    panel.has_values().then(|| sheet.chart(&format!("Per unit of {}", sheet.over), note, panel, Vec::new()))
}
