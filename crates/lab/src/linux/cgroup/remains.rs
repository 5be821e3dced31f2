//! What is left of groups that nobody looks after any more: found by name and removed with all that is in them. It must not
//! touch a group whose name is not one of Plimsoll's.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::{Controller, Device, Error, Group, Hierarchies, Throttle, Version};

/// Until processes that were killed are said to hang.
const PATIENCE: Duration = Duration::from_secs(5);
/// All names that this program makes at the top.
const PREFIX: &str = "plimsoll-";

/// What was removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// Processes that were killed.
    pub killed: usize,
    /// Folders of the top group: one in each hierarchy that had it.
    pub folders: Vec<std::path::PathBuf>,
}

/// Kills all that is in the group of that name at the top and below it, and removes it, in every hierarchy. Nothing happens
/// if there is none. `name` is one part and begins with `plimsoll-`.
///
/// # Errors
/// [`Error::Denied`] without root; [`Error::Undying`]; another name.
pub fn remove_tree(name: &str) -> Result<Removed, Error> {
    remove_tree_of(&Arc::new(Hierarchies::detect()), name)
}

pub(super) fn remove_tree_of(hierarchies: &Arc<Hierarchies>, name: &str) -> Result<Removed, Error> {
    if !name.starts_with(PREFIX) || name.contains('/') {
        let refused = io::Error::other(format!("only groups named {PREFIX}… are removed"));
        return Err(Error::of(format!("remove the control group {name:?}"), refused));
    }
    let group = Group::new(hierarchies, name);
    let killed = if group.exists() { group.kill(PATIENCE)? } else { 0 };
    Ok(Removed { killed, folders: group.remove(PATIENCE)? })
}

/// Takes back every limit on a device that was set at the root: version 1 only, version 2 has none there. A device that is
/// gone took its limits with it.
///
/// # Errors
/// What the system says.
pub fn clear_throttle(device: Device) -> Result<(), Error> {
    let hierarchies = Arc::new(Hierarchies::detect());
    match hierarchies.of(Controller::Block) {
        Some(hierarchy) if hierarchy.version == Version::V1 => {
            match Group::root(&hierarchies).set_throttle(device, &Throttle::default()) {
                Err(Error::System { error, .. }) if is_gone(&error) => Ok(()),
                done => done,
            }
        }
        _ => Ok(()),
    }
}

fn is_gone(error: &io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    matches!(errno, Some(rustix::io::Errno::NODEV | rustix::io::Errno::NXIO))
}

#[cfg(test)]
pub mod tests {
    use std::collections::BTreeSet;

    use crate::linux::cgroup::{Hierarchies, children};

    /// Names at the top of any hierarchy that begin with `prefix`, sorted.
    pub fn leftovers(prefix: &str) -> Vec<String> {
        leftovers_of(&Hierarchies::detect(), prefix)
    }

    pub fn leftovers_of(hierarchies: &Hierarchies, prefix: &str) -> Vec<String> {
        let groups = hierarchies.all().iter().flat_map(|hierarchy| children(&hierarchy.root));
        let names = groups.filter_map(|group| Some(group.file_name()?.to_str()?.to_owned()));
        let found: BTreeSet<String> = names.filter(|name| name.starts_with(prefix)).collect();
        found.into_iter().collect()
    }
}
