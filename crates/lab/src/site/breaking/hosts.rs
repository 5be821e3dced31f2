//! Faults of a site's hosts: states imposed on them and lifted, crashes and boots.

use std::sync::Arc;
use std::time::Duration;

use record::events::HostFigures;

use crate::Error;
use crate::hosts::{Host, Output, at_once};
use crate::runner::session::Session;
use crate::runner::{Control, Program};
use crate::site::Site;

/// A state that a host is in.
#[derive(Debug)]
pub(super) struct Imposed {
    key: String,
    host: usize,
    control: Control,
}

impl Site {
    /// Imposes a fault on hosts under a key, at the same time on all of them, or on none. On one that is down it comes into
    /// force when the host is up again.
    pub(crate) fn impose(&mut self, key: &str, controls: &[(String, Control)]) -> Result<(), Error> {
        let imposed = |(host, control): &(String, Control)| {
            Ok(Imposed { key: key.to_owned(), host: self.host_index(host)?, control: control.clone() })
        };
        let wanted: Vec<Imposed> = controls.iter().map(imposed).collect::<Result<_, Error>>()?;
        let hosts = self.hosts.iter_mut().enumerate();
        let items = hosts.filter_map(|(index, host)| Some((wanted.iter().find(|one| one.host == index)?, host)));
        let done = at_once(items.filter(|(_, host)| host.is_up()).collect(), |(imposed, host)| {
            let name = host.name().to_owned();
            host.impose(key, &imposed.control).map_err(|error| match error {
                Error::Fault(reason) => Error::Fault(format!("{name}: {reason}")),
                // It names the host itself.
                other => other,
            })
        });
        self.broken.imposed.extend(wanted);
        let Some(error) = done.into_iter().find_map(Result::err) else { return Ok(()) };
        // What resists goes with its host.
        let _ = self.lift(key);
        Err(error)
    }

    /// Lifts from every host what was imposed under this key.
    pub(crate) fn lift(&mut self, key: &str) -> Result<(), Error> {
        let (own, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.broken.imposed).into_iter().partition(|imposed| imposed.key == key);
        self.broken.imposed = others;
        let hosts = self.hosts.iter_mut().enumerate();
        let items = hosts.filter(|(index, _)| own.iter().any(|imposed| imposed.host == *index));
        // With a host that is down, all that was imposed on it is gone.
        let items = items.map(|(_, host)| host).filter(|host| host.is_up()).collect();
        let done = at_once(items, |host: &mut Box<dyn Host>| host.lift(key));
        if done.iter().any(|one| matches!(one, Err(Error::HostLost { .. }))) {
            self.ask_all_whether_they_answer();
        }
        done.into_iter().find_map(Result::err).map_or(Ok(()), Err)
    }

    /// Where one host does not answer any more, others may not either: they are asked at the same time, and who is silent then
    /// counts as lost. Else each would be waited for with its own fault, one after the other.
    fn ask_all_whether_they_answer(&self) {
        let sessions = self.hosts.iter().filter(|host| host.is_up()).filter_map(|host| host.session()).collect();
        drop(at_once(sessions, |session: Arc<Session>| session.figures().map(drop)));
    }

    /// Ends a host at once, with all that runs on it.
    pub(crate) fn crash_host(&mut self, host: &str, key: &str) -> Result<(), Error> {
        let index = self.host_index(host)?;
        if !self.hosts[index].is_up() {
            return Err(Error::Fault(format!("{host} is down already")));
        }
        let posts: Vec<usize> = (0..self.posts.len()).filter(|post| self.posts[*post].host == index).collect();
        // Who has ended before did so without it.
        for post in &posts {
            self.note_end(*post);
        }
        self.hosts[index].crash()?;
        self.broken.crashed.push((key.to_owned(), index));
        self.broken.restarts.retain(|restart| !posts.contains(&restart.post));
        self.host_down(index, true);
        Ok(())
    }

    /// Makes the hosts that this occurrence crashed again, with what is imposed on them, and starts all that ran on them,
    /// in order. It is not waited for.
    pub(crate) fn boot_hosts(&mut self, key: &str) -> Result<(), Error> {
        let (own, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.broken.crashed).into_iter().partition(|(holder, _)| holder == key);
        self.broken.crashed = others;
        let mut failed = None;
        for (_, index) in own {
            if let Err(error) = self.boot_host(index) {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn boot_host(&mut self, index: usize) -> Result<(), Error> {
        let host = &mut self.hosts[index];
        if host.is_up() {
            return Ok(());
        }
        host.boot()?;
        self.host_up(index);
        let mut failed = None;
        for imposed in self.broken.imposed.iter().filter(|imposed| imposed.host == index) {
            if let Err(error) = self.hosts[index].impose(&imposed.key, &imposed.control) {
                failed.get_or_insert(error);
            }
        }
        for post in 0..self.posts.len() {
            if self.posts[post].host == index
                && self.posts[post].process.is_none()
                && let Err(error) = self.start_post(post)
            {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Runs a program on a host to its end.
    pub(crate) fn run_on(&self, host: &str, program: &Program, within: Duration) -> Result<Output, Error> {
        self.hosts[self.host_index(host)?].run(program, "", within)
    }

    /// Remembers where an occurrence ran a command, for its healing.
    pub(crate) fn remember_commanded(&mut self, key: &str, host: &str) {
        self.broken.commanded.push((key.to_owned(), host.to_owned()));
    }

    /// Where it did.
    pub(crate) fn take_commanded(&mut self, key: &str) -> Vec<String> {
        let (own, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.broken.commanded).into_iter().partition(|(holder, _)| holder == key);
        self.broken.commanded = others;
        own.into_iter().map(|(_, host)| host).collect()
    }

    /// What was measured of a host's storage.
    pub(crate) fn storage_of(&self, host: &str) -> Result<HostFigures, Error> {
        let presence = self.presence.get(self.host_index(host)?);
        Ok(presence.map(|presence| presence.storage().clone()).unwrap_or_default())
    }

    /// Lifts everything and lets everybody go on, so that it can be taken down. What resists goes with its host.
    pub(in crate::site) fn mend(&mut self) {
        self.broken.restarts.clear();
        let keys: Vec<String> = self.broken.imposed.iter().rev().map(|imposed| imposed.key.clone()).collect();
        for key in keys {
            let _ = self.lift(&key);
        }
        for (_, index) in std::mem::take(&mut self.broken.paused) {
            self.go_on(index);
        }
    }
}
