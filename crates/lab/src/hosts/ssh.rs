//! Real machines over the system's ssh, each with a runner that was copied there.

mod address;
mod client;
mod complaint;
mod destination;
mod guard;
mod leftovers;
mod scripts;
mod transfer;

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use experiment::plan;
use record::events::HostFigures;

use super::{Host, Kind};
use crate::Error;
use crate::attended::{Attended, Machine};
use crate::registry::Ledger;
use crate::runner::session::Session;
use crate::runner::{Setup, VERSION};
use crate::site::Build;
use client::{Client, Part, SshOutput, never};
use destination::Destination;
use guard::{Guard, LoginLines};
pub(crate) use leftovers::{Leftover, remove};
pub(crate) use scripts::folder_name;

/// The table's entry.
pub static KIND: Kind = Kind { name: "ssh", help: "a real machine over ssh; nothing has to be installed there" };

/// For connecting, unless the user's configuration of ssh says otherwise.
const CONNECT_TIMEOUT_S: u32 = 15;
/// For the runner to be ready.
const TO_BE_READY: Duration = Duration::from_secs(30);
/// For ssh to end after its runner has.
const TO_END: Duration = Duration::from_secs(5);

/// Names control sockets apart; one that was left by a master that was killed is in nobody's way.
static SOCKETS: AtomicU32 = AtomicU32::new(1);

/// A machine at the other end of ssh.
#[derive(Debug)]
struct Remote {
    name: String,
    client: Client,
    address: String,
    setup: Setup,
    /// The target's folder, here and there, once it was sent.
    brought: Mutex<Option<(PathBuf, PathBuf)>>,
    /// The ssh that carries the runner. Goes before the guard does.
    carrier: Option<Child>,
    guard: Guard,
    /// The user wants an end at once.
    at_once: Arc<AtomicBool>,
    /// Started already and not yet handed out.
    session: Option<Arc<Session>>,
}

/// Reaches one host and puts a runner on it.
pub(super) fn reach(
    build: &Build<'_>,
    host: &plan::Host,
    ledger: &Arc<Ledger>,
    stop: &AtomicBool,
) -> Result<Box<dyn Host>, Error> {
    let text = host.ssh.as_deref().unwrap_or_default();
    let mut remote = Remote::reach(&host.name, text, &build.plimsoll, ledger, (stop, &build.at_once))?;
    let session = remote.start(&|| stop.load(Ordering::SeqCst));
    if session.is_err() {
        remote.close();
    }
    remote.session = Some(session?);
    Ok(Box::new(Attended::raise(&host.name, Box::new(remote))?))
}

/// Measures a machine for a profile; nothing is left there.
pub(super) fn measure(destination: &str, plimsoll: &Path, ledger: &Arc<Ledger>) -> Result<String, Error> {
    let remote = Remote::reach(destination, destination, plimsoll, ledger, (&AtomicBool::new(false), &Arc::default()))?;
    Attended::raise(destination, Box::new(remote))?.measure()
}

impl Remote {
    /// Connects, looks whether this program can run there, and copies it there.
    fn reach(
        name: &str,
        destination: &str,
        plimsoll: &Path,
        ledger: &Arc<Ledger>,
        (stop, at_once): (&AtomicBool, &Arc<AtomicBool>),
    ) -> Result<Self, Error> {
        let stop = || stop.load(Ordering::SeqCst);
        // Between two steps; each also has a time limit of its own.
        let go_on = || if stop() { Err(Error::Interrupted) } else { Ok(()) };
        let refused = |reason: String| Error::Host { host: name.to_owned(), reason };
        let destination = Destination::read(destination).map_err(refused)?;
        let scratch = ledger.scratch()?;
        let socket = format!("ssh-{}", SOCKETS.fetch_add(1, Ordering::Relaxed));
        let folder_name = folder_name(ledger.id(), name);
        ledger.remote(&destination.text, &folder_name)?;

        let client = Client::new(destination, &scratch, &socket);
        let resolved = client.resolve().map_err(|error| refused(guard::no_ssh(&error)))?;
        if !resolved.is_ok() {
            return Err(refused(complaint::unreached(&resolved.errors, client.destination())));
        }
        let resolved = address::read(&resolved.output);
        let client = match resolved.connect_timeout_s {
            Some(_) => client,
            None => client.with_connect_timeout(CONNECT_TIMEOUT_S),
        };

        go_on()?;
        let guard = Guard::post(&client, ledger.id(), name, &stop).map_err(refused)?;
        let address = address::of(&resolved, &guard.facts.from).map_err(refused)?;
        suits(&guard.facts).map_err(refused)?;
        go_on()?;
        transfer::program(&client, &guard.facts, plimsoll, &scratch, &stop).map_err(refused)?;
        let setup = Setup {
            version: VERSION.to_owned(),
            host: name.to_owned(),
            run: ledger.id().to_owned(),
            folder: Path::new(&guard.facts.folder).join("data"),
            ..Setup::default()
        };
        go_on()?;
        let (name, address) = (name.to_owned(), address.to_string());
        let at_once = Arc::clone(at_once);
        let brought = Mutex::default();
        Ok(Self { name, client, address, setup, brought, carrier: None, guard, at_once, session: None })
    }

    /// Starts the runner there.
    fn start(&mut self, stop: &dyn Fn() -> bool) -> Result<Arc<Session>, Error> {
        let host = self.name.clone();
        let refused = |reason: String| Error::Host { host: host.clone(), reason };
        let script = scripts::runner(&self.guard.facts.folder);
        let (errors, held) = SshOutput::pipe().map_err(Error::system("hear what ssh says"))?;
        let pipes = (Stdio::piped(), Stdio::piped(), Stdio::from(held));
        let mut carrier =
            self.client.spawn(Part::Passenger, &script, pipes).map_err(|error| refused(guard::no_ssh(&error)))?;
        let (Some(input), Some(mut output)) = (carrier.stdin.take(), carrier.stdout.take()) else {
            return Err(refused("ssh was started without pipes".to_owned()));
        };
        self.let_go();
        self.carrier = Some(carrier);
        let within = self.client.patience(TO_BE_READY);
        let mut greeting = LoginLines::of(&mut output, within, stop);
        let silent = |error| refused(format!("cannot hear its runner: {error}"));
        while let Some(line) = greeting.next_line().map_err(silent)? {
            if line.strip_prefix(scripts::OURS) == Some("runner") {
                return Session::open(Box::new(input), Box::new(output), &self.setup, within, &self.at_once);
            }
        }
        drop(input);
        self.let_go();
        Err(refused(complaint::unreached(&errors.text(), self.client.destination())))
    }

    /// Waits for the ssh that carried the runner, whose input is closed.
    fn let_go(&mut self) {
        if let Some(mut carrier) = self.carrier.take() {
            let within = if self.at_once.load(Ordering::SeqCst) { guard::TO_LET_GO } else { TO_END };
            if !matches!(client::await_end(&mut carrier, within, &never), Ok(Some(_))) {
                let _ = carrier.kill();
            }
            let _ = carrier.wait();
        }
    }
}

impl Machine for Remote {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn plimsoll(&self) -> PathBuf {
        Path::new(&self.guard.facts.folder).join("plimsoll")
    }

    fn bring(&self, session: &Session, target: &Path) -> Result<PathBuf, Error> {
        let mut brought = self.brought.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, there)) = brought.as_ref().filter(|(here, _)| here == target) {
            return Ok(there.clone());
        }
        let gone = || !session.is_open() || self.at_once.load(Ordering::SeqCst);
        let there = transfer::folder(&self.client, &self.guard.facts, target, &gone).map_err(|reason| {
            let host = self.name.clone();
            if session.is_open() { Error::Host { host, reason } } else { Error::HostLost { host, reason } }
        })?;
        *brought = Some((target.to_path_buf(), there.clone()));
        Ok(there)
    }

    fn boot(&mut self) -> Result<Arc<Session>, Error> {
        match self.session.take() {
            Some(session) => Ok(session),
            None => self.start(&never),
        }
    }

    fn crash(&mut self) -> Result<(), Error> {
        Err(Error::Needs {
            what: "`host_crash`".to_owned(),
            needs: format!("a host that Plimsoll has made, and {} is a real machine", self.name),
            instead: "`kill` on all roles comes near; the fault `command` can have the power switched".to_owned(),
        })
    }

    fn figures(&self) -> HostFigures {
        HostFigures { address: Some(self.address.clone()), ..HostFigures::default() }
    }

    fn close(&mut self) {
        self.session = None;
        self.let_go();
        let at_once = || self.at_once.load(Ordering::SeqCst);
        self.guard.dismiss(&at_once);
    }
}

/// Whether this program can run there.
fn suits(facts: &guard::Facts) -> Result<(), String> {
    let us = rustix::system::uname();
    let ours = format!("{} {}", us.sysname().to_string_lossy(), us.machine().to_string_lossy());
    if facts.system != ours {
        return Err(format!(
            "it is {}, and this machine is {ours}: the program that runs here is copied there, so both must be alike",
            facts.system
        ));
    }
    if !scripts::is_plain(&facts.folder) {
        return Err(format!("the name of its folder for temporary files is odd: {}", facts.folder));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! A host over ssh by hand, where there is one: `PLIMSOLL_TEST_SSH` names it, `PLIMSOLL_TEST_PROGRAM` the program that goes
    //! there. Whole runs, with machines of their own, are among the tests of the binary.

    use std::fs;
    use std::path::Path;
    use std::time::Instant;

    use rustix::process::Signal;

    use super::*;
    use crate::fixture::{Bench, folder_trial, until};
    use crate::hosts::{Ended, Start, of};
    use crate::runner::{Order, Program};

    #[test]
    #[ignore = "needs a machine that ssh reaches"]
    fn by_hand() {
        let Ok(destination) = std::env::var("PLIMSOLL_TEST_SSH") else { return };
        let program = std::env::var("PLIMSOLL_TEST_PROGRAM").unwrap();
        let bench = Bench::new();
        let mut trial = folder_trial();
        let host =
            |name: &str| plan::Host { name: name.to_owned(), ssh: Some(destination.clone()), ..Default::default() };
        trial.lab.hosts = vec![host("n1"), host("n2")];
        let build = Build { plimsoll: program.into(), folder: None, ..bench.build(&trial, None) };
        let begun = Instant::now();
        let (hosts, _) = of(&build, &AtomicBool::new(false)).unwrap();
        println!("two hosts within {:?}; {:?}", begun.elapsed(), hosts[0].figures());

        let target = bench.folder.join("target");
        fs::create_dir_all(target.join("bin")).unwrap();
        fs::write(target.join("bin/says"), "what was sent").unwrap();
        let there = hosts[0].bring(&target).unwrap();
        assert_eq!(hosts[0].bring(&target).unwrap(), there);
        let program = |words: &[&str]| Program {
            role: "test".to_owned(),
            command: words.iter().map(|word| (*word).to_owned()).collect(),
            folder: Some(there.clone()),
            ..Program::default()
        };
        let ran = hosts[0].run(&program(&["cat", "bin/says", "-"]), " and heard", Duration::from_secs(10)).unwrap();
        assert_eq!((ran.ended, ran.output.as_str()), (Ended::Exit(0), "what was sent and heard"));

        let start = Start {
            role: "server".to_owned(),
            program: "sh".into(),
            arguments: vec!["-c".into(), "echo begun; sleep 1000".into()],
            environment: Vec::new(),
            folder: Some(hosts[0].folder("data").unwrap()),
            log: bench.folder.join("log"),
            ears: Default::default(),
        };
        let mut process = hosts[0].start(&start).unwrap();
        until("it writes", || fs::read_to_string(&start.log).is_ok_and(|log| log == "begun\n"));
        let session = hosts[0].session().unwrap();
        let sampled = session.ask(Order::Sample, Duration::from_secs(5)).unwrap();
        println!("{sampled:?}");
        process.signal_group(Signal::TERM);
        assert_eq!(process.wait(Duration::from_secs(10)), Some(Ended::Signal(15)));
        let folder = hosts[0].plimsoll();
        let begun = Instant::now();
        drop((process, session, hosts));
        println!("let go within {:?}; {} was there", begun.elapsed(), folder.display());
        // Where "there" is this machine's own disk.
        assert!(!Path::new(&folder).exists());
    }
}
