//! Sends this program and the target's folder to a host. It must not know what they are for.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::client::{self, Client, Part, SshOutput, never};
use super::guard::{Facts, no_ssh};
use super::{complaint, scripts};
use crate::linux::spawn;

/// For the program, over a slow line.
const TO_SEND: Duration = Duration::from_secs(300);
/// For a target's folder, over a slow line.
const TO_SEND_FOLDER: Duration = Duration::from_secs(900);
/// For tar to end after its last byte.
const TO_LET_GO: Duration = Duration::from_secs(5);
/// For the program to be packed.
const TO_PACK: Duration = Duration::from_secs(60);
/// Space that a host must have beside the program itself.
const TO_SPARE_KIB: u64 = 64 * 1024;

/// Hosts are reached side by side, and the program is packed once.
static PACKING: Mutex<()> = Mutex::new(());

/// Sends this program into the guard's folder, and tries it there.
///
/// # Errors
/// In words: little space, another C library, a broken connection.
pub fn program(
    client: &Client,
    facts: &Facts,
    program: &Path,
    scratch: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<(), String> {
    let size = fs::metadata(program).map_err(|error| format!("cannot read {}: {error}", program.display()))?.len();
    fits(facts, size)?;
    let packed = packed(program, scratch, facts.has_gzip);
    let (path, unpack) = packed.as_ref().map_or((program, "cat"), |(path, unpack)| (path.as_path(), *unpack));
    let input = File::open(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let script = scripts::receive_program(&facts.folder, unpack);
    let outcome = client.run(Part::Passenger, &script, input.into(), TO_SEND, stop);
    let outcome = outcome.map_err(|error| no_ssh(&error))?;
    if outcome.is_ok() {
        return Ok(());
    }
    if outcome.status.is_none() {
        return Err(format!("it did not take this program within {} s", client.patience(TO_SEND).as_secs_f64()));
    }
    if outcome.is_ssh() {
        return Err(complaint::unreached(&outcome.errors, client.destination()));
    }
    Err(complaint::does_not_run(&outcome.errors))
}

fn fits(facts: &Facts, size: u64) -> Result<(), String> {
    let needed_kib = size / 1024 + TO_SPARE_KIB;
    match facts.free_kib {
        Some(free_kib) if free_kib < needed_kib => Err(format!(
            "{} MiB are free where {} is, and {} MiB are needed; set TMPDIR there",
            free_kib / 1024,
            facts.folder,
            needed_kib.div_ceil(1024)
        )),
        _ => Ok(()),
    }
}

/// The program made smaller, once for the whole run, and what makes it whole again: without what only a debugger reads, or
/// compressed. `None` where neither can be done: then it goes as it is.
fn packed(program: &Path, scratch: &Path, may_compress: bool) -> Option<(PathBuf, &'static str)> {
    let _alone = PACKING.lock().unwrap_or_else(PoisonError::into_inner);
    let stripped = scratch.join("plimsoll.stripped");
    let mut strip = Command::new("strip");
    strip.arg("--strip-debug").arg("-o").arg(half(&stripped)).arg(program);
    if made(&stripped, || Ok(strip)) {
        return Some((stripped, "cat"));
    }
    let compressed = scratch.join("plimsoll.gz");
    let gzip = || {
        let mut gzip = Command::new("gzip");
        gzip.args(["-1", "-c"]).stdin(File::open(program)?).stdout(File::create(half(&compressed))?);
        Ok(gzip)
    };
    (may_compress && made(&compressed, gzip)).then_some((compressed, "gzip -dc"))
}

/// Where a file is while it is being made.
fn half(path: &Path) -> PathBuf {
    path.with_extension("half")
}

/// Whether the file is there, made by this command if it was not.
fn made(path: &Path, command: impl FnOnce() -> io::Result<Command>) -> bool {
    if path.exists() {
        return true;
    }
    let make = || -> io::Result<bool> {
        let mut command = command()?;
        command.stderr(Stdio::null());
        let mut child = spawn::spawn(command)?;
        let status = client::await_end(&mut child, TO_PACK, &never)?;
        if status.is_none() {
            child.kill()?;
            child.wait()?;
        }
        let is_done = status.is_some_and(|status| status.success());
        if is_done {
            fs::rename(half(path), path)?;
        }
        Ok(is_done)
    };
    make().unwrap_or(false) || {
        let _ = fs::remove_file(half(path));
        false
    }
}

/// Sends a folder with all that is in it; it replaces none.
///
/// # Errors
/// In words.
pub fn folder(client: &Client, facts: &Facts, folder: &Path, stop: &dyn Fn() -> bool) -> Result<PathBuf, String> {
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(folder).args(["-cf", "-", "."]).stdin(Stdio::null()).stdout(Stdio::piped());
    let pack = |error: io::Error| format!("cannot pack {} with tar: {error}", folder.display());
    let (errors, held) = SshOutput::pipe().map_err(pack)?;
    tar.stderr(held);
    let mut tar = spawn::spawn(tar).map_err(pack)?;
    let archive = tar.stdout.take().map_or_else(Stdio::null, Stdio::from);
    let script = scripts::receive_folder(&facts.folder);
    let outcome = client.run(Part::Passenger, &script, archive, TO_SEND_FOLDER, stop);
    // Whoever it wrote to has read it all, or is gone.
    if client::await_end(&mut tar, TO_LET_GO, &never).map_err(pack)?.is_none() {
        tar.kill().map_err(pack)?;
    }
    let packed = tar.wait().map_err(pack)?;
    let outcome = outcome.map_err(|error| no_ssh(&error))?;
    if !outcome.is_ok() {
        let last = complaint::last_line(&outcome.errors);
        return Err(format!("it did not take the target's folder {}: {last}", folder.display()));
    }
    if !packed.success() {
        return Err(format!("cannot pack {} with tar: {}", folder.display(), complaint::last_line(&errors.text())));
    }
    Ok(Path::new(&facts.folder).join("target"))
}
