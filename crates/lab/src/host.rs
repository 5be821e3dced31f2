//! Hosts, on which target processes run. Each has a runner, which works inside the host. The host's
//! backend works from outside and depends on the host's kind.

use std::os::unix::net::UnixListener;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use experiment::tier::{Tier, TierMedium};
use record::events::HostFigures;
use runner::{Injection, Order, ProgramSpec};

use crate::Error;
use crate::host_process::{ProgramOutput, Start};
use crate::session::{HostProcess, RunnerSession};

/// Time limit for a host to undo all changes at its end.
const END_PATIENCE: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(10);

/// The kind of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostKind {
    /// This machine itself. It gets no limits and no faults, and needs no root. The probes read it
    /// without its runner.
    ThisMachine,
    /// A part of this machine with a profile's limits. All virtual hosts share the machine's disk.
    /// They need root.
    Virtual,
    /// Another machine, over ssh. Nothing needs to be installed there.
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

/// Facts about a host that is up.
#[derive(Debug, Clone)]
pub(crate) struct HostFacts {
    pub kind: HostKind,
    /// Addresses under which other hosts of the lab see this host, one for each of its networks.
    /// Members on the host listen on the first address.
    pub addresses: Vec<String>,
    /// Path of this program on the host.
    pub plimsoll: PathBuf,
    /// Figures that are known outside the host, except the host's address.
    pub figures: HostFigures,
}

/// The machine below a runner: this machine, a virtual host, a pod, or a real machine behind ssh.
pub(crate) trait HostBackend: Send {
    fn facts(&self) -> HostFacts;

    /// Starts the host and its runner.
    fn boot(&mut self) -> Result<Arc<RunnerSession>, Error>;

    /// Ends the host at once, like a power failure.
    fn crash(&mut self) -> Result<(), Error>;

    /// Removes the host's leftovers after its session was closed.
    fn close(&mut self);

    /// Makes the target's folder available. Returns its path on the host.
    fn bring(&self, session: &RunnerSession, target: &Path) -> Result<PathBuf, Error>;

    // Operations of [`Host`]. The backend of this machine overrides most of them.

    /// Returns `None` if the host shares no folder with this machine.
    fn listen(&self, _name: &str) -> Option<Result<(UnixListener, PathBuf), Error>> {
        None
    }

    fn start_process(&self, session: &Arc<RunnerSession>, start: &Start) -> Result<HostProcess, Error> {
        session.start(start)
    }

    fn folder(&self, session: &RunnerSession, name: &str) -> Result<PathBuf, Error> {
        session.make_folder(name)
    }

    /// Returns `None` if the host does not have the tier.
    fn tier_folder(&self, _tier: &Tier, _name: &str) -> Result<Option<PathBuf>, Error> {
        Ok(None)
    }

    fn remove_folder(&self, session: &RunnerSession, name: &str) {
        // A folder that cannot be removed now is removed with the host.
        let _ = session.remove_folder(name);
    }

    fn give(&self, session: &RunnerSession, folder: &Path, user: &str) -> Result<(), Error> {
        session.own(folder, user)
    }

    fn free_ports(&self, session: &RunnerSession, count: usize) -> Result<Vec<u16>, Error> {
        session.ports(count)
    }

    fn check_port(&self, session: &RunnerSession, port: u16) -> Result<(), Error> {
        session.ask(Order::CheckPort { port }, PATIENCE).map(drop)
    }

    fn measure_storage(
        &self,
        session: &RunnerSession,
        tier: Option<&Tier>,
        within: Duration,
    ) -> Result<HostFigures, Error> {
        let tier = tier.filter(|tier| tier.medium != TierMedium::Disk);
        session.measure_storage(tier.map(|tier| tier.name.as_str()), within)
    }
}

/// A host of the lab.
pub(crate) struct Host {
    name: String,
    facts: HostFacts,
    figures: HostFigures,
    session: Arc<RunnerSession>,
    backend: Box<dyn HostBackend>,
}

impl Host {
    /// Starts the machine. If that fails, removes all of it.
    pub fn raise(name: &str, mut backend: impl HostBackend + 'static) -> Result<Self, Error> {
        let session = backend.boot().inspect_err(|_| backend.close())?;
        Ok(Self::of(name, session, backend))
    }

    /// Creates a host for a machine that was started already, with this session.
    pub fn of(name: &str, session: Arc<RunnerSession>, backend: impl HostBackend + 'static) -> Self {
        let facts = backend.facts();
        let outside = HostFigures { address: facts.addresses.first().cloned(), ..facts.figures.clone() };
        let figures = if facts.kind == HostKind::ThisMachine {
            outside
        } else {
            // Figures that the runner cannot report stay unknown. Later checks notice a lost
            // runner.
            both(outside, session.figures().unwrap_or_default())
        };
        Self { name: name.to_owned(), facts, figures, session, backend: Box::new(backend) }
    }

    /// Returns the host's name in records.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn kind(&self) -> HostKind {
        self.facts.kind
    }

    /// Whether the host is this machine itself.
    pub fn is_here(&self) -> bool {
        self.facts.kind == HostKind::ThisMachine
    }

    /// Returns the host's properties and limits.
    pub fn figures(&self) -> HostFigures {
        self.figures.clone()
    }

    /// Returns the address on which the host's members listen.
    pub fn address(&self) -> &str {
        self.facts.addresses.first().map_or("", String::as_str)
    }

    /// Returns every address under which other hosts of the lab may see this host: one for each of
    /// its networks.
    pub fn addresses(&self) -> &[String] {
        &self.facts.addresses
    }

    /// Returns the path of this program on the host.
    pub fn plimsoll(&self) -> &Path {
        &self.facts.plimsoll
    }

    /// Returns `count` different ports on which no process listens.
    pub fn free_ports(&self, count: usize) -> Result<Vec<u16>, Error> {
        self.backend.free_ports(&self.session, count)
    }

    /// Checks that a process can listen on this port.
    pub fn check_port(&self, port: u16) -> Result<(), Error> {
        self.backend.check_port(&self.session, port)
    }

    /// Makes an empty private folder with this name.
    pub fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        self.backend.folder(&self.session, name)
    }

    /// Makes an empty private folder with this name on a storage tier.
    pub fn tier_folder(&self, tier: &Tier, name: &str) -> Result<PathBuf, Error> {
        if tier.medium == TierMedium::Disk {
            return self.folder(name);
        }
        self.backend.tier_folder(tier, name)?.ok_or_else(|| {
            let reason = format!("the host has no tier `{}`", tier.name);
            Error::Host { host: self.name.clone(), reason }
        })
    }

    /// Makes a user the owner of a folder on the host.
    pub fn give(&self, folder: &Path, user: &str) -> Result<(), Error> {
        self.backend.give(&self.session, folder, user)
    }

    /// Removes a folder that [`Host::folder`] made.
    pub fn remove_folder(&self, name: &str) {
        self.backend.remove_folder(&self.session, name);
    }

    /// Starts a process. The process and its children carry the run's mark.
    pub fn start(&self, start: &Start) -> Result<HostProcess, Error> {
        self.backend.start_process(&self.session, start)
    }

    /// Makes the target's folder available. Returns its path on this host.
    pub fn bring(&self, target: &Path) -> Result<PathBuf, Error> {
        self.backend.bring(&self.session, target)
    }

    /// Runs a program to its end.
    pub fn run(&self, program: &ProgramSpec, input: &str, within: Duration) -> Result<ProgramOutput, Error> {
        self.session.run(program, input, within)
    }

    /// Measures the storage under [`Host::folder`], or a tier. Fills in only the fields
    /// `storage_…`.
    pub fn measure_storage(&self, tier: Option<&Tier>, within: Duration) -> Result<HostFigures, Error> {
        self.backend.measure_storage(&self.session, tier, within)
    }

    /// Injects a fault. The key identifies it to [`Host::heal`].
    pub fn inject(&self, key: &str, control: &Injection) -> Result<(), Error> {
        if self.is_here() { Err(Error::NotAHost) } else { self.session.inject(key, control) }
    }

    /// Heals the fault with this key. Does nothing if there is none.
    pub fn heal(&self, key: &str) -> Result<(), Error> {
        self.session.heal(key)
    }

    /// Ends the host at once, like a power failure.
    pub fn crash(&mut self) -> Result<(), Error> {
        self.session.expect_end("a fault crashed the host");
        self.backend.crash()?;
        // Ends the session now, not only when the pipe has been read to its end.
        self.session.give_up("a fault crashed the host");
        Ok(())
    }

    /// Starts the host again after a crash: same name, address, folders and data, but no processes.
    pub fn boot(&mut self) -> Result<(), Error> {
        self.session.give_up("the host was started again");
        self.session = self.backend.boot()?;
        self.facts = self.backend.facts();
        Ok(())
    }

    /// Whether the host is up, as far as is known.
    pub fn is_up(&self) -> bool {
        self.session.is_open()
    }

    /// Returns the host's runner.
    pub fn session(&self) -> Arc<RunnerSession> {
        Arc::clone(&self.session)
    }

    /// Opens a Unix socket on which this program listens. Also returns the socket's path inside the
    /// host.
    pub fn listen(&self, name: &str) -> Result<(UnixListener, PathBuf), Error> {
        self.backend.listen(name).unwrap_or_else(|| {
            let reason = "a generator cannot run there, because this program shares no folder with the host".to_owned();
            Err(Error::Host { host: self.name.clone(), reason })
        })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if self.session.is_open() {
            self.session.close(END_PATIENCE);
        }
        self.backend.close();
    }
}

/// Merges figures. Those from outside the host take precedence over those from its runner.
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

// Parallel work on several hosts, so that sixteen hosts do not wait for each other.

/// Does `work` on every host in parallel. Returns the results in the hosts' order. Starts no thread
/// for a single host.
pub(crate) fn on_each_host<T: Send>(
    hosts: &mut [Host],
    work: impl Fn(usize, &mut Host) -> Result<T, Error> + Sync,
) -> Vec<Result<T, Error>> {
    let items = hosts.iter_mut().enumerate().collect();
    in_parallel(items, |(index, host)| work(index, host))
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
        let mut threads = Vec::new();
        for item in items {
            let thread = thread::Builder::new().name("host".to_owned()).spawn_scoped(scope, move || work(item));
            threads.push(thread.map_err(Error::system("start a thread")));
        }
        // Passes on a panic of a thread.
        let done = threads.into_iter().map(|thread| thread?.join().unwrap_or_else(|panic| resume_unwind(panic)));
        done.collect()
    })
}

/// Returns all results, or the first error. On an error, drops the other results in parallel,
/// because ending a host takes a moment.
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
    use runner::Setup;

    use super::*;
    use crate::fakes::setup_in;
    use crate::host_process::ProcessExit;

    const LONG: Duration = Duration::from_secs(30);

    /// Events of the machine, in order.
    type Story = Arc<Mutex<Vec<&'static str>>>;

    struct Thread {
        setup: Setup,
        serving: Option<JoinHandle<u8>>,
        story: Story,
    }

    impl HostBackend for Thread {
        fn facts(&self) -> HostFacts {
            HostFacts {
                kind: HostKind::Virtual,
                addresses: vec!["127.0.0.1".to_owned()],
                plimsoll: PathBuf::from("plimsoll"),
                figures: HostFigures { cores: Some(77), ..HostFigures::default() },
            }
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
            let (session, serving) = RunnerSession::on_thread(&self.setup, &Default::default())?;
            self.serving = Some(serving);
            Ok(session)
        }

        fn crash(&mut self) -> Result<(), Error> {
            self.story.lock().unwrap().push("crash");
            Ok(())
        }

        fn close(&mut self) {
            self.story.lock().unwrap().push("close");
            assert_eq!(self.serving.take().unwrap().join().unwrap(), 0);
        }
    }

    fn raise() -> (Host, TestDir, Story) {
        let (folder, story) = (TestDir::new(), Story::default());
        let machine = Thread { setup: setup_in(&folder), serving: None, story: Arc::clone(&story) };
        (Host::raise("n1", machine).unwrap(), folder, story)
    }

    fn sleeper(folder: &TestDir) -> Start {
        Start {
            role: "server".to_owned(),
            program: "sleep".into(),
            arguments: vec!["60".into()],
            log: folder.join("log"),
            ..Start::default()
        }
    }

    #[test]
    fn operations_on_a_host_run_inside_it() {
        let (host, folder, story) = raise();
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
        let (mut host, folder, story) = raise();
        let data = host.folder("data").unwrap();
        std::fs::write(data.join("x"), "kept").unwrap();
        let process = host.start(&sleeper(&folder)).unwrap();
        host.crash().unwrap();
        assert!(!host.is_up());
        assert_eq!(process.ended(), Some(ProcessExit::Signal(9)));
        assert!(host.start(&sleeper(&folder)).is_err());
        host.boot().unwrap();
        assert!(host.is_up());
        assert_eq!(std::fs::read_to_string(data.join("x")).unwrap(), "kept");
        let again = host.start(&sleeper(&folder)).unwrap();
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
            fn facts(&self) -> HostFacts {
                unreachable!()
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
            fn close(&mut self) {
                self.0.lock().unwrap().push("close");
            }
        }
        let error = Host::raise("n1", Dead(Arc::clone(&story))).err().unwrap();
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
