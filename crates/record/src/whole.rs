//! Files that are written whole or not at all: a reader sees the old content or the new one, never a part.
//! It must not be used for records that grow.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::private;
use crate::whole_lines::{ReadError, bytes_of};

/// Writes a file whole: into a new file beside it, to the disk, then renamed over it.
///
/// # Errors
/// If any of that fails; `path` then holds what it held before.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not the path of a file"))?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(beside);
    let written = write_synced(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // The write's own error is what the caller must hear of.
        let _ = fs::remove_file(&beside);
    }
    written
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = private::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Writes `value` whole as indented JSON with a newline at its end.
///
/// # Errors
/// If `value` cannot be written as JSON, or as [`write_whole`].
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.push(b'\n');
    write_whole(path, &bytes)
}

/// Reads a JSON file; `None` if it does not exist.
///
/// # Errors
/// If the file cannot be read or is not what it should be.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ReadError> {
    let Some(bytes) = bytes_of(path)? else { return Ok(None) };
    let broken = |error: serde_json::Error| ReadError::Content { path: path.to_path_buf(), reason: error.to_string() };
    serde_json::from_slice(&bytes).map(Some).map_err(broken)
}
