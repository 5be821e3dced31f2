//! Results of `plimsoll compare` for a terminal, a pull request and a build server.

use analysis::answer::differing;
use record::compared::{Compared, Gated, GatedComparison, Side};
use record::results::{Comparison, Trust};
use text::{numbers, without_controls, wrapped};

use crate::tables::{Cell, Column, Row, Table, comparison, trust_word};
use crate::words::summary::set;

/// Returns the outcome in one sentence.
fn outcome(compared: &Compared) -> String {
    if compared.comparisons.is_empty() {
        return match compared.gate_pct {
            None => "Nothing could be compared.".to_owned(),
            Some(gate) => {
                format!("The gate of {} is inconclusive: nothing could be compared.", numbers::percent(gate))
            }
        };
    }
    let all = match compared.comparisons.len() {
        1 => "1 comparison".to_owned(),
        all => format!("{all} comparisons"),
    };
    let count = |better: bool| {
        let one = |judged: &&GatedComparison| {
            let b = judged.comparison.better.as_deref() == Some(judged.comparison.b.as_str());
            judged.comparison.significant && b == better
        };
        compared.comparisons.iter().filter(one).count()
    };
    let found = match (count(true), count(false)) {
        (0, 0) => format!("no significant difference in {all}"),
        (better, 0) => format!("better in {better} of {all}, worse in none"),
        (0, worse) => format!("worse in {worse} of {all}, better in none"),
        (better, worse) => format!("better in {better} and worse in {worse} of {all}"),
    };
    match compared.gate_pct {
        None => format!("{found}."),
        Some(gate) => {
            let counts = [Gated::Fails, Gated::CannotTell].map(|gated| compared.gated(gated).count());
            let figures = |count: usize| if count == 1 { "one figure".to_owned() } else { format!("{count} figures") };
            let outcome = match counts {
                [0, 0] => "holds".to_owned(),
                [0, unsure] => format!("is inconclusive for {}", figures(unsure)),
                [failed, _] => format!("fails for {}", figures(failed)),
            };
            format!("The gate of {} {outcome}: {found}.", numbers::percent(gate))
        }
    }
}

/// Returns a name such as `candidate: p99 latency at 64 agents`.
fn name(judged: &GatedComparison) -> String {
    let place = differing::place(&judged.comparison);
    let place = if place.is_empty() { String::new() } else { format!(" at {place}") };
    format!("{}{place}", differing::figure(&judged.comparison.metric))
}

/// Returns a finding such as `1,000 → 900/s: 10 % slower (8–12 %), p = 0.003`.
fn finding(judged: &GatedComparison) -> String {
    let one = &judged.comparison;
    let write = |value: Option<f64>| numbers::or_none(value, |value| numbers::by_metric(&one.metric, value));
    let chance = one.p_adjusted.map_or_else(String::new, |p| match differing::chance(p) {
        small if small.starts_with('<') => format!(", p {small}"),
        p => format!(", p = {p}"),
    });
    let verdict = differing::verdict(one).0.replace('`', "");
    let raw = differing::raw(one).map_or_else(String::new, |raw| format!(" ({raw})"));
    format!("{} → {}: {verdict}{chance}{raw}{}", write(one.a_value), write(one.b_value), undecided(judged))
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
#[must_use]
pub fn text(compared: &Compared, colour: bool) -> String {
    let comparisons: Vec<&Comparison> = compared.comparisons.iter().map(|judged| &judged.comparison).collect();
    let mut parts = vec![sides(compared), surroundings(compared, colour)];
    parts.extend((!comparisons.is_empty()).then(|| {
        let table = comparison::differences_of(&comparisons);
        let note = if compared.sides.iter().any(|side| side.accepted > 0) {
            table.note.replace("Void trials are left out", "Void trials are used as well")
        } else {
            table.note.clone()
        };
        format!("{}{}", set(&table, WIDTH, colour), lines(&note, "  "))
    }));
    let warnings: String = compared.warnings.iter().map(|warning| lines(&format!("note: {warning}"), "  ")).collect();
    parts.push(warnings);
    parts.push(lines(&outcome(compared), ""));
    parts.retain(|part| !part.is_empty());
    text::visible(&parts.join("\n")).into_owned()
}

fn sides(compared: &Compared) -> String {
    let several = compared.sides.len() > 1;
    let side = |(index, side): (usize, &Side)| {
        let role = if several && index == 0 {
            "baseline  "
        } else if several {
            "against   "
        } else {
            ""
        };
        let runs = if side.runs > 1 { format!("{} runs, ", side.runs) } else { String::new() };
        let trust =
            if side.verdict == Trust::Valid { String::new() } else { format!(", {}", trust_word(side.verdict)) };
        // A path is not wrapped, so that it can be copied.
        let name = without_controls(&side.name);
        format!("{role}{name}\n{}", lines(&format!("  {runs}{} trials{trust}: {}", side.trials, side.title), "  "))
    };
    compared.sides.iter().enumerate().map(side).collect()
}

fn surroundings(compared: &Compared, colour: bool) -> String {
    if compared.sides.len() < 2 {
        return String::new();
    }
    if compared.surroundings.is_empty() {
        return "Machine, versions and plan are the same, as far as they were recorded.\n".to_owned();
    }
    let of_one = compared.sides.len() == 2;
    let mut columns = ["differs", "baseline", "other"].map(Column::text).to_vec();
    if !of_one {
        columns.insert(0, Column::text("side"));
    }
    let rows = compared.surroundings.iter().take(LISTED).map(|one| {
        let mut cells = vec![Cell::new(format!("{} {}", one.of, one.field)), Cell::new(&one.a), Cell::new(&one.b)];
        if !of_one {
            cells.insert(0, Cell::new(&one.side));
        }
        Row { cells, begins: false }
    });
    let table = Table { columns, rows: rows.collect(), ..Table::default() };
    let more = compared.surroundings.len().saturating_sub(LISTED);
    let more = if more > 0 { format!("  and {more} more; --json lists all\n") } else { String::new() };
    format!("{}{more}", set(&table, WIDTH, colour))
}

/// Wraps the text and indents all lines after the first.
fn lines(text: &str, indent: &str) -> String {
    let wrapped = wrapped_keeping(text, WIDTH - indent.len());
    let line =
        |(index, line): (usize, &String)| if index == 0 { format!("{line}\n") } else { format!("{indent}{line}\n") };
    wrapped.iter().enumerate().map(line).collect()
}

/// Wraps a text only if it is too long, so that alignment in short lines is kept.
fn wrapped_keeping(text: &str, width: usize) -> Vec<String> {
    let text = without_controls(text);
    if text.chars().count() <= width { vec![text] } else { wrapped(&text, width) }
}

/// Maximum number of listed differences in surroundings.
const LISTED_IN_MARKDOWN: usize = 10;
/// Maximum number of listed comparisons; those that differ come first.
const SHOWN: usize = 30;

/// Returns the whole Markdown text, ending in a newline.
#[must_use]
pub fn markdown(compared: &Compared) -> String {
    let mut text = format!("### Plimsoll: {}\n\n", cell_escaped(outcome(compared).trim_end_matches('.')));
    for judged in compared.gated(Gated::Fails) {
        text.push_str(&format!("- **{}**: {}\n", cell_escaped(&name(judged)), cell_escaped(&finding(judged))));
    }
    if compared.gated(Gated::Fails).next().is_some() {
        text.push('\n');
    }
    text.push_str("| figure | before | after | ratio | verdict |\n|---|---:|---:|---:|---|\n");
    let mut ordered: Vec<&GatedComparison> = compared.comparisons.iter().collect();
    ordered.sort_by_key(|judged| !judged.comparison.significant);
    ordered.iter().take(SHOWN).for_each(|judged| text.push_str(&row(judged, compared.sides.len() != 2)));
    if ordered.len() > SHOWN {
        text.push_str(&format!("\n{} more comparisons are not listed.\n", ordered.len() - SHOWN));
    }
    text.push_str(&surroundings_listed(compared));
    if !compared.warnings.is_empty() {
        text.push('\n');
        compared.warnings.iter().for_each(|warning| text.push_str(&format!("> {}\n>\n", cell_escaped(warning))));
    }
    text
}

fn row(judged: &GatedComparison, several: bool) -> String {
    let one = &judged.comparison;
    let write = |value: Option<f64>| numbers::or_none(value, |value| numbers::by_metric(&one.metric, value));
    let (estimate, interval) = differing::estimate(one);
    let estimate = if interval.is_empty() { estimate } else { format!("{estimate} ({interval})") };
    let of = if several { format!("{} against {}: ", one.b, one.a) } else { String::new() };
    let verdict = differing::verdict(one).0.replace('`', "");
    let verdict = match judged.gate {
        Some(Gated::Fails) => format!("**{verdict}**"),
        _ => verdict + &undecided(judged),
    };
    let cells = [format!("{of}{}", name(judged)), write(one.a_value), write(one.b_value), estimate];
    format!("| {} | {} |\n", cells.map(|cell| cell_escaped(&cell)).join(" | "), verdict.replace('|', "\\|"))
}

fn surroundings_listed(compared: &Compared) -> String {
    if compared.surroundings.is_empty() {
        return String::new();
    }
    let mut text = "\nNot the same on both sides:\n".to_owned();
    for one in compared.surroundings.iter().take(LISTED_IN_MARKDOWN) {
        text.push_str(&format!(
            "- {} {}: {} → {}\n",
            one.of,
            cell_escaped(&one.field),
            cell_escaped(&one.a),
            cell_escaped(&one.b)
        ));
    }
    if compared.surroundings.len() > LISTED_IN_MARKDOWN {
        text.push_str(&format!("- and {} more\n", compared.surroundings.len() - LISTED_IN_MARKDOWN));
    }
    text
}

/// Escapes a text for one line of Markdown.
pub(crate) fn cell_escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '|' | '*' | '`' | '[' | ']' | '<' | '>' | '\\' => escaped.extend(['\\', character]),
            character if character.is_control() => escaped.push(' '),
            character => escaped.push(character),
        }
    }
    escaped
}

/// Returns the results in JUnit's format. A comparison that fails the gate is a failure; a
/// comparison without a result or decision is skipped.
#[must_use]
pub fn junit(compared: &Compared) -> String {
    let mut names: Vec<(&str, &str)> = Vec::new();
    for judged in &compared.comparisons {
        let name = (judged.comparison.a.as_str(), judged.comparison.b.as_str());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let suites: String = names.into_iter().map(|(a, b)| suite(compared, a, b)).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"plimsoll compare\">\n{suites}</testsuites>\n"
    )
}

fn suite(compared: &Compared, a: &str, b: &str) -> String {
    let of_suite = |judged: &&GatedComparison| judged.comparison.a == a && judged.comparison.b == b;
    let judged: Vec<&GatedComparison> = compared.comparisons.iter().filter(of_suite).collect();
    let failures = judged.iter().filter(|judged| judged.gate == Some(Gated::Fails)).count();
    let skipped = judged.iter().filter(|judged| is_skipped(judged)).count();
    let title = xml_escaped(&format!("{b} against {a}"));
    let mut properties = String::new();
    for one in compared.surroundings.iter().filter(|one| one.side == b) {
        let (name, value) = (format!("{} {}", one.of, one.field), format!("{} → {}", one.a, one.b));
        properties.push_str(&format!(
            "      <property name=\"{}\" value=\"{}\"/>\n",
            xml_escaped(&name),
            xml_escaped(&value)
        ));
    }
    if !properties.is_empty() {
        properties = format!("    <properties>\n{properties}    </properties>\n");
    }
    let cases: String = judged.iter().map(|judged| case(judged, &title)).collect();
    let notes: Vec<String> = compared.warnings.iter().map(|warning| xml_escaped(warning) + "\n").collect();
    format!(
        "  <testsuite name=\"{title}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\">\n{properties}{cases}    \
         <system-out>{}\n{}</system-out>\n  </testsuite>\n",
        judged.len(),
        xml_escaped(&outcome(compared)),
        notes.concat()
    )
}

/// Whether the comparison has no result or no decision.
fn is_skipped(judged: &GatedComparison) -> bool {
    judged.comparison.p.is_none() || judged.gate == Some(Gated::CannotTell)
}

fn case(judged: &GatedComparison, suite: &str) -> String {
    let (name, finding) = (xml_escaped(&name(judged)), xml_escaped(&finding(judged)));
    let inside = if judged.gate == Some(Gated::Fails) {
        format!("\n      <failure type=\"regression\" message=\"{finding}\">{finding}</failure>\n    ")
    } else if is_skipped(judged) {
        format!("\n      <skipped message=\"{finding}\"/>\n    ")
    } else {
        format!("\n      <system-out>{finding}</system-out>\n    ")
    };
    format!("    <testcase name=\"{name}\" classname=\"{suite}\" time=\"0\">{inside}</testcase>\n")
}

/// Escapes a text for content or attributes of XML 1.0, and replaces characters that XML does not
/// allow.
pub(crate) fn xml_escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => {}
            character if character.is_control() => escaped.push(' '),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
pub(crate) mod tests {
    use record::compared::Surrounding;

    use super::*;

    /// Returns a comparison that fails, one that passes and one without a result, with names that
    /// every format must escape.
    fn compared() -> Compared {
        let one = |metric: &str, b: f64, p: Option<f64>, gate| GatedComparison {
            comparison: Comparison {
                over: "run".into(),
                a: "runs/base".into(),
                b: "runs/a|b <&> \"c\" \u{1b}[31m".into(),
                metric: metric.into(),
                a_value: Some(1_000.0),
                b_value: Some(b),
                ratio: Some(b / 1_000.0),
                ci95: p.map(|_| [b / 1_010.0, b / 990.0]),
                p,
                p_adjusted: p,
                significant: p.is_some_and(|p| p < 0.05),
                detectable_pct: p.map(|_| 4.0),
                better: p.is_some_and(|p| p < 0.05).then(|| "runs/base".into()),
                ..Comparison::default()
            },
            gate: Some(gate),
            ..GatedComparison::default()
        };
        let side =
            |name: &str| Side { name: name.into(), title: "A <title>".into(), runs: 1, trials: 6, ..Side::default() };
        Compared {
            format: 1,
            sides: vec![side("runs/base"), side("runs/a|b <&> \"c\" \u{1b}[31m")],
            surroundings: vec![Surrounding {
                side: "runs/a|b <&> \"c\" \u{1b}[31m".into(),
                of: "environment".into(),
                field: "kernel".into(),
                a: "6.1 <x>".into(),
                b: "6.2|y".into(),
            }],
            warnings: vec!["a & b are <different> experiments".into()],
            gate_pct: Some(5.0),
            gate_is_sure: false,
            comparisons: vec![
                one("throughput.operations_per_s", 850.0, Some(0.002), Gated::Fails),
                one("latency_us.p50", 1_010.0, Some(0.4), Gated::Passes),
                one("latency_us.p99", 1_300.0, None, Gated::CannotTell),
            ],
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

    fn entities_hold(text: &str) -> bool {
        text.split('&')
            .skip(1)
            .all(|rest| ["amp;", "lt;", "gt;", "quot;"].iter().any(|entity| rest.starts_with(entity)))
    }

    #[test]
    fn junit_is_well_formed_with_correct_counts() {
        let xml = junit(&compared());
        let names = well_formed(&xml);
        let count = |name: &str| names.iter().filter(|known| *known == name).count();
        assert_eq!((count("testsuite"), count("testcase"), count("failure"), count("skipped")), (1, 3, 1, 1));
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
        assert!(text.contains("- **calls/s**: 1,000/s → 850/s: 15 % slower"), "{text}");
        assert!(!text.contains('\u{1b}') && text.contains("6.2\\|y"), "{text}");
        assert!(text.lines().count() < 25, "short");
    }

    #[test]
    fn surroundings_come_before_the_figures_on_a_terminal() {
        let text = text(&compared(), false);
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("no {word} in\n{text}"));
        assert!(
            at("baseline  runs/base") < at("environment kernel") && at("environment kernel") < at("15 % slower"),
            "{text}"
        );
        assert!(at("15 % slower") < at("different") && at("different") < at("The gate of 5 % fails"), "{text}");
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
