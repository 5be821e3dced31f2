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
mod tests {
    use super::*;

    fn with(value: impl Into<Value>) -> BTreeMap<String, Value> {
        BTreeMap::from([("x".to_owned(), value.into())])
    }

    /// The value, or what is wrong with it.
    fn read<T>(value: impl Into<Value>, read: impl Fn(&mut Arguments<'_>) -> T) -> Result<T, String> {
        let with = with(value);
        let mut arguments = Arguments::new(&with);
        let made = read(&mut arguments);
        arguments.finish(made).map_err(|wrongs| wrongs[0].what.clone())
    }

    #[test]
    fn quantities_have_units() {
        let bits = |text: &str| read(text, |arguments| arguments.bits_per_s("x"));
        assert_eq!(bits("10mbit"), Ok(Some(1e7)));
        assert_eq!(bits("1.5 Gbit/s"), Ok(Some(1.5e9)));
        assert_eq!(bits("fast").unwrap_err(), "`x = \"fast\"` is not a rate");
        for bad in ["10", "10mb", "0mbit", "mbit", "", "1.2.3mbit", "-1mbit"] {
            assert!(bits(bad).is_err(), "{bad}");
        }
        let bytes = |text: &str| read(text, |arguments| arguments.bytes("x"));
        assert_eq!(
            (bytes("512MiB"), bytes("0B"), bytes("2GB")),
            (Ok(Some(512 << 20)), Ok(Some(0)), Ok(Some(2_000_000_000)))
        );
        assert!(bytes("512").is_err() && bytes("9999999999TiB").is_err());
        let rate = |text: &str| read(text, |arguments| arguments.bytes_per_s("x"));
        assert_eq!(rate("20MB/s"), Ok(Some(2e7)));
        assert!(rate("20MB").is_err());
    }

    #[test]
    fn a_bare_number_is_no_quantity() {
        assert_eq!(read(10, |arguments| arguments.bits_per_s("x")).unwrap_err(), "`x = 10` is not a rate");
        assert_eq!(read(10, |arguments| arguments.seconds("x")).unwrap_err(), "`x = 10` is not a duration");
    }

    #[test]
    fn numbers_have_bounds() {
        let number = |value: Value| read(value, |arguments| arguments.number("x", 0.0, 100.0));
        assert_eq!(
            (number(5.into()), number("5%".into()), number(100.into())),
            (Ok(Some(5.0)), Ok(Some(5.0)), Ok(Some(100.0)))
        );
        for bad in [Value::from(0), 101.into(), "much".into(), "NaN".into(), "-1".into()] {
            assert!(number(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn offsets_may_be_negative() {
        let offset = |text: &str| read(text, |arguments| arguments.signed_seconds("x"));
        assert_eq!((offset("-5s"), offset("250ms"), offset("+1m")), (Ok(Some(-5.0)), Ok(Some(0.25)), Ok(Some(60.0))));
        assert!(offset("--5s").is_err() && offset("5").is_err());
    }

    #[test]
    fn words_are_listed() {
        let word = |text: &str| read(text, |arguments| arguments.word("x", &["halves", "ring"]));
        assert_eq!(word("ring"), Ok("ring"));
        let with = with("rings");
        let mut arguments = Arguments::new(&with);
        assert_eq!(
            (arguments.word("y", &["halves", "ring"]), arguments.word("x", &["halves", "ring"])),
            ("halves", "halves")
        );
        let wrongs = arguments.finish(()).unwrap_err();
        assert_eq!(wrongs[0].argument, Some("x"));
        assert_eq!(wrongs[0].hint.as_deref(), Some("there are: halves, ring"));
    }
}
