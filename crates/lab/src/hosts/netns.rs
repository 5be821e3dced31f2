//! Virtual hosts on this machine. Each has separate namespaces and a runner as its init process. A
//! switch connects them.

mod needs;
mod wiring;

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use experiment::plan;
use experiment::profile::Disk;
use experiment::tier::{Tier, TierMedium};
use linux::cgroup::{self, Device};
use linux::mount::{self, Attached};
use linux::{ProcessGroup, procfs};
use record::events::HostFigures;
use runner::MARK;
use runner::plain_text;
use runner::probes::memory_bytes;
use runner::shim::{FOLDER, PROGRAM};
use runner::{Bind, Envelope, Isolation, Order, Setup, TierMount, VERSION, Wiring, make_top};
use rustix::process::Signal;

pub use needs::{LinkSupport, what_links_can_be};

use crate::Error;
use crate::deployment_spec::DeploymentSpec;
use crate::host::{Host, HostBackend, HostFacts, HostKind, all_or_none, in_parallel};
use crate::placement::{ClientPlacement, Placement};
use crate::registry::RegistryWriter;
use crate::session::RunnerSession;
use crate::tiers;
use wiring::{Cables, Switch};

/// Path of a host's private folders, inside the host.
const DATA: &str = "/run/plimsoll/data";

/// Makes all hosts in the lab's order, and the clients' placement. If a host cannot be made,
/// removes the others.
pub(super) fn raise(
    build: &DeploymentSpec<'_>,
    placement: &Placement,
    ledger: &Arc<RegistryWriter>,
    stop: &AtomicBool,
) -> Result<(Vec<Host>, ClientPlacement), Error> {
    let envelopes = &placement.envelopes;
    let cables = can_make(build.trial, envelopes)?;
    let layout = NetnsLayout::of(build, &cables, ledger)?;
    ledger.grouped()?;
    // An error is ignored here. Hosts that need control groups report it themselves.
    let _ = make_top(ledger.id(), placement.weight());
    let switch = Arc::new(Switch::make(cables, &layout.plimsoll, &layout.scratch, ledger, &build.at_once)?);
    let hosts: Vec<_> = envelopes.iter().enumerate().collect();
    let mut machines = all_or_none(in_parallel(hosts, |(index, envelope)| {
        if stop.load(Ordering::SeqCst) {
            return Err(Error::Interrupted);
        }
        let mut machine = layout.lay_out(index, envelope, &switch, ledger)?;
        // The session is dropped first, because the machine's end waits for the end of its runner.
        Ok((machine.start()?, machine))
    }))?;
    let plugged = machines.iter().filter_map(|(_, one)| Some((one.index, one.shim.as_ref()?.pid())));
    switch.plug(&plugged.collect::<Vec<_>>()).map_err(|error| lost(&mut machines).unwrap_or(error))?;
    let hosts = all_or_none(in_parallel(machines, |(session, machine)| {
        let (name, wiring) = (machine.setup.host.clone(), machine.wiring.clone());
        let host = Host::of(&name, session, machine);
        host.session().ask(Order::Wire(wiring), PATIENCE)?;
        Ok(host)
    }))?;
    switch.route_clients()?;
    let notices = needs::notices(build.trial, placement, &layout.scratch);
    let (network, cpus) = (Some(switch.network()?), placement.generator_cpus.clone());
    let client_placement = ClientPlacement { network, switch: Some(switch.session()), cpus, notices };
    Ok((hosts, client_placement))
}

/// Checks that the hosts' requirements are met. Returns the plan of their cables.
pub(super) fn can_make(trial: &plan::Trial, envelopes: &[Envelope]) -> Result<Cables, Error> {
    needs::check(trial, envelopes)?;
    Cables::plan(&trial.lab, needs::loses_packets(trial, envelopes))
}

/// Returns the Debian packages that this machine lacks to make the hosts.
pub(super) fn lacking(trial: &plan::Trial, envelopes: &[Envelope]) -> Result<Vec<&'static str>, Error> {
    needs::lacking(trial, envelopes)
}

/// Returns the Debian packages that this machine lacks for any lab.
pub(super) fn lacking_for_any() -> Vec<&'static str> {
    needs::lacking_for_any()
}

/// Returns an error for a host that was lost while it was made, if there is one. Such a host cannot
/// be connected, which is not the switch's fault.
fn lost(machines: &mut [(Arc<RunnerSession>, VirtualHost)]) -> Option<Error> {
    let lost = machines.iter_mut().find_map(|(_, one)| one.shim.as_mut()?.has_ended().then_some(&one.setup.host))?;
    Some(Error::HostLost { host: lost.clone(), reason: "the runner ended while the host was being made".to_owned() })
}

/// Copies this program into the run's private folder. Reads it from the kernel, because its file
/// was replaced.
fn kept_program(scratch: &Path) -> Result<PathBuf, Error> {
    let kept = scratch.join("plimsoll");
    if !kept.exists() {
        fs::copy("/proc/self/exe", &kept).map_err(Error::system("copy this program, whose file was replaced"))?;
    }
    Ok(kept)
}

/// Everything that the hosts of a lab have in common.
struct NetnsLayout<'a> {
    build: &'a DeploymentSpec<'a>,
    /// Path of this program on the machine.
    plimsoll: PathBuf,
    /// Path of the target's folder on the machine.
    target: Option<PathBuf>,
    /// The run's private folder.
    scratch: PathBuf,
    hosts_file: String,
    /// Network interfaces of each host.
    wirings: Vec<Wiring>,
}

impl<'a> NetnsLayout<'a> {
    fn of(build: &'a DeploymentSpec<'a>, cables: &Cables, ledger: &RegistryWriter) -> Result<Self, Error> {
        let find = |path: &Path| path.canonicalize().map_err(Error::system(format!("find {}", path.display())));
        let scratch = find(&ledger.scratch()?)?;
        let running = std::env::current_exe().map_err(Error::system("find this program"))?;
        let plimsoll = match build.plimsoll.canonicalize() {
            // An update has replaced the program since the run began. The new file may be another
            // version, or incomplete.
            _ if !running.exists() => kept_program(&scratch)?,
            Ok(path) => path,
            // The program was started by name and found in PATH.
            Err(_) => running,
        };
        let target = build.folder.filter(|folder| !folder.as_os_str().is_empty()).map(find).transpose()?;
        Ok(Self { build, plimsoll, target, scratch, hosts_file: cables.hosts_file(), wirings: cables.wirings() })
    }

    /// Makes the parts of a host that lie outside its namespaces. Returns the host's specification.
    fn lay_out(
        &self,
        index: usize,
        envelope: &Envelope,
        switch: &Arc<Switch>,
        ledger: &Arc<RegistryWriter>,
    ) -> Result<VirtualHost, Error> {
        let name = self.build.trial.lab.hosts.get(index).map(|host| host.name.clone()).unwrap_or_default();
        let folder = self.scratch.join("hosts").join(&name);
        make_folder(&folder.join("tmp"), 0o1777)?;
        make_folder(&folder.join("data"), 0o755)?;
        let volume = if needs::needs_volume(self.build.trial, envelope) {
            Some(LoopVolume::make(&folder.join("volume"), &envelope.disk, ledger)?)
        } else {
            None
        };
        let mut binds = self.binds(&folder, volume.is_none());
        let storage = self.tiers(index, envelope, &folder, ledger)?;
        binds.extend(storage.binds);
        let isolation = Isolation {
            is_switch: false,
            hosts_file: self.hosts_file.clone(),
            binds,
            volume: volume.as_ref().map(|volume| runner::VolumeSpec {
                file: volume.file().to_path_buf(),
                device: volume.device().to_path_buf(),
                at: PathBuf::from(DATA),
            }),
            private: self.build.manifest.iter().flat_map(|manifest| &manifest.private).map(PathBuf::from).collect(),
            tiers: storage.mounts,
        };
        let setup = Setup {
            version: VERSION.to_owned(),
            host: name,
            run: ledger.id().to_owned(),
            folder: PathBuf::from(DATA),
            isolation: Some(isolation),
            envelope: envelope.clone(),
            ..Setup::default()
        };
        let wiring = self.wirings.get(index).cloned().unwrap_or_default();
        Ok(VirtualHost {
            index,
            plimsoll: self.plimsoll.clone(),
            setup,
            wiring,
            target: self.target.clone(),
            folder,
            volume,
            tier_volumes: storage.volumes,
            elsewhere: storage.elsewhere,
            switch: Arc::clone(switch),
            ledger: Arc::clone(ledger),
            at_once: Arc::clone(&self.build.at_once),
            shim: None,
        })
    }

    /// Makes the storage tiers that a host's processes use, except the host's disk.
    fn tiers(
        &self,
        index: usize,
        envelope: &Envelope,
        folder: &Path,
        ledger: &RegistryWriter,
    ) -> Result<TierStorage, Error> {
        let lab = &self.build.trial.lab;
        let host = lab.hosts.get(index);
        let name = host.map(|host| host.name.as_str()).unwrap_or_default();
        let users = tiers::users(self.build.manifest, self.build.trial)?;
        let mut storage = TierStorage::default();
        for (tier, folders) in tiers::on_host(lab, host) {
            let mut mount = tiers::mount_of(tier, &folders, &users, memory_of(envelope));
            match (tier.medium, &tier.path) {
                (TierMedium::Disk, _) => continue,
                (TierMedium::Volume, _) => {
                    let limits = envelope.tiers.get(&tier.name).unwrap_or(&tier.limits);
                    let volume = LoopVolume::make(&folder.join(format!("tier-{}", tier.name)), limits, ledger)?;
                    mount.device = Some(volume.device().to_path_buf());
                    storage.volumes.push(volume);
                }
                (TierMedium::Pmem, Some(path)) => {
                    let from = ledger.scratch_in(Path::new(path))?.join(name);
                    make_folder(&from, 0o755)?;
                    storage.binds.push(Bind { from: from.clone(), to: mount.at.clone(), writable: true });
                    storage.elsewhere.push(from);
                }
                (TierMedium::Memory | TierMedium::Pmem, _) => {}
            }
            storage.mounts.push(mount);
        }
        Ok(storage)
    }

    fn binds(&self, folder: &Path, data: bool) -> Vec<Bind> {
        let bind = |from: PathBuf, to: &str, writable| Bind { from, to: PathBuf::from(to), writable };
        let mut binds = vec![bind(folder.join("tmp"), "/tmp", true), bind(self.plimsoll.clone(), PROGRAM, false)];
        binds.extend(data.then(|| bind(folder.join("data"), DATA, true)));
        binds.extend(self.target.clone().map(|target| bind(target, TARGET, false)));
        binds
    }
}

/// Storage of a host's tiers.
#[derive(Debug, Default)]
struct TierStorage {
    mounts: Vec<TierMount>,
    binds: Vec<Bind>,
    volumes: Vec<LoopVolume>,
    /// Folders on other file systems of the machine.
    elsewhere: Vec<PathBuf>,
}

/// Returns the default size limit of a file system in memory: half of the host's memory, as in
/// Linux.
fn memory_of(envelope: &Envelope) -> Option<u64> {
    let machine = || memory_bytes(&procfs::text(Path::new("/proc/meminfo"))?, "MemTotal:");
    envelope.memory_bytes.or_else(machine).map(|bytes| bytes / 2)
}

/// Makes a folder with this mode, regardless of the umask.
fn make_folder(path: &Path, mode: u32) -> Result<(), Error> {
    let made = fs::create_dir_all(path).and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)));
    made.map_err(Error::system(format!("make {}", path.display())))
}

// A virtual host as the lab manages it: its shim process, its disk and its cables. It can be ended
// and made again.

/// Time limit for a shim to make its host.
const START_PATIENCE: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(10);
/// Number of bytes at the end of a shim's output that are searched for an error message.
const WORDS_BYTES: i64 = 16 << 10;
/// Path of the target's folder, inside the host.
pub const TARGET: &str = "/run/plimsoll/target";

/// The process that holds a host's namespaces. The runner inside has a separate session.
#[derive(Debug)]
pub struct HostShim {
    shim: Child,
    name: String,
    words: PathBuf,
    /// Whether the user wants to end at once.
    at_once: Arc<AtomicBool>,
}

impl HostShim {
    /// Starts `plimsoll runner` and sends it the setup. `words` is the file for its standard error.
    pub fn start(
        plimsoll: &Path,
        setup: &Setup,
        words: &Path,
        ledger: &RegistryWriter,
        at_once: &Arc<AtomicBool>,
    ) -> Result<(Self, Arc<RunnerSession>), Error> {
        let doing = || format!("start host {}", setup.host);
        let errors = File::create(words).map_err(Error::system(format!("write {}", words.display())))?;
        let mut command = Command::new(plimsoll);
        command.arg("runner").env(MARK, ledger.id());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        ledger.announce(&setup.host, "runner")?;
        let mut child = linux::spawn(command).map_err(Error::system(doing()))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (name, words) = (setup.host.clone(), words.to_path_buf());
        let mut host = Self { shim: child, name, words, at_once: Arc::clone(at_once) };
        // The shim's output pipe carries the session, so it cannot identify members of the process
        // group. The members carry the mark.
        let registered = ledger.started(&ProcessGroup::of(host.pid(), Vec::new()));
        let (Some(input), Some(output)) = (input, output) else {
            return Err(Error::System { doing: doing(), error: ErrorKind::BrokenPipe.into() });
        };
        let session = registered
            .and_then(|()| RunnerSession::open(Box::new(input), Box::new(output), setup, START_PATIENCE, at_once))
            .map_err(|error| host.explained(error))
            .inspect_err(|_| drop(host.kill()))?;
        Ok((host, session))
    }

    /// Returns the process that holds the namespaces.
    pub fn pid(&self) -> u32 {
        self.shim.id()
    }

    /// Adds the last line of standard error to the error: a panic, or a library that the linker
    /// could not find.
    fn explained(&self, error: Error) -> Error {
        let output = self.last_words().unwrap_or_default();
        let Error::Host { host, reason } = error else { return error };
        let last = output.lines().rfind(|line| !line.trim().is_empty());
        let Some(last) = last else { return Error::Host { host, reason } };
        let quoted = plain_text::beginning(last.trim(), plain_text::LINE_CHARACTERS);
        Error::Host { host, reason: format!("{reason} ({quoted})") }
    }

    fn last_words(&self) -> io::Result<String> {
        let mut file = File::open(&self.words)?;
        if file.metadata()?.len().cast_signed() > WORDS_BYTES {
            file.seek(SeekFrom::End(-WORDS_BYTES))?;
        }
        let mut output = Vec::new();
        file.take(WORDS_BYTES.cast_unsigned()).read_to_end(&mut output)?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }

    /// Resumes the shim and the first process inside, because a stopped process does not react to
    /// the end of its host.
    fn wake(&self) -> Option<procfs::Stat> {
        let pid = self.pid();
        let first = procfs::alive().into_iter().find(|stat| stat.parent == pid);
        for process in procfs::stat(pid).iter().chain(&first) {
            linux::signal(process, Signal::CONT);
        }
        first
    }

    /// Ends the host and every process inside at once. Waits until all are gone.
    pub fn kill(&mut self) -> Result<(), Error> {
        if self.has_ended() {
            return Ok(());
        }
        // Killing the first process inside ends all others, and then the shim. If the shim were
        // killed instead, nothing would wait for the other processes.
        let pid = self.pid();
        if let Some(first) = self.wake() {
            linux::signal(&first, Signal::KILL);
            linux::await_end(pid, PATIENCE);
        }
        if !self.has_ended() {
            let _ = self.shim.kill();
            linux::await_end(pid, PATIENCE);
        }
        if self.has_ended() {
            return Ok(());
        }
        Err(Error::Host {
            host: self.name.clone(),
            reason: "the host does not end, most likely because it waits for a disk".to_owned(),
        })
    }

    /// Waits for the end of the host. Kills it after the time limit, or at once if the user wants
    /// that.
    pub fn end(&mut self) -> Result<(), Error> {
        if !self.has_ended() && !self.at_once.load(Ordering::SeqCst) {
            self.wake();
            linux::await_end(self.pid(), PATIENCE);
        }
        self.kill()
    }

    pub fn has_ended(&mut self) -> bool {
        // A process that cannot be waited for does not exist.
        !matches!(self.shim.try_wait(), Ok(None))
    }
}

#[derive(Debug)]
struct VirtualHost {
    /// Index of the host in the lab.
    pub index: usize,
    pub plimsoll: PathBuf,
    pub setup: Setup,
    pub wiring: Wiring,
    /// The target's folder on the machine. The host sees it at [`TARGET`].
    pub target: Option<PathBuf>,
    /// The host's private folder on the machine.
    pub folder: PathBuf,
    pub volume: Option<LoopVolume>,
    /// Volumes of the host's storage tiers.
    pub tier_volumes: Vec<LoopVolume>,
    /// The host's folders on other file systems of the machine.
    pub elsewhere: Vec<PathBuf>,
    pub switch: Arc<Switch>,
    pub ledger: Arc<RegistryWriter>,
    /// Whether the user wants to end at once.
    pub at_once: Arc<AtomicBool>,
    pub shim: Option<HostShim>,
}

impl VirtualHost {
    /// Makes the host's namespaces, without cables.
    pub fn start(&mut self) -> Result<Arc<RunnerSession>, Error> {
        let words = self.folder.join("runner.log");
        let (shim, session) = HostShim::start(&self.plimsoll, &self.setup, &words, &self.ledger, &self.at_once)?;
        self.shim = Some(shim);
        Ok(session)
    }
}

impl HostBackend for VirtualHost {
    fn facts(&self) -> HostFacts {
        let cpus = &self.setup.envelope.cpus;
        let cpus = (!cpus.is_empty()).then(|| ranges(cpus));
        HostFacts {
            kind: HostKind::Virtual,
            addresses: self.wiring.interfaces.iter().map(|interface| interface.address.to_string()).collect(),
            plimsoll: PathBuf::from(PROGRAM),
            figures: HostFigures { cpus, ..HostFigures::default() },
        }
    }

    fn bring(&self, _session: &RunnerSession, target: &Path) -> Result<PathBuf, Error> {
        if target.as_os_str().is_empty() {
            return Ok(PathBuf::from(FOLDER));
        }
        let found = target.canonicalize().map_err(Error::system(format!("find {}", target.display())))?;
        if self.target.as_ref() == Some(&found) {
            return Ok(PathBuf::from(TARGET));
        }
        let reason = format!("{} is not the target folder with which the host was made", target.display());
        Err(Error::Host { host: self.setup.host.clone(), reason })
    }

    fn tier_folder(&self, tier: &Tier, name: &str) -> Result<Option<PathBuf>, Error> {
        let mut tiers = self.setup.isolation.iter().flat_map(|isolation| &isolation.tiers);
        // The runner has made the folder.
        Ok(tiers.find(|mount| mount.name == tier.name).map(|mount| mount.at.join(name)))
    }

    fn listen(&self, name: &str) -> Option<Result<(UnixListener, PathBuf), Error>> {
        let folder = self.folder.join("tmp");
        let listener = listen_in(&folder, name).map_err(Error::on("create a socket in", &folder));
        Some(listener.map(|listener| (listener, Path::new("/tmp").join(name))))
    }

    fn boot(&mut self) -> Result<Arc<RunnerSession>, Error> {
        let session = self.start()?;
        let pid = self.shim.as_ref().map(HostShim::pid).unwrap_or_default();
        self.switch.plug(&[(self.index, pid)])?;
        session.ask(Order::Wire(self.wiring.clone()), PATIENCE)?;
        Ok(session)
    }

    fn crash(&mut self) -> Result<(), Error> {
        // The cable is unplugged first: a machine without power does not close its connections.
        // Also, the kernel removes an unused network only after a while, and its interface names
        // are needed again at once.
        self.switch.unplug(self.index);
        match self.shim.take() {
            Some(mut shim) => shim.kill(),
            None => Ok(()),
        }
    }

    fn close(&mut self) {
        if let Some(mut shim) = self.shim.take() {
            // Leftovers are found by their mark at the end of the run.
            let _ = shim.end();
        }
        self.volume = None;
        self.tier_volumes.clear();
        for folder in self.elsewhere.iter().chain([&self.folder]) {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

impl Drop for VirtualHost {
    fn drop(&mut self) {
        self.close();
    }
}

fn listen_in(folder: &Path, name: &str) -> io::Result<UnixListener> {
    // A socket path is limited to about a hundred characters, so it names the folder by its
    // descriptor.
    let held = File::open(folder)?;
    // A socket of an earlier trial may still exist.
    let _ = fs::remove_file(folder.join(name));
    let listener = UnixListener::bind(format!("/proc/self/fd/{}/{name}", held.as_raw_fd()))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Formats a list of CPUs, such as `0-3,6`.
fn ranges(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => ranges.push((*cpu, *cpu)),
        }
    }
    let texts = ranges.into_iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

// A host's private disk: a file system in a file on a loop device. Its limits affect no other disk.

/// Default size of a disk without a size in its profile.
const SIZE_BYTES: u64 = 4 << 30;
/// Free space below which not even an empty file system fits.
const FULL_BYTES: u64 = 1 << 20;

/// A disk. Dropping it removes its limits, and also its device once the disk is not mounted.
#[derive(Debug)]
pub struct LoopVolume {
    file: PathBuf,
    attached: Attached,
}

impl LoopVolume {
    /// Makes an empty disk in `file`. The host itself sets the limits.
    pub fn make(file: &Path, disk: &Disk, ledger: &RegistryWriter) -> Result<Self, Error> {
        let made = File::create(file).and_then(|made| made.set_len(disk.size_bytes.unwrap_or(SIZE_BYTES)));
        made.map_err(Error::system(format!("make {}", file.display())))?;
        format(file)?;
        let attached = mount::attach_loop(
            file,
            |device| ledger.looped(device, file),
            |error| Error::System { doing: format!("attach {} to a loop device", file.display()), error },
        )?;
        let volume = Self { attached, file: file.to_path_buf() };
        // Registered even if the profile has no limits, because a fault may set some.
        ledger.throttled(volume.device())?;
        Ok(volume)
    }

    /// Returns the device, such as `/dev/loop3`.
    pub fn device(&self) -> &Path {
        &self.attached.device
    }

    pub fn file(&self) -> &Path {
        &self.file
    }
}

impl Drop for LoopVolume {
    fn drop(&mut self) {
        // A failure here is repaired at the end of the run.
        let _ = Device::at(self.device()).and_then(cgroup::clear_throttle);
    }
}

fn format(file: &Path) -> Result<(), Error> {
    let doing = || format!("make a file system in {}", file.display());
    let mut command = Command::new("mkfs.ext4");
    // Skips writes that are not needed, because there may be dozens of hosts.
    command.args(["-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"]).arg(file);
    let output = command.stdin(Stdio::null()).output().map_err(Error::system(doing()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let why = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("mkfs.ext4 gave no reason");
    // If the disk is full, mkfs may only name the structure that it was writing.
    let is_full = said.contains("No space left") || free_bytes(file).is_some_and(|free| free < FULL_BYTES);
    let error = if is_full { ErrorKind::StorageFull.into() } else { io::Error::other(why.trim().to_owned()) };
    Err(Error::System { doing: doing(), error })
}

/// Returns the bytes that can still be written on the path's file system.
pub fn free_bytes(path: &Path) -> Option<u64> {
    rustix::fs::statvfs(path).ok().map(|found| found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests;
