//! Formatting of numbers: three significant digits, grouped thousands, with a unit. A missing
//! number is written as [`NONE`], never as 0.

/// Placeholder for a missing value.
pub const NONE: &str = "–";

/// Number of significant digits with which a measurement is written.
const SIGNIFICANT: i32 = 3;

/// Groups digits by three: `13,000`.
#[must_use]
pub fn grouped(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes a count, exactly: `11,234,567`.
#[must_use]
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// Writes a count with its noun: `1 run`, `3 runs`.
#[must_use]
pub fn plural(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{} {noun}s", count(number as u64)) }
}

/// Writes how often something happened: `once`, `twice`, `3 times`.
#[must_use]
pub fn times(number: usize) -> String {
    match number {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        several => format!("{} times", count(several as u64)),
    }
}

/// Writes a count in a sentence: exact below ten million, then `11.2 million`.
#[must_use]
pub fn count_in_words(value: u64) -> String {
    match value {
        0..10_000_000 => count(value),
        10_000_000..1_000_000_000 => format!("{} million", number(value as f64 / 1e6)),
        _ => format!("{} billion", number(value as f64 / 1e9)),
    }
}

/// Writes a count that may be a median. A small median may be a fraction: `0.5`, `24,675`.
#[must_use]
pub fn median_count(value: f64) -> String {
    if value < 100.0 && value.fract() != 0.0 { number(value) } else { count(value.round().max(0.0) as u64) }
}

/// Writes a count that may be a median, in a sentence.
#[must_use]
pub fn median_count_in_words(value: f64) -> String {
    if value < 1e7 { median_count(value) } else { count_in_words(value.round() as u64) }
}

/// Writes three significant digits with grouped thousands: `63,400`, `2.31`, `0.0123`.
#[must_use]
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let rounded = significant(value);
    let decimals = (SIGNIFICANT - 1 - magnitude(rounded)).clamp(0, 9) as usize;
    let text = format!("{:.decimals$}", rounded.abs());
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let sign = if value < 0.0 { "−" } else { "" };
    let dot = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{dot}{fraction}", grouped(whole))
}

/// Writes a rate: `63,400/s`.
#[must_use]
pub fn rate(value: f64) -> String {
    format!("{}/s", number(value))
}

/// Writes a time in microseconds: `850 µs`, `2.31 ms`, `1.2 s`.
#[must_use]
pub fn micros(us: f64) -> String {
    seconds(us / 1e6)
}

/// Writes a time in seconds: `850 µs`, `12.3 ms`, `1.2 s`, `4 min 20 s`.
#[must_use]
pub fn seconds(s: f64) -> String {
    let size = significant(s).abs();
    if size == 0.0 {
        "0 s".to_owned()
    } else if size < 1e-6 {
        format!("{} ns", number(s * 1e9))
    } else if size < 1e-3 {
        format!("{} µs", number(s * 1e6))
    } else if size < 1.0 {
        format!("{} ms", number(s * 1e3))
    } else if size < 120.0 {
        format!("{} s", number(s))
    } else {
        let whole = s.round() as i64;
        match (whole / 3_600, whole / 60 % 60, whole % 60) {
            (0, minutes, 0) => format!("{minutes} min"),
            (0, minutes, rest) => format!("{minutes} min {rest} s"),
            (hours, 0, _) => format!("{hours} h"),
            (hours, minutes, _) => format!("{hours} h {minutes} min"),
        }
    }
}

/// Writes a time on a trial's clock, always in seconds: `90 s`, `0.25 s`.
#[must_use]
pub fn moment(s: f64) -> String {
    let text = format!("{s:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} s")
}

/// Writes bytes in powers of a thousand: `5.12 MB`.
#[must_use]
pub fn bytes(value: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let (scaled, unit) = scaled_to(value, &units);
    format!("{} {unit}", number(scaled))
}

/// Writes joules: `850 µJ`, `12.3 mJ`, `1.2 J`, `2.5 kJ`.
#[must_use]
pub fn joules(value: f64) -> String {
    let (scaled, unit) = scaled_to(value * 1e6, &["µJ", "mJ", "J", "kJ", "MJ"]);
    format!("{} {unit}", number(scaled))
}

/// Writes an amount of money: `EUR 0.0238`.
#[must_use]
pub fn money(amount: f64, currency: &str) -> String {
    format!("{currency} {}", number(amount)).trim_start().to_owned()
}

/// Writes a percentage: `97.3 %`.
#[must_use]
pub fn percent(value: f64) -> String {
    format!("{} %", number(value))
}

/// Writes a change, in percent, with a sign: `+1.2 %`, `−17.8 %`. A change of less than 0.01 % is
/// written as `0 %`.
#[must_use]
pub fn change(pct: f64) -> String {
    match pct {
        pct if pct.abs() < 0.01 => "0 %".to_owned(),
        pct if pct < 0.0 => format!("−{}", percent(-pct)),
        pct => format!("+{}", percent(pct)),
    }
}

/// Writes a share in percent. If `part` is less than `all`, the text is never `100 %`.
#[must_use]
pub fn share(part: u64, all: u64) -> String {
    let pct = 100.0 * part as f64 / all.max(1) as f64;
    if part < all && significant(pct) >= 100.0 { "> 99.9 %".to_owned() } else { percent(pct) }
}

/// Writes the label of an axis tick: `20k`, `1.5M`, `0.2`.
#[must_use]
pub fn tick(value: f64) -> String {
    let (scaled, unit) = scaled_to(value, &["", "k", "M", "G", "T"]);
    format!("{}{unit}", number(scaled))
}

/// Writes an optional value with `write`, or [`NONE`].
#[must_use]
pub fn or_none<T>(value: Option<T>, write: impl Fn(T) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), write)
}

/// Writes a range between two formatted values. A unit that both have is written only once.
#[must_use]
pub fn from_to(from: &str, to: &str) -> String {
    let unit = |text: &str| text.find([' ', '/']).map_or(text.len(), |at| at);
    let (of_from, of_to) = (unit(from), unit(to));
    let same = from[of_from..] == to[of_to..];
    // A dash before a negative number would look like another sign.
    let between = if from.starts_with('−') || to.starts_with('−') { " to " } else { "–" };
    format!("{}{between}{to}", if same { &from[..of_from] } else { from })
}

/// Writes an interval: `80–200 ms`. Formats each end with `write`. Returns `None` if there is no
/// interval, or if both ends have the same text.
#[must_use]
pub fn interval(ends: Option<[f64; 2]>, write: impl Fn(f64) -> String) -> Option<String> {
    let [low, high] = ends?.map(write);
    (low != high).then(|| from_to(&low, &high))
}

/// Unit of a metric's values, taken from the metric's path (`latency_us.p99`, `rss_bytes`,
/// `failed_pct`, `cost.watts`, …).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureUnit {
    Bytes,
    BytesPerSecond,
    /// No unit: a count, written exactly if it is whole.
    Count,
    Joules,
    Micros,
    Millis,
    /// An amount per second.
    PerSecond,
    Percent,
    /// No unit: result of a function of metrics.
    Ratio,
    Seconds,
    Watts,
}

impl FigureUnit {
    /// Returns the unit of a metric, given as a path or as a function of metrics.
    #[must_use]
    pub fn of(metric: &str) -> Self {
        let words: Vec<&str> = metric.split(['.', '(', ')', ',', ' ']).collect();
        let ends = |unit: &str| words.iter().any(|word| word.ends_with(unit));
        if metric.contains('(') && !metric.starts_with("peak(") {
            Self::Ratio
        } else if let ["metrics", name, .., figure] = words[..] {
            Self::of_target(name, figure)
        } else if words.last() == Some(&"count") {
            Self::Count
        } else if ends("bytes_per_s") {
            Self::BytesPerSecond
        } else if ends("_per_s") || metric.starts_with("peak(") {
            Self::PerSecond
        } else if ends("_us") || metric.contains("_us_") || words.contains(&"by_outcome") {
            Self::Micros
        } else if ends("_bytes") {
            Self::Bytes
        } else if ends("_pct") {
            Self::Percent
        } else if ends("joules_per_cycle") {
            Self::Joules
        } else if ends("watts") {
            Self::Watts
        } else if ends("_s") {
            Self::Seconds
        } else {
            Self::Count
        }
    }

    /// Returns the unit of a metric that the target reports, from the end of the metric's name:
    /// `heap_bytes`, `gc_seconds_total`.
    fn of_target(name: &str, figure: &str) -> Self {
        let unit = name.strip_suffix("_total").unwrap_or(name).rsplit('_').next().unwrap_or_default();
        match (unit, figure) {
            ("bytes", "per_s") => Self::BytesPerSecond,
            (_, "per_s") => Self::PerSecond,
            ("bytes", _) => Self::Bytes,
            ("seconds" | "s", _) => Self::Seconds,
            ("ms", _) => Self::Millis,
            ("us", _) => Self::Micros,
            ("pct" | "percent", _) => Self::Percent,
            _ => Self::Count,
        }
    }

    /// Writes a value with the unit.
    #[must_use]
    pub fn write(self, value: f64) -> String {
        match self {
            Self::Bytes => bytes(value),
            Self::BytesPerSecond => format!("{}/s", bytes(value)),
            Self::Count if value.fract() == 0.0 && (0.0..1e15).contains(&value) => count(value as u64),
            Self::Count | Self::Ratio => number(value),
            Self::Joules => joules(value),
            Self::Micros => micros(value),
            Self::Millis => seconds(value / 1e3),
            Self::PerSecond => rate(value),
            Self::Percent => percent(value),
            Self::Seconds => seconds(value),
            Self::Watts => format!("{} W", number(value)),
        }
    }
}

/// Writes a metric's value with its unit.
#[must_use]
pub fn by_metric(metric: &str, value: f64) -> String {
    FigureUnit::of(metric).write(value)
}

fn scaled_to<'a>(value: f64, units: &[&'a str]) -> (f64, &'a str) {
    let size = significant(value).abs();
    let mut step = 0;
    while step + 1 < units.len() && size >= 1_000_f64.powi(step as i32 + 1) {
        step += 1;
    }
    (value / 1_000_f64.powi(step as i32), units[step])
}

fn magnitude(value: f64) -> i32 {
    value.abs().log10().floor() as i32
}

fn significant(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let power = SIGNIFICANT - 1 - magnitude(value);
    // Dividing by a whole power of ten is more exact than multiplying by 0.01.
    if power >= 0 {
        let scale = 10_f64.powi(power);
        (value * scale).round() / scale
    } else {
        let scale = 10_f64.powi(-power);
        (value / scale).round() * scale
    }
}

const DAY_S: i64 = 86_400;

/// Writes a Unix time as `2026-11-20 10:31:05 UTC`. The date algorithm is `civil_from_days` of
/// Howard Hinnant, "chrono-compatible low-level date algorithms".
#[must_use]
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
    use super::{utc, *};

    #[test]
    fn three_significant_digits_and_grouped_thousands() {
        let cases = [
            (0.0, "0"),
            (63_412.0, "63,400"),
            (999.6, "1,000"),
            (99_950.0, "100,000"),
            (2.305, "2.31"),
            (2.0, "2"),
            (0.012_345, "0.0123"),
            (100.0, "100"),
            (120.0, "120"),
            (-5.25, "−5.25"),
            (f64::NAN, NONE),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text, "{value}");
        }
    }

    #[test]
    fn times_choose_their_unit_after_rounding() {
        let cases = [
            (0.0, "0 s"),
            (1.2e-8, "12 ns"),
            (0.000_85, "850 µs"),
            (0.000_999_9, "1 ms"),
            (0.0123, "12.3 ms"),
            (0.999_9, "1 s"),
            (10.0, "10 s"),
            (180.0, "3 min"),
            (260.4, "4 min 20 s"),
            (7_230.0, "2 h"),
        ];
        for (value, text) in cases {
            assert_eq!(seconds(value), text, "{value}");
        }
        assert_eq!(micros(2_310.0), "2.31 ms");
        assert_eq!(moment(90.0), "90 s");
        assert_eq!(moment(-0.25), "-0.25 s");
    }

    #[test]
    fn counts_bytes_and_ticks() {
        assert_eq!(count(11_234_567), "11,234,567");
        assert_eq!(count_in_words(9_999_999), "9,999,999");
        assert_eq!(count_in_words(11_234_567), "11.2 million");
        assert_eq!(count_in_words(2_500_000_000), "2.5 billion");
        assert_eq!(median_count(0.5), "0.5");
        assert_eq!(median_count(24_674.5), "24,675");
        assert_eq!(median_count_in_words(11_234_567.5), "11.2 million");
        assert_eq!(share(999_999, 1_000_000), "> 99.9 %");
        assert_eq!(share(3, 3), "100 %");
        assert_eq!(share(1, 8), "12.5 %");
        assert_eq!(bytes(5_120_000.0), "5.12 MB");
        assert_eq!(bytes(999.9), "1 kB");
        assert_eq!([change(-17.84), change(1.2), change(0.001)], ["−17.8 %", "+1.2 %", "0 %"]);
        assert_eq!(tick(20_000.0), "20k");
        assert_eq!(tick(0.2), "0.2");
        assert_eq!(or_none(None, count), NONE);
        assert_eq!(from_to("1.1 ms", "2 ms"), "1.1–2 ms");
        assert_eq!(from_to("900 µs", "2 ms"), "900 µs–2 ms");
        assert_eq!(from_to("5/s", "6/s"), "5–6/s");
        assert_eq!(from_to("−0.2", "0.1"), "−0.2 to 0.1");
        assert_eq!(by_metric("retained(throughput.operations_per_s, a, load.agents, 64)", 0.93), "0.93");
        assert_eq!(by_metric("peak_ratio(a, b)", 2.0), "2");
        assert_eq!(by_metric("peak(a)", 2.0), "2/s");
        assert_eq!(from_to("5", "6"), "5–6");
    }

    #[test]
    fn energy_and_money_have_their_units() {
        assert_eq!([joules(0.000_85), joules(0.188), joules(12.0), joules(0.0)], ["850 µJ", "188 mJ", "12 J", "0 µJ"]);
        assert_eq!(joules(3.6e6), "3.6 MJ");
        assert_eq!([money(0.023_77, "EUR"), money(1_234.5, "EUR"), money(5.0, "")], ["EUR 0.0238", "EUR 1,230", "5"]);
    }

    #[test]
    fn metrics_are_shown_with_their_unit() {
        assert_eq!(by_metric("throughput.operations_per_s", 13_000.0), "13,000/s");
        assert_eq!(by_metric("latency_us.p99", 15_000.0), "15 ms");
        assert_eq!(by_metric("faults.oops.outage.memory_released_bytes", 5e6), "5 MB");
        assert_eq!(by_metric("faults.oops.outage.back_to_baseline_s", 0.12), "120 ms");
        assert_eq!(by_metric("generator.late_us_p99", 1_200.0), "1.2 ms");
        assert_eq!(by_metric("latency_us.count", 1_200.0), "1,200");
        assert_eq!(by_metric("throughput.received_bytes_per_s", 1.5e6), "1.5 MB/s");
        assert_eq!(by_metric("failed_pct", 0.5), "0.5 %");
        assert_eq!(by_metric("outcomes.failed", 1_234.0), "1,234");
        assert_eq!(by_metric("by_outcome.failed.mean", 20_400.0), "20.4 ms");
        assert_eq!(by_metric("operations.save.by_outcome.timeout.p99", 850.0), "850 µs");
        assert_eq!([by_metric("by_outcome.failed.count", 7.0), by_metric("latency_us.count", 9_000.0)], ["7", "9,000"]);
        assert_eq!(by_metric("metrics.heap_bytes.max", 5e6), "5 MB");
        assert_eq!(by_metric("metrics.sent_bytes_total.per_s", 5e6), "5 MB/s");
        assert_eq!(by_metric("metrics.calls_total.hosts.n1.per_s", 12.5), "12.5/s");
        assert_eq!(by_metric("metrics.gc_seconds_total.increase", 0.25), "250 ms");
        assert_eq!(by_metric("metrics.queue_length.mean", 1.25), "1.25");
        assert_eq!(by_metric("cost.joules_per_cycle", 0.1524), "152 mJ");
        assert_eq!(by_metric("cost.with_warmup.watts", 12.71), "12.7 W");
        assert_eq!(by_metric("cost.price_per_million_cycles", 0.02377), "0.0238");
        assert_eq!(by_metric("ratio(cost.joules_per_cycle, a, b)", 1.5), "1.5");
        assert_eq!(by_metric("ratio(latency_us.p99, a, b)", 1.5), "1.5");
    }

    #[test]
    fn known_utc_times() {
        assert_eq!(utc(0.0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400.9), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_795_170_665.0), "2026-11-20 10:31:05 UTC");
        assert_eq!(utc(-1.0), "1969-12-31 23:59:59 UTC");
    }
}
