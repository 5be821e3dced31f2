//! How fast the storage of a host is to whom it keeps waiting: random reads, and random writes
//! that are synced one by one, as a database does them. By fio, for that is what others compare
//! with.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use record::events::HostFigures;
use rustix::process::{Signal, kill_process_group};
use serde_json::Value;

use crate::linux;

const FILE: &str = "storage.measure";
/// Larger than a disk's own cache of a track, small enough for a slow one to be laid out in seconds.
const FILE_BYTES: u64 = 16 << 20;
/// … of a disk that is throttled: there is none below it whose cache could mislead.
const THROTTLED_BYTES: u64 = 4 << 20;
const MEBIBYTE: u64 = 1 << 20;
/// For the file to be laid out, on top of the time that is measured.
const LAYING_OUT: Duration = Duration::from_secs(40);

/// What is measured.
pub struct Measure<'a> {
    /// Where the host's data goes.
    pub folder: &'a Path,
    /// Control groups whose limits hold for that: files that whoever measures writes itself into.
    pub groups: &'a [PathBuf],
    /// Whether they are slower than the machine's own disk.
    pub is_throttled: bool,
}

impl Measure<'_> {
    /// Measures for `for_s` seconds in all. Only the `storage_…` figures are filled in; what could not be measured is empty,
    /// and why is in `storage_unmeasured`.
    pub fn take(&self, for_s: f64) -> HostFigures {
        let file = self.folder.join(FILE);
        let measured = self.room().and_then(|bytes| {
            // Not every file system can go past the page cache.
            self.run(arguments(&file, bytes, for_s, true), for_s, true).or_else(|first| match first {
                Failure::NotStarted(_) => Err(first),
                Failure::Failed(_) => self.run(arguments(&file, bytes, for_s, false), for_s, false),
            })
        });
        let _ = fs::remove_file(&file);
        let unmeasured =
            |failure: Failure| HostFigures { storage_unmeasured: Some(failure.reason()), ..HostFigures::default() };
        measured.unwrap_or_else(unmeasured)
    }

    /// How large a file there is room for.
    fn room(&self) -> Result<u64, Failure> {
        let folder = self.folder.display();
        let stat = rustix::fs::statvfs(self.folder)
            .map_err(|errno| Failure::NotStarted(format!("{folder}: {}", io::Error::from(errno))))?;
        let quarter = stat.f_bavail.saturating_mul(stat.f_frsize) / 4;
        let wanted = if self.is_throttled { THROTTLED_BYTES } else { FILE_BYTES };
        let bytes = wanted.min(quarter / MEBIBYTE * MEBIBYTE);
        let full = || Failure::NotStarted(format!("{folder} is too full to measure it"));
        (bytes > 0).then_some(bytes).ok_or_else(full)
    }

    fn run(&self, arguments: Vec<String>, for_s: f64, past_cache: bool) -> Result<HostFigures, Failure> {
        let mut command = Command::new("fio");
        command.args(arguments).current_dir(self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = linux::spawn_in(command, self.groups).map_err(|error| {
            Failure::NotStarted(match error.kind() {
                io::ErrorKind::NotFound => "fio is not installed".to_owned(),
                _ => format!("cannot start fio: {error}"),
            })
        })?;
        let output = output_of(child, Duration::try_from_secs_f64(for_s).unwrap_or_default() + LAYING_OUT)?;
        figures(&output, past_cache).map_err(Failure::Failed)
    }
}

/// Why there is no figure.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// Another attempt would be the same.
    NotStarted(String),
    Failed(String),
}

impl Failure {
    fn reason(self) -> String {
        match self {
            Self::NotStarted(reason) | Self::Failed(reason) => reason,
        }
    }
}

/// `psync`: a request at a time, each waited for. The writes overwrite what the reads had laid out, so that they do not measure
/// how a file is enlarged.
fn arguments(file: &Path, bytes: u64, for_s: f64, past_cache: bool) -> Vec<String> {
    let half_ms = (for_s / 2.0 * 1000.0).max(1.0) as u64;
    let all = [
        "--output-format=json".to_owned(),
        "--name=global".to_owned(),
        // fio separates file names by colons.
        format!("--filename={}", file.display().to_string().replace(':', "\\:")),
        format!("--size={bytes}"),
        "--bs=4k".to_owned(),
        "--ioengine=psync".to_owned(),
        format!("--direct={}", u8::from(past_cache)),
        "--time_based".to_owned(),
        format!("--runtime={half_ms}ms"),
        "--thread".to_owned(),
    ];
    let jobs = [
        "--name=read",
        "--rw=randread",
        "--name=write",
        "--stonewall",
        "--rw=randwrite",
        "--overwrite=1",
        "--fdatasync=1",
    ];
    all.into_iter().chain(jobs.map(str::to_owned)).collect()
}

/// What a program writes until it ends. How it ends is not asked: in a host the one who is told is whoever reaps there.
fn output_of(mut child: Child, within: Duration) -> Result<String, Failure> {
    let (output_in, output) = channel();
    let mut stdout = child.stdout.take();
    let read = move || {
        let mut text = String::new();
        let read = stdout.as_mut().map(|stdout| stdout.read_to_string(&mut text));
        let _ = output_in.send(read.unwrap_or(Ok(0)).map(|_| text));
    };
    let reader = std::thread::Builder::new().name("storage".to_owned()).spawn(read);
    let output =
        reader.map_err(|error| Failure::Failed(error.to_string())).and_then(|_| match output.recv_timeout(within) {
            Ok(read) => read.map_err(|error| Failure::Failed(format!("fio's output: {error}"))),
            Err(RecvTimeoutError::Timeout) => {
                Err(Failure::NotStarted(format!("fio was not done within {} s", within.as_secs())))
            }
            Err(RecvTimeoutError::Disconnected) => Err(Failure::Failed("fio's output was lost".to_owned())),
        });
    if output.is_err()
        && let Some(group) = linux::pid(child.id())
    {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
    output
}

/// Reads fio's JSON. Reads from the page cache say nothing about the storage: they are left out.
fn figures(output: &str, past_cache: bool) -> Result<HostFigures, String> {
    // Notes and warnings come before it.
    let json = output.find('{').map(|at| &output[at..]).ok_or_else(|| "fio failed".to_owned())?;
    let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
    let said = values.next().and_then(Result::ok).ok_or_else(|| "fio's answer is not JSON".to_owned())?;
    let job = |name: &str| {
        let jobs = said["jobs"].as_array().into_iter().flatten();
        let job = jobs.into_iter().find(|job| job["jobname"] == name).ok_or_else(|| format!("fio did not {name}"))?;
        match job["error"].as_i64() {
            Some(0) => Ok(job),
            Some(errno) => Err(io::Error::from_raw_os_error(i32::try_from(errno).unwrap_or(0)).to_string()),
            None => Err("fio does not say whether it failed".to_owned()),
        }
    };
    let (read, write) = (job("read")?, job("write")?);
    let above_0 = |value: &Value| value.as_f64().filter(|value| *value > 0.0);
    Ok(HostFigures {
        storage_read_per_s: above_0(&read["read"]["iops"]).filter(|_| past_cache),
        storage_write_per_s: above_0(&write["write"]["iops"]),
        storage_sync_us: above_0(&write["sync"]["lat_ns"]["mean"]).map(|ns| ns / 1000.0),
        storage_unmeasured: (!past_cache).then(|| "its file system cannot read past the page cache".to_owned()),
        ..HostFigures::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Scratch;

    const RECORDED: &str = include_str!("../../fixtures/fio/3.33.json");

    #[test]
    fn what_fio_said_is_read() {
        let is =
            figures(&format!("note: both iodepth >= 1 and synchronous I/O engine are selected\n{RECORDED}\n"), true);
        let is = is.unwrap();
        assert!((is.storage_read_per_s.unwrap() - 54_656.34).abs() < 0.01);
        assert!((is.storage_write_per_s.unwrap() - 30_677.32).abs() < 0.01);
        assert!((is.storage_sync_us.unwrap() - 15.0987).abs() < 0.001);
        assert_eq!(is.storage_unmeasured, None);
        let cached = figures(RECORDED, false).unwrap();
        assert_eq!((cached.storage_read_per_s, cached.storage_write_per_s), (None, is.storage_write_per_s));
        assert!(cached.storage_unmeasured.unwrap().contains("page cache"));
    }

    #[test]
    fn what_fio_did_not_do_is_no_figure() {
        let no_space = RECORDED.replacen("\"error\": 0", "\"error\": 28", 1);
        assert_ne!(no_space, RECORDED);
        assert!(figures(&no_space, true).unwrap_err().contains("No space"));
        let nothing_done = RECORDED.replace("54656.343656", "0.0");
        assert_ne!(nothing_done, RECORDED);
        assert_eq!(figures(&nothing_done, true).unwrap().storage_read_per_s, None);
        assert_eq!(figures("fio: cannot", true), Err("fio failed".to_owned()));
        assert_eq!(figures("{ \"jobs\": [", true), Err("fio's answer is not JSON".to_owned()));
        assert_eq!(figures("{ \"jobs\": [] }", true), Err("fio did not read".to_owned()));
    }

    #[test]
    fn the_time_is_halved_and_the_name_kept_whole() {
        let arguments = arguments(Path::new("/a:b/f"), 4096, 1.0, true);
        for wanted in ["--filename=/a\\:b/f", "--runtime=500ms", "--size=4096", "--direct=1", "--fdatasync=1"] {
            assert!(arguments.iter().any(|argument| argument == wanted), "{wanted}: {arguments:?}");
        }
    }

    #[test]
    fn a_folder_is_measured_and_left_empty() {
        let folder = Scratch::new();
        let take_for = |folder: &Path, for_s| Measure { folder, groups: &[], is_throttled: false }.take(for_s);
        let take = |folder: &Path| take_for(folder, 0.2);
        let mut is = take(&folder);
        // On a busy machine a short one may be over before anything was done.
        if is.storage_unmeasured.is_none() && (is.storage_read_per_s.is_none() || is.storage_sync_us.is_none()) {
            is = take_for(&folder, 20.0);
        }
        assert_eq!(fs::read_dir(&*folder).unwrap().count(), 0);
        match &is.storage_unmeasured {
            Some(reason) => assert!(is.storage_read_per_s.is_none() && !reason.is_empty()),
            None => assert!(is.storage_read_per_s.is_some() && is.storage_sync_us.is_some()),
        }
        let nowhere = take(&folder.join("no/such/folder"));
        assert!(nowhere.storage_unmeasured.is_some() && nowhere.storage_write_per_s.is_none());
    }
}
