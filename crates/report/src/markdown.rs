//! Tables and texts in Markdown, for a pull request or a file in a repository.

use crate::tables::{Cell, Table};

/// Escapes a text for one line of Markdown.
pub fn escaped(text: &str) -> String {
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

/// Returns an item of a list.
pub fn item(text: &str) -> String {
    format!("- {}\n", escaped(text))
}

/// Returns a row of escaped cells.
pub fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// Returns the columns of a table that a terminal also shows, with at most `most` rows.
pub fn table(table: &Table, most: usize) -> String {
    let shown: Vec<usize> = (0..table.columns.len()).filter(|index| table.columns[*index].brief).collect();
    let columns = || shown.iter().map(|index| &table.columns[*index]);
    let heads: Vec<String> = columns().map(|column| escaped(&column.head)).collect();
    let rules: Vec<String> = columns().map(|column| if column.numeric { "---:" } else { "---" }.to_owned()).collect();
    let mut text = row(&heads) + &row(&rules);
    for one in table.rows.iter().take(most) {
        let cells: Vec<String> = shown.iter().map(|index| cell(&one.cells[*index])).collect();
        text.push_str(&row(&cells));
    }
    if table.rows.len() > most {
        text.push_str(&format!("\n{} more rows are not listed.\n", table.rows.len() - most));
    }
    text
}

fn cell(cell: &Cell) -> String {
    let small = if cell.small.is_empty() { String::new() } else { format!(" ({})", cell.small) };
    escaped(&format!("{}{small}", cell.text))
}
