//! Figures as a table in CSV or Parquet. The table of seconds has a row for each figure and second.
//! The table of trials has a row for each trial and a column for each figure.

use std::collections::{BTreeMap, BTreeSet};

use record::results::{Trial, Trust};
use serde_json::Value;

use super::parquet::{ColumnValues, ParquetFile};
use super::seconds::{LABELS, began_unix_s};
use super::{ExportedTrial, FigureSecond};
use crate::exit::Failure;

/// Columns that identify the trial of a row.
const TRIAL: [&str; 6] = ["run", "trial", "variant", "point", "repeat", "verdict"];

/// Returns the header line of the table of seconds.
pub fn header_of_seconds() -> Result<String, Failure> {
    lines([fields_of_seconds().into_iter().map(|(name, _)| name).collect()])
}

/// Columns of numbers in the table of seconds. All other columns are texts.
const NUMBERS: [&str; 3] = ["at_s", "unix_s", "value"];

/// Returns the columns of the table of seconds: name, and whether the column has texts.
pub fn fields_of_seconds() -> Vec<(String, bool)> {
    let columns = TRIAL.into_iter().chain(["at_s", "unix_s", "figure"]).chain(LABELS).chain(["labels", "value"]);
    columns.map(|name| (name.to_owned(), !NUMBERS.contains(&name))).collect()
}

/// Returns a trial's rows of the table of seconds, by column.
pub fn columns_of_seconds(trial: &ExportedTrial<'_>, seconds: &[FigureSecond]) -> Result<Vec<ColumnValues>, Failure> {
    let began = began_unix_s(trial)?;
    let rows = seconds.iter();
    let mut columns: Vec<ColumnValues> =
        which(trial).map(|text| ColumnValues::Texts(vec![text; seconds.len()])).into_iter().collect();
    columns.push(ColumnValues::Numbers(rows.clone().map(|one| Some(one.at_s)).collect()));
    columns.push(ColumnValues::Numbers(rows.clone().map(|one| Some(began? + one.at_s)).collect()));
    columns.push(ColumnValues::Texts(rows.clone().map(|one| one.name.clone()).collect()));
    for name in LABELS {
        columns.push(ColumnValues::Texts(rows.clone().map(|one| one.label(name)).collect()));
    }
    columns.push(ColumnValues::Texts(rows.clone().map(|one| one.own_labels.clone()).collect()));
    columns.push(ColumnValues::Numbers(rows.map(|one| Some(one.value)).collect()));
    Ok(columns)
}

/// Returns a trial's rows of the table of seconds, as CSV.
pub fn rows_of_seconds(trial: &ExportedTrial<'_>, seconds: &[FigureSecond]) -> Result<String, Failure> {
    let began = began_unix_s(trial)?;
    let which = which(trial).map(|text| defused(&text));
    lines(seconds.iter().map(|one| {
        let unix_s = began.map_or_else(String::new, |began| format!("{:.3}", began + one.at_s));
        let mut row: Vec<String> = which.to_vec();
        row.extend([one.at_s.to_string(), unix_s, defused(&one.name)]);
        row.extend(LABELS.iter().map(|name| defused(&one.label(name))));
        row.extend([defused(&one.own_labels), one.value.to_string()]);
        row
    }))
}

/// Table of trials.
#[derive(Debug, Default)]
pub struct CsvTable {
    /// Figures that at least one trial has, in the order of first appearance.
    columns: Vec<String>,
    rows: Vec<([String; 6], BTreeMap<String, f64>)>,
}

impl CsvTable {
    pub fn add(&mut self, trial: &ExportedTrial<'_>) -> Result<(), Failure> {
        let mut figures = Vec::new();
        let value = serde_json::to_value(trial.trial).map_err(|error| Failure::Ours(error.to_string()))?;
        flatten(&value, "", &mut figures);
        for (path, _) in &figures {
            if !self.columns.contains(path) {
                self.columns.push(path.clone());
            }
        }
        self.rows.push((which(trial), figures.into_iter().collect()));
        Ok(())
    }

    /// Returns the whole table as Parquet.
    pub fn parquet(&self) -> Vec<u8> {
        let texts = TRIAL.iter().map(|name| ((*name).to_owned(), true));
        let fields = texts.chain(self.columns.iter().map(|path| (path.clone(), false)));
        let columns: Vec<ColumnValues> = (0..TRIAL.len())
            .map(|index| ColumnValues::Texts(self.rows.iter().map(|(which, _)| which[index].clone()).collect()))
            .chain(self.columns.iter().map(|path| {
                ColumnValues::Numbers(self.rows.iter().map(|(_, figures)| figures.get(path).copied()).collect())
            }))
            .collect();
        let mut file = ParquetFile::new(fields.collect());
        let mut bytes = if self.rows.is_empty() { Vec::new() } else { file.rows(&columns) };
        bytes.extend(file.end());
        bytes
    }

    /// Returns the whole table as CSV.
    pub fn text(&self) -> Result<String, Failure> {
        let header =
            TRIAL.into_iter().map(str::to_owned).chain(self.columns.iter().map(|name| defused(name))).collect();
        lines(std::iter::once(header).chain(self.rows.iter().map(|(which, figures)| {
            let figures = self.columns.iter().map(|path| figures.get(path).map_or_else(String::new, f64::to_string));
            which.iter().map(|text| defused(text)).chain(figures).collect()
        })))
    }
}

fn which(trial: &ExportedTrial<'_>) -> [String; 6] {
    let of = trial.trial;
    let variant = of.variant.clone().unwrap_or_default();
    [trial.run.clone(), of.id.clone(), variant, point(of), of.repeat.to_string(), verdict(of).to_owned()]
}

/// Formats the values of a trial's sweep as `load.agents=64 load.rate=100`.
fn point(trial: &Trial) -> String {
    trial.point.iter().map(|(path, value)| format!("{path}={}", text::of_json(value))).collect::<Vec<_>>().join(" ")
}

/// Returns the verdict as the results spell it.
pub fn verdict(trial: &Trial) -> &'static str {
    match trial.verdict.is {
        Trust::Valid => "valid",
        Trust::Suspect => "suspect",
        Trust::Void => "void",
    }
}

/// Fields of a trial's results that identify the trial, and are not figures.
const NO_FIGURES: [&str; 2] = ["point", "repeat"];

/// Collects every number of a JSON value with its path, which is the metric's name. In a path, a
/// list's element is its name, or its index from 0.
fn flatten(value: &Value, path: &str, figures: &mut Vec<(String, f64)>) {
    let above = if path.is_empty() { String::new() } else { format!("{path}.") };
    match value {
        Value::Number(number) => figures.extend(number.as_f64().map(|number| (path.to_owned(), number))),
        Value::Object(fields) => {
            for (name, field) in fields {
                if !(path.is_empty() && NO_FIGURES.contains(&name.as_str())) {
                    flatten(field, &format!("{above}{name}"), figures);
                }
            }
        }
        Value::Array(elements) => {
            let mut names = BTreeSet::new();
            for (index, element) in elements.iter().enumerate() {
                let name = element.get("name").and_then(Value::as_str).filter(|name| names.insert(*name));
                let step = name.map_or_else(|| index.to_string(), str::to_owned);
                flatten(element, &format!("{above}{step}"), figures);
            }
        }
        _ => {}
    }
}

/// Puts a quote before a text that a spreadsheet would read as a formula.
fn defused(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{text}") } else { text.to_owned() }
}

fn lines(rows: impl IntoIterator<Item = Vec<String>>) -> Result<String, Failure> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(&row).map_err(|error| Failure::Ours(error.to_string()))?;
    }
    let bytes = writer.into_inner().map_err(|error| Failure::Ours(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| Failure::Ours(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flattened_paths_match_metric_paths() {
        let value = serde_json::json!({
            "point": { "load.agents": 8 }, "repeat": 1, "id": "001", "failed_pct": null,
            "latency_us": { "p50": 5.0 }, "measured_s": [1.0, 2.0],
            "faults": [{ "name": "oops", "number": 1 }, { "name": "oops", "number": 2 }],
        });
        let mut figures = Vec::new();
        flatten(&value, "", &mut figures);
        let found: Vec<(&str, f64)> = figures.iter().map(|(path, value)| (path.as_str(), *value)).collect();
        assert_eq!(
            found,
            [
                ("latency_us.p50", 5.0),
                ("measured_s.0", 1.0),
                ("measured_s.1", 2.0),
                ("faults.oops.number", 1.0),
                ("faults.1.number", 2.0)
            ]
        );
    }

    #[test]
    fn text_that_looks_like_a_formula_is_defused() {
        for text in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"] {
            assert_eq!(defused(text), format!("'{text}"));
        }
        assert_eq!((defused("a=1"), defused("load.rate=-1")), ("a=1".to_owned(), "load.rate=-1".to_owned()));
    }

    #[test]
    fn cells_with_commas_quotes_and_newlines_are_quoted() {
        let text = lines([vec!["a,b".to_owned(), "say \"x\"\nand".to_owned()]]).unwrap_or_default();
        assert_eq!(text, "\"a,b\",\"say \"\"x\"\"\nand\"\n");
    }
}
