//! Verbs over the kernel: start a process, signal exactly it, end what is left of a run, put a
//! process into namespaces. The only room with `unsafe`.

pub mod account;
pub mod cgroup;
pub mod mount;
pub mod network;
pub mod procfs;
pub mod sock_diag;

use std::ffi::{CStr, CString, c_int};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::mount::{MountFlags, mount, mount_bind};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, pidfd_open, pidfd_send_signal, set_parent_process_death_signal,
};
use rustix::system::sethostname;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use serde::{Deserialize, Serialize};

use account::{Account, Credentials};
use procfs::Stat;

// Starts processes that end with this program, whatever becomes of it, and that inherit nothing
// from it.

struct ProcessOrder {
    command: Command,
    reply: Sender<io::Result<Child>>,
}

/// The thread that starts everything. The kernel sends the parent's death signal when the *thread* that started a process
/// ends, so that thread has to live as long as the program.
static STARTER: Mutex<Option<Sender<ProcessOrder>>> = Mutex::new(None);

/// Starts `command` in a process group of its own; the kernel kills it when this program ends, however it ends.
///
/// # Errors
/// What the system says; `NotFound` if there is no such program.
pub fn spawn(command: Command) -> io::Result<Child> {
    spawn_in(command, &[])
}

/// The same, in these groups: files such as `cgroup.procs`, into which the child writes itself before it is the program.
///
/// # Errors
/// What the system says; `NotFound` if there is no such program.
pub fn spawn_in(command: Command, groups: &[PathBuf]) -> io::Result<Child> {
    spawn_as(command, groups, None)
}

/// The same, as this user.
///
/// # Errors
/// What the system says; `NotFound` if there is no such program.
pub fn spawn_as(mut command: Command, groups: &[PathBuf], user: Option<&Account>) -> io::Result<Child> {
    command.process_group(0);
    if !groups.is_empty() {
        joins(&mut command, groups.iter().map(open_group).collect::<io::Result<_>>()?);
    }
    if let Some(user) = user {
        user.introduce(&mut command);
        becomes(&mut command, Credentials::from(user));
    }
    // Last: the kernel forgets the death signal of whoever becomes another.
    ends_with_us(&mut command);
    let (reply, answer) = channel();
    starter()?.send(ProcessOrder { command, reply }).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

fn open_group(path: &PathBuf) -> io::Result<File> {
    // Not with the error's kind: `NotFound` says that the program is not there.
    let refused = |error| io::Error::other(format!("cannot join {}: {error}", path.display()));
    File::options().write(true).open(path).map_err(refused)
}

fn gone() -> io::Error {
    io::Error::other("the thread that starts processes is gone")
}

fn starter() -> io::Result<Sender<ProcessOrder>> {
    let mut slot = STARTER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(starter) = &*slot {
        return Ok(starter.clone());
    }
    keep_files_to_ourselves();
    let (orders_in, orders) = channel::<ProcessOrder>();
    std::thread::Builder::new().name("starter".to_owned()).spawn(move || {
        for ProcessOrder { mut command, reply } in orders {
            // Nobody waits for the answer if the one who asked is gone; then the child is, too.
            if let Err(unheard) = reply.send(command.spawn())
                && let Ok(mut child) = unheard.0
            {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    })?;
    Ok(slot.insert(orders_in).clone())
}

/// What Rust opens is closed on exec anyway; what whoever started us left open is not.
fn keep_files_to_ourselves() {
    let Ok(open) = fs::read_dir("/proc/self/fd") else { return };
    let numbers = open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for number in numbers.filter(|number| *number > 2).collect::<Vec<_>>() {
        mark_close_on_exec(number);
    }
}

#[expect(unsafe_code, reason = "a file that was inherited has a number and no owner")]
fn mark_close_on_exec(number: i32) {
    // SAFETY: the borrow ends with this call, and setting this flag on a file of whomever does not change
    // what it is for its owner; a number that was closed meanwhile gives EBADF.
    let file = unsafe { BorrowedFd::borrow_raw(number) };
    let _ = fcntl_setfd(file, FdFlags::CLOEXEC);
}

/// Has the kernel kill what `command` starts when the thread that starts it ends, and so at the latest with this program.
#[expect(unsafe_code, reason = "the death signal can only be asked for by the child itself")]
pub fn ends_with_us(command: &mut Command) {
    let us = getpid();
    // SAFETY: between fork and exec only async-signal-safe calls are allowed: these are two system calls,
    // and no memory is allocated.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // We may have died before the line above.
            if getppid() == Some(us) { Ok(()) } else { Err(Errno::SRCH.into()) }
        });
    }
}

#[expect(unsafe_code, reason = "a process that joined its groups only later would have run outside of them")]
fn joins(command: &mut Command, groups: Vec<File>) {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed: this is one system call for each group, on
    // files that are open already, and no memory is allocated.
    unsafe {
        command.pre_exec(move || {
            for group in &groups {
                // 0 is whoever writes it.
                rustix::io::write(group, b"0")?;
            }
            Ok(())
        });
    }
}

#[expect(unsafe_code, reason = "only whoever has joined its groups as root may become another")]
fn becomes(command: &mut Command, credentials: Credentials) {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed: these are three system calls, and no memory is
    // allocated.
    unsafe {
        command.pre_exec(move || credentials.become_it());
    }
}

// Signals that reach the process meant and never one that got its number later, and waits that
// end when it does.

/// Signals `process` if it still is the one that `stat` describes. False: it is gone, or not ours to signal.
pub fn signal(process: &Stat, signal: Signal) -> bool {
    let Some(pid) = pid(process.pid) else { return false };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    // The handle is of whoever has the number now; only then is it certain whose number it is.
    let same = procfs::stat(process.pid).is_some_and(|now| now.started_ticks == process.started_ticks);
    same && pidfd_send_signal(handle, signal).is_ok()
}

/// Waits until the process or zombie with this number has ended, or the time is over.
pub fn await_end(number: u32, within: Duration) {
    let Some(handle) = pid(number).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else { return };
    let within = Timespec {
        tv_sec: i64::try_from(within.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(within.subsec_nanos()),
    };
    // A signal may cut it short: whoever waits looks again.
    let _ = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&within));
}

/// A number as a pid.
pub fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

// What is left of a run: its processes, found by the mark in their environment and by their
// process groups, and ended.

/// Given to processes between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// Until a process that got SIGKILL is said to hang.
const PATIENCE: Duration = Duration::from_secs(5);
const GLANCE: Duration = Duration::from_millis(5);

/// How the processes of a run are told from all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunTag {
    /// `PLIMSOLL_RUN=…`, and what else is in the environment of every process meant; none: only the groups count.
    pub variables: Vec<String>,
    /// Process groups. They hold those that wrote over their environment.
    pub groups: Vec<ProcessGroup>,
}

/// The process group of a process that we started, which leads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessGroup {
    /// The leader; also the group's number.
    pub pid: u32,
    /// When that started, clock ticks since boot.
    pub started_ticks: u64,
    /// The pipes that got its output, by their inodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pipes: Vec<u64>,
}

impl ProcessGroup {
    /// The group of a process that was started and not waited for yet: until then it is in /proc, dead or alive.
    pub fn of(pid: u32, pipes: Vec<u64>) -> Self {
        Self { pid, started_ticks: procfs::stat(pid).map_or(0, |stat| stat.started_ticks), pipes }
    }

    /// Whose of it are alive. `variables` are in the environment of each process that it began with.
    pub fn members(&self, variables: &[String]) -> Vec<Stat> {
        let all = procfs::alive();
        if !self.is_still_ours(&all, variables) {
            return Vec::new();
        }
        all.into_iter().filter(|stat| stat.group == self.pid).collect()
    }

    /// Whether the number is still that of this group. The kernel gives it to no new process while any member is alive, but once
    /// all are gone it may be that of others. So the leader is to be the one that we started; when it is gone, a member is to be
    /// one that it or its children started, which it shows by what it inherited: the mark, or the pipe for its output.
    fn is_still_ours(&self, all: &[Stat], variables: &[String]) -> bool {
        if let Some(leader) = procfs::stat(self.pid) {
            return leader.started_ticks == self.started_ticks;
        }
        let has_inherited = |stat: &Stat| is_marked(stat, variables) || self.writes_to_us(stat);
        all.iter().filter(|stat| stat.group == self.pid).any(has_inherited)
    }

    fn writes_to_us(&self, stat: &Stat) -> bool {
        let leads_to = |number: u32| fs::read_link(format!("/proc/{}/fd/{number}", stat.pid)).ok();
        let ours = |pipe: &u64| format!("pipe:[{pipe}]");
        let names: Vec<String> = self.pipes.iter().map(ours).collect();
        [1, 2]
            .into_iter()
            .filter_map(leads_to)
            .any(|to| to.to_str().is_some_and(|to| names.iter().any(|name| name == to)))
    }
}

/// A pipe's inode: no other pipe has it as long as one end is open.
pub fn pipe_inode(end: impl AsFd) -> Option<u64> {
    rustix::fs::fstat(end).ok().map(|found| found.st_ino)
}

/// Whether all of these are in the environment of a process; none are in none.
fn is_marked(stat: &Stat, variables: &[String]) -> bool {
    !variables.is_empty() && variables.iter().all(|variable| procfs::was_started_with(stat.pid, variable))
}

impl RunTag {
    /// Every process of the run that is alive, without ourselves and those that we come from.
    pub fn find(&self) -> Vec<Stat> {
        let all = procfs::alive();
        let is_ours = |group: &&ProcessGroup| group.is_still_ours(&all, &self.variables);
        let groups: Vec<u32> = self.groups.iter().filter(is_ours).map(|group| group.pid).collect();
        let us = lineage(&all);
        all.into_iter()
            .filter(|stat| !us.contains(&stat.pid))
            .filter(|stat| groups.contains(&stat.group) || is_marked(stat, &self.variables))
            .collect()
    }

    /// Ends them all: SIGTERM first if `gently`, then SIGKILL. What it ended, and what it could not.
    pub fn end(&self, gently: bool) -> (Vec<Stat>, Vec<Stat>) {
        let mut ended: Vec<Stat> = Vec::new();
        let left = if gently { self.signal_until(Signal::TERM, GRACE, &mut ended) } else { self.find() };
        if left.is_empty() {
            return (ended, left);
        }
        let left = self.signal_until(Signal::KILL, PATIENCE, &mut ended);
        ended.retain(|stat| !left.iter().any(|left| left.pid == stat.pid));
        (ended, left)
    }

    /// Signals what it finds, also what appears meanwhile, until nothing is left or the time is over.
    fn signal_until(&self, signal: Signal, within: Duration, seen: &mut Vec<Stat>) -> Vec<Stat> {
        let until = Instant::now() + within;
        let mut signalled: Vec<(u32, u64)> = Vec::new();
        loop {
            let found = self.find();
            for stat in &found {
                let who = (stat.pid, stat.started_ticks);
                if !signalled.contains(&who) {
                    self::signal(stat, signal);
                    signalled.push(who);
                }
                if !seen.iter().any(|seen| (seen.pid, seen.started_ticks) == who) {
                    seen.push(stat.clone());
                }
            }
            if found.is_empty() || Instant::now() >= until {
                return found;
            }
            await_end(found[0].pid, GLANCE);
        }
    }
}

/// This process, its parent, and so on.
fn lineage(all: &[Stat]) -> Vec<u32> {
    let mut line = vec![std::process::id()];
    let parent = |of: u32| all.iter().find(|stat| stat.pid == of).map(|stat| stat.parent);
    while let Some(parent) = line.last().and_then(|last| parent(*last))
        && parent != 0
        && !line.contains(&parent)
    {
        line.push(parent);
    }
    line
}

// Verbs over namespaces: leave those of the machine, be called something else, start the first
// process inside. They act on the process that calls them, so only one that is there for nothing
// else may.

/// Leaves the machine's network and mounts for new ones. The new network has nothing but a loopback that is down.
pub fn leave_network() -> io::Result<()> {
    leave(UnshareFlags::NEWNET | UnshareFlags::NEWNS)
}

/// Leaves the machine's network, mounts, processes, queues and names for new ones. The next process that is started is the
/// first inside; from now on no thread can be started here.
pub fn leave_machine() -> io::Result<()> {
    let all = UnshareFlags::NEWNET | UnshareFlags::NEWNS | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    leave(all | UnshareFlags::NEWPID)
}

#[expect(unsafe_code, reason = "the call can also take open files from threads that use them")]
fn leave(parts: UnshareFlags) -> io::Result<()> {
    // SAFETY: only FILES is unsafe, and no caller gives it.
    Ok(unsafe { unshare_unsafe(parts) }?)
}

/// The name of the machine, as seen inside.
pub fn be_called(name: &str) -> io::Result<()> {
    Ok(sethostname(name.as_bytes())?)
}

/// Starts the first process inside. It gets a /proc of its own, in which each of `shown` (what, where) is mounted over what the
/// kernel shows; the kernel kills it, and with it all others inside, when we end.
pub fn start_first(mut command: Command, shown: &[(&str, &str)]) -> io::Result<Child> {
    let text = |text: &str| CString::new(text).map_err(io::Error::from);
    let shown: Vec<(CString, CString)> =
        shown.iter().map(|(what, at)| Ok((text(what)?, text(at)?))).collect::<io::Result<_>>()?;
    before_exec(&mut command, shown);
    command.spawn()
}

#[expect(unsafe_code, reason = "only a process inside can mount the /proc of its pid namespace")]
fn before_exec(command: &mut Command, shown: Vec<(CString, CString)>) {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed: these are system calls with texts that were
    // made before, and no memory is allocated.
    unsafe {
        command.pre_exec(move || {
            // That we end before this line is noticed at the end of its input.
            set_parent_process_death_signal(Some(Signal::KILL))?;
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
            mount(c"proc", c"/proc", c"proc", flags, None::<&CStr>)?;
            for (what, at) in &shown {
                mount_bind(what.as_c_str(), at.as_c_str())?;
            }
            Ok(())
        });
    }
}

// Whether the kernel takes its wall clock for right.

/// `TIME_ERROR` of adjtimex(2): the clock is not synchronised.
const UNSYNCHRONISED: c_int = 5;

/// As large as `struct timex` on any architecture, and larger; all zero asks and changes nothing.
#[repr(C, align(8))]
struct Timex([u8; 512]);

#[expect(unsafe_code, reason = "adjtimex(2) is in no crate that we use")]
mod call {
    use crate::{Timex, c_int};
    unsafe extern "C" {
        pub fn adjtimex(timex: *mut Timex) -> c_int;
    }
}

/// Whether the kernel says that its clock is synchronised; none where it does not answer.
#[expect(unsafe_code, reason = "adjtimex(2) is in no crate that we use")]
pub fn is_clock_synchronised() -> Option<bool> {
    let mut timex = Timex([0; 512]);
    // SAFETY: the kernel writes a `struct timex`, of 208 bytes at most, into a buffer of 512. `modes`, its first field, is 0:
    // nothing is set.
    let state = unsafe { call::adjtimex(&raw mut timex) };
    (state >= 0).then_some(state != UNSYNCHRONISED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_answers() {
        assert!(is_clock_synchronised().is_some());
    }
}
