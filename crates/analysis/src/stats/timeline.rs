//! What ended when, as counts in equal slots with their running sums, so that the count of any stretch of time costs
//! two look-ups. It must not judge what it counts.

use record::rows::OutcomeSlot;

/// Slots beyond this are a broken file and not a long load: `outcomes.csv` stays under 200,000 rows.
const MOST_SLOTS: usize = 4_000_000;

/// Slots that a load may still have had after the last in which anything ended: as many as it ever has.
const SLOTS_AFTER: usize = 250_000;

/// Counts per slot since load start.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Timeline {
    slot_s: f64,
    ok: Counts,
    failed: Counts,
    wrong: Counts,
}

/// Running sums: the count of slots `a..b` is `sums[b] - sums[a]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Counts {
    sums: Vec<u64>,
}

impl Counts {
    pub(crate) fn of(per_slot: impl IntoIterator<Item = u64>) -> Self {
        let mut sums = vec![0];
        let mut sum = 0;
        for count in per_slot {
            sum += count;
            sums.push(sum);
        }
        Self { sums }
    }

    /// How many in slots `from..until`; slots beyond the end hold nothing.
    pub(crate) fn between(&self, from: usize, until: usize) -> u64 {
        let last = self.sums.len() - 1;
        self.sums[until.min(last)].saturating_sub(self.sums[from.min(last)])
    }

    /// The first slot in `from..until` that holds anything.
    pub(crate) fn first_in(&self, from: usize, until: usize) -> Option<usize> {
        let until = until.min(self.sums.len() - 1);
        let before = *self.sums.get(from)?;
        let slot = from + self.sums[from..].partition_point(|&sum| sum <= before) - 1;
        (slot < until).then_some(slot)
    }

    /// The last slot in `from..until` that holds anything.
    pub(crate) fn last_in(&self, from: usize, until: usize) -> Option<usize> {
        let until = until.min(self.sums.len() - 1);
        let total = self.sums[until];
        (self.between(from, until) > 0).then(|| self.sums.partition_point(|&sum| sum < total) - 1)
    }
}

impl Timeline {
    /// The timeline of a trial's `outcomes.csv`; `None` without rows.
    pub fn of(slots: &[OutcomeSlot]) -> Option<Self> {
        let slot_s = slots.first().map(|slot| slot.slot_s).filter(|&slot_s| slot_s > 0.0 && slot_s.is_finite())?;
        let index = |slot: &OutcomeSlot| {
            let index = (slot.at_s / slot_s).round();
            (index >= 0.0 && index < MOST_SLOTS as f64).then_some(index as usize)
        };
        let length = slots.iter().filter_map(index).max()? + 1;
        let mut counts = vec![[0_u64; 3]; length];
        for slot in slots {
            let Some(index) = index(slot) else { continue };
            counts[index][0] += u64::from(slot.ok);
            counts[index][1] += u64::from(slot.failed) + u64::from(slot.timeout);
            counts[index][2] += u64::from(slot.wrong);
        }
        let kind = |kind: usize| Counts::of(counts.iter().map(|slot| slot[kind]));
        Some(Self { slot_s, ok: kind(0), failed: kind(1), wrong: kind(2) })
    }

    /// Length of a slot, seconds.
    pub fn slot_s(&self) -> f64 {
        self.slot_s
    }

    /// Slots up to the last in which anything ended.
    pub fn slots(&self) -> usize {
        self.ok.sums.len() - 1
    }

    /// The slot that begins at or before `at_s`. However late that is said to be, whoever walks up to it comes to an end: nothing is
    /// counted so far beyond the last slot.
    pub fn slot_of(&self, at_s: f64) -> usize {
        // Slots begin at multiples that a decimal fraction only approximates.
        let slot = (at_s.max(0.0) / self.slot_s + 1e-6).floor() as usize;
        slot.min(self.slots() + SLOTS_AFTER)
    }

    /// When a slot begins, seconds since load start.
    pub fn at_s(&self, slot: usize) -> f64 {
        slot as f64 * self.slot_s
    }

    /// Operations that ended `ok`.
    pub fn ok(&self) -> &Counts {
        &self.ok
    }

    /// Operations that ended `failed` or `timeout`.
    pub fn failed(&self) -> &Counts {
        &self.failed
    }

    /// Operations that ended `wrong`.
    pub fn wrong(&self) -> &Counts {
        &self.wrong
    }

    /// `ok` per second between two times, to the slot; `None` if that is less than a slot.
    pub fn ok_per_s(&self, from_s: f64, until_s: f64) -> Option<f64> {
        let (from, until) = (self.slot_of(from_s), self.slot_of(until_s));
        (until > from).then(|| self.ok.between(from, until) as f64 / ((until - from) as f64 * self.slot_s))
    }

    /// `ok` per second in consecutive whole windows of (about) `window_s` between two times.
    pub fn ok_rates(&self, from_s: f64, until_s: f64, window_s: f64) -> Vec<f64> {
        let (from, until) = (self.slot_of(from_s), self.slot_of(until_s));
        let window = ((window_s / self.slot_s).round() as usize).max(1);
        let windows = until.saturating_sub(from) / window;
        let rate = |number| {
            let begin = from + number * window;
            self.ok.between(begin, begin + window) as f64 / (window as f64 * self.slot_s)
        };
        (0..windows).map(rate).collect()
    }
}

#[cfg(test)]
mod tests;
