//! The processes of a host: started in its groups, their output and their ends said in the
//! order in which they came.

use std::collections::BTreeMap;
use std::io::{self, PipeReader, Read as _};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use rustix::process::{PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use super::voice::Voice;
use crate::linux;
use crate::registry::MARK;
use crate::remains::{Group, pipe_inode};
use crate::runner::{Answer, Program, Refusal, Said};
use crate::site::Member;

const CHUNK_BYTES: usize = 16 << 10;
/// Where the kernel gives no handle on a process, its end is looked for so often.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// All that were started.
pub struct Processes {
    voice: Arc<Voice>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// Nothing is started any more.
    closed: bool,
    by_number: BTreeMap<u64, Arc<Entry>>,
}

/// A process.
pub struct Entry {
    role: String,
    pub pid: u32,
    group: Group,
    /// In its environment; none where nobody asked for it.
    marks: Vec<String>,
    /// `None` once it was waited for: from then on its number may be somebody else's.
    child: Mutex<Option<Child>>,
}

impl Processes {
    pub fn new(voice: Arc<Voice>) -> Self {
        Self { voice, table: Mutex::default() }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process under this number and says so; from then on its output and its end are said.
    pub fn start(&self, number: u64, program: &Program, groups: &[PathBuf]) -> Result<(), Refusal> {
        let (pipe, writer) = io::pipe().map_err(|error| Refusal::system("make a pipe", &error))?;
        let pipes = pipe_inode(&pipe).into_iter().collect();
        let copy = writer.try_clone().map_err(|error| Refusal::system("copy a pipe", &error))?;
        let mut command = command(program)?;
        command.stdin(Stdio::null()).stdout(copy).stderr(writer);
        let child = linux::spawn_in(command, groups).map_err(|error| not_started(program, &error))?;
        let entry = self.enter(number, program, &program.role, child, pipes)?;
        let pid = entry.pid;
        self.voice.say(&Said::Done { number, answer: Answer::Started { pid } });
        let (voice, followed) = (Arc::clone(&self.voice), Arc::clone(&entry));
        let follow = move || Follower { number, entry: &followed, pipe, voice: &voice, cut: Vec::new() }.run();
        if std::thread::Builder::new().name("follower".to_owned()).spawn(follow).is_err() {
            // It has been said that it started, so its end has to follow.
            entry.kill();
            self.voice.say(&Said::Ended { process: number, how: entry.wait() });
        }
        Ok(())
    }

    /// Makes a process known that writes to these pipes, so that it is ended with the others.
    pub fn enter(
        &self,
        number: u64,
        program: &Program,
        role: &str,
        child: Child,
        pipes: Vec<u64>,
    ) -> Result<Arc<Entry>, Refusal> {
        let pid = child.id();
        let group = Group::of(pid, pipes);
        let marks = program.environment.get(MARK).map(|run| format!("{MARK}={run}")).into_iter().collect();
        let entry = Arc::new(Entry { role: role.to_owned(), pid, group, marks, child: Mutex::new(Some(child)) });
        let mut table = self.table();
        if table.closed {
            drop(table);
            entry.kill();
            entry.wait();
            return Err(Refusal::Cannot { reason: "the host is being taken down".to_owned() });
        }
        table.by_number.insert(number, Arc::clone(&entry));
        Ok(entry)
    }

    pub fn signal(&self, process: u64, signal: i32, group: bool) -> Result<Answer, Refusal> {
        let known = self.table().by_number.get(&process).cloned();
        let entry = known.ok_or_else(|| Refusal::system(format!("signal process {process}"), &"there is none"))?;
        let signal = Signal::from_named_raw(signal)
            .ok_or_else(|| Refusal::system(format!("send signal {signal}"), &"there is none of that number"))?;
        entry.signal(signal, group);
        Ok(Answer::Nothing)
    }

    /// Those that have a role and run.
    pub fn members(&self, host: &str) -> Vec<Member> {
        let entries: Vec<Arc<Entry>> = self.table().by_number.values().cloned().collect();
        let running = entries.iter().filter(|entry| !entry.role.is_empty() && entry.child().is_some());
        running.map(|entry| Member { host: host.to_owned(), role: entry.role.clone(), pid: entry.pid }).collect()
    }

    /// From now on nothing is started.
    pub fn close(&self) {
        self.table().closed = true;
    }

    /// The process group of each.
    pub fn groups(&self) -> Vec<Group> {
        self.table().by_number.values().map(|entry| entry.group.clone()).collect()
    }

    /// Forgets a process that has ended with all that it started.
    pub fn forget(&self, number: u64) {
        self.table().by_number.remove(&number);
    }
}

impl Entry {
    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self, signal: Signal, group: bool) {
        let child = self.child();
        if child.is_some() {
            let Some(pid) = linux::pid(self.pid) else { return };
            // Until it is waited for, its number is its own.
            let _ = if group { kill_process_group(pid, signal) } else { kill_process(pid, signal) };
        } else if group {
            // Its number may be somebody else's by now.
            for stat in self.group.members(&self.marks) {
                linux::signal(&stat, signal);
            }
        }
    }

    /// Kills it, with its group.
    pub fn kill(&self) {
        self.signal(Signal::KILL, true);
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<i32> {
        let mut child = self.child();
        let status = child.as_mut()?.try_wait().ok().flatten()?;
        *child = None;
        Some(how(status))
    }

    /// Waits for the end of a process that was killed.
    pub fn wait(&self) -> i32 {
        let status = self.child().take().and_then(|mut child| child.wait().ok());
        status.map_or(-Signal::KILL.as_raw(), how)
    }

    /// A handle on it, where the kernel gives one.
    pub fn handle(&self) -> Option<OwnedFd> {
        pidfd_open(linux::pid(self.pid)?, PidfdFlags::empty()).ok()
    }
}

/// The program with its arguments, environment and folder.
pub fn command(program: &Program) -> Result<Command, Refusal> {
    let [name, arguments @ ..] = program.command.as_slice() else {
        return Err(Refusal::system(format!("start `{}`", program.role), &"it has no program"));
    };
    let mut command = Command::new(name);
    command.args(arguments).envs(&program.environment);
    if let Some(folder) = &program.folder {
        if !folder.is_dir() {
            return Err(Refusal::system(format!("start `{name}` in {}", folder.display()), &"there is no such folder"));
        }
        command.current_dir(folder);
    }
    Ok(command)
}

/// Why it could not be started.
pub fn not_started(program: &Program, error: &io::Error) -> Refusal {
    let name = program.command.first().cloned().unwrap_or_default();
    if error.kind() == io::ErrorKind::NotFound {
        return Refusal::NoProgram { program: name };
    }
    Refusal::system(format!("start `{name}` for `{}`", program.role), error)
}

/// Its exit code, or the signal that ended it, negative.
pub fn how(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| -signal)).unwrap_or(-1)
}

/// Waits until a process has ended (first) or something can be read (second).
pub fn await_either(handle: Option<&OwnedFd>, pipe: Option<BorrowedFd<'_>>) -> (bool, bool) {
    let mut waited: Vec<PollFd<'_>> = Vec::with_capacity(2);
    waited.extend(handle.map(|handle| PollFd::new(handle, PollFlags::IN)));
    waited.extend(pipe.map(|pipe| PollFd::from_borrowed_fd(pipe, PollFlags::IN)));
    let within = handle.is_none().then_some(&GLANCE);
    if poll(&mut waited, within).is_err() {
        return (false, false);
    }
    let mut ready = waited.iter().map(|one| !one.revents().is_empty());
    let ended = handle.is_none() || ready.next() == Some(true);
    (ended, pipe.is_some() && ready.next() == Some(true))
}

/// Says what a process writes, and its end.
struct Follower<'a> {
    number: u64,
    entry: &'a Entry,
    pipe: PipeReader,
    voice: &'a Voice,
    /// The beginning of a character whose end is still to come.
    cut: Vec<u8>,
}

impl Follower<'_> {
    fn run(mut self) {
        use std::os::fd::AsFd as _;
        let handle = self.entry.handle();
        let (mut is_open, mut runs) = (true, true);
        while is_open || runs {
            let waited = if runs {
                await_either(handle.as_ref(), is_open.then(|| self.pipe.as_fd()))
            } else {
                // What it started may still write.
                (false, true)
            };
            if runs && waited.0 && self.end(&mut is_open) {
                runs = false;
            } else if waited.1 {
                is_open = self.pass_on(CHUNK_BYTES);
            }
        }
        self.say_cut();
    }

    /// If it has ended: says what it wrote until then, and its end. What others write meanwhile is not waited for.
    fn end(&mut self, is_open: &mut bool) -> bool {
        let Some(how) = self.entry.ended() else { return false };
        let mut left = usize::try_from(ioctl_fionread(&self.pipe).unwrap_or(0)).unwrap_or(usize::MAX);
        while left > 0 && *is_open {
            let piece = left.min(CHUNK_BYTES);
            *is_open = self.pass_on(piece);
            left -= piece;
        }
        self.say_cut();
        self.voice.say(&Said::Ended { process: self.number, how });
        true
    }

    /// Passes on what is there, up to `count` bytes. False at the end of all output.
    fn pass_on(&mut self, count: usize) -> bool {
        let mut buffer = [0; CHUNK_BYTES];
        match self.pipe.read(&mut buffer[..count]) {
            Ok(0) => false,
            Ok(count) => {
                self.say(&buffer[..count]);
                true
            }
            Err(error) => error.kind() == io::ErrorKind::Interrupted,
        }
    }

    fn say(&mut self, bytes: &[u8]) {
        self.cut.extend_from_slice(bytes);
        let whole = whole_characters(&self.cut);
        let rest = self.cut.split_off(whole);
        let text = String::from_utf8_lossy(&self.cut).into_owned();
        self.cut = rest;
        if !text.is_empty() {
            self.voice.say(&Said::Wrote { process: self.number, text });
        }
    }

    fn say_cut(&mut self) {
        if !self.cut.is_empty() {
            let text = String::from_utf8_lossy(&self.cut).into_owned();
            self.cut.clear();
            self.voice.say(&Said::Wrote { process: self.number, text });
        }
    }
}

/// Length without a character that only begins at the end.
pub fn whole_characters(bytes: &[u8]) -> usize {
    let longest = bytes.len().saturating_sub(3);
    let begins = (longest..bytes.len()).rev().find(|at| bytes[*at] & 0xC0 == 0xC0);
    let is_cut = |at: &usize| std::str::from_utf8(&bytes[*at..]).is_err_and(|error| error.error_len().is_none());
    begins.filter(is_cut).unwrap_or(bytes.len())
}
