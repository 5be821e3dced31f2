//! A host's own disk: a file system in a file, on a loop device, whose limits touch no other disk. It must not know what is
//! written to it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use experiment::profile::Disk;

use crate::Error;
use crate::linux::cgroup::{self, Device};
use crate::linux::loop_device::{self, Attached};
use crate::registry::Ledger;

/// Where a profile does not say.
const SIZE_BYTES: u64 = 4 << 30;

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
    Err(Error::System { doing: doing(), error: std::io::Error::other(why.trim().to_owned()) })
}
