//! Coverage and error rates of the statistics (`plimsoll selfcheck --statistics`), for a terminal
//! and for a repository.

use record::calibration::{Calibration, CalibrationRow};
use text::{Tone, numbers, wrapped};

use crate::markdown;
use crate::tables::{Cell, Column, Row, Table};
use crate::words::summary::set;

/// Maximum width in the terminal, columns.
const WIDTH: usize = 140;

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Returns a goal such as `92–98 %` or `at least 95 %`.
fn goal(row: &CalibrationRow) -> String {
    match row.goal.map(|end| end.map(|share| 100.0 * share)) {
        [Some(low), Some(high)] => format!("{low:.0}–{}", numbers::percent(high)),
        [Some(low), None] => format!("at least {}", numbers::percent(low)),
        [None, Some(high)] => format!("at most {}", numbers::percent(high)),
        [None, None] => String::new(),
    }
}

fn answer(calibration: &Calibration) -> String {
    let all = calibration.rows.len();
    let missed = calibration.rows.iter().filter(|row| !row.is_met).count();
    let form = if calibration.rounds == 1 {
        "In this short form, a row misses its goal only if chance explains less than one in a thousand such misses."
    } else {
        "In this long form, nothing is left to chance: a row misses its goal as soon as its share is outside."
    };
    format!(
        "{} of {all} shares keep their goals, {missed} miss them. {form} Plimsoll {}, in {}; seed {}.",
        all - missed,
        calibration.plimsoll,
        numbers::seconds(calibration.took_s.round()),
        calibration.seed
    )
}

fn table(calibration: &Calibration) -> Table {
    let columns = vec![
        Column::text("subject"),
        Column::text("setting"),
        Column::text("counted"),
        Column::numeric("runs", "").brief(),
        Column::numeric("refused", "").brief(),
        Column::numeric("share", "").brief(),
        Column::text("goal"),
        Column::text(""),
    ];
    let mut last = "";
    let rows = calibration.rows.iter().map(|row| {
        let begins = row.of != last;
        last = &row.of;
        let (word, tone) = if row.is_met { ("ok", Tone::Good) } else { ("missed", Tone::Bad) };
        let cells = vec![
            Cell::new(if begins { row.of.as_str() } else { "" }),
            Cell::new(row.setting.as_str()),
            Cell::new(row.asked.as_str()),
            Cell::new(row.replicates.to_string()),
            Cell::new(row.refused.to_string()),
            Cell::of(row.share(), percent),
            Cell::new(goal(row)),
            Cell::new(word).toned(tone),
        ];
        Row { cells, begins: begins && row.of != calibration.rows[0].of }
    });
    let rows = rows.collect();
    Table { rows, ..Table::new("Coverage and error rates", "", columns) }
}

/// Returns the whole text, ending in a newline, with the terminal's colours if `colour`.
pub fn text(calibration: &Calibration, colour: bool) -> String {
    let said = wrapped(&answer(calibration), WIDTH).join("\n");
    text::visible(&format!("{}\n{said}\n", set(&table(calibration), WIDTH, colour))).into_owned()
}

/// Returns the whole Markdown text for a file in a repository, ending in a newline.
pub fn markdown(calibration: &Calibration) -> String {
    format!("{}\n\n{}", answer(calibration), markdown::table(&table(calibration), usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_show_share_goal_and_refused_replicates() {
        let rows = [(190, [Some(0.92), Some(0.98)]), (100, [Some(0.95), None]), (100, [None, Some(0.05)])];
        let rows = rows.map(|(hits, goal)| CalibrationRow {
            of: "throughput".to_owned(),
            setting: "AR 0.8 | 10 s".to_owned(),
            asked: "interval holds the long-run rate".to_owned(),
            replicates: 220,
            refused: 20,
            hits,
            goal,
            is_met: hits == 190,
        });
        let calibration = Calibration {
            plimsoll: "0.1.0".to_owned(),
            took_s: 12.0,
            seed: 1,
            rounds: 1,
            rows: rows.to_vec(),
            ..Calibration::default()
        };
        let told = markdown(&calibration);
        assert!(told.starts_with("1 of 3 shares keep their goals, 2 miss them."), "{told}");
        for line in [
            "| throughput | AR 0.8 \\| 10 s | interval holds the long-run rate | 220 | 20 | 95.0 % | 92–98 % | ok |",
            "|  | AR 0.8 \\| 10 s | interval holds the long-run rate | 220 | 20 | 50.0 % | at least 95 % | missed |",
            "| at most 5 % | missed |",
        ] {
            assert!(told.contains(line), "{line} is missing in {told}");
        }
        assert!(text(&calibration, false).contains("at least 95 %"));
    }
}
