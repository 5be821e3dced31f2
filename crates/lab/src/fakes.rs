//! Shared helpers for this crate's tests: a small server, a trial, a caller and fake hosts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use experiment::manifest::{About, Manifest, Process, Ready, ReadyCheck, Stop};
use experiment::plan;
use experiment::tier::Tier;
use fixture::{TestDir, ourselves};
use record::events::{HostFigures, What};
use runner::{Injection, ProgramSpec};
use rustix::process::Signal;

use crate::deployment::Hosts;
use crate::host::{Host, HostKind};
use crate::host_process::{ProcessExit, ProgramOutput, Start};
use crate::hosts;
use crate::placement::ClientPlacement;
use crate::registry::Registry;
use crate::session::RunnerSession;
use crate::{Caller, Deployment, DeploymentSpec, Error, HostEvent, NotUp, StorageFigures};

/// Starts a runner on a thread of this process.
pub fn runner_thread(input: PipeReader, output: PipeWriter) -> JoinHandle<u8> {
    let (input, output) = (File::from(OwnedFd::from(input)), File::from(OwnedFd::from(output)));
    std::thread::Builder::new().spawn(move || runner::serve(false, input, output)).unwrap()
}

/// Returns a process that runs the small server below. It is ready when it answers `ping`.
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

// Hosts for tests of a deployment. A fake host is either this machine at its own loopback address,
// or a recorder that only notes each operation. Tests can make it fail.

static PIDS: AtomicU32 = AtomicU32::new(1_000_000);

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
    /// The host does not answer.
    pub is_lost: Arc<AtomicBool>,
    /// Number of ports that the host still refuses.
    pub refuses_ports: Arc<AtomicUsize>,
    /// The host refuses operations whose note contains this word.
    pub refuses: Arc<Mutex<Option<&'static str>>>,
    /// The host claims to be a real machine.
    pub is_real: bool,
}

/// The implementation of a fake host.
enum FakeBackend {
    /// This machine: processes are real.
    Machine(Box<dyn Host>),
    /// A listener only, so that processes pass their readiness check.
    Paper(TcpListener),
}

pub struct FakeHost {
    name: String,
    pub kind: HostKind,
    address: String,
    figures: HostFigures,
    /// `None` if the storage cannot be measured.
    pub storage: Option<HostFigures>,
    notes: Notes,
    failures: HostFailures,
    behind: FakeBackend,
}

impl FakeHost {
    /// Creates a host: `n1` is at 127.0.0.1, `n2` at 127.0.0.2, …
    pub fn new(number: usize, registry: &Registry, failures: HostFailures) -> Self {
        let name = format!("n{number}");
        let measured = HostFigures { storage_sync_us: Some(600.0), ..HostFigures::default() };
        Self {
            kind: if failures.is_real { HostKind::Remote } else { HostKind::Virtual },
            address: format!("127.0.0.{number}"),
            figures: HostFigures { cores: Some(4), memory_bytes: Some(512 << 20), ..HostFigures::default() },
            storage: (number == 1).then_some(measured),
            notes: Notes::default(),
            behind: FakeBackend::Machine(hosts::named(&name, registry)),
            name,
            failures,
        }
    }

    fn on_paper(number: u8, listener: TcpListener, notes: &Notes, failures: HostFailures) -> Self {
        Self {
            name: format!("n{number}"),
            kind: HostKind::Virtual,
            address: listener.local_addr().unwrap().ip().to_string(),
            figures: HostFigures::default(),
            storage: Some(HostFigures::default()),
            notes: notes.clone(),
            failures,
            behind: FakeBackend::Paper(listener),
        }
    }

    fn note(&self, text: String) -> Result<(), Error> {
        if self.failures.refuses.lock().unwrap().is_some_and(|word| format!("{} {text}", self.name).contains(word)) {
            return Err(Error::Fault("it cannot".to_owned()));
        }
        self.notes.add(&self.name, text);
        Ok(())
    }
}

impl Host for FakeHost {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> HostKind {
        self.kind
    }

    fn figures(&self) -> HostFigures {
        self.figures.clone()
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn free_ports(&self, count: usize) -> Result<Vec<u16>, Error> {
        match &self.behind {
            FakeBackend::Machine(machine) => machine.free_ports(count),
            FakeBackend::Paper(listener) => Ok(vec![listener.local_addr().unwrap().port(); count]),
        }
    }

    fn check_port(&self, port: u16) -> Result<(), Error> {
        let left = &self.failures.refuses_ports;
        if left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Err(Error::PortTaken { port, holder: None });
        }
        Ok(())
    }

    fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        match &self.behind {
            FakeBackend::Machine(machine) => machine.folder(name),
            FakeBackend::Paper(_) => Ok(PathBuf::from(name)),
        }
    }

    fn tier_folder(&self, _tier: &Tier, name: &str) -> Result<PathBuf, Error> {
        self.folder(name)
    }

    fn give(&self, folder: &Path, user: &str) -> Result<(), Error> {
        self.note(format!("give {} to {user}", folder.file_name().unwrap().display()))
    }

    fn remove_folder(&self, name: &str) {
        if let FakeBackend::Machine(machine) = &self.behind {
            machine.remove_folder(name);
        }
    }

    fn start(&self, start: &Start) -> Result<Box<dyn crate::host_process::HostProcess>, Error> {
        self.note(format!("start {}", start.role))?;
        if let FakeBackend::Machine(machine) = &self.behind {
            return machine.start(start);
        }
        let pid = PIDS.fetch_add(1, Ordering::Relaxed);
        let (name, notes) = (format!("{} {}", self.name, start.role), self.notes.clone());
        Ok(Box::new(FakeProcess { pid, name, notes, ended: None }))
    }

    fn bring(&self, target: &Path) -> Result<PathBuf, Error> {
        Ok(target.to_owned())
    }

    fn plimsoll(&self) -> PathBuf {
        PathBuf::from("/run/plimsoll/plimsoll")
    }

    fn run(&self, program: &ProgramSpec, _input: &str, within: Duration) -> Result<ProgramOutput, Error> {
        let last = program.command.last().unwrap();
        self.note(format!("run `{last}` within {} s", within.as_secs_f64()))?;
        if let FakeBackend::Paper(_) = &self.behind {
            let ended = ProcessExit::Exit(i32::from(last.contains("fail")));
            return Ok(ProgramOutput { ended, output: String::new(), errors: "first\nit is broken\n\n".to_owned() });
        }
        let mut command = Command::new(&program.command[0]);
        command.args(&program.command[1..]).envs(&program.environment);
        if let Some(folder) = &program.folder {
            command.current_dir(folder);
        }
        let ran = command.output().map_err(Error::system("run a program"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let ended = ProcessExit::Exit(ran.status.code().unwrap_or(-1));
        Ok(ProgramOutput { ended, output: text(&ran.stdout), errors: text(&ran.stderr) })
    }

    fn measure_storage(&self, _within: Duration) -> Result<HostFigures, Error> {
        let failed = || Error::Host { host: self.name.clone(), reason: "no room".to_owned() };
        self.storage.clone().ok_or_else(failed)
    }

    fn measure_tier(&self, _tier: &Tier, within: Duration) -> Result<HostFigures, Error> {
        self.measure_storage(within)
    }

    fn inject(&self, key: &str, control: &Injection) -> Result<(), Error> {
        self.note(format!("inject {key} {}", serde_json::to_string(control).unwrap()))
    }

    fn heal(&self, key: &str) -> Result<(), Error> {
        self.note(format!("heal {key}"))
    }

    fn crash(&mut self) -> Result<(), Error> {
        self.note("crash".to_owned())?;
        self.failures.is_lost.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn boot(&mut self) -> Result<(), Error> {
        self.note("boot".to_owned())?;
        self.failures.is_lost.store(false, Ordering::SeqCst);
        Ok(())
    }

    fn is_up(&self) -> bool {
        !self.failures.is_lost.load(Ordering::SeqCst)
    }

    fn session(&self) -> Option<Arc<RunnerSession>> {
        None
    }
}

/// A process that ends on SIGTERM or SIGKILL.
struct FakeProcess {
    pid: u32,
    name: String,
    notes: Notes,
    ended: Option<ProcessExit>,
}

impl crate::host_process::HostProcess for FakeProcess {
    fn pid(&self) -> u32 {
        self.pid
    }
    fn ended(&mut self) -> Option<ProcessExit> {
        self.ended
    }
    fn wait(&mut self, _within: Duration) -> Option<ProcessExit> {
        self.ended
    }
    fn signal(&mut self, signal: Signal) {
        self.notes.add(&self.name, format!("signal {}", signal.as_raw()));
        if [Signal::TERM, Signal::KILL].contains(&signal) {
            self.ended = Some(ProcessExit::Signal(signal.as_raw()));
        }
    }
    fn signal_group(&mut self, signal: Signal) {
        if self.ended.is_none() {
            self.notes.add(&self.name, format!("group signal {}", signal.as_raw()));
            if signal == Signal::KILL {
                self.ended = Some(ProcessExit::Signal(signal.as_raw()));
            }
        }
    }
    fn signal_program(&mut self, program: &str, signal: Signal) -> Result<Vec<u32>, Error> {
        self.notes.add(&self.name, format!("{program} signal {}", signal.as_raw()));
        if program == "missing" { Err(Error::Fault("no `missing` runs".to_owned())) } else { Ok(vec![self.pid + 1]) }
    }
    fn last_lines(&mut self) -> Vec<String> {
        Vec::new()
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
        failures
            .map(|(index, failures)| Box::new(FakeHost::new(index + 1, &self.bench.registry, failures)) as _)
            .collect()
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
            let mut host = FakeHost::on_paper(number, listener, &notes, failures);
            adjust(&mut host);
            Box::new(host) as Box<dyn Host>
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
