//! Mounts in a private mount namespace, and loop devices.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, NoArg, Opcode, Setter, ioctl, opcode};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};

/// A file or folder that stays accessible when something is mounted over its path.
#[derive(Debug)]
pub struct PinnedPath {
    handle: OwnedFd,
    is_folder: bool,
}

impl PinnedPath {
    /// Opens the path. The path must be in the mount namespace in which it will be mounted.
    pub fn hold(path: &Path) -> io::Result<Self> {
        let handle = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let is_folder = File::from(handle.try_clone()?).metadata()?.is_dir();
        Ok(Self { handle, is_folder })
    }

    /// Returns a path that leads to the file or folder.
    fn name(&self) -> String {
        format!("/proc/self/fd/{}", self.handle.as_raw_fd())
    }

    /// Mounts the file or folder at `to`, which is made if it does not exist.
    pub fn show(&self, to: &Path, writable: bool) -> io::Result<()> {
        make(to, self.is_folder)?;
        mount_bind(self.name().as_str(), to)?;
        if !writable {
            mount_remount(to, MountFlags::BIND | MountFlags::RDONLY, c"")?;
        }
        Ok(())
    }
}

/// Makes an empty file or folder unless one exists.
fn make(path: &Path, folder: bool) -> io::Result<()> {
    if folder {
        return fs::create_dir_all(path);
    }
    if path.exists() {
        return Ok(());
    }
    if let Some(above) = path.parent() {
        fs::create_dir_all(above)?;
    }
    File::create(path).map(drop)
}

/// Missing mount points, made without changing the disk: a file system in memory is mounted over
/// the folder in which a mount point is missing, and the folder's contents are mounted into it
/// again.
#[derive(Debug)]
pub struct MountPoints {
    /// Temporary mount point for the covered folder.
    scratch: PathBuf,
    /// Device numbers of the file systems that were made.
    devices: Vec<u64>,
}

impl MountPoints {
    /// Sets the temporary mount point. `scratch` must not exist, and must be in a private file
    /// system.
    #[must_use]
    pub fn with(scratch: &Path) -> Self {
        Self { scratch: scratch.to_path_buf(), devices: Vec::new() }
    }

    /// Returns the real path of the folder `path`, and makes the folder if it does not exist. Calls
    /// `allow` before making it.
    ///
    /// # Errors
    /// `allow` refuses, or a system call fails.
    pub fn folder(&mut self, path: &Path, allow: impl Fn(&Path) -> io::Result<()>) -> io::Result<PathBuf> {
        let mut there = path;
        let found = loop {
            match (fs::canonicalize(there), there.parent()) {
                (Err(error), Some(above)) if error.kind() == io::ErrorKind::NotFound => there = above,
                (found, _) => break found?,
            }
        };
        let rest = path.strip_prefix(there).unwrap_or(Path::new(""));
        // Joining an empty path would append a `/`.
        let place = if rest.as_os_str().is_empty() { found.clone() } else { found.join(rest) };
        allow(&place)?;
        if place == found {
            return Ok(place);
        }
        if !self.devices.contains(&fs::metadata(&found)?.dev()) {
            self.cover(&found)?;
        }
        fs::create_dir_all(&place)?;
        Ok(place)
    }

    fn cover(&mut self, folder: &Path) -> io::Result<()> {
        let found = fs::metadata(folder)?;
        fs::create_dir(&self.scratch)?;
        mount_bind_recursive(folder, &self.scratch)?;
        memory(folder, found.mode() & 0o7777)?;
        chown(folder, Some(found.uid()), Some(found.gid()))?;
        for entry in fs::read_dir(&self.scratch)? {
            let entry = entry?;
            match show_again(&entry, &folder.join(entry.file_name())) {
                // The entry was removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                shown => shown?,
            }
        }
        self.devices.push(fs::metadata(folder)?.dev());
        unmount(&self.scratch, UnmountFlags::DETACH)?;
        fs::remove_dir(&self.scratch)
    }
}

fn show_again(entry: &fs::DirEntry, at: &Path) -> io::Result<()> {
    let kind = entry.file_type()?;
    if kind.is_symlink() {
        return symlink(fs::read_link(entry.path())?, at);
    }
    make(at, kind.is_dir())?;
    Ok(mount_bind_recursive(entry.path(), at)?)
}

/// Makes all mounts private: changes in this mount namespace and in others are no longer visible to
/// each other.
pub fn keep_to_ourselves() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

/// Mounts an empty file system in memory.
pub fn memory(at: &Path, mode: u32) -> io::Result<()> {
    let options = std::ffi::CString::new(format!("mode={mode:o}"))?;
    Ok(mount("tmpfs", at, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?)
}

/// Mounts an empty file system in memory with this size.
pub fn sized_memory(at: &Path, mode: u32, bytes: u64) -> io::Result<()> {
    let options = std::ffi::CString::new(format!("mode={mode:o},size={bytes}"))?;
    Ok(mount("tmpfs", at, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?)
}

/// Mounts the ext4 file system of a loop device, without barriers. The kernel counts the flush that
/// ends a sync as a separate write, so with barriers a disk limited to 200 writes/s would do only
/// 100 synced writes/s. No data is lost, because the file behind a loop device outlives the host.
pub fn volume(device: &Path, at: &Path) -> io::Result<()> {
    let flags = MountFlags::NOATIME | MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount(device, at, "ext4", flags, c"barrier=0")?)
}

/// Mounts a read-only /sys that shows the current network namespace. `within` (the cgroups) is
/// mounted into it.
pub fn own_sys(within: Option<(&PinnedPath, &Path)>) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    mount("sysfs", "/sys", "sysfs", flags, None)?;
    within.map_or(Ok(()), |(place, at)| Ok(mount_bind_recursive(place.name().as_str(), at)?))
}

// Loop devices: files as block devices, which are freed when no process has them open.

/// `<linux/loop.h>`.
const CONFIGURE: Opcode = opcode::none(b'L', 0x0A);
const CLEAR: Opcode = opcode::none(b'L', 0x01);
const GET_FREE: Opcode = opcode::none(b'L', 0x82);
const AUTOCLEAR: u32 = 4;
/// Maximum number of attempts. An attempt fails if another process takes the same free device.
const ATTEMPTS: u32 = 64;

/// An attached loop device. The kernel frees it when this value is dropped and nothing is mounted
/// from it.
#[derive(Debug)]
pub struct Attached {
    /// Path of the device: `/dev/loop3`.
    pub device: PathBuf,
    /// Keeps the device attached while it is open.
    _held: File,
}

/// Attaches `file` to a free device. Calls `announce` with the device before attaching it.
/// `refused` converts a system error.
///
/// # Errors
/// The result of `announce` or `refused`.
pub fn attach_loop<E>(
    file: &Path,
    mut announce: impl FnMut(&Path) -> Result<(), E>,
    refused: impl Fn(io::Error) -> E,
) -> Result<Attached, E> {
    let backing = File::options().read(true).write(true).open(file).map_err(&refused)?;
    for _ in 0..ATTEMPTS {
        let device = PathBuf::from(format!("/dev/loop{}", free_loop().map_err(&refused)?));
        announce(&device)?;
        let held = File::options().read(true).write(true).open(&device).map_err(&refused)?;
        match configure(&held, &backing, file) {
            Ok(()) => return Ok(Attached { device, _held: held }),
            Err(Errno::BUSY) => {}
            Err(errno) => return Err(refused(errno.into())),
        }
    }
    Err(refused(Errno::BUSY.into()))
}

/// Frees a device that is attached to `file`. Returns false if the device is attached to another
/// file or to none.
pub fn detach_loop(device: &Path, file: &Path) -> io::Result<bool> {
    if backing_file(device).as_deref() != Some(file) {
        return Ok(false);
    }
    let held = File::options().read(true).open(device)?;
    clear(&held).map(|()| true)
}

/// Returns the file to which a device is attached.
pub fn backing_file(device: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(sys(device)?.join("loop/backing_file")).ok()?;
    let name = text.trim_end_matches('\n');
    Some(PathBuf::from(name.strip_suffix(" (deleted)").unwrap_or(name)))
}

fn sys(device: &Path) -> Option<PathBuf> {
    Some(Path::new("/sys/block").join(device.file_name()?))
}

/// Whether a path is that of a loop device.
pub fn is_loop_device(device: &Path) -> bool {
    let number = device.to_str().and_then(|path| path.strip_prefix("/dev/loop"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn free_loop() -> io::Result<u32> {
    let control = File::options().read(true).write(true).open("/dev/loop-control")?;
    ask_free(&control)
}

#[expect(unsafe_code, reason = "an ioctl")]
fn ask_free(control: &File) -> io::Result<u32> {
    struct GetFree;
    // SAFETY: the call takes no argument and returns a number.
    unsafe impl Ioctl for GetFree {
        type Output = u32;
        const IS_MUTATING: bool = false;
        fn opcode(&self) -> Opcode {
            GET_FREE
        }
        fn as_ptr(&mut self) -> *mut std::ffi::c_void {
            std::ptr::null_mut()
        }
        unsafe fn output_from_ptr(out: IoctlOutput, _: *mut std::ffi::c_void) -> rustix::io::Result<u32> {
            u32::try_from(out).map_err(|_| Errno::RANGE)
        }
    }
    // SAFETY: the file is /dev/loop-control, which supports this call.
    Ok(unsafe { ioctl(control, GetFree) }?)
}

/// `struct loop_config` with its `struct loop_info64`.
#[repr(C)]
struct Config {
    file: u32,
    block_size: u32,
    /// `lo_device` to `lo_sizelimit`.
    places: [u64; 5],
    /// `lo_number` to `lo_encrypt_key_size`.
    numbers: [u32; 3],
    flags: u32,
    file_name: [u8; 64],
    /// `lo_crypt_name`, `lo_encrypt_key`.
    crypt: [u8; 96],
    init: [u64; 2],
    reserved: [u64; 8],
}

#[expect(unsafe_code, reason = "an ioctl")]
fn configure(device: &File, backing: &File, file: &Path) -> rustix::io::Result<()> {
    let mut file_name = [0; 64];
    // Shown by losetup. The last byte stays 0.
    for (to, from) in file_name.iter_mut().zip(file.as_os_str().as_encoded_bytes().iter().take(63)) {
        *to = *from;
    }
    let config = Config {
        file: u32::try_from(backing.as_raw_fd()).map_err(|_| Errno::BADF)?,
        block_size: 0,
        places: [0; 5],
        numbers: [0; 3],
        flags: AUTOCLEAR,
        file_name,
        crypt: [0; 96],
        init: [0; 2],
        reserved: [0; 8],
    };
    // SAFETY: `Config` has the layout of the kernel's `struct loop_config`, and is only read.
    unsafe { ioctl(device, Setter::<CONFIGURE, Config>::new(config)) }
}

#[expect(unsafe_code, reason = "an ioctl")]
fn clear(device: &File) -> io::Result<()> {
    // SAFETY: the call takes no argument.
    match unsafe { ioctl(device, NoArg::<CLEAR>::new()) } {
        // Already free.
        Ok(()) | Err(Errno::NXIO) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use fixture::{TestDir, until};
    use rustix::process::geteuid;

    use super::*;

    #[test]
    fn loop_device_paths_are_recognised() {
        let of = |path: &str| is_loop_device(Path::new(path));
        assert!(of("/dev/loop0") && of("/dev/loop12"));
        assert!(!of("/dev/loop") && !of("/dev/loop-control") && !of("/dev/sda") && !of("/dev/loop1/../sda"));
    }

    #[test]
    fn a_loop_device_is_released_on_drop() {
        if !geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
            println!("skipped: loop devices need root");
            return;
        }
        let folder = TestDir::new();
        let file = folder.join("volume");
        File::create(&file).unwrap().set_len(1 << 20).unwrap();
        let mut announced = Vec::new();
        let attached = attach_loop(
            &file,
            |device| {
                announced.push(device.to_path_buf());
                Ok(())
            },
            |error: io::Error| error,
        )
        .unwrap();
        assert_eq!(announced.last(), Some(&attached.device), "it is told before");
        assert_eq!(backing_file(&attached.device).as_ref(), Some(&file));

        assert!(!detach_loop(&attached.device, &folder.join("another")).unwrap(), "it has another file");
        assert!(backing_file(&attached.device).is_some());
        let device = attached.device.clone();
        drop(attached);
        until("the kernel lets it go", || backing_file(&device).as_ref() != Some(&file));
    }
}
