//! The arguments of a fault, read from an experiment's `with`: numbers, texts, quantities with their units; and what is
//! wrong with them. It must not know what they are for.

use std::collections::BTreeMap;

use experiment::catalog::Wrong;
use experiment::duration;
use experiment::quantity::Quantity;
use serde_json::Value;

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
        self.quantity(name, Quantity::BitRate)
    }

    /// Bytes/s: `"20MB/s"`.
    pub fn bytes_per_s(&mut self, name: &'static str) -> Option<f64> {
        self.quantity(name, Quantity::ByteRate)
    }

    /// Bytes: `"512MiB"`.
    pub fn bytes(&mut self, name: &'static str) -> Option<u64> {
        // Nothing at all is a size here: so much may be left of a disk.
        if self.text(name).is_some_and(|text| text.trim() == "0B") {
            return Some(0);
        }
        self.quantity(name, Quantity::Size).map(|bytes| bytes.round() as u64)
    }

    fn quantity(&mut self, name: &'static str, quantity: Quantity) -> Option<f64> {
        let value = quantity.parse(&self.text(name)?).ok();
        let (kind, _) = quantity.words().split_once(" such as").unwrap_or((quantity.words(), ""));
        self.take(name, value, kind, &format!("{}; there are {}", quantity.words(), quantity.units()))
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

#[cfg(test)]
mod tests;
