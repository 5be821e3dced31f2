//! Verbs over namespaces: leave those of the machine, be called something else, start the first process inside. They act on
//! the process that calls them, so only one that is there for nothing else may. It must not know what a host is.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use rustix::mount::{MountFlags, mount, mount_bind};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::system::sethostname;
use rustix::thread::{UnshareFlags, unshare_unsafe};

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
