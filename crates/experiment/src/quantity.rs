//! Parser of sizes and rates with a unit, such as "1GiB", "100mbit" or "20MB/s", and of bounds in
//! the unit of a metric.

use text::numbers::FigureUnit;

use crate::duration;

/// Kind of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Bytes.
    Size,
    /// Network rate, bits/s.
    BitRate,
    /// Disk rate, bytes/s.
    ByteRate,
}

/// Maximum value, so that a number of bytes fits into 64 bits.
const LARGEST: f64 = 1e18;

/// Bytes of each unit.
const BYTES: [(&str, f64); 9] = [
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
];

/// Bits/s of each unit, in lower case as in `tc`. Case is ignored, because `m` cannot mean
/// thousandths of a bit.
const BITS: [(&str, f64); 4] = [("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];

/// The reason why a text is not a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The number has no unit.
    #[error("the unit is missing")]
    NoUnit,
    /// The unit is not one of this quantity's units.
    #[error("unknown unit")]
    UnknownUnit,
    /// The value is 0 or below.
    #[error("it must be above 0")]
    NotPositive,
    /// The value is above the maximum.
    #[error("the value is too large")]
    TooLarge,
    /// The text is not a number.
    #[error("not a number")]
    NotANumber,
}

impl Quantity {
    /// Returns a description for hints.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Size => "a size such as \"1GiB\"",
            Self::BitRate => "a rate such as \"100mbit\"",
            Self::ByteRate => "a rate such as \"20MB/s\"",
        }
    }

    /// Returns the names of the units, for messages.
    #[must_use]
    pub fn units(self) -> &'static str {
        match self {
            Self::Size => "B, kB, MB, GB, TB, KiB, MiB, GiB and TiB",
            Self::BitRate => "bit, kbit, mbit and gbit, each per second",
            Self::ByteRate => "B/s, kB/s, MB/s, GB/s, KiB/s, MiB/s and GiB/s",
        }
    }

    /// Returns the regular expression of valid texts, for the schema.
    pub(crate) fn pattern(self) -> &'static str {
        match self {
            Self::Size => r"^\s*[0-9]+(\.[0-9]*)?\s*([kMGT]?B|[KMGT]iB)\s*$",
            Self::BitRate => r"^\s*[0-9]+(\.[0-9]*)?\s*[kKmMgG]?bit(/s)?\s*$",
            Self::ByteRate => r"^\s*[0-9]+(\.[0-9]*)?\s*([kMGT]?B|[KMGT]iB)/s\s*$",
        }
    }

    /// Parses a text. Returns bytes, bits/s or bytes/s.
    pub fn parse(self, text: &str) -> Result<f64, QuantityError> {
        let text = text.trim();
        let unit_at = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_at);
        let number: f64 = number.parse().map_err(|_| QuantityError::NotANumber)?;
        let unit = unit.trim();
        if unit.is_empty() {
            return Err(QuantityError::NoUnit);
        }
        let value = number * self.unit(unit).ok_or(QuantityError::UnknownUnit)?;
        match value {
            _ if value <= 0.0 => Err(QuantityError::NotPositive),
            _ if value > LARGEST => Err(QuantityError::TooLarge),
            _ => Ok(value),
        }
    }

    fn unit(self, unit: &str) -> Option<f64> {
        let of = |units: &[(&str, f64)], name: &str| units.iter().find(|(known, _)| *known == name).map(|(_, of)| *of);
        match self {
            Self::Size => of(&BYTES, unit),
            Self::ByteRate => of(&BYTES, unit.strip_suffix("/s")?),
            Self::BitRate => of(&BITS, &unit.strip_suffix("/s").unwrap_or(unit).to_ascii_lowercase()),
        }
    }
}

/// Formats a size: `1GiB`, `512MiB`, `1.5GiB`.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub fn show_bytes(bytes: u64) -> String {
    show(bytes as f64, &[BYTES[0], BYTES[5], BYTES[6], BYTES[7], BYTES[8]])
}

/// Formats a rate of a network: `100mbit`.
#[must_use]
pub fn show_bits_per_s(bits_per_s: f64) -> String {
    show(bits_per_s, &BITS)
}

/// Formats a rate of a disk: `20MB/s`.
#[must_use]
pub fn show_bytes_per_s(bytes_per_s: f64) -> String {
    format!("{}/s", show(bytes_per_s, &BYTES[..5]))
}

/// Formats a value in the largest unit that does not exceed the value, with at most two decimals.
fn show(value: f64, units: &[(&str, f64)]) -> String {
    let (unit, of) =
        units.iter().rev().find(|(_, of)| value >= *of).or_else(|| units.first()).copied().unwrap_or(("", 1.0));
    format!("{}{unit}", (value / of * 100.0).round() / 100.0)
}

/// Parses a bound for a metric: "50ms" for `latency_us.p99`, "5MB", "0.1%", "10k". Returns the
/// value in the metric's unit.
///
/// # Errors
/// A description of valid values.
pub fn parse_figure(text: &str, unit: FigureUnit) -> Result<f64, &'static str> {
    let (parsed, words) = match unit {
        FigureUnit::Bytes => (Quantity::Size.parse(text).ok(), "a size such as \"5MB\", or a number of bytes"),
        FigureUnit::BytesPerSecond => {
            (Quantity::ByteRate.parse(text).ok(), "a rate such as \"20MB/s\", or a number of bytes per second")
        }
        FigureUnit::Micros => {
            // Rounds to whole nanoseconds, so that "0.3ms" is exactly 300.
            let us = duration::parse_s(text).ok().map(|seconds| (seconds * 1e9).round() / 1e3);
            (us, "a duration such as \"50ms\", or a number of microseconds")
        }
        FigureUnit::Millis => {
            let ms = duration::parse_s(text).ok().map(|seconds| (seconds * 1e9).round() / 1e6);
            (ms, "a duration such as \"50ms\", or a number of milliseconds")
        }
        FigureUnit::Seconds => (duration::parse_s(text).ok(), "a duration such as \"50ms\", or a number of seconds"),
        FigureUnit::Percent => {
            let pct = text.trim().strip_suffix('%').and_then(|number| number.trim_end().parse().ok());
            (pct, "a share such as \"0.1%\", or a number of percent")
        }
        FigureUnit::PerSecond => {
            let number = text.trim();
            let bare = ["/s", "rps"].iter().find_map(|unit| number.strip_suffix(unit)).map(str::trim_end);
            let rate = bare.and_then(|bare| bare.parse().ok()).or_else(|| in_thousands(bare.unwrap_or(number)));
            (rate, "a rate such as \"10k/s\", or a number per second")
        }
        FigureUnit::Count | FigureUnit::Joules | FigureUnit::Ratio | FigureUnit::Watts => {
            (in_thousands(text), "a number, such as 10000 or \"10k\"")
        }
    };
    parsed.filter(|figure: &f64| figure.is_finite()).ok_or(words)
}

/// Parses `10k` or `1.5M`.
fn in_thousands(text: &str) -> Option<f64> {
    let text = text.trim();
    let (number, factor) = [("k", 1e3), ("M", 1e6), ("G", 1e9)]
        .into_iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    number.trim_end().parse::<f64>().ok().map(|number| number * factor)
}

#[cfg(test)]
mod tests {
    use text::numbers::FigureUnit;

    use super::{Quantity, QuantityError, parse_figure};
    use super::{show_bits_per_s, show_bytes, show_bytes_per_s};

    #[test]
    fn every_kind_of_unit() {
        for (text, bytes) in
            [("1GiB", 1_073_741_824.0), ("512 MiB", 536_870_912.0), ("1.5kB", 1500.0), ("32GB", 3.2e10), ("7B", 7.0)]
        {
            assert_eq!(Quantity::Size.parse(text), Ok(bytes), "{text}");
        }
        for (text, bits) in [("100mbit", 1e8), ("1Gbit/s", 1e9), ("2.5 gbit", 2.5e9), ("9600bit", 9600.0)] {
            assert_eq!(Quantity::BitRate.parse(text), Ok(bits), "{text}");
        }
        for (text, bytes) in [("20MB/s", 2e7), ("1MiB/s", 1_048_576.0)] {
            assert_eq!(Quantity::ByteRate.parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn invalid_quantities_are_refused() {
        assert_eq!(Quantity::Size.parse("1024"), Err(QuantityError::NoUnit));
        assert_eq!(Quantity::Size.parse("0MiB"), Err(QuantityError::NotPositive));
        assert_eq!(Quantity::Size.parse("-1MiB"), Err(QuantityError::NotPositive));
        assert_eq!(Quantity::Size.parse("9999999999TB"), Err(QuantityError::TooLarge));
        assert_eq!(Quantity::Size.parse("much"), Err(QuantityError::NotANumber));
        // Bits, bytes and thousandths look alike, so ambiguous units are refused.
        assert_eq!(Quantity::Size.parse("1Mb"), Err(QuantityError::UnknownUnit));
        assert_eq!(Quantity::Size.parse("1MB/s"), Err(QuantityError::UnknownUnit));
        assert_eq!(Quantity::ByteRate.parse("1MB"), Err(QuantityError::UnknownUnit));
        assert_eq!(Quantity::BitRate.parse("100MB/s"), Err(QuantityError::UnknownUnit));
        assert_eq!(Quantity::BitRate.parse("100m"), Err(QuantityError::UnknownUnit));
    }

    #[test]
    fn figures_are_converted_to_the_metrics_unit() {
        for (metric, text, value) in [
            ("latency_us.p99", "50ms", 50_000.0),
            ("latency_us.p99", "0.3ms", 300.0),
            ("latency_us.p99", "1.5 s", 1.5e6),
            ("faults.oops.outage.back_to_baseline_s", "250ms", 0.25),
            ("hosts.rss_max_bytes", "5MB", 5e6),
            ("throughput.received_bytes_per_s", "20MB/s", 2e7),
            ("failed_pct", "0.1%", 0.1),
            ("failed_pct", "0.1 %", 0.1),
            ("throughput.operations_per_s", "10k", 10_000.0),
            ("throughput.operations_per_s", "10k/s", 10_000.0),
            ("throughput.operations_per_s", "500 rps", 500.0),
            ("outcomes.failed", "2M", 2e6),
            ("crossing(a, b, load.rate)", "1.5k", 1_500.0),
        ] {
            assert_eq!(parse_figure(text, FigureUnit::of(metric)), Ok(value), "{metric} {text}");
        }
        for (metric, text, words) in [
            ("latency_us.p99", "50", "microseconds"),
            ("latency_us.p99", "5MB", "\"50ms\""),
            ("failed_pct", "0.1", "percent"),
            ("throughput.operations_per_s", "10ms", "per second"),
            ("throughput.operations_per_s", "10", "\"10k/s\""),
            ("outcomes.failed", "many", "a number"),
            ("outcomes.failed", "infk", "a number"),
        ] {
            let refused = parse_figure(text, FigureUnit::of(metric)).unwrap_err();
            assert!(refused.contains(words), "{metric} {text}: {refused}");
        }
    }

    #[test]
    fn shown_as_written() {
        assert_eq!([1 << 30, 512 << 20, 3 << 29, 7, 0].map(show_bytes), ["1GiB", "512MiB", "1.5GiB", "7B", "0B"]);
        assert_eq!([1e8, 1e9, 2.5e9, 1234.0].map(show_bits_per_s), ["100mbit", "1gbit", "2.5gbit", "1.23kbit"]);
        assert_eq!([2e7, 1.819e6].map(show_bytes_per_s), ["20MB/s", "1.82MB/s"]);
    }
}
