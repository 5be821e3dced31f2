//! Delivery of this program through the stream to a generator. A shell at the other end receives
//! the program and then replaces itself with it.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process_group};

use crate::system_program::{KeptOutput, last_line};

/// Line that the shell prints to standard error when it has received the whole program.
const GOT: &str = "plimsoll: the program has come";
/// Interval between checks for that line.
const GLANCE: Duration = Duration::from_millis(20);

/// A program to send.
#[derive(Debug, Clone)]
pub struct Delivery {
    packed: PathBuf,
    bytes: u64,
    unpack: &'static str,
}

/// Reason for a failed delivery.
#[derive(Debug)]
pub enum NotDelivered {
    /// The stream's process ended. Contains the last line of its standard error.
    Ended(String),
    /// The time limit passed.
    Waited,
    /// The user wants to end.
    Stopped,
    /// A system call failed on this machine.
    System(io::Error),
}

impl Delivery {
    /// Creates a delivery of a packed file. `unpack` is the command that unpacks it.
    pub fn of(packed: &Path, unpack: &'static str) -> io::Result<Self> {
        let bytes = std::fs::metadata(packed)?.len();
        Ok(Self { packed: packed.to_path_buf(), bytes, unpack })
    }

    /// Returns the shell script for the other end. It deletes the program's file before it starts
    /// the program, so that no file remains, however the program ends. The shell must not read
    /// beyond the program. Therefore the sender waits for the shell's line before it sends orders.
    pub fn script(&self, command: &str) -> String {
        let Self { bytes, unpack, .. } = self;
        format!(
            "set -e; umask 077; p=$(mktemp \"${{TMPDIR:-/tmp}}/plimsoll.XXXXXX\"); trap 'rm -f \"$p\"' EXIT; \
             head -c {bytes} | {unpack} > \"$p\"; chmod 700 \"$p\"; exec 3< \"$p\"; rm -f \"$p\"; echo '{GOT}' >&2; \
             exec /proc/self/fd/3 {command}"
        )
    }

    /// Sends the program, and waits until it has arrived. The returned input is then the program's
    /// standard input.
    pub fn send(
        &self,
        carrier: &mut Child,
        errors: &KeptOutput,
        until: Instant,
        stop: &dyn Fn() -> bool,
    ) -> Result<ChildStdin, NotDelivered> {
        let input = carrier.stdin.take();
        let input = input.ok_or_else(|| NotDelivered::System(io::Error::other("it was started without pipes")))?;
        // A platform that waits for a free place reads nothing, which would block a writer on this
        // thread.
        let sent = self.send_aside(input).map_err(NotDelivered::System)?;
        while !errors.has_line(GOT) {
            if stop() {
                return Err(NotDelivered::Stopped);
            }
            if Instant::now() >= until {
                return Err(NotDelivered::Waited);
            }
            if carrier.try_wait().map_err(NotDelivered::System)?.is_some() && !errors.has_line(GOT) {
                return Err(NotDelivered::Ended(last_line(&errors.text()).to_owned()));
            }
            linux::await_end(carrier.id(), GLANCE);
        }
        let input = sent.recv().unwrap_or_else(|_| Err(io::Error::other("the thread that sends has panicked")));
        input.map_err(NotDelivered::System)
    }

    /// Sends the program on a separate thread. If the other end stops reading, no one waits for the
    /// thread.
    fn send_aside(&self, mut input: ChildStdin) -> io::Result<Receiver<io::Result<ChildStdin>>> {
        let mut file = File::open(&self.packed)?;
        let (done, sent) = channel();
        std::thread::Builder::new().name("send-program".to_owned()).spawn(move || {
            let copied = io::copy(&mut file, &mut input).and_then(|_| input.flush());
            // An error means that no one waits for the result.
            let _ = done.send(copied.map(|()| input));
        })?;
        Ok(sent)
    }
}

/// Returns the last line of standard error, except the line `GOT`.
#[must_use]
pub fn last_words(errors: &KeptOutput) -> Option<String> {
    let printed = errors.text();
    let last = printed.lines().map(str::trim).rfind(|line| !line.is_empty() && *line != GOT)?;
    Some(runner::plain_text::beginning(last, runner::plain_text::LINE_CHARACTERS))
}

/// Kills a program and its process group.
pub fn end(carrier: &mut Child) {
    // The process id cannot belong to another process before it is waited for.
    if let (Ok(None), Some(group)) = (carrier.try_wait(), linux::pid(carrier.id())) {
        // An error means that no process of the group is left.
        let _ = kill_process_group(group, Signal::KILL);
    }
    // An error means that the process has already been waited for.
    let _ = carrier.wait();
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    use fixture::TestDir;

    use super::*;
    use crate::system_program::never;

    const LONG: Duration = Duration::from_secs(60);

    fn soon() -> Instant {
        Instant::now() + LONG
    }

    fn shell(script: &str, folder: &TestDir) -> (Child, KeptOutput) {
        let (errors, held) = KeptOutput::pipe().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("TMPDIR", &**folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(held);
        (linux::spawn(command).unwrap(), errors)
    }

    #[test]
    fn a_delivered_program_reads_input_and_leaves_no_file() {
        let (folder, there) = (TestDir::new(), TestDir::new());
        // Larger than a pipe's buffer.
        let padding = "# padding\n".repeat(100_000);
        let program = folder.script("program", &format!("read -r line; echo \"$1 heard $line\"\nexit 0\n{padding}"));
        let delivery = Delivery::of(&program, "cat").unwrap();
        let (mut carrier, errors) = shell(&delivery.script("generator"), &there);
        let mut input = delivery.send(&mut carrier, &errors, soon(), &never).unwrap();
        assert_eq!(std::fs::read_dir(&*there).unwrap().count(), 0);
        input.write_all(b"this\n").unwrap();
        let mut said = String::new();
        BufReader::new(carrier.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "generator heard this\n");
        assert!(carrier.wait().unwrap().success());
        assert_eq!(last_words(&errors), None);
    }

    #[test]
    fn a_carrier_that_ends_early_is_explained() {
        let folder = TestDir::new();
        let delivery = Delivery::of(&folder.script("program", "true"), "cat").unwrap();
        let (mut carrier, errors) = shell("echo no such partition >&2; exit 1", &folder);
        match delivery.send(&mut carrier, &errors, soon(), &never) {
            Err(NotDelivered::Ended(said)) => assert_eq!(said, "no such partition"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn delivery_ends_at_the_deadline_or_on_a_stop() {
        let folder = TestDir::new();
        let delivery = Delivery::of(&folder.script("program", &"x".repeat(1 << 20)), "cat").unwrap();
        for (until, stop) in [(Instant::now(), false), (soon(), true)] {
            let (mut carrier, errors) = shell("sleep 1000 & wait", &folder);
            let refused = delivery.send(&mut carrier, &errors, until, &|| stop).unwrap_err();
            assert!(matches!((refused, stop), (NotDelivered::Waited, false) | (NotDelivered::Stopped, true)));
            end(&mut carrier);
        }
    }

    #[test]
    fn a_program_that_cannot_run_there_is_reported() {
        let folder = TestDir::new();
        let program = folder.join("program");
        std::fs::write(&program, b"\x7fELF and not more").unwrap();
        let delivery = Delivery::of(&program, "cat").unwrap();
        let (mut carrier, errors) = shell(&delivery.script("generator"), &folder);
        // The shell received the file, and only then finds that it is not a program.
        drop(delivery.send(&mut carrier, &errors, soon(), &never));
        assert!(!carrier.wait().unwrap().success());
        assert!(last_words(&errors).is_some());
    }
}
