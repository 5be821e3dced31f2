//! Control groups of one host: the limits of its envelope, and the faults that tighten them.
//!
//! `plimsoll-<run>/<host>/runner` holds the runner and its shim, with no limit except the CPUs.
//! `…/target` holds every started process. If cores are slow, `…/target/core0`, `…/target/core1`
//! and so on represent the cores, and a thread of the runner distributes threads over them. A new
//! process writes `0` into each of [`Groups::join_files`] before it becomes the program.
//!
//! All methods also work inside the host's namespaces: the trees are mounted at the same place, and
//! the kernel translates process ids. They take `&self`, and several threads may call them.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use experiment::profile::Disk;
use linux::cgroup::{
    Cgroup, CgroupError, Controller, CpuTime, Device, Hierarchies, MemoryUsage, PressureTotals, Quota, Resource,
    Throttle, Version,
};

use super::{Envelope, Isolation, OrderRefusal, Setup};
use crate::cores;
use crate::stoppable_thread::StoppableThread;

/// Maximum number of processes and threads in a host: enough for any target, and stops fork loops.
const PIDS: u64 = 10_000;
/// Time after which killed processes are reported as hanging.
const PATIENCE: Duration = Duration::from_secs(5);

/// Control groups of one host. They outlive this value: [`Groups::remove`] removes them, or the lab
/// removes them with the run's tree.
#[derive(Debug)]
pub struct Groups {
    /// The groups, or the reason why there are none.
    made: Result<MadeGroups, String>,
    envelope: Envelope,
}

#[derive(Debug)]
struct MadeGroups {
    hierarchies: Arc<Hierarchies>,
    top: Cgroup,
    host: Cgroup,
    runner: Cgroup,
    target: Cgroup,
    cpu: CpuLimit,
    /// Device of the host's data, if the data has its own volume.
    device: Option<Device>,
    /// Devices of the storage tiers that have their own volume.
    tiers: BTreeMap<String, Device>,
    /// Whether this runner may remove the group of the run.
    is_alone: bool,
}

/// Resource use of the host since its groups were made. `None` if this kernel does not count a
/// resource. The figures cover the target's processes together, without the runner. Counters only
/// grow, but may restart when a CPU fault starts or ends.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    pub cpu: Option<CpuTime>,
    /// Nanoseconds for which CPU quotas stopped the host, summed over its cores. For a core whose
    /// threads were on several CPUs, the sum includes each CPU. 0 without a quota.
    pub throttled_ns: Option<u64>,
    /// Number of cores. `throttled_ns` divided by this number and by wall time gives
    /// `cpu_throttled_pct`.
    pub cores: u32,
    pub memory: Option<MemoryUsage>,
    /// Time in which some or all tasks waited for a CPU.
    pub cpu_stall: Option<PressureTotals>,
    /// Time in which some or all tasks waited for a disk.
    pub io_stall: Option<PressureTotals>,
    /// Time in which some or all tasks waited for memory.
    pub memory_stall: Option<PressureTotals>,
    /// Bytes read from all disks. With cgroup version 1 and a volume, bytes read from the volume.
    pub read_bytes: Option<u64>,
    /// Bytes written to the same disks, excluding data still in the page cache.
    pub written_bytes: Option<u64>,
    /// Number of processes and threads.
    pub pids: Option<u64>,
}

/// Returns the name of the group that holds a whole run, as `linux::cgroup::remove_tree` takes it.
#[must_use]
pub fn top_of(run: &str) -> String {
    format!("plimsoll-{run}")
}

/// Makes the group that holds a whole run. The lab calls this before it makes the hosts. The
/// group's CPU weight equals `neighbours` ordinary groups. If the hosts have CPUs of their own,
/// `neighbours` is the number of hosts, because all hosts together would otherwise weigh as one
/// process. If hosts and clients share CPUs, `neighbours` is 1, the weight of the clients, who
/// would otherwise stall while the hosts are busy. Hosts report missing controllers.
pub fn make_top(run: &str, neighbours: usize) -> Result<(), CgroupError> {
    let top = Cgroup::new(&Arc::new(Hierarchies::detect()), top_of(run));
    top.make()?;
    match top.set_weight(neighbours.max(1) as f64) {
        Err(CgroupError::Missing { .. }) => Ok(()),
        done => done,
    }
}

/// Moves this process into the group for the host's runner, and makes the group if necessary. The
/// shim calls this before it makes the namespaces. Does nothing if groups cannot be made:
/// [`Groups::make`] reports that later.
pub fn enter(setup: &Setup) -> Result<(), CgroupError> {
    let runner = host_of(&Arc::new(Hierarchies::detect()), setup).child("runner");
    if runner.make().is_err() {
        return Ok(());
    }
    allow_cpus(&runner, &setup.envelope)?;
    runner.join()
}

/// Removes all groups of a host, and kills all processes in them except this one. The shim calls
/// this after the host has ended.
///
/// # Errors
/// A process does not end after SIGKILL.
pub fn remove_host(setup: &Setup) -> Result<(), CgroupError> {
    let host = Cgroup::new(&Arc::new(Hierarchies::detect()), top_of(&setup.run)).child(&setup.host);
    host.remove(PATIENCE).map(|_| ())
}

/// Returns the group of a host. With cgroup version 1, a volume is limited at the root of the block
/// controller. That limit does not apply to processes in groups below the root, so the host then
/// gets no group in that controller.
fn host_of(hierarchies: &Arc<Hierarchies>, setup: &Setup) -> Cgroup {
    let host = Cgroup::new(hierarchies, top_of(&setup.run)).child(&setup.host);
    let has_volume = setup.isolation.as_ref().is_some_and(Isolation::has_volume);
    let block = hierarchies.of(Controller::Block);
    let is_at_root = block.is_some_and(|block| block.version == Version::V1 && block.controllers.len() == 1);
    if has_volume && is_at_root { host.except(Controller::Block) } else { host }
}

fn allow_cpus(group: &Cgroup, envelope: &Envelope) -> Result<(), CgroupError> {
    if envelope.cpus.is_empty() { Ok(()) } else { group.set_cpus(&envelope.cpus) }
}

impl Groups {
    /// Makes the host's groups and sets its limits. Returns notices for the user. Takes over
    /// existing groups of a host that is booted again. If no groups can be made, a host without
    /// limits works without groups and returns a notice; faults that need groups are then refused.
    ///
    /// # Errors
    /// A limit cannot be set because of a missing controller, or the setup has no run or no host.
    pub fn make(setup: &Setup) -> Result<(Self, Vec<String>), String> {
        Self::make_with(Arc::new(Hierarchies::detect()), setup)
    }

    fn make_with(hierarchies: Arc<Hierarchies>, setup: &Setup) -> Result<(Self, Vec<String>), String> {
        if setup.run.is_empty() || setup.host.is_empty() {
            return Err("cannot name its control groups: the run or the host has no name".to_owned());
        }
        let envelope = setup.envelope.clone();
        if setup.is_here {
            return Ok((Self { made: Err("this machine itself has no limits".to_owned()), envelope }, Vec::new()));
        }
        let top = Cgroup::new(&hierarchies, top_of(&setup.run));
        let host = host_of(&hierarchies, setup);
        let (runner, target) = (host.child("runner"), host.child("target"));
        let made = if hierarchies.is_empty() {
            Err("no control groups are mounted".to_owned())
        } else {
            runner.make().and_then(|()| target.make()).map_err(|error| error.to_string())
        };
        if let Err(why) = made {
            if is_limited(&envelope) {
                let remedy = "a host with limits needs control groups, so run as root or leave out its profile";
                return Err(format!("{why}; {remedy}"));
            }
            let notice = format!("no control groups ({why}): faults of its CPU, memory and disk are refused");
            // A runner beside existing processes, as in a pod, makes no groups, and no fault needs
            // groups.
            let notices = if setup.is_reached_aside { Vec::new() } else { vec![notice] };
            return Ok((Self { made: Err(why), envelope }, notices));
        }
        let volume = setup.isolation.as_ref().and_then(|isolation| isolation.volume.as_ref());
        let device = volume.map(|volume| Device::at(&volume.device)).transpose().map_err(|error| error.to_string())?;
        let tiers = setup.isolation.iter().flat_map(|isolation| &isolation.tiers);
        let tiers = tiers.filter_map(|tier| Some((tier.name.clone(), Device::at(tier.device.as_ref()?))));
        let tiers = tiers.map(|(name, device)| Ok((name, device?)));
        let tiers = tiers.collect::<Result<_, CgroupError>>().map_err(|error| error.to_string())?;
        let is_alone = setup.isolation.is_none();
        let cpu = CpuLimit::new(&target, &envelope);
        let made = MadeGroups { hierarchies, top, host, runner, target, cpu, device, tiers, is_alone };
        let groups = Self { made: Ok(made), envelope };
        let notices = groups.set_envelope().map_err(|why| why.in_words())?;
        Ok((groups, notices))
    }

    fn set_envelope(&self) -> Result<Vec<String>, OrderRefusal> {
        let Ok(made) = &self.made else { return Ok(Vec::new()) };
        let envelope = &self.envelope;
        // A crashed host may have left its target frozen.
        let _ = made.target.set_frozen(false);
        allow_cpus(&made.runner, envelope)?;
        allow_cpus(&made.target, envelope)?;
        match made.target.set_memory(envelope.memory_bytes) {
            Err(error) if envelope.memory_bytes.is_some() => return Err(error.into()),
            _ => {}
        }
        made.cpu.set(None)?;
        if envelope.disk.is_throttled() {
            made.set_throttle(&throttle(&envelope.disk))?;
        }
        for (name, disk) in envelope.tiers.iter().filter(|(_, disk)| disk.is_throttled()) {
            made.set_tier(name, &throttle(disk))?;
        }
        let refused = made.target.set_pids(Some(PIDS)).err();
        Ok(refused.map(|error| format!("{error}: the number of processes is not limited")).into_iter().collect())
    }

    fn made(&self, needed_for: &str) -> Result<&MadeGroups, OrderRefusal> {
        self.made
            .as_ref()
            .map_err(|why| OrderRefusal::Cannot { reason: format!("{needed_for} needs control groups: {why}") })
    }

    /// Whether there are groups.
    #[cfg(test)]
    pub fn are_there(&self) -> bool {
        self.made.is_ok()
    }

    /// Returns the files into which a new process of the target writes `0`, in this order. If cores
    /// are slow, the files belong to the slot with the fewest threads, so they differ from call to
    /// call. Empty if there are no groups.
    #[must_use]
    pub fn join_files(&self) -> Vec<PathBuf> {
        self.made.as_ref().map(|made| made.cpu.join_files()).unwrap_or_default()
    }

    /// Returns the join files that determine disk speed, for a process that measures only the disk.
    /// Empty with version 1, where the host stays in the block controller's root.
    #[must_use]
    pub fn disk_join_files(&self) -> Vec<PathBuf> {
        let Ok(made) = &self.made else { return Vec::new() };
        let version = made.hierarchies.of(Controller::Block).map(|hierarchy| hierarchy.version);
        if version == Some(Version::V2) { self.join_files() } else { Vec::new() }
    }

    /// Sets the cores' speed to this share of the profile's speed, above 0. `None`: the profile's
    /// speed. The change also applies to processes that already run.
    pub fn set_cpu(&self, of_profile: Option<f64>) -> Result<(), OrderRefusal> {
        Ok(self.made("a slower CPU")?.cpu.set(of_profile)?)
    }

    /// Sets the memory limit. `None`: the profile's. If memory does not suffice, processes are
    /// ended, the largest first.
    ///
    /// # Errors
    /// A controller is missing, more memory is in use than can be freed, or the system call fails.
    pub fn set_memory(&self, bytes: Option<u64>) -> Result<(), OrderRefusal> {
        let target = &self.made("less memory")?.target;
        match bytes {
            Some(bytes) => target.shrink_memory(bytes, PATIENCE)?,
            None => target.set_memory(self.envelope.memory_bytes)?,
        }
        Ok(())
    }

    /// Sets the limits of the disk, except its size. `None`: the profile's.
    ///
    /// # Errors
    /// The data has no volume of its own, a controller is missing, or the system call fails.
    pub fn set_disk(&self, disk: Option<&Disk>) -> Result<(), OrderRefusal> {
        self.made("a slower disk")?.set_throttle(&throttle(disk.unwrap_or(&self.envelope.disk)))
    }

    /// Sets the limits of a storage tier, except its size.
    ///
    /// # Errors
    /// The tier has no volume of its own, a controller is missing, or the system call fails.
    pub fn set_tier(&self, name: &str, disk: &Disk) -> Result<(), OrderRefusal> {
        self.made("a slower disk")?.set_tier(name, &throttle(disk))
    }

    /// Freezes or resumes the whole target. A process that starts in a frozen target does not run.
    pub fn freeze(&self, frozen: bool) -> Result<(), OrderRefusal> {
        Ok(self.made("freezing a host")?.target.set_frozen(frozen)?)
    }

    #[must_use]
    pub fn usage(&self) -> Usage {
        let Ok(made) = &self.made else { return Usage { cores: cores(&self.envelope), ..Usage::default() } };
        let target = &made.target;
        let transferred = made.transferred();
        Usage {
            cpu: target.cpu_time(),
            throttled_ns: made.cpu.throttled_ns(),
            cores: cores(&self.envelope),
            memory: target.memory(),
            cpu_stall: target.stall(Resource::Cpu),
            io_stall: target.stall(Resource::Io),
            memory_stall: target.stall(Resource::Memory),
            read_bytes: transferred.as_ref().map(|all| all.iter().map(|(_, read, _)| read).sum()),
            written_bytes: transferred.as_ref().map(|all| all.iter().map(|(_, _, written)| written).sum()),
            pids: target.pids(),
        }
    }

    /// Returns the period of the current CPU quota, seconds. Within a period, a slow core may run
    /// at full speed. `None`: no quota.
    #[must_use]
    pub fn quota_period_s(&self) -> Option<f64> {
        self.made.as_ref().ok()?.cpu.period_us().map(|us| us as f64 / 1e6)
    }

    /// Kills the target, undoes settings outside the groups, and removes the groups. Moves this
    /// process out first. The runner's group stays while a shim is in it. The run's group stays
    /// while the lab may need it.
    ///
    /// # Errors
    /// Some processes do not end after SIGKILL. Then some groups remain.
    pub fn remove(&self) -> Result<(), OrderRefusal> {
        let Ok(made) = &self.made else { return Ok(()) };
        let _ = made.set_throttle(&Throttle::default());
        for name in made.tiers.keys() {
            let _ = made.set_tier(name, &Throttle::default());
        }
        made.cpu.stop();
        made.target.remove(PATIENCE)?;
        made.runner.leave();
        made.runner.remove_empty();
        made.host.remove_empty();
        if made.is_alone {
            made.top.remove_empty();
        }
        Ok(())
    }
}

impl MadeGroups {
    /// Returns bytes read and written per device by the group. With cgroup version 1 and volumes,
    /// returns instead the bytes of all processes on the host's volumes.
    fn transferred(&self) -> Option<Vec<(Device, u64, u64)>> {
        let is_v1 = self.hierarchies.of(Controller::Block).is_some_and(|hierarchy| hierarchy.version == Version::V1);
        let volumes: Vec<Device> = self.device.into_iter().chain(self.tiers.values().copied()).collect();
        if !is_v1 || volumes.is_empty() {
            return self.target.transferred();
        }
        let mut all = Cgroup::root(&self.hierarchies).transferred()?;
        all.retain(|(device, _, _)| volumes.contains(device));
        Some(all)
    }

    /// Limits the volume. With cgroup version 1 the limit applies to the whole device, because
    /// journal writes belong to no group; the volume belongs to this host alone. With version 2 the
    /// root cannot be limited, so the limit applies to the target's group.
    fn set_throttle(&self, throttle: &Throttle) -> Result<(), OrderRefusal> {
        let reason = "a disk with limits needs a volume of its own: give the host's profile a disk";
        let device = self.device.ok_or_else(|| OrderRefusal::Cannot { reason: reason.to_owned() })?;
        self.throttle_device(device, throttle)
    }

    fn set_tier(&self, name: &str, throttle: &Throttle) -> Result<(), OrderRefusal> {
        let device = self.tiers.get(name).ok_or_else(|| OrderRefusal::Cannot {
            reason: format!("the tier `{name}` has no volume of its own on this host"),
        })?;
        self.throttle_device(*device, throttle)
    }

    fn throttle_device(&self, device: Device, throttle: &Throttle) -> Result<(), OrderRefusal> {
        let group = match self.hierarchies.need(Controller::Block, "a disk with limits")?.version {
            Version::V1 => &Cgroup::root(&self.hierarchies),
            Version::V2 => &self.target,
        };
        Ok(group.set_throttle(device, throttle)?)
    }
}

fn is_limited(envelope: &Envelope) -> bool {
    envelope.cores.is_some()
        || envelope.core_speed.is_some_and(|speed| speed < 1.0)
        || !envelope.cpus.is_empty()
        || envelope.memory_bytes.is_some()
        || envelope.disk.is_throttled()
        || envelope.tiers.values().any(Disk::is_throttled)
}

fn throttle(disk: &Disk) -> Throttle {
    let [read_iops, write_iops, read_bytes_per_s, write_bytes_per_s] =
        [disk.read_iops, disk.write_iops, disk.read_bytes_per_s, disk.write_bytes_per_s]
            .map(|figure| figure.map(|figure| figure.round().max(1.0) as u64));
    Throttle { read_iops, write_iops, read_bytes_per_s, write_bytes_per_s }
}

impl OrderRefusal {
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Cannot { reason } => reason.clone(),
            Self::System { doing, error } => format!("cannot {doing}: {error}"),
            other => format!("{other:?}"),
        }
    }
}

impl From<CgroupError> for OrderRefusal {
    fn from(error: CgroupError) -> Self {
        match error {
            CgroupError::System { doing, error } => Self::System { doing, error: error.to_string() },
            other => Self::Cannot { reason: other.to_string() },
        }
    }
}

// CPU limit of a host: one quota for the whole host, or a group per core if cores are slow.

/// Maximum number of passes when moving processes, which may fork during a pass.
const ROUNDS: usize = 100;

/// CPU limit that results from the envelope and a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupPlan {
    /// No quota.
    Free,
    /// One quota for the host: its cores run at full speed, but are fewer than its CPUs.
    Whole(Quota),
    /// One quota per core.
    Cores(usize, Quota),
}

impl GroupPlan {
    pub fn of(envelope: &Envelope, of_profile: Option<f64>) -> Self {
        let speed = envelope.core_speed.unwrap_or(1.0).min(1.0) * of_profile.unwrap_or(1.0);
        let cores = cores(envelope);
        if speed < 1.0 {
            Self::Cores(cores as usize, Quota::of_cores(speed))
        } else if cores < cpus(envelope) {
            Self::Whole(Quota::of_cores(f64::from(cores)))
        } else {
            Self::Free
        }
    }

    fn quota(self) -> Option<Quota> {
        match self {
            Self::Free => None,
            Self::Whole(quota) | Self::Cores(_, quota) => Some(quota),
        }
    }
}

/// Returns the number of CPUs on which the host may run.
fn cpus(envelope: &Envelope) -> u32 {
    let count = match envelope.cpus.len() {
        0 => std::thread::available_parallelism().map_or(1, NonZero::get),
        count => count,
    };
    u32::try_from(count).unwrap_or(1)
}

/// Returns the number of cores.
pub fn cores(envelope: &Envelope) -> u32 {
    envelope.cores.unwrap_or_else(|| cpus(envelope)).max(1)
}

#[derive(Debug)]
pub struct CpuLimit {
    target: Cgroup,
    envelope: Envelope,
    state: Mutex<GroupState>,
}

#[derive(Debug)]
struct GroupState {
    plan: GroupPlan,
    slots: Vec<Cgroup>,
    balancer: Option<StoppableThread>,
    /// Index of the slot used last. Of slots with equally few threads, the next index is used.
    last_start: usize,
}

impl CpuLimit {
    /// Makes the CPU limit of a host whose target group exists. Sets no limit.
    pub fn new(target: &Cgroup, envelope: &Envelope) -> Self {
        let state = GroupState { plan: GroupPlan::Free, slots: Vec::new(), balancer: None, last_start: usize::MAX };
        Self { target: target.clone(), envelope: envelope.clone(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, GroupState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the envelope's core speed, or a share of it.
    pub fn set(&self, of_profile: Option<f64>) -> Result<(), CgroupError> {
        let plan = GroupPlan::of(&self.envelope, of_profile);
        let mut state = self.state();
        let whole = match plan {
            GroupPlan::Whole(quota) => Some(quota),
            GroupPlan::Free | GroupPlan::Cores(..) => None,
        };
        match self.target.set_quota(whole) {
            // Without the controller there is no quota to remove.
            Err(CgroupError::Missing { .. }) if plan == GroupPlan::Free => {}
            done => done?,
        }
        match plan {
            GroupPlan::Cores(count, quota) => self.make_slots(&mut state, count, quota)?,
            GroupPlan::Free | GroupPlan::Whole(_) => self.remove_slots(&mut state)?,
        }
        state.plan = plan;
        Ok(())
    }

    fn make_slots(&self, state: &mut GroupState, count: usize, quota: Quota) -> Result<(), CgroupError> {
        let slots: Vec<Cgroup> = (0..count).map(|index| self.target.slot(&format!("core{index}"))).collect();
        for slot in &slots {
            slot.make()?;
            slot.set_quota(Some(quota))?;
        }
        if state.slots.len() == count {
            return Ok(());
        }
        state.slots = slots;
        // Moves the processes that already run, if the cores were not slow before.
        spread(&self.target.where_cpu_is_limited(), &state.slots);
        // A single core needs no balancing.
        if count > 1 {
            let balancer = cores::balance(&state.slots);
            state.balancer =
                Some(balancer.map_err(|error| CgroupError::System {
                    doing: "spread threads over slow cores".to_owned(),
                    error,
                })?);
        }
        Ok(())
    }

    /// Removes the slots, including slots that a crashed host with this name left.
    fn remove_slots(&self, state: &mut GroupState) -> Result<(), CgroupError> {
        state.balancer = None;
        let target = self.target.where_cpu_is_limited();
        let slots: Vec<Cgroup> =
            (0..).map(|index| self.target.slot(&format!("core{index}"))).take_while(|slot| slot.exists()).collect();
        state.slots.clear();
        move_all(&slots, &target)?;
        slots.iter().for_each(Cgroup::remove_empty);
        Ok(())
    }

    /// Stops moving threads.
    pub fn stop(&self) {
        self.state().balancer = None;
    }

    pub fn join_files(&self) -> Vec<PathBuf> {
        let mut state = self.state();
        let count = state.slots.len();
        let in_turn = (1..=count).map(|step| state.last_start.wrapping_add(step) % count);
        let Some(emptiest) = in_turn.min_by_key(|index| threads_of(&state.slots[*index]).len()) else {
            return self.target.join_files();
        };
        state.last_start = emptiest;
        self.target.join_files_with(&state.slots[emptiest])
    }

    pub fn throttled_ns(&self) -> Option<u64> {
        let state = self.state();
        let groups = if state.slots.is_empty() { std::slice::from_ref(&self.target) } else { &state.slots };
        groups.iter().map(|group| Some(group.throttling()?.throttled_ns)).sum()
    }

    pub fn period_us(&self) -> Option<u64> {
        self.state().plan.quota().map(|quota| quota.period_us)
    }
}

/// Distributes the threads of a group over slots, one by one. A server may have thousands of
/// threads that each do little, and a thread that does little is not worth moving later.
fn spread(from: &Cgroup, slots: &[Cgroup]) {
    let files: Vec<PathBuf> = slots.iter().filter_map(Cgroup::threads_file).collect();
    let mut next = files.iter().cycle();
    for _ in 0..ROUNDS {
        let threads = threads_of(from);
        if threads.is_empty() {
            return;
        }
        for (thread, file) in threads.into_iter().zip(&mut next) {
            // The thread may have ended meanwhile.
            let _ = fs::write(file, thread.to_string());
        }
    }
}

/// Moves every process and its threads from the groups `from` to the group `to`.
fn move_all(from: &[Cgroup], to: &Cgroup) -> Result<(), CgroupError> {
    for _ in 0..ROUNDS {
        let threads: Vec<u32> = from.iter().flat_map(threads_of).collect();
        if threads.is_empty() {
            return Ok(());
        }
        let mut moved = Vec::new();
        for thread in threads {
            // Any thread id identifies the process.
            let process = process_of(thread).unwrap_or(thread);
            if !moved.contains(&process) {
                to.take_in(process)?;
                moved.push(process);
            }
        }
    }
    Ok(())
}

/// Returns the process that a thread belongs to.
fn process_of(thread: u32) -> Option<u32> {
    let status = linux::procfs::text(&PathBuf::from(format!("/proc/{thread}/status")))?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Returns the threads in a group where CPU time is limited, without threads in groups below it.
fn threads_of(group: &Cgroup) -> Vec<u32> {
    let text = group.threads_file().and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::{Child, Command, Stdio};
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    use experiment::profile::Disk;
    use fixture::ourselves;
    use linux::cgroup::{Cgroup, Controller, Hierarchies, Quota, Throttle, remove_tree};
    use linux::procfs;

    use super::{GroupPlan, Groups, Setup, host_of, make_top, throttle, top_of};
    use crate::{Envelope, Isolation, OrderRefusal, VolumeSpec};

    pub fn setup(name: &str, envelope: Envelope) -> Setup {
        Setup {
            host: "n1".to_owned(),
            run: format!("test-{name}-{}", std::process::id()),
            envelope,
            ..Setup::default()
        }
    }

    pub fn slow(cores: u32, speed: f64) -> Envelope {
        Envelope { cores: Some(cores), core_speed: Some(speed), ..Envelope::default() }
    }

    /// Whether the test runs as root with the controllers that a slow host needs.
    pub fn can_be_slow() -> bool {
        let can = rustix::process::geteuid().is_root() && Hierarchies::detect().of(Controller::Cpu).is_some();
        if !can {
            eprintln!("skipped: slow cores need root and the control group controller `cpu`");
        }
        can
    }

    #[test]
    fn envelope_and_fault_make_a_group_plan() {
        let machine = |count: u32| Envelope { cpus: (0..count).collect(), ..Envelope::default() };
        let of = |cores, core_speed| Envelope { cores, core_speed, ..machine(4) };
        let quota = Quota::of_cores;
        let table = [
            (of(None, None), None, GroupPlan::Free),
            (of(Some(4), Some(1.0)), None, GroupPlan::Free),
            (of(Some(4), Some(1.7)), None, GroupPlan::Free),
            (of(Some(2), None), None, GroupPlan::Whole(quota(2.0))),
            (of(Some(8), None), None, GroupPlan::Free),
            (of(Some(2), Some(0.1)), None, GroupPlan::Cores(2, quota(0.1))),
            (of(None, Some(0.1)), None, GroupPlan::Cores(4, quota(0.1))),
            (of(Some(2), Some(0.4)), Some(0.25), GroupPlan::Cores(2, quota(0.1))),
            (of(None, None), Some(0.25), GroupPlan::Cores(4, quota(0.25))),
            (of(Some(2), None), Some(0.5), GroupPlan::Cores(2, quota(0.5))),
        ];
        for (envelope, fault, wanted) in table {
            assert_eq!(GroupPlan::of(&envelope, fault), wanted, "{envelope:?} {fault:?}");
        }
    }

    #[test]
    fn figures_of_a_disk_are_whole_numbers() {
        let disk = Disk { write_iops: Some(0.3), read_bytes_per_s: Some(1e6), ..Disk::default() };
        let wanted = Throttle { write_iops: Some(1), read_bytes_per_s: Some(1_000_000), ..Throttle::default() };
        assert_eq!(throttle(&disk), wanted);
    }

    #[test]
    fn a_limited_host_needs_control_groups() {
        let none = || Arc::new(Hierarchies::default());
        let why = Groups::make_with(none(), &setup("none", slow(2, 0.5))).unwrap_err();
        assert!(why.starts_with("no control groups are mounted; a host with limits needs"), "{why}");
        let (groups, notices) = Groups::make_with(none(), &setup("none", Envelope::default())).unwrap();
        assert_eq!(notices.len(), 1);
        // A pod gets no notice: it would appear for every pod, and again for each replacement.
        let beside = Setup { is_reached_aside: true, ..setup("none", Envelope::default()) };
        assert_eq!(Groups::make_with(none(), &beside).unwrap().1, [""; 0]);
        assert!(!groups.are_there() && groups.join_files().is_empty() && groups.usage().cpu.is_none());
        let Err(OrderRefusal::Cannot { reason }) = groups.freeze(true) else { panic!("cannot be done") };
        assert!(reason.starts_with("freezing a host needs control groups"), "{reason}");
        groups.remove().unwrap();
    }

    #[test]
    fn groups_without_a_name_are_refused() {
        for setup in [
            Setup { run: String::new(), ..setup("", Envelope::default()) },
            Setup { host: String::new(), ..setup("", Envelope::default()) },
        ] {
            assert!(Groups::make(&setup).unwrap_err().contains("no name"));
        }
    }

    #[test]
    fn a_host_with_a_volume_joins_no_blkio_group() {
        let machine = fixture::CgroupTree::v1();
        let volume = VolumeSpec { file: "/x".into(), device: "/dev/loop3".into(), at: "/data".into() };
        let isolation = |volume| Some(Isolation { volume, ..Isolation::default() });
        for (volume, is_in_blkio) in [(Some(volume), false), (None, true)] {
            let setup = Setup { isolation: isolation(volume), ..setup("volume", Envelope::default()) };
            let files =
                host_of(&Arc::new(Hierarchies::detect_in(&machine.folder)), &setup).child("target").join_files();
            assert_eq!(files.iter().any(|file| file.starts_with(machine.path("blkio"))), is_in_blkio, "{files:?}");
            assert!(files.iter().any(|file| file.starts_with(machine.path("memory"))));
        }
    }

    #[test]
    fn slow_cores_are_made_and_removed() {
        if !can_be_slow() {
            return;
        }
        let setup = setup("slow", slow(3, 0.05));
        make_top(&setup.run, 16).unwrap();
        let (groups, notices) = Groups::make(&setup).unwrap();
        assert_eq!(notices, Vec::<String>::new());
        assert_eq!(groups.quota_period_s(), Some(0.020));
        // While no process has started, each call returns another core.
        let slot =
            |files: &[std::path::PathBuf]| files.last().unwrap().parent().unwrap().file_name().unwrap().to_owned();
        let slots: BTreeSet<_> = (0..3).map(|_| slot(&groups.join_files())).collect();
        assert_eq!(slots.len(), 3);
        let mut process = started(&groups, &["sleep", "600"]);
        assert_eq!(in_slots(&setup), BTreeSet::from([process.id()]));
        assert_eq!(groups.usage().cores, 3);
        assert!(groups.usage().throttled_ns.is_some());
        // A fault on top of slow cores, and its end.
        groups.set_cpu(Some(0.5)).unwrap();
        assert_eq!(groups.quota_period_s(), Some(0.040));
        groups.set_cpu(None).unwrap();
        assert_eq!(groups.quota_period_s(), Some(0.020));
        groups.freeze(true).unwrap();
        groups.freeze(false).unwrap();
        let Err(OrderRefusal::Cannot { reason }) = groups.set_disk(Some(&Disk::default())) else {
            panic!("it has no volume")
        };
        assert!(reason.contains("volume"), "{reason}");
        groups.remove().unwrap();
        assert!(!process.wait().unwrap().success(), "it went with its group");
        assert!(leftovers(&top_of(&setup.run)).is_empty());
    }

    #[test]
    fn a_cpu_fault_moves_running_processes_to_slow_cores() {
        if !can_be_slow() {
            return;
        }
        let setup = setup("fault", Envelope::default());
        let (groups, _) = Groups::make(&setup).unwrap();
        let mut processes: Vec<Child> = (0..3).map(|_| started(&groups, &["sleep", "600"])).collect();
        assert_eq!(groups.quota_period_s(), None);
        let ids: BTreeSet<u32> = processes.iter().map(Child::id).collect();
        for of_profile in [Some(0.25), None, Some(0.5)] {
            groups.set_cpu(of_profile).unwrap();
            assert_eq!(groups.quota_period_s(), of_profile.map(|_| 0.010));
            assert_eq!(target(&setup).processes(), ids);
            assert_eq!(in_slots(&setup), if of_profile.is_some() { ids.clone() } else { BTreeSet::new() });
        }
        // The host crashes and is booted again with the limits of its profile.
        drop(groups);
        let (groups, _) = Groups::make(&setup).unwrap();
        assert_eq!((groups.quota_period_s(), in_slots(&setup)), (None, BTreeSet::new()));
        remove_tree(&top_of(&setup.run)).unwrap();
        assert!(leftovers(&top_of(&setup.run)).is_empty());
        processes.iter_mut().for_each(|process| assert!(!process.wait().unwrap().success()));
        groups.remove().unwrap();
    }

    /// Returns names at the top of any hierarchy that begin with `prefix`.
    fn leftovers(prefix: &str) -> Vec<String> {
        let hierarchies = Hierarchies::detect();
        let groups = hierarchies.all().iter().flat_map(|hierarchy| std::fs::read_dir(&hierarchy.root).unwrap());
        let names = groups.filter_map(|group| group.unwrap().file_name().into_string().ok());
        names.filter(|name| name.starts_with(prefix)).collect()
    }

    fn target(setup: &Setup) -> Cgroup {
        Cgroup::new(&Arc::new(Hierarchies::detect()), top_of(&setup.run)).child("n1").child("target")
    }

    fn in_slots(setup: &Setup) -> BTreeSet<u32> {
        let target = target(setup);
        (0..64).flat_map(|index| target.slot(&format!("core{index}")).processes()).collect()
    }

    fn started(groups: &Groups, command: &[&str]) -> Child {
        let joins: Vec<String> =
            groups.join_files().iter().map(|file| format!("echo 0 > {}", file.display())).collect();
        let script = format!("set -e; {}; exec {}", joins.join("; "), command.join(" "));
        let mut process =
            Command::new("sh").arg("-c").arg(script).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        // After `exec`, the process has joined.
        let program = format!("/proc/{}/cmdline", process.id());
        while std::fs::read_to_string(&program).is_ok_and(|text| !text.starts_with(command[0])) {
            assert!(process.try_wait().unwrap().is_none(), "it could not join");
            std::thread::yield_now();
        }
        process
    }

    /// Measures the actual speed of slow cores against the requested speed. Run by hand, as root,
    /// on an otherwise idle machine:
    /// `cargo test -p plimsoll-runner --lib -- --ignored --nocapture requested_and_actual_speed`.
    mod measured {
        use super::*;

        /// Duration of each measurement, after the time to settle.
        const MEASURED: Duration = Duration::from_secs(3);
        const SETTLES: Duration = Duration::from_millis(900);

        /// A workload: name, threads and ideal CPU use, both as functions of the number of cores.
        type Work = (&'static str, fn(usize) -> usize, fn(usize) -> f64);

        const WORK: &[Work] = &[
            ("one thread", |_| 1, |_| 1.0),
            ("a thread per core", |cores| cores, |cores| cores as f64),
            ("two threads per core", |cores| 2 * cores, |cores| cores as f64),
            ("beside 2,000 asleep", |cores| cores, |cores| cores as f64),
            ("children, one by one", |_| 1, |_| 1.0),
            ("children, one per core", |cores| cores, |cores| cores as f64),
            ("hops every 1 ms", |cores| cores.max(2), |_| 1.0),
            ("hops every 20 ms", |cores| cores.max(2), |_| 1.0),
        ];

        #[test]
        #[ignore = "it measures for minutes and asserts nothing"]
        fn requested_and_actual_speed() {
            if !can_be_slow() {
                return;
            }
            // Selects workloads whose name contains this text.
            let only = std::env::var("ONLY").unwrap_or_default();
            println!("{:24} cores speed  asked    got  error  got, no balancer  balancer's CPU", "work");
            for speed in [0.05, 0.1, 0.25, 0.5] {
                for cores in [1_u32, 2, 4] {
                    for work in WORK.iter().filter(|work| work.0.contains(&only)) {
                        let asked = (work.2)(cores as usize) * speed;
                        if asked > 1.2 {
                            continue;
                        }
                        let (got, cost) = measure(work, cores, speed, true);
                        let (without, _) = measure(work, cores, speed, false);
                        println!(
                            "{:24} {cores:5} {speed:5.2} {asked:6.3} {got:6.3} {:+5.1}% {without:17.3} {:14.2}%",
                            work.0,
                            (got / asked - 1.0) * 100.0,
                            cost * 100.0,
                        );
                    }
                }
            }
        }

        /// Returns the cores used, and the share used by the balancer.
        fn measure(work: &Work, cores: u32, speed: f64, balanced: bool) -> (f64, f64) {
            let setup = setup("measured", slow(cores, speed));
            make_top(&setup.run, 16).unwrap();
            let (groups, _) = Groups::make(&setup).unwrap();
            if !balanced && let Ok(made) = &groups.made {
                made.cpu.stop();
            }
            let mut process = worker(&groups, work.0, (work.1)(cores as usize));
            // Thousands of threads take longer to start.
            pause(if work.0.ends_with("asleep") { 10 * SETTLES } else { SETTLES });
            let target = host_of(&Arc::new(Hierarchies::detect()), &setup).child("target");
            let used_ns = || used_ns(&target).unwrap();
            let (before_ns, own_ns, start) = (used_ns(), balancer_ns(), Instant::now());
            pause(MEASURED);
            let took_ns = start.elapsed().as_nanos() as f64;
            let got = (used_ns() - before_ns) as f64 / took_ns;
            let cost = balancer_ns().saturating_sub(own_ns) as f64 / took_ns;
            // The threads end at the speed of the slow cores.
            let _ = process.kill().and_then(|()| process.wait());
            groups.remove().unwrap();
            remove_tree(&top_of(&setup.run)).unwrap();
            (got, cost)
        }

        /// Returns the CPU time of a group, from version 2 or, if absent, version 1.
        fn used_ns(group: &Cgroup) -> Option<u64> {
            let files = group.join_files().into_iter();
            let mut texts = files
                .flat_map(|file| ["cpu.stat", "cpuacct.usage"].map(|name| procfs::text(&file.with_file_name(name))));
            texts.find_map(|text| {
                let text = text?;
                let us = text.lines().find_map(|line| line.strip_prefix("usage_usec ")?.trim().parse::<u64>().ok());
                us.map(|us| us * 1000).or_else(|| text.trim().parse().ok())
            })
        }

        fn pause(time: Duration) {
            let (_held, never) = channel::<()>();
            let _ = never.recv_timeout(time);
        }

        fn balancer_ns() -> u64 {
            let tasks = std::path::Path::new("/proc/self/task");
            let figure = |id: u32| {
                let folder = tasks.join(id.to_string());
                procfs::stat_at(&folder).filter(|stat| stat.name == "cores")?;
                procfs::text(&folder.join("schedstat"))?.split(' ').next()?.parse::<u64>().ok()
            };
            procfs::numbers(tasks).into_iter().filter_map(figure).sum()
        }

        fn worker(groups: &Groups, work: &str, threads: usize) -> Child {
            let joins: Vec<String> =
                groups.join_files().iter().map(|file| format!("echo 0 > {}", file.display())).collect();
            let program = ourselves("control_groups::tests::measured::work");
            let mut command = Command::new("sh");
            command.args(["-c", &format!("{}; exec \"$@\"", joins.join("; ")), "sh"]).args(program);
            command.env("WORK", work).env("THREADS", threads.to_string());
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        }

        #[test]
        #[ignore = "started by the test above, to be busy until it is killed"]
        fn work() {
            let (Ok(work), Ok(threads)) = (std::env::var("WORK"), std::env::var("THREADS")) else { return };
            let threads: usize = threads.parse().unwrap();
            if let Some(ms) = work.strip_prefix("hops every ").and_then(|text| text.strip_suffix(" ms")) {
                return hop(threads, Duration::from_millis(ms.parse().unwrap()));
            }
            if work == "beside 2,000 asleep" {
                let asleep = || pause(Duration::from_secs(600));
                (0..2_000).for_each(|_| drop(std::thread::Builder::new().stack_size(65_536).spawn(asleep).unwrap()));
            }
            let is_forking = work.starts_with("children");
            let busy = move || if is_forking { fork() } else { spin(Duration::MAX) };
            let others: Vec<_> = (1..threads).map(|_| std::thread::Builder::new().spawn(busy).unwrap()).collect();
            busy();
            others.into_iter().for_each(|thread| thread.join().unwrap());
        }

        /// Uses this much CPU time.
        fn spin(time: Duration) {
            let used = || {
                let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
                Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
            };
            let until = used().saturating_add(time);
            while used() < until {
                std::hint::spin_loop();
            }
        }

        fn fork() {
            loop {
                let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
                let _ = Command::new("sh").args(["-c", script]).status();
            }
        }

        /// Lets one thread work at a time. After `each`, the next thread continues.
        fn hop(threads: usize, each: Duration) {
            let (mut to, first) = channel::<()>();
            let start = to.clone();
            let mut from = Some(first);
            for index in 0..threads {
                let (next, receiver) = channel::<()>();
                let turn = from.replace(receiver).unwrap();
                // The last thread hands over to the first.
                let next = if index + 1 == threads { start.clone() } else { next };
                to = next.clone();
                std::thread::Builder::new()
                    .spawn(move || {
                        while turn.recv().is_ok() {
                            spin(each);
                            let _ = next.send(());
                        }
                    })
                    .unwrap();
            }
            drop(to);
            start.send(()).unwrap();
            pause(Duration::from_secs(600));
        }
    }
}
