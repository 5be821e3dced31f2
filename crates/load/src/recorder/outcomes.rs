//! `outcomes.csv` and `outcomes-fine.csv`: what ended when, in slots that are as narrow as they have to be. It must not know what a fault
//! is; it is told when to look closely.
//!
//! A load of minutes is written in slots of a millisecond. A longer one is in wide slots throughout, from whose counts nothing is missing, and
//! in narrow ones besides wherever something happens: around a moment that it is told of, and around each second in which an operation
//! did not end `ok`, or nothing ended `ok` for longer than chance explains, or throughput is not what it was in the seconds before.
//! The last seconds are held back for that: what came before counts as much as what follows. Narrow rows have a budget over the
//! load; where it runs short they are ten times as wide, and where it is used up there are none.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;

use record::rows::{self, OutcomeSlot};

use crate::interval::SlotCounts;

/// Before trouble, so many seconds are written closely: a baseline of ten, and the one that a slot is cut off of.
const BEFORE_S: u64 = 11;
/// After it, so many.
const AFTER_S: u64 = 12;
/// Seconds held back. It may take a while until somebody says that a fault has begun.
const HELD_S: u64 = 30;
/// A time without success is trouble if it is longer than this …
const SILENCE_S: f64 = 0.05;
/// … and than so many times the mean distance between two: of a Poisson stream one of 160,000 distances is.
const FAR_APART: f64 = 12.0;
/// Seconds over which the rate is taken.
const RATE_S: usize = 10;
/// Throughput of a second is not what it was if it is off by this share …
const OFF: f64 = 0.25;
/// … and by so many standard deviations of a Poisson stream.
const DEVIATIONS: f64 = 5.0;
/// A second with no more slots than this costs nothing to be written closely.
const FEW: usize = 10;
/// Narrow rows that may be written at any time, and how many more over the whole load.
const AT_ONCE: f64 = 600_000.0;
const OVER_ALL: f64 = 1_400_000.0;
/// While fewer than this are left, they are wider.
const RESERVE: f64 = 200_000.0;
const WIDER: u64 = 10;

/// Widths of slots in a load of so many seconds: narrow and wide, microseconds.
#[must_use]
pub fn widths_us(load_s: f64) -> [u64; 2] {
    const STEPS: [(f64, u64); 3] = [(200.0, 1_000), (2_000.0, 10_000), (100_000.0, 100_000)];
    let wide_us = STEPS.into_iter().find(|(most_s, _)| load_s <= *most_s).map_or(1_000_000, |(_, wide_us)| wide_us);
    [1_000, wide_us]
}

/// Rows that a load of so many seconds can have at most in both files.
#[must_use]
pub fn most_rows(load_s: f64) -> f64 {
    let [narrow_us, wide_us] = widths_us(load_s);
    load_s * 1e6 / wide_us as f64 + if wide_us > narrow_us { AT_ONCE + OVER_ALL } else { 0.0 }
}

/// Writes the slots of a load, which come in order.
pub struct Writer {
    wide: rows::Writer<OutcomeSlot>,
    /// Narrow slots of a wide one; one: all slots are alike, and there is one file.
    per_wide: u64,
    now: Option<(u64, SlotCounts)>,
    close: Option<Close>,
}

/// What is written closely.
struct Close {
    path: PathBuf,
    /// Made when there is something for it.
    rows: Option<rows::Writer<OutcomeSlot>>,
    /// Seconds that may still have to be written.
    held: VecDeque<Held>,
    /// The next second to be looked at.
    next: u64,
    /// Seconds before this one are to be written.
    until: u64,
    /// `ok` operations of the last seconds.
    rates: VecDeque<u64>,
    /// The last narrow slot with a success.
    last_ok: Option<u64>,
    /// Rows that may be written now, and by how many that grows.
    left: f64,
    more_per_s: f64,
}

/// A second, as far as anything ended in it.
struct Held {
    second: u64,
    slots: Vec<(u64, SlotCounts)>,
    is_wanted: bool,
}

impl Writer {
    /// Begins both files as they are for a load of so many seconds; `fine` is made when there is something for it.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(wide: &std::path::Path, fine: PathBuf, load_s: f64) -> io::Result<Self> {
        let [narrow_us, wide_us] = widths_us(load_s);
        let close = (wide_us > narrow_us).then(|| Close {
            path: fine,
            rows: None,
            held: VecDeque::new(),
            next: 0,
            until: 0,
            rates: VecDeque::new(),
            last_ok: None,
            left: AT_ONCE,
            more_per_s: OVER_ALL / load_s.max(1.0),
        });
        Ok(Self { wide: rows::Writer::create(wide)?, per_wide: wide_us / narrow_us, now: None, close })
    }

    /// Adds the next narrow slot, which is so long. What was there before it is complete.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&mut self, number: u64, slot_s: f64, counts: SlotCounts) -> io::Result<()> {
        let Some(close) = &mut self.close else { return self.wide.write(&row(number, 1, slot_s, &counts)) };
        let second = (number as f64 * slot_s + slot_s * 1e-6) as u64;
        match close.held.back_mut().filter(|last| last.second == second) {
            Some(last) => last.slots.push((number, counts)),
            None => close.held.push_back(Held { second, slots: vec![(number, counts)], is_wanted: false }),
        }
        let wide = number / self.per_wide;
        match &mut self.now {
            Some((now, sum)) if *now == wide => sum.add(&counts),
            now => {
                let over = now.replace((wide, counts));
                self.write_wide(over, slot_s)?;
            }
        }
        Ok(())
    }

    fn write_wide(&mut self, over: Option<(u64, SlotCounts)>, slot_s: f64) -> io::Result<()> {
        let Some((wide, counts)) = over else { return Ok(()) };
        self.wide.write(&row(wide * self.per_wide, self.per_wide, slot_s, &counts))
    }

    /// All slots before this second have come, which are so long: writes what need not be held back, and hands it to the kernel.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn complete(&mut self, before: u64, slot_s: f64) -> io::Result<()> {
        let ended = |(wide, _): &mut (u64, SlotCounts)| {
            let end_s = ((*wide + 1) * self.per_wide) as f64 * slot_s;
            end_s <= before as f64 + slot_s * 1e-6
        };
        let over = self.now.take_if(ended);
        self.write_wide(over, slot_s)?;
        if let Some(close) = &mut self.close {
            close.complete(before, slot_s)?;
        }
        self.wide.flush()
    }

    /// Something begins or ends then that makes the seconds around it matter; seconds since load start.
    pub fn look_closely(&mut self, at_s: f64) {
        if let Some(close) = &mut self.close {
            close.look_at(at_s.max(0.0) as u64);
        }
    }
}

impl Close {
    fn look_at(&mut self, second: u64) {
        self.until = self.until.max(second + AFTER_S);
        let wanted = second.saturating_sub(BEFORE_S)..second + AFTER_S;
        self.held.iter_mut().filter(|held| wanted.contains(&held.second)).for_each(|held| held.is_wanted = true);
    }

    fn complete(&mut self, before: u64, slot_s: f64) -> io::Result<()> {
        // At the end it is the last second that anything ended in.
        let last = self.held.back().map_or(self.next, |held| held.second + 1);
        while self.next < before.min(last.max(self.next)) || (before != u64::MAX && self.next < before) {
            let second = self.next;
            self.next += 1;
            self.left = (self.left + self.more_per_s).min(AT_ONCE);
            if self.is_trouble(second, slot_s) {
                self.look_at(second);
            }
            let until = self.until;
            let now = self.held.iter_mut().find(|held| held.second == second);
            now.into_iter().for_each(|held| held.is_wanted |= second < until || held.slots.len() <= FEW);
        }
        self.write(slot_s)
    }

    /// Whether this second, in which all has ended that will, is unlike those before it.
    fn is_trouble(&mut self, second: u64, slot_s: f64) -> bool {
        let none = Vec::new();
        let slots = self.held.iter().find(|held| held.second == second).map_or(&none, |held| &held.slots);
        let (mut ok, mut bad, mut silence, mut last_ok) = (0_u64, 0_u64, 0_u64, self.last_ok);
        let end = ((second + 1) as f64 / slot_s).round() as u64;
        let mut silent_until = |slot: u64, last_ok: Option<u64>| {
            silence = silence.max(last_ok.map_or(0, |last| slot.saturating_sub(last + 1)));
        };
        for (number, counts) in slots {
            bad += u64::from(counts.failed) + u64::from(counts.timeout) + u64::from(counts.wrong);
            if counts.ok > 0 {
                ok += u64::from(counts.ok);
                silent_until(*number, last_ok);
                last_ok = Some(*number);
            }
        }
        silent_until(end, last_ok);
        self.last_ok = last_ok;
        let usual = self.rates.iter().sum::<u64>() as f64 / self.rates.len().max(1) as f64;
        let is_off = (ok as f64 - usual).abs() > (OFF * usual).max(DEVIATIONS * usual.sqrt());
        let is_silent = silence as f64 * slot_s > SILENCE_S.max(FAR_APART / usual);
        let knows = usual > 0.0;
        self.rates.push_back(ok);
        if self.rates.len() > RATE_S {
            self.rates.pop_front();
        }
        bad > 0 || (knows && (is_off || is_silent))
    }

    /// Writes what is wanted. What is not is held for a while; the file is in the order of time, so when something later is written it
    /// is given up.
    fn write(&mut self, slot_s: f64) -> io::Result<()> {
        while let Some(front) = self.held.front() {
            let is_looked_at = front.second < self.next;
            if is_looked_at && front.is_wanted {
                if let Some(held) = self.held.pop_front() {
                    self.write_second(&held.slots, slot_s)?;
                }
            } else if is_looked_at && (front.second + HELD_S < self.next || self.held.iter().any(|held| held.is_wanted))
            {
                self.held.pop_front();
            } else {
                break;
            }
        }
        self.rows.as_mut().map_or(Ok(()), rows::Writer::flush)
    }

    fn write_second(&mut self, slots: &[(u64, SlotCounts)], slot_s: f64) -> io::Result<()> {
        let mut wider: Vec<(u64, SlotCounts)> = Vec::new();
        for (number, counts) in slots {
            match wider.last_mut() {
                Some((last, sum)) if *last == number / WIDER => sum.add(counts),
                _ => wider.push((number / WIDER, *counts)),
            }
        }
        let after = |rows: usize| self.left - rows as f64;
        let (slots, width) = if after(slots.len()) >= RESERVE {
            (slots, 1)
        } else if after(wider.len()) >= 0.0 {
            (&wider[..], WIDER)
        } else {
            return Ok(());
        };
        self.left -= slots.len() as f64;
        let rows = match &mut self.rows {
            Some(rows) => rows,
            none => none.insert(rows::Writer::create(&self.path)?),
        };
        slots.iter().try_for_each(|(number, counts)| rows.write(&row(number * width, width, slot_s, counts)))
    }
}

/// The row of so many slots from this one on.
fn row(number: u64, slots: u64, slot_s: f64, counts: &SlotCounts) -> OutcomeSlot {
    let SlotCounts { ok, failed, timeout, wrong } = *counts;
    // To the nanosecond: the product of two decimal fractions is none.
    let rounded = |of_s: f64| (of_s * 1e9).round() / 1e9;
    OutcomeSlot {
        at_s: rounded(number as f64 * slot_s),
        slot_s: rounded(slots as f64 * slot_s),
        ok,
        failed,
        timeout,
        wrong,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    /// Plays a load of so many seconds at five operations a millisecond, but for what `of` says of a slot, and reads both files.
    fn played(
        load_s: u64,
        seconds: u64,
        of: impl Fn(u64) -> SlotCounts,
        at: impl Fn(u64) -> Option<f64>,
    ) -> [Vec<OutcomeSlot>; 2] {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("plimsoll-outcomes-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (wide, fine) = (folder.join("outcomes.csv"), folder.join("outcomes-fine.csv"));
        let mut writer = Writer::create(&wide, fine.clone(), load_s as f64).unwrap();
        for second in 0..seconds {
            for slot in second * 1_000..(second + 1) * 1_000 {
                let counts = of(slot);
                if counts != SlotCounts::default() {
                    writer.add(slot, 0.001, counts).unwrap();
                }
            }
            at(second).into_iter().for_each(|at_s| writer.look_closely(at_s));
            writer.complete(second + 1, 0.001).unwrap();
            let held = writer.close.as_ref().map_or(0, |close| close.held.len());
            assert!(held <= HELD_S as usize + 2, "{held} seconds are held at {second} s");
        }
        writer.complete(u64::MAX, 0.001).unwrap();
        let read = [&wide, &fine].map(|path| rows::read::<OutcomeSlot>(path).unwrap().items);
        std::fs::remove_dir_all(&folder).unwrap();
        read
    }

    const CALM: SlotCounts = SlotCounts { ok: 5, failed: 0, timeout: 0, wrong: 0 };

    fn span(rows: &[OutcomeSlot]) -> (f64, f64) {
        (rows[0].at_s, rows[rows.len() - 1].at_s)
    }

    #[test]
    fn a_short_load_is_in_narrow_slots_throughout_and_in_one_file() {
        let [wide, fine] = played(200, 200, |_| CALM, |_| Some(7.0));
        assert_eq!((wide.len(), fine.len()), (200_000, 0));
        assert_eq!((wide[3].at_s, wide[3].slot_s), (0.003, 0.001));
    }

    #[test]
    fn nothing_is_missing_from_the_wide_slots_and_calm_seconds_have_no_others() {
        let [wide, fine] = played(300, 300, |_| CALM, |_| None);
        assert_eq!((wide.len(), fine.len()), (30_000, 0));
        assert_eq!(wide.iter().map(|row| u64::from(row.ok)).sum::<u64>(), 1_500_000);
        assert_eq!((wide[7].at_s, wide[7].slot_s), (0.07, 0.01));
    }

    /// Nobody knew of it before: the seconds before it are written closely, too.
    #[test]
    fn a_silence_of_a_quarter_of_a_second_is_there_to_the_millisecond() {
        let silent = 250_100..250_350;
        let [wide, fine] =
            played(400, 400, |slot| if silent.contains(&slot) { SlotCounts::default() } else { CALM }, |_| None);
        assert!(wide.iter().map(|row| u64::from(row.ok)).sum::<u64>() == 5 * (400_000 - 250));
        assert_eq!(span(&fine), (239.0, 261.999));
        let gaps: Vec<_> = fine.windows(2).filter(|pair| pair[1].at_s - pair[0].at_s > 0.0015).collect();
        assert_eq!(gaps.len(), 1);
        assert_eq!((gaps[0][0].at_s, gaps[0][1].at_s), (250.099, 250.35));
    }

    #[test]
    fn a_failure_a_dip_and_a_fault_are_looked_at_closely() {
        let failed = SlotCounts { failed: 1, ..CALM };
        let [_, fine] = played(300, 300, |slot| if slot == 100_500 { failed } else { CALM }, |_| None);
        assert_eq!(span(&fine), (89.0, 111.999));
        let dip = SlotCounts { ok: 3, ..CALM };
        let [_, fine] = played(300, 300, |slot| if slot / 1_000 == 150 { dip } else { CALM }, |_| None);
        assert_eq!(fine[0].at_s, 139.0);
        // It is told of three seconds after it began.
        let [_, fine] = played(300, 300, |_| CALM, |second| (second == 203).then_some(200.4));
        assert_eq!(span(&fine), (189.0, 211.999));
    }

    /// A service that always fails a little would fill the disk.
    #[test]
    fn narrow_rows_stay_within_their_budget() {
        let failing = SlotCounts { failed: 1, ..CALM };
        let [wide, fine] = played(20_000, 700, |_| failing, |_| None);
        assert_eq!(wide.len(), 7_000);
        assert!((fine.len() as f64) < AT_ONCE + OVER_ALL, "{}", fine.len());
        assert!(fine.iter().any(|row| row.slot_s == 0.01) && fine[0].slot_s == 0.001);
        assert!((wide.len() + fine.len()) as f64 <= most_rows(20_000.0));
    }
}
