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
    // Only an object has fields: of an array, serde would take the first value for the format.
    let is_object = json.trim_ascii_start().starts_with(b"{");
    let head = is_object.then(|| serde_json::from_slice::<Head>(json).ok()).flatten();
    let format = head.and_then(|head| head.format);
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
mod tests {
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;
    use crate::folder::{RunFolder, TrialFolder};
    use crate::lines;
    use crate::rows::{self, Sample};
    use crate::scratch::Scratch;

    #[test]
    fn a_fifo_socket_device_or_folder_in_place_of_a_record_is_refused_at_once() {
        let scratch = Scratch::new("no-regular-file");
        let fifo = scratch.path("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let _socket = UnixListener::bind(scratch.path("socket")).unwrap();
        fs::create_dir(scratch.path("folder")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", scratch.path("device")).unwrap();
        for (name, what) in [("fifo", "a FIFO"), ("socket", "a socket"), ("folder", "a folder"), ("device", "a device")]
        {
            let path = scratch.path(name);
            let said = [
                read_json::<Value>(&path).unwrap_err().to_string(),
                read_text(&path).unwrap_err().to_string(),
                rows::read::<Sample>(&path).unwrap_err().to_string(),
                lines::read_events(&path).unwrap_err().to_string(),
                crate::hlog::read(&path).unwrap_err().to_string(),
            ];
            assert!(
                said.iter().all(|said| said.contains(&format!("is {what}, and a record is a regular file"))),
                "{said:?}"
            );
        }
        assert!(lines::Writer::<Value>::append(&fifo).unwrap_err().to_string().contains("a FIFO"));
    }

    #[test]
    fn a_format_of_a_later_version_is_refused_and_says_who_wrote_it() {
        let scratch = Scratch::new("later-format");
        let folder = RunFolder::at(scratch.path("").as_path());
        fs::write(folder.environment(), r#"{"plimsoll": "9.8.7"}"#).unwrap();
        fs::write(folder.analysis(), r#"{"format": 99, "new": []}"#).unwrap();
        fs::write(folder.ending(), r#"{"format": 2, "how": "done", "reason": null}"#).unwrap();
        let said = folder.read_results().unwrap_err().to_string();
        assert!(said.contains("a later version of Plimsoll (format 99, by version 9.8.7; this one, "), "{said}");
        assert!(said.contains("read it with that version"), "{said}");
        assert!(matches!(folder.read_ending(), Err(ReadError::Later { format: 2, .. })));
        assert!(matches!(folder.refuse_later_results(), Err(ReadError::Later { format: 99, .. })));
        fs::write(folder.environment(), r#"{"format": 3, "plimsoll": "\u001b[2J"}"#).unwrap();
        let said = folder.read_environment().unwrap_err().to_string();
        assert!(said.contains("(format 3; this one"), "{said}");

        let trial = TrialFolder::at(&scratch.path(""));
        fs::write(trial.events(), "{\"at_s\":0.0,\"event\":\"clock\",\"unix_s\":1.0,\"format\":7}\n").unwrap();
        assert!(matches!(lines::read_events(&trial.events()), Err(ReadError::Later { format: 7, .. })));
    }

    #[test]
    fn a_format_that_is_known_or_not_said_is_read() {
        let scratch = Scratch::new("known-format");
        let path = scratch.path("file.json");
        for (text, is_read) in [
            ("{}", true),
            (r#"{"format": null}"#, true),
            (r#"{"format": 1}"#, true),
            (r#"{"format": -1}"#, false),
            (r#"{"format": 1e99}"#, false),
            (r#"{"format": "1"}"#, false),
            (r#"["1"]"#, true),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(read_json_up_to::<Value>(&path, 1).is_ok(), is_read, "{text}");
        }
        fs::write(&path, "not JSON").unwrap();
        assert!(refuse_later(&path, 1).is_ok(), "what is broken is for its reader to say");
    }
}
