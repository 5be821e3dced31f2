//! Safe interface to the Linux kernel: starting and signalling processes, ending the processes of a
//! run, namespaces, control groups, mounts and networks. The only crate with `unsafe`.

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

// Child processes that end with this program in any case, and that inherit no files from it.

struct ProcessOrder {
    command: Command,
    reply: Sender<io::Result<Child>>,
}

/// Sender to the thread that starts all processes. The kernel sends the parent death signal when
/// the starting *thread* ends, so this thread must live as long as the program.
static STARTER: Mutex<Option<Sender<ProcessOrder>>> = Mutex::new(None);

/// Starts `command` in a new process group. The kernel kills it when this program ends.
///
/// # Errors
/// The system's error. `NotFound` if the program does not exist.
pub fn spawn(command: Command) -> io::Result<Child> {
    spawn_in(command, &[])
}

/// Starts `command` as [`spawn`] does, in control groups. `groups` are their join files, such as
/// `cgroup.procs`. The child writes itself into each before it executes the program.
///
/// # Errors
/// The system's error. `NotFound` if the program does not exist.
pub fn spawn_in(command: Command, groups: &[PathBuf]) -> io::Result<Child> {
    spawn_as(command, groups, None)
}

/// Starts `command` as [`spawn_in`] does, as this user. `None`: the current user.
///
/// # Errors
/// The system's error. `NotFound` if the program does not exist.
pub fn spawn_as(mut command: Command, groups: &[PathBuf], user: Option<&Account>) -> io::Result<Child> {
    command.process_group(0);
    if !groups.is_empty() {
        joins(&mut command, groups.iter().map(open_group).collect::<io::Result<_>>()?);
    }
    if let Some(user) = user {
        user.introduce(&mut command);
        becomes(&mut command, Credentials::from(user));
    }
    // Last, because the kernel clears the death signal when a process changes its user.
    ends_with_us(&mut command);
    let (reply, answer) = channel();
    starter()?.send(ProcessOrder { command, reply }).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

fn open_group(path: &PathBuf) -> io::Result<File> {
    // The error's own kind is not kept, because `NotFound` means that the program does not exist.
    let file = File::options().write(true).open(path);
    file.map_err(|error| io::Error::other(format!("cannot join {}: {error}", path.display())))
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
            // If the caller is gone, the child must end too.
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

/// Marks inherited files as close-on-exec. Files that Rust opened are marked already.
fn keep_files_to_ourselves() {
    let Ok(open) = fs::read_dir("/proc/self/fd") else { return };
    let numbers = open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for number in numbers.filter(|number| *number > 2).collect::<Vec<_>>() {
        mark_close_on_exec(number);
    }
}

#[expect(unsafe_code, reason = "a file that was inherited has a number and no owner")]
fn mark_close_on_exec(number: i32) {
    // SAFETY: the borrow ends with this call, and setting this flag on a file does not invalidate
    // it for its owner. A number that was closed meanwhile gives EBADF.
    let file = unsafe { BorrowedFd::borrow_raw(number) };
    let _ = fcntl_setfd(file, FdFlags::CLOEXEC);
}

/// Sets the parent death signal of the child of `command`: the kernel kills the child when the
/// thread that started it ends, and so at the latest with this program.
#[expect(unsafe_code, reason = "only the child itself can request the death signal")]
pub fn ends_with_us(command: &mut Command) {
    let us = getpid();
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. These are two system
    // calls, and no memory is allocated.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have ended before the death signal was set.
            if getppid() == Some(us) { Ok(()) } else { Err(Errno::SRCH.into()) }
        });
    }
}

#[expect(unsafe_code, reason = "a process that joins its groups later runs outside of them at first")]
fn joins(command: &mut Command, groups: Vec<File>) {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. This is one system
    // call per group, on files that are already open, and no memory is allocated.
    unsafe {
        command.pre_exec(move || {
            for group in &groups {
                // 0 means the writing process.
                rustix::io::write(group, b"0")?;
            }
            Ok(())
        });
    }
}

#[expect(unsafe_code, reason = "a process must join its groups as root before it changes its user")]
fn becomes(command: &mut Command, credentials: Credentials) {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. These are three
    // system calls, and no memory is allocated.
    unsafe {
        command.pre_exec(move || credentials.become_it());
    }
}

// Signals that reach only the intended process, even if its id is reused, and waiting for the end
// of a process.

/// Signals `process` if it is still the process that `stat` describes. Returns false if it has
/// ended or may not be signalled.
pub fn signal(process: &Stat, signal: Signal) -> bool {
    let Some(pid) = pid(process.pid) else { return false };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    // The handle belongs to the current process with this id. Check now that it is the intended
    // one.
    let same = procfs::stat(process.pid).is_some_and(|now| now.started_ticks == process.started_ticks);
    same && pidfd_send_signal(handle, signal).is_ok()
}

/// Waits until the process or zombie with this id has ended, or until the timeout.
pub fn await_end(number: u32, within: Duration) {
    let Some(handle) = pid(number).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else { return };
    let within = Timespec {
        tv_sec: i64::try_from(within.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(within.subsec_nanos()),
    };
    // A signal may end the wait early. Callers check again.
    let _ = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&within));
}

/// Converts a number to a pid.
pub fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

// Search for the processes of a run, by the marks in their environment and by their process groups,
// and ending of these processes.

/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// Time after SIGKILL until a process is reported as hanging.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval of searches for processes that are left.
const GLANCE: Duration = Duration::from_millis(5);

/// Marks that distinguish the processes of a run from all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunTag {
    /// Environment variables of every process of the run, such as `PLIMSOLL_RUN=…`. Empty: only the
    /// groups count.
    pub variables: Vec<String>,
    /// Process groups. They identify processes that changed their environment.
    pub groups: Vec<ProcessGroup>,
}

/// Process group led by a process that this program started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessGroup {
    /// Id of the leader and of the group.
    pub pid: u32,
    /// Start time of the leader, clock ticks since boot.
    pub started_ticks: u64,
    /// Inodes of the pipes that receive the leader's output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pipes: Vec<u64>,
}

impl ProcessGroup {
    /// Makes the group of a started process that has not been waited for. Such a process is in
    /// /proc, even if it has ended.
    pub fn of(pid: u32, pipes: Vec<u64>) -> Self {
        Self { pid, started_ticks: procfs::stat(pid).map_or(0, |stat| stat.started_ticks), pipes }
    }

    /// Returns the living members. `variables` are in the environment of each original member.
    pub fn members(&self, variables: &[String]) -> Vec<Stat> {
        let all = procfs::alive();
        if !self.is_still_ours(&all, variables) {
            return Vec::new();
        }
        all.into_iter().filter(|stat| stat.group == self.pid).collect()
    }

    /// Whether the id still belongs to this group. The kernel does not reuse the id while a member
    /// is alive, but may do so later. So the leader must be the started process. If the leader has
    /// ended, a member must have inherited a mark or an output pipe from it.
    fn is_still_ours(&self, all: &[Stat], variables: &[String]) -> bool {
        if let Some(leader) = procfs::stat(self.pid) {
            return leader.started_ticks == self.started_ticks;
        }
        all.iter()
            .filter(|stat| stat.group == self.pid)
            .any(|stat| is_marked(stat, variables) || self.writes_to_us(stat))
    }

    fn writes_to_us(&self, stat: &Stat) -> bool {
        let names: Vec<String> = self.pipes.iter().map(|pipe| format!("pipe:[{pipe}]")).collect();
        [1, 2]
            .into_iter()
            .filter_map(|number| fs::read_link(format!("/proc/{}/fd/{number}", stat.pid)).ok())
            .any(|to| to.to_str().is_some_and(|to| names.iter().any(|name| name == to)))
    }
}

/// Returns a pipe's inode. No other pipe has this inode while one end is open.
pub fn pipe_inode(end: impl AsFd) -> Option<u64> {
    rustix::fs::fstat(end).ok().map(|found| found.st_ino)
}

/// Whether a process has all of these variables in its environment. False if `variables` is empty.
fn is_marked(stat: &Stat, variables: &[String]) -> bool {
    !variables.is_empty() && variables.iter().all(|variable| procfs::was_started_with(stat.pid, variable))
}

impl RunTag {
    /// Returns every living process of the run, except this process and its ancestors.
    pub fn find(&self) -> Vec<Stat> {
        let all = procfs::alive();
        let groups = self.groups.iter().filter(|group| group.is_still_ours(&all, &self.variables));
        let groups: Vec<u32> = groups.map(|group| group.pid).collect();
        let us = lineage(&all);
        all.into_iter()
            .filter(|stat| !us.contains(&stat.pid))
            .filter(|stat| groups.contains(&stat.group) || is_marked(stat, &self.variables))
            .collect()
    }

    /// Ends all processes of the run: with SIGTERM first if `gently`, then with SIGKILL. Returns
    /// the ended processes and those that are left.
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

    /// Signals every process of the run, including new ones, until none is left or the time is
    /// over.
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

/// Returns the ids of this process and of all its ancestors.
fn lineage(all: &[Stat]) -> Vec<u32> {
    let mut line = vec![std::process::id()];
    while let Some(stat) = all.iter().find(|stat| Some(&stat.pid) == line.last())
        && let parent = stat.parent
        && parent != 0
        && !line.contains(&parent)
    {
        line.push(parent);
    }
    line
}

// Namespaces: leaving the machine's, setting the host name, and starting the first process inside.
// These functions change the calling process, so that process must exist for this purpose only.

/// Moves to new network and mount namespaces. The new network has only a loopback, which is down.
pub fn leave_network() -> io::Result<()> {
    leave(UnshareFlags::NEWNET | UnshareFlags::NEWNS)
}

/// Moves to new network, mount, pid, ipc and uts namespaces. The next child is the first process in
/// the pid namespace. After this, no thread can be started.
pub fn leave_machine() -> io::Result<()> {
    let all = UnshareFlags::NEWNET | UnshareFlags::NEWNS | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    leave(all | UnshareFlags::NEWPID)
}

#[expect(unsafe_code, reason = "the call can also take open files from threads that use them")]
fn leave(parts: UnshareFlags) -> io::Result<()> {
    // SAFETY: only FILES is unsafe, and no caller passes it.
    Ok(unsafe { unshare_unsafe(parts) }?)
}

/// Sets the host name in this namespace.
pub fn be_called(name: &str) -> io::Result<()> {
    Ok(sethostname(name.as_bytes())?)
}

/// Starts the first process in the new namespaces, with its own /proc. Bind-mounts each entry of
/// `shown` (source, target). When the calling process ends, the kernel kills the first process and
/// all others in the pid namespace.
pub fn start_first(mut command: Command, shown: &[(&str, &str)]) -> io::Result<Child> {
    let shown: Vec<(CString, CString)> =
        shown.iter().map(|(what, at)| Ok((CString::new(*what)?, CString::new(*at)?))).collect::<io::Result<_>>()?;
    before_exec(&mut command, shown);
    command.spawn()
}

#[expect(unsafe_code, reason = "only a process inside can mount the /proc of its pid namespace")]
fn before_exec(command: &mut Command, shown: Vec<(CString, CString)>) {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. These are system
    // calls with texts that already exist, and no memory is allocated.
    unsafe {
        command.pre_exec(move || {
            // If the parent ends before this line, the child notices the end of its input.
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

// Synchronisation state of the kernel's wall clock.

/// `TIME_ERROR` of adjtimex(2): the clock is not synchronised.
const UNSYNCHRONISED: c_int = 5;

/// Buffer at least as large as `struct timex` on any architecture. All zeros query without changing
/// anything.
#[repr(C, align(8))]
struct Timex([u8; 512]);

#[expect(unsafe_code, reason = "adjtimex(2) is in no crate that we use")]
mod call {
    use crate::{Timex, c_int};
    unsafe extern "C" {
        pub fn adjtimex(timex: *mut Timex) -> c_int;
    }
}

/// Whether the kernel reports its clock as synchronised. `None` if the call fails.
#[expect(unsafe_code, reason = "adjtimex(2) is in no crate that we use")]
pub fn is_clock_synchronised() -> Option<bool> {
    let mut timex = Timex([0; 512]);
    // SAFETY: the kernel writes a `struct timex` of at most 208 bytes into a buffer of 512.
    // `modes`, its first field, is 0, so nothing is set.
    let state = unsafe { call::adjtimex(&raw mut timex) };
    (state >= 0).then_some(state != UNSYNCHRONISED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_reports_clock_synchronisation() {
        assert!(is_clock_synchronised().is_some());
    }
}
