//! What `plimsoll compare` found, for a terminal, for a pull request and for a build server. It must not compare, nor judge anew.

mod junit;
mod markdown;
mod text;

pub use junit::junit;
pub use markdown::markdown;
pub use text::text;

use record::compared::{Compared, Gated, Judged};

use crate::numbers;
use crate::words::differing;

/// The outcome in one sentence.
fn outcome(compared: &Compared) -> String {
    let all = match compared.comparisons.len() {
        1 => "one comparison".to_owned(),
        all => format!("{all} comparisons"),
    };
    let count = |better: bool| {
        let one = |judged: &&Judged| {
            let b = judged.comparison.better.as_deref() == Some(judged.comparison.b.as_str());
            judged.comparison.significant && b == better
        };
        compared.comparisons.iter().filter(one).count()
    };
    let found = match (count(true), count(false)) {
        (0, 0) => format!("no difference shown in {all}"),
        (better, 0) => format!("better in {better} of {all}, worse in none"),
        (0, worse) => format!("worse in {worse} of {all}, better in none"),
        (better, worse) => format!("better in {better} and worse in {worse} of {all}"),
    };
    match compared.gate_pct {
        None => format!("{found}."),
        Some(gate) => {
            let (gate, failed) = (numbers::percent(gate), compared.gated(Gated::Fails).count());
            match failed {
                0 => format!("The gate of {gate} holds: {found}."),
                1 => format!("The gate of {gate} fails for one figure: {found}."),
                failed => format!("The gate of {gate} fails for {failed} figures: {found}."),
            }
        }
    }
}

/// `candidate: latency p99 at 64 agents`.
fn name(judged: &Judged) -> String {
    let place = differing::place(&judged.comparison);
    let place = if place.is_empty() { String::new() } else { format!(" at {place}") };
    format!("{}{place}", differing::figure(&judged.comparison.metric))
}

/// `1,000 → 900/s: 10 % slower (8–12 %), p 0.003`.
fn finding(judged: &Judged) -> String {
    let one = &judged.comparison;
    let write = |value: Option<f64>| numbers::or_none(value, |value| numbers::by_metric(&one.metric, value));
    let chance = one.p_adjusted.map_or_else(String::new, |p| match differing::chance(p) {
        small if small.starts_with('<') => format!(", p {small}"),
        p => format!(", p = {p}"),
    });
    format!("{} → {}: {}{chance}", write(one.a_value), write(one.b_value), differing::verdict(one).0.replace('`', ""))
}

#[cfg(test)]
mod tests {
    use record::compared::{Side, Surrounding};
    use record::results::Comparison;

    use super::*;

    /// A comparison that fails, one that passes, one that could not be made, under names that every format has to mind.
    fn compared() -> Compared {
        let one = |metric: &str, b: f64, p: Option<f64>, gate| Judged {
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
            worse_pct: None,
            gate: Some(gate),
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
            comparisons: vec![
                one("throughput.operations_per_s", 850.0, Some(0.002), Gated::Fails),
                one("latency_us.p50", 1_010.0, Some(0.4), Gated::Passes),
                one("latency_us.p99", 1_300.0, None, Gated::CannotTell),
            ],
        }
    }

    /// Checks that tags are balanced and quotes closed, and gives the names of all elements.
    fn well_formed(xml: &str) -> Vec<String> {
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
            // name="value" again and again: with the values out, only names and equal signs are left.
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
    fn junit_is_well_formed_and_counts_what_it_holds() {
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
    fn the_outcome_counts() {
        let mut compared = compared();
        assert_eq!(
            outcome(&compared),
            "The gate of 5 % fails for one figure: worse in 1 of 3 comparisons, better in none."
        );
        compared.gate_pct = None;
        compared.comparisons.remove(0);
        assert_eq!(outcome(&compared), "no difference shown in 2 comparisons.");
    }
}
