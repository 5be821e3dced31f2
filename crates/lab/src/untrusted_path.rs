//! Explanations why a file or folder is not trusted.

use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use linux::procfs;
use rustix::process::geteuid;

/// A file or folder that another user can have written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UntrustedPath {
    pub path: PathBuf,
    /// User id of the owner.
    pub uid: u32,
    /// File mode with permissions.
    pub mode: u32,
    pub why: TrustProblem,
}

/// The reason why a file or folder is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustProblem {
    /// The owner is neither root nor the user of this process, or is root where only that user is
    /// permitted.
    Owner,
    /// The group may write to the path, and has members other than the user of this process.
    Group(u32),
    /// Every user may write to the path.
    Everybody,
    /// The path leads to a link, a pipe or a device instead.
    Kind(&'static str),
    /// The target of the link does not exist, and other users could make it.
    Dangling,
    /// The file has several hard links, which may be in folders of other users.
    Links(u64),
    /// The file is longer than this limit, bytes.
    Long(u64),
}

impl fmt::Display for UntrustedPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, uid, mode, why } = self;
        let mode = mode & 0o7777;
        write!(out, "{} belongs to {} and has mode {mode:04o}", path.display(), user(*uid))?;
        match why {
            TrustProblem::Owner => Ok(()),
            TrustProblem::Group(gid) => write!(out, ": the group {gid} may write to it"),
            TrustProblem::Everybody => write!(out, ": all users may write to it"),
            TrustProblem::Kind(kind) => write!(out, ": it is a {kind}"),
            TrustProblem::Dangling => write!(out, ": it is a link to a missing file"),
            TrustProblem::Links(count) => write!(out, ": it has {count} hard links"),
            TrustProblem::Long(bytes) => write!(out, ": it is longer than {} KiB", bytes >> 10),
        }
    }
}

impl UntrustedPath {
    pub(crate) fn of(path: &Path, found: &Metadata, why: TrustProblem) -> Self {
        Self { path: path.to_path_buf(), uid: found.uid(), mode: found.mode(), why }
    }

    /// Returns a remedy.
    #[must_use]
    pub fn remedy(&self) -> String {
        let (path, owner, me) = (self.path.display(), user(self.uid), user(geteuid().as_raw()));
        match self.why {
            TrustProblem::Owner => format!(
                "run Plimsoll as {owner}; or, if you trust its content, chown it to {me}, or copy it to a folder \
                 that only {me} can write to"
            ),
            TrustProblem::Group(_) | TrustProblem::Everybody => {
                format!("if you trust its content: chmod go-w {path}")
            }
            TrustProblem::Kind(_) | TrustProblem::Dangling | TrustProblem::Links(_) | TrustProblem::Long(_) => {
                format!("remove {path}")
            }
        }
    }
}

/// Formats a user, such as `nobody (uid 65534)`.
fn user(uid: u32) -> String {
    let passwd = procfs::text(Path::new("/etc/passwd")).unwrap_or_default();
    let name = passwd.lines().find(|line| field(line, 2) == Some(uid)).and_then(|line| line.split(':').next());
    name.map_or_else(|| format!("uid {uid}"), |name| format!("{name} (uid {uid})"))
}

/// Returns a numeric field of a line of `/etc/passwd` or `/etc/group`.
pub(crate) fn field(line: &str, index: usize) -> Option<u32> {
    line.split(':').nth(index)?.parse().ok()
}
