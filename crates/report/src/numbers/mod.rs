//! Numbers as a reader wants them: three significant digits, thousands grouped, a unit always. It must not decide what a
//! number means. An absent number is [`NONE`], never 0.

use experiment::quantity::grouped;

/// Stands where nothing was measured.
pub const NONE: &str = "–";

/// Digits that a measurement is shown with.
const SIGNIFICANT: i32 = 3;

/// A count, exactly: `11,234,567`.
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// A count in a sentence: exact below ten million, then `11.2 million`.
pub fn count_in_words(value: u64) -> String {
    match value {
        0..10_000_000 => count(value),
        10_000_000..1_000_000_000 => format!("{} million", number(value as f64 / 1e6)),
        _ => format!("{} billion", number(value as f64 / 1e9)),
    }
}

/// A count that may be a median, so that a small one can lie between two whole numbers: `0.5`, `24,675`.
pub fn median_count(value: f64) -> String {
    if value < 100.0 && value.fract() != 0.0 { number(value) } else { count(value.round().max(0.0) as u64) }
}

/// The same in a sentence.
pub fn median_count_in_words(value: f64) -> String {
    if value < 1e7 { median_count(value) } else { count_in_words(value.round() as u64) }
}

/// Three significant digits, thousands grouped: `63,400`, `2.31`, `0.0123`.
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

/// `63,400/s`.
pub fn rate(value: f64) -> String {
    format!("{}/s", number(value))
}

/// Microseconds: `850 µs`, `2.31 ms`, `1.2 s`.
pub fn micros(us: f64) -> String {
    seconds(us / 1e6)
}

/// Seconds: `850 µs`, `12.3 ms`, `1.2 s`, `4 min 20 s`.
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

/// A moment on a trial's clock: `90 s`, `0.25 s`, always in seconds.
pub fn moment(s: f64) -> String {
    let text = format!("{s:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} s")
}

/// Bytes in powers of a thousand: `5.12 MB`.
pub fn bytes(value: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let (scaled, unit) = scaled_to(value, &units);
    format!("{} {unit}", number(scaled))
}

/// Joules: `850 µJ`, `12.3 mJ`, `1.2 J`, `2.5 kJ`.
pub fn joules(value: f64) -> String {
    let (scaled, unit) = scaled_to(value * 1e6, &["µJ", "mJ", "J", "kJ", "MJ"]);
    format!("{} {unit}", number(scaled))
}

/// `EUR 0.0238`.
pub fn money(amount: f64, currency: &str) -> String {
    format!("{currency} {}", number(amount)).trim_start().to_owned()
}

/// `97.3 %`.
pub fn percent(value: f64) -> String {
    format!("{} %", number(value))
}

/// A change in percent, with its sign: `+1.20 %`, `−17.8 %`; less than a hundredth of a percent is none.
pub fn change(pct: f64) -> String {
    match pct {
        pct if pct.abs() < 0.01 => "0 %".to_owned(),
        pct if pct < 0.0 => format!("−{}", percent(-pct)),
        pct => format!("+{}", percent(pct)),
    }
}

/// A share in percent; what is not all never reads as 100 %.
pub fn share(part: u64, all: u64) -> String {
    let pct = 100.0 * part as f64 / all.max(1) as f64;
    if part < all && significant(pct) >= 100.0 { "> 99.9 %".to_owned() } else { percent(pct) }
}

/// The tick of an axis: `20k`, `1.5M`, `0.2`.
pub fn tick(value: f64) -> String {
    let (scaled, unit) = scaled_to(value, &["", "k", "M", "G", "T"]);
    format!("{}{unit}", number(scaled))
}

/// What an option holds, written by `write`, or [`NONE`].
pub fn or_none<T>(value: Option<T>, write: impl Fn(T) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), write)
}

/// A range of two written values: the unit is said once where both have the same.
pub fn from_to(from: &str, to: &str) -> String {
    let unit = |text: &str| text.find([' ', '/']).map_or(text.len(), |at| at);
    let (of_from, of_to) = (unit(from), unit(to));
    let same = from[of_from..] == to[of_to..];
    // A dash between numbers below 0 would look like another sign.
    let between = if from.starts_with('−') || to.starts_with('−') { " to " } else { "–" };
    format!("{}{between}{to}", if same { &from[..of_from] } else { from })
}

/// A metric's value by the unit that ends its path (`latency_us.p99`, `rss_bytes`, `failed_pct`, `cost.watts`, …).
pub fn by_metric(metric: &str, value: f64) -> String {
    let words: Vec<&str> = metric.split(['.', '(', ')', ',', ' ']).collect();
    let ends = |unit: &str| words.iter().any(|word| word.ends_with(unit));
    if metric.contains('(') && !metric.starts_with("peak(") {
        number(value)
    } else if ends("_per_s") || metric.starts_with("peak(") {
        rate(value)
    } else if ends("_us") {
        micros(value)
    } else if ends("_bytes") {
        bytes(value)
    } else if ends("_pct") {
        percent(value)
    } else if ends("joules_per_cycle") {
        joules(value)
    } else if ends("watts") {
        format!("{} W", number(value))
    } else if ends("_s") {
        seconds(value)
    } else {
        // Counts: exact as far as they are whole.
        if value.fract() == 0.0 && (0.0..1e15).contains(&value) { count(value as u64) } else { number(value) }
    }
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
    // Dividing by a whole power of ten is exact where multiplying by 0.01 is not.
    if power >= 0 {
        let scale = 10_f64.powi(power);
        (value * scale).round() / scale
    } else {
        let scale = 10_f64.powi(-power);
        (value / scale).round() * scale
    }
}

#[cfg(test)]
mod tests;
