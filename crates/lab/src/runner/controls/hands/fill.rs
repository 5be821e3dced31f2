//! A file that fills the file system of a folder. It must not touch any other file.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, fstatfs, fstatvfs};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::runner::Refusal;

const NAME: &str = ".plimsoll-full";
/// Written at once where space cannot be reserved.
const PIECE_BYTES: usize = 1 << 20;
/// What is left over when less than this could not be had is for the file system's own use.
const SMALLEST_BYTES: u64 = 4096;
/// `TMPFS_MAGIC` and `RAMFS_MAGIC`.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// Fills it but for so much. Less than that being free already is fine.
pub fn fill(folder: &Path, leave_bytes: u64) -> Result<(), Refusal> {
    empty(folder)?;
    let path = path(folder);
    let refused = |error: &dyn std::fmt::Display| Refusal::System {
        doing: format!("fill the disk with {}", path.display()),
        error: error.to_string(),
    };
    let file = File::options().write(true).create_new(true).open(&path).map_err(|error| refused(&error))?;
    let filled = match is_in_memory(&file) {
        Ok(true) => {
            let reason =
                format!("{} is in memory, and filling it would take that from the whole machine", folder.display());
            Err(Refusal::Cannot { reason })
        }
        Ok(false) => grow(&file, leave_bytes).map_err(|errno| refused(&errno)),
        Err(errno) => Err(refused(&errno)),
    };
    filled.inspect_err(|_| drop(fs::remove_file(&path)))
}

/// Removes what filled it.
pub fn empty(folder: &Path) -> Result<(), Refusal> {
    let path = path(folder);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Refusal::System { doing: format!("remove {}", path.display()), error: error.to_string() })
        }
        _ => Ok(()),
    }
}

fn path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

fn is_in_memory(file: &File) -> Result<bool, Errno> {
    let kind = fstatfs(file)?.f_type as u64;
    Ok(IN_MEMORY.contains(&(kind & 0xffff_ffff)))
}

/// What can still be written: root may also take what is reserved for it.
fn free_bytes(file: &File) -> Result<u64, Errno> {
    let found = fstatvfs(file)?;
    let blocks = if geteuid().is_root() { found.f_bfree } else { found.f_bavail };
    Ok(blocks.saturating_mul(found.f_frsize))
}

fn grow(file: &File, leave_bytes: u64) -> Result<(), Errno> {
    let mut length: u64 = 0;
    let mut most = u64::MAX;
    loop {
        let missing = free_bytes(file)?.saturating_sub(leave_bytes).min(most);
        if missing < SMALLEST_BYTES {
            return Ok(());
        }
        match fallocate(file, FallocateFlags::empty(), length, missing) {
            Ok(()) => length += missing,
            // The list of what belongs to the file needs room, too.
            Err(Errno::NOSPC) => most = missing / 2,
            // A quota is as full as a disk can be for whoever has it.
            Err(Errno::DQUOT | Errno::FBIG) if missing > PIECE_BYTES as u64 => most = missing / 2,
            Err(Errno::DQUOT | Errno::FBIG) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return write(file, leave_bytes),
            Err(errno) => return Err(errno),
        }
    }
}

/// Where space cannot be reserved it is written.
fn write(mut file: &File, leave_bytes: u64) -> Result<(), Errno> {
    let piece = vec![0; PIECE_BYTES];
    loop {
        let missing = free_bytes(file)?.saturating_sub(leave_bytes).min(PIECE_BYTES as u64);
        if missing < SMALLEST_BYTES {
            return Ok(());
        }
        match file.write(&piece[..missing as usize]) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => return Ok(()),
                Some(Errno::INTR) => {}
                errno => return Err(errno.unwrap_or(Errno::IO)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::fixture::Scratch;

    #[test]
    fn what_is_in_memory_is_not_filled() {
        let folder = Path::new("/dev/shm").join(format!("plimsoll-test-{}", std::process::id()));
        if fs::create_dir(&folder).is_err() {
            return;
        }
        let file = File::create(folder.join("x")).unwrap();
        let refused = if is_in_memory(&file).unwrap() { fill(&folder, 0).err() } else { None };
        let left = fs::read_dir(&folder).unwrap().count();
        fs::remove_dir_all(&folder).unwrap();
        if let Some(refused) = refused {
            assert!(
                matches!(refused, Refusal::Cannot { ref reason } if reason.contains("is in memory")),
                "{refused:?}"
            );
        }
        assert_eq!(left, 1);
    }

    /// A file system of 16 MiB; `None` where this user cannot have one.
    struct Small(Scratch);

    impl Small {
        fn make() -> Option<Self> {
            if !geteuid().is_root() {
                return None;
            }
            let scratch = Scratch::new();
            let (image, at) = (scratch.join("image"), scratch.join("at"));
            File::create(&image).unwrap().set_len(16 << 20).unwrap();
            fs::create_dir(&at).unwrap();
            let done = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
            let made = done(Command::new("mkfs.ext4").arg("-q").arg(&image))
                && done(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&at));
            made.then_some(Self(scratch))
        }

        fn at(&self) -> PathBuf {
            self.0.join("at")
        }
    }

    impl Drop for Small {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg(self.at()).status();
        }
    }

    #[test]
    fn a_full_disk_is_full_and_then_is_not() {
        // Needs root, mkfs.ext4 and a loop device.
        let Some(small) = Small::make() else { return };
        let at = small.at();
        fill(&at, 0).unwrap();
        let refused = fs::write(at.join("more"), vec![1; 1 << 16]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::StorageFull);
        let _ = fs::remove_file(at.join("more"));
        fill(&at, 4 << 20).unwrap();
        let file = File::open(path(&at)).unwrap();
        let free = free_bytes(&file).unwrap();
        assert!(free <= 4 << 20 && free > 3 << 20, "{free}");
        fs::write(at.join("more"), vec![1; 1 << 20]).unwrap();
        empty(&at).unwrap();
        empty(&at).unwrap();
        assert!(!path(&at).exists());
    }
}
