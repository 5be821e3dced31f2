//! The CPU of a host: a quota for all of it, or a group for each of its cores if those are slow. It must not move threads from
//! core to core.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Envelope;
use crate::linux::cgroup::{Error, Group, Quota};
use crate::runner::cores::Balancer;

/// Rounds of moving processes, for those that start others meanwhile.
const ROUNDS: usize = 100;

/// What its envelope and a fault come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// No quota.
    Free,
    /// One for the host: cores that are not slow, but fewer than there are CPUs.
    Whole(Quota),
    /// One for each core.
    Cores(usize, Quota),
}

impl Plan {
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

/// CPUs that it may run on.
fn cpus(envelope: &Envelope) -> u32 {
    let machine = || std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
    if envelope.cpus.is_empty() { machine() } else { u32::try_from(envelope.cpus.len()).unwrap_or(1) }
}

/// Its cores.
pub fn cores(envelope: &Envelope) -> u32 {
    envelope.cores.unwrap_or_else(|| cpus(envelope)).max(1)
}

#[derive(Debug)]
pub struct Cpu {
    target: Group,
    envelope: Envelope,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    plan: Plan,
    slots: Vec<Group>,
    balancer: Option<Balancer>,
    /// Where the last process was started: of two slots with the same number of threads, it is the other's turn.
    last_start: usize,
}

impl Cpu {
    /// Of a host whose target's group is made. Nothing is limited yet.
    pub fn new(target: &Group, envelope: &Envelope) -> Self {
        let state = State { plan: Plan::Free, slots: Vec::new(), balancer: None, last_start: usize::MAX };
        Self { target: target.clone(), envelope: envelope.clone(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what the envelope says, or a part of it.
    pub fn set(&self, of_profile: Option<f64>) -> Result<(), Error> {
        let plan = Plan::of(&self.envelope, of_profile);
        let mut state = self.state();
        let whole = match plan {
            Plan::Whole(quota) => Some(quota),
            Plan::Free | Plan::Cores(..) => None,
        };
        match self.target.set_quota(whole) {
            // Without the controller there is nothing to be taken back either.
            Err(Error::Missing { .. }) if plan == Plan::Free => {}
            done => done?,
        }
        match plan {
            Plan::Cores(count, quota) => self.make_slots(&mut state, count, quota)?,
            Plan::Free | Plan::Whole(_) => self.remove_slots(&mut state)?,
        }
        state.plan = plan;
        Ok(())
    }

    fn make_slots(&self, state: &mut State, count: usize, quota: Quota) -> Result<(), Error> {
        let slots: Vec<Group> = (0..count).map(|index| self.target.slot(&format!("core{index}"))).collect();
        for slot in &slots {
            slot.make()?;
            slot.set_quota(Some(quota))?;
        }
        if state.slots.len() == count {
            return Ok(());
        }
        state.slots = slots;
        // What already runs, on cores that were not slow before.
        spread(&self.target.where_cpu_is_limited(), &state.slots);
        // One core has nothing to be spread over.
        if count > 1 {
            let system = |error: io::Error| Error::System { doing: "spread threads over slow cores".to_owned(), error };
            state.balancer = Some(Balancer::start(&state.slots).map_err(system)?);
        }
        Ok(())
    }

    /// Also those that a host of this name left when it crashed.
    fn remove_slots(&self, state: &mut State) -> Result<(), Error> {
        state.balancer = None;
        let target = self.target.where_cpu_is_limited();
        let slots: Vec<Group> =
            (0..).map(|index| self.target.slot(&format!("core{index}"))).take_while(|slot| slot.exists()).collect();
        state.slots.clear();
        move_all(&slots, &target)?;
        slots.iter().for_each(Group::remove_empty);
        Ok(())
    }

    /// No thread is moved any more.
    pub fn stop(&self) {
        self.state().balancer = None;
    }

    pub fn join_files(&self) -> Vec<PathBuf> {
        let mut state = self.state();
        let count = state.slots.len();
        let threads = |index: &usize| threads_of(&state.slots[*index]).len();
        let in_turn = (1..=count).map(|step| state.last_start.wrapping_add(step) % count);
        let Some(emptiest) = in_turn.min_by_key(threads) else { return self.target.join_files() };
        state.last_start = emptiest;
        self.target.join_files_with(&state.slots[emptiest])
    }

    pub fn throttled_ns(&self) -> Option<u64> {
        let state = self.state();
        let throttled_ns = |group: &Group| Some(group.throttling()?.throttled_ns);
        if state.slots.is_empty() {
            return throttled_ns(&self.target);
        }
        state.slots.iter().map(throttled_ns).sum()
    }

    pub fn period_us(&self) -> Option<u64> {
        self.state().plan.quota().map(|quota| quota.period_us)
    }
}

/// Spreads the threads of a group over slots, each thread by itself: a server may have thousands that do a little each, and
/// what does a little is not worth being moved later.
fn spread(from: &Group, slots: &[Group]) {
    let files: Vec<PathBuf> = slots.iter().filter_map(Group::threads_file).collect();
    let mut next = files.iter().cycle();
    for _ in 0..ROUNDS {
        let threads = threads_of(from);
        if threads.is_empty() {
            return;
        }
        for (thread, file) in threads.into_iter().zip(&mut next) {
            // One that has ended meanwhile is not there to be moved.
            let _ = fs::write(file, thread.to_string());
        }
    }
}

/// Moves every process, with all its threads, from some groups to another.
fn move_all(from: &[Group], to: &Group) -> Result<(), Error> {
    for _ in 0..ROUNDS {
        let threads: Vec<u32> = from.iter().flat_map(threads_of).collect();
        if threads.is_empty() {
            return Ok(());
        }
        let mut moved = Vec::new();
        for thread in threads {
            // The number of any thread stands for its process.
            let process = process_of(thread).unwrap_or(thread);
            if !moved.contains(&process) {
                to.take_in(process)?;
                moved.push(process);
            }
        }
    }
    Ok(())
}

/// The process that a thread belongs to.
fn process_of(thread: u32) -> Option<u32> {
    let status = crate::linux::procfs::text(&PathBuf::from(format!("/proc/{thread}/status")))?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Threads in a group itself, not below it, where CPU time is limited.
fn threads_of(group: &Group) -> Vec<u32> {
    let text = group.threads_file().and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}
