//! A table set for a terminal: aligned columns, at most so wide. It must not let a control character of a target through.

use crate::tables::{Cell, Column, Table, Tone};

const GAP: &str = "  ";
/// Text columns are not wrapped narrower than this.
const NARROWEST: usize = 12;

/// The table, each line at most `width` characters wide if its columns can be made so narrow.
pub fn set(table: &Table, width: usize, colour: bool) -> String {
    let with_ranges = Setting::of(table, true);
    let mut setting = if with_ranges.width() <= width { with_ranges } else { Setting::of(table, false) };
    setting.narrow(width);
    setting.write(colour)
}

struct Setting<'a> {
    columns: Vec<&'a Column>,
    /// Text and tone; begins is whether a group of rows begins.
    rows: Vec<(bool, Vec<(String, Tone)>)>,
    widths: Vec<usize>,
}

impl<'a> Setting<'a> {
    fn of(table: &'a Table, with_ranges: bool) -> Self {
        let shown: Vec<usize> = (0..table.columns.len()).filter(|&index| table.columns[index].brief).collect();
        let columns: Vec<&Column> = shown.iter().map(|&index| &table.columns[index]).collect();
        let text = |cell: &Cell, column: &Column| {
            let wanted = with_ranges && column.numeric && !cell.small.is_empty();
            let text = if wanted { format!("{} ({})", cell.text, cell.small) } else { cell.text.clone() };
            plain(&text)
        };
        let rows: Vec<_> = table
            .rows
            .iter()
            .map(|row| {
                let cells =
                    shown.iter().map(|&index| (text(&row.cells[index], &table.columns[index]), row.cells[index].tone));
                (row.begins, cells.collect::<Vec<_>>())
            })
            .collect();
        let widths = columns.iter().enumerate().map(|(index, column)| {
            let cells = rows.iter().map(|(_, cells)| length(&cells[index].0));
            cells.chain([length(&column.head)]).max().unwrap_or(0)
        });
        let widths = widths.collect();
        Self { columns, rows, widths }
    }

    fn width(&self) -> usize {
        self.widths.iter().sum::<usize>() + GAP.len() * self.widths.len().saturating_sub(1) + GAP.len()
    }

    /// Takes room from the widest column of text until the table fits.
    fn narrow(&mut self, width: usize) {
        while self.width() > width {
            let texts = (0..self.columns.len()).filter(|&index| !self.columns[index].numeric);
            let Some(widest) = texts.max_by_key(|&index| self.widths[index]).filter(|&i| self.widths[i] > NARROWEST)
            else {
                return;
            };
            self.widths[widest] -= 1;
        }
    }

    fn write(&self, colour: bool) -> String {
        let heads: Vec<(String, Tone)> = self.columns.iter().map(|column| (column.head.clone(), Tone::Muted)).collect();
        let mut text = self.row(&heads, colour);
        for (begins, cells) in &self.rows {
            if *begins {
                text.push('\n');
            }
            text.push_str(&self.row(cells, colour));
        }
        text
    }

    fn row(&self, cells: &[(String, Tone)], colour: bool) -> String {
        let wrapped: Vec<Vec<String>> =
            cells.iter().zip(&self.widths).map(|((text, _), &width)| wrapped(text, width)).collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(1);
        let mut text = String::new();
        for line in 0..height {
            let mut set = GAP.to_owned();
            for (index, column) in self.columns.iter().enumerate() {
                let part = wrapped[index].get(line).map_or("", String::as_str);
                let room = " ".repeat(self.widths[index].saturating_sub(length(part)));
                let part = if colour { toned(part, cells[index].1) } else { part.to_owned() };
                set.push_str(&if column.numeric { room + &part } else { part + &room });
                set.push_str(GAP);
            }
            text.push_str(set.trim_end());
            text.push('\n');
        }
        text
    }
}

/// With the terminal's own colours, which the user chose.
pub fn toned(text: &str, tone: Tone) -> String {
    let code = match tone {
        Tone::Plain => return text.to_owned(),
        Tone::Good => "32",
        Tone::Doubtful => "33",
        Tone::Bad => "31",
        Tone::Muted => "2",
    };
    if text.is_empty() { String::new() } else { format!("\x1b[{code}m{text}\x1b[0m") }
}

/// Lines of at most `width` characters, broken between words where that is possible.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && length(&line) + 1 + length(word) > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        // A word that is wider than the column is cut.
        for character in word.chars() {
            if length(&line) == width.max(1) {
                lines.push(std::mem::take(&mut line));
            }
            line.push(character);
        }
    }
    lines.push(line);
    lines
}

/// Without control characters, which would let a target steer the terminal.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn length(text: &str) -> usize {
    text.chars().count()
}
