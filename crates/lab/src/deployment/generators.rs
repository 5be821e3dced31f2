//! Generators of a fleet on hosts of the lab that are theirs: each a process there, like the target's, whose orders come over a socket that
//! is on no network, so that what is measured is not disturbed by who asks for it.

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

/// For a generator to be there, on a slow core.
const TO_COME: Duration = Duration::from_secs(20);
/// How often is looked whether it is.
const GLANCE: Duration = Duration::from_millis(5);
/// For one that was told to end.
const TO_STOP_S: f64 = 5.0;
/// The socket's name.
const SOCKET: &str = "generator";

/// A generator on a host of the lab.
#[derive(Debug)]
pub struct LabGenerator {
    /// The host's name.
    pub name: String,
    /// Its orders and its messages.
    pub stream: UnixStream,
    /// Where what it writes to its standard error goes.
    pub log: PathBuf,
}

impl Deployment {
    /// Starts a generator on each of these hosts, whose output goes to `logs`. They end with the deployment at the latest.
    ///
    /// # Errors
    /// The first that could not be started or did not come; [`Error::Interrupted`] where `given_up` says so.
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

/// No part of the target: nobody goes to it, and it is no member.
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
        // It ends when it is told to, with exit 0.
        may_detach: true,
        service: None,
        member: None,
        folder: None,
        process: None,
        last: None,
        end_expected: false,
    }
}
