//! Shared helpers for this crate's tests: a small server, a trial, a caller and fake hosts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use experiment::manifest::{About, Manifest, Process, Ready, ReadyCheck, Stop};
use experiment::plan;
use experiment::tier::Tier;
use fixture::{TestDir, ourselves};
use linux::ProcessGroup;
use record::events::{HostFigures, What};
use runner::{NumberedOrder, Order, OrderRefusal, OrderReply, RunnerMessage, Setup, VERSION};
use rustix::process::Signal;

use crate::deployment::Hosts;
use crate::host::{Host, HostBackend, HostFacts, HostKind};
use crate::placement::ClientPlacement;
use crate::registry::Registry;
use crate::session::{RUNNER_GONE, RunnerSession};
use crate::{Caller, Deployment, DeploymentSpec, Error, HostEvent, NotUp, StorageFigures};

/// Returns the setup of a runner on this machine, for host `n1` of a separate run.
pub fn setup_in(folder: &TestDir) -> Setup {
    Setup {
        version: VERSION.to_owned(),
        host: "n1".to_owned(),
        run: folder.file_name().unwrap().to_str().unwrap().to_owned(),
        folder: folder.join("host"),
        ..Setup::default()
    }
}

/// Returns a process that runs the small server `serve`. It is ready when it answers `ping`.
pub fn server(role: &str) -> Process {
    Process {
        env: BTreeMap::from([
            ("SERVE_PORT".to_owned(), "{port.service}".to_owned()),
            ("SERVE_HOST".to_owned(), "{host}".to_owned()),
            ("SERVE_DATA".to_owned(), "{data}".to_owned()),
        ]),
        ports: vec!["service".to_owned()],
        data: true,
        ..shell(role, &[])
    }
    .running(ourselves("fakes::serve"))
    .ready_when(ReadyCheck::Call("ping".to_owned()), 20.0)
}

/// Returns a process that runs a shell script. It is ready when the role `server` accepts
/// connections.
pub fn shell(role: &str, script: &[&str]) -> Process {
    Process {
        role: role.to_owned(),
        run: ["sh", "-c", &script.join("\n")].map(str::to_owned).to_vec(),
        env: BTreeMap::new(),
        ports: Vec::new(),
        data: false,
        folders: BTreeMap::new(),
        user: None,
        after: None,
        programs: Vec::new(),
        ready: Ready { check: ReadyCheck::Tcp("server.service".to_owned()), within_s: 20.0 },
        stop: Stop { signal: "TERM".to_owned(), within_s: 20.0 },
    }
}

pub trait Adjust: Sized {
    fn running(self, run: Vec<String>) -> Self;
    fn ready_when(self, check: ReadyCheck, within_s: f64) -> Self;
    fn after(self, role: &str) -> Self;
    fn stop_within(self, within_s: f64) -> Self;
}

impl Adjust for Process {
    fn running(mut self, run: Vec<String>) -> Self {
        self.run = run;
        self
    }
    fn ready_when(mut self, check: ReadyCheck, within_s: f64) -> Self {
        self.ready = Ready { check, within_s };
        self
    }
    fn after(mut self, role: &str) -> Self {
        self.after = Some(role.to_owned());
        self
    }
    fn stop_within(mut self, within_s: f64) -> Self {
        self.stop.within_s = within_s;
        self
    }
}

pub fn manifest(processes: Vec<Process>) -> Manifest {
    Manifest {
        name: "test".to_owned(),
        about: About {
            what: "A test".to_owned(),
            version: "1".to_owned(),
            licence: "MIT".to_owned(),
            article: None,
            protocol: "lines".to_owned(),
            service: "server.service".to_owned(),
            members: "server".to_owned(),
            around_s: None,
        },
        parameters: BTreeMap::new(),
        processes,
        hooks: BTreeMap::new(),
        install_with: None,
        metrics: None,
        log: experiment::manifest::LogTexts::default(),
        private: Vec::new(),
        operations: Vec::new(),
        needs: experiment::manifest::Needs::default(),
        actions: BTreeMap::new(),
        conditions: BTreeMap::new(),
        audits: BTreeMap::new(),
    }
}

pub fn trial(kind: plan::TargetKind) -> plan::Trial {
    plan::Trial {
        id: "001".to_owned(),
        repeat: 1,
        seed: 1,
        target: plan::Target { kind, protocol: "lines".to_owned(), ..Default::default() },
        lab: plan::Lab::default(),
        ..plan::Trial::default()
    }
}

pub fn folder_trial() -> plan::Trial {
    trial(plan::TargetKind::Folder { name: "test".to_owned(), with: BTreeMap::new() })
}

/// A run with a separate registry, so that tests do not see each other's runs.
pub struct Bench {
    pub registry: Registry,
    pub folder: TestDir,
}

impl Bench {
    pub fn new() -> Self {
        let folder = TestDir::new();
        let registry = Registry::begin_in(&folder.join("registry"), &folder).unwrap();
        Self { registry, folder }
    }

    pub fn up(&self, manifest: &Manifest) -> Result<Deployment, Error> {
        self.up_with(&folder_trial(), Some(manifest), &AtomicBool::new(false))
    }

    pub fn up_with(
        &self,
        trial: &plan::Trial,
        manifest: Option<&Manifest>,
        stop: &AtomicBool,
    ) -> Result<Deployment, Error> {
        Deployment::up(self.build(trial, manifest), Arc::new(LineClient), stop).map_err(|not_up| *not_up.error)
    }

    pub fn build<'a>(&'a self, trial: &'a plan::Trial, manifest: Option<&'a Manifest>) -> DeploymentSpec<'a> {
        DeploymentSpec {
            registry: &self.registry,
            trial,
            manifest,
            folder: Some(&self.folder),
            logs: self.folder.join("logs"),
            plimsoll: PathBuf::from("plimsoll"),
            storage: StorageFigures::NotAsked,
            at_once: Arc::default(),
        }
    }

    pub fn log(&self, role: &str) -> String {
        fs::read_to_string(self.folder.join(format!("logs/n1.{role}.log"))).unwrap_or_default()
    }

    /// Returns the number of the run's live processes.
    pub fn alive(&self) -> usize {
        self.registry.ledger().marks().find().len()
    }
}

/// Client of the small server's protocol: one line per request and one per answer.
pub struct LineClient;

impl LineClient {
    fn ask(service: &str, operation: &str) -> Result<Option<String>, String> {
        let mut stream = TcpStream::connect(service).map_err(|error| error.to_string())?;
        writeln!(stream, "{operation}").map_err(|error| error.to_string())?;
        let mut answer = String::new();
        match stream.read_to_string(&mut answer) {
            Ok(count) if count > 0 => Ok(Some(answer.trim().to_owned())),
            Ok(_) | Err(_) => Ok(None),
        }
    }
}

impl Caller for LineClient {
    fn call(&self, service: &str, operation: &str, _with: &BTreeMap<String, String>) -> Result<(), String> {
        match Self::ask(service, operation)?.as_deref() {
            Some("ok") => Ok(()),
            answer => Err(format!("answered {answer:?}")),
        }
    }

    fn provoke(&self, service: &str, operation: &str, _with: &BTreeMap<String, String>) -> Result<(), String> {
        match Self::ask(service, operation)?.as_deref() {
            Some("ok") | None => Ok(()),
            Some(answer) => Err(format!("answered {answer}")),
        }
    }

    fn get(&self, service: &str, path: &str) -> Result<(), String> {
        Err(format!("asked `{path}` of {service}"))
    }
}

/// Returns the address to listen on. A command that a test starts does not set the variable.
fn serve_host() -> String {
    std::env::var("SERVE_HOST").unwrap_or_else(|_| "127.0.0.1".to_owned())
}

/// The small server. This is no test; tests start it.
#[test]
#[ignore = "a server, started by other tests"]
fn serve() {
    let Ok(port) = std::env::var("SERVE_PORT") else { return };
    if let Ok(data) = std::env::var("SERVE_DATA") {
        let mut starts = File::options().create(true).append(true).open(Path::new(&data).join("starts")).unwrap();
        writeln!(starts, "{port}").unwrap();
    }
    let listener = TcpListener::bind(format!("{}:{port}", serve_host())).unwrap();
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let mut line = String::new();
        let _ = BufReader::new(stream.try_clone().unwrap()).read_line(&mut line);
        let answer = match line.trim() {
            "" => continue,
            "crash" => panic!("asked to crash"),
            "starts" => fs::read_to_string(Path::new(&std::env::var("SERVE_DATA").unwrap()).join("starts")).unwrap(),
            "refuse" => "no\n".to_owned(),
            line if line.starts_with("GET /bad ") => "HTTP/1.0 503 Busy\r\n\r\n".to_owned(),
            line if line.starts_with("GET ") => "HTTP/1.0 200 OK\r\n\r\n".to_owned(),
            _ => "ok\n".to_owned(),
        };
        let _ = stream.write_all(answer.as_bytes());
    }
}

// Hosts for tests of a deployment. The runner of a fake host notes orders, and refuses some if the
// test wants that. It passes the others on to a real runner, or invents the replies.

/// Operations on all hosts of a deployment, in order, one line each: `n1 inject it#1 …`.
#[derive(Clone, Default)]
pub struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn add(&self, host: &str, text: String) {
        self.0.lock().unwrap().push(format!("{host} {text}"));
    }

    /// Returns the notes since the previous call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Failures that a test causes on a host without the deployment's knowledge.
#[derive(Debug, Clone, Default)]
pub struct HostFailures {
    session: Arc<Mutex<Option<Arc<RunnerSession>>>>,
    /// Number of ports that the host still refuses.
    pub refuses_ports: Arc<AtomicUsize>,
    /// The host refuses operations whose note contains this word.
    pub refuses: Arc<Mutex<Option<&'static str>>>,
    /// The host claims to be a real machine.
    pub is_real: bool,
}

impl HostFailures {
    /// Loses the connection to the host.
    pub fn lose(&self) {
        self.session.lock().unwrap().take().unwrap().give_up(RUNNER_GONE);
    }
}

/// A host with a fake runner.
pub struct FakeHost {
    pub kind: HostKind,
    address: String,
    pub runner: FakeRunner,
    /// Setup of the real runner.
    setup: Setup,
    serving: Option<JoinHandle<()>>,
}

#[derive(Clone)]
pub struct FakeRunner {
    name: String,
    figures: HostFigures,
    /// `None` if the storage cannot be measured.
    pub storage: Option<HostFigures>,
    notes: Notes,
    failures: HostFailures,
    /// Port of a listener, so that invented processes pass their readiness check. `None`: a real
    /// runner starts real processes.
    listener: Option<Arc<TcpListener>>,
    /// Invented processes that run: the order that started each, and its name.
    processes: BTreeMap<u64, String>,
}

impl FakeHost {
    /// Creates a host with real processes: `n1` is at 127.0.0.1, `n2` at 127.0.0.2, …
    pub fn new(number: usize, registry: &Registry, failures: HostFailures) -> Self {
        let measured = HostFigures { storage_sync_us: Some(600.0), ..HostFigures::default() };
        let mut host = Self::on_paper(number, format!("127.0.0.{number}"), None, &Notes::default(), failures);
        host.runner.figures = HostFigures { cores: Some(4), memory_bytes: Some(512 << 20), ..HostFigures::default() };
        host.runner.storage = (number == 1).then_some(measured);
        host.setup.run = registry.id().to_owned();
        host.setup.folder = registry.scratch().unwrap().join(&host.runner.name);
        host
    }

    fn on_paper(
        number: usize,
        address: String,
        listener: Option<TcpListener>,
        notes: &Notes,
        failures: HostFailures,
    ) -> Self {
        let name = format!("n{number}");
        let kind = if failures.is_real { HostKind::Remote } else { HostKind::Virtual };
        let setup = Setup { version: VERSION.to_owned(), host: name.clone(), is_here: true, ..Setup::default() };
        let runner = FakeRunner {
            name,
            figures: HostFigures::default(),
            storage: Some(HostFigures::default()),
            notes: notes.clone(),
            failures,
            listener: listener.map(Arc::new),
            processes: BTreeMap::new(),
        };
        Self { kind, address, runner, setup, serving: None }
    }

    pub fn up(self) -> Host {
        Host::raise(&self.runner.name.clone(), self).unwrap()
    }
}

impl HostBackend for FakeHost {
    fn facts(&self) -> HostFacts {
        HostFacts {
            kind: self.kind,
            addresses: vec![self.address.clone()],
            plimsoll: PathBuf::from("/run/plimsoll/plimsoll"),
            figures: HostFigures::default(),
        }
    }

    fn boot(&mut self) -> Result<Arc<RunnerSession>, Error> {
        if self.serving.is_some() {
            self.runner.note("boot".to_owned()).map_err(Error::Fault)?;
            self.close();
        }
        let (orders, to) = std::io::pipe().unwrap();
        let (from, replies) = std::io::pipe().unwrap();
        let runner = self.runner.clone();
        self.serving = Some(Builder::new().spawn(move || runner.serve(orders, replies)).unwrap());
        let session =
            RunnerSession::open(Box::new(to), Box::new(from), &self.setup, Duration::from_secs(30), &Arc::default())?;
        *self.runner.failures.session.lock().unwrap() = Some(Arc::clone(&session));
        Ok(session)
    }

    fn crash(&mut self) -> Result<(), Error> {
        self.runner.note("crash".to_owned()).map_err(Error::Fault)
    }

    fn close(&mut self) {
        self.serving.take().unwrap().join().unwrap();
        // The folder stays if any file is left in it.
        let _ = fs::remove_dir(&self.setup.folder);
    }

    fn bring(&self, _session: &RunnerSession, target: &Path) -> Result<PathBuf, Error> {
        Ok(target.to_owned())
    }

    fn tier_folder(&self, _tier: &Tier, name: &str) -> Result<Option<PathBuf>, Error> {
        Ok(Some(PathBuf::from(name)))
    }
}

impl FakeRunner {
    fn note(&self, text: String) -> Result<(), String> {
        if self.failures.refuses.lock().unwrap().is_some_and(|word| format!("{} {text}", self.name).contains(word)) {
            return Err("it cannot".to_owned());
        }
        self.notes.add(&self.name, text);
        Ok(())
    }

    /// Serves one session.
    fn serve(mut self, orders: PipeReader, replies: PipeWriter) {
        let replies = Arc::new(Mutex::new(replies));
        let mut orders = BufReader::new(orders).lines().map(Result::unwrap);
        let mut behind = self.listener.is_none().then(|| RealRunner::behind(&replies));
        match &mut behind {
            Some(real) => real.order(&orders.next().unwrap()),
            None => {
                orders.next();
                let (version, folder) = (VERSION.to_owned(), PathBuf::new());
                say(&replies, &RunnerMessage::Ready { version, pid: 1, folder, notices: Vec::new() });
            }
        }
        for line in orders {
            let NumberedOrder { number, order } = serde_json::from_str(&line).unwrap();
            let replied = self.reply(&order).or_else(|| match &mut behind {
                Some(real) => {
                    real.order(&line);
                    None
                }
                None => Some(self.invent(number, order, &replies)),
            });
            match replied {
                Some(Ok(answer)) => say(&replies, &RunnerMessage::Done { number, answer }),
                Some(Err(why)) => say(&replies, &RunnerMessage::Refused { number, why }),
                None => {}
            }
        }
        if let Some(real) = behind {
            real.end();
        }
    }

    /// Notes an order. Returns the reply to an order that is not passed on.
    fn reply(&self, order: &Order) -> Option<Result<OrderReply, OrderRefusal>> {
        let noted = match order {
            Order::Start(program) => self.note(format!("start {}", program.role)),
            Order::Run { program, within_s, .. } => {
                self.note(format!("run `{}` within {within_s} s", program.command.last().unwrap()))
            }
            Order::Own { path, user } => self.note(format!("give {} to {user}", path.file_name().unwrap().display())),
            Order::Inject { key, control } => {
                self.note(format!("inject {key} {}", serde_json::to_string(control).unwrap()))
            }
            Order::Heal { key } => self.note(format!("heal {key}")),
            _ => Ok(()),
        };
        if let Err(reason) = noted {
            return Some(Err(OrderRefusal::Cannot { reason }));
        }
        let figures = |figures: &HostFigures| OrderReply::Figures { figures: Box::new(figures.clone()) };
        match order {
            Order::Own { .. } | Order::Inject { .. } | Order::Heal { .. } => Some(Ok(OrderReply::Nothing)),
            Order::CheckPort { port } => {
                let left = &self.failures.refuses_ports;
                let refused = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
                Some(refused.map_or(Ok(OrderReply::Nothing), |_| Err(OrderRefusal::PortTaken { port: *port })))
            }
            Order::Figures => Some(Ok(figures(&self.figures))),
            Order::MeasureStorage { .. } => {
                let refusal = OrderRefusal::Cannot { reason: "no room".to_owned() };
                Some(self.storage.as_ref().map(figures).ok_or(refusal))
            }
            _ => None,
        }
    }

    /// Invents the reply of a runner. A process ends on SIGTERM or SIGKILL.
    fn invent(&mut self, number: u64, order: Order, replies: &Mutex<PipeWriter>) -> Result<OrderReply, OrderRefusal> {
        Ok(match order {
            Order::Ports { count } => {
                let port = self.listener.as_ref().unwrap().local_addr().unwrap().port();
                OrderReply::Ports { ports: vec![port; count] }
            }
            Order::Folder { name } => OrderReply::Folder { path: Path::new("/").join(name) },
            Order::Start(program) => {
                self.processes.insert(number, format!("{} {}", self.name, program.role));
                OrderReply::Started(ProcessGroup {
                    pid: PIDS.fetch_add(2, Ordering::Relaxed),
                    ..ProcessGroup::default()
                })
            }
            Order::Run { program, .. } => OrderReply::Ran {
                how: i32::from(program.command.last().unwrap().contains("fail")),
                output: String::new(),
                errors: "first\nit is broken\n\n".to_owned(),
            },
            Order::Signal { process, signal, group } => {
                if let Some(name) = self.processes.get(&process) {
                    self.notes.add(name, format!("{}signal {signal}", if group { "group " } else { "" }));
                    if signal == Signal::KILL.as_raw() || (signal == Signal::TERM.as_raw() && !group) {
                        self.processes.remove(&process);
                        say(replies, &RunnerMessage::Ended { process, how: -signal });
                    }
                }
                OrderReply::Nothing
            }
            Order::SignalProgram { process, program, signal } => {
                self.notes.add(&self.processes[&process], format!("{program} signal {signal}"));
                if program == "missing" {
                    return Err(OrderRefusal::Cannot { reason: "no `missing` runs".to_owned() });
                }
                OrderReply::Processes { pids: vec![1] }
            }
            Order::Sample => OrderReply::Samples { rows: Vec::new(), programs: Vec::new() },
            _ => OrderReply::Nothing,
        })
    }
}

static PIDS: AtomicU32 = AtomicU32::new(1_000_000);

fn say(replies: &Mutex<PipeWriter>, said: &RunnerMessage) {
    // An error means that the session is lost.
    let _ = writeln!(replies.lock().unwrap(), "{}", serde_json::to_string(said).unwrap());
}

/// A real runner behind a fake one.
struct RealRunner {
    orders: PipeWriter,
    serving: JoinHandle<u8>,
}

impl RealRunner {
    fn behind(replies: &Arc<Mutex<PipeWriter>>) -> Self {
        let (input, orders) = std::io::pipe().unwrap();
        let (said, output) = std::io::pipe().unwrap();
        let (input, output) = (File::from(OwnedFd::from(input)), File::from(OwnedFd::from(output)));
        let serving = Builder::new().spawn(move || runner::serve(false, input, output)).unwrap();
        let replies = Arc::clone(replies);
        let passing = Builder::new().spawn(move || {
            for line in BufReader::new(said).lines().map(Result::unwrap) {
                let _ = writeln!(replies.lock().unwrap(), "{line}");
            }
        });
        passing.unwrap();
        Self { orders, serving }
    }

    fn order(&mut self, line: &str) {
        writeln!(self.orders, "{line}").unwrap();
    }

    /// Ends the runner with its processes.
    fn end(self) {
        drop(self.orders);
        self.serving.join().unwrap();
    }
}

/// Fake hosts for these roles (`""`: all roles), with the failures of each.
pub struct FakeLab<'a> {
    pub bench: &'a Bench,
    pub trial: plan::Trial,
    pub failures: Vec<HostFailures>,
}

impl<'a> FakeLab<'a> {
    pub fn new(bench: &'a Bench, roles: &[&str]) -> Self {
        let mut trial = folder_trial();
        let host = |(index, role): (usize, &&str)| plan::Host {
            name: format!("n{}", index + 1),
            roles: (!role.is_empty()).then(|| (*role).to_owned()).into_iter().collect(),
            profile: Some("slow".to_owned()),
            ..plan::Host::default()
        };
        trial.lab.hosts = roles.iter().enumerate().map(host).collect();
        Self { bench, trial, failures: roles.iter().map(|_| HostFailures::default()).collect() }
    }

    pub fn hosts(&self) -> Hosts {
        let failures = self.failures.iter().cloned().enumerate();
        failures.map(|(index, failures)| FakeHost::new(index + 1, &self.bench.registry, failures).up()).collect()
    }

    pub fn up(&self, manifest: &Manifest) -> Result<Deployment, NotUp> {
        let build = self.bench.build(&self.trial, Some(manifest));
        let (caller, stop) = (Arc::new(LineClient), AtomicBool::new(false));
        Deployment::up_on(self.hosts(), ClientPlacement::default(), &build, caller, &stop)
    }
}

/// Formats events as words: `+n1`, `+n1.server`, `-n1.server`.
pub fn story(observed: &[HostEvent]) -> Vec<String> {
    let word = |observed: &HostEvent| match &observed.what {
        What::HostUp { host, .. } => format!("+{host}"),
        What::HostDown { host, expected: true } => format!("-{host}"),
        What::HostDown { host, expected: false } => format!("!{host}"),
        What::ProcessUp { host, process, .. } => format!("+{host}.{process}"),
        What::ProcessDown { host, process, expected: true, .. } => format!("-{host}.{process}"),
        What::ProcessDown { host, process, expected: false, .. } => format!("!{host}.{process}"),
        What::Notice { text } => text.clone(),
        other => panic!("{other:?}"),
    };
    observed.iter().map(word).collect()
}

// A deployment on hosts that only record operations.

/// Returns listeners at 127.0.0.1, 127.0.0.2, …, all on the same port.
fn listeners(count: u8) -> Vec<TcpListener> {
    let on_same_port = || -> std::io::Result<Vec<TcpListener>> {
        let first = TcpListener::bind("127.0.0.1:0")?;
        let port = first.local_addr()?.port();
        let others = (2..=count).map(|number| TcpListener::bind(format!("127.0.0.{number}:{port}")));
        std::iter::once(Ok(first)).chain(others).collect()
    };
    (0..100).find_map(|_| on_same_port().ok()).expect("no port is free on all of them")
}

/// A caller for which every operation succeeds.
pub struct AlwaysOk;

impl Caller for AlwaysOk {
    fn call(&self, _service: &str, _operation: &str, _with: &BTreeMap<String, String>) -> Result<(), String> {
        Ok(())
    }
}

/// A deployment of a server and an agent on each of several fake hosts, with the recorded
/// operations.
pub struct FakeDeployment {
    pub deployment: Deployment,
    pub notes: Notes,
    pub refuses: Arc<Mutex<Option<&'static str>>>,
    _bench: Bench,
}

impl FakeDeployment {
    pub fn of(count: u8) -> Self {
        Self::with(count, plan::Lab::default(), |_| {})
    }

    pub fn with(count: u8, lab: plan::Lab, adjust: impl Fn(&mut FakeHost)) -> Self {
        let server = shell("server", &[]).ready_when(ReadyCheck::Call("ping".to_owned()), 20.0);
        let server = Process { ports: vec!["service".to_owned()], ..server };
        Self::of_target(&manifest(vec![server, shell("agent", &[]).after("server")]), count, lab, adjust)
    }

    /// Creates a deployment with a proxy on `n1` and this number of members, each on its own host.
    pub fn behind_a_proxy(members: u8) -> Self {
        let role = |number: u8| if number == 1 { "proxy" } else { "member" }.to_owned();
        let host =
            |number: u8| plan::Host { name: format!("n{number}"), roles: vec![role(number)], ..plan::Host::default() };
        let lab = plan::Lab { hosts: (1..=members + 1).map(host).collect(), ..plan::Lab::default() };
        let process = |role: &str| {
            let process = shell(role, &[]).ready_when(ReadyCheck::Call("ping".to_owned()), 20.0);
            Process { ports: vec!["http".to_owned()], ..process }
        };
        let mut target = manifest(vec![process("proxy").after("member"), process("member")]);
        target.about.service = "proxy.http".to_owned();
        target.about.members = "member".to_owned();
        Self::of_target(&target, members + 1, lab, |_| {})
    }

    fn of_target(manifest: &Manifest, count: u8, lab: plan::Lab, adjust: impl Fn(&mut FakeHost)) -> Self {
        let bench = Bench::new();
        let (notes, refuses) = (Notes::default(), Arc::<Mutex<_>>::default());
        let hosts = (1..=count).zip(listeners(count)).map(|(number, listener)| {
            let failures = HostFailures { refuses: Arc::clone(&refuses), ..HostFailures::default() };
            let address = listener.local_addr().unwrap().ip().to_string();
            let mut host = FakeHost::on_paper(number.into(), address, Some(listener), &notes, failures);
            adjust(&mut host);
            host.up()
        });
        let mut trial = folder_trial();
        trial.lab = lab;
        let build = DeploymentSpec {
            plimsoll: PathBuf::new(),
            storage: StorageFigures::Measured,
            ..bench.build(&trial, Some(manifest))
        };
        let deployment = Deployment::up_on(
            hosts.collect(),
            ClientPlacement::default(),
            &build,
            Arc::new(AlwaysOk),
            &AtomicBool::new(false),
        )
        .unwrap();
        notes.take();
        Self { deployment, notes, refuses, _bench: bench }
    }

    /// Returns the operations since the previous call. Sorts those that ran on several hosts in
    /// parallel.
    pub fn done(&self) -> Vec<String> {
        let mut done = self.notes.take();
        let at_once =
            ["inject", "heal"].iter().any(|word| done.iter().all(|line| line.split(' ').nth(1) == Some(word)));
        if at_once {
            done.sort();
        }
        done
    }

    /// Refuses all further operations whose note contains this word.
    pub fn refuse(&self, word: Option<&'static str>) {
        *self.refuses.lock().unwrap() = word;
    }
}
