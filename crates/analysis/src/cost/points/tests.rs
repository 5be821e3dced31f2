//! Checks of costs over repeats and points.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

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
            with_warmup: CostWithWarmup { joules_per_cycle: Some(13.0 / cycles_per_s), ..CostWithWarmup::default() },
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
