//! Programs of this machine that connect to other machines, such as ssh and kubectl. They run with
//! a time limit, and their output is kept in bounded memory.

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Read as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use runner::plain_text;

/// Number of bytes kept from the beginning of a program's output, and from its end.
const KEPT_BYTES: usize = 64 << 10;
/// Time limit for reading remaining output after a program has ended.
const TO_BE_READ: Duration = Duration::from_millis(200);
/// Interval at which a waiting thread checks whether the user wants to end.
const GLANCE: Duration = Duration::from_millis(100);

/// Result of a command.
#[derive(Debug)]
pub struct CommandOutcome {
    /// Exit status, or `None` if the command was killed after its time limit.
    pub status: Option<ExitStatus>,
    pub output: String,
    pub errors: String,
}

impl CommandOutcome {
    /// Whether the command succeeded.
    pub fn is_ok(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

/// Always returns false: for waits that are never stopped early.
pub fn never() -> bool {
    false
}

/// Runs a command to its end. Kills it after the time limit, or once `stop` returns true.
///
/// # Errors
/// The system's error; `NotFound` if there is no such program.
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

/// The output of a program. A thread reads it as it arrives, so that the program is never blocked.
/// Keeps only the beginning and the end of long output.
#[derive(Debug)]
pub struct KeptOutput {
    ends: Arc<Mutex<OutputEnds>>,
    /// Disconnected once the reader is done.
    done: Receiver<()>,
}

impl KeptOutput {
    /// Creates a pipe. Everything written to it is kept.
    pub fn pipe() -> io::Result<(Self, PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        let ends = Arc::<Mutex<OutputEnds>>::default();
        let (until_done, done) = channel();
        let shared = Arc::clone(&ends);
        std::thread::Builder::new().name("program-output".to_owned()).spawn(move || {
            read(reader, &shared);
            drop::<std::sync::mpsc::Sender<()>>(until_done);
        })?;
        Ok((Self { ends, done }, writer))
    }

    /// Whether the kept beginning contains this line.
    pub fn has_line(&self, line: &str) -> bool {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.beginning.split(|byte| *byte == b'\n').any(|said| said == line.as_bytes())
    }

    /// Returns the output as printable text. Call it after the program has ended. Waits at most
    /// `TO_BE_READ`, because background processes may hold the pipe open forever.
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
            // No one needs the output any more. The next write to the pipe fails.
            Ok(_) if Arc::strong_count(ends) == 1 => return,
            Ok(count) => ends.lock().unwrap_or_else(PoisonError::into_inner).take(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// The beginning and the end of the output.
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
        let mut output = self.beginning.clone();
        if self.left_out > 0 {
            let note = format!("\n… {} more, not kept\n", plain_text::amount(self.left_out));
            output.extend(note.into_bytes());
        }
        output.extend([front, back].concat());
        plain_text::lines(&String::from_utf8_lossy(&output))
    }
}

/// Waits for the end of a child, until the time limit passes or `stop` returns true.
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

/// Returns the last line that is not empty.
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
    fn long_output_keeps_its_beginning_and_end() {
        let script = "echo first; head -c 3000000000 /dev/zero; echo last; echo bad >&2; exit 255";
        let outcome = shell(script, Duration::from_secs(600));
        let note = "\n… 2 GB more, not kept\n";
        assert!(
            outcome.output.starts_with("first\n")
                && outcome.output.contains(note)
                && outcome.output.ends_with("last\n")
        );
        // A zero byte is shown as six characters.
        assert!(outcome.output.len() <= 2 * 6 * KEPT_BYTES + note.len(), "{}", outcome.output.len());
        assert_eq!(outcome.errors, "bad\n");
        assert!(!outcome.is_ok());
    }

    #[test]
    fn control_characters_of_output_are_escaped() {
        let outcome = shell("printf '\\033]0;owned\\007\\n' >&2", Duration::from_secs(60));
        assert_eq!(outcome.errors, "\\u{1b}]0;owned\\u{7}\n");
    }

    #[test]
    fn a_stop_request_ends_the_wait_for_a_program() {
        let mut command = Command::new("sleep");
        command.arg("1000");
        let outcome = run_within(command, Stdio::null(), Duration::from_secs(1000), &|| true).unwrap();
        assert!(outcome.status.is_none());
    }

    #[test]
    fn a_program_over_its_time_limit_is_killed() {
        let outcome = shell("echo begun; exec sleep 1000", Duration::from_millis(300));
        assert!(outcome.status.is_none() && !outcome.is_ok());
    }
}
