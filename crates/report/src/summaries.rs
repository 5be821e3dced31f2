//! Results of a run for a pull request and for a build server.

use analysis::trial_groups::groups;
use experiment::plan::Plan;
use record::results::{Requirement, Results, Trial, Trust};

use crate::ReportInput;
use crate::junit::{CaseOutcome, Suite, TestCase};
use crate::markdown;
use crate::tables::{Table, comparison, sweeps, trust_word, verdicts};
use crate::words::{meaning, usable_figures, verdict};

/// Maximum number of listed rows of a table.
const LISTED: usize = 40;

/// Returns the answer, the verdict with its reasons, and the tables for a reviewer, as Markdown
/// that ends in a newline.
pub fn markdown(results: &Results, plan: &Plan) -> String {
    let (title, answer) = (markdown::escaped(&results.title), markdown::escaped(&results.answer));
    let mut text = format!("### Plimsoll: {title}\n\n{answer}\n\n");
    text.extend(results.findings.iter().map(|finding| markdown::item(finding)));
    text.push_str(if results.findings.is_empty() { "" } else { "\n" });
    text.push_str(&format!("**{}**: {}\n", verdict(results).0, meaning(results)));
    text.extend(results.verdict.reasons.iter().map(|reason| markdown::item(reason)));
    let figures = usable_figures(&results.verdict);
    if !figures.is_empty() {
        text.push_str(&format!("- figures: {figures}\n"));
    }
    text.extend(results.verdict.notes.iter().map(|note| markdown::item(&format!("note: {note}"))));
    text.extend(results.partial.iter().map(|partial| markdown::item(&format!("partial: {partial}"))));
    let input = ReportInput::without_records(results, plan);
    let groups = groups(results, plan);
    let compared = (!groups.is_empty() && plan.find.is_none()).then(|| comparison::comparison_of(&groups));
    let tables = [
        compared.map(|table| Table { title: "Results".to_owned(), ..table }),
        sweeps::safe_loads(&input),
        comparison::differences(&input),
        verdicts::requirements(&input),
        verdicts::claims(&input),
    ];
    for table in tables.iter().flatten() {
        let title = markdown::escaped(&table.title);
        text.push_str(&format!("\n#### {title}\n\n{}", markdown::table(table, LISTED)));
    }
    text
}

/// Returns the results in JUnit's format: a test for each requirement, which fails if the
/// requirement is violated, and for each trial. A void trial is an error, a suspect trial is
/// skipped.
pub fn junit(results: &Results, plan: &Plan) -> String {
    let required = results.requirements.iter().enumerate();
    let requirements = required.map(|(index, one)| case_of_requirement(one, index, plan, results));
    let suite = Suite {
        title: results.title.clone(),
        properties: Vec::new(),
        cases: requirements.chain(results.trials.iter().map(case_of_trial)).collect(),
        output: results.answer.clone(),
    };
    crate::junit::file("plimsoll run", &[suite])
}

fn case_of_requirement(requirement: &Requirement, index: usize, plan: &Plan, results: &Results) -> TestCase {
    let metric = &requirement.metric;
    let (asked, filter) = verdicts::requirement_asked(requirement, index, plan, results);
    let filter = if filter.is_empty() { filter } else { format!(" where {filter}") };
    let value = match requirement.value {
        Some(value) => verdicts::figure(metric, value, results),
        None => "not measured".to_owned(),
    };
    let why = requirement.unmeasured.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
    TestCase {
        name: format!("{metric} {asked}{filter}"),
        class: "requirement".to_owned(),
        outcome: if requirement.holds { CaseOutcome::Passed } else { CaseOutcome::Failure("violated") },
        text: value + &why,
    }
}

fn case_of_trial(trial: &Trial) -> TestCase {
    let why = trial.verdict.reasons.join("; ");
    let (outcome, text) = match trial.verdict.is {
        Trust::Valid => (CaseOutcome::Passed, String::new()),
        Trust::Suspect => (CaseOutcome::Skipped, format!("suspect: {why}")),
        Trust::Void => (CaseOutcome::Error("void"), why),
    };
    let name = format!("trial {}: {}", trial.id, trust_word(trial.verdict.is));
    TestCase { name, class: "trial".to_owned(), outcome, text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compared::tests::{counts, well_formed};
    use crate::example;

    #[test]
    fn junit_has_requirements_and_verdicts_as_tests() {
        let (plan, mut results) = example::policies();
        results.title = "<a> & \"b\"".to_owned();
        results.requirements = vec![
            Requirement {
                metric: "latency_us.p99".into(),
                asked: "below 50 ms".into(),
                value: Some(64_000.0),
                ..Default::default()
            },
            Requirement {
                metric: "failed_pct".into(),
                asked: "below 1 %".into(),
                value: Some(0.0),
                holds: true,
                ..Default::default()
            },
        ];
        results.trials.truncate(3);
        results.trials[1].verdict.is = Trust::Suspect;
        results.trials[2].verdict.is = Trust::Void;
        results.trials[2].verdict.reasons = vec!["it was <cut> off".into()];
        let xml = junit(&results, &plan);
        let names = well_formed(&xml);
        assert_eq!(counts(&names, ["testcase", "failure", "error", "skipped"]), [5, 1, 1, 1]);
        assert!(xml.contains("tests=\"5\" failures=\"1\" errors=\"1\" skipped=\"1\""), "{xml}");
        assert!(xml.contains("name=\"latency_us.p99 below 50 ms\"") && xml.contains("message=\"64 ms\""), "{xml}");
    }

    #[test]
    fn tables_in_markdown_keep_their_columns() {
        let (plan, mut results) = example::policies();
        results.verdict.reasons = vec!["a | b\nc".into()];
        results.requirements = vec![Requirement { metric: "failed_pct".into(), ..Default::default() }];
        let text = markdown(&results, &plan);
        let mut columns = 0;
        for line in text.lines() {
            let bars = line.replace("\\|", "").matches('|').count();
            if line.starts_with('|') && columns > 0 {
                assert_eq!(bars, columns, "{line}");
            }
            columns = if line.starts_with('|') { bars } else { 0 };
        }
        for words in ["### Plimsoll: ", "#### Results", "#### Requirements", "violated", "- a \\| b c"] {
            assert!(text.contains(words), "no {words} in\n{text}");
        }
    }
}
