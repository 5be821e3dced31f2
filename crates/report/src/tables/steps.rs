//! Tables of an exercise's steps: result, duration and audits of each step, and a comparison of
//! durations.

use analysis::trial_groups::{Group, MedianRange, groups};
use record::events::StepResult;
use record::results::{PlayedStep, StepAudit};
use text::{Tone, distinct, numbers};

use super::{Cell, Column, Row, Table};
use crate::ReportInput;

const COLUMNS: [(&str, &str); 3] = [
    ("begun", "when the step began, since load start"),
    ("done after", "from the step's beginning until only its condition was left to wait for"),
    ("time", "from the step's beginning until its condition held"),
];

pub fn steps(input: &ReportInput) -> Option<Table> {
    let mut columns = vec![Column::text("step"), Column::text("result")];
    columns.extend(Column::numerics(&COLUMNS));
    columns.iter_mut().for_each(|column| column.brief |= column.head == "time");
    columns.push(Column::text("audits"));
    let rebuilt = input.results.trials.iter().flat_map(|trial| &trial.steps).any(|step| step.rebuilt_s.is_some());
    let note = if rebuilt { "After a bad step the target was restarted empty before the next step." } else { "" };
    let table = Table::new("Steps", note, columns).by_trial(input, |trial| trial.steps.iter().map(row).collect());
    Some(table?.folded_beyond(MANY).explained())
}

/// Number of rows above which the page folds the table, because the comparison of durations is
/// above it.
const MANY: usize = 40;
/// Maximum number of columns in the comparison of durations.
const SIDES: usize = 8;

/// Returns the duration of each step in each case.
pub fn across(input: &ReportInput) -> Option<Table> {
    let groups = groups(input.results, input.plan);
    let steps = input.results.trials.iter().flat_map(|trial| &trial.steps);
    let names = distinct(steps.map(|step| step.name.as_str()));
    if names.is_empty() || groups.len() < 2 || groups.len().min(names.len()) > SIDES {
        return None;
    }
    let note = "Medians over the repeats of how long each step took, until its condition held; the range below. Void trials are left out.";
    let (mut columns, mut rows) = (Vec::new(), Vec::new());
    // The smaller dimension becomes the columns.
    if groups.len() <= SIDES {
        columns.push(Column::text("step"));
        columns.extend(groups.iter().map(|group| Column::numeric(&group.name(), "").brief()));
        for name in names {
            let times = groups.iter().map(|group| time_of(group, name));
            rows.push(Row::of(std::iter::once(Cell::new(name)).chain(times).collect()));
        }
    } else {
        columns.push(Column::text(""));
        columns.extend(names.iter().map(|name| Column::numeric(name, "").brief()));
        for group in &groups {
            let times = names.iter().map(|name| time_of(group, name));
            rows.push(Row::of(std::iter::once(Cell::new(group.name())).chain(times).collect()));
        }
    }
    Some(Table::new("Time of each step", note, columns).filled(rows)?.folded_beyond(MANY))
}

fn time_of(group: &Group<'_>, name: &str) -> Cell {
    let played = group.counting().flat_map(|trial| &trial.steps).filter(|step| step.name == name);
    let (good, bad): (Vec<&PlayedStep>, Vec<&PlayedStep>) = played.partition(|step| step.failed == 0);
    let of_good = Cell::spread(MedianRange::of(good.iter().filter_map(|step| step.time_s).collect()), numbers::seconds);
    match (bad.as_slice(), good.len()) {
        ([], _) => of_good,
        ([only], 0) => Cell::new(only.result.words()).toned(Tone::Bad),
        (bad, good) => of_good.with(format!("{} of {} bad", bad.len(), bad.len() + good)).toned(Tone::Bad),
    }
}

fn row(step: &PlayedStep) -> Vec<Cell> {
    let tone = if step.failed == 0 { Tone::Good } else { Tone::Bad };
    vec![
        Cell::new(step.name.clone()),
        Cell::new(step.result.words()).with(why(step)).toned(tone),
        Cell::new(numbers::moment(step.at_s)),
        Cell::of(step.done_s, numbers::seconds),
        Cell::of(step.time_s, numbers::seconds),
        audits(&step.audits),
    ]
}

fn why(step: &PlayedStep) -> String {
    // The audits' reasons have a separate column.
    let why = step.why.clone().filter(|_| step.result != StepResult::AuditFailed).unwrap_or_default();
    match (step.rebuilt_s, why.is_empty()) {
        (None, _) => why,
        (Some(_), true) => "target restarted empty".to_owned(),
        (Some(_), false) => format!("{why}; target restarted empty"),
    }
}

fn audits(audits: &[StepAudit]) -> Cell {
    let bad: Vec<&StepAudit> = audits.iter().filter(|audit| audit.failed > 0).collect();
    if audits.is_empty() {
        return Cell::new(numbers::NONE);
    }
    if bad.is_empty() {
        return Cell::new(format!("{} passed", audits.len())).toned(Tone::Good);
    }
    let named: Vec<&str> = bad.iter().map(|audit| audit.name.as_str()).collect();
    let reasons: Vec<&str> = bad.iter().flat_map(|audit| &audit.reasons).map(String::as_str).collect();
    Cell::new(format!("{} of {} failed: {}", bad.len(), audits.len(), named.join(", ")))
        .with(reasons.join("; "))
        .toned(Tone::Bad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    fn audit(name: &str, reasons: &[&str]) -> StepAudit {
        let reasons: Vec<String> = reasons.iter().map(|reason| (*reason).to_owned()).collect();
        StepAudit { name: name.to_owned(), members: 3, failed: reasons.len() as u64, reasons }
    }

    #[test]
    fn step_times_of_several_conditions_are_side_by_side() {
        let plan = example::plan(&["plain", "other"], &[], 1);
        let mut results = example::results(&plan);
        assert_eq!(across(&ReportInput::without_records(&results, &plan)), None, "no steps");
        let ok = PlayedStep { name: "flip".to_owned(), time_s: Some(2.5), ..PlayedStep::default() };
        let late = PlayedStep { result: StepResult::TimedOut, failed: 1, time_s: None, ..ok.clone() };
        (results.trials[0].steps, results.trials[1].steps) = (vec![ok], vec![late]);
        let table = across(&ReportInput::without_records(&results, &plan)).unwrap();
        let row: Vec<&str> = table.rows[0].cells.iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!(row, ["flip", "2.5 s", "timed out"]);
        assert_eq!(
            table.columns.iter().map(|column| column.head.as_str()).collect::<Vec<_>>(),
            ["step", "plain", "other"]
        );
    }

    #[test]
    fn a_row_for_each_step_with_its_result_and_its_audits() {
        let (plan, mut results) = example::plain();
        results.trials.truncate(1);
        assert_eq!(steps(&ReportInput::without_records(&results, &plan)), None);
        let flip = PlayedStep {
            name: "flip".to_owned(),
            result: StepResult::Ok,
            time_s: Some(2.5),
            audits: vec![audit("leader", &[]), audit("cib", &[])],
            ..PlayedStep::default()
        };
        let split = PlayedStep {
            name: "split".to_owned(),
            result: StepResult::TimedOut,
            failed: 1,
            why: Some("`whole` did not hold within 60 s: n2: 1 of 3 nodes".to_owned()),
            rebuilt_s: Some(80.0),
            audits: vec![audit("leader", &["n1: two"]), audit("cib", &[])],
            ..PlayedStep::default()
        };
        results.trials[0].steps = vec![flip, split];
        let table = steps(&ReportInput::without_records(&results, &plan)).unwrap();
        let [flip, split] = table.rows.as_slice() else { panic!("{table:?}") };
        let shown = [0, 1, 4, 5].map(|index| flip.cells[index].text.as_str());
        assert_eq!(shown, ["flip", "ok", "2.5 s", "2 passed"]);
        let why = "`whole` did not hold within 60 s: n2: 1 of 3 nodes; target restarted empty";
        assert_eq!(split.cells[1], Cell::new("timed out").with(why).toned(Tone::Bad));
        assert_eq!(split.cells[5], Cell::new("1 of 2 failed: leader").with("n1: two").toned(Tone::Bad));
        assert!(table.note.contains("restarted empty"));
    }
}
