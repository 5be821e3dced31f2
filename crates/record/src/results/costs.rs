//! Cost of a unit of work, and the number of hosts that a demand needs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Cost of a unit of work on the modelled machines. If `lab.speed` slows time, cycles are those of
/// `emulated`. All hosts of the lab count; the machine that makes the load does not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Cost {
    /// Mean power of all hosts together over `measured_s`.
    pub watts: Option<f64>,
    /// Source of `watts`. `profile`: a value between the idle and load watts of each host's
    /// profile, by CPU use.
    pub watts_source: Option<String>,
    /// Energy per full cycle: `watts` divided by full cycles per second.
    pub joules_per_cycle: Option<f64>,
    /// Price, in `currency`: the hosts' prices, each spread evenly over the host's lifetime.
    /// Electricity is included if `electricity_per_million_cycles` has a value.
    pub price_per_million_cycles: Option<f64>,
    /// Part of the price that is electricity. Null if electricity is not included.
    pub electricity_per_million_cycles: Option<f64>,
    /// Currency code of ISO 4217: `EUR`.
    pub currency: Option<String>,
    /// The same figures with the warm-up included.
    pub with_warmup: CostWithWarmup,
    /// Reason why a figure is null, with the hosts that lack a value. Null if all figures are
    /// there.
    pub lacks: Option<String>,
    /// Whether the figures are modelled: from the profile's watts and prices, not from a meter or
    /// an invoice.
    pub modelled: bool,
}

/// Cost over the whole load, warm-up included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CostWithWarmup {
    /// Mean power of all hosts together.
    pub watts: Option<f64>,
    /// Energy per full cycle.
    pub joules_per_cycle: Option<f64>,
    /// Price, in the currency of `Cost`.
    pub price_per_million_cycles: Option<f64>,
}

/// Cost of a unit of work for a variant at a point: means over the usable trials.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PointCost {
    /// Variant; empty without variants.
    pub variant: String,
    /// Values of the swept paths.
    pub point: BTreeMap<String, Value>,
    /// Full cycles per second on the modelled machines.
    pub cycles_per_s: Option<f64>,
    /// Mean power of all hosts together.
    pub watts: Option<f64>,
    /// Energy per full cycle.
    pub joules_per_cycle: Option<f64>,
    /// 95 % interval of the mean that very many repeats would give. Null with too few repeats.
    /// Excludes the profile's own error.
    pub joules_per_cycle_ci95: Option<[f64; 2]>,
    /// Price, in `currency`.
    pub price_per_million_cycles: Option<f64>,
    /// 95 % interval of the mean that very many repeats would give. Null with too few repeats.
    /// Excludes the profile's own error.
    pub price_per_million_cycles_ci95: Option<[f64; 2]>,
    /// Currency code of ISO 4217: `EUR`.
    pub currency: Option<String>,
    /// The same figures with the warm-up included.
    pub with_warmup: CostWithWarmup,
    /// Number of trials that have any of these figures.
    pub trials: u32,
    /// Whether this is the variant's point with the most cycles per second.
    pub at_peak: bool,
    /// Whether this is the variant's point with the cheapest cycle: by price, or by energy if there
    /// is no price.
    pub cheapest: bool,
    /// Reason why a figure is null.
    pub lacks: Option<String>,
}

/// Number of a variant's hosts that carry the demand, if each carries as much as each measured
/// host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DemandedHosts {
    /// Variant; empty without variants.
    pub variant: String,
    /// Values of the swept paths at the point with the highest result. Empty for a search.
    pub at: BTreeMap<String, Value>,
    /// Path of the demanded metric.
    pub metric: String,
    /// Demanded value, in the metric's unit.
    pub at_least: f64,
    /// Number of hosts in the run, without balancers. 1 without a lab.
    pub measured_hosts: u32,
    /// Value per measured host: the mean over the repeats, or the host's share of the safe load.
    pub per_host: Option<f64>,
    /// 95 % interval of the mean that very many repeats would give, or of the safe load. An end is
    /// null if it is unknown.
    pub per_host_ci95: [Option<f64>; 2],
    /// Number of hosts that carry the demand. Null if the measured hosts carried nothing.
    pub hosts: Option<u64>,
    /// Numbers of hosts at the upper and at the lower end of `per_host_ci95`.
    pub hosts_ci95: [Option<u64>; 2],
    /// Purchase price of these hosts, by their profiles. Null if a profile has no price.
    pub price: Option<f64>,
    /// Currency code of ISO 4217: `EUR`.
    pub currency: Option<String>,
}
