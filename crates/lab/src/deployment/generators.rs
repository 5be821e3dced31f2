//! Load generators on the lab's hosts for generators. Each is a process on its host and gets its
//! orders over a Unix socket: that uses no network, so orders do not disturb the measurement.

use std::io::ErrorKind;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use experiment::plan::GENERATOR_ROLE;

use super::process_slots::{ProcessSlot, ProcessSlots};
use crate::Error;
use crate::host_process::Start;
use crate::process_log::LogWatcher;

/// Time limit for a generator to connect, on a slow core.
const TO_COME: Duration = Duration::from_secs(20);
/// Interval between checks whether a generator has connected.
const GLANCE: Duration = Duration::from_millis(5);
/// Time limit for a generator to stop, seconds.
const TO_STOP_S: f64 = 5.0;
/// File name of the socket.
const SOCKET: &str = "generator";

/// A generator on a host of the lab.
#[derive(Debug)]
pub struct LabGenerator {
    /// Name of the host.
    pub name: String,
    /// Connection for orders and messages.
    pub stream: UnixStream,
    /// File for the generator's standard error.
    pub log: PathBuf,
}

/// Starts a generator on each of these hosts. The generators' output goes to `logs`. They end with
/// the deployment at the latest.
pub fn start(
    processes: &mut ProcessSlots,
    hosts: &[String],
    logs: &Path,
    given_up: &dyn Fn() -> bool,
) -> Result<Vec<LabGenerator>, Error> {
    let mut awaited = Vec::new();
    for name in hosts {
        let host = processes.hosts.index(name)?;
        let (listener, there) = processes.hosts.all[host].listen(SOCKET)?;
        let log = logs.join(format!("{name}.{GENERATOR_ROLE}.log"));
        let start = Start {
            role: GENERATOR_ROLE.to_owned(),
            program: processes.hosts.all[host].plimsoll().into(),
            arguments: vec!["generator".into(), "--socket".into(), there.into()],
            environment: Vec::new(),
            folder: None,
            user: None,
            log: log.clone(),
            log_watcher: LogWatcher::default(),
            programs: Vec::new(),
        };
        // A generator ends with exit code 0 when asked to.
        let slot = ProcessSlot { stop_within_s: TO_STOP_S, may_detach: true, ..ProcessSlot::new(host, start) };
        processes.slots.push(slot);
        let slot = processes.slots.len() - 1;
        processes.start(slot)?;
        awaited.push((slot, name, listener, log));
    }
    let until = Instant::now() + TO_COME;
    let mut generators = Vec::new();
    for (slot, name, listener, log) in awaited {
        let stream = await_generator(&mut processes.slots[slot], name, &listener, until, given_up)?;
        generators.push(LabGenerator { name: name.clone(), stream, log });
    }
    Ok(generators)
}

fn await_generator(
    slot: &mut ProcessSlot,
    name: &str,
    listener: &UnixListener,
    until: Instant,
    given_up: &dyn Fn() -> bool,
) -> Result<UnixStream, Error> {
    let reason = loop {
        match listener.accept() {
            Ok((stream, _)) => {
                let blocking = stream.set_nonblocking(false);
                return blocking.map(|()| stream).map_err(Error::system("connect to a generator"));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => break format!("cannot accept its generator's connection: {error}"),
        }
        if given_up() {
            return Err(Error::Interrupted);
        }
        if let Some(process) = &mut slot.process
            && let Some(how) = process.ended()
        {
            let last = process.last_lines().pop().map_or_else(String::new, |line| format!(": {line}"));
            break format!("its generator ended ({how}) before it connected{last}");
        }
        if Instant::now() >= until {
            break format!("its generator did not connect within {} s", TO_COME.as_secs());
        }
        std::thread::park_timeout(GLANCE);
    };
    Err(Error::Host { host: name.to_owned(), reason })
}
