//! The process that holds a virtual host's namespaces. It makes the namespaces, mounts the host's
//! files, starts the runner inside and waits for its end. The host ends together with this process.

use std::fs::{self, File};
use std::io::{self, ErrorKind, PipeWriter, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use experiment::manifest::refused_private;
use linux::mount::{self, MountPoints, PinnedPath};
use linux::network;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{PidfdFlags, pidfd_open};

use crate::{Isolation, Setup, TierMount, control_groups};

/// Folder of Plimsoll's files inside a host.
pub const FOLDER: &str = "/run/plimsoll";
/// Path of this program inside a host.
pub const PROGRAM: &str = "/run/plimsoll/plimsoll";
/// File with the host's load average, written by the host's runner.
const LOAD_AVERAGE: &str = "/run/plimsoll/loadavg";
const CGROUPS: &str = "/sys/fs/cgroup";
/// Folder in the host's data with its private copies of the machine's folders.
const PRIVATE: &str = ".private";
/// Maximum bytes passed to the runner at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Makes the host, starts this program in it as `plimsoll runner --inside`, and returns its exit
/// code. The runner reads the setup as its first line, then the rest of `input`. Returns `None` if
/// the host is made and the caller is its runner.
///
/// # Errors
/// A part of the host could not be made, with the reason.
pub fn keep(setup: &Setup, input: File) -> Result<Option<i32>, String> {
    let Some(isolation) = &setup.isolation else { return Ok(None) };
    if isolation.is_switch {
        linux::leave_network().map_err(cannot("leave the machine's network"))?;
        mount::keep_to_ourselves().map_err(cannot("make its mounts private"))?;
        network::only_given_addresses();
        own_sys()?;
        return Ok(None);
    }
    control_groups::enter(setup).map_err(|error| error.to_string())?;
    linux::leave_machine().map_err(cannot("leave the machine's namespaces"))?;
    mount::keep_to_ourselves().map_err(cannot("make its mounts private"))?;
    network::only_given_addresses();
    furnish(&setup.host, isolation)?;
    own_folders(&setup.folder, &isolation.private)?;
    linux::be_called(&setup.host).map_err(cannot("set its host name"))?;
    let (child, runner) = start(isolation).map_err(cannot("start its first process, with a /proc of its own"))?;
    let code = attend(child, runner, setup, input).map_err(cannot("wait for its first process"))?;
    // Groups that remain are removed with the run's groups.
    let _ = control_groups::remove_host(setup);
    Ok(Some(code))
}

/// Makes an error text for `map_err`: the failed action, and a hint for known causes.
fn cannot(doing: &str) -> impl FnOnce(io::Error) -> String {
    move |error| {
        let hint = match error.kind() {
            ErrorKind::PermissionDenied => " (this needs CAP_SYS_ADMIN, which root in a container may lack)",
            ErrorKind::InvalidInput => " (this kernel may lack it)",
            _ => "",
        };
        format!("cannot {doing}: {error}{hint}")
    }
}

/// Mounts the host's own /run, /dev/shm and /sys, the folders to show, and the files with its
/// names.
fn furnish(name: &str, isolation: &Isolation) -> Result<(), String> {
    // Open the folders before anything is mounted, because a mount may cover them.
    let mut binds = Vec::new();
    for bind in &isolation.binds {
        let held = PinnedPath::hold(&bind.from).map_err(cannot(&format!("find {}", bind.from.display())))?;
        binds.push((bind, held));
    }
    let named = ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"].map(|path| fs::canonicalize(path).ok());

    mount::memory(Path::new("/run"), 0o755).map_err(cannot("mount a /run of its own"))?;
    mount::memory(Path::new("/dev/shm"), 0o1777).map_err(cannot("mount a /dev/shm of its own"))?;
    own_sys()?;
    open_folder(Path::new("/run/lock"), 0o1777)?;
    open_folder(Path::new(FOLDER), 0o755)?;

    // Mount outer folders first.
    let mut binds: Vec<_> = binds.iter().collect();
    binds.sort_by_key(|(bind, _)| bind.to.components().count());
    for (bind, place) in binds {
        let doing = format!("show {} at {}", bind.from.display(), bind.to.display());
        place.show(&bind.to, bind.writable).map_err(cannot(&doing))?;
    }
    if let Some(volume) = &isolation.volume {
        let doing = format!("mount {} at {}", volume.device.display(), volume.at.display());
        let mounted = fs::create_dir_all(&volume.at).and_then(|()| mount::volume(&volume.device, &volume.at));
        mounted.map_err(cannot(&doing))?;
    }
    isolation.tiers.iter().try_for_each(tier)?;
    let texts = [isolation.hosts_file.clone(), format!("{name}\n"), String::new()];
    for ((file, place), text) in ["hosts", "hostname", "resolv.conf"].into_iter().zip(&named).zip(texts) {
        let shown = own_file(file, place.as_deref(), &text);
        shown.map_err(cannot(&format!("show an /etc/{file} of its own")))?;
    }
    let fresh = "0.00 0.00 0.00 1/1 1\n";
    fs::write(LOAD_AVERAGE, fresh).map_err(cannot(&format!("write {LOAD_AVERAGE}")))
}

/// Mounts the host's private folders over folders of the machine. The private folders are stored
/// with the host's data in `data`.
fn own_folders(data: &Path, paths: &[PathBuf]) -> Result<(), String> {
    let mut points = MountPoints::with(&Path::new(FOLDER).join("covered"));
    for path in paths {
        show_own(data, path, &mut points).map_err(cannot(&format!("show a {} of the host's own", path.display())))?;
    }
    Ok(())
}

fn show_own(data: &Path, path: &Path, points: &mut MountPoints) -> io::Result<()> {
    let place = points.folder(path, |place| match place.to_str().map(refused_private) {
        Some(None) => Ok(()),
        why => {
            let why = why.flatten().unwrap_or("its name is not UTF-8");
            Err(io::Error::other(format!("its path on this machine is {}: {why}", place.display())))
        }
    })?;
    let found = fs::metadata(&place)?;
    if !found.is_dir() {
        return Err(io::Error::other("it is not a folder on this machine"));
    }
    let own = data.join(PRIVATE).join(path.strip_prefix("/").unwrap_or(path));
    if !own.exists() {
        fs::create_dir_all(&own)?;
        fs::set_permissions(&own, found.permissions())?;
        chown(&own, Some(found.uid()), Some(found.gid()))?;
    }
    PinnedPath::hold(&own)?.show(&place, true)
}

/// Mounts a storage tier, unless it is a folder of the machine. Folders of the machine are mounted
/// with `binds`.
fn tier(tier: &TierMount) -> Result<(), String> {
    let doing = format!("mount the tier `{}` at {}", tier.name, tier.at.display());
    let mounted = fs::create_dir_all(&tier.at).and_then(|()| match (&tier.device, tier.memory_bytes) {
        (Some(device), _) => mount::volume(device, &tier.at),
        (None, Some(bytes)) => mount::sized_memory(&tier.at, 0o755, bytes),
        (None, None) => Ok(()),
    });
    mounted.map_err(cannot(&doing))
}

/// Mounts a /sys that shows the host's network, with the cgroups at their usual place.
fn own_sys() -> Result<(), String> {
    let groups = Path::new(CGROUPS);
    let groups = groups.is_dir().then(|| PinnedPath::hold(groups)).transpose().map_err(cannot("find the cgroups"))?;
    mount::own_sys(groups.as_ref().map(|groups| (groups, Path::new(CGROUPS))))
        .map_err(cannot("mount a /sys of its own"))
}

fn open_folder(path: &Path, mode: u32) -> Result<(), String> {
    let made = fs::create_dir_all(path).and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)));
    made.map_err(cannot(&format!("make {}", path.display())))
}

/// Mounts a file of the host over a file of the machine. `place` is the resolved path of the
/// machine's file, if it exists.
fn own_file(file: &str, place: Option<&Path>, text: &str) -> io::Result<()> {
    let own = Path::new(FOLDER).join(file);
    fs::write(&own, text)?;
    match place {
        // A missing file needs no replacement, except the hosts file: names must resolve to the
        // lab's hosts.
        None if file == "hosts" => {
            Err(io::Error::other("this machine has no /etc/hosts, on which the host's own file could be mounted"))
        }
        None => Ok(()),
        Some(place) => PinnedPath::hold(&own)?.show(place, true),
    }
}

fn start(isolation: &Isolation) -> io::Result<(Child, PipeWriter)> {
    let (input, runner) = io::pipe()?;
    let is_shown = isolation.binds.iter().any(|bind| bind.to == Path::new(PROGRAM));
    let mut command = Command::new(if is_shown { PROGRAM } else { "/proc/self/exe" });
    command.args(["runner", "--inside"]).stdin(input).current_dir("/");
    // These variables name folders of the machine.
    command.env_remove("TMPDIR").env_remove("XDG_RUNTIME_DIR");
    let mut shown = vec![(LOAD_AVERAGE, "/proc/loadavg")];
    // A write to this file could restart the machine.
    if Path::new("/proc/sysrq-trigger").exists() {
        shown.push(("/dev/null", "/proc/sysrq-trigger"));
    }
    if !Path::new("/proc/loadavg").exists() {
        shown.remove(0);
    }
    Ok((linux::start_first(command, &shown)?, runner))
}

/// Passes the setup and then all input to the runner, until the first process inside has ended.
/// Uses no thread, because none can be started after leaving the pid namespace.
fn attend(mut child: Child, runner: PipeWriter, setup: &Setup, mut input: File) -> io::Result<i32> {
    let number = linux::pid(child.id()).ok_or(ErrorKind::NotFound)?;
    let end = pidfd_open(number, PidfdFlags::empty())?;
    let mut line = serde_json::to_vec(setup)?;
    line.push(b'\n');
    let mut runner = Some(runner);
    pass_on(&mut runner, &line);
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let mut waited = vec![PollFd::new(&end, PollFlags::IN)];
        if runner.is_some() {
            waited.push(PollFd::new(&input, PollFlags::IN));
        }
        match poll(&mut waited, None) {
            Err(rustix::io::Errno::INTR) => continue,
            done => done?,
        };
        let has_ended = !waited[0].revents().is_empty();
        let can_be_read = waited.get(1).is_some_and(|input| !input.revents().is_empty());
        if has_ended {
            return Ok(child.wait()?.code().unwrap_or(1));
        }
        if can_be_read {
            match input.read(&mut buffer) {
                // The end of the input also ends the runner's input.
                Ok(0) => runner = None,
                Ok(count) => pass_on(&mut runner, &buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => runner = None,
            }
        }
    }
}

/// Passes bytes to the runner. A runner that no longer reads is about to end, and the caller waits
/// for its end.
fn pass_on(runner: &mut Option<PipeWriter>, bytes: &[u8]) {
    if runner.as_mut().is_some_and(|runner| runner.write_all(bytes).is_err()) {
        *runner = None;
    }
}
