//! A process's standard output and error, kept on disk up to a limit, and its last lines in memory. It must not stand in
//! the process's way: what comes is always read, also when it cannot be kept.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, PipeReader, Read as _, Write as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ears::Ears;
use crate::plain_text;

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
pub struct Log {
    lines: Tail,
    /// Closed by the reader when it is done.
    done: Receiver<()>,
}

impl Log {
    /// Appends what comes from `pipe` to the file, until every writer has closed it; `ears` hear it.
    pub fn begin(pipe: PipeReader, path: &Path, ears: &Ears) -> io::Result<Self> {
        let sink = Sink::open(path, ears)?;
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

impl Drop for Log {
    fn drop(&mut self) {
        // So that the file is whole; but what escaped the lab may hold the other end of the pipe for ever.
        let _ = self.done.recv_timeout(Duration::from_secs(1));
    }
}

fn read(mut pipe: PipeReader, mut sink: Sink) {
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
pub struct Sink {
    kept: Kept,
    lines: Tail,
    ears: Ears,
    /// Of the line that is still being written.
    open: Open<HEARD_BYTES>,
}

impl Sink {
    /// Appends to the file, with the folders above it.
    pub fn open(path: &Path, ears: &Ears) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = record::private::append(path)?;
        let head_left = HEAD_BYTES.saturating_sub(file.metadata()?.len());
        let kept = Kept { head_left, file, tail: VecDeque::new(), left_out: 0 };
        Ok(Self { kept, lines: Tail::default(), ears: ears.clone(), open: Open::default() })
    }

    /// Takes what was written.
    pub fn take(&mut self, bytes: &[u8]) {
        self.kept.take(bytes);
        self.lines.lock().take(bytes);
        if self.ears.listens() {
            self.open.take(bytes, |line| self.ears.hear(line));
        }
    }

    /// Its last lines, also when it is gone.
    pub fn lines(&self) -> Tail {
        self.lines.clone()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.kept.end();
        self.ears.hear(&self.open.0);
    }
}

/// The last lines of a log.
#[derive(Clone, Default)]
pub struct Tail(Arc<Mutex<Lines>>);

impl Tail {
    /// Oldest first.
    pub fn last(&self) -> Vec<String> {
        self.lock().last()
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What of a log goes to disk: its beginning, and its end.
struct Kept {
    file: File,
    head_left: u64,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Kept {
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

    fn end(&mut self) {
        if self.left_out > 0 {
            let _ = write!(self.file, "\n[{} bytes left out]\n", self.left_out);
        }
        let (front, back) = self.tail.as_slices();
        let _ = self.file.write_all(front);
        let _ = self.file.write_all(back);
    }
}

/// The line that is still being written; of one that is longer, so many bytes.
#[derive(Default)]
struct Open<const MOST: usize>(Vec<u8>);

impl<const MOST: usize> Open<MOST> {
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
struct Lines {
    whole: VecDeque<String>,
    open: Open<LINE_BYTES>,
}

impl Lines {
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
