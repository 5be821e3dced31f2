//! Table: what became of the operations at each point, over all its repeats. It must not judge whether that is much.

use record::results::Trial;

use super::{Cell, Column, Kind, Row, Table, Tone, begins, label_cells, label_columns};
use crate::Input;
use crate::facts::{Group, groups, operations};
use crate::numbers;

pub const KIND: Kind = Kind { name: "outcomes", place: 11, fill };

/// Rows beyond which the page folds the table.
const MANY: usize = 24;

/// What may become of an operation; the last two do not count among those that ended well or badly.
type Count = fn(&Trial) -> u64;

const COLUMNS: [(&str, &str, Count); 5] = [
    ("ok", "answered as expected", |trial| trial.outcomes.ok),
    ("failed", "a definite error, such as 503", |trial| trial.outcomes.failed),
    ("timeout", "no answer in time: nobody knows whether it took effect", |trial| trial.outcomes.timeout),
    ("wrong", "an answer that contradicts what the client did before", |trial| trial.outcomes.wrong),
    ("unfinished", "still open when the drain ended; in no share", |trial| trial.outcomes.unfinished),
];

fn fill(input: &Input) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    let sums: Vec<[u64; 5]> = groups.iter().map(sums).collect();
    // Where all were ok there is nothing to tell apart, and of one case the figures above say it.
    let any_not_ok = sums.iter().any(|[_, not_ok @ ..]| not_ok[..3].iter().any(|count| *count > 0));
    if groups.len() < 2 || !any_not_ok {
        return None;
    }
    let mut columns = label_columns(&groups);
    columns.push(Column::numeric("cycles", "full cycles: all their operations were answered, be it wrong"));
    columns.extend(COLUMNS.map(|(head, explained, _)| Column::numeric(head, explained)));
    columns.push(Column::numeric("wrong for 1,000 cycles", "wrong answers for each 1,000 full cycles"));
    let rows: Vec<Row> = groups
        .iter()
        .zip(&sums)
        .enumerate()
        .map(|(index, (group, sums))| Row { cells: row(group, sums, &groups), begins: begins(index, &groups) })
        .collect();
    let terms = columns.iter().filter(|column| !column.explained.is_empty());
    Some(Table {
        title: "What became of the operations".to_owned(),
        note: "Over the whole load, warm-up included, and all repeats together. Void trials are left out. Below each count its share of \
               the operations that ended."
            .to_owned(),
        terms: terms.map(|column| (column.head.clone(), column.explained.clone())).collect(),
        columns,
        folded: rows.len() > MANY,
        rows,
    })
}

fn sums(group: &Group) -> [u64; 5] {
    COLUMNS.map(|(_, _, count)| group.usable().map(count).sum())
}

fn row(group: &Group, sums: &[u64; 5], groups: &[Group]) -> Vec<Cell> {
    let all: u64 = group.usable().map(operations).sum();
    let cycles: Option<u64> = group.usable().map(|trial| trial.cycles).sum();
    let mut cells = label_cells(group, groups);
    cells.push(Cell::of(cycles, numbers::count_in_words));
    for ((head, _, _), &count) in COLUMNS.iter().zip(sums) {
        let ended = *head != "unfinished";
        let small = if count > 0 && ended { numbers::share(count, all) } else { String::new() };
        let tone = match *head {
            "ok" | "unfinished" => Tone::Plain,
            _ if count > 0 => Tone::Bad,
            _ => Tone::Good,
        };
        let cell = if all == 0 && ended {
            Cell::new(numbers::NONE)
        } else {
            Cell::new(numbers::count_in_words(count)).toned(tone)
        };
        cells.push(cell.with(small));
    }
    // Where nothing was expected, no answer could be wrong.
    let looked = group.usable().all(|trial| trial.consistency.wrong.is_some());
    let wrong = cycles.filter(|cycles| *cycles > 0 && looked).map(|cycles| 1_000.0 * sums[3] as f64 / cycles as f64);
    cells.push(Cell::of(wrong, numbers::number));
    cells
}
