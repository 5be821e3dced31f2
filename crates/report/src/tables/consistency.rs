//! Table: what the consistency checks found.

use record::results::Trial;

use super::{Cell, Column, Kind, Row, Table, Tone, begins, label_cells, label_columns};
use crate::Input;
use crate::facts::{Group, groups};
use crate::numbers;

pub const KIND: Kind = Kind { name: "consistency", place: 4, fill };

const MANY: usize = 12;

const COLUMNS: [(&str, &str); 5] = [
    ("keys checked", "audited keys that were read back after the run and judged"),
    ("lost writes", "acknowledged writes that were gone, or changed, after the run"),
    ("wrong answers", "answers that contradict what the same client did before"),
    ("diverged keys", "keys on which replicas differ"),
    ("linearizable", "whether the history of the audited keys fits some order of single steps"),
];

fn fill(input: &Input) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    if !input.results.trials.iter().any(checked) {
        return None;
    }
    let mut columns = label_columns(&groups);
    columns.extend(COLUMNS.map(|(head, explained)| Column::numeric(head, explained).brief()));
    let any_lost = input.results.trials.iter().any(|trial| !trial.consistency.lost_examples.is_empty());
    if any_lost {
        columns.push(Column::text("some of the lost"));
    }
    let rows: Vec<Row> = groups
        .iter()
        .enumerate()
        .map(|(index, group)| {
            let mut cells = label_cells(group, &groups);
            cells.extend(found(group));
            if any_lost {
                cells.push(examples(group));
            }
            Row { cells, begins: begins(index, &groups) }
        })
        .collect();
    Some(Table {
        title: "Consistency".to_owned(),
        note: String::new(),
        columns,
        folded: rows.len() > MANY,
        rows,
        terms: COLUMNS.map(|(head, explained)| (head.to_owned(), explained.to_owned())).to_vec(),
    })
}

fn checked(trial: &Trial) -> bool {
    let found = &trial.consistency;
    found.checked.is_some() || found.wrong.is_some() || found.lost_writes.is_some() || found.diverged_keys.is_some()
}

fn found(group: &Group) -> Vec<Cell> {
    let cell = |value: fn(&Trial) -> Option<u64>, loss: bool| {
        let spread = group.spread(|trial| value(trial).map(|count| count as f64));
        let cell = Cell::spread(spread, numbers::median_count);
        match spread {
            Some(spread) if loss => cell.toned(if spread.most > 0.0 { Tone::Bad } else { Tone::Good }),
            _ => cell,
        }
    };
    let words: Vec<&str> = group.usable().map(|trial| trial.consistency.linearizable.as_str()).collect();
    let linearizable = match words.first() {
        Some(first) if !first.is_empty() && words.iter().all(|word| word == first) => Cell::new(*first),
        Some(first) if !first.is_empty() => Cell::new("differs between repeats"),
        _ => Cell::new("not checked"),
    };
    vec![
        cell(|trial| trial.consistency.checked, false),
        cell(|trial| trial.consistency.lost_writes, true),
        cell(|trial| trial.consistency.wrong, true),
        cell(|trial| trial.consistency.diverged_keys, true),
        linearizable,
    ]
}

/// Of the trial that has most.
fn examples(group: &Group) -> Cell {
    let examples = group.usable().map(|trial| &trial.consistency.lost_examples).max_by_key(|examples| examples.len());
    Cell::new(examples.map(|examples| examples.join(", ")).unwrap_or_default())
}
