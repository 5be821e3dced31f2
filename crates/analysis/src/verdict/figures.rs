//! Classes of figures: the class of each metric, and the classes that a trial's verdict is about.

use experiment::plan::{MetricExpression, MetricPath, percentile};
use record::results::FigureClass::{
    self, Counts, ExtremeLatency, HostFigures, MedianLatency, Outages, TailLatency, Throughput, UpperLatency,
};
use record::results::{DelayEffect, DisturbanceKind, Quantiles};

use super::RuleInput;

/// Function that returns a quantile, such as p99.
pub(super) type ReadQuantile = fn(&Quantiles) -> Option<f64>;

/// Returns the quantiles of a class of latencies.
pub(super) fn quantiles(class: FigureClass) -> &'static [(&'static str, ReadQuantile)] {
    match class {
        MedianLatency => &[("p50", |all| all.p50)],
        UpperLatency => &[("p75", |all| all.p75), ("p90", |all| all.p90), ("p95", |all| all.p95)],
        TailLatency => &[("p99", |all| all.p99)],
        ExtremeLatency => &[("p99.9", |all| all.p999)],
        _ => &[],
    }
}

/// Function that returns by how much delay can have raised a quantile, percent.
type RisenOf = fn(&DelayEffect) -> Option<f64>;

/// Quantiles for which the effect of delay is known: share, name, effect.
pub(super) const DELAYED_QUANTILES: [(f64, &str, RisenOf); 5] = [
    (0.5, "p50", |delay| delay.p50_pct),
    (0.9, "p90", |delay| delay.p90_pct),
    (0.95, "p95", |delay| delay.p95_pct),
    (0.99, "p99", |delay| delay.p99_pct),
    (0.999, "p99.9", |delay| delay.p999_pct),
];

pub(super) fn class_of_quantile(share: f64) -> FigureClass {
    match share {
        _ if share < 0.75 => MedianLatency,
        _ if share < 0.99 => UpperLatency,
        _ if share < 0.999 => TailLatency,
        _ => ExtremeLatency,
    }
}

/// Returns the class of a metric's figure. Functions of curves are about throughput.
pub(crate) fn class_of(metric: &MetricExpression) -> FigureClass {
    metric.measured().map_or(Throughput, class_of_path)
}

/// Returns the class of a figure by its path in a trial.
pub(crate) fn class_of_path(path: &MetricPath) -> FigureClass {
    let parts: Vec<&str> = path.0.iter().map(String::as_str).collect();
    let last = parts.last().copied().unwrap_or("");
    match parts.first().copied().unwrap_or("") {
        "faults" | "disturbances" | "actions" | "members" | "steps" => Outages,
        "hosts" | "machine" | "cost" | "metrics" | "generator" | "delay" => HostFigures,
        _ if parts.iter().any(|part| LATENCIES.contains(part)) => match last {
            "max" => ExtremeLatency,
            "mean" => UpperLatency,
            _ => percentile(last).map_or(Counts, class_of_quantile),
        },
        _ if parts.contains(&"throughput") || parts.contains(&"with_warmup") || last.ends_with("per_s") => Throughput,
        _ => Counts,
    }
}

/// Path segments that mark a metric as a latency.
const LATENCIES: [&str; 5] = ["latency_us", "service_us", "latency_of_all_us", "punctual_latency_us", "by_outcome"];

/// Returns the classes that the verdict on a trial is about: those of the answer (counts,
/// throughput, p50, p99 and outages), and those of the requested metrics.
pub(super) fn used(facts: &RuleInput<'_>) -> Vec<FigureClass> {
    let mut used = vec![Counts, Throughput, MedianLatency, TailLatency];
    let mut kinds = facts.trial.disturbances.iter().map(|one| one.kind);
    if !facts.trial.faults.is_empty() || kinds.any(|kind| kind == DisturbanceKind::Outage) {
        used.push(Outages);
    }
    used.extend(facts.run.plan.into_iter().flat_map(|plan| plan.metrics()).map(class_of));
    used.extend(facts.run.metrics.iter().map(class_of_path));
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_has_a_figure_class() {
        for (path, class) in [
            ("latency_us.p50", MedianLatency),
            ("operations.get.latency_us.p97.5", UpperLatency),
            ("latency_us.p99", TailLatency),
            ("latency_us.p999", ExtremeLatency),
            ("service_us.max", ExtremeLatency),
            ("throughput.operations_per_s", Throughput),
            ("peak(a)", Throughput),
            ("failed_pct", Counts),
            ("consistency.lost_writes", Counts),
            ("faults.crash.outage.first_ok_s", Outages),
            ("hosts.n1.cpu_pct", HostFigures),
        ] {
            assert_eq!(class_of(&MetricExpression::from(path)), class, "{path}");
        }
    }
}
