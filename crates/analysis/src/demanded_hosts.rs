//! `[demand]`: the number of hosts that each variant needs for a demand, if each host carries as
//! much as the hosts of the run.
//!
//! In a sweep, the best point of each variant counts; in a search, its safe load under the worst
//! condition. Capacity is assumed to grow linearly with hosts, which is the best case: a cluster of
//! more members needs more coordination (`docs/scaling.md`).

use std::collections::BTreeMap;

use experiment::plan::{Demand, Plan, Trial as PlannedTrial};
use record::results::{DemandedHosts, SafeLoad, Trial, counting};
use serde_json::Value;

use crate::cost::intervals;
use crate::metrics;
use crate::stats::quantiles::mean;
use crate::trial_groups::{TrialGroup, repeats};

/// Prefix of swept paths that are loads: the same hosts, used more or less.
const LOAD: &str = "load.";

/// Returns the number of hosts for each variant at each point of the swept paths other than the
/// load, in the order of the trials. Empty without `[demand]`.
pub(crate) fn hosts(plan: &Plan, trials: &[Trial], safe_loads: &[SafeLoad]) -> Vec<DemandedHosts> {
    let Some(demand) = &plan.demand else { return Vec::new() };
    let carried = if plan.find.is_some() { found(safe_loads) } else { swept(demand, trials) };
    let hosts = carried.into_iter().map(|carried| {
        let planned = plan.possible().iter().find(|planned| carried.is_of(planned));
        carried.against(demand, planned)
    });
    hosts.collect()
}

/// Load that all hosts of a variant carried together.
struct Carried {
    variant: Option<String>,
    at: BTreeMap<String, Value>,
    value: Option<f64>,
    ci95: [Option<f64>; 2],
}

/// Returns, for each curve, the point that carried the highest load; of several equal points, the
/// first.
fn swept(demand: &Demand, trials: &[Trial]) -> Vec<Carried> {
    let groups: Vec<TrialGroup<'_>> = repeats(counting(trials));
    let intervals = intervals(&groups, |trial| value(demand, trial));
    let mut best: Vec<Carried> = Vec::new();
    for (group, interval) in groups.iter().zip(intervals) {
        let values: Vec<f64> = group.trials.iter().filter_map(|trial| value(demand, trial)).collect();
        let carried = Carried {
            variant: group.variant.map(ToOwned::to_owned),
            at: group.point.clone(),
            value: mean(&values),
            ci95: interval.map_or([None; 2], |ends| ends.map(Some)),
        };
        match best.iter_mut().find(|known| known.curve() == carried.curve()) {
            Some(known) if carried.value > known.value => *known = carried,
            Some(_) => {}
            None => best.push(carried),
        }
    }
    best
}

fn value(demand: &Demand, trial: &Trial) -> Option<f64> {
    mean(&metrics::metric(trial, demand.metric.path()?))
}

/// Returns the lowest safe load of each variant.
fn found(safe_loads: &[SafeLoad]) -> Vec<Carried> {
    let mut lowest: Vec<Carried> = Vec::new();
    for line in safe_loads {
        let carried =
            Carried { variant: line.variant.clone(), at: BTreeMap::new(), value: line.value, ci95: line.ci95 };
        match lowest.iter_mut().find(|known| known.variant == carried.variant) {
            Some(known) if carried.value < known.value => *known = carried,
            Some(_) => {}
            None => lowest.push(carried),
        }
    }
    lowest
}

impl Carried {
    fn curve(&self) -> (&Option<String>, Vec<(&String, &Value)>) {
        (&self.variant, self.at.iter().filter(|(path, _)| !path.starts_with(LOAD)).collect())
    }

    fn is_of(&self, planned: &PlannedTrial) -> bool {
        planned.variant == self.variant && self.at.iter().all(|(path, value)| planned.point.get(path) == Some(value))
    }

    /// Compares the capacity with the demand. `planned` is one of the trials that carried the load.
    fn against(self, demand: &Demand, planned: Option<&PlannedTrial>) -> DemandedHosts {
        let measured_hosts = planned.map_or(1, members);
        let [value, low, high] =
            [self.value, self.ci95[0], self.ci95[1]].map(|all| Some(all? / f64::from(measured_hosts)));
        let hosts = needed(demand, value);
        let price = planned.and_then(price_of_a_host);
        DemandedHosts {
            variant: self.variant.unwrap_or_default(),
            at: self.at,
            metric: demand.metric.to_string(),
            at_least: demand.at_least,
            measured_hosts,
            per_host: value,
            per_host_ci95: [low, high],
            hosts,
            // The less each host carries, the more hosts are needed.
            hosts_ci95: [needed(demand, high), needed(demand, low)],
            price: hosts.zip(price.as_ref()).map(|(hosts, (amount, _))| hosts as f64 * amount),
            currency: price.map(|(_, currency)| currency),
        }
    }
}

/// Returns the number of hosts that meet the demand, if each carries `per_host`.
fn needed(demand: &Demand, per_host: Option<f64>) -> Option<u64> {
    let hosts = (demand.at_least / per_host.filter(|carried| *carried > 0.0)?).ceil();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "above 0, and cut off where it is beyond u64"
    )]
    Some(hosts as u64)
}

/// Returns the number of the lab's hosts that carry the load; 1 without a lab.
fn members(planned: &PlannedTrial) -> u32 {
    let of_lab = planned.lab.hosts.iter().filter(|host| !planned.lab.balancers.contains(&host.name)).count();
    u32::try_from(of_lab.max(1)).unwrap_or(u32::MAX)
}

/// Returns the mean price of the hosts that carry the load. Returns `None` if a host has no price,
/// or if the currencies differ.
fn price_of_a_host(planned: &PlannedTrial) -> Option<(f64, String)> {
    let lab = &planned.lab;
    let hosts = lab.hosts.iter().filter(|host| !lab.balancers.contains(&host.name));
    let prices = hosts.map(|host| lab.profile_of(host)?.price.as_ref()).collect::<Option<Vec<_>>>()?;
    let currency = prices.first()?.currency.clone();
    let amounts: Vec<f64> =
        prices.iter().filter(|price| price.currency == currency).map(|price| price.amount).collect();
    (amounts.len() == prices.len()).then(|| mean(&amounts)).flatten().map(|amount| (amount, currency))
}

#[cfg(test)]
mod tests {
    use experiment::plan::{Host, Lab};
    use experiment::profile::{Price, Profile};
    use record::results::{Throughput, Verdict};
    use serde_json::json;

    use super::*;

    fn plan(hosts: u32, price: Option<f64>) -> Plan {
        let profile = Profile {
            name: "small".to_owned(),
            price: price.map(|amount| Price { amount, currency: "EUR".to_owned() }),
            ..Profile::default()
        };
        let hosts = (1..=hosts).map(|number| Host {
            name: format!("n{number}"),
            profile: Some("small".to_owned()),
            ..Host::default()
        });
        let lab =
            Lab { hosts: hosts.collect(), profiles: vec![profile], balancers: vec!["n1".to_owned()], ..Lab::default() };
        let cases = [("sata", 1), ("sata", 8), ("fast", 1), ("fast", 8)];
        let trials = cases.map(|(variant, agents)| PlannedTrial {
            variant: Some(variant.to_owned()),
            point: at(agents),
            lab: lab.clone(),
            ..PlannedTrial::default()
        });
        let metric = serde_json::from_value(json!("throughput.operations_per_s")).unwrap();
        Plan { trials: trials.to_vec(), demand: Some(Demand { metric, at_least: 10_000.0 }), ..Plan::default() }
    }

    fn at(agents: u32) -> BTreeMap<String, Value> {
        BTreeMap::from([("load.agents".to_owned(), json!(agents))])
    }

    fn trial(variant: &str, agents: u32, per_s: f64) -> Trial {
        Trial {
            variant: Some(variant.to_owned()),
            point: at(agents),
            throughput: Throughput { operations_per_s: Some(per_s), ..Throughput::default() },
            verdict: Verdict::default(),
            ..Trial::default()
        }
    }

    #[test]
    fn hosts_are_computed_from_the_best_point_without_balancers() {
        let trials = [
            trial("sata", 1, 400.0),
            trial("sata", 8, 1_040.0),
            trial("sata", 8, 1_050.0),
            trial("sata", 8, 1_050.0),
            trial("sata", 8, 1_060.0),
            trial("fast", 1, 2_000.0),
            trial("fast", 1, 2_200.0),
            trial("fast", 8, 1_900.0),
        ];
        let found = hosts(&plan(3, Some(50.0)), &trials, &[]);
        let [sata, fast] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(
            (sata.at.clone(), sata.measured_hosts, sata.per_host, sata.hosts),
            (at(8), 2, Some(525.0), Some(20))
        );
        assert_eq!((fast.at.clone(), fast.per_host, fast.hosts), (at(1), Some(1_050.0), Some(10)));
        assert_eq!((fast.price, fast.currency.as_deref()), (Some(500.0), Some("EUR")));
        let [least, most] = sata.hosts_ci95.map(Option::unwrap);
        assert_eq!((least, most), (19, 20));
        let [low, high] = sata.per_host_ci95.map(Option::unwrap);
        assert_eq!((least, most), ((10_000.0 / high).ceil() as u64, (10_000.0 / low).ceil() as u64));
    }

    #[test]
    fn a_search_uses_its_lowest_safe_load() {
        let lines = [("nothing lost", 3_000.0, Some(2_900.0)), ("one member down", 2_500.0, None)];
        let lines = lines.map(|(surviving, value, low)| SafeLoad {
            variant: Some("sata".to_owned()),
            value: Some(value),
            ci95: [low, Some(value * 1.1)],
            surviving: surviving.to_owned(),
            ..SafeLoad::default()
        });
        let searched = Plan { find: Some(experiment::plan::Find::default()), ..plan(2, None) };
        let found = hosts(&searched, &[], &lines);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].per_host, found[0].hosts, found[0].hosts_ci95), (Some(2_500.0), Some(4), [Some(4), None]));
        assert_eq!((found[0].price, found[0].measured_hosts), (None, 1));
    }

    #[test]
    fn zero_throughput_or_no_demand_gives_no_host_count() {
        let idle = hosts(&plan(2, None), &[trial("sata", 1, 0.0)], &[]);
        assert_eq!((idle[0].hosts, idle[0].hosts_ci95), (None, [None, None]));
        assert_eq!(hosts(&Plan { demand: None, ..plan(2, None) }, &[trial("sata", 1, 5.0)], &[]), []);
    }
}
