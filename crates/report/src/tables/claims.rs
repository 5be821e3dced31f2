//! Table: the article says, this run says.

use experiment::plan;
use record::results::{Claim, Holds};

use super::{Cell, Column, Kind, Row, Table, Tone};
use crate::Input;
use crate::facts::plain;
use crate::numbers;

pub const KIND: Kind = Kind { name: "claims", place: 5, fill };

fn fill(input: &Input) -> Option<Table> {
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
    let rows =
        claims.iter().enumerate().map(|(index, claim)| Row { cells: row(claim, planned(claim, index)), begins: false });
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

fn row(claim: &Claim, planned: Option<&plan::Claim>) -> Vec<Cell> {
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
