//! Tables of what is judged: what the article says, the gates, and every trial.

use experiment::plan;
use record::events::Ending;
use record::results::{Claim, Holds, Steady};

use super::{Cell, Column, Kind, Row, Table, Tone, trust_word};
use crate::facts::{plain, trial_name};
use crate::{Input, numbers};

pub const CLAIMS: Kind = Kind { name: "claims", place: 5, fill: claims };

fn claims(input: &Input) -> Option<Table> {
    let claims = &input.results.claims;
    if claims.is_empty() {
        return None;
    }
    let mut columns = ["the article says", "that is", "this run says", "holds here"].map(Column::text).to_vec();
    columns[1].brief = false;
    let planned = |claim: &Claim, index: usize| {
        let same = |planned: &&plan::Claim| planned.says == claim.says && planned.metric == claim.metric;
        input.plan.claims.get(index).filter(same).or_else(|| input.plan.claims.iter().find(same))
    };
    let rows = claims
        .iter()
        .enumerate()
        .map(|(index, claim)| Row { cells: claim_row(claim, planned(claim, index)), begins: false });
    Some(Table {
        title: "The article says, this run says".to_owned(),
        note: "Other hardware gives other numbers: what matters is whether the shape holds. Below a figure its range over the trials; of a \
               function, such as peak(a), its 95 % interval."
            .to_owned(),
        columns,
        rows: rows.collect(),
        terms: vec![
            (
                "not shown".to_owned(),
                "the trials disagree, or the edge of what is claimed lies inside the 95 % interval".to_owned(),
            ),
            ("not measured".to_owned(), "this run does not measure it".to_owned()),
        ],
        folded: false,
    })
}

fn claim_row(claim: &Claim, planned: Option<&plan::Claim>) -> Vec<Cell> {
    let asked = planned.map_or_else(String::new, |planned| asked(&claim.metric, &planned.range));
    let filter = planned.map_or_else(String::new, |planned| filter(&planned.filter));
    let metric = if filter.is_empty() { claim.metric.clone() } else { format!("{}, where {filter}", claim.metric) };
    vec![
        Cell::new(claim.says.clone()).with(claim.source.clone()),
        Cell::new(asked).with(metric),
        said(claim),
        held(claim),
    ]
}

/// What this run says, with its range or why there is none.
pub fn said(claim: &Claim) -> Cell {
    let write = |value| numbers::by_metric(&claim.metric, value);
    let range = claim.range.filter(|[least, most]| write(*least) != write(*most));
    let range = range.map(|[least, most]| numbers::from_to(&write(least), &write(most)));
    let small = [range.unwrap_or_default(), claim.note.clone()].into_iter().filter(|text| !text.is_empty());
    Cell::of(claim.value, write).with(small.collect::<Vec<_>>().join("; "))
}

/// Whether it holds, in a word.
pub fn held(claim: &Claim) -> Cell {
    let (word, tone) = match claim.holds {
        Holds::Yes => ("yes", Tone::Good),
        Holds::No => ("no", Tone::Bad),
        Holds::NotShown => ("not shown", Tone::Doubtful),
        Holds::NotMeasured => ("not measured", Tone::Muted),
    };
    Cell::new(word).toned(tone)
}

/// `at least 10 ms and at most 20 ms`.
pub fn asked(metric: &str, range: &plan::Range) -> String {
    let bounds = [
        ("below", range.below),
        ("above", range.above),
        ("at least", range.at_least),
        ("at most", range.at_most),
        ("exactly", range.equals),
    ];
    let bounds = bounds.into_iter().filter_map(|(word, bound)| Some((word, bound?)));
    let words: Vec<String> =
        bounds.map(|(word, bound)| format!("{word} {}", numbers::by_metric(metric, bound))).collect();
    words.join(" and ")
}

/// `variant is wait, target.with.state is ets`.
pub fn filter(filter: &std::collections::BTreeMap<String, serde_json::Value>) -> String {
    let parts: Vec<String> = filter.iter().map(|(path, value)| format!("{path} is {}", plain(value))).collect();
    parts.join(", ")
}

pub const REQUIREMENTS: Kind = Kind { name: "requirements", place: 6, fill: requirements };

fn requirements(input: &Input) -> Option<Table> {
    let requirements = &input.results.requirements;
    if requirements.is_empty() {
        return None;
    }
    let rows = requirements.iter().enumerate().map(|(index, requirement)| {
        let planned = input.plan.requirements.get(index).filter(|planned| planned.metric == requirement.metric);
        let filter = planned.map_or_else(String::new, |planned| filter(&planned.filter));
        let asked =
            planned.map_or_else(|| requirement.asked.clone(), |planned| asked(&requirement.metric, &planned.range));
        let (word, tone) = if requirement.holds { ("met", Tone::Good) } else { ("violated", Tone::Bad) };
        let worst = match requirement.value {
            Some(value) => Cell::new(numbers::by_metric(&requirement.metric, value)),
            None => {
                Cell::new("not measured").toned(Tone::Muted).with(requirement.unmeasured.clone().unwrap_or_default())
            }
        };
        Row {
            cells: vec![
                Cell::new(requirement.metric.clone()).with(filter),
                Cell::new(asked),
                worst,
                Cell::new(word).toned(tone),
            ],
            begins: false,
        }
    });
    Some(Table {
        title: "Requirements".to_owned(),
        note: "What was not measured does not hold.".to_owned(),
        columns: ["required", "asked", "worst value", "met"].map(Column::text).to_vec(),
        rows: rows.collect(),
        terms: Vec::new(),
        folded: false,
    })
}

pub const TRIALS: Kind = Kind { name: "trials", place: 55, fill: trials };

const MANY: usize = 12;

fn trials(input: &Input) -> Option<Table> {
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
                Cell::of(started, numbers::utc),
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
