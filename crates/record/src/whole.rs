//! Files that are written whole or not at all: a reader sees the old content or the new one, never a part.
//! It must not be used for records that grow.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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

/// Reads a JSON file whose `format` this version knows up to `known`; `None` if it does not exist.
///
/// # Errors
/// [`ReadError::Later`] of a later format; else as [`read_json`].
pub fn read_json_up_to<T: DeserializeOwned>(path: &Path, known: u32) -> Result<Option<T>, ReadError> {
    refuse_later(path, known)?;
    read_json(path)
}

/// Reads a text; `None` if it does not exist. What is no UTF-8 is shown as such.
///
/// # Errors
/// If the file cannot be read.
pub fn read_text(path: &Path) -> Result<Option<String>, ReadError> {
    Ok(bytes_of(path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// What is looked at first, since a later version's file may not parse as one of today.
#[derive(Debug, Deserialize)]
struct Head {
    #[serde(default)]
    format: Option<Value>,
    #[serde(default)]
    plimsoll: Option<Value>,
}

/// Refuses a JSON file of a later format than `known`. One that is missing, broken or says no format is left to whoever reads it.
///
/// # Errors
/// [`ReadError::Later`], a format that is no number, or that the file cannot be read.
pub fn refuse_later(path: &Path, known: u32) -> Result<(), ReadError> {
    let Some(bytes) = bytes_of(path)? else { return Ok(()) };
    refuse_later_head(path, &bytes, known)
}

/// The same of a file, or of a first line, that has been read.
pub(crate) fn refuse_later_head(path: &Path, json: &[u8], known: u32) -> Result<(), ReadError> {
    let format = serde_json::from_slice::<Head>(json).ok().and_then(|head| head.format);
    let Some(format) = format.filter(|format| !format.is_null()) else { return Ok(()) };
    match format.as_u64() {
        Some(format) if format <= u64::from(known) => Ok(()),
        Some(format) => Err(ReadError::Later { path: path.to_path_buf(), format, known, writer: writer(path) }),
        None => {
            let reason = format!("its format is {format}, and a format is a whole number from 1");
            Err(ReadError::Content { path: path.to_path_buf(), reason })
        }
    }
}

/// The version of Plimsoll that made the run folder which a file lies in, if it says so.
fn writer(path: &Path) -> Option<String> {
    // Of a run folder itself, or of `trials/001` in it.
    let said = path.ancestors().skip(1).take(3).find_map(|folder| {
        let bytes = bytes_of(&folder.join("environment.json")).ok()??;
        serde_json::from_slice::<Head>(&bytes).ok()?.plimsoll
    })?;
    let version = said.as_str().filter(|version| version.len() <= 40 && *version != env!("CARGO_PKG_VERSION"))?;
    let is_plain = |character: char| character.is_ascii_alphanumeric() || ".+-".contains(character);
    version.chars().all(is_plain).then(|| version.to_owned())
}

#[cfg(test)]
mod tests;
