//! Records of a trial per second, read through `record`.
//!
//! A long trial is condensed: of latencies, only quantiles per second are kept; of samples, only
//! the lowest and highest values in each period. An effect that lasts a second stays visible in the
//! chart of a night.

use std::collections::BTreeMap;

use analysis::{LatencySecond, LatencySeries};
use record::events::{self, Event};
use record::folder::TrialFolder;
use record::rows::{
    self, Attempts, GeneratorSecond, MessageSecond, Metric, MetricKind, OutcomeSlot, Sample, UnitSecond,
};

use crate::Error;
use crate::drawing::path::{DataPoint, thinned};

/// Slot length of the counts by member, seconds: the shortest bin that the chart of members draws.
const STEP_S: f64 = 0.2;

/// Records of a trial that its charts use.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrialSeries {
    pub trial: String,
    /// Operations that ended in each slot of `outcomes.csv`.
    pub outcomes: Vec<OutcomeSlot>,
    /// Narrower slots for a part of a long trial.
    pub fine_outcomes: Vec<OutcomeSlot>,
    /// Operations that ended at each member. Empty if all clients used the same address.
    pub members: Vec<MemberSeries>,
    /// Units of work and parts of answers. Empty if no operation counts any.
    pub units: Vec<UnitSecond>,
    /// Messages of streams.
    pub messages: Vec<MessageSecond>,
    /// Latency of `ok` operations per second, all operations together.
    pub latency: Vec<LatencySecond>,
    /// Latency of `ok` operations per second for each agent group. Empty if the load has no groups.
    pub groups: Vec<(String, Vec<LatencySecond>)>,
    /// Latency distribution of all `ok` operations.
    pub distribution: LatencyDistribution,
    /// Attempts per second, by operation.
    pub by_operation: Vec<CountSeries>,
    /// Attempts per second, by result, such as an HTTP status.
    pub by_result: Vec<CountSeries>,
    /// Samples of hosts and processes.
    pub samples: Vec<Sample>,
    /// Metrics that the target reported, by metric and host.
    pub metrics: Vec<MetricSeries>,
    /// Rows of the engine's threads.
    pub generator: Vec<GeneratorSecond>,
    pub events: Vec<Event>,
    /// Names of the record files whose last line was cut off.
    pub torn: Vec<&'static str>,
}

/// Latency buckets, lowest first: highest latency of the bucket, microseconds, and number of
/// operations.
pub type LatencyDistribution = Vec<(f64, u64)>;

/// Name of a kind of attempts, and the number that ended in each second since load start. The list
/// ends with the last second that has attempts.
pub type CountSeries = (String, Vec<u64>);

/// Longest time for which attempts are counted, seconds: over ten days.
const COUNTED_S: usize = 1_000_000;

/// Operations that ended at a member.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemberSeries {
    pub name: String,
    /// Counts in slots of 0.2 s, or of the recorded length if that is longer.
    pub outcomes: Vec<OutcomeSlot>,
}

/// A metric that the target reported, from one host. Series that differ only in their labels are
/// added up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetricSeries {
    /// Name without labels.
    pub name: String,
    pub host: String,
    pub kind: MetricKind,
    /// Time, seconds since load start, and value. For a counter: its growth per second, at the
    /// middle of the time over which it grew.
    pub points: Vec<DataPoint>,
}

impl TrialSeries {
    /// Returns the Unix time of load start, seconds.
    #[must_use]
    pub fn start_unix_s(&self) -> Option<f64> {
        events::start_unix_s(&self.events)
    }

    /// Returns the slots between two times at the highest recorded resolution. Slots of
    /// `fine_outcomes` replace a slot of `outcomes` if they contain the same counts.
    #[must_use]
    pub fn narrowest(&self, from_s: f64, until_s: f64) -> Vec<OutcomeSlot> {
        let mut found = Vec::new();
        for wide in within(&self.outcomes, [from_s - 1.0, until_s + 1.0]) {
            let narrow = within(&self.fine_outcomes, [wide.at_s, wide.at_s + wide.slot_s]);
            if sums(narrow) == sums(&[*wide]) { found.extend_from_slice(narrow) } else { found.push(*wide) }
        }
        found
    }
}

fn within(slots: &[OutcomeSlot], [from_s, until_s]: [f64; 2]) -> &[OutcomeSlot] {
    let first = slots.partition_point(|slot| slot.at_s + slot.slot_s / 2.0 < from_s);
    let last = slots.partition_point(|slot| slot.at_s + slot.slot_s / 2.0 < until_s);
    &slots[first..last.max(first)]
}

fn sums(slots: &[OutcomeSlot]) -> [u64; 4] {
    let mut sums = [0; 4];
    for slot in slots {
        let counts = [slot.ok, slot.failed, slot.timeout, slot.wrong];
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += u64::from(count));
    }
    sums
}

/// Reads the records of a trial. `latency` is the analysis of its interval log. A missing record
/// counts as empty.
///
/// # Errors
/// If a file exists and cannot be read, or is broken elsewhere than in its last line.
pub fn read_series(trial: &TrialFolder, latency: &LatencySeries) -> Result<TrialSeries, Error> {
    let outcomes = rows::read::<OutcomeSlot>(&trial.outcomes())?;
    let fine_outcomes = rows::read::<OutcomeSlot>(&trial.fine_outcomes())?;
    let (members, members_torn) = read_members(trial)?;
    let units = rows::read::<UnitSecond>(&trial.units())?;
    let messages = rows::read::<MessageSecond>(&trial.messages())?;
    let (mut by_operation, mut by_result) = (BTreeMap::new(), BTreeMap::new());
    let attempts_torn = rows::visit(&trial.attempts(), |row: Attempts| {
        count_in(&mut by_operation, &row.operation, &row);
        count_in(&mut by_result, &row.result, &row);
    })?;
    let generator = rows::read::<GeneratorSecond>(&trial.generator())?;
    let ends_s = [outcomes.items.last().map(|slot| slot.at_s), generator.items.last().map(|second| second.at_s)];
    let mut samples = Samples::of(ends_s.into_iter().flatten().fold(0.0, f64::max));
    let samples_torn = rows::visit(&trial.samples(), |sample| samples.add(sample))?;
    let mut metrics = MetricRows::default();
    let metrics_torn = rows::visit(&trial.metrics(), |metric| metrics.add(metric))?;
    let events = record::lines::read_events(&trial.events())?;
    let torn = [
        (latency.torn, "load.hlog"),
        (outcomes.torn, "outcomes.csv"),
        (fine_outcomes.torn, "outcomes-fine.csv"),
        (members_torn, "outcomes.csv of a member"),
        (units.torn, "units.csv"),
        (messages.torn, "messages.csv"),
        (attempts_torn, "attempts.csv"),
        (samples_torn, "samples.csv"),
        (metrics_torn, "metrics.csv"),
        (generator.torn, "generator.csv"),
        (events.torn, "events.jsonl"),
    ];
    Ok(TrialSeries {
        trial: trial.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        outcomes: outcomes.items,
        fine_outcomes: fine_outcomes.items,
        members,
        units: units.items,
        messages: messages.items,
        latency: latency.seconds.clone(),
        groups: latency.groups.clone(),
        distribution: latency.all_ns.buckets.iter().map(|of| (of.highest as f64 / 1e3, of.count)).collect(),
        by_operation: by_operation.into_iter().collect(),
        by_result: by_result.into_iter().collect(),
        samples: samples.ended(),
        metrics: metrics.ended(),
        generator: generator.items,
        events: events.items,
        torn: torn.into_iter().filter(|(torn, _)| *torn).map(|(_, name)| name).collect(),
    })
}

/// Adds the attempts of a row to its second. The last row can be shorter and ends within its
/// second.
fn count_in(counts: &mut BTreeMap<String, Vec<u64>>, name: &str, row: &Attempts) {
    if !counts.contains_key(name) {
        counts.insert(name.to_owned(), Vec::new());
    }
    let second = (row.at_s - 0.05).max(0.0) as usize;
    if let Some(of_name) = counts.get_mut(name).filter(|_| second < COUNTED_S) {
        of_name.resize(of_name.len().max(second + 1), 0);
        of_name[second] += row.count;
    }
}

/// Returns the counts of each member, and whether one file was cut off.
fn read_members(trial: &TrialFolder) -> Result<(Vec<MemberSeries>, bool), Error> {
    let (mut members, mut torn) = (Vec::new(), false);
    for name in trial.member_names()? {
        let mut outcomes: Vec<OutcomeSlot> = Vec::new();
        torn |= rows::visit(&trial.member(&name).outcomes(), |row: OutcomeSlot| {
            let at_s = (row.at_s / STEP_S + 1e-6).floor() * STEP_S;
            match outcomes.last_mut().filter(|last| last.at_s == at_s) {
                Some(last) => {
                    last.ok = last.ok.saturating_add(row.ok);
                    last.failed = last.failed.saturating_add(row.failed);
                    last.timeout = last.timeout.saturating_add(row.timeout);
                    last.wrong = last.wrong.saturating_add(row.wrong);
                }
                None => outcomes.push(OutcomeSlot { at_s, slot_s: row.slot_s.max(STEP_S), ..row }),
            }
        })?;
        members.push(MemberSeries { name, outcomes });
    }
    Ok((members, torn))
}

/// Longest trial whose samples are not condensed, seconds.
const AS_SAMPLED_S: f64 = 4_000.0;

/// Number of periods into which a longer trial is cut. No chart has that many points.
const STRETCHES: f64 = 2_000.0;

/// Metrics that the target reported, by name and host, while they are read.
#[derive(Default)]
struct MetricRows(BTreeMap<String, BTreeMap<String, OpenMetric>>);

/// A metric of a host. `now` is the latest time and the sum of its label sets so far.
#[derive(Default)]
struct OpenMetric {
    series: MetricSeries,
    now: Option<(f64, f64)>,
    before: Option<(f64, f64)>,
}

impl MetricRows {
    fn add(&mut self, row: Metric) {
        let name = row.parts().0;
        let hosts = match self.0.get_mut(name) {
            Some(hosts) => hosts,
            None => self.0.entry(name.to_owned()).or_default(),
        };
        let open = hosts.entry(row.host.clone()).or_insert_with(|| {
            let (name, host) = (name.to_owned(), row.host.clone());
            OpenMetric {
                series: MetricSeries { name, host, kind: row.kind(), points: Vec::new() },
                ..OpenMetric::default()
            }
        });
        match &mut open.now {
            Some((at_s, sum)) if *at_s == row.at_s => *sum += row.value,
            now => {
                let over = now.replace((row.at_s, row.value));
                open.take(over);
            }
        }
    }

    fn ended(self) -> Vec<MetricSeries> {
        let all = self.0.into_values().flat_map(BTreeMap::into_values);
        all.map(|mut open| {
            let over = open.now.take();
            open.take(over);
            open.series
        })
        .collect()
    }
}

impl OpenMetric {
    fn take(&mut self, over: Option<(f64, f64)>) {
        let Some((at_s, sum)) = over else { return };
        let before = self.before.replace((at_s, sum));
        match (self.series.kind, before) {
            (MetricKind::Gauge, _) => self.series.points.push((at_s, Some(sum))),
            (MetricKind::Counter, Some((from_s, from))) if at_s > from_s => {
                let per_s = rows::counter_growth(from, sum) / (at_s - from_s);
                self.series.points.push((at_s.midpoint(from_s), Some(per_s)));
            }
            (MetricKind::Counter, _) => {}
        }
        if self.series.points.len() as f64 > AS_SAMPLED_S {
            self.series.points = thinned(&self.series.points, STRETCHES as usize);
        }
    }
}

/// Samples of a trial. For a long trial: two rows per period, host and process, with the lowest and
/// the highest value of each figure.
struct Samples {
    /// Length of a period. `None` keeps all samples.
    stretch_s: Option<f64>,
    kept: Vec<Sample>,
    open: Vec<SampledStretch>,
}

/// Lowest and highest values of a host or process in a period.
struct SampledStretch {
    number: i64,
    least: Sample,
    most: Sample,
}

impl Samples {
    fn of(length_s: f64) -> Self {
        let stretch_s = (length_s > AS_SAMPLED_S).then(|| (length_s / STRETCHES).ceil());
        Self { stretch_s, kept: Vec::new(), open: Vec::new() }
    }

    fn add(&mut self, sample: Sample) {
        let Some(stretch_s) = self.stretch_s else { return self.kept.push(sample) };
        let number = (sample.at_s / stretch_s).floor() as i64;
        let mut open = self.open.iter_mut();
        match open.find(|open| open.least.host == sample.host && open.least.process == sample.process) {
            Some(open) if open.number == number => {
                fold(&mut open.least, &sample, |a, b| b < a);
                fold(&mut open.most, &sample, |a, b| b > a);
            }
            Some(open) => {
                let next = SampledStretch { number, least: sample.clone(), most: sample };
                let over = std::mem::replace(open, next);
                self.kept.extend(over.rows(stretch_s));
            }
            None => self.open.push(SampledStretch { number, least: sample.clone(), most: sample }),
        }
    }

    fn ended(mut self) -> Vec<Sample> {
        let Some(stretch_s) = self.stretch_s else { return self.kept };
        self.kept.extend(self.open.into_iter().flat_map(|open| open.rows(stretch_s)));
        self.kept
    }
}

impl SampledStretch {
    fn rows(self, stretch_s: f64) -> [Sample; 2] {
        let [early_s, late_s] = [0.25, 0.75].map(|share| (self.number as f64 + share) * stretch_s);
        [Sample { at_s: early_s, ..self.least }, Sample { at_s: late_s, ..self.most }]
    }
}

/// Copies each value of `sample` into `kept` that is `beyond` the value in `kept`. CPU values are
/// compared by their sum, because they are drawn as a stack.
fn fold(kept: &mut Sample, sample: &Sample, beyond: fn(f64, f64) -> bool) {
    let is_beyond = |kept: Option<f64>, new: Option<f64>| match (kept, new) {
        (Some(kept), Some(new)) => beyond(kept, new),
        (kept, new) => kept.is_none() && new.is_some(),
    };
    if is_beyond(busy_pct(kept), busy_pct(sample)) {
        kept.cpu_user_pct = sample.cpu_user_pct;
        kept.cpu_system_pct = sample.cpu_system_pct;
        kept.cpu_iowait_pct = sample.cpu_iowait_pct;
        kept.cpu_steal_pct = sample.cpu_steal_pct;
    }
    macro_rules! each {
        ($($field:ident as $kind:ty),*) => {
            $(if is_beyond(kept.$field.map(|value| value as $kind), sample.$field.map(|value| value as $kind)) {
                kept.$field = sample.$field;
            })*
        };
    }
    each!(
        cpu_strangers_pct as f64,
        cpu_throttled_pct as f64,
        run_delay_pct as f64,
        load1 as f64,
        load5 as f64,
        load15 as f64,
        io_wait_threads as f64,
        io_delay_pct as f64,
        memory_used_bytes as f64,
        memory_available_bytes as f64,
        rss_bytes as f64,
        oom_kills as f64,
        disk_read_bytes as f64,
        disk_write_bytes as f64,
        net_rx_bytes as f64,
        net_tx_bytes as f64,
        psi_cpu_some_pct as f64,
        psi_io_some_pct as f64,
        psi_memory_some_pct as f64,
        threads as f64,
        fds as f64
    );
}

fn busy_pct(row: &Sample) -> Option<f64> {
    let parts = [row.cpu_user_pct, row.cpu_system_pct, row.cpu_iowait_pct, row.cpu_steal_pct];
    parts.into_iter().flatten().reduce(|a, b| a + b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(at_s: f64, host: &str, name: &str, value: f64) -> Metric {
        Metric { at_s, host: host.to_owned(), name: name.to_owned(), value, kind: None }
    }

    #[test]
    fn metrics_have_lines_per_host_and_counters_show_rates() {
        let mut rows = MetricRows::default();
        for row in [
            row(1.0, "n1", "queue{of=\"a\"}", 1.0),
            row(1.0, "n1", "calls_total", 100.0),
            row(1.0, "n2", "queue{of=\"a\"}", 7.0),
            row(1.0, "n1", "queue{of=\"b\"}", 2.0),
            row(3.0, "n1", "queue{of=\"a\"}", 5.0),
            row(3.0, "n1", "calls_total", 160.0),
            row(4.0, "n1", "calls_total", 12.0),
        ] {
            rows.add(row);
        }
        let series = rows.ended();
        let named: Vec<_> =
            series.iter().map(|one| (one.name.as_str(), one.host.as_str(), one.points.clone())).collect();
        let calls = vec![(2.0, Some(30.0)), (3.5, Some(12.0))];
        let queue = vec![(1.0, Some(3.0)), (3.0, Some(5.0))];
        assert_eq!(
            named,
            [("calls_total", "n1", calls), ("queue", "n1", queue), ("queue", "n2", vec![(1.0, Some(7.0))])]
        );
        let mut day = MetricRows::default();
        (0..86_400)
            .for_each(|second| day.add(row(f64::from(second), "n1", "queue", f64::from(u8::from(second == 51_234)))));
        let day = &day.ended()[0].points;
        assert!(day.len() < 5_000 && day.contains(&(51_234.0, Some(1.0))), "{}", day.len());
    }

    #[test]
    fn a_folder_without_records_is_an_empty_series() {
        let nowhere = TrialFolder::at(std::path::Path::new("/nowhere/007"));
        let series = read_series(&nowhere, &LatencySeries::default()).unwrap();
        assert_eq!(series, TrialSeries { trial: "007".to_owned(), ..TrialSeries::default() });
    }

    /// An effect of a quarter of a second in a day is still a point of the chart.
    #[test]
    fn a_spike_of_a_quarter_of_a_second_in_a_day_survives() {
        const DAY_S: u32 = 86_400;
        const SPIKE_S: u32 = 51_234;
        let highest: Vec<_> =
            (0..DAY_S).map(|second| (f64::from(second), Some(if second == SPIKE_S { 250.0 } else { 100.0 }))).collect();
        let drawn = thinned(&highest, 1_000);
        assert!(drawn.len() <= 1_010);
        assert!(drawn.iter().any(|point| point.0 == f64::from(SPIKE_S) && point.1.is_some_and(|us| us > 249.0)));

        let mut samples = Samples::of(f64::from(DAY_S));
        for second in 0..DAY_S {
            for (host, process) in [("n1", ""), ("n1", "server"), ("n2", "")] {
                let busy = if second == SPIKE_S && host == "n2" { 97.0 } else { 3.0 };
                let (at_s, host, process) = (f64::from(second), host.to_owned(), process.to_owned());
                samples.add(Sample {
                    at_s,
                    host,
                    process,
                    cpu_user_pct: Some(busy),
                    rss_bytes: Some(7),
                    ..Sample::default()
                });
            }
        }
        let kept = samples.ended();
        assert!(kept.len() <= 3 * 2 * (STRETCHES as usize + 1), "{}", kept.len());
        let peak = kept.iter().find(|row| row.cpu_user_pct == Some(97.0)).unwrap();
        assert!(peak.host == "n2" && (peak.at_s - f64::from(SPIKE_S)).abs() < 44.0, "{peak:?}");
        assert_eq!(kept.iter().filter(|row| row.cpu_user_pct == Some(97.0)).count(), 1);
    }
}
