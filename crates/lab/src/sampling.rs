//! Sampling: the machine, the hosts of a lab and the target's processes are read each whole
//! second of the trial's clock, here from /proc, in a host by its runner; and the target is
//! asked for its own figures. The threads sleep until absolute deadlines, so they do not drift,
//! and each host has one, so that one which is slow to answer delays no other.
//!
//! Measured on a virtual machine with 2 cores, 90 processes and an Erlang VM of 21 threads as
//! target: 0.6 ms of CPU time for a reading, so 0.06 % of a core.

mod scrape;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use record::clock::Clock;
use record::events::What;
use record::rows::{Metric, Sample};

pub use scrape::Endpoint;

use crate::Error;
use crate::linux::cgroup::{CpuTime, Group, Hierarchies, Own};
use crate::linux::procfs;
use crate::ports::Whereabouts;
use crate::probes::{KINDS, Probe, Ticks};
use crate::process_tree::{Forest, Reading, Sought};
use crate::runner::groups::{Usage, top_of};
use crate::runner::session::Session;
use crate::runner::{Isolation, Setup};
use crate::site::{Member, Watched};

/// The threads that read.
pub struct Probes {
    readers: Vec<(Sender<()>, JoinHandle<()>)>,
    machine: Arc<Mutex<Machine>>,
}

/// For a host to answer; so it has, or loses its row, before the next is due.
const PATIENCE: Duration = Duration::from_millis(900);

impl Probes {
    /// Reads at each whole second of `clock` from now on (the first reading is only the base of the next, unless it is due
    /// before second 0), until stopped or until nobody takes the samples any more.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(watched: Watched, clock: Clock, sink: SyncSender<Sample>) -> Result<Self, Error> {
        let hosts = watched.sources.hosts();
        let machine = Arc::new(Mutex::new(Machine::new(watched.clone())));
        let mut probes = Self { readers: Vec::new(), machine: Arc::clone(&machine) };
        for host in hosts {
            let (sources, sink) = (watched.sources.clone(), sink.clone());
            probes.read_with(&format!("probes-{host}"), clock, move || {
                sample_host(&sources, &host, clock).into_iter().all(|sample| sink.send(sample).is_ok())
            })?;
        }
        probes.read_with("probes", clock, move || {
            let rows = machine.lock().unwrap_or_else(PoisonError::into_inner).read(clock);
            rows.into_iter().all(|sample| sink.send(sample).is_ok())
        })?;
        Ok(probes)
    }

    /// Asks the target for its own figures as well, each host on a thread of its own. The threads are where they are
    /// started: call this on the clients' ground.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn scrape(&mut self, watched: &Watched, clock: Clock, sink: &SyncSender<Metric>) -> Result<(), Error> {
        for endpoint in watched.sources.endpoints() {
            let (endpoint, sink) = (endpoint.clone(), sink.clone());
            self.read_with(&format!("scrape-{}", endpoint.host), clock, move || {
                let at_s = in_ms(clock.at_s());
                endpoint.ask(at_s).into_iter().all(|metric| sink.send(metric).is_ok())
            })?;
        }
        Ok(())
    }

    /// Has `read` called at each whole second on a thread of its own, until it says that nobody listens any more.
    fn read_with(
        &mut self,
        name: &str,
        clock: Clock,
        mut read: impl FnMut() -> bool + Send + 'static,
    ) -> Result<(), Error> {
        let (stop, stopped) = channel();
        let each_second = move || {
            // At second 0 or, if that is past, now.
            let mut due_s = clock.at_s().max(0.0);
            while sleep_until(clock, due_s, &stopped) && read() {
                // Seconds that were slept through are not made up for: the next row covers them.
                due_s = (clock.at_s() + LEEWAY_S).floor() + 1.0;
            }
        };
        let reader = std::thread::Builder::new().name(name.to_owned()).spawn(each_second);
        self.readers.push((stop, reader.map_err(Error::system("start the probes"))?));
        Ok(())
    }

    /// Stops reading; the samples' other end is let go of. Says to whom this machine's CPU time was put down: [`What::CpuShares`].
    #[must_use]
    pub fn stop(self) -> What {
        for (stop, _) in &self.readers {
            let _ = stop.send(());
        }
        for (_, reader) in self.readers {
            let _ = reader.join();
        }
        self.machine.lock().unwrap_or_else(PoisonError::into_inner).shares()
    }
}

/// What the host's runner read; nothing if it is down, or did not answer in time.
fn sample_host(sources: &Sources, host: &str, clock: Clock) -> Vec<Sample> {
    let Some(session) = sources.session(host) else { return Vec::new() };
    let at_s = in_ms(clock.at_s());
    let rows = session.sample(PATIENCE).unwrap_or_default();
    rows.into_iter().map(|row| Sample { at_s, host: host.to_owned(), ..row }).collect()
}

fn in_us(time_s: f64) -> f64 {
    (time_s * 1e6).round() / 1e6
}

fn in_ms(at_s: f64) -> f64 {
    (at_s * 1000.0).round() / 1000.0
}

/// This machine, as the probes see it.
struct Machine {
    watched: Watched,
    reader: Reader,
    run: Option<RunGroup>,
    clients: Clients,
    last: Option<Instant>,
}

impl Machine {
    fn new(watched: Watched) -> Self {
        let run = watched.sources.run().map(RunGroup::of);
        let clients = Clients::new(Arc::clone(&watched.clients_cpus), Own::detect());
        let mut reader = Reader::new(Source::machine(Proc::at(Path::new("/proc"))));
        reader.share_out(watched.sought(), watched.sources.run().map(top_of));
        Self { watched, reader, run, clients, last: None }
    }

    /// A row for the machine, one for each role that runs on it, one for this program; nothing at the first reading.
    fn read(&mut self, clock: Clock) -> Vec<Sample> {
        let now = Instant::now();
        let at_s = in_ms(clock.at_s_of(now));
        let (host, members) = match self.watched.sources.is_lab() {
            true => (MACHINE, Vec::new()),
            false => (self.watched.host(), self.watched.members()),
        };
        let row = Sample { at_s, host: host.to_owned(), ..Sample::default() };
        let run = self.run.as_mut().map(|run| run.read(self.reader.proc(), now));
        let length_s = self.last.replace(now).map_or(f64::NAN, |last| now.duration_since(last).as_secs_f64());
        let read = self.reader.read(now, &members, row);
        let Some(mut rows) = read else {
            self.clients.read(self.reader.proc(), length_s, None);
            return Vec::new();
        };
        self.clients.read(self.reader.proc(), length_s, rows.own.as_mut());
        rows.host.calendar_ahead_s = Some(in_us(clock.calendar_ahead_s()));
        rows.own.iter_mut().for_each(|own| own.process = "generator".to_owned());
        let ours: Vec<Sample> = match self.watched.sources.is_lab() {
            true => rows.roles.iter().chain(&rows.own).chain(&run).cloned().collect(),
            false => vec![rows.run],
        };
        rows.host.cpu_strangers_pct =
            if self.why_not_judged().is_none() { strangers_pct(&rows.host, &ours) } else { None };
        std::iter::once(rows.host).chain(rows.roles).chain(rows.own).collect()
    }

    /// Why nobody can say which processes are other than the target's.
    fn why_not_judged(&self) -> Option<String> {
        match &self.reader.forest().sought()?.found {
            Some(Whereabouts::Unknown(why)) => Some(why.clone()),
            _ => None,
        }
    }

    fn shares(&self) -> What {
        let (target, others) = self.reader.forest().told();
        let is_found = self.reader.forest().sought().is_some();
        let not_judged = self.why_not_judged();
        What::CpuShares {
            target_processes: if is_found { target } else { Vec::new() },
            other_processes: if not_judged.is_none() { others } else { Vec::new() },
            not_judged,
        }
    }
}

/// This machine's name in the rows of a lab.
const MACHINE: &str = "local";

/// A reading so little before a whole second is that second's.
const LEEWAY_S: f64 = 0.001;

/// False once stopped.
fn sleep_until(clock: Clock, at_s: f64, stopped: &Receiver<()>) -> bool {
    loop {
        let left = Duration::try_from_secs_f64(at_s - clock.at_s()).unwrap_or_default();
        match stopped.recv_timeout(left) {
            Err(RecvTimeoutError::Timeout) if left.is_zero() => return true,
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

// What is around this program while it makes the load: strangers on the clients' CPUs, quotas of
// the groups it is in.

/// The readings, and what they were last time.
struct Clients {
    /// CPUs that are the clients' alone; empty: there are none.
    cpus: Arc<[u32]>,
    last: Option<(u64, u64)>,
    own: Own,
    last_throttled_ns: Vec<Option<u64>>,
}

impl Clients {
    pub fn new(cpus: Arc<[u32]>, own: Own) -> Self {
        Self { cpus, last: None, own, last_throttled_ns: Vec::new() }
    }

    /// Fills in this program's row, which has its CPU time; nothing at the first reading.
    pub fn read(&mut self, proc: &Proc, interval_s: f64, own: Option<&mut Sample>) {
        let throttled_pct = self.throttled_pct(interval_s);
        let busy_pct = self.busy_pct(proc);
        let Some(own) = own else { return };
        own.cpu_throttled_pct = throttled_pct;
        own.cpu_strangers_pct = busy_pct.and_then(|busy_pct| {
            // Its own part is of the whole machine.
            let scale = proc.cpus()? / self.cpus.len() as f64;
            Some((busy_pct - (own.cpu_user_pct? + own.cpu_system_pct?) * scale).max(0.0))
        });
    }

    /// How busy the clients' CPUs were since the last reading, percent of them.
    fn busy_pct(&mut self, proc: &Proc) -> Option<f64> {
        if self.cpus.is_empty() {
            return None;
        }
        let stat = proc.text("stat")?;
        let mut now = (0, 0);
        for cpu in self.cpus.iter() {
            let ticks = Ticks::parse(&stat, &format!("cpu{cpu} "))?;
            now = (now.0 + ticks.busy(), now.1 + ticks.total());
        }
        let last = self.last.replace(now)?;
        let (busy, total) = (now.0.saturating_sub(last.0), now.1.saturating_sub(last.1));
        (total > 0).then(|| busy as f64 / total as f64 * 100.0)
    }

    /// Of the group that was stopped for longest: what a group is not let do, those in it are not, either.
    fn throttled_pct(&mut self, interval_s: f64) -> Option<f64> {
        let now = self.own.throttled_ns();
        let last = std::mem::replace(&mut self.last_throttled_ns, now.clone());
        let grown = last.into_iter().zip(now).filter_map(|(last, now)| now?.checked_sub(last?));
        grown.max().map(|ns| (ns as f64 / (interval_s * 1e9) * 100.0).min(100.0))
    }
}

// All probes and the processes of one machine or host, read together; and what of the machine's
// CPU time the run and strangers took.

/// All probes, and the processes.
pub(crate) struct Reader {
    source: Source,
    probes: Vec<Box<dyn Probe>>,
    forest: Forest,
    last: Option<Instant>,
}

/// What a reading came to.
pub(crate) struct Rows {
    /// The machine or host.
    pub host: Sample,
    /// Each role that runs.
    pub roles: Vec<Sample>,
    /// This program; `process` is empty.
    pub own: Option<Sample>,
    /// CPU time of all that belongs to the run, where it is told.
    pub run: Sample,
}

impl Reader {
    pub fn new(source: Source) -> Self {
        let probes = KINDS.iter().map(|kind| (kind.make)()).collect();
        Self { source, probes, forest: Forest::default(), last: None }
    }

    /// Also tells to whom the machine's CPU time is put down: see [`Forest::share_out`].
    pub fn share_out(&mut self, sought: Option<Sought>, lab: Option<String>) {
        self.forest.share_out(sought, lab);
    }

    pub fn forest(&self) -> &Forest {
        &self.forest
    }

    pub fn proc(&self) -> &Proc {
        &self.source.proc
    }

    /// Says what the host's control groups have used by now: before each reading.
    pub fn set_usage(&mut self, usage: Usage) {
        if let Some(bounds) = &mut self.source.host {
            bounds.usage = usage;
        }
    }

    /// Reads everything and fills in `host`, which has time and name; `None` at the first reading.
    pub fn read(&mut self, now: Instant, members: &[Member], mut host: Sample) -> Option<Rows> {
        let interval_s = self.last.replace(now).map(|last| now.duration_since(last).as_secs_f64());
        let length_s = interval_s.unwrap_or(f64::NAN);
        // First, so that a host's control group, where it knows better, has the last word.
        let Reading { roles, own, run } = self.forest.read(&self.source, members, length_s, &mut host);
        for probe in &mut self.probes {
            probe.read(&self.source, length_s, &mut host);
        }
        let (user, system) = run.unzip();
        let run = Sample { cpu_user_pct: user, cpu_system_pct: system, ..Sample::default() };
        interval_s.map(|_| Rows { host, roles, own, run })
    }
}

/// What is busy and neither the target nor Plimsoll. The kernel counts both sides in clock ticks, so a small difference
/// is noise and one below 0 is none.
pub(crate) fn strangers_pct(host: &Sample, ours: &[Sample]) -> Option<f64> {
    let busy = host.cpu_user_pct? + host.cpu_system_pct?;
    let ours = ours.iter().map(|sample| Some(sample.cpu_user_pct? + sample.cpu_system_pct?)).sum::<Option<f64>>()?;
    Some((busy - ours).max(0.0))
}

/// All hosts of a run on this machine together: the control group that theirs are in. Processes come and go, its account
/// stays.
struct RunGroup {
    group: Group,
    /// What it had used, and when.
    last: Option<(Instant, CpuTime)>,
}

impl RunGroup {
    pub fn of(run: &str) -> Self {
        Self { group: Group::new(&Arc::new(Hierarchies::detect()), top_of(run)), last: None }
    }

    /// Its CPU time since the last reading; empty if nothing is known.
    pub fn read(&mut self, proc: &Proc, now: Instant) -> Sample {
        let time = self.group.cpu_time();
        let last = std::mem::replace(&mut self.last, time.map(|time| (now, time)));
        let used = last.zip(time).and_then(|((then, before), time)| {
            let percent = 100.0 / (now.duration_since(then).as_secs_f64() * 1e9 * proc.cpus()?);
            let user_ns = time.user_ns.checked_sub(before.user_ns)?;
            Some((user_ns as f64 * percent, time.system_ns.checked_sub(before.system_ns)? as f64 * percent))
        });
        Sample {
            cpu_user_pct: used.map(|(user, _)| user),
            cpu_system_pct: used.map(|(_, system)| system),
            ..Sample::default()
        }
    }
}

// What the probes read: a machine's /proc and, of a host that Plimsoll made, its control group
// and what it may use.

/// `/proc`, or a recorded one.
pub(crate) struct Proc(PathBuf);

impl Proc {
    pub fn at(path: &Path) -> Self {
        Self(path.to_path_buf())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn text(&self, name: &str) -> Option<String> {
        procfs::text(&self.0.join(name))
    }

    /// CPUs of the machine.
    pub fn cpus(&self) -> Option<f64> {
        let stat = self.text("stat")?;
        let count = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count();
        (count > 0).then_some(count as f64)
    }
}

/// Where figures come from.
pub(crate) struct Source {
    /// Of the machine or, seen from inside a host, with that host's processes and interfaces only.
    pub proc: Proc,
    /// What marks off a host from the machine that plays it; `None`: it is the machine.
    pub host: Option<Bounds>,
}

/// A host that Plimsoll made.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Bounds {
    /// What its control groups had used when the reading began.
    pub usage: Usage,
    /// What they can do together, in cores of the machine: 100 %.
    pub capacity: f64,
    /// Its memory, bytes.
    pub memory_bytes: Option<u64>,
    /// The device its data is on, if it has one to itself: `loop3`.
    pub device: Option<String>,
}

impl Source {
    /// The machine as it is.
    pub fn machine(proc: Proc) -> Self {
        Self { proc, host: None }
    }

    /// What a runner sees: its host, if it was to make one.
    pub fn of(setup: &Setup, proc: Proc) -> Self {
        let host = setup.isolation.as_ref().map(|isolation| Bounds::of(setup, isolation, &proc));
        Self { proc, host }
    }

    /// What 100 % of CPU is, in cores of the machine.
    pub fn capacity(&self) -> Option<f64> {
        match &self.host {
            Some(bounds) => Some(bounds.capacity),
            None => self.proc.cpus(),
        }
    }
}

impl Bounds {
    fn of(setup: &Setup, isolation: &Isolation, proc: &Proc) -> Self {
        let envelope = &setup.envelope;
        let may_use = match envelope.cpus.len() {
            0 => proc.cpus().unwrap_or(1.0),
            count => count as f64,
        };
        let cores = envelope.cores.map_or(may_use, f64::from);
        let device = isolation.volume.as_ref().and_then(|volume| volume.device.file_name());
        Self {
            usage: Usage::default(),
            capacity: cores * envelope.core_speed.unwrap_or(1.0),
            memory_bytes: envelope.memory_bytes,
            device: device.map(|name| name.to_string_lossy().into_owned()),
        }
    }
}

// Whom the probes ask: the runners of a lab's hosts, as they come and go, and what this machine
// is to that lab.

/// Whom the probes ask besides this machine. The default: nobody, for this machine is the target's host.
///
/// The site keeps one and hands out copies, which see what it is told: that a host has another runner since it was booted
/// again, or none since it crashed.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    is_lab: bool,
    /// Id of the run whose control group on this machine holds the lab.
    run: Option<String>,
    sessions: Arc<Mutex<BTreeMap<String, Option<Arc<Session>>>>>,
    endpoints: Arc<[Endpoint]>,
}

impl Sources {
    /// Of hosts of these kinds, in the run of that id; none of them is up yet.
    pub(crate) fn of<'k>(kinds: impl Iterator<Item = &'k str> + Clone, run: &str) -> Self {
        let has = |kind: &str| kinds.clone().any(|has| has == kind);
        Self {
            is_lab: has("netns") || has("ssh"),
            // Other machines' hosts are in no control group of this one.
            run: has("netns").then(|| run.to_owned()),
            ..Self::default()
        }
    }

    /// Says by which runner a host of a lab is asked from now on; `None`: it is down. To be said of every host before the
    /// probes start, for they ask only those.
    pub(crate) fn set(&self, host: &str, session: Option<Arc<Session>>) {
        if self.is_lab {
            self.lock().insert(host.to_owned(), session);
        }
    }

    /// Says where the target gives figures of its own; also to be said before.
    pub(crate) fn set_endpoints(&mut self, endpoints: Vec<Endpoint>) {
        self.endpoints = endpoints.into();
    }

    fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    fn hosts(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    fn session(&self, host: &str) -> Option<Arc<Session>> {
        self.lock().get(host).cloned().flatten()
    }

    pub(crate) fn is_lab(&self) -> bool {
        self.is_lab
    }

    fn run(&self) -> Option<&str> {
        self.run.as_deref()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Option<Arc<Session>>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::fixture::{Scratch, until};
    use crate::runner::{VERSION, beside};

    /// What is sampled of a lab for two seconds in which there are rows of each of these hosts.
    fn sampled(sources: Sources, hosts: &[&str]) -> Vec<Sample> {
        let (sink, samples) = sync_channel(1000);
        let mut watched = Watched::default();
        watched.sources = sources;
        let probes = Probes::start(watched, Clock::starting_in(Duration::from_millis(5)), sink).unwrap();
        let mut rows: Vec<Sample> = Vec::new();
        until("two seconds have rows", || {
            rows.extend(samples.try_iter());
            hosts.iter().all(|host| rows.iter().filter(|row| row.host == **host && row.process.is_empty()).count() >= 2)
        });
        let _ = probes.stop();
        assert_eq!(samples.iter().filter(|row| row.at_s < 0.0).count(), 0, "the other end is let go of");
        rows
    }

    #[test]
    fn a_lab_has_a_row_for_this_machine_and_none_for_a_host_that_is_down() {
        let sources = Sources::of(["netns", "netns"].into_iter(), "no-such-run");
        sources.set("n1", None);
        let rows = sampled(sources, &["local"]);
        assert!(rows.iter().all(|row| row.host == "local" && (row.process.is_empty() || row.process == "generator")));
        assert!(rows.iter().all(|row| row.cpu_strangers_pct.is_none()), "the hosts' part is not known");
    }

    #[test]
    fn a_host_is_asked_by_the_runner_that_it_has_at_the_time() {
        let folder = Scratch::new();
        let runner = |name: &str| {
            let (input, to) = std::io::pipe().unwrap();
            let (from, output) = std::io::pipe().unwrap();
            let serving = beside(input, output);
            let version = VERSION.to_owned();
            let run = folder.file_name().unwrap().to_str().unwrap().to_owned();
            let setup = Setup { version, run, host: name.to_owned(), folder: folder.join(name), ..Setup::default() };
            (
                Session::open(Box::new(to), Box::new(from), &setup, Duration::from_secs(30), &Default::default())
                    .unwrap(),
                serving,
            )
        };
        let (session, serving) = runner("n2");
        let sources = Sources::of(["ssh", "ssh"].into_iter(), "none");
        sources.set("n1", None);
        sources.set("n2", Some(session));
        let rows = sampled(sources.clone(), &["local", "n2"]);
        let strangers = |host: &str| rows.iter().find(|row| row.host == host && row.process.is_empty()).unwrap();
        assert!(strangers("local").cpu_strangers_pct.is_some() && strangers("n2").cpu_strangers_pct.is_some());
        assert!(rows.iter().all(|row| row.host != "n1" && row.at_s >= 0.0));
        // It is crashed, and another comes up.
        let (another, serving_another) = runner("n1");
        sources.set("n2", None);
        sources.set("n1", Some(another));
        let rows = sampled(sources.clone(), &["n1"]);
        assert!(rows.iter().all(|row| row.host != "n2"));
        sources.set("n1", None);
        drop(sources);
        assert_eq!(
            (serving.join().unwrap(), serving_another.join().unwrap()),
            (0, 0),
            "the probes keep no runner alive"
        );
    }

    #[test]
    fn hosts_of_a_run_on_this_machine_are_no_lab_of_their_own() {
        let sources = Sources::of(["local"].into_iter(), "run");
        sources.set("n1", None);
        assert!(!sources.is_lab() && sources.run().is_none() && sources.hosts().is_empty());
    }

    #[test]
    fn strangers_are_the_rest_and_never_negative() {
        let used = |user: f64| Sample { cpu_user_pct: Some(user), cpu_system_pct: Some(1.0), ..Sample::default() };
        assert_eq!(strangers_pct(&used(50.0), &[used(20.0), used(9.0)]), Some(20.0));
        assert_eq!(strangers_pct(&used(5.0), &[used(20.0)]), Some(0.0));
        assert_eq!(strangers_pct(&used(5.0), &[Sample::default()]), None, "unknown, if any part is");
        assert_eq!(strangers_pct(&Sample::default(), &[]), None);
    }

    #[test]
    fn rows_come_until_stopped_and_know_this_program() {
        let (sink, samples) = sync_channel(1000);
        let clock = Clock::starting_in(Duration::from_millis(5));
        let probes = Probes::start(Watched::default(), clock, sink).unwrap();
        let mut rows: Vec<Sample> = Vec::new();
        until("two seconds have rows", || {
            rows.extend(samples.try_iter());
            rows.len() >= 4
        });
        let _ = probes.stop();
        let generator = rows.iter().find(|row| row.process == "generator").unwrap();
        assert!(
            generator.rss_bytes.unwrap() > 100_000 && generator.threads.unwrap() >= 2 && generator.fds.unwrap() >= 3
        );
        assert!(generator.cpu_user_pct.is_some() && generator.run_delay_pct.is_some());
        let host = rows.iter().find(|row| row.process.is_empty()).unwrap();
        assert_eq!(host.host, "local");
        assert!(host.at_s >= 1.0 && host.cpu_user_pct.is_some() && host.cpu_strangers_pct.is_some());
        assert_eq!(samples.iter().count(), 0, "the other end is let go of");
    }

    /// A machine with two CPUs that did so much until now: ticks busy and idle.
    fn stat(first: (u64, u64), second: (u64, u64)) -> String {
        let line = |name: &str, (busy, idle): (u64, u64)| format!("{name} {busy} 0 0 {idle} 0 0 0 0 0 0\n");
        line("cpu ", (first.0 + second.0, first.1 + second.1)) + &line("cpu0", first) + &line("cpu1", second)
    }

    fn own(user_pct: f64) -> Sample {
        Sample { cpu_user_pct: Some(user_pct), cpu_system_pct: Some(0.0), ..Sample::default() }
    }

    /// Strangers on these CPUs over a second in which the first CPU was busy to 80 % and the second to 30 %, and this program used
    /// 20 % of the machine.
    fn strangers(cpus: &[u32]) -> Option<f64> {
        let proc = Scratch::new();
        let mut clients = Clients::new(cpus.into(), Own::default());
        let mut read = |text: String| {
            proc.write("stat", &text);
            let mut row = own(20.0);
            clients.read(&Proc::at(&proc), 1.0, Some(&mut row));
            row
        };
        assert_eq!(read(stat((100, 100), (100, 100))).cpu_strangers_pct, None, "no base yet");
        read(stat((180, 120), (130, 170))).cpu_strangers_pct
    }

    #[test]
    fn strangers_are_what_is_busy_on_the_clients_cpus_but_the_clients() {
        assert!((strangers(&[0]).unwrap() - 40.0).abs() < 1e-9, "80 % of that CPU, and 40 % of it is ours");
        assert_eq!(strangers(&[1]), Some(0.0), "never below");
        assert!((strangers(&[0, 1]).unwrap() - 35.0).abs() < 1e-9);
        assert_eq!(strangers(&[]), None, "clients that have none to themselves");
        assert_eq!(strangers(&[7]), None, "there is no such CPU");
    }

    #[test]
    fn a_quota_of_any_group_above_shows() {
        let machine = Scratch::new();
        machine.write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        machine.write("proc/self/cgroup", "0::/a/b\n");
        let account = |group: &str, us: u64| {
            let text = format!("nr_periods 9\nnr_throttled 3\nthrottled_usec {us}\n");
            machine.write(&format!("sys/fs/cgroup/{group}/cpu.stat"), &text);
        };
        account("a", 500);
        account("a/b", 0);
        let mut clients = Clients::new([].into(), Own::detect_in(&machine));
        let mut read = || {
            let mut row = own(1.0);
            clients.read(&Proc::at(&machine.join("proc")), 2.0, Some(&mut row));
            row.cpu_throttled_pct
        };
        assert_eq!(read(), None, "no base yet");
        assert_eq!(read(), Some(0.0));
        account("a", 200_500);
        assert_eq!(read(), Some(10.0));
        account("a", 9_000_000);
        assert_eq!(read(), Some(100.0), "summed over CPUs it may be more than there was");
    }
}
