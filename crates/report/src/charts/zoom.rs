//! Chart of the effect of a fault on clients, in slots of a few milliseconds.

use record::results::Fault;
use record::rows::OutcomeSlot;
use text::numbers;

use super::{TrialView, fault_label};
use crate::drawing;
use crate::drawing::axis::Spacing;
use crate::drawing::chart::{AxisRange, Chart, Ink, LineStyle, Mark, Panel, PanelUnit};
use crate::drawing::path::DataPoint;
use crate::tables::outages::earlier_baseline;

/// Time shown around a fault: minimum on each side, maximum before it, and maximum after it.
const LEAST_S: f64 = 0.5;
const BEFORE_S: f64 = 2.0;
const AFTER_S: f64 = 30.0;
/// Maximum and minimum number of bins. Within these limits, a bin is long enough to hold [`HELD`]
/// operations.
const BINS: (f64, f64) = (400.0, 40.0);
const HELD: f64 = 100.0;
/// Maximum number of occurrences shown: the first ones.
const SHOWN: usize = 4;

pub fn draw(view: &TrialView) -> Vec<Chart> {
    if view.series.outcomes.first().is_none_or(|slot| slot.slot_s <= 0.0) {
        return Vec::new();
    }
    let faults = view.trial.faults.iter().filter(|fault| fault.failed.is_none() && fault.outage.is_some());
    faults.take(SHOWN).map(|fault| zoom(view, fault)).collect()
}

fn zoom(view: &TrialView, fault: &Fault) -> Chart {
    let outage = fault.outage.clone().unwrap_or_default();
    let felt = [outage.back_to_baseline_s, outage.last_failure_s, outage.first_ok_s];
    let felt = felt.into_iter().flatten().fold(0.0, f64::max);
    // The time before the fault shows the usual state, in proportion to the outage.
    let before = ((8.0 * felt).ceil() / 2.0).clamp(LEAST_S, BEFORE_S);
    let after = (1.25 * felt).clamp(before, AFTER_S);
    let slots = view.series.narrowest(fault.at_s - before, fault.at_s + after);
    let shown = slots.iter().filter(|slot| (fault.at_s - before..fault.at_s + after).contains(&slot.at_s));
    let widest_s = shown.map(|slot| slot.slot_s).reduce(f64::max);
    let slot_s = widest_s.unwrap_or(view.series.outcomes[0].slot_s);
    let bin_s = bin(before + after, slot_s, outage.baseline_per_s);
    let bins = bins(view, &slots, fault.at_s, [before, after], bin_s);
    let rates: Vec<DataPoint> =
        bins.iter().map(|bin| (bin.at_s, bin.covered.then(|| f64::from(bin.counts[0]) / bin_s))).collect();
    let ok = view.line("ok", (Ink::Ok, LineStyle::Filled), &rates);
    let mut first = Panel::linear("ok operations per second", PanelUnit::PerSecond, 150.0, vec![ok]);
    if let Some(baseline) = outage.baseline_per_s {
        let part = earlier_baseline(fault.at_s, &outage)
            .map_or_else(|| "before the fault".to_owned(), |part| format!("baseline, {part}"));
        first.levels.push((format!("{part}: {}", numbers::rate(baseline)), baseline));
    }
    let mut panels = vec![first];
    for (index, name, ink) in [(1, "failed", Ink::Failed), (2, "timeout", Ink::Timeout), (3, "wrong", Ink::Wrong)] {
        if bins.iter().any(|bin| bin.counts[index] > 0) {
            let bars = LineStyle::Bars((bin_s * 1e3).round() as u32);
            let label = format!("{name} in each {}", numbers::seconds(bin_s));
            let counts: Vec<DataPoint> =
                bins.iter().map(|bin| (bin.at_s, bin.covered.then(|| f64::from(bin.counts[index])))).collect();
            let lines = vec![view.line(name, (ink, bars), &counts)];
            panels.push(Panel::linear(&label, PanelUnit::Count, 40.0, lines));
        }
    }
    let back = outage.back_to_baseline_s;
    let mark = Mark {
        until: back.or(fault.healed_s.map(|healed| healed - fault.at_s)).map(|until| until.min(after)),
        colours: Some(drawing::legible(&fault.colour)),
        ..Mark::new(0.0, fault_label(fault))
    };
    let note = match (back, &outage.cannot_tell) {
        (Some(back), _) => {
            format!("Shaded until throughput recovered to its baseline, after {}.", numbers::seconds(back))
        }
        (None, Some(why)) => format!("Whether throughput recovered to its baseline is unknown: {why}."),
        (None, None) => "Throughput did not recover to its baseline within the trial.".to_owned(),
    };
    let x = AxisRange { signed: true, ..AxisRange::new(Spacing::Linear, -before, after, "s") };
    let title = format!("Around the fault, in steps of {}", numbers::seconds(bin_s));
    Chart { marks: vec![mark], ..Chart::new("zoom", title, note, x, panels) }
}

/// Returns the length of a bin: a whole number of slots.
fn bin(span_s: f64, slot_s: f64, baseline_per_s: Option<f64>) -> f64 {
    let wanted = baseline_per_s.filter(|rate| *rate > 0.0).map_or(0.0, |rate| HELD / rate);
    let bin_s = wanted.clamp(span_s / BINS.0, span_s / BINS.1);
    let slots = (bin_s / slot_s - 1e-6).ceil().max(1.0);
    // Lengths of 1, 2, 5, 10 … slots are easy to count.
    let power = 10_f64.powf(slots.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= slots - 1e-6).unwrap_or(10.0);
    factor * power * slot_s
}

/// Counts of `ok`, `failed`, `timeout` and `wrong` operations in a bin.
struct Bin {
    at_s: f64,
    counts: [u32; 4],
    /// Whether the trial's records cover the bin.
    covered: bool,
}

fn bins(view: &TrialView, slots: &[OutcomeSlot], fault_s: f64, [before, after]: [f64; 2], bin_s: f64) -> Vec<Bin> {
    let end_s = view.end_s();
    let first = (before / bin_s + 1e-6).floor();
    let number = (first + (after / bin_s - 1e-6).ceil()) as usize;
    let mut bins = Vec::new();
    for index in 0..number {
        let start_s = (index as f64 - first) * bin_s;
        let covered = fault_s + start_s >= 0.0 && fault_s + start_s + bin_s <= end_s + 1e-9;
        bins.push(Bin { at_s: start_s + bin_s / 2.0, counts: [0; 4], covered });
    }
    for slot in slots {
        let index = ((slot.at_s - fault_s) / bin_s + first + 1e-6).floor();
        if index >= 0.0
            && let Some(bin) = bins.get_mut(index as usize)
        {
            let counts = [slot.ok, slot.failed, slot.timeout, slot.wrong];
            bin.counts.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }
    bins
}
