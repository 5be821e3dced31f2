//! Chart: throughput for each agent, host or whatever else was swept: what one more brings.

use super::{Kind, Sheet, short};
use crate::drawing::chart::{Chart, Panel, Unit};

pub const KIND: Kind = Kind { name: "per_unit", place: 2, draw };

fn draw(sheet: &Sheet) -> Option<Chart> {
    let name = short(sheet.over);
    // Of an offered rate it is a share.
    let (title, label, unit) = match sheet.over {
        "load.rate" => {
            ("Share of the offered rate".to_owned(), "ok operations for each one offered".to_owned(), Unit::Plain)
        }
        "load.agents" => {
            ("Per agent".to_owned(), "ok operations per second for each agent".to_owned(), Unit::PerSecond)
        }
        "lab.hosts" => ("Per host".to_owned(), "ok operations per second for each host".to_owned(), Unit::PerSecond),
        _ => (format!("Per unit of {name}"), format!("ok operations per second for each of {name}"), Unit::PerSecond),
    };
    let panel = Panel::linear(&label, unit, 190.0, sheet.measured(|point, rate| rate / point.load));
    let note = "Level: nobody waits for anybody. Falling: they share, or hinder each other.";
    panel.has_values().then(|| sheet.chart(&title, note, panel, Vec::new()))
}
