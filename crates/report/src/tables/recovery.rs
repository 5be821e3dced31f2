//! Table: each fault over all its occurrences.

use record::results::{OutageDistribution, Spread};

use super::outages::interval;
use super::{Cell, Column, Kind, Row, Table, Tone};
use crate::Input;
use crate::numbers;
use crate::recovery::{name, repeated};

pub const KIND: Kind = Kind { name: "recovery", place: 40, fill };

const COLUMNS: [(&str, &str); 7] = [
    ("occurrences", "in trials that are not void"),
    ("first ok", "median time to the first operation that succeeded again, 95 % interval"),
    ("back after", "median time until service was as before, for good, 95 % interval"),
    ("p90", "nine of ten were back after this"),
    ("longest", "the one that took longest"),
    ("failed", "median of the operations that failed, 95 % interval"),
    ("lost operations", "median of the ok operations missing against the baseline, 95 % interval"),
];

fn fill(input: &Input) -> Option<Table> {
    let repeated: Vec<&OutageDistribution> = repeated(input.results).collect();
    if repeated.is_empty() {
        return None;
    }
    let named = repeated.iter().any(|of| !name(of, input).is_empty());
    let mut columns = vec![Column::text("fault")];
    columns.extend(named.then(|| Column::text("with")));
    columns.extend(COLUMNS.map(|(head, explained)| Column::numeric(head, explained)));
    let rows = repeated.into_iter().map(|of| {
        let mut cells = vec![Cell::new(of.fault.clone())];
        cells.extend(named.then(|| Cell::new(name(of, input))));
        cells.extend(figures(of));
        Row { cells, begins: false }
    });
    Some(Table {
        title: "Each fault over all its occurrences".to_owned(),
        note: "Service that was never back counts as longer than all others. A quantile that too few occurrences support is left out: \
               the median takes 5, its interval 6, p90 29."
            .to_owned(),
        columns,
        rows: rows.collect(),
        terms: COLUMNS.map(|(head, explained)| (head.to_owned(), explained.to_owned())).to_vec(),
        folded: false,
    })
}

fn figures(of: &OutageDistribution) -> Vec<Cell> {
    let figure = |name: &str| of.figures.get(name).cloned().unwrap_or_default();
    let median =
        |spread: &Spread, write: fn(f64) -> String| Cell::of(spread.p50, write).with(interval(spread.p50_ci95, write));
    let back = figure("back_to_baseline_s");
    let longest = match (back.max, of.never_back) {
        (_, 1..) => Cell::new("never").with(format!("{} of {}", of.never_back, of.count)).toned(Tone::Bad),
        (longest, 0) => Cell::of(longest, numbers::seconds),
    };
    vec![
        Cell::new(numbers::count(of.count)),
        median(&figure("first_ok_s"), numbers::seconds),
        median(&back, numbers::seconds),
        Cell::of(back.p90, numbers::seconds),
        longest,
        median(&figure("failed"), numbers::median_count),
        median(&figure("lost_operations"), |lost| numbers::median_count_in_words(lost.max(0.0).round())),
    ]
}
