//! Worker threads that run programs for agents. A thread at the other end of an agent's socket
//! reads orders, starts a program for each order, and reports the program's outcome when the
//! program has ended.
//!
//! The engine reads a program's outcome as it reads an answer from a network. Starting a program
//! takes about a millisecond, which delays no other agent because a worker does it. If an agent
//! closes its socket, the program is killed. A program that the target names as an operation is run
//! by the runner of the member's host, if that host has a runner.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, ioctl_fionbio, read, write};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use wire::protocols::command::{ProgramExit, ProgramOutcome, ProgramRun};

/// Sets a program up, before its start, to be killed when this process ends for any reason.
pub type DeathSignal = fn(&mut Command);

/// The host of a member, for programs that the target names.
#[derive(Debug, Clone)]
pub struct ProgramHost {
    /// Values of `{NAME}` on this host.
    pub values: BTreeMap<String, String>,
    /// Working directory of the programs.
    pub folder: PathBuf,
    /// Environment variables of the programs.
    pub environment: BTreeMap<String, OsString>,
    /// Runner on the host, or `None` if the host is this machine.
    pub runner: Option<Arc<dyn ProgramRunner>>,
}

/// Runs programs on a host.
pub trait ProgramRunner: std::fmt::Debug + Send + Sync {
    /// Runs a program to its end with the host's folder and environment. Kills the program once
    /// `goes_on` returns false.
    ///
    /// # Errors
    /// Returns the reason why the program did not start, or `None` if its outcome is unknown.
    fn run(
        &self,
        command: Vec<String>,
        input: &str,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<ProgramResult, Option<String>>;
}

/// Outcome of a program on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramResult {
    /// Exit status, or the negated number of the signal that ended the program.
    pub how: i32,
    /// Standard output. Bytes beyond [`OUTPUT_LIMIT`] may be missing.
    pub stdout: String,
    /// Standard error. Bytes beyond [`OUTPUT_LIMIT`] may be missing.
    pub stderr: String,
}

/// Stack size of a worker thread.
const STACK: usize = 256 * 1024;

/// Starts a program worker for a connection to `service`. Returns the agent's end of the socket.
/// The worker ends when the agent's end is closed.
pub fn spawn_program_worker(
    tether: Option<DeathSignal>,
    service: &str,
    host: Option<ProgramHost>,
) -> io::Result<(OwnedFd, JoinHandle<()>)> {
    let (theirs, ours) = UnixStream::pair()?;
    theirs.set_nonblocking(true)?;
    let mut worker = ProgramWorker { agent: ours, tether, variables: variables(service), host };
    let named = std::thread::Builder::new().name("program-worker".to_owned()).stack_size(STACK);
    // The worker ends when the agent closes its socket. After that, no error can be reported to the
    // agent.
    let thread = named.spawn(move || while worker.serve().is_ok() {})?;
    Ok((theirs.into(), thread))
}

/// Returns the environment variables that name the service, or none if there is no service.
fn variables(service: &str) -> Vec<(&'static str, String)> {
    let rest = service.split_once("://").map_or(service, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let address = authority.rsplit_once('@').map_or(authority, |(_, address)| address);
    let mut variables = Vec::new();
    if !service.is_empty() {
        variables.push(("PLIMSOLL_SERVICE", service.to_owned()));
    }
    if let Some((host, port)) = address.rsplit_once(':') {
        variables.push(("PLIMSOLL_HOST", host.trim_matches(['[', ']']).to_owned()));
        variables.push(("PLIMSOLL_PORT", port.to_owned()));
    }
    variables
}

struct ProgramWorker {
    agent: UnixStream,
    tether: Option<DeathSignal>,
    variables: Vec<(&'static str, String)>,
    /// Host of the programs that the target names.
    host: Option<ProgramHost>,
}

impl ProgramWorker {
    /// Executes one order.
    fn serve(&mut self) -> io::Result<()> {
        let mut length = [0; 4];
        self.agent.read_exact(&mut length)?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.agent.read_exact(&mut frame)?;
        let order = ProgramRun::read(&frame).ok_or(ErrorKind::InvalidData)?;
        let mut answer = Vec::new();
        let runner = self.host.as_ref().and_then(|host| host.runner.as_ref()).filter(|_| order.on_member);
        match runner {
            Some(runner) => self.run_by(runner.as_ref(), &order, &mut answer)?,
            None => self.run_here(&order, &mut answer)?,
        }
        self.agent.write_all(&answer)
    }

    /// Runs a program on the member's host. Stops if the agent closes its socket.
    fn run_by(&self, runner: &dyn ProgramRunner, order: &ProgramRun<'_>, answer: &mut Vec<u8>) -> io::Result<()> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let input = order.stdin.map(text).unwrap_or_default();
        let goes_on = || {
            let mut agent = [PollFd::new(&self.agent, PollFlags::IN)];
            poll(&mut agent, Some(&Timespec::default())).is_ok_and(|ready| ready == 0)
        };
        let ran = runner.run(order.words.iter().map(|word| text(word)).collect(), &input, &goes_on);
        let (how, [stdout, stderr]) = match &ran {
            Ok(ran) if ran.how < 0 => (ProgramExit::Signalled(-ran.how), [ran.stdout.as_str(), &ran.stderr]),
            Ok(ran) => (ProgramExit::Exited(ran.how), [ran.stdout.as_str(), &ran.stderr]),
            Err(Some(why)) => (ProgramExit::NotStarted, ["", why.as_str()]),
            Err(None) => return Err(ErrorKind::ConnectionAborted.into()),
        };
        let kept = [stdout, stderr].map(|output| &output.as_bytes()[..output.len().min(OUTPUT_LIMIT)]);
        let is_cut = stdout.len().max(stderr.len()) > OUTPUT_LIMIT;
        ProgramOutcome { how, is_cut, stdout: kept[0], stderr: kept[1] }.write(answer);
        Ok(())
    }

    fn run_here(&self, order: &ProgramRun<'_>, answer: &mut Vec<u8>) -> io::Result<()> {
        match self.start(order) {
            Ok(mut running) => {
                let how = running.wait_for(&self.agent)?;
                let [stdout, stderr] = running.outputs();
                let is_cut = stdout.is_cut || stderr.is_cut;
                ProgramOutcome { how, is_cut, stdout: &stdout.kept, stderr: &stderr.kept }.write(answer);
            }
            Err(error) => {
                let why = error.to_string();
                ProgramOutcome { how: ProgramExit::NotStarted, is_cut: false, stdout: b"", stderr: why.as_bytes() }
                    .write(answer);
            }
        }
        Ok(())
    }

    fn start(&self, order: &ProgramRun<'_>) -> io::Result<RunningProgram> {
        let (program, arguments) = order.words.split_first().ok_or(ErrorKind::InvalidInput)?;
        let mut command = Command::new(OsStr::from_bytes(program));
        command.args(arguments.iter().map(|word| OsStr::from_bytes(word)));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(host) = self.host.as_ref().filter(|_| order.on_member) {
            command.envs(&host.environment).current_dir(&host.folder);
        }
        command.stdin(if order.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        // A separate process group lets the worker kill the program's children too. It also keeps
        // an interrupt at the terminal from reaching the program.
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        if let Some(tether) = self.tether {
            tether(&mut command);
        }
        RunningProgram::of(command.spawn()?, order.stdin)
    }
}

/// Maximum number of bytes that are kept of an output.
pub const OUTPUT_LIMIT: usize = 1024 * 1024;
/// Size of a read.
const BUFFER: usize = 64 * 1024;
/// Maximum number of reads of an output before other sources get their turn. A full pipe needs
/// fewer reads, so the rest of an ended program's output is read completely.
const READS: usize = 64;

/// A running program.
pub struct RunningProgram {
    child: Child,
    group: Pid,
    /// Pidfd of the program. Readable when the program has ended.
    handle: OwnedFd,
    input: Option<ProgramInput>,
    outputs: [CapturedOutput; 2],
    buffer: Vec<u8>,
    /// Whether the process group has been killed.
    is_over: bool,
}

/// Input that the program has not read yet.
struct ProgramInput {
    pipe: OwnedFd,
    bytes: Vec<u8>,
    at: usize,
}

/// Captured output of a program.
#[derive(Default)]
pub struct CapturedOutput {
    pipe: Option<OwnedFd>,
    /// First bytes of the output, up to [`OUTPUT_LIMIT`].
    pub kept: Vec<u8>,
    /// Whether later bytes were dropped.
    pub is_cut: bool,
}

impl RunningProgram {
    /// Takes over a program that has just been started as the leader of a new process group.
    pub fn of(mut child: Child, stdin: Option<&[u8]>) -> io::Result<Self> {
        let group = Pid::from_child(&child);
        let handle = pidfd_open(group, PidfdFlags::empty());
        let pipe = child.stdin.take().map(OwnedFd::from);
        let input = pipe.zip(stdin).map(|(pipe, bytes)| ProgramInput { pipe, bytes: bytes.to_vec(), at: 0 });
        let outputs = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
        let handle = match handle {
            Ok(handle) => handle,
            Err(errno) => {
                let _ = kill_process_group(group, Signal::KILL);
                let _ = child.wait();
                return Err(errno.into());
            }
        };
        let outputs = outputs.map(|pipe| CapturedOutput { pipe, ..CapturedOutput::default() });
        let running = Self { child, group, handle, input, outputs, buffer: vec![0; BUFFER], is_over: false };
        let pipes = running.outputs.iter().filter_map(|output| output.pipe.as_ref());
        for pipe in pipes.chain(running.input.as_ref().map(|input| &input.pipe)) {
            ioctl_fionbio(pipe, true)?;
        }
        Ok(running)
    }

    /// Waits until the program ends. Returns an error if the agent closes its socket first.
    fn wait_for(&mut self, agent: &UnixStream) -> io::Result<ProgramExit> {
        loop {
            let [has_hung_up, has_ended, reads, out, err] = self.await_anything(agent)?;
            if has_hung_up {
                return Err(ErrorKind::ConnectionAborted.into());
            }
            if reads {
                self.feed();
            }
            for (output, is_ready) in self.outputs.iter_mut().zip([out, err]) {
                if is_ready || has_ended {
                    output.take(&mut self.buffer);
                }
            }
            if has_ended {
                return self.end();
            }
        }
    }

    /// Returns standard output and standard error.
    pub fn outputs(&self) -> &[CapturedOutput; 2] {
        &self.outputs
    }

    /// Waits for events and returns a flag for each source: the agent, the program's end, the
    /// program's input, and the program's two outputs.
    fn await_anything(&self, agent: &UnixStream) -> io::Result<[bool; 5]> {
        let [out, err] = self.outputs.each_ref().map(|output| output.pipe.as_ref().map(AsFd::as_fd));
        let input = self.input.as_ref().map(|input| input.pipe.as_fd());
        let sources: [(Option<BorrowedFd<'_>>, PollFlags); 5] = [
            (Some(agent.as_fd()), PollFlags::IN),
            (Some(self.handle.as_fd()), PollFlags::IN),
            (input, PollFlags::OUT),
            (out, PollFlags::IN),
            (err, PollFlags::IN),
        ];
        let present = sources.into_iter().filter_map(|(source, flags)| Some((source?, flags)));
        let mut asked: Vec<PollFd<'_>> =
            present.map(|(source, flags)| PollFd::from_borrowed_fd(source, flags)).collect();
        match poll(&mut asked, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut answers = asked.iter().map(|answer| !answer.revents().is_empty());
        Ok(sources.map(|(source, _)| source.is_some() && answers.next().unwrap_or(false)))
    }

    /// Writes more of the input. If the program has closed its standard input, the rest is dropped.
    fn feed(&mut self) {
        let Some(input) = &mut self.input else { return };
        match write(&input.pipe, &input.bytes[input.at..]) {
            Ok(written) => input.at += written,
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => input.at = input.bytes.len(),
        }
        if input.at == input.bytes.len() {
            self.input = None;
        }
    }

    /// Kills the process group and waits for the program. The children of the program are killed
    /// too. The group's id cannot be reused before the wait.
    fn end(&mut self) -> io::Result<ProgramExit> {
        self.is_over = true;
        let _ = kill_process_group(self.group, Signal::KILL);
        let status = self.child.wait()?;
        Ok(status.code().map_or_else(|| ProgramExit::Signalled(status.signal().unwrap_or(0)), ProgramExit::Exited))
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        if !self.is_over {
            // No receiver is left for an error.
            let _ = self.end();
        }
    }
}

impl CapturedOutput {
    /// Reads the available bytes.
    fn take(&mut self, buffer: &mut [u8]) {
        for _ in 0..READS {
            let Some(pipe) = &self.pipe else { return };
            match read(pipe, &mut *buffer) {
                Ok(count @ 1..) => {
                    let room = OUTPUT_LIMIT - self.kept.len();
                    self.is_cut |= count > room;
                    self.kept.extend_from_slice(&buffer[..count.min(room)]);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Ok(0) | Err(_) => self.pipe = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use wire::protocols::command::measured;

    use super::*;

    /// An agent's end of a socket and its program worker.
    struct Agent {
        socket: Option<UnixStream>,
        worker: Option<JoinHandle<()>>,
    }

    /// Outcome of an order: exit, whether an output was cut, both outputs.
    type Told = (ProgramExit, bool, Vec<u8>, Vec<u8>);

    impl Agent {
        fn of(service: &str) -> Self {
            let (socket, worker) = spawn_program_worker(None, service, None).unwrap();
            let socket = UnixStream::from(socket);
            socket.set_nonblocking(false).unwrap();
            Self { socket: Some(socket), worker: Some(worker) }
        }

        fn order(&mut self, words: &[&str], stdin: Option<&[u8]>) {
            let mut frame = Vec::new();
            measured(&mut frame, |out| {
                out.push(0);
                out.extend_from_slice(&u32::try_from(words.len()).unwrap().to_be_bytes());
                words.iter().for_each(|word| measured(out, |out| out.extend_from_slice(word.as_bytes())));
                if let Some(stdin) = stdin {
                    measured(out, |out| out.extend_from_slice(stdin));
                }
            });
            self.socket.as_mut().unwrap().write_all(&frame).unwrap();
        }

        fn read_outcome(&mut self) -> Told {
            let socket = self.socket.as_mut().unwrap();
            let mut length = [0; 4];
            socket.read_exact(&mut length).unwrap();
            let mut frame = vec![0; u32::from_be_bytes(length) as usize];
            socket.read_exact(&mut frame).unwrap();
            let outcome = ProgramOutcome::read(&frame).unwrap();
            (outcome.how, outcome.is_cut, outcome.stdout.to_vec(), outcome.stderr.to_vec())
        }

        fn run(&mut self, words: &[&str], stdin: Option<&[u8]>) -> Told {
            self.order(words, stdin);
            self.read_outcome()
        }

        /// Closes the socket and waits for the worker.
        fn hang_up(&mut self) {
            drop(self.socket.take());
            self.worker.take().unwrap().join().unwrap();
        }
    }

    fn sh(script: &str) -> Told {
        Agent::of("").run(&["sh", "-c", script], None)
    }

    #[test]
    fn exits_of_each_kind() {
        let told =
            |how, stdout: &str, stderr: &str| (how, false, stdout.as_bytes().to_vec(), stderr.as_bytes().to_vec());
        assert_eq!(sh("echo out; echo err >&2"), told(ProgramExit::Exited(0), "out\n", "err\n"));
        assert_eq!(sh("exit 3"), told(ProgramExit::Exited(3), "", ""));
        assert_eq!(sh("kill -TERM $$"), told(ProgramExit::Signalled(15), "", ""));
        let (how, _, stdout, why) = Agent::of("").run(&["no-such-program-anywhere"], None);
        assert_eq!((how, stdout.is_empty(), why.is_empty()), (ProgramExit::NotStarted, true, false));
        let (how, ..) = Agent::of("").run(&[], None);
        assert_eq!(how, ProgramExit::NotStarted);
    }

    #[test]
    fn arguments_are_passed_without_expansion() {
        let (.., stdout, _) = Agent::of("").run(&["printf", "%s|", "a b", "", "$HOME", "*"], None);
        assert_eq!(stdout, b"a b||$HOME|*|");
    }

    #[test]
    fn programs_run_one_after_the_other() {
        let mut agent = Agent::of("");
        for number in 0..20 {
            let (how, _, stdout, _) = agent.run(&["echo", &number.to_string()], None);
            assert_eq!((how, stdout), (ProgramExit::Exited(0), format!("{number}\n").into_bytes()));
        }
        agent.hang_up();
    }

    #[test]
    fn input_may_be_read_or_ignored() {
        let long = vec![b'x'; 3_000_000];
        assert_eq!(Agent::of("").run(&["wc", "-c"], Some(&long)).2, b"3000000\n");
        assert_eq!(Agent::of("").run(&["cat"], Some(b"")).2, b"");
        assert_eq!(Agent::of("").run(&["cat"], None).2, b"");
        // The program ends with its input unread.
        assert_eq!(Agent::of("").run(&["true"], Some(&long)).0, ProgramExit::Exited(0));
        // The program reads and writes large amounts at the same time.
        let (how, is_cut, stdout, _) = Agent::of("").run(&["cat"], Some(&long));
        assert_eq!((how, is_cut, stdout.len()), (ProgramExit::Exited(0), true, 1024 * 1024));
    }

    #[test]
    fn background_children_are_not_waited_for() {
        let begun = Instant::now();
        let (how, _, stdout, _) = sh("sleep 600 & echo $!");
        assert_eq!(how, ProgramExit::Exited(0));
        assert!(begun.elapsed() < Duration::from_secs(500));
        wait_until_gone(&String::from_utf8(stdout).unwrap());
    }

    #[test]
    fn closing_the_socket_kills_the_program_and_its_children() {
        let mut agent = Agent::of("");
        // The shell waits for its child; both must end.
        let folder = fixture::TestDir::new();
        let note = folder.join("pids");
        let script = format!("sleep 600 & echo $! $$ > {0}.part; mv {0}.part {0}; wait", note.display());
        agent.order(&["sh", "-c", &script], None);
        let mut pids = String::new();
        fixture::until("it starts", || std::fs::read_to_string(&note).map(|text| pids = text).is_ok());
        agent.hang_up();
        pids.split_whitespace().for_each(wait_until_gone);
    }

    /// Waits until the process with this number has ended. A killed process needs a moment to end.
    fn wait_until_gone(pid: &str) {
        let pid = pid.trim().parse().unwrap();
        fixture::until("it goes", || !fixture::is_alive(pid));
    }

    #[test]
    fn programs_get_the_service_address_as_variables() {
        let script = "echo $PLIMSOLL_SERVICE $PLIMSOLL_HOST $PLIMSOLL_PORT";
        for (service, expected) in [
            ("", ""),
            ("127.0.0.1:5432", "127.0.0.1:5432 127.0.0.1 5432"),
            ("tcp://me@[::1]:5432/x", "tcp://me@[::1]:5432/x ::1 5432"),
            ("http://host/", "http://host/"),
        ] {
            let (.., stdout, _) = Agent::of(service).run(&["sh", "-c", script], None);
            assert_eq!(String::from_utf8(stdout).unwrap().trim(), expected, "{service}");
        }
    }
}
