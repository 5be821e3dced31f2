//! Durations, to seconds and back.

use super::{DurationError, parse_s, show};

#[test]
fn every_unit() {
    for (text, seconds) in
        [("250us", 0.000_25), ("50ms", 0.05), ("1.5s", 1.5), ("3m", 180.0), ("2h", 7200.0), ("0s", 0.0), ("5 s", 5.0)]
    {
        assert_eq!(parse_s(text), Ok(seconds), "{text}");
    }
}

#[test]
fn what_is_not_a_duration() {
    assert_eq!(parse_s("30"), Err(DurationError::NoUnit));
    assert_eq!(parse_s("30 sec"), Err(DurationError::UnknownUnit));
    assert_eq!(parse_s("-5s"), Err(DurationError::Negative));
    assert_eq!(parse_s("soon"), Err(DurationError::NotANumber));
    assert_eq!(parse_s(""), Err(DurationError::NotANumber));
    assert_eq!(parse_s("9999999h"), Err(DurationError::TooLong));
}

#[test]
fn shown_as_written() {
    for text in ["250us", "50ms", "1.5s", "3m", "2h", "1m30s", "0s", "10s", "1h0m5s".replace("0m", "").as_str()] {
        let seconds = if text == "1m30s" {
            90.0
        } else if text == "1h5s" {
            3605.0
        } else {
            parse_s(text).unwrap_or(-1.0)
        };
        assert_eq!(show(seconds), text);
    }
}
