//! A start of the target that several trials share: the check, the reset and the repeated events
//! between two trials.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use experiment::plan::GENERATOR_ROLE;
use record::events::What;

use super::bring_up::{interruptible, sessions};
use super::{Deployment, HostEvent, told};
use crate::{Caller, Error};

/// Name of the hook.
const RESET: &str = "reset";
/// Time limit of the hook. Deleting the data of a load may take a while.
const RESET_PATIENCE: Duration = Duration::from_secs(60);

impl Deployment {
    /// Whether all hosts and processes that were started are still up.
    pub fn is_whole(&mut self) -> bool {
        self.look();
        self.broken().is_none()
    }

    /// Returns an error that names the first host or process of the target that is down.
    fn broken(&self) -> Option<Error> {
        let down = |host: usize, reason: String| {
            let host = self.hosts.get(host).map(|host| host.name().to_owned()).unwrap_or_default();
            Error::Host { host, reason }
        };
        let switch = self.is_switch_lost.then(|| down(0, "the switch between the hosts was lost".to_owned()));
        let host = || Some(down(self.hosts.iter().position(|host| !host.is_up())?, "it is down".to_owned()));
        let mut target = self.posts.iter().filter(|post| post.start.role != GENERATOR_ROLE);
        let process = || {
            let post = target.find(|post| post.process.is_none())?;
            Some(down(post.host, format!("its process `{}` has ended", post.start.role)))
        };
        switch.or_else(host).or_else(process)
    }

    /// Ends the parts that belong to one trial, so that the target can serve the next: ends the
    /// generators and reports lines that were left out of the logs.
    pub fn leave(&mut self) {
        if let Some(first) = self.posts.iter().position(|post| post.start.role == GENERATOR_ROLE) {
            self.end_posts(first..self.posts.len());
            self.posts.truncate(first);
            self.watch();
        }
        for post in &self.posts {
            let host = self.hosts[post.host].name();
            let left_out = post.start.log_watcher.take_left_out();
            self.observed.extend(left_out.into_iter().map(|left| told(left, host, &post.start.role)));
        }
    }

    /// Makes a running target ready for another trial, whose logs go to `logs`. Reports its hosts
    /// and processes again. Returns whether the target's hook `reset` ran.
    ///
    /// # Errors
    /// If a host or a process is down, the hook fails, or the target does not become ready;
    /// [`Error::Interrupted`] once `stop` is set.
    pub fn resume(&mut self, logs: &Path, caller: &dyn Caller, stop: &AtomicBool) -> Result<bool, Error> {
        self.look();
        self.broken().map_or(Ok(()), Err)?;
        for post in &mut self.posts {
            post.start.log = logs.join(post.start.log.file_name().unwrap_or_default());
            let turned = post.start.log_watcher.turn_over(&post.start.log);
            turned.map_err(Error::system(format!("write the log {}", post.start.log.display())))?;
        }
        self.tell_again();
        let reset = self.hook(RESET, RESET_PATIENCE);
        let reset = reset.map(|hook| interruptible(&sessions(&self.hosts), stop, || hook.ask())).transpose()?.is_some();
        for rank in self.ranks() {
            self.await_ready(rank, caller, stop)?;
        }
        Ok(reset)
    }

    fn tell_again(&mut self) {
        for index in 0..self.hosts.len() {
            self.presence[index].is_up = false;
            self.host_up(index);
        }
        let at = Instant::now();
        let up = self.posts.iter().filter_map(|post| {
            let (host, process) = (self.hosts[post.host].name().to_owned(), post.start.role.clone());
            let what = What::ProcessUp { host, process, pid: post.process.as_ref()?.pid() };
            Some(HostEvent { at, what })
        });
        let notices = self.client_placement.notices.iter().cloned();
        self.observed.extend(up.chain(notices.map(|text| HostEvent { at, what: What::Notice { text } })));
    }
}
