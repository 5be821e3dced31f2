//! Build script: passes the commit, compiler and profile to the program, and packs the targets and
//! experiments into it. It must not fail without a clone or without git.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    if let Some(revision) = said("git", &["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo::rustc-env=PLIMSOLL_REVISION={revision}");
        // Git notes every commit and checkout in this file.
        if let Some(log) = said("git", &["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
            println!("cargo::rerun-if-changed={log}");
        }
    }
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    if let Some(version) = said(&rustc, &["--version"]) {
        println!("cargo::rustc-env=PLIMSOLL_RUSTC={version}");
    }
    if let Ok(profile) = env::var("PROFILE") {
        println!("cargo::rustc-env=PLIMSOLL_PROFILE={profile}");
    }
    pack()
}

/// Returns a program's output if it is one line; `None` if the program is missing or fails.
fn said(program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty() && !text.contains('\n'))
}

/// Folder with links to the packed files. Cargo puts the files themselves into a package.
const PACKED: &str = "packed";
/// Folders in [`PACKED`].
const SHELVES: [&str; 2] = ["experiments", "targets"];
/// Names to leave out: results of builds and tests, and files that only developers need.
const LEFT_OUT: [&str; 7] = ["_build", "_template", "__pycache__", "ebin", "erl_crash.dump", "studies", "test"];

/// Writes `packed.rs`: every file with its path, whether it is a program, and its content; and a
/// hash over all of them.
fn pack() -> io::Result<()> {
    let variable = |name: &str| env::var_os(name).map(PathBuf::from).ok_or_else(|| io::Error::other(name.to_owned()));
    let root = variable("CARGO_MANIFEST_DIR")?.join(PACKED);
    let mut files = Vec::new();
    for shelf in SHELVES {
        list(&root.join(shelf), &mut files)?;
    }
    files.sort();
    let (mut rows, mut mark) = (String::new(), 0xcbf2_9ce4_8422_2325);
    for file in &files {
        println!("cargo::rerun-if-changed={}", file.display());
        let name = file.strip_prefix(&root).map_err(io::Error::other)?.to_string_lossy().into_owned();
        let is_program = fs::metadata(file)?.permissions().mode() & 0o100 != 0;
        mark = hashed(mark, name.as_bytes());
        mark = hashed(mark, &[u8::from(is_program)]);
        mark = hashed(mark, &fs::read(file)?);
        let row = format!(
            "    PackedFile {{ path: {name:?}, is_program: {is_program}, content: include_bytes!({:?}) }},\n",
            file.display().to_string()
        );
        rows.push_str(&row);
    }
    let mut text = String::new();
    writeln!(text, "const MARK: &str = \"{mark:016x}\";\nstatic FILES: &[PackedFile] = &[\n{rows}];")
        .map_err(io::Error::other)?;
    fs::write(variable("OUT_DIR")?.join("packed.rs"), text)
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let name = name.to_string_lossy();
        if name.starts_with('.') || LEFT_OUT.contains(&&*name) {
            continue;
        }
        if path.is_dir() { list(&path, files)? } else { files.push(path) }
    }
    Ok(())
}

/// FNV-1a hash (Fowler, Noll and Vo). It distinguishes versions but does not resist attacks.
fn hashed(mark: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(mark, |mark, byte| (mark ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
