//! Sampling of the machine, the lab's hosts and the target's processes, at each whole second of the
//! trial's clock. This machine is read from /proc. A host's runner reads the host. The target's own
//! metrics are requested too. The threads sleep until absolute deadlines, so they do not drift.
//! Each host has its own thread, so a slow host delays no other.
//!
//! Measured on a virtual machine with 2 cores, 90 processes and an Erlang VM of 21 threads as
//! target: 0.6 ms of CPU time per reading, which is 0.06 % of a core.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use experiment::plan::AlsoTarget;
use linux::cgroup::OwnCgroups;
use record::clock::Clock;
use record::events::What;
use record::rows::{Metric, ProgramSample, Sample};
use runner::external_target::ExternalTarget;
use runner::ports::TargetLocation;
use runner::probes::CpuTicks;
use runner::process_tree::Member;
use runner::sample_reader::{RunGroup, SampleReader, StrangersMeter};
use runner::sample_source::{ProcDir, SampleSource};
use runner::top_of;

use crate::Error;
use crate::host::HostKind;
use crate::scrape::Endpoint;
use crate::session::RunnerSession;

/// The threads that take samples.
pub struct Probes {
    readers: Vec<(Sender<()>, JoinHandle<()>)>,
    machine: Arc<Mutex<ProbedMachine>>,
}

/// Time limit for a host's answer. A late host loses its row, so that it does not delay the next
/// row.
const PATIENCE: Duration = Duration::from_millis(900);

impl Probes {
    /// Takes samples at each whole second of `clock` until stopped or until the receiver is gone.
    /// The first reading is only the base of the next one. It is due at second 0, or now if second
    /// 0 is past.
    pub fn start(watched: WatchedProcesses, clock: Clock, sink: SampleSenders) -> Result<Self, Error> {
        let hosts = watched.sources.hosts();
        let machine = Arc::new(Mutex::new(ProbedMachine::new(watched.clone())));
        let mut probes = Self { readers: Vec::new(), machine: Arc::clone(&machine) };
        for host in hosts {
            let (sources, sink) = (watched.sources.clone(), sink.clone());
            probes.read_with(&format!("probes-{host}"), clock, move || {
                sink.send_all(sample_host(&sources, &host, clock))
            })?;
        }
        probes.read_with("probes", clock, move || {
            let rows = machine.lock().unwrap_or_else(PoisonError::into_inner).read(clock);
            sink.send_all(rows)
        })?;
        Ok(probes)
    }

    /// Also requests the target's own metrics, on a separate thread for each host. The threads
    /// inherit the caller's placement, so the caller must be in the clients' placement.
    pub fn scrape(&mut self, watched: &WatchedProcesses, clock: Clock, sink: &SyncSender<Metric>) -> Result<(), Error> {
        for endpoint in watched.sources.endpoints() {
            let (endpoint, sink) = (endpoint.clone(), sink.clone());
            self.read_with(&format!("scrape-{}", endpoint.host), clock, move || {
                let at_s = in_ms(clock.at_s());
                endpoint.ask(at_s).into_iter().all(|metric| sink.send(metric).is_ok())
            })?;
        }
        Ok(())
    }

    /// Calls `read` at each whole second on a new thread, until `read` returns false.
    fn read_with(
        &mut self,
        name: &str,
        clock: Clock,
        mut read: impl FnMut() -> bool + Send + 'static,
    ) -> Result<(), Error> {
        let (stop, stopped) = channel();
        let reader = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            // At second 0, or now if second 0 is past.
            let mut due_s = clock.at_s().max(0.0);
            while sleep_until(clock, due_s, &stopped) && read() {
                // Missed seconds are not made up for: the next row covers them.
                due_s = (clock.at_s() + LEEWAY_S).floor() + 1.0;
            }
        });
        self.readers.push((stop, reader.map_err(Error::system("start the probes"))?));
        Ok(())
    }

    /// Stops the threads and drops the senders. Returns the shares of this machine's CPU time:
    /// [`What::CpuShares`].
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

/// Channels for samples.
#[derive(Debug, Clone)]
pub struct SampleSenders {
    /// Samples of hosts and roles.
    pub samples: SyncSender<Sample>,
    /// Samples of programs that the target names.
    pub programs: SyncSender<ProgramSample>,
}

impl SampleSenders {
    /// Sends the rows. Returns false if the receiver is gone.
    fn send_all(&self, (samples, programs): SampledRows) -> bool {
        samples.into_iter().all(|sample| self.samples.send(sample).is_ok())
            && programs.into_iter().all(|sample| self.programs.send(sample).is_ok())
    }
}

/// Rows of hosts and roles, and rows of programs.
type SampledRows = (Vec<Sample>, Vec<ProgramSample>);

/// Returns the host's rows from its runner. Empty if the host is down or does not answer in time.
fn sample_host(sources: &ProbeSources, host: &str, clock: Clock) -> SampledRows {
    let Some(session) = sources.session(host) else { return SampledRows::default() };
    let at_s = in_ms(clock.at_s());
    let (rows, programs) = session.sample(PATIENCE).unwrap_or_default();
    let rows = rows.into_iter().map(|row| Sample { at_s, host: host.to_owned(), ..row });
    let programs = programs.into_iter().map(|row| ProgramSample { at_s, host: host.to_owned(), ..row });
    (rows.collect(), programs.collect())
}

fn in_us(time_s: f64) -> f64 {
    (time_s * 1e6).round() / 1e6
}

fn in_ms(at_s: f64) -> f64 {
    (at_s * 1000.0).round() / 1000.0
}

/// This machine, as the probes see it.
struct ProbedMachine {
    watched: WatchedProcesses,
    reader: SampleReader,
    run: Option<RunGroup>,
    clients: ScrapeClients,
    last: Option<Instant>,
    strangers: StrangersMeter,
    operations: OperationShares,
}

/// CPU use of operations that are programs, and of the target, in percent of the machine multiplied
/// by seconds.
#[derive(Default)]
struct OperationShares {
    time_s: f64,
    operations: f64,
    /// CPU use of the target. `None` once a reading did not know it.
    target: Option<f64>,
}

impl OperationShares {
    fn add(&mut self, time_s: f64, operations_pct: f64, target_pct: Option<f64>) {
        let before = if self.time_s > 0.0 { self.target } else { Some(0.0) };
        self.target = before.zip(target_pct).map(|(before, pct)| before + pct * time_s);
        self.time_s += time_s;
        self.operations += operations_pct * time_s;
    }

    /// Returns the mean of a sum, or `None` if nothing was read.
    fn mean(&self, sum: f64) -> Option<f64> {
        (self.time_s > 0.0).then(|| (sum / self.time_s * 100.0).round() / 100.0)
    }
}

impl ProbedMachine {
    fn new(watched: WatchedProcesses) -> Self {
        let run = watched.sources.run().map(RunGroup::of);
        let clients = ScrapeClients::new(Arc::clone(&watched.clients_cpus), OwnCgroups::detect());
        let mut reader = SampleReader::new(SampleSource::machine(ProcDir::at(Path::new("/proc"))));
        reader.share_out(watched.sought(), watched.sources.run().map(top_of));
        Self {
            watched,
            reader,
            run,
            clients,
            last: None,
            strangers: StrangersMeter::default(),
            operations: OperationShares::default(),
        }
    }

    /// Returns a row for the machine, one for each role on it, and one for this program. Empty at
    /// the first reading.
    fn read(&mut self, clock: Clock) -> SampledRows {
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
            return SampledRows::default();
        };
        self.clients.read(self.reader.proc(), length_s, rows.own.as_mut());
        rows.host.calendar_ahead_s = Some(in_us(clock.calendar_ahead_s()));
        rows.own.iter_mut().for_each(|own| own.process = "generator".to_owned());
        let operations = Sample { cpu_user_pct: rows.operations_pct, cpu_system_pct: Some(0.0), ..Sample::default() };
        let (ours, target): (Vec<Sample>, Vec<&Sample>) = match self.watched.sources.is_lab() {
            true => {
                let ours = rows.roles.iter().chain(&rows.own).chain(&run).cloned().chain([operations]);
                (ours.collect(), run.iter().collect())
            }
            false => (vec![rows.run], rows.roles.iter().collect()),
        };
        if let Some(pct) = rows.operations_pct.filter(|_| self.watched.runs_operations) {
            let used = target.iter().map(|row| Some(row.cpu_user_pct? + row.cpu_system_pct?)).sum();
            self.operations.add(length_s, pct, if target.is_empty() { None } else { used });
        }
        rows.host.cpu_strangers_pct =
            if self.why_not_judged().is_none() { self.strangers.pct(&rows.host, &ours) } else { None };
        (std::iter::once(rows.host).chain(rows.roles).chain(rows.own).collect(), rows.programs)
    }

    /// Returns the reason why the target's processes cannot be distinguished from others, if there
    /// is one.
    fn why_not_judged(&self) -> Option<String> {
        match &self.reader.forest().sought()?.found {
            Some(TargetLocation::Unknown(why)) => Some(why.clone()),
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
            short_lived_cpu_pct: self.reader.forest().short_lived_pct().filter(|_| not_judged.is_none()),
            programs_cpu_pct: self.operations.mean(self.operations.operations),
            target_cpu_pct: self.operations.target.and_then(|target| self.operations.mean(target)),
            not_judged,
        }
    }
}

/// Name of this machine in the rows of a lab.
const MACHINE: &str = "local";

/// Tolerance: a reading this shortly before a whole second counts for that second.
const LEEWAY_S: f64 = 0.001;

/// Sleeps until a time of the clock. Returns false once stopped.
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

// Disturbances of this program while it generates load: other processes on the clients' CPUs, and
// quotas of its control groups.

/// Sources and previous readings of the disturbances.
struct ScrapeClients {
    /// CPUs that only the clients use. Empty if there are none.
    cpus: Arc<[u32]>,
    last: Option<(u64, u64)>,
    own: OwnCgroups,
    last_throttled_ns: Vec<Option<u64>>,
}

impl ScrapeClients {
    pub fn new(cpus: Arc<[u32]>, own: OwnCgroups) -> Self {
        Self { cpus, last: None, own, last_throttled_ns: Vec::new() }
    }

    /// Adds the disturbances to this program's row, which already has its CPU time. The first
    /// reading adds none.
    pub fn read(&mut self, proc: &ProcDir, interval_s: f64, own: Option<&mut Sample>) {
        let throttled_pct = self.throttled_pct(interval_s);
        let busy_pct = self.busy_pct(proc);
        let Some(own) = own else { return };
        own.cpu_throttled_pct = throttled_pct;
        own.cpu_strangers_pct = busy_pct.and_then(|busy_pct| {
            // This program's own share is a percentage of the whole machine.
            let scale = proc.cpus()? / self.cpus.len() as f64;
            Some((busy_pct - (own.cpu_user_pct? + own.cpu_system_pct?) * scale).max(0.0))
        });
    }

    /// Returns the use of the clients' CPUs since the last reading, in percent of these CPUs.
    fn busy_pct(&mut self, proc: &ProcDir) -> Option<f64> {
        if self.cpus.is_empty() {
            return None;
        }
        let stat = proc.text("stat")?;
        let mut now = (0, 0);
        for cpu in self.cpus.iter() {
            let ticks = CpuTicks::parse(&stat, &format!("cpu{cpu} "))?;
            now = (now.0 + ticks.busy(), now.1 + ticks.total());
        }
        let last = self.last.replace(now)?;
        let (busy, total) = (now.0.saturating_sub(last.0), now.1.saturating_sub(last.1));
        (total > 0).then(|| busy as f64 / total as f64 * 100.0)
    }

    /// Returns the throttled time of the most throttled control group, in percent. A group's limit
    /// also applies to the groups inside it.
    fn throttled_pct(&mut self, interval_s: f64) -> Option<f64> {
        let now = self.own.throttled_ns();
        let last = std::mem::replace(&mut self.last_throttled_ns, now.clone());
        let grown = last.into_iter().zip(now).filter_map(|(last, now)| now?.checked_sub(last?));
        grown.max().map(|ns| (ns as f64 / (interval_s * 1e9) * 100.0).min(100.0))
    }
}

// Sources of the probes: the runners of the lab's hosts, as they come and go, and this machine's
// relation to the lab.

/// Role of the processes of a target that a command starts or that already runs.
pub(crate) const COMMAND_ROLE: &str = "target";

/// The processes to sample. The deployment updates them while the probes run.
#[derive(Debug, Clone, Default)]
pub struct WatchedProcesses {
    pub(crate) host: Arc<str>,
    pub(crate) members: Arc<Mutex<Vec<Member>>>,
    pub(crate) sources: ProbeSources,
    /// Addresses of a target that may have processes not started here, or the reason why an address
    /// is not known. Empty if all its processes were started here.
    pub(crate) addresses: Vec<Result<SocketAddr, String>>,
    /// Other processes of this machine that belong to such a target.
    pub(crate) also: AlsoTarget,
    /// CPUs of this machine that only the clients use. Empty if there are none.
    pub(crate) clients_cpus: Arc<[u32]>,
    /// Whether operations run as programs next to the clients.
    pub(crate) runs_operations: bool,
}

impl WatchedProcesses {
    /// Returns this machine's name among the hosts, or `local` if the target was not started here
    /// and may run elsewhere.
    #[must_use]
    pub fn host(&self) -> &str {
        if self.host.is_empty() { "local" } else { &self.host }
    }

    /// Returns the target's running processes.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the target to look for by its addresses, if its processes are not all known.
    pub(crate) fn sought(&self) -> Option<ExternalTarget> {
        let name = (self.host().to_owned(), COMMAND_ROLE.to_owned());
        let is_sought = !self.addresses.is_empty();
        is_sought.then(|| ExternalTarget::new(self.addresses.clone(), self.also.clone(), name))
    }

    pub(crate) fn set(&self, members: Vec<Member>) {
        *self.members.lock().unwrap_or_else(PoisonError::into_inner) = members;
    }
}

/// Sources of the probes besides this machine. By default there are none: this machine is the
/// target's host.
///
/// The deployment keeps one instance and hands out copies. The copies share its state: a host gets
/// a new runner after a boot, and has none after a crash.
#[derive(Debug, Clone, Default)]
pub struct ProbeSources {
    is_lab: bool,
    /// Id of the run whose control group on this machine contains the lab.
    run: Option<String>,
    sessions: Arc<Mutex<BTreeMap<String, Option<Arc<RunnerSession>>>>>,
    endpoints: Arc<[Endpoint]>,
}

impl ProbeSources {
    /// Creates the sources for hosts of these kinds in this run. No host is up yet.
    pub(crate) fn of(kinds: impl IntoIterator<Item = HostKind>, run: &str) -> Self {
        let kinds: Vec<HostKind> = kinds.into_iter().collect();
        Self {
            is_lab: kinds.iter().any(|kind| *kind != HostKind::ThisMachine),
            // Hosts on other machines are in no control group of this machine.
            run: kinds.contains(&HostKind::Virtual).then(|| run.to_owned()),
            ..Self::default()
        }
    }

    /// Sets the runner of a lab's host, or `None` if it is down. Call it for every host before the
    /// probes start, because they read only the hosts known by then.
    pub(crate) fn set(&self, host: &str, session: Option<Arc<RunnerSession>>) {
        if self.is_lab {
            self.lock().insert(host.to_owned(), session);
        }
    }

    /// Sets the endpoints of the target's own metrics. Call it before the probes start.
    pub(crate) fn set_endpoints(&mut self, endpoints: Vec<Endpoint>) {
        self.endpoints = endpoints.into();
    }

    fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    fn hosts(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    pub(crate) fn session(&self, host: &str) -> Option<Arc<RunnerSession>> {
        self.lock().get(host).cloned().flatten()
    }

    pub(crate) fn is_lab(&self) -> bool {
        self.is_lab
    }

    fn run(&self) -> Option<&str> {
        self.run.as_deref()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Option<Arc<RunnerSession>>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use fixture::{TestDir, until};
    use runner::Setup;
    use runner::process_tree::ProcessForest;

    use super::*;
    use crate::fakes::{Bench, manifest, setup_in};

    /// Samples a lab until two seconds have rows of each of these hosts.
    fn sampled(sources: ProbeSources, hosts: &[&str]) -> Vec<Sample> {
        let (sink, samples) = sync_channel(1000);
        let watched = WatchedProcesses { sources, ..WatchedProcesses::default() };
        let sink = SampleSenders { samples: sink, programs: sync_channel(1).0 };
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
    fn a_host_that_is_down_has_no_row() {
        let sources = ProbeSources::of([HostKind::Virtual; 2], "no-such-run");
        sources.set("n1", None);
        let rows = sampled(sources, &["local"]);
        assert!(rows.iter().all(|row| row.host == "local" && (row.process.is_empty() || row.process == "generator")));
        assert!(rows.iter().all(|row| row.cpu_strangers_pct.is_none()), "the hosts' part is not known");
    }

    #[test]
    fn hosts_are_sampled_through_their_current_runner() {
        let folder = TestDir::new();
        let runner = |name: &str| {
            let setup = Setup { host: name.to_owned(), folder: folder.join(name), ..setup_in(&folder) };
            RunnerSession::on_thread(&setup, &Default::default()).unwrap()
        };
        let (session, serving) = runner("n2");
        let sources = ProbeSources::of([HostKind::Remote; 2], "none");
        sources.set("n1", None);
        sources.set("n2", Some(session));
        let rows = sampled(sources.clone(), &["local", "n2"]);
        let strangers = |host: &str| rows.iter().find(|row| row.host == host && row.process.is_empty()).unwrap();
        assert!(strangers("local").cpu_strangers_pct.is_some() && strangers("n2").cpu_strangers_pct.is_some());
        assert!(rows.iter().all(|row| row.host != "n1" && row.at_s >= 0.0));
        // The host crashes, and another host starts.
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
    fn a_run_on_this_machine_has_no_lab() {
        let sources = ProbeSources::of([HostKind::ThisMachine], "run");
        sources.set("n1", None);
        assert!(!sources.is_lab() && sources.run().is_none() && sources.hosts().is_empty());
    }

    #[test]
    fn rows_of_host_and_generator_come_until_stopped() {
        let (sink, samples) = sync_channel(1000);
        let clock = Clock::starting_in(Duration::from_millis(5));
        let sink = SampleSenders { samples: sink, programs: sync_channel(1).0 };
        let probes = Probes::start(WatchedProcesses::default(), clock, sink).unwrap();
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

    /// Returns a `stat` of a machine with two CPUs. Each pair is ticks busy and idle.
    fn stat(first: (u64, u64), second: (u64, u64)) -> String {
        let line = |name: &str, (busy, idle): (u64, u64)| format!("{name} {busy} 0 0 {idle} 0 0 0 0 0 0\n");
        line("cpu ", (first.0 + second.0, first.1 + second.1)) + &line("cpu0", first) + &line("cpu1", second)
    }

    fn own(user_pct: f64) -> Sample {
        Sample { cpu_user_pct: Some(user_pct), cpu_system_pct: Some(0.0), ..Sample::default() }
    }

    /// Returns the CPU use of other processes on these CPUs in one second. The first CPU was busy
    /// for 80 %, the second for 30 %, and this program used 20 % of the machine.
    fn strangers(cpus: &[u32]) -> Option<f64> {
        let proc = TestDir::new();
        let mut clients = ScrapeClients::new(cpus.into(), OwnCgroups::default());
        let mut read = |text: String| {
            proc.write("stat", &text);
            let mut row = own(20.0);
            clients.read(&ProcDir::at(&proc), 1.0, Some(&mut row));
            row
        };
        assert_eq!(read(stat((100, 100), (100, 100))).cpu_strangers_pct, None, "no base yet");
        read(stat((180, 120), (130, 170))).cpu_strangers_pct
    }

    #[test]
    fn strangers_are_other_load_on_the_clients_cpus() {
        assert!((strangers(&[0]).unwrap() - 40.0).abs() < 1e-9, "80 % of that CPU, and 40 % of it is ours");
        assert_eq!(strangers(&[1]), Some(0.0), "never below");
        assert!((strangers(&[0, 1]).unwrap() - 35.0).abs() < 1e-9);
        assert_eq!(strangers(&[]), None, "clients that have none to themselves");
        assert_eq!(strangers(&[7]), None, "there is no such CPU");
    }

    #[test]
    fn throttling_of_a_parent_group_is_reported() {
        let machine = TestDir::new();
        machine.write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        machine.write("proc/self/cgroup", "0::/a/b\n");
        let account = |group: &str, us: u64| {
            let text = format!("nr_periods 9\nnr_throttled 3\nthrottled_usec {us}\n");
            machine.write(&format!("sys/fs/cgroup/{group}/cpu.stat"), &text);
        };
        account("a", 500);
        account("a/b", 0);
        let mut clients = ScrapeClients::new([].into(), OwnCgroups::detect_in(&machine));
        let mut read = || {
            let mut row = own(1.0);
            clients.read(&ProcDir::at(&machine.join("proc")), 2.0, Some(&mut row));
            row.cpu_throttled_pct
        };
        assert_eq!(read(), None, "no base yet");
        assert_eq!(read(), Some(0.0));
        account("a", 200_500);
        assert_eq!(read(), Some(10.0));
        account("a", 9_000_000);
        assert_eq!(read(), Some(100.0), "summed over CPUs it may be more than there was");
    }

    #[test]
    fn a_running_target_is_seen() {
        let bench = Bench::new();
        let deployment = bench.up(&manifest(vec![crate::fakes::server("server")])).unwrap();
        let read = || {
            let mut host = Sample { host: "n1".to_owned(), ..Sample::default() };
            let source = SampleSource::machine(ProcDir::at(Path::new("/proc")));
            ProcessForest::default().read(&source, &deployment.members(), f64::NAN, &mut host)
        };
        let reading = read();
        let (rows, own) = (reading.roles, reading.own.unwrap());
        let roles: Vec<&str> = rows.iter().map(|row| row.process.as_str()).collect();
        assert_eq!((roles.as_slice(), own.process.as_str(), own.host.as_str()), (["server"].as_slice(), "", "n1"));
        assert!(rows[0].rss_bytes.unwrap() > 0 && rows[0].cpu_user_pct.is_none() && own.rss_bytes.unwrap() > 0);
        // A thread of the target waits in `accept`. The kernel has reserved a descriptor for it
        // that is not open yet and must not count.
        let files = Path::new("/proc").join(deployment.members()[0].pid.to_string()).join("fd");
        let counted = || std::fs::read_dir(&files).unwrap().count() as u64;
        until("they are counted", || read().roles[0].fds == Some(counted()));
    }
}
