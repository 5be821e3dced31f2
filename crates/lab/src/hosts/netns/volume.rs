//! A host's own disk: a file system in a file, on a loop device, whose limits touch no other disk. It must not know what is
//! written to it.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use experiment::profile::Disk;

use crate::Error;
use crate::linux::cgroup::{self, Device};
use crate::linux::loop_device::{self, Attached};
use crate::registry::Ledger;

/// Where a profile does not say.
pub const SIZE_BYTES: u64 = 4 << 30;
/// With less free space than this even an empty file system does not fit.
const FULL_BYTES: u64 = 1 << 20;

/// A disk; gone, and its limits with it, when it is dropped and nothing is mounted from it.
#[derive(Debug)]
pub struct Volume {
    file: PathBuf,
    attached: Attached,
}

impl Volume {
    /// Makes it in `file`, empty. The host itself sets its limits.
    pub fn make(file: &Path, disk: &Disk, ledger: &Ledger) -> Result<Self, Error> {
        let made = File::create(file).and_then(|made| made.set_len(disk.size_bytes.unwrap_or(SIZE_BYTES)));
        made.map_err(Error::system(format!("make {}", file.display())))?;
        format(file)?;
        let attach = |file: &Path| loop_device::attach(file, |device| ledger.looped(device, file));
        let volume = Self { attached: attach(file)?, file: file.to_path_buf() };
        // Written down in any case: a fault may set limits where the profile has none.
        ledger.throttled(volume.device())?;
        Ok(volume)
    }

    /// `/dev/loop3`.
    pub fn device(&self) -> &Path {
        &self.attached.device
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // What cannot be done here is done at the end of the run.
        let _ = Device::at(self.device()).and_then(cgroup::clear_throttle);
    }
}

fn format(file: &Path) -> Result<(), Error> {
    let doing = || format!("make a file system in {}", file.display());
    let mut command = Command::new("mkfs.ext4");
    // Nothing is written that nobody needs: hosts are made by the dozen.
    command.args(["-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"]).arg(file);
    let output = command.stdin(Stdio::null()).output().map_err(Error::system(doing()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let why = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("mkfs.ext4 did not say why");
    // Where there is no room it complains of whatever it was just writing.
    let is_full = said.contains("No space left") || free_bytes(file).is_some_and(|free| free < FULL_BYTES);
    let error = if is_full { ErrorKind::StorageFull.into() } else { std::io::Error::other(why.trim().to_owned()) };
    Err(Error::System { doing: doing(), error })
}

/// How much can be written where this is.
pub fn free_bytes(path: &Path) -> Option<u64> {
    rustix::fs::statvfs(path).ok().map(|found| found.f_bavail.saturating_mul(found.f_frsize))
}
