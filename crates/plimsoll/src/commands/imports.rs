//! `plimsoll new --from FILE`: an experiment from a file of another tool.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use import::{ImportError, ImportSource};

use crate::exit::{Exit, Failure};
use crate::{cli, named_files, output};

/// Longest file that a source may name, such as a body, bytes.
const LONGEST_ATTACHED: u64 = 1024 * 1024;
/// Longest source, bytes.
const LONGEST: u64 = 512 * 1024 * 1024;

/// Makes an experiment from a file of another tool.
pub fn new(from: &Path, arguments: &cli::New) -> Result<Exit, Failure> {
    let shown = from.display().to_string();
    let bytes = unpacked_source(from, "head -n 1000000 FILE | plimsoll new --from - --out NEW.toml")?;
    // A log may have bytes that are no text.
    let text = String::from_utf8_lossy(&bytes);
    let name = from.file_name().map_or_else(|| shown.clone(), |name| name.to_string_lossy().into_owned());
    let name = if name == "-" { "standard input".to_owned() } else { name };
    let folder = from.parent();
    let read_attached = |name: &str| attached(folder, name);
    let source = ImportSource { name: &name, text: &text, attached: &read_attached };
    let csv = arguments.out.as_ref().map(|out| out.with_extension("requests.csv"));
    let csv_name = csv.as_ref().and_then(|csv| csv.file_name()).map(|name| name.to_string_lossy().into_owned());
    let csv_name = csv_name.as_deref().unwrap_or("requests.csv");
    let imported =
        import::experiment(&source, arguments.format.as_deref(), csv_name).map_err(|error| failure(&shown, &error))?;
    let Some(out) = &arguments.out else {
        if imported.csv.is_some() {
            return Err(Failure::Bad {
                what: format!(
                    "{shown} is an access log, and becomes two files: an experiment, and a CSV of its requests"
                ),
                remedy: "give the experiment's name, such as --out replay.toml".to_owned(),
            });
        }
        output::data(&imported.text)?;
        return Ok(Exit::Well);
    };
    write_new(out, imported.text.as_bytes())?;
    if let (Some(csv), Some(starts)) = (&csv, &imported.csv) {
        write_new(csv, starts.as_bytes())?;
    }
    output::say(&format!("{} is written: `plimsoll check {}` shows what it does", out.display(), out.display()));
    Ok(Exit::Well)
}

/// Reads a file of another tool, or the standard input. `shorter` is a command that reads a part.
pub fn unpacked_source(from: &Path, shorter: &str) -> Result<Vec<u8>, Failure> {
    let shown = from.display();
    let bytes = content(from).map_err(|error| Failure::Bad {
        what: format!("cannot read {shown}: {error}"),
        remedy: "give a file, or `-` for the standard input".to_owned(),
    })?;
    let bytes = unpacked(bytes).map_err(Failure::file(format!("cannot unpack {shown}")))?;
    if bytes.len() as u64 > LONGEST {
        return Err(Failure::Bad {
            what: format!("{shown} is longer than {} MiB", LONGEST / 1024 / 1024),
            remedy: format!("give a part of it: {shorter}"),
        });
    }
    Ok(bytes)
}

/// Reads the source.
fn content(from: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if from == Path::new("-") {
        std::io::stdin().lock().take(LONGEST + 1).read_to_end(&mut bytes)?;
    } else {
        File::open(from)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Unpacks a file in gzip: servers pack old access logs.
fn unpacked(bytes: Vec<u8>) -> std::io::Result<Vec<u8>> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut plain = Vec::new();
    MultiGzDecoder::new(bytes.as_slice()).take(LONGEST + 1).read_to_end(&mut plain)?;
    Ok(plain)
}

/// Returns the content of a file that a source names: relative to the source's folder or, as the
/// other tool would look for it, to the current one.
pub fn attached(folder: Option<&Path>, name: &str) -> Option<Vec<u8>> {
    let places = folder.map(|folder| folder.join(name)).into_iter().chain([Path::new(name).to_owned()]);
    places.into_iter().find_map(|path| {
        let is_file = std::fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() <= LONGEST_ATTACHED);
        is_file.then(|| std::fs::read(&path).ok()).flatten()
    })
}

/// Writes a file that must not exist: the user may have changed an earlier one.
fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) {
        return Err(Failure::Bad {
            what: format!("{} exists already", path.display()),
            remedy: "give another file with --out, or remove this one".to_owned(),
        });
    }
    named_files::write(path, bytes)
}

/// Returns the failure for a source that cannot be read.
pub fn failure(source: &str, error: &ImportError) -> Failure {
    Failure::Bad { what: format!("{source}: {error}"), remedy: format!("expected: {}", error.expected) }
}
