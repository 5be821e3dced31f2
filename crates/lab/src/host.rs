//! Hosts, on which target processes run. A host starts processes and provides addresses, ports and
//! private folders. Each kind of host does so in its own way.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use experiment::tier::{Tier, TierMedium};
use record::events::HostFigures;
use runner::{Injection, Order, ProgramSpec};

use crate::Error;
use crate::host_process::{HostProcess, ProgramOutput, Start};
use crate::session::RunnerSession;

/// The kind of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostKind {
    /// This machine itself. It is not limited and gets no faults. The probes read it without a
    /// runner. It needs no root.
    ThisMachine,
    /// A part of this machine with a profile's limits. All virtual hosts share the machine's disk.
    /// They need root.
    Virtual,
    /// Another machine, over ssh. It needs no installation there.
    Remote,
}

impl HostKind {
    /// Returns the kind's name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::ThisMachine => "local",
            Self::Virtual => "netns",
            Self::Remote => "ssh",
        }
    }
}

pub(crate) trait Host: Send {
    /// Returns the host's name in records.
    fn name(&self) -> &str;

    fn kind(&self) -> HostKind;

    /// Returns the host's properties and limits.
    fn figures(&self) -> HostFigures;

    /// The address that its members listen on.
    fn address(&self) -> &str;

    /// Returns every address under which other hosts of the lab may see it: one for each of its
    /// networks.
    fn addresses(&self) -> Vec<String> {
        vec![self.address().to_owned()]
    }

    /// Returns `count` different ports on which no process listens.
    fn free_ports(&self, count: usize) -> Result<Vec<u16>, Error>;

    /// Checks that a process can listen on this port.
    fn check_port(&self, port: u16) -> Result<(), Error>;

    /// Makes an empty private folder with this name.
    fn folder(&self, name: &str) -> Result<PathBuf, Error>;

    /// Makes an empty private folder with this name on a tier of storage.
    fn tier_folder(&self, tier: &Tier, name: &str) -> Result<PathBuf, Error>;

    /// Gives a folder of the host to a user.
    fn give(&self, folder: &Path, user: &str) -> Result<(), Error>;

    /// Removes a folder that [`Host::folder`] made.
    fn remove_folder(&self, name: &str);

    /// Starts a process. It and its children carry the run's mark and are registered.
    fn start(&self, start: &Start) -> Result<Box<dyn HostProcess>, Error>;

    /// Makes the target's folder available. Returns its path on this host.
    fn bring(&self, target: &Path) -> Result<PathBuf, Error>;

    /// Returns the path of this program on the host.
    fn plimsoll(&self) -> PathBuf;

    /// Runs a program to its end.
    fn run(&self, program: &ProgramSpec, input: &str, within: Duration) -> Result<ProgramOutput, Error>;

    /// Measures the storage that [`Host::folder`] uses. Fills in only `storage_…`.
    fn measure_storage(&self, within: Duration) -> Result<HostFigures, Error>;

    /// Measures the storage of a tier. Fills in only `storage_…`.
    fn measure_tier(&self, tier: &Tier, within: Duration) -> Result<HostFigures, Error>;

    /// Injects a fault under a key.
    fn inject(&self, key: &str, control: &Injection) -> Result<(), Error>;

    /// Heals the fault under a key. Does nothing if there is none.
    fn heal(&self, key: &str) -> Result<(), Error>;

    /// Ends the host at once, like a power failure.
    fn crash(&mut self) -> Result<(), Error>;

    /// Starts the host again after a crash: same name, address, folders and data, but no processes.
    fn boot(&mut self) -> Result<(), Error>;

    /// Whether the host is up, as far as is known.
    fn is_up(&self) -> bool;

    /// Returns the host's runner for the probes, or `None` if it has none.
    fn session(&self) -> Option<Arc<RunnerSession>>;

    /// Opens a Unix socket on which this program listens. Also returns its path inside the host.
    fn listen(&self, _name: &str) -> Result<(UnixListener, PathBuf), Error> {
        Err(no_socket(self.name()))
    }
}

fn no_socket(host: &str) -> Error {
    let reason = "this program shares no folder with it, so no generator can be placed on it".to_owned();
    Error::Host { host: host.to_owned(), reason }
}

// A host with a runner. The runner does the work inside the host; the host's backend does the work
// from outside.

/// Time limit for a host to undo everything at its end.
const END_PATIENCE: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(10);

/// The machine below a runner: a virtual host, or a real machine behind ssh.
pub(crate) trait HostBackend: Send {
    /// Returns the kind of the host.
    fn kind(&self) -> HostKind;

    /// Returns the address that its members listen on.
    fn address(&self) -> &str;

    /// Returns all addresses of the host.
    fn addresses(&self) -> Vec<String> {
        vec![self.address().to_owned()]
    }

    /// Returns the path of this program on the host.
    fn plimsoll(&self) -> PathBuf;

    /// Makes the target's folder available. Returns its path on the host.
    fn bring(&self, session: &RunnerSession, target: &Path) -> Result<PathBuf, Error>;

    /// Returns the path of a storage tier on the host, unless the tier is its disk.
    fn tier(&self, _name: &str) -> Option<PathBuf> {
        None
    }

    /// Opens a Unix socket on which this program listens, and its path on the host. `None` if the
    /// host cannot have one.
    fn listen(&self, _name: &str) -> Option<Result<(UnixListener, PathBuf), Error>> {
        None
    }

    /// Starts the host and its runner.
    fn boot(&mut self) -> Result<Arc<RunnerSession>, Error>;

    /// Ends the host at once, like a power failure.
    fn crash(&mut self) -> Result<(), Error>;

    /// Returns the figures that are known outside the host.
    fn figures(&self) -> HostFigures;

    /// Removes the host's leftovers after its session was closed.
    fn close(&mut self);
}

/// A host with a runner.
pub(crate) struct ManagedHost {
    name: String,
    session: Arc<RunnerSession>,
    machine: Box<dyn HostBackend>,
    figures: HostFigures,
}

impl ManagedHost {
    /// Starts the machine. If that fails, removes all of it.
    pub fn raise(name: &str, mut machine: Box<dyn HostBackend>) -> Result<Self, Error> {
        let session = machine.boot().inspect_err(|_| machine.close())?;
        // Figures that the runner cannot report stay unknown. A lost runner is noticed soon.
        let inside = session.figures().unwrap_or_default();
        let figures = both(machine.figures(), inside);
        Ok(Self { name: name.to_owned(), session, machine, figures })
    }

    /// Measures the machine for a profile.
    pub fn measure(&self) -> Result<String, Error> {
        self.session.measure_machine()
    }
}

/// Merges figures. Those known outside take precedence over those known inside.
fn both(outside: HostFigures, inside: HostFigures) -> HostFigures {
    HostFigures {
        address: outside.address.or(inside.address),
        cores: outside.cores.or(inside.cores),
        core_speed: outside.core_speed.or(inside.core_speed),
        quota_period_s: outside.quota_period_s.or(inside.quota_period_s),
        cpus: outside.cpus.or(inside.cpus),
        memory_bytes: outside.memory_bytes.or(inside.memory_bytes),
        link_bits_per_s: outside.link_bits_per_s.or(inside.link_bits_per_s),
        storage_read_per_s: outside.storage_read_per_s.or(inside.storage_read_per_s),
        storage_write_per_s: outside.storage_write_per_s.or(inside.storage_write_per_s),
        storage_sync_us: outside.storage_sync_us.or(inside.storage_sync_us),
        storage_unmeasured: outside.storage_unmeasured.or(inside.storage_unmeasured),
        tiers: outside.tiers,
    }
}

impl Host for ManagedHost {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> HostKind {
        self.machine.kind()
    }

    fn figures(&self) -> HostFigures {
        self.figures.clone()
    }

    fn address(&self) -> &str {
        self.machine.address()
    }

    fn addresses(&self) -> Vec<String> {
        self.machine.addresses()
    }

    fn free_ports(&self, count: usize) -> Result<Vec<u16>, Error> {
        self.session.ports(count)
    }

    fn check_port(&self, port: u16) -> Result<(), Error> {
        self.session.ask(Order::CheckPort { port }, PATIENCE).map(drop)
    }

    fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        self.session.make_folder(name)
    }

    fn tier_folder(&self, tier: &Tier, name: &str) -> Result<PathBuf, Error> {
        if tier.medium == TierMedium::Disk {
            return self.session.make_folder(name);
        }
        let none = || Error::Host { host: self.name.clone(), reason: format!("it has no tier `{}`", tier.name) };
        self.machine.tier(&tier.name).map(|at| at.join(name)).ok_or_else(none)
    }

    fn give(&self, folder: &Path, user: &str) -> Result<(), Error> {
        self.session.own(folder, user)
    }

    fn remove_folder(&self, name: &str) {
        // A folder that cannot be removed now is removed with the host.
        let _ = self.session.remove_folder(name);
    }

    fn start(&self, start: &Start) -> Result<Box<dyn HostProcess>, Error> {
        self.session.start(start)
    }

    fn bring(&self, target: &Path) -> Result<PathBuf, Error> {
        self.machine.bring(&self.session, target)
    }

    fn plimsoll(&self) -> PathBuf {
        self.machine.plimsoll()
    }

    fn run(&self, program: &ProgramSpec, input: &str, within: Duration) -> Result<ProgramOutput, Error> {
        self.session.run(program, input, within)
    }

    fn measure_storage(&self, within: Duration) -> Result<HostFigures, Error> {
        self.session.measure_storage(None, within)
    }

    fn measure_tier(&self, tier: &Tier, within: Duration) -> Result<HostFigures, Error> {
        let name = (tier.medium != TierMedium::Disk).then_some(tier.name.as_str());
        self.session.measure_storage(name, within)
    }

    fn inject(&self, key: &str, control: &Injection) -> Result<(), Error> {
        self.session.inject(key, control)
    }

    fn heal(&self, key: &str) -> Result<(), Error> {
        self.session.heal(key)
    }

    fn crash(&mut self) -> Result<(), Error> {
        self.session.expect_end("its power was cut");
        self.machine.crash()?;
        // At once, not only when the pipe has been read to its end.
        self.session.give_up("its power was cut");
        Ok(())
    }

    fn boot(&mut self) -> Result<(), Error> {
        self.session.give_up("it was started again");
        self.session = self.machine.boot()?;
        Ok(())
    }

    fn is_up(&self) -> bool {
        self.session.is_open()
    }

    fn session(&self) -> Option<Arc<RunnerSession>> {
        Some(Arc::clone(&self.session))
    }

    fn listen(&self, name: &str) -> Result<(UnixListener, PathBuf), Error> {
        self.machine.listen(name).unwrap_or_else(|| Err(no_socket(&self.name)))
    }
}

impl Drop for ManagedHost {
    fn drop(&mut self) {
        if self.session.is_open() {
            self.session.close(END_PATIENCE);
        }
        self.machine.close();
    }
}

// Work on several hosts in parallel, so that sixteen hosts do not wait for each other.

/// Does `work` on every host in parallel. Returns the results in the hosts' order. One host needs
/// no thread.
pub(crate) fn on_each_host<T: Send>(
    hosts: &mut [Box<dyn Host>],
    work: impl Fn(usize, &mut dyn Host) -> Result<T, Error> + Sync,
) -> Vec<Result<T, Error>> {
    let items = hosts.iter_mut().enumerate().collect();
    in_parallel(items, |(index, host)| work(index, host.as_mut()))
}

/// Does `work` on every item in parallel. Returns the results in the items' order.
pub(crate) fn in_parallel<I: Send, T: Send>(
    items: Vec<I>,
    work: impl Fn(I) -> Result<T, Error> + Sync,
) -> Vec<Result<T, Error>> {
    if items.len() < 2 {
        return items.into_iter().map(work).collect();
    }
    let work = &work;
    thread::scope(|scope| {
        let begin = |item| thread::Builder::new().name("host".to_owned()).spawn_scoped(scope, move || work(item));
        let threads: Vec<_> = items.into_iter().map(begin).collect();
        let end = |thread: std::io::Result<thread::ScopedJoinHandle<'_, Result<T, Error>>>| {
            let thread = thread.map_err(Error::system("start a thread"))?;
            // Passes on a panic of the thread.
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(end).collect()
    })
}

/// Returns all results, or the first error. On an error, drops the other results in parallel:
/// ending a host takes a moment.
pub(crate) fn all_or_none<T: Send>(done: Vec<Result<T, Error>>) -> Result<Vec<T>, Error> {
    let (mut all, mut failed) = (Vec::new(), None);
    for one in done {
        match one {
            Ok(one) => all.push(one),
            Err(error) => drop(failed.get_or_insert(error)),
        }
    }
    let Some(error) = failed else { return Ok(all) };
    drop_in_parallel(all);
    Err(error)
}

/// Drops all items in parallel.
pub(crate) fn drop_in_parallel<T: Send>(all: Vec<T>) {
    drop(in_parallel(all, |one| {
        drop(one);
        Ok(())
    }));
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};
    use std::thread::JoinHandle;

    use fixture::{TestDir, is_alive, until};
    use runner::{Setup, VERSION};

    use super::*;
    use crate::fakes::runner_thread;
    use crate::host_process::ProcessExit;

    const LONG: Duration = Duration::from_secs(30);

    /// Events of the machine, in order.
    type Story = Arc<Mutex<Vec<&'static str>>>;

    struct Thread {
        setup: Setup,
        serving: Option<JoinHandle<u8>>,
        story: Story,
        /// The input of the runner. A crash closes it.
        power: Option<std::io::PipeWriter>,
    }

    impl HostBackend for Thread {
        fn kind(&self) -> HostKind {
            HostKind::Virtual
        }

        fn address(&self) -> &str {
            "127.0.0.1"
        }

        fn plimsoll(&self) -> PathBuf {
            PathBuf::from("plimsoll")
        }

        fn bring(&self, session: &RunnerSession, target: &Path) -> Result<PathBuf, Error> {
            let there = session.make_folder("target")?;
            std::fs::write(there.join("here"), target.as_os_str().as_encoded_bytes()).unwrap();
            Ok(there)
        }

        fn boot(&mut self) -> Result<Arc<RunnerSession>, Error> {
            self.story.lock().unwrap().push("boot");
            // Unlike after a power failure, this runner ends in good order, and would end processes
            // of the next one.
            if let Some(serving) = self.serving.take() {
                assert_eq!(serving.join().unwrap(), 0);
            }
            let (input, to) = std::io::pipe().unwrap();
            let (from, output) = std::io::pipe().unwrap();
            self.power = Some(to.try_clone().unwrap());
            self.serving = Some(runner_thread(input, output));
            RunnerSession::open(Box::new(to), Box::new(from), &self.setup, LONG, &Default::default())
        }

        fn crash(&mut self) -> Result<(), Error> {
            self.story.lock().unwrap().push("crash");
            self.power = None;
            Ok(())
        }

        fn figures(&self) -> HostFigures {
            HostFigures { address: Some("127.0.0.1".to_owned()), cores: Some(77), ..HostFigures::default() }
        }

        fn close(&mut self) {
            self.story.lock().unwrap().push("close");
            self.power = None;
            assert_eq!(self.serving.take().unwrap().join().unwrap(), 0);
        }
    }

    fn raise() -> (Result<ManagedHost, Error>, TestDir, Story) {
        let (folder, story) = (TestDir::new(), Story::default());
        let setup = Setup {
            version: VERSION.to_owned(),
            host: "n1".to_owned(),
            run: folder.file_name().unwrap().to_str().unwrap().to_owned(),
            folder: folder.join("host"),
            ..Setup::default()
        };
        let machine = Thread { setup, serving: None, story: Arc::clone(&story), power: None };
        (ManagedHost::raise("n1", Box::new(machine)), folder, story)
    }

    fn sleeper(folder: &TestDir) -> Start {
        Start {
            role: "server".to_owned(),
            program: "sleep".into(),
            arguments: vec!["60".into()],
            environment: Vec::new(),
            folder: None,
            user: None,
            log: folder.join("log"),
            log_watcher: Default::default(),
            programs: Vec::new(),
        }
    }

    #[test]
    fn operations_on_a_host_run_inside_it() {
        let (host, folder, story) = raise();
        let host = host.unwrap();
        assert_eq!((host.name(), host.kind(), host.is_up()), ("n1", HostKind::Virtual, true));
        let figures = host.figures();
        assert_eq!(figures.cores, Some(77), "what is known from outside counts");
        assert!(figures.memory_bytes.is_some(), "what is known inside is added");
        assert_eq!(host.folder("data").unwrap(), folder.join("host/data"));
        assert_eq!(std::fs::read_to_string(host.bring(Path::new("/x")).unwrap().join("here")).unwrap(), "/x");
        // Another test may take one of the ports first.
        until("a port is free", || host.check_port(host.free_ports(1).unwrap()[0]).is_ok());
        let command = ["sh", "-c", "cat"].map(str::to_owned).to_vec();
        let output = host.run(&ProgramSpec { command, ..ProgramSpec::default() }, "hello", LONG).unwrap();
        assert_eq!((output.ended, output.output.as_str()), (ProcessExit::Exit(0), "hello"));
        let process = host.start(&sleeper(&folder)).unwrap();
        let pid = process.pid();
        assert!(is_alive(pid));
        drop(host);
        assert!(!is_alive(pid));
        assert_eq!(*story.lock().unwrap(), ["boot", "close"]);
    }

    #[test]
    fn output_is_kept_up_to_the_requested_size() {
        let (host, _folder, _story) = raise();
        let host = host.unwrap();
        // JSON escapes each quote to two characters. With the audit's limit, the line exceeds 64
        // MiB.
        let quotes = 40_000_000;
        let command =
            ["sh", "-c", &format!("head -c {quotes} /dev/zero | tr '\\000' '\"'")].map(str::to_owned).to_vec();
        let run = |keeps_bytes| {
            host.run(&ProgramSpec { command: command.clone(), keeps_bytes, ..ProgramSpec::default() }, "", LONG)
                .unwrap()
        };
        let whole = run(Some(crate::hooks::AUDIT_BYTES)).output;
        assert!(whole.len() == quotes && whole.bytes().all(|byte| byte == b'"'), "{}", whole.len());
        assert!(run(None).output.ends_with(&format!("\n[{} bytes left out]\n", quotes - (8 << 20))));
    }

    #[test]
    fn a_crashed_host_boots_again_with_its_data() {
        let (host, folder, story) = raise();
        let mut host = host.unwrap();
        let data = host.folder("data").unwrap();
        std::fs::write(data.join("x"), "kept").unwrap();
        let mut process = host.start(&sleeper(&folder)).unwrap();
        host.crash().unwrap();
        assert!(!host.is_up());
        assert_eq!(process.ended(), Some(ProcessExit::Signal(9)));
        assert!(host.start(&sleeper(&folder)).is_err());
        host.boot().unwrap();
        assert!(host.is_up());
        assert_eq!(std::fs::read_to_string(data.join("x")).unwrap(), "kept");
        let mut again = host.start(&sleeper(&folder)).unwrap();
        assert_eq!(again.ended(), None);
        drop((process, again));
        drop(host);
        assert_eq!(*story.lock().unwrap(), ["boot", "crash", "boot", "close"]);
    }

    #[test]
    fn a_host_that_fails_to_boot_is_closed() {
        let story = Story::default();
        struct Dead(Story);
        impl HostBackend for Dead {
            fn kind(&self) -> HostKind {
                HostKind::Virtual
            }
            fn address(&self) -> &str {
                ""
            }
            fn plimsoll(&self) -> PathBuf {
                PathBuf::new()
            }
            fn bring(&self, _: &RunnerSession, _: &Path) -> Result<PathBuf, Error> {
                Err(Error::NotAHost)
            }
            fn boot(&mut self) -> Result<Arc<RunnerSession>, Error> {
                Err(Error::Host { host: "n1".to_owned(), reason: "no power".to_owned() })
            }
            fn crash(&mut self) -> Result<(), Error> {
                Ok(())
            }
            fn figures(&self) -> HostFigures {
                HostFigures::default()
            }
            fn close(&mut self) {
                self.0.lock().unwrap().push("close");
            }
        }
        let error = ManagedHost::raise("n1", Box::new(Dead(Arc::clone(&story)))).err().unwrap();
        assert_eq!(error.to_string(), "host n1: no power");
        assert_eq!(*story.lock().unwrap(), ["close"]);
    }

    /// Can only be dropped together with another.
    struct Together<'a>(&'a Barrier);

    impl Drop for Together<'_> {
        fn drop(&mut self) {
            self.0.wait();
        }
    }

    #[test]
    fn parallel_results_are_in_order_or_the_first_error() {
        let work = |number: u32| if number < 30 { Ok(number * 2) } else { Err(Error::Fault(number.to_string())) };
        assert_eq!(all_or_none(in_parallel(vec![1, 2, 3], work)).unwrap(), [2, 4, 6]);
        assert_eq!(all_or_none(in_parallel(vec![1, 40, 50], work)).unwrap_err().to_string(), "40");
    }

    #[test]
    fn results_beside_an_error_are_dropped_in_parallel() {
        let both = Barrier::new(2);
        let made = vec![Ok(Together(&both)), Err(Error::NotAHost), Ok(Together(&both))];
        assert!(matches!(all_or_none(made), Err(Error::NotAHost)));
    }
}
