//! Table: how throughput goes with a swept load: peak, knee, and the law that was fitted.

use record::results::Scaling;

use super::{Cell, Column, Kind, Row, Table};
use crate::Input;
use crate::numbers;
use crate::sweep_charts::{curve_name, short};

pub const KIND: Kind = Kind { name: "scaling", place: 8, fill };

fn fill(input: &Input) -> Option<Table> {
    let scaling = &input.results.scaling;
    let first = scaling.first()?;
    let several_paths = scaling.iter().any(|other| other.over != first.over);
    let mut columns = vec![Column::text("curve")];
    columns.extend(several_paths.then(|| Column::text("over")));
    columns.extend([
        Column::numeric("knee", "the load from which more load brings little").brief(),
        Column::numeric("peak", "highest throughput: the mean of the best point").brief(),
        Column::numeric("peak at", "the load of that point").brief(),
        Column::numeric("λ", "fitted: throughput of one"),
        Column::numeric("σ", "fitted: contention, the share of the work for which one waits for another"),
        Column::numeric(
            "κ",
            "fitted: coherency, what each pair costs to agree; above 0, more load ends in less throughput",
        ),
        Column::numeric("law peaks at", "the load at which the fitted law peaks; may lie beyond what was measured"),
        Column::numeric("r²", "share of the variance that the fitted law explains"),
    ]);
    let rows = scaling.iter().map(|scaling| Row { cells: cells(scaling, several_paths), begins: false });
    Some(Table {
        title: format!("Scaling over {}", if several_paths { "the swept loads" } else { first.over.as_str() }),
        note: "Below each figure its 95 % interval: what it would be if all trials were repeated. Without one there were too few \
               repeats."
            .to_owned(),
        columns,
        rows: rows.collect(),
        terms: vec![
            ("still rises".to_owned(), "the highest load of the sweep lies before the knee".to_owned()),
            (
                "fitted".to_owned(),
                "the Universal Scalability Law, λN / (1 + σ(N − 1) + κN(N − 1)), by least squares; where the line of the chart \
                 leaves the dots, it does not describe this system"
                    .to_owned(),
            ),
        ],
        folded: false,
    })
}

fn cells(scaling: &Scaling, with_path: bool) -> Vec<Cell> {
    let law = scaling.usl.as_ref();
    let parameter = |index: usize, value: Option<f64>| with_interval(value, law.and_then(|law| Some(law.ci95?[index])));
    let knee = match scaling.knee {
        None if scaling.points.len() > 2 && scaling.peak_per_s.is_some() => Cell::new("still rises"),
        knee => with_interval(knee, scaling.knee_ci95),
    };
    let mut cells = vec![Cell::new(curve_name(&scaling.variant, &scaling.at))];
    cells.extend(with_path.then(|| Cell::new(short(&scaling.over))));
    cells.extend([
        knee,
        with_interval(scaling.peak_per_s, scaling.peak_ci95),
        Cell::of(scaling.peak_at, numbers::number),
        parameter(0, law.map(|law| law.lambda)),
        parameter(1, law.map(|law| law.sigma)),
        parameter(2, law.map(|law| law.kappa)),
        Cell::of(law.and_then(|law| law.peak_at), numbers::number),
        Cell::of(law.map(|law| law.r2), |r2| format!("{r2:.3}")),
    ]);
    cells
}

/// A figure with its interval below.
fn with_interval(value: Option<f64>, ci95: Option<[f64; 2]>) -> Cell {
    // Parameters at their bound come out as the last digits of a fit.
    let write = |value: f64| if value.abs() < 1e-9 { "0".to_owned() } else { numbers::number(value) };
    let interval = ci95.map_or_else(String::new, |[low, high]| numbers::from_to(&write(low), &write(high)));
    Cell::of(value, write).with(interval)
}
