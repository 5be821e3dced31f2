//! Less memory for a group that uses more: what does not fit is ended, the largest process first, as the kernel does where memory
//! runs out. It must not choose by anything else.

use std::fs;
use std::time::{Duration, Instant};

use super::{Error, Group};
use crate::linux::{pidfd, procfs};

/// Until the kernel has given back the memory of a process that was killed.
const GLANCE: Duration = Duration::from_millis(20);

impl Group {
    /// Limits its memory also below what is in use. Version 2 ends processes by itself; version 1 refuses such a limit, so they are
    /// ended here, while all of the group stands still: else others would take the memory that one gives back.
    ///
    /// # Errors
    /// As [`Group::set_memory`]; that ending everything within this time was not enough.
    pub fn shrink_memory(&self, bytes: u64, within: Duration) -> Result<(), Error> {
        let refused = match self.set_memory(Some(bytes)) {
            Err(refused @ Error::MemoryInUse { .. }) => refused,
            done => return done,
        };
        let stood_still = self.is_frozen();
        self.set_frozen(true)?;
        let shrunk = self.end_largest_until_it_fits(bytes, within, refused);
        if !stood_still {
            self.set_frozen(false)?;
        }
        shrunk
    }

    fn end_largest_until_it_fits(&self, bytes: u64, within: Duration, mut refused: Error) -> Result<(), Error> {
        let until = Instant::now() + within;
        while Instant::now() < until {
            let Some(largest) = self.largest() else { return Err(refused) };
            self.kill_process(largest);
            pidfd::await_end(largest, GLANCE);
            match self.set_memory(Some(bytes)) {
                Err(again @ Error::MemoryInUse { .. }) => refused = again,
                done => return done,
            }
        }
        Err(refused)
    }

    /// The process in it that has the most memory.
    fn largest(&self) -> Option<u32> {
        let us = std::process::id();
        let resident = |process: &u32| procfs::stat(*process).map_or(0, |stat| stat.resident_pages);
        self.processes().into_iter().filter(|process| *process != us).max_by_key(resident)
    }

    fn is_frozen(&self) -> bool {
        let folders = self.folders().into_iter();
        folders
            .filter_map(|folder| fs::read_to_string(folder.join("cgroup.freeze")).ok())
            .any(|text| text.trim() == "1")
    }
}
