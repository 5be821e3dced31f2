//! Charts of the latency distribution of a trial's `ok` operations: a histogram, and latency by
//! percentile.

use experiment::plan::samples_for;
use text::numbers;

use super::TrialView;
use crate::drawing::axis::{Spacing, log_range};
use crate::drawing::chart::{AxisRange, Chart, ChartLine, Ink, LineStyle, Mark, Panel, PanelUnit};
use crate::drawing::path::DataPoint;
use crate::series::LatencyDistribution;

/// Maximum number of bars in the histogram.
const BARS: usize = 48;
/// Minimum ratio of the latencies of neighbouring bars. Recorded buckets are no finer.
const FINEST: f64 = 1.02;
/// Points of the percentile line per factor of ten of the remaining share.
const POINTS: u32 = 24;
/// Divisor for the first bar, which collects the quickest 1/1,000 of the operations.
const FEW: u64 = 1_000;
const US_PER_MS: f64 = 1e3;

/// Draws both charts; none without `ok` operations.
pub fn draw(view: &TrialView) -> Vec<Chart> {
    let buckets = &view.series.distribution;
    let count: u64 = buckets.iter().map(|bucket| bucket.1).sum();
    if count < 2 {
        return Vec::new();
    }
    [histogram(view, buckets, count), percentiles(buckets, count)].into_iter().filter(Chart::has_values).collect()
}

/// Returns the latency that `rank` of the operations do not exceed.
fn at_rank(buckets: &LatencyDistribution, rank: u64) -> Option<f64> {
    let mut seen = 0;
    buckets
        .iter()
        .find(|(_, count)| {
            seen += count;
            seen >= rank
        })
        .map(|(us, _)| *us)
}

/// Draws bars with equal ratios of their edges, because latencies extend over several powers of
/// ten.
fn histogram(view: &TrialView, buckets: &LatencyDistribution, count: u64) -> Chart {
    // The first bar collects the few quickest operations, which would otherwise take half of the
    // axis.
    let ends = [at_rank(buckets, count.div_ceil(FEW)), buckets.last().map(|(us, _)| *us)];
    let ends = ends.map(|us| us.unwrap_or(1.0).max(1e-3));
    let (from, to) = log_range(ends[0], ends[1]);
    let step = (to / from).powf(1.0 / BARS as f64).max(FINEST);
    let bars = ((to / from).ln() / step.ln()).ceil().max(1.0) as usize;
    let mut sums = vec![0_u64; bars];
    for (us, count) in buckets {
        let bar = ((us.max(from) / from).ln() / step.ln()) as usize;
        sums[bar.min(bars - 1)] += count;
    }
    // A staircase: vertical at the start of a bar, horizontal along it.
    let mut points: Vec<DataPoint> = Vec::new();
    for (bar, sum) in sums.iter().enumerate() {
        let share = Some(100.0 * *sum as f64 / count as f64);
        points.extend([bar, bar + 1].map(|edge| ((from * step.powf(edge as f64)).min(to) / US_PER_MS, share)));
    }
    let line = ChartLine::new("operations", (Ink::Ok, LineStyle::Filled), points);
    let of = view.trial.latency_us.as_ref();
    let mut marks = Vec::new();
    for (name, us) in [("p50", of.and_then(|of| of.p50)), ("p99", of.and_then(|of| of.p99))] {
        marks.extend(us.map(|us| Mark::new(us / US_PER_MS, format!("{name} {}", numbers::micros(us)))));
    }
    let note = "Of all ok operations, the warm-up included; the marks are those of the measured part.";
    let label = "share of ok operations, log scale of latency";
    let panels = vec![Panel::linear(label, PanelUnit::Percent, 150.0, vec![line])];
    let x = AxisRange::new(Spacing::Log, from / US_PER_MS, to / US_PER_MS, "ms");
    Chart { marks, ..Chart::new("histogram", "Latency distribution", note, x, panels) }
}

/// Draws latency by percentile, up to the last quantile that this number of operations supports.
fn percentiles(buckets: &LatencyDistribution, count: u64) -> Chart {
    let mut points: Vec<DataPoint> = Vec::new();
    // Starts at the tenth percentile: the quickest operations would stretch the vertical axis.
    for step in 1.. {
        // 1 / (1 - q): 10 is p90, 100 is p99.
        let beyond = 10_f64.powf(f64::from(step) / f64::from(POINTS));
        if beyond >= 1e7 || count < samples_for(1.0 - 1.0 / beyond) {
            break;
        }
        let rank = (count as f64 * (1.0 - 1.0 / beyond)).ceil().max(1.0) as u64;
        points.push((beyond, at_rank(buckets, rank)));
    }
    let to = points.last().map_or(1.0, |point| point.0).max(2.0);
    let line = ChartLine::new("latency", (Ink::Three, LineStyle::Solid), points);
    let label = "latency that this share does not exceed, log scale";
    let mut panel = Panel::log(label, PanelUnit::Micros, 150.0, vec![line]);
    panel.levels = buckets.last().map(|(us, _)| (format!("max: {}", numbers::micros(*us)), *us)).into_iter().collect();
    let note = format!(
        "Of {} ok operations; the line ends where too few operations support the next percentile.",
        numbers::count(count)
    );
    let x = AxisRange::new(Spacing::Nines, 1.0, to, "%");
    Chart::new("percentiles", "Latency by percentile", note, x, vec![panel])
}

#[cfg(test)]
mod tests {
    use record::results::{Quantiles, Trial};

    use super::*;
    use crate::series::TrialSeries;

    fn charts(distribution: LatencyDistribution) -> Vec<Chart> {
        let series = TrialSeries { distribution, ..TrialSeries::default() };
        let trial =
            Trial { latency_us: Some(Quantiles { p50: Some(500.0), ..Quantiles::default() }), ..Trial::default() };
        draw(&TrialView { trial: &trial, series: &series, points: 100 })
    }

    #[test]
    fn bars_cover_all_operations_and_known_quantiles_are_marked() {
        let charts = charts(vec![(400.0, 600), (900.0, 399), (50_000.0, 1)]);
        let points = &charts[0].panels[0].lines[0].points;
        let all: f64 = points.iter().step_by(2).filter_map(|point| point.1).sum();
        assert!((all - 100.0).abs() < 1e-9, "{all}");
        let highest = points.iter().max_by(|a, b| a.1.unwrap_or(0.0).total_cmp(&b.1.unwrap_or(0.0))).unwrap();
        assert!((0.36..=0.46).contains(&highest.0), "a bar around 0.4 ms: {highest:?}");
        let marks: Vec<&str> = charts[0].marks.iter().map(|mark| mark.label.as_str()).collect();
        assert_eq!(marks, ["p50 500 µs"], "a quantile that is not known is not marked");
    }

    #[test]
    fn the_line_by_percentile_ends_where_operations_are_too_few() {
        let few = charts(vec![(400.0, 50), (900.0, 50)]).remove(1);
        assert!(few.x.to < 100.0, "100 operations have no p99: {}", few.x.to);
        let many = charts(vec![(400.0, 50_000), (900.0, 50_000)]).remove(1);
        assert!((1_000.0..100_000.0).contains(&many.x.to), "{}", many.x.to);
        let points = &many.panels[0].lines[0].points;
        let at = [1.5, 9.9].map(|beyond| points.iter().find(|point| point.0 >= beyond).unwrap().1);
        assert_eq!(at, [Some(400.0), Some(900.0)]);
        assert!(charts(vec![(1.0, 1)]).is_empty(), "one operation has no distribution");
    }
}
