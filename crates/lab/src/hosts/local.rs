//! This machine as a host: ordinary processes on 127.0.0.1, without limits.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io};

use experiment::tier::{Tier, TierMedium};
use linux::account::{Account, let_pass};
use linux::{ProcessGroup, pipe_inode};
use record::events::HostFigures;
use runner::{FOLDER_PREFIX, Injection, MARK, ProgramEnd, ProgramSpec, ports, program_signals};
use rustix::process::{Signal, kill_process, kill_process_group};

use crate::Error;
use crate::host::{Host, HostKind};
use crate::host_process::{HostProcess, ProcessExit, ProgramOutput, Start};
use crate::process_log::ProcessLog;
use crate::registry::RegistryWriter;
use crate::session::{OrderSubject, RunnerSession};
use crate::tiers::{SHARED_MEMORY, no_user};

pub(super) fn make(name: &str, ledger: Arc<RegistryWriter>) -> Box<dyn Host> {
    Box::new(Local { name: name.to_owned(), ledger, elsewhere: Mutex::default() })
}

struct Local {
    name: String,
    ledger: Arc<RegistryWriter>,
    /// Folders outside the run's scratch folder. They are removed with the host.
    elsewhere: Mutex<Vec<PathBuf>>,
}

impl Local {
    fn place(&self, name: &str) -> Result<PathBuf, Error> {
        Ok(self.ledger.scratch()?.join(format!("{}.{name}", self.name)))
    }

    /// Returns the path of a folder with this name on a tier.
    fn place_on(&self, tier: &Tier, name: &str) -> Result<PathBuf, Error> {
        let of_its_own = match (tier.medium, &tier.path) {
            (TierMedium::Memory, _) => SHARED_MEMORY,
            (TierMedium::Pmem, Some(path)) => path,
            _ => return self.place(name),
        };
        let place = self.ledger.scratch_in(Path::new(of_its_own))?.join(format!("{}.{name}", self.name));
        self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner).push(place.clone());
        Ok(place)
    }
}

/// Makes an empty folder that other users cannot enter. Its parents may be open to other users.
fn make_empty(path: &Path) -> Result<(), Error> {
    let make = || {
        remove_if_there(path)?;
        fs::create_dir_all(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))
    };
    make().map_err(Error::system(format!("make {}", path.display())))
}

impl Drop for Local {
    fn drop(&mut self) {
        for folder in self.elsewhere.get_mut().unwrap_or_else(PoisonError::into_inner) {
            // A folder that cannot be removed now is removed with the run.
            let _ = remove_if_there(folder);
        }
    }
}

impl Host for Local {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> HostKind {
        HostKind::ThisMachine
    }

    fn figures(&self) -> HostFigures {
        HostFigures { address: Some(self.address().to_owned()), ..HostFigures::default() }
    }

    fn address(&self) -> &'static str {
        "127.0.0.1"
    }

    fn free_ports(&self, count: usize) -> Result<Vec<u16>, Error> {
        Ok(ports::free(count)?)
    }

    fn check_port(&self, port: u16) -> Result<(), Error> {
        Ok(ports::check(port)?)
    }

    fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.place(name)?;
        make_empty(&path)?;
        Ok(path)
    }

    fn tier_folder(&self, tier: &Tier, name: &str) -> Result<PathBuf, Error> {
        let path = self.place_on(tier, name)?;
        make_empty(&path)?;
        Ok(path)
    }

    fn give(&self, folder: &Path, user: &str) -> Result<(), Error> {
        let Some(account) = become_user(&self.name, user)? else { return Ok(()) };
        let given = account.own(folder).and_then(|()| let_pass(folder, FOLDER_PREFIX));
        given.map_err(Error::system(format!("give {} to the user `{user}`", folder.display())))?;
        let Some(closed) = account.is_kept_from(folder) else { return Ok(()) };
        Err(Error::Needs {
            what: format!("a process that runs as the user `{user}`"),
            needs: format!("a way to its folder {}, and {} is closed to it", folder.display(), closed.display()),
            instead: "set TMPDIR to a folder that all may enter, such as /var/tmp".to_owned(),
        })
    }

    fn remove_folder(&self, name: &str) {
        // A folder that cannot be removed now is removed with the scratch folder, which reports
        // failures.
        if let Ok(path) = self.place(name) {
            let _ = remove_if_there(&path);
        }
    }

    fn start(&self, start: &Start) -> Result<Box<dyn HostProcess>, Error> {
        self.ledger.announce(&self.name, &start.role)?;
        let (reader, writer) = io::pipe().map_err(Error::system("make a pipe"))?;
        let pipe = pipe_inode(&reader);
        let log = ProcessLog::begin(reader, &start.log, &start.log_watcher)
            .map_err(Error::system(format!("write the log {}", start.log.display())))?;
        let mut command = Command::new(&start.program);
        command.args(&start.arguments).envs(start.environment.iter().map(|(name, value)| (name, value)));
        command.env(MARK, self.ledger.id()).stdin(Stdio::null());
        command.stdout(writer.try_clone().map_err(Error::system("copy a pipe"))?).stderr(writer);
        if let Some(folder) = &start.folder {
            command.current_dir(folder);
        }
        let user = start.user.as_deref().map(|user| become_user(&start.role, user)).transpose()?.flatten();
        let child = linux::spawn_as(command, &[], user.as_ref()).map_err(|error| refused(start, error))?;
        let group = ProcessGroup::of(child.id(), pipe.into_iter().collect());
        let mut process = LocalProcess { child, group, mark: self.ledger.variable(), ended: None, log };
        if let Err(error) = self.ledger.started(&process.group) {
            process.signal_group(Signal::KILL);
            return Err(error);
        }
        Ok(Box::new(process))
    }

    fn bring(&self, target: &Path) -> Result<PathBuf, Error> {
        std::path::absolute(target).map_err(Error::system(format!("find {}", target.display())))
    }

    fn plimsoll(&self) -> PathBuf {
        std::env::current_exe().unwrap_or_default()
    }

    fn run(&self, program: &ProgramSpec, input: &str, within: Duration) -> Result<ProgramOutput, Error> {
        let mut program = program.clone();
        program.environment.insert(MARK.to_owned(), self.ledger.id().to_owned());
        let ran = runner::run_here(&program, input.to_owned(), within);
        let ProgramEnd { how, output, errors } =
            ran.map_err(|why| OrderSubject::Role(program.role).error(&self.name, why))?;
        Ok(ProgramOutput { ended: ProcessExit::from_code(how), output, errors })
    }

    fn measure_storage(&self, _within: Duration) -> Result<HostFigures, Error> {
        Ok(HostFigures::default())
    }

    fn measure_tier(&self, tier: &Tier, within: Duration) -> Result<HostFigures, Error> {
        let folder = self.place_on(tier, "measure")?;
        make_empty(&folder)?;
        let is_memory = tier.medium == TierMedium::Memory;
        let figures = runner::machine::measure_storage(&folder, is_memory, within.as_secs_f64());
        remove_if_there(&folder).map_err(Error::system(format!("remove {}", folder.display())))?;
        Ok(figures)
    }

    fn inject(&self, _key: &str, _control: &Injection) -> Result<(), Error> {
        Err(Error::NotAHost)
    }

    fn heal(&self, _key: &str) -> Result<(), Error> {
        Ok(())
    }

    fn crash(&mut self) -> Result<(), Error> {
        Err(Error::NotAHost)
    }

    fn boot(&mut self) -> Result<(), Error> {
        Err(Error::NotAHost)
    }

    fn is_up(&self) -> bool {
        true
    }

    fn session(&self) -> Option<Arc<RunnerSession>> {
        None
    }
}

/// Returns the account to switch to, or `None` if it is the current one.
fn become_user(role: &str, user: &str) -> Result<Option<Account>, Error> {
    Account::to_become(user).map_err(|problem| no_user(role, user, problem))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn refused(start: &Start, error: io::Error) -> Error {
    let program = start.program.to_string_lossy().into_owned();
    if error.kind() == io::ErrorKind::NotFound {
        return Error::Missing { role: start.role.clone(), program };
    }
    let doing = match &start.user {
        Some(user) => format!("start `{program}` for `{}` as the user `{user}`", start.role),
        None => format!("start `{program}` for `{}`", start.role),
    };
    Error::System { doing, error }
}

struct LocalProcess {
    child: Child,
    group: ProcessGroup,
    /// The run's mark in the process's environment.
    mark: String,
    ended: Option<ProcessExit>,
    log: ProcessLog,
}

impl HostProcess for LocalProcess {
    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn ended(&mut self) -> Option<ProcessExit> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten().map(how);
        }
        self.ended
    }

    fn wait(&mut self, within: Duration) -> Option<ProcessExit> {
        let until = Instant::now() + within;
        loop {
            let ended = self.ended();
            if ended.is_some() || Instant::now() >= until {
                return ended;
            }
            linux::await_end(self.pid(), until.saturating_duration_since(Instant::now()));
        }
    }

    fn signal(&mut self, signal: Signal) {
        // The process id is not reused until the process is waited for.
        if self.ended().is_none()
            && let Some(pid) = linux::pid(self.pid())
        {
            let _ = kill_process(pid, signal);
        }
    }

    fn signal_group(&mut self, signal: Signal) {
        if self.ended().is_none() {
            if let Some(pid) = linux::pid(self.pid()) {
                let _ = kill_process_group(pid, signal);
            }
            return;
        }
        // The process id may belong to another process by now.
        for stat in self.group.members(std::slice::from_ref(&self.mark)) {
            linux::signal(&stat, signal);
        }
    }

    fn signal_program(&mut self, program: &str, signal: Signal) -> Result<Vec<u32>, Error> {
        program_signals::signal_program(self.pid(), program, signal).map_err(Error::Fault)
    }

    fn last_lines(&mut self) -> Vec<String> {
        let has_ended = self.ended().is_some();
        self.log.last_lines(has_ended)
    }
}

impl Drop for LocalProcess {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.signal_group(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

fn how(status: ExitStatus) -> ProcessExit {
    match (status.code(), status.signal()) {
        (Some(code), _) => ProcessExit::Exit(code),
        (None, Some(number)) => ProcessExit::Signal(number),
        (None, None) => ProcessExit::Exit(-1),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::fakes::Bench;

    fn start(bench: &Bench, script: &str) -> Box<dyn HostProcess> {
        let start = Start {
            role: "server".to_owned(),
            program: "sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("MINE".into(), "yes".into())],
            folder: Some(bench.folder.to_path_buf()),
            user: None,
            log: bench.folder.join("logs/n1.server.log"),
            log_watcher: Default::default(),
            programs: Vec::new(),
        };
        make("n1", bench.registry.ledger()).start(&start).unwrap()
    }

    fn lines_of(script: &str) -> Vec<String> {
        let bench = Bench::new();
        let mut process = start(&bench, script);
        assert_eq!(process.wait(Duration::from_secs(20)), Some(ProcessExit::Exit(0)));
        process.last_lines()
    }

    #[test]
    fn a_process_gets_environment_mark_and_empty_input() {
        let bench = Bench::new();
        let mut process = start(&bench, "echo $MINE; echo $PLIMSOLL_RUN >&2; cat; pwd");
        process.wait(Duration::from_secs(20));
        let lines = process.last_lines();
        let folder = bench.folder.canonicalize().unwrap().display().to_string();
        assert_eq!(lines, ["yes", bench.registry.id(), &folder]);
        drop(process);
        assert_eq!(bench.log("server").lines().count(), 3);
    }

    /// Regression test: the fault `command` was void on this machine.
    #[test]
    fn a_program_is_run_to_its_end_on_this_machine() {
        let bench = Bench::new();
        let host = make("n1", bench.registry.ledger());
        let run = |script: &str, within_s| {
            let command = ["sh", "-c", script].map(str::to_owned).to_vec();
            let program = ProgramSpec { role: "break".to_owned(), command, ..ProgramSpec::default() };
            host.run(&program, "given", Duration::from_secs(within_s)).unwrap()
        };
        let ran = run("cat; echo no >&2; echo $PLIMSOLL_RUN; exit 3", 20);
        assert_eq!((ran.ended, ran.errors.as_str()), (ProcessExit::Exit(3), "no\n"));
        assert_eq!(ran.output, format!("given{}\n", bench.registry.id()));
        let ran = run("sleep 1000 & wait", 1);
        assert_eq!(ran.ended, ProcessExit::Signal(9));
        assert!(ran.errors.contains("killed: not done within 1 s"), "{}", ran.errors);
    }

    #[test]
    fn no_open_file_is_inherited() {
        // 0, 1, 2, and the descriptor with which `ls` reads the folder.
        assert_eq!(lines_of("ls /proc/self/fd"), ["0", "1", "2", "3"]);
    }

    #[test]
    fn a_process_leads_its_process_group() {
        let lines = lines_of("echo $$; cut -d' ' -f5 /proc/$$/stat");
        assert_eq!(lines[0], lines[1]);
    }

    #[test]
    fn exit_codes_and_signals_are_distinguished() {
        let bench = Bench::new();
        let ended = |script: &str| start(&bench, script).wait(Duration::from_secs(20)).unwrap().to_string();
        assert_eq!(ended("exit 3"), "exit 3");
        assert_eq!(ended("kill -SEGV $$"), "signal 11");
    }

    #[test]
    fn a_long_log_keeps_its_beginning_and_its_end() {
        let bench = Bench::new();
        let path = bench.folder.join("log");
        let (reader, mut writer) = io::pipe().unwrap();
        let log = ProcessLog::begin(reader, &path, &Default::default()).unwrap();
        let line = format!("{}\n", "x".repeat(1023));
        writer.write_all(b"the beginning\n").unwrap();
        for _ in 0..20 << 10 {
            writer.write_all(line.as_bytes()).unwrap();
        }
        writer.write_all(b"the end").unwrap();
        drop(writer);
        assert_eq!(log.last_lines(true).last().unwrap(), "the end");
        drop(log);
        let kept = fs::read(&path).unwrap();
        assert!(kept.starts_with(b"the beginning\n") && kept.ends_with(b"\nthe end"));
        let text = String::from_utf8(kept).unwrap();
        let left_out = (20 << 20) + 14 + 7 - (16 << 20) - (256 << 10);
        assert!(text.contains(&format!("\n[{left_out} bytes left out]\n")));
    }

    #[test]
    fn quoted_lines_are_few_short_and_harmless() {
        let lines = lines_of(
            "i=0; while [ $i -lt 50 ]; do i=$((i+1)); echo $i; done; printf 'a\\033[2Jb\\tc\\n'; head -c 2000 /dev/zero | tr '\\0' y",
        );
        assert_eq!(lines.len(), 20);
        assert_eq!(lines[18], "a\\u{1b}[2Jb c");
        assert_eq!(lines[19], "y".repeat(500));
    }

    #[test]
    fn folders_are_empty_each_time() {
        let bench = Bench::new();
        let host = make("n1", bench.registry.ledger());
        let folder = host.folder("server").unwrap();
        fs::write(folder.join("x"), "x").unwrap();
        assert_eq!(host.folder("server").unwrap(), folder);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        host.remove_folder("server");
        assert!(!folder.exists());
    }
}
