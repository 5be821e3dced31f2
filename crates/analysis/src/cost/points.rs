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
mod tests {
    use record::results::{Cost, Emulated, Throughput, Trust, Verdict};
    use serde_json::json;

    use super::*;

    /// 12 W and EUR 0.1 an hour or so: what a cycle costs goes with one over the rate.
    fn trial(variant: &str, point: &[(&str, u32)], cycles_per_s: f64) -> Trial {
        Trial {
            variant: Some(variant.to_owned()).filter(|name| !name.is_empty()),
            point: point.iter().map(|(path, value)| ((*path).to_owned(), json!(value))).collect(),
            throughput: Throughput { cycles_per_s: Some(cycles_per_s), ..Throughput::default() },
            cost: Cost {
                watts: Some(12.0),
                joules_per_cycle: Some(12.0 / cycles_per_s),
                price_per_million_cycles: Some(30.0 / cycles_per_s),
                currency: Some("EUR".to_owned()),
                with_warmup: CostWithWarmup {
                    joules_per_cycle: Some(13.0 / cycles_per_s),
                    ..CostWithWarmup::default()
                },
                modelled: true,
                ..Cost::default()
            },
            ..Trial::default()
        }
    }

    const AGENTS: &str = "load.agents";

    #[test]
    fn means_and_intervals_are_those_of_the_hand() {
        // J at 1 agent 2, 3, 4 (mean 3), at 2 agents 1, 1.2 (mean 1.1). Squares of the residuals, as shares of the mean and enlarged by
        // √(3/2) and √2: (1/3)² × 1.5 = 0.1666667 twice, 0 once, (0.1/1.1)² × 2 = 0.0165289 twice. Their mean over 5: 0.0732782, so a
        // relative spread of 0.2706994 with 3 degrees of freedom, t = 3.182446. Half widths: × 3 / √3 = 1.492135 and × 1.1 / √2 = 0.670078.
        let rates = [(1, 6.0), (1, 4.0), (1, 3.0), (2, 12.0), (2, 10.0)];
        let mut trials = rates.map(|(agents, rate)| trial("", &[(AGENTS, agents)], rate)).to_vec();
        // Another variant's repeats differ more, which says nothing of this one.
        trials.extend([1.0, 9.0, 30.0].map(|rate| trial("other", &[(AGENTS, 1)], rate)));
        let costs = points(&trials);
        let [one, two, _] = costs.as_slice() else { panic!("{costs:?}") };
        let near = |value: f64, known: f64| assert!((value - known).abs() < 1e-5, "{value} and not {known}");
        near(one.joules_per_cycle.unwrap(), 3.0);
        near(two.joules_per_cycle.unwrap(), 1.1);
        let [low, high] = one.joules_per_cycle_ci95.unwrap();
        near(low, 3.0 - 1.492_135);
        near(high, 3.0 + 1.492_135);
        let [low, high] = two.joules_per_cycle_ci95.unwrap();
        near(low, 1.1 - 0.670_078);
        near(high, 1.1 + 0.670_078);
        // The price is 2.5 times that.
        near(two.price_per_million_cycles_ci95.unwrap()[0], 2.5 * (1.1 - 0.670_078));
        assert_eq!((one.trials, two.trials, one.watts, one.currency.as_deref()), (3, 2, Some(12.0), Some("EUR")));
        near(two.with_warmup.joules_per_cycle.unwrap(), 13.0 / 12.0 * 1.1);
    }

    #[test]
    fn without_repeats_there_is_no_interval() {
        let costs = points(&[trial("a", &[(AGENTS, 1)], 6.0), trial("a", &[(AGENTS, 2)], 9.0)]);
        assert!(costs.iter().all(|cost| cost.joules_per_cycle.is_some() && cost.joules_per_cycle_ci95.is_none()));
    }

    #[test]
    fn peak_and_cheapest_point_are_marked_for_each_curve() {
        let mut trials = Vec::new();
        for (variant, hosts, rates) in
            [("pi", 1, [5.0, 9.0, 8.0]), ("pi", 3, [4.0, 20.0, 25.0]), ("xeon", 1, [9.0, 8.0, 7.0])]
        {
            for (agents, rate) in [1, 2, 4].into_iter().zip(rates) {
                trials.push(trial(variant, &[(AGENTS, agents), ("lab.hosts", hosts)], rate));
            }
        }
        // A point whose energy is least, though not its price.
        trials[2].cost.joules_per_cycle = Some(0.1);
        let costs = points(&trials);
        let marked = |of: fn(&PointCost) -> bool| -> Vec<usize> { (0..9).filter(|&index| of(&costs[index])).collect() };
        assert_eq!(marked(|cost| cost.at_peak), [1, 5, 6], "one for each variant and number of hosts");
        assert_eq!(marked(|cost| cost.cheapest), [1, 5, 6]);
        for trial in &mut trials {
            trial.cost.price_per_million_cycles = None;
        }
        let costs = points(&trials);
        let cheapest: Vec<usize> = (0..9).filter(|&index| costs[index].cheapest).collect();
        assert_eq!(cheapest, [2, 5, 6], "without a price by energy");
    }

    #[test]
    fn cycles_are_those_of_the_machine_meant() {
        let mut slowed = trial("", &[], 10.0);
        let throughput = Throughput { cycles_per_s: Some(40.0), ..Throughput::default() };
        slowed.emulated = Some(Emulated { speed: 0.25, throughput, ..Emulated::default() });
        assert_eq!(points(&[slowed])[0].cycles_per_s, Some(40.0));
    }

    #[test]
    fn void_trials_cost_nothing_and_a_variant_without_a_price_is_shown_to_have_none() {
        let mut void = trial("a", &[], 1.0);
        void.verdict = Verdict { is: Trust::Void, ..Verdict::default() };
        let mut unknown = trial("b", &[], 8.0);
        unknown.cost = Cost { lacks: Some("Energy is not known: no profile for n1.".to_owned()), ..Cost::default() };
        let costs = points(&[void, trial("a", &[], 6.0), unknown.clone()]);
        assert_eq!((costs.len(), costs[0].trials, costs[0].joules_per_cycle), (2, 1, Some(2.0)));
        assert_eq!((costs[1].trials, costs[1].joules_per_cycle, costs[1].cheapest), (0, None, false));
        assert_eq!(costs[1].lacks, unknown.cost.lacks);
        assert_eq!(points(&[unknown]), Vec::new(), "nothing where nobody has a cost");
    }
}
