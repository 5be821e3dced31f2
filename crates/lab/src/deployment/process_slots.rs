//! The process slots of a deployment on its hosts: start, watch, signal, restart and stop of their
//! processes.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use experiment::plan::GENERATOR_ROLE;
use record::events::What;
use runner::process_tree::Member;
use rustix::process::Signal;

use super::lab_hosts::LabHosts;
use crate::Error;
use crate::host::{HostKind, on_each_host};
use crate::host_process::{ProcessExit, Start};
use crate::readiness::ReadinessCheck;
use crate::session::HostProcess;

/// Number of last output lines that are recorded if a process ends unexpectedly.
const LAST_LINES: usize = 10;
/// Time limit for a killed process to disappear before it is started again.
const KILL_PATIENCE: Duration = Duration::from_secs(1);
/// Time limit between SIGKILL and the end of a process when the target is stopped.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval between checks whether the user wants to end at once.
const GLANCE: Duration = Duration::from_millis(50);

/// A process of the target, with everything that is needed to start it again.
pub(crate) struct ProcessSlot {
    /// Index of the slot's host.
    pub host: usize,
    /// Length of the chain of `after` roles before this slot. Slots of the same rank start
    /// together.
    pub rank: usize,
    /// Specification of the process.
    pub start: Start,
    /// Readiness check of the process.
    pub check: ReadinessCheck,
    /// Time limit for the process to be ready, seconds.
    pub ready_within_s: f64,
    /// Signal that asks the process to stop.
    pub stop_signal: Signal,
    /// Time limit for the process to stop, seconds.
    pub stop_within_s: f64,
    /// Whether the stop signal also goes to the process's children.
    pub stops_group: bool,
    /// Whether the process may end with exit code 0 while its children continue.
    pub may_detach: bool,
    /// Address that clients use, if this process serves them.
    pub service: Option<String>,
    /// The member's own address, if this process makes its host a member.
    pub member: Option<String>,
    /// Name of the process's private folder.
    pub folder: Option<String>,
    /// The process, while it runs.
    pub process: Option<HostProcess>,
    /// The previous process. Parts of its process group may still run.
    pub last: Option<HostProcess>,
    /// Whether the end of the process is expected.
    pub end_expected: bool,
}

impl ProcessSlot {
    /// Creates a slot of rank 0 that serves no clients, is no member, is ready at once, and stops
    /// with SIGTERM.
    pub fn new(host: usize, start: Start) -> Self {
        Self {
            host,
            rank: 0,
            start,
            check: ReadinessCheck::Tcp(Vec::new()),
            ready_within_s: 0.0,
            stop_signal: Signal::TERM,
            stop_within_s: 0.0,
            stops_group: false,
            may_detach: false,
            service: None,
            member: None,
            folder: None,
            process: None,
            last: None,
            end_expected: false,
        }
    }

    fn running(&self) -> Result<&HostProcess, Error> {
        self.process.as_ref().ok_or_else(|| Error::Fault("its process is not running".to_owned()))
    }

    fn is_generator(&self) -> bool {
        self.start.role == GENERATOR_ROLE
    }

    fn stop_within(&self) -> Duration {
        Duration::try_from_secs_f64(self.stop_within_s).unwrap_or_default()
    }

    /// Signals the process if it runs. Signals its whole group if `stops_group` is set.
    fn signal(&mut self, signal: Signal) {
        match &mut self.process {
            Some(process) if self.stops_group => process.signal_group(signal),
            Some(process) => process.signal(signal),
            None => {}
        }
    }

    /// Signals the process group, also if its leader has ended.
    fn signal_group(&mut self, signal: Signal) {
        for process in [&mut self.process, &mut self.last].into_iter().flatten() {
            process.signal_group(signal);
        }
    }
}

/// A frozen process group of a slot, or a frozen program in the tree of the slot's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PausedProcess {
    pub slot: usize,
    pub program: Option<String>,
}

impl PausedProcess {
    /// Whether this pause alone also keeps `other` frozen.
    pub fn holds(&self, other: &Self) -> bool {
        self.slot == other.slot && (self.program.is_none() || self.program == other.program)
    }
}

/// A slot to start again.
#[derive(Debug)]
struct Restart {
    slot: usize,
    /// Id of the process that must end before the start.
    pid: u32,
    /// Time at which the process is killed if it still runs.
    give_up: Instant,
    /// Pause between the end of the process and the next start.
    wait: Duration,
    /// Time of the next start. `None` until the process has ended.
    due: Option<Instant>,
}

/// All process slots of a deployment, and their hosts.
pub(crate) struct ProcessSlots {
    pub hosts: LabHosts,
    /// Slots in start order: by rank, then by role.
    pub slots: Vec<ProcessSlot>,
    /// Slots to start again once their process has ended.
    restarts: Vec<Restart>,
}

impl ProcessSlots {
    pub fn new(hosts: LabHosts) -> Self {
        Self { hosts, slots: Vec::new(), restarts: Vec::new() }
    }

    // Queries.

    fn hosts_of(&self, is: impl Fn(&ProcessSlot) -> bool) -> Vec<String> {
        let slots = self.slots.iter().filter(|slot| is(slot));
        slots.map(|slot| self.hosts.name(slot.host).to_owned()).collect()
    }

    /// Returns the names of the hosts that run a process of this role.
    pub fn hosts_with(&self, role: &str) -> Vec<String> {
        self.hosts_of(|slot| slot.start.role == role)
    }

    /// Returns the names of the members' hosts, in start order. If the target was not started here,
    /// its real hosts count as members.
    pub fn member_hosts(&self) -> Vec<String> {
        if !self.slots.is_empty() {
            return self.hosts_of(|slot| slot.member.is_some());
        }
        // A target that already runs has its real hosts as members.
        let real = self.hosts.all.iter().filter(|host| host.kind() == HostKind::Remote);
        real.map(|host| host.name().to_owned()).collect()
    }

    /// Returns the names of the hosts between the clients and the members. They serve clients but
    /// run no member.
    pub fn fronts(&self) -> Vec<String> {
        let members = self.member_hosts();
        let mut serving = self.hosts_of(|slot| slot.service.is_some());
        serving.retain(|host| !members.contains(host));
        serving
    }

    /// Returns the slots that serve clients on hosts that are not in `down`. If none remains,
    /// returns all slots that serve clients.
    pub fn serving(&self, down: &[String]) -> Vec<&ProcessSlot> {
        let all: Vec<_> = self.slots.iter().filter(|slot| slot.service.is_some()).collect();
        let mut up = all.clone();
        up.retain(|slot| down.iter().all(|host| host != self.hosts.name(slot.host)));
        if up.is_empty() { all } else { up }
    }

    /// Returns the address of the member on this host.
    pub fn member_address(&self, host: &str) -> Option<String> {
        let mut here = self.slots.iter().filter(|slot| self.hosts.name(slot.host) == host);
        here.find_map(|slot| slot.member.clone())
    }

    /// Returns the slot of a role on a host. Without a role, returns the member's slot.
    pub fn slot_of(&self, host: &str, role: Option<&str>) -> Result<usize, Error> {
        let found = self.slots.iter().position(|slot| {
            let is_wanted = role.map_or(slot.member.is_some(), |role| slot.start.role == role);
            is_wanted && self.hosts.name(slot.host) == host
        });
        found.ok_or_else(|| Error::Fault(format!("{host} has no process `{}`", role.unwrap_or("of a member"))))
    }

    /// Returns an error that names the first host or process of the target that is down.
    pub fn first_down(&self) -> Option<Error> {
        if let Some(host) = self.hosts.down().first() {
            return Some(Error::Host {
                host: self.hosts.name(*host).to_owned(),
                reason: "the host is down".to_owned(),
            });
        }
        let ended = self.slots.iter().find(|slot| !slot.is_generator() && slot.process.is_none())?;
        let reason = format!("its process `{}` has ended", ended.start.role);
        Some(Error::Host { host: self.hosts.name(ended.host).to_owned(), reason })
    }

    /// Returns the slots of each role, in start order.
    pub fn roles(&self) -> Vec<Range<usize>> {
        self.ranges(|one, next| one.start.role == next.start.role)
    }

    /// Returns the ranges of slots that start together, in start order.
    pub fn ranks(&self) -> Vec<Range<usize>> {
        self.ranges(|one, next| one.rank == next.rank)
    }

    /// Splits the slots into ranges of neighbours that are the same by `is_same`.
    fn ranges(&self, is_same: fn(&ProcessSlot, &ProcessSlot) -> bool) -> Vec<Range<usize>> {
        let mut start = 0;
        let ranges = self.slots.chunk_by(is_same).map(|slots| {
            start += slots.len();
            start - slots.len()..start
        });
        ranges.collect()
    }

    /// Returns the private folders on each host.
    pub fn folders(&self) -> Vec<Vec<String>> {
        let mut folders = vec![Vec::new(); self.hosts.all.len()];
        for slot in &self.slots {
            folders[slot.host].extend(slot.folder.clone());
        }
        folders
    }

    // Events.

    /// Reports hosts that came up or went down since the previous check. Faults report their own
    /// changes, so a change that is noticed here was not planned.
    pub fn note_hosts(&mut self) {
        for (index, is_up) in self.hosts.changed() {
            if is_up { self.hosts.report_up(index) } else { self.note_host_down(index, false) }
        }
    }

    /// Reports ends of processes and new log lines, and continues the restarts.
    pub fn note_processes(&mut self) {
        for index in 0..self.slots.len() {
            self.note_end(index);
        }
        self.continue_restarts();
        for slot in &self.slots {
            for line in slot.start.log_watcher.take() {
                self.hosts.report_line(slot.host, &slot.start.role, line);
            }
        }
    }

    /// Reports, for each watched text, the last line that was left out of the events.
    pub fn report_left_out(&mut self) {
        for slot in &self.slots {
            for line in slot.start.log_watcher.take_left_out() {
                self.hosts.report_line(slot.host, &slot.start.role, line);
            }
        }
    }

    /// Reports the end of a slot's process if it has ended, and drops the process.
    pub fn note_end(&mut self, index: usize) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let Some(ended) = slot.process.as_mut().and_then(|process| process.ended()) else { return };
        // Checks the host first: the process may only seem to have ended because its host is gone.
        if self.hosts.is_unreported_loss(slot.host) {
            let host = slot.host;
            return self.note_host_down(host, false);
        }
        let expected = slot.end_expected || (slot.may_detach && ended == ProcessExit::Exit(0));
        // A process that ends unexpectedly may have printed the reason.
        let last_lines = if expected { None } else { slot.process.as_mut().map(|process| process.last_lines()) };
        let mut last_lines = last_lines.unwrap_or_default();
        last_lines.drain(..last_lines.len().saturating_sub(LAST_LINES));
        // Keeps the process: its group may live on, and its id is needed to end the group.
        slot.last = slot.process.take();
        self.report_process_down(index, ended.to_string(), expected, last_lines);
        self.watch();
    }

    fn report_process_down(&mut self, index: usize, how: String, expected: bool, last_lines: Vec<String>) {
        let slot = &self.slots[index];
        let (host, process) = (self.hosts.name(slot.host).to_owned(), slot.start.role.clone());
        self.hosts.report(What::ProcessDown { host, process, how, expected, last_lines });
    }

    /// Reports once that a host is down, with every process on it.
    pub fn note_host_down(&mut self, host: usize, expected: bool) {
        let Some(expected) = self.hosts.report_down(host, expected) else { return };
        for index in 0..self.slots.len() {
            if self.slots[index].host == host {
                self.note_lost(index, expected);
            }
        }
        self.watch();
    }

    /// Reports that a slot's process is gone with its host.
    fn note_lost(&mut self, index: usize, expected: bool) {
        let slot = &mut self.slots[index];
        slot.end_expected |= expected;
        let killed = ProcessExit::Signal(Signal::KILL.as_raw());
        let ended = slot.process.as_mut().and_then(|process| process.ended());
        // A lost session also reports SIGKILL for every process, so that signal does not prove that
        // the process was killed.
        if ended.is_some_and(|ended| expected || ended != killed) {
            self.note_end(index);
        }
        let slot = &mut self.slots[index];
        // No process of its group can be left, and its exit status is unknown.
        slot.last = None;
        if slot.process.take().is_some() {
            let how = if expected { killed.to_string() } else { "lost with its host".to_owned() };
            // Reported as expected, because the host failed and not the target.
            self.report_process_down(index, how, true, Vec::new());
        }
    }

    /// Reports the hosts and the running processes as up again, for another trial.
    pub fn report_all_up(&mut self) {
        self.hosts.report_all_up();
        for slot in &self.slots {
            let Some(process) = &slot.process else { continue };
            let (host, role) = (self.hosts.name(slot.host).to_owned(), slot.start.role.clone());
            self.hosts.report(What::ProcessUp { host, process: role, pid: process.pid() });
        }
    }

    /// Passes the running processes to the probes.
    pub fn watch(&self) {
        let running = self.slots.iter().filter_map(|slot| {
            let pid = slot.process.as_ref()?.pid();
            let (host, role) = (self.hosts.name(slot.host).to_owned(), slot.start.role.clone());
            Some(Member { host, role, pid, programs: slot.start.programs.clone() })
        });
        self.hosts.watched.set(running.collect());
    }

    // Start.

    /// Starts the slots of a role on all hosts in parallel, at most one slot per host. Does not
    /// wait until the processes are ready.
    pub fn start_role(&mut self, role: Range<usize>) -> Result<(), Error> {
        let mut starts: Vec<Option<&Start>> = vec![None; self.hosts.all.len()];
        for slot in &self.slots[role.clone()] {
            starts[slot.host] = Some(&slot.start);
        }
        let started =
            on_each_host(&mut self.hosts.all, |index, host| starts[index].map(|start| host.start(start)).transpose());
        let mut started: Vec<_> = started.into_iter().map(Some).collect();
        let mut failed = None;
        for index in role {
            match started[self.slots[index].host].take() {
                Some(Ok(Some(process))) => self.note_start(index, process),
                Some(Err(error)) => drop(failed.get_or_insert(error)),
                Some(Ok(None)) | None => {}
            }
        }
        self.watch();
        failed.map_or(Ok(()), Err)
    }

    /// Starts a slot's process. Does not wait until it is ready.
    pub fn start(&mut self, index: usize) -> Result<(), Error> {
        let Some(slot) = self.slots.get(index) else { return Ok(()) };
        let process = self.hosts.all[slot.host].start(&slot.start)?;
        self.note_start(index, process);
        self.watch();
        Ok(())
    }

    fn note_start(&mut self, index: usize, process: HostProcess) {
        let slot = &mut self.slots[index];
        let (host, role) = (self.hosts.name(slot.host).to_owned(), slot.start.role.clone());
        let up = What::ProcessUp { host, process: role, pid: process.pid() };
        slot.process = Some(process);
        slot.end_expected = false;
        self.hosts.report(up);
    }

    /// Starts the processes on a host that was booted, in order. A generator is not started: it
    /// cannot join a running load.
    pub fn start_missing(&mut self, host: usize) -> Result<(), Error> {
        let mut started = Ok(());
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            if slot.host == host && slot.process.is_none() && !slot.is_generator() {
                started = started.and(self.start(index));
            }
        }
        started
    }

    // Faults.

    /// Signals a slot's process, or its whole group if `stops_group` is set. If `ends`, the end of
    /// the process counts as expected from now on. Fails if the process does not run.
    pub fn signal(&mut self, index: usize, signal: Signal, ends: bool) -> Result<(), Error> {
        self.note_end(index);
        let slot = &mut self.slots[index];
        slot.running()?;
        slot.signal(signal);
        slot.end_expected |= ends;
        Ok(())
    }

    /// Signals a program in the tree of a slot's process. If `ends` and the program is the process
    /// itself, the end of the process counts as expected. Fails if the process does not run.
    pub fn signal_program(&mut self, index: usize, program: &str, signal: Signal, ends: bool) -> Result<(), Error> {
        self.note_end(index);
        let slot = &mut self.slots[index];
        let process = slot.running()?;
        let is_itself = process.signal_program(program, signal)?.contains(&process.pid());
        slot.end_expected |= ends && is_itself;
        Ok(())
    }

    /// Freezes a process or a program. Fails if the process does not run.
    pub fn freeze(&mut self, paused: &PausedProcess) -> Result<(), Error> {
        if let Some(program) = &paused.program {
            return self.signal_program(paused.slot, program, Signal::STOP, false);
        }
        self.note_end(paused.slot);
        self.slots[paused.slot].running()?.signal_group(Signal::STOP);
        Ok(())
    }

    /// Resumes a frozen process or program.
    pub fn resume(&mut self, paused: &PausedProcess) {
        let Some(slot) = self.slots.get_mut(paused.slot) else { return };
        if let (Some(program), Some(process)) = (&paused.program, &mut slot.process) {
            // An error means that the program has ended.
            let _ = process.signal_program(program, Signal::CONT);
            return;
        }
        // If the process has ended, other processes of its group may still be frozen.
        slot.signal_group(Signal::CONT);
    }

    /// Starts a slot's process again with the same ports and data, if it has ended. First kills the
    /// rest of the previous process group, which may hold the port. Waits up to `KILL_PATIENCE` for
    /// a process whose end is expected.
    pub fn start_again(&mut self, index: usize) -> Result<(), Error> {
        self.note_end(index);
        let Some(slot) = self.slots.get_mut(index) else { return Ok(()) };
        if let (Some(process), true) = (&mut slot.process, slot.end_expected) {
            process.wait(KILL_PATIENCE);
        }
        self.note_end(index);
        let slot = &mut self.slots[index];
        if slot.process.is_some() {
            let lives_on = format!("`{}` did not end, so it is not started again", slot.start.role);
            return if slot.end_expected { Err(Error::Fault(lives_on)) } else { Ok(()) };
        }
        if let Some(last) = slot.last.take() {
            last.signal_group(Signal::KILL);
        }
        self.start(index)
    }

    /// Asks a slot's process to end. Starts it again `wait` after its end. Fails if the process
    /// does not run.
    pub fn restart(&mut self, index: usize, wait: Duration) -> Result<(), Error> {
        if self.restarts.iter().any(|restart| restart.slot == index) {
            return Err(Error::Fault("its process is already being restarted".to_owned()));
        }
        let slot = &self.slots[index];
        let pid = slot.process.as_ref().map_or(0, |process| process.pid());
        let within = slot.stop_within();
        self.signal(index, slot.stop_signal, true)?;
        self.restarts.push(Restart { slot: index, pid, give_up: Instant::now() + within, wait, due: None });
        Ok(())
    }

    pub fn cancel_restarts(&mut self) {
        self.restarts.clear();
    }

    /// Continues pending restarts: kills processes that do not end in time, and starts those that
    /// have ended.
    fn continue_restarts(&mut self) {
        let mut open = Vec::new();
        for mut restart in std::mem::take(&mut self.restarts) {
            let now = Instant::now();
            let running = self.slots[restart.slot].process.as_mut().filter(|process| process.pid() == restart.pid);
            match running {
                Some(process) if now >= restart.give_up => process.signal_group(Signal::KILL),
                Some(_) => {}
                None => drop(restart.due.get_or_insert(now + restart.wait)),
            }
            if restart.due.is_none_or(|due| now < due) {
                open.push(restart);
            } else if let Err(error) = self.start_again(restart.slot) {
                let role = &self.slots[restart.slot].start.role;
                self.hosts.notice(format!("`{role}` could not be started again: {error}"));
            }
        }
        self.restarts = open;
    }

    /// Ends a host at once, with every process on it.
    pub fn crash_host(&mut self, host: usize) -> Result<(), Error> {
        if !self.hosts.is_up(host) {
            return Err(Error::Fault(format!("{} is already down", self.hosts.name(host))));
        }
        // Processes that ended earlier did not end because of the crash.
        for index in 0..self.slots.len() {
            if self.slots[index].host == host {
                self.note_end(index);
            }
        }
        self.hosts.all[host].crash()?;
        self.restarts.retain(|restart| self.slots[restart.slot].host != host);
        self.note_host_down(host, true);
        Ok(())
    }

    // Stop.

    /// Sends the stop signal to all slots. Then waits for each, up to its time limit or until the
    /// user wants to end at once.
    pub fn ask_to_end(&mut self, slots: Range<usize>, at_once: &AtomicBool) {
        let asked = Instant::now();
        for index in slots.clone() {
            self.note_end(index);
            let slot = &mut self.slots[index];
            slot.end_expected = true;
            slot.signal(slot.stop_signal);
        }
        for index in slots {
            let slot = &mut self.slots[index];
            let within = slot.stop_within();
            if let Some(process) = &mut slot.process {
                while !at_once.load(Ordering::SeqCst)
                    && asked.elapsed() < within
                    && process.wait(within.saturating_sub(asked.elapsed()).min(GLANCE)).is_none()
                {}
            }
            self.note_end(index);
        }
    }

    /// Kills all remaining processes of these slots.
    pub fn end(&mut self, slots: Range<usize>) {
        for index in slots.clone() {
            self.note_end(index);
            self.slots[index].end_expected = true;
            self.slots[index].signal_group(Signal::KILL);
        }
        for index in slots.rev() {
            if let Some(process) = &mut self.slots[index].process {
                process.wait(PATIENCE);
            }
            self.note_end(index);
        }
    }

    /// Kills all processes and forgets them, but keeps their slots.
    pub fn end_all(&mut self) {
        self.end(0..self.slots.len());
        for slot in &mut self.slots {
            (slot.process, slot.last) = (None, None);
        }
    }

    /// Ends the generators and removes their slots, which come last.
    pub fn end_generators(&mut self) {
        if let Some(first) = self.slots.iter().position(ProcessSlot::is_generator) {
            self.end(first..self.slots.len());
            self.restarts.retain(|restart| restart.slot < first);
            self.slots.truncate(first);
            self.watch();
        }
    }

    /// Drops all processes and hosts.
    pub fn release(&mut self) {
        for index in 0..self.hosts.all.len() {
            self.note_host_down(index, true);
        }
        self.watch();
        let folders = self.folders();
        for mut slot in self.slots.drain(..) {
            // Dropping the process first lets its log reader finish.
            (slot.process, slot.last) = (None, None);
            let lines = slot.start.log_watcher.take().into_iter().chain(slot.start.log_watcher.take_left_out());
            for line in lines {
                self.hosts.report_line(slot.host, &slot.start.role, line);
            }
        }
        self.hosts.release(folders);
    }
}
