//! Each fault over all its occurrences: a distribution instead of one figure. It must not compute what a single occurrence was like.
//!
//! Of a service that was never back the time is not known, but it was longer than the others: leaving it out would make the worst fault
//! look best. So it counts as longer than all others (a right-censored value in an ordered sample), and a quantile that falls
//! among such is null.
//!
//! A quantile needs as many occurrences as in `stats::quantiles`: 5 for the median, 29 for p90, 299 for p99.

use std::collections::BTreeMap;

use record::results::{Fault, Outage, OutageDistribution, Spread, Trial, Trust};

use crate::stats::order::{median, median_ci95, nearest_rank};
use crate::stats::quantiles::samples_for;

/// A figure of an occurrence: infinite if it is longer than could be seen, `None` if it does not have it.
type Figure = fn(&Outage) -> Option<f64>;

const FIGURES: [(&str, Figure); 12] = [
    ("back_to_baseline_s", back_s),
    ("degraded_s", |outage| outage.degraded_s),
    ("failed", |outage| Some(outage.failed as f64)),
    ("first_failure_s", |outage| outage.first_failure_s),
    ("first_ok_s", |outage| Some(outage.first_ok_s.unwrap_or(f64::INFINITY))),
    ("lost_operations", |outage| outage.lost_operations),
    ("memory_released_bytes", |outage| outage.memory_released_bytes.map(|bytes| bytes as f64)),
    ("overshoot_ratio", |outage| outage.overshoot_ratio),
    ("overshoot_until_s", |outage| outage.overshoot_until_s),
    ("partial_s", |outage| outage.partial_s),
    ("total_s", |outage| outage.total_s),
    ("wrong", |outage| Some(outage.wrong as f64)),
];

/// Every fault of each variant and point, in the order in which they first occurred, over the trials that are not void.
pub(crate) fn distributions(trials: &[Trial]) -> Vec<OutageDistribution> {
    let mut found: Vec<(OutageDistribution, Vec<&Outage>)> = Vec::new();
    for trial in trials.iter().filter(|trial| trial.verdict.is != Trust::Void) {
        for (fault, outage) in trial.faults.iter().filter_map(felt) {
            let same = |(known, _): &&mut (OutageDistribution, Vec<&Outage>)| {
                known.fault == fault.name && known.variant == trial.variant && known.point == trial.point
            };
            match found.iter_mut().find(same) {
                Some((_, outages)) => outages.push(outage),
                None => {
                    let of = OutageDistribution {
                        fault: fault.name.clone(),
                        variant: trial.variant.clone(),
                        point: trial.point.clone(),
                        ..OutageDistribution::default()
                    };
                    found.push((of, vec![outage]));
                }
            }
        }
    }
    found.into_iter().map(|(of, outages)| distribution(of, &outages)).collect()
}

fn felt(fault: &Fault) -> Option<(&Fault, &Outage)> {
    fault.outage.as_ref().filter(|_| fault.failed.is_none()).map(|outage| (fault, outage))
}

fn back_s(outage: &Outage) -> Option<f64> {
    // Without a baseline nobody can say whether it was back.
    outage.baseline_per_s.map(|_| outage.back_to_baseline_s.unwrap_or(f64::INFINITY))
}

fn distribution(of: OutageDistribution, outages: &[&Outage]) -> OutageDistribution {
    let spread = |(name, figure): (&str, Figure)| {
        let values: Vec<f64> = outages.iter().filter_map(|outage| figure(outage)).collect();
        (!values.is_empty()).then(|| (name.to_owned(), spread(&values)))
    };
    let never_back = outages.iter().filter(|outage| back_s(outage) == Some(f64::INFINITY)).count();
    let figures: BTreeMap<String, Spread> = FIGURES.into_iter().filter_map(spread).collect();
    OutageDistribution { count: outages.len() as u64, never_back: never_back as u64, figures, ..of }
}

fn spread(values: &[f64]) -> Spread {
    let known = |value: Option<f64>| value.filter(|value| value.is_finite());
    let count = values.len() as u64;
    let supported = |share: f64| count >= samples_for(share);
    let high = |share: f64| known(nearest_rank(values, share).filter(|_| supported(share)));
    Spread {
        count,
        min: known(nearest_rank(values, 0.0)),
        p50: known(median(values).filter(|_| supported(0.5))),
        p50_ci95: median_ci95(values).filter(|[low, high]| low.is_finite() && high.is_finite()),
        p90: high(0.9),
        p99: high(0.99),
        max: known(nearest_rank(values, 1.0)),
    }
}

#[cfg(test)]
mod tests;
