//! Storage tiers of a host: the tiers that the processes' folders use, and the users that own these
//! folders. Computed from the plan and checked on this machine before anything is made.

use std::collections::BTreeMap;
use std::path::Path;

use experiment::manifest::{Manifest, Process};
use experiment::plan::{self, TargetKind};
use experiment::tier::{Tier, TierMedium};
use linux::account::{Account, AccountProblem};
use linux::procfs;
use runner::environment::{MountPoint, holding};
use runner::{TierFolder, TierMount};

use crate::{Error, targets};

/// Mount point of a virtual host's tiers, inside the host.
pub const TIERS: &str = "/run/plimsoll/tiers";
/// The file system in memory to which every user may write.
pub const SHARED_MEMORY: &str = "/dev/shm";

/// Returns the user that a process runs as, if the manifest names a user.
pub fn user_of(process: &Process, parameters: &BTreeMap<String, String>) -> Option<String> {
    let mut user = process.user.clone()?;
    for (name, value) in parameters {
        user = user.replace(&format!("{{{name}}}"), value);
    }
    Some(user).filter(|user| !user.is_empty())
}

/// Returns the users that a trial's processes run as, by role.
///
/// # Errors
/// If the target's parameters do not fit its description.
pub fn users(manifest: Option<&Manifest>, trial: &plan::Trial) -> Result<BTreeMap<String, String>, Error> {
    let (Some(manifest), TargetKind::Folder { with, .. }) = (manifest, &trial.target.kind) else {
        return Ok(BTreeMap::new());
    };
    let parameters = targets::parameters(manifest, with)?;
    let processes = manifest.processes.iter();
    Ok(processes.filter_map(|process| Some((process.role.clone(), user_of(process, &parameters)?))).collect())
}

/// Splits `role.folder` into role and folder.
fn parts(folder: &str) -> (&str, &str) {
    folder.split_once('.').unwrap_or((folder, ""))
}

/// Returns the tiers that a host's roles use, each with its folders. A folder is given by its role,
/// its name, and `role.name`.
pub fn on_host<'a>(
    lab: &'a plan::Lab,
    host: Option<&'a plan::Host>,
) -> impl Iterator<Item = (&'a Tier, Vec<(&'a str, &'a str, &'a str)>)> + 'a {
    let tiers = lab.tiers.iter().map(move |tier| {
        let folders = tier.folders.iter().map(|folder| (parts(folder).0, parts(folder).1, folder.as_str()));
        (tier, folders.filter(|(of, ..)| host.is_none_or(|host| host.runs(of))).collect::<Vec<_>>())
    });
    tiers.filter(|(_, folders)| !folders.is_empty())
}

/// Returns a tier's mount for a virtual host. The caller adds the device, if there is one.
pub fn mount_of(
    tier: &Tier,
    folders: &[(&str, &str, &str)],
    users: &BTreeMap<String, String>,
    memory_bytes: Option<u64>,
) -> TierMount {
    let folder =
        |(role, _, name): &(&str, &str, &str)| TierFolder { name: (*name).to_owned(), user: users.get(*role).cloned() };
    TierMount {
        name: tier.name.clone(),
        at: Path::new(TIERS).join(&tier.name),
        device: None,
        memory_bytes: (tier.medium == TierMedium::Memory).then(|| tier.limits.size_bytes.or(memory_bytes)).flatten(),
        folders: folders.iter().map(folder).collect(),
    }
}

/// Checks that this machine has the tiers and the users of a trial.
///
/// # Errors
/// The missing part, with a remedy.
pub fn check(manifest: Option<&Manifest>, trial: &plan::Trial) -> Result<(), Error> {
    if trial.lab.hosts.iter().any(|host| host.is_real()) {
        return Ok(());
    }
    for (role, user) in users(manifest, trial)? {
        Account::to_become(&user).map_err(|problem| no_user(&role, &user, problem))?;
    }
    let mounts = procfs::text(Path::new("/proc/self/mountinfo")).unwrap_or_default();
    let pmem = trial.lab.tiers.iter().filter(|tier| tier.medium == TierMedium::Pmem);
    for (path, dax) in pmem.filter_map(|tier| Some((tier.path.as_ref()?, tier.dax))) {
        is_direct(path, dax, holding(&mounts, Path::new(path)).as_ref())?;
    }
    Ok(())
}

/// Returns the error for a role whose user cannot be used.
pub fn no_user(role: &str, user: &str, problem: AccountProblem) -> Error {
    match problem {
        AccountProblem::Unknown => Error::NoUser { role: role.to_owned(), user: user.to_owned() },
        AccountProblem::NotRoot => Error::Needs {
            what: format!("`{role}`, which runs as the user `{user}`,"),
            needs: "root".to_owned(),
            instead: format!("run Plimsoll as root, or as `{user}` itself"),
        },
    }
}

/// Checks that the mounted file system bypasses the page cache.
fn is_direct(path: &str, dax: bool, mount: Option<&MountPoint>) -> Result<(), Error> {
    let (needs, instead) = match mount {
        _ if !Path::new(path).is_dir() => {
            (format!("the folder {path}, which does not exist"), "set the mount point in [lab.tier.pmem]")
        }
        Some(mount) if dax && !mount.options.split(',').any(|option| matches!(option, "dax" | "dax=always")) => {
            let (device, kind) = (&mount.device, &mount.file_system);
            (
                format!("a file system mounted with dax, but {path} is on {device} ({kind}) without it"),
                "use mount -o dax (ext4 with blocks of 4096 bytes, or xfs); `plimsoll doctor` lists what this \
                 machine has; with dax = false in [lab.tier.pmem] any file system works, but a page cache may affect \
                 results",
            )
        }
        _ => return Ok(()),
    };
    Err(Error::Needs { what: "the tier `pmem`".to_owned(), needs, instead: instead.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(options: &str) -> MountPoint {
        let (device, file_system) = ("/dev/pmem0".to_owned(), "ext4".to_owned());
        MountPoint { device, file_system, number: "259:0".to_owned(), options: options.to_owned() }
    }

    #[test]
    fn persistent_memory_requires_dax() {
        for options in ["rw,relatime,dax", "rw,dax=always"] {
            assert!(is_direct("/", true, Some(&mount(options))).is_ok(), "{options}");
        }
        for options in ["rw,relatime", "rw,dax=never", "rw,dax=inode"] {
            let error = is_direct("/", true, Some(&mount(options))).unwrap_err();
            let words =
                "the tier `pmem` needs a file system mounted with dax, but / is on /dev/pmem0 (ext4) without it";
            assert_eq!(error.to_string(), words);
            assert!(is_direct("/", false, Some(&mount(options))).is_ok());
        }
        let error = is_direct("/no/such/folder", false, None).unwrap_err();
        assert_eq!(error.to_string(), "the tier `pmem` needs the folder /no/such/folder, which does not exist");
    }

    #[test]
    fn a_user_may_be_a_parameter() {
        let process = |user: &str| Process { user: Some(user.to_owned()), ..Process::default() };
        let parameters = BTreeMap::from([("as".to_owned(), "nobody".to_owned()), ("none".to_owned(), String::new())]);
        assert_eq!(user_of(&process("{as}"), &parameters).as_deref(), Some("nobody"));
        assert_eq!(user_of(&process("{none}"), &parameters), None);
        assert_eq!(user_of(&Process::default(), &parameters), None);
    }
}
