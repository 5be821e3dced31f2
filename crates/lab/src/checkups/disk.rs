//! The disk that the records go to.

use experiment::quantity::show_bytes;

use super::{About, Finding, Kind, NOT_TOLD, Patient};

pub static FREE: Kind = Kind {
    name: "free disk",
    about: About::Disk,
    reads: "statvfs(3) of the folder that runs go to",
    why: "a full disk ends the records in the middle of a trial",
    source: "docs/formats.md",
    caught_by: &["full_disk", "cut_off"],
    article: None,
    look: look_at_free,
};

pub static SYNC: Kind = Kind {
    name: "synced writes",
    about: About::Disk,
    reads: "20 writes of 4 KiB in that folder, each with fsync(2); the file is removed",
    why: "a target that syncs on the same disk is bound by it, and so are records: a slow disk can hide what was to be compared",
    source: "https://man7.org/linux/man-pages/man2/fsync.2.html",
    caught_by: &["generator_stall"],
    article: None,
    look: look_at_sync,
};

const GIB: u64 = 1 << 30;

fn look_at_free(patient: &Patient<'_>) -> Finding {
    let Some(free) = patient.measured.free_bytes else { return Finding::unknown(NOT_TOLD) };
    let found = format!("{} where runs go ({})", show_gib(free), patient.measured.folder);
    let remedy = "free some space, or choose another disk with --out";
    match free {
        free if free < GIB / 4 => Finding::bad(found, remedy),
        free if free < 2 * GIB => Finding::notice(found, remedy),
        _ => Finding::good(found),
    }
}

/// With one decimal, so that a disk's free space is a short word.
fn show_gib(bytes: u64) -> String {
    if bytes < GIB { show_bytes(bytes >> 20 << 20) } else { format!("{:.1} GiB", bytes as f64 / GIB as f64) }
}

fn look_at_sync(patient: &Patient<'_>) -> Finding {
    let Some(sync) = patient.measured.sync_us else {
        return Finding::unknown(format!("{} cannot be written to", patient.measured.folder));
    };
    let system = patient.measured.file_system.as_deref().unwrap_or("unknown file system");
    let found = format!("{} at the median, {} at most, on {system}", millis(sync.p50), millis(sync.max));
    if ["tmpfs", "ramfs"].contains(&system) {
        return Finding::notice(
            format!("{found}: in memory, which no disk is"),
            "choose a folder on a disk with --out",
        );
    }
    if sync.p50 > 20_000.0 {
        return Finding::notice(
            found,
            "put the target's data (TMPDIR) or the records (--out) on a faster disk, or say so",
        );
    }
    Finding::good(found)
}

fn millis(us: f64) -> String {
    if us < 100.0 { format!("{us:.0} us") } else { format!("{:.1} ms", us / 1e3) }
}
