//! Brings the intervals of all threads together, second by second and without losing a count, and writes the load's record files. It
//! must not judge what it writes, and knows nothing of the threads that measured it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use record::clock::Clock;
use record::events::History;
use record::folder::TrialFolder;
use record::hlog::{self, Tag};
use record::lines;
use record::rows::{self, Attempts, GeneratorSecond};

use crate::Error;
use crate::interval::{Interval, Sheet, SlotCounts};

pub mod outcomes;

/// An interval shorter than this in which nothing happened is a rounding error, not a second of the generator.
const NOTHING_S: f64 = 0.001;

/// Writes `load.hlog`, `outcomes.csv`, `attempts.csv`, `generator.csv` and `history.jsonl` of a trial. After each second that all
/// threads have handed over, everything is with the kernel: a SIGKILL loses at most what is younger.
pub struct Recorder {
    clock: Clock,
    histograms: hlog::Writer,
    outcomes: outcomes::Writer,
    attempts: rows::Writer<Attempts>,
    generator: rows::Writer<GeneratorSecond>,
    history: lines::Writer<History>,
    keys: SampledKeys,
    paths: Paths,
    /// Seconds that not all threads have handed over, by their number.
    pending: BTreeMap<u64, Second>,
    /// Slots that may still grow, by their number.
    slots: BTreeMap<u64, SlotCounts>,
    slot_s: f64,
    /// For each thread: all seconds before this one are here.
    through: Vec<u64>,
}

struct Paths {
    histograms: PathBuf,
    outcomes: PathBuf,
    attempts: PathBuf,
    generator: PathBuf,
    history: PathBuf,
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
    pub fn have(&self, line: &History) -> bool {
        // What concerns all keys of a space has none.
        self.one_in == 1 || line.key.is_empty() || self.mark(&line.space, &line.key).is_multiple_of(self.one_in)
    }

    /// FNV-1a (Fowler, Noll, Vo) of seed, space and key, and the finalizer of MurmurHash3 (Appleby), as names that differ in their last
    /// digit are too much alike in the first.
    fn mark(&self, space: &str, key: &str) -> u64 {
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
struct Second {
    start_s: f64,
    end_s: f64,
    sheet: Option<Sheet>,
    attempts: BTreeMap<(String, String), u64>,
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
            outcomes: folder.outcomes(),
            attempts: folder.attempts(),
            generator: folder.generator(),
            history: folder.history(),
        };
        Ok(Self {
            clock,
            histograms: hlog::Writer::create(&paths.histograms, clock.unix_s()).map_err(disk(&paths.histograms))?,
            outcomes: outcomes::Writer::create(&paths.outcomes, folder.fine_outcomes(), load_s)
                .map_err(disk(&paths.outcomes))?,
            attempts: rows::Writer::create(&paths.attempts).map_err(disk(&paths.attempts))?,
            generator: rows::Writer::create(&paths.generator).map_err(disk(&paths.generator))?,
            keys: SampledKeys::default(),
            history: lines::Writer::create(&paths.history).map_err(disk(&paths.history))?,
            paths,
            pending: BTreeMap::new(),
            slots: BTreeMap::new(),
            slot_s: 1.0,
            through: Vec::new(),
        })
    }

    /// From here on only these keys are audited.
    pub fn audit_only(&mut self, keys: SampledKeys) {
        self.keys = keys;
    }

    /// Writes history lines of audited keys as they are, such as those of the preparation.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn history(&mut self, lines: &[History]) -> Result<(), Error> {
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
    pub fn take(&mut self, mut interval: Interval) -> Result<(), Error> {
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
        for (number, counts) in (interval.first_slot..).zip(&interval.slots) {
            if *counts != SlotCounts::default() {
                self.slots.entry(number).or_default().add(counts);
            }
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
        self.write_before(u64::MAX)
    }

    fn write_before(&mut self, complete: u64) -> Result<(), Error> {
        while let Some(entry) = self.pending.first_entry()
            && *entry.key() < complete
        {
            let second = entry.remove();
            self.write(second)?;
        }
        self.write_slots(complete)?;
        self.histograms.flush().map_err(disk(&self.paths.histograms))?;
        self.attempts.flush().map_err(disk(&self.paths.attempts))?;
        self.generator.flush().map_err(disk(&self.paths.generator))?;
        self.history.flush().map_err(disk(&self.paths.history))
    }

    fn write(&mut self, second: Second) -> Result<(), Error> {
        let length_s = second.end_s - second.start_s;
        for (operation, outcome, time, histogram) in second.sheet.iter().flat_map(Sheet::histograms) {
            let tag = Tag { operation: operation.to_owned(), outcome, time }.to_string();
            let written = self.histograms.write(&tag, second.start_s, length_s, histogram);
            written.map_err(disk(&self.paths.histograms))?;
        }
        for ((operation, result), count) in second.attempts {
            let row = Attempts { at_s: second.end_s, operation, result, count };
            self.attempts.write(&row).map_err(disk(&self.paths.attempts))?;
        }
        for row in &second.generator {
            self.generator.write(row).map_err(disk(&self.paths.generator))?;
        }
        Ok(())
    }

    /// Writes the slots that end before second `complete` begins.
    fn write_slots(&mut self, complete: u64) -> Result<(), Error> {
        while let Some(entry) = self.slots.first_entry() {
            // The end of a slot on a second's boundary must not depend on rounding.
            let ends_s = (*entry.key() + 1) as f64 * self.slot_s;
            if ends_s > complete as f64 + self.slot_s * 1e-6 {
                break;
            }
            let (number, counts) = entry.remove_entry();
            self.outcomes.add(number, self.slot_s, counts).map_err(disk(&self.paths.outcomes))?;
        }
        self.outcomes.complete(complete, self.slot_s).map_err(disk(&self.paths.outcomes))
    }

    /// A fault begins or ends then, seconds since load start: what ends around it is written closely.
    pub fn look_closely(&mut self, at_s: f64) {
        self.outcomes.look_closely(at_s);
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("pending", &self.pending.len()).finish_non_exhaustive()
    }
}

impl Second {
    fn add(&mut self, interval: Interval) {
        self.start_s = interval.start_s;
        self.end_s = self.end_s.max(interval.end_s);
        for attempts in interval.attempts {
            *self.attempts.entry((attempts.operation, attempts.result)).or_default() += attempts.count;
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
        self.ok += other.ok;
        self.failed += other.failed;
        self.timeout += other.timeout;
        self.wrong += other.wrong;
    }
}

fn disk(path: &std::path::Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Disk { path, source }
}

#[cfg(test)]
mod tests;
