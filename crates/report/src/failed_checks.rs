//! Expectations that failed, with their counts, for the page and the texts.

use std::collections::BTreeMap;

use analysis::trial_groups::planned;
use experiment::plan::{Load, Plan};
use record::results::Trial;
use text::numbers;

/// Maximum length of an expectation in these texts, characters.
const LONGEST: usize = 200;

/// An expectation that failed, over some trials.
#[derive(Debug, PartialEq, Eq)]
pub struct FailedCheck {
    /// Name of the operation.
    pub operation: String,
    /// The expectation, such as `body contains "token"`.
    pub expectation: String,
    /// Number of answers that contradict it.
    pub failed: u64,
    /// Number of answers that were compared.
    pub answers: u64,
}

impl FailedCheck {
    /// Returns the expectations that failed in any of the trials, by falling count.
    pub fn of<'a>(trials: impl Iterator<Item = &'a Trial>, plan: &Plan) -> Vec<Self> {
        let mut sums: BTreeMap<(&str, String), (u64, u64)> = BTreeMap::new();
        for trial in trials {
            for (operation, checks) in &trial.checks {
                for (field, check) in &checks.expectations {
                    let sum = sums.entry((operation, expectation(plan, &trial.id, operation, field))).or_default();
                    *sum = (sum.0 + check.failed, sum.1 + checks.answers);
                }
            }
        }
        let failed = sums.into_iter().filter(|(_, (failed, _))| *failed > 0);
        let mut failed: Vec<Self> = failed
            .map(|((operation, expectation), (failed, answers))| Self {
                operation: operation.to_owned(),
                expectation,
                failed,
                answers,
            })
            .collect();
        failed.sort_by_key(|check| std::cmp::Reverse(check.failed));
        failed
    }

    /// Returns a text such as
    /// ``login: `body contains "token"` does not hold in 12 of 100 answers (12 %)``.
    pub fn text(&self) -> String {
        let Self { operation, expectation, failed, answers } = self;
        let (count, all) = (numbers::count(*failed), numbers::count(*answers));
        let share = numbers::share(*failed, *answers);
        format!("{operation}: `{expectation}` does not hold in {count} of {all} answers ({share})")
    }
}

/// Returns the expectation of a field as the plan states it. Returns the field's name if the plan
/// lacks the expectation.
fn expectation(plan: &Plan, trial: &str, operation: &str, field: &str) -> String {
    let mut steps = planned(plan, trial).and_then(|trial| trial.load.as_ref()).into_iter().flat_map(Load::all_steps);
    let expected = steps.find_map(|step| step.expect.get(field).filter(|_| step.name == operation));
    let text = expected.map_or_else(|| field.to_owned(), |expected| format!("{field} {expected}"));
    text.chars().take(LONGEST).collect()
}
