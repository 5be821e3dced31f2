//! Rules about delays of operations: how far they can have changed figures, and which failures they
//! caused.

use record::results::DisturbanceKind;
use record::results::FigureClass::{self, Outages, Throughput};
use text::numbers;

use super::{Evaluation, RuleInput};
use crate::late_starts::is_bunched;
use crate::stats::quantiles::mean;
use crate::stats::significance::apart;
use crate::verdict::figures::{DELAYED_QUANTILES, class_of_quantile};

pub(super) fn delayed(facts: &RuleInput<'_>, class: FigureClass) -> Evaluation {
    let delay = facts.trial.delay?;
    let (pct, moved) = match class {
        Throughput => (delay.throughput_pct, "throughput can have fallen by up to".to_owned()),
        Outages => return outages(facts),
        _ => {
            let of_class = DELAYED_QUANTILES.iter().filter(|(share, ..)| class_of_quantile(*share) == class);
            let risen =
                of_class.filter_map(|(_, name, of)| Some((of(&delay)?, format!("{name} can have risen by up to"))));
            risen.max_by(|a, b| a.0.total_cmp(&b.0))?
        }
    };
    let waited = [("the generator's threads", delay.generator_pct), ("the target's", delay.target_pct)]
        .map(|(name, pct)| pct.map(|pct| format!("{name} for {pct:.1} % of the time")));
    let waited = text::listed(&waited.into_iter().flatten().collect::<Vec<_>>(), "and");
    let mean = numbers::micros(delay.operation_us);
    Some((pct, format!("{moved} {pct:.0} %: other processes or the hypervisor delayed {waited}, {mean} per operation")))
}

/// Smallest outage length to which an error is relative: a few milliseconds do not matter.
const SHORT_OUTAGE_S: f64 = 0.1;

/// Returns the possible error of the shortest outage, percent of its length: the lateness of the
/// generator's timers in their worst second.
fn outages(facts: &RuleInput<'_>) -> Evaluation {
    let trial = facts.trial;
    let of_faults = trial.faults.iter().filter_map(|fault| fault.outage.as_ref()?.back_to_baseline_s);
    let outages = trial.disturbances.iter().filter(|one| one.kind == DisturbanceKind::Outage);
    let lengths_s = of_faults.chain(outages.filter_map(|one| one.outage.first_ok_s));
    let shortest_s = lengths_s.filter(|length_s| *length_s > 0.0).min_by(f64::total_cmp)?;
    let late_us = trial.generator.late_us_p99?;
    let length_s = shortest_s.max(SHORT_OUTAGE_S);
    let pct = late_us / 1e4 / length_s;
    let (late, length) = (numbers::micros(late_us), numbers::seconds(length_s));
    Some((
        pct,
        format!("times of outages can be off by {late}, {pct:.0} % of {length}: the generator's timers were that late"),
    ))
}

/// Significance level at which failures count as caused by late starts.
const LEVEL: f64 = 0.01;

/// A second of an open loop, with its ended and failed operations.
struct SecondOfStarts {
    is_late: bool,
    ended: f64,
    failed: f64,
}

/// Compares seconds with late starts to the other seconds before the first fault, by their shares
/// of failures.
pub(super) fn late_failures(facts: &RuleInput<'_>) -> Evaluation {
    let seconds = seconds(facts)?;
    let [punctual, late] = [false, true].map(|is_late| {
        let of = seconds.iter().filter(|second| second.is_late == is_late && second.ended > 0.0);
        of.map(|second| second.failed / second.ended).collect::<Vec<f64>>()
    });
    let difference = apart(&punctual, &late).filter(|found| found.estimate > 0.0 && found.p < LEVEL)?;
    let ended_late: f64 = seconds.iter().filter(|second| second.is_late).map(|second| second.ended).sum();
    let failed: f64 = seconds.iter().map(|second| second.failed).sum();
    let pct = 100.0 * (difference.estimate * ended_late / failed.max(1.0)).min(1.0);
    let usual_pct = 100.0 * mean(&punctual)?;
    Some((
        pct,
        format!(
            "{pct:.0} % of the failures are in {} seconds in which operations started late and in bunches, beyond the \
             {usual_pct:.2} % of operations that fail otherwise: the generator caused them, not the target",
            late.len()
        ),
    ))
}

/// Returns the seconds of an open loop before its first fault.
fn seconds(facts: &RuleInput<'_>) -> Option<Vec<SecondOfStarts>> {
    let (window, timeline) = (facts.window?, facts.timeline?);
    facts.planned.load.as_ref().filter(|load| load.is_open())?;
    let until_s = window.first_fault_s.unwrap_or(window.until_s);
    let rows = &facts.evidence.generator;
    let seconds = (0..until_s as usize).map(|number| {
        let (from_s, to_s) = (number as f64, (number + 1) as f64);
        let (from, to) = (timeline.slot_of(from_s), timeline.slot_of(to_s));
        let near = &rows[rows.partition_point(|row| row.at_s <= from_s)..];
        let mut inside =
            near.iter().take_while(|row| row.at_s < to_s + 1.0).filter(|row| row.at_s - row.interval_s < to_s - 0.5);
        let failed = timeline.failed().between(from, to) as f64;
        let ended = failed + timeline.ok().between(from, to) as f64;
        SecondOfStarts { is_late: inside.any(is_bunched), ended, failed }
    });
    Some(seconds.collect())
}
