//! Brings the intervals of all threads together, second by second and without losing a count, and
//! writes the load's record files.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;

use record::clock::Clock;
use record::events::HistoryEntry;
use record::folder::TrialFolder;
use record::hlog::{self, Tag};
use record::lines;
use record::rows::{self, AgentCycles, Attempts, GeneratorSecond, OutcomeSlot, UnitSecond};

use crate::Error;
use crate::interval::{HistogramSet, SlotCounts, ThreadInterval};

/// An interval shorter than this in which nothing happened is a rounding error, not a second of the generator.
const NOTHING_S: f64 = 0.001;

/// Writes `load.hlog`, `outcomes.csv`, `attempts.csv`, `generator.csv` and `history.jsonl` of a trial, `units.csv` if there are units,
/// `outcomes.csv` of each member, and at the end `agents.csv`. After each second that all
/// threads have handed over, everything is with the kernel: a SIGKILL loses at most what is younger.
pub struct Recorder {
    clock: Clock,
    histograms: hlog::HlogWriter,
    outcomes: OutcomeRecord,
    /// The same of each service, in their order; none where there is one.
    members: Vec<OutcomeRecord>,
    attempts: rows::CsvWriter<Attempts>,
    /// From the first unit on.
    units: Option<rows::CsvWriter<UnitSecond>>,
    generator: rows::CsvWriter<GeneratorSecond>,
    history: lines::JsonLinesWriter<HistoryEntry>,
    keys: SampledKeys,
    /// Of the threads that have ended.
    agent_cycles: Vec<AgentCycles>,
    paths: Paths,
    /// Seconds that not all threads have handed over, by their number.
    pending: BTreeMap<u64, PartialSecond>,
    slot_s: f64,
    /// For each thread: all seconds before this one are here.
    through: Vec<u64>,
    whole_seconds_only: bool,
}

struct Paths {
    histograms: PathBuf,
    attempts: PathBuf,
    units: PathBuf,
    generator: PathBuf,
    history: PathBuf,
    agents: PathBuf,
}

/// Which keys are audited, where there are too many for all of them: by their names and the trial's seed alone, so that a key is with all its
/// operations or with none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledKeys {
    one_in: u64,
    seed: u64,
}

impl Default for SampledKeys {
    fn default() -> Self {
        Self::of(1, 0)
    }
}

impl SampledKeys {
    /// About one of so many keys.
    #[must_use]
    pub fn of(one_in: u64, seed: u64) -> Self {
        Self { one_in: one_in.max(1), seed }
    }

    /// Whether the key of this line is one of them.
    #[must_use]
    pub fn have(&self, line: &HistoryEntry) -> bool {
        // What concerns all keys of a space has none.
        self.one_in == 1 || line.key.is_empty() || self.mark(&line.space, &line.key).is_multiple_of(self.one_in)
    }

    /// A number for the key that is as good as random. FNV-1a (Fowler, Noll, Vo) of seed, space and key, and the finalizer of MurmurHash3 (Appleby), as names that differ in their last
    /// digit are too much alike in the first.
    #[must_use]
    pub fn mark(&self, space: &str, key: &str) -> u64 {
        let bytes = self.seed.to_le_bytes().into_iter().chain(space.bytes()).chain([0xff]).chain(key.bytes());
        let hash =
            bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        mixed ^ (mixed >> 33)
    }
}

/// A second, as far as threads have handed it over.
#[derive(Default)]
struct PartialSecond {
    start_s: f64,
    end_s: f64,
    sheet: Option<HistogramSet>,
    attempts: BTreeMap<(String, String), u64>,
    /// By operation and status.
    units: BTreeMap<(String, String), u64>,
    generator: Vec<GeneratorSecond>,
}

impl Recorder {
    /// Creates the files, for a load of so many seconds.
    ///
    /// # Errors
    /// If one cannot be created.
    pub fn create(folder: &TrialFolder, clock: Clock, load_s: f64) -> Result<Self, Error> {
        let paths = Paths {
            histograms: folder.load_hlog(),
            attempts: folder.attempts(),
            units: folder.units(),
            generator: folder.generator(),
            history: folder.history(),
            agents: folder.agents(),
        };
        Ok(Self {
            clock,
            histograms: hlog::HlogWriter::create(&paths.histograms, clock.unix_s()).map_err(disk(&paths.histograms))?,
            outcomes: OutcomeRecord::create(folder, load_s)?,
            members: Vec::new(),
            attempts: rows::CsvWriter::create(&paths.attempts).map_err(disk(&paths.attempts))?,
            units: None,
            generator: rows::CsvWriter::create(&paths.generator).map_err(disk(&paths.generator))?,
            keys: SampledKeys::default(),
            agent_cycles: Vec::new(),
            history: lines::JsonLinesWriter::create(&paths.history).map_err(disk(&paths.history))?,
            paths,
            pending: BTreeMap::new(),
            slot_s: 1.0,
            through: Vec::new(),
            whole_seconds_only: false,
        })
    }

    /// What ends at each service is recorded apart, under the names of their members: where there are several.
    ///
    /// # Errors
    /// If a file cannot be created.
    pub fn record_members(&mut self, folder: &TrialFolder, names: &[String], load_s: f64) -> Result<(), Error> {
        if names.len() > 1 {
            let create = |name: &String| {
                let member = folder.create_member(name).map_err(disk(folder.member(name).path()))?;
                OutcomeRecord::create(&member, load_s)
            };
            self.members = names.iter().map(create).collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    /// From here on only these keys are audited.
    pub fn audit_only(&mut self, keys: SampledKeys) {
        self.keys = keys;
    }

    /// Where the load ends badly, the records end with the last second that all threads have handed over.
    pub fn keep_whole_seconds_only(&mut self) {
        self.whole_seconds_only = true;
    }

    /// Writes history lines of audited keys as they are, such as those of the preparation.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn history(&mut self, lines: &[HistoryEntry]) -> Result<(), Error> {
        for line in lines.iter().filter(|line| self.keys.have(line)) {
            self.history.write(line).map_err(disk(&self.paths.history))?;
        }
        self.history.flush().map_err(disk(&self.paths.history))
    }

    /// Takes an interval, and writes every second that is complete by it. Times of an interval that counts on another clock, such as
    /// the preparation's, are brought to this recorder's.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn take(&mut self, mut interval: ThreadInterval) -> Result<(), Error> {
        let ahead_s = self.clock.at_s_of(interval.clock.origin());
        for line in interval.history.iter_mut().filter(|line| self.keys.have(line)) {
            line.at_s += ahead_s;
            self.history.write(line).map_err(disk(&self.paths.history))?;
        }
        let second = interval.start_s.max(0.0) as u64;
        let threads = interval.threads as usize;
        if self.through.len() < threads {
            self.through.resize(threads, 0);
        }
        if let Some(through) = self.through.get_mut(interval.thread as usize) {
            *through = if interval.is_last { u64::MAX } else { second + 1 };
        }
        self.slot_s = interval.slot_s;
        self.agent_cycles.append(&mut interval.agent_cycles);
        for (number, services) in (interval.first_slot..).zip(interval.slots.chunks(interval.services.max(1) as usize))
        {
            services.iter().for_each(|counts| self.outcomes.count(number, counts));
            self.members.iter_mut().zip(services).for_each(|(member, counts)| member.count(number, counts));
        }
        self.pending.entry(second).or_default().add(interval);
        let complete = self.through.iter().copied().min().unwrap_or(0);
        self.write_before(complete)
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn finish(mut self) -> Result<(), Error> {
        let complete = self.through.iter().copied().min().unwrap_or(0);
        self.write_before(if self.whole_seconds_only { complete } else { u64::MAX })?;
        self.write_agents().map_err(disk(&self.paths.agents))
    }

    /// Of a load that did not end in order it is not known what its agents did.
    fn write_agents(&mut self) -> io::Result<()> {
        if self.through.is_empty() || self.through.iter().any(|through| *through != u64::MAX) {
            return Ok(());
        }
        self.agent_cycles.sort_unstable_by_key(|row| row.agent);
        let mut rows = rows::CsvWriter::create(&self.paths.agents)?;
        self.agent_cycles.iter().try_for_each(|row| rows.write(row))?;
        rows.flush()
    }

    fn write_before(&mut self, complete: u64) -> Result<(), Error> {
        while let Some(entry) = self.pending.first_entry()
            && *entry.key() < complete
        {
            let second = entry.remove();
            self.write(second)?;
        }
        for outcomes in std::iter::once(&mut self.outcomes).chain(&mut self.members) {
            outcomes.write_before(complete, self.slot_s)?;
        }
        self.histograms.flush().map_err(disk(&self.paths.histograms))?;
        self.attempts.flush().map_err(disk(&self.paths.attempts))?;
        self.units.as_mut().map_or(Ok(()), rows::CsvWriter::flush).map_err(disk(&self.paths.units))?;
        self.generator.flush().map_err(disk(&self.paths.generator))?;
        self.history.flush().map_err(disk(&self.paths.history))
    }

    fn write(&mut self, second: PartialSecond) -> Result<(), Error> {
        let length_s = second.end_s - second.start_s;
        for (operation, outcome, time, histogram) in second.sheet.iter().flat_map(HistogramSet::histograms) {
            let tag = Tag { operation: operation.to_owned(), outcome, time }.to_string();
            let written = self.histograms.write(&tag, second.start_s, length_s, histogram);
            written.map_err(disk(&self.paths.histograms))?;
        }
        for ((operation, result), count) in second.attempts {
            let row = Attempts { at_s: second.end_s, operation, result, count };
            self.attempts.write(&row).map_err(disk(&self.paths.attempts))?;
        }
        for ((operation, status), count) in second.units {
            let row = UnitSecond { at_s: second.end_s, interval_s: length_s, operation, status, count };
            self.write_units(&row).map_err(disk(&self.paths.units))?;
        }
        for row in &second.generator {
            self.generator.write(row).map_err(disk(&self.paths.generator))?;
        }
        Ok(())
    }

    /// Loads that count no units have no file of them.
    fn write_units(&mut self, row: &UnitSecond) -> io::Result<()> {
        let units = match &mut self.units {
            Some(units) => units,
            none => none.insert(rows::CsvWriter::create(&self.paths.units)?),
        };
        units.write(row)
    }

    /// A fault begins or ends then, seconds since load start: what ends around it is written closely.
    pub fn look_closely(&mut self, at_s: f64) {
        for outcomes in std::iter::once(&mut self.outcomes).chain(&mut self.members) {
            outcomes.writer.look_closely(at_s);
        }
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("pending", &self.pending.len()).finish_non_exhaustive()
    }
}

/// What ended in each slot, anywhere or at one member.
struct OutcomeRecord {
    path: PathBuf,
    writer: OutcomeWriter,
    /// Slots that may still grow, by their number.
    slots: BTreeMap<u64, SlotCounts>,
}

impl OutcomeRecord {
    fn create(folder: &TrialFolder, load_s: f64) -> Result<Self, Error> {
        let path = folder.outcomes();
        let writer = OutcomeWriter::create(&path, folder.fine_outcomes(), load_s).map_err(disk(&path))?;
        Ok(Self { path, writer, slots: BTreeMap::new() })
    }

    fn count(&mut self, number: u64, counts: &SlotCounts) {
        if *counts != SlotCounts::default() {
            self.slots.entry(number).or_default().add(counts);
        }
    }

    /// Writes the slots that end before second `complete` begins.
    fn write_before(&mut self, complete: u64, slot_s: f64) -> Result<(), Error> {
        while let Some(entry) = self.slots.first_entry() {
            // The end of a slot on a second's boundary must not depend on rounding.
            let ends_s = (*entry.key() + 1) as f64 * slot_s;
            if ends_s > complete as f64 + slot_s * 1e-6 {
                break;
            }
            let (number, counts) = entry.remove_entry();
            self.writer.add(number, slot_s, counts).map_err(disk(&self.path))?;
        }
        self.writer.complete(complete, slot_s).map_err(disk(&self.path))
    }
}

impl PartialSecond {
    fn add(&mut self, interval: ThreadInterval) {
        self.start_s = interval.start_s;
        self.end_s = self.end_s.max(interval.end_s);
        for attempts in interval.attempts {
            let sum = self.attempts.entry((attempts.operation, attempts.result)).or_default();
            *sum = sum.saturating_add(attempts.count);
        }
        for units in interval.units {
            let sum = self.units.entry((units.operation, units.status)).or_default();
            *sum = sum.saturating_add(units.count);
        }
        let row = interval.generator;
        if row.interval_s >= NOTHING_S || row.operations > 0 || row.connects > 0 || row.dropped > 0 {
            self.generator.push(row);
        }
        match &mut self.sheet {
            Some(sheet) => sheet.add(&interval.sheet),
            None => self.sheet = Some(interval.sheet),
        }
    }
}

impl SlotCounts {
    fn add(&mut self, other: &Self) {
        self.ok = self.ok.saturating_add(other.ok);
        self.failed = self.failed.saturating_add(other.failed);
        self.timeout = self.timeout.saturating_add(other.timeout);
        self.wrong = self.wrong.saturating_add(other.wrong);
    }
}

fn disk(path: &std::path::Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Disk { path, source }
}

// A load of minutes is written in slots of a millisecond. A longer one is in wide slots throughout, from whose counts nothing is missing, and
// in narrow ones besides wherever something happens: around a moment that it is told of, and around each second in which an operation
// did not end `ok`, or nothing ended `ok` for longer than chance explains, or throughput is not what it was in the seconds before.
// The last seconds are held back for that: what came before counts as much as what follows. Narrow rows have a budget over the
// load; where it runs short they are ten times as wide, and where it is used up there are none.

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

/// Writes the slots of a load, which come in order.
pub struct OutcomeWriter {
    wide: rows::CsvWriter<OutcomeSlot>,
    /// Narrow slots of a wide one; one: all slots are alike, and there is one file.
    per_wide: u64,
    now: Option<(u64, SlotCounts)>,
    close: Option<CloseUp>,
}

/// What is written closely.
struct CloseUp {
    path: PathBuf,
    /// Made when there is something for it.
    rows: Option<rows::CsvWriter<OutcomeSlot>>,
    /// Seconds that may still have to be written.
    held: VecDeque<PendingSecond>,
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
struct PendingSecond {
    second: u64,
    slots: Vec<(u64, SlotCounts)>,
    is_wanted: bool,
}

impl OutcomeWriter {
    /// Begins both files as they are for a load of so many seconds; `fine` is made when there is something for it.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(wide: &std::path::Path, fine: PathBuf, load_s: f64) -> io::Result<Self> {
        let [narrow_us, wide_us] = widths_us(load_s);
        let close = (wide_us > narrow_us).then(|| CloseUp {
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
        Ok(Self { wide: rows::CsvWriter::create(wide)?, per_wide: wide_us / narrow_us, now: None, close })
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
            None => close.held.push_back(PendingSecond { second, slots: vec![(number, counts)], is_wanted: false }),
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

impl CloseUp {
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
        self.rows.as_mut().map_or(Ok(()), rows::CsvWriter::flush)
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
            none => none.insert(rows::CsvWriter::create(&self.path)?),
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
mod tests;
