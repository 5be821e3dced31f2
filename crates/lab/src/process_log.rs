//! Logs of processes: standard output and error on disk up to a limit, the last lines in memory,
//! and the lines that match the target's `[log]` section.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use experiment::manifest::LogTexts;
use runner::plain_text;

/// Size of the beginning of a log that is written to disk immediately, bytes.
const HEAD_BYTES: u64 = 16 << 20;
/// Size of the end of a longer log, bytes. The end is kept in memory until the log ends.
const TAIL_BYTES: usize = 256 << 10;
const LAST_LINES: usize = 20;
/// Largest part of a line that is quoted in a message, bytes.
const LINE_BYTES: usize = 500;
/// Largest part of a line that is searched for the texts of `[log]`, bytes.
const HEARD_BYTES: usize = 16 << 10;

/// Receiver of a process's output. Dropping it completes the file.
pub struct LogSink {
    kept: Arc<Mutex<KeptLines>>,
    lines: Tail,
    log_watcher: LogWatcher,
    /// The last line, while it is incomplete.
    open: OpenLine<HEARD_BYTES>,
}

/// Locks a mutex, even if the thread that held it panicked: the lines written before are still
/// valid.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LogSink {
    /// Opens the file for appending. Makes its parent folders.
    pub fn open(path: &Path, log_watcher: &LogWatcher) -> io::Result<Self> {
        let kept = Arc::new(Mutex::new(KeptLines::open(path)?));
        *locked(&log_watcher.0.kept) = Some(Arc::clone(&kept));
        Ok(Self { kept, lines: Tail::default(), log_watcher: log_watcher.clone(), open: OpenLine::default() })
    }

    /// Appends output of the process.
    pub fn take(&mut self, bytes: &[u8]) {
        locked(&self.kept).take(bytes);
        self.lines.lock().take(bytes);
        if self.log_watcher.listens() {
            self.open.take(bytes, |line| self.log_watcher.hear(line));
        }
    }

    /// Returns a handle to the last lines. The handle outlives the sink.
    pub fn lines(&self) -> Tail {
        self.lines.clone()
    }
}

impl Drop for LogSink {
    fn drop(&mut self) {
        locked(&self.kept).end();
        self.log_watcher.hear(&self.open.0);
    }
}

/// The last lines of a log.
#[derive(Clone, Default)]
pub struct Tail(Arc<Mutex<LineSplitter>>);

impl Tail {
    /// Returns the lines, oldest first.
    pub fn last(&self) -> Vec<String> {
        self.lock().last()
    }

    fn lock(&self) -> MutexGuard<'_, LineSplitter> {
        locked(&self.0)
    }
}

/// The parts of a log that are written to disk: its beginning and its end.
#[derive(Debug)]
struct KeptLines {
    file: File,
    head_left: u64,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl KeptLines {
    fn open(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = record::private::append(path)?;
        let head_left = HEAD_BYTES.saturating_sub(file.metadata()?.len());
        Ok(Self { head_left, file, tail: VecDeque::new(), left_out: 0 })
    }

    fn take(&mut self, bytes: &[u8]) {
        let head = usize::try_from(self.head_left).unwrap_or(usize::MAX).min(bytes.len());
        // A full disk must not stop the target. The writers of the records report the full disk.
        let _ = self.file.write_all(&bytes[..head]);
        self.head_left -= head as u64;
        self.tail.extend(&bytes[head..]);
        let over = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..over);
        self.left_out += over as u64;
    }

    /// Writes the end of the log. A second call does nothing.
    fn end(&mut self) {
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            let _ = write!(self.file, "\n[{left_out} bytes left out]\n");
        }
        let _ = self.file.write_all(self.tail.make_contiguous());
        self.tail.clear();
    }
}

/// An incomplete line, cut to `MOST` bytes.
#[derive(Default)]
struct OpenLine<const MOST: usize>(Vec<u8>);

impl<const MOST: usize> OpenLine<MOST> {
    /// Takes output. Calls `line` for each completed line.
    fn take(&mut self, bytes: &[u8], mut line: impl FnMut(&[u8])) {
        let mut parts = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            let room = MOST.saturating_sub(self.0.len());
            self.0.extend_from_slice(&part[..part.len().min(room)]);
            if parts.peek().is_some() {
                line(&self.0);
                self.0.clear();
            }
        }
    }
}

#[derive(Default)]
struct LineSplitter {
    whole: VecDeque<String>,
    open: OpenLine<LINE_BYTES>,
}

impl LineSplitter {
    fn take(&mut self, bytes: &[u8]) {
        self.open.take(bytes, |line| {
            self.whole.push_back(readable(line));
            if self.whole.len() > LAST_LINES {
                self.whole.pop_front();
            }
        });
    }

    fn last(&self) -> Vec<String> {
        let open = (!self.open.0.is_empty()).then(|| readable(&self.open.0));
        let mut last: Vec<String> = self.whole.iter().cloned().chain(open).collect();
        last.drain(..last.len().saturating_sub(LAST_LINES));
        last
    }
}

/// Returns a text for messages, with control characters escaped.
pub fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    plain_text::line(&text.trim_end().replace('\t', " "))
}

// Lines that contain a text from the target's `[log]` section. They are found while output is read,
// and stored until the deployment takes them.

/// Largest number of lines that are reported for each process and text. Further lines are only
/// counted: a line that is written a thousand times per second would only fill the records.
const MOST: u64 = 20;
/// Size limit of a reported line, bytes.
const HEARD_LINE_BYTES: usize = 500;
/// Number of bytes quoted before the text, if the text is far into the line.
const BEFORE_BYTES: usize = 100;

/// Watches the log of one process across restarts. The default watches for no text.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogWatcher(Arc<SharedLog>);

#[derive(Debug, Default)]
struct SharedLog {
    texts: Vec<LogText>,
    heard: Mutex<LogState>,
    /// Log file parts of the process that started last.
    kept: Mutex<Option<Arc<Mutex<KeptLines>>>>,
}

#[derive(Debug)]
struct LogText {
    text: String,
    alarming: bool,
}

#[derive(Debug, Default)]
struct LogState {
    /// Matches that were not yet taken.
    heard: Vec<LogMatch>,
    /// Number of lines of each text, and its last line that was not reported.
    counts: Vec<(u64, Option<(Instant, String)>)>,
}

/// A line with a watched text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogMatch {
    /// Time at which the line was read.
    pub at: Instant,
    /// The watched text.
    pub text: String,
    /// Whether the target's manifest calls the text alarming.
    pub alarming: bool,
    pub line: String,
    /// Number of unreported lines if this is the last of them, or 0.
    pub left_out: u64,
}

impl PartialEq for LogWatcher {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for LogWatcher {}

impl LogWatcher {
    /// Creates a watcher for these texts. If a line contains several, only the first in the list
    /// counts; alarming texts come first.
    pub fn of(log: &LogTexts) -> Self {
        let alarming = log.alarming.iter().map(|text| (text, true));
        let texts = alarming.chain(log.notable.iter().map(|text| (text, false)));
        let texts: Vec<_> = texts.map(|(text, alarming)| LogText { text: text.clone(), alarming }).collect();
        let counts = texts.iter().map(|_| (0, None)).collect();
        Self(Arc::new(SharedLog {
            texts,
            heard: Mutex::new(LogState { heard: Vec::new(), counts }),
            ..Default::default()
        }))
    }

    /// Sends the process's further output to another file, and restarts the counts of matches.
    pub fn turn_over(&self, path: &Path) -> io::Result<()> {
        self.state().counts.iter_mut().for_each(|count| *count = (0, None));
        let kept = locked(&self.0.kept);
        if let Some(kept) = kept.as_ref() {
            let mut kept = locked(kept);
            kept.end();
            *kept = KeptLines::open(path)?;
        }
        Ok(())
    }

    /// Whether there are texts to watch for.
    pub fn listens(&self) -> bool {
        !self.0.texts.is_empty()
    }

    /// Searches a complete line for the texts.
    pub fn hear(&self, line: &[u8]) {
        let whole = String::from_utf8_lossy(line);
        let found =
            self.0.texts.iter().enumerate().find_map(|(index, text)| Some((index, text, whole.find(&text.text)?)));
        let Some((index, text, at)) = found else { return };
        let line = quoted(&whole, at, text.text.len());
        let now = Instant::now();
        let mut state = self.state();
        let Some((count, last)) = state.counts.get_mut(index) else { return };
        *count += 1;
        if *count > MOST {
            *last = Some((now, line));
            return;
        }
        state.heard.push(LogMatch { at: now, text: text.text.clone(), alarming: text.alarming, line, left_out: 0 });
    }

    /// Returns the matches since the previous call.
    pub fn take(&self) -> Vec<LogMatch> {
        std::mem::take(&mut self.state().heard)
    }

    /// Returns the last unreported line of each text, with the number of unreported lines.
    pub fn take_left_out(&self) -> Vec<LogMatch> {
        let mut state = self.state();
        let left = self.0.texts.iter().zip(&mut state.counts).filter_map(|(text, (count, last))| {
            let (at, line) = last.take()?;
            let left_out = count.saturating_sub(MOST);
            // A later call reports only newer lines.
            *count = MOST;
            Some(LogMatch { at, text: text.text.clone(), alarming: text.alarming, line, left_out })
        });
        left.collect()
    }

    fn state(&self) -> MutexGuard<'_, LogState> {
        locked(&self.0.heard)
    }
}

/// Returns the part of a line around the text, cut to the size limit.
fn quoted(line: &str, at: usize, length: usize) -> String {
    let from = if at + length <= HEARD_LINE_BYTES { 0 } else { boundary(line, at.saturating_sub(BEFORE_BYTES)) };
    let until = boundary(line, from + HEARD_LINE_BYTES);
    let (before, after) = (if from > 0 { "…" } else { "" }, if until < line.len() { "…" } else { "" });
    readable(format!("{before}{}{after}", &line[from..until]).as_bytes())
}

/// Returns the last character boundary up to `at`, or the line's end.
fn boundary(line: &str, at: usize) -> usize {
    (0..=at.min(line.len())).rev().find(|place| line.is_char_boundary(*place)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_watcher() -> LogWatcher {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        LogWatcher::of(&LogTexts {
            notable: texts(&["waits for", "cannot"]),
            alarming: texts(&["inconsistent_database"]),
        })
    }

    #[test]
    fn only_lines_with_a_watched_text_are_kept() {
        let log_watcher = log_watcher();
        log_watcher.hear(b"all is well");
        log_watcher.hear(b"\tit waits for n2 since it cannot start\x1b[0m");
        log_watcher.hear("cannot: {inconsistent_database, 'n2@h\u{f6}st'}".as_bytes());
        let heard: Vec<_> = log_watcher.take().into_iter().map(|one| (one.text, one.alarming, one.line)).collect();
        let expected = [
            ("waits for", false, " it waits for n2 since it cannot start\\u{1b}[0m"),
            ("inconsistent_database", true, "cannot: {inconsistent_database, 'n2@höst'}"),
        ];
        assert_eq!(heard, expected.map(|(text, alarming, line)| (text.to_owned(), alarming, line.to_owned())));
        assert!(log_watcher.take().is_empty() && log_watcher.take_left_out().is_empty());
        assert!(!LogWatcher::default().listens() && log_watcher.listens());
        LogWatcher::default().hear(b"cannot");
    }

    #[test]
    fn repeated_lines_beyond_the_limit_are_counted() {
        let log_watcher = log_watcher();
        for number in 1..=50 {
            log_watcher.hear(format!("cannot {number}").as_bytes());
        }
        log_watcher.hear(b"waits for it");
        let heard = log_watcher.take();
        assert_eq!((heard.len(), heard[19].line.as_str(), heard[20].text.as_str()), (21, "cannot 20", "waits for"));
        let left = log_watcher.take_left_out();
        assert_eq!((left.len(), left[0].left_out, left[0].line.as_str()), (1, 30, "cannot 50"));
        log_watcher.hear(b"cannot any more");
        assert!(log_watcher.take().is_empty());
        assert_eq!((log_watcher.take_left_out()[0].left_out, log_watcher.take_left_out().len()), (1, 0));
    }

    #[test]
    fn a_long_log_keeps_its_beginning_and_its_end() {
        let folder = fixture::TestDir::new();
        let path = folder.join("log");
        let mut sink = LogSink::open(&path, &LogWatcher::default()).unwrap();
        let line = format!("{}\n", "x".repeat(1023));
        sink.take(b"the beginning\n");
        for _ in 0..20 << 10 {
            sink.take(line.as_bytes());
        }
        sink.take(b"the end");
        assert_eq!(sink.lines().last().last().unwrap(), "the end");
        drop(sink);
        let kept = fs::read_to_string(&path).unwrap();
        assert!(kept.starts_with("the beginning\n") && kept.ends_with("\nthe end"));
        let left_out = (20 << 20) + 14 + 7 - (16 << 20) - (256 << 10);
        assert!(kept.contains(&format!("\n[{left_out} bytes left out]\n")));
    }

    #[test]
    fn each_trials_log_has_only_its_lines() {
        let folder = fixture::TestDir::new();
        let (first, second) = (folder.join("001/n1.log"), folder.join("002/n1.log"));
        let log_watcher = log_watcher();
        let mut sink = LogSink::open(&first, &log_watcher).unwrap();
        sink.take(b"one\ncannot\n");
        log_watcher.turn_over(&second).unwrap();
        sink.take(b"two\n");
        drop(sink);
        log_watcher.turn_over(&folder.join("003/n1.log")).unwrap();
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        assert_eq!((read(&first).as_str(), read(&second).as_str()), ("one\ncannot\n", "two\n"));
    }

    #[test]
    fn a_long_line_is_cut_around_its_text() {
        let log_watcher = log_watcher();
        log_watcher.hear(format!("cannot {}", "x".repeat(2000)).as_bytes());
        log_watcher.hear(format!("{} cannot {}", "é".repeat(2000), "y".repeat(2000)).as_bytes());
        for line in log_watcher.take().into_iter().map(|heard| heard.line) {
            assert!(line.contains("cannot") && line.len() <= 520 && line.ends_with('…'), "{line}");
        }
    }
}
