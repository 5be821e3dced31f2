//! The arguments of a fault, read from an experiment's `with`: numbers, texts, quantities with their units; and what is
//! wrong with them. It must not know what they are for.

use std::collections::BTreeMap;

use experiment::catalog::Wrong;
use experiment::duration;
use serde_json::Value;

/// Units of a rate in bits/s.
const BIT_RATES: &[(&str, f64)] = &[("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
/// Units of a size in bytes.
const SIZES: &[(&str, f64)] = &[
    ("b", 1.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("tb", 1e12),
    ("kib", 1_024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
    ("tib", 1_099_511_627_776.0),
];

/// Reads one argument after the other and collects what is wrong.
pub(crate) struct Arguments<'a> {
    with: &'a BTreeMap<String, Value>,
    wrongs: Vec<Wrong>,
}

impl<'a> Arguments<'a> {
    pub fn new(with: &'a BTreeMap<String, Value>) -> Self {
        Self { with, wrongs: Vec::new() }
    }

    /// What was made of them, if nothing was wrong.
    pub fn finish<T>(self, made: T) -> Result<T, Vec<Wrong>> {
        if self.wrongs.is_empty() { Ok(made) } else { Err(self.wrongs) }
    }

    /// Something is wrong with one of them, or with all.
    pub fn refuse(&mut self, argument: Option<&'static str>, what: impl Into<String>, hint: &str) {
        self.wrongs.push(Wrong { argument, what: what.into(), hint: Some(hint.to_owned()) });
    }

    /// It as text.
    pub fn text(&self, name: &str) -> Option<String> {
        text(self.with, name)
    }

    /// One of the words, else the first.
    pub fn word(&mut self, name: &'static str, words: &[&'static str]) -> &'static str {
        let first = words.first().copied().unwrap_or_default();
        let Some(text) = self.text(name) else { return first };
        let found = words.iter().copied().find(|word| *word == text);
        found.unwrap_or_else(|| {
            self.refuse(Some(name), self.not(name, "one of them"), &format!("there are: {}", words.join(", ")));
            first
        })
    }

    /// A number above `above` and at most `most`; a text may end in `%`.
    pub fn number(&mut self, name: &'static str, above: f64, most: f64) -> Option<f64> {
        let text = self.text(name)?;
        let number = text.trim().trim_end_matches('%').trim().parse().ok();
        let hint =
            if most.is_finite() { format!("above {above}, at most {most}") } else { format!("a number above {above}") };
        self.take(name, number.filter(|number| *number > above && *number <= most), "possible", &hint)
    }

    /// Bits/s: `"10mbit"`.
    pub fn bits_per_s(&mut self, name: &'static str) -> Option<f64> {
        let text = self.text(name)?;
        let rate = quantity(text.trim_end_matches("/s"), BIT_RATES).filter(|rate| *rate > 0.0);
        self.take(name, rate, "a rate", "such as \"10mbit\"; there are bit, kbit, mbit and gbit")
    }

    /// Bytes/s: `"20MB/s"`.
    pub fn bytes_per_s(&mut self, name: &'static str) -> Option<f64> {
        let text = self.text(name)?;
        let rate = text.strip_suffix("/s").and_then(|text| quantity(text, SIZES)).filter(|rate| *rate > 0.0);
        self.take(name, rate, "a rate", "such as \"20MB/s\" or \"16MiB/s\"")
    }

    /// Bytes: `"512MiB"`.
    pub fn bytes(&mut self, name: &'static str) -> Option<u64> {
        let text = self.text(name)?;
        let size = quantity(&text, SIZES).filter(|bytes| *bytes <= 1e18);
        self.take(name, size, "a size", "such as \"512MiB\" or \"2GB\"").map(|bytes| bytes.round() as u64)
    }

    /// Seconds of a duration: `"500ms"`.
    pub fn seconds(&mut self, name: &'static str) -> Option<f64> {
        let text = self.text(name)?;
        match duration::parse_s(&text) {
            Ok(seconds) => Some(seconds),
            Err(error) => {
                self.refuse(Some(name), self.not(name, "a duration"), &error.to_string());
                None
            }
        }
    }

    /// Seconds of a duration that may be negative: `"-5s"`.
    pub fn signed_seconds(&mut self, name: &'static str) -> Option<f64> {
        let text = self.text(name)?;
        let (sign, rest) = match text.trim().strip_prefix('-') {
            Some(rest) => (-1.0, rest),
            None => (1.0, text.trim().trim_start_matches('+')),
        };
        let seconds = duration::parse_s(rest).ok().map(|seconds| sign * seconds);
        self.take(name, seconds, "a duration", "such as \"5s\", or \"-5s\" for a clock that is behind")
    }

    fn take<T>(&mut self, name: &'static str, value: Option<T>, kind: &str, hint: &str) -> Option<T> {
        if value.is_none() {
            self.refuse(Some(name), self.not(name, kind), hint);
        }
        value
    }

    fn not(&self, name: &str, kind: &str) -> String {
        let value = self.with.get(name).map(ToString::to_string).unwrap_or_default();
        format!("`{name} = {value}` is not {kind}")
    }
}

/// An argument as text.
pub(crate) fn text(with: &BTreeMap<String, Value>, name: &str) -> Option<String> {
    with.get(name).map(|value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

/// A number and its unit; upper and lower case are one.
fn quantity(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let at = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let (number, unit) = text.split_at(at);
    let unit = unit.trim().to_ascii_lowercase();
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<f64>().ok().map(|number| number * factor)
}

#[cfg(test)]
mod tests;
