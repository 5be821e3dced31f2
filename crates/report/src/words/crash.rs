//! The finding of a load with faults: what clients felt of them, for how long, and what was lost.

use experiment::plan::Plan;
use record::results::{Outage, Trial};

use super::plain_load::{fault, losses, repeats};
use crate::facts::{Group, counted, longest, operations, outages, planned};
use crate::numbers;

/// In one sentence.
pub fn finding(group: &Group, plan: &Plan) -> String {
    let mut text = repeats(group);
    let before = group
        .spread(|trial| trial.throughput.before_first_fault_per_s)
        .or_else(|| group.spread(|trial| trial.throughput.operations_per_s));
    if let Some(before) = before {
        let agents =
            group.trials.first().and_then(|trial| planned(plan, &trial.id)?.load.as_ref()).map(|load| load.agents);
        let from = match agents {
            Some(1) => " from 1 agent".to_owned(),
            Some(agents) => format!(" from {} agents", numbers::count(u64::from(agents))),
            None => String::new(),
        };
        text.push_str(&format!("at {} calls/s{from}, ", before.text(numbers::number)));
    }
    let parts = [Some(failures(group)), back(group), losses(group)];
    text.push_str(&parts.into_iter().flatten().collect::<Vec<_>>().join("; "));
    super::capital(&super::stopped(&text))
}

fn failures(group: &Group) -> String {
    let name = group.usable().find(|trial| outages(trial).next().is_some()).map(fault).unwrap_or_default();
    let failed = group.spread(|trial| felt(trial, |outage| outage.failed));
    let all = group
        .spread(|trial| counted(trial, operations))
        .map(|all| all.text(numbers::median_count_in_words))
        .unwrap_or_default();
    let over = group.spread(|trial| longest(trial, |outage| Some(outage.last_failure_s? - outage.first_failure_s?)));
    match failed {
        Some(failed) if failed.most > 0.0 => {
            let over = over.map_or_else(String::new, |over| format!(" over {}", over.text(numbers::seconds)));
            format!("{name} made {} of {all} calls fail{over}", failed.text(numbers::median_count_in_words))
        }
        _ => format!("{name} made none of {all} calls fail"),
    }
}

/// Summed over the faults of a trial.
fn felt(trial: &Trial, count: fn(&Outage) -> u64) -> Option<f64> {
    outages(trial).map(|(_, outage)| count(outage) as f64).reduce(|a, b| a + b)
}

fn back(group: &Group) -> Option<String> {
    let never =
        |trial: &&Trial| outages(trial).any(|(_, o)| o.baseline_per_s.is_some() && o.back_to_baseline_s.is_none());
    let (gone, all) = (group.usable().filter(never).count(), group.usable().count());
    let spread = group.spread(|trial| longest(trial, |outage| outage.back_to_baseline_s));
    match (spread, gone) {
        (Some(spread), 0) => Some(format!("throughput was back after {}", spread.text(numbers::seconds))),
        (None, 0) => None,
        (_, 1) if all == 1 => Some("throughput did not come back to its baseline within the trial".to_owned()),
        (_, gone) => Some(format!("throughput did not come back to its baseline in {gone} of {all} trials")),
    }
}
