//! What is seen of a `plimsoll hit` while it runs: on a terminal a view that is redrawn each second, else a few lines. What it shows
//! is not what is reported: that comes from the records.

use conduct::{Observer, ProgressEvent, SecondTotals};
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use record::events::What;
use report::words;
use text::numbers;

use crate::commands::hit;
use crate::output;

/// Columns that are used; a terminal that is narrower breaks the lines.
const WIDTH: usize = 78;
/// Most bars of the distribution.
const BARS: usize = 8;
/// Columns of the bar that is the time.
const BAR: usize = 40;
/// Digits of latencies, as they are told.
const DIGITS: u8 = 2;
/// Samples beyond a quantile for it to be shown: with 95 % confidence one of so many more lies above it (Wilks 1941).
const BEYOND: f64 = 3.0;
/// Seconds between two lines that are not a terminal's.
const EVERY_S: f64 = 5.0;

/// The audience for this stderr, which is first told what is hit.
pub fn audience(plain: bool, what: &str) -> Box<dyn Observer> {
    if plain || !output::is_watched() {
        output::say(what);
        Box::new(PlainView { course: LiveStats::default(), told_s: 0.0 })
    } else {
        Box::new(LiveView::new(what))
    }
}

/// What happened so far.
#[derive(Debug, Clone, Default)]
pub struct LiveStats {
    /// Seconds since load start, and how long the load is.
    at_s: f64,
    of_s: f64,
    ok: u64,
    failed: u64,
    timeout: u64,
    wrong: u64,
    /// When the second that is told of began, and what was `ok` in it so far: threads tell of it one after the other.
    since_s: f64,
    ok_in_second: u64,
    /// Latency of all that was `ok`, nanoseconds.
    latency_ns: Option<Histogram<u64>>,
}

/// A second ends later than the one before by more than this; threads end their last one at different moments.
const ANOTHER_S: f64 = 0.5;

impl LiveStats {
    /// Whether a thread tells of another second than the threads before it.
    fn is_another(&self, second: &SecondTotals) -> bool {
        second.at_s > self.at_s + ANOTHER_S
    }

    /// Takes in a thread's second.
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
            // It grows as far as it has to.
            let _ = self.latency_ns.as_mut().map(|all| all.add(&**latency_ns));
        }
    }

    fn not_ok(&self) -> u64 {
        self.failed + self.timeout + self.wrong
    }

    /// `ok` per second in the last second, and since load start.
    fn rates(&self) -> [f64; 2] {
        let over = |count: u64, seconds: f64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        [over(self.ok_in_second, self.at_s - self.since_s), over(self.ok, self.at_s)]
    }

    /// `p50 1.05 ms   p99 2.31 ms   max 48.2 ms`, as far as there are enough.
    fn quantiles(&self) -> String {
        let Some(all) = self.latency_ns.as_ref().filter(|all| !all.is_empty()) else { return "none yet".to_owned() };
        let micros = |ns: u64| numbers::micros(ns as f64 / 1e3);
        let quantile = |q: f64| {
            let enough = all.len() as f64 * (1.0 - q) >= BEYOND;
            if enough { micros(all.value_at_quantile(q)) } else { "too few".to_owned() }
        };
        format!("p50 {}   p99 {}   max {}", quantile(0.5), quantile(0.99), micros(all.max()))
    }

    /// The view, below what is hit.
    fn lines(&self, what: &str, colour: bool) -> Vec<String> {
        let [last, so_far] = self.rates();
        let left = if self.of_s > 0.0 { (self.at_s / self.of_s).min(1.0) } else { 0.0 };
        let done = (left * BAR as f64).round() as usize;
        let bar = "━".repeat(done) + &"─".repeat(BAR - done);
        let red = |name: &str, count: u64| {
            let told = format!("{name} {}", numbers::count(count));
            if colour && count > 0 { format!("\x1b[31m{told}\x1b[0m") } else { told }
        };
        let mut lines = vec![
            what.to_owned(),
            format!("  {bar}  {} of {}", numbers::seconds(self.at_s.min(self.of_s)), numbers::seconds(self.of_s)),
            format!("  {} ok in the last second, {} so far", numbers::rate(last), numbers::rate(so_far)),
            format!(
                "  ok {}   {}   {}   {}",
                numbers::count(self.ok),
                red("failed", self.failed),
                red("timeout", self.timeout),
                red("wrong", self.wrong)
            ),
            format!("  latency  {}", self.quantiles()),
        ];
        let bars = self.latency_ns.as_ref().map(|all| words::bars(all, BARS, WIDTH - 4)).unwrap_or_default();
        lines.extend(bars.into_iter().map(|bar| format!("    {bar}")));
        lines
    }
}

/// What deserves a line of its own, in both.
fn said(news: &ProgressEvent<'_>) -> Option<String> {
    match news {
        ProgressEvent::Happened { what: What::Notice { text }, .. } => {
            Some(format!("  {}", hit::words_in_options(text)))
        }
        ProgressEvent::Happened { what: What::CpuShares { not_judged: Some(why), .. }, .. } => {
            Some(format!("  other processes were not judged: {why}"))
        }
        ProgressEvent::TrialEnds { reason: Some(reason), .. } => Some(format!("  {}", hit::words_in_options(reason))),
        _ => None,
    }
}

/// A line every few seconds.
struct PlainView {
    course: LiveStats,
    told_s: f64,
}

impl Observer for PlainView {
    fn tell(&mut self, news: &ProgressEvent<'_>) {
        if let ProgressEvent::Second(second) = news {
            // Only now have all threads told of the second before.
            if self.course.is_another(second) && self.course.at_s - self.told_s >= EVERY_S {
                self.told_s = self.course.at_s;
                let not_ok = match self.course.not_ok() {
                    0 => String::new(),
                    some => format!(", {} not ok", numbers::count(some)),
                };
                let [_, so_far] = self.course.rates();
                let told = numbers::seconds(self.told_s);
                output::say(&format!("  {told:>6}  {} ok{not_ok}", numbers::rate(so_far)));
            }
            self.course.add(second);
        }
        if let Some(line) = said(news) {
            output::say(&line);
        }
    }
}

/// The view of a terminal.
struct LiveView {
    bar: ProgressBar,
    what: String,
    course: LiveStats,
    colour: bool,
}

impl LiveView {
    fn new(what: &str) -> Self {
        let bar = ProgressBar::new(1);
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Self { bar, what: what.to_owned(), course: LiveStats::default(), colour: output::colour_on_stderr() }
    }
}

impl Observer for LiveView {
    fn tell(&mut self, news: &ProgressEvent<'_>) {
        match news {
            ProgressEvent::TrialBegins { .. } => self.bar.set_message(self.what.clone()),
            ProgressEvent::Second(second) => {
                self.course.add(second);
                self.bar.set_message(self.course.lines(&self.what, self.colour).join("\n"));
            }
            _ => {
                if let Some(line) = said(news) {
                    self.bar.suspend(|| output::say(&line));
                }
            }
        }
    }
}

impl Drop for LiveView {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at_s: f64, ok: u64, failed: u64, latency_us: u64) -> SecondTotals {
        let mut latency_ns = Histogram::<u64>::new(DIGITS).unwrap();
        latency_ns.record_n(latency_us * 1_000, ok).unwrap();
        SecondTotals { at_s, of_s: 10.0, ok, failed, latency_ns: Some(Box::new(latency_ns)), ..SecondTotals::default() }
    }

    fn after(seconds: &[SecondTotals]) -> LiveStats {
        let mut course = LiveStats::default();
        seconds.iter().for_each(|second| course.add(second));
        course
    }

    #[test]
    fn a_second_is_that_of_all_threads() {
        let course = after(&[second(1.0, 300, 0, 900), second(1.0, 100, 0, 900), second(2.0, 500, 2, 900)]);
        assert_eq!(course.rates(), [500.0, 450.0], "one thread has told of the second second");
        let course = after(&[
            second(1.0, 300, 0, 900),
            second(1.0, 100, 0, 900),
            second(2.0, 500, 2, 900),
            second(2.0, 100, 0, 900),
        ]);
        assert_eq!(course.rates(), [600.0, 500.0]);
        assert_eq!((course.ok, course.not_ok()), (1_000, 2));
    }

    #[test]
    fn what_ends_just_after_the_load_is_no_second_of_its_own() {
        let course = after(&[second(9.0, 400, 0, 900), second(10.0, 400, 0, 900), second(10.004, 4, 0, 900)]);
        assert!((course.rates()[0] - 404.0 / 1.004).abs() < 0.01, "{:?}", course.rates());
    }

    #[test]
    fn the_view_fits_and_shows_what_failed() {
        let mut seconds: Vec<SecondTotals> = (1..=4_u32).map(|at| second(f64::from(at), 20_000, 0, 1_000)).collect();
        seconds.push(SecondTotals { timeout: 1, wrong: 2, ..second(4.0, 50, 30, 48_000) });
        let course = after(&seconds);
        let lines = course.lines("64 agents on GET http://localhost:8080/, 10s", false);
        assert!(lines.iter().all(|line| line.chars().count() <= 80 && !line.contains('\x1b')), "{lines:#?}");
        insta::assert_snapshot!(lines.join("\n"));
        let coloured = course.lines("", true).join("\n");
        assert!(coloured.contains("\x1b[31mfailed 30\x1b[0m") && coloured.contains("  ok 80,050"), "{coloured}");
    }

    #[test]
    fn before_the_first_answer_there_is_no_figure() {
        let lines = LiveStats::default().lines("what", false).join("\n");
        assert!(lines.contains("none yet"), "{lines}");
        let few = after(&[second(1.0, 10, 0, 900)]);
        assert_eq!(few.quantiles().matches("too few").count(), 1, "{}", few.quantiles());
    }
}
