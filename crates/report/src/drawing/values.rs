//! The values of a chart, as its page's script reads and saves them. They are those that were drawn, no more and no fewer.

use serde_json::{Value, json};

use super::axis::Spacing;
use super::chart::Chart;
use super::render::{LEFT, RIGHT, WIDTH};

/// Digits kept: more than anybody reads off a chart, and a third of the size.
const SIGNIFICANT: i32 = 4;

/// Where the axis lies, and for each line its name, unit, class, values `y` and moments. Moments are `x`; or `s`, the first
/// and a step, with `d`, how many steps each is after the one before, unless that is always 1; or none of these, where they
/// are those of the line before.
pub fn of(chart: &Chart) -> Value {
    let mut lines = Vec::new();
    let mut before: Vec<f64> = Vec::new();
    for panel in &chart.panels {
        for line in &panel.lines {
            let moments: Vec<f64> = line.points.iter().map(|point| point.0).collect();
            let values: Vec<Value> = line.points.iter().map(|point| short(point.1)).collect();
            let mut entry = json!({"n": line.name, "u": panel.unit.name(), "c": line.ink.class(), "y": values});
            if moments != before {
                match steps(&moments) {
                    Some((step, counts)) => {
                        entry["s"] = json!([exact(moments[0]), exact(step)]);
                        if counts[1..].iter().any(|count| *count != 1) {
                            entry["d"] = json!(counts);
                        }
                    }
                    None => entry["x"] = moments.iter().map(|moment| exact(*moment)).collect(),
                }
                before = moments;
            }
            lines.push(entry);
        }
    }
    let mut data = json!({
        "left": LEFT / WIDTH, "right": RIGHT / WIDTH, "from": chart.x.from, "to": chart.x.to, "width": WIDTH,
        "log": chart.x.spacing != Spacing::Linear, "unit": chart.x.unit, "lines": lines,
    });
    if !chart.x.names.is_empty() {
        data["names"] = json!(chart.x.names);
    }
    data
}

/// The smallest step, and how many of it lie between moments, if that is always a whole number to a tenth of a millisecond.
fn steps(moments: &[f64]) -> Option<(f64, Vec<u64>)> {
    let gaps = || moments.windows(2).map(|pair| pair[1] - pair[0]);
    let least = gaps().reduce(f64::min).filter(|least| *least > 0.0)?;
    // The mean over all steps: a rounding error in the smallest gap would add up.
    let whole: u64 = gaps().map(|gap| (gap / least).round() as u64).sum();
    let step = (moments[moments.len() - 1] - moments[0]) / whole as f64;
    let mut counts = vec![0];
    let mut at = 0;
    for moment in &moments[1..] {
        let next = ((moment - moments[0]) / step).round() as u64;
        if (moments[0] + next as f64 * step - moment).abs() > 1e-4 || next <= at {
            return None;
        }
        counts.push(next - at);
        at = next;
    }
    Some((step, counts))
}

fn exact(moment: f64) -> Value {
    whole_if_it_is((moment * 1e6).round() / 1e6)
}

fn whole_if_it_is(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { json!(value as i64) } else { json!(value) }
}

fn short(value: Option<f64>) -> Value {
    let Some(value) = value else { return Value::Null };
    if value == 0.0 || !value.is_finite() {
        return json!(0);
    }
    let power = SIGNIFICANT - 1 - value.abs().log10().floor() as i32;
    let scale = 10_f64.powi(power.abs());
    whole_if_it_is(if power >= 0 { (value * scale).round() / scale } else { (value / scale).round() * scale })
}
