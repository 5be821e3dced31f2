//! Rules that compare the generators of a fleet with each other.

use record::results::GeneratorFigures;
use text::numbers;

use super::{Evaluation, RuleInput};
use crate::stats::quantiles::median;

/// Fewest operations of the median generator for which counts are compared.
const ENOUGH: u64 = 500;
/// Smallest difference of latency or lateness that is unusual between two machines, microseconds.
const NOTABLE_US: f64 = 1_000.0;

/// Factor by which a generator's lateness must exceed that of the others. The worst seconds of
/// equal machines differ by less.
const LATER_BY: f64 = 1.5;

/// A figure by which generators are compared.
struct GeneratorComparison {
    /// Predicate of the sentence about the generator that differs.
    words: &'static str,
    value: fn(&GeneratorFigures) -> Option<f64>,
    /// Function that returns how much worse the generator is than the others, percent.
    worse_pct: fn(f64, f64, &[GeneratorFigures]) -> Option<f64>,
    show: fn(f64) -> String,
}

const COMPARISONS: &[GeneratorComparison] = &[
    GeneratorComparison {
        words: "carries a smaller share of the due operations",
        value: |one| one.carried_pct,
        worse_pct: |own, others, all| are_enough(all).then(|| 100.0 * (1.0 - own / others)),
        show: |pct| format!("{pct:.0} %"),
    },
    GeneratorComparison {
        words: "carries less",
        value: |one| one.operations_per_s.filter(|_| one.carried_pct.is_none()),
        worse_pct: |own, others, all| are_enough(all).then(|| 100.0 * (1.0 - own / others)),
        show: |per_s| format!("{} operations/s", numbers::rate(per_s)),
    },
    GeneratorComparison {
        words: "sees longer latencies",
        value: |one| one.latency_us_mean,
        worse_pct: |own, others, _| (own - others >= NOTABLE_US).then(|| 100.0 * (own / others - 1.0)),
        show: milliseconds,
    },
    GeneratorComparison {
        words: "is later with its timers",
        value: |one| one.late_us_p99,
        worse_pct: |own, others, all| {
            let latency_us = median_of(all, |one| one.latency_us_mean)?;
            // If all are late by about the same time, none differs.
            let stands_out = own - others >= NOTABLE_US && own >= LATER_BY * others;
            stands_out.then(|| 100.0 * (own - others) / latency_us)
        },
        show: milliseconds,
    },
];

fn milliseconds(us: f64) -> String {
    format!("{:.1} ms", us / 1e3)
}

fn are_enough(all: &[GeneratorFigures]) -> bool {
    // A generator without any operation beside busy ones is a case to find, so the median counts.
    median_of(all, |one| Some(one.operations as f64)).is_some_and(|middle| middle >= ENOUGH as f64)
}

fn median_of<'a>(
    generators: impl IntoIterator<Item = &'a GeneratorFigures>,
    value: fn(&GeneratorFigures) -> Option<f64>,
) -> Option<f64> {
    median(&generators.into_iter().filter_map(value).collect::<Vec<_>>())
}

pub(super) fn generators_apart(facts: &RuleInput<'_>) -> Evaluation {
    let fleet = facts.trial.generator.fleet.as_ref()?;
    let began = fleet.began_within_us.map(|us| {
        let within = milliseconds(us);
        (us, format!("the starts of the generators may be up to {within} apart"))
    });
    let clocks = fleet.clock_error_us.map(|us| {
        let off = milliseconds(us);
        (us, format!("recorded times of a generator may be off by {off}, the error of its clock"))
    });
    let (us, words) = began.into_iter().chain(clocks).max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    Some((us / 1e3, words))
}

pub(super) fn generators_uneven(facts: &RuleInput<'_>) -> Evaluation {
    let all = &facts.trial.generator.each;
    let mut worst: Option<(f64, String)> = None;
    for comparison in COMPARISONS {
        for (place, one) in all.iter().enumerate() {
            let others = median_of(all[..place].iter().chain(&all[place + 1..]), comparison.value);
            let Some((own, others)) = (comparison.value)(one).zip(others).filter(|(_, others)| *others > 0.0) else {
                continue;
            };
            let Some(pct) = (comparison.worse_pct)(own, others, all) else { continue };
            if worst.as_ref().is_none_or(|(known, _)| pct > *known) {
                let (name, words, show) = (&one.name, comparison.words, comparison.show);
                worst = Some((
                    pct,
                    format!("generator {name} {words} than the others: {}, against {}", show(own), show(others)),
                ));
            }
        }
    }
    worst
}
