//! Chart: throughput for each agent, host or whatever else was swept: what one more brings. Where some operations make a cycle it is of
//! cycles, below those of all.

use experiment::plan::is_offered;

use super::{Kind, Sheet, short};
use crate::drawing::chart::{Chart, Panel, Unit};

pub const KIND: Kind = Kind { name: "per_unit", place: 3, draw };

fn draw(sheet: &Sheet) -> Option<Chart> {
    if !sheet.names.is_empty() {
        return None;
    }
    let name = short(sheet.over);
    let is_rate = is_offered(sheet.over);
    let cycles = sheet.tells_cycles();
    let what = if cycles { "full cycles" } else { "ok operations" };
    // Of an offered rate it is a share.
    let (title, label, unit) = match sheet.over {
        _ if is_rate => {
            ("Share of the offered rate".to_owned(), "ok operations for each one offered".to_owned(), Unit::Plain)
        }
        "load.agents" => ("Per agent".to_owned(), format!("{what} per second for each agent"), Unit::PerSecond),
        "lab.hosts" => ("Per host".to_owned(), format!("{what} per second for each host"), Unit::PerSecond),
        _ => (format!("Per unit of {name}"), format!("{what} per second for each of {name}"), Unit::PerSecond),
    };
    let mut panels = Vec::new();
    let lines = if cycles && !is_rate {
        let all = sheet.of_trials(|trial, _| trial.throughput.cycles_per_s);
        panels.push(Panel::linear("full cycles per second", Unit::PerSecond, 190.0, all));
        sheet.of_trials(|trial, load| Some(trial.throughput.cycles_per_s? / load))
    } else {
        sheet.measured(|point, rate| rate / point.load)
    };
    panels.push(Panel::linear(&label, unit, 190.0, lines));
    let title = if panels.len() > 1 { format!("Cycles in all, and {}", title.to_lowercase()) } else { title };
    let note = "Level: nobody waits for anybody. Falling: they share, or hinder each other.";
    panels.iter().any(Panel::has_values).then(|| sheet.chart(&title, note, panels, Vec::new()))
}
