//! All figures of a trial that are recorded each second, each with name, labels and time.

use std::collections::BTreeMap;

use analysis::LatencySecond;
use record::ReadError;
use record::events::start_unix_s;
use record::folder::TrialFolder;
use record::rows::{
    self, Attempts, CheckSecond, GeneratorSecond, MessageSecond, Metric, MetricKind, OutcomeSlot, ProgramSample,
    Sample, UnitSecond,
};
use serde::Serialize;
use serde_json::Value;

use super::ExportedTrial;
use crate::exit::Failure;

/// Names of the labels that a figure may have, in the order of output.
pub const LABELS: [&str; 11] = [
    "operation",
    "result",
    "outcome",
    "status",
    "group",
    "host",
    "process",
    "program",
    "thread",
    "quantile",
    "expectation",
];

/// Value of a figure in a second.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureSecond {
    /// End of the second, seconds since load start.
    pub at_s: f64,
    /// Name of the figure, with the unit at the end.
    pub name: String,
    /// Labels, in the order of [`LABELS`].
    pub labels: Vec<(&'static str, String)>,
    /// The target's own labels, as the target writes them: `code="200"`. Empty for other figures.
    pub own_labels: String,
    pub value: f64,
    pub kind: FigureKind,
}

impl FigureSecond {
    /// Returns the value of a label, or an empty text if the figure lacks the label.
    pub fn label(&self, name: &str) -> String {
        self.labels.iter().find(|(label, _)| *label == name).map(|(_, value)| value.clone()).unwrap_or_default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureKind {
    /// A value that rises and falls.
    Gauge,
    /// Number of events in the second.
    Count,
    /// Number of events since the observed process started.
    Counter,
}

/// Columns that count events in a second; all other columns hold states.
const COUNTS: [&str; 20] = [
    "answers",
    "connect_failures",
    "connects",
    "count",
    "cycles",
    "disk_read_bytes",
    "disk_write_bytes",
    "dropped",
    "due",
    "failed",
    "feed_bytes",
    "feed_records",
    "feed_wait_s",
    "latency_sum_s",
    "net_rx_bytes",
    "net_tx_bytes",
    "oom_kills",
    "operations",
    "processes_replaced",
    "received_bytes",
];
/// Columns with times, which are not figures.
const TIMES: [&str; 2] = ["at_s", "interval_s"];

/// Returns the Unix time of the load start; `None` if the load never began.
pub fn began_unix_s(trial: &ExportedTrial<'_>) -> Result<Option<f64>, Failure> {
    let folder = trial.folder.trial(&trial.trial.id);
    let events = record::lines::read_events(&folder.events()).map_err(analysis::Error::Read)?.items;
    Ok(start_unix_s(&events))
}

/// Returns every figure of a trial. Figures with the same name and labels are in time order.
pub fn of(trial: &ExportedTrial<'_>) -> Result<Vec<FigureSecond>, Failure> {
    let folder = trial.folder.trial(&trial.trial.id);
    let mut found = Vec::new();
    read(&folder, &mut found).map_err(analysis::Error::Read)?;
    latency(None, &trial.latency.seconds, &mut found);
    for (group, seconds) in &trial.latency.groups {
        latency(Some(group), seconds, &mut found);
    }
    Ok(found)
}

fn read(folder: &TrialFolder, found: &mut Vec<FigureSecond>) -> Result<(), ReadError> {
    outcomes(&rows::read::<OutcomeSlot>(&folder.outcomes())?.items, found);
    rows::visit(&folder.attempts(), |row: Attempts| columns("attempts", &row, found))?;
    rows::visit(&folder.units(), |row: UnitSecond| columns("units", &row, found))?;
    rows::visit(&folder.messages(), |row: MessageSecond| columns("messages", &row, found))?;
    rows::visit(&folder.checks(), |row: CheckSecond| columns("checks", &row, found))?;
    rows::visit(&folder.generator(), |row: GeneratorSecond| columns("generator", &row, found))?;
    rows::visit(&folder.samples(), |row: Sample| {
        columns(if row.process.is_empty() { "host" } else { "process" }, &row, found);
    })?;
    rows::visit(&folder.programs(), |row: ProgramSample| columns("program", &row, found))?;
    rows::visit(&folder.metrics(), |row: Metric| found.push(of_target(&row)))?;
    Ok(())
}

/// Adds a figure for every number of a row. The row's texts and thread number become labels.
fn columns<T: Serialize>(prefix: &str, row: &T, found: &mut Vec<FigureSecond>) {
    let Ok(Value::Object(row)) = serde_json::to_value(row) else { return };
    let at_s = row.get("at_s").and_then(Value::as_f64).unwrap_or_default();
    let labels = LABELS.into_iter().filter_map(|name| match row.get(name) {
        Some(Value::String(text)) if !text.is_empty() => Some((name, text.clone())),
        Some(Value::Number(number)) if name == "thread" => Some((name, number.to_string())),
        _ => None,
    });
    let labels: Vec<(&'static str, String)> = labels.collect();
    for (column, value) in &row {
        let is_label = labels.iter().any(|(label, _)| label == column);
        let Some(value) = value.as_f64().filter(|_| !is_label && !TIMES.contains(&column.as_str())) else { continue };
        let is_count = COUNTS.contains(&column.as_str());
        found.push(FigureSecond {
            at_s,
            name: if column == "count" { prefix.to_owned() } else { format!("{prefix}_{column}") },
            labels: labels.clone(),
            own_labels: String::new(),
            value,
            kind: if is_count { FigureKind::Count } else { FigureKind::Gauge },
        });
    }
}

/// Adds the number of operations that ended in each second, by outcome.
fn outcomes(slots: &[OutcomeSlot], found: &mut Vec<FigureSecond>) {
    let mut seconds: BTreeMap<i64, [u64; 4]> = BTreeMap::new();
    for slot in slots {
        // A slot may begin slightly before the second that it belongs to, so its middle counts.
        let counts = seconds.entry((slot.at_s + slot.slot_s / 2.0).floor() as i64).or_default();
        for (sum, count) in counts.iter_mut().zip([slot.ok, slot.failed, slot.timeout, slot.wrong]) {
            *sum += u64::from(count);
        }
    }
    for (second, counts) in seconds {
        for (outcome, count) in ["ok", "failed", "timeout", "wrong"].into_iter().zip(counts) {
            found.push(FigureSecond {
                at_s: (second + 1) as f64,
                name: "operations".to_owned(),
                labels: vec![("outcome", outcome.to_owned())],
                own_labels: String::new(),
                value: count as f64,
                kind: FigureKind::Count,
            });
        }
    }
}

/// Adds the latency quantiles of the `ok` operations of each second. Leaves out quantiles for which
/// there are too few operations.
fn latency(group: Option<&str>, seconds: &[LatencySecond], found: &mut Vec<FigureSecond>) {
    for second in seconds {
        let quantiles = [
            ("0.5", second.p50_us),
            ("0.9", second.p90_us),
            ("0.95", second.p95_us),
            ("0.99", second.p99_us),
            ("1", second.max_us),
        ];
        for (quantile, value) in quantiles.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            let group = group.map(|group| ("group", group.to_owned()));
            found.push(FigureSecond {
                at_s: second.at_s + second.length_s,
                name: "latency_us".to_owned(),
                labels: group.into_iter().chain([("quantile", quantile.to_owned())]).collect(),
                own_labels: String::new(),
                value,
                kind: FigureKind::Gauge,
            });
        }
    }
}

/// Returns a figure that the target reports.
fn of_target(row: &Metric) -> FigureSecond {
    let (name, labels) = row.parts();
    let counter = row.kind() == MetricKind::Counter;
    FigureSecond {
        at_s: row.at_s,
        name: format!("target_{name}"),
        labels: vec![("host", row.host.clone())],
        own_labels: labels.trim_start_matches('{').trim_end_matches('}').to_owned(),
        value: row.value,
        kind: if counter { FigureKind::Counter } else { FigureKind::Gauge },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(found: &[FigureSecond]) -> Vec<(&str, f64, f64)> {
        found.iter().map(|one| (one.name.as_str(), one.at_s, one.value)).collect()
    }

    #[test]
    fn slots_are_added_up_by_second() {
        let slot = |at_s, ok, failed| OutcomeSlot { at_s, slot_s: 0.01, ok, failed, ..OutcomeSlot::default() };
        let mut found = Vec::new();
        outcomes(&[slot(0.5, 3, 0), slot(0.9899999, 4, 1), slot(0.9999999, 5, 0), slot(7.0, 1, 0)], &mut found);
        found.retain(|one| one.value > 0.0);
        let operations = "operations";
        assert_eq!(
            values(&found),
            [(operations, 1.0, 7.0), (operations, 1.0, 1.0), (operations, 2.0, 5.0), (operations, 8.0, 1.0)]
        );
    }

    #[test]
    fn numbers_become_figures_and_texts_become_labels() {
        let mut found = Vec::new();
        let row = Attempts { at_s: 2.0, operation: "get".into(), result: "status 503".into(), count: 7 };
        columns("attempts", &row, &mut found);
        assert_eq!(values(&found), [("attempts", 2.0, 7.0)]);
        assert_eq!(found[0].labels, [("operation", "get".to_owned()), ("result", "status 503".to_owned())]);
        assert_eq!(found[0].kind, FigureKind::Count);
        found.clear();
        let row = Sample { at_s: 3.0, host: "n1".into(), rss_bytes: Some(9), ..Sample::default() };
        columns("host", &row, &mut found);
        assert_eq!(values(&found), [("host_rss_bytes", 3.0, 9.0)], "what was not measured has no row");
        found.clear();
        columns("generator", &GeneratorSecond { thread: 1, operations: 5, ..GeneratorSecond::default() }, &mut found);
        assert!(found.iter().all(|one| one.labels == [("thread", "1".to_owned())]));
        assert!(!found.iter().any(|one| one.name.ends_with("thread") || one.name.ends_with("interval_s")));
    }

    #[test]
    fn every_count_is_a_column() {
        let (mut found, sample) = (Vec::new(), serde_json::to_value(Sample::default()).unwrap());
        for value in [
            sample,
            serde_json::to_value(GeneratorSecond::default()).unwrap(),
            serde_json::to_value(Attempts::default()).unwrap(),
            serde_json::to_value(CheckSecond::default()).unwrap(),
        ] {
            found.extend(value.as_object().unwrap().keys().cloned());
        }
        for count in COUNTS {
            assert!(found.iter().any(|column| column == count), "{count}");
        }
    }
}
