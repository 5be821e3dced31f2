//! Programs of this machine that lead elsewhere, such as ssh and kubectl: run to their end in a bounded time, and what they write is kept in
//! bounded memory.

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Read as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use runner::plain_text;

/// Of what a program writes, so much of the beginning is kept, and as much of the end.
const KEPT_BYTES: usize = 64 << 10;
/// For output that is on its way when its program has ended.
const TO_BE_READ: Duration = Duration::from_millis(200);
/// How often whoever waits for a program looks whether the user wants an end.
const GLANCE: Duration = Duration::from_millis(100);

/// What a command that ran to its end came to.
#[derive(Debug)]
pub struct CommandOutcome {
    /// How it ended; `None`: it did not in time, and was killed.
    pub status: Option<ExitStatus>,
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub errors: String,
}

impl CommandOutcome {
    /// Whether it did what it should.
    pub fn is_ok(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

/// For what nobody stops before its time.
pub fn never() -> bool {
    false
}

/// Runs a command to its end, or kills it when the time is over or it is to `stop`.
///
/// # Errors
/// What the system says; `NotFound` if there is no such program.
pub fn run_within(
    mut command: Command,
    input: Stdio,
    within: Duration,
    stop: &dyn Fn() -> bool,
) -> io::Result<CommandOutcome> {
    let (output, output_in) = KeptOutput::pipe()?;
    let (errors, errors_in) = KeptOutput::pipe()?;
    command.stdin(input).stdout(output_in).stderr(errors_in);
    let mut child = linux::spawn(command)?;
    let status = await_end(&mut child, within, stop)?;
    if status.is_none() {
        let _ = child.kill();
        child.wait()?;
    }
    Ok(CommandOutcome { status, output: output.text(), errors: errors.text() })
}

/// What a program writes. It is read as it comes, so that nobody is held up, and of very much only the beginning and the end
/// are kept.
#[derive(Debug)]
pub struct KeptOutput {
    ends: Arc<Mutex<OutputEnds>>,
    /// Closed by the reader when it is done.
    done: Receiver<()>,
}

impl KeptOutput {
    /// Something to write to, and what is written there.
    ///
    /// # Errors
    /// What the system says.
    pub fn pipe() -> io::Result<(Self, PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        let ends = Arc::<Mutex<OutputEnds>>::default();
        let (until_done, done) = channel();
        let shared = Arc::clone(&ends);
        let read = move || {
            read(reader, &shared);
            drop::<std::sync::mpsc::Sender<()>>(until_done);
        };
        std::thread::Builder::new().name("program-output".to_owned()).spawn(read)?;
        Ok((Self { ends, done }, writer))
    }

    /// Whether this line is among what was written so far, at its beginning.
    pub fn has_line(&self, line: &str) -> bool {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.beginning.split(|byte| *byte == b'\n').any(|said| said == line.as_bytes())
    }

    /// As a text that can be shown, once the program has ended. What it left running may hold the other end of the pipe for ever.
    pub fn text(&self) -> String {
        let _ = self.done.recv_timeout(TO_BE_READ);
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).text()
    }
}

fn read(mut reader: PipeReader, ends: &Arc<Mutex<OutputEnds>>) {
    let mut buffer = vec![0; KEPT_BYTES];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return,
            // Nobody wants to know any more. Whoever writes on, be it what the program left running, is told by its pipe.
            Ok(_) if Arc::strong_count(ends) == 1 => return,
            Ok(count) => ends.lock().unwrap_or_else(PoisonError::into_inner).take(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// The beginning and the end of what was written.
#[derive(Debug, Default)]
struct OutputEnds {
    beginning: Vec<u8>,
    end: VecDeque<u8>,
    left_out: u64,
}

impl OutputEnds {
    fn take(&mut self, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(KEPT_BYTES - self.beginning.len()));
        self.beginning.extend_from_slice(first);
        let last = &rest[rest.len().saturating_sub(KEPT_BYTES)..];
        let over = (self.end.len() + last.len()).saturating_sub(KEPT_BYTES);
        self.end.drain(..over);
        self.end.extend(last);
        self.left_out += (over + rest.len() - last.len()) as u64;
    }

    fn text(&self) -> String {
        let (front, back) = self.end.as_slices();
        let text = |bytes: &[u8]| plain_text::lines(&String::from_utf8_lossy(bytes));
        let end = [front, back].concat();
        match self.left_out {
            0 => text(&[&self.beginning, end.as_slice()].concat()),
            bytes => {
                let note = format!("… {} more, not kept", plain_text::amount(bytes));
                format!("{}\n{note}\n{}", text(&self.beginning), text(&end))
            }
        }
    }
}

/// Waits for the end of a child, or until it is to `stop`.
///
/// # Errors
/// What the system says.
pub fn await_end(child: &mut Child, within: Duration, stop: &dyn Fn() -> bool) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + within;
    loop {
        let ended = child.try_wait()?;
        if ended.is_some() || Instant::now() >= until || stop() {
            return Ok(ended);
        }
        linux::await_end(child.id(), until.saturating_duration_since(Instant::now()).min(GLANCE));
    }
}

/// The last line that says anything.
#[must_use]
pub fn last_line(errors: &str) -> &str {
    errors.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("nothing")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, within: Duration) -> CommandOutcome {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run_within(command, Stdio::null(), within, &never).unwrap()
    }

    #[test]
    fn of_what_a_program_writes_the_beginning_and_the_end_are_kept_however_much_it_is() {
        let script = "echo first; head -c 3000000000 /dev/zero; echo last; echo bad >&2; exit 255";
        let outcome = shell(script, Duration::from_secs(600));
        let note = "\n… 2 GB more, not kept\n";
        assert!(
            outcome.output.starts_with("first\n")
                && outcome.output.contains(note)
                && outcome.output.ends_with("last\n")
        );
        // A zero is shown as six characters.
        assert!(outcome.output.len() <= 2 * 6 * KEPT_BYTES + note.len(), "{}", outcome.output.len());
        assert_eq!(outcome.errors, "bad\n");
        assert!(!outcome.is_ok());
    }

    #[test]
    fn what_a_program_writes_can_be_shown() {
        let outcome = shell("printf '\\033]0;owned\\007\\n' >&2", Duration::from_secs(60));
        assert_eq!(outcome.errors, "\\u{1b}]0;owned\\u{7}\n");
    }

    #[test]
    fn whoever_wants_an_end_does_not_wait_for_a_program() {
        let mut command = Command::new("sleep");
        command.arg("1000");
        let outcome = run_within(command, Stdio::null(), Duration::from_secs(1000), &|| true).unwrap();
        assert!(outcome.status.is_none());
    }

    #[test]
    fn who_does_not_end_in_time_is_killed() {
        let outcome = shell("echo begun; exec sleep 1000", Duration::from_millis(300));
        assert!(outcome.status.is_none() && !outcome.is_ok());
    }
}
