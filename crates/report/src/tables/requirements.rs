//! Table: the gates.

use super::{Cell, Column, Kind, Row, Table, Tone, claims};
use crate::Input;
use crate::numbers;

pub const KIND: Kind = Kind { name: "requirements", place: 6, fill };

fn fill(input: &Input) -> Option<Table> {
    let requirements = &input.results.requirements;
    if requirements.is_empty() {
        return None;
    }
    let rows = requirements.iter().enumerate().map(|(index, requirement)| {
        let planned = input.plan.requirements.get(index).filter(|planned| planned.metric == requirement.metric);
        let filter = planned.map_or_else(String::new, |planned| claims::filter(&planned.filter));
        let asked = planned
            .map_or_else(|| requirement.asked.clone(), |planned| claims::asked(&requirement.metric, &planned.range));
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
