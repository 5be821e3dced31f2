//! Figures of each second in the text format of OpenMetrics 1.0, with their times, as input for
//! `promtool tsdb create-blocks-from openmetrics`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::csv_table::verdict;
use super::seconds::{FigureKind, began_unix_s};
use super::{ExportedTrial, FigureSecond};
use crate::exit::Failure;
use crate::output;

/// Prefix of every family's name.
const PREFIX: &str = "plimsoll_";
/// Suffix of the names of a counter's samples. The family's name does not have it.
const TOTAL: &str = "_total";

/// Help texts of the families. The key is the start of a family's name after [`PREFIX`].
const HELP: [(&str, &str); 11] = [
    ("attempts", "Attempts that ended, by operation and result"),
    ("operations", "Operations that ended, by outcome"),
    (
        "latency_us",
        "Latency of ok operations that ended in the second before, in microseconds; quantile 1 is the largest",
    ),
    ("units", "Units of work of ok operations, or parts of their answers by status"),
    ("messages", "Messages of streams, whatever the outcome of their operations"),
    ("generator_", "The load generator, by thread: column of generator.csv"),
    ("host_", "A host: column of samples.csv"),
    ("process_", "A process of the target, or the generator: column of samples.csv"),
    ("program_", "A program of a process: column of programs.csv"),
    ("target_", "A metric that the target publishes"),
    ("", "A figure of the run"),
];

/// Families by name, each with its series by labels.
#[derive(Debug, Default)]
pub struct MetricFamilies(BTreeMap<String, MetricFamily>);

#[derive(Debug)]
struct MetricFamily {
    is_counter: bool,
    /// Unix time in seconds and value of each point, by labels.
    series: BTreeMap<String, Vec<(f64, f64)>>,
}

impl MetricFamilies {
    /// Adds the figures of a trial. A trial whose load never began has no times, so it is left out,
    /// with a message.
    pub fn add(&mut self, trial: &ExportedTrial<'_>, seconds: &[FigureSecond]) -> Result<(), Failure> {
        let Some(began) = began_unix_s(trial)? else {
            output::say(&format!("{}: trial {} is not exported: it has no load", trial.run, trial.trial.id));
            return Ok(());
        };
        let of_trial = of_trial(trial);
        for one in seconds {
            let is_counter = one.kind != FigureKind::Gauge;
            let mut name = name(&one.name);
            if is_counter {
                name.truncate(name.trim_end_matches(TOTAL).len());
            }
            let family = self.0.entry(name).or_insert_with(|| MetricFamily { is_counter, series: BTreeMap::new() });
            let mut labels = of_trial.clone();
            for (name, value) in &one.labels {
                labels.push_str(&text::metric_label(name, value));
            }
            if !one.own_labels.is_empty() {
                labels.push_str(&renamed(&one.own_labels));
            }
            let points = family.series.entry(labels).or_default();
            // Counts per second are added up, because a counter must be a total.
            let before = points.last().map_or(0.0, |(_, value)| *value);
            let value = if one.kind == FigureKind::Count { before + one.value } else { one.value };
            points.push((began + one.at_s, value));
        }
        Ok(())
    }

    /// Returns the text of all families.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, family) in &self.0 {
            let kind = if family.is_counter { "counter" } else { "gauge" };
            let short_name = name.strip_prefix(PREFIX).unwrap_or(name);
            let help = HELP.iter().find(|(begins, _)| short_name.starts_with(begins)).map_or("", |(_, help)| help);
            let total = if family.is_counter { TOTAL } else { "" };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "# TYPE {name} {kind}\n# HELP {name} {help}");
            for (labels, points) in &family.series {
                let labels = labels.trim_end_matches(',');
                let mut last = f64::NEG_INFINITY;
                for (at, value) in points {
                    // OpenMetrics does not allow two samples of a series at the same time.
                    if *at > last {
                        let _ = writeln!(text, "{name}{total}{{{labels}}} {value} {at:.3}");
                        last = *at;
                    }
                }
            }
        }
        text.push_str("# EOF\n");
        text
    }
}

/// Returns the labels that all figures of a trial have.
fn of_trial(trial: &ExportedTrial<'_>) -> String {
    let of = trial.trial;
    let mut labels = text::metric_label("run", &trial.run)
        + &text::metric_label("trial", &of.id)
        + &text::metric_label("verdict", verdict(of));
    labels.push_str(&text::metric_label("repeat", &of.repeat.to_string()));
    if let Some(variant) = &of.variant {
        labels.push_str(&text::metric_label("variant", variant));
    }
    for (path, value) in &of.point {
        labels.push_str(&text::metric_label(&format!("point_{path}"), &text::of_json(value)));
    }
    labels
}

/// Renames the target's own labels, so that they differ from Plimsoll's.
fn renamed(labels: &str) -> String {
    let mut renamed = String::new();
    let mut rest = labels;
    while let Some((name, value)) = rest.split_once("=\"") {
        let mut end = 0;
        let bytes = value.as_bytes();
        while end < bytes.len() && bytes[end] != b'"' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        let end = end.min(value.len());
        let Some(text) = value.get(..end) else { break };
        let _ = write!(renamed, "target_{}=\"{text}\",", text::metric_name(name.trim_matches([',', ' '])));
        rest = value.get(end + 1..).unwrap_or_default();
    }
    renamed
}

/// Returns the name of a family.
fn name(figure: &str) -> String {
    format!("{PREFIX}{}", text::metric_name(figure))
}

#[cfg(test)]
mod tests {
    use analysis::LatencySeries;
    use record::events::{Event, What};
    use record::folder::RunFolder;
    use record::lines::JsonLinesWriter;
    use record::results::Trial;

    use super::*;

    fn one(at_s: f64, name: &str, value: f64, kind: FigureKind) -> FigureSecond {
        FigureSecond {
            at_s,
            name: name.to_owned(),
            labels: vec![("result", "say \"no\"".to_owned())],
            own_labels: String::new(),
            value,
            kind,
        }
    }

    #[test]
    fn counts_are_summed_and_names_and_labels_are_valid() {
        let path = fixture::TestDir::new();
        let folder = RunFolder::at(&path);
        std::fs::create_dir_all(path.join("trials")).unwrap();
        let records = folder.create_trial("001").unwrap();
        let mut events = JsonLinesWriter::create(&records.events()).unwrap();
        events.write(&Event { at_s: 0.0, what: What::Clock { unix_s: 1000.5 } }).unwrap();
        events.flush().unwrap();
        let trial = Trial { id: "001".to_owned(), repeat: 2, ..Trial::default() };
        let latency = LatencySeries::default();
        let exported = ExportedTrial { run: "r".to_owned(), folder: &folder, trial: &trial, latency: &latency };
        let mut families = MetricFamilies::default();
        let own = FigureSecond {
            own_labels: "code=\"2\\\"00\",a-b=\"x\"".to_owned(),
            labels: Vec::new(),
            ..one(1.0, "target_http_requests_total", 5.0, FigureKind::Counter)
        };
        let seconds = [
            one(1.0, "attempts", 2.0, FigureKind::Count),
            one(2.0, "attempts", 3.0, FigureKind::Count),
            one(2.0, "host_load1", 0.5, FigureKind::Gauge),
            own,
        ];
        families.add(&exported, &seconds).unwrap_or_else(|failure| panic!("{failure}"));
        let of = "run=\"r\",trial=\"001\",verdict=\"valid\",repeat=\"2\"";
        let said = "result=\"say \\\"no\\\"\"";
        let text = families.text();
        for line in [
            "# TYPE plimsoll_attempts counter".to_owned(),
            format!("plimsoll_attempts_total{{{of},{said}}} 2 1001.500"),
            format!("plimsoll_attempts_total{{{of},{said}}} 5 1002.500"),
            "# TYPE plimsoll_host_load1 gauge".to_owned(),
            format!("plimsoll_host_load1{{{of},{said}}} 0.5 1002.500"),
            format!("plimsoll_target_http_requests_total{{{of},target_code=\"2\\\"00\",target_a_b=\"x\"}} 5 1001.500"),
        ] {
            assert!(text.lines().any(|one| one == line), "no `{line}` in\n{text}");
        }
        assert!(text.ends_with("\n# EOF\n") && text.matches("# TYPE").count() == 3, "{text}");
    }
}
