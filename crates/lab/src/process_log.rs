//! A process's standard output and error, kept on disk up to a limit, its last lines in memory;
//! and what of it the target's `[log]` names, heard as it is read.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, PipeReader, Read as _, Write as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use experiment::manifest::LogTexts;
use runner::plain_text;

/// The beginning of a log, kept as it comes.
const HEAD_BYTES: u64 = 16 << 20;
/// The end of a log that is longer, kept in memory until it is known to be the end.
const TAIL_BYTES: usize = 256 << 10;
const LAST_LINES: usize = 20;
/// Of a line that is quoted in a message.
const LINE_BYTES: usize = 500;
/// Of a line that is searched for what its target's `[log]` names.
const HEARD_BYTES: usize = 16 << 10;

/// A log that is being written from a pipe.
pub struct ProcessLog {
    lines: Tail,
    /// Closed by the reader when it is done.
    done: Receiver<()>,
}

impl ProcessLog {
    /// Appends what comes from `pipe` to the file, until every writer has closed it; `log_watcher` hears it.
    pub fn begin(pipe: PipeReader, path: &Path, log_watcher: &LogWatcher) -> io::Result<Self> {
        let sink = LogSink::open(path, log_watcher)?;
        let lines = sink.lines();
        let (until_done, done) = channel::<()>();
        let read = move || {
            read(pipe, sink);
            drop(until_done);
        };
        std::thread::Builder::new().name("log".to_owned()).spawn(read)?;
        Ok(Self { lines, done })
    }

    /// The last lines, oldest first. Of a process that has just died (`to_end`) more may be on its way than was read.
    pub fn last_lines(&self, to_end: bool) -> Vec<String> {
        if to_end {
            let _ = self.done.recv_timeout(Duration::from_millis(200));
        }
        self.lines.last()
    }
}

impl Drop for ProcessLog {
    fn drop(&mut self) {
        // So that the file is whole; but what escaped the lab may hold the other end of the pipe for ever.
        let _ = self.done.recv_timeout(Duration::from_secs(1));
    }
}

fn read(mut pipe: PipeReader, mut sink: LogSink) {
    let mut buffer = [0; 16 << 10];
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => sink.take(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
}

/// Where a process's output goes. Dropped, the file is whole.
pub struct LogSink {
    kept: Arc<Mutex<KeptLines>>,
    lines: Tail,
    log_watcher: LogWatcher,
    /// Of the line that is still being written.
    open: OpenLine<HEARD_BYTES>,
}

/// Locks, also after a panic of a thread that held the lock: lines are kept as far as they came.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LogSink {
    /// Appends to the file, with the folders above it.
    pub fn open(path: &Path, log_watcher: &LogWatcher) -> io::Result<Self> {
        let kept = Arc::new(Mutex::new(KeptLines::open(path)?));
        *locked(&log_watcher.0.kept) = Some(Arc::clone(&kept));
        Ok(Self { kept, lines: Tail::default(), log_watcher: log_watcher.clone(), open: OpenLine::default() })
    }

    /// Takes what was written.
    pub fn take(&mut self, bytes: &[u8]) {
        locked(&self.kept).take(bytes);
        self.lines.lock().take(bytes);
        if self.log_watcher.listens() {
            self.open.take(bytes, |line| self.log_watcher.hear(line));
        }
    }

    /// Its last lines, also when it is gone.
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
    /// Oldest first.
    pub fn last(&self) -> Vec<String> {
        self.lock().last()
    }

    fn lock(&self) -> MutexGuard<'_, LineSplitter> {
        locked(&self.0)
    }
}

/// What of a log goes to disk: its beginning, and its end.
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
        // A full disk must not stop the target; that the records suffer is said where they are written.
        let _ = self.file.write_all(&bytes[..head]);
        self.head_left -= head as u64;
        self.tail.extend(&bytes[head..]);
        let over = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..over);
        self.left_out += over as u64;
    }

    /// Writes the end of the log. A second call is harmless.
    fn end(&mut self) {
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            let _ = write!(self.file, "\n[{left_out} bytes left out]\n");
        }
        let _ = self.file.write_all(self.tail.make_contiguous());
        self.tail.clear();
    }
}

/// The line that is still being written; of one that is longer, so many bytes.
#[derive(Default)]
struct OpenLine<const MOST: usize>(Vec<u8>);

impl<const MOST: usize> OpenLine<MOST> {
    /// Takes what was written; whoever wants the lines gets each that it ends.
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

/// For a message: what would move a terminal's cursor is written out.
pub fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    plain_text::line(&text.trim_end().replace('\t', " "))
}

// What a process writes that its target's `[log]` names: heard as it is read, line by line, and
// kept until somebody asks.

/// Of one process and text, so many lines are told of; the others are counted. What is written a thousand times a second says no
/// more, and would fill the records.
const MOST: u64 = 20;
/// Of a line that is told of.
const HEARD_LINE_BYTES: usize = 500;
/// What of it comes before the text, if the text is further on.
const BEFORE_BYTES: usize = 100;

/// Hears for one process, however often it is started again. The default hears nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogWatcher(Arc<SharedLog>);

#[derive(Debug, Default)]
struct SharedLog {
    texts: Vec<LogText>,
    heard: Mutex<LogState>,
    /// Kept lines of the process that was started last.
    kept: Mutex<Option<Arc<Mutex<KeptLines>>>>,
}

#[derive(Debug)]
struct LogText {
    text: String,
    alarming: bool,
}

#[derive(Debug, Default)]
struct LogState {
    /// Not asked for yet.
    heard: Vec<LogMatch>,
    /// Of each text: how many lines, and the last that was not told of.
    counts: Vec<(u64, Option<(Instant, String)>)>,
}

/// A line that was heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogMatch {
    /// When it was read.
    pub at: Instant,
    /// The text that it has in it.
    pub text: String,
    /// Whether the target calls that alarming.
    pub alarming: bool,
    /// The line.
    pub line: String,
    /// Above 0: it is the last of so many that are told of by this alone.
    pub left_out: u64,
}

impl PartialEq for LogWatcher {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for LogWatcher {}

impl LogWatcher {
    /// For these texts. Of a line with several the first counts, and what is alarming comes first.
    pub fn of(log: &LogTexts) -> Self {
        let text = |text: &String, alarming| LogText { text: text.clone(), alarming };
        let alarming = log.alarming.iter().map(|one| text(one, true));
        let texts: Vec<LogText> = alarming.chain(log.notable.iter().map(|one| text(one, false))).collect();
        let counts = texts.iter().map(|_| (0, None)).collect();
        Self(Arc::new(SharedLog {
            texts,
            heard: Mutex::new(LogState { heard: Vec::new(), counts }),
            ..Default::default()
        }))
    }

    /// Sends the process's further output to another file, and starts its counts again.
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

    /// Whether there is anything to hear.
    pub fn listens(&self) -> bool {
        !self.0.texts.is_empty()
    }

    /// A whole line was read.
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

    /// What was heard since somebody asked.
    pub fn take(&self) -> Vec<LogMatch> {
        std::mem::take(&mut self.state().heard)
    }

    /// At the end: how much was not told of, by text.
    pub fn take_left_out(&self) -> Vec<LogMatch> {
        let mut state = self.state();
        let left = self.0.texts.iter().zip(&mut state.counts).filter_map(|(text, (count, last))| {
            let (at, line) = last.take()?;
            let left_out = count.saturating_sub(MOST);
            // Whoever asks again is told of what came since.
            *count = MOST;
            Some(LogMatch { at, text: text.text.clone(), alarming: text.alarming, line, left_out })
        });
        left.collect()
    }

    fn state(&self) -> MutexGuard<'_, LogState> {
        locked(&self.0.heard)
    }
}

/// As much of a line as is told, with the text in it.
fn quoted(line: &str, at: usize, length: usize) -> String {
    let from = if at + length <= HEARD_LINE_BYTES { 0 } else { boundary(line, at.saturating_sub(BEFORE_BYTES)) };
    let until = boundary(line, from + HEARD_LINE_BYTES);
    let (before, after) = (if from > 0 { "…" } else { "" }, if until < line.len() { "…" } else { "" });
    readable(format!("{before}{}{after}", &line[from..until]).as_bytes())
}

/// The last place up to `at` where a character begins, or the end.
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
    fn only_lines_with_a_text_are_heard_and_each_once() {
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
    fn what_is_said_too_often_is_counted() {
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
    fn each_trial_has_what_was_written_in_its_time() {
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
