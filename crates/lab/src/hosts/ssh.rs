//! Real machines as hosts, over the system's ssh. A runner is copied to each.

mod client;
mod generators;
mod guard;

use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use experiment::manifest::Manifest;
use experiment::plan;
use record::events::HostFigures;
use runner::{Setup, VERSION, folder_name};

use crate::Error;
use crate::deployment_spec::DeploymentSpec;
use crate::host::{Host, HostBackend, HostFacts, HostKind};
use crate::registry::{Leftover, RegistryWriter};
use crate::session::RunnerSession;
use crate::system_program::{KeptOutput, await_end, never};
use client::{ConnectionRole, SshClient};
use guard::{Guard, LoginLines, no_ssh};

pub use generators::{RemoteGeneratorStream, RemoteGenerators};
pub(crate) use guard::packed;

/// Default connect timeout. The user's ssh configuration takes precedence.
const CONNECT_TIMEOUT_S: u32 = 15;
/// Time limit for the runner to be ready.
const TO_BE_READY: Duration = Duration::from_secs(30);
/// Time limit for ssh to end after its runner has ended.
const TO_END: Duration = Duration::from_secs(5);

/// Id of the next control socket. Each id is new, because a killed master may leave its socket
/// behind.
static SOCKETS: AtomicU32 = AtomicU32::new(1);

/// A machine at the other end of ssh.
#[derive(Debug)]
struct RemoteHost {
    name: String,
    client: SshClient,
    address: String,
    setup: Setup,
    /// Local and remote path of the target's folder. `None` until it is copied.
    brought: Mutex<Option<(PathBuf, PathBuf)>>,
    /// The local ssh process that carries the runner. It ends before the guard.
    carrier: Option<Child>,
    guard: Guard,
    /// Whether the user wants to end at once.
    at_once: Arc<AtomicBool>,
}

/// A program that runs on the host.
#[derive(Debug)]
struct CarriedProgram {
    input: ChildStdin,
    output: ChildStdout,
    /// Standard error of the program and of ssh.
    errors: KeptOutput,
}

/// Reaches one host and starts a runner on it.
pub(super) fn reach(
    build: &DeploymentSpec<'_>,
    host: &plan::Host,
    ledger: &Arc<RegistryWriter>,
    stop: &AtomicBool,
) -> Result<Host, Error> {
    let text = host.ssh.as_deref().unwrap_or_default();
    let is_target = build.manifest.is_some_and(Manifest::runs_plimsoll);
    let program = if is_target { build.plimsoll.clone() } else { runner_beside(&build.plimsoll) };
    let mut remote = RemoteHost::reach(&host.name, text, &program, ledger, (stop, &build.at_once))?;
    let session = remote.start(&|| stop.load(Ordering::SeqCst)).inspect_err(|_| remote.close())?;
    Ok(Host::of(&host.name, session, remote))
}

/// Returns the path of the separate runner program, which is small, or of Plimsoll itself if the
/// runner is missing.
pub(super) fn runner_beside(plimsoll: &Path) -> PathBuf {
    let runner = plimsoll.with_file_name("plimsoll-runner");
    if runner.is_file() { runner } else { plimsoll.to_path_buf() }
}

/// Measures a machine for a profile. Leaves no files on that machine.
pub(super) fn measure(destination: &str, plimsoll: &Path, ledger: &Arc<RegistryWriter>) -> Result<String, Error> {
    let (program, ends) = (runner_beside(plimsoll), (&AtomicBool::new(false), &Arc::default()));
    let remote = RemoteHost::reach(destination, destination, &program, ledger, ends)?;
    Host::raise(destination, remote)?.session().measure_machine()
}

impl RemoteHost {
    /// Connects, checks that this machine's programs can run on the host, and copies the program
    /// there.
    fn reach(
        name: &str,
        destination: &str,
        program: &Path,
        ledger: &Arc<RegistryWriter>,
        (stop, at_once): (&AtomicBool, &Arc<AtomicBool>),
    ) -> Result<Self, Error> {
        let destination = Destination::read(destination).map_err(refused(name))?;
        let scratch = ledger.scratch()?;
        let socket = format!("ssh-{}", SOCKETS.fetch_add(1, Ordering::Relaxed));
        let folder_name = folder_name(ledger.id(), name);
        ledger.remote(&destination.text, &folder_name)?;

        let client = SshClient::new(destination, &scratch, &socket);
        let resolved = client.resolve().map_err(|error| refused(name)(no_ssh(&error)))?;
        if !resolved.is_ok() {
            return Err(refused(name)(client::unreached(&resolved.errors, client.destination())));
        }
        let resolved = read_resolved(&resolved.output);
        let client = match resolved.connect_timeout_s {
            Some(_) => client,
            None => client.with_connect_timeout(CONNECT_TIMEOUT_S),
        };

        unless_stopped(stop)?;
        let must_stop = || stop.load(Ordering::SeqCst);
        let guard = Guard::post(&client, ledger.id(), name, &must_stop).map_err(refused(name))?;
        let address = address_of(&resolved, &guard.facts.from).map_err(refused(name))?;
        suits(&guard.facts).map_err(refused(name))?;
        unless_stopped(stop)?;
        guard::send_program(&client, &guard.facts, program, &scratch, &must_stop).map_err(refused(name))?;
        let setup = Setup {
            version: VERSION.to_owned(),
            host: name.to_owned(),
            run: ledger.id().to_owned(),
            folder: Path::new(&guard.facts.folder).join("data"),
            ..Setup::default()
        };
        unless_stopped(stop)?;
        let (name, address) = (name.to_owned(), address.to_string());
        let at_once = Arc::clone(at_once);
        let brought = Mutex::default();
        Ok(Self { name, client, address, setup, brought, carrier: None, guard, at_once })
    }

    /// Starts the runner on the host.
    fn start(&mut self, stop: &dyn Fn() -> bool) -> Result<Arc<RunnerSession>, Error> {
        let program = self.carry("runner", stop)?;
        let within = self.client.patience(TO_BE_READY);
        RunnerSession::open(Box::new(program.input), Box::new(program.output), &self.setup, within, &self.at_once)
    }

    /// Starts the copied program with one of its commands. The ssh process for it ends with the
    /// program.
    fn carry(&mut self, command: &str, stop: &dyn Fn() -> bool) -> Result<CarriedProgram, Error> {
        let name = self.name.clone();
        let script = guard::program_script(&self.guard.facts.folder, command);
        let (errors, held) = KeptOutput::pipe().map_err(Error::system("read the output of ssh"))?;
        let pipes = (Stdio::piped(), Stdio::piped(), Stdio::from(held));
        let mut carrier = self
            .client
            .spawn(ConnectionRole::Passenger, &script, pipes)
            .map_err(|error| refused(&name)(no_ssh(&error)))?;
        let (Some(input), Some(mut output)) = (carrier.stdin.take(), carrier.stdout.take()) else {
            return Err(refused(&name)("ssh was started without pipes".to_owned()));
        };
        self.release();
        self.carrier = Some(carrier);
        let within = self.client.patience(TO_BE_READY);
        let mut greeting = LoginLines::of(&mut output, within, stop);
        while let Some(line) = greeting
            .next_line()
            .map_err(|error| refused(&name)(format!("cannot read the output of its {command}: {error}")))?
        {
            if line.strip_prefix(guard::OURS) == Some(command) {
                return Ok(CarriedProgram { input, output, errors });
            }
        }
        drop(input);
        self.release();
        Err(refused(&name)(client::unreached(&errors.text(), self.client.destination())))
    }

    /// Waits for the ssh process that carried the runner. The input of that process is already
    /// closed.
    fn release(&mut self) {
        let within = if self.at_once.load(Ordering::SeqCst) { guard::TO_LET_GO } else { TO_END };
        self.release_within(within);
    }

    /// Waits for the ssh process that carried the runner, and kills it after this time.
    fn release_within(&mut self, within: Duration) {
        if let Some(mut carrier) = self.carrier.take() {
            if !matches!(await_end(&mut carrier, within, &never), Ok(Some(_))) {
                let _ = carrier.kill();
            }
            let _ = carrier.wait();
        }
    }
}

impl HostBackend for RemoteHost {
    fn facts(&self) -> HostFacts {
        HostFacts {
            kind: HostKind::Remote,
            addresses: vec![self.address.clone()],
            plimsoll: Path::new(&self.guard.facts.folder).join("plimsoll"),
            figures: HostFigures::default(),
        }
    }

    fn bring(&self, session: &RunnerSession, target: &Path) -> Result<PathBuf, Error> {
        let mut brought = self.brought.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, there)) = brought.as_ref().filter(|(here, _)| here == target) {
            return Ok(there.clone());
        }
        let gone = || !session.is_open() || self.at_once.load(Ordering::SeqCst);
        let there = guard::send_folder(&self.client, &self.guard.facts, target, &gone).map_err(|reason| {
            let host = self.name.clone();
            if session.is_open() { Error::Host { host, reason } } else { Error::HostLost { host, reason } }
        })?;
        *brought = Some((target.to_path_buf(), there.clone()));
        Ok(there)
    }

    fn boot(&mut self) -> Result<Arc<RunnerSession>, Error> {
        self.start(&never)
    }

    fn crash(&mut self) -> Result<(), Error> {
        Err(Error::Needs {
            what: "`host_crash`".to_owned(),
            needs: format!("a host made by Plimsoll, but {} is a real machine", self.name),
            instead:
                "`kill` on all roles is similar; the fault `command` can run a command that switches the power off"
                    .to_owned(),
        })
    }

    fn close(&mut self) {
        self.release();
        self.guard.dismiss(&|| self.at_once.load(Ordering::SeqCst));
    }
}

/// Converts a reason into the error for a host.
fn refused(host: &str) -> impl Fn(String) -> Error + '_ {
    |reason| Error::Host { host: host.to_owned(), reason }
}

/// Returns an error once the user has interrupted. Called between two steps; each step also has its
/// own time limit.
fn unless_stopped(stop: &AtomicBool) -> Result<(), Error> {
    if stop.load(Ordering::SeqCst) { Err(Error::Interrupted) } else { Ok(()) }
}

/// Checks that this program can run on the machine.
fn suits(facts: &guard::MachineFacts) -> Result<(), String> {
    let us = rustix::system::uname();
    let ours = format!("{} {}", us.sysname().to_string_lossy(), us.machine().to_string_lossy());
    if facts.system != ours {
        return Err(format!(
            "its system is {}, but this machine is {ours}: both must be the same, because this program is copied to \
             the host",
            facts.system
        ));
    }
    if !guard::is_plain(&facts.folder) {
        return Err(format!("the name of its folder for temporary files has unsupported characters: {}", facts.folder));
    }
    Ok(())
}

// The address under which other hosts reach a host, from ssh's configuration.

/// The options from `ssh -G` that are used here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Resolved {
    /// Name or address to which ssh connects.
    pub hostname: String,
    /// Configured connect timeout, seconds.
    pub connect_timeout_s: Option<u32>,
    /// Whether ssh connects through another host.
    pub is_behind: bool,
}

/// Reads the output of `ssh -G`: one option per line, in lower case.
#[must_use]
fn read_resolved(text: &str) -> Resolved {
    let mut resolved = Resolved::default();
    for (option, value) in text.lines().filter_map(|line| line.split_once(' ')) {
        match option {
            "hostname" => value.clone_into(&mut resolved.hostname),
            "connecttimeout" => resolved.connect_timeout_s = value.parse().ok(),
            "proxyjump" | "proxycommand" => resolved.is_behind |= value != "none",
            _ => {}
        }
    }
    resolved
}

/// Returns the host's address. `from` is the host's `SSH_CONNECTION`: client, client port, server,
/// server port. It gives the address for names that only a jump host can resolve.
///
/// # Errors
/// A message for the user, if there is no IPv4 address.
fn address_of(resolved: &Resolved, from: &str) -> Result<Ipv4Addr, String> {
    let name = &resolved.hostname;
    let none = || format!("`{name}` has no IPv4 address, which the lab's other hosts and the load need");
    if let Ok(address) = name.parse::<IpAddr>() {
        return v4(address).ok_or_else(none);
    }
    let mut found = (name.as_str(), 0).to_socket_addrs().into_iter().flatten();
    if let Some(address) = found.find_map(|found| v4(found.ip())) {
        return Ok(address);
    }
    let served = from.split_whitespace().nth(2).and_then(|address| address.parse().ok()).and_then(v4);
    served.filter(|_| resolved.is_behind).ok_or_else(none)
}

fn v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(address) => address.to_ipv4_mapped(),
    }
}

// An ssh destination (`user@host`, `host`, `host:port`, `ssh://user@host:port`), split into ssh's
// arguments. Pure.

/// An ssh destination.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Destination {
    /// Original text.
    pub text: String,
    /// Argument for ssh: `host` or `user@host`.
    pub host: String,
    /// Port, if the text has one.
    pub port: Option<u16>,
}

impl Destination {
    /// Reads a destination.
    ///
    /// # Errors
    /// A message that says what is invalid.
    pub fn read(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix("ssh://").map_or(text, |rest| rest.strip_suffix('/').unwrap_or(rest));
        // ssh would read such text as an option, and the shell of a ProxyCommand as more than a
        // name.
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || "'\"`$;&|<>()\\".contains(c);
        if bare.starts_with('-') || bare.contains(is_odd) {
            return Err(format!("`{text}` is not a destination for ssh"));
        }
        let (user, place) = bare.rsplit_once('@').map_or((None, bare), |(user, place)| (Some(user), place));
        let (host, port) = split(place);
        if host.is_empty() || user == Some("") || host.starts_with('-') {
            return Err(format!("`{text}` has no host name"));
        }
        let port = match port {
            None => None,
            Some(port) => match port.parse::<u16>() {
                Ok(number) if number > 0 => Some(number),
                _ => return Err(format!("`{port}` in `{text}` is not a port")),
            },
        };
        let host = user.map_or_else(|| host.to_owned(), |user| format!("{user}@{host}"));
        Ok(Self { text: text.to_owned(), host, port })
    }

    /// Returns the last arguments for ssh.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let port = self.port.iter().flat_map(|port| ["-p".to_owned(), port.to_string()]);
        port.chain(["--".to_owned(), self.host.clone()]).collect()
    }

    /// Returns the arguments that a user types to try ssh by hand.
    #[must_use]
    pub fn by_hand(&self) -> String {
        self.port.map_or_else(|| self.host.clone(), |port| format!("-p {port} {}", self.host))
    }
}

/// Splits host and port. An IPv6 address contains colons, so with a port it is in brackets.
fn split(place: &str) -> (&str, Option<&str>) {
    if let Some((host, rest)) = place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':').unwrap_or(rest)) });
    }
    match place.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, Some(port)),
        _ => (place, None),
    }
}

// Leftovers of an abandoned run on other machines. They exist only if a guard was killed before it
// removed them.

/// Connect timeout for leftovers. They are rare, so it is short.
const LEFTOVER_TIMEOUT_S: u32 = 5;
/// Time limit for removing the leftovers of one machine.
const WITHIN: Duration = Duration::from_secs(30);

/// Removes a run's leftovers on a machine. Returns one line per removed item.
///
/// # Errors
/// A message for the user, if the machine was not reached.
pub fn remove(left: &Leftover, run: &str) -> Result<Vec<String>, String> {
    // A damaged registry entry must not remove other files.
    let is_ours = left.folder.strip_prefix(&folder_name(run, "")).is_some_and(|host| !host.is_empty());
    if !is_ours || !guard::is_plain(&format!("/{}", left.folder)) {
        return Ok(Vec::new());
    }
    let why = |reason: String| format!("{} was not searched for {}.*: {reason}", left.destination, left.folder);
    let destination = Destination::read(&left.destination).map_err(why)?;
    let client = SshClient::new(destination, &std::env::temp_dir(), "none").with_connect_timeout(LEFTOVER_TIMEOUT_S);
    let script = guard::clean_script(run, &left.folder);
    let outcome = client
        .run(ConnectionRole::Alone, &script, Stdio::null(), WITHIN, &never)
        .map_err(|error| why(no_ssh(&error)))?;
    if !outcome.is_ok() {
        return Err(why(client::unreached(&outcome.errors, client.destination())));
    }
    let removed = outcome.output.lines().filter_map(|line| line.strip_prefix(guard::OURS)?.strip_prefix("removed "));
    Ok(removed.map(|folder| format!("folder {folder} on {}", left.destination)).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Instant;

    use fixture::{TestDir, until};
    use runner::{Order, ProgramSpec};
    use rustix::process::Signal;

    use super::*;
    use crate::fakes::{Bench, folder_trial};
    use crate::host_process::{ProcessExit, Start};
    use crate::hosts::of;

    #[test]
    #[ignore = "needs a machine that ssh reaches"]
    fn two_hosts_over_ssh() {
        let Ok(destination) = std::env::var("PLIMSOLL_TEST_SSH") else { return };
        let program = std::env::var("PLIMSOLL_TEST_PROGRAM").unwrap();
        let bench = Bench::new();
        let mut trial = folder_trial();
        let host =
            |name: &str| plan::Host { name: name.to_owned(), ssh: Some(destination.clone()), ..Default::default() };
        trial.lab.hosts = vec![host("n1"), host("n2")];
        let build = DeploymentSpec { plimsoll: program.into(), folder: None, ..bench.build(&trial, None) };
        let begun = Instant::now();
        let (hosts, _) = of(&build, &AtomicBool::new(false)).unwrap();
        println!("two hosts within {:?}; {:?}", begun.elapsed(), hosts[0].figures());

        let target = bench.folder.join("target");
        fs::create_dir_all(target.join("bin")).unwrap();
        fs::write(target.join("bin/says"), "what was sent").unwrap();
        let there = hosts[0].bring(&target).unwrap();
        assert_eq!(hosts[0].bring(&target).unwrap(), there);
        let program = |words: &[&str]| ProgramSpec {
            role: "test".to_owned(),
            command: words.iter().map(|word| (*word).to_owned()).collect(),
            folder: Some(there.clone()),
            ..ProgramSpec::default()
        };
        let ran = hosts[0].run(&program(&["cat", "bin/says", "-"]), " and heard", Duration::from_secs(10)).unwrap();
        assert_eq!((ran.ended, ran.output.as_str()), (ProcessExit::Exit(0), "what was sent and heard"));

        let start = Start {
            role: "server".to_owned(),
            program: "sh".into(),
            arguments: vec!["-c".into(), "echo begun; sleep 1000".into()],
            folder: Some(hosts[0].folder("data").unwrap()),
            log: bench.folder.join("log"),
            ..Start::default()
        };
        let process = hosts[0].start(&start).unwrap();
        until("it writes", || fs::read_to_string(&start.log).is_ok_and(|log| log == "begun\n"));
        let session = hosts[0].session();
        let sampled = session.ask(Order::Sample, Duration::from_secs(5)).unwrap();
        println!("{sampled:?}");
        process.signal_group(Signal::TERM);
        assert_eq!(process.wait(Duration::from_secs(10)), Some(ProcessExit::Signal(15)));
        let folder = hosts[0].plimsoll().to_owned();
        let begun = Instant::now();
        drop((process, session, hosts));
        println!("let go within {:?}; {} was there", begun.elapsed(), folder.display());
        // The remote host is this machine, so the folder is on this disk.
        assert!(!Path::new(&folder).exists());
    }

    #[test]
    fn a_runner_beside_plimsoll_is_sent_instead() {
        let folder = TestDir::new();
        let plimsoll = folder.write("plimsoll", "");
        assert_eq!(runner_beside(&plimsoll), plimsoll);
        let runner = folder.write("plimsoll-runner", "");
        assert_eq!(runner_beside(&plimsoll), runner);
    }

    #[test]
    fn the_resolved_ssh_configuration_is_read() {
        let text = "host pi1\nuser pi\nhostname 10.0.0.11\nport 22\nconnecttimeout none\nproxyusefdpass no\n";
        assert_eq!(
            read_resolved(text),
            Resolved { hostname: "10.0.0.11".to_owned(), connect_timeout_s: None, is_behind: false }
        );
        let text = "hostname pi1.inside\nconnecttimeout 30\nproxyjump gate\n";
        assert_eq!(
            read_resolved(text),
            Resolved { hostname: "pi1.inside".to_owned(), connect_timeout_s: Some(30), is_behind: true }
        );
        assert!(!read_resolved("hostname x\nproxycommand none\n").is_behind);
    }

    #[test]
    fn host_addresses_come_from_the_name_or_the_connection() {
        let at = |hostname: &str, is_behind, from| {
            address_of(&Resolved { hostname: hostname.to_owned(), is_behind, ..Resolved::default() }, from)
        };
        let from = "10.84.0.254 50000 10.84.0.7 22";
        assert_eq!(at("10.0.0.11", false, from).unwrap(), Ipv4Addr::new(10, 0, 0, 11));
        assert_eq!(at("localhost", false, from).unwrap(), Ipv4Addr::LOCALHOST);
        // A name that only the jump host can resolve.
        assert_eq!(at("pi1.invalid", true, from).unwrap(), Ipv4Addr::new(10, 84, 0, 7));
        assert!(at("pi1.invalid", false, from).unwrap_err().contains("no IPv4 address"));
        assert!(at("fe80::1", true, from).unwrap_err().contains("no IPv4 address"));
        assert_eq!(at("::ffff:10.0.0.1", true, "").unwrap(), Ipv4Addr::new(10, 0, 0, 1));
    }

    #[test]
    fn every_destination_form_is_parsed() {
        for (text, host, port) in [
            ("pi1", "pi1", None),
            ("pi@10.0.0.11", "pi@10.0.0.11", None),
            ("pi@10.0.0.11:2222", "pi@10.0.0.11", Some(2222)),
            ("pi1:22", "pi1", Some(22)),
            ("ssh://pi@10.0.0.11:2222", "pi@10.0.0.11", Some(2222)),
            ("ssh://pi1/", "pi1", None),
            ("me@home@pi1", "me@home@pi1", None),
            ("fe80::1", "fe80::1", None),
            ("[fe80::1]", "fe80::1", None),
            ("pi@[fe80::1]:2222", "pi@fe80::1", Some(2222)),
        ] {
            let destination = Destination::read(text).unwrap();
            assert_eq!((destination.host.as_str(), destination.port), (host, port), "{text}");
            assert_eq!(destination.text, text);
        }
    }

    #[test]
    fn invalid_destinations_are_refused() {
        for text in [
            "",
            "-oProxyCommand=x",
            "ssh://-oProxyCommand=x",
            "me@-x",
            "a b",
            "a;b",
            "a$(b)",
            "@pi1",
            "pi@",
            "pi1:",
            "a\nb",
        ] {
            Destination::read(text).unwrap_err();
        }
        for text in ["pi1:0", "pi1:70000", "pi1:ssh", "[fe80::1]x"] {
            assert!(Destination::read(text).unwrap_err().contains("is not a port"), "{text}");
        }
    }

    #[test]
    fn the_destination_follows_the_ssh_options() {
        let arguments = |text| Destination::read(text).unwrap().arguments().join(" ");
        assert_eq!(arguments("pi@pi1:2222"), "-p 2222 -- pi@pi1");
        assert_eq!(arguments("pi1"), "-- pi1");
    }
}
