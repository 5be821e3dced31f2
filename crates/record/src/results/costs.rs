//! What a unit of work costs, and how many hosts a demand takes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a unit of work costs, on the machines meant: where `lab.speed` slows time, cycles are those of `emulated`. All hosts of the lab count,
/// the machine that makes the load does not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Cost {
    /// Mean power of all hosts together over `measured_s`.
    pub watts: Option<f64>,
    /// `profile`: between idle and load watts of each host's profile, by the CPU it used.
    pub watts_source: Option<String>,
    /// Energy: `watts` over full cycles per second.
    pub joules_per_cycle: Option<f64>,
    /// Money, in `currency`: the hosts' prices, each spread evenly over its lifetime, and electricity where
    /// `electricity_per_million_cycles` says so.
    pub price_per_million_cycles: Option<f64>,
    /// What of that price is electricity; null: it is not in it.
    pub electricity_per_million_cycles: Option<f64>,
    /// ISO 4217: `EUR`.
    pub currency: Option<String>,
    /// The same figures with the warm-up left in.
    pub with_warmup: CostWithWarmup,
    /// Why a figure is null, naming each host that lacks something; null where nothing does.
    pub lacks: Option<String>,
    /// Whether the figures are a model: the profile's watts and prices, and not a meter's or an invoice's.
    pub modelled: bool,
}

/// Cost over the whole load, warm-up included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CostWithWarmup {
    /// Mean power of all hosts together.
    pub watts: Option<f64>,
    /// Energy.
    pub joules_per_cycle: Option<f64>,
    /// Money, in the same currency.
    pub price_per_million_cycles: Option<f64>,
}

/// What a unit of work costs a variant at a point: means over its usable trials.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PointCost {
    /// Variant; empty without variants.
    pub variant: String,
    /// Swept path to value.
    pub point: BTreeMap<String, Value>,
    /// Full cycles per second, on the machines meant.
    pub cycles_per_s: Option<f64>,
    /// Mean power of all hosts together.
    pub watts: Option<f64>,
    /// Energy.
    pub joules_per_cycle: Option<f64>,
    /// 95 % interval of the mean that very many repeats would give; null with too few repeats. The profile's own error is not in it.
    pub joules_per_cycle_ci95: Option<[f64; 2]>,
    /// Money, in `currency`.
    pub price_per_million_cycles: Option<f64>,
    /// 95 % interval of the mean that very many repeats would give; null with too few repeats. The profile's own error is not in it.
    pub price_per_million_cycles_ci95: Option<[f64; 2]>,
    /// ISO 4217: `EUR`.
    pub currency: Option<String>,
    /// The same with the warm-up left in.
    pub with_warmup: CostWithWarmup,
    /// Trials that have any of these figures.
    pub trials: u32,
    /// Whether the variant completes most cycles per second here, of all its points.
    pub at_peak: bool,
    /// Whether a cycle is cheapest here, of all points of the variant: by price, or by energy where there is no price.
    pub cheapest: bool,
    /// Why a figure is null.
    pub lacks: Option<String>,
}

/// How many hosts of a variant carry what is demanded, if each carries as much as those that were measured did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DemandedHosts {
    /// Variant; empty without variants.
    pub variant: String,
    /// Swept path to value, where it carried most; empty for a search.
    pub at: BTreeMap<String, Value>,
    /// What is demanded.
    pub metric: String,
    /// How much of it, in its unit.
    pub at_least: f64,
    /// Hosts that carried it in the run, without balancers; 1 without a lab.
    pub measured_hosts: u32,
    /// What each of them carried: mean over the repeats, or its part of the safe load.
    pub per_host: Option<f64>,
    /// 95 % interval of the mean that very many repeats would give, or of the safe load; an end is null where it is not known.
    pub per_host_ci95: [Option<f64>; 2],
    /// Hosts that carry what is demanded; null where nothing was carried.
    pub hosts: Option<u64>,
    /// Numbers of hosts by the upper and the lower end of that interval.
    pub hosts_ci95: [Option<u64>; 2],
    /// What so many hosts cost to buy, by their profiles; null where one has no price.
    pub price: Option<f64>,
    /// ISO 4217.
    pub currency: Option<String>,
}
