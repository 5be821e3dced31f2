//! One limit held against one trial. It must not know of other trials.

use std::collections::BTreeMap;

use experiment::plan::{Range, Requirement};
use experiment::quantity::grouped;
use record::results::{Outage, Trial};

use crate::claims::{asked_as, worst};
use crate::metrics::metric;
use crate::stats::quantiles::{named, samples_for};

/// So far from its bound is what has no ratio to it: nothing failed where a share was allowed.
const FAR: f64 = 5.0;

/// How a limit fares in a trial.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Judged {
    pub metric: String,
    /// `None`: not measured.
    pub holds: Option<bool>,
    /// The natural logarithm of its ratio to the nearest bound, without sign.
    pub margin: Option<f64>,
    /// `latency_us.p99 = 71,000, asked below 50,000`.
    pub words: String,
}

pub(super) fn judge(limit: &Requirement, trial: &Trial) -> Judged {
    let judged = |holds, margin, words: String| Judged { metric: limit.metric.clone(), holds, margin, words };
    if let Some(words) = never_back(&limit.metric, trial) {
        return judged(Some(false), Some(FAR), words);
    }
    let Some(value) = worst(&metric(trial, &limit.metric), &limit.range) else {
        return unmeasured(limit, trial);
    };
    let words = format!("{} = {}, asked {}", limit.metric, figure(value), asked_as(&limit.range, figure));
    judged(Some(limit.range.holds(value)), margin(value, &limit.range), words)
}

/// The value of each limit's metric, where it was measured.
pub(super) fn figures(limits: &[Requirement], trial: &Trial) -> BTreeMap<String, f64> {
    let value = |limit: &Requirement| Some((limit.metric.clone(), worst(&metric(trial, &limit.metric), &limit.range)?));
    limits.iter().filter_map(value).collect()
}

/// A quantile needs operations that succeeded. Where most did not, it is the target that failed and not the measurement.
fn unmeasured(limit: &Requirement, trial: &Trial) -> Judged {
    let outcomes = &trial.outcomes;
    let all = outcomes.ok + outcomes.failed + outcomes.timeout + outcomes.wrong + outcomes.unfinished;
    let metric = &limit.metric;
    if outcomes.ok < all.div_ceil(2) {
        let words = format!("{metric} has no value: only {} of {all} operations succeeded", outcomes.ok);
        return Judged { metric: metric.clone(), holds: Some(false), margin: Some(FAR), words };
    }
    let needed = metric.rsplit('.').next().and_then(named).map(samples_for);
    let words = match needed {
        Some(needed) => format!(
            "{metric} was not measured: it takes {needed} operations within the measured part, more than this load makes in its time"
        ),
        None => format!("{metric} was not measured"),
    };
    Judged { metric: metric.clone(), holds: None, margin: None, words }
}

/// Times of an outage that are missing because they never came to an end within the trial: worse than any bound.
fn never_back(metric: &str, trial: &Trial) -> Option<String> {
    let parts: Vec<&str> = metric.split('.').collect();
    let time: fn(&Outage) -> Option<f64> = match *parts.last()? {
        "back_to_baseline_s" => |outage| outage.back_to_baseline_s,
        "first_ok_s" => |outage| outage.first_ok_s,
        _ => return None,
    };
    let ["faults", names @ .., "outage", _] = parts.as_slice() else { return None };
    let name = names.join(".");
    let meant = trial.faults.iter().filter(|fault| name.is_empty() || fault.name == name);
    let mut felt = meant.filter_map(|fault| Some((fault, fault.outage.as_ref()?)));
    let (fault, _) = felt.find(|(_, felt)| felt.baseline_per_s.is_some() && time(felt).is_none())?;
    Some(format!("{metric}: after `{}` ({}), not within the trial", fault.name, fault.number))
}

/// How far a value is from the nearest of its bounds.
fn margin(value: f64, range: &Range) -> Option<f64> {
    let bounds = [range.below, range.above, range.at_most, range.at_least];
    let ratios = bounds.into_iter().flatten().filter_map(|bound| match (value > 0.0, bound > 0.0) {
        (true, true) => Some((value / bound).ln().abs().min(FAR)),
        (false, true) | (true, false) if value >= 0.0 && bound >= 0.0 => Some(FAR),
        _ => None,
    });
    ratios.reduce(f64::min)
}

/// A figure for a reader: `71,000`, `0.12`.
fn figure(value: f64) -> String {
    if value.abs() < 100.0 {
        return format!("{}", (value * 1000.0).round() / 1000.0);
    }
    let text = grouped(&format!("{:.0}", value.abs()));
    if value < 0.0 { format!("-{text}") } else { text }
}
