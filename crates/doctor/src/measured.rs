//! Properties of a machine that no file provides. Measuring them takes about two seconds and leaves
//! nothing behind.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use lab::hosts::{LinkSupport, what_links_can_be};
use lab::{Hook, OutputStream};
use linux::procfs;
use runner::environment::{self, RecordedRoot};
use runner::probes::CpuTicks;
use rustix::process::geteuid;
use rustix::time::{ClockId, clock_getres};

use crate::persistent_memory::PersistentMemory;

/// Measured properties. A property is `None` if it was not measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// Whether this process is root.
    pub is_root: Option<bool>,
    /// Number of CPUs that this process may use.
    pub cpus: Option<u64>,
    /// CPU use by other programs and the hypervisor, measured for one second.
    pub noise: Option<CpuNoise>,
    /// Resolution of the monotonic clock's timers.
    pub timer_resolution_ns: Option<u64>,
    /// Lateness of pauses of one millisecond.
    pub late_us: Option<MeasuredSpread>,
    /// Whether the kernel reports its clock as synchronised.
    pub is_synchronised: Option<bool>,
    /// Program that synchronises the clock.
    pub time_keeper: Option<String>,
    /// Folder in which runs are recorded.
    pub folder: String,
    /// Free space in the folder.
    pub free_bytes: Option<u64>,
    /// Type of the folder's file system.
    pub file_system: Option<String>,
    /// Duration of a write of 4 KiB in the folder, including its sync.
    pub sync_us: Option<MeasuredSpread>,
    /// Link properties that can be set. `None` if this process is not root.
    pub links: Option<LinkSupport>,
    /// Erlang runtime, if it is installed.
    pub erlang: Option<Erlang>,
    /// Persistent memory, from `ndctl` and `ipmctl`.
    pub persistent: PersistentMemory,
}

/// Spread of repeated measurements, in the unit of the field's name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredSpread {
    pub p50: f64,
    pub max: f64,
}

const PAUSES: usize = 100;
const PAUSE: Duration = Duration::from_millis(1);
const SYNCS: usize = 20;
/// Time after which no further sync is started, because a slow disk would delay the report.
const SYNCS_PATIENCE: Duration = Duration::from_secs(2);

impl Measured {
    /// Measures this machine. `folder` is the folder in which runs are recorded; it need not exist.
    #[must_use]
    pub fn here(folder: &Path) -> Self {
        // The pauses run in the same second as the CPU measurement, because they use no CPU.
        let (noise, late_us) = noise_while(late_us);
        Self {
            noise,
            late_us,
            timer_resolution_ns: resolution_ns(),
            is_synchronised: linux::is_clock_synchronised(),
            time_keeper: environment::time_keeper(&RecordedRoot::at(Path::new("/"))),
            links: geteuid().is_root().then(what_links_can_be),
            erlang: erlang(),
            persistent: PersistentMemory::parse(&says("ndctl", &["list", "-RND"]), &says("ipmctl", &["show", "-dimm"])),
            ..Self::without_time(folder)
        }
    }

    /// Measures only this process's rights, the number of CPUs and the disk in `folder`, for use
    /// with the recorded files of a machine.
    #[must_use]
    pub fn without_time(folder: &Path) -> Self {
        let disk = environment::disk_of(folder);
        Self {
            is_root: Some(geteuid().is_root()),
            cpus: std::thread::available_parallelism().ok().map(|cpus| cpus.get() as u64),
            folder: folder.display().to_string(),
            free_bytes: disk.free_bytes,
            file_system: disk.file_system,
            sync_us: sync_us(folder, SYNCS),
            ..Self::default()
        }
    }
}

fn resolution_ns() -> Option<u64> {
    let resolution = clock_getres(ClockId::Monotonic);
    u64::try_from(resolution.tv_sec * 1_000_000_000 + resolution.tv_nsec).ok()
}

/// Measures the lateness of pauses, microseconds.
fn late_us() -> Option<MeasuredSpread> {
    // Nothing is ever sent, so each pause ends by timeout.
    let (_sender, silence) = channel::<()>();
    let late = (0..PAUSES).map(|_| {
        let begun = Instant::now();
        let _ = silence.recv_timeout(PAUSE);
        begun.elapsed().saturating_sub(PAUSE).as_secs_f64() * 1e6
    });
    MeasuredSpread::of(late.collect())
}

/// Measures the duration of writes of 4 KiB to a temporary file in this folder, including their
/// syncs. Returns `None` if the folder is not writable.
#[must_use]
pub fn sync_us(folder: &Path, times: usize) -> Option<MeasuredSpread> {
    let folder = environment::existing(folder)?;
    let path = folder.join(format!(".plimsoll-sync-{}", std::process::id()));
    let file = File::options().write(true).create_new(true).open(&path).ok()?;
    let begun = Instant::now();
    let mut took_us = Vec::new();
    while took_us.len() < times && begun.elapsed() < SYNCS_PATIENCE {
        let at = Instant::now();
        let block = [u8::try_from(took_us.len() % 251).unwrap_or(0); 4096];
        if file.write_all_at(&block, took_us.len() as u64 * 4096).and_then(|()| file.sync_all()).is_err() {
            break;
        }
        took_us.push(at.elapsed().as_secs_f64() * 1e6);
    }
    let _ = fs::remove_file(&path);
    MeasuredSpread::of(took_us)
}

impl MeasuredSpread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        Some(Self { p50: *values.get(values.len() / 2)?, max: *values.last()? })
    }
}

// Properties of the installed Erlang.

/// Properties of the Erlang runtime when it is started without flags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Erlang {
    /// Release number, such as `25`.
    pub release: u32,
    /// Version, such as `25.2.3`.
    pub version: String,
    /// Number of scheduler threads that are online.
    pub schedulers_online: u64,
    /// Maximum number of processes.
    pub processes: u64,
    /// Maximum number of ports.
    pub ports: u64,
}

/// Time limit for each program that is run.
const WITHIN: Duration = Duration::from_secs(5);

const QUESTION: &str = r#"
    Release = erlang:system_info(otp_release),
    File = filename:join([code:root_dir(), "releases", Release, "OTP_VERSION"]),
    Version = case file:read_file(File) of {ok, Text} -> Text; _ -> Release end,
    io:format("~s ~s ~b ~b ~b~n", [Release, string:strip(hd(string:tokens(lists:flatten(io_lib:format("~s", [Version])), "\n"))),
        erlang:system_info(schedulers_online), erlang:system_info(process_limit), erlang:system_info(port_limit)]),
    halt()."#;

/// Returns a hook that runs a program in `PATH` with these arguments.
fn asked(program: &str, arguments: &[&str]) -> Hook {
    Hook {
        name: program.to_owned(),
        folder: std::env::temp_dir(),
        path: PathBuf::from(program),
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        environment: BTreeMap::new(),
        within: WITHIN,
        answer_bytes: runner::KEPT_BYTES,
        in_foreground: false,
    }
}

/// Returns a program's output. Empty if the program does not exist or fails.
fn says(program: &str, arguments: &[&str]) -> String {
    let mut output = String::new();
    let status = asked(program, arguments).run(&mut |stream, line| {
        if stream == OutputStream::Output {
            output.push_str(line);
            output.push('\n');
        }
    });
    status.ok().filter(std::process::ExitStatus::success).map_or_else(String::new, |_| output)
}

/// Returns the properties of the Erlang in `PATH`.
fn erlang() -> Option<Erlang> {
    let hook = asked("erl", &["-noshell", "-noinput", "-eval", QUESTION]);
    let mut properties = None;
    let status = hook.run(&mut |stream, line| {
        if stream == OutputStream::Output && properties.is_none() {
            properties = parse_erlang(line);
        }
    });
    status.ok().filter(std::process::ExitStatus::success).and(properties)
}

fn parse_erlang(line: &str) -> Option<Erlang> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [release, version, schedulers, processes, ports] = words.as_slice() else { return None };
    Some(Erlang {
        // Before 17, releases had names such as R16B03.
        release: release.trim_start_matches('R').split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?,
        version: (*version).to_owned(),
        schedulers_online: schedulers.parse().ok()?,
        processes: processes.parse().ok()?,
        ports: ports.parse().ok()?,
    })
}

// CPU use over one second.

const SECOND: Duration = Duration::from_secs(1);
/// Maximum number of programs that a report names.
const NAMED: usize = 3;

/// CPU use by other programs and by the hypervisor, in percent of all processors.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CpuNoise {
    /// CPU use by programs other than this one.
    pub others_pct: f64,
    /// Busiest other programs, with name and CPU use. Programs with the same name are added up.
    pub busiest: Vec<(String, f64)>,
    /// Time taken by the hypervisor. `None` if the kernel does not report it.
    pub steal_pct: Option<f64>,
}

struct DoctorMeasurement {
    machine: CpuTicks,
    programs: BTreeMap<(u32, u64), (String, u64)>,
}

fn look() -> Option<DoctorMeasurement> {
    let machine = CpuTicks::parse(&procfs::text(Path::new("/proc/stat"))?, "cpu ")?;
    let programs = procfs::alive()
        .into_iter()
        .map(|stat| ((stat.pid, stat.started_ticks), (stat.name, stat.user_ticks + stat.system_ticks)));
    Some(DoctorMeasurement { machine, programs: programs.collect() })
}

/// Measures CPU use for one second, and runs `meanwhile` in it.
fn noise_while<T>(meanwhile: impl FnOnce() -> T) -> (Option<CpuNoise>, T) {
    let (begun, before) = (Instant::now(), look());
    let done = meanwhile();
    let (_sender, silence) = channel::<()>();
    let _ = silence.recv_timeout(SECOND.saturating_sub(begun.elapsed()));
    let noise = before.zip(look()).and_then(|(before, after)| between(&before, &after, std::process::id()));
    (noise, done)
}

fn between(before: &DoctorMeasurement, after: &DoctorMeasurement, ours: u32) -> Option<CpuNoise> {
    let total = after.machine.total().checked_sub(before.machine.total()).filter(|total| *total > 0)? as f64;
    let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
    let mut own = 0;
    for (key, (name, ticks)) in &after.programs {
        let used = ticks.saturating_sub(before.programs.get(key).map_or(0, |(_, ticks)| *ticks));
        if key.0 == ours {
            own = used;
        } else {
            *by_name.entry(name).or_default() += used;
        }
    }
    // Programs that ended in between are included only in the machine's total.
    let busy = after.machine.busy().saturating_sub(before.machine.busy()).saturating_sub(own);
    let mut busiest: Vec<(String, f64)> =
        by_name.into_iter().map(|(name, ticks)| (name.to_owned(), ticks as f64 / total * 100.0)).collect();
    busiest.retain(|(_, pct)| *pct >= 1.0);
    busiest.sort_by(|a, b| b.1.total_cmp(&a.1));
    busiest.truncate(NAMED);
    let steal = after.machine.steal.zip(before.machine.steal).map(|(after, before)| after.saturating_sub(before));
    Some(CpuNoise {
        others_pct: busy as f64 / total * 100.0,
        busiest,
        steal_pct: steal.map(|steal| steal as f64 / total * 100.0),
    })
}

#[cfg(test)]
mod tests {
    use fixture::TestDir;

    use super::*;

    #[test]
    fn this_machine_can_be_measured() {
        let folder = TestDir::new();
        let measured = Measured::here(&folder);
        assert!(measured.is_root.is_some() && measured.cpus.is_some_and(|cpus| cpus > 0));
        assert!(measured.noise.is_some() && measured.late_us.is_some() && measured.timer_resolution_ns.is_some());
        assert!(measured.sync_us.is_some() && measured.free_bytes.is_some() && measured.file_system.is_some());
        assert!(measured.is_synchronised.is_some());
        assert_eq!(fs::read_dir(&*folder).unwrap().count(), 0, "the measured file was left");
    }

    #[test]
    fn the_erlang_answer_is_parsed() {
        let erlang = parse_erlang("25 25.2.3 2 262144 65536").unwrap();
        assert_eq!((erlang.release, erlang.version.as_str()), (25, "25.2.3"));
        assert_eq!((erlang.schedulers_online, erlang.processes, erlang.ports), (2, 262_144, 65_536));
        assert_eq!(parse_erlang("R16B03 R16B03 2 262144 65536").unwrap().release, 16);
        assert_eq!(parse_erlang("{\"init terminating\"}"), None);
        assert_eq!(parse_erlang(""), None);
    }

    fn look_with(stat: &str, programs: &[(u32, &str, u64)]) -> DoctorMeasurement {
        DoctorMeasurement {
            machine: CpuTicks::parse(stat, "cpu ").unwrap(),
            programs: programs.iter().map(|(pid, name, ticks)| ((*pid, 7), ((*name).to_owned(), *ticks))).collect(),
        }
    }

    #[test]
    fn own_cpu_time_is_not_counted_as_others() {
        let before =
            look_with("cpu  100 0 100 1000 0 0 0 0", &[(1, "plimsoll", 10), (2, "rustc", 50), (3, "rustc", 5)]);
        let after =
            look_with("cpu  150 0 110 1130 0 0 0 10", &[(1, "plimsoll", 20), (2, "rustc", 80), (3, "rustc", 15)]);
        let noise = between(&before, &after, 1).unwrap();
        // 60 of 200 ticks were busy, 10 of them by this program.
        assert_eq!((noise.others_pct, noise.steal_pct), (25.0, Some(5.0)));
        assert_eq!(noise.busiest, [("rustc".to_owned(), 20.0)]);
    }

    #[test]
    fn equal_readings_give_no_result() {
        let look = look_with("cpu  100 0 100 1000", &[]);
        assert_eq!(between(&look, &look, 1), None);
        let later = look_with("cpu  100 0 100 1100", &[]);
        let noise = between(&look, &later, 1).unwrap();
        assert_eq!((noise.others_pct, noise.steal_pct), (0.0, None));
    }

    #[test]
    fn a_reused_pid_counts_from_its_start() {
        let before = look_with("cpu  0 0 0 0 0 0 0 0", &[(2, "old", 1000)]);
        let mut after = look_with("cpu  50 0 0 50 0 0 0 0", &[]);
        after.programs.insert((2, 9), ("new".to_owned(), 40));
        assert_eq!(between(&before, &after, 1).unwrap().busiest, [("new".to_owned(), 40.0)]);
    }
}
