//! Reading and writing of regular files: whole files, complete lines, and JSON documents with a
//! format version. This is the only place that opens record files for reading.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::private::{self, NewFile};

/// Writes a private file as a whole: writes a new file in the same folder, syncs it to disk, and
/// renames it to `path`.
///
/// # Errors
/// If a step fails. `path` then keeps its old content.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = NewFile::private(path)?;
    file.write_all(bytes)?;
    file.finish()
}

/// Writes `value` as a whole file of indented JSON with a newline at the end.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.push(b'\n');
    write_whole(path, &bytes)
}

/// Reads a JSON file; `None` if it does not exist.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ReadError> {
    let Some(bytes) = bytes_of(path)? else { return Ok(None) };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| ReadError::Content { path: path.to_path_buf(), reason: error.to_string() })
}

/// Reads a JSON file whose `format` is at most `known`; `None` if it does not exist.
///
/// # Errors
/// [`ReadError::Later`] for a later format; otherwise as [`read_json`].
pub fn read_json_up_to<T: DeserializeOwned>(path: &Path, known: u32) -> Result<Option<T>, ReadError> {
    refuse_later(path, known)?;
    read_json(path)
}

/// Reads a text file; `None` if it does not exist. Invalid UTF-8 becomes replacement characters.
pub fn read_text(path: &Path) -> Result<Option<String>, ReadError> {
    Ok(bytes_of(path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Fields that are read before the rest of a file, because a later version's file may not parse
/// with this version's types.
#[derive(Debug, Deserialize)]
struct FormatHead {
    #[serde(default)]
    format: Option<Value>,
    #[serde(default)]
    plimsoll: Option<Value>,
}

/// Refuses a JSON file of a later format than `known`. Accepts a file that is missing, broken or
/// without a format; the function that reads it decides.
///
/// # Errors
/// [`ReadError::Later`]; another error if the format is not a number or the file cannot be read.
pub fn refuse_later(path: &Path, known: u32) -> Result<(), ReadError> {
    let Some(bytes) = bytes_of(path)? else { return Ok(()) };
    refuse_later_head(path, &bytes, known)
}

/// Refuses a file, or a first line, that is already in memory; see [`refuse_later`].
pub(crate) fn refuse_later_head(path: &Path, json: &[u8], known: u32) -> Result<(), ReadError> {
    // Only an object has fields. From an array, serde would take the first value as the format.
    let is_object = json.trim_ascii_start().starts_with(b"{");
    let head = is_object.then(|| serde_json::from_slice::<FormatHead>(json).ok()).flatten();
    let format = head.and_then(|head| head.format);
    let Some(format) = format.filter(|format| !format.is_null()) else { return Ok(()) };
    match format.as_u64() {
        Some(format) if format <= u64::from(known) => Ok(()),
        Some(format) => Err(ReadError::Later { path: path.to_path_buf(), format, known, writer: writer(path) }),
        None => {
            let reason = format!("its format is {format}: expected a whole number from 1");
            Err(ReadError::Content { path: path.to_path_buf(), reason })
        }
    }
}

/// Returns the version of Plimsoll that wrote the file's run folder. `None` if the version is not
/// recorded, or is this one.
fn writer(path: &Path) -> Option<String> {
    // The file is in the run folder itself or in `trials/001`.
    let said = path.ancestors().skip(1).take(3).find_map(|folder| {
        let bytes = bytes_of(&folder.join("environment.json")).ok()??;
        serde_json::from_slice::<FormatHead>(&bytes).ok()?.plimsoll
    })?;
    let version = said.as_str().filter(|version| version.len() <= 40 && *version != env!("CARGO_PKG_VERSION"))?;
    let is_plain = version.chars().all(|letter| letter.is_ascii_alphanumeric() || ".+-".contains(letter));
    is_plain.then(|| version.to_owned())
}

/// Size of buffered lines, bytes, from which they are written without a flush.
const BUFFER: usize = 64 * 1024;

/// Error from reading a record.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file exists and cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        source: io::Error,
    },
    /// A line other than the last one is broken. A crash cannot be the cause, because a crash
    /// breaks only the last line.
    #[error("{}:{line}: {reason}", path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// Reason why the line is broken.
        reason: String,
    },
    /// A file that is written as a whole has unexpected content.
    #[error("{}: {reason}", path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// Reason why the content is wrong.
        reason: String,
    },
    /// The path is not a regular file. Reading it could block or never end.
    #[error("{} is {what}: expected a regular file (move it away, or copy the run folder again)", path.display())]
    NotRegular {
        path: PathBuf,
        /// Type of the file, with its article.
        what: &'static str,
    },
    /// A later version of Plimsoll wrote the file.
    #[error(
        "{} was written by a later version of Plimsoll (format {format}{}; this one, {}, knows formats up to {known}): read \
         it with that version, or a later one",
        path.display(),
        writer.as_deref().map(|writer| format!(", by version {writer}")).unwrap_or_default(),
        env!("CARGO_PKG_VERSION")
    )]
    Later {
        /// Path of the file.
        path: PathBuf,
        /// Format of the file.
        format: u64,
        /// Newest format that this version knows.
        known: u32,
        /// Version that wrote the file, if the run folder records it.
        writer: Option<String>,
    },
}

/// Items of a record file, up to a last line that was cut off.
#[derive(Debug, Clone, PartialEq)]
pub struct Records<T> {
    /// The items, in file order.
    pub items: Vec<T>,
    /// Whether the last line was cut off and dropped.
    pub torn: bool,
}

impl<T> Default for Records<T> {
    fn default() -> Self {
        Self { items: Vec::new(), torn: false }
    }
}

/// Appends whole lines to a file. After a failed write, such as on a full disk, it truncates the
/// file to the lines that were written before, so that the file stays readable.
#[derive(Debug)]
pub(crate) struct LineFile {
    file: File,
    whole: u64,
    pending: Vec<u8>,
}

impl LineFile {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: private::create(path)?, whole: 0, pending: Vec::new() })
    }

    /// Opens a file for appending. Removes a last line that was cut off.
    pub(crate) fn append(path: &Path) -> io::Result<Self> {
        let mut file = private::append(path)?;
        if let Some(what) = other_than_regular(file.metadata()?.file_type()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}: expected a regular file")));
        }
        let all = file.seek(SeekFrom::End(0))?;
        let whole = whole_length(&mut file, all)?;
        file.set_len(whole)?;
        Ok(Self { file, whole, pending: Vec::new() })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.whole == 0 && self.pending.is_empty()
    }

    /// Adds a line; `line` ends in a newline.
    pub(crate) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.pending.extend_from_slice(line);
        if self.pending.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    /// Passes all data to the kernel. After that, a SIGKILL of this process loses nothing.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let pending = std::mem::take(&mut self.pending);
        if let Err(error) = self.file.write_all(&pending) {
            // If truncating fails too, readers still drop the incomplete last line.
            let _ = self.file.set_len(self.whole).and_then(|()| self.file.seek(SeekFrom::Start(self.whole)));
            return Err(error);
        }
        self.whole += pending.len() as u64;
        self.pending = pending;
        self.pending.clear();
        Ok(())
    }
}

impl Drop for LineFile {
    fn drop(&mut self) {
        // A caller that needs the error flushes before the drop.
        let _ = self.flush();
    }
}

/// Flags for opening files that may not be regular. Otherwise, opening a FIFO waits for its writer,
/// and an opened terminal becomes this process's terminal.
pub(crate) const WITHOUT_WAITING: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens a file for reading; `None` if it does not exist.
///
/// Every file of a run folder is opened for reading here. A run folder from another user may
/// contain a FIFO, a socket or a device in place of a record.
pub(crate) fn open(path: &Path) -> Result<Option<File>, ReadError> {
    let failed = |source| ReadError::Io { path: path.to_path_buf(), source };
    let refused = |what| ReadError::NotRegular { path: path.to_path_buf(), what };
    let opened = OpenOptions::new().read(true).custom_flags(WITHOUT_WAITING.bits().cast_signed()).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            // A socket cannot be opened at all, and the kernel's error message does not say so.
            let what = fs::metadata(path).ok().and_then(|found| other_than_regular(found.file_type()));
            return Err(what.map_or_else(|| failed(error), refused));
        }
    };
    match other_than_regular(file.metadata().map_err(failed)?.file_type()) {
        Some(what) => Err(refused(what)),
        None => Ok(Some(file)),
    }
}

/// Returns the name of the file type, or `None` for a regular file.
fn other_than_regular(kind: FileType) -> Option<&'static str> {
    match kind {
        kind if kind.is_file() => None,
        kind if kind.is_dir() => Some("a folder"),
        kind if kind.is_fifo() => Some("a FIFO"),
        kind if kind.is_socket() => Some("a socket"),
        kind if kind.is_block_device() || kind.is_char_device() => Some("a device"),
        _ => Some("something else"),
    }
}

/// Returns the bytes of a file; `None` if it does not exist.
fn bytes_of(path: &Path) -> Result<Option<Vec<u8>>, ReadError> {
    let Some(mut file) = open(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    match file.read_to_end(&mut bytes) {
        Ok(_) => Ok(Some(bytes)),
        Err(source) => Err(ReadError::Io { path: path.to_path_buf(), source }),
    }
}

/// The complete lines of a file, read on demand: a week of samples does not fit into memory. A line
/// without a newline was cut off, even if it parses: `12` may have been `1234`.
pub(crate) struct WholeLines {
    pub reader: BufReader<io::Take<File>>,
    /// Length of the complete lines, bytes.
    pub length: u64,
    /// Whether an incomplete line follows the complete lines.
    pub torn: bool,
}

/// Opens a file for reading line by line; `None` if it does not exist.
pub(crate) fn open_lines(path: &Path) -> Result<Option<WholeLines>, ReadError> {
    let broken = |source| ReadError::Io { path: path.to_path_buf(), source };
    let Some(mut file) = open(path)? else { return Ok(None) };
    let all = file.seek(SeekFrom::End(0)).map_err(broken)?;
    let length = whole_length(&mut file, all).map_err(broken)?;
    file.seek(SeekFrom::Start(0)).map_err(broken)?;
    let reader = BufReader::with_capacity(BUFFER, file.take(length));
    Ok(Some(WholeLines { reader, length, torn: length < all }))
}

/// Returns the length of the file up to and including its last newline. Searches backwards from
/// `all`, the file's length.
fn whole_length(file: &mut File, all: u64) -> io::Result<u64> {
    let mut end = all;
    let mut part = Vec::new();
    while end > 0 {
        let begin = end.saturating_sub(BUFFER as u64);
        file.seek(SeekFrom::Start(begin))?;
        part.clear();
        Read::by_ref(file).take(end - begin).read_to_end(&mut part)?;
        if let Some(last) = part.iter().rposition(|&byte| byte == b'\n') {
            return Ok(begin + last as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

/// Reads a file line by line. `parse` gets each line without its newline and skips a line by
/// returning `Ok(None)`. A line that does not parse is dropped if it is the last one, and is an
/// error otherwise.
pub(crate) fn read_lines<T>(
    path: &Path,
    mut parse: impl FnMut(&[u8]) -> Result<Option<T>, String>,
) -> Result<Records<T>, ReadError> {
    let broken = |source| ReadError::Io { path: path.to_path_buf(), source };
    let Some(WholeLines { mut reader, torn, .. }) = open_lines(path)? else { return Ok(Records::default()) };
    let mut records = Records { items: Vec::new(), torn };
    let mut line = Vec::new();
    let mut number = 0;
    while reader.read_until(b'\n', &mut line).map_err(broken)? > 0 {
        number += 1;
        match parse(line.strip_suffix(b"\n").unwrap_or(&line)) {
            Ok(item) => records.items.extend(item),
            Err(reason) => {
                if records.torn || !reader.fill_buf().map_err(broken)?.is_empty() {
                    return Err(ReadError::Line { path: path.to_path_buf(), line: number, reason });
                }
                records.torn = true;
            }
        }
        line.clear();
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use fixture::TestDir;

    use super::*;
    use crate::folder::{RunFolder, TrialFolder};
    use crate::lines;
    use crate::rows::{self, Sample};

    #[test]
    fn records_that_are_not_regular_files_are_refused() {
        let scratch = TestDir::new();
        let fifo = scratch.join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let _socket = UnixListener::bind(scratch.join("socket")).unwrap();
        fs::create_dir(scratch.join("folder")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", scratch.join("device")).unwrap();
        for (name, what) in [("fifo", "a FIFO"), ("socket", "a socket"), ("folder", "a folder"), ("device", "a device")]
        {
            let path = scratch.join(name);
            let said = [
                read_json::<Value>(&path).unwrap_err().to_string(),
                read_text(&path).unwrap_err().to_string(),
                rows::read::<Sample>(&path).unwrap_err().to_string(),
                lines::read_events(&path).unwrap_err().to_string(),
                crate::hlog::read(&path).unwrap_err().to_string(),
            ];
            assert!(said.iter().all(|said| said.contains(&format!("is {what}: expected a regular file"))), "{said:?}");
        }
        assert!(lines::JsonLinesWriter::<Value>::append(&fifo).unwrap_err().to_string().contains("a FIFO"));
    }

    #[test]
    fn a_later_format_is_refused_with_its_version() {
        let scratch = TestDir::new();
        let folder = RunFolder::at(scratch.join("").as_path());
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

        let trial = TrialFolder::at(&scratch.join(""));
        fs::write(trial.events(), "{\"at_s\":0.0,\"event\":\"clock\",\"unix_s\":1.0,\"format\":7}\n").unwrap();
        assert!(matches!(lines::read_events(&trial.events()), Err(ReadError::Later { format: 7, .. })));
    }

    #[test]
    fn known_and_missing_formats_are_read() {
        let scratch = TestDir::new();
        let path = scratch.join("file.json");
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

    fn word(line: &[u8]) -> Result<Option<String>, String> {
        match std::str::from_utf8(line) {
            Ok("skip") => Ok(None),
            Ok(text) if text.starts_with("bad") => Err("bad word".to_owned()),
            Ok(text) => Ok(Some(text.to_owned())),
            Err(error) => Err(error.to_string()),
        }
    }

    fn reading(content: &[u8]) -> Result<Records<String>, ReadError> {
        let scratch = TestDir::new();
        let path = scratch.join("words");
        fs::write(&path, content).unwrap();
        read_lines(&path, word)
    }

    #[test]
    fn whole_lines_are_read_and_torn_ends_marked() {
        let table: [(&[u8], &[&str], bool); 8] = [
            (b"", &[], false),
            (b"a\nb\n", &["a", "b"], false),
            (b"a\nskip\nb\n", &["a", "b"], false),
            (b"a\nb", &["a"], true),
            (b"a", &[], true),
            (b"a\nbad", &["a"], true),
            (b"a\nbad\n", &["a"], true),
            (b"a\n\xff\n", &["a"], true),
        ];
        for (content, items, torn) in table {
            let records = reading(content).unwrap();
            assert_eq!(records.items, items, "{content:?}");
            assert_eq!(records.torn, torn, "{content:?}");
        }
    }

    #[test]
    fn a_broken_inner_line_is_an_error_with_its_position() {
        for content in [&b"a\nbad one\nc\n"[..], b"a\nbad one\nc", b"a\nbad one\nx\ny\n"] {
            let message = reading(content).unwrap_err().to_string();
            assert!(message.ends_with("words:2: bad word"), "{message}");
        }
    }

    #[test]
    fn a_missing_file_is_empty_and_a_folder_is_an_error() {
        let scratch = TestDir::new();
        assert_eq!(read_lines(&scratch.join("none"), word).unwrap(), Records::default());
        assert!(matches!(read_lines(&scratch.join(""), word), Err(ReadError::NotRegular { .. })));
    }

    #[test]
    fn appending_removes_a_torn_tail() {
        let scratch = TestDir::new();
        let path = scratch.join("words");
        fs::write(&path, "one\ntw").unwrap();
        let mut file = LineFile::append(&path).unwrap();
        file.write(b"three\n").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\nthree\n");
    }

    #[test]
    fn a_full_disk_is_an_error_and_not_a_panic() {
        let path = Path::new("/dev/full");
        if !path.exists() {
            return;
        }
        let mut file =
            LineFile { file: File::options().write(true).open(path).unwrap(), whole: 0, pending: Vec::new() };
        file.write(b"line\n").unwrap();
        assert!(file.flush().is_err());
        assert!(file.is_empty(), "what could not be written is not written twice");
    }
}
