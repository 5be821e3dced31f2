//! Table: every trial with its verdict.

use record::events::Ending;
use record::results::Steady;

use super::{Cell, Column, Kind, Row, Table, Tone, trust_word};
use crate::Input;
use crate::facts::trial_name;
use crate::numbers;

pub const KIND: Kind = Kind { name: "trials", place: 55, fill };

const MANY: usize = 12;

fn fill(input: &Input) -> Option<Table> {
    if input.results.trials.is_empty() {
        return None;
    }
    let rows: Vec<Row> = input
        .results
        .trials
        .iter()
        .map(|trial| {
            let (ended, tone) = match trial.ended {
                Some(Ending::Done) => ("done", Tone::Plain),
                Some(Ending::Interrupted) => ("interrupted", Tone::Doubtful),
                Some(Ending::Failed) => ("failed", Tone::Bad),
                None => ("records end in the middle", Tone::Bad),
            };
            let measured =
                trial.measured_s.map(|[from, to]| format!("{} to {}", numbers::moment(from), numbers::moment(to)));
            let started = input.trials.iter().find(|series| series.trial == trial.id).and_then(|s| s.start_unix_s());
            let cells = vec![
                Cell::new(trial.id.clone()).with(trial_name(trial, input.results, input.plan)),
                Cell::of(started, crate::calendar::utc),
                Cell::new(ended).toned(tone),
                Cell::of(measured, |measured| measured).with(trial.steady.as_ref().map(how).unwrap_or_default()),
                Cell::new(trust_word(trial.verdict.is))
                    .toned(Tone::of(trial.verdict.is))
                    .with(trial.verdict.reasons.join("; ")),
            ];
            Row { cells, begins: false }
        })
        .collect();
    Some(Table {
        title: "Trials".to_owned(),
        note: "In the order in which they ran.".to_owned(),
        columns: ["trial", "load started", "ended", "figures taken from", "verdict"].map(Column::text).to_vec(),
        folded: rows.len() > MANY,
        rows,
        terms: Vec::new(),
    })
}

/// How the end of the warm-up was found, and what came of it.
fn how(steady: &Steady) -> String {
    match (&steady.unsteady, steady.method.as_str()) {
        (Some(what), method) => format!("warm-up by {method}; {what} not steady"),
        (None, "MSER-5") => "warm-up by MSER-5; steady".to_owned(),
        (None, "given") => "warm-up as given".to_owned(),
        (None, method) => format!("warm-up: {method}"),
    }
}
