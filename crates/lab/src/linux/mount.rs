//! Verbs over the mounts of a mount namespace of one's own. Places that later mounts will cover are opened first. It must not
//! know what is shown where, and why.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change, mount_remount,
};

/// A file or folder, held whatever is mounted over its path later.
#[derive(Debug)]
pub struct Place {
    handle: OwnedFd,
    is_folder: bool,
}

impl Place {
    /// Holds it. It has to be in the mount namespace in which it will be shown.
    pub fn hold(path: &Path) -> io::Result<Self> {
        let handle = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let is_folder = File::from(handle.try_clone()?).metadata()?.is_dir();
        Ok(Self { handle, is_folder })
    }

    /// A path that leads to it.
    fn name(&self) -> String {
        format!("/proc/self/fd/{}", self.handle.as_raw_fd())
    }

    /// Shows it at `to`, which is made if it is not there.
    pub fn show(&self, to: &Path, writable: bool) -> io::Result<()> {
        make(to, self.is_folder)?;
        mount_bind(self.name().as_str(), to)?;
        if !writable {
            mount_remount(to, MountFlags::BIND | MountFlags::RDONLY, c"")?;
        }
        Ok(())
    }
}

/// An empty file or folder, unless there is something.
fn make(path: &Path, folder: bool) -> io::Result<()> {
    if folder {
        return std::fs::create_dir_all(path);
    }
    if path.exists() {
        return Ok(());
    }
    if let Some(above) = path.parent() {
        std::fs::create_dir_all(above)?;
    }
    File::create(path).map(drop)
}

/// From now on no mount of this namespace is seen in another, nor the other way round.
pub fn keep_to_ourselves() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

/// An empty file system in memory.
pub fn memory(at: &Path, mode: u32) -> io::Result<()> {
    let options = std::ffi::CString::new(format!("mode={mode:o}"))?;
    Ok(mount("tmpfs", at, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?)
}

/// An ext4 file system of a block device.
pub fn volume(device: &Path, at: &Path) -> io::Result<()> {
    Ok(mount(device, at, "ext4", MountFlags::NOATIME | MountFlags::NOSUID | MountFlags::NODEV, None)?)
}

/// A /sys that shows the network namespace that we are in, read-only, with something (the cgroups) in it.
pub fn own_sys(within: Option<(&Place, &Path)>) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    mount("sysfs", "/sys", "sysfs", flags, None)?;
    within.map_or(Ok(()), |(place, at)| Ok(mount_bind_recursive(place.name().as_str(), at)?))
}
