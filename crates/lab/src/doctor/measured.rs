//! What of a machine no file tells: it is measured, in about two seconds. Nothing of it stays behind.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use rustix::time::{ClockId, clock_getres};

use super::runtime::{self, Erlang};
use super::sample::{self, Noise};
use crate::environment::{self, Root};
use crate::hosts::netns;
use crate::linux::clock;

/// What was measured; none where it was not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// Whether we are root.
    pub is_root: Option<bool>,
    /// CPUs that we may use.
    pub cpus: Option<u64>,
    /// Who else used the CPU in a second.
    pub noise: Option<Noise>,
    /// Smallest step of the monotonic clock's timers.
    pub timer_resolution_ns: Option<u64>,
    /// How late pauses of a millisecond ended.
    pub late_us: Option<Spread>,
    /// Whether the kernel says that its clock is synchronised.
    pub is_synchronised: Option<bool>,
    /// The program that synchronises it.
    pub time_keeper: Option<String>,
    /// The folder that runs go to.
    pub folder: String,
    /// Free there.
    pub free_bytes: Option<u64>,
    /// Type of its file system.
    pub file_system: Option<String>,
    /// How long a write of 4 KiB there takes with its sync.
    pub sync_us: Option<Spread>,
    /// What links can be made like; none without root.
    pub links: Option<Links>,
    /// Erlang, if it is installed.
    pub erlang: Option<Erlang>,
}

/// Of repeated measurements, in the unit that the name of the field says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The median.
    pub p50: f64,
    /// The largest.
    pub max: f64,
}

/// What links of virtual hosts can be made like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Links {
    /// Whether there is a program to make them with.
    pub has_tc: bool,
    /// A limited rate.
    pub rate: bool,
    /// A delay.
    pub delay: bool,
}

const PAUSES: usize = 100;
const PAUSE: Duration = Duration::from_millis(1);
const SYNCS: usize = 20;
/// A disk that needs longer than this for all of them has said enough.
const SYNCS_PATIENCE: Duration = Duration::from_secs(2);

impl Measured {
    /// This machine; `folder` is where runs go, or will.
    #[must_use]
    pub fn here(folder: &Path) -> Self {
        // Pauses are made in the second in which others are watched: they use no CPU.
        let (noise, late_us) = sample::noise_while(late_us);
        Self {
            noise,
            late_us,
            timer_resolution_ns: resolution_ns(),
            is_synchronised: clock::is_synchronised(),
            time_keeper: environment::time_keeper(&Root::at(Path::new("/"))),
            links: geteuid().is_root().then(netns::what_links_can_be),
            erlang: runtime::erlang(),
            ..Self::without_time(folder)
        }
    }

    /// What takes no time and is the same whichever files are looked at.
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

/// How late pauses end, microseconds.
fn late_us() -> Option<Spread> {
    // Nobody ever sends: what ends a pause is its time.
    let (_sender, silence) = channel::<()>();
    let late = (0..PAUSES).map(|_| {
        let begun = Instant::now();
        let _ = silence.recv_timeout(PAUSE);
        begun.elapsed().saturating_sub(PAUSE).as_secs_f64() * 1e6
    });
    Spread::of(late.collect())
}

/// How long writes of 4 KiB in this folder take, each with its sync; the file is removed. None where nothing can be written.
#[must_use]
pub fn sync_us(folder: &Path, times: usize) -> Option<Spread> {
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
    Spread::of(took_us)
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        Some(Self { p50: *values.get(values.len() / 2)?, max: *values.last()? })
    }
}
