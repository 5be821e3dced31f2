//! Quantiles of a time, and how sure they are.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Quantiles of a time, microseconds. A quantile that too few samples support is null. Each
/// percentile that the experiment asks for is added under its name: `p97.5`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Quantiles {
    /// Median.
    pub p50: Option<f64>,
    /// 75th percentile.
    pub p75: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// Maximum.
    pub max: Option<f64>,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Number of samples.
    pub count: u64,
    /// Other percentiles that the experiment asks for, by name.
    #[serde(flatten)]
    #[schemars(schema_with = "other_percentiles")]
    pub others: BTreeMap<String, Option<f64>>,
}

fn other_percentiles(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let number = serde_json::json!({ "type": ["number", "null"] });
    schemars::json_schema!({ "type": "object", "patternProperties": { (PERCENTILE): number } })
}

/// Pattern of the names of percentiles, a regular expression.
pub const PERCENTILE: &str = "^p[0-9]+(\\.[0-9]+)?$";

/// 95 % intervals of quantiles of a time, microseconds. The interval of a quantile is null if one
/// of the ten batches has too few operations for that quantile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct QuantileIntervals {
    /// Interval of the median.
    pub p50_ci95: Option<[f64; 2]>,
    /// Interval of the 75th percentile.
    pub p75_ci95: Option<[f64; 2]>,
    /// Interval of the 90th percentile.
    pub p90_ci95: Option<[f64; 2]>,
    /// Interval of the 95th percentile.
    pub p95_ci95: Option<[f64; 2]>,
    /// Interval of the 99th percentile.
    pub p99_ci95: Option<[f64; 2]>,
    /// Interval of the 99.9th percentile.
    pub p999_ci95: Option<[f64; 2]>,
}

/// Separate moments of the measured part in which operations took at least as long as a quantile.
/// Slow operations come in bunches, and a bunch is one observation: the number of operations is
/// divided by the index of dispersion of their counts per second. A quantile without an interval is
/// reliable from ten moments on; the tables mark the others with `~`. Null if the quantile is null.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct QuantileMoments {
    /// Moments of the median.
    pub p50: Option<u64>,
    /// Moments of the 75th percentile.
    pub p75: Option<u64>,
    /// Moments of the 90th percentile.
    pub p90: Option<u64>,
    /// Moments of the 95th percentile.
    pub p95: Option<u64>,
    /// Moments of the 99th percentile.
    pub p99: Option<u64>,
    /// Moments of the 99.9th percentile.
    pub p999: Option<u64>,
}
