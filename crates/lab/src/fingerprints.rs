//! Fingerprints of Plimsoll's program and the files of the target's folder, so that runs can be
//! compared.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crc32fast::Hasher;
use record::events::Versions;

/// Largest number of files in a folder that get a fingerprint.
const FILES: usize = 1_000;
/// Size above which a file's fingerprint is only its size, bytes.
const LARGEST_BYTES: u64 = 64 << 20;

/// Returns the fingerprints of Plimsoll's program and of the target's folder. An empty folder means
/// a built-in target.
#[must_use]
pub fn fingerprints(program: &Path, target: Option<&str>, folder: Option<&Path>) -> Versions {
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    Versions {
        plimsoll: env!("CARGO_PKG_VERSION").to_owned(),
        program: mark(program, u64::MAX).ok(),
        target: target.map(ToOwned::to_owned),
        files: folder.map(files).unwrap_or_default(),
    }
}

/// Folders that are not part of a target: an interpreter's cache and the output of a target's
/// tests.
const NOT_OF_IT: [&str; 2] = ["__pycache__", "_build"];

/// Returns the fingerprint of each file, by its path within the folder. Skips hidden files.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open: Vec<PathBuf> = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        let mut entries: Vec<PathBuf> =
            fs::read_dir(&next).into_iter().flatten().flatten().map(|it| it.path()).collect();
        // Sorted, so that a large folder always gives the same files.
        entries.sort();
        for path in entries {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with('.') || NOT_OF_IT.contains(&&*name) || found.len() == FILES {
                continue;
            }
            let is_link = fs::symlink_metadata(&path).is_ok_and(|about| about.is_symlink());
            if path.is_dir() && !is_link {
                open.push(path);
            } else if path.is_file()
                && let (Ok(mark), Ok(within)) = (mark(&path, LARGEST_BYTES), path.strip_prefix(folder))
            {
                found.insert(within.display().to_string(), mark);
            }
        }
    }
    found
}

/// Returns a file's size and the checksum of its content.
fn mark(path: &Path, largest_bytes: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    if bytes > largest_bytes {
        return Ok(format!("{bytes}"));
    }
    let mut sum = Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(format!("{bytes}-{:08x}", sum.finalize())),
            count => sum.update(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use fixture::TestDir;

    use super::*;

    #[test]
    fn fingerprints_depend_on_content_only() {
        let folder = TestDir::new();
        folder.write("target.toml", "a = 1\n");
        folder.write("hooks/inspect", "exit 0\n");
        let program = folder.join("target.toml");
        let look = || fingerprints(&program, Some("t"), Some(&folder));
        let before = look();
        assert_eq!(before.files.keys().collect::<Vec<_>>(), ["hooks/inspect", "target.toml"]);
        assert_eq!((before.target.as_deref(), &before.program), (Some("t"), &before.files.get("target.toml").cloned()));
        folder.write("hooks/inspect", "exit 0\n");
        assert_eq!(look(), before);
        folder.write("hooks/inspect", "exit 1\n");
        assert_ne!(look().files["hooks/inspect"], before.files["hooks/inspect"]);
    }

    #[test]
    fn hidden_files_caches_and_test_output_are_skipped() {
        let folder = TestDir::new();
        for name in [".git/HEAD", "hooks/__pycache__/a.pyc", "hooks/.swp", "_build/ct/log.html", "a"] {
            folder.write(name, "x");
        }
        std::os::unix::fs::symlink(&*folder, folder.join("round")).unwrap();
        assert_eq!(files(&folder).keys().collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn missing_files_have_no_fingerprints() {
        let found = fingerprints(Path::new("/no/such/program"), None, Some(Path::new("")));
        assert_eq!((found.program, found.target, found.files.len()), (None, None, 0));
    }
}
