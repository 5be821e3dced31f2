//! The comparison for a terminal: what differs around it first, then the table. It must not be wider than a terminal.

use record::compared::{Compared, Side};
use record::results::{Comparison, Trust};

use super::outcome;
use crate::tables::{Cell, Column, Row, Table, comparison, trust_word};
use crate::words::aligned::{plain, set, wrapped};

/// Columns of the terminal that are used at most.
const WIDTH: usize = 110;
/// Differences of surroundings that are listed at most.
const LISTED: usize = 40;

/// All of it, ending in a newline; with the terminal's colours if `colour`.
#[must_use]
pub fn text(compared: &Compared, colour: bool) -> String {
    let comparisons: Vec<&Comparison> = compared.comparisons.iter().map(|judged| &judged.comparison).collect();
    let mut parts = vec![sides(compared), surroundings(compared, colour)];
    parts.extend((!comparisons.is_empty()).then(|| {
        let table = comparison::differences_of(&comparisons);
        format!("{}{}", set(&table, WIDTH, colour), lines(&table.note, "  "))
    }));
    let warnings: String = compared.warnings.iter().map(|warning| lines(&format!("note: {warning}"), "  ")).collect();
    parts.push(warnings);
    parts.push(lines(&outcome(compared), ""));
    parts.retain(|part| !part.is_empty());
    crate::words::visible(&parts.join("\n")).into_owned()
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
        // A path is copied, so it is not broken.
        let name = plain(&side.name);
        format!("{role}{name}\n{}", lines(&format!("  {runs}{} trials{trust}: {}", side.trials, side.title), "  "))
    };
    compared.sides.iter().enumerate().map(side).collect()
}

fn surroundings(compared: &Compared, colour: bool) -> String {
    if compared.sides.len() < 2 {
        return String::new();
    }
    if compared.surroundings.is_empty() {
        return "Machine, versions and plan are the same, as far as they were written down.\n".to_owned();
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

/// Wrapped, the lines after the first indented.
fn lines(text: &str, indent: &str) -> String {
    let wrapped = wrapped_keeping(text, WIDTH - indent.len());
    let line =
        |(index, line): (usize, &String)| if index == 0 { format!("{line}\n") } else { format!("{indent}{line}\n") };
    wrapped.iter().enumerate().map(line).collect()
}

/// Short lines are left as they are, so that what is aligned in them stays so.
fn wrapped_keeping(text: &str, width: usize) -> Vec<String> {
    let text = plain(text);
    if text.chars().count() <= width { vec![text] } else { wrapped(&text, width) }
}
