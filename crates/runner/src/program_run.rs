//! Programs that run to their end: with input, limited output and a time limit.

use std::io::{self, PipeReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use linux::pipe_inode;

use crate::serve::{ProcessEntry, command, not_started};
use crate::{OrderRefusal, ProgramSpec};

/// Default limit of standard output, and limit of standard error. Output beyond it is left out,
/// with a note.
pub const KEPT_BYTES: usize = 8 << 20;
/// Time to wait for output that is still in the pipe after the program has ended.
const PATIENCE: Duration = Duration::from_millis(200);

/// Result of a program that has run to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramEnd {
    /// Exit code, or the negated signal number.
    pub how: i32,
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub errors: String,
}

/// Runs a program. `enter` registers it, so that the caller can end it. Background processes of the
/// program continue.
pub(crate) fn run(
    program: &ProgramSpec,
    input: String,
    within: Duration,
    groups: &[PathBuf],
    enter: impl FnOnce(Child, Vec<u64>) -> Result<Arc<ProcessEntry>, OrderRefusal>,
) -> Result<ProgramEnd, OrderRefusal> {
    let until = Instant::now() + within;
    let (output, output_in) = pipe()?;
    let (errors, errors_in) = pipe()?;
    let pipes = [pipe_inode(&output), pipe_inode(&errors)].into_iter().flatten().collect();
    let mut command = command(program)?;
    command.stdin(Stdio::piped()).stdout(output_in).stderr(errors_in);
    let mut child = linux::spawn_in(command, groups).map_err(|error| not_started(program, &error))?;
    let stdin = child.stdin.take();
    let entry = enter(child, pipes)?;
    let keeps_bytes = program.keeps_bytes.unwrap_or(KEPT_BYTES);
    let gathered = give(stdin, input)
        .and_then(|()| Ok((PipeOutput::from(output, keeps_bytes)?, PipeOutput::from(errors, KEPT_BYTES)?)));
    let gathered = gathered.inspect_err(|_| entry.kill());
    let how = await_end(&entry, until);
    let (output, errors) = gathered.map_err(|error| OrderRefusal::system("start a thread", &error))?;
    let mut errors = errors.text();
    let how = how.unwrap_or_else(|| {
        errors.push_str(&format!("\n[killed: it did not end within {} s]\n", within.as_secs_f64()));
        entry.kill();
        entry.wait()
    });
    Ok(ProgramEnd { how, output: output.text(), errors })
}

fn pipe() -> Result<(PipeReader, io::PipeWriter), OrderRefusal> {
    io::pipe().map_err(|error| OrderRefusal::system("make a pipe", &error))
}

/// Returns how the program ended, or `None` after the deadline.
fn await_end(entry: &ProcessEntry, until: Instant) -> Option<i32> {
    loop {
        if let Some(how) = entry.ended() {
            return Some(how);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        linux::await_end(entry.pid, left);
    }
}

/// Writes the input. A program may ignore it.
fn give(stdin: Option<ChildStdin>, input: String) -> io::Result<()> {
    let Some(mut stdin) = stdin.filter(|_| !input.is_empty()) else { return Ok(()) };
    let writer = std::thread::Builder::new().name("input".to_owned());
    writer.spawn(move || drop(stdin.write_all(input.as_bytes()))).map(drop)
}

/// Output of a pipe.
struct PipeOutput {
    kept: Arc<Mutex<Vec<u8>>>,
    keeps_bytes: usize,
    /// Closed by the reader when it has finished.
    done: Receiver<()>,
}

impl PipeOutput {
    fn from(mut pipe: PipeReader, keeps_bytes: usize) -> io::Result<Self> {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (until_done, done) = channel::<()>();
        let shared = Arc::clone(&kept);
        std::thread::Builder::new().name("output".to_owned()).spawn(move || {
            let mut buffer = [0; 16 << 10];
            let mut left_out = 0;
            // Excess output is read too, so that the program does not block.
            while let Some(count) = pipe.read(&mut buffer).ok().filter(|count| *count > 0) {
                let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let room = keeps_bytes.saturating_sub(kept.len()).min(count);
                kept.extend_from_slice(&buffer[..room]);
                left_out += count - room;
            }
            if left_out > 0 {
                let note = format!("\n[{left_out} bytes left out]\n");
                shared.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(note.as_bytes());
            }
            drop(until_done);
        })?;
        Ok(Self { kept, keeps_bytes, done })
    }

    /// Returns all output after the program has ended. A process in the background may keep the
    /// pipe open for ever, so waiting is limited.
    fn text(&self) -> String {
        let _ = self.done.recv_timeout(PATIENCE);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::from_utf8_lossy(&kept).into_owned();
        // Bytes that are not UTF-8 grow when they are replaced. The text must still fit the limit.
        if text.len() > kept.len().max(self.keeps_bytes) {
            let end = (0..=self.keeps_bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            text.truncate(end);
            text.push_str("\n[the rest, which is not text, left out]\n");
        }
        text
    }
}
