//! What a unit of work costs each variant at each point: means over the usable trials, with intervals. It must not look at a trial's
//! records.
//!
//! Repeats are few, so how much they differ is taken from all points of a variant together, as for a curve of throughput: a cycle's
//! cost goes with one over the throughput and so differs by the same share of its mean.

use record::results::{CostWithWarmup, PointCost, Trial};

use crate::groups::{Group, groups, usable};
use crate::stats::curve::Curve;
use crate::stats::order::mean;
use crate::stats::student::quantile_of_t;

/// Swept paths under it are loads: the same service, used more or less.
const LOAD: &str = "load.";

/// The cost of each variant at each point, in the order of the trials; empty if no trial has any.
pub(crate) fn points(trials: &[Trial]) -> Vec<PointCost> {
    let usable = usable(trials);
    if !usable.iter().any(|trial| has_cost(trial)) {
        return Vec::new();
    }
    let groups = groups(usable);
    let joules = intervals(&groups, |trial| trial.cost.joules_per_cycle);
    let prices = intervals(&groups, |trial| trial.cost.price_per_million_cycles);
    let mut costs: Vec<PointCost> = groups.iter().map(PointCost::from).collect();
    for ((cost, joules), price) in costs.iter_mut().zip(joules).zip(prices) {
        (cost.joules_per_cycle_ci95, cost.price_per_million_cycles_ci95) = (joules, price);
    }
    mark(&mut costs);
    costs
}

fn has_cost(trial: &Trial) -> bool {
    trial.cost.joules_per_cycle.is_some() || trial.cost.price_per_million_cycles.is_some()
}

impl From<&Group<'_>> for PointCost {
    fn from(group: &Group<'_>) -> Self {
        let of = |value: fn(&Trial) -> Option<f64>| {
            mean(&group.trials.iter().filter_map(|trial| value(trial)).collect::<Vec<_>>())
        };
        let first = |value: fn(&Trial) -> Option<&String>| group.trials.iter().find_map(|trial| value(trial)).cloned();
        Self {
            variant: group.variant.unwrap_or_default().to_owned(),
            point: group.point.clone(),
            cycles_per_s: of(|trial| match &trial.emulated {
                Some(emulated) => emulated.throughput.cycles_per_s,
                None => trial.throughput.cycles_per_s,
            }),
            watts: of(|trial| trial.cost.watts),
            joules_per_cycle: of(|trial| trial.cost.joules_per_cycle),
            price_per_million_cycles: of(|trial| trial.cost.price_per_million_cycles),
            currency: first(|trial| trial.cost.currency.as_ref()),
            with_warmup: CostWithWarmup {
                watts: of(|trial| trial.cost.with_warmup.watts),
                joules_per_cycle: of(|trial| trial.cost.with_warmup.joules_per_cycle),
                price_per_million_cycles: of(|trial| trial.cost.with_warmup.price_per_million_cycles),
            },
            trials: group.trials.iter().filter(|trial| has_cost(trial)).count() as u32,
            lacks: first(|trial| trial.cost.lacks.as_ref()),
            ..Self::default()
        }
    }
}

/// The 95 % interval of each group's mean: Student's, with the spread of all points of its variant together.
fn intervals(groups: &[Group<'_>], value: impl Fn(&Trial) -> Option<f64>) -> Vec<Option<[f64; 2]>> {
    let of_group = |group: &Group<'_>| -> Vec<f64> { group.trials.iter().filter_map(|trial| value(trial)).collect() };
    let interval = |group: &Group<'_>| {
        let of_variant = groups.iter().enumerate().filter(|(_, other)| other.variant == group.variant);
        let measured: Vec<(f64, f64)> = of_variant
            .flat_map(|(index, other)| of_group(other).into_iter().map(move |value| (index as f64, value)))
            .collect();
        let (values, spread) = (of_group(group), Curve::of(&measured).spread()?);
        let mean = mean(&values)?;
        let half = quantile_of_t(0.975, spread.degrees as f64)? * spread.relative * mean / (values.len() as f64).sqrt();
        Some([(mean - half).max(0.0), mean + half])
    };
    groups.iter().map(interval).collect()
}

/// Marks, for each variant at each point of the swept paths that are no load, where it completes most and where a cycle is cheapest.
fn mark(costs: &mut [PointCost]) {
    let curve = |cost: &PointCost| {
        let mut point = cost.point.clone();
        point.retain(|path, _| !path.starts_with(LOAD));
        (cost.variant.clone(), point)
    };
    let best = |costs: &[PointCost], of: usize, value: fn(&PointCost) -> Option<f64>| {
        let of_curve = costs.iter().enumerate().filter(|(_, other)| curve(other) == curve(&costs[of]));
        let valued = of_curve.filter_map(|(index, other)| Some((index, value(other)?)));
        // Of equals the first.
        valued.reduce(|best, next| if next.1 < best.1 { next } else { best }).map(|(index, _)| index)
    };
    let price = |cost: &PointCost| cost.price_per_million_cycles;
    let energy = |cost: &PointCost| cost.joules_per_cycle;
    let most_cycles = |cost: &PointCost| Some(-cost.cycles_per_s.filter(|per_s| *per_s > 0.0)?);
    for index in 0..costs.len() {
        let cheapest = best(costs, index, price).or_else(|| best(costs, index, energy));
        costs[index].at_peak = best(costs, index, most_cycles) == Some(index);
        costs[index].cheapest = cheapest == Some(index);
    }
}

#[cfg(test)]
mod tests;
