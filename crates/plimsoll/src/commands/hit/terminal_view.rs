//! Live output of `plimsoll hit`: a view that is redrawn each second on a terminal, otherwise a few
//! lines. The final results come from the records instead.

use conduct::{Observer, ProgressEvent};
use indicatif::{ProgressBar, ProgressStyle};
use record::events::What;
use report::words;
use text::numbers;

use crate::commands::hit;
use crate::load_so_far::LoadSoFar;
use crate::output;

/// Width of the view, columns. A narrower terminal wraps its lines.
const WIDTH: usize = 78;
/// Maximum number of bars of the latency distribution.
const BARS: usize = 8;
/// Width of the progress bar, columns.
const BAR: usize = 40;
/// Seconds between two lines of the plain output.
const EVERY_S: f64 = 5.0;

/// Returns the observer for standard error. The observer first shows `what`, the load's
/// description.
pub fn observer(plain: bool, what: &str, count: Option<u64>) -> Box<dyn Observer> {
    let course = LoadSoFar::of(count);
    if plain || !output::is_watched() {
        output::say(what);
        Box::new(PlainView { course, told_s: 0.0 })
    } else {
        Box::new(LiveView::new(what, course))
    }
}

/// Returns the lines of the view. The first is `what`, the description of the load.
fn view_lines(stats: &LoadSoFar, what: &str, colour: bool) -> Vec<String> {
    let [last, so_far] = stats.rates();
    let seconds = [stats.at_s.min(stats.of_s), stats.of_s];
    let ([so_much, all], write): (_, fn(f64) -> String) = match stats.count {
        Some(count) => ([(stats.ok + stats.not_ok()) as f64, count as f64], numbers::median_count),
        None => (seconds, numbers::seconds),
    };
    let share = if all > 0.0 { (so_much / all).min(1.0) } else { 0.0 };
    let done = (share * BAR as f64).round() as usize;
    let bar = "━".repeat(done) + &"─".repeat(BAR - done);
    let [failed, timeout, wrong] =
        [("failed", stats.failed), ("timeout", stats.timeout), ("wrong", stats.wrong)].map(|(name, count)| {
            let text = format!("{name} {}", numbers::count(count));
            if colour && count > 0 { format!("\x1b[31m{text}\x1b[0m") } else { text }
        });
    let mut lines = vec![
        what.to_owned(),
        format!("  {bar}  {} of {}", write(so_much), write(all)),
        format!("  {} ok in the last second, {} so far", numbers::rate(last), numbers::rate(so_far)),
        format!("  ok {}   {failed}   {timeout}   {wrong}", numbers::count(stats.ok)),
        format!("  latency  {}", stats.quantiles()),
    ];
    let bars = stats.latency_ns.as_ref().map(|all| words::bars(all, BARS, WIDTH - 4)).unwrap_or_default();
    lines.extend(bars.into_iter().map(|bar| format!("    {bar}")));
    lines
}

/// Returns the line for an event that the view and the plain output both show; `None` for others.
fn said(event: &ProgressEvent<'_>) -> Option<String> {
    match event {
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

/// Observer that prints a line every few seconds.
struct PlainView {
    course: LoadSoFar,
    told_s: f64,
}

impl Observer for PlainView {
    fn tell(&mut self, event: &ProgressEvent<'_>) {
        if let ProgressEvent::Second(second) = event {
            // Once a thread reports another second, all threads have reported the previous one.
            if self.course.is_another(second) && self.course.at_s - self.told_s >= EVERY_S {
                self.told_s = self.course.at_s;
                let not_ok = match self.course.not_ok() {
                    0 => String::new(),
                    some => format!(", {} not ok", numbers::count(some)),
                };
                let [_, so_far] = self.course.rates();
                let at = numbers::seconds(self.told_s);
                output::say(&format!("  {at:>6}  {} ok{not_ok}", numbers::rate(so_far)));
            }
            self.course.add(second);
        }
        if let Some(line) = said(event) {
            output::say(&line);
        }
    }
}

/// Observer that redraws the view on a terminal.
struct LiveView {
    bar: ProgressBar,
    what: String,
    course: LoadSoFar,
    colour: bool,
}

impl LiveView {
    fn new(what: &str, course: LoadSoFar) -> Self {
        let bar = ProgressBar::new(1);
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Self { bar, what: what.to_owned(), course, colour: output::colour_on_stderr() }
    }
}

impl Observer for LiveView {
    fn tell(&mut self, event: &ProgressEvent<'_>) {
        match event {
            ProgressEvent::TrialBegins { .. } => self.bar.set_message(self.what.clone()),
            ProgressEvent::Second(second) => {
                self.course.add(second);
                self.bar.set_message(view_lines(&self.course, &self.what, self.colour).join("\n"));
            }
            _ => {
                if let Some(line) = said(event) {
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
    use conduct::SecondTotals;
    use hdrhistogram::Histogram;

    use super::*;
    use crate::load_so_far::DIGITS;

    fn second(at_s: f64, ok: u64, failed: u64, latency_us: u64) -> SecondTotals {
        let mut latency_ns = Histogram::<u64>::new(DIGITS).unwrap();
        latency_ns.record_n(latency_us * 1_000, ok).unwrap();
        SecondTotals { at_s, of_s: 10.0, ok, failed, latency_ns: Some(Box::new(latency_ns)), ..SecondTotals::default() }
    }

    fn after(seconds: &[SecondTotals]) -> LoadSoFar {
        let mut course = LoadSoFar::default();
        seconds.iter().for_each(|second| course.add(second));
        course
    }

    #[test]
    fn a_second_sums_all_threads() {
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
    fn a_late_remainder_joins_the_last_second() {
        let course = after(&[second(9.0, 400, 0, 900), second(10.0, 400, 0, 900), second(10.004, 4, 0, 900)]);
        assert!((course.rates()[0] - 404.0 / 1.004).abs() < 0.01, "{:?}", course.rates());
    }

    #[test]
    fn the_view_fits_80_columns_and_shows_failures() {
        let mut seconds: Vec<SecondTotals> = (1..=4_u32).map(|at| second(f64::from(at), 20_000, 0, 1_000)).collect();
        seconds.push(SecondTotals { timeout: 1, wrong: 2, ..second(4.0, 50, 30, 48_000) });
        let course = after(&seconds);
        let lines = view_lines(&course, "64 agents on GET http://localhost:8080/, 10s", false);
        assert!(lines.iter().all(|line| line.chars().count() <= 80 && !line.contains('\x1b')), "{lines:#?}");
        insta::assert_snapshot!(lines.join("\n"));
        let coloured = view_lines(&course, "", true).join("\n");
        assert!(coloured.contains("\x1b[31mfailed 30\x1b[0m") && coloured.contains("  ok 80,050"), "{coloured}");
    }

    #[test]
    fn no_figures_are_shown_before_the_first_answer() {
        let lines = view_lines(&LoadSoFar::default(), "what", false).join("\n");
        assert!(lines.contains("none yet"), "{lines}");
        let few = after(&[second(1.0, 10, 0, 900)]);
        assert_eq!(few.quantiles().matches("too few").count(), 1, "{}", few.quantiles());
    }
}
