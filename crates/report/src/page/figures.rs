//! The key figures: what a reader who has ten seconds takes away. It must not show one that was not measured.

use record::results::{SafeLoad, Trial};
use serde::Serialize;

use crate::Input;
use crate::facts::{self, Group, Spread, counted, longest, operations, outages};
use crate::numbers;
use crate::tables::{Tone, condition, nowhere};

/// One of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The unit, where it is not part of the value.
    pub unit: String,
    /// Range, share, or what it was taken from.
    pub small: String,
    /// How it is meant.
    pub tone: Tone,
}

/// The key figures of a run.
pub fn key_figures(input: &Input) -> Vec<Figure> {
    if !input.results.safe_loads.is_empty() {
        return input.results.safe_loads.iter().map(safe_load).collect();
    }
    let groups = facts::groups(input.results, input.plan);
    match groups.as_slice() {
        [] => Vec::new(),
        [group] => of_one(group, input),
        groups => of_several(groups),
    }
}

fn figure(name: &str, value: String, unit: &str, small: String, tone: Tone) -> Figure {
    Figure { name: name.to_owned(), value, unit: unit.to_owned(), small, tone }
}

fn safe_load(line: &SafeLoad) -> Figure {
    let variant = line.variant.as_ref().map_or_else(String::new, |variant| format!(", {variant}"));
    let name = format!("safe load, {}{variant}", condition(&line.surviving));
    let unit = if line.over == "load.agents" { "agents" } else { "operations/s" };
    let small = crate::tables::interval(Some(line.ci95));
    let tone = if line.complete { Tone::Plain } else { Tone::Doubtful };
    match (line.value, nowhere(line)) {
        (Some(value), _) => figure(&name, numbers::number(value), unit, small, tone),
        (None, Some(least)) => {
            let broke = format!("{} breaks there", line.limited_by);
            figure(&name, format!("not even {}", numbers::number(least)), unit, broke, Tone::Bad)
        }
        (None, None) => figure(&name, "not known".to_owned(), "", line.limited_by.clone(), Tone::Bad),
    }
}

fn spread_figure(name: &str, spread: Option<Spread>, write: fn(f64) -> String, unit: &str) -> Option<Figure> {
    let spread = spread?;
    let small = spread.range(write).map_or_else(String::new, |range| format!("{range} over {} trials", spread.of));
    Some(figure(name, write(spread.median), unit, small, Tone::Plain))
}

fn of_one(group: &Group, input: &Input) -> Vec<Figure> {
    let count = numbers::median_count_in_words;
    let before = group.spread(|trial| trial.throughput.before_first_fault_per_s);
    let rate = match before {
        Some(_) => spread_figure("throughput before", before, numbers::number, "calls/s"),
        None => {
            spread_figure("throughput", group.spread(|t| t.throughput.operations_per_s), numbers::number, "calls/s")
        }
    };
    let median = spread_figure("median latency", group.spread(|t| t.latency_us?.p50), numbers::micros, "");
    let p99 = spread_figure("p99 latency", group.spread(|t| t.latency_us?.p99), numbers::micros, "");
    let faulty = group.usable().any(|trial| outages(trial).next().is_some());
    let failed =
        loss("failed calls", group.spread(|t| counted(t, |t| t.outcomes.failed + t.outcomes.timeout)), share_of(group));
    let back = faulty.then(|| back(group)).flatten();
    let lost = group.spread(|trial| trial.consistency.lost_writes.map(|lost| lost as f64));
    let checked = group.spread(|trial| trial.consistency.checked.map(|checked| checked as f64));
    let of = checked.map_or_else(String::new, |checked| format!("of {} checked", checked.text(count)));
    let wrong = group.spread(|trial| trial.consistency.wrong.map(|wrong| wrong as f64));
    let wrong = wrong.filter(|wrong| wrong.most > 0.0 || lost.is_none());
    let diverged = group.spread(|trial| trial.consistency.diverged_keys.map(|keys| keys as f64));
    let figures = [
        rate,
        if faulty { None } else { median },
        p99,
        failed,
        back,
        loss("lost writes", lost, of),
        loss("wrong answers", wrong, String::new()),
        loss("diverged keys", diverged, String::new()),
        cost(group, input),
    ];
    figures.into_iter().flatten().collect()
}

fn share_of(group: &Group) -> String {
    let all = group.spread(|trial| counted(trial, operations));
    let pct = group.spread(|trial| trial.failed_pct).filter(|pct| pct.most > 0.0);
    let pct = pct.map_or_else(String::new, |pct| format!("{} ", numbers::percent(pct.median)));
    all.map_or_else(String::new, |all| format!("{pct}of {}", numbers::median_count_in_words(all.median)))
}

fn loss(name: &str, spread: Option<Spread>, of: String) -> Option<Figure> {
    let spread = spread?;
    let tone = if spread.most > 0.0 { Tone::Bad } else { Tone::Good };
    let write = numbers::median_count_in_words;
    let small = match spread.range(write) {
        Some(range) => format!("{range}; {of}"),
        None => of,
    };
    Some(figure(name, write(spread.median), "", small.trim_end_matches("; ").to_owned(), tone))
}

fn back(group: &Group) -> Option<Figure> {
    let name = "back to baseline";
    let never =
        |trial: &Trial| outages(trial).any(|(_, o)| o.baseline_per_s.is_some() && o.back_to_baseline_s.is_none());
    if group.usable().any(never) {
        return Some(figure(name, "never".to_owned(), "", "within the trial".to_owned(), Tone::Bad));
    }
    let figure = spread_figure(name, group.spread(|t| longest(t, |o| o.back_to_baseline_s)), numbers::seconds, "")?;
    let total = group.spread(|trial| longest(trial, |outage| outage.total_s));
    let small = match total {
        Some(total) if figure.small.is_empty() => format!("{} without an ok answer", numbers::seconds(total.median)),
        _ => figure.small,
    };
    Some(Figure { small, ..figure })
}

/// Energy where there is a figure for it, else CPU time of the target for each call.
fn cost(group: &Group, input: &Input) -> Option<Figure> {
    if let Some(joules) = group.spread(|trial| trial.cost.joules_per_cycle) {
        let how = "modelled from the profile's watts".to_owned();
        return Some(figure("energy of a cycle", numbers::joules(joules.median), "", how, Tone::Plain));
    }
    let cores = f64::from(input.environment.as_ref()?.cpu.cores?);
    let local =
        |trial: &Trial| facts::planned(input.plan, &trial.id).is_some_and(|planned| planned.lab.hosts.is_empty());
    let time_us = group.spread(|trial| {
        let host = trial.hosts.first().filter(|_| trial.hosts.len() == 1 && local(trial))?;
        let rate = trial.throughput.operations_per_s.filter(|rate| *rate > 0.0)?;
        Some(host.target_cpu_pct? / 100.0 * cores / rate * 1e6)
    })?;
    let small = "CPU time of the target".to_owned();
    Some(figure("cost of a call", numbers::micros(time_us.median), "", small, Tone::Plain))
}

fn of_several(groups: &[Group]) -> Vec<Figure> {
    let extreme = |name: &str, value: facts::Figure, write: fn(f64) -> String, unit: &str, largest: bool| {
        let medians = groups.iter().filter_map(|group| Some((group, group.spread(value)?.median)));
        let better = |a: f64, b: f64| if largest { a > b } else { a < b };
        let (group, best) = medians.reduce(|best, next| if better(next.1, best.1) { next } else { best })?;
        Some(figure(name, write(best), unit, group.name(), Tone::Plain))
    };
    let failed: facts::Figure = |trial| counted(trial, |t| t.outcomes.failed + t.outcomes.timeout);
    let with_losses = |name: &str, value: facts::Figure| {
        let known: Vec<Spread> = groups.iter().filter_map(|group| group.spread(value)).collect();
        let hit = known.iter().filter(|spread| spread.most > 0.0).count();
        let most = known.iter().map(|spread| spread.most).fold(0.0, f64::max);
        let tone = if hit > 0 { Tone::Bad } else { Tone::Good };
        let small = if hit > 0 { format!("at worst {}", numbers::count_in_words(most as u64)) } else { String::new() };
        (!known.is_empty()).then(|| figure(name, format!("{hit} of {}", known.len()), "cases", small, tone))
    };
    let figures = [
        extreme("highest throughput", |trial| trial.throughput.operations_per_s, numbers::number, "calls/s", true),
        extreme("lowest p99", |trial| trial.latency_us?.p99, numbers::micros, "", false),
        extreme("highest p99", |trial| trial.latency_us?.p99, numbers::micros, "", true),
        with_losses("failed calls in", failed),
        with_losses("wrong answers in", |trial| trial.consistency.wrong.map(|count| count as f64)),
        with_losses("lost writes in", |trial| trial.consistency.lost_writes.map(|count| count as f64)),
        with_losses("diverged keys in", |trial| trial.consistency.diverged_keys.map(|count| count as f64)),
    ];
    figures.into_iter().flatten().collect()
}
