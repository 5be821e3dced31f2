//! A target's hooks: executables in its folder, run with a documented environment and a time limit.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use runner::{KEPT_BYTES, ProgramSpec};
use rustix::process::{Signal, kill_process_group};

use crate::Error;
use crate::host::Host;
use crate::host_process::{ProcessExit, ProgramOutput};

/// Output limit of a hook, bytes; see [`Hook::answer_bytes`].
pub const ANSWER_BYTES: usize = KEPT_BYTES;
/// Output limit of the hook `audit`, bytes. 50,000 records of 400 bytes are 20 MB, and there may be
/// more.
pub const AUDIT_BYTES: usize = 128 << 20;
const GLANCE: Duration = Duration::from_millis(5);
/// Time limit between the end of a hook and the end of its output. Background processes may hold
/// the output open forever.
const LINGER: Duration = Duration::from_millis(300);

/// The output stream of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    Output,
    Error,
}

/// A hook that is about to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// Name, such as `install` or `inspect`.
    pub name: String,
    /// Working folder: the target's folder.
    pub folder: PathBuf,
    /// Path of the executable.
    pub path: PathBuf,
    pub arguments: Vec<String>,
    /// Environment variables `PLIMSOLL_…`.
    pub environment: BTreeMap<String, OsString>,
    /// Time limit. A late hook is killed.
    pub within: Duration,
    /// Output limit, bytes. On this machine, the limit also applies to each line. Longer output is
    /// cut, and is then not a valid answer.
    pub answer_bytes: usize,
    /// Whether the hook gets the terminal's Ctrl-C itself, instead of SIGKILL when this program
    /// ends. An installation must not be killed in the middle.
    pub in_foreground: bool,
}

impl Hook {
    /// Runs the hook. Passes on each line as it arrives.
    pub fn run(&self, line: &mut dyn FnMut(OutputStream, &str)) -> Result<ExitStatus, Error> {
        self.run_unless(&|| false, line)
    }

    /// Runs the hook. Kills it once `must_stop` returns true.
    fn run_unless(
        &self,
        must_stop: &dyn Fn() -> bool,
        line: &mut dyn FnMut(OutputStream, &str),
    ) -> Result<ExitStatus, Error> {
        let mut child = self.start()?;
        let until = Instant::now() + self.within;
        let ended = match self.read(&mut child) {
            Ok(lines) => self.follow(&mut child, &lines, (until, must_stop), line),
            Err(error) => Err(self.failed(error.to_string())),
        };
        if ended.is_err() {
            self.kill(&mut child);
        }
        ended
    }

    /// Runs the hook. Returns the JSON object that it prints.
    pub fn ask(&self) -> Result<serde_json::Value, Error> {
        let (mut answer, mut complaint) = (String::new(), String::new());
        let status = self.run(&mut |stream, line| {
            let text = if stream == OutputStream::Output { &mut answer } else { &mut complaint };
            // Longer output is not a valid answer, so it need not be collected.
            if text.len() <= self.answer_bytes {
                text.push_str(line);
                text.push('\n');
            }
        })?;
        if !status.success() {
            let last = complaint.trim().lines().last().unwrap_or("no error message");
            return Err(self.failed(format!("{status}: {last}")));
        }
        self.parsed(&answer)
    }

    /// Runs the hook on this machine to its end. Kills it once `must_stop` returns true.
    pub(crate) fn run_here(&self, must_stop: &dyn Fn() -> bool) -> Result<ProgramOutput, Error> {
        let (mut output, mut errors) = (String::new(), String::new());
        let status = self.run_unless(must_stop, &mut |stream, line| {
            let text = if stream == OutputStream::Output { &mut output } else { &mut errors };
            if text.len() <= self.answer_bytes {
                text.push_str(line);
                text.push('\n');
            }
        })?;
        let ended = status.code().map_or_else(|| ProcessExit::Signal(status.signal().unwrap_or(0)), ProcessExit::Exit);
        Ok(ProgramOutput { ended, output, errors })
    }

    /// Returns the hook as a program for a host.
    pub(crate) fn program(&self) -> ProgramSpec {
        let mut command = vec![self.path.to_string_lossy().into_owned()];
        command.extend_from_slice(&self.arguments);
        ProgramSpec {
            role: format!("hook {}", self.name),
            command,
            environment: as_text(&self.environment),
            folder: Some(self.folder.clone()),
            user: None,
            keeps_bytes: Some(self.answer_bytes),
            programs: Vec::new(),
        }
    }

    /// Runs the hook on another host, on which its paths must exist.
    pub(crate) fn run_on(&self, host: &Host) -> Result<ProgramOutput, Error> {
        host.run(&self.program(), "", self.within)
    }

    /// Runs the hook on a host. Returns the JSON object that it prints.
    pub(crate) fn ask_on(&self, host: &Host) -> Result<serde_json::Value, Error> {
        if host.is_here() {
            return self.ask();
        }
        let ran = self.run_on(host)?;
        if ran.ended != ProcessExit::Exit(0) {
            let last = ran.errors.trim().lines().last().unwrap_or("no error message");
            return Err(self.failed(format!("{} on {}: {last}", ran.ended, host.name())));
        }
        self.parsed(&ran.output)
    }

    fn parsed(&self, answer: &str) -> Result<serde_json::Value, Error> {
        match serde_json::from_str(answer) {
            Ok(value @ serde_json::Value::Object(_)) => Ok(value),
            Ok(_) => Err(self.failed("its answer is not a JSON object".to_owned())),
            Err(_) if answer.len() > self.answer_bytes => {
                Err(self.failed(format!("its answer is longer than {} MiB", self.answer_bytes >> 20)))
            }
            Err(error) => Err(self.failed(format!("its answer is not JSON: {error}"))),
        }
    }

    fn start(&self) -> Result<Child, Error> {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).envs(&self.environment);
        command.current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = if self.in_foreground { command.spawn() } else { linux::spawn(command) };
        started.map_err(|error| self.failed(format!("cannot start {}: {error}", self.path.display())))
    }

    /// Starts to read both output streams.
    fn read(&self, child: &mut Child) -> io::Result<Receiver<(OutputStream, String)>> {
        let (sink, lines) = sync_channel(64);
        if let Some(output) = child.stdout.take() {
            read_lines(output, (OutputStream::Output, self.answer_bytes), sink.clone())?;
        }
        if let Some(errors) = child.stderr.take() {
            read_lines(errors, (OutputStream::Error, ANSWER_BYTES), sink)?;
        }
        Ok(lines)
    }

    fn follow(
        &self,
        child: &mut Child,
        lines: &Receiver<(OutputStream, String)>,
        (until, must_stop): (Instant, &dyn Fn() -> bool),
        line: &mut dyn FnMut(OutputStream, &str),
    ) -> Result<ExitStatus, Error> {
        let mut ended: Option<(ExitStatus, Instant)> = None;
        loop {
            match (lines.recv_timeout(GLANCE), ended) {
                (Ok((stream, text)), _) => line(stream, &text),
                (Err(RecvTimeoutError::Disconnected), Some((status, _))) => return Ok(status),
                (Err(RecvTimeoutError::Disconnected), None) => linux::await_end(child.id(), GLANCE),
                (Err(RecvTimeoutError::Timeout), Some((status, at))) if at.elapsed() >= LINGER => return Ok(status),
                (Err(RecvTimeoutError::Timeout), _) => {}
            }
            if ended.is_none() {
                let status = child.try_wait().map_err(|error| self.failed(error.to_string()))?;
                ended = status.map(|status| (status, Instant::now()));
            }
            if must_stop() {
                return Err(Error::Interrupted);
            }
            if Instant::now() >= until {
                let status = ended.map(|(status, _)| status);
                return status.ok_or_else(|| self.failed(format!("it did not end within {} s", self.within.as_secs())));
            }
        }
    }

    fn kill(&self, child: &mut Child) {
        match linux::pid(child.id()) {
            Some(group) if !self.in_foreground => drop(kill_process_group(group, Signal::KILL)),
            _ => drop(child.kill()),
        }
        let _ = child.wait();
    }

    fn failed(&self, reason: String) -> Error {
        Error::Hook { hook: self.name.clone(), reason }
    }
}

fn read_lines(
    from: impl Read + Send + 'static,
    (stream, line_bytes): (OutputStream, usize),
    sink: SyncSender<(OutputStream, String)>,
) -> io::Result<()> {
    let reading = std::thread::Builder::new().name("hook".to_owned()).spawn(move || {
        let mut reader = BufReader::new(from);
        let mut bytes = Vec::new();
        while reader.by_ref().take(line_bytes as u64).read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
            let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            bytes.clear();
            if sink.send((stream, line)).is_err() {
                return;
            }
        }
    });
    reading.map(drop)
}

/// Returns the path of a target's hook, if the target has it.
pub fn path(folder: &Path, hooks: &BTreeMap<String, String>, name: &str) -> Option<PathBuf> {
    hooks.get(name).map(|path| folder.join(path))
}

/// Returns an environment as text, for a runner.
pub fn as_text(environment: &BTreeMap<String, OsString>) -> BTreeMap<String, String> {
    environment.iter().map(|(name, value)| (name.clone(), value.to_string_lossy().into_owned())).collect()
}

/// Returns an environment variable's name: the prefix, then `name` in capitals, such as `PORT_HTTP`
/// for `port.http`.
pub fn variable(prefix: &str, name: &str) -> String {
    let name = name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    prefix.chars().chain(name).collect()
}

#[cfg(test)]
mod tests {
    use fixture::{TestDir, is_alive, until};

    use super::*;
    use crate::fakes::{Bench, FakeHost};

    fn hook(folder: &TestDir, script: &str) -> Hook {
        Hook {
            name: "inspect".to_owned(),
            folder: folder.to_path_buf(),
            path: folder.script("hooks/inspect", script),
            arguments: vec!["one".to_owned()],
            environment: BTreeMap::from([("PLIMSOLL_HOST".to_owned(), "here".into())]),
            within: Duration::from_secs(20),
            answer_bytes: ANSWER_BYTES,
            in_foreground: false,
        }
    }

    #[test]
    fn a_hook_answers_with_an_object() {
        let folder = TestDir::new();
        let answer = hook(
            &folder,
            r#"echo noise >&2; printf '{"at": "%s", "n": "%s",' "$PLIMSOLL_HOST" "$1"; echo '"in": "'$PWD'"}'"#,
        );
        let answer = answer.ask().unwrap();
        assert_eq!((answer["at"].as_str(), answer["n"].as_str()), (Some("here"), Some("one")));
        assert_eq!(answer["in"].as_str().map(PathBuf::from), Some(folder.canonicalize().unwrap()));
    }

    #[test]
    fn hook_failures_are_distinguished() {
        let folder = TestDir::new();
        let fails = |script: &str| hook(&folder, script).ask().err().unwrap().to_string();
        assert_eq!(fails("echo first >&2; echo no >&2; exit 3"), "hook `inspect` failed: exit status: 3: no");
        assert_eq!(fails("exit 1"), "hook `inspect` failed: exit status: 1: no error message");
        assert_eq!(fails("echo '[1]'"), "hook `inspect` failed: its answer is not a JSON object");
        assert!(fails("echo yes").contains("its answer is not JSON: "));
        let mut missing = hook(&folder, "");
        missing.path = folder.join("hooks/none");
        assert!(missing.ask().err().unwrap().to_string().contains("cannot start "));
    }

    #[test]
    fn a_slow_hook_is_killed_with_its_children() {
        let folder = TestDir::new();
        let note = folder.join("pid");
        let mut slow = hook(&folder, &format!("sleep 1000 & echo $! > {}; wait", note.display()));
        slow.within = Duration::from_millis(500);
        assert!(slow.ask().err().unwrap().to_string().contains("did not end within"));
        if let Ok(pid) = std::fs::read_to_string(note).unwrap_or_default().trim().parse() {
            until("it is gone", || !is_alive(pid));
        }
    }

    #[test]
    fn a_background_child_does_not_delay_the_answer() {
        let folder = TestDir::new();
        let note = folder.join("pid");
        let leaves = hook(&folder, &format!("sleep 1000 & echo $! > {}; echo '{{}}'", note.display()));
        assert!(leaves.ask().unwrap().is_object());
        let pid: u32 = std::fs::read_to_string(note).unwrap().trim().parse().unwrap();
        let stat = linux::procfs::stat(pid).unwrap();
        assert!(linux::signal(&stat, Signal::KILL));
    }

    #[test]
    fn variables_are_in_capitals() {
        assert_eq!(variable("PLIMSOLL_PORT_", "http"), "PLIMSOLL_PORT_HTTP");
        assert_eq!(variable("PLIMSOLL_WITH_", "hub-wait.ms"), "PLIMSOLL_WITH_HUB_WAIT_MS");
    }

    #[test]
    fn a_hook_works_the_same_on_another_host() {
        let bench = Bench::new();
        let host = FakeHost::new(2, &bench.registry, Default::default()).up();
        let folder = TestDir::new();
        let answering = r#"printf '{"at": "%s", "n": "%s", "in": "%s"}' "$PLIMSOLL_HOST" "$1" "$PWD""#;
        let answer = hook(&folder, answering).ask_on(&host).unwrap();
        assert_eq!((answer["at"].as_str(), answer["n"].as_str()), (Some("here"), Some("one")));
        assert_eq!(answer["in"].as_str().map(PathBuf::from), Some(folder.canonicalize().unwrap()));
        let fails = |script: &str| hook(&folder, script).ask_on(&host).err().unwrap().to_string();
        assert_eq!(fails("echo no >&2; exit 3"), "hook `inspect` failed: exit 3 on n2: no");
        assert_eq!(fails("echo '[1]'"), "hook `inspect` failed: its answer is not a JSON object");
    }
}
