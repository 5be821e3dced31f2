//! What a run made in the kernel: control groups, loop devices, their limits. Removed only
//! where it is certain that it was this run that made it.

use std::path::{Path, PathBuf};

use super::entry;
use crate::Error;
use crate::linux::cgroup::{self, Device};
use crate::linux::mount;
use crate::runner::groups::top_of;

/// What was written down before it was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Names of groups, in whatever hierarchies there are.
    pub cgroups: Vec<String>,
    /// Device and the file that is attached to it. Another may have got the device at the last moment.
    pub loops: Vec<(PathBuf, PathBuf)>,
    /// Devices with limits.
    pub throttles: Vec<PathBuf>,
}

impl Kernel {
    /// Removes it; a line for each thing that was there. All is tried, whatever fails.
    pub fn remove(&self, id: &str, removed: &mut Vec<String>) -> Result<(), Error> {
        let mut failed = None;
        for name in self.cgroups.iter().filter(|name| **name == top_of(id)) {
            match cgroup::remove_tree(name) {
                Ok(done) if done.folders.is_empty() => {}
                Ok(_) => removed.push(format!("control groups {name}")),
                Err(error) => {
                    failed.get_or_insert(refused(format!("remove the control groups {name}"), error));
                }
            }
        }
        // Version 2 has none outside of the groups.
        for device in self.throttles.iter().filter(|device| self.is_ours(device, id)) {
            if let Err(error) = Device::at(device).and_then(cgroup::clear_throttle) {
                failed.get_or_insert(refused(format!("take the limits off {}", device.display()), error));
            }
        }
        for (device, file) in self.loops.iter().filter(|(device, file)| can_be(device, file, id)) {
            match mount::detach_loop(device, file) {
                Ok(false) => {}
                Ok(true) => removed.push(format!("loop device {}", device.display())),
                Err(error) => {
                    failed.get_or_insert(Error::system(format!("detach {}", device.display()))(error));
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Whether the limits of a device can be ours: it was, and nobody else has it now.
    fn is_ours(&self, device: &Path, id: &str) -> bool {
        let mut files = self.loops.iter().filter(|(ours, file)| ours == device && can_be(ours, file, id)).peekable();
        let now = mount::backing_file(device);
        files.peek().is_some() && now.is_none_or(|now| files.any(|(_, file)| *file == now))
    }
}

/// Whether the run can have attached this file to this device: a damaged entry must not take another's away.
fn can_be(device: &Path, file: &Path, id: &str) -> bool {
    mount::is_loop_device(device) && file.ancestors().skip(1).any(|folder| entry::belongs_to(folder, id))
}

fn refused(doing: String, error: cgroup::Error) -> Error {
    Error::System { doing, error: std::io::Error::other(error) }
}
