//! Types of `google/protobuf`, which need no file, and their own forms in JSON.

use super::proto_text;
use super::types::ProtoFile;

/// A type with a form of its own in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WellKnown {
    Any,
    /// `2024-02-29T12:30:00.5Z`.
    Timestamp,
    /// `1.5s`.
    Duration,
    /// `user.displayName,photo`.
    FieldMask,
    /// An object with any content.
    Struct,
    /// Any JSON.
    Value,
    /// An array with any content.
    ListValue,
    /// A scalar that may be absent.
    Wrapper,
}

impl WellKnown {
    /// Returns the form of the type with this complete name, if it has its own.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name.strip_prefix("google.protobuf.")? {
            "Any" => Self::Any,
            "Timestamp" => Self::Timestamp,
            "Duration" => Self::Duration,
            "FieldMask" => Self::FieldMask,
            "Struct" => Self::Struct,
            "Value" => Self::Value,
            "ListValue" => Self::ListValue,
            "DoubleValue" | "FloatValue" | "Int64Value" | "UInt64Value" | "Int32Value" | "UInt32Value"
            | "BoolValue" | "StringValue" | "BytesValue" => Self::Wrapper,
            _ => return None,
        })
    }
}

/// The files, by the names by which they are imported.
const FILES: [(&str, &str); 7] = [
    ("any", "message Any { string type_url = 1; bytes value = 2; }"),
    ("duration", "message Duration { int64 seconds = 1; int32 nanos = 2; }"),
    ("empty", "message Empty {}"),
    ("field_mask", "message FieldMask { repeated string paths = 1; }"),
    (
        "struct",
        "message Struct { map<string, Value> fields = 1; }
        message Value { oneof kind {
            NullValue null_value = 1; double number_value = 2; string string_value = 3; bool bool_value = 4;
            Struct struct_value = 5; ListValue list_value = 6;
        } }
        enum NullValue { NULL_VALUE = 0; }
        message ListValue { repeated Value values = 1; }",
    ),
    ("timestamp", "message Timestamp { int64 seconds = 1; int32 nanos = 2; }"),
    (
        "wrappers",
        "message DoubleValue { double value = 1; } message FloatValue { float value = 1; }
        message Int64Value { int64 value = 1; } message UInt64Value { uint64 value = 1; }
        message Int32Value { int32 value = 1; } message UInt32Value { uint32 value = 1; }
        message BoolValue { bool value = 1; } message StringValue { string value = 1; }
        message BytesValue { bytes value = 1; }",
    ),
];

/// Returns the file of this name, if it is built in.
pub fn file(name: &str) -> Option<ProtoFile> {
    let stem = name.strip_prefix("google/protobuf/")?.strip_suffix(".proto")?;
    let (_, text) = FILES.iter().find(|(known, _)| *known == stem)?;
    proto_text::parse(name, &format!("syntax = \"proto3\"; package google.protobuf; {text}")).ok()
}

/// Returns seconds since 1970 and nanoseconds of a time in the form of RFC 3339.
pub fn timestamp(text: &str) -> Option<(i64, i32)> {
    let (date, rest) = text.split_once(['T', 't'])?;
    let zone = rest.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = rest.split_at(zone);
    let offset_s = match zone.split_at(1) {
        ("Z" | "z", "") => 0,
        (sign @ ("+" | "-"), zone) => {
            let (hours, minutes) = zone.split_once(':')?;
            let offset = digits(hours, 2)? * 3600 + digits(minutes, 2)? * 60;
            if sign == "+" { offset } else { -offset }
        }
        _ => return None,
    };
    let mut parts = date.splitn(3, '-');
    let (year, month, day) = (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let (time, nanos) = time.split_once('.').map_or(Some((time, 0)), |(time, of)| Some((time, fraction(of)?)))?;
    let mut parts = time.splitn(3, ':');
    let (hour, minute, second) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let is_time = hour < 24 && minute < 60 && second < 60 && (1..=days_of(year, month)?).contains(&day);
    let day_s = days_since_1970(year, month, day) * 86_400;
    is_time.then_some((day_s + hour * 3600 + minute * 60 + second - offset_s, nanos))
}

/// Returns the text of a time in the form of RFC 3339, or `None` if its year has not four digits.
pub fn timestamp_text(seconds: i64, nanos: i32) -> Option<String> {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date_of(days)?;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let decimals = decimals(nanos)?;
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{decimals}Z"))
}

/// Returns the seconds and nanoseconds of a duration such as `-1.5s`.
pub fn duration(text: &str) -> Option<(i64, i32)> {
    let number = text.strip_suffix('s')?;
    let (is_negative, number) = number.strip_prefix('-').map_or((false, number), |number| (true, number));
    let (whole, nanos) = match number.split_once('.') {
        Some((whole, part)) => (whole, fraction(part)?),
        None => (number, 0),
    };
    let is_number = !whole.is_empty() && whole.bytes().all(|byte| byte.is_ascii_digit());
    let seconds: i64 = is_number.then(|| whole.parse().ok()).flatten()?;
    Some(if is_negative { (-seconds, -nanos) } else { (seconds, nanos) })
}

/// Returns the text of a duration.
pub fn duration_text(seconds: i64, nanos: i32) -> Option<String> {
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    Some(format!("{sign}{}{}s", seconds.unsigned_abs(), decimals(nanos.checked_abs()?)?))
}

/// Returns the decimals of a second, with their dot, in three, six or nine digits.
fn decimals(nanos: i32) -> Option<String> {
    match nanos {
        0 => Some(String::new()),
        1..1_000_000_000 if nanos % 1_000_000 == 0 => Some(format!(".{:03}", nanos / 1_000_000)),
        1..1_000_000_000 if nanos % 1_000 == 0 => Some(format!(".{:06}", nanos / 1_000)),
        1..1_000_000_000 => Some(format!(".{nanos:09}")),
        _ => None,
    }
}

/// Returns the nanoseconds of the decimals of a second.
fn fraction(decimals: &str) -> Option<i32> {
    let is_number = (1..=9).contains(&decimals.len()) && decimals.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| format!("{decimals:0<9}").parse().ok()).flatten()
}

fn digits(text: &str, count: usize) -> Option<i64> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

fn days_of(year: i64, month: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    Some(match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    })
}

/// Returns the days from 1970 to a date. Years begin in March, so that the leap day is the last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (month * 153 + 2) / 5 + day
        - 719_469
}

/// Reverses [`days_since_1970`].
fn date_of(days: i64) -> Option<(i64, i64, i64)> {
    let mut year = (days * 400).div_euclid(146_097) + 1970;
    while days_since_1970(year, 1, 1) > days {
        year -= 1;
    }
    while days_since_1970(year + 1, 1, 1) <= days {
        year += 1;
    }
    let month = (1..=12).rev().find(|month| days_since_1970(year, *month, 1) <= days)?;
    (1..=9999).contains(&year).then(|| (year, month, days - days_since_1970(year, month, 1) + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_files_can_be_read() {
        for (stem, _) in FILES {
            assert!(file(&format!("google/protobuf/{stem}.proto")).is_some(), "{stem}");
        }
        assert!(file("google/protobuf/none.proto").is_none());
    }

    #[test]
    fn times_are_read_and_written() {
        for (text, seconds, nanos) in [
            ("1970-01-01T00:00:00Z", 0, 0),
            ("2024-02-29T12:30:00.500Z", 1_709_209_800, 500_000_000),
            ("1969-12-31T23:59:59.999999999Z", -1, 999_999_999),
            ("0001-01-01T00:00:00Z", -62_135_596_800, 0),
            ("9999-12-31T23:59:59Z", 253_402_300_799, 0),
            ("2000-03-01T00:00:00.000001Z", 951_868_800, 1_000),
        ] {
            assert_eq!(timestamp(text), Some((seconds, nanos)), "{text}");
            assert_eq!(timestamp_text(seconds, nanos).as_deref(), Some(text));
        }
        assert_eq!(timestamp("1970-01-01T01:00:00+01:00"), Some((0, 0)));
        for wrong in ["", "1970-01-01", "1970-01-01T00:00:00", "1970-02-30T00:00:00Z", "1970-01-01T24:00:00Z", "é"] {
            assert_eq!(timestamp(wrong), None, "{wrong}");
        }
        assert_eq!((timestamp_text(i64::MAX / 1000, 0), timestamp_text(0, -1)), (None, None));
    }

    #[test]
    fn durations_are_read_and_written() {
        for (text, seconds, nanos) in
            [("0s", 0, 0), ("1.500s", 1, 500_000_000), ("-0.001s", 0, -1_000_000), ("-3s", -3, 0)]
        {
            assert_eq!(duration(text), Some((seconds, nanos)), "{text}");
            assert_eq!(duration_text(seconds, nanos).as_deref(), Some(text));
        }
        for wrong in ["", "s", "1", "1.s", ".5s", "1.0000000001s", "+1s"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }
}
