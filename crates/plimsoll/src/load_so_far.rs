//! Statistics of a load so far, for the live views, from the seconds that the generator threads
//! report. The records are not read.

use conduct::SecondTotals;
use hdrhistogram::Histogram;
use text::numbers;

/// Significant digits of latencies.
pub const DIGITS: u8 = 2;
/// Number of samples that must be expected beyond a quantile for the quantile to be shown. If three
/// are expected, at least one lies above the true quantile with 95 % confidence (Wilks 1941).
const BEYOND: f64 = 3.0;

/// Statistics of a load so far.
#[derive(Debug, Clone, Default)]
pub struct LoadSoFar {
    /// Seconds since load start.
    pub at_s: f64,
    /// Length of the load, seconds.
    pub of_s: f64,
    /// Number of operations after which the load ends, if it is known.
    pub count: Option<u64>,
    /// Operations that ended `ok`.
    pub ok: u64,
    /// Operations that ended `failed`.
    pub failed: u64,
    /// Operations that ended `timeout`.
    pub timeout: u64,
    /// Operations that ended `wrong`.
    pub wrong: u64,
    /// Start of the current second, which each thread reports separately.
    since_s: f64,
    /// Number of `ok` operations in the current second so far.
    ok_in_second: u64,
    /// Latencies of all `ok` operations, nanoseconds.
    pub latency_ns: Option<Histogram<u64>>,
}

/// Seconds by which a thread's report must end later than the previous report to belong to another
/// second. Threads report the same second at slightly different times.
const ANOTHER_S: f64 = 0.5;

impl LoadSoFar {
    /// Returns the statistics of a load that has not begun and ends after `count` operations.
    pub fn of(count: Option<u64>) -> Self {
        Self { count, ..Self::default() }
    }

    /// Whether this report belongs to a later second than the reports before.
    pub fn is_another(&self, second: &SecondTotals) -> bool {
        second.at_s > self.at_s + ANOTHER_S
    }

    /// Adds the totals of a thread in a second.
    pub fn add(&mut self, second: &SecondTotals) {
        if self.is_another(second) {
            (self.since_s, self.ok_in_second) = (self.at_s, 0);
        }
        (self.at_s, self.of_s) = (self.at_s.max(second.at_s), second.of_s);
        self.ok_in_second += second.ok;
        self.ok += second.ok;
        self.failed += second.failed;
        self.timeout += second.timeout;
        self.wrong += second.wrong;
        if let Some(latency_ns) = &second.latency_ns {
            if self.latency_ns.is_none() {
                self.latency_ns = Histogram::new(DIGITS).ok();
            }
            // The histogram grows as needed.
            let _ = self.latency_ns.as_mut().map(|all| all.add(&**latency_ns));
        }
    }

    /// Returns the number of operations that did not end `ok`.
    pub fn not_ok(&self) -> u64 {
        self.failed + self.timeout + self.wrong
    }

    /// Returns the `ok` operations per second in the last second and since load start.
    pub fn rates(&self) -> [f64; 2] {
        [(self.ok_in_second, self.at_s - self.since_s), (self.ok, self.at_s)]
            .map(|(count, seconds)| if seconds > 0.0 { count as f64 / seconds } else { 0.0 })
    }

    /// Formats quantiles as `p50 1.05 ms   p99 2.31 ms   max 48.2 ms`, if there are enough samples.
    pub fn quantiles(&self) -> String {
        let Some(all) = self.latency_ns.as_ref().filter(|all| !all.is_empty()) else { return "none yet".to_owned() };
        let [p50, p99] = [0.5, 0.99].map(|q| self.quantile_us(q).map_or_else(|| "too few".to_owned(), numbers::micros));
        format!("p50 {p50}   p99 {p99}   max {}", numbers::micros(all.max() as f64 / 1e3))
    }

    /// Returns a quantile of the latency in microseconds; `None` if too few operations lie beyond
    /// it.
    pub fn quantile_us(&self, q: f64) -> Option<f64> {
        let all = self.latency_ns.as_ref().filter(|all| all.len() as f64 * (1.0 - q) >= BEYOND)?;
        (!all.is_empty()).then(|| all.value_at_quantile(q) as f64 / 1e3)
    }
}
