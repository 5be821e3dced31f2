//! Small multiples of bars in one drawing: a row for each case, a column of bars for each figure.

use serde_json::{Value, json};

use super::chart::Ink;
use super::render::Drawn;
use super::{escaped, place};

/// Width of the drawing in its own units.
const WIDTH: f64 = 960.0;
const ROW: f64 = 20.0;
const BLOCK: f64 = 8.0;
const HEAD: f64 = 50.0;
const GAP: f64 = 18.0;
const CHARACTER: f64 = 7.2;
/// Width right of a bar for its value.
const VALUE: f64 = 62.0;

/// The bars, their names and the title.
pub struct BarRows {
    /// Id, unique on the page.
    pub id: String,
    pub title: String,
    /// Note for the reader; may be empty.
    pub note: String,
    pub rows: Vec<BarRow>,
    pub columns: Vec<BarColumn>,
}

/// One case.
pub struct BarRow {
    pub name: String,
    /// Whether a block of rows begins here.
    pub begins: bool,
    /// Colour of the bars, which is the colour of the variant.
    pub ink: Ink,
}

/// One figure.
pub struct BarColumn {
    pub head: String,
    /// Median, minimum and maximum for each row. `None` if not measured.
    pub values: Vec<Option<[f64; 3]>>,
    /// Formats a value with its unit.
    pub write: fn(f64) -> String,
    /// Whether the bars have the colour of failures.
    pub loss: bool,
}

/// Draws the bars, with whiskers from the minimum to the maximum.
pub fn drawn(bars: &BarRows) -> Drawn {
    let longest = bars.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0) as f64;
    let left = (longest * CHARACTER + 14.0).clamp(70.0, 330.0);
    let width = (WIDTH - left) / bars.columns.len().max(1) as f64 - GAP;
    let mut tops = Vec::new();
    let mut top = HEAD;
    for row in &bars.rows {
        top += if row.begins { BLOCK } else { 0.0 };
        tops.push(top);
        top += ROW;
    }
    let mut body = format!("<text class=\"title\" x=\"0\" y=\"15\">{}</text>", escaped(&bars.title));
    for (row, top) in bars.rows.iter().zip(&tops) {
        let baseline = place(top + 14.0);
        body.push_str(&format!("<text x=\"0\" y=\"{baseline}\">{}</text>", escaped(&shortened(&row.name))));
    }
    for (index, column) in bars.columns.iter().enumerate() {
        let x = left + index as f64 * (width + GAP) + GAP;
        let inks: Vec<Ink> = bars.rows.iter().map(|row| if column.loss { Ink::Failed } else { row.ink }).collect();
        body.push_str(&draw_column(column, &inks, x, width, &tops, top));
    }
    let svg = format!(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{body}</svg>",
        place(WIDTH),
        place(top + 6.0),
        escaped(&format!("{}: the same figures as in the table", bars.title))
    );
    Drawn { id: bars.id.clone(), title: bars.title.clone(), note: bars.note.clone(), svg, data: data(bars) }
}

fn draw_column(column: &BarColumn, inks: &[Ink], x: f64, width: f64, tops: &[f64], bottom: f64) -> String {
    let largest = column.values.iter().flatten().map(|value| value[2]).fold(0.0, f64::max);
    let scale = if largest > 0.0 { (width - VALUE) / largest } else { 0.0 };
    let mut body = format!(
        "<text class=\"unit\" x=\"{0}\" y=\"{1}\">{2}</text><path class=\"base\" d=\"M{0} {3}V{4}\"/>",
        place(x),
        place(HEAD - 9.0),
        escaped(&column.head),
        place(HEAD - 2.0),
        place(bottom)
    );
    for ((value, top), ink) in column.values.iter().zip(tops).zip(inks) {
        let Some([median, least, most]) = *value else {
            body.push_str(&text_at(x + 5.0, *top, "remark", text::numbers::NONE));
            continue;
        };
        let length = median * scale;
        if median > 0.0 {
            body.push_str(&format!(
                "<path class=\"area {}\" d=\"M{} {}h{}v12h-{3}z\"/>",
                ink.class(),
                place(x),
                place(top + 4.0),
                place(length.max(1.5))
            ));
        }
        if most > least {
            let (from, to) = (place(x + least * scale), place(x + most * scale));
            body.push_str(&format!(
                "<path class=\"whisker\" d=\"M{from} {y}H{to}M{from} {t}v6M{to} {t}v6\"/>",
                y = place(top + 10.0),
                t = place(top + 7.0)
            ));
        }
        body.push_str(&text_at(x + (most * scale).max(length) + 5.0, *top, "value", &(column.write)(median)));
    }
    body
}

fn text_at(x: f64, top: f64, class: &str, text: &str) -> String {
    format!("<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>", place(x), place(top + 14.0), escaped(text))
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= 44 {
        return name.to_owned();
    }
    name.chars().take(43).chain(['…']).collect()
}

/// Returns the data that a reader can save: one row per case.
fn data(bars: &BarRows) -> Value {
    let names: Vec<&str> = bars.rows.iter().map(|row| row.name.as_str()).collect();
    let mut columns = Vec::new();
    for column in &bars.columns {
        let [median, least, most] = [0, 1, 2]
            .map(|index| column.values.iter().map(|value| value.map(|value| value[index])).collect::<Vec<_>>());
        columns.push(json!({"n": column.head, "median": median, "least": least, "most": most}));
    }
    json!({"rows": names, "columns": columns})
}
