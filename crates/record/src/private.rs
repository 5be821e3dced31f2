//! Files and folders that nobody but their owner can read, whatever the umask: what a run records may say more of a
//! system than everybody should know.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use crate::checked_file::WITHOUT_WAITING;

const FILE: u32 = 0o600;
const FOLDER: u32 = 0o700;

/// Begins a file; one that exists is emptied, and private from now on.
///
/// # Errors
/// If it cannot be made.
pub fn create(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().write(true).create(true).truncate(true))
}

/// Opens a file to be read and to be written at its end; it is made if it is missing, and private from now on.
///
/// # Errors
/// If it cannot be opened.
pub fn append(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true).append(true).create(true).custom_flags(WITHOUT_WAITING))
}

fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.mode(FILE).open(path)?;
    // The umask may have taken more away, and an older file may have more. What is no file, such as /dev/full, stays as it is.
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(FILE))?;
    }
    Ok(file)
}

/// Makes a folder.
///
/// # Errors
/// If it cannot be made; `AlreadyExists` if there is one.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(FOLDER).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(FOLDER))
}
