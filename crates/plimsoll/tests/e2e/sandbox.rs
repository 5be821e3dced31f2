//! Sandbox of a test: runs the binary in a separate folder, and finds what it leaves behind. A test
//! may use the clock only to give up.
#![allow(clippy::disallowed_methods, reason = "a test waits for another process by looking again")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::remote_machines::Machines;

/// Time after which a test gives up. It is long because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(400);

static NEXT: AtomicU32 = AtomicU32::new(1);

/// Folder for one test, removed after the test.
pub struct Sandbox {
    folder: PathBuf,
    /// Command through which all programs run.
    through: Vec<String>,
    variables: Vec<(&'static str, PathBuf)>,
}

/// Result of a command.
pub struct Played {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Result of a command with a time limit.
pub struct PlayedWithin {
    /// The result; `None` if the command did not end in time and was killed.
    pub played: Option<Played>,
    /// Peak resident memory, KiB.
    pub peak_kib: u64,
}

/// A command that still runs. Killed when dropped, so that a failing test leaves no process.
pub struct Playing {
    child: Option<Child>,
    runs: PathBuf,
    /// Standard error read so far.
    said: Vec<u8>,
}

impl Sandbox {
    pub fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = crate::lab_traces::sandbox_folder(number);
        for room in ["registry", "scratch", "profiles"] {
            fs::create_dir_all(folder.join(room)).unwrap();
        }
        Self { folder, through: Vec::new(), variables: Vec::new() }
    }

    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.folder.join(name);
        fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    /// Writes a program and returns its path.
    pub fn program(&self, name: &str, text: &str) -> String {
        let path = self.folder.join(name);
        fixture::program(&path, text);
        path.display().to_string()
    }

    /// Makes all later commands run on the network of these machines, with their ssh configuration.
    pub fn beside(&mut self, machines: &Machines) {
        self.through = machines.through();
        self.variables.push(("PLIMSOLL_SSH_CONFIG", machines.config()));
    }

    /// Adds a variable to the environment of all later commands.
    pub fn set(&mut self, name: &'static str, value: impl Into<PathBuf>) {
        self.variables.push((name, value.into()));
    }

    /// Makes a shell run all later commands after this script, in which `$0` is the path and `$@`
    /// the command.
    pub fn within(&mut self, script: &str, path: &Path) {
        self.through = vec!["sh".into(), "-c".into(), script.into(), path.display().to_string()];
    }

    /// Makes the tests' targets and profiles available: targets from `tests/targets`, profiles from
    /// this sandbox.
    pub fn with_shelves(mut self) -> Self {
        self.variables.push(("PLIMSOLL_TARGETS", root().join("crates/plimsoll/tests/targets")));
        self.variables.push(("PLIMSOLL_PROFILES", self.folder.join("profiles")));
        self
    }

    /// Makes targets available from this folder of the sandbox.
    pub fn with_targets(mut self, folder: &str) -> Self {
        self.variables.push(("PLIMSOLL_TARGETS", self.folder.join(folder)));
        self
    }

    /// Runs `plimsoll WORDS…` to its end, in the workspace's root.
    pub fn play(&self, words: &[&str]) -> Played {
        self.start(words).wait()
    }

    /// Runs `plimsoll WORDS…` with one more variable in the environment.
    pub fn play_with(&self, variable: (&str, &str), words: &[&str]) -> Played {
        self.spawn(words, Some(variable)).wait()
    }

    /// Runs `plimsoll run WORDS… --json --accept`, with run folders in the sandbox. `--accept` is
    /// needed because the debug build is too slow for a valid result.
    pub fn run(&self, words: &[&str]) -> Played {
        let runs = self.runs();
        let runs = runs.to_str().unwrap();
        self.play(&[&["run"], words, &["--out", runs, "--json", "--accept"]].concat())
    }

    /// Starts a command and does not wait.
    pub fn start(&self, words: &[&str]) -> Playing {
        self.spawn(words, None)
    }

    /// Starts a command with this standard output and standard error.
    pub fn start_with(&self, words: &[&str], stdout: impl Into<Stdio>, stderr: impl Into<Stdio>) -> Playing {
        let child = self.command(words).stdout(stdout).stderr(stderr).spawn().unwrap();
        Playing { child: Some(child), runs: self.runs(), said: Vec::new() }
    }

    fn spawn(&self, words: &[&str], variable: Option<(&str, &str)>) -> Playing {
        let mut command = self.command(words);
        let child = command.envs(variable).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Playing { child: Some(child), runs: self.runs(), said: Vec::new() }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mark = self.mark();
        let (name, value) = mark.split_once('=').unwrap();
        let plimsoll = [env!("CARGO_BIN_EXE_plimsoll").to_owned()];
        let mut line = self.through.iter().chain(&plimsoll);
        let mut command = Command::new(line.next().unwrap());
        command
            .args(line)
            .args(words)
            .current_dir(root())
            .env(name, value)
            // A separate registry and scratch folder: all entries in them are leftovers of this
            // command.
            .env("XDG_RUNTIME_DIR", self.folder.join("registry"))
            .env("TMPDIR", self.folder.join("scratch"))
            .env("PLIMSOLL_DATA", self.folder.join("data"))
            .envs(self.variables.iter().map(|(name, path)| (name, path)))
            .stdin(Stdio::null());
        command
    }

    /// Starts to run an experiment.
    pub fn start_run(&self, words: &[&str]) -> Playing {
        let runs = self.runs();
        let runs = runs.to_str().unwrap();
        self.start(&[&["run"], words, &["--out", runs, "--json", "--accept"]].concat())
    }

    /// Returns every process, file and folder that was left behind, except run folders.
    pub fn leftovers(&self) -> Vec<String> {
        let survivors = survivors(&self.mark());
        self.left(survivors)
    }

    /// Returns the same while commands may still run.
    pub fn leftovers_now(&self) -> Vec<String> {
        self.left(marked(&self.mark()))
    }

    /// Returns the process ids of this sandbox with this first argument, sorted.
    pub fn processes(&self, argument: &str) -> Vec<u32> {
        let mark = self.mark();
        let read = |pid: &u32, name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let has = |pid: &u32, name: &str, word: &str| {
            read(pid, name).split(|byte| *byte == 0).any(|one| one == word.as_bytes())
        };
        let all = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        let mut all: Vec<u32> = all
            .filter(|pid| {
                read(pid, "cmdline").split(|byte| *byte == 0).nth(1) == Some(argument.as_bytes())
                    && has(pid, "environ", &mark)
            })
            .collect();
        all.sort_unstable();
        all
    }

    fn left(&self, mut left: Vec<String>) -> Vec<String> {
        for room in ["registry/plimsoll", "scratch"] {
            let entries = fs::read_dir(self.folder.join(room)).into_iter().flatten().filter_map(Result::ok);
            left.extend(entries.map(|entry| entry.path().display().to_string()));
        }
        left
    }

    /// Returns the variable that all commands of this sandbox have in their environment.
    pub fn mark(&self) -> String {
        format!("PLIMSOLL_TEST_STAGE={}", self.folder.display())
    }

    /// Returns the directory for run folders.
    pub fn runs(&self) -> PathBuf {
        self.folder.join("runs")
    }

    /// Returns the run folder, if a run was made and has a plan.
    pub fn any_run_folder(&self) -> Option<PathBuf> {
        only_folder(&self.runs()).filter(|folder| folder.join("plan.json").exists())
    }

    /// Returns the only run folder.
    pub fn run_folder(&self) -> PathBuf {
        only_folder(&self.runs()).unwrap_or_else(|| panic!("not one run folder in {}", self.runs().display()))
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // A failure to clean up does not fail the test.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Playing {
    /// Waits until the events of the first trial say that the load has begun, and then for `more`.
    pub fn wait_for_load(&mut self, more: Duration) {
        self.wait_for_event("\"phase\":\"load\"");
        std::thread::sleep(more);
    }

    /// Waits until `text` is in the events of the first trial.
    pub fn wait_for_event(&mut self, text: &str) {
        self.wait_for(text, "events.jsonl", |events| events.contains(text));
    }

    /// Waits until the records of the first trial have an `ok` operation.
    pub fn wait_for_records(&mut self) {
        self.wait_for("record of an operation", "attempts.csv", |rows| rows.lines().any(|row| row.contains(",ok,")));
    }

    /// Waits until a record file of the first trial satisfies a condition.
    fn wait_for(&mut self, what: &str, file: &str, holds: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        loop {
            let path = only_folder(&self.runs).map(|run| run.join("trials/001").join(file));
            if path.is_some_and(|path| fs::read_to_string(path).is_ok_and(|text| holds(&text))) {
                return;
            }
            let child = self.child.as_mut().unwrap();
            if let Some(status) = child.try_wait().unwrap() {
                let mut said = String::new();
                std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut said).unwrap();
                panic!("ended ({status}) before {what}: {said}");
            }
            assert!(begun.elapsed() < PATIENCE, "no {what} in {:?}", self.runs);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until `text` is in its standard error.
    pub fn wait_for_words(&mut self, text: &str) {
        self.wait_for_said(text, |said| said.contains(text).then_some(()));
    }

    /// Waits until its standard error satisfies a condition.
    fn wait_for_said<T>(&mut self, what: &str, holds: impl Fn(&str) -> Option<T>) -> T {
        let errors = self.child.as_mut().unwrap().stderr.as_mut().unwrap();
        loop {
            let said = String::from_utf8_lossy(&self.said);
            if let Some(held) = holds(&said) {
                return held;
            }
            let mut piece = [0; 512];
            let count = std::io::Read::read(errors, &mut piece).unwrap();
            assert!(count > 0, "ended before `{what}`: {said}");
            self.said.extend(&piece[..count]);
        }
    }

    /// Waits for a line with `mark` in its standard error. Returns the rest of that line.
    pub fn wait_for_line(&mut self, mark: &str) -> String {
        self.wait_for_said(mark, |said| Some(said.split_once(mark)?.1.split_once('\n')?.0.to_owned()))
    }

    /// Closes the reading end of its standard error.
    pub fn close_stderr(&mut self) {
        drop(self.child.as_mut().unwrap().stderr.take());
    }

    /// Closes the reading end of its standard output.
    pub fn close_stdout(&mut self) {
        drop(self.child.as_mut().unwrap().stdout.take());
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Sends a signal by name: `INT`, `TERM`, `KILL`.
    pub fn signal(&self, name: &str) {
        signal(name, self.pid());
    }

    /// Waits for the end until a time limit, and watches its memory.
    pub fn wait_within(mut self, within: Duration) -> PlayedWithin {
        let mut child = self.child.take().unwrap();
        let pipes = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (stdout, stderr) = (gathered(pipes.0), gathered(pipes.1));
        let (begun, mut peak_kib) = (Instant::now(), 0);
        let status = loop {
            peak_kib = peak_kib.max(peak_of(child.id()));
            match child.try_wait().unwrap() {
                Some(status) => break Some(status),
                None if begun.elapsed() > within => break None,
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        self.child = Some(child);
        let played = status.map(|status| {
            let mut said = std::mem::take(&mut self.said);
            said.extend(stderr.join().unwrap());
            Played::from(Output { status, stdout: stdout.join().unwrap(), stderr: said })
        });
        PlayedWithin { played, peak_kib }
    }

    /// Waits for the end.
    pub fn wait(mut self) -> Played {
        let mut output = self.child.take().unwrap().wait_with_output().unwrap();
        output.stderr.splice(0..0, std::mem::take(&mut self.said));
        Played::from(output)
    }
}

/// Sends a process a signal: `INT`, `KILL`, …
pub fn signal(name: &str, pid: u32) {
    // The shell's own `kill`, because /bin/kill is not on every machine.
    let sent = Command::new("sh").args(["-c", "kill -s $0 $1", name, &pid.to_string()]).status().unwrap();
    assert!(sent.success());
}

impl Drop for Playing {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl From<Output> for Played {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Played {
    /// Checks the exit code. Shows the output if it differs.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{}\n{}", self.stdout, self.stderr))
    }

    /// Checks that standard error contains all of these.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.stderr.contains(word), "nothing about `{word}` in:\n{}", self.stderr);
        }
        self
    }
}

/// Waits until a condition holds; fails the test if it never does.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the workspace's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Reads a JSON file.
pub fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the number at a JSON pointer.
#[track_caller]
pub fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number at {pointer} in {value:#}"))
}

/// Returns the command lines of processes with the mark. Waits for processes that are about to end.
fn survivors(mark: &str) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let found = marked(mark);
        if found.is_empty() || begun.elapsed() > Duration::from_secs(60) {
            return found;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns the command lines of processes that have the mark now.
pub fn marked(mark: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok).map(|entry| entry.path());
    processes
        .filter(|process| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        })
        .map(|process| {
            let words = fs::read(process.join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).replace('\0', " ")
        })
        .collect()
}

/// Returns the running child processes of a process.
pub fn children(of: u32) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers
        .filter(|pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().any(|line| line.strip_prefix("PPid:").is_some_and(|parent| parent.trim() == of.to_string()))
        })
        .collect()
}

/// Returns the peak resident memory of a process, KiB; 0 if it has ended.
fn peak_of(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    peak.and_then(|peak| peak.parse().ok()).unwrap_or(0)
}

/// Reads a pipe to its end, on another thread.
fn gathered(mut pipe: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::Builder::new()
        .spawn(move || {
            let mut bytes = Vec::new();
            pipe.read_to_end(&mut bytes).unwrap();
            bytes
        })
        .unwrap()
}

fn only_folder(path: &Path) -> Option<PathBuf> {
    let mut folders = fs::read_dir(path).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let first = folders.next()?;
    folders.next().is_none().then_some(first)
}
