//! Findings of swept and searched loads: where throughput levels off, which variant overtakes
//! which, the load carried under each condition, and the cost of a cycle.

use std::collections::BTreeMap;

use record::results::{Crossing, DemandedHosts, Lead, PointCost, Results, SafeLoad, Scaling};
use serde_json::Value;
use text::{capital, code, distinct, listed, numbers, stopped};

use crate::trial_groups::{curve_name, short};

/// Largest number of curves that the answer describes; the table has all of them.
const WORDED: usize = 4;

/// Returns a sentence for the curves over the first swept load, a sentence for variants whose
/// curves cross, and a sentence if nothing was repeated.
pub fn scaling(results: &Results) -> Vec<String> {
    let Some(over) = results.scaling.first().map(|scaling| &scaling.over) else { return Vec::new() };
    let curves: Vec<&Scaling> =
        results.scaling.iter().filter(|scaling| scaling.over == *over && scaling.points.len() > 2).collect();
    // Each curve is compared with the first; the table has the other comparisons.
    let reference = curves.first().map_or("", |scaling| scaling.variant.as_str());
    let mut crossings: Vec<&Crossing> = results.crossings.iter().filter(|crossing| crossing.over == *over).collect();
    crossings.retain(|crossing| crossing.a == reference || crossing.b == reference);
    let mut sentences = Vec::new();
    if curves.len() <= WORDED {
        let parts: Vec<String> = curves.iter().filter_map(|scaling| of_curve(scaling)).collect();
        sentences.extend((!parts.is_empty()).then(|| capital(&format!("{}.", parts.join("; ")))));
    }
    if (1..=WORDED).contains(&crossings.len()) {
        let parts: Vec<String> = crossings.into_iter().map(of_crossing).collect();
        sentences.push(capital(&format!("{}.", parts.join("; "))));
        if !curves.iter().flat_map(|scaling| &scaling.points).any(|point| point.per_s.len() > 1) {
            sentences.push("Each of these points is one trial, so no difference was tested.".to_owned());
        }
    }
    sentences
}

fn of_curve(scaling: &Scaling) -> Option<String> {
    let (peak, at) = (scaling.peak_per_s?, numbers::number(scaling.peak_at?));
    let name = curve_name(&scaling.variant, &scaling.at);
    let is_only = scaling.variant.is_empty() && scaling.at.is_empty();
    let who = if is_only { name } else { code(&name) };
    let who = match experiment::plan::group_of(&scaling.over) {
        Some(group) => format!("in the group {}, {who}", code(group)),
        None => who,
    };
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
    let range = numbers::interval(ci95, write).map(|range| format!(" (95 % interval {range})"));
    range.unwrap_or_default()
}

fn of_crossing(crossing: &Crossing) -> String {
    let (a, b, unit) = (code(&crossing.a), code(&crossing.b), short(&crossing.over));
    let at = match crossing.point.is_empty() {
        true => String::new(),
        false => format!(" with {}", code(&curve_name("", &crossing.point))),
    };
    let peak = crossing.peak_ratio.map_or_else(String::new, |ratio| {
        let sure = range(crossing.peak_ratio_ci95, numbers::number);
        format!(" is {} times that of {b}{sure}", numbers::number(ratio))
    });
    let [its_peak, the_peak] = match peak.as_str() {
        "" => [String::new(), String::new()],
        peak => [format!(", and its peak{peak}"), format!("; the peak of {a}{peak}")],
    };
    match (crossing.lead, crossing.at) {
        (Lead::Crosses, Some(load)) => {
            let ahead = interval(crossing.ci95);
            let ahead = if ahead.is_empty() { ahead } else { format!(" (95 % interval {ahead})") };
            format!("{a} is ahead of {b} from {} {unit}{ahead} on{at}{its_peak}", numbers::number(load))
        }
        (Lead::Throughout, _) => format!("{a} is ahead of {b} throughout{at}{its_peak}"),
        _ => format!("whether {b} or {a} is ahead at the highest load is not shown{at}{the_peak}"),
    }
}

/// Returns a sentence on the safe loads of each variant.
pub fn safe_loads(lines: &[SafeLoad]) -> Vec<String> {
    let variants = distinct(lines.iter().map(|line| &line.variant)).into_iter();
    let sentences = variants.map(|variant| {
        let of_variant: Vec<&SafeLoad> = lines.iter().filter(|line| line.variant == *variant).collect();
        line_of(variant.as_deref(), &of_variant)
    });
    sentences.collect()
}

fn line_of(variant: Option<&str>, lines: &[&SafeLoad]) -> String {
    let who = variant.map_or_else(|| "the target".to_owned(), code);
    let carried: Vec<String> = lines.iter().map(|line| format!("{} {}", carried(line), condition(line))).collect();
    let limits = distinct(lines.iter().filter(|line| met(line)).map(|line| code(&line.limited_by)));
    let place = if lines.iter().all(|line| nowhere(line).is_some()) { "at" } else { "above" };
    let beyond = match limits.as_slice() {
        [] => String::new(),
        [only] => format!("; {only} breaks {place} that load"),
        _ => format!("; {} break {place} that load", listed(&limits, "and")),
    };
    let mut text = stopped(&capital(&format!("{who} carries {}{beyond}", listed(&carried, "and"))));
    // The reason why a search found no edge is a separate sentence, because it may be long.
    for line in lines.iter().filter(|line| !met(line) && !line.limited_by.is_empty()) {
        let what = match line.limited_by.strip_prefix(GENERATOR) {
            Some(reason) => format!("the generator could not produce more load: {reason}"),
            None => format!("no edge was found: {}", line.limited_by.trim_start_matches(SEARCH)),
        };
        text.push_str(&format!(" {}, {}", capital(&condition(line)), stopped(&what)));
    }
    text
}

/// Prefixes of the reasons why a search ended without a broken limit.
const GENERATOR: &str = "the generator: ";
const SEARCH: &str = "the search: ";

/// Whether the safe load is limited by a limit of the plan.
fn met(line: &SafeLoad) -> bool {
    !line.limited_by.is_empty() && ![GENERATOR, SEARCH].iter().any(|other| line.limited_by.starts_with(other))
}

/// Returns the unit of a searched value: `operations/s`, `sessions/s` or `agents`.
#[must_use]
pub fn unit_of(path: &str) -> &'static str {
    match short(path) {
        "agents" => "agents",
        "sessions" => "sessions/s",
        _ => "operations/s",
    }
}

/// Returns `at least 11,900 operations/s (95 %; edge near 12,300, interval 11,900–12,700)`, or `at
/// least 16,000 operations/s`.
fn carried(line: &SafeLoad) -> String {
    let unit = unit_of(&line.over);
    let wide = if line.complete { "" } else { ", target precision not reached" };
    let [low, high] = line.ci95.map(|end| end.map(numbers::number));
    match (line.value.map(numbers::number), low, high) {
        (Some(value), Some(low), Some(high)) if low == high => format!("{value} {unit} (95 % sure)"),
        (Some(value), Some(low), Some(high)) => {
            let interval = numbers::from_to(&low, &high);
            format!("at least {low} {unit} (95 %; {} near {value}, interval {interval}{wide})", edge(line))
        }
        (Some(value), None, Some(high)) => {
            format!(
                "no load with 95 % confidence ({} near {value} {unit}, 95 % interval up to {high}{wide})",
                edge(line)
            )
        }
        (Some(value), Some(low), None) if low != value => {
            format!("at least {low} {unit} (95 %; the limits held up to {value})")
        }
        (Some(value), _, None) => format!("at least {value} {unit}"),
        (None, _, Some(high)) if high == "1" => format!("not even 1 {}", unit.replace("agents", "agent")),
        (None, _, Some(high)) => format!("not even {high} {unit}"),
        (None, ..) => "an unknown load".to_owned(),
    }
}

/// Returns the name of the estimate that is shown with the safe load: `edge`, `95 % of trials
/// hold`.
pub fn edge(line: &SafeLoad) -> String {
    match line.hold_pct.filter(|hold| *hold != 50.0) {
        Some(hold) => format!("{} % of trials hold", numbers::number(hold)),
        None => "edge".to_owned(),
    }
}

/// Returns the lower end of the interval or, if no load broke, the highest load that held.
pub fn surely(line: &SafeLoad) -> Option<f64> {
    line.ci95[0].or(line.value.filter(|_| line.ci95[1].is_none()))
}

fn condition(line: &SafeLoad) -> String {
    match line.surviving.as_str() {
        "" => "with its faults".to_owned(),
        "nothing lost" => "when healthy".to_owned(),
        "one member down" => "with one member down".to_owned(),
        fault => format!("with the fault {}", code(fault)),
    }
}

/// Largest number of curves in the line on cost; the table has all of them.
const NAMED: usize = 4;

/// Returns a sentence that compares the costs of two variants, each at its peak. Returns `None` for
/// any other number of peaks.
pub fn cost_sentence(results: &Results) -> Option<String> {
    let peaks: Vec<&PointCost> = results.costs.iter().filter(|cost| cost.at_peak).collect();
    let [one, other] = peaks.as_slice() else { return None };
    if one.variant == other.variant {
        return None;
    }
    let [a, b] = [one, other].map(|cost| code(&cost.variant));
    let energy = energy(one).zip(energy(other));
    let price = price(one).zip(price(other));
    let parts = [
        energy.map(|(of_a, of_b)| format!("a cycle takes {of_a} with {a} and {of_b} with {b}")),
        price.map(|(of_a, of_b)| format!("a million cycles cost {of_a} with {a} and {of_b} with {b}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("At their peaks {} (modelled).", parts.join("; ")))
}

fn energy(cost: &PointCost) -> Option<String> {
    cost.joules_per_cycle.map(numbers::joules)
}

/// Returns the price of a million cycles.
fn price(cost: &PointCost) -> Option<String> {
    let currency = cost.currency.as_deref().unwrap_or_default();
    cost.price_per_million_cycles.map(|price| numbers::money(price, currency))
}

/// Returns the cost of all variants at the peak of each, in one line. Returns `None` if the answer
/// has the costs already, or if there are none.
pub fn cost_line(results: &Results) -> Option<String> {
    if cost_sentence(results).is_some_and(|sentence| results.answer.contains(&sentence)) {
        return None;
    }
    let mut peaks = Vec::new();
    for cost in results.costs.iter().filter(|cost| cost.at_peak) {
        let energy = energy(cost).map(|energy| format!("{energy} a cycle"));
        let figures: Vec<String> =
            energy.into_iter().chain(price(cost).map(|price| format!("{price} a million"))).collect();
        let name = match cost_name(cost) {
            none if none.is_empty() => none,
            name => format!("{}: ", code(&name)),
        };
        if !figures.is_empty() {
            peaks.push(format!("{name}{}", figures.join(", ")));
        }
    }
    if peaks.len() > NAMED {
        let more = format!("{} more in the report", peaks.len() - NAMED);
        peaks.splice(NAMED.., [more]);
    }
    (!peaks.is_empty()).then(|| format!("Cost at the peak, modelled: {}.", peaks.join("; ")))
}

/// Returns a sentence on the number of hosts that the demand needs: `To carry 20,000/s takes 5
/// hosts (4–6) with fast and 9 hosts (8–11) with sata.`
pub fn demanded_hosts(rows: &[DemandedHosts]) -> Option<String> {
    let mut known = Vec::new();
    for row in rows {
        let Some(hosts) = row.hosts else { continue };
        let range = interval(Some(row.hosts_ci95.map(|end| end.map(|hosts| hosts as f64))));
        let range = if range.is_empty() { range } else { format!(" ({range})") };
        let who = match rows.len() {
            1 => String::new(),
            _ => format!(" with {}", code(&curve_name(&row.variant, &without_loads(&row.at)))),
        };
        known.push(format!("{}{range}{who}", numbers::plural(hosts as usize, "host")));
    }
    known.truncate(NAMED);
    let first = rows.first()?;
    let demand = numbers::by_metric(&first.metric, first.at_least);
    (!known.is_empty()).then(|| format!("Carrying {demand} needs {}.", listed(&known, "and")))
}

/// Returns the lowest value that was tried, if a limit broke even there.
pub fn nowhere(line: &SafeLoad) -> Option<f64> {
    line.ci95[1].filter(|_| line.value.is_none())
}

/// Returns `11.2–12.8`. An end outside of the sweep gives `at least` or `at most`.
pub fn interval(ci95: Option<[Option<f64>; 2]>) -> String {
    match ci95.map(|ends| ends.map(|end| end.map(numbers::number))) {
        None | Some([None, None]) => String::new(),
        Some([Some(low), Some(high)]) => numbers::from_to(&low, &high),
        Some([None, Some(high)]) => format!("at most {high}"),
        Some([Some(low), None]) => format!("at least {low}"),
    }
}

/// Returns the name that distinguishes a cost's curve from other curves; may be empty.
pub fn cost_name(cost: &PointCost) -> String {
    let at = without_loads(&cost.point);
    if cost.variant.is_empty() && at.is_empty() { String::new() } else { curve_name(&cost.variant, &at) }
}

fn without_loads(point: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let others = point.iter().filter(|(path, _)| !path.starts_with("load."));
    others.map(|(path, value)| (path.clone(), value.clone())).collect()
}
