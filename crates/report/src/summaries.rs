//! Results of a run for a pull request and for a build server.

use analysis::trial_groups::groups;
use experiment::plan::Plan;
use record::results::{Requirement, Results, Trial, Trust};

use crate::ReportInput;
use crate::compared::{cell_escaped, xml_escaped};
use crate::tables::{Cell, Table, comparison, sweeps, trust_word, verdicts};
use crate::words::{meaning, usable_figures, verdict};

/// Maximum number of listed rows of a table.
const LISTED: usize = 40;

/// Returns the answer, the verdict with its reasons, and the tables for a reviewer, as Markdown
/// that ends in a newline.
#[must_use]
pub fn markdown(results: &Results, plan: &Plan) -> String {
    let mut text = format!("### Plimsoll: {}\n\n", cell_escaped(&results.title));
    text.push_str(&format!("{}\n\n", cell_escaped(&results.answer)));
    results.findings.iter().for_each(|finding| text.push_str(&format!("- {}\n", cell_escaped(finding))));
    text.push_str(if results.findings.is_empty() { "" } else { "\n" });
    text.push_str(&format!("**{}**: {}\n", verdict(results).0, meaning(results)));
    results.verdict.reasons.iter().for_each(|reason| text.push_str(&format!("- {}\n", cell_escaped(reason))));
    let figures = usable_figures(&results.verdict);
    if !figures.is_empty() {
        text.push_str(&format!("- figures: {figures}\n"));
    }
    results.verdict.notes.iter().for_each(|note| text.push_str(&format!("- note: {}\n", cell_escaped(note))));
    if let Some(partial) = &results.partial {
        text.push_str(&format!("- partial: {}\n", cell_escaped(partial)));
    }
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
    tables.iter().flatten().for_each(|table| text.push_str(&listed(table)));
    text
}

/// Returns a table with the same columns as in the terminal.
fn listed(table: &Table) -> String {
    let shown: Vec<usize> = (0..table.columns.len()).filter(|index| table.columns[*index].brief).collect();
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let heads = shown.iter().map(|index| cell_escaped(&table.columns[*index].head)).collect();
    let rule = |index: &usize| String::from(if table.columns[*index].numeric { "---:" } else { "---" });
    let rules = shown.iter().map(rule).collect();
    let mut text = format!("\n#### {}\n\n{}{}", cell_escaped(&table.title), line(heads), line(rules));
    let told = |cell: &Cell| match cell.small.as_str() {
        "" => cell_escaped(&cell.text),
        small => cell_escaped(&format!("{} ({small})", cell.text)),
    };
    for row in table.rows.iter().take(LISTED) {
        text.push_str(&line(shown.iter().map(|index| told(&row.cells[*index])).collect()));
    }
    if table.rows.len() > LISTED {
        text.push_str(&format!("\n{} more rows are not listed.\n", table.rows.len() - LISTED));
    }
    text
}

/// Returns the results in JUnit's format: a test for each requirement, which fails if the
/// requirement is violated, and for each trial. A void trial is an error, a suspect trial is
/// skipped.
#[must_use]
pub fn junit(results: &Results, plan: &Plan) -> String {
    let violated = results.requirements.iter().filter(|requirement| !requirement.holds).count();
    let of_trust = |is: Trust| results.trials.iter().filter(|trial| trial.verdict.is == is).count();
    let required = results.requirements.iter().enumerate();
    let requirements: String = required.map(|(index, one)| case_of_requirement(one, index, plan, results)).collect();
    let trials: String = results.trials.iter().map(case_of_trial).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"plimsoll run\">\n  <testsuite name=\"{}\" tests=\"{}\" \
         failures=\"{violated}\" errors=\"{}\" skipped=\"{}\">\n{requirements}{trials}    \
         <system-out>{}</system-out>\n  </testsuite>\n</testsuites>\n",
        xml_escaped(&results.title),
        results.requirements.len() + results.trials.len(),
        of_trust(Trust::Void),
        of_trust(Trust::Suspect),
        xml_escaped(&results.answer),
    )
}

fn case_of_requirement(requirement: &Requirement, index: usize, plan: &Plan, results: &Results) -> String {
    let (asked, filter) = verdicts::requirement_asked(requirement, index, plan, results);
    let filter = if filter.is_empty() { filter } else { format!(" where {filter}") };
    let name = format!("{} {asked}{filter}", requirement.metric);
    let value = requirement
        .value
        .map_or_else(|| "not measured".to_owned(), |value| verdicts::figure(&requirement.metric, value, results));
    let why = requirement.unmeasured.as_ref().map_or_else(String::new, |why| format!("; {why}"));
    let found = xml_escaped(&format!("{value}{why}"));
    case(
        &name,
        "requirement",
        &match requirement.holds {
            true => format!("<system-out>{found}</system-out>"),
            false => format!("<failure type=\"violated\" message=\"{found}\">{found}</failure>"),
        },
    )
}

fn case_of_trial(trial: &Trial) -> String {
    let why = xml_escaped(&trial.verdict.reasons.join("; "));
    let told = match trial.verdict.is {
        Trust::Valid => String::new(),
        Trust::Suspect => format!("<skipped message=\"suspect: {why}\"/>"),
        Trust::Void => format!("<error type=\"void\" message=\"{why}\">{why}</error>"),
    };
    case(&format!("trial {}: {}", trial.id, trust_word(trial.verdict.is)), "trial", &told)
}

fn case(name: &str, class: &str, inside: &str) -> String {
    let name = xml_escaped(name);
    format!("    <testcase name=\"{name}\" classname=\"{class}\" time=\"0\">{inside}</testcase>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compared::tests::well_formed;
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
        let count = |name: &str| names.iter().filter(|known| *known == name).count();
        assert_eq!((count("testcase"), count("failure"), count("error"), count("skipped")), (5, 1, 1, 1));
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
