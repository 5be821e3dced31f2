//! What the tests of this crate share: a folder that goes away, a small server, a trial, a
//! caller, hosts that stand on paper. Not for anything else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod hosts;
pub mod stage;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use experiment::manifest::{About, Manifest, Process, Ready, ReadyCheck, Stop};
use experiment::plan;

use crate::linux::procfs;
use crate::registry::Registry;
use crate::{Build, Caller, Error, Site};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A folder that is removed when the test is over.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        let name = format!("plimsoll-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.write(name, &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

impl Deref for Scratch {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// This test program, asked to be what the ignored test of that name does.
pub fn ourselves(test: &str) -> Vec<String> {
    let program = std::env::current_exe().unwrap().display().to_string();
    [&program, "--exact", test, "--ignored", "--nocapture"].map(str::to_owned).to_vec()
}

/// A process of the small server below, ready when it accepts.
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
    .running(ourselves("fixture::serve"))
    .ready_when(ReadyCheck::Call("ping".to_owned()), 20.0)
}

/// A process that runs a shell script and is ready at once if `server` is.
pub fn shell(role: &str, script: &[&str]) -> Process {
    Process {
        role: role.to_owned(),
        run: ["sh", "-c", &script.join("\n")].map(str::to_owned).to_vec(),
        env: BTreeMap::new(),
        ports: Vec::new(),
        data: false,
        after: None,
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

/// Has the ignored test of that name play in a pid namespace of its own. False where this user cannot make one.
pub fn in_pid_namespace_with(test: &str, variables: &[(&str, &std::ffi::OsStr)]) -> bool {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: a pid namespace needs root");
        return false;
    }
    // Folders are named by pids, and those in there are those of others here.
    let folder = Scratch::new();
    let mut command = std::process::Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc"]).args(ourselves(test));
    command.env("TMPDIR", &*folder).envs(variables.iter().copied());
    let played = command.env("IN_PID_NAMESPACE", "1").output().unwrap();
    let said = String::from_utf8_lossy(&played.stdout);
    assert!(played.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&played.stderr));
    true
}

/// The same without anything to be told.
pub fn in_pid_namespace(test: &str) -> bool {
    in_pid_namespace_with(test, &[])
}

/// In a pid namespace of our own: a process of somebody else's in the group `pid`, whose leader is gone.
pub fn stranger(pid: u32) -> u32 {
    use std::os::unix::process::CommandExt as _;
    assert!(
        std::env::var_os("IN_PID_NAMESPACE").is_some(),
        "not here: all processes of the machine would be renumbered"
    );
    fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).unwrap();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "sleep 1000 > /dev/null 2>&1 & echo $!"]).process_group(0).env_remove(crate::registry::MARK);
    let shell = shell.stdout(std::process::Stdio::piped()).spawn().unwrap();
    assert_eq!(shell.id(), pid, "it did not get the number");
    let said = shell.wait_with_output().unwrap().stdout;
    let bystander: u32 = String::from_utf8(said).unwrap().trim().parse().unwrap();
    assert_eq!(procfs::stat(bystander).unwrap().group, pid);
    bystander
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
        },
        parameters: BTreeMap::new(),
        processes,
        hooks: BTreeMap::new(),
        install_with: None,
        metrics: None,
        log: experiment::manifest::LogTexts::default(),
    }
}

pub fn trial(kind: plan::TargetKind) -> plan::Trial {
    plan::Trial {
        id: "001".to_owned(),
        variant: None,
        point: BTreeMap::new(),
        repeat: 1,
        seed: 1,
        target: plan::Target { kind, protocol: "lines".to_owned(), tls: Default::default() },
        lab: plan::Lab::default(),
        prepare: Vec::new(),
        load: None,
        faults: Vec::new(),
        surviving: None,
        steps: Vec::new(),
    }
}

pub fn folder_trial() -> plan::Trial {
    trial(plan::TargetKind::Folder { name: "test".to_owned(), with: BTreeMap::new() })
}

/// A run with a registry of its own, so that tests do not see each other.
pub struct Bench {
    pub registry: Registry,
    pub folder: Scratch,
}

impl Bench {
    pub fn new() -> Self {
        let folder = Scratch::new();
        let registry = Registry::begin_in(&folder.join("registry"), &folder).unwrap();
        Self { registry, folder }
    }

    pub fn up(&self, manifest: &Manifest) -> Result<Site, Error> {
        self.up_with(&folder_trial(), Some(manifest), &AtomicBool::new(false))
    }

    pub fn up_with(&self, trial: &plan::Trial, manifest: Option<&Manifest>, stop: &AtomicBool) -> Result<Site, Error> {
        Site::up(self.build(trial, manifest), Arc::new(Lines), stop).map_err(|not_up| *not_up.error)
    }

    pub fn build<'a>(&'a self, trial: &'a plan::Trial, manifest: Option<&'a Manifest>) -> Build<'a> {
        Build {
            registry: &self.registry,
            trial,
            manifest,
            folder: Some(&self.folder),
            logs: self.folder.join("logs"),
            plimsoll: PathBuf::from("plimsoll"),
            measures_storage: false,
            at_once: Arc::default(),
        }
    }

    pub fn log(&self, role: &str) -> String {
        fs::read_to_string(self.folder.join(format!("logs/n1.{role}.log"))).unwrap_or_default()
    }

    /// Every process of the run that is alive.
    pub fn alive(&self) -> usize {
        self.registry.ledger().marks().find().len()
    }
}

/// Speaks the small server's protocol: a line there, a line back.
pub struct Lines;

impl Lines {
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

impl Caller for Lines {
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

/// Waits for something that another process does; fails the test if it never does.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..4000 {
        if holds() {
            return;
        }
        #[allow(clippy::disallowed_methods, reason = "another process brings what is waited for")]
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("never: {what}");
}

pub fn is_alive(pid: u32) -> bool {
    procfs::stat(pid).is_some_and(|stat| !stat.is_dead())
}

/// Whether it lives on after all that was to be done to it is done. A signal takes a moment to end a process.
pub fn stays_alive(pid: u32) -> bool {
    crate::linux::await_end(pid, std::time::Duration::from_millis(300));
    is_alive(pid)
}

/// A command that a test starts says nothing of it.
fn serve_host() -> String {
    std::env::var("SERVE_HOST").unwrap_or_else(|_| "127.0.0.1".to_owned())
}

/// Not a test: the small server, started by tests.
#[test]
#[ignore = "a server, started by other tests"]
fn serve() {
    let Ok(port) = std::env::var("SERVE_PORT") else { return };
    if let Ok(data) = std::env::var("SERVE_DATA") {
        let mut starts = fs::File::options().create(true).append(true).open(Path::new(&data).join("starts")).unwrap();
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

/// A recorded machine of `tests/machines`, as files below a folder: after `== PATH` comes what the file says.
pub fn machine(name: &str) -> Scratch {
    let folder = Scratch::new();
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/machines/{name}.txt"));
    let text = fs::read_to_string(recorded).unwrap();
    for file in text.split("\n== ").skip(1) {
        let (path, content) = file.split_once('\n').unwrap_or((file, ""));
        folder.write(path, &format!("{content}\n"));
    }
    folder
}
