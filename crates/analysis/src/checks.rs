//! Answers that were compared with the expectations of their operation, and the expectations that
//! failed, from `checks.csv`.

use std::collections::BTreeMap;

use experiment::plan::Load;
use record::results::{FieldCheck, OperationChecks, Trial};
use record::rows::CheckSecond;

/// Largest error of the start of a row, seconds.
const NEAR_S: f64 = 5e-4;

/// Adds the figures of expectations to a trial, if answers were compared. They cover the seconds
/// that begin at `from_s` or later, like the latencies, or all seconds if there was no answer in
/// those.
pub(crate) fn add(trial: &mut Trial, load: Option<&Load>, rows: &[CheckSecond], from_s: Option<f64>) {
    if rows.is_empty() {
        return;
    }
    let mut checks: BTreeMap<String, OperationChecks> = BTreeMap::new();
    for step in load.into_iter().flat_map(Load::all_steps).filter(|step| !step.expect.is_empty()) {
        let operation = checks.entry(step.name.clone()).or_default();
        operation.expectations.extend(step.expect.keys().map(|field| (field.clone(), FieldCheck::default())));
    }
    let is_measured = |row: &&CheckSecond| from_s.is_none_or(|from_s| row.at_s - row.interval_s >= from_s - NEAR_S);
    let mut measured: Vec<&CheckSecond> = rows.iter().filter(is_measured).collect();
    if measured.is_empty() {
        measured = rows.iter().collect();
    }
    for row in measured {
        let operation = checks.entry(row.operation.clone()).or_default();
        if row.expectation.is_empty() {
            operation.answers = operation.answers.saturating_add(row.answers.unwrap_or(0));
            operation.failed = operation.failed.saturating_add(row.failed);
        } else {
            let failed = &mut operation.expectations.entry(row.expectation.clone()).or_default().failed;
            *failed = failed.saturating_add(row.failed);
        }
    }
    for operation in checks.values_mut() {
        let answers = operation.answers;
        let share_pct = |failed: u64| (answers > 0).then(|| 100.0 * failed as f64 / answers as f64);
        operation.failed_pct = share_pct(operation.failed);
        operation.expectations.values_mut().for_each(|check| check.failed_pct = share_pct(check.failed));
    }
    trial.checks = checks;
}

#[cfg(test)]
mod tests {
    use experiment::plan::Step;

    use super::*;
    use crate::metrics::metric;

    fn row(at_s: f64, operation: &str, expectation: &str, answers: Option<u64>, failed: u64) -> CheckSecond {
        let (operation, expectation) = (operation.to_owned(), expectation.to_owned());
        CheckSecond { at_s, interval_s: 1.0, operation, expectation, answers, failed }
    }

    fn load() -> Load {
        let step = |name: &str, fields: &[&str]| Step {
            name: name.to_owned(),
            expect: fields.iter().map(|field| ((*field).to_owned(), "x".into())).collect(),
            ..Step::default()
        };
        Load {
            steps: vec![step("login", &["status", "header.x.y", "body"]), step("idle", &["body"]), step("any", &[])],
            ..Load::default()
        }
    }

    fn rows() -> [CheckSecond; 5] {
        [
            row(1.0, "login", "", Some(1_000), 1_000),
            row(1.0, "login", "status", None, 1_000),
            row(2.0, "login", "", Some(150), 10),
            row(3.0, "login", "", Some(50), 10),
            row(3.0, "login", "header.x.y", None, 5),
        ]
    }

    #[test]
    fn failures_of_the_measured_part_are_counted_by_expectation() {
        let mut trial = Trial::default();
        add(&mut trial, Some(&load()), &rows(), Some(1.0));
        for (path, values) in [
            ("checks.login.answers", &[200.0][..]),
            ("checks.login.failed", &[20.0]),
            ("checks.login.failed_pct", &[10.0]),
            ("checks.login.header.x.y.failed_pct", &[2.5]),
            ("checks.login.header.x.y.failed", &[5.0]),
            ("checks.login.body.failed_pct", &[0.0]),
            ("checks.login.status.failed", &[0.0]),
            ("checks.idle.answers", &[0.0]),
            ("checks.idle.failed_pct", &[]),
            ("checks.any.failed_pct", &[]),
        ] {
            assert_eq!(metric(&trial, &path.into()), values, "{path}");
        }
        let text = serde_json::to_string(&trial).unwrap();
        assert_eq!(serde_json::from_str::<Trial>(&text).unwrap(), trial);
    }

    #[test]
    fn without_a_measured_answer_all_answers_count() {
        for from_s in [None, Some(7.0)] {
            let mut trial = Trial::default();
            add(&mut trial, Some(&load()), &rows(), from_s);
            assert_eq!((trial.checks["login"].answers, trial.checks["login"].failed), (1_200, 1_020));
        }
    }

    #[test]
    fn unrecorded_checks_are_absent() {
        let mut trial = Trial::default();
        add(&mut trial, Some(&load()), &[], Some(0.0));
        assert_eq!(trial, Trial::default());
        assert!(!serde_json::to_string(&trial).unwrap().contains("checks"));
    }
}
