//! Programs that are run to their end: input given, output kept up to a limit, killed when the
//! time is over.

use std::io::{self, PipeReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::processes::{Entry, Processes, command, not_started};
use crate::linux;
use crate::remains::pipe_inode;
use crate::runner::{Answer, Program, Refusal};

/// Of standard output and of standard error, each, unless something else is asked for; what is more is left out, and said to be.
const KEPT_BYTES: usize = 8 << 20;
/// For output that is on its way when the program has ended.
const PATIENCE: Duration = Duration::from_millis(200);
const YEAR_S: f64 = 31_536_000.0;

/// Runs it.
pub fn run(
    processes: &Processes,
    number: u64,
    program: &Program,
    input: String,
    within_s: f64,
    groups: &[PathBuf],
) -> Result<Answer, Refusal> {
    let until = Instant::now() + Duration::from_secs_f64(within_s.clamp(0.0, YEAR_S));
    let (output, output_in) = pipe()?;
    let (errors, errors_in) = pipe()?;
    let pipes = [pipe_inode(&output), pipe_inode(&errors)].into_iter().flatten().collect();
    let mut command = command(program)?;
    command.stdin(Stdio::piped()).stdout(output_in).stderr(errors_in);
    let mut child = linux::spawn_in(command, groups).map_err(|error| not_started(program, &error))?;
    let stdin = child.stdin.take();
    // Without a role: it is none of the target's.
    let entry = processes.enter(number, program, "", child, pipes)?;
    let keeps_bytes = program.keeps_bytes.unwrap_or(KEPT_BYTES);
    let gather = || Ok((Gathered::from(output, keeps_bytes)?, Gathered::from(errors, KEPT_BYTES)?));
    let gathered = give(stdin, input).and_then(|()| gather());
    let gathered = gathered.inspect_err(|_| entry.kill());
    let how = await_end(&entry, until);
    processes.forget(number);
    let (output, errors) = gathered.map_err(|error| Refusal::system("start a thread", &error))?;
    let mut errors = errors.text();
    let how = how.unwrap_or_else(|| {
        errors.push_str(&format!("\n[killed: not done within {within_s} s]\n"));
        entry.kill();
        entry.wait()
    });
    Ok(Answer::Ran { how, output: output.text(), errors })
}

fn pipe() -> Result<(PipeReader, io::PipeWriter), Refusal> {
    io::pipe().map_err(|error| Refusal::system("make a pipe", &error))
}

/// How it ended, if it did in time.
fn await_end(entry: &Entry, until: Instant) -> Option<i32> {
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

/// Writes its input. A program that does not read it all is in its right.
fn give(stdin: Option<ChildStdin>, input: String) -> io::Result<()> {
    let Some(mut stdin) = stdin.filter(|_| !input.is_empty()) else { return Ok(()) };
    let write = move || drop(stdin.write_all(input.as_bytes()));
    std::thread::Builder::new().name("input".to_owned()).spawn(write).map(drop)
}

/// What comes from a pipe.
struct Gathered {
    kept: Arc<Mutex<Vec<u8>>>,
    keeps_bytes: usize,
    /// Closed by the reader when it is done.
    done: Receiver<()>,
}

impl Gathered {
    fn from(mut pipe: PipeReader, keeps_bytes: usize) -> io::Result<Self> {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (until_done, done) = channel::<()>();
        let shared = Arc::clone(&kept);
        let read = move || {
            let mut buffer = [0; 16 << 10];
            let mut left_out = 0;
            // What cannot be kept is read all the same, so that nobody is held up.
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
        };
        std::thread::Builder::new().name("output".to_owned()).spawn(read)?;
        Ok(Self { kept, keeps_bytes, done })
    }

    /// All of it, once the program has ended. What it left running may hold the other end of the pipe for ever.
    fn text(&self) -> String {
        let _ = self.done.recv_timeout(PATIENCE);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::from_utf8_lossy(&kept).into_owned();
        // What is no text grows when it is made one; whoever asked counts on what was to be kept.
        if text.len() > kept.len().max(self.keeps_bytes) {
            let end = (0..=self.keeps_bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            text.truncate(end);
            text.push_str("\n[the rest, which is not text, left out]\n");
        }
        text
    }
}
