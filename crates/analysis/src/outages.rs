//! Each fault over all its occurrences: a distribution instead of one figure.
//!
//! Of a service that was never back the time is not known, but it was longer than the others: leaving it out would make the worst fault
//! look best. So it counts as longer than all others (a right-censored value in an ordered sample), and a quantile that falls
//! among such is null.
//!
//! A quantile needs as many occurrences as in `stats::quantiles`: 5 for the median, 29 for p90, 299 for p99.

use std::collections::BTreeMap;

use record::results::{Fault, Outage, OutageDistribution, Spread, Trial, Trust};

use crate::stats::quantiles::{median, median_ci95, nearest_rank, samples_for};

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
mod tests {
    use record::results::Verdict;

    use super::*;

    fn occurrence(number: u32, back_s: Option<f64>) -> Fault {
        let outage = Outage {
            baseline_per_s: Some(1_000.0),
            back_to_baseline_s: back_s,
            first_ok_s: back_s.map(|back_s| back_s / 2.0),
            failed: u64::from(number),
            lost_operations: Some(f64::from(number)),
            ..Outage::default()
        };
        Fault { name: "oops".into(), number, outage: Some(outage), ..Fault::default() }
    }

    fn trial(variant: &str, is: Trust, backs_s: impl IntoIterator<Item = Option<f64>>) -> Trial {
        let faults = (1..).zip(backs_s).map(|(number, back_s)| occurrence(number, back_s)).collect();
        Trial {
            variant: Some(variant.into()),
            verdict: Verdict { is, ..Verdict::default() },
            faults,
            ..Trial::default()
        }
    }

    fn seconds(count: u32) -> impl Iterator<Item = Option<f64>> {
        (1..=count).map(|number| Some(f64::from(number)))
    }

    #[test]
    fn each_fault_of_each_variant_has_one_over_its_usable_trials() {
        let trials = [
            trial("a", Trust::Valid, seconds(3)),
            trial("b", Trust::Suspect, seconds(2)),
            trial("a", Trust::Void, seconds(9)),
            trial("a", Trust::Valid, seconds(4)),
        ];
        let found = distributions(&trials);
        let seen: Vec<_> = found.iter().map(|of| (of.variant.as_deref().unwrap(), of.count, of.never_back)).collect();
        assert_eq!(seen, [("a", 7, 0), ("b", 2, 0)]);
        assert_eq!(found[0].fault, "oops");
        let back = &found[0].figures["back_to_baseline_s"];
        assert_eq!((back.min, back.p50, back.max), (Some(1.0), Some(2.0), Some(4.0)));
        assert!(!found[0].figures.contains_key("total_s"), "no occurrence has it");
    }

    #[test]
    fn a_quantile_that_too_few_support_is_null() {
        let back =
            |count| distributions(&[trial("a", Trust::Valid, seconds(count))])[0].figures["back_to_baseline_s"].clone();
        assert_eq!((back(4).p50, back(4).min, back(4).max), (None, Some(1.0), Some(4.0)));
        assert_eq!((back(5).p50, back(5).p50_ci95), (Some(3.0), None));
        assert_eq!((back(10).p50, back(10).p50_ci95), (Some(5.5), Some([2.0, 9.0])));
        assert_eq!((back(28).p90, back(29).p90, back(29).p99), (None, Some(27.0), None));
        assert_eq!(back(300).p99, Some(297.0));
    }

    #[test]
    fn service_that_was_never_back_counts_as_longer_than_all_others() {
        let with = |never: usize| {
            let backs_s = seconds(6).chain((0..never).map(|_| None));
            distributions(&[trial("a", Trust::Valid, backs_s)]).remove(0)
        };
        let two = with(2);
        let back = &two.figures["back_to_baseline_s"];
        assert_eq!((two.never_back, back.count, back.min), (2, 8, Some(1.0)));
        assert_eq!((back.p50, back.max), (Some(4.5), None), "the largest is not known");
        assert_eq!(back.p50_ci95, None, "its upper end is not known");
        let six = with(6);
        assert_eq!(six.figures["back_to_baseline_s"].p50, None, "the median falls between known and unknown");
        assert_eq!(six.figures["failed"].max, Some(12.0), "a count is known whatever followed");
    }

    #[test]
    fn without_a_baseline_nobody_knows_whether_it_was_back() {
        let mut unknown = trial("a", Trust::Valid, seconds(2));
        unknown.faults[1].outage = Some(Outage { failed: 3, first_ok_s: Some(1.0), ..Outage::default() });
        let found = distributions(&[unknown]);
        assert_eq!((found[0].count, found[0].never_back, found[0].figures["back_to_baseline_s"].count), (2, 0, 1));
    }

    #[test]
    fn what_could_not_be_injected_is_not_among_them() {
        let mut refused = trial("a", Trust::Valid, seconds(2));
        refused.faults[0].failed = Some("no such process".into());
        refused.faults[1].outage = None;
        assert_eq!(distributions(&[refused]), []);
    }

    #[test]
    fn modes_and_points_are_not_pooled() {
        let mut trials = Vec::new();
        for repeat in 0..2 {
            for mode in ["sync", "dirty"] {
                for rate in ["1gbit", "5mbit"] {
                    let mut one = trial(mode, Trust::Valid, seconds(5 + repeat));
                    one.point.insert("lab.port.distribution.rate".to_owned(), rate.into());
                    trials.push(one);
                }
            }
        }
        let found = distributions(&trials);
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|of| of.count == 11 && of.point.len() == 1), "{found:?}");
    }
}
