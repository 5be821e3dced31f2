//! Timeline of ended operations: counts in equal slots with their running sums, so that the count
//! of any stretch of time takes two look-ups.
//!
//! A long load is recorded in wide slots, and its important parts also in narrow ones. A slot of
//! the timeline is then a narrow slot, and operations of a wide slot are taken to be spread evenly
//! over it: only uneventful times are recorded in wide slots alone.

use std::rc::Rc;

use record::rows::OutcomeSlot;

/// Largest number of slots. More mean a broken file and not a long load: `outcomes.csv` stays at
/// about a million rows.
const MOST_SLOTS: usize = 4_000_000;

/// Largest number of slots of a load after the last slot in which an operation ended: as many as
/// any load has in total.
const SLOTS_AFTER: usize = 250_000;

/// Counts per slot since load start.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Timeline {
    slot_s: f64,
    ok: CumulativeCounts,
    failed: CumulativeCounts,
    wrong: CumulativeCounts,
    timeouts: CumulativeCounts,
    /// The timeline in wide slots alone, if a part was recorded in narrow slots.
    whole: Option<Box<Timeline>>,
    /// Largest error of a recording process's times, seconds.
    clock_error_s: f64,
}

/// Running sums over cells, each of one slot or of several.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CumulativeCounts {
    sums: Vec<u64>,
    /// Cells of several slots; `None` if each cell is one slot.
    cells: Option<Rc<Cells>>,
}

/// Boundaries of cells: runs of slots that are counted together.
#[derive(Debug, PartialEq)]
struct Cells {
    /// The first slot of each cell, followed by the end of the last cell.
    starts: Vec<u32>,
    /// The cell in which each wide slot begins, as an index for fast look-up.
    first: Vec<u32>,
    /// Length of a wide slot, in slots.
    wide: usize,
}

impl Cells {
    /// Returns the cell that contains a slot, or the number of cells for a slot beyond the last
    /// cell.
    fn of(&self, slot: usize) -> usize {
        let number = slot / self.wide;
        let Some(&first) = self.first.get(number) else { return self.starts.len() - 1 };
        let last = self.first.get(number + 1).map_or(self.starts.len(), |next| *next as usize + 1);
        first as usize + self.starts[first as usize..last].partition_point(|start| *start as usize <= slot) - 1
    }

    fn start(&self, cell: usize) -> usize {
        self.starts[cell] as usize
    }
}

impl CumulativeCounts {
    pub(crate) fn of(per_slot: impl IntoIterator<Item = u64>) -> Self {
        let mut sums = vec![0];
        let mut sum = 0;
        for count in per_slot {
            sum += count;
            sums.push(sum);
        }
        Self { sums, cells: None }
    }

    /// Returns the count before this slot.
    fn before(&self, slot: usize) -> u64 {
        let last = self.sums.len() - 1;
        let Some(cells) = &self.cells else { return self.sums[slot.min(last)] };
        let cell = cells.of(slot);
        if cell >= last {
            return self.sums[last];
        }
        let (start, end) = (cells.start(cell), cells.start(cell + 1));
        let held = self.sums[cell + 1] - self.sums[cell];
        self.sums[cell] + (held * (slot - start) as u64).div_ceil((end - start) as u64)
    }

    /// Returns the slot of an operation in this cell. `number` is the index of the operation in the
    /// whole timeline.
    fn slot_in(&self, cell: usize, number: u64) -> usize {
        let Some(cells) = &self.cells else { return cell };
        let held = (self.sums[cell + 1] - self.sums[cell]).max(1);
        let length = (cells.start(cell + 1) - cells.start(cell)) as u64;
        cells.start(cell) + ((number - self.sums[cell]) * length / held) as usize
    }

    /// Returns the count in slots `from..until`. Slots beyond the end are empty.
    pub(crate) fn between(&self, from: usize, until: usize) -> u64 {
        self.before(until).saturating_sub(self.before(from))
    }

    /// Returns the first slot in `from..until` that is not empty.
    pub(crate) fn first_in(&self, from: usize, until: usize) -> Option<usize> {
        let before = self.before(from);
        let first = match &self.cells {
            None => from,
            Some(cells) => cells.of(from),
        };
        let cell = first + self.sums.get(first..)?.partition_point(|&sum| sum <= before) - 1;
        let found = (cell + 1 < self.sums.len()).then(|| self.slot_in(cell, before))?;
        (found < until).then_some(found)
    }

    /// Returns the last slot in `from..until` that is not empty.
    pub(crate) fn last_in(&self, from: usize, until: usize) -> Option<usize> {
        let total = self.before(until);
        if total <= self.before(from) {
            return None;
        }
        let cell = self.sums.partition_point(|&sum| sum < total) - 1;
        Some(self.slot_in(cell, total - 1))
    }

    /// Returns the stretches of empty slots in `from..until`. A wide slot that is not empty
    /// contains no such stretch.
    pub(crate) fn silences(&self, from: usize, until: usize) -> impl Iterator<Item = [usize; 2]> {
        let mut next = from;
        std::iter::from_fn(move || {
            while next < until {
                let begin = next;
                if let Some(end) = self.end_of_wide(begin) {
                    next = end;
                    continue;
                }
                let end = self.first_in(begin, until).unwrap_or(until);
                next = end + 1;
                if end > begin {
                    return Some([begin, end]);
                }
            }
            None
        })
    }

    /// Returns the end of the wide slot that contains this slot, if the wide slot is not empty.
    fn end_of_wide(&self, slot: usize) -> Option<usize> {
        let cells = self.cells.as_ref()?;
        let cell = cells.of(slot);
        let held = self.sums.get(cell + 1)? - self.sums[cell];
        let end = cells.start(cell + 1);
        (held > 0 && end - cells.start(cell) > 1).then_some(end)
    }
}

impl Timeline {
    /// Builds the timeline of a trial's `outcomes.csv`. Returns `None` without rows.
    pub fn of(slots: &[OutcomeSlot]) -> Option<Self> {
        let slot_s = slots.first().map(|slot| slot.slot_s).filter(|&slot_s| slot_s > 0.0 && slot_s.is_finite())?;
        let indices = slots.iter().map(|slot| (slot.at_s / slot_s).round());
        let known = indices.zip(slots).filter(|(index, _)| *index >= 0.0 && *index < MOST_SLOTS as f64);
        let known = known.map(|(index, slot)| (index as usize, slot));
        let length = known.clone().map(|(index, _)| index).max()? + 1;
        let mut counts = vec![[0_u64; KINDS]; length];
        for (index, slot) in known {
            counts[index].iter_mut().zip(kinds(slot)).for_each(|(sum, count)| *sum += count);
        }
        let [ok, failed, wrong, timeouts] =
            std::array::from_fn(|kind| CumulativeCounts::of(counts.iter().map(|slot| slot[kind])));
        Some(Self { slot_s, ok, failed, wrong, timeouts, whole: None, clock_error_s: 0.0 })
    }

    /// Builds the timeline from `outcomes.csv` and the narrower slots of `outcomes-fine.csv`.
    /// Narrow slots replace a wide slot if their counts add up to its counts. So if a crash or a
    /// full disk prevented narrow slots from being written, the wide slot is kept.
    pub fn refined(wide: &[OutcomeSlot], narrow: &[OutcomeSlot]) -> Option<Self> {
        let whole = Self::of(wide)?;
        let narrowest_s = narrow.iter().map(|slot| slot.slot_s).filter(|slot_s| *slot_s > 0.0).min_by(f64::total_cmp);
        let Some(slot_s) = narrowest_s else { return Some(whole) };
        let length = whole.ok.sums.len() - 1;
        let per_wide = (whole.slot_s / slot_s).round();
        let fits = (2.0..=1e6).contains(&per_wide) && (per_wide * slot_s / whole.slot_s - 1.0).abs() < 1e-6;
        if !fits || per_wide * length as f64 >= f64::from(u32::MAX) {
            return Some(whole);
        }
        let mut builder =
            CellBuilder { wide: per_wide as usize, starts: Vec::new(), first: Vec::new(), sums: Default::default() };
        let rows: Vec<_> = narrow
            .iter()
            .map(|slot| ((slot.at_s / slot_s).round(), (slot.slot_s / slot_s).round() as usize, kinds(slot)))
            .collect();
        let mut rest = &rows[..];
        for number in 0..length {
            let begin = number * builder.wide;
            let end = begin + builder.wide;
            let skipped = rest.iter().take_while(|(at, ..)| *at < begin as f64).count();
            let count = rest[skipped..].iter().take_while(|(at, ..)| *at < end as f64).count();
            let inside = rest[skipped..skipped + count].iter().map(|&(at, slots, kinds)| (at as usize, slots, kinds));
            rest = &rest[skipped + count..];
            let held = [&whole.ok, &whole.failed, &whole.wrong, &whole.timeouts]
                .map(|counts| counts.between(number, number + 1));
            builder.add([begin, end], held, &inside.collect::<Vec<_>>());
        }
        let end = u32::try_from(length * builder.wide).ok()?;
        builder.starts.push(end);
        let cells = Rc::new(Cells { starts: builder.starts, first: builder.first, wide: builder.wide });
        let [ok, failed, wrong, timeouts] = builder.sums.map(|mut sums| {
            sums.insert(0, 0);
            CumulativeCounts { sums, cells: Some(Rc::clone(&cells)) }
        });
        Some(Self { slot_s, ok, failed, wrong, timeouts, whole: Some(Box::new(whole)), clock_error_s: 0.0 })
    }

    /// Sets the clock error: the timeline was recorded by several processes, whose clocks may each
    /// be off by this much.
    pub fn with_clock_error(self, clock_error_s: f64) -> Self {
        let whole = self.whole.map(|whole| Box::new(whole.with_clock_error(clock_error_s)));
        Self { clock_error_s, whole, ..self }
    }

    /// Returns the largest error of an operation's time, seconds; 0 if one clock timed all
    /// operations.
    pub fn clock_error_s(&self) -> f64 {
        self.clock_error_s
    }

    /// Returns the slots by which a common silence may be shorter than recorded. The silence of one
    /// process may have begun an error later, and that of another may have ended an error earlier.
    pub fn unsure(&self) -> usize {
        (2.0 * self.clock_error_s / self.slot_s - 1e-6).ceil().clamp(0.0, MOST_SLOTS as f64) as usize
    }

    /// Returns the timeline in wide slots alone, for analyses of hours; `None` if there are no
    /// narrow slots.
    pub fn whole(&self) -> Option<&Self> {
        self.whole.as_deref()
    }

    pub fn slot_s(&self) -> f64 {
        self.slot_s
    }

    /// Returns the number of slots in this time, rounded.
    pub fn slots_in(&self, long_s: f64) -> usize {
        (long_s / self.slot_s).round() as usize
    }

    /// Returns the number of operations that ended `failed`, `timeout` or `wrong` in these slots.
    pub fn bad_between(&self, from: usize, until: usize) -> u64 {
        self.failed.between(from, until) + self.wrong.between(from, until)
    }

    /// Returns the number of slots up to the last in which an operation ended.
    pub fn slots(&self) -> usize {
        let last = self.ok.cells.as_ref().and_then(|cells| cells.starts.last());
        last.map_or(self.ok.sums.len() - 1, |end| *end as usize)
    }

    /// Returns the slot that begins at or before `at_s`. The result is limited, so that loops up to
    /// it end: no operation is counted so far beyond the last slot.
    pub fn slot_of(&self, at_s: f64) -> usize {
        // Slots begin at times that floating-point numbers only approximate.
        let slot = (at_s.max(0.0) / self.slot_s + 1e-6).floor() as usize;
        slot.min(self.slots() + SLOTS_AFTER)
    }

    /// Returns the time at which a slot begins, seconds since load start.
    pub fn at_s(&self, slot: usize) -> f64 {
        slot as f64 * self.slot_s
    }

    /// Operations that ended `ok`.
    pub fn ok(&self) -> &CumulativeCounts {
        &self.ok
    }

    /// Operations that ended `failed` or `timeout`.
    pub fn failed(&self) -> &CumulativeCounts {
        &self.failed
    }

    /// Operations that ended `wrong`.
    pub fn wrong(&self) -> &CumulativeCounts {
        &self.wrong
    }

    /// Operations that ended `timeout`. [`Self::failed`] includes them.
    pub fn timeouts(&self) -> &CumulativeCounts {
        &self.timeouts
    }

    /// Returns `ok` per second between two times, to the slot. Returns `None` if less than a slot
    /// lies between them.
    pub fn ok_per_s(&self, from_s: f64, until_s: f64) -> Option<f64> {
        let (from, until) = (self.slot_of(from_s), self.slot_of(until_s));
        (until > from).then(|| self.ok.between(from, until) as f64 / ((until - from) as f64 * self.slot_s))
    }

    /// Returns `ok` per second in consecutive whole windows of about `window_s` between two times.
    pub fn ok_rates(&self, from_s: f64, until_s: f64, window_s: f64) -> Vec<f64> {
        let (from, until) = (self.slot_of(from_s), self.slot_of(until_s));
        let window = self.slots_in(window_s).max(1);
        let windows = until.saturating_sub(from) / window;
        let begins = (0..windows).map(|number| from + number * window);
        let counts = begins.map(|begin| self.ok.between(begin, begin + window));
        counts.map(|count| count as f64 / (window as f64 * self.slot_s)).collect()
    }
}

/// Number of counts per slot.
const KINDS: usize = 4;

/// Returns the counts of a slot: `ok`; `failed` and `timeout` together; `wrong`; and `timeout`
/// alone.
fn kinds(slot: &OutcomeSlot) -> [u64; KINDS] {
    let [ok, failed, timeout, wrong] = [slot.ok, slot.failed, slot.timeout, slot.wrong].map(u64::from);
    [ok, failed + timeout, wrong, timeout]
}

/// Builder of cells.
struct CellBuilder {
    wide: usize,
    starts: Vec<u32>,
    first: Vec<u32>,
    sums: [Vec<u64>; KINDS],
}

impl CellBuilder {
    /// Adds a wide slot with the counts `held`, or the narrow `rows` in it (first slot, number of
    /// slots, counts) if these add up to the same counts.
    fn add(&mut self, [begin, end]: [usize; 2], held: [u64; KINDS], rows: &[(usize, usize, [u64; KINDS])]) {
        self.first.push(self.starts.len() as u32);
        let sums = std::array::from_fn(|kind| rows.iter().map(|(.., counts)| counts[kind]).sum::<u64>());
        let in_order = rows.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0);
        let inside = rows.iter().all(|(start, length, _)| *length > 0 && start + length <= end);
        if !in_order || !inside || sums != held {
            return self.cell(begin, held);
        }
        let mut next = begin;
        for (start, length, counts) in rows {
            if *start > next {
                self.cell(next, [0; KINDS]);
            }
            self.cell(*start, *counts);
            next = start + length;
        }
        if next < end {
            self.cell(next, [0; KINDS]);
        }
    }

    fn cell(&mut self, start: usize, held: [u64; KINDS]) {
        self.starts.push(start as u32);
        for (sums, count) in self.sums.iter_mut().zip(held) {
            sums.push(sums.last().copied().unwrap_or(0) + count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(at_s: f64, ok: u32, failed: u32) -> OutcomeSlot {
        OutcomeSlot { at_s, slot_s: 0.001, ok, failed, ..OutcomeSlot::default() }
    }

    #[test]
    fn counts_match_the_rows() {
        let timeline = Timeline::of(&[slot(0.001, 5, 0), slot(0.003, 2, 1), slot(0.003, 1, 0)]).unwrap();
        assert_eq!(timeline.ok().between(0, 4), 8);
        assert_eq!(timeline.ok().between(2, 1_000), 3);
        assert_eq!(timeline.ok().between(9, 20), 0);
        assert_eq!(timeline.failed().between(3, 4), 1);
        assert_eq!(timeline.ok().first_in(0, 4), Some(1));
        assert_eq!(timeline.ok().first_in(2, 4), Some(3));
        assert_eq!(timeline.ok().first_in(2, 3), None);
        assert_eq!(timeline.ok().first_in(4, 9), None);
        assert_eq!(timeline.ok().first_in(40, 90), None);
        assert_eq!(timeline.ok().last_in(0, 3), Some(1));
        assert_eq!(timeline.ok().last_in(0, 99), Some(3));
        assert_eq!(timeline.ok().last_in(2, 3), None);
    }

    #[test]
    fn slots_are_found_despite_inexact_fractions() {
        let timeline = Timeline::of(&[slot(0.0, 1, 0)]).unwrap();
        for number in 0..5_000_u32 {
            assert_eq!(timeline.slot_of(f64::from(number) * 0.001), number as usize);
        }
        assert_eq!(timeline.slot_of(-3.0), 0);
    }

    #[test]
    fn rates_are_per_second() {
        let rows: Vec<_> = (0..1000).map(|number| slot(f64::from(number) / 1e3, 2, 0)).collect();
        let timeline = Timeline::of(&rows).unwrap();
        assert_eq!(timeline.ok_per_s(0.0, 1.0), Some(2000.0));
        assert_eq!(timeline.ok_per_s(0.5, 1.5), Some(1000.0));
        assert_eq!(timeline.ok_per_s(0.5, 0.5), None);
        assert_eq!(timeline.ok_rates(0.0, 1.05, 0.1), [2000.0; 10]);
    }

    #[test]
    fn impossible_rows_do_not_exhaust_memory() {
        assert_eq!(Timeline::of(&[]), None);
        assert_eq!(Timeline::of(&[OutcomeSlot::default()]), None);
        let far = Timeline::of(&[slot(0.0, 1, 0), slot(1e15, 1, 0), slot(-5.0, 1, 0), slot(f64::NAN, 1, 0)]).unwrap();
        assert_eq!(far.ok().between(0, usize::MAX), 1);
    }

    #[test]
    fn very_late_times_are_capped() {
        let timeline = Timeline::of(&[slot(0.0, 1, 0), slot(2.0, 1, 0)]).unwrap();
        for at_s in [4_294_967_296.0, 1e15, f64::INFINITY] {
            assert_eq!(timeline.slot_of(at_s), timeline.slots() + SLOTS_AFTER, "{at_s}");
        }
        assert_eq!((timeline.slot_of(f64::NAN), timeline.slot_of(-5.0)), (0, 0));
        assert_eq!(timeline.slot_of(200.0), 200_000, "the longest load of 1 ms slots");
    }

    /// Wide slots of 100 ms with ten operations each, except where `holds` returns other counts.
    fn wide(count: u32, holds: impl Fn(u32) -> (u32, u32)) -> Vec<OutcomeSlot> {
        let rows = (0..count).map(|number| {
            let (ok, failed) = holds(number);
            OutcomeSlot { at_s: f64::from(number) / 10.0, slot_s: 0.1, ok, failed, ..OutcomeSlot::default() }
        });
        rows.filter(|row| row.ok + row.failed > 0).collect()
    }

    /// Narrow slots of one second show times to the millisecond; the wide slots around them do not.
    #[test]
    fn narrow_slots_refine_wide_slots() {
        let wide = wide(40, |number| if number == 21 { (3, 2) } else { (10, 0) });
        let narrow = [slot(2.0, 10, 0), slot(2.103, 3, 0), slot(2.107, 0, 2), slot(2.299, 10, 0)];
        let timeline = Timeline::refined(&wide, &narrow).unwrap();
        assert_eq!((timeline.slot_s(), timeline.whole().unwrap().slot_s()), (0.001, 0.1));
        assert_eq!(timeline.ok().between(0, 4_000), 393);
        assert_eq!(timeline.failed().first_in(0, 4_000), Some(2_107));
        assert_eq!(timeline.failed().last_in(0, 4_000), Some(2_107));
        let silences: Vec<_> = timeline.ok().silences(0, 4_000).collect();
        assert_eq!(silences, [[2_001, 2_103], [2_104, 2_299]], "none is made up within a wide slot");
        // Operations are spread evenly within a wide slot.
        assert_eq!(timeline.ok().between(1_000, 1_050), 5);
        assert_eq!(timeline.ok().first_in(1_051, 4_000), Some(1_060));
        assert_eq!(timeline.ok_rates(0.0, 4.0, 0.1).iter().sum::<f64>().round(), 3_930.0);
    }

    /// A crash may have prevented some narrow slots from being written.
    #[test]
    fn incomplete_narrow_slots_are_ignored() {
        let wide = wide(40, |_| (10, 0));
        let timeline = Timeline::refined(&wide, &[slot(2.0, 9, 0), slot(3.05, 10, 0)]).unwrap();
        assert_eq!(timeline.ok().between(2_000, 2_050), 5, "spread");
        assert_eq!(timeline.ok().between(3_000, 3_050), 0, "known");
        let odd = OutcomeSlot { at_s: 1.0, slot_s: 0.03, ok: 10, ..OutcomeSlot::default() };
        assert_eq!(Timeline::refined(&wide, &[odd]), Timeline::of(&wide), "slots that do not fit");
        assert_eq!(Timeline::refined(&wide, &[]), Timeline::of(&wide));
    }
}
