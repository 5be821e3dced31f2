//! Results of `plimsoll compare` for a terminal, a pull request and a build server.

use analysis::answer::differing;
use record::compared::{Compared, Gated, GatedComparison};
use record::results::{Comparison, Trust};
use text::{distinct, hanging, numbers, without_controls};

use crate::junit::{CaseOutcome, Suite, TestCase};
use crate::markdown;
use crate::tables::{Cell, Column, Row, Table, comparison, trust_word};
use crate::words::summary::set;

fn outcome(compared: &Compared) -> String {
    let gate = compared.gate_pct.map(numbers::percent);
    if compared.comparisons.is_empty() {
        return match gate {
            None => "Nothing could be compared.".to_owned(),
            Some(gate) => format!("The gate of {gate} is inconclusive: nothing could be compared."),
        };
    }
    let all = numbers::plural(compared.comparisons.len(), "comparison");
    let significant = compared.comparisons.iter().map(|judged| &judged.comparison).filter(|one| one.significant);
    let (better, worse): (Vec<&Comparison>, Vec<&Comparison>) =
        significant.partition(|one| differing::is_b_better(one));
    let found = match (better.len(), worse.len()) {
        (0, 0) => format!("no significant difference in {all}"),
        (better, 0) => format!("better in {better} of {all}, worse in none"),
        (0, worse) => format!("worse in {worse} of {all}, better in none"),
        (better, worse) => format!("better in {better} and worse in {worse} of {all}"),
    };
    let Some(gate) = gate else { return format!("{found}.") };
    let outcome = match [Gated::Fails, Gated::CannotTell].map(|gated| compared.gated(gated).count()) {
        [0, 0] => "holds".to_owned(),
        [0, 1] => "is inconclusive for one figure".to_owned(),
        [0, unsure] => format!("is inconclusive for {unsure} figures"),
        [1, _] => "fails for one figure".to_owned(),
        [failed, _] => format!("fails for {failed} figures"),
    };
    format!("The gate of {gate} {outcome}: {found}.")
}

/// Returns a name such as `p99 latency at agents 64`.
fn name(judged: &GatedComparison) -> String {
    format!("{}{}", differing::figure(&judged.comparison.metric), differing::at_place(&judged.comparison))
}

fn values(one: &Comparison) -> [String; 2] {
    [one.a_value, one.b_value].map(|value| numbers::or_none(value, |value| numbers::by_metric(&one.metric, value)))
}

/// Returns a finding such as `1,000 → 900/s: 10 % slower (8–12 %), p = 0.003`.
fn finding(judged: &GatedComparison) -> String {
    let one = &judged.comparison;
    let chance = match one.p_adjusted.map(differing::chance) {
        None => String::new(),
        Some(small) if small.starts_with('<') => format!(", p {small}"),
        Some(p) => format!(", p = {p}"),
    };
    let verdict = differing::verdict(one).0.replace('`', "");
    let raw = differing::raw(one).map(|raw| format!(" ({raw})")).unwrap_or_default();
    format!("{}: {verdict}{chance}{raw}{}", values(one).join(" → "), undecided(judged))
}

/// Returns the number of repeats that an inconclusive gate needs. Empty for other results.
fn undecided(judged: &GatedComparison) -> String {
    match (judged.gate, judged.repeats_needed) {
        (Some(Gated::CannotTell), Some(repeats)) => format!("; inconclusive, {repeats} repeats would decide"),
        (Some(Gated::CannotTell), None) => "; inconclusive".to_owned(),
        _ => String::new(),
    }
}

/// Maximum width in the terminal, columns.
const WIDTH: usize = 110;
/// Maximum number of listed differences in surroundings.
const LISTED: usize = 40;

/// Returns the whole text, ending in a newline, with the terminal's colours if `colour`.
pub fn text(compared: &Compared, colour: bool) -> String {
    let comparisons: Vec<&Comparison> = compared.comparisons.iter().map(|judged| &judged.comparison).collect();
    let mut parts = vec![sides(compared), surroundings(compared, colour)];
    if !comparisons.is_empty() {
        let table = comparison::differences_of(&comparisons);
        let note = if compared.sides.iter().any(|side| side.accepted > 0) {
            table.note.replace("Void trials are left out", "Void trials are used as well")
        } else {
            table.note.clone()
        };
        parts.push(set(&table, WIDTH, colour) + &hanging(&note, "", "  ", WIDTH));
    }
    let warnings = compared.warnings.iter().map(|warning| hanging(&format!("note: {warning}"), "", "  ", WIDTH));
    parts.push(warnings.collect());
    parts.push(hanging(&outcome(compared), "", "", WIDTH));
    parts.retain(|part| !part.is_empty());
    text::visible(&parts.join("\n")).into_owned()
}

fn sides(compared: &Compared) -> String {
    let mut text = String::new();
    for (index, side) in compared.sides.iter().enumerate() {
        let role = match index {
            _ if compared.sides.len() == 1 => "",
            0 => "baseline  ",
            _ => "against   ",
        };
        let runs = if side.runs > 1 { format!("{} runs, ", side.runs) } else { String::new() };
        let trust = match side.verdict {
            Trust::Valid => String::new(),
            other => format!(", {}", trust_word(other)),
        };
        // A path is not wrapped, so that it can be copied.
        text.push_str(&format!("{role}{}\n", without_controls(&side.name)));
        text.push_str(&hanging(&format!("{runs}{} trials{trust}: {}", side.trials, side.title), "  ", "  ", WIDTH));
    }
    text
}

fn surroundings(compared: &Compared, colour: bool) -> String {
    if compared.sides.len() < 2 {
        return String::new();
    }
    if compared.surroundings.is_empty() {
        return "Machine, versions and plan are the same, as far as they were recorded.\n".to_owned();
    }
    let mut columns = ["side", "differs", "baseline", "other"].map(Column::text);
    columns[0].brief = compared.sides.len() > 2;
    let rows = compared.surroundings.iter().take(LISTED).map(|one| {
        let differs = format!("{} {}", one.of, one.field);
        Row::of([&one.side, &differs, &one.a, &one.b].map(Cell::new).to_vec())
    });
    let table = Table { rows: rows.collect(), ..Table::new("", "", columns.to_vec()) };
    let more = compared.surroundings.len().saturating_sub(LISTED);
    let more = if more > 0 { format!("  and {more} more; --json lists all\n") } else { String::new() };
    format!("{}{more}", set(&table, WIDTH, colour))
}

/// Maximum number of listed differences in surroundings.
const LISTED_IN_MARKDOWN: usize = 10;
/// Maximum number of listed comparisons; those that differ come first.
const SHOWN: usize = 30;

/// Returns the whole Markdown text, ending in a newline.
pub fn markdown(compared: &Compared) -> String {
    let mut text = format!("### Plimsoll: {}\n\n", markdown::escaped(outcome(compared).trim_end_matches('.')));
    for judged in compared.gated(Gated::Fails) {
        let (name, finding) = (markdown::escaped(&name(judged)), markdown::escaped(&finding(judged)));
        text.push_str(&format!("- **{name}**: {finding}\n"));
    }
    if compared.gated(Gated::Fails).next().is_some() {
        text.push('\n');
    }
    text.push_str("| figure | before | after | ratio | verdict |\n|---|---:|---:|---:|---|\n");
    let mut ordered: Vec<&GatedComparison> = compared.comparisons.iter().collect();
    ordered.sort_by_key(|judged| !judged.comparison.significant);
    for judged in ordered.iter().take(SHOWN) {
        text.push_str(&row(judged, compared.sides.len() != 2));
    }
    if ordered.len() > SHOWN {
        text.push_str(&format!("\n{} more comparisons are not listed.\n", ordered.len() - SHOWN));
    }
    if !compared.surroundings.is_empty() {
        text.push_str("\nNot the same on both sides:\n");
    }
    for one in compared.surroundings.iter().take(LISTED_IN_MARKDOWN) {
        text.push_str(&markdown::item(&format!("{} {}: {} → {}", one.of, one.field, one.a, one.b)));
    }
    if compared.surroundings.len() > LISTED_IN_MARKDOWN {
        text.push_str(&format!("- and {} more\n", compared.surroundings.len() - LISTED_IN_MARKDOWN));
    }
    if !compared.warnings.is_empty() {
        text.push('\n');
    }
    text.extend(compared.warnings.iter().map(|warning| format!("> {}\n>\n", markdown::escaped(warning))));
    text
}

fn row(judged: &GatedComparison, several: bool) -> String {
    let one = &judged.comparison;
    let (estimate, interval) = differing::estimate(one);
    let estimate = if interval.is_empty() { estimate } else { format!("{estimate} ({interval})") };
    let of = if several { format!("{} against {}: ", one.b, one.a) } else { String::new() };
    let verdict = differing::verdict(one).0.replace('`', "").replace('|', "\\|");
    let verdict = match judged.gate {
        Some(Gated::Fails) => format!("**{verdict}**"),
        _ => verdict + &undecided(judged),
    };
    let [a, b] = values(one);
    let cells = [format!("{of}{}", name(judged)), a, b, estimate].map(|cell| markdown::escaped(&cell));
    markdown::row(&[&cells[..], &[verdict]].concat())
}

/// Returns the results in JUnit's format. A comparison that fails the gate is a failure; a
/// comparison without a result or decision is skipped.
pub fn junit(compared: &Compared) -> String {
    let pairs = compared.comparisons.iter().map(|judged| (&judged.comparison.a, &judged.comparison.b));
    let suites: Vec<Suite> = distinct(pairs).into_iter().map(|(a, b)| suite(compared, a, b)).collect();
    crate::junit::file("plimsoll compare", &suites)
}

fn suite(compared: &Compared, a: &str, b: &str) -> Suite {
    let title = format!("{b} against {a}");
    let judged = compared.comparisons.iter().filter(|judged| judged.comparison.a == a && judged.comparison.b == b);
    let cases = judged.map(|judged| {
        let outcome = match judged.gate {
            Some(Gated::Fails) => CaseOutcome::Failure("regression"),
            Some(Gated::CannotTell) => CaseOutcome::Skipped,
            _ if judged.comparison.p.is_none() => CaseOutcome::Skipped,
            _ => CaseOutcome::Passed,
        };
        TestCase { name: name(judged), class: title.clone(), outcome, text: finding(judged) }
    });
    let differing = compared.surroundings.iter().filter(|one| one.side == b);
    let properties = differing.map(|one| (format!("{} {}", one.of, one.field), format!("{} → {}", one.a, one.b)));
    Suite {
        cases: cases.collect(),
        properties: properties.collect(),
        output: [&[outcome(compared)], compared.warnings.as_slice(), &[String::new()]].concat().join("\n"),
        title,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use record::compared::{Side, Surrounding};

    use super::*;

    const BASE: &str = "runs/base";
    const OTHER: &str = "runs/a|b <&> \"c\" \u{1b}[31m";

    /// Returns a comparison that fails, one that passes and one without a result, with names that
    /// every format must escape.
    fn compared() -> Compared {
        let comparisons = [
            ("throughput.operations_per_s", 850.0, Some(0.002), Gated::Fails),
            ("latency_us.p50", 1_010.0, Some(0.4), Gated::Passes),
            ("latency_us.p99", 1_300.0, None, Gated::CannotTell),
        ];
        let comparisons = comparisons.map(|(metric, b, p, gate)| GatedComparison {
            comparison: Comparison {
                over: "run".into(),
                a: BASE.into(),
                b: OTHER.into(),
                metric: metric.into(),
                a_value: Some(1_000.0),
                b_value: Some(b),
                ratio: Some(b / 1_000.0),
                ci95: p.map(|_| [b / 1_010.0, b / 990.0]),
                p,
                p_adjusted: p,
                significant: p.is_some_and(|p| p < 0.05),
                detectable_pct: p.map(|_| 4.0),
                better: p.is_some_and(|p| p < 0.05).then(|| BASE.into()),
                ..Comparison::default()
            },
            gate: Some(gate),
            ..GatedComparison::default()
        });
        let base = Side { name: BASE.into(), title: "A <title>".into(), runs: 1, trials: 6, ..Side::default() };
        Compared {
            format: 1,
            sides: vec![base.clone(), Side { name: OTHER.into(), ..base }],
            surroundings: vec![Surrounding {
                side: OTHER.into(),
                of: "environment".into(),
                field: "kernel".into(),
                a: "6.1 <x>".into(),
                b: "6.2|y".into(),
            }],
            warnings: vec!["a & b are <different> experiments".into()],
            gate_pct: Some(5.0),
            gate_is_sure: false,
            comparisons: comparisons.to_vec(),
        }
    }

    /// Checks that tags are balanced and quotes closed. Returns the names of all elements.
    pub(crate) fn well_formed(xml: &str) -> Vec<String> {
        let (mut open, mut seen) = (Vec::new(), Vec::new());
        let mut rest = xml.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n").expect("a declaration");
        while let Some(at) = rest.find('<') {
            let text = &rest[..at];
            assert!(!text.contains('>') && entities_hold(text), "{text}");
            let end = rest[at..].find('>').expect("a tag that does not end") + at;
            let tag = &rest[at + 1..end];
            rest = &rest[end + 1..];
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name));
                continue;
            }
            let name = tag.split([' ', '/']).next().unwrap().to_owned();
            // Attributes are name="value" repeatedly: without the values, only names and equal
            // signs are left.
            let parts: Vec<&str> = tag.split('"').collect();
            assert!(parts.len() % 2 == 1, "a quote is open: {tag}");
            assert!(parts.iter().skip(1).step_by(2).all(|value| !value.contains('<') && entities_hold(value)), "{tag}");
            seen.push(name.clone());
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
        assert!(!xml.chars().any(|c| c.is_control() && c != '\n'), "a control character");
        seen
    }

    pub(crate) fn counts<const N: usize>(names: &[String], wanted: [&str; N]) -> [usize; N] {
        wanted.map(|wanted| names.iter().filter(|name| *name == wanted).count())
    }

    fn entities_hold(text: &str) -> bool {
        text.split('&')
            .skip(1)
            .all(|rest| ["amp;", "lt;", "gt;", "quot;"].iter().any(|entity| rest.starts_with(entity)))
    }

    #[test]
    fn junit_is_well_formed_with_correct_counts() {
        let xml = junit(&compared());
        let names = well_formed(&xml);
        assert_eq!(counts(&names, ["testsuite", "testcase", "failure", "skipped"]), [1, 3, 1, 1]);
        assert!(xml.contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""), "{xml}");
        assert!(xml.contains("message=\"1,000/s → 850/s: 15 % slower (14–16 %), p = 0.002\""), "{xml}");
        well_formed(&junit(&Compared::default()));
    }

    #[test]
    fn a_table_in_markdown_keeps_its_columns() {
        let text = markdown(&compared());
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(rows.len(), 5, "{text}");
        for row in rows {
            assert_eq!(row.replace("\\|", "").matches('|').count(), 6, "{row}");
        }
        assert!(
            text.starts_with("### Plimsoll: The gate of 5 % fails for one figure: worse in 1 of 3 comparisons"),
            "{text}"
        );
        assert!(text.contains("- **operations/s**: 1,000/s → 850/s: 15 % slower"), "{text}");
        assert!(!text.contains('\u{1b}') && text.contains("6.2\\|y"), "{text}");
        assert!(text.lines().count() < 25, "short");
    }

    #[test]
    fn surroundings_come_before_the_figures_on_a_terminal() {
        let text = text(&compared(), false);
        let order = ["baseline  runs/base", "environment kernel", "15 % slower", "different", "The gate of 5 % fails"];
        let places = order.map(|words| text.find(words).unwrap_or_else(|| panic!("no {words} in\n{text}")));
        assert!(places.is_sorted(), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
        assert!(!text.contains('\u{1b}'));
        let mut same = compared();
        same.surroundings.clear();
        assert!(super::text(&same, false).contains("are the same"));
    }

    #[test]
    fn the_outcome_sums_up_all_comparisons() {
        let mut compared = compared();
        assert_eq!(
            outcome(&compared),
            "The gate of 5 % fails for one figure: worse in 1 of 3 comparisons, better in none."
        );
        compared.gate_pct = None;
        compared.comparisons.remove(0);
        assert_eq!(outcome(&compared), "no significant difference in 2 comparisons.");
        compared.gate_pct = Some(5.0);
        assert_eq!(
            outcome(&compared),
            "The gate of 5 % is inconclusive for one figure: no significant difference in 2 comparisons."
        );
        compared.comparisons[1].repeats_needed = Some(14);
        let text = markdown(&compared);
        assert!(text.contains("not tested: one run of each; inconclusive, 14 repeats would decide |"), "{text}");
        assert!(junit(&compared).contains("tests=\"2\" failures=\"0\" errors=\"0\" skipped=\"1\""));
    }
}
