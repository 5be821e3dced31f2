//! Report of the doctor for a terminal of 100 columns: problems in full, one line for each good
//! result, one line for each reason of unknown results.

use std::fmt::Write as _;

use crate::CheckOutcome;
use crate::checkups::{CheckState, commands};

/// Width of the report, columns.
const WIDTH: usize = 100;
/// Columns before a finding: two blanks, the name of the check-up, two blanks.
const INDENT: usize = 27;

/// Returns the whole report. `with_article` adds today's assessment of the article's tunings.
#[must_use]
pub fn words(examined: &[CheckOutcome], with_article: bool) -> String {
    let mut text = String::new();
    let of = |state: CheckState| examined.iter().filter(move |one| one.finding.state == state);
    for (state, heading) in
        [(CheckState::Bad, "Bad: spoils a measurement"), (CheckState::Notice, "Notice: changes figures")]
    {
        if of(state).next().is_some() {
            let _ = write!(text, "{heading}\n\n");
        }
        for one in of(state) {
            text.push_str(&in_full(one));
        }
    }
    if of(CheckState::Good).next().is_some() {
        text.push_str("Good\n\n");
    }
    for one in of(CheckState::Good) {
        text.push_str(&row(one.kind.name, &one.finding.found));
    }
    text.push_str(&unknown(of(CheckState::Unknown)));
    text.push_str(&if with_article { article(examined) } else { String::new() });
    let _ = write!(text, "\n{}\n", sum(examined));
    text
}

/// Returns the number of results in each state, such as `1 bad, 2 to notice, 30 good, 4 unknown`.
fn sum(examined: &[CheckOutcome]) -> String {
    let states = [
        (CheckState::Bad, "bad"),
        (CheckState::Notice, "to notice"),
        (CheckState::Good, "good"),
        (CheckState::Unknown, "unknown"),
    ];
    let parts = states.map(|(state, word)| {
        let count = examined.iter().filter(|one| one.finding.state == state).count();
        format!("{count} {word}")
    });
    let fixable = examined.iter().filter(|one| !one.finding.fixes.is_empty()).count();
    let fixable = match fixable {
        0 => String::new(),
        some => format!("; --fix can change {some} of them, --undo puts them back"),
    };
    format!("{}{fixable}", parts.join(", "))
}

/// Formats a finding: its effect, its remedy, and the verdict rules that detect it.
fn in_full(one: &CheckOutcome) -> String {
    let (kind, finding) = (one.kind, &one.finding);
    let mut text = row(kind.name, &finding.found);
    text.push_str(&row("", kind.why));
    if let Some(remedy) = &finding.remedy {
        text.push_str(&row("", &format!("-> {remedy}")));
    }
    for command in commands(&finding.fixes) {
        // The command is not wrapped, so that it can be copied.
        let _ = writeln!(text, "{:width$}{command}", "", width = INDENT + 3);
    }
    for command in &finding.commands {
        let _ = writeln!(text, "{:width$}{command}", "", width = INDENT + 3);
    }
    if !kind.caught_by.is_empty() {
        text.push_str(&row("", &format!("in a trial, the verdict says: {}", kind.caught_by.join(", "))));
    }
    text.push('\n');
    text
}

/// Formats a name beside a text, wrapped. If the text starts with an arrow, further lines are
/// indented by the arrow's width.
fn row(name: &str, text: &str) -> String {
    let (arrow, text) = text.strip_prefix("-> ").map_or(("", text), |text| ("-> ", text));
    let first = format!("  {name:<width$}{arrow}", width = INDENT - 2);
    text::hanging(text, &first, &" ".repeat(INDENT + arrow.len()), WIDTH)
}

/// Formats the unknown results: one line per reason, with the names of the check-ups.
fn unknown<'a>(examined: impl Iterator<Item = &'a CheckOutcome>) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in examined {
        let name = one.kind.name.trim_start_matches("Erlang: ");
        match reasons.iter_mut().find(|(why, _)| *why == one.finding.found) {
            Some((_, names)) => names.push(name),
            None => reasons.push((&one.finding.found, vec![name])),
        }
    }
    let mut text = if reasons.is_empty() { String::new() } else { "\nUnknown\n\n".to_owned() };
    for (why, names) in reasons {
        text.push_str(&text::hanging(&format!("{why}: {}", names.join(", ")), "  ", "    ", WIDTH));
    }
    text
}

fn article(examined: &[CheckOutcome]) -> String {
    let mut tunings: Vec<_> = examined.iter().filter_map(|one| Some((one.kind.article?, &one.finding))).collect();
    tunings.sort_by_key(|(tuning, _)| (tuning.number, tuning.says));
    let mut text = "\nThe six tunings of the article on the name service vsns, today\n\n".to_owned();
    for (tuning, finding) in tunings {
        let says = text::wrapped(tuning.says, WIDTH - 5).join("\n     ");
        let _ = writeln!(text, "  {}  {says}", tuning.number);
        text.push_str(&row("", tuning.worth));
        text.push_str(&row("", &format!("here: {}", finding.found)));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::checkups::tests::{calm, tests_needs};
    use crate::{CpuNoise, Measured, MeasuredSpread, TrialDemand, examine, machine};

    fn shown(name: &str, measured: &Measured, asked: Option<&TrialDemand>, with_article: bool) -> String {
        let text = words(&examine(&machine(name), measured, asked), with_article);
        for line in text.lines() {
            let is_command = ["echo ", "sysctl "].iter().any(|program| line.trim_start().starts_with(program));
            assert!(line.chars().count() <= WIDTH || is_command, "{line}");
            assert_eq!(line, line.trim_end());
        }
        text
    }

    #[test]
    fn a_good_machine() {
        insta::assert_snapshot!(shown("good", &calm(), None, true));
    }

    #[test]
    fn a_bad_machine_with_a_demanding_experiment() {
        let measured = Measured {
            is_root: Some(false),
            cpus: Some(1),
            noise: Some(CpuNoise { others_pct: 40.0, busiest: vec![("rustc".to_owned(), 38.0)], steal_pct: Some(3.0) }),
            late_us: Some(MeasuredSpread { p50: 3000.0, max: 9000.0 }),
            is_synchronised: Some(false),
            time_keeper: None,
            free_bytes: Some(100 << 20),
            file_system: Some("tmpfs".to_owned()),
            links: None,
            erlang: None,
            ..calm()
        };
        let asked = TrialDemand {
            agents: 5000,
            services: 1,
            sources: 1,
            is_on_loopback: false,
            at_once: 500,
            lab: "3 hosts".to_owned(),
            refused: Some(("a lab of virtual hosts needs root".to_owned(), "run it as root".to_owned())),
            target: "vsns".to_owned(),
            missing: vec!["install the packages erlang-base erlang-mnesia".to_owned()],
            needs: BTreeMap::from([("vsns".to_owned(), tests_needs())]),
            is_virtual: false,
            is_remote: false,
            is_articles: true,
        };
        insta::assert_snapshot!(shown("bad", &measured, Some(&asked), false));
    }

    #[test]
    fn a_container_without_rights() {
        let measured = Measured { is_root: Some(false), links: None, time_keeper: None, erlang: None, ..calm() };
        insta::assert_snapshot!(shown("container", &measured, None, false));
    }

    #[test]
    fn an_old_kernel() {
        let measured = Measured { folder: "runs".to_owned(), ..Measured::default() };
        insta::assert_snapshot!(shown("old", &measured, None, false));
    }
}
