//! Metrics that the target reports, from `metrics.csv`, summed in one pass. For each metric, values
//! are added up over label sets and hosts in each second. The growth of a counter is computed for
//! each label set, because each may restart at a different time.

use std::collections::BTreeMap;

use record::results::{HostMetric, TargetMetric};
use record::rows::{Metric, MetricKind, counter_growth};

/// Number of latest seconds that may still get rows: hosts are queried in parallel and answer
/// within a second.
const OPEN: usize = 4;

/// Largest time before a whole second at which a row still counts for that second.
const LEEWAY_S: f64 = 0.001;

/// Sums of all metrics between two times.
#[derive(Debug)]
pub(crate) struct TargetMetrics {
    from_s: f64,
    until_s: f64,
    all: BTreeMap<String, MetricSums>,
}

#[derive(Debug, Default)]
struct MetricSums {
    kind: MetricKind,
    seconds: ValueSums,
    hosts: Vec<HostMetricSums>,
}

#[derive(Debug, Default)]
struct HostMetricSums {
    name: String,
    seconds: ValueSums,
    growth: CounterGrowth,
}

/// Values summed per second.
#[derive(Debug, Default)]
struct ValueSums {
    open: BTreeMap<i64, f64>,
    sum: f64,
    count: u64,
    max: Option<f64>,
    last: Option<f64>,
}

/// Growth of a counter over all its label sets.
#[derive(Debug, Default)]
struct CounterGrowth {
    /// The first and the last time at which the counter was reported.
    told_s: Option<[f64; 2]>,
    /// Last value by label set.
    values: BTreeMap<String, f64>,
    increase: f64,
}

impl TargetMetrics {
    /// Creates empty sums between two times, seconds since load start.
    pub fn over(from_s: f64, until_s: f64) -> Self {
        Self { from_s, until_s, all: BTreeMap::new() }
    }

    /// Adds the next row.
    pub fn add(&mut self, row: &Metric) {
        if !(self.from_s..=self.until_s).contains(&row.at_s) {
            return;
        }
        let (name, labels) = row.parts();
        if !self.all.contains_key(name) {
            self.all.insert(name.to_owned(), MetricSums { kind: row.kind(), ..MetricSums::default() });
        }
        let Some(sums) = self.all.get_mut(name) else { return };
        sums.seconds.add(row.at_s, row.value);
        let known = sums.hosts.iter().position(|host| host.name == row.host).unwrap_or(sums.hosts.len());
        if known == sums.hosts.len() {
            sums.hosts.push(HostMetricSums { name: row.host.clone(), ..HostMetricSums::default() });
        }
        let host = &mut sums.hosts[known];
        host.seconds.add(row.at_s, row.value);
        if sums.kind == MetricKind::Counter {
            host.growth.add(row.at_s, labels, row.value);
        }
    }

    /// Returns each metric by its name.
    pub fn results(self) -> BTreeMap<String, TargetMetric> {
        self.all.into_iter().map(|(name, sums)| (name, sums.result())).collect()
    }
}

impl MetricSums {
    fn result(self) -> TargetMetric {
        let Self { kind, seconds, hosts } = self;
        let mut hosts: Vec<HostMetric> = hosts.into_iter().map(|host| host.result(kind)).collect();
        hosts.sort_by(|one, other| one.name.cmp(&other.name));
        let last = total(hosts.iter().map(|host| host.last));
        TargetMetric {
            kind,
            // A host that misses a second is missing in that second's sum.
            max: seconds.ended().max.into_iter().chain(last).reduce(f64::max),
            mean: total(hosts.iter().map(|host| host.mean)),
            last,
            increase: total(hosts.iter().map(|host| host.increase)),
            per_s: total(hosts.iter().map(|host| host.per_s)),
            hosts,
        }
    }
}

/// Returns the sum of the known values, or `None` if none is known.
fn total(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values.flatten().reduce(|a, b| a + b)
}

impl HostMetricSums {
    fn result(self, kind: MetricKind) -> HostMetric {
        let seconds = self.seconds.ended();
        let length_s = self.growth.told_s.map(|[first_s, last_s]| last_s - first_s);
        // A counter that was reported only once shows no growth.
        let length_s = length_s.filter(|length_s| kind == MetricKind::Counter && *length_s > 0.0);
        HostMetric {
            name: self.name,
            max: seconds.max,
            mean: (seconds.count > 0).then(|| seconds.sum / seconds.count as f64),
            last: seconds.last,
            increase: length_s.map(|_| self.growth.increase),
            per_s: length_s.map(|length_s| self.growth.increase / length_s),
        }
    }
}

impl ValueSums {
    fn add(&mut self, at_s: f64, value: f64) {
        *self.open.entry((at_s + LEEWAY_S).floor() as i64).or_default() += value;
        if self.open.len() > OPEN
            && let Some((_, over)) = self.open.pop_first()
        {
            self.take(over);
        }
    }

    fn take(&mut self, sum: f64) {
        self.sum += sum;
        self.count += 1;
        self.max = Some(self.max.map_or(sum, |max| max.max(sum)));
        self.last = Some(sum);
    }

    fn ended(mut self) -> Self {
        std::mem::take(&mut self.open).into_values().for_each(|sum| self.take(sum));
        self
    }
}

impl CounterGrowth {
    fn add(&mut self, at_s: f64, labels: &str, value: f64) {
        let first_s = self.told_s.map_or(at_s, |[first_s, _]| first_s);
        self.told_s = Some([first_s, at_s]);
        match self.values.get_mut(labels) {
            Some(known) => {
                self.increase += counter_growth(*known, value);
                *known = value;
            }
            None => {
                // A label set that appears later started at 0, so its first value is growth.
                self.increase += if at_s > first_s { value } else { 0.0 };
                self.values.insert(labels.to_owned(), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(at_s: f64, host: &str, name: &str, value: f64) -> Metric {
        Metric { at_s, host: host.to_owned(), name: name.to_owned(), value, kind: None }
    }

    fn results(rows: &[Metric]) -> BTreeMap<String, TargetMetric> {
        let mut metrics = TargetMetrics::over(1.0, 6.2);
        rows.iter().for_each(|row| metrics.add(row));
        metrics.results()
    }

    #[test]
    fn a_gauge_is_summed_over_labels_and_hosts() {
        let rows = [
            row(0.0, "n1", "queue", 900.0),
            row(1.0, "n1", "queue{of=\"a\"}", 1.0),
            row(1.0, "n1", "queue{of=\"b\"}", 2.0),
            row(1.9, "n2", "queue", 10.0),
            row(2.0, "n1", "queue{of=\"a\"}", 5.0),
            row(2.9996, "n2", "queue", 20.0),
            row(3.0, "n1", "queue{of=\"a\"}", 4.0),
            row(6.0, "n1", "queue{of=\"a\"}", 0.0),
            row(7.0, "n1", "queue{of=\"a\"}", 900.0),
        ];
        let found = &results(&rows)["queue"];
        let expected = [("n1", 5.0, 3.0, 0.0), ("n2", 20.0, 15.0, 20.0)].map(|(name, max, mean, last)| HostMetric {
            name: name.to_owned(),
            max: Some(max),
            mean: Some(mean),
            last: Some(last),
            ..HostMetric::default()
        });
        assert_eq!(found.hosts, expected);
        assert_eq!((found.max, found.mean, found.last), (Some(24.0), Some(18.0), Some(20.0)));
        assert_eq!((found.kind, found.increase, found.per_s), (MetricKind::Gauge, None, None));
    }

    #[test]
    fn a_counter_may_restart_or_appear_late() {
        let rows = [
            row(1.0, "n1", "calls_total{code=\"200\"}", 100.0),
            row(2.0, "n1", "calls_total{code=\"200\"}", 130.0),
            row(3.0, "n1", "calls_total{code=\"200\"}", 10.0),
            row(3.0, "n1", "calls_total{code=\"500\"}", 4.0),
            row(5.0, "n1", "calls_total{code=\"200\"}", 20.0),
            row(2.0, "n2", "calls_total", 7.0),
        ];
        let found = &results(&rows)["calls_total"];
        assert_eq!((found.kind, found.increase, found.per_s), (MetricKind::Counter, Some(54.0), Some(13.5)));
        assert_eq!(found.hosts[1].increase, None, "told once");
        assert_eq!(found.max, Some(137.0));
        let told = Metric { kind: Some(MetricKind::Counter), ..row(1.0, "n1", "calls", 1.0) };
        let rows = [told.clone(), Metric { at_s: 3.0, value: 5.0, ..told }];
        assert_eq!(results(&rows)["calls"].per_s, Some(2.0));
    }

    #[test]
    fn rows_outside_the_measured_part_are_ignored() {
        assert_eq!(results(&[row(0.5, "n1", "queue", 1.0), row(6.3, "n1", "queue", 1.0)]), BTreeMap::new());
    }
}
