//! Load generators on the lab's hosts for generators. Each is a process on its host. It gets its
//! orders over a Unix socket, which uses no network, so that orders do not disturb the measurement.

use std::io::ErrorKind;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use experiment::plan::GENERATOR_ROLE;
use rustix::process::Signal;

use super::Deployment;
use super::layout::ProcessSlot;
use crate::Error;
use crate::host_process::Start;
use crate::process_log::LogWatcher;
use crate::readiness::ReadinessCheck;

/// Time limit for a generator to connect, on a slow core.
const TO_COME: Duration = Duration::from_secs(20);
/// Interval between checks whether it has connected.
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
    /// File for its standard error.
    pub log: PathBuf,
}

impl Deployment {
    /// Starts a generator on each of these hosts. Their output goes to `logs`. They end with the
    /// deployment at the latest.
    ///
    /// # Errors
    /// The first generator that does not start or connect; [`Error::Interrupted`] once `given_up`
    /// returns true.
    pub fn start_generators(
        &mut self,
        hosts: &[String],
        logs: &Path,
        given_up: &dyn Fn() -> bool,
    ) -> Result<Vec<LabGenerator>, Error> {
        let mut awaited = Vec::new();
        for name in hosts {
            let host = self.host_index(name)?;
            let (listener, there) = self.hosts[host].listen(SOCKET)?;
            let log = logs.join(format!("{name}.{GENERATOR_ROLE}.log"));
            let start = Start {
                role: GENERATOR_ROLE.to_owned(),
                program: self.hosts[host].plimsoll().into(),
                arguments: vec!["generator".into(), "--socket".into(), there.into()],
                environment: Vec::new(),
                folder: None,
                user: None,
                log: log.clone(),
                log_watcher: LogWatcher::default(),
                programs: Vec::new(),
            };
            self.posts.push(slot(host, start));
            let post = self.posts.len() - 1;
            self.start_post(post)?;
            awaited.push((post, name, listener, log));
        }
        let until = Instant::now() + TO_COME;
        let come = awaited.into_iter().map(|(post, name, listener, log)| {
            let stream = self.await_generator(post, name, &listener, until, given_up)?;
            Ok(LabGenerator { name: name.clone(), stream, log })
        });
        come.collect()
    }

    fn await_generator(
        &mut self,
        post: usize,
        name: &str,
        listener: &UnixListener,
        until: Instant,
        given_up: &dyn Fn() -> bool,
    ) -> Result<UnixStream, Error> {
        let refused = |reason: String| Error::Host { host: name.to_owned(), reason };
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    let blocking = stream.set_nonblocking(false);
                    return blocking.map(|()| stream).map_err(Error::system("speak to a generator"));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(refused(format!("its generator cannot be heard: {error}"))),
            }
            if given_up() {
                return Err(Error::Interrupted);
            }
            let process = self.posts.get_mut(post).and_then(|post| post.process.as_mut());
            if let Some((process, how)) = process.and_then(|process| process.ended().map(|how| (process, how))) {
                let last = process.last_lines().pop().map_or_else(String::new, |line| format!(": {line}"));
                return Err(refused(format!("its generator ended ({how}) before it was there{last}")));
            }
            if Instant::now() >= until {
                return Err(refused(format!("its generator was not there within {} s", TO_COME.as_secs())));
            }
            std::thread::park_timeout(GLANCE);
        }
    }
}

/// Returns a slot for a generator. It is neither a service nor a member of the target.
fn slot(host: usize, start: Start) -> ProcessSlot {
    ProcessSlot {
        host,
        rank: 0,
        start,
        check: ReadinessCheck::Tcp(Vec::new()),
        ready_within_s: TO_COME.as_secs_f64(),
        stop_signal: Signal::TERM,
        stop_within_s: TO_STOP_S,
        stops_group: false,
        // A generator ends with exit code 0 when asked to.
        may_detach: true,
        service: None,
        member: None,
        folder: None,
        process: None,
        last: None,
        end_expected: false,
    }
}
