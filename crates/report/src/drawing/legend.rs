//! The row above a panel: what its values are, and which line is which. It must not draw the lines themselves.

use super::chart::{Panel, Shape};
use super::markup::{escaped, place};
use super::path::SCALE;

/// Room a character takes at most: the page enlarges the text of charts on narrow screens.
const CHARACTER: f64 = 7.7;
const SWATCH: f64 = 22.0;
const GAP: f64 = 18.0;

/// Height of one row.
pub const ROW: f64 = 20.0;

/// Markup and height of the legend of a panel, from `top` down, within `left..right`.
pub fn legend(panel: &Panel, left: f64, right: f64, top: f64) -> (String, f64) {
    let mut baseline = top + 14.0;
    let mut markup = format!(
        "<text class=\"unit\" x=\"{}\" y=\"{}\">{}</text>",
        place(left),
        place(baseline),
        escaped(&panel.label)
    );
    let entries = entries(panel);
    let mut x = left + width(&panel.label) + GAP + 4.0;
    for (class, swatch, name) in entries {
        let needed = SWATCH + width(&name);
        if x + needed > right {
            x = left;
            baseline += ROW;
        }
        markup.push_str(&swatch_markup(&class, swatch, x, baseline - 4.0));
        let text = x + SWATCH;
        markup.push_str(&format!("<text x=\"{}\" y=\"{}\">{}</text>", place(text), place(baseline), escaped(&name)));
        x += needed + GAP;
    }
    (markup, baseline - top - 14.0 + ROW)
}

/// Class, pattern and name of what is in the panel. A single line needs no swatch: the label says it.
fn entries(panel: &Panel) -> Vec<(String, Option<Shape>, String)> {
    // Dots are of the line of their colour.
    let named = panel.lines.iter().filter(|line| line.shape != Shape::Dots);
    let lines = named.map(|line| (line.ink.class().to_owned(), Some(line.shape), line.name.clone()));
    let levels = panel.levels.iter().map(|(name, _)| ("level".to_owned(), None, name.clone()));
    if panel.lines.len() == 1 { levels.collect() } else { lines.chain(levels).collect() }
}

fn swatch_markup(class: &str, shape: Option<Shape>, x: f64, y: f64) -> String {
    let class = match shape {
        Some(Shape::Stacked | Shape::Bars(_)) => {
            return format!(
                "<rect class=\"area {class}\" x=\"{}\" y=\"{}\" width=\"14\" height=\"10\"/>",
                place(x),
                place(y - 5.0)
            );
        }
        Some(shape) => format!("line {class}{}\" transform=\"{SCALE}", pattern(shape)),
        None => return format!("<path class=\"{class}\" d=\"M{} {}h16\"/>", place(x), place(y)),
    };
    format!("<path class=\"{class}\" d=\"M{} {}h160\"/>", place(x * 10.0), place(y * 10.0))
}

/// The class of a line's pattern.
pub fn pattern(shape: Shape) -> &'static str {
    match shape {
        Shape::Dashed => " dashed",
        Shape::Dotted => " dotted",
        Shape::Dots => " dots",
        _ => "",
    }
}

fn width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}
