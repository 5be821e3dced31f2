//! Verbs over the mounts of a mount namespace of one's own, and over the loop devices that are
//! mounted there.

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

/// A file or folder, held whatever is mounted over its path later.
#[derive(Debug)]
pub struct PinnedPath {
    handle: OwnedFd,
    is_folder: bool,
}

impl PinnedPath {
    /// Holds it. It has to be in the mount namespace in which it will be shown.
    pub fn hold(path: &Path) -> io::Result<Self> {
        let handle = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let is_folder = File::from(handle.try_clone()?).metadata()?.is_dir();
        Ok(Self { handle, is_folder })
    }

    /// A path that leads to it.
    fn name(&self) -> String {
        format!("/proc/self/fd/{}", self.handle.as_raw_fd())
    }

    /// Shows it at `to`, which is made if it is not there.
    pub fn show(&self, to: &Path, writable: bool) -> io::Result<()> {
        make(to, self.is_folder)?;
        mount_bind(self.name().as_str(), to)?;
        if !writable {
            mount_remount(to, MountFlags::BIND | MountFlags::RDONLY, c"")?;
        }
        Ok(())
    }
}

/// An empty file or folder, unless there is something.
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

/// Mount points that are not there, made without a trace: in file systems in memory, each over the folder that one is
/// missing in, where all that is there stays to be seen.
#[derive(Debug)]
pub struct MountPoints {
    /// Where what is covered is kept for a moment.
    scratch: PathBuf,
    /// The file systems that were made.
    devices: Vec<u64>,
}

impl MountPoints {
    /// `scratch` is a folder that is not there, in a file system of our own.
    #[must_use]
    pub fn with(scratch: &Path) -> Self {
        Self { scratch: scratch.to_path_buf(), devices: Vec::new() }
    }

    /// Where the folder `path` is, all links followed; made if it is not there. `allow` is asked before that.
    ///
    /// # Errors
    /// What `allow` or the system says.
    pub fn folder(&mut self, path: &Path, allow: impl Fn(&Path) -> io::Result<()>) -> io::Result<PathBuf> {
        let mut there = path;
        let found = loop {
            match (fs::canonicalize(there), there.parent()) {
                (Err(error), Some(above)) if error.kind() == io::ErrorKind::NotFound => there = above,
                (found, _) => break found?,
            }
        };
        let rest = path.strip_prefix(there).unwrap_or(Path::new(""));
        // Nothing is joined to a whole path: that would end it with a `/`.
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
                // It went meanwhile.
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

/// From now on no mount of this namespace is seen in another, nor the other way round.
pub fn keep_to_ourselves() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

/// An empty file system in memory.
pub fn memory(at: &Path, mode: u32) -> io::Result<()> {
    let options = std::ffi::CString::new(format!("mode={mode:o}"))?;
    Ok(mount("tmpfs", at, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?)
}

/// An empty file system in memory of so many bytes.
pub fn sized_memory(at: &Path, mode: u32, bytes: u64) -> io::Result<()> {
    let options = std::ffi::CString::new(format!("mode={mode:o},size={bytes}"))?;
    Ok(mount("tmpfs", at, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?)
}

/// An ext4 file system of a loop device. Without barriers: the kernel counts the flush that ends a sync as a write of its own, so
/// that a disk of 200 writes a second would do 100 that are synced. Nothing is lost by it, since the file below a loop device outlives
/// whatever happens to its host.
pub fn volume(device: &Path, at: &Path) -> io::Result<()> {
    let flags = MountFlags::NOATIME | MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount(device, at, "ext4", flags, c"barrier=0")?)
}

/// A /sys that shows the network namespace that we are in, read-only, with something (the cgroups) in it.
pub fn own_sys(within: Option<(&PinnedPath, &Path)>) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    mount("sysfs", "/sys", "sysfs", flags, None)?;
    within.map_or(Ok(()), |(place, at)| Ok(mount_bind_recursive(place.name().as_str(), at)?))
}

// Verbs over loop devices: a file as a block device, that goes when nobody has it open any more.

/// `<linux/loop.h>`.
const CONFIGURE: Opcode = opcode::none(b'L', 0x0A);
const CLEAR: Opcode = opcode::none(b'L', 0x01);
const GET_FREE: Opcode = opcode::none(b'L', 0x82);
const AUTOCLEAR: u32 = 4;
/// Others may take the same free device at the same moment.
const ATTEMPTS: u32 = 64;

/// A loop device of ours. The kernel frees it when this is dropped and nothing is mounted from it.
#[derive(Debug)]
pub struct Attached {
    /// `/dev/loop3`.
    pub device: PathBuf,
    /// Not used: the device is ours as long as somebody has it open.
    _held: File,
}

/// Attaches `file` to a free device; `announce` is told which before it is done. `refused` says what it means that the system
/// did not let us.
///
/// # Errors
/// What `announce` or `refused` makes of it.
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

/// Frees a device that is attached to `file`. False: it is attached to another, or to none.
pub fn detach_loop(device: &Path, file: &Path) -> io::Result<bool> {
    if backing_file(device).as_deref() != Some(file) {
        return Ok(false);
    }
    let held = File::options().read(true).open(device)?;
    clear(&held).map(|()| true)
}

/// The file that a device is attached to.
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
    // SAFETY: the file is /dev/loop-control, which knows this call.
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
    // For who looks at it with losetup; its end always stays 0.
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
    // SAFETY: `Config` is laid out as the kernel's `struct loop_config`, which is only read.
    unsafe { ioctl(device, Setter::<CONFIGURE, Config>::new(config)) }
}

#[expect(unsafe_code, reason = "an ioctl")]
fn clear(device: &File) -> io::Result<()> {
    // SAFETY: the call takes no argument.
    match unsafe { ioctl(device, NoArg::<CLEAR>::new()) } {
        // It went by itself.
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
    fn only_loop_devices_are_ones() {
        let of = |path: &str| is_loop_device(Path::new(path));
        assert!(of("/dev/loop0") && of("/dev/loop12"));
        assert!(!of("/dev/loop") && !of("/dev/loop-control") && !of("/dev/sda") && !of("/dev/loop1/../sda"));
    }

    #[test]
    fn a_device_is_ours_until_it_is_let_go() {
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
