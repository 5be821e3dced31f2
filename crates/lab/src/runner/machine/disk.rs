//! Measures a disk where fio is not there: random blocks of 4 KiB, read past the page cache, then written and synced one
//! by one. It must not leave a file behind.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use record::events::HostFigures;
use rustix::fs::OFlags;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 4096;
const EACH: Duration = Duration::from_secs(2);

/// The figures of the disk under `folder`; nothing but `storage_…` is filled in.
pub fn measure(folder: &Path) -> HostFigures {
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

/// Random reads/s. A file system that cannot go past the page cache is an error: what its cache does says nothing.
fn reads(path: &Path) -> io::Result<f64> {
    let direct = i32::try_from(OFlags::DIRECT.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).custom_flags(direct).open(path)?;
    // Past the cache, memory has to be aligned as the disk's blocks are.
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

/// Random synced writes/s, and the mean time of a sync, microseconds.
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
