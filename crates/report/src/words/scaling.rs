//! The findings of a sweep over a load: where throughput levels off, how high it gets, who overtakes whom.

use record::results::{Crossing, Lead, Results, Scaling};

use super::{capital, quoted};
use crate::numbers;
use crate::sweep_charts::{curve_name, short};
use crate::tables::sweeps::interval;

/// Curves that are worded at most; the table has them all.
const WORDED: usize = 4;

/// A sentence for the curves over the first swept load, and one for those of the variants that cross.
pub fn findings(results: &Results) -> Vec<String> {
    let Some(first) = results.scaling.first() else { return Vec::new() };
    let over = first.over.as_str();
    let curves: Vec<&Scaling> =
        results.scaling.iter().filter(|scaling| scaling.over == over && scaling.points.len() > 2).collect();
    // Each beside the first; how the others stand to each other is in the table.
    let reference = curves.first().map_or("", |scaling| scaling.variant.as_str());
    let with_first = |crossing: &&Crossing| crossing.a == reference || crossing.b == reference;
    let crossings: Vec<&Crossing> =
        results.crossings.iter().filter(|crossing| crossing.over == over).filter(with_first).collect();
    let mut sentences = Vec::new();
    if curves.len() <= WORDED {
        let parts: Vec<String> = curves.iter().filter_map(|scaling| of_curve(scaling)).collect();
        sentences.extend((!parts.is_empty()).then(|| capital(&format!("{}.", parts.join("; ")))));
    }
    if crossings.len() <= WORDED {
        let parts: Vec<String> = crossings.iter().map(|crossing| of_crossing(crossing)).collect();
        sentences.extend((!parts.is_empty()).then(|| capital(&format!("{}.", parts.join("; ")))));
    }
    sentences
}

fn of_curve(scaling: &Scaling) -> Option<String> {
    let (peak, at) = (scaling.peak_per_s?, numbers::number(scaling.peak_at?));
    let name = curve_name(&scaling.variant, &scaling.at);
    let who = if scaling.variant.is_empty() && scaling.at.is_empty() { name } else { quoted(&name) };
    let unit = short(&scaling.over);
    let highest = format!("{}{}", numbers::rate(peak), range(scaling.peak_ci95, numbers::rate));
    Some(match scaling.knee {
        Some(knee) => {
            let knee = format!("{} {unit}{}", numbers::number(knee), range(scaling.knee_ci95, numbers::number));
            format!("{who} levels off from {knee} and peaks at {highest} with {at}")
        }
        None => format!("{who} still rises at {at} {unit}, to {highest}"),
    })
}

fn range(ci95: Option<[f64; 2]>, write: fn(f64) -> String) -> String {
    let written = ci95.map(|ends| ends.map(write)).filter(|[low, high]| low != high);
    written.map_or_else(String::new, |[low, high]| format!(" (95 % interval {})", numbers::from_to(&low, &high)))
}

fn of_crossing(crossing: &Crossing) -> String {
    let (a, b, unit) = (quoted(&crossing.a), quoted(&crossing.b), short(&crossing.over));
    let at = match crossing.point.is_empty() {
        true => String::new(),
        false => format!(" with {}", quoted(&curve_name("", &crossing.point))),
    };
    let ahead = Some(interval(crossing.ci95)).filter(|ahead| !ahead.is_empty());
    let ahead = ahead.map_or_else(String::new, |ahead| format!(" (95 % interval {ahead})"));
    let peak = crossing.peak_ratio.map_or_else(String::new, |ratio| {
        let sure = range(crossing.peak_ratio_ci95, numbers::number);
        format!(", and its peak is {} times that of {b}{sure}", numbers::number(ratio))
    });
    match (crossing.lead, crossing.at) {
        (Lead::Crosses, Some(load)) => {
            format!("{a} is ahead of {b} from {} {unit}{ahead} on{at}{peak}", numbers::number(load))
        }
        (Lead::Throughout, _) => format!("{a} is ahead of {b} throughout{at}{peak}"),
        _ => {
            let peak = peak.replacen(", and its peak", &format!("; the peak of {a}"), 1);
            format!("which of {b} and {a} is ahead at the highest load is not shown{at}{peak}")
        }
    }
}
