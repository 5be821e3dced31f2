//! On which disk a folder lies. It must not write to it.

use std::path::{Path, PathBuf};

use super::Root;

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// As mounted: `/dev/sda1`.
    pub device: String,
    /// Its type.
    pub file_system: String,
    /// `major:minor`.
    pub number: String,
}

/// The folder, or the nearest one above it that exists.
pub fn existing(folder: &Path) -> Option<PathBuf> {
    let folder = std::path::absolute(folder).ok()?;
    folder.ancestors().find_map(|folder| folder.canonicalize().ok())
}

/// The mount that holds `folder`, from the text of `/proc/self/mountinfo` (proc(5)).
pub fn holding(mountinfo: &str, folder: &Path) -> Option<Mount> {
    let mut nearest: Option<(usize, Mount)> = None;
    for line in mountinfo.lines() {
        let Some((place, kind)) = line.split_once(" - ") else { continue };
        let place: Vec<&str> = place.split(' ').collect();
        let kind: Vec<&str> = kind.split(' ').collect();
        let (Some(number), Some(point)) = (place.get(2), place.get(4)) else { continue };
        let (Some(file_system), Some(device)) = (kind.first(), kind.get(1)) else { continue };
        let point = unescaped(point);
        let depth = Path::new(&point).components().count();
        // Of two on the same point the later one is on top.
        if folder.starts_with(&point) && nearest.as_ref().is_none_or(|(nearest, _)| depth >= *nearest) {
            let mount = Mount {
                device: unescaped(device),
                file_system: (*file_system).to_owned(),
                number: (*number).to_owned(),
            };
            nearest = Some((depth, mount));
        }
    }
    nearest.map(|(_, mount)| mount)
}

/// The kernel writes white space and backslashes of a path in octal.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

/// A partition asks its disk.
pub fn is_rotational(root: &Root, number: &str) -> Option<bool> {
    let folder = format!("sys/dev/block/{number}");
    let says = root.number::<u8>(&format!("{folder}/queue/rotational"));
    says.or_else(|| root.number(&format!("{folder}/../queue/rotational"))).map(|rotates| rotates == 1)
}
