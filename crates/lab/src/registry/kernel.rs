//! What a run made in the kernel: control groups, loop devices, their limits. Removed only where it is certain that it was
//! this run that made it. It must not touch processes or files.

use std::path::{Path, PathBuf};

use super::entry;
use crate::Error;
use crate::linux::{cgroup, loop_device};

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

/// Name of a run's control group.
pub fn group_of(id: &str) -> String {
    format!("plimsoll-{id}")
}

impl Kernel {
    /// Removes it; a line for each thing that was there. All is tried, whatever fails.
    pub fn remove(&self, id: &str, removed: &mut Vec<String>) -> Result<(), Error> {
        let mut failed = None;
        for name in self.cgroups.iter().filter(|name| **name == group_of(id)) {
            match cgroup::remove_tree(name) {
                Ok(done) if done.folders.is_empty() => {}
                Ok(_) => removed.push(format!("control groups {name}")),
                Err(error) => {
                    failed.get_or_insert(Error::system(format!("remove the control groups {name}"))(
                        std::io::Error::other(error),
                    ));
                }
            }
        }
        let throttled = self.throttles.iter().filter(|device| self.is_ours(device, id));
        for device in throttled {
            match loop_device::unthrottle(device) {
                Ok(false) => {}
                Ok(true) => removed.push(format!("limits of {}", device.display())),
                Err(error) => {
                    failed.get_or_insert(Error::system(format!("take the limits off {}", device.display()))(error));
                }
            }
        }
        for (device, file) in self.loops.iter().filter(|(device, file)| can_be(device, file, id)) {
            match loop_device::detach(device, file) {
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
        let now = loop_device::backing(device);
        files.peek().is_some() && now.is_none_or(|now| files.any(|(_, file)| *file == now))
    }
}

/// Whether the run can have attached this file to this device: a damaged entry must not take another's away.
fn can_be(device: &Path, file: &Path, id: &str) -> bool {
    loop_device::is_one(device) && file.ancestors().skip(1).any(|folder| entry::belongs_to(folder, id))
}
