//! Feeds that are read ahead while the load runs. Each feed has a thread that reads and unpacks its
//! file into blocks of records, and a bounded queue of blocks. An engine thread takes a whole block
//! at a time, so that it needs no lock per record.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use experiment::plan;
use rustix::fs::Advice;

use crate::values::feeds::{RecordReader, TakenRecord};

/// Size at which a block is put into the queue, bytes. If an engine thread waits, a smaller block
/// is put into the queue.
const BLOCK_BYTES: usize = 256 * 1024;
/// Maximum number of blocks in the queue, which bounds memory.
const BLOCKS: usize = 16;
/// Interval at which a reader that waits for a simulated slow device checks whether the queue is
/// closed.
const GLANCE: Duration = Duration::from_millis(20);
/// Largest size of a block that is reused, bytes.
const LARGE_BYTES: usize = 4 * 1024 * 1024;

/// A batch of records.
#[derive(Debug, Default)]
pub struct RecordBlock {
    text: Vec<u8>,
    /// End of each cell in `text`.
    ends: Vec<usize>,
    /// Number of cells up to the end of each record.
    records: Vec<usize>,
    /// Number of records already taken.
    taken: usize,
}

impl RecordBlock {
    /// Takes the next record. Returns false if no record is left.
    pub fn take(&mut self, into: &mut TakenRecord) -> bool {
        let Some(&last) = self.records.get(self.taken) else { return false };
        let first = self.taken.checked_sub(1).map_or(0, |before| self.records[before]);
        let start = first.checked_sub(1).map_or(0, |before| self.ends[before]);
        into.text.clear();
        into.text.extend_from_slice(&self.text[start..last.checked_sub(1).map_or(start, |end| self.ends[end])]);
        into.ends.clear();
        into.ends.extend(self.ends[first..last].iter().map(|end| end - start));
        self.taken += 1;
        true
    }

    fn clear(&mut self) {
        if self.text.capacity() > LARGE_BYTES {
            *self = Self::default();
        }
        self.text.clear();
        self.ends.clear();
        self.records.clear();
        self.taken = 0;
    }
}

/// State of a queue for an engine thread that asks for records.
#[derive(Debug, PartialEq, Eq)]
pub enum NextBlock {
    /// A block is ready.
    Ready,
    /// The next records have not been read yet.
    Later,
    /// No records are left.
    Ended,
    /// The feed cannot be read. Holds the reason.
    Broken(String),
}

/// Progress of a feed's reader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadSoFar {
    /// Bytes read from the file.
    pub bytes: u64,
    /// Records read.
    pub records: u64,
    /// Time spent waiting for the disk, nanoseconds.
    pub waited_ns: u64,
}

impl ReadSoFar {
    /// Returns the sum of both feeds' progress.
    pub fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            records: self.records + other.records,
            waited_ns: self.waited_ns + other.waited_ns,
        }
    }

    /// Returns the progress since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            bytes: self.bytes - before.bytes,
            records: self.records - before.records,
            // The end of a wait may be visible before the wait is added.
            waited_ns: self.waited_ns.saturating_sub(before.waited_ns),
        }
    }
}

/// The queue of a feed that is read ahead.
#[derive(Debug)]
pub struct FeedQueue {
    feed: plan::Feed,
    path: PathBuf,
    /// Whether an engine thread has found the queue empty since the last block.
    is_hungry: AtomicBool,
    bytes: AtomicU64,
    records: AtomicU64,
    waited_ns: AtomicU64,
    /// Start of the current wait for the disk, nanoseconds since `origin`; 0 if there is none.
    waits_since_ns: AtomicU64,
    origin: Instant,
    state: Mutex<QueueState>,
    has_room: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    ready: VecDeque<RecordBlock>,
    /// Blocks for reuse.
    empty: Vec<RecordBlock>,
    /// Result of the reader, once the reader has ended.
    ended: Option<Result<(), String>>,
    /// Whether the load has ended.
    is_closed: bool,
}

impl FeedQueue {
    /// Makes the queue of a feed in the file `path`. Reads nothing yet.
    pub fn new(feed: plan::Feed, path: PathBuf) -> Self {
        Self {
            feed,
            path,
            is_hungry: AtomicBool::new(false),
            bytes: AtomicU64::new(0),
            records: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            waits_since_ns: AtomicU64::new(0),
            origin: Instant::now(),
            state: Mutex::default(),
            has_room: Condvar::new(),
        }
    }

    pub fn name(&self) -> &str {
        &self.feed.name
    }

    /// Returns the progress of the reader.
    pub fn so_far(&self) -> ReadSoFar {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        // A wait for a slow disk can take seconds, so the current wait counts too.
        let still_ns = match read(&self.waits_since_ns) {
            0 => 0,
            since_ns => self.now_ns().saturating_sub(since_ns),
        };
        let waited_ns = read(&self.waited_ns) + still_ns;
        ReadSoFar { bytes: read(&self.bytes), records: read(&self.records), waited_ns }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Exchanges a block whose records are all taken for the next block.
    pub fn next_block(&self, block: &mut RecordBlock) -> NextBlock {
        let mut state = self.lock();
        if let Some(next) = state.ready.pop_front() {
            let mut used = std::mem::replace(block, next);
            used.clear();
            state.empty.push(used);
            self.has_room.notify_one();
            return NextBlock::Ready;
        }
        match &state.ended {
            None => {
                self.is_hungry.store(true, Ordering::Relaxed);
                NextBlock::Later
            }
            Some(Ok(())) => NextBlock::Ended,
            Some(Err(reason)) => NextBlock::Broken(reason.clone()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a block into the queue and exchanges it for an empty block. Returns false if the load
    /// has ended.
    fn put(&self, block: &mut RecordBlock) -> bool {
        let mut state = self.lock();
        while state.ready.len() >= BLOCKS && !state.is_closed {
            state = self.has_room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if !block.records.is_empty() {
            let empty = state.empty.pop().unwrap_or_default();
            state.ready.push_back(std::mem::replace(block, empty));
            self.is_hungry.store(false, Ordering::Relaxed);
        }
        !state.is_closed
    }

    fn read_ahead(self: &Arc<Self>) {
        let ended = self.read_file();
        self.lock().ended = Some(ended);
    }

    /// Reads the file to its end. Starts again if the feed repeats.
    fn read_file(self: &Arc<Self>) -> Result<(), String> {
        let mut block = RecordBlock::default();
        loop {
            let file = MeteredFile::open(Arc::clone(self)).map_err(|error| error.to_string())?;
            let mut reader = RecordReader::of(&self.feed, file).map_err(|error| error.to_string())?;
            let mut is_empty = true;
            loop {
                let read = reader.next(&mut block.text, &mut block.ends);
                // The records before the error are valid.
                let count = read.inspect_err(|_| {
                    self.put(&mut block);
                })?;
                if count == 0 {
                    break;
                }
                is_empty = false;
                block.records.push(block.ends.len());
                self.records.fetch_add(count, Ordering::Relaxed);
                let is_due = block.text.len() >= BLOCK_BYTES || self.is_hungry.load(Ordering::Relaxed);
                if is_due && !self.put(&mut block) {
                    return Ok(());
                }
            }
            if is_empty {
                return Err("the feed has no more records".to_owned());
            }
            if self.feed.ends {
                self.put(&mut block);
                return Ok(());
            }
        }
    }
}

/// The file of a feed, with counters for bytes and waiting time.
struct MeteredFile {
    file: File,
    queue: Arc<FeedQueue>,
    /// Start of the last read.
    begun: Instant,
    /// Time from which the simulated device can deliver more bytes. `None` without limits or before
    /// the first read.
    gives_from: Option<Instant>,
}

impl MeteredFile {
    fn open(queue: Arc<FeedQueue>) -> io::Result<Self> {
        let file = File::open(&queue.path)?;
        // If the kernel rejects the advice, only its read-ahead is shorter.
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::Sequential);
        Ok(Self { file, queue, begun: Instant::now(), gives_from: None })
    }
}

impl MeteredFile {
    /// Waits until the simulated device would have delivered the bytes. A device that was idle for
    /// a while does not catch up.
    #[expect(clippy::disallowed_methods, reason = "a device that is played is waited for")]
    fn wait_for_device(&mut self, bytes: usize) {
        let limits = &self.queue.feed.limits;
        if limits.is_none() {
            return;
        }
        let takes = Duration::from_secs_f64(limits.time_s(bytes));
        let begun = self.gives_from.unwrap_or_else(Instant::now).max(self.begun);
        let until = begun + takes;
        self.gives_from = Some(until);
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if self.queue.lock().is_closed {
                return;
            }
            std::thread::sleep(left.min(GLANCE));
        }
    }
}

impl Read for MeteredFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.begun = Instant::now();
        let begun_ns = self.queue.now_ns().max(1);
        self.queue.waits_since_ns.store(begun_ns, Ordering::Relaxed);
        let result = self.file.read(buffer);
        let read = result.as_ref().map_or(0, |read| *read);
        self.wait_for_device(read);
        let waited_ns = self.queue.now_ns() - begun_ns;
        self.queue.waits_since_ns.store(0, Ordering::Relaxed);
        self.queue.waited_ns.fetch_add(waited_ns, Ordering::Relaxed);
        self.queue.bytes.fetch_add(read as u64, Ordering::Relaxed);
        result
    }
}

/// The readers of a load's feeds. They end when this value is dropped.
#[derive(Debug, Default)]
pub struct FeedReaders(Vec<Arc<FeedQueue>>);

impl FeedReaders {
    /// Starts a reader for each queue.
    pub fn start(queues: impl Iterator<Item = Arc<FeedQueue>>) -> io::Result<Self> {
        let mut readers = Self::default();
        for queue in queues {
            let reader = Arc::clone(&queue);
            readers.0.push(queue);
            std::thread::Builder::new().name("feed".to_owned()).spawn(move || reader.read_ahead())?;
        }
        Ok(readers)
    }
}

impl Drop for FeedReaders {
    fn drop(&mut self) {
        for queue in &self.0 {
            queue.lock().is_closed = true;
            queue.has_room.notify_all();
        }
    }
}

#[cfg(any(test, feature = "testing"))]
impl FeedQueue {
    /// Puts a record of one cell into the queue, as the reader does.
    pub fn feed_record(&self, text: &str) {
        let text = text.as_bytes().to_vec();
        assert!(self.put(&mut RecordBlock { ends: vec![text.len()], records: vec![1], taken: 0, text }));
    }

    /// Ends the queue, as the reader does.
    pub fn end_feed(&self, how: Result<(), String>) {
        self.lock().ended = Some(how);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use fixture::TestDir;

    use super::*;
    use crate::testing::feed;

    /// Takes up to `most` records, until the queue ends.
    fn taken(queue: &FeedQueue, most: usize) -> (Vec<String>, NextBlock) {
        let (mut block, mut record, mut all) = (RecordBlock::default(), TakenRecord::default(), Vec::new());
        loop {
            match queue.next_block(&mut block) {
                NextBlock::Ready => {}
                NextBlock::Later => {
                    std::thread::yield_now();
                    continue;
                }
                end => return (all, end),
            }
            while block.take(&mut record) {
                let cells = record.ends.len();
                all.push(format!("{}/{cells}", String::from_utf8_lossy(&record.text)));
                if all.len() >= most {
                    return (all, NextBlock::Ready);
                }
            }
        }
    }

    fn queue(scratch: &TestDir, feed: plan::Feed) -> Arc<FeedQueue> {
        Arc::new(FeedQueue::new(plan::Feed { stream: true, ..feed.clone() }, scratch.join(&feed.file)))
    }

    #[test]
    fn a_file_is_read_once_or_repeatedly() {
        let scratch = TestDir::new();
        let rows: String = (0..5_000).map(|row| format!("{row},{:x<200}\n", row)).collect();
        fs::write(scratch.join("r.csv"), format!("a,b\n{rows}")).unwrap();
        let once = queue(&scratch, plan::Feed { ends: true, ..feed("r.csv") });
        let readers = FeedReaders::start([Arc::clone(&once)].into_iter()).unwrap();
        let (all, end) = taken(&once, usize::MAX);
        assert_eq!((all.len(), end), (5_000, NextBlock::Ended));
        assert!(all[4_999].starts_with("49994999xxx") && all[4_999].ends_with("/2"), "{}", all[4_999]);
        let so_far = once.so_far();
        assert_eq!((so_far.records, so_far.bytes), (5_000, rows.len() as u64 + 4));
        drop(readers);
        let again = queue(&scratch, feed("r.csv"));
        let readers = FeedReaders::start([Arc::clone(&again)].into_iter()).unwrap();
        let (all, end) = taken(&again, 12_000);
        assert_eq!((&all[0], end), (&all[5_000], NextBlock::Ready));
        drop(readers);
    }

    #[test]
    fn read_ahead_is_bounded_and_dropped_readers_end() {
        let scratch = TestDir::new();
        fs::write(scratch.join("d.json"), "{\"a\": 1}\n".repeat(10_000)).unwrap();
        let queue = queue(&scratch, feed("d.json"));
        let readers = FeedReaders::start([Arc::clone(&queue)].into_iter()).unwrap();
        while queue.lock().ready.len() < BLOCKS {
            std::thread::yield_now();
        }
        let held: usize = queue.lock().ready.iter().map(|block| block.text.len()).sum();
        assert!(held < BLOCKS * (BLOCK_BYTES + 100), "{held}");
        drop(readers);
        while Arc::strong_count(&queue) > 1 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn an_error_follows_the_valid_records() {
        let scratch = TestDir::new();
        fs::write(scratch.join("d.json"), "{\"a\": 1}\n{\"a\": 2}\n{\"a\": ").unwrap();
        let queue = queue(&scratch, feed("d.json"));
        let _readers = FeedReaders::start([Arc::clone(&queue)].into_iter()).unwrap();
        let (all, end) = taken(&queue, usize::MAX);
        assert_eq!(all.len(), 2);
        assert_eq!(end, NextBlock::Broken("it ends in mid-line: line 3 is no whole JSON".to_owned()));
    }

    #[test]
    fn a_read_limit_slows_the_feed_and_counts_waits() {
        let scratch = TestDir::new();
        fs::write(scratch.join("d.json"), "{\"a\": 1}\n".repeat(40_000)).unwrap();
        let limits = plan::FeedLimits { read_bytes_per_s: Some(1e6), read_iops: None };
        let slow = queue(&scratch, plan::Feed { ends: true, limits, ..feed("d.json") });
        let begun = Instant::now();
        let _readers = FeedReaders::start([Arc::clone(&slow)].into_iter()).unwrap();
        let (all, end) = taken(&slow, usize::MAX);
        assert_eq!((all.len(), end), (40_000, NextBlock::Ended));
        assert!(begun.elapsed() >= Duration::from_millis(360), "360 kB at 1 MB/s");
        assert!(slow.so_far().waited_ns >= 350_000_000, "{:?}", slow.so_far());
    }

    #[test]
    fn a_read_that_fails_is_no_longer_waited_for() {
        let scratch = TestDir::new();
        fs::create_dir(scratch.join("folder")).unwrap();
        let queue = queue(&scratch, feed("folder"));
        let mut file = MeteredFile::open(Arc::clone(&queue)).unwrap();
        assert!(file.read(&mut [0; 16]).is_err());
        assert_eq!(queue.waits_since_ns.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn read_time_is_the_longer_of_rate_and_iops() {
        let limits = |read_bytes_per_s, read_iops| plan::FeedLimits { read_bytes_per_s, read_iops };
        assert_eq!(limits(None, None).time_s(1 << 20), 0.0);
        assert_eq!(limits(Some(1_048_576.0), Some(100.0)).time_s(1 << 20), 1.0);
        assert_eq!(limits(Some(1e9), Some(4.0)).time_s(1 << 20), 2.0);
    }
}
