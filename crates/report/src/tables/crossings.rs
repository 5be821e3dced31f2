//! Table: which of two variants is ahead, and from which load.

use record::results::{Crossing, Lead};

use super::{Cell, Column, Kind, Row, Table, Tone};
use crate::Input;
use crate::numbers;
use crate::sweep_charts::{curve_name, short};

pub const KIND: Kind = Kind { name: "crossings", place: 9, fill };

/// Rows beyond which the page folds the table: each variant meets each other one at each point.
const MANY: usize = 24;

fn fill(input: &Input) -> Option<Table> {
    let crossings = &input.results.crossings;
    let first = crossings.first()?;
    let with_point = crossings.iter().any(|crossing| !crossing.point.is_empty());
    let several_paths = crossings.iter().any(|other| other.over != first.over);
    let mut columns = vec![Column::text("ahead at the highest load"), Column::text("of")];
    columns.extend(several_paths.then(|| Column::text("over")));
    columns.extend(with_point.then(|| Column::text("at")));
    let head = if several_paths { "from … on".to_owned() } else { format!("from … {} on", short(&first.over)) };
    columns.push(Column::numeric(&head, "the load from which it is ahead for good").brief());
    let of_peaks = "its highest throughput, as a multiple of the other's; below it the 95 % interval";
    columns.push(Column::numeric("ratio of peaks", of_peaks).brief());
    let row = |crossing| Row { cells: cells(crossing, several_paths, with_point), begins: false };
    Some(Table {
        title: "Who overtakes whom".to_owned(),
        note: "Between measured loads the lead is taken to change evenly with the logarithm of the load.".to_owned(),
        columns,
        rows: crossings.iter().map(row).collect(),
        terms: vec![(
            "not shown".to_owned(),
            "repeats differ too much to tell who is ahead at the highest load".to_owned(),
        )],
        folded: crossings.len() > MANY,
    })
}

fn cells(crossing: &Crossing, with_path: bool, with_point: bool) -> Vec<Cell> {
    let mut cells = vec![Cell::new(crossing.a.clone()), Cell::new(crossing.b.clone())];
    cells.extend(with_path.then(|| Cell::new(short(&crossing.over))));
    cells.extend(with_point.then(|| Cell::new(curve_name("", &crossing.point))));
    cells.push(match crossing.lead {
        Lead::Crosses => Cell::of(crossing.at, numbers::number).with(interval(crossing.ci95)),
        Lead::Throughout => Cell::new("throughout").with(interval(crossing.ci95)),
        Lead::NotShown => Cell::new("not shown").toned(Tone::Doubtful).with(interval(crossing.ci95)),
    });
    let of_peaks = crossing.peak_ratio_ci95.map(|ends| ends.map(numbers::number));
    let of_peaks = of_peaks.map_or_else(String::new, |[low, high]| numbers::from_to(&low, &high));
    cells.push(Cell::of(crossing.peak_ratio, numbers::number).with(of_peaks));
    cells
}

/// `11.2–12.8`; an end that lies outside of the sweep is said to.
pub fn interval(ci95: Option<[Option<f64>; 2]>) -> String {
    match ci95.map(|ends| ends.map(|end| end.map(numbers::number))) {
        None | Some([None, None]) => String::new(),
        Some([Some(low), Some(high)]) => numbers::from_to(&low, &high),
        Some([None, Some(high)]) => format!("at most {high}"),
        Some([Some(low), None]) => format!("at least {low}"),
    }
}
