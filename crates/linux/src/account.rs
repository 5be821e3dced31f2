//! User accounts of this machine, from /etc/passwd and /etc/group, for running programs as another
//! user.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown};
use std::path::Path;
use std::process::Command;

use rustix::process::{Gid, Uid, geteuid};

/// A user of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Ids of the user's other groups.
    pub groups: Vec<u32>,
    /// Home folder.
    pub home: String,
}

/// Reason why a program cannot run as a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountProblem {
    /// The user does not exist.
    Unknown,
    /// This process is not root and runs as another user.
    NotRoot,
}

impl Account {
    /// Returns the account to switch to, or `None` if it is the current one.
    pub fn to_become(name: &str) -> Result<Option<Self>, AccountProblem> {
        let [passwd, group] = ["/etc/passwd", "/etc/group"].map(|path| fs::read_to_string(path).unwrap_or_default());
        let found = Self::parse(name, &passwd, &group).ok_or(AccountProblem::Unknown)?;
        let us = geteuid();
        match us.as_raw() == found.uid {
            true => Ok(None),
            false if us.is_root() => Ok(Some(found)),
            false => Err(AccountProblem::NotRoot),
        }
    }

    fn parse(name: &str, passwd: &str, group: &str) -> Option<Self> {
        let mut users = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let user = users.find(|fields| fields.len() >= 7 && fields[0] == name)?;
        let groups = group.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let groups = groups.filter(|fields| fields.len() >= 4 && fields[3].split(',').any(|member| member == name));
        let groups = groups.filter_map(|fields| fields[2].parse().ok());
        let gid = user[3].parse().ok()?;
        Some(Self {
            name: name.to_owned(),
            uid: user[2].parse().ok()?,
            gid,
            groups: groups.filter(|other| *other != gid).collect(),
            home: user[5].to_owned(),
        })
    }

    /// Sets a program's environment variables as a login does.
    pub fn introduce(&self, command: &mut Command) {
        command.env("HOME", &self.home).env("USER", &self.name).env("LOGNAME", &self.name);
    }

    /// Gives a folder and its contents to the user.
    pub fn own(&self, folder: &Path) -> io::Result<()> {
        chown(folder, Some(self.uid), Some(self.gid))?;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                self.own(&entry.path())?;
            } else {
                lchown(entry.path(), Some(self.uid), Some(self.gid))?;
            }
        }
        Ok(())
    }

    /// Returns the first folder on the way to `path` that the user may not pass, if there is one.
    /// Considers only mode bits, as most file systems do.
    #[must_use]
    pub fn is_kept_from(&self, path: &Path) -> Option<std::path::PathBuf> {
        let way: Vec<&Path> = path.ancestors().skip(1).collect();
        let passes = |folder: &Path| {
            let Ok(found) = fs::metadata(folder) else { return true };
            let bit = match () {
                () if found.uid() == self.uid => 0o100,
                () if found.gid() == self.gid || self.groups.contains(&found.gid()) => 0o010,
                () => 0o001,
            };
            found.mode() & bit != 0
        };
        way.into_iter()
            .rev()
            .filter(|folder| !folder.as_os_str().is_empty())
            .find(|folder| !passes(folder))
            .map(Path::to_path_buf)
    }
}

/// Lets all users pass the folders on the way to `path`, starting at the folder whose name begins
/// with `from`. They may pass the folders but not list them.
pub fn let_pass(path: &Path, from: &str) -> io::Result<()> {
    let begins =
        |folder: &&Path| folder.file_name().is_some_and(|name: &OsStr| name.as_bytes().starts_with(from.as_bytes()));
    let way: Vec<&Path> = path.ancestors().skip(1).collect();
    let Some(first) = way.iter().position(begins) else { return Ok(()) };
    for folder in &way[..=first] {
        let mode = fs::metadata(folder)?.permissions().mode();
        if mode & 0o001 == 0 {
            fs::set_permissions(folder, fs::Permissions::from_mode((mode | 0o001) & 0o7777))?;
        }
    }
    Ok(())
}

/// Ids of an account, for the child between fork and exec.
#[derive(Debug, Clone)]
pub(crate) struct Credentials {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl From<&Account> for Credentials {
    fn from(account: &Account) -> Self {
        Self {
            uid: Uid::from_raw(account.uid),
            gid: Gid::from_raw(account.gid),
            groups: account.groups.iter().map(|group| Gid::from_raw(*group)).collect(),
        }
    }
}

impl Credentials {
    /// Switches to the account. Makes only system calls, because it runs in the child between fork
    /// and exec.
    pub(crate) fn become_it(&self) -> io::Result<()> {
        rustix::thread::set_thread_groups(&self.groups)?;
        rustix::thread::set_thread_gid(self.gid)?;
        Ok(rustix::thread::set_thread_uid(self.uid)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nsearch:x:117:120:,,,:/var/lib/search:/bin/false\nodd:x\n";
    const GROUP: &str = "root:x:0:\nsearch:x:120:\nssl-cert:x:101:postgres,search\nadm:x:4:other\n";

    #[test]
    fn users_are_read_from_passwd_and_group() {
        let expected = Account {
            name: "search".to_owned(),
            uid: 117,
            gid: 120,
            groups: vec![101],
            home: "/var/lib/search".to_owned(),
        };
        assert_eq!(Account::parse("search", PASSWD, GROUP), Some(expected));
        assert_eq!(Account::parse("sear", PASSWD, GROUP), None);
        assert_eq!(Account::parse("odd", PASSWD, GROUP), None);
        assert_eq!(Account::to_become("no-such-user"), Err(AccountProblem::Unknown));
    }

    #[test]
    fn the_folder_that_denies_access_is_named() {
        let folder = fixture::TestDir::new();
        fs::create_dir_all(folder.join("plimsoll-run-1/data/x")).unwrap();
        fs::set_permissions(folder.join("plimsoll-run-1"), fs::Permissions::from_mode(0o700)).unwrap();
        let stranger = Account { name: "x".into(), uid: 54_321, gid: 54_321, groups: Vec::new(), home: String::new() };
        let path = folder.join("plimsoll-run-1/data/x");
        let outer = stranger.is_kept_from(&folder.join("x"));
        if outer.is_none() {
            assert_eq!(stranger.is_kept_from(&path), Some(folder.join("plimsoll-run-1")));
        }
        let_pass(&path, "plimsoll-run-").unwrap();
        assert_eq!(stranger.is_kept_from(&path), outer);
        let mode = fs::metadata(folder.join("plimsoll-run-1")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o701);
    }
}
