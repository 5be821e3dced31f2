//! A part of a load: some of its threads. Agents, connections, rows of feeds, seeds and all start
//! times depend only on the indexes of threads and agents. A load spread over several processes
//! therefore has exactly the starts of a load in one process.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::engine::places::Places;
use crate::{Error, LoadOrder, LoadPurpose};

/// The threads of a load that run in one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadSlice {
    /// Number of threads in the whole load, over all processes.
    pub threads: u32,
    /// Index of the first thread of this process.
    pub first: u32,
    /// Number of threads of this process.
    pub count: u32,
}

impl LoadSlice {
    /// Returns a slice for each of `processes` processes with `each` threads.
    pub fn deal(processes: u32, each: u32) -> impl Iterator<Item = Self> {
        let threads = processes.saturating_mul(each);
        (0..processes).map(move |number| Self { threads, first: number.saturating_mul(each), count: each })
    }

    /// Returns the indexes of this process's threads.
    #[must_use]
    pub fn mine(&self) -> Range<u32> {
        self.first..self.first.saturating_add(self.count)
    }

    /// Returns `places` with the number of threads of the whole load.
    ///
    /// # Errors
    /// Returns an error if the load cannot be divided into these slices, or into any.
    pub(crate) fn places(&self, orders: &LoadOrder, places: Places) -> Result<Places, Error> {
        let refused = |reason: String| Err(Error::Setting(reason));
        let (first, end) = (self.first, self.mine().end);
        if self.count == 0 || end > self.threads {
            return refused(format!("threads {first} to {end} of {} are not a valid part of a load", self.threads));
        }
        if self.threads > places.connections {
            return refused(format!(
                "the load has {} connections, but the fleet has {} threads, each of which needs one: use fewer \
                 generators, fewer threads per generator, or more agents",
                places.connections, self.threads
            ));
        }
        if orders.purpose != LoadPurpose::Measure {
            return refused("a preparation runs in a single process, not in a fleet".to_owned());
        }
        if orders.load.populations().iter().any(|population| population.count.is_some()) {
            return refused(
                "`count` limits the cycles of all agents together, which generators do not share: leave out `count`, \
                 or run the load without a fleet"
                    .to_owned(),
            );
        }
        if let Some(feed) = orders.load.feeds.iter().find(|feed| feed.stream) {
            return refused(format!(
                "feed `{}` is a stream, which only one process can read: leave out `stream`, or run the load without \
                 a fleet",
                feed.name
            ));
        }
        Ok(Places { threads: self.threads, ..places })
    }
}

#[cfg(test)]
mod tests;
