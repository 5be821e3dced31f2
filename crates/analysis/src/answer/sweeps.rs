//! Findings of swept and searched loads: where throughput levels off, which variant overtakes
//! which, the load carried under each condition, and the cost of a cycle.

use record::results::{Crossing, DemandedHosts, Lead, PointCost, Results, SafeLoad, Scaling};
use text::{capital, code, listed, numbers, stopped};

use crate::trial_groups::{curve_name, short};

/// Most curves that are described; the table has them all.
const WORDED: usize = 4;

/// Returns a sentence for the curves over the first swept load, a sentence for variants whose
/// curves cross, and a sentence if nothing was repeated.
pub fn scaling(results: &Results) -> Vec<String> {
    let Some(first) = results.scaling.first() else { return Vec::new() };
    let over = first.over.as_str();
    let curves: Vec<&Scaling> =
        results.scaling.iter().filter(|scaling| scaling.over == over && scaling.points.len() > 2).collect();
    // Each curve is compared with the first; the table has the other comparisons.
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
        let repeated = || curves.iter().flat_map(|scaling| &scaling.points).any(|point| point.per_s.len() > 1);
        if !parts.is_empty() && !repeated() {
            sentences.push("Each of these points is one trial, so no difference was tested.".to_owned());
        }
    }
    sentences
}

fn of_curve(scaling: &Scaling) -> Option<String> {
    let (peak, at) = (scaling.peak_per_s?, numbers::number(scaling.peak_at?));
    let name = curve_name(&scaling.variant, &scaling.at);
    let who = if scaling.variant.is_empty() && scaling.at.is_empty() { name } else { code(&name) };
    let who = match experiment::plan::group_of(&scaling.over) {
        Some(group) => format!("of the group {}, {who}", code(group)),
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
    let written = ci95.map(|ends| ends.map(write)).filter(|[low, high]| low != high);
    written.map_or_else(String::new, |[low, high]| format!(" (95 % interval {})", numbers::from_to(&low, &high)))
}

fn of_crossing(crossing: &Crossing) -> String {
    let (a, b, unit) = (code(&crossing.a), code(&crossing.b), short(&crossing.over));
    let at = match crossing.point.is_empty() {
        true => String::new(),
        false => format!(" with {}", code(&curve_name("", &crossing.point))),
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

/// Returns a sentence for each variant.
pub fn safe_loads(lines: &[SafeLoad]) -> Vec<String> {
    let mut variants: Vec<&Option<String>> = Vec::new();
    for line in lines {
        if !variants.contains(&&line.variant) {
            variants.push(&line.variant);
        }
    }
    let of = |variant: &Option<String>| lines.iter().filter(|line| line.variant == *variant).collect::<Vec<_>>();
    variants.into_iter().map(|variant| line_of(variant.as_deref(), &of(variant))).collect()
}

fn line_of(variant: Option<&str>, lines: &[&SafeLoad]) -> String {
    let who = variant.map_or_else(|| "it".to_owned(), code);
    let carried: Vec<String> = lines.iter().map(|line| format!("{} {}", carried(line), condition(line))).collect();
    let mut limits: Vec<String> = Vec::new();
    for limit in lines.iter().filter(|line| met(line)).map(|line| code(&line.limited_by)) {
        if !limits.contains(&limit) {
            limits.push(limit);
        }
    }
    let place = if lines.iter().all(|line| nowhere(line).is_some()) { "there" } else { "beyond it" };
    let beyond = match limits.as_slice() {
        [] => String::new(),
        [only] => format!("; {place} {only} breaks"),
        _ => format!("; {place} {} break", listed(&limits, "and")),
    };
    let mut text = stopped(&capital(&format!("{who} carries {}{beyond}", listed(&carried, "and"))));
    // The reason why a search found no edge is a separate sentence, because it may be long.
    for line in lines.iter().filter(|line| !met(line) && !line.limited_by.is_empty()) {
        let what = line.limited_by.trim_start_matches("the search: ");
        let what = match line.limited_by.strip_prefix("the generator: ") {
            Some(reason) => format!("the generator could not make more: {reason}"),
            None => format!("no edge was found: {what}"),
        };
        text.push(' ');
        text.push_str(&stopped(&format!("{} {what}", capital(&format!("{},", condition(line))))));
    }
    text
}

/// Whether the safe load is limited by a limit of the plan.
fn met(line: &SafeLoad) -> bool {
    !(line.limited_by.is_empty()
        || line.limited_by.starts_with("the generator: ")
        || line.limited_by.starts_with("the search: "))
}

/// Returns `at least 11,900 operations/s (95 %; edge near 12,300, interval 11,900–12,700)`, or `at
/// least 16,000 operations/s`.
fn carried(line: &SafeLoad) -> String {
    let unit = if line.over == "load.agents" { "agents" } else { "operations/s" };
    let wide = if line.complete { "" } else { ", target precision not reached" };
    let [low, high] = line.ci95.map(|end| end.map(numbers::number));
    match (line.value.map(numbers::number), low, high) {
        (Some(value), Some(low), Some(high)) if low == high => format!("{value} {unit} (95 % sure)"),
        (Some(value), Some(low), Some(high)) => {
            let interval = numbers::from_to(&low, &high);
            format!("at least {low} {unit} (95 %; {} near {value}, interval {interval}{wide})", edge(line))
        }
        (Some(value), None, Some(high)) => {
            format!("no load for sure ({} near {value} {unit}, 95 % interval up to {high}{wide})", edge(line))
        }
        (Some(value), Some(low), None) if low != value => {
            format!("at least {low} {unit} (95 %; {value} was the highest tried that held)")
        }
        (Some(value), _, None) => format!("at least {value} {unit}"),
        (None, _, Some(high)) if high == "1" => format!("not even 1 {}", unit.replace("agents", "agent")),
        (None, _, Some(high)) => format!("not even {high} {unit}"),
        (None, ..) => "an unknown load".to_owned(),
    }
}

/// Name of the estimate beside the load that is safe: `edge`, `95 % of trials hold`.
pub fn edge(line: &SafeLoad) -> String {
    match line.hold_pct.filter(|hold| *hold != 50.0) {
        Some(hold) => format!("{} % of trials hold", numbers::number(hold)),
        None => "edge".to_owned(),
    }
}

/// Returns the load that is certainly carried, or the highest that held if none broke.
pub fn surely(line: &SafeLoad) -> Option<f64> {
    line.ci95[0].or(line.value.filter(|_| line.ci95[1].is_none()))
}

fn condition(line: &SafeLoad) -> String {
    match line.surviving.as_str() {
        "" => "with its faults".to_owned(),
        "nothing lost" => "healthy".to_owned(),
        "one member down" => "with one member down".to_owned(),
        fault => format!("with the fault {}", code(fault)),
    }
}

/// Most curves in a line; the table has them all.
const NAMED: usize = 4;

/// Returns a sentence if exactly two variants have a cost, at the peak of each.
pub fn cost_sentence(results: &Results) -> Option<String> {
    let peaks: Vec<&PointCost> = results.costs.iter().filter(|cost| cost.at_peak).collect();
    let [one, other] = peaks.as_slice() else { return None };
    if one.variant == other.variant {
        return None;
    }
    let joules = |cost: &PointCost| cost.joules_per_cycle.map(numbers::joules);
    let price = |cost: &PointCost| {
        Some(numbers::money(cost.price_per_million_cycles?, cost.currency.as_deref().unwrap_or_default()))
    };
    let both = |value: &dyn Fn(&PointCost) -> Option<String>| Some((value(one)?, value(other)?));
    let names = [one, other].map(|cost| code(&cost.variant));
    let parts = [
        both(&joules).map(|(a, b)| format!("a cycle takes {a} with {} and {b} with {}", names[0], names[1])),
        both(&price).map(|(a, b)| format!("a million cycles cost {a} with {} and {b} with {}", names[0], names[1])),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("At their peaks {} (modelled).", parts.join("; ")))
}

/// Returns the cost of all variants at the peak of each, in one line. Returns `None` if the answer
/// has it already, or if there is none.
pub fn cost_line(results: &Results) -> Option<String> {
    if cost_sentence(results).is_some_and(|sentence| results.answer.contains(&sentence)) {
        return None;
    }
    let of_peak = |cost: &PointCost| {
        let joules = cost.joules_per_cycle.map(|joules| format!("{} a cycle", numbers::joules(joules)));
        let currency = cost.currency.as_deref().unwrap_or_default();
        let price = cost.price_per_million_cycles.map(|price| format!("{} a million", numbers::money(price, currency)));
        let figures: Vec<String> = joules.into_iter().chain(price).collect();
        let name = cost_name(cost);
        let name = if name.is_empty() { name } else { format!("{}: ", code(&name)) };
        (!figures.is_empty()).then(|| format!("{name}{}", figures.join(", ")))
    };
    let peaks: Vec<String> = results.costs.iter().filter(|cost| cost.at_peak).filter_map(of_peak).collect();
    let more = peaks.len().saturating_sub(NAMED);
    let more = if more > 0 { format!("; {more} more in the report") } else { String::new() };
    let named = peaks.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    (!peaks.is_empty()).then(|| format!("Cost at the peak, modelled: {named}{more}."))
}

/// Returns the number of hosts that a demand takes: `To carry 20,000/s takes 5 hosts (4–6) with
/// fast and 9 hosts (8–11) with sata.`
pub fn demanded_hosts(rows: &[DemandedHosts]) -> Option<String> {
    let first = rows.first()?;
    let words = |row: &DemandedHosts| {
        let hosts = row.hosts?;
        let range = interval(Some(row.hosts_ci95.map(|end| end.map(|hosts| hosts as f64))));
        let range = if range.is_empty() { range } else { format!(" ({range})") };
        let noun = if hosts == 1 { "host" } else { "hosts" };
        let mut at = row.at.clone();
        at.retain(|path, _| !path.starts_with("load."));
        let who =
            if rows.len() > 1 { format!(" with {}", code(&curve_name(&row.variant, &at))) } else { String::new() };
        Some(format!("{} {noun}{range}{who}", numbers::count(hosts)))
    };
    let known: Vec<String> = rows.iter().filter_map(words).take(NAMED).collect();
    let demand = numbers::by_metric(&first.metric, first.at_least);
    (!known.is_empty()).then(|| format!("To carry {demand} takes {}.", listed(&known, "and")))
}

/// Returns the lowest value that was tried, if the limits did not even hold there.
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

/// Returns the name of a cost's curve among the others; may be empty.
pub fn cost_name(cost: &PointCost) -> String {
    let is_load = |path: &str| path.starts_with("load.");
    let mut at = cost.point.clone();
    at.retain(|path, _| !is_load(path));
    if cost.variant.is_empty() && at.is_empty() { String::new() } else { curve_name(&cost.variant, &at) }
}
