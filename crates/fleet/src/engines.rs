//! Start of generators as processes of this machine, or by a user's command. The result is a stream
//! to each generator, as for generators on a lab's hosts and on machines behind ssh.

use std::io::{self, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use experiment::plan::{Fleet, FleetEngine};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::generator::named;
use crate::session::GeneratorStream;

/// Time for generators to end after the order to end.
const GRACE: Duration = Duration::from_secs(5);
/// Interval of checks whether generators have ended.
const GLANCE: Duration = Duration::from_millis(5);
/// Time to wait for the last standard error of an ended generator.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Number of bytes kept from the end of standard error.
const KEPT: usize = 4096;

/// Reason why generators could not be started.
#[derive(Debug, thiserror::Error)]
pub enum PlacementError {
    /// A program could not be started.
    #[error("generator {name} could not be started: {program}: {error}; set `[fleet] start` to an existing program")]
    Start {
        /// Name of the generator.
        name: String,
        /// Program to start.
        program: String,
        /// System error.
        error: io::Error,
    },
    /// A thread of this process could not be started.
    #[error("cannot start a thread for the fleet: {0}")]
    System(#[from] io::Error),
}

/// Processes that run generators or connect to them. Dropping this ends them at once.
pub struct PlacedGenerators {
    /// Orders the end of the processes. The value is true if they get time to end by themselves.
    release: Option<Sender<bool>>,
    holder: Option<JoinHandle<()>>,
    last_words: Vec<(String, Receiver<String>)>,
}

type Raised = (Vec<GeneratorStream>, Vec<(String, Receiver<String>)>);

impl PlacedGenerators {
    /// Starts all generators of a fleet in the calling thread's namespaces. `plimsoll` is the path
    /// of this program.
    ///
    /// # Errors
    /// The first failure. The generators that were started are ended again.
    pub fn raise(fleet: &Fleet, plimsoll: &Path) -> Result<(Self, Vec<GeneratorStream>), PlacementError> {
        let commands: Vec<(String, Command)> =
            (1..=fleet.generators).map(|number| (fleet.name(number), command(fleet, plimsoll, number))).collect();
        let (release, released) = channel();
        let (told, raised) = channel();
        // The kernel ends processes together with the thread that started them, so one thread holds
        // them.
        let holder = named("fleet-hold", move || hold(commands, &told, &released))?;
        let mut placed = Self { release: Some(release), holder: Some(holder), last_words: Vec::new() };
        let (streams, last_words) =
            raised.recv().unwrap_or_else(|_| Err(io::Error::other("the thread panicked").into()))?;
        placed.last_words = last_words;
        Ok((placed, streams))
    }

    /// Waits for the generators that were ordered to end, and ends the others.
    pub fn end(mut self) {
        self.let_go(true);
    }

    /// Ends all generators at once. Returns the last standard error of the named generator, if any.
    #[must_use]
    pub fn end_at_once(mut self, name: &str) -> Option<String> {
        self.let_go(false);
        let (_, last_words) = self.last_words.iter().find(|(of, _)| of == name)?;
        last_words.recv_timeout(LAST_WORDS).ok().filter(|text| !text.is_empty())
    }

    fn let_go(&mut self, has_time: bool) {
        if let Some(release) = self.release.take() {
            // The holder may have panicked. Its processes ended with it.
            let _ = release.send(has_time);
        }
        if let Some(holder) = self.holder.take() {
            // A panic of the holder is ignored here too.
            let _ = holder.join();
        }
    }
}

impl Drop for PlacedGenerators {
    fn drop(&mut self) {
        self.let_go(false);
    }
}

/// Returns the command for the generator with this number.
fn command(fleet: &Fleet, plimsoll: &Path, number: u32) -> Command {
    let plimsoll_path = plimsoll.to_string_lossy();
    let words = fleet.start.iter().map(|word| word.replace("{number}", &number.to_string()));
    let mut words = words.map(|word| word.replace("{plimsoll}", &plimsoll_path));
    let mut command = match words.next() {
        Some(program) if fleet.by == FleetEngine::Command => Command::new(program),
        // On another machine, the command that connects to the machine starts the generator.
        _ => {
            let mut command = Command::new(plimsoll);
            command.arg("generator");
            command
        }
    };
    command.args(words);
    // A separate process group, so that only the conductor receives an interrupt from the terminal.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    linux::ends_with_us(&mut command);
    command
}

/// Starts processes and keeps them running until `released` orders their end.
fn hold(commands: Vec<(String, Command)>, told: &Sender<Result<Raised, PlacementError>>, released: &Receiver<bool>) {
    let mut children = Vec::new();
    let raised = start(commands, &mut children);
    let is_raised = raised.is_ok();
    // The caller may be gone. Then `released` has ended too.
    let _ = told.send(raised);
    let has_time = is_raised && released.recv().unwrap_or(false);
    if has_time {
        let until = Instant::now() + GRACE;
        while Instant::now() < until && children.iter().any(is_running) {
            std::thread::park_timeout(GLANCE);
        }
    }
    for child in &mut children {
        end(child);
    }
}

fn start(commands: Vec<(String, Command)>, children: &mut Vec<Child>) -> Result<Raised, PlacementError> {
    let (mut streams, mut last_words) = (Vec::new(), Vec::new());
    for (name, mut command) in commands {
        let program = command.get_program().to_string_lossy().into_owned();
        let started = command.spawn();
        let mut child = started.map_err(|error| PlacementError::Start { name: name.clone(), program, error })?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        children.push(child);
        let (Some(orders), Some(messages), Some(errors)) = pipes else { continue };
        let (told, heard) = channel();
        named("fleet-errors", move || {
            // The caller may be gone.
            let _ = told.send(last_of(errors));
        })?;
        last_words.push((name.clone(), heard));
        streams.push(GeneratorStream { name, orders: Box::new(orders), messages: Box::new(BufReader::new(messages)) });
    }
    Ok((streams, last_words))
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Whether the child has not ended. Does not reap the child, so that its id is not reused.
fn is_running(child: &Child) -> bool {
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    pid(child).is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), how), Ok(None)))
}

/// Ends the child's group, then reaps the child. Until then the group's id cannot be reused.
fn end(child: &mut Child) {
    if let Some(group) = pid(child) {
        // An error means that no process of the group is left.
        let _ = kill_process_group(group, Signal::KILL);
    }
    // An error means that the child has been reaped.
    let _ = child.wait();
}

/// Returns the last bytes of standard error, as text.
fn last_of(mut errors: impl Read) -> String {
    let (mut kept, mut piece) = (Vec::new(), [0; KEPT]);
    while let Ok(read @ 1..) = errors.read(&mut piece) {
        kept.extend_from_slice(&piece[..read]);
        kept.drain(..kept.len().saturating_sub(KEPT));
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::io::{BufRead as _, Write as _};

    use super::*;

    fn by_command(generators: u32, start: &[&str]) -> Fleet {
        let start = start.iter().map(|word| (*word).to_owned()).collect();
        Fleet { generators, by: FleetEngine::Command, start, ..Fleet::default() }
    }

    fn is_there(pid: &str) -> bool {
        Path::new("/proc").join(pid.trim()).exists()
    }

    #[test]
    fn a_command_gets_generator_number_and_program() {
        let fleet = by_command(2, &["sh", "-c", "echo {number} {plimsoll}; cat"]);
        let (placed, streams) = PlacedGenerators::raise(&fleet, Path::new("/p")).unwrap();
        let lines = streams.into_iter().map(|mut stream| {
            let mut line = String::new();
            stream.messages.read_line(&mut line).unwrap();
            (stream.name, line)
        });
        let lines: Vec<_> = lines.collect();
        placed.end();
        assert_eq!(lines, [("g1".to_owned(), "1 /p\n".to_owned()), ("g2".to_owned(), "2 /p\n".to_owned())]);
    }

    #[test]
    fn stubborn_generators_are_killed_with_their_children() {
        // Both the program and its child ignore the end of input.
        let fleet = by_command(1, &["sh", "-c", "sleep 1000 & echo $! $$; wait"]);
        let (placed, mut streams) = PlacedGenerators::raise(&fleet, Path::new("/p")).unwrap();
        let mut pids = String::new();
        streams[0].messages.read_line(&mut pids).unwrap();
        assert!(pids.split(' ').all(is_there), "{pids}");
        drop(placed);
        // The grandchild has another parent now, which may reap it late.
        let mut rest = String::new();
        streams[0].messages.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "the pipe ends when all who held it have");
        assert!(!is_there(pids.split(' ').next_back().unwrap()));
    }

    #[test]
    fn the_last_error_line_of_a_generator_is_kept() {
        let fleet = by_command(2, &["sh", "-c", "echo no route to {number} >&2"]);
        let (placed, mut streams) = PlacedGenerators::raise(&fleet, Path::new("/p")).unwrap();
        let mut nothing = String::new();
        streams[1].messages.read_line(&mut nothing).unwrap();
        // The generator may no longer read.
        let _ = streams[1].orders.write_all(b"x");
        assert_eq!(placed.end_at_once("g2").as_deref(), Some("no route to 2"));
    }

    #[test]
    fn a_missing_program_is_named() {
        let fleet = by_command(1, &["/there/is/none"]);
        let error = PlacedGenerators::raise(&fleet, Path::new("/p")).err().unwrap().to_string();
        assert!(error.contains("g1") && error.contains("/there/is/none") && error.contains("[fleet] start"), "{error}");
    }
}
