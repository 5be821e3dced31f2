//! Tests of filling a file system, in memory and on a small one of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

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
        assert!(matches!(refused, Refusal::Cannot { ref reason } if reason.contains("is in memory")), "{refused:?}");
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
