//! Measurement of a machine for a profile: cores and their score, memory, link, storage. Figures
//! that cannot be measured are left for the user to fill in.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use record::environment::Environment;
use record::events::HostFigures;
use rustix::fs::OFlags;
use rustix::process::{Signal, kill_process_group};
use serde_json::Value;

use crate::environment;

/// Duration of the storage measurement, seconds.
const STORAGE_S: f64 = 4.0;

const INTERFACES: &str = "/sys/class/net";

/// Measures this machine and returns its profile in TOML. Takes about eight seconds, in which the
/// machine should do nothing else.
///
/// # Errors
/// Basic properties of the machine cannot be read.
pub fn measure() -> Result<String, String> {
    let folder = std::env::temp_dir().join(format!("plimsoll-measure-{}", std::process::id()));
    record::private::create_folder(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let measured = measure_in(&folder);
    let _ = fs::remove_dir_all(&folder);
    measured
}

/// Measures as [`measure`] does, with the test files in this folder.
pub fn measure_in(folder: &Path) -> Result<String, String> {
    let cores = std::thread::available_parallelism().map_err(|error| format!("cannot count the CPUs: {error}"))?.get();
    let alone = score();
    let together = if cores > 1 { score_of_all(cores) } else { None };
    let machine = environment::read(folder);
    let mut disk = MachineBenchmark { folder, groups: &[], is_throttled: false, is_memory: false }.take(STORAGE_S);
    let by_fio = disk.storage_read_per_s.is_some() || disk.storage_write_per_s.is_some();
    if !by_fio {
        disk = measure_disk(folder);
    }
    let found = MachineInventory {
        cores,
        alone,
        together,
        link_mbit_per_s: fastest_link(Path::new(INTERFACES)),
        disk,
        by: if by_fio { "fio" } else { "a loop of reads and synced writes, because fio failed" },
        machine,
    };
    Ok(written(&found))
}

/// Measured properties of the machine.
struct MachineInventory {
    cores: usize,
    /// Rounds/s of one core while the others are idle.
    alone: f64,
    /// Rounds/s of all cores at once.
    together: Option<f64>,
    link_mbit_per_s: Option<u64>,
    disk: HostFigures,
    /// Program that measured the disk.
    by: &'static str,
    machine: Environment,
}

/// Returns the speed of the fastest interface that is a device and reports a speed. Excludes
/// bridges, tunnels and the loopback.
fn fastest_link(interfaces: &Path) -> Option<u64> {
    let interfaces = fs::read_dir(interfaces).ok()?.flatten().map(|entry| entry.path());
    let devices = interfaces.filter(|interface| interface.join("device").exists());
    let speeds = devices.filter_map(|device| fs::read_to_string(device.join("speed")).ok()?.trim().parse::<i64>().ok());
    // An interface that is down reports -1.
    speeds.filter_map(|speed| u64::try_from(speed).ok().filter(|speed| *speed > 0)).max()
}

fn written(found: &MachineInventory) -> String {
    let machine = &found.machine;
    let model = machine.cpu.model.as_deref().unwrap_or("a processor of unknown model");
    let of = machine.hostname.as_deref().unwrap_or("this machine");
    let mut text = format!(
        "# {of}, measured by Plimsoll {}. Save it as profiles/NAME.toml.\n",
        machine.plimsoll.as_deref().unwrap_or_default()
    );
    let _ = writeln!(text, "what = {}", text::toml_string(&format!("{of}: {} × {model}", found.cores)));
    cpu_section(&mut text, found, model);
    if let Some(bytes) = machine.memory_bytes {
        let _ = write!(text, "\n[memory]\nsize = \"{}MiB\"\nsource = \"/proc/meminfo\"\n", bytes / (1 << 20));
    }
    match found.link_mbit_per_s {
        Some(rate) => {
            let _ = write!(text, "\n[link]\nrate = \"{rate}mbit\"\nsource = \"reported by its fastest interface\"\n");
        }
        None => text.push_str("\n# No interface reports its speed.\n# [link]\n# rate = \"1gbit\"\n# source = \"\"\n"),
    }
    disk_section(&mut text, found);
    text.push_str(
        "\n# Fill in from a power meter and an invoice, and add `lifetime_years = 5` at the top of the file.\n# \
         [power]\n# idle_watts = 0\n# load_watts = 0\n# source = \"\"\n\n# [price]\n# amount = 0\n# currency = \
         \"EUR\"\n# source = \"\"\n",
    );
    text
}

fn cpu_section(text: &mut String, found: &MachineInventory, model: &str) {
    let together = found.together.map_or_else(String::new, |together| {
        format!(
            "; all {} cores at once did {:.2} times that",
            found.cores,
            together / found.alone.max(f64::MIN_POSITIVE)
        )
    });
    // Scores are comparable only between builds of the same kind.
    let build = if cfg!(debug_assertions) {
        ", by a build without optimisation: do not compare it with other scores"
    } else {
        ""
    };
    let source = format!("measured on {model}: rounds/s of one core while the others were idle{together}{build}");
    let _ = write!(
        text,
        "\n[cpu]\ncores = {}\n# A virtual core's speed is this score divided by the score of the machine that runs \
         it; `speed = 1` would be full speed.\nscore = {:.0}\nsource = {}\n",
        found.cores,
        found.alone,
        text::toml_string(&source)
    );
}

fn disk_section(text: &mut String, found: &MachineInventory) {
    let figures = [("read_iops", found.disk.storage_read_per_s), ("write_iops", found.disk.storage_write_per_s)];
    let figures: Vec<String> = figures
        .into_iter()
        .filter_map(|(name, figure)| Some(format!("{name} = {:.0}", figure.filter(|figure| *figure >= 1.0)?)))
        .collect();
    if figures.is_empty() {
        let why = found.disk.storage_unmeasured.as_deref().unwrap_or("nothing was measured");
        let why = why.lines().next().unwrap_or_default();
        let _ = write!(
            text,
            "\n# The disk was not measured: {why}\n# [disk]\n# read_iops = 0\n# write_iops = 0\n# source = \"\"\n"
        );
        return;
    }
    let disk = &found.machine.disk;
    let on = match (&disk.device, &disk.file_system) {
        (Some(device), Some(system)) => format!(" on {device} ({system})"),
        _ => String::new(),
    };
    let sync = found.disk.storage_sync_us.map_or_else(String::new, |us| format!("; a sync took {us:.0} us"));
    let source =
        format!("measured{on} by {}: random blocks of 4 KiB, one read at a time, each write synced{sync}", found.by);
    let _ = write!(text, "\n[disk]\n{}\nsource = {}\n", figures.join("\n"), text::toml_string(&source));
}

// Score of a core: rounds of a fixed piece of work per second. The work is integer arithmetic and
// scattered access to a table that fits into a second-level cache, because servers mostly do such
// work. It measures neither vector units nor main memory. A change to the work makes every recorded
// score worthless.

/// Number of table entries of 8 bytes: 256 KiB.
const TABLE: usize = 1 << 15;
/// Number of steps per round.
const STEPS: u32 = 1 << 14;
/// Number of short attempts. The best one counts, because it was disturbed least.
const ATTEMPTS: u32 = 5;
const ATTEMPT: Duration = Duration::from_millis(200);

/// Returns the rounds/s of one core. Takes about one second.
#[must_use]
pub fn score() -> f64 {
    let mut work = BenchmarkWork::new();
    (0..ATTEMPTS).map(|_| work.rounds_per_s(ATTEMPT)).fold(0.0, f64::max)
}

/// Returns the rounds/s of several threads together.
fn score_of_all(threads: usize) -> Option<f64> {
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|number| {
                let name = format!("score-{number}");
                std::thread::Builder::new()
                    .name(name)
                    .spawn_scoped(scope, || BenchmarkWork::new().rounds_per_s(ATTEMPT * ATTEMPTS))
            })
            .collect();
        // Wait for all threads, even if one could not be started.
        let scores: Vec<Option<f64>> = running.into_iter().map(|thread| thread.ok()?.join().ok()).collect();
        scores.into_iter().sum()
    })
}

struct BenchmarkWork {
    table: Vec<u64>,
    state: u64,
}

impl BenchmarkWork {
    fn new() -> Self {
        let mut work = Self { table: vec![0; TABLE], state: 0x9e37_79b9_7f4a_7c15 };
        // Fills the cache and raises the clock of an idle core.
        for _ in 0..64 {
            work.round();
        }
        work
    }

    fn round(&mut self) {
        for _ in 0..STEPS {
            // Marsaglia's xorshift64*, combined with two random table entries.
            self.state ^= self.state >> 12;
            self.state ^= self.state << 25;
            self.state ^= self.state >> 27;
            let drawn = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d);
            let (from, to) = ((drawn >> 49) as usize % TABLE, (drawn >> 34) as usize % TABLE);
            let mixed = self.table[from].rotate_left(7).wrapping_add(drawn);
            self.table[to] = if mixed & 1 == 0 { mixed } else { mixed ^ self.state };
        }
        black_box(&self.table);
    }

    fn rounds_per_s(&mut self, within: Duration) -> f64 {
        let begin = Instant::now();
        let mut rounds = 0_u32;
        while begin.elapsed() < within {
            self.round();
            rounds += 1;
        }
        f64::from(rounds) / begin.elapsed().as_secs_f64()
    }
}

// Disk measurement without fio: random blocks of 4 KiB, first read with direct I/O, then written
// and synced one by one.

/// Size of a block, bytes.
const BLOCK: usize = 4096;
/// Number of blocks in the test file: 16 MiB.
const BLOCKS: u64 = 4096;
/// Duration of the reads, and of the writes.
const EACH: Duration = Duration::from_secs(2);

/// Measures the disk under `folder`. Fills in only the `storage_…` figures.
fn measure_disk(folder: &Path) -> HostFigures {
    let path = folder.join("disk.measure");
    let measured = lay_out(&path).and_then(|()| Ok((reads(&path)?, writes(&path)?)));
    let _ = fs::remove_file(&path);
    match measured {
        Ok((reads_per_s, (writes_per_s, sync_us))) => HostFigures {
            storage_read_per_s: Some(reads_per_s),
            storage_write_per_s: Some(writes_per_s),
            storage_sync_us: Some(sync_us),
            ..HostFigures::default()
        },
        Err(error) => {
            let why = format!("{}: {error}", folder.display());
            HostFigures { storage_unmeasured: Some(why), ..HostFigures::default() }
        }
    }
}

fn lay_out(path: &Path) -> io::Result<()> {
    let file = File::create(path)?;
    for block in 0..BLOCKS {
        file.write_all_at(&[0x5a; BLOCK], block * BLOCK as u64)?;
    }
    file.sync_all()
}

/// Returns random reads/s. A file system without direct I/O is an error, because cached reads say
/// nothing about the disk.
fn reads(path: &Path) -> io::Result<f64> {
    let direct = i32::try_from(OFlags::DIRECT.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).custom_flags(direct).open(path)?;
    // Direct I/O requires memory that is aligned like the disk's blocks.
    let mut memory = vec![0_u8; BLOCK * 2];
    let skip = memory.as_ptr().align_offset(BLOCK);
    let mut random = fastrand::Rng::with_seed(1);
    let begin = Instant::now();
    let mut count = 0_u32;
    while begin.elapsed() < EACH {
        file.read_exact_at(&mut memory[skip..skip + BLOCK], random.u64(..BLOCKS) * BLOCK as u64)?;
        count += 1;
    }
    Ok(f64::from(count) / begin.elapsed().as_secs_f64())
}

/// Returns random synced writes/s, and the mean time of a sync in microseconds.
fn writes(path: &Path) -> io::Result<(f64, f64)> {
    let file = OpenOptions::new().write(true).open(path)?;
    let mut random = fastrand::Rng::with_seed(2);
    let begin = Instant::now();
    let mut syncing = Duration::ZERO;
    let mut count = 0_u32;
    while begin.elapsed() < EACH {
        let content = [random.u8(..); BLOCK];
        file.write_all_at(&content, random.u64(..BLOCKS) * BLOCK as u64)?;
        let written = Instant::now();
        file.sync_data()?;
        syncing += written.elapsed();
        count += 1;
    }
    let count = f64::from(count);
    Ok((count / begin.elapsed().as_secs_f64(), syncing.as_secs_f64() * 1e6 / count))
}

// Storage speed of a host as an application sees it: random reads, and random writes that are
// synced one by one, as a database does. Uses fio, for comparability with other measurements.

const FILE: &str = "storage.measure";
/// Size of the test file. Larger than a disk's track cache, and small enough for a slow disk to
/// write in seconds.
const FILE_BYTES: u64 = 16 << 20;
/// Size of the test file on a throttled disk, where no disk cache can distort the result.
const THROTTLED_BYTES: u64 = 4 << 20;
const MEBIBYTE: u64 = 1 << 20;
/// Time allowed for writing the test file, in addition to the measured time.
const LAYING_OUT: Duration = Duration::from_secs(40);

/// A storage to measure.
pub(super) struct MachineBenchmark<'a> {
    /// Folder of the host's data.
    pub folder: &'a Path,
    /// Join files of the control groups whose limits apply.
    pub groups: &'a [PathBuf],
    /// Whether the limits are below the speed of the machine's own disk.
    pub is_throttled: bool,
    /// Whether the folder is in memory, which has no cache.
    pub is_memory: bool,
}

/// Measures the storage in a folder of this machine for `for_s` seconds. Fills in only the
/// `storage_…` figures.
#[must_use]
pub fn measure_storage(folder: &Path, is_memory: bool, for_s: f64) -> HostFigures {
    MachineBenchmark { folder, groups: &[], is_throttled: false, is_memory }.take(for_s)
}

impl MachineBenchmark<'_> {
    /// Measures for `for_s` seconds in total. Fills in only the `storage_…` figures. Failed
    /// measurements stay empty, and `storage_unmeasured` holds the reason.
    pub fn take(&self, for_s: f64) -> HostFigures {
        let file = self.folder.join(FILE);
        let measured = self.room().and_then(|bytes| {
            if self.is_memory {
                return self.run(arguments(&file, bytes, for_s, false), for_s, true);
            }
            // Not every file system supports direct I/O.
            self.run(arguments(&file, bytes, for_s, true), for_s, true).or_else(|first| match first {
                BenchmarkError::NotStarted(_) => Err(first),
                BenchmarkError::Failed(_) => self.run(arguments(&file, bytes, for_s, false), for_s, false),
            })
        });
        let _ = fs::remove_file(&file);
        measured.unwrap_or_else(|failure| HostFigures {
            storage_unmeasured: Some(failure.reason()),
            ..HostFigures::default()
        })
    }

    /// Returns the file size that fits into the free space.
    fn room(&self) -> Result<u64, BenchmarkError> {
        let folder = self.folder.display();
        let stat = rustix::fs::statvfs(self.folder)
            .map_err(|errno| BenchmarkError::NotStarted(format!("{folder}: {}", io::Error::from(errno))))?;
        let quarter = stat.f_bavail.saturating_mul(stat.f_frsize) / 4;
        let wanted = if self.is_throttled { THROTTLED_BYTES } else { FILE_BYTES };
        let bytes = wanted.min(quarter / MEBIBYTE * MEBIBYTE);
        (bytes > 0).then_some(bytes).ok_or_else(|| {
            BenchmarkError::NotStarted(format!("{folder} has too little free space for the measurement"))
        })
    }

    fn run(&self, arguments: Vec<String>, for_s: f64, past_cache: bool) -> Result<HostFigures, BenchmarkError> {
        let mut command = Command::new("fio");
        command.args(arguments).current_dir(self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = linux::spawn_in(command, self.groups).map_err(|error| {
            BenchmarkError::NotStarted(match error.kind() {
                io::ErrorKind::NotFound => "fio is not installed".to_owned(),
                _ => format!("cannot start fio: {error}"),
            })
        })?;
        let output = output_of(child, Duration::try_from_secs_f64(for_s).unwrap_or_default() + LAYING_OUT)?;
        figures(&output, past_cache).map_err(BenchmarkError::Failed)
    }
}

/// Reason for a missing figure.
#[derive(Debug, PartialEq, Eq)]
enum BenchmarkError {
    /// Another attempt would fail the same way.
    NotStarted(String),
    Failed(String),
}

impl BenchmarkError {
    fn reason(self) -> String {
        match self {
            Self::NotStarted(reason) | Self::Failed(reason) => reason,
        }
    }
}

/// Returns fio's arguments. `psync` makes one request at a time and waits for it. The writes
/// overwrite the file that the reads used, so that they do not measure file growth. They use the
/// page cache, as a database does, so that the sync waits for the disk.
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
        "--time_based".to_owned(),
        format!("--runtime={half_ms}ms"),
        "--thread".to_owned(),
    ];
    let past_cache = format!("--direct={}", u8::from(past_cache));
    let jobs = [
        "--name=read",
        "--rw=randread",
        &past_cache,
        "--name=write",
        "--stonewall",
        "--rw=randwrite",
        "--overwrite=1",
        "--fdatasync=1",
    ];
    all.into_iter().chain(jobs.map(str::to_owned)).collect()
}

/// Returns a program's output until its end. Ignores the exit status, because inside a host another
/// process may reap the program.
fn output_of(mut child: Child, within: Duration) -> Result<String, BenchmarkError> {
    let (output_in, output) = channel();
    let mut stdout = child.stdout.take();
    let reader = std::thread::Builder::new().name("storage".to_owned()).spawn(move || {
        let mut text = String::new();
        let read = stdout.as_mut().map(|stdout| stdout.read_to_string(&mut text));
        let _ = output_in.send(read.unwrap_or(Ok(0)).map(|_| text));
    });
    let output = reader.map_err(|error| BenchmarkError::Failed(error.to_string())).and_then(|_| {
        match output.recv_timeout(within) {
            Ok(read) => read.map_err(|error| BenchmarkError::Failed(format!("fio's output: {error}"))),
            Err(RecvTimeoutError::Timeout) => {
                Err(BenchmarkError::NotStarted(format!("fio did not end within {} s", within.as_secs())))
            }
            Err(RecvTimeoutError::Disconnected) => Err(BenchmarkError::Failed("fio's output was lost".to_owned())),
        }
    });
    if output.is_err()
        && let Some(group) = linux::pid(child.id())
    {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
    output
}

/// Parses fio's JSON. Leaves out reads from the page cache, because they say nothing about the
/// storage.
fn figures(output: &str, past_cache: bool) -> Result<HostFigures, String> {
    // Notes and warnings may precede the JSON.
    let json = output.find('{').map(|at| &output[at..]).ok_or_else(|| "fio failed".to_owned())?;
    let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
    let report = values.next().and_then(Result::ok).ok_or_else(|| "fio's answer is not JSON".to_owned())?;
    let (read, write) = (job(&report, "read")?, job(&report, "write")?);
    let [reads, writes, sync_ns] = [&read["read"]["iops"], &write["write"]["iops"], &write["sync"]["lat_ns"]["mean"]]
        .map(|value| value.as_f64().filter(|value| *value > 0.0));
    Ok(HostFigures {
        storage_read_per_s: reads.filter(|_| past_cache),
        storage_write_per_s: writes,
        storage_sync_us: sync_ns.map(|ns| ns / 1000.0),
        storage_unmeasured: (!past_cache).then(|| "its file system cannot read past the page cache".to_owned()),
        ..HostFigures::default()
    })
}

fn job<'a>(report: &'a Value, name: &str) -> Result<&'a Value, String> {
    let mut jobs = report["jobs"].as_array().into_iter().flatten();
    let job =
        jobs.find(|job| job["jobname"] == name).ok_or_else(|| format!("the output of fio has no job `{name}`"))?;
    match job["error"].as_i64() {
        Some(0) => Ok(job),
        Some(errno) => Err(io::Error::from_raw_os_error(i32::try_from(errno).unwrap_or(0)).to_string()),
        None => Err("the output of fio has no error status".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use experiment::profile::{self, Profile};
    use experiment::source::Source;
    use fixture::TestDir;
    use record::environment::{Cpu, RunFolderDisk};

    use super::*;

    fn found() -> MachineInventory {
        MachineInventory {
            cores: 4,
            alone: 20_000.4,
            together: Some(70_000.0),
            link_mbit_per_s: Some(1000),
            disk: HostFigures {
                storage_read_per_s: Some(8000.2),
                storage_write_per_s: Some(900.0),
                storage_sync_us: Some(1100.0),
                ..HostFigures::default()
            },
            by: "fio",
            machine: Environment {
                hostname: Some("pi".into()),
                cpu: Cpu { model: Some("A \"quoted\" processor".into()), ..Cpu::default() },
                memory_bytes: Some(1 << 30),
                disk: RunFolderDisk {
                    device: Some("/dev/sda1".into()),
                    file_system: Some("ext4".into()),
                    ..RunFolderDisk::default()
                },
                ..Environment::default()
            },
        }
    }

    fn read(text: &str) -> Profile {
        let source = Source { name: "measured.toml".into(), text: text.into() };
        profile::parse("measured", &source).unwrap_or_else(|problems| panic!("{}\n{text}", problems.render(false)))
    }

    #[test]
    fn an_inventory_becomes_a_profile() {
        let profile = read(&written(&found()));
        assert_eq!((profile.cores, profile.core_speed, profile.score), (Some(4), None, Some(20_000.0)));
        assert_eq!((profile.memory_bytes, profile.link.rate_bits_per_s), (Some(1 << 30), Some(1e9)));
        assert_eq!((profile.disk.read_iops, profile.disk.write_iops), (Some(8000.0), Some(900.0)));
        assert!(profile.source.contains("3.50 times") && profile.source.contains("fio"), "{}", profile.source);
        assert_eq!((profile.idle_watts, profile.price), (None, None), "nobody measured that");
    }

    #[test]
    fn unknown_figures_are_left_as_comments() {
        let disk = HostFigures { storage_unmeasured: Some("full\nof lines".into()), ..HostFigures::default() };
        let text = written(&MachineInventory {
            together: None,
            link_mbit_per_s: None,
            disk,
            machine: Environment::default(),
            ..found()
        });
        let profile = read(&text);
        assert!(profile.link.is_unlimited() && !profile.disk.is_throttled() && profile.memory_bytes.is_none());
        assert!(text.contains("# rate = ") && text.contains("not measured: full\n"), "{text}");
    }

    #[test]
    fn the_fastest_device_counts() {
        let folder = TestDir::new();
        for (name, speed, device) in
            [("eth0", "100", true), ("eth1", "1000", true), ("br0", "10000", false), ("wlan0", "-1", true)]
        {
            folder.write(&format!("{name}/speed"), speed);
            if device {
                folder.write(&format!("{name}/device/vendor"), "");
            }
        }
        assert_eq!(fastest_link(&folder), Some(1000));
        assert_eq!(fastest_link(&folder.join("none")), None);
    }

    #[test]
    fn cores_and_disks_are_measured() {
        assert!(score() > 0.0);
        assert!(score_of_all(2).unwrap() > 0.0);
        let folder = TestDir::new();
        let figures = measure_disk(&folder);
        assert!(figures.storage_write_per_s.is_some() || figures.storage_unmeasured.is_some());
        assert_eq!(fs::read_dir(&*folder).unwrap().count(), 0, "nothing is left");
    }

    const RECORDED: &str = include_str!("../fixtures/fio/3.33.json");

    #[test]
    fn the_output_of_fio_is_parsed() {
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
    fn fio_failures_give_no_figures() {
        let no_space = RECORDED.replacen("\"error\": 0", "\"error\": 28", 1);
        assert_ne!(no_space, RECORDED);
        assert!(figures(&no_space, true).unwrap_err().contains("No space"));
        let nothing_done = RECORDED.replace("54656.343656", "0.0");
        assert_ne!(nothing_done, RECORDED);
        assert_eq!(figures(&nothing_done, true).unwrap().storage_read_per_s, None);
        assert_eq!(figures("fio: cannot", true), Err("fio failed".to_owned()));
        assert_eq!(figures("{ \"jobs\": [", true), Err("fio's answer is not JSON".to_owned()));
        assert_eq!(figures("{ \"jobs\": [] }", true), Err("the output of fio has no job `read`".to_owned()));
    }

    #[test]
    fn fio_gets_half_the_time_and_an_escaped_name() {
        let arguments = arguments(Path::new("/a:b/f"), 4096, 1.0, true);
        for wanted in ["--filename=/a\\:b/f", "--runtime=500ms", "--size=4096", "--direct=1", "--fdatasync=1"] {
            assert!(arguments.iter().any(|argument| argument == wanted), "{wanted}: {arguments:?}");
        }
    }

    #[test]
    fn a_folder_is_measured_and_left_empty() {
        let folder = TestDir::new();
        let take_for = |folder: &Path, for_s| {
            MachineBenchmark { folder, groups: &[], is_throttled: false, is_memory: false }.take(for_s)
        };
        let take = |folder: &Path| take_for(folder, 0.2);
        let mut is = take(&folder);
        // On a busy machine a short measurement may end before any operation.
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
