//! Results of `plimsoll selfcheck` for a terminal, for a repository, and as a page.

use record::results::Trust;
use record::selfcheck::{HeldTruth, SelfCheck, TruthOutcome, TruthUnit};
use serde::Serialize;
use text::{Tone, numbers, wrapped};

use crate::Error;
use crate::markdown;
use crate::page::{STYLE, Templates};
use crate::tables::{Cell, Column, Row, Table, trust_word};
use crate::words::summary::set;

/// Maximum width in the terminal, columns.
const WIDTH: usize = 110;

fn answer(checked: &SelfCheck) -> String {
    let all = checked.truths.len();
    let [right, marked, wrong] =
        [TruthOutcome::Right, TruthOutcome::Marked, TruthOutcome::Wrong].map(|came| checked.count(came));
    let marked = match marked {
        0 => String::new(),
        1 => " 1 was off, and its verdict reported a disturbance.".to_owned(),
        some => format!(" {some} were off, and their verdicts reported a disturbance."),
    };
    let wrong = match wrong {
        0 => String::new(),
        1 => " 1 was wrong without a warning.".to_owned(),
        some => format!(" {some} were wrong without a warning."),
    };
    format!("{right} of {all} known truths were measured right on this machine.{marked}{wrong}")
}

/// Returns the smallest changes that nine of ten comparisons of five repeats show on this machine,
/// such as `p99 latency 9 %`.
fn smallest(checked: &SelfCheck) -> String {
    let figures: Vec<String> = checked
        .smallest
        .iter()
        .map(|one| format!("{} {}", analysis::answer::differing::figure(&one.metric), numbers::percent(one.pct)))
        .collect();
    if figures.is_empty() {
        return "The smallest change that this machine can detect is not known: no comparison was made.".to_owned();
    }
    format!(
        "Nine of ten comparisons of five such repeats detect a change of this size on this machine: {}.",
        text::listed(&figures, "and")
    )
}

/// Returns machine, version, date, duration and seed of the self-check.
fn made(checked: &SelfCheck) -> String {
    format!(
        "{}; Plimsoll {}, {}, in {}; seed {}.",
        checked.machine,
        checked.plimsoll,
        numbers::utc(checked.unix_s),
        numbers::seconds(checked.took_s.round()),
        checked.seed
    )
}

fn figure(unit: TruthUnit, value: f64) -> String {
    match unit {
        TruthUnit::Count => numbers::grouped(&format!("{value:.0}")),
        TruthUnit::PerS => numbers::rate(value),
        // Points in time are shown to the millisecond.
        TruthUnit::S if value.abs() >= 1.0 => numbers::moment(value),
        TruthUnit::S => numbers::seconds(value),
        TruthUnit::Pct => numbers::change(value),
    }
}

fn truth(one: &HeldTruth) -> String {
    let [low, high] = one.truth.map(|end| figure(one.unit, end));
    if low == high { low } else { numbers::from_to(&low, &high) }
}

/// Returns the deviation from the truth. `0` if there is none.
fn error(one: &HeldTruth) -> String {
    let Some(value) = one.measured else { return numbers::NONE.to_owned() };
    let off = if value < one.truth[0] { value - one.truth[0] } else { (value - one.truth[1]).max(0.0) };
    if off == 0.0 {
        return "0".to_owned();
    }
    let sign = if off < 0.0 { "−" } else { "+" };
    match one.unit {
        TruthUnit::S => format!("{sign}{}", numbers::seconds(off.abs())),
        TruthUnit::Pct => format!("{sign}{} points", numbers::number(off.abs())),
        TruthUnit::Count => format!("{sign}{:.0}", off.abs()),
        TruthUnit::PerS => numbers::change(100.0 * off / one.truth[0].abs().max(f64::MIN_POSITIVE)),
    }
}

fn word(came: TruthOutcome) -> (&'static str, Tone) {
    match came {
        TruthOutcome::Right => ("right", Tone::Good),
        TruthOutcome::Marked => ("marked", Tone::Doubtful),
        TruthOutcome::Wrong => ("wrong", Tone::Bad),
    }
}

const TERMS: [(&str, &str); 4] = [
    ("truth", "Known by arithmetic or from the server's own log; a range if the result is random."),
    ("measured", "Measured by an ordinary run. Of several rounds, the value farthest from the truth."),
    (
        "marked",
        "Off the truth, but the trial's verdict was suspect or void: the machine disturbed the measurement, and \
         Plimsoll reported it.",
    ),
    ("wrong", "Off the truth without a warning. The same figure of your runs could be wrong, too."),
];

fn table(checked: &SelfCheck) -> Table {
    let columns = vec![
        Column::text("part"),
        Column::text("figure"),
        Column::numeric("truth", "").brief(),
        Column::numeric("measured", "").brief(),
        Column::numeric("off by", "").brief(),
        Column::text("verdict"),
        Column::text(""),
    ];
    let mut last = "";
    let rows = checked.truths.iter().map(|one| {
        let begins = one.of != last;
        last = &one.of;
        let (said, tone) = word(one.came);
        let said =
            if one.times > 1 { format!("{said}, {} of {} right", one.right, one.times) } else { said.to_owned() };
        let trusted = if one.trust == Trust::Valid { Tone::Plain } else { Tone::Doubtful };
        let cells = vec![
            Cell::new(if begins { one.of.as_str() } else { "" }),
            Cell::new(one.asked.as_str()),
            Cell::new(truth(one)),
            Cell::of(one.measured, |value| figure(one.unit, value)),
            Cell::new(error(one)),
            Cell::new(trust_word(one.trust)).toned(trusted),
            Cell::new(said).toned(tone),
        ];
        Row { cells, begins: begins && one.of != checked.truths[0].of }
    });
    let rows = rows.collect();
    Table { rows, ..Table::new("Known truths", "", columns) }.with_terms(&TERMS)
}

/// Returns the whole text, ending in a newline, with the terminal's colours if `colour`.
pub fn text(checked: &SelfCheck, colour: bool) -> String {
    let paragraphs = [answer(checked), smallest(checked), made(checked)];
    let paragraphs = paragraphs.map(|text| wrapped(&text, WIDTH).join("\n") + "\n").join("\n");
    text::visible(&format!("{}\n{paragraphs}", set(&table(checked), WIDTH, colour))).into_owned()
}

/// Returns the whole Markdown text for a file in a repository, ending in a newline.
pub fn markdown(checked: &SelfCheck) -> String {
    let table = markdown::table(&table(checked), usize::MAX);
    format!("{}\n\n{}\n\n{table}\n{}\n", answer(checked), smallest(checked), made(checked))
}

#[derive(Serialize)]
struct TruthPage<'a> {
    style: &'static str,
    title: &'a str,
    outcome: &'static str,
    answer: String,
    smallest: String,
    made: String,
    table: String,
    runs: &'a [String],
}

pub fn page(checked: &SelfCheck) -> Result<String, Error> {
    let templates = Templates::new()?;
    let outcome = match checked.truths.iter().map(|one| one.came).max() {
        Some(TruthOutcome::Right) => "valid",
        Some(TruthOutcome::Wrong) => "void",
        Some(TruthOutcome::Marked) | None => "suspect",
    };
    let filled = TruthPage {
        style: STYLE,
        title: "What this machine can show",
        outcome,
        answer: answer(checked),
        smallest: smallest(checked),
        made: made(checked),
        table: templates.table(table(checked))?,
        runs: &checked.runs,
    };
    templates.fill("selfcheck.html", &filled)
}

#[cfg(test)]
mod tests {
    use record::selfcheck::SmallestDifference;

    use super::*;

    fn checked() -> SelfCheck {
        let truths = [
            ("a full queue", "throughput", TruthUnit::PerS, [200.0; 2], Some(199.6), TruthOutcome::Right),
            ("a full queue", "median latency", TruthUnit::S, [0.04; 2], Some(0.0401), TruthOutcome::Right),
            ("stalls", "start of the outage", TruthUnit::S, [9.412; 2], Some(9.43), TruthOutcome::Marked),
            ("comparisons", "10 % more | work", TruthUnit::Pct, [-9.1, -8.2], None, TruthOutcome::Wrong),
        ];
        let mut truths = truths.map(|(of, asked, unit, truth, measured, came)| HeldTruth {
            of: of.to_owned(),
            asked: asked.to_owned(),
            unit,
            truth,
            measured,
            times: 1,
            right: u32::from(came == TruthOutcome::Right),
            came,
            ..HeldTruth::default()
        });
        (truths[2].times, truths[2].right, truths[2].trust) = (3, 2, Trust::Suspect);
        SelfCheck {
            format: record::selfcheck::FORMAT,
            plimsoll: "0.1.0".to_owned(),
            machine: "2 × a <CPU>".to_owned(),
            unix_s: 1_800_000_000.0,
            took_s: 183.2,
            seed: 7,
            rounds: 1,
            truths: truths.to_vec(),
            smallest: vec![SmallestDifference { metric: "throughput.operations_per_s".to_owned(), pct: 2.31 }],
            runs: vec!["2026-run".to_owned()],
        }
    }

    #[test]
    fn the_text_lists_each_truth_and_its_outcome() {
        insta::assert_snapshot!(text(&checked(), false));
    }

    #[test]
    fn the_page_is_balanced_links_the_runs_and_has_the_same_table() {
        let page = page(&checked()).unwrap();
        crate::tests::assert_balanced(&page);
        for said in
            ["2 × a &lt;CPU&gt;", "href=\"2026-run/report.html\"", "wrong", "marked, 2 of 3", "9.412 s", "2.31 %"]
        {
            assert!(page.contains(said), "{said} in {page}");
        }
        for outside in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn the_markdown_table_keeps_its_columns() {
        let text = markdown(&checked());
        let bars: Vec<usize> = text
            .lines()
            .filter(|line| line.starts_with('|'))
            .map(|line| line.replace("\\|", "").matches('|').count())
            .collect();
        assert!(bars.len() == 6 && bars.iter().all(|count| *count == 8), "{text}");
    }
}
