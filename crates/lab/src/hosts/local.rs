//! This machine as a host: ordinary processes on 127.0.0.1, without limits. Its runner is a thread
//! of this process, so its processes are children of this process.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use experiment::tier::{Tier, TierMedium};
use linux::account::{Account, let_pass};
use record::events::HostFigures;
use runner::{FOLDER_PREFIX, Setup, VERSION, ports};

use crate::Error;
use crate::host::{Host, HostBackend, HostFacts, HostKind};
use crate::host_process::Start;
use crate::registry::RegistryWriter;
use crate::session::{HostProcess, RunnerSession};
use crate::tiers::{SHARED_MEMORY, no_user};

pub(super) fn make(name: &str, ledger: Arc<RegistryWriter>, at_once: &Arc<AtomicBool>) -> Result<Host, Error> {
    let (name, at_once) = (name.to_owned(), Arc::clone(at_once));
    let local = Local { name, ledger, at_once, elsewhere: Mutex::default(), serving: None };
    Host::raise(&local.name.clone(), local)
}

struct Local {
    name: String,
    ledger: Arc<RegistryWriter>,
    /// Whether the user wants to end at once.
    at_once: Arc<AtomicBool>,
    /// Folders outside the run's scratch folder. They are removed with the host.
    elsewhere: Mutex<Vec<PathBuf>>,
    /// The thread of the runner.
    serving: Option<JoinHandle<u8>>,
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
fn make_empty(path: PathBuf) -> Result<PathBuf, Error> {
    remove_if_there(&path)
        .and_then(|()| fs::create_dir_all(&path))
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o700)))
        .map_err(Error::system(format!("make {}", path.display())))?;
    Ok(path)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

impl HostBackend for Local {
    fn facts(&self) -> HostFacts {
        HostFacts {
            kind: HostKind::ThisMachine,
            addresses: vec!["127.0.0.1".to_owned()],
            plimsoll: std::env::current_exe().unwrap_or_default(),
            figures: HostFigures::default(),
        }
    }

    fn boot(&mut self) -> Result<Arc<RunnerSession>, Error> {
        if self.serving.is_some() {
            return Err(Error::NotAHost);
        }
        let setup = Setup {
            version: VERSION.to_owned(),
            host: self.name.clone(),
            run: self.ledger.id().to_owned(),
            is_here: true,
            ..Setup::default()
        };
        let (session, serving) = RunnerSession::on_thread(&setup, &self.at_once)?;
        self.serving = Some(serving);
        Ok(session)
    }

    fn crash(&mut self) -> Result<(), Error> {
        Err(Error::NotAHost)
    }

    fn close(&mut self) {
        // A panic in the runner was printed when it occurred.
        let _ = self.serving.take().map(JoinHandle::join);
        for folder in self.elsewhere.get_mut().unwrap_or_else(PoisonError::into_inner) {
            // A folder that cannot be removed now is removed with the run.
            let _ = remove_if_there(folder);
        }
    }

    fn bring(&self, _session: &RunnerSession, target: &Path) -> Result<PathBuf, Error> {
        std::path::absolute(target).map_err(Error::system(format!("find {}", target.display())))
    }

    /// Also registers the process, because the runner cannot end it if this program is killed.
    fn start_process(&self, session: &Arc<RunnerSession>, start: &Start) -> Result<HostProcess, Error> {
        self.ledger.announce(&self.name, &start.role)?;
        let process = session.start(start)?;
        self.ledger.started(process.group())?;
        Ok(process)
    }

    fn folder(&self, _session: &RunnerSession, name: &str) -> Result<PathBuf, Error> {
        make_empty(self.place(name)?)
    }

    fn tier_folder(&self, tier: &Tier, name: &str) -> Result<Option<PathBuf>, Error> {
        make_empty(self.place_on(tier, name)?).map(Some)
    }

    fn remove_folder(&self, _session: &RunnerSession, name: &str) {
        // A folder that cannot be removed now is removed with the scratch folder, which reports
        // failures.
        let _ = self.place(name).map(|path| remove_if_there(&path));
    }

    fn give(&self, _session: &RunnerSession, folder: &Path, user: &str) -> Result<(), Error> {
        let account = Account::to_become(user).map_err(|problem| no_user(&self.name, user, problem))?;
        let Some(account) = account else { return Ok(()) };
        let given = account.own(folder).and_then(|()| let_pass(folder, FOLDER_PREFIX));
        given.map_err(Error::system(format!("give {} to the user `{user}`", folder.display())))?;
        let Some(closed) = account.is_kept_from(folder) else { return Ok(()) };
        Err(Error::Needs {
            what: format!("a process that runs as the user `{user}`"),
            needs: format!("access to its folder {}, but may not enter {}", folder.display(), closed.display()),
            instead: "set TMPDIR to a folder that all users may enter, such as /var/tmp".to_owned(),
        })
    }

    fn free_ports(&self, _session: &RunnerSession, count: usize) -> Result<Vec<u16>, Error> {
        Ok(ports::free(count)?)
    }

    fn check_port(&self, _session: &RunnerSession, port: u16) -> Result<(), Error> {
        Ok(ports::check(port)?)
    }

    /// Measures only tiers, because other programs also use the disk of this machine.
    fn measure_storage(
        &self,
        _session: &RunnerSession,
        tier: Option<&Tier>,
        within: Duration,
    ) -> Result<HostFigures, Error> {
        let Some(tier) = tier else { return Ok(HostFigures::default()) };
        let folder = make_empty(self.place_on(tier, "measure")?)?;
        let is_memory = tier.medium == TierMedium::Memory;
        let figures = runner::machine::measure_storage(&folder, is_memory, within.as_secs_f64());
        remove_if_there(&folder).map_err(Error::system(format!("remove {}", folder.display())))?;
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use runner::ProgramSpec;

    use super::*;
    use crate::fakes::Bench;
    use crate::host_process::ProcessExit;
    use crate::hosts::local;

    fn lines_of(script: &str) -> Vec<String> {
        let bench = Bench::new();
        let host = local(&bench.registry);
        let process = host.start(&Start {
            role: "server".to_owned(),
            program: "sh".into(),
            arguments: vec!["-c".into(), script.into()],
            log: bench.folder.join("logs/n1.server.log"),
            ..Start::default()
        });
        let process = process.unwrap();
        assert_eq!(process.wait(Duration::from_secs(20)), Some(ProcessExit::Exit(0)));
        process.last_lines()
    }

    /// Regression test: the fault `command` was void on this machine.
    #[test]
    fn a_program_is_run_to_its_end_on_this_machine() {
        let bench = Bench::new();
        let host = local(&bench.registry);
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
        assert!(ran.errors.contains("killed: it did not end within 1 s"), "{}", ran.errors);
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
        let host = local(&bench.registry);
        let folder = host.folder("server").unwrap();
        fs::write(folder.join("x"), "x").unwrap();
        assert_eq!(host.folder("server").unwrap(), folder);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        host.remove_folder("server");
        assert!(!folder.exists());
    }
}
