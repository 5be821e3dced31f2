//! Sampling: the machine, the hosts of a lab and the target's processes are read each whole second of the trial's clock, here
//! from /proc, in a host by its runner; and the target is asked for its own figures. It must not look into what is read. The
//! threads sleep until absolute deadlines, so they do not drift, and each host has one, so that one which is slow to answer
//! delays no other.
//!
//! Measured on a virtual machine with 2 cores, 90 processes and an Erlang VM of 21 threads as target: 0.6 ms of CPU time for
//! a reading, so 0.06 % of a core.

mod clients;
mod exposition;
mod reader;
mod scrape;
mod source;
mod sources;

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use record::clock::Clock;
use record::events::What;
use record::rows::{Metric, Sample};

use crate::Error;
use crate::linux::cgroup::Own;
use crate::listeners::Whereabouts;
use crate::runner::groups::top_of;
use crate::site::Watched;
use clients::Clients;
use reader::RunGroup;
pub(crate) use reader::{Reader, strangers_pct};
pub use scrape::Endpoint;
pub(crate) use source::{Bounds, Proc, Source};
pub use sources::Sources;

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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::fixture::{Scratch, until};
    use crate::runner::session::Session;
    use crate::runner::{Setup, VERSION, beside};

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
}
