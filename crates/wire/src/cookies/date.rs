//! Dates of cookies, in the many forms that servers write (RFC 6265, 5.1.1).

const MONTHS: [&[u8; 3]; 12] =
    [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];

/// Parts of a date that were found so far.
#[derive(Default)]
struct DateParts {
    /// Hour, minute and second.
    time: Option<[i64; 3]>,
    day: Option<i64>,
    /// Month, from 1.
    month: Option<i64>,
    year: Option<i64>,
}

/// Parses a date into Unix time, seconds. Returns `None` if it is not a date.
pub fn parse(text: &[u8]) -> Option<i64> {
    let mut parts = DateParts::default();
    text.split(|byte| is_delimiter(*byte)).filter(|token| !token.is_empty()).for_each(|token| parts.note(token));
    parts.unix_s()
}

fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b'\t' | 0x20..=0x2f | 0x3b..=0x40 | 0x5b..=0x60 | 0x7b..=0x7e)
}

impl DateParts {
    /// Takes over the first token of each kind.
    fn note(&mut self, token: &[u8]) {
        if self.time.is_none() && token.contains(&b':') {
            self.time = time(token);
        } else if let Some(day) = digits(token, 1..=2).filter(|_| self.day.is_none()) {
            self.day = Some(day);
        } else if let Some(month) = month(token).filter(|_| self.month.is_none()) {
            self.month = Some(month);
        } else if let Some(year) = digits(token, 2..=4).filter(|_| self.year.is_none()) {
            self.year = Some(match year {
                70..=99 => year + 1900,
                0..=69 => year + 2000,
                _ => year,
            });
        }
    }

    fn unix_s(&self) -> Option<i64> {
        let (day, month, year, [hour, minute, second]) = (self.day?, self.month?, self.year?, self.time?);
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let last = match month {
            2 => 28 + i64::from(is_leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let is_valid = (1..=last).contains(&day) && year >= 1601 && hour <= 23 && minute <= 59 && second <= 59;
        is_valid.then(|| ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
    }
}

/// Returns the number of days from 1 January 1970. Counts in years from March, so that the day of
/// a leap year is the last of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leaps = year / 4 - year / 100 + year / 400;
    year * 365 + leaps + (month * 153 + 2) / 5 + day - 1 - 719_468
}

/// Parses `hour:minute:second`, which other text may follow.
fn time(token: &[u8]) -> Option<[i64; 3]> {
    let mut parts = token.splitn(3, |byte| *byte == b':');
    let mut next = || digits(parts.next()?, 1..=2);
    Some([next()?, next()?, next()?])
}

fn month(token: &[u8]) -> Option<i64> {
    let name = token.get(..3)?;
    MONTHS.iter().zip(1..).find(|(month, _)| name.eq_ignore_ascii_case(month.as_slice())).map(|(_, number)| number)
}

/// Parses a number with this many digits, which other text may follow.
fn digits(token: &[u8], count: std::ops::RangeInclusive<usize>) -> Option<i64> {
    let length = token.iter().take_while(|byte| byte.is_ascii_digit()).count();
    count.contains(&length).then(|| token[..length].iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_forms() {
        const ERA_S: i64 = 784_111_777;
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun, 6-nov-1994 8:49:37 UTC",
            "Sun,06 November 1994 08:49:37",
            "08:49:37 1994 6 NOV",
        ] {
            assert_eq!(parse(text.as_bytes()), Some(ERA_S), "{text}");
        }
        for (text, expected) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Thu, 01-Jan-70 00:00:01 GMT", 1),
            ("Wed, 31 Dec 1969 23:59:59 GMT", -1),
            ("Thu, 29 Feb 2024 00:00:00 GMT", 1_709_164_800),
            ("Fri, 01 Mar 2024 00:00:00 GMT", 1_709_251_200),
            ("Tue, 29 Feb 2000 12:00:00 GMT", 951_825_600),
            ("Tue, 19 Jan 2038 03:14:08 GMT", 2_147_483_648),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799),
            ("Thu, 01 Jan 69 00:00:00 GMT", 3_124_224_000),
            ("Mon, 01 Jan 1601 00:00:00 GMT", -11_644_473_600),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(expected), "{text}");
        }
    }

    #[test]
    fn invalid_dates() {
        for text in [
            "",
            "never",
            "0",
            "Sun, 06 Nov 1994",
            "06 Nov 08:49:37",
            "Nov 1994 08:49:37",
            "06 1994 08:49:37",
            "Sun, 32 Nov 1994 08:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 29 Feb 1900 08:49:37 GMT",
            "Sun, 29 Feb 2023 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 06 Nov 1600 08:49:37 GMT",
            "Sun, 06 Nov 12345 08:49:37 GMT",
            "Sun, 06 No 1994 08:49:37 GMT",
            ":::",
            "\u{e9}",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
