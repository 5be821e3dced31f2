//! `{now:…}`: the time at which an operation starts, with an offset, in a format of strftime.

use std::fmt;
use std::ops::RangeInclusive;

use jiff::Timestamp;
use jiff::fmt::strtime::BrokenDownTime;

use super::TemplateError;
use super::parsing::Word;

/// A time with its offset and its format. Times are in UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeFormat {
    /// Smallest and largest offset, milliseconds. Each multiple of [`TimeFormat::step_ms`] between
    /// them is equally likely.
    offset_ms: RangeInclusive<i64>,
    format: String,
}

/// Units of offsets, milliseconds, the longest first.
const UNITS: [(&str, i64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Largest offset: about a thousand years.
const OFFSET_MAX_MS: i64 = 365_250 * 86_400_000;

const OFFSET: &str = "an offset is a sign and numbers with the units d, h, m, s or ms, such as now+1d, now-1h30m or now+1d..30d; at most 365250d";
const FORMAT: &str = "write a format of strftime, such as {now:%Y-%m-%dT%H:%M:%SZ}, {now:%s} for seconds or {now:%s%3f} for milliseconds";

impl TimeFormat {
    /// Whether the inside of a placeholder is one of these.
    pub(super) fn is_it(inside: &str) -> bool {
        inside.strip_prefix("now").is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '+', '-']))
    }

    /// Reads `now+1d:%Y-%m-%d`.
    pub(super) fn parse(inside: Word<'_>) -> Result<Self, TemplateError> {
        let Some((time, format)) = inside.text.split_once(':').filter(|(_, format)| !format.is_empty()) else {
            return Err(inside.wrong("the format of the time is missing", FORMAT));
        };
        let offset = Word { text: &time[3..], at: inside.at + 3 };
        let format = Word { text: format, at: inside.at + time.len() + 1 };
        check_format(format)?;
        Ok(Self { offset_ms: offsets(offset)?, format: format.text.to_owned() })
    }

    /// Returns the smallest and the largest number of steps in the offset. A value draws one of
    /// them.
    #[must_use]
    pub fn steps(&self) -> RangeInclusive<i64> {
        let step_ms = self.step_ms();
        self.offset_ms.start() / step_ms..=self.offset_ms.end() / step_ms
    }

    /// Returns the longest unit of which both offsets are multiples.
    fn step_ms(&self) -> i64 {
        let is_step = |unit_ms: &i64| self.offset_ms.start() % unit_ms == 0 && self.offset_ms.end() % unit_ms == 0;
        UNITS.iter().map(|(_, unit_ms)| *unit_ms).find(is_step).unwrap_or(1)
    }

    /// Appends the time `steps` steps after `unix_ns`, the nanoseconds since 1970.
    pub fn write(&self, unix_ns: u64, steps: i64, out: &mut Vec<u8>) {
        let offset_ns = i128::from(steps) * i128::from(self.step_ms()) * 1_000_000;
        let Ok(time) = Timestamp::from_nanosecond(i128::from(unix_ns) + offset_ns) else { return };
        // The format has been checked, and a vector takes all bytes.
        let _ = BrokenDownTime::from(time).format(&self.format, out);
    }
}

/// Reports the first directive that cannot be written.
fn check_format(format: Word<'_>) -> Result<(), TemplateError> {
    let is_known = |directive: &str| BrokenDownTime::from(Timestamp::UNIX_EPOCH).to_string(directive).is_ok();
    let mut at = 0;
    while let Some(found) = format.text[at..].find('%') {
        at += found;
        let after = format.text[at + 1..].find(|c: char| c == '%' || c.is_ascii_alphabetic());
        let length = after.map_or(format.text.len() - at, |after| after + 2);
        let directive = Word { text: &format.text[at..at + length], at: format.at + at };
        if !is_known(directive.text) {
            return Err(directive.wrong(format!("`{}` is not a part of a time", directive.text), FORMAT));
        }
        at += length;
    }
    Ok(())
}

/// Reads nothing, `+1d` or `+1d..30d`.
fn offsets(text: Word<'_>) -> Result<RangeInclusive<i64>, TemplateError> {
    if text.text.is_empty() {
        return Ok(0..=0);
    }
    let (from, to) = text.text.split_once("..").unwrap_or((text.text, text.text));
    match (offset(from), offset(to)) {
        (Some(from), Some(to)) if from <= to => Ok(from..=to),
        (Some(_), Some(_)) => Err(text.wrong("this range is empty", OFFSET)),
        _ => Err(text.wrong("not an offset of the time", OFFSET)),
    }
}

/// Reads `+1d`, `-1h30m` or `30d` as milliseconds.
fn offset(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (mut sum, mut longest) = (0_i64, i64::MAX);
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let (_, unit_ms) = UNITS.iter().find(|(name, unit_ms)| *name == unit && *unit_ms < longest)?;
        sum = number.parse::<i64>().ok()?.checked_mul(*unit_ms)?.checked_add(sum)?;
        (rest, longest) = (after, *unit_ms);
        if rest.is_empty() {
            return Some(sign * sum).filter(|_| sum <= OFFSET_MAX_MS);
        }
    }
}

/// Formats the inside of the placeholder.
impl fmt::Display for TimeFormat {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = self.offset_ms.clone().into_inner();
        out.write_str("now")?;
        if (from, to) != (0, 0) {
            write!(out, "{}{}", if from < 0 { '-' } else { '+' }, Offset(from))?;
        }
        if from != to {
            write!(out, "..{}{}", if to < 0 { "-" } else { "" }, Offset(to))?;
        }
        write!(out, ":{}", self.format)
    }
}

/// An offset without its sign, milliseconds.
struct Offset(i64);

impl fmt::Display for Offset {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.abs();
        for (unit, unit_ms) in UNITS.iter().filter(|(_, unit_ms)| *unit_ms <= self.0.abs()) {
            if rest >= *unit_ms {
                write!(out, "{}{unit}", rest / unit_ms)?;
            }
            rest %= unit_ms;
        }
        if self.0 == 0 { out.write_str("0d") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use crate::template::{Template, TemplatePart};

    use super::TimeFormat;

    fn time(text: &str) -> TimeFormat {
        match Template::parse(text).unwrap().parts.as_slice() {
            [TemplatePart::Now(time)] => time.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn written(text: &str, unix_ns: u64) -> String {
        let (time, mut out) = (time(text), b"<".to_vec());
        time.write(unix_ns, *time.steps().start(), &mut out);
        String::from_utf8(out.split_off(1)).unwrap()
    }

    #[test]
    fn times_in_formats() {
        // 2026-02-27T23:05:09.042Z
        let unix_ns = 1_772_233_509_042_000_000;
        for (text, expected) in [
            ("{now:%Y-%m-%dT%H:%M:%SZ}", "2026-02-27T23:05:09Z"),
            ("{now:%Y-%m-%dT%H:%M:%S.%3fZ}", "2026-02-27T23:05:09.042Z"),
            ("{now:%s}", "1772233509"),
            ("{now:%s%3f}", "1772233509042"),
            ("{now:%a, %d %b %Y %T GMT}", "Fri, 27 Feb 2026 23:05:09 GMT"),
            ("{now:%F %R %z %%}", "2026-02-27 23:05 +0000 %"),
            ("{now+1d:%F}", "2026-02-28"),
            ("{now+2d:%F}", "2026-03-01"),
            ("{now-1h30m:%H:%M}", "21:35"),
            ("{now+958ms:%s%3f}", "1772233510000"),
            ("{now+1d..30d:%F}", "2026-02-28"),
            ("{now-365250d:%F}", "1026-02-20"),
            ("{now:today}", "today"),
        ] {
            assert_eq!(written(text, unix_ns), expected, "{text}");
        }
    }

    #[test]
    fn ranges_have_steps_of_their_longest_common_unit() {
        for (text, steps) in [
            ("{now:%F}", 0..=0),
            ("{now+1d..30d:%F}", 1..=30),
            ("{now-2d..-1d:%F}", -2..=-1),
            ("{now-1d..12h:%F}", -24..=12),
            ("{now+0d..90s:%F}", 0..=90),
            ("{now+1d:%F}", 1..=1),
        ] {
            assert_eq!(time(text).steps(), steps, "{text}");
        }
    }

    #[test]
    fn times_survive_printing_and_parsing() {
        for text in [
            "{now:%F}",
            "{now+1d2h3m4s5ms:%F %R}",
            "{now-1h30m..-1m:%s}",
            "{now-1d..0d:%s}",
            "{now+0d..30d:%F}",
            "{now-1d..2d:%F|url}",
        ] {
            assert_eq!(Template::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Template::parse("{now+24h:%F}").unwrap().to_string(), "{now+1d:%F}");
    }

    #[test]
    fn mistakes_are_underlined() {
        for (text, underlined) in [
            ("{now}", "now"),
            ("{now:}", "now:"),
            ("{now+1d}", "now+1d"),
            ("{now:%Y-%E-%d}", "%E"),
            ("{now:%Y%}", "%"),
            ("{now:%9}", "%9"),
            ("{now+1:%F}", "+1"),
            ("{now+1x:%F}", "+1x"),
            ("{now+d:%F}", "+d"),
            ("{now+:%F}", "+"),
            ("{now+1h1d:%F}", "+1h1d"),
            ("{now+365251d:%F}", "+365251d"),
            ("{now+99999999999999999999d:%F}", "+99999999999999999999d"),
            ("{now+2d..1d:%F}", "+2d..1d"),
            ("{now+1d..:%F}", "+1d.."),
        ] {
            let error = Template::parse(text).unwrap_err();
            assert_eq!(&text[error.at.clone()], underlined, "{text}: {error}");
        }
        // A longer name is a slot.
        assert!(matches!(Template::parse("{now_ms}").unwrap().parts.as_slice(), [TemplatePart::Slot(_)]));
    }
}
