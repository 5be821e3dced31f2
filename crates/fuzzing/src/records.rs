//! Fuzz targets for files that Plimsoll reads: the records of a run, and recorded schedules. A
//! reader returns an error or valid data. A file that is cut off at any place gives the beginning
//! of that data.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use experiment::plan::Plan;
use record::environment::Environment;
use record::events::{HistoryEntry, RunEnding};
use record::results::Results;
use record::rows::{
    self, AgentCycles, Attempts, GeneratorSecond, MessageSecond, Metric, OutcomeSlot, Sample, UnitSecond,
};
use record::{ReadError, Records, checked_file, hlog, lines, replicas};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A check for one kind of file.
type ReadRecord = fn(&RecordFile, &[u8]);

/// The checks, by the first byte of an input.
const FILES: &[(u8, ReadRecord)] = &[
    (b'a', |place, bytes| table(place, bytes, rows::read::<Attempts>)),
    (b'c', |place, bytes| table(place, bytes, rows::read::<AgentCycles>)),
    (b'd', |place, bytes| written_whole::<RunEnding>(place, bytes)),
    (b'e', |place, bytes| growing(place, bytes, lines::read_events)),
    (b'g', |place, bytes| table(place, bytes, rows::read::<GeneratorSecond>)),
    (b'h', histograms),
    (b'm', |place, bytes| table(place, bytes, rows::read::<Metric>)),
    (b'n', |place, bytes| table(place, bytes, rows::read::<MessageSecond>)),
    (b'o', |place, bytes| table(place, bytes, rows::read::<OutcomeSlot>)),
    (b'p', |place, bytes| written_whole::<Plan>(place, bytes)),
    (b'q', |place, bytes| written_whole::<Environment>(place, bytes)),
    (b'r', |place, bytes| drop(replicas::read(place.hold(bytes)))),
    (b's', |place, bytes| table(place, bytes, rows::read::<Sample>)),
    (b'u', |place, bytes| table(place, bytes, rows::read::<UnitSecond>)),
    (b'v', |place, bytes| written_whole::<Results>(place, bytes)),
    (b'y', |place, bytes| growing(place, bytes, lines::read::<HistoryEntry>)),
];

/// Reads a file of any kind. The first byte of the input selects the kind, the rest is the file's
/// content.
pub fn records(input: &[u8]) {
    let Some((letter, bytes)) = input.split_first() else { return };
    let named = FILES.iter().find(|(known, _)| known == letter);
    let (_, read) = named.unwrap_or(&FILES[usize::from(*letter) % FILES.len()]);
    read(&RecordFile::new(), bytes);
}

/// Returns some places at which the file is cut off.
fn cuts(bytes: &[u8]) -> [usize; 4] {
    [bytes.len() / 3, bytes.len() / 2, bytes.len() - bytes.len() / 5, bytes.len().saturating_sub(1)]
}

/// Plimsoll writes no line ends within fields. If a field had one, a cut could fall within it.
fn table<T: Debug>(place: &RecordFile, bytes: &[u8], read: impl Fn(&Path) -> Result<Records<T>, ReadError>) {
    if bytes.contains(&b'"') {
        drop(read(place.hold(bytes)));
    } else {
        growing(place, bytes, read);
    }
}

fn growing<T: Debug>(place: &RecordFile, bytes: &[u8], read: impl Fn(&Path) -> Result<Records<T>, ReadError>) {
    let Ok(whole) = read(place.hold(bytes)) else { return };
    let shown: Vec<String> = whole.items.iter().map(|item| format!("{item:?}")).collect();
    for cut in cuts(bytes) {
        let begun = read(place.hold(&bytes[..cut])).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        assert!(begun.items.len() <= shown.len(), "cut at {cut}");
        for (item, shown) in begun.items.iter().zip(&shown) {
            assert_eq!(&format!("{item:?}"), shown, "cut at {cut}");
        }
    }
}

fn histograms(place: &RecordFile, bytes: &[u8]) {
    let Ok(whole) = hlog::read(place.hold(bytes)) else { return };
    for cut in cuts(bytes) {
        let begun = hlog::read(place.hold(&bytes[..cut])).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        assert!(whole.intervals.starts_with(&begun.intervals), "cut at {cut}");
    }
    for interval in &whole.intervals {
        // Quantiles and sums of the data must work too.
        let mut sum = interval.histogram.clone();
        sum.add(&interval.histogram).unwrap();
        assert!(sum.value_at_quantile(0.5) <= sum.max());
    }
}

fn written_whole<T: Serialize + DeserializeOwned>(place: &RecordFile, bytes: &[u8]) {
    let Ok(Some(read)) = checked_file::read_json::<T>(place.hold(bytes)) else { return };
    checked_file::write_json(place.path(), &read).unwrap();
    checked_file::read_json::<T>(place.path()).unwrap().unwrap();
}

/// End of the load, nanoseconds.
const END_NS: u64 = 100_000_000_000;

/// Reads any file as a recorded schedule. The first byte of the input gives the number of agents,
/// the second the time at which the schedule is split to count starts.
pub fn replay(input: &[u8]) {
    let Some(([agents, cut], file)) = input.split_first_chunk::<2>() else { return };
    let agents = u32::from(agents % 8) + 1;
    let cut_ns = u64::from(*cut) * (END_NS / 256);
    let place = RecordFile::new();
    let Ok(dealt) = load::fuzzing::replay(place.hold(file), agents, cut_ns, END_NS) else { return };
    assert_eq!(dealt.len(), agents as usize);
    let mut starts = 0;
    for of_agent in &dealt {
        assert_eq!(of_agent.walked, of_agent.counted, "cut at {cut_ns}");
        assert!(of_agent.walked.is_sorted() && of_agent.walked.iter().all(|start| *start < END_NS));
        let different: BTreeSet<&u64> = of_agent.walked.iter().collect();
        assert_eq!(different.len(), of_agent.walked.len(), "a moment tells which start it is");
        starts += of_agent.walked.len();
    }
    // A row has at least two bytes, and the first row is the header.
    assert!(starts <= file.len() / 2);
    // Starts are dealt in turn: the n-th start of an agent comes before the n-th start of the next
    // agent.
    for two in dealt.windows(2) {
        assert!(two[0].walked.len() >= two[1].walked.len());
        assert!(two[0].walked.iter().zip(&two[1].walked).all(|(before, behind)| before <= behind));
    }
}

/// A temporary file for one input.
pub struct RecordFile(PathBuf);

impl RecordFile {
    /// Chooses a new path.
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("plimsoll-fuzzing-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        // The file is in memory if `/dev/shm` exists.
        let memory = Path::new("/dev/shm");
        Self(if memory.is_dir() { memory.join(name) } else { std::env::temp_dir().join(name) })
    }

    /// Writes the bytes to the file.
    pub fn hold(&self, bytes: &[u8]) -> &Path {
        fs::write(&self.0, bytes).unwrap();
        &self.0
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for RecordFile {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}
