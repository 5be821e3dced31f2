//! Durations: parser and formatter of numbers with units, such as "1.5s" or "1m30s".

/// Units from the shortest to the longest, each with its length in seconds.
const UNITS: [(&str, f64); 5] = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// Maximum duration: a year, so that arithmetic in `f64` keeps milliseconds exact.
const SECONDS_MAX: f64 = 366.0 * 24.0 * 3600.0;

/// The reason why a text is not a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The number has no unit.
    #[error("the unit is missing")]
    NoUnit,
    /// The unit is unknown.
    #[error("unknown unit of time; expected us, ms, s, m or h")]
    UnknownUnit,
    /// The duration is below 0.
    #[error("a duration cannot be negative")]
    Negative,
    /// The duration is longer than a year.
    #[error("a duration is at most a year")]
    TooLong,
    /// The text is not a number with a unit.
    #[error("not a duration")]
    NotANumber,
}

/// Parses a text such as `"250us"`, `"1.5s"`, `"3m"` or `"1m30s"`. Returns seconds.
pub fn parse_s(text: &str) -> Result<f64, DurationError> {
    let mut rest = text.trim();
    let (mut seconds, mut last_unit_s) = (0.0, f64::INFINITY);
    loop {
        let (part, unit_s, behind) = first_part(rest)?;
        // Longer units must come first, and only the first part may have a sign.
        if unit_s >= last_unit_s || (last_unit_s.is_finite() && rest.starts_with(['-', '+'])) {
            return Err(DurationError::NotANumber);
        }
        seconds += part;
        (rest, last_unit_s) = (behind, unit_s);
        if rest.is_empty() {
            break;
        }
    }
    if seconds > SECONDS_MAX { Err(DurationError::TooLong) } else { Ok(seconds) }
}

/// Parses the first number with its unit. Returns the value in seconds, the unit's length in
/// seconds, and the rest of the text.
fn first_part(text: &str) -> Result<(f64, f64, &str), DurationError> {
    let unit_at = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(text.len());
    let (number, rest) = text.split_at(unit_at);
    let number: f64 = number.parse().map_err(|_| DurationError::NotANumber)?;
    let rest = rest.trim_start();
    let (unit, behind) = rest.split_at(rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len()));
    if unit.is_empty() {
        return Err(DurationError::NoUnit);
    }
    let unit = unit.trim_end();
    let (_, unit_s) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or(DurationError::UnknownUnit)?;
    if number < 0.0 {
        return Err(DurationError::Negative);
    }
    // Dividing by a whole number of parts keeps "50ms" exactly 0.05.
    let seconds = if unit_s < 1.0 { number / (1.0 / unit_s).round() } else { number * unit_s };
    Ok((seconds, unit_s, behind))
}

/// Formats a time: `50ms`, `1.5s`, `3m`, `1m30s`.
#[must_use]
pub fn show(seconds: f64) -> String {
    let whole = seconds.round();
    if seconds >= 60.0 && (seconds - whole).abs() < 1e-9 {
        let (hours, minutes, rest) = (whole / 3600.0, (whole % 3600.0) / 60.0, whole % 60.0);
        let parts = [(hours.floor(), "h"), (minutes.floor(), "m"), (rest, "s")];
        return parts.iter().filter(|(count, _)| *count > 0.0).map(|(count, unit)| format!("{count}{unit}")).collect();
    }
    let (unit, unit_s) =
        UNITS[..3].iter().rev().find(|(_, unit_s)| seconds >= *unit_s * 0.999_999).copied().unwrap_or(("s", 1.0));
    let count = (seconds / unit_s * 1000.0).round() / 1000.0;
    format!("{count}{unit}")
}

#[cfg(test)]
mod tests {
    use super::{DurationError, parse_s, show};

    #[test]
    fn every_unit() {
        for (text, seconds) in [
            ("250us", 0.000_25),
            ("50ms", 0.05),
            ("1.5s", 1.5),
            ("3m", 180.0),
            ("2h", 7200.0),
            ("0s", 0.0),
            ("5 s", 5.0),
            ("1m30s", 90.0),
            ("1m 30s", 90.0),
            ("1h0m0.5s", 3600.5),
            ("1s500ms", 1.5),
        ] {
            assert_eq!(parse_s(text), Ok(seconds), "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_refused() {
        assert_eq!(parse_s("30"), Err(DurationError::NoUnit));
        assert_eq!(parse_s("30 sec"), Err(DurationError::UnknownUnit));
        assert_eq!(parse_s("-5s"), Err(DurationError::Negative));
        assert_eq!(parse_s("soon"), Err(DurationError::NotANumber));
        assert_eq!(parse_s(""), Err(DurationError::NotANumber));
        assert_eq!(parse_s("9999999h"), Err(DurationError::TooLong));
        for text in ["1m30", "30s1m", "1s1s", "1m-3s", "1m 3", "1m30parsecs"] {
            assert!(parse_s(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shown_as_written() {
        for text in ["250us", "50ms", "1.5s", "3m", "2h", "1m30s", "0s", "10s", "1h5s"] {
            assert_eq!(show(parse_s(text).unwrap_or(-1.0)), text);
        }
    }
}
