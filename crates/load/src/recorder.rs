//! Recorder of a load: merges the intervals of all threads second by second, without losing a
//! count, and writes the record files.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use record::clock::Clock;
use record::events::HistoryEntry;
use record::folder::TrialFolder;
use record::hlog::{self, Tag};
use record::lines;
use record::rows::{self, AgentCycles, Attempts, CheckSecond, GeneratorSecond, MessageSecond, OutcomeSlot, UnitSecond};

use serde::Serialize;

use crate::Error;
use crate::interval::{HistogramSet, SlotCounts, ThreadInterval};

/// Minimum length of an interval without operations, seconds. A shorter interval is a rounding
/// error and gets no row in `generator.csv`.
const NOTHING_S: f64 = 0.001;

/// Writes a trial's `load.hlog`, `outcomes.csv`, `attempts.csv`, `generator.csv` and
/// `history.jsonl`, `units.csv` if there are units, `messages.csv` if there are streams,
/// `checks.csv` if answers are compared with expectations, `outcomes.csv` of each member, and at
/// the end `agents.csv`. Once all threads have reported a second, the second's records are written
/// to the kernel, so a SIGKILL loses only later records.
pub struct Recorder {
    clock: Clock,
    histograms: hlog::HlogWriter,
    outcomes: OutcomeRecord,
    /// Outcomes of each service, in the order of the services. Empty if there is only one service.
    members: Vec<OutcomeRecord>,
    attempts: rows::CsvWriter<Attempts>,
    /// Writer of `units.csv`, opened at the first unit.
    units: Option<rows::CsvWriter<UnitSecond>>,
    /// Writer of `messages.csv`, opened at the first message.
    messages: Option<rows::CsvWriter<MessageSecond>>,
    /// Writer of `checks.csv`, opened at the first answer that is compared.
    checks: Option<rows::CsvWriter<CheckSecond>>,
    generator: rows::CsvWriter<GeneratorSecond>,
    history: lines::JsonLinesWriter<HistoryEntry>,
    keys: SampledKeys,
    /// Cycles of agents whose threads have ended.
    agent_cycles: Vec<AgentCycles>,
    paths: Paths,
    /// Seconds that at least one thread has not reported yet, by index.
    pending: BTreeMap<u64, PartialSecond>,
    slot_s: f64,
    /// Index of each thread's first unreported second.
    through: Vec<u64>,
    whole_seconds_only: bool,
}

struct Paths {
    histograms: PathBuf,
    attempts: PathBuf,
    units: PathBuf,
    messages: PathBuf,
    checks: PathBuf,
    generator: PathBuf,
    history: PathBuf,
    agents: PathBuf,
}

/// Sample of the keys to audit, if there are too many to audit all. The choice depends only on the
/// key's name and the trial's seed, so that either all operations of a key are recorded or none.
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
    /// Audits about one in `one_in` keys.
    #[must_use]
    pub fn of(one_in: u64, seed: u64) -> Self {
        Self { one_in: one_in.max(1), seed }
    }

    /// Whether the key of this entry is audited.
    #[must_use]
    pub fn have(&self, line: &HistoryEntry) -> bool {
        // An operation on all keys of a space has an empty key.
        self.one_in == 1 || line.key.is_empty() || self.mark(&line.space, &line.key).is_multiple_of(self.one_in)
    }

    /// Returns a hash of the key: FNV-1a (Fowler, Noll, Vo) of seed, space and key, then the
    /// finalizer of MurmurHash3 (Appleby). The hashes of FNV-1a alone are too similar for names
    /// that differ only in their last digit.
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

/// A second that at least one thread has not reported yet.
#[derive(Default)]
struct PartialSecond {
    start_s: f64,
    end_s: f64,
    sheet: Option<HistogramSet>,
    attempts: BTreeMap<(String, String), u64>,
    /// Counts of units by operation and status.
    units: BTreeMap<(String, String), u64>,
    /// Counts of messages by operation.
    messages: BTreeMap<String, u64>,
    /// Compared answers and failures, by operation and expectation.
    checks: BTreeMap<(String, String), (u64, u64)>,
    generator: Vec<GeneratorSecond>,
}

impl Recorder {
    /// Creates the files for a load of `load_s` seconds.
    pub fn create(folder: &TrialFolder, clock: Clock, load_s: f64) -> Result<Self, Error> {
        let paths = Paths {
            histograms: folder.load_hlog(),
            attempts: folder.attempts(),
            units: folder.units(),
            messages: folder.messages(),
            checks: folder.checks(),
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
            messages: None,
            checks: None,
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

    /// Also records the outcomes at each service separately, under the names of the members. Does
    /// nothing for a single member.
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

    /// Restricts the audit to these keys from now on.
    pub fn audit_only(&mut self, keys: SampledKeys) {
        self.keys = keys;
    }

    /// Makes the records of a failed load end with the last second that all threads have reported.
    pub fn keep_whole_seconds_only(&mut self) {
        self.whole_seconds_only = true;
    }

    /// Writes history entries of audited keys unchanged, such as those of the preparation.
    pub fn history(&mut self, lines: &[HistoryEntry]) -> Result<(), Error> {
        for line in lines.iter().filter(|line| self.keys.have(line)) {
            self.history.write(line).map_err(disk(&self.paths.history))?;
        }
        self.history.flush().map_err(disk(&self.paths.history))
    }

    /// Takes an interval and writes every second that is now complete. Times on another clock, such
    /// as the preparation's, are converted to this recorder's clock. Returns the operations on
    /// audited keys.
    pub fn take(&mut self, mut interval: ThreadInterval) -> Result<Vec<HistoryEntry>, Error> {
        let ahead_s = self.clock.at_s_of(interval.clock.origin());
        interval.history.retain(|line| self.keys.have(line));
        for line in &mut interval.history {
            line.at_s += ahead_s;
            line.start_s = line.start_s.map(|start_s| start_s + ahead_s);
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
        let history = std::mem::take(&mut interval.history);
        self.pending.entry(second).or_default().add(interval);
        let complete = self.through.iter().copied().min().unwrap_or(0);
        self.write_before(complete)?;
        Ok(history)
    }

    /// Writes the remaining seconds and `agents.csv`.
    pub fn finish(mut self) -> Result<(), Error> {
        let complete = self.through.iter().copied().min().unwrap_or(0);
        self.write_before(if self.whole_seconds_only { complete } else { u64::MAX })?;
        self.write_agents().map_err(disk(&self.paths.agents))
    }

    /// Writes `agents.csv`, if all threads have ended normally. Otherwise the cycles of some agents
    /// are unknown.
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
        self.messages.as_mut().map_or(Ok(()), rows::CsvWriter::flush).map_err(disk(&self.paths.messages))?;
        self.checks.as_mut().map_or(Ok(()), rows::CsvWriter::flush).map_err(disk(&self.paths.checks))?;
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
            let written = write_if_any(&mut self.units, &self.paths.units, &row);
            written.map_err(disk(&self.paths.units))?;
        }
        for (operation, count) in second.messages {
            let row = MessageSecond { at_s: second.end_s, interval_s: length_s, operation, count };
            let written = write_if_any(&mut self.messages, &self.paths.messages, &row);
            written.map_err(disk(&self.paths.messages))?;
        }
        for ((operation, expectation), (answers, failed)) in second.checks {
            let answers = expectation.is_empty().then_some(answers);
            let row = CheckSecond { at_s: second.end_s, interval_s: length_s, operation, expectation, answers, failed };
            let written = write_if_any(&mut self.checks, &self.paths.checks, &row);
            written.map_err(disk(&self.paths.checks))?;
        }
        for row in &second.generator {
            self.generator.write(row).map_err(disk(&self.paths.generator))?;
        }
        Ok(())
    }

    /// Requests narrow slots around the begin or the end of a fault. `at_s` is in seconds since
    /// load start.
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

/// Writes a row of a file that is created at its first row, so that loads without such rows have no
/// such file.
fn write_if_any<R: Serialize + Default>(file: &mut Option<rows::CsvWriter<R>>, path: &Path, row: &R) -> io::Result<()> {
    let rows = match file {
        Some(rows) => rows,
        none => none.insert(rows::CsvWriter::create(path)?),
    };
    rows.write(row)
}

/// Outcomes by slot, of all services or of one member.
struct OutcomeRecord {
    path: PathBuf,
    writer: OutcomeWriter,
    /// Slots whose counts may still grow, by slot index.
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

    /// Writes the slots that end at or before the start of second `complete`.
    fn write_before(&mut self, complete: u64, slot_s: f64) -> Result<(), Error> {
        while let Some(entry) = self.slots.first_entry() {
            // Rounding must not decide whether a slot ends at a second's boundary.
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
        for (operation, count) in interval.messages {
            let sum = self.messages.entry(operation).or_default();
            *sum = sum.saturating_add(count);
        }
        for checks in interval.checks {
            let (answers, failed) = self.checks.entry((checks.operation, checks.expectation)).or_default();
            *answers = answers.saturating_add(checks.answers);
            *failed = failed.saturating_add(checks.failed);
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

fn disk(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Disk { path, source }
}

// A short load (up to 200 s) is written in slots of 1 ms, in one file. A longer load has wide slots
// throughout, which include every operation. It also has narrow slots, in a second file, for times
// of interest: around the begin and the end of each fault, and around each second in which an
// operation did not end `ok`, no operation ended `ok` for longer than chance explains, or
// throughput differed from the seconds before. The last seconds are held back before they are
// written or dropped, because the time before an event matters as much as the time after it. Narrow
// rows have a budget over the load. When the budget runs low, the rows are ten times as wide; when
// it is used up, no narrow rows are written.

/// Seconds in narrow slots before an event: ten for the baseline, and one that a slot may cut into.
const BEFORE_S: u64 = 11;
/// Seconds in narrow slots after an event.
const AFTER_S: u64 = 12;
/// Number of seconds held back, because the report of a fault's begin may arrive late.
const HELD_S: u64 = 30;
/// Length of a time without success above which it is an event, seconds. The length must also
/// exceed [`FAR_APART`].
const SILENCE_S: f64 = 0.05;
/// The same threshold in mean distances between successes. In a Poisson stream, one of 160,000
/// distances exceeds it.
const FAR_APART: f64 = 12.0;
/// Seconds over which the usual throughput is averaged.
const RATE_S: usize = 10;
/// Difference of a second's throughput from the usual above which it is an event, as a share of the
/// usual. The difference must also exceed [`DEVIATIONS`].
const OFF: f64 = 0.25;
/// The same threshold in standard deviations of a Poisson stream.
const DEVIATIONS: f64 = 5.0;
/// A second with no more slots than this is always written in narrow slots.
const FEW: usize = 10;
/// Budget of narrow rows: the initial and largest budget, and the growth over the whole load.
const AT_ONCE: f64 = 600_000.0;
const OVER_ALL: f64 = 1_400_000.0;
/// Budget below which narrow rows are wider, and the factor of their width.
const RESERVE: f64 = 200_000.0;
const WIDER: u64 = 10;

/// Returns the widths of narrow and wide slots in a load of `load_s` seconds, microseconds.
#[must_use]
pub fn widths_us(load_s: f64) -> [u64; 2] {
    const STEPS: [(f64, u64); 3] = [(200.0, 1_000), (2_000.0, 10_000), (100_000.0, 100_000)];
    let wide_us = STEPS.into_iter().find(|(most_s, _)| load_s <= *most_s).map_or(1_000_000, |(_, wide_us)| wide_us);
    [1_000, wide_us]
}

/// Writes the slots of a load. The slots must be added in order.
pub struct OutcomeWriter {
    wide: rows::CsvWriter<OutcomeSlot>,
    /// Number of narrow slots in a wide slot. If it is 1, there is only one file.
    per_wide: u64,
    now: Option<(u64, SlotCounts)>,
    close: Option<CloseUp>,
}

/// State of the file with narrow slots.
struct CloseUp {
    path: PathBuf,
    /// Opened at the first row.
    rows: Option<rows::CsvWriter<OutcomeSlot>>,
    /// Seconds that may still be written.
    held: VecDeque<PendingSecond>,
    /// Next second to check for an event.
    next: u64,
    /// End of the seconds to write, exclusive.
    until: u64,
    /// Numbers of `ok` operations in the last seconds.
    rates: VecDeque<u64>,
    /// Last narrow slot with a success.
    last_ok: Option<u64>,
    /// Number of narrow rows that may be written now, and its growth per second.
    left: f64,
    more_per_s: f64,
}

/// The slots of a second in which operations ended.
struct PendingSecond {
    second: u64,
    slots: Vec<(u64, SlotCounts)>,
    is_wanted: bool,
}

impl OutcomeWriter {
    /// Prepares both files for a load of `load_s` seconds. The file `fine` is created at its first
    /// row.
    pub fn create(wide: &Path, fine: PathBuf, load_s: f64) -> io::Result<Self> {
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

    /// Adds the next narrow slot, of length `slot_s`. All earlier slots are then complete.
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

    /// Declares all slots before second `before` complete. Writes the rows that need not be held
    /// back, and flushes them.
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

    /// Requests narrow slots around an event at `at_s`, seconds since load start.
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
        // At the end of the load, `before` is `u64::MAX`: the loop then stops after the last second
        // with an ended operation.
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

    /// Whether a complete second differs from the seconds before it.
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

    /// Writes the wanted seconds. Other seconds are held for [`HELD_S`]. The file is in order of
    /// time, so an unwanted second is dropped once a later second is wanted.
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

/// Makes the row of `slots` narrow slots from slot `number` on.
fn row(number: u64, slots: u64, slot_s: f64, counts: &SlotCounts) -> OutcomeSlot {
    let SlotCounts { ok, failed, timeout, wrong } = *counts;
    // Rounded to the nanosecond, because the product of two decimal fractions is not exact.
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
