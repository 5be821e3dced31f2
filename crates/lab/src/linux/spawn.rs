//! Starts processes that end with this program, whatever becomes of it, and that inherit nothing from it. It must not
//! know what it starts.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

struct Order {
    command: Command,
    reply: Sender<io::Result<Child>>,
}

/// The thread that starts everything. The kernel sends the parent's death signal when the *thread* that started a process
/// ends, so that thread has to live as long as the program.
static STARTER: Mutex<Option<Sender<Order>>> = Mutex::new(None);

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
pub fn spawn_in(mut command: Command, groups: &[PathBuf]) -> io::Result<Child> {
    command.process_group(0);
    ends_with_us(&mut command);
    if !groups.is_empty() {
        joins(&mut command, groups.iter().map(open_group).collect::<io::Result<_>>()?);
    }
    let (reply, answer) = channel();
    starter()?.send(Order { command, reply }).map_err(|_| gone())?;
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

fn starter() -> io::Result<Sender<Order>> {
    let mut slot = STARTER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(starter) = &*slot {
        return Ok(starter.clone());
    }
    keep_files_to_ourselves();
    let (orders_in, orders) = channel::<Order>();
    std::thread::Builder::new().name("starter".to_owned()).spawn(move || {
        for Order { mut command, reply } in orders {
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
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return };
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
