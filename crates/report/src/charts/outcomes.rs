//! Chart of operations by outcome. Failures have separate lanes, because 99 failures are invisible
//! on an axis that ends at 60,000.

use record::rows::OutcomeSlot;
use text::numbers;

use super::TrialView;
use crate::drawing::chart::{Chart, Ink, LineStyle, Panel, PanelUnit};
use crate::drawing::path::DataPoint;

/// Duration below which a trial has bins shorter than a second.
const SHORT_S: f64 = 40.0;
const FINE_S: f64 = 0.2;

/// Returns one count of a slot.
type SlotCount = fn(&OutcomeSlot) -> u32;

pub fn draw(view: &TrialView) -> Vec<Chart> {
    if view.series.outcomes.is_empty() {
        return Vec::new();
    }
    let bin_s = bin_s(view);
    let bins = Bins::of(&view.series.outcomes, view.end_s(), bin_s);
    let ok = view.line("ok", (Ink::Ok, LineStyle::Filled), &bins.rate(|slot| slot.ok));
    let mut panels = vec![Panel::linear("ok operations per second", PanelUnit::PerSecond, 150.0, vec![ok])];
    let lanes: [(&str, Ink, SlotCount); 3] = [
        ("failed", Ink::Failed, |slot| slot.failed),
        ("timeout", Ink::Timeout, |slot| slot.timeout),
        ("wrong", Ink::Wrong, |slot| slot.wrong),
    ];
    for (name, ink, count) in lanes {
        let points = bins.count(count);
        let total: f64 = points.iter().filter_map(|point| point.1).sum();
        if total > 0.0 {
            let label = format!("{name} in each {}: {} in all", every(bin_s), numbers::count(total as u64));
            let line = view.line(name, (ink, LineStyle::Bars((bin_s * 1e3) as u32)), &points);
            panels.push(Panel::linear(&label, PanelUnit::Count, 40.0, vec![line]));
        }
    }
    if panels.len() == 1 {
        let mut none = Panel::linear("failed, timeout, wrong", PanelUnit::Count, 20.0, Vec::new());
        none.remark = "none in this trial".to_owned();
        panels.push(none);
    }
    vec![view.chart_with_warmup("outcomes", "Operations by outcome", "", panels)]
}

/// Returns the length of a bin for a trial of this duration.
pub(super) fn bin_s(view: &TrialView) -> f64 {
    if view.end_s() < SHORT_S { FINE_S } else { 1.0 }
}

fn every(bin_s: f64) -> String {
    if bin_s == 1.0 { "second".to_owned() } else { format!("{bin_s} s") }
}

/// Slots summed into equal bins. A bin without any operation is 0, not a gap, because the engine
/// ran.
pub(super) struct Bins {
    bin_s: f64,
    slots: Vec<OutcomeSlot>,
    /// Whether the last bin is shorter than the others, so that its rate would be too low.
    cut_short: bool,
}

impl Bins {
    pub fn of(outcomes: &[OutcomeSlot], end_s: f64, bin_s: f64) -> Self {
        let mut slots = vec![OutcomeSlot::default(); (end_s / bin_s - 1e-6).ceil().max(1.0) as usize];
        for slot in outcomes.iter().filter(|slot| slot.at_s >= 0.0) {
            let bin = ((slot.at_s / bin_s + 1e-6) as usize).min(slots.len() - 1);
            let sum = &mut slots[bin];
            sum.ok += slot.ok;
            sum.failed += slot.failed;
            sum.timeout += slot.timeout;
            sum.wrong += slot.wrong;
        }
        let cut_short = slots.len() as f64 * bin_s - end_s > 0.1 * bin_s;
        Self { bin_s, slots, cut_short }
    }

    fn points(&self, value: impl Fn(usize, &OutcomeSlot) -> Option<f64>) -> Vec<DataPoint> {
        let slots = self.slots.iter().enumerate();
        slots.map(|(index, slot)| ((index as f64 + 0.5) * self.bin_s, value(index, slot))).collect()
    }

    pub fn rate(&self, count: SlotCount) -> Vec<DataPoint> {
        let whole = if self.cut_short { self.slots.len() - 1 } else { self.slots.len() };
        self.points(|index, slot| (index < whole).then(|| f64::from(count(slot)) / self.bin_s))
    }

    fn count(&self, count: SlotCount) -> Vec<DataPoint> {
        self.points(|_, slot| Some(f64::from(count(slot))))
    }
}
