//! The probes of one host, read by its runner when it is asked: the host's row, then one for each running role. It must not
//! know the trial's clock.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use record::rows::Sample;

use super::Setup;
use super::groups::Groups;
use crate::sampling::{Proc, Reader, Source, strangers_pct};
use crate::site::Member;

/// Reads a host.
pub struct Sampler {
    reader: Reader,
    groups: Arc<Groups>,
    /// Other machines have strangers; inside a host that Plimsoll made there are none.
    has_strangers: bool,
}

impl Sampler {
    /// Of the host that was set up so, in these control groups.
    pub fn new(setup: &Setup, groups: Arc<Groups>) -> Self {
        let source = Source::of(setup, Proc::at(Path::new("/proc")));
        Self { reader: Reader::new(source), groups, has_strangers: setup.isolation.is_none() }
    }

    /// What the host and its roles did since the last time; nothing the first time. `at_s` and `host` are left for the
    /// asker to fill in.
    pub fn sample(&mut self, members: &[Member]) -> Vec<Sample> {
        self.reader.set_usage(self.groups.usage());
        let Some(mut rows) = self.reader.read(Instant::now(), members, Sample::default()) else { return Vec::new() };
        if self.has_strangers {
            let ours: Vec<Sample> = rows.roles.iter().chain(&rows.own).cloned().collect();
            rows.host.cpu_strangers_pct = strangers_pct(&rows.host, &ours);
        }
        std::iter::once(rows.host).chain(rows.roles).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Scratch, until};
    use crate::runner::Isolation;

    /// The rows, and whether the host had control groups.
    fn rows(isolation: Option<Isolation>) -> (Vec<Sample>, bool) {
        let folder = Scratch::new();
        let run = folder.file_name().unwrap().to_string_lossy().into_owned();
        let setup = &Setup { host: "n1".to_owned(), run, isolation, ..Setup::default() };
        let us = Member { host: "n1".to_owned(), role: "server".to_owned(), pid: std::process::id() };
        let groups = Arc::new(Groups::make(setup).unwrap().0);
        let mut sampler = Sampler::new(setup, Arc::clone(&groups));
        assert_eq!(sampler.sample(std::slice::from_ref(&us)), [], "the base of the next");
        let mut rows = Vec::new();
        // The clock's ticks are 10 ms; without one there is no figure.
        until("there are figures", || {
            rows = sampler.sample(std::slice::from_ref(&us));
            rows.iter().all(|row| row.cpu_user_pct.is_some())
        });
        groups.remove().unwrap();
        let _ = crate::linux::cgroup::remove_tree(&crate::runner::groups::top_of(&setup.run));
        (rows, groups.are_there())
    }

    #[test]
    fn a_machine_has_a_row_and_each_role_has_but_the_runner_has_none() {
        let (rows, _) = rows(None);
        let roles: Vec<&str> = rows.iter().map(|row| row.process.as_str()).collect();
        assert_eq!(roles, ["", "server"]);
        assert!(rows[0].cpu_strangers_pct.is_some() && rows[0].memory_available_bytes.is_some());
        assert!(rows.iter().all(|row| row.at_s == 0.0), "whoever asks knows the time");
    }

    #[test]
    fn a_host_is_what_its_processes_are_without_the_runner() {
        let (rows, has_groups) = rows(Some(Isolation::default()));
        assert_eq!(rows.len(), 2);
        assert!(rows[0].threads.is_some() && rows[0].io_wait_threads.is_some());
        assert_eq!((rows[0].cpu_strangers_pct, rows[0].cpu_steal_pct), (None, None));
        assert!(!has_groups || rows[0].psi_cpu_some_pct.is_some() || rows[0].memory_used_bytes.is_some());
    }
}
