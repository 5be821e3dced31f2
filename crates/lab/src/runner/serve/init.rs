//! The first process of a virtual host: starts the runner and waits for whatever is orphaned in the host, as an init does. It is
//! a process of its own because whoever waits for all children takes the ends of those that others wait for. It must not
//! read standard input, which is the runner's.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};

/// Runs until the runner has ended; gives its exit code. With this process, the kernel ends all others of the host.
pub fn be() -> io::Result<u8> {
    let mut command = Command::new(ourselves());
    command.arg0("plimsoll").args(["runner", "--inside"]);
    let runner = command.spawn()?.id();
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get().unsigned_abs() == runner => {
                return Ok(status.exit_status().and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Its name where that is seen from here, so that it is called by it.
fn ourselves() -> PathBuf {
    let named = std::env::current_exe().ok().filter(|path| path.exists());
    named.unwrap_or_else(|| Path::new("/proc/self/exe").to_path_buf())
}
