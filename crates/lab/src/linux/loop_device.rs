//! Verbs over loop devices: a file as a block device, that goes when nobody has it open any more, and its throttle. It must
//! not know what is in the file.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use experiment::profile::Disk;
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, NoArg, Opcode, Setter, ioctl, opcode};

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

/// Attaches `file` to a free device; `announce` is told which before it is done.
pub fn attach<E: From<io::Error>>(
    file: &Path,
    mut announce: impl FnMut(&Path) -> Result<(), E>,
) -> Result<Attached, E> {
    let backing = File::options().read(true).write(true).open(file)?;
    for _ in 0..ATTEMPTS {
        let device = PathBuf::from(format!("/dev/loop{}", free()?));
        announce(&device)?;
        let held = File::options().read(true).write(true).open(&device)?;
        match configure(&held, &backing, file) {
            Ok(()) => return Ok(Attached { device, _held: held }),
            Err(Errno::BUSY) => {}
            Err(errno) => return Err(io::Error::from(errno).into()),
        }
    }
    Err(io::Error::from(Errno::BUSY).into())
}

/// Frees a device that is attached to `file`; if it is attached to another, nothing happens.
pub fn detach(device: &Path, file: &Path) -> io::Result<()> {
    if backing(device).as_deref() != Some(file) {
        return Ok(());
    }
    let held = File::options().read(true).open(device)?;
    clear(&held)
}

/// The file that a device is attached to.
pub fn backing(device: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(sys(device)?.join("loop/backing_file")).ok()?;
    let name = text.trim_end_matches('\n');
    Some(PathBuf::from(name.strip_suffix(" (deleted)").unwrap_or(name)))
}

fn sys(device: &Path) -> Option<PathBuf> {
    Some(Path::new("/sys/block").join(device.file_name()?))
}

/// Whether a path is that of a loop device.
pub fn is_one(device: &Path) -> bool {
    let number = device.to_str().and_then(|path| path.strip_prefix("/dev/loop"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn free() -> io::Result<u32> {
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

/// Limits a device to what `disk` says; what it does not say is not limited. In the root group of the controller and for
/// this device alone: the limits of other groups miss what a journal writes. Where there is no such group, of a cgroup v2
/// hierarchy in `group`.
pub fn throttle(device: &Path, disk: &Disk, group: Option<&Path>) -> io::Result<()> {
    let number = number(device)?;
    if let Some(root) = root_group() {
        for (file, limit) in limits(disk) {
            fs::write(root.join(format!("blkio.throttle.{file}_device")), format!("{number} {}", limit.unwrap_or(0)))?;
        }
        return Ok(());
    }
    let Some(group) = group else { return Err(io::Error::other("there is no blkio controller")) };
    fs::write(group.join("io.max"), format!("{number} {}", unified(disk)))
}

/// Takes the limits off.
pub fn unthrottle(device: &Path) -> io::Result<()> {
    // With a hierarchy of version 2 they are in a group of the run and go with that.
    if root_group().is_none() { Ok(()) } else { throttle(device, &Disk::default(), None) }
}

fn limits(disk: &Disk) -> [(&'static str, Option<u64>); 4] {
    let whole = |value: Option<f64>| value.map(|value| value.round().clamp(1.0, 9e18) as u64);
    [
        ("read_iops", whole(disk.read_iops)),
        ("write_iops", whole(disk.write_iops)),
        ("read_bps", whole(disk.read_bytes_per_s)),
        ("write_bps", whole(disk.write_bytes_per_s)),
    ]
}

/// A line of `io.max`.
fn unified(disk: &Disk) -> String {
    let text = |limit: Option<u64>| limit.map_or("max".to_owned(), |limit| limit.to_string());
    let [reads, writes, read_bytes, written_bytes] = limits(disk).map(|(_, limit)| text(limit));
    format!("riops={reads} wiops={writes} rbps={read_bytes} wbps={written_bytes}")
}

/// `major:minor` of a block device.
fn number(device: &Path) -> io::Result<String> {
    let number = fs::metadata(device)?.rdev();
    Ok(format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number)))
}

/// The root group of the blkio controller of cgroup v1.
fn root_group() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let of_blkio = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        let has_blkio = fields.get(3)?.split(',').any(|option| option == "blkio");
        (fields.get(2) == Some(&"cgroup") && has_blkio).then(|| fields.get(1).map(PathBuf::from))?
    };
    mounts.lines().find_map(of_blkio)
}

#[cfg(test)]
mod tests;
