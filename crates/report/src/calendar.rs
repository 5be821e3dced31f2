//! Unix time as a date that a person reads, in UTC. It must not read a clock.

const DAY_S: i64 = 86_400;

/// `2026-11-20 10:31:05 UTC`. Days to dates as in Howard Hinnant, "chrono-compatible low-level date algorithms",
/// `civil_from_days`.
pub fn utc(unix_s: f64) -> String {
    let seconds = unix_s.floor() as i64;
    let (days, of_day) = (seconds.div_euclid(DAY_S), seconds.rem_euclid(DAY_S));
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn known_moments() {
        assert_eq!(utc(0.0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400.9), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_795_170_665.0), "2026-11-20 10:31:05 UTC");
        assert_eq!(utc(-1.0), "1969-12-31 23:59:59 UTC");
    }
}
