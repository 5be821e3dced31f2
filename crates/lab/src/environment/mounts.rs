//! On which disk a folder lies. It must not write to it.

use std::path::{Path, PathBuf};

use super::Root;
use crate::checkups::chosen;

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// As mounted: `/dev/sda1`.
    pub device: String,
    /// Its type.
    pub file_system: String,
    /// `major:minor`.
    pub number: String,
    /// Of the mount and of the file system.
    pub options: String,
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
                options: options(place.get(5).copied().unwrap_or_default(), kind.get(2).copied().unwrap_or_default()),
            };
            nearest = Some((depth, mount));
        }
    }
    nearest.map(|(_, mount)| mount)
}

/// Both lists as one, each option once.
fn options(of_mount: &str, of_system: &str) -> String {
    let mut options: Vec<&str> = Vec::new();
    for option in of_mount.split(',').chain(of_system.split(',')) {
        if !option.is_empty() && !options.contains(&option) {
            options.push(option);
        }
    }
    options.join(",")
}

/// The kernel writes white space and backslashes of a path in octal.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

/// A partition asks its disk.
pub fn is_rotational(root: &Root, number: &str) -> Option<bool> {
    of_queue(root, number, "rotational").map(|rotates| rotates == "1")
}

/// Who orders the requests of a disk.
pub fn scheduler(root: &Root, number: &str) -> Option<String> {
    of_queue(root, number, "scheduler").map(|text| chosen(&text))
}

fn of_queue(root: &Root, number: &str, what: &str) -> Option<String> {
    let folder = format!("sys/dev/block/{number}");
    let says = root.text(&format!("{folder}/queue/{what}"));
    says.or_else(|| root.text(&format!("{folder}/../queue/{what}")))
}
